"""Grades the files of a folder after a task against assertions, without a model and without fuzzy matching.

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
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proctor.eval.json_files import to_plain
from proctor.eval.sandbox.confined_files import FileTooLarge, NoRegularFile, PathOutsideRoot, SafeRoot

if TYPE_CHECKING:
    from proctor.charts import Chart

DEFAULT_SIZE_LIMIT = 16_777_216
"""Bytes of a file whose content is read."""
SKIPPED_DETAIL = "skipped (no seed content)"
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
    """The result of one assertion."""

    kind: str
    path: str
    """As written in the assertion; empty if it has none."""
    passed: bool
    detail: str = ""
    """Why it failed; empty when it passed, except for one that was skipped."""

    @property
    def skipped(self) -> bool:
        """Whether it passed only because there was nothing to compare with."""
        return self.passed and self.detail == SKIPPED_DETAIL

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields by name, ready for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class GradeResult:
    """The result of a task: it passed if every assertion did, also if it has none."""

    task_id: str
    passed: bool
    n_passed: int
    """How many assertions passed, with those that were skipped."""
    n_total: int
    assertions: list[AssertionResult]

    @property
    def skipped(self) -> int:
        """How many of the passed assertions were skipped."""
        return sum(assertion.skipped for assertion in self.assertions)

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields by name, ready for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class GradeBatch:
    """The results of many tasks, in the order of the input."""

    results: tuple[GradeResult, ...]

    def statistics(self) -> dict[str, dict[str, Any]]:
        """Returns counts for each kind of assertion, in the order of first use, and under `tasks` for tasks.

        Each is `{passed, skipped, total, share, ci95}`. `passed` is without the skipped ones, `share` is
        `passed / (total - skipped)` and `ci95` its Wilson interval, both None if nothing is left.
        A task counts as skipped if it passed and all its assertions were skipped, or it has none.
        """
        kinds: dict[str, list[tuple[bool, bool]]] = {}
        for result in self.results:
            for assertion in result.assertions:
                kinds.setdefault(assertion.kind, []).append((assertion.passed, assertion.skipped))
        tasks = [
            (result.passed, result.passed and result.skipped == result.n_total) for result in self.results
        ]
        return {name: _count_outcomes(outcomes) for name, outcomes in {**kinds, "tasks": tasks}.items()}

    def chart(self) -> Chart:
        """Draws the share that passed for each kind and for the tasks, with intervals, as bars.

        Raises:
            ValueError: nothing was checked.
        """
        from proctor.charts import Bar, bars

        share_bars = []
        for name, row in self.statistics().items():
            if row["ci95"] is not None:
                label = f"{name} ({row['passed']} of {row['total'] - row['skipped']})"
                share_bars.append(Bar(label, row["share"], *row["ci95"]))
        return bars(
            share_bars, title="Assertions that hold, by kind", unit="share that passed", scale="share"
        )


@dataclass
class AssertionGrader:
    """Grades folders against assertions. Safe to use from several threads.

    Args:
        size_limit: a file with more bytes than this is not read; what needs its content fails.
    """

    size_limit: int = DEFAULT_SIZE_LIMIT

    def supported_kinds(self) -> tuple[str, ...]:
        """Returns `ASSERTION_KINDS`."""
        return ASSERTION_KINDS

    def grade(
        self,
        task: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        post_state_root: str | Path,
        *,
        seed_files: Mapping[str, str | bytes] | None = None,
        task_id: str = "",
    ) -> GradeResult:
        """Checks every assertion of a task against a folder; no content of the folder raises an error.

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
        fields = task if isinstance(task, Mapping) else {}
        seeds = _SeedContents(_extract_seeds(fields) if seed_files is None else seed_files)
        with SafeRoot(post_state_root) as root:
            results = [self._check(assertion, root, seeds) for assertion in _extract_assertions(task)]
        passed = sum(result.passed for result in results)
        return GradeResult(
            task_id=task_id or str("" if fields.get("task_id") is None else fields["task_id"]),
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
        """Grades pairs of a task and its folder, up to `workers` at once; results keep their order.

        Raises:
            ValueError: `workers` is below 1.
        """
        from proctor.eval.parallel import map_ordered

        with closing(map_ordered(lambda pair: self.grade(*pair), pairs, workers=workers)) as outcomes:
            return GradeBatch(tuple(outcome.result() for outcome in outcomes))

    def _check(self, assertion: Any, root: SafeRoot, seeds: _SeedContents) -> AssertionResult:
        if isinstance(assertion, AssertionResult):  # one that could not even be read
            return assertion
        if not isinstance(assertion, Mapping):
            return AssertionResult(
                "", "", False, f"the assertion must be an object, not {_type_name(assertion)}"
            )
        kind, path = assertion.get("kind", ""), assertion.get("path")
        path_text = path if isinstance(path, str) else ""
        check = _CHECKS.get(kind) if isinstance(kind, str) else None
        if check is None:
            return AssertionResult(str(kind), path_text, False, f"unknown kind: {kind}")
        try:
            if not _require_text(assertion, "path"):
                raise _AssertionFailure("path is empty")
            detail = check(_AssertionContext(assertion, path_text, root, seeds, self.size_limit))
        except _AssertionFailure as failure:
            return AssertionResult(kind, path_text, False, str(failure))
        except PathOutsideRoot:
            return AssertionResult(kind, path_text, False, "path leads outside the root")
        except FileTooLarge as error:
            return AssertionResult(kind, path_text, False, f"file too large: {error}")
        except (OSError, ValueError) as error:
            return AssertionResult(kind, path_text, False, f"read error: {error}")
        return AssertionResult(kind, path_text, True, detail)


class _AssertionFailure(Exception):
    """The assertion does not hold or cannot be checked; the text is the detail."""


class _SeedContents:
    """The initial contents of files, by path."""

    def __init__(self, contents: Mapping[str, str | bytes]) -> None:
        self._contents = contents
        self._normalized = {posixpath.normpath(path): content for path, content in contents.items()}

    def get(self, path: str) -> bytes | None:
        """Returns the content for a path, in the assertion's spelling or else in an equal one."""
        content = self._contents.get(path)
        if content is None:
            content = self._normalized.get(posixpath.normpath(path))
        if content is None or isinstance(content, bytes):
            return content
        if not isinstance(content, str):
            raise _AssertionFailure(f"seed content must be a text, not {_type_name(content)}")
        return content.encode("utf-8", "surrogatepass")


@dataclass(frozen=True, slots=True)
class _AssertionContext:
    """One assertion with everything that its check needs."""

    assertion: Mapping[str, Any]
    path: str
    root: SafeRoot
    seeds: _SeedContents
    size_limit: int

    def content(self, missing: str = "file missing") -> bytes:
        """Returns the file's content; fails if there is no regular file."""
        try:
            return self.root.read(self.path, self.size_limit)
        except NoRegularFile as error:
            raise _AssertionFailure(f"{missing}: there is {error}" if str(error) else missing) from None

    def texts(self) -> list[str]:
        """Returns the file's content with LF for every line end, and as it is written if that differs.

        An assertion may match either text, so that neither a file with CRLF nor an assertion that asks for
        CRLF fails because of line ends. Bytes that are not UTF-8 become U+FFFD.
        """
        text = self.content().decode("utf-8", "replace")
        if "\r" not in text:
            return [text]
        return [text.replace("\r\n", "\n").replace("\r", "\n"), text]


def _check_exists(context: _AssertionContext) -> str:
    if not context.root.exists(context.path):
        raise _AssertionFailure("path missing")
    return ""


def _check_not_exists(context: _AssertionContext) -> str:
    if context.root.exists(context.path):
        raise _AssertionFailure("file still present")
    return ""


def _check_contains(context: _AssertionContext) -> str:
    substrings = _require_value(context.assertion, "must_contain")
    substrings = [substrings] if isinstance(substrings, str) else substrings
    if not isinstance(substrings, list | tuple):
        raise _AssertionFailure(f"must_contain must be a list of texts, not {_type_name(substrings)}")
    for item in substrings:
        if not isinstance(item, str):
            raise _AssertionFailure(f"must_contain must be a list of texts, and {_type_name(item)} is in it")
    texts = context.texts()
    if missing := [substring for substring in substrings if not any(substring in text for text in texts)]:
        raise _AssertionFailure(f"missing substrings: {missing}")
    return ""


def _check_regex(context: _AssertionContext) -> str:
    pattern = _require_text(context.assertion, "regex")
    from proctor.errors import CannotScore
    from proctor.graders.safe_regex import pattern_matches  # 50 ms, which other kinds do not need

    texts = context.texts()
    try:
        if not any(pattern_matches(pattern, text) for text in texts):
            raise _AssertionFailure("regex not matched")
    except ValueError as error:
        raise _AssertionFailure(f"error: {_regex_error(pattern) or error}") from None
    except CannotScore as error:
        raise _AssertionFailure(f"error: {error}") from None
    return ""


def _check_unchanged(context: _AssertionContext) -> str:
    seed = context.seeds.get(context.path)
    if seed is None:
        context.root.exists(context.path)  # a path that leads out fails all the same
        return SKIPPED_DETAIL
    if context.content("file missing post-rollout") != seed:
        raise _AssertionFailure("contents diverged from seed")
    return ""


_CHECKS: dict[str, Callable[[_AssertionContext], str]] = {
    "file_exists": _check_exists,
    "file_not_exists": _check_not_exists,
    "file_contents_contain": _check_contains,
    "file_contents_match_regex": _check_regex,
    "file_unchanged": _check_unchanged,
}

ASSERTION_KINDS: tuple[str, ...] = tuple(_CHECKS)
"""All kinds of assertion."""


def _extract_assertions(task: Any) -> Iterable[Any]:
    """Returns the assertions; for a task without them one failed result that says so."""
    try:
        if not isinstance(task, Mapping):
            if isinstance(task, str | bytes) or not isinstance(task, Iterable):
                raise _AssertionFailure(f"the task must be an object or a list, not {_type_name(task)}")
            return list(task)
        assertions = _require_value(task, "verifiable_assertions")
        if not isinstance(assertions, list | tuple):
            raise _AssertionFailure(f"verifiable_assertions must be a list, not {_type_name(assertions)}")
    except _AssertionFailure as failure:
        return [AssertionResult("", "", False, str(failure))]
    return assertions


def _extract_seeds(task: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the contents of the text files that a task starts with, by path."""
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


def _require_value(holder: Mapping[str, Any], key: str) -> Any:
    if key not in holder:
        raise _AssertionFailure(f"missing key: {key}")
    return holder[key]


def _require_text(holder: Mapping[str, Any], key: str) -> str:
    value = _require_value(holder, key)
    if not isinstance(value, str):
        raise _AssertionFailure(f"{key} must be a text, not {_type_name(value)}")
    return value


def _type_name(value: Any) -> str:
    return next((name for kind, name in _TYPE_NAMES if isinstance(value, kind)), type(value).__name__)


def _regex_error(pattern: str) -> str:
    """Returns Python's error message for a pattern; empty if Python accepts it."""
    try:
        with warnings.catch_warnings(action="ignore"):  # of what later versions may read otherwise
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return str(error)
    return ""


def _count_outcomes(outcomes: Sequence[tuple[bool, bool]]) -> dict[str, Any]:
    """Returns counts, share and interval of pairs (whether it passed, whether it was skipped)."""
    from proctor.stats import wilson

    total, skipped = len(outcomes), sum(skips for _, skips in outcomes)
    passed, graded = sum(passes for passes, _ in outcomes) - skipped, total - skipped
    share = passed / graded if graded else None
    interval = to_plain(wilson(passed, graded))
    return {"passed": passed, "skipped": skipped, "total": total, "share": share, "ci95": interval}
