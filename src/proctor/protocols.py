"""The doors: what each kind of extension is given and what it gives back.

A dialect turns text into a suite, a target a prompt into an output, a grader an output into a mark, a store
keeps runs, a report turns a run into text. Each implementation is one file in its door's folder and one
line in that folder's table.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from typing import Any, ClassVar, Literal, Protocol, TypeVar

from msgspec import Struct

from proctor.model import Case, JudgeRule, Judgment, Mark, Output, PassRule, Problem, Prompt, Suite
from proctor.store_protocol import AnswerCache as AnswerCache
from proctor.store_protocol import Answered as Answered
from proctor.store_protocol import CaseInRun as CaseInRun
from proctor.store_protocol import Followed as Followed
from proctor.store_protocol import KeptLabel as KeptLabel
from proctor.store_protocol import SameCaseElsewhere as SameCaseElsewhere
from proctor.store_protocol import SavedSuite as SavedSuite
from proctor.store_protocol import Store as Store
from proctor.store_protocol import StoredCase as StoredCase
from proctor.store_protocol import StoredTrial as StoredTrial
from proctor.store_protocol import StoreFault as StoreFault
from proctor.store_protocol import StoreHealth as StoreHealth
from proctor.store_protocol import SuiteWriter as SuiteWriter

T = TypeVar("T")

# --- dialects ----------------------------------------------------------------------------------------------


class Found(Struct, frozen=True, kw_only=True):
    """A file that a suite refers to."""

    path: str
    """Where it was found, relative to the suite's folder, with `/` between folders."""
    data: bytes


MAX_LINE_BYTES = 64 * 2**20
"""The longest line of a suite, and the largest file of those that are read as a whole."""


class Source(Struct, frozen=True, kw_only=True):
    """A suite file as a dialect sees it: its bytes on request, and never the disk."""

    path: str
    """As the user wrote it; for messages and default names only."""
    lines: Callable[[], Iterable[bytes]]
    """Reads the file again, line by line, each with its line ending. Raises SuiteError for a line of over
    `MAX_LINE_BYTES`, of which no more than that is read."""
    neighbour: Callable[[str], bytes | None] = lambda _name: None
    """The bytes of a file in the same folder, or None when it is not there."""
    find: Callable[[str], Found | None] = lambda _reference: None
    """The file of a relative path: looked for from the suite's folder, then from each folder above it up to
    the repository's, then from the working directory. None when it is nowhere."""
    within: Callable[[str], Found | None] = lambda _path: None
    """The file of a relative path in the suite's folder or below. None where there is none, and where `..` or
    a link leads out of the folder."""
    expand: Callable[[str], list[str]] = lambda _glob: []
    """The files that a glob matches, from the suite's folder, sorted; each can be given to `find`."""
    program: Callable[[str], tuple[str, ...] | None] = lambda _name: None
    """The command line of a grader of the user's own: a file of that name, whatever its ending, in
    `.proctor/assertions` or `.agentv/assertions` of the suite's folder or one above it. Raises UsageError
    where there is such a file and none of them can be run."""
    folder: str = ""
    """The suite's folder, absolute; it goes into the suite's header as it is."""
    environ: Mapping[str, str] = {}
    """What `${{ NAME }}` may name."""
    is_folder: bool = False
    """The suite is all of a folder, which is then `folder` and `path`; `lines` gives nothing."""
    options: Mapping[str, Any] = {}
    """What the user's `proctor.toml` says of reading: `prompts`, a folder, and `evaluators`, ids."""


ORIGIN_NOTES = ("from", "suite_hash")
"""Notes of a suite that say what it was before it was converted: its dialect and its published hash.
They have no effect."""


class Head(Struct, frozen=True, kw_only=True):
    """The beginning of a file, for telling which dialect it is written in."""

    path: str
    text: str
    """The first lines, decoded as far as they go."""
    rows: tuple[dict[str, Any], ...] = ()
    """Those of the first lines that are JSON objects."""


class Placed(Struct, frozen=True, gc=False):
    """A case and the line of its file on which it begins."""

    case: Case
    line: int
    path: str | None = None
    """The file it is in, where that is not the suite's own."""
    named: bool = True
    """Its id is written in the file, and not the number that a case without one gets."""
    repeats_rule: Literal["mean"] | None = None
    """The rule over repeats that the case brings to its suite, whose header came before it."""


