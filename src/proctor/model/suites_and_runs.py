"""The nouns of Proctor: frozen data and nothing else.

Every other module turns some of these into others. They know no file format, no network and no database.
Times end in their unit (`_ms`, `_s`), money in `_usd`, digests are ``sha256:`` and 64 hexadecimal digits.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from msgspec import field

from proctor.model.messages import Attachment as Attachment
from proctor.model.messages import Form as Form
from proctor.model.messages import Hook as Hook
from proctor.model.messages import Hooks as Hooks
from proctor.model.messages import Message as Message
from proctor.model.messages import Noun as Noun
from proctor.model.messages import Repository as Repository
from proctor.model.messages import Tool as Tool
from proctor.model.messages import ToolCall as ToolCall
from proctor.model.messages import Workspace as Workspace
from proctor.model.outputs import Entry as Entry
from proctor.model.outputs import Failure as Failure
from proctor.model.outputs import Judgment as Judgment
from proctor.model.outputs import Label as Label
from proctor.model.outputs import Mark as Mark
from proctor.model.outputs import Output as Output
from proctor.model.outputs import Score as Score
from proctor.model.outputs import Sway as Sway
from proctor.model.outputs import Usage as Usage
from proctor.model.outputs import Verdict as Verdict


class Row(Noun, frozen=True, kw_only=True):
    """What stands for cases in a file and cannot be read. All problems of a row have the same object."""

    path: str
    line: int
    cases: int = 1
    """How many cases it would be."""
    is_rest: bool = False
    """It is the rest of its file, an unknown number of cases."""


class Problem(Noun, frozen=True, kw_only=True):
    """Something wrong, or doubtful, in a file that a user wrote, and where it is."""

    level: Literal["error", "warning"] = "error"
    code: str
    """A short stable name such as `unknown-field`."""
    message: str
    """A full sentence that says what to do."""
    path: str = ""
    line: int | None = None
    field: str | None = None
    """The path of the field inside its case, such as `assertion.type`."""
    case: str | None = None
    row: Row | None = None
    """The row that it keeps from being read; None for a problem of the file or of a case that was read."""
    repeated: bool = False
    """An earlier row has the same, so it is not listed again."""

    def __str__(self) -> str:
        where = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{where}: {self.level}: {self.message}"


# --- what is asked -----------------------------------------------------------------------------------------


class Assertion(Noun, frozen=True, kw_only=True):
    """One check that a case asks for: a grader's name and its parameters, and how much it counts."""

    grader: str
    params: dict[str, Any] = {}
    weight: float = 1.0
    required: float | None = None
    """The gate: a score below it fails the trial whatever the rest says. None means no gate."""
    negated: bool = False
    pass_at: float | None = None
    """The least value that passes; None leaves that to the grader."""
    label: str | None = None


class PassRule(Noun, frozen=True, kw_only=True):
    """When the scores of a trial make a pass."""

    threshold: float | None = None
    """None: every assertion must pass. A number: the weighted mean of the scores must reach it."""


class Case(Noun, frozen=True, kw_only=True):
    """One question of a suite and everything needed to judge an answer to it."""

    id: str
    input: tuple[Message, ...]
    expected: Any = None
    criteria: str | None = None
    assertions: tuple[Assertion, ...] = ()
    tags: tuple[str, ...] = ()
    category: str | None = None
    metadata: dict[str, Any] = {}
    repeats: int | None = None
    """How many times the suite itself wants the case asked; None leaves it to the run."""
    pass_rule: PassRule | None = None
    """Instead of the suite's."""
    target: str | None = None
    """The target that is asked instead of the run's."""
    only_targets: tuple[str, ...] = ()
    """The targets on which the case is run; empty for all."""
    workspace: Workspace | None = None
    form: Form | None = None
    """What is asked of the target besides the messages."""
    variables: tuple[str, ...] = ()
    """The environment variables that it names as `${{ NAME }}`; they stay as written in all that is kept."""
    notes: dict[str, Any] = {}
    """Fields of its file that have no effect, as they were written."""
    problems: tuple[Problem, ...] = ()
    """The errors in its file, with paths from the suite's folder: it is a placeholder that is never sent, and
    its trials are ERROR."""


class SplitRule(Noun, frozen=True, kw_only=True):
    """How a suite is divided into dev and holdout cases."""

    ratio: float = 0.2
    seed: int = 42
    method: Literal["rank", "shuffle"] = "rank"
    """By the rank of each case's id, which other cases hardly move; or by a shuffle in file order."""


class Defaults(Noun, frozen=True, kw_only=True):
    """How a suite wants to be run where the user does not say; in no digest."""

    targets: tuple[str, ...] = ()
    concurrency: int | None = None
    budget_usd: float | None = None
    cache: bool | None = None
    reuse: bool | None = None


