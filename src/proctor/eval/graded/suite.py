"""Suites of graded prompts: a file of prompts with a check each, and the score of a model's answers.

Every record is frozen, so any number of threads may use one suite.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from proctor.eval.graded.checks import CheckSpec, Rubric, parse_texts, score_answer, to_phrases
from proctor.eval.json_files import to_plain
from proctor.eval.tables import NO_VALUE, html_table
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
    """Tools of which the model should call one; no check uses it."""
    check: CheckSpec | Rubric = field(default_factory=lambda: CheckSpec("substring"))
    """Without one, no answer passes."""
    note: str | None = None


@dataclass(frozen=True, slots=True)
class PromptResult:
    """The result of one prompt."""

    id: str
    category: str
    passed: bool
    why: str
    answer: str | None = None
    """None if there is no answer."""
    error: str | None = None
    """The exception of the model: "TypeName: message"."""


@dataclass(frozen=True, slots=True)
class SuiteScore:
    """The results of a suite's prompts. A prompt without an answer fails."""

    name: str
    results: tuple[PromptResult, ...]
    """In the order of the suite."""
    unknown: tuple[str, ...] = ()
    """Ids of answers without a prompt."""

    def __repr__(self) -> str:
        return f"<SuiteScore {self.name!r:.60}: {self.passed} of {self.total} passed>"

    def _repr_html_(self) -> str:
        shares = [
            (name, f"{row['passed']}/{row['n']}", _format_share(row)) for name, row in self._share_rows()
        ]
        html = html_table(self.name, ["category", "passed", "share (95 %)"], shares)
        failures = self._failures()
        return html + (html_table("Failed", ["prompt", "reason"], failures) if failures else "")

    def _share_rows(self) -> list[tuple[str, dict[str, Any]]]:
        """Returns the counts of each category, and of all."""
        rows = [*self.by_category().items(), ("all", _count_passed(self.results))]
        return [(name or NO_VALUE, row) for name, row in rows]

    def _failures(self) -> list[tuple[str, str]]:
        """Returns the ids of failed prompts, each with its reason."""
        failures = [(result.id, result.why) for result in self.results if not result.passed]
        return failures + [(prompt_id, "there is no such prompt") for prompt_id in self.unknown]

    @property
    def total(self) -> int:
        """How many prompts count."""
        return len(self.results)

    @property
    def passed(self) -> int:
        """How many passed."""
        return sum(result.passed for result in self.results)

    @property
    def unanswered(self) -> tuple[str, ...]:
        """The ids of the prompts without an answer."""
        return tuple(result.id for result in self.results if result.answer is None)

    def interval(self) -> tuple[float, float] | None:
        """Returns the 95 % Wilson interval of the share that passed, from 0 to 1; None without prompts."""
        from proctor.stats import wilson

        return wilson(self.passed, self.total)

    def by_category(self) -> dict[str, dict[str, Any]]:
        """Returns {category: {"n", "passed", "share", "ci95": [low, high]}}, in the order of the suite."""
        groups: dict[str, list[PromptResult]] = {}
        for result in self.results:
            groups.setdefault(result.category, []).append(result)
        return {category: _count_passed(group) for category, group in groups.items()}

    def to_dict(self) -> dict[str, Any]:
        """Returns data for JSON: name, n, passed, share, ci95, by_category, unanswered, unknown, results."""
        return {
            "name": self.name,
            **_count_passed(self.results),
            "by_category": self.by_category(),
            "unanswered": list(self.unanswered),
            "unknown": list(self.unknown),
            "results": to_plain(self.results),
        }

    def report(self) -> str:
        """Returns Markdown: a table of the categories, and each failed prompt with its reason."""
        lines = ["| category | passed | share (95 %) |", "|---|---:|---|"]
        lines += [
            f"| {markdown_text(name)} | {row['passed']}/{row['n']} | {_format_share(row)} |"
            for name, row in self._share_rows()
        ]
        failures = [f"- {markdown_code(name)}: {markdown_text(reason)}" for name, reason in self._failures()]
        return "\n".join(
            [f"# {markdown_text(self.name)}", "", *lines, *([""] * bool(failures)), *failures, ""]
        )

    def chart(self) -> Chart:
        """Draws the share that passed, by category and in all, with 95 % Wilson intervals, as bars.

        Raises:
            ValueError: there are no prompts.
        """
        from proctor.charts import Bar, bars

        share_bars = [
            Bar(f"{name} ({row['passed']}/{row['n']})", row["share"], *row["ci95"])
            for name, row in self._share_rows()
            if row["n"]
        ]
        return bars(share_bars, title=self.name, unit="share of the prompts that pass", scale="share")