class Rendered(Struct, frozen=True):
    """A file of a suite that is written, or the next piece of it."""

    path: str
    """Relative, with `/` between folders; empty for the suite's own file, whose name the caller chooses."""
    data: bytes


class Renderer(Protocol):
    """Writes one format of suite. Pure: nouns to bytes."""

    def __call__(self, suite: Suite, cases: Iterable[Case], *, lossy: bool) -> Iterator[Rendered | Problem]:
        """The files that read back to the same suite, in pieces.

        What the format cannot say is a problem of code `unsayable` that names case and feature: an error,
        and the case is not written. When `lossy` it is a warning, the case is written without it, and what
        was lost is kept as it is in Proctor's own form under `proctor` in the case's metadata.
        """


class DialectSetting(Struct, frozen=True):
    """A key of `proctor.toml` that says how one dialect reads its files."""

    key: str
    """As the file has it, such as `evals-class`."""
    choices: tuple[str, ...] = ()
    """The texts that its value may be; empty where it is true or false."""

    @property
    def option(self) -> str:
        """The name that it has among the options of a `Source`."""
        return self.key.replace("-", "_")


class Dialect:
    """The base of every dialect: reads one format of suite, and says all that others need to know of it.

    Pure: it sees bytes and returns nouns. The class variables have their usual values; a dialect sets those
    in which it differs.
    """

    endings: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson", ".json")
    """How the names of its files end, in lower case; the first is that of a text that is saved as a file."""
    has_rows: ClassVar[bool] = True
    """False: its files are one value, and a JSON array is not one case an item."""
    reads_folders: ClassVar[bool] = False
    """True: all files of a folder can be one suite."""
    file_field: ClassVar[str | None] = None
    """The field of a case's metadata that names its file, where a suite has several."""
    pass_rule: ClassVar[PassRule | None] = None
    """How the format says that every check must pass; None where it can say any rule."""
    judge_rule: ClassVar[str | None] = None
    """The only rule that the format has for several judgments of an answer; None where it has others."""
    has_js_patterns: ClassVar[bool] = False
    """True: its regular expressions are JavaScript's."""
    keeps_origin: ClassVar[bool] = False
    """True: it can say in which format a suite was before (`ORIGIN_NOTES`)."""
    renderer: ClassVar[str] = ""
    """Where its `Renderer` is, as `module:function`; empty where the format is only read."""
    written_ending: ClassVar[str] = ".jsonl"
    """The ending of a suite's own file, where one is written."""
    written_form: ClassVar[str] = ""
    """What its files are, for people who choose a format: `JSONL`."""

    def recognises(self, head: Head) -> str | None:
        """Why this file looks like the dialect, as a clause ("its lines have `assertion`"), or None."""
        raise NotImplementedError

    def read(self, source: Source) -> Iterator[Suite | Placed | Problem]:
        """The suite's header once, its cases in file order, and every problem where it is met.

        The header's `case_count` and `digest` are filled in by the caller. A case with an error is a
        problem and not yielded; nothing else is ever left out.
        """
        raise NotImplementedError

    def may_be_suite(self, source: Source) -> bool:  # noqa: ARG002
        """Whether a file with one of its endings is meant to be a suite, and not settings of some program."""
        return True

    def is_test_of_folder(self, path: str, read: Callable[[], bytes]) -> bool:  # noqa: ARG002
        """Whether a file makes the folder that it is in a suite, where the dialect reads folders.

        Args:
            path: relative to the folder, with `/` between folders.
            read: gives its bytes.
        """
        return False

    def published_hash(self, source: Source) -> str | None:  # noqa: ARG002
        """The hash by which the format publishes a suite; None where it has none."""
        return None

    def assertion_types(self) -> Collection[str]:
        """What the format calls its assertions: words that say no more as a label than the grader does."""
        return ()

    def settings(self) -> tuple[DialectSetting, ...]:
        """What projects may say in `proctor.toml` about the reading of its files."""
        return ()

    def render(self, suite: Suite, cases: Iterable[Case], *, lossy: bool) -> Iterator[Rendered | Problem]:
        """Writes a suite by the dialect's `renderer`, which there must be."""
        module, _, function = self.renderer.partition(":")
        render: Renderer = getattr(import_module(module), function)
        return render(suite, cases, lossy=lossy)


