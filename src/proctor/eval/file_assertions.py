"""The state of a folder after a task against assertions about its files: no model, no fuzzy matching.

Five kinds of assertion, each a plain object with `kind`, `path` and what its kind needs. Nothing outside the
folder is read, no file can make the grading hang, and an assertion that cannot be checked is a failed one
that says why.
"""

from __future__ import annotations

import posixpath
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proctor.eval.json_files import plain
from proctor.eval.sandbox.confined_files import ConfinedRoot, NoFile, Outside, TooLarge

if TYPE_CHECKING:
    from proctor.charts import Chart

SIZE_LIMIT = 16_777_216
"""How many bytes a file may have whose content is looked at."""
SKIPPED = "skipped (no seed content)"
"""The detail of an assertion that passed because there was nothing to compare with."""

_TYPE_NAMES: tuple[tuple[type, str], ...] = (
    (type(None), "null"),
    (bool, "true or false"),
    (str, "a text"),
    (int, "a number"),
    (float, "a number"),
    (list, "a list"),
    (dict, "an object"),
)


@dataclass(frozen=True, slots=True)
class AssertionResult:
    """What became of one assertion."""

    kind: str
    path: str
    """As the assertion spells it; empty where it has none."""
    passed: bool
    detail: str = ""
    """Why it failed; empty when it passed, except for one that was skipped."""

    @property
    def skipped(self) -> bool:
        """Whether it passed only because there was nothing to compare with."""
        return self.passed and self.detail == SKIPPED

    def to_dict(self) -> dict[str, Any]:
        """The keys `kind`, `path`, `passed` and `detail`, ready for JSON."""
        return {"kind": self.kind, "path": self.path, "passed": self.passed, "detail": self.detail}


@dataclass(frozen=True, slots=True)
class GradeResult:
    """What became of a task: it passed if every assertion did, also when it has none."""

    task_id: str
    passed: bool
    n_passed: int
    """How many assertions passed, with those that were skipped."""
    n_total: int
    assertions: list[AssertionResult]

    @property
    def skipped(self) -> int:
        """How many of the passed assertions were skipped."""
        return sum(one.skipped for one in self.assertions)

    def to_dict(self) -> dict[str, Any]:
        """The keys `task_id`, `passed`, `n_passed`, `n_total` and `assertions`, ready for JSON."""
        return {
            "task_id": self.task_id,
            "passed": self.passed,
            "n_passed": self.n_passed,
            "n_total": self.n_total,
            "assertions": [one.to_dict() for one in self.assertions],
        }


@dataclass(frozen=True, slots=True)
class GradeBatch:
    """Many graded tasks, in the order in which they were given."""

    results: tuple[GradeResult, ...]

    def statistics(self) -> dict[str, dict[str, Any]]:
        """For each kind of assertion, in the order of first use, and under `tasks` for whole tasks.

        Each is `{passed, skipped, total, share, ci95}`. `passed` is without the skipped ones, `share` is
        `passed / (total - skipped)` and `ci95` its Wilson interval, both None where nothing is left.
        A task counts as skipped if it passed and all its assertions were skipped, or it has none.
        """
        kinds: dict[str, list[tuple[bool, bool]]] = {}
        for result in self.results:
            for one in result.assertions:
                kinds.setdefault(one.kind, []).append((one.passed, one.skipped))
        tasks = [(one.passed, one.passed and one.skipped == one.n_total) for one in self.results]
        return {name: _statistics(outcomes) for name, outcomes in {**kinds, "tasks": tasks}.items()}

    def chart(self) -> Chart:
        """The share that passed for each kind and for the tasks, with intervals.

        Raises:
            ValueError: nothing was checked.
        """
        from proctor.charts import Bar, bars

        drawn = []
        for name, row in self.statistics().items():
            if row["ci95"] is not None:
                checked = row["total"] - row["skipped"]
                drawn.append(Bar(f"{name} ({row['passed']} of {checked})", row["share"], *row["ci95"]))
        return bars(drawn, title="Assertions that hold, by kind", unit="share that passed", scale="share")