@dataclass(frozen=True)
class GradedPromptSuite:
    """Prompts with their checks."""

    name: str
    prompts: tuple[GradedPrompt, ...]
    notes: str = ""

    @classmethod
    def load(cls, path: str | Path, substitutions: Mapping[str, Any] | None = None) -> GradedPromptSuite:
        """Reads the suite of a JSON file: {"suite", "notes", "prompts": [{"id", "prompt", "check": {…}, …}]}.

        Args:
            path: the file, in UTF-8.
            substitutions: the values of `{{name}}` in checks; prompts are left as they are.

        Raises:
            OSError: the file cannot be read.
            ValueError: the file is not JSON (NaN is not allowed), has no list `prompts`, or has a prompt
                without `id` or `prompt`, with the id of another one, or with an invalid check.
        """
        import json

        text = Path(path).read_text(encoding="utf-8-sig")
        data = json.loads(text, parse_constant=lambda name: _refuse_constant(path, name))
        if not isinstance(data, dict) or not isinstance(data.get("prompts"), list):
            raise ValueError(f"{path}: expected top-level object with a `prompts` list.")
        prompts = tuple(_parse_prompt(row, substitutions or {}) for row in data["prompts"])
        ids: set[str] = set()
        for prompt in prompts:
            if prompt.id in ids:
                raise ValueError(
                    f"{path}: two prompts have the id {prompt.id!r}; use a different id for each."
                )
            ids.add(prompt.id)
        return cls(str(data.get("suite") or Path(path).stem), prompts, str(data.get("notes") or ""))

    def select(
        self, *, core_only: bool = False, available_conditions: Iterable[str] = ()
    ) -> tuple[GradedPrompt, ...]:
        """Returns the prompts that should run, in order: with `core_only` only those that are `core`.

        A prompt whose `conditional` is not among the `available_conditions` is left out.
        """
        conditions = to_phrases(available_conditions)
        return tuple(
            prompt
            for prompt in self.prompts
            if (prompt.core or not core_only) and (not prompt.conditional or prompt.conditional in conditions)
        )

    def by_id(self, prompt_id: str) -> GradedPrompt | None:
        """Returns the prompt with this id, or None."""
        return next((prompt for prompt in self.prompts if prompt.id == prompt_id), None)

    def unresolved(self) -> dict[str, tuple[str, ...]]:
        """Returns {id: placeholders left in its check}, for prompts that have any."""
        placeholders = ((prompt.id, prompt.check.placeholders()) for prompt in self.prompts)
        return {prompt_id: names for prompt_id, names in placeholders if names}

    def score(
        self,
        answers: Mapping[str, str | None],
        *,
        prompts: Iterable[GradedPrompt] | None = None,
        hedges: Iterable[str] = HEDGE_PHRASES,
    ) -> SuiteScore:
        """Checks the answers to the suite.

        Args:
            answers: {prompt id: answer}; a prompt without an answer, or with None, fails.
            prompts: only these, such as the result of `select`.
            hedges: as for `score_answer`.
        """
        phrases = to_phrases(hedges)
        selection = self.prompts if prompts is None else prompts
        suite_ids = {prompt.id for prompt in self.prompts}
        return SuiteScore(
            self.name,
            tuple(_grade_answer(prompt, answers.get(prompt.id), phrases) for prompt in selection),
            tuple(prompt_id for prompt_id in answers if prompt_id not in suite_ids),
        )

    def run(
        self,
        model_fn: Callable[[str], str | None] | Callable[[str], Awaitable[str | None]],
        *,
        prompts: Iterable[GradedPrompt] | None = None,
        hedges: Iterable[str] = HEDGE_PHRASES,
        workers: int = 1,
    ) -> SuiteScore:
        """Sends every prompt to a model, and checks its answers.

        Args:
            model_fn: `model_fn(prompt)` returns the answer; may be async. A prompt for which it raises fails,
                and its result has the error.
            prompts: only these, such as the result of `select`.
            hedges: as for `score_answer`.
            workers: how many prompts are sent at once, each from its own thread.

        Raises:
            ValueError: `workers` is below 1.
        """
        from contextlib import closing

        from proctor.eval.parallel import map_ordered

        phrases = to_phrases(hedges)
        selection = self.prompts if prompts is None else prompts

        def ask(prompt: GradedPrompt) -> Any:
            return model_fn(prompt.prompt)

        with closing(map_ordered(ask, selection, workers=workers)) as outcomes:
            results = tuple(
                _grade_answer(outcome.item, outcome.value, phrases, outcome.error) for outcome in outcomes
            )
        return SuiteScore(self.name, results)