# --- graders -----------------------------------------------------------------------------------------------


class Answers(Protocol):
    """Whatever can be asked a prompt; every target, and every judge."""

    async def answer(self, prompt: Prompt) -> Output:
        """The answer.

        Raises:
            TargetError: there is none.
        """


class Embeds(Protocol):
    """Whatever turns texts into vectors of equal length."""

    name: str

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector a text, in order.

        Raises:
            TargetError: there is none.
        """


class Judge(Struct, frozen=True, kw_only=True):
    """A target that a grader may ask, under its name."""

    name: str
    target: Answers


class Finished(Struct, frozen=True):
    """What a program that ended by itself left behind; a negative exit code is the signal that ended it."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    """The last of it."""

    @property
    def ending(self) -> str:
        """How it ended, as a clause: with which exit code, or by which signal."""
        if self.exit_code >= 0:
            return f"ended with exit code {self.exit_code}"
        try:
            return f"was killed by {signal.Signals(-self.exit_code).name}"
        except ValueError:
            return f"was killed by signal {-self.exit_code}"


class Programs(Protocol):
    """Runs foreign programs for one suite: no secrets, a process group of their own, killed whole."""

    async def run(
        self,
        argv: Sequence[str],
        stdin: bytes = b"",
        *,
        timeout_s: float,
        cwd: str | None = None,
        variables: Mapping[str, str] = {},
    ) -> Finished:
        """Run a program to its end.

        Args:
            argv: the program and its arguments; no shell sees them. A relative path is the suite's.
            stdin: what it is given to read; it need not.
            timeout_s: after this many seconds its whole group is killed.
            cwd: relative to the suite's folder; None is that folder.
            variables: added to the few that it inherits.

        Raises:
            TargetTimeout: it did not end in time.
            TargetError: of kind `program`: it could not be started or wrote too much.
        """


class Lent(Struct, frozen=True):
    """What lets one program ask judges, and what came of it."""

    variables: Mapping[str, str]
    """Where it asks and by which right, as environment variables for it."""
    judgments: list[Judgment]
    """One for each reply that it has got so far."""


class Lends(Protocol):
    """Lets programs that grade ask the judges of a run."""

    def lend(self, judges: Sequence[Judge], case: Case, max_calls: int) -> AbstractAsyncContextManager[Lent]:
        """Lend judges to one program while it grades; afterwards it can ask nobody.

        Args:
            judges: who may be asked, at least one; the first where the program names none.
            case: the case that is graded.
            max_calls: how often it may ask.
        """


Together = Callable[[Iterable[Awaitable[Any]]], Awaitable[list[Any]]]
"""Awaits several things, at once if it can, and gives what came of them in order; graders start nothing."""


async def one_by_one(things: Iterable[Awaitable[Any]]) -> list[Any]:
    """Await each thing after the one before it."""
    return [await thing for thing in things]


MAX_STEP = 100_000
"""How many characters a grader that reads in steps searches at once: a fraction of a millisecond."""


class Isolation(Protocol):
    """Keeps computations that may take long away from an event loop."""

    def attempt(self, work: Callable[[], T], size: int, key: str | None = None) -> T | None:
        """What a computation gives if that is soon, else None.

        Args:
            work: pure, so that it can be ended anywhere and done again.
            size: how many characters it reads until it can be ended, roughly.
            key: names what takes long once and is then not attempted again.
        """

    async def call(self, work: Callable[[], T], size: int, key: str | None = None) -> T:
        """The same, in another process where it is not soon; `work` and what it gives can be pickled.

        Raises:
            TimeLimitExceeded: it did not end within the limit.
        """


class Graded(Struct, frozen=True, kw_only=True, gc=False):
    """All that a grader may look at."""

    case: Case
    output: Output
    outputs: tuple[Output, ...] = ()
    """Every output of the case, in order of repeats; only for graders that work over repeats."""
    judges: tuple[Judge, ...] = ()
    """Those who may be asked; each is, and the majority decides."""
    named: Mapping[str, Judge] = {}
    """Judges by the names that graders give; empty where the run's own outrank them."""
    judge_repeats: int = 1
    """How often each judge is asked."""
    judge_rule: JudgeRule = "majority"
    """How many of the judgments must be for the answer."""
    known: tuple[Judgment, ...] = ()
    """Judgments of this very answer by this very assertion; nobody is asked for them again."""
    pass_at: float | None = None
    """The assertion's, for graders that ask judges: each judgment is for or against by it."""
    together: Together = one_by_one
    """How it waits for several judges."""
    embedder: Callable[[], Embeds] | None = None
    programs: Programs | None = None
    lender: Lends | None = None
    workspace: str | None = None
    """The folder in which the answer was made, as the target left it."""
    turned: bool = False
    """Judges are shown their material in the reverse order, to see whether that sways them."""
    isolation: Isolation | None = None
    """Does what may take long, where an event loop waits; None: it is done at once."""


