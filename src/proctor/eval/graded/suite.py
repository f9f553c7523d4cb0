"""Suites of graded prompts: a file of prompts with a check each, and what a model's answers to them score.

Every record is frozen, so any number of threads may use one suite.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from proctor.eval.graded.checks import CheckSpec, Rubric, phrases_of, score_answer, texts_of
from proctor.eval.json_files import plain
from proctor.graders.lexicons.hedging import HEDGE_PHRASES
from proctor.safe_text import markdown_code, markdown_text

if TYPE_CHECKING:
    from proctor.charts import Chart


@dataclass(frozen=True)
class GradedPrompt:
    """A prompt and how its answer is checked."""

    id: str
    prompt: str
    category: str
    core: bool = True
    """Whether it belongs to the small set that always runs."""
    vibe: bool = False
    """Whether its answer is for reading rather than for checking."""
    conditional: str | None = None
    """What must be available for it to make sense."""
    expect_tool_any: tuple[str, ...] = ()
    """Tools of which the model should call one; no check looks at it."""
    check: CheckSpec | Rubric = field(default_factory=lambda: CheckSpec("substring"))
    """Without one, no answer passes."""
    note: str | None = None


@dataclass(frozen=True, slots=True)
class PromptResult:
    """What became of one prompt."""

    id: str
    category: str
    passed: bool
    why: str
    answer: str | None = None
    """None where there is none."""
    error: str | None = None
    """What the model raised: "KindOfException: its words"."""


@dataclass(frozen=True, slots=True)
class SuiteScore:
    """What the answers to a suite's prompts came to. A prompt without an answer did not pass."""

    name: str
    results: tuple[PromptResult, ...]
    """In the order of the suite."""
    unknown: tuple[str, ...] = ()
    """Ids of answers to which there is no prompt."""

    def __repr__(self) -> str:
        return f"<SuiteScore {self.name!r:.60}: {self.passed} of {self.total} passed>"

    def _repr_html_(self) -> str:
        from proctor.eval.notebook import table

        rows = [*self.by_category().items(), ("all", _counted(self.results))]
        shares = [(name or "–", f"{row['passed']}/{row['n']}", _share(row)) for name, row in rows]
        failed = [(one.id, one.why) for one in self.results if not one.passed]
        failed += [(one, "there is no such prompt") for one in self.unknown]
        tables = [table(self.name, ["category", "passed", "share (95 %)"], shares)]
        return "".join([*tables, *([table("Not passed", ["prompt", "reason"], failed)] if failed else [])])

    @property
    def total(self) -> int:
        """How many prompts count."""
        return len(self.results)

    @property
    def passed(self) -> int:
        """How many passed."""
        return sum(one.passed for one in self.results)

    @property
    def unanswered(self) -> tuple[str, ...]:
        """The ids of the prompts to which there is no answer."""
        return tuple(one.id for one in self.results if one.answer is None)

    def interval(self) -> tuple[float, float] | None:
        """The 95 % Wilson interval of the share that passed, within 0..1; None without prompts."""
        from proctor.stats import wilson

        return wilson(self.passed, self.total)

    def by_category(self) -> dict[str, dict[str, Any]]:
        """{category: {"n", "passed", "share", "ci95": [low, high]}}, in the order of the suite."""
        groups: dict[str, list[PromptResult]] = {}
        for one in self.results:
            groups.setdefault(one.category, []).append(one)
        return {category: _counted(group) for category, group in groups.items()}

    def to_dict(self) -> dict[str, Any]:
        """As data for JSON: name, n, passed, share, ci95, by_category, unanswered, unknown, results."""
        return {
            "name": self.name,
            **_counted(self.results),
            "by_category": self.by_category(),
            "unanswered": list(self.unanswered),
            "unknown": list(self.unknown),
            "results": plain(self.results),
        }

    def report(self) -> str:
        """Markdown: a table of the categories, and each prompt that did not pass with the reason."""
        rows = [*self.by_category().items(), ("all", _counted(self.results))]
        lines = ["| category | passed | share (95 %) |", "|---|---:|---|"]
        lines += [
            f"| {markdown_text(name or '–')} | {row['passed']}/{row['n']} | {_share(row)} |"
            for name, row in rows
        ]
        failed = [
            f"- {markdown_code(one.id)}: {markdown_text(one.why)}" for one in self.results if not one.passed
        ]
        failed += [f"- {markdown_code(one)}: there is no such prompt" for one in self.unknown]
        return "\n".join(
            [f"# {markdown_text(self.name)}", "", *lines, *(["", *failed] if failed else []), ""]
        )

    def chart(self) -> Chart:
        """Bars of the share that passed, by category and of all, with 95 % Wilson intervals.

        Raises:
            ValueError: there are no prompts.
        """
        from proctor.charts import Bar, bars

        rows = [*self.by_category().items(), ("all", _counted(self.results))]
        drawn = [
            Bar(f"{name or '–'} ({row['passed']}/{row['n']})", row["share"], *row["ci95"])
            for name, row in rows
            if row["n"]
        ]
        return bars(drawn, title=self.name, unit="share of the prompts that pass", scale="share")


