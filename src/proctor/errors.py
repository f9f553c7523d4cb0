"""Everything that Proctor raises on purpose, and the exit code each one leads to.

::

    ProctorError                   4
    ├── UsageError                 4   the caller asked for something that cannot be
    │   └── UnknownName            4   no dialect, grader, target, store or report of that name
    ├── SuiteError                 4   a suite cannot be read; carries every problem found
    ├── StoreError                 4   a store cannot be read or written
    ├── BundleError                1   a bundle is not what it says it is
    ├── NothingSelected            5   a selection left no case
    ├── TargetError                3   a target did not answer
    │   ├── TargetTimeout          3   … in time
    │   ├── AnswerTooLarge         3   … with no more bytes than are read
    │   └── EndpointFailed         3   … and no other call to its endpoint would do better: the run stops
    ├── WorkspaceError             3   a workspace could not be made, or a hook failed; its trials are ERROR
    ├── CannotScore                3   a grader could not tell; becomes UNSCORED, never a fail
    ├── GraderBroke                3   a process that graded ended by itself
    └── TimeLimitExceeded          3   a computation was ended at its time limit
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from enum import Enum, IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proctor.model import Judgment, Problem


class ExitCode(IntEnum):
    """What the process says to its caller; pytest's numbers."""

    OK = 0
    FAILED = 1
    INTERRUPTED = 2
    NOT_MEASURED = 3
    USAGE = 4
    NOTHING_SELECTED = 5


class ProctorError(Exception):
    """The root of the tree above; its text is a full sentence for the user."""

    exit_code: ExitCode = ExitCode.USAGE


class UsageError(ProctorError):
    """The caller asked for something that cannot be."""


class UnknownName(UsageError):
    """A name that is in no table; suggests the nearest ones."""

    def __init__(self, kind: str, name: str, candidates: Iterable[str]) -> None:
        names = sorted(candidates)
        super().__init__(f"Unknown {kind} {name!r}. {suggestion(name, names)}")
        self.name = name


class SuiteError(ProctorError):
    """A suite that cannot be read. `problems` has all that was found, not only the first."""

    def __init__(self, problems: Sequence[Problem], *, hint: str = "") -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)
        self.hint = hint
        """Another way out than to correct each of them, as a sentence."""


class StoreError(ProctorError):
    """A store that cannot be read or written."""


class BundleError(ProctorError):
    """A bundle that is not what it says it is; the text is the first thing that is wrong with it."""

    exit_code = ExitCode.FAILED


class NothingSelected(ProctorError):
    """A selection that leaves no case."""

    exit_code = ExitCode.NOTHING_SELECTED


class EndpointFault(Enum):
    """What a failed call says of its endpoint, whatever was asked."""

    PERMANENT = "permanent"
    """Every call will fail until somebody changes something: the key, the model's name, the certificate."""
    UNREACHABLE = "unreachable"
    """Nobody listens at the address, or no such host is known."""
    SERVER = "server"
    """The server failed (5xx); the request may be to blame."""
    THROTTLED = "throttled"
    """The server refused more requests than it allows (429)."""


class TargetError(ProctorError):
    """A target that did not answer.

    `kind` is one of the kinds of `model.Failure`; `transient` says whether asking again can help;
    `busy` whether the endpoint asked for less; `retry_after_s` is what it asked to wait; `fault` is what the
    failure says of the endpoint, None where it says nothing, and `remedy` what a user can do about that.
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
    """An answer of more bytes than are read."""

    def __init__(self, limit: int, size: int | None = None) -> None:
        """Of that size; None where reading ended before it was known."""
        number = f"more than {limit:,}" if size is None else f"{size:,}"
        super().__init__(
            f"The answer has {number} bytes, and at most {limit:,} are read. Ask for a shorter one, or raise "
            "--max-answer-bytes.",
            kind="too-large",
        )


class EndpointFailed(TargetError):
    """A call that was given up because its endpoint fails every call; ends the run, which can be resumed."""


class WorkspaceError(ProctorError):
    """A workspace that could not be made, or a hook that failed before the target was asked."""

    exit_code = ExitCode.NOT_MEASURED


class CannotScore(ProctorError):
    """A grader that could not tell; `judgments` keeps what its judges said all the same."""

    exit_code = ExitCode.NOT_MEASURED

    def __init__(self, message: str, judgments: tuple[Judgment, ...] = ()) -> None:
        super().__init__(message)
        self.judgments = judgments


class GraderBroke(ProctorError):
    """A process that graded something raised an error or ended by itself; its text is a clause."""

    exit_code = ExitCode.NOT_MEASURED


class TimeLimitExceeded(ProctorError):
    """A computation that was ended; its text is the limit, such as `5 s of processor time`."""

    exit_code = ExitCode.NOT_MEASURED


def suggestion(name: str, candidates: Sequence[str]) -> str:
    """A sentence that points from a wrong name to the nearest right ones, or lists them all."""
    near = get_close_matches(name, candidates, n=3, cutoff=0.6)
    if near:
        return f"Did you mean {' or '.join(repr(match) for match in near)}?"
    return f"Known are: {', '.join(candidates)}." if candidates else "None are known."
