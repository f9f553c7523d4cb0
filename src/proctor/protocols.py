"""The interfaces of all extension points: dialects, graders, targets, stores and workspaces.

A dialect turns text into a suite, a target a prompt into an output, a grader an output into a result; a store
keeps runs. Each implementation is one file in the package of its kind and one line in that package's table.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeVar

from msgspec import Struct

from proctor.model import Case, GraderResult, JudgeRule, Judgment, Output, PassRule, Problem, Prompt, Suite
from proctor.store_protocol import AnswerCache as AnswerCache
from proctor.store_protocol import CaseHead as CaseHead
from proctor.store_protocol import CaseInRun as CaseInRun
from proctor.store_protocol import PriorAnswer as PriorAnswer
from proctor.store_protocol import RunOwner as RunOwner
from proctor.store_protocol import SameCaseRun as SameCaseRun
from proctor.store_protocol import SavedSuite as SavedSuite
from proctor.store_protocol import Store as Store
from proctor.store_protocol import StoredBatch as StoredBatch
from proctor.store_protocol import StoredCase as StoredCase
from proctor.store_protocol import StoredComment as StoredComment
from proctor.store_protocol import StoredLabel as StoredLabel
from proctor.store_protocol import StoredTotals as StoredTotals
from proctor.store_protocol import StoredTrial as StoredTrial
from proctor.store_protocol import StoreFault as StoreFault
from proctor.store_protocol import StoreHealth as StoreHealth
from proctor.store_protocol import SuiteWriter as SuiteWriter
from proctor.store_protocol import TrialUpdate as TrialUpdate

T = TypeVar("T")

# --- dialects ----------------------------------------------------------------------------------------------


class SourceFile(Struct, frozen=True, kw_only=True):
    """A file that a suite refers to."""

    path: str
    """The path relative to the suite's folder, with `/` between folders."""
    data: bytes


MAX_LINE_BYTES = 64 * 2**20
"""The maximum size of a line of a suite, and of a file that is read as a whole."""


class GraderCommand(NamedTuple):
    """How a grader runs a program."""

    words: tuple[str, ...]
    """The program and its arguments."""
    cwd: str | None
    """The working directory, relative to the suite's folder; None is that folder."""


class SuiteSource(Struct, frozen=True, kw_only=True):
    """A suite file and callbacks that read the files around it. Dialects never access the disk themselves."""

    path: str
    """The path as the user wrote it; for messages and default names only."""
    read_lines: Callable[[], Iterable[bytes]]
    """Reads the file from its beginning, line by line, with line endings. Raises SuiteError for a line of
    more than `MAX_LINE_BYTES`, of which no more than that is read."""
    read_sibling: Callable[[str], bytes | None] = lambda _name: None
    """Returns the bytes of a file in the same folder, or None if it does not exist."""
    find_file: Callable[[str], SourceFile | None] = lambda _reference: None
    """Finds a file by a relative path: from the suite's folder, then from each parent folder up to the
    repository's root, then from the working directory. Returns None if there is none."""
    find_within: Callable[[str], SourceFile | None] = lambda _path: None
    """Finds a file by a relative path inside the suite's folder. Returns None if there is none, or if `..` or
    a link leads out of the folder."""
    expand_glob: Callable[[str], list[str]] = lambda _glob: []
    """Returns the files that match a glob, relative to the suite's folder, sorted; for `find_file`."""
    find_program: Callable[[str], tuple[str, ...] | None] = lambda _name: None
    """Returns the command line of a user's grader: a file of that name with any extension in
    `.proctor/assertions` or `.agentv/assertions` of the suite's folder or a parent folder. Raises UsageError
    if there is such a file and it cannot be run."""
    find_program_defect: Callable[[GraderCommand], str | None] = lambda _command: None
    """Returns a sentence on a file that a grader's command names and that is missing or cannot be run; None
    if all are there, or nothing is known."""
    folder: str = ""
    """The suite's folder, absolute; it becomes `Suite.folder`."""
    environ: Mapping[str, str] = {}
    """The environment variables for references such as `${{ NAME }}`."""
    is_folder: bool = False
    """Whether the suite is a whole folder, which is then `folder` and `path`; `read_lines` yields nothing."""
    options: Mapping[str, Any] = {}
    """The settings for reading in the user's `proctor.toml`: `prompts`, a folder, and `evaluators`, ids."""