@dataclass
class AssertionGrader:
    """Grades folders against assertions. Thread-safe: it holds nothing but its limit.

    Args:
        size_limit: a file with more bytes than this is not read; what needs its content fails.
    """

    size_limit: int = SIZE_LIMIT

    def supported_kinds(self) -> tuple[str, ...]:
        """The five kinds, as `ASSERTION_KINDS`."""
        return ASSERTION_KINDS

    def grade(
        self,
        task: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        post_state_root: str | Path,
        *,
        seed_files: Mapping[str, str | bytes] | None = None,
        task_id: str = "",
    ) -> GradeResult:
        """Check every assertion of a task against a folder; nothing that is in the folder raises.

        Args:
            task: an object with `verifiable_assertions`, perhaps `task_id` and `workspace_seed.files` (the
                content of those of kind "text" is the seeds'); or the list of assertions itself.
            post_state_root: the folder as the task left it; one that is missing is an empty one.
            seed_files: path to content, for `file_unchanged`; when given, also if empty, it replaces the
                task's own. Paths are compared in their shortest spelling (`./a//b` is `a/b`).
            task_id: replaces the task's own if it is not empty.

        Raises:
            OSError: the folder is there and may not be opened.
        """
        named = task if isinstance(task, Mapping) else {}
        seeds = _Seeds(_seeds_of(named) if seed_files is None else seed_files)
        with ConfinedRoot(post_state_root) as root:
            results = [self._result(one, root, seeds) for one in _assertions_of(task)]
        passed = sum(one.passed for one in results)
        return GradeResult(
            task_id=task_id or str("" if named.get("task_id") is None else named["task_id"]),
            passed=passed == len(results),
            n_passed=passed,
            n_total=len(results),
            assertions=results,
        )

    def grade_many(
        self,
        pairs: Iterable[tuple[Mapping[str, Any] | Sequence[Mapping[str, Any]], str | Path]],
        *,
        workers: int = 1,
    ) -> GradeBatch:
        """Grade pairs of a task and its folder, up to `workers` at once; results come in the order given.

        Raises:
            ValueError: `workers` is below 1.
        """
        from proctor.eval.parallel import in_order

        with closing(in_order(lambda pair: self.grade(*pair), pairs, workers=workers)) as outcomes:
            return GradeBatch(tuple(outcome.result() for outcome in outcomes))

    def _result(self, assertion: Any, root: ConfinedRoot, seeds: _Seeds) -> AssertionResult:
        if isinstance(assertion, AssertionResult):  # one that could not even be read
            return assertion
        if not isinstance(assertion, Mapping):
            return AssertionResult("", "", False, f"the assertion must be an object, not {_named(assertion)}")
        kind, path = assertion.get("kind", ""), assertion.get("path")
        shown = path if isinstance(path, str) else ""
        check = _CHECKS.get(kind) if isinstance(kind, str) else None
        if check is None:
            return AssertionResult(str(kind), shown, False, f"unknown kind: {kind}")
        try:
            if not _text(assertion, "path"):
                raise _Failed("path is empty")
            detail = check(_Checked(assertion, shown, root, seeds, self.size_limit))
        except _Failed as failed:
            return AssertionResult(kind, shown, False, str(failed))
        except Outside:
            return AssertionResult(kind, shown, False, "path leads outside the root")
        except TooLarge as large:
            return AssertionResult(kind, shown, False, f"file too large: {large}")
        except (OSError, ValueError) as error:
            return AssertionResult(kind, shown, False, f"read error: {error}")
        return AssertionResult(kind, shown, True, detail)


class _Failed(Exception):
    """An assertion that does not hold or cannot be checked; its text is the detail."""


class _Seeds:
    """The content that files had in the beginning, by path."""

    def __init__(self, contents: Mapping[str, str | bytes]) -> None:
        self._contents = contents
        self._shortest = {posixpath.normpath(path): content for path, content in contents.items()}

    def get(self, path: str) -> bytes | None:
        """The content for a path, spelled as in the assertion or else in any way that means the same."""
        content = self._contents.get(path)
        if content is None:
            content = self._shortest.get(posixpath.normpath(path))
        if content is None or isinstance(content, bytes):
            return content
        if not isinstance(content, str):
            raise _Failed(f"seed content must be a text, not {_named(content)}")
        return content.encode("utf-8", "surrogatepass")


@dataclass(frozen=True, slots=True)
class _Checked:
    """One assertion with all that its check needs."""

    assertion: Mapping[str, Any]
    path: str
    root: ConfinedRoot
    seeds: _Seeds
    size_limit: int

    def content(self, missing: str = "file missing") -> bytes:
        """The file's content; there must be a regular file."""
        try:
            return self.root.read(self.path, self.size_limit)
        except NoFile as instead:
            raise _Failed(f"{missing}: there is {instead}" if str(instead) else missing) from None

    def texts(self) -> list[str]:
        """The file's content with LF for every line end, and as it is written if that is another text.

        What an assertion looks for may stand in either, so that neither a file with CRLF nor an assertion
        that asks for CRLF is failed for its line ends. Bytes that are not UTF-8 become U+FFFD.
        """
        written = self.content().decode("utf-8", "replace")
        if "\r" not in written:
            return [written]
        return [written.replace("\r\n", "\n").replace("\r", "\n"), written]