class Suite(Noun, frozen=True, kw_only=True):
    """The header of a suite; its cases stream beside it."""

    name: str
    dialect: str
    version: str | None = None
    """Which of those under its name in the store it is, such as `v2`; None before it is saved."""
    declared_version: str | None = None
    """What its file says of its version."""
    description: str | None = None
    pass_rule: PassRule = PassRule()
    split_rule: SplitRule | None = None
    no_holdout: bool = False
    """Its file, a page or a flag says that nothing of it is held out; else it only has no split rule."""
    case_count: int = 0
    digest: str = ""
    """Over its sorted cases, defaults and pass rule; not over name, order, dialect or path."""
    content: str = ""
    """Over its cases as they are stored, with tags, metadata and order; what a store finds them by."""
    defaults: Defaults = Defaults()
    repeats_rule: Literal["each", "any", "mean", "lower_bound"] = "each"
    """When the repeats of a case pass: each trial counts for itself, or the case counts once: by any of them,
    by the mean of their scores, or by the lower end of that mean's interval."""
    folder: str = ""
    """Where relative paths of its cases begin."""
    notes: dict[str, Any] = {}
    """Fields of its file that have no effect, as they were written."""
    suite_hash: str | None = None
    """The hash by which dialect pramana publishes a suite; None elsewhere."""

    @property
    def title(self) -> str:
        """Its name, with its version in the store: `my_suite v2`."""
        return self.name if self.version is None else f"{self.name} {self.version}"


# --- who is asked ------------------------------------------------------------------------------------------


class Params(Noun, frozen=True, kw_only=True):
    """What is asked of a target besides the messages; None leaves a parameter to the endpoint."""

    temperature: float | None = 0.0
    seed: int | None = 42
    max_tokens: int | None = None


class TargetSpec(Noun, frozen=True, kw_only=True):
    """All that is needed to open a target again; never a secret."""

    name: str
    """What the user wrote, such as `openai:gpt-5.2`."""
    kind: str
    model: str = ""
    """The part after the kind: a model, a file, a command line or a function."""
    endpoint: str | None = None
    """The base URL, where there is one."""
    params: Params = Params()
    options: dict[str, Any] = {}
    """What else its kind takes; `${{ NAME }}` stays as written and is filled in when the target is opened."""
    judge: TargetSpec | None = None
    """Who judges its answers, unless the run or the grader says."""
    fallbacks: tuple[TargetSpec, ...] = ()
    """Who is asked, in this order, when it fails for good."""
    workers: int | None = None
    """The most calls at once; None leaves it to the run."""
    retries: int | None = None
    """None leaves it to the run."""


class Prompt(Noun, frozen=True, kw_only=True):
    """What a target is given for one trial."""

    messages: tuple[Message, ...]
    case_id: str = ""
    repeat: int = 0
    workspace: str | None = None
    """The folder to work in."""
    response_schema: dict[str, Any] | None = None
    """A JSON schema that the answer should follow, for endpoints that can enforce one."""
    json_answer: bool = False
    """The answer should be JSON of any shape, for endpoints that can enforce that."""
    tools: tuple[Tool, ...] = ()
    """The tools that the target may call; its calls are not executed."""
    temperature: float | None = None
    """Instead of the target's own; None leaves it at that."""


class Trial(Noun, frozen=True, kw_only=True):
    """One attempt at one case: its output or its failure, and its scores."""

    case_id: str
    position: int
    """The place of the case in its suite, from 0."""
    repeat: int = 0
    sent: str
    """The digest of what the target received."""
    split: str | None = None
    output: Output | None = None
    scores: tuple[Score, ...] = ()
    failure: Failure | None = None
    started_at: datetime
    source_run: str | None = None
    """The run whose output was used again, if it was."""
    graded_in: str | None = None
    """The run that made the scores of an output that was used again; None where no run was noted."""
    target: str | None = None
    """The target that was asked, where the case names its own."""


# --- what is kept ------------------------------------------------------------------------------------------


class Selection(Noun, frozen=True, kw_only=True):
    """Which cases of a suite a run asks."""

    split: Literal["dev", "holdout", "all"] = "all"
    tags: tuple[str, ...] = ()
    """A case is selected when it has any of them. Here and below, commas in a word mean any of its tags."""
    exclude_tags: tuple[str, ...] = ()
    """A case is selected when it has none of them."""
    all_tags: tuple[str, ...] = ()
    """A case is selected when it has every one of them."""
    categories: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    """Globs; a case is selected when any of them matches its id."""
    limit: int | None = None


JudgeRule = Literal["majority", "all", "any"]
"""How many of the judgments of one answer must be for it."""


MAX_ANSWER_BYTES = 16 * 2**20
"""The largest answer that is read, unless the run says otherwise."""