ORIGIN_NOTES = ("from", "suite_hash")
"""Notes of a converted suite about its origin: its former dialect and its published hash. They have no
effect."""


class FileHead(Struct, frozen=True, kw_only=True):
    """The beginning of a file, for detecting its dialect."""

    path: str
    text: str
    """The first lines, decoded as far as they go."""
    rows: tuple[dict[str, Any], ...] = ()
    """The JSON objects among the first lines."""


class CaseAtLine(Struct, frozen=True, gc=False):
    """A case and the line of its file on which it begins."""

    case: Case
    line: int
    path: str | None = None
    """The file of the case, if it is not the suite's own."""
    has_own_id: bool = True
    """Whether its id is written in the file; if not, it is a number."""
    repeats_rule: Literal["mean"] | None = None
    """The repeats rule that the case sets for its whole suite, after the suite's header was read."""


class RenderedFile(Struct, frozen=True):
    """A file of a suite that is written, or the next piece of it."""

    path: str
    """The relative path, with `/` between folders; empty for the suite's own file, which the caller names."""
    data: bytes


class Renderer(Protocol):
    """Writes suites in one format. Pure."""

    def __call__(
        self, suite: Suite, cases: Iterable[Case], *, lossy: bool
    ) -> Iterator[RenderedFile | Problem]:
        """Yields the files, in pieces; reading them back gives the same suite.

        What the format cannot express is a problem of code `unsayable` that names case and feature. It is an
        error, and the case is not written. With `lossy` it is a warning, the case is written without the
        feature, and the feature is kept in Proctor's own form under `proctor` in the case's metadata.
        """


class DialectSetting(Struct, frozen=True):
    """A key of `proctor.toml` that says how one dialect reads its files."""

    key: str
    """As the file has it, such as `evals-class`."""
    choices: tuple[str, ...] = ()
    """The texts that its value may be; empty where it is true or false."""
    about: str = ""
    """What it says, for editors."""

    @property
    def option(self) -> str:
        """The name that it has among the options of a `SuiteSource`."""
        return self.key.replace("-", "_")


class Dialect:
    """The base class of dialects: reads suites in one format, and describes the format.

    Pure. The class variables have the most common values; a dialect overrides those that differ.
    """

    endings: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson", ".json")
    """The extensions of its files, in lower case; a text that is saved as a file gets the first."""
    has_rows: ClassVar[bool] = True
    """Whether each line, or each item of a JSON array, is one case; False if a file is one value."""
    reads_folders: ClassVar[bool] = False
    """Whether all files of a folder can be one suite."""
    file_field: ClassVar[str | None] = None
    """The field of a case's metadata that names its file, if a suite has several."""
    pass_rule: ClassVar[PassRule | None] = None
    """The pass rule that means "every check must pass" in the format; None if it can express any rule."""
    judge_rule: ClassVar[str | None] = None
    """The format's only aggregation of judgments; None if it has several."""
    has_js_patterns: ClassVar[bool] = False
    """Whether its regular expressions are JavaScript's."""
    keeps_origin: ClassVar[bool] = False
    """Whether it can store a suite's former format (`ORIGIN_NOTES`)."""
    keeps_prompts: ClassVar[bool] = False
    """Whether its writer can store the prompts of a suite apart from its cases."""
    reader: ClassVar[str] = ""
    """The function that reads its files, as `module:function`; empty if `read` is overridden."""
    types: ClassVar[str] = ""
    """Its names of assertion types, as `module:attribute`; empty if it has none."""
    renderer: ClassVar[str] = ""
    """Its `Renderer`, as `module:function`; empty if the format is only read."""
    output_ending: ClassVar[str] = ".jsonl"
    """The extension of the suite's own file when one is written."""
    output_format: ClassVar[str] = ""
    """The file format, for people who choose a suite format: `JSONL`."""

    def recognises(self, head: FileHead) -> str | None:
        """Returns why a file looks like this dialect, as a clause ("its lines have `assertion`"), or None."""
        raise NotImplementedError

    def read(self, source: SuiteSource) -> Iterator[Suite | CaseAtLine | Problem]:
        """Yields the suite's header once, its cases in file order, and problems as they occur.

        The caller sets the header's `case_count` and `digest`. A case with an error is reported as a problem
        and not yielded; nothing else is left out.
        """
        if not self.reader:
            raise NotImplementedError
        items: Iterator[Suite | CaseAtLine | Problem] = _load_attribute(self.reader)(source)
        return items

    def may_be_suite(self, source: SuiteSource) -> bool:  # noqa: ARG002
        """Returns whether a file with one of its extensions may be a suite, not some program's settings."""
        return True

    def marks_suite_folder(self, path: str, read: Callable[[], bytes]) -> bool:  # noqa: ARG002
        """Returns whether a file makes its folder a suite, for dialects that read folders.

        Args:
            path: relative to the folder, with `/` between folders.
            read: returns the file's bytes.
        """
        return False

    def published_hash(self, source: SuiteSource) -> str | None:  # noqa: ARG002
        """Returns the hash by which the format publishes a suite; None if the format has none."""
        return None

    def assertion_types(self) -> Collection[str]:
        """Returns the format's names of assertion types, which as labels say no more than the grader."""
        types: Collection[str] = _load_attribute(self.types) if self.types else ()
        return types

    def settings(self) -> tuple[DialectSetting, ...]:
        """What projects may say in `proctor.toml` about the reading of its files."""
        return ()

    def render(self, suite: Suite, cases: Iterable[Case], *, lossy: bool) -> Iterator[RenderedFile | Problem]:
        """Writes a suite with the dialect's `renderer`, which must be set."""
        render: Renderer = _load_attribute(self.renderer)
        return render(suite, cases, lossy=lossy)