@dataclass(frozen=True)
class GradedPromptSuite:
    """Prompts with their checks."""

    name: str
    prompts: tuple[GradedPrompt, ...]
    notes: str = ""

    @classmethod
    def load(cls, path: str | Path, substitutions: Mapping[str, Any] | None = None) -> GradedPromptSuite:
        """The suite of a JSON file: {"suite", "notes", "prompts": [{"id", "prompt", "check": {…}, …}]}.

        Args:
            path: the file, in UTF-8.
            substitutions: what `{{name}}` stands for in checks; prompts are left as they are.

        Raises:
            OSError: the file cannot be read.
            ValueError: it is no JSON (NaN is none either), has no list `prompts`, or has a prompt without
                `id` or `prompt`, with an id that another has, or with a check that is none.
        """
        import json

        text = Path(path).read_text(encoding="utf-8-sig")
        data = json.loads(text, parse_constant=lambda name: _refuse_constant(path, name))
        if not isinstance(data, dict) or not isinstance(data.get("prompts"), list):
            raise ValueError(f"{path}: expected top-level object with a `prompts` list.")
        prompts = tuple(_prompt(row, substitutions or {}) for row in data["prompts"])
        seen: set[str] = set()
        for one in prompts:
            if one.id in seen:
                raise ValueError(f"{path}: two prompts have the id {one.id!r}; give each an id of its own.")
            seen.add(one.id)
        return cls(str(data.get("suite") or Path(path).stem), prompts, str(data.get("notes") or ""))

    def select(
        self, *, core_only: bool = False, available_conditions: Iterable[str] = ()
    ) -> tuple[GradedPrompt, ...]:
        """The prompts that should run, in order.

        Args:
            core_only: leave out those that are not `core`.
            available_conditions: what is there; a prompt with another `conditional` is left out.
        """
        conditions = phrases_of(available_conditions)
        return tuple(
            one
            for one in self.prompts
            if (one.core or not core_only) and (not one.conditional or one.conditional in conditions)
        )

    def by_id(self, prompt_id: str) -> GradedPrompt | None:
        """The prompt of that id, or None."""
        return next((one for one in self.prompts if one.id == prompt_id), None)

    def unresolved(self) -> dict[str, tuple[str, ...]]:
        """{id: names that still stand as `{{name}}` in its check}, of the prompts that have any."""
        named = ((one.id, one.check.placeholders()) for one in self.prompts)
        return {prompt_id: names for prompt_id, names in named if names}

    def score(
        self,
        answers: Mapping[str, str | None],
        *,
        prompts: Iterable[GradedPrompt] | None = None,
        hedges: Iterable[str] = HEDGE_PHRASES,
    ) -> SuiteScore:
        """Check the answers to the whole suite.

        Args:
            answers: {prompt id: answer}; a prompt without one, or with None, does not pass.
            prompts: only these, such as what `select` gives.
            hedges: as for `score_answer`.
        """
        phrases = phrases_of(hedges)
        chosen = self.prompts if prompts is None else prompts
        known = {one.id for one in self.prompts}
        return SuiteScore(
            self.name,
            tuple(_result(one, answers.get(one.id), phrases) for one in chosen),
            tuple(prompt_id for prompt_id in answers if prompt_id not in known),
        )

    def run(
        self,
        model_fn: Callable[[str], str | None] | Callable[[str], Awaitable[str | None]],
        *,
        prompts: Iterable[GradedPrompt] | None = None,
        hedges: Iterable[str] = HEDGE_PHRASES,
        workers: int = 1,
    ) -> SuiteScore:
        """Ask a model every prompt, and check what it answers.

        Args:
            model_fn: `model_fn(prompt)` gives the answer; may be async. A prompt for which it raises does not
                pass, and its result has the error.
            prompts: only these, such as what `select` gives.
            hedges: as for `score_answer`.
            workers: how many prompts are asked at once, from so many threads.

        Raises:
            ValueError: `workers` is below 1.
        """
        from contextlib import closing

        from proctor.eval.parallel import in_order

        phrases = phrases_of(hedges)
        chosen = self.prompts if prompts is None else prompts

        def ask(one: GradedPrompt) -> Any:
            return model_fn(one.prompt)

        with closing(in_order(ask, chosen, workers=workers)) as outcomes:
            results = tuple(_result(said.item, said.value, phrases, said.error) for said in outcomes)
        return SuiteScore(self.name, results)