class Settings(Noun, frozen=True, kw_only=True):
    """How a run was made; what decides which trials it has, and how verdicts are counted."""

    selection: Selection = Selection()
    repeats: int | None = None
    """None: once, or as often as the case itself wants."""
    concurrency: int = 32
    timeout_s: float = 120.0
    retries: int = 4
    max_answer_bytes: int = MAX_ANSWER_BYTES
    """A larger answer of a target or a judge is an error."""
    threshold: float | None = None
    min_pass_rate: float | None = None
    allow_errors: int = 0
    judge_repeats: int = 1
    """How often each judge is asked about one answer."""
    judge_rule: JudgeRule = "majority"
    reuse: bool = False
    """Answers and judgments of earlier runs are taken where the same was asked and judged."""
    cache: bool = False
    budget_usd: float | None = None
    max_failures: int | None = None
    """The run stops once this number of its trials have ended as errors."""
    keep_workspaces: Literal["none", "failed", "all"] = "failed"
    engine: str = "asyncio"
    """What makes the trials; it changes no answer and no verdict."""


class Seat(Noun, frozen=True, kw_only=True):
    """Which of the runs of its group on the same suite a run is."""

    target: str = ""
    first: bool = True
    """Cases with a target of their own are asked in this one only."""
    alone: bool = True
    """There is no other: cases that are for certain targets only are asked all the same."""


Standing = Literal["trusted", "unknown", "unsigned"]
"""The result of checking the signatures of a bundle."""


class Run(Noun, frozen=True, kw_only=True):
    """One suite on one target, once."""

    id: str
    group: str
    """Runs that one command started together share it."""
    seat: Seat = Seat()
    suite: Suite
    target: TargetSpec
    judges: tuple[TargetSpec, ...] = ()
    judges_given: bool = False
    """The user named them, so that no judge which a grader or a target names is asked."""
    named_targets: tuple[TargetSpec, ...] = ()
    """Those that cases name instead of the run's."""
    named_judges: tuple[TargetSpec, ...] = ()
    """Those that graders name."""
    embedder: str | None = None
    """What turned texts into vectors: `local`, or a model with its address; None where no grader wants it."""
    settings: Settings = Settings()
    versions: dict[str, str] = {}
    prices_date: str | None = None
    started_at: datetime
    finished_at: datetime | None = None
    status: Literal["running", "finished", "interrupted"] = "running"
    stopped: str | None = None
    """Why Proctor stopped it before every trial was made, as a sentence; None where it did not."""
    planned: int = 0
    """How many trials the run is to have."""
    regrade_of: str | None = None
    """The run whose answers it grades again; it asks no target."""
    imported: Standing | None = None
    """How the bundle was signed that its answers come from; None for answers that were asked for here."""
    tags: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class Look(Noun, frozen=True, kw_only=True):
    """One look at what is sealed: a holdout's pass rate was printed, or its answers were revealed."""

    suite: str
    """The digest of the suite."""
    run: str
    kind: Literal["rate", "reveal"]
    at: datetime


class Calibration(Noun, frozen=True, kw_only=True):
    """How well a judge agreed with people, once: measured on their labels of the same answers."""

    judge: str
    """The digest of the judge's target."""
    name: str
    """What the user wrote for it."""
    at: datetime
    labels: str
    """The digest of the labels."""
    count: int
    """How many labelled answers the judge gave a verdict on."""
    unscored: int = 0
    """How many it was asked about and gave none on."""
    agreed: int
    """How many of its verdicts are the label's."""
    passed: int = 0
    """How many of `count` people pass."""
    true_passes: int = 0
    """How many of these the judge passes too."""
    kappa: float | None = None
    """Cohen's kappa, from -1 to 1; None where judge and labels say the same of everything."""
    kappa_ci95: tuple[float, float] | None = None
    prompts: tuple[str, ...] = ()
    """The digests of the prompts that it was asked by, sorted."""
    repeats: int = 1
    """How often it was asked about each answer in the usual way."""
    repeated: int = 0
    """How many answers got more than one verdict so."""
    steady: int = 0
    """How many of these got the same verdict each time."""
    position: Sway | None = None
    """With its material in the reverse order; None where that was not asked."""
    length: Sway | None = None
    """With every answer made longer by words that say nothing."""
    length_failed: Sway | None = None
    """The same, of the answers that people fail."""
    people_twice: int = 0
    """How many answers were labelled by more than one person."""
    people_agreed: int = 0
    """How many of these got the same label from all of them."""
    people_alpha: float | None = None
    """Krippendorff's alpha of people among themselves, the most that can be asked of a judge."""


class Price(Noun, frozen=True, kw_only=True):
    """What a model costs, in US dollars per million tokens, with where and when that was read."""

    input: float
    output: float
    cached: float | None = None
    source: str = field(default="")
    date: str = field(default="")