def _load_attribute(path: str) -> Any:
    """Returns what `module:attribute` names; the module is imported now, as most runs use another dialect."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


# --- graders -----------------------------------------------------------------------------------------------


class Answerer(Protocol):
    """Answers prompts; every target and every judge does."""

    async def answer(self, prompt: Prompt) -> Output:
        """Returns the answer to a prompt.

        Raises:
            TargetError: there is no answer.
        """


class Embedder(Protocol):
    """Turns texts into vectors of equal length."""

    name: str

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Returns one vector for each text, in order.

        Raises:
            TargetError: the texts could not be embedded.
        """


class JudgeTarget(Struct, frozen=True, kw_only=True):
    """A judge that a grader may call, with its name."""

    name: str
    target: Answerer


class CompletedProgram(Struct, frozen=True):
    """The result of a program that ended by itself; a negative exit code is the signal that ended it."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    """The end of stderr."""

    @property
    def ending(self) -> str:
        """How the program ended, as a clause with the exit code or the signal."""
        if self.exit_code >= 0:
            return f"ended with exit code {self.exit_code}"
        try:
            return f"was killed by {signal.Signals(-self.exit_code).name}"
        except ValueError:
            return f"was killed by signal {-self.exit_code}"


class PersistentProgram(Protocol):
    """A program that reads a line and writes one, again and again."""

    async def exchange(self, line: bytes, *, timeout_s: float) -> CompletedProgram:
        """Writes a line and returns the one that answers it as `stdout`, with what came on stderr meanwhile.

        Of a program that ended without a whole line it returns the exit code and all that it wrote.

        Args:
            line: a line without its end.
            timeout_s: the program is killed after this many seconds.

        Raises:
            TargetTimeout: there was no answer in time.
            TargetError: of kind `program`: it wrote too much, more than one line, or closed its stdout.
        """


class ProgramRunner(Protocol):
    """Runs programs for one suite, without secrets and in process groups that are killed as a whole."""

    async def run(
        self,
        argv: Sequence[str],
        stdin: bytes = b"",
        *,
        timeout_s: float,
        cwd: str | None = None,
        variables: Mapping[str, str] = {},
    ) -> CompletedProgram:
        """Runs a program to its end.

        Args:
            argv: the program and its arguments, without a shell. A relative path is relative to the suite.
            stdin: the program's input, which it need not read.
            timeout_s: the whole process group is killed after this many seconds.
            cwd: relative to the suite's folder; None is that folder.
            variables: environment variables besides the few that the program inherits.

        Raises:
            TargetTimeout: the program did not end in time.
            TargetError: of kind `program`: it could not be started or wrote too much.
        """

    def open_persistent(
        self, argv: Sequence[str], *, cwd: str | None = None
    ) -> AbstractAsyncContextManager[PersistentProgram]:
        """Gives a program that stays alive: one that is idle, else a new one.

        It becomes idle again when the context ends, and is killed if the context raises. Arguments as in
        `run`.

        Raises:
            TargetError: of kind `program`: it could not be started.
        """

    def is_grader_file(self, argv: Sequence[str], cwd: str | None = None) -> bool:
        """Returns whether a command calls a Python file of `@proctor.grader` functions.

        `open_persistent` serves such a file: its lines have a case, an output and parameters.
        """


class ProxyGrant(Struct, frozen=True):
    """The access of one program to judges, and the replies so far."""

    variables: Mapping[str, str]
    """Environment variables for the program with the address and the credentials of the proxy."""
    judgments: list[Judgment]
    """One for each reply so far."""


class JudgeProvider(Protocol):
    """Gives grading programs access to the judges of a run."""

    def serve_program(
        self, judges: Sequence[JudgeTarget], case: Case, max_calls: int
    ) -> AbstractAsyncContextManager[ProxyGrant]:
        """Gives one program access to judges until the context ends.

        Args:
            judges: at least one; the first is called if the program names none.
            case: the case that is graded.
            max_calls: how many calls the program may make.
        """


Gather = Callable[[Iterable[Awaitable[Any]]], Awaitable[list[Any]]]
"""Awaits several awaitables, concurrently if it can, and returns their results in order."""


async def gather_sequentially(things: Iterable[Awaitable[Any]]) -> list[Any]:
    """Awaits one awaitable after the other."""
    return [await thing for thing in things]


MAX_STEP_LENGTH = 100_000
"""The number of characters that a grader with `reads_in_steps` searches at once, in under a millisecond."""


class Isolation(Protocol):
    """Keeps computations that may take long away from an event loop."""

    def attempt(self, work: Callable[[], T], size: int, key: str | None = None) -> T | None:
        """Returns the result of a computation if it is fast, else None.

        Args:
            work: a pure function, so that it can be interrupted anywhere and called again.
            size: roughly how many characters it reads before it can be interrupted.
            key: identifies the computation; one that was slow is not attempted again.
        """

    async def call(self, work: Callable[[], T], size: int, key: str | None = None) -> T:
        """Does the same, in another process if it is slow; `work` and its result must be picklable.

        Raises:
            TimeLimitExceeded: it did not end within the limit.
        """


class GradingInput(Struct, frozen=True, kw_only=True, gc=False):
    """Everything that a grader may use."""

    case: Case
    output: Output
    outputs: tuple[Output, ...] = ()
    """Every output of the case, in order of repeats; only for graders that work over repeats."""
    judges: tuple[JudgeTarget, ...] = ()
    """The judges of the run; each is called."""
    named_judges: Mapping[str, JudgeTarget] = {}
    """The judges that graders name, by name; empty if the run's judges take precedence."""
    judge_repeats: int = 1
    """How often each judge is called."""
    judge_rule: JudgeRule = "majority"
    """How many of the judgments must pass the answer."""
    prior_judgments: tuple[Judgment, ...] = ()
    """Earlier judgments of the same answer by the same assertion, which are reused."""
    pass_at: float | None = None
    """The assertion's `pass_at`, for graders that call judges: it decides whether a judgment passes."""
    gather: Gather = gather_sequentially
    """Awaits several judges."""
    embedder: Callable[[], Embedder] | None = None
    programs: ProgramRunner | None = None
    judge_provider: JudgeProvider | None = None
    workspace: str | None = None
    """The folder in which the target worked, as the target left it."""
    reverse_sections: bool = False
    """Whether judges see the sections of their prompt in reverse order, to measure position bias."""
    isolation: Isolation | None = None
    """Runs slow computations outside the event loop; None runs them directly."""