def _result(
    prompt: GradedPrompt, answer: Any, hedges: tuple[str, ...], error: Exception | None = None
) -> PromptResult:
    if error is None and not isinstance(answer, str | None):
        error = TypeError(f"the model answered {answer!r}, which is no text")
    if error is not None:
        told = f"{type(error).__name__}: {error}"
        return PromptResult(prompt.id, prompt.category, False, told, None, told)
    if answer is None:
        return PromptResult(prompt.id, prompt.category, False, "no answer")
    checked = score_answer(answer, prompt.check, hedges=hedges)
    return PromptResult(prompt.id, prompt.category, checked.passed, checked.why, answer)


def _counted(results: Iterable[PromptResult]) -> dict[str, Any]:
    from proctor.stats import wilson

    passed = [one.passed for one in results]
    return {
        "n": len(passed),
        "passed": sum(passed),
        "share": sum(passed) / len(passed) if passed else None,
        "ci95": plain(wilson(sum(passed), len(passed))),
    }


def _share(row: Mapping[str, Any]) -> str:
    if row["share"] is None:
        return "–"
    low, high = row["ci95"]
    return f"{row['share']:.0%} ({low:.0%} to {high:.0%})"


# --- reading -----------------------------------------------------------------------------------------------


def _prompt(row: Any, substitutions: Mapping[str, Any]) -> GradedPrompt:
    if not isinstance(row, dict):
        raise ValueError(f"prompt entry not an object: {row!r}.")
    for name in ("id", "prompt"):
        if not row.get(name):
            raise ValueError(f"prompt missing `{name}`: {row!r}.")
    return GradedPrompt(
        id=str(row["id"]),
        prompt=str(row["prompt"]),
        category=str(row.get("category") or ""),
        core=_truth(row, "core", True),
        vibe=_truth(row, "vibe", False),
        conditional=row.get("conditional"),
        expect_tool_any=texts_of(row.get("expect_tool_any"), f"expect_tool_any of prompt {row['id']!r}"),
        check=_check(row).with_substitutions(substitutions),
        note=row.get("note"),
    )


def _truth(row: Mapping[str, Any], name: str, default: bool) -> bool:
    value = row.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise ValueError(f"`{name}` of prompt {row['id']!r} must be true or false, not {value!r}.")
    return value


def _check(row: Mapping[str, Any]) -> CheckSpec | Rubric:
    written = row.get("check")
    if not written:
        return CheckSpec("substring")
    checks = written if isinstance(written, list) else [written]
    if not all(isinstance(one, dict) for one in checks):
        raise ValueError(f"`check` of prompt {row['id']!r} must be an object, not {written!r}.")
    try:
        specs = tuple(CheckSpec.from_dict(one) for one in checks)
    except ValueError as error:
        raise ValueError(f"Prompt {row['id']!r}: {error}") from None
    return Rubric(specs) if isinstance(written, list) else specs[0]


def _refuse_constant(path: str | Path, name: str) -> NoReturn:
    raise ValueError(f"{path}: {name} is not JSON.")