def _grade_answer(
    prompt: GradedPrompt, answer: Any, hedges: tuple[str, ...], error: Exception | None = None
) -> PromptResult:
    if error is None and not isinstance(answer, str | None):
        error = TypeError(f"the model answered {answer!r}, which is not a text")
    if error is not None:
        message = f"{type(error).__name__}: {error}"
        return PromptResult(prompt.id, prompt.category, False, message, None, message)
    if answer is None:
        return PromptResult(prompt.id, prompt.category, False, "no answer")
    result = score_answer(answer, prompt.check, hedges=hedges)
    return PromptResult(prompt.id, prompt.category, result.passed, result.why, answer)


def _count_passed(results: Iterable[PromptResult]) -> dict[str, Any]:
    from proctor.stats import wilson

    passed = [result.passed for result in results]
    return {
        "n": len(passed),
        "passed": sum(passed),
        "share": sum(passed) / len(passed) if passed else None,
        "ci95": to_plain(wilson(sum(passed), len(passed))),
    }


def _format_share(row: Mapping[str, Any]) -> str:
    if row["share"] is None:
        return NO_VALUE
    low, high = row["ci95"]
    return f"{row['share']:.0%} ({low:.0%} to {high:.0%})"


# --- reading -----------------------------------------------------------------------------------------------


def _parse_prompt(row: Any, substitutions: Mapping[str, Any]) -> GradedPrompt:
    if not isinstance(row, dict):
        raise ValueError(f"prompt entry not an object: {row!r}.")
    for name in ("id", "prompt"):
        if not row.get(name):
            raise ValueError(f"prompt missing `{name}`: {row!r}.")
    return GradedPrompt(
        id=str(row["id"]),
        prompt=str(row["prompt"]),
        category=str(row.get("category") or ""),
        core=_parse_bool(row, "core", True),
        vibe=_parse_bool(row, "vibe", False),
        conditional=row.get("conditional"),
        expect_tool_any=parse_texts(row.get("expect_tool_any"), f"expect_tool_any of prompt {row['id']!r}"),
        check=_parse_check(row).with_substitutions(substitutions),
        note=row.get("note"),
    )


def _parse_bool(row: Mapping[str, Any], name: str, default: bool) -> bool:
    value = row.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise ValueError(f"`{name}` of prompt {row['id']!r} must be true or false, not {value!r}.")
    return value


def _parse_check(row: Mapping[str, Any]) -> CheckSpec | Rubric:
    value = row.get("check")
    if not value:
        return CheckSpec("substring")
    checks = value if isinstance(value, list) else [value]
    if not all(isinstance(check, dict) for check in checks):
        raise ValueError(f"`check` of prompt {row['id']!r} must be an object, not {value!r}.")
    try:
        specs = tuple(CheckSpec.from_dict(check) for check in checks)
    except ValueError as error:
        raise ValueError(f"Prompt {row['id']!r}: {error}") from None
    return Rubric(specs) if isinstance(value, list) else specs[0]


def _refuse_constant(path: str | Path, name: str) -> NoReturn:
    raise ValueError(f"{path}: {name} is not JSON.")