class Grader(Protocol):
    """Grades one output.

    An implementation is a frozen Struct that forbids unknown fields. Its fields are the parameters of an
    assertion, so that every assertion is checked before the first request. An invalid parameter raises
    ValueError in `__post_init__`.
    """

    grades_repeats: ClassVar[bool]
    """Whether it grades all outputs of a case together, and each trial gets that result."""
    needs: ClassVar[str | None]
    """`judge` or `embedder` if every grader of this kind calls one, else None."""
    is_async: ClassVar[bool]
    """Whether `grade` returns an awaitable though it calls neither."""
    all_or_nothing: ClassVar[bool]
    """Whether the value is always 1 for a pass and 0 for a fail."""
    reads_in_steps: ClassVar[bool]
    """Whether it reads large answers `MAX_STEP_LENGTH` characters at a time, and can stop after each."""
    reads_text: ClassVar[bool]
    """Whether it grades the text of an answer, in whose place an assertion can have the reasoning graded."""
    shows_metadata: ClassVar[bool]
    """False if judges and programs see neither the case's metadata nor its other assertions."""

    def requirements(self) -> frozenset[str]:
        """Returns `judge`, `embedder`, both or neither: what this grader calls."""

    def judges(self) -> tuple[str | None, ...]:
        """Returns the judge of each call: the name of a target, or None for the judges of the run."""

    def commands(self) -> tuple[GraderCommand, ...]:
        """Returns the programs that it runs."""

    def check_case(self, case: Case) -> None:
        """Checks that it can grade answers to a case; called when its suite is loaded.

        Raises:
            ValueError: the case lacks something.
        """

    def grade(self, grading_input: GradingInput) -> GraderResult | Awaitable[GraderResult]:
        """Grades an output.

        Raises:
            CannotScore: the output could not be graded.
        """


