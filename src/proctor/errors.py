"""The errors that Proctor raises, and the exit code of each.

::

    ProctorError                   4
    ├── UsageError                 4   a wrong call: an option, name, file or value that cannot be used
    │   └── UnknownName            4   no dialect, grader, target, store or report has that name
    ├── SuiteError                 4   a suite cannot be read; has all of its problems
    ├── StoreError                 4   a store cannot be read or written
    │   └── ReadOnlyStore          4   a store may only be read, and the call would write to it
    ├── BundleError                1   a bundle does not match its checksums or signatures, or is malformed
    ├── NothingSelected            5   a selection leaves no case
    ├── TargetError                3   a target did not answer
    │   ├── TargetTimeout          3   … in time
    │   ├── AnswerTooLarge         3   … within the size limit
    │   └── EndpointFailed         3   … and neither would any other call to its endpoint: the run stops
    ├── WorkspaceError             3   a workspace could not be made, or a hook failed; its trials are ERROR
    ├── CannotScore                3   a grader could not decide; becomes UNSCORED, never a fail
    ├── GraderBroke                3   a grading process failed or exited
    └── TimeLimitExceeded          3   a computation was ended at its time limit
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from enum import Enum, IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proctor.model import Judgment, Problem


class ExitCode(IntEnum):
    """The exit codes of the process, numbered as in pytest."""

    OK = 0
    FAILED = 1
    INTERRUPTED = 2
    NOT_MEASURED = 3
    USAGE = 4
    NOTHING_SELECTED = 5


class ProctorError(Exception):
    """The base class of all errors; its text is a full sentence for the user.

    Examples:
        >>> import proctor
        >>> try:
        ...     proctor.run("support", target="echo", store=None)
        ... except proctor.ProctorError as error:
        ...     print(type(error).__name__, int(error.exit_code))
        UsageError 4
    """

    exit_code: ExitCode = ExitCode.USAGE


class UsageError(ProctorError):
    """A wrong call: an option, name, file or value that cannot be used.

    Examples:
        >>> import proctor
        >>> rows = [{"input": "Lima", "expected": "Lima"}]
        >>> try:
        ...     proctor.run(rows, target="ech", store=None)
        ... except proctor.UsageError as error:
        ...     print(error)
        Unknown target 'ech'. Did you mean 'echo'?
    """


class UnknownName(UsageError):
    """A name that is not registered. The message suggests the nearest names, or the given ones."""

    def __init__(
        self, kind: str, name: str, candidates: Iterable[str], suggested: Sequence[str] = ()
    ) -> None:
        hint = _did_you_mean(suggested) if suggested else suggestion(name, sorted(candidates))
        super().__init__(f"Unknown {kind} {name!r}. {hint}")
        self.name = name
        self.suggested = tuple(suggested)


class SuiteError(ProctorError):
    """A suite that cannot be read. `problems` has all of its problems, not only the first.

    Examples:
        >>> import proctor
        >>> rows = [{"input": "Lima", "expected": "Lima", "tag": "city"}]
        >>> try:
        ...     proctor.run(rows, target="echo", store=None)
        ... except proctor.SuiteError as error:
        ...     print(error)
        data, row 1: error: Test 'test_1': Unknown field 'tag'. Did you mean 'tags'?
    """

    def __init__(self, problems: Sequence[Problem], *, hint: str = "") -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)
        self.hint = hint
        """An alternative to correcting each problem, as a sentence."""


class StoreError(ProctorError):
    """A store that cannot be read or written.

    Examples:
        >>> import proctor
        >>> run = proctor.run([{"input": "Lima", "expected": "Lima"}], target="echo", store="runs.db")
        >>> try:
        ...     proctor.load_run("baseline", store="runs.db")
        ... except proctor.StoreError as error:
        ...     print(str(error).partition(" in ")[0])
        There is no run 'baseline'
    """


class ReadOnlyStore(StoreError):
    """A store that is read-only, although the call writes to it."""


class BundleError(ProctorError):
    """A bundle that fails verification. The text is its first defect."""

    exit_code = ExitCode.FAILED


class NothingSelected(ProctorError):
    """A selection that leaves no case.

    Examples:
        >>> import proctor
        >>> rows = [{"id": "a", "input": "Lima", "expected": "Lima"}]
        >>> try:
        ...     proctor.run(rows, target="echo", id="b", store=None)
        ... except proctor.NothingSelected:
        ...     print("no case")
        no case
    """

    exit_code = ExitCode.NOTHING_SELECTED


class EndpointFault(Enum):
    """What a failed call shows about its endpoint, independent of the prompt."""

    PERMANENT = "permanent"
    """Every call will fail until someone changes the key, the model's name, the certificate or the like."""
    UNREACHABLE = "unreachable"
    """Nothing listens at the address, or the host is unknown."""
    SERVER = "server"
    """The server failed (5xx), possibly because of the request."""
    THROTTLED = "throttled"
    """The server limits the rate of requests (429)."""


