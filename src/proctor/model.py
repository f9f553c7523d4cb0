"""The nouns of Proctor: frozen data and nothing else.

Every other module turns some of these into others. They know no file format, no network and no database;
`docs/CONCEPTS.md` defines each in one sentence. Times end in their unit (`_ms`, `_s`), money in `_usd`,
digests are ``sha256:`` and 64 hexadecimal digits.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from msgspec import field

from proctor.parts import Attachment as Attachment
from proctor.parts import Hook as Hook
from proctor.parts import Hooks as Hooks
from proctor.parts import Message as Message
from proctor.parts import Noun as Noun
from proctor.parts import Repository as Repository
from proctor.parts import ToolCall as ToolCall
from proctor.parts import Workspace as Workspace


class Verdict(StrEnum):
    """What a trial, or one score of it (then called an outcome), came to."""

    PASS = "pass"
    FAIL = "fail"
    ERROR = "error"
    UNSCORED = "unscored"


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
    variables: tuple[str, ...] = ()
    """The environment variables that it names as `${{ NAME }}`; they stay as written in all that is kept."""
    notes: dict[str, Any] = {}
    """Fields of its file that have no effect, as they were written."""


class SplitRule(Noun, frozen=True, kw_only=True):
    """How a suite is divided into dev and holdout cases."""

    ratio: float = 0.2
    seed: int = 42


class Defaults(Noun, frozen=True, kw_only=True):
    """How a suite wants to be run where the user does not say; in no digest."""

    targets: tuple[str, ...] = ()
    concurrency: int | None = None
    budget_usd: float | None = None
    cache: bool | None = None


class Suite(Noun, frozen=True, kw_only=True):
    """The header of a suite; its cases stream beside it."""

    name: str
    dialect: str
    version: str | None = None
    description: str | None = None
    pass_rule: PassRule = PassRule()
    split_rule: SplitRule | None = None
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
    temperature: float | None = None
    """Instead of the target's own; None leaves it at that."""


# --- what came back ----------------------------------------------------------------------------------------


class Usage(Noun, frozen=True, kw_only=True):
    """Tokens of one call as the endpoint counted them; `input_tokens` includes the cached ones."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0


class Output(Noun, frozen=True, kw_only=True):
    """One answer of a target, with what it took to get it."""

    text: str
    messages: tuple[Message, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = None
    latency_ms: float = 0.0
    """From sending the request that succeeded to having read its answer."""
    queue_ms: float = 0.0
    """What was spent waiting: for a free place, for `Retry-After`, between retries."""
    cost_usd: float | None = None
    """None: the price is not known."""
    finish_reason: str | None = None
    model: str | None = None
    """The model as the endpoint reported it."""
    fingerprint: str | None = None
    """The system fingerprint as the endpoint reported it."""
    refused_params: tuple[str, ...] = ()
    """Parameters that the endpoint does not take, so that they were not applied."""
    duration_ms: float | None = None
    """How long the target itself says it took."""
    file_changes: str | None = None
    """What it changed in its workspace, as a unified diff."""
    target: str | None = None
    """The fallback that answered, if one did."""
    cached: bool = False
    """Taken from the cache: nothing was asked, and nothing paid."""


class Judgment(Noun, frozen=True, kw_only=True):
    """One answer of one judge."""

    judge: str
    prompt_digest: str
    nth: int = 0
    passed: bool | None = None
    value: float | None = None
    feedback: str | None = None
    raw: str = ""
    """The judge's reply as it came."""
    usage: Usage | None = None
    cost_usd: float | None = None
    cached: bool = False


class Entry(Noun, frozen=True, kw_only=True):
    """One line of a score's evidence: what was looked for, whether it was there, and where."""

    text: str
    passed: bool | None = None
    evidence: str | None = None


class Mark(Noun, frozen=True, kw_only=True):
    """What a grader says of an answer, before weight, gate and negation are applied."""

    value: float | None
    """From 0 to 1; None when nothing could be said, never NaN."""
    passed: bool | None
    reason: str = ""
    entries: tuple[Entry, ...] = ()
    judgments: tuple[Judgment, ...] = ()
    details: dict[str, Any] = {}
    gate: float | None = None
    """The grader's own gate, where something in it must hold: a value below it fails the trial."""


class Score(Noun, frozen=True, kw_only=True):
    """What one assertion came to for one output."""

    grader: str
    name: str
    """The assertion's label, or the grader's name."""
    assertion: str = ""
    """The assertion's digest."""
    value: float | None = None
    outcome: Verdict
    weight: float = 1.0
    required: float | None = None
    reason: str = ""
    entries: tuple[Entry, ...] = ()
    judgments: tuple[Judgment, ...] = ()
    details: dict[str, Any] = {}


class Failure(Noun, frozen=True, kw_only=True):
    """Why a trial has no output, or why its grading stopped."""

    stage: Literal["setup", "target", "grading"]
    kind: str
    """`timeout`, `http`, `connection`, `refused`, `missing`, `program`, `protocol`, `budget`, `workspace`."""
    message: str


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
    target: str | None = None
    """The target that was asked, where the case names its own."""


# --- what is kept ------------------------------------------------------------------------------------------


class Selection(Noun, frozen=True, kw_only=True):
    """Which cases of a suite a run asks."""

    split: Literal["dev", "holdout", "all"] = "all"
    tags: tuple[str, ...] = ()
    exclude_tags: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    """Globs; a case is selected when any of them matches its id."""
    limit: int | None = None


class Settings(Noun, frozen=True, kw_only=True):
    """How a run was made; what decides which trials it has, and how verdicts are counted."""

    selection: Selection = Selection()
    repeats: int | None = None
    """None: once, or as often as the case itself wants."""
    concurrency: int = 32
    timeout_s: float = 120.0
    retries: int = 4
    threshold: float | None = None
    min_pass_rate: float | None = None
    allow_errors: int = 0
    judge_repeats: int = 1
    """How often each judge is asked about one answer."""
    cache: bool = False
    budget_usd: float | None = None
    keep_workspaces: Literal["none", "failed", "all"] = "failed"


class Seat(Noun, frozen=True, kw_only=True):
    """Which of the runs of its group on the same suite a run is."""

    target: str = ""
    first: bool = True
    """Cases with a target of their own are asked in this one only."""
    alone: bool = True
    """There is no other: cases that are for certain targets only are asked all the same."""


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
    settings: Settings = Settings()
    versions: dict[str, str] = {}
    prices_date: str | None = None
    started_at: datetime
    finished_at: datetime | None = None
    status: Literal["running", "finished", "interrupted"] = "running"
    planned: int = 0
    """How many trials the run is to have."""
    tags: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class Price(Noun, frozen=True, kw_only=True):
    """What a model costs, in US dollars per million tokens, with where and when that was read."""

    input: float
    output: float
    cached: float | None = None
    source: str = field(default="")
    date: str = field(default="")