def _exists(checked: _Checked) -> str:
    if not checked.root.exists(checked.path):
        raise _Failed("path missing")
    return ""


def _not_exists(checked: _Checked) -> str:
    if checked.root.exists(checked.path):
        raise _Failed("file still present")
    return ""


def _contain(checked: _Checked) -> str:
    wanted = _value(checked.assertion, "must_contain")
    wanted = [wanted] if isinstance(wanted, str) else wanted
    if not isinstance(wanted, list | tuple):
        raise _Failed(f"must_contain must be a list of texts, not {_named(wanted)}")
    for one in wanted:
        if not isinstance(one, str):
            raise _Failed(f"must_contain must be a list of texts, and {_named(one)} is in it")
    texts = checked.texts()
    if missing := [one for one in wanted if not any(one in text for text in texts)]:
        raise _Failed(f"missing substrings: {missing}")
    return ""


def _match_regex(checked: _Checked) -> str:
    pattern = _text(checked.assertion, "regex")
    from proctor.errors import CannotScore
    from proctor.graders.safe_regex import found  # 50 ms, which other kinds do not need

    texts = checked.texts()
    try:
        if not any(found(pattern, text) for text in texts):
            raise _Failed("regex not matched")
    except ValueError as error:
        raise _Failed(f"error: {_broken(pattern) or error}") from None
    except CannotScore as error:
        raise _Failed(f"error: {error}") from None
    return ""


def _unchanged(checked: _Checked) -> str:
    seed = checked.seeds.get(checked.path)
    if seed is None:
        checked.root.exists(checked.path)  # a path that leads out fails all the same
        return SKIPPED
    if checked.content("file missing post-rollout") != seed:
        raise _Failed("contents diverged from seed")
    return ""


_CHECKS: dict[str, Callable[[_Checked], str]] = {
    "file_exists": _exists,
    "file_not_exists": _not_exists,
    "file_contents_contain": _contain,
    "file_contents_match_regex": _match_regex,
    "file_unchanged": _unchanged,
}

ASSERTION_KINDS: tuple[str, ...] = tuple(_CHECKS)
"""The kinds of assertion that there are."""


def _assertions_of(task: Any) -> Iterable[Any]:
    """The assertions; for a task without them one failed result that says so."""
    try:
        if not isinstance(task, Mapping):
            if isinstance(task, str | bytes) or not isinstance(task, Iterable):
                raise _Failed(f"the task must be an object or a list, not {_named(task)}")
            return list(task)
        given = _value(task, "verifiable_assertions")
        if not isinstance(given, list | tuple):
            raise _Failed(f"verifiable_assertions must be a list, not {_named(given)}")
    except _Failed as failed:
        return [AssertionResult("", "", False, str(failed))]
    return given


def _seeds_of(task: Mapping[str, Any]) -> dict[str, Any]:
    """The content of the text files with which the task began."""
    seed = task.get("workspace_seed")
    files = seed.get("files") if isinstance(seed, Mapping) else None
    return {
        file["path"]: file["content"]
        for file in (files if isinstance(files, list | tuple) else ())
        if isinstance(file, Mapping)
        and file.get("kind") == "text"
        and isinstance(file.get("path"), str)
        and file.get("content") is not None
    }


def _value(holder: Mapping[str, Any], key: str) -> Any:
    if key not in holder:
        raise _Failed(f"missing key: {key}")
    return holder[key]


def _text(holder: Mapping[str, Any], key: str) -> str:
    value = _value(holder, key)
    if not isinstance(value, str):
        raise _Failed(f"{key} must be a text, not {_named(value)}")
    return value


def _named(value: Any) -> str:
    return next((name for kind, name in _TYPE_NAMES if isinstance(value, kind)), type(value).__name__)


def _broken(pattern: str) -> str:
    """What Python says of a pattern that it refuses; empty for one that is refused for another reason."""
    try:
        with warnings.catch_warnings(action="ignore"):  # of what later versions may read otherwise
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return str(error)
    return ""


def _statistics(outcomes: Sequence[tuple[bool, bool]]) -> dict[str, Any]:
    """Of pairs that say whether something passed, and whether only because it was skipped."""
    from proctor.stats import wilson

    total, skipped = len(outcomes), sum(skips for _, skips in outcomes)
    passed, checked = sum(passes for passes, _ in outcomes) - skipped, total - skipped
    share = passed / checked if checked else None
    interval = plain(wilson(passed, checked))
    return {"passed": passed, "skipped": skipped, "total": total, "share": share, "ci95": interval}