class BaseGrader(Struct, frozen=True, gc=False):
    """The base class of graders: the class variables of `Grader` at their most common values."""

    grades_repeats: ClassVar[bool] = False
    needs: ClassVar[str | None] = None
    is_async: ClassVar[bool] = False
    all_or_nothing: ClassVar[bool] = False
    reads_in_steps: ClassVar[bool] = False
    reads_text: ClassVar[bool] = True
    shows_metadata: ClassVar[bool] = True

    def requirements(self) -> frozenset[str]:
        """Returns what the class needs."""
        return frozenset() if self.needs is None else frozenset((self.needs,))

    def judges(self) -> tuple[str | None, ...]:
        """Returns None, for the judges of the run, if the class needs a judge."""
        return (None,) if self.needs == "judge" else ()

    def commands(self) -> tuple[GraderCommand, ...]:
        """Returns none."""
        return ()

    def check_case(self, case: Case) -> None:
        """Accepts every case."""


class TextGrader(BaseGrader, frozen=True, gc=False):
    """The base class of graders that score 1 or 0 by the text of an answer alone."""

    all_or_nothing: ClassVar[bool] = True

    def accepts(self, answer: str) -> bool:
        """Returns whether `grade` gives an answer 1, without a reason.

        Raises:
            CannotScore: the answer could not be graded.
        """
        raise NotImplementedError


# --- targets -----------------------------------------------------------------------------------------------


class Quota(Struct, frozen=True):
    """The remainder of one rate limit, as an endpoint reports it."""

    resource: Literal["requests", "tokens"]
    remaining: int
    reset_s: float
    """Seconds until the whole quota is available again."""


class Target(Answerer, Protocol):
    """A model, agent or program that answers prompts; safe for concurrent calls."""

    async def aclose(self) -> None:
        """Stops everything that was started by opening or calling it. Safe to call twice."""


# --- environments ------------------------------------------------------------------------------------------


class WorkspaceVisit(Protocol):
    """The use of a workspace by one trial."""

    path: str
    """The folder, absolute."""

    async def diff(self) -> str | None:
        """Returns what changed in the folder since the visit began, as a unified diff; None for nothing."""


class Environment(Protocol):
    """Creates the workspaces of one run. Trials that share a workspace use it one after the other."""

    async def enter(self, case: Case, repeat: int) -> WorkspaceVisit:
        """Returns a visit to the workspace of the case, after `before_all` and `before_each` have run.

        Raises:
            WorkspaceError: the workspace could not be created, or a hook failed.
        """

    async def leave(self, visit: WorkspaceVisit, *, passed: bool) -> None:
        """Ends a visit: runs `after_each` and resets the folder; failures become warnings."""

    async def aclose(self) -> None:
        """Runs every `after_all` and removes the workspaces that are not kept. Safe to call twice."""