class Grader(Protocol):
    """Marks one output.

    An implementation is a frozen Struct that forbids unknown fields: its fields are the parameters an
    assertion may give, so that every assertion is checked before anything is asked. A parameter that is
    wrong in itself raises ValueError in `__post_init__`.
    """

    over_repeats: ClassVar[bool]
    """True: marks all outputs of a case at once, and each of its trials gets that mark."""
    needs: ClassVar[str | None]
    """`judge` or `embedder` where every such grader asks one, else None."""
    waits: ClassVar[bool]
    """True: `grade` gives back something to be awaited, though it asks neither."""
    all_or_nothing: ClassVar[bool]
    """True: the value is 1 where it passes and 0 where it does not."""
    reads_in_steps: ClassVar[bool]
    """True: of a large answer it reads `MAX_STEP` characters at a time, and can be ended after each."""
    shows_metadata: ClassVar[bool]
    """False: whoever it asks sees nothing of the case's metadata and of its other assertions."""

    def wants(self) -> frozenset[str]:
        """`judge`, `embedder` or both, where this one asks them."""

    def judges(self) -> tuple[str | None, ...]:
        """The judges that it asks: names of targets, and None for those of the run."""

    def grade(self, graded: Graded) -> Mark | Awaitable[Mark]:
        """The mark.

        Raises:
            CannotScore: the grader could not tell.
        """


class Grading(Struct, frozen=True, gc=False):
    """The base of every grader: the class variables that `Grader` asks for, at their usual values."""

    over_repeats: ClassVar[bool] = False
    needs: ClassVar[str | None] = None
    waits: ClassVar[bool] = False
    all_or_nothing: ClassVar[bool] = False
    reads_in_steps: ClassVar[bool] = False
    shows_metadata: ClassVar[bool] = True

    def wants(self) -> frozenset[str]:
        """What the class needs."""
        return frozenset() if self.needs is None else frozenset((self.needs,))

    def judges(self) -> tuple[str | None, ...]:
        """Those of the run, where the class needs one."""
        return (None,) if self.needs == "judge" else ()


# --- targets -----------------------------------------------------------------------------------------------


class Quota(Struct, frozen=True):
    """What an endpoint says is left of one of its rate limits."""

    resource: Literal["requests", "tokens"]
    remaining: int
    reset_s: float
    """Seconds until the whole quota is available again."""


class Target(Answers, Protocol):
    """A model, agent or program that answers prompts; safe to ask many at once."""

    async def aclose(self) -> None:
        """Stop everything that opening or asking started. Safe to call twice."""


# --- environments ------------------------------------------------------------------------------------------


class Stay(Protocol):
    """One trial's time in a workspace."""

    path: str
    """The folder, absolute."""

    async def changes(self) -> str | None:
        """What was changed in the folder since the stay began, as a unified diff; None for nothing."""


class Environment(Protocol):
    """Makes the workspaces of one run. Trials that share a workspace stay in it one after the other."""

    async def enter(self, case: Case, repeat: int) -> Stay:
        """A stay in the workspace of the case; `before_all` and `before_each` have run.

        Raises:
            WorkspaceError: it could not be made, or a hook failed.
        """

    async def leave(self, stay: Stay, *, passed: bool) -> None:
        """End a stay: `after_each`, then what is to be undone; what fails in it is told as a warning."""

    async def aclose(self) -> None:
        """Run every `after_all`; remove the workspaces that are not to be kept. Safe to call twice."""