class TargetError(ProctorError):
    """A target that did not answer.

    `kind` is one of the kinds of `model.Failure`. `transient` says whether a retry can help, and `busy`
    whether the endpoint requires fewer requests. `retry_after_s` is the wait that it requires. `fault` is
    what the failure shows about the endpoint, or None. `remedy` says what a user can do about it.
    """

    exit_code = ExitCode.NOT_MEASURED

    def __init__(
        self,
        message: str,
        *,
        kind: str = "http",
        transient: bool = False,
        busy: bool = False,
        retry_after_s: float | None = None,
        fault: EndpointFault | None = None,
        remedy: str = "",
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.transient = transient
        self.busy = busy
        self.retry_after_s = retry_after_s
        self.fault = fault
        self.remedy = remedy


class TargetTimeout(TargetError):
    """A target that did not answer in time."""

    def __init__(self, message: str) -> None:
        super().__init__(message, kind="timeout")


class AnswerTooLarge(TargetError):
    """An answer that is larger than the size limit."""

    def __init__(self, limit: int, size: int | None = None) -> None:
        """Takes sizes in bytes; `size` is None if reading stopped before it was known."""
        number = f"more than {limit:,}" if size is None else f"{size:,}"
        super().__init__(
            f"The answer has {number} bytes, over the limit of {limit:,}. Make the target answer in "
            "fewer bytes, or raise --max-answer-bytes.",
            kind="too-large",
        )


class EndpointFailed(TargetError):
    """A call that was given up because its endpoint fails every call. The run stops, and can be resumed."""


class WorkspaceError(ProctorError):
    """A workspace that could not be created, or a hook that failed before the target was called."""

    exit_code = ExitCode.NOT_MEASURED


class CannotScore(ProctorError):
    """A grader that could not decide. `judgments` has the replies of its judges."""

    exit_code = ExitCode.NOT_MEASURED

    def __init__(self, message: str, judgments: tuple[Judgment, ...] = ()) -> None:
        super().__init__(message)
        self.judgments = judgments


class GraderBroke(ProctorError):
    """A grading process that raised an error or exited. The text is a clause."""

    exit_code = ExitCode.NOT_MEASURED


class TimeLimitExceeded(ProctorError):
    """A computation that exceeded its limit. The text is the limit, such as `5 s of processor time`."""

    exit_code = ExitCode.NOT_MEASURED


def _did_you_mean(names: Sequence[str]) -> str:
    return f"Did you mean {' or '.join(map(repr, names))}?"


def _find_near(name: str, candidates: Sequence[str], cutoff: float = 0.6) -> list[str]:
    from difflib import get_close_matches

    return get_close_matches(name, candidates, n=3, cutoff=cutoff)


def suggest_file(word: str) -> str:
    """Returns a sentence that suggests similar files for a missing one, after a space; empty without any."""
    from pathlib import Path

    path = Path(word)
    missing = [path, *path.parents]
    while len(missing) > 1 and not missing[1].is_dir():
        del missing[0]
    rest = path.relative_to(missing[0])
    try:
        names = sorted(os.listdir(missing[0].parent))  # noqa: PTH208 - names are all that counts
    except (OSError, ValueError):
        return ""
    word = missing[0].name
    near = [name for name in names if Path(name).stem == word][:3] or _find_near(word, names)
    paths = (missing[0].with_name(name) / rest for name in near)
    files = [path.as_posix() for path in paths if path.exists()]
    return f" {_did_you_mean(files)}" if files else ""


def has_near_name(name: str, candidates: Sequence[str]) -> bool:
    """Returns whether a name is probably a misspelling of a valid name."""
    return bool(_find_near(name[:60], candidates, cutoff=0.7))


def suggestion(name: str, candidates: Sequence[str], most: int | None = None) -> str:
    """Returns a sentence that suggests valid names for a wrong one: the nearest, or all.

    Args:
        name: the wrong name.
        candidates: the valid names.
        most: the maximum number of names in a sentence that lists them; None for all.
    """
    near = _find_near(name, candidates)
    if near:
        return _did_you_mean(near)
    from proctor.plurals import join_names  # not before it is needed: `--help` imports this module

    names = join_names(candidates, len(candidates) if most is None else most)
    return f"Expected one of: {names}." if candidates else "None are known."
