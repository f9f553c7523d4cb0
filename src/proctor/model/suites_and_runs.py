"""Cases, suites, targets, trials and runs.

Names of times end in their unit (`_ms`, `_s`), those of money in `_usd`; digests are ``sha256:`` and 64
hexadecimal digits. Import these types from `proctor.model`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, Literal

from msgspec import field

from proctor.model.messages import Attachment as Attachment
from proctor.model.messages import Hook as Hook
from proctor.model.messages import Hooks as Hooks
from proctor.model.messages import Message as Message
from proctor.model.messages import Record as Record
from proctor.model.messages import Repository as Repository
from proctor.model.messages import ResponseFormat as ResponseFormat
from proctor.model.messages import Tool as Tool
from proctor.model.messages import ToolCall as ToolCall
from proctor.model.messages import Workspace as Workspace
from proctor.model.outputs import ChoiceLikelihood as ChoiceLikelihood
from proctor.model.outputs import Evidence as Evidence
from proctor.model.outputs import Failure as Failure
from proctor.model.outputs import GraderResult as GraderResult
from proctor.model.outputs import Judgment as Judgment
from proctor.model.outputs import Label as Label
from proctor.model.outputs import Output as Output
from proctor.model.outputs import Score as Score
from proctor.model.outputs import TokenLogprob as TokenLogprob
from proctor.model.outputs import Usage as Usage
from proctor.model.outputs import Verdict as Verdict
from proctor.model.outputs import VerdictShift as VerdictShift


class UnreadableRow(Record, frozen=True, kw_only=True):
    """A part of a file that should be a case, or several, and cannot be read; shared by all its problems."""

    path: str
    line: int
    cases: int = 1
    """The number of cases in it."""
    is_rest: bool = False
    """Whether it is the rest of its file, an unknown number of cases."""


class Problem(Record, frozen=True, kw_only=True):
    """An error or a warning about a file that a user wrote, with its location."""

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
    row: UnreadableRow | None = None
    """The row that it makes unreadable; None for a problem of the file or of a case that was read."""
    repeated: bool = False
    """Whether an earlier row has the same problem, so that it is not listed again."""

    def __str__(self) -> str:
        where = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{where}: {self.level}: {self.message}"


# --- suites and cases --------------------------------------------------------------------------------------


class Assertion(Record, frozen=True, kw_only=True):
    """One check of a case: a grader, its parameters, and its weight.

    Examples:
        >>> from proctor import Assertion
        >>> check = Assertion(grader="contains", params={"value": "Lima"}, weight=2)
        >>> check.grader, check.params
        ('contains', {'value': 'Lima'})
    """

    grader: str
    params: dict[str, Any] = {}
    weight: float = 1.0
    required: float | None = None
    """The gate: a score below it fails the trial, whatever the other scores are. None means no gate."""
    negated: bool = False
    pass_at: float | None = None
    """The lowest value that passes; None leaves that to the grader."""
    label: str | None = None
    on: Literal["answer", "reasoning"] = "answer"
    """What is graded: the answer, or the reasoning that came with it. Without reasoning it is UNSCORED."""


class PassRule(Record, frozen=True, kw_only=True):
    """The rule by which the scores of a trial pass."""

    threshold: float | None = None
    """The lowest weighted mean of the scores that passes; None if every assertion must pass."""


class Case(Record, frozen=True, kw_only=True):
    """One prompt of a suite, and everything needed to grade an answer to it.

    Examples:
        >>> import proctor
        >>> check = proctor.Assertion(grader="contains", params={"value": "4"})
        >>> prompt = proctor.Message(role="user", content="What is 2 + 2?")
        >>> case = proctor.Case(id="sum", input=(prompt,), assertions=(check,))
        >>> proctor.run([case], target=lambda question: "It is 4.", store=None).pass_rate
        1.0
    """

    id: str
    input: tuple[Message, ...]
    expected: Any = None
    criteria: str | None = None
    assertions: tuple[Assertion, ...] = ()
    tags: tuple[str, ...] = ()
    category: str | None = None
    metadata: dict[str, Any] = {}
    repeats: int | None = None
    """The number of repeats that the suite asks for; None leaves it to the run."""
    pass_rule: PassRule | None = None
    """Overrides the suite's rule."""
    target: str | None = None
    """The target that is called instead of the run's."""
    only_targets: tuple[str, ...] = ()
    """The targets on which the case is run; empty for all."""
    workspace: Workspace | None = None
    form: ResponseFormat | None = None
    """The answer format and the tools."""
    variables: tuple[str, ...] = ()
    """The environment variables that it refers to as `${{ NAME }}`; references are stored, never values."""
    vars: dict[str, Any] = {}
    """The values for `{{ name }}` in the prompt of a run."""
    prefix: str = ""
    """Goes before the text of a run's prompt."""
    suffix: str = ""
    """Goes after it."""
    prompts: tuple[str, ...] | None = None
    """The names of the suite's prompts that it is run with; None for all. Empty: it has a prompt of its own,
    and is run once, without that of the run."""
    notes: dict[str, Any] = {}
    """Fields of its file that have no effect, as they were written."""
    problems: tuple[Problem, ...] = ()
    """The errors in its file, with paths relative to the suite's folder. A case with problems is a
    placeholder that is never sent; its trials are ERROR."""


class SplitRule(Record, frozen=True, kw_only=True):
    """How a suite is divided into dev and holdout cases."""

    ratio: float = 0.2
    seed: int = 42
    method: Literal["rank", "shuffle"] = "rank"
    """`rank`: by a hash of each case's id, so that adding cases moves few others. `shuffle`: shuffled from
    file order."""


class PromptTemplate(Record, frozen=True, kw_only=True):
    """Messages with `{{ variables }}`, which each case of a run fills in.

    A template that only has messages with the role `system` or `developer` goes before the messages of the
    case, and any other replaces them.

    Examples:
        >>> import proctor
        >>> question = proctor.Message(role="user", content="Name the capital of {{ input }}.")
        >>> prompt = proctor.PromptTemplate(name="capital", messages=(question,))
        >>> rows = [{"input": "Peru", "expected": "Lima"}]
        >>> run = proctor.run(rows, target="echo", prompts=prompt, store=None)
        >>> next(run.trials()).answer
        'Name the capital of Peru.'
    """

    name: str
    messages: tuple[Message, ...]
    """Texts only: no attachments and no tool calls."""
    is_literal: bool = False
    """Whether its texts have no variables, and are sent with their double braces."""


class SuiteDefaults(Record, frozen=True, kw_only=True):
    """A suite's own defaults for options that the user does not give; part of no digest."""

    targets: tuple[str, ...] = ()
    prompts: tuple[PromptTemplate, ...] = ()
    concurrency: int | None = None
    budget_usd: float | None = None
    cache: bool | None = None
    reuse: bool | None = None
    cluster: str | None = None


class Suite(Record, frozen=True, kw_only=True):
    """The header of a suite; its cases are streamed separately.

    Examples:
        >>> import proctor
        >>> rows = [{"input": "Lima", "expected": "Lima"}]
        >>> suite = proctor.run(rows, target="echo", name="capitals", store=None).suite
        >>> suite.name, suite.version, suite.case_count
        ('capitals', 'v1', 1)
    """

    name: str
    dialect: str
    version: str | None = None
    """Its version in the store, such as `v2`; None before it is saved."""
    declared_version: str | None = None
    """The version stated in its file."""
    description: str | None = None
    pass_rule: PassRule = PassRule()
    split_rule: SplitRule | None = None
    no_holdout: bool = False
    """Whether its file, the web page or a flag disables the holdout; False if it only has no split rule."""
    case_count: int = 0
    digest: str = ""
    """The digest of its sorted cases, defaults and pass rule, without name, order, dialect and path."""
    content: str = ""
    """The digest of its cases as stored, with tags, metadata and order; a store finds cases by it."""
    defaults: SuiteDefaults = SuiteDefaults()
    repeats_rule: Literal["each", "any", "mean", "lower_bound"] = "each"
    """How the repeats of a case count. `each`: every trial counts by itself. Otherwise the case counts once:
    by any passed trial, by the mean of the scores, or by the lower end of that mean's interval."""
    folder: str = ""
    """The folder to which paths of its cases are relative."""
    notes: dict[str, Any] = {}
    """Fields of its file that have no effect, as they were written."""
    suite_hash: str | None = None
    """The hash by which dialect pramana publishes a suite; None in other dialects."""

    @property
    def title(self) -> str:
        """Its name, with its version in the store: `my_suite v2`."""
        return self.name if self.version is None else f"{self.name} {self.version}"


# --- targets and trials ------------------------------------------------------------------------------------


class Params(Record, frozen=True, kw_only=True):
    """How a model is called; None leaves a parameter to the endpoint.

    `parameters.py` says which values are valid, and each kind of target which parameters it takes.

    Examples:
        >>> from proctor.model import Params
        >>> Params(top_p=0.9, stop=("END",)).further
        {'top_p': 0.9, 'stop': ('END',)}
    """

    temperature: float | None = 0.0
    seed: int | None = 42
    max_tokens: int | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: tuple[str, ...] = ()
    """The texts that end an answer."""
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    reasoning_effort: str | None = None
    """How long the model thinks: a word such as `low`, as its service defines it."""
    thinking_budget: int | None = None
    """The maximum number of tokens to think; 0 turns thinking off where the service allows that."""
    verbosity: str | None = None
    service_tier: str | None = None
    logprobs: int | None = None
    """The number of likeliest tokens to report at each position, besides the chosen one; 0 for that alone."""
    prompt_cache: bool = False
    """Whether the beginning of each prompt is marked to be cached by the service."""
    stream: bool = False
    """Whether answers are streamed, which measures the time to the first token."""
    api_format: Literal["chat", "responses"] = "chat"
    """The interface of OpenAI that is called."""
    extra_body: dict[str, Any] = {}
    """Fields that are added unchanged to the body of each request."""
    headers: dict[str, str] = {}
    """Headers that are added to each request; `${{ NAME }}` is stored as written and replaced on opening."""

    @property
    def further(self) -> dict[str, Any]:
        """The parameters that are set, besides temperature, seed and maximum tokens."""
        values = {name: getattr(self, name) for name in FURTHER_PARAMS}
        return {name: value for name, value in values.items() if value != _DEFAULT_PARAMS[name]}


FURTHER_PARAMS: Final = Params.__struct_fields__[3:]
"""The names of all parameters besides temperature, seed and maximum tokens; digests have them only if set."""
_DEFAULT_PARAMS: Final = {name: getattr(Params(), name) for name in FURTHER_PARAMS}


class TargetSpec(Record, frozen=True, kw_only=True):
    """Everything needed to open a target again; never a secret."""

    name: str
    """What the user wrote, such as `openai:gpt-5.2`."""
    kind: str
    model: str = ""
    """The part after the kind: a model, a file, a command line or a function."""
    endpoint: str | None = None
    """The base URL, if there is one."""
    params: Params = Params()
    options: dict[str, Any] = {}
    """Other settings of its kind; `${{ NAME }}` is stored as written and replaced on opening."""
    judge: TargetSpec | None = None
    """The judge of its answers, unless the run or the grader names another."""
    fallbacks: tuple[TargetSpec, ...] = ()
    """The targets that are called, in this order, when it fails permanently."""
    workers: int | None = None
    """The maximum number of concurrent calls; None leaves it to the run."""
    retries: int | None = None
    """The maximum number of retries; None leaves it to the run."""


class Prompt(Record, frozen=True, kw_only=True):
    """The request to a target for one trial.

    Examples:
        >>> import proctor
        >>> def answer(prompt: proctor.Prompt) -> str:
        ...     return prompt.messages[-1].content.upper()
        >>> rows = [{"input": "lima", "expected": "LIMA"}]
        >>> proctor.run(rows, target=answer, store=None).passed
        1
    """

    messages: tuple[Message, ...]
    case_id: str = ""
    repeat: int = 0
    workspace: str | None = None
    """The folder to work in."""
    response_schema: dict[str, Any] | None = None
    """A JSON schema for the answer, for endpoints that can enforce one."""
    json_answer: bool = False
    """Whether the answer should be JSON of any shape, for endpoints that can enforce that."""
    tools: tuple[Tool, ...] = ()
    """The tools that the target may call; its calls are not executed."""
    temperature: float | None = None
    """Overrides the target's temperature; None keeps it."""
    params: dict[str, Any] = {}
    """The case's own parameters by their names in `Params`, which override the target's."""
    choices: tuple[str, ...] = ()
    """The answers to choose from: the target reports how likely each one is, instead of writing one."""
    choice_delimiter: str | None = None
    """Goes before each choice; None for a space, or for nothing after a chat template."""


class Trial(Record, frozen=True, kw_only=True):
    """One attempt at one case: its output or its failure, and its scores.

    Examples:
        >>> from datetime import UTC, datetime
        >>> from proctor import Output, Trial
        >>> moment = datetime(2026, 1, 31, tzinfo=UTC)
        >>> trial = Trial(case_id="sum", position=0, sent="…", started_at=moment, output=Output(text="4"))
        >>> trial.output.text
        '4'
    """

    case_id: str
    position: int
    """The position of the case in its suite, from 0."""
    repeat: int = 0
    sent: str
    """The digest of what the target received."""
    split: str | None = None
    output: Output | None = None
    scores: tuple[Score, ...] = ()
    failure: Failure | None = None
    started_at: datetime
    source_run: str | None = None
    """The run from which the output was reused, if it was."""
    graded_in: str | None = None
    """The run that graded a reused output; None if that was not recorded."""
    target: str | None = None
    """The target that was called, if the case names its own."""


# --- runs --------------------------------------------------------------------------------------------------


class Shard(Record, frozen=True, kw_only=True):
    """One of several parts of a selection; `shards.py` says which cases are in it."""

    index: int
    """From 0 to `count` - 1."""
    count: int
    """The number of shards."""

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    @property
    def title(self) -> str:
        """Its name in sentences: `shard 1 of 4`."""
        return f"shard {self.index:,} of {self.count:,}"


class Selection(Record, frozen=True, kw_only=True):
    """Which cases of a suite are run."""

    split: Literal["dev", "holdout", "all"] = "all"
    tags: tuple[str, ...] = ()
    """Selects cases with any of these tags. Here and below, `a,b` means any of the tags a and b."""
    exclude_tags: tuple[str, ...] = ()
    """Selects cases with none of these tags."""
    all_tags: tuple[str, ...] = ()
    """Selects cases with all of these tags."""
    categories: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    """Selects cases whose id matches any of these globs."""
    limit: int | None = None
    failed_in: str | None = None
    """Selects the cases whose last result up to this run is not PASS."""
    case_ids: tuple[str, ...] = ()
    """The ids of these cases; empty if `failed_in` is None."""
    shard: Shard | None = None
    """Selects a part of what everything else selects, the limit included."""


JudgeRule = Literal["majority", "all", "any"]
"""How many of the judgments of one answer must pass it."""
GateMode = Literal["point", "interval"]
"""What a gate compares: the pass rate itself, or its 95 % interval."""


MAX_ANSWER_BYTES = 16 * 2**20
"""The default limit of the size of an answer."""


BATCH_ENGINE = "batch"
"""The engine that sends requests in batches, at half the price."""


class Settings(Record, frozen=True, kw_only=True):
    """The settings of a run."""

    selection: Selection = Selection()
    repeats: int | None = None
    """How often each case is sent; None for once, or as often as the case itself says."""
    concurrency: int = 32
    timeout_s: float = 120.0
    retries: int = 4
    max_answer_bytes: int = MAX_ANSWER_BYTES
    """The maximum size of an answer of a target or a judge; a larger one is an error."""
    threshold: float | None = None
    min_pass_rate: float | None = None
    gate_mode: GateMode = "point"
    """What `min_pass_rate` is compared with."""
    until: float | None = None
    """The run stops when half the width of its confidence sequence is at most this, within 0..1."""
    stop_when_shown: bool = False
    """The run stops when its confidence sequence is all above or all below `min_pass_rate`."""
    order_seed: int | None = None
    """Cases are sent in an order shuffled by this seed; None for suite order."""
    allow_errors: int = 0
    cluster: str | None = None
    """The field that says which cases are related, as `clusters.make_cluster_lookup` takes it; None if each
    is independent of the others."""
    judge_repeats: int = 1
    """How often each judge is called for one answer."""
    judge_rule: JudgeRule = "majority"
    reuse: bool = False
    """Whether answers and judgments of earlier runs are reused if the requests are the same."""
    cache: bool = False
    budget_usd: float | None = None
    max_failures: int | None = None
    """The run stops after this number of trials that ended as errors."""
    keep_workspaces: Literal["none", "failed", "all"] = "failed"
    engine: str = "asyncio"
    """The engine that executes the trials; it affects no answer and no verdict."""
    interleave: bool = False
    """Whether its calls and those of the other runs of its suite and group were made in turns."""

    @property
    def is_batch(self) -> bool:
        """Whether its requests are sent in batches, which services answer later at half the price."""
        return self.engine == BATCH_ENGINE

    @property
    def is_watched(self) -> bool:
        """Whether the run may stop by what it shows, so that only a confidence sequence holds for it."""
        return self.until is not None or self.stop_when_shown


class RunSlot(Record, frozen=True, kw_only=True):
    """The position of a run among the runs of its group on the same suite."""

    target: str = ""
    prompt: str | None = None
    """The name of its prompt; None if its cases are sent as they are."""
    first_prompt: bool = True
    """Whether its prompt is the first; only that one runs cases with a prompt of their own."""
    first: bool = True
    """Whether it is the first, the only one that runs cases with a target of their own."""
    alone: bool = True
    """Whether it is the only run; then cases restricted to certain targets are run, whatever the target."""


SignatureStatus = Literal["trusted", "unknown", "unsigned"]
"""The result of checking the signatures of a bundle."""


StopReason = Literal["until", "shown", "ruled out"]
"""Why a run stopped early: its interval was narrow enough, or its gate was shown or ruled out."""


class EarlyStop(Record, frozen=True, kw_only=True):
    """What is known of a run that stopped by its own settings, before its last case."""

    reason: StopReason
    cases: int
    """The number of cases that are looked at, in the order in which they were sent: also those whose calls
    were in flight when enough was known, and ended."""
    planned_cases: int
    interval: tuple[float, float] | None
    """The confidence sequence of the pass rate, with unmeasured trials as failed at the low end and as passed
    at the high end; None if none was measured. It is the interval of the run, wherever it is shown."""
    fixed_interval: tuple[float, float] | None
    """The same for the interval that as many cases give in a run that does not stop by itself."""
    gate_range: tuple[float, float]
    """The range of the gate, as `run_gate.gate_range` returns it for these cases: in the mode `interval` the
    same confidence sequence, in the mode `point` the pass rates without an interval."""


class Run(Record, frozen=True, kw_only=True):
    """One execution of a suite on one target.

    Examples:
        >>> import proctor
        >>> rows = [{"input": "Lima", "expected": "Lima"}]
        >>> run = proctor.run(rows, target="echo", repeats=2, store=None).run
        >>> run.target.name, run.settings.repeats, run.status
        ('echo', 2, 'finished')
    """

    id: str
    group: str
    """Shared by all runs that one command started together."""
    seat: RunSlot = RunSlot()
    suite: Suite
    target: TargetSpec
    prompt: PromptTemplate | None = None
    """What its cases fill in; None if they are sent as they are."""
    judges: tuple[TargetSpec, ...] = ()
    judges_given: bool = False
    """Whether the user chose the judges; then judges named by graders or targets are not called."""
    named_targets: tuple[TargetSpec, ...] = ()
    """The targets that cases name instead of the run's."""
    named_judges: tuple[TargetSpec, ...] = ()
    """The judges that graders name."""
    embedder: str | None = None
    """The embedding model: `local`, or a model with its address; None if no grader needs one."""
    settings: Settings = Settings()
    versions: dict[str, str] = {}
    prices_date: str | None = None
    started_at: datetime
    finished_at: datetime | None = None
    status: Literal["running", "finished", "interrupted"] = "running"
    stopped: str | None = None
    """Why Proctor stopped the run before its last trial, as a sentence; None if it did not."""
    early_stop: EarlyStop | None = None
    """Why the run finished before its last case; then `planned` is the number of trials that it has."""
    planned: int = 0
    """The number of trials that the run should have."""
    regrade_of: str | None = None
    """The run whose answers it grades again; it calls no target."""
    retry_of: str | None = None
    """The run of which it sends the errors again; the other trials are that run's."""
    imported: SignatureStatus | None = None
    """The signature status of the bundle from which its answers were imported; None if they were not."""
    merged_from: tuple[str, ...] = ()
    """The runs whose trials it was made of by `proctor runs merge`, and those that they were made of."""
    tags: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def prompt_name(self) -> str | None:
        """The name of its prompt, if it has one."""
        return None if self.prompt is None else self.prompt.name

    @property
    def target_title(self) -> str:
        """The name of its target, with that of its prompt: `gpt-5 · terse`."""
        return self.target.name if self.prompt is None else f"{self.target.name} · {self.prompt.name}"


class HoldoutAccess(Record, frozen=True, kw_only=True):
    """One access to a holdout: its pass rate was printed, or its answers were revealed."""

    suite: str
    """The digest of the suite."""
    run: str
    kind: Literal["rate", "reveal"]
    at: datetime
    person: str | None = None
    """Who looked at a page or used the API; None for a command, of which each is counted."""


class Calibration(Record, frozen=True, kw_only=True):
    """One measurement of how well a judge agrees with people's labels of the same answers."""

    judge: str
    """The digest of the judge's target."""
    name: str
    """What the user wrote for it."""
    at: datetime
    labels: str
    """The digest of the labels."""
    count: int
    """The number of labelled answers with a verdict of the judge."""
    unscored: int = 0
    """The number of labelled answers on which the judge gave no verdict."""
    for_doubt: int = 0
    """How many of `count` and `unscored` were drawn because judges doubt them."""
    agreed: int
    """The number of verdicts that equal the label."""
    passed: int = 0
    """How many of `count` are labelled as passed."""
    true_passes: int = 0
    """How many of `passed` the judge passes too."""
    kappa: float | None = None
    """Cohen's kappa, from -1 to 1; None if judge and labels only ever give one and the same verdict."""
    kappa_ci95: tuple[float, float] | None = None
    prompts: tuple[str, ...] = ()
    """The digests of the judge prompts, sorted."""
    repeats: int = 1
    """How often the judge was called for each answer with the usual prompt."""
    repeated: int = 0
    """The number of answers with more than one verdict on the usual prompt."""
    steady: int = 0
    """How many of `repeated` got the same verdict each time."""
    position: VerdictShift | None = None
    """The shift when the sections of the prompt are reversed; None if that was not measured."""
    length: VerdictShift | None = None
    """The shift when every answer is lengthened by sentences without content."""
    length_failed: VerdictShift | None = None
    """The same shift, measured only on answers labelled as failed."""
    people_twice: int = 0
    """The number of answers labelled by more than one person."""
    people_agreed: int = 0
    """How many of `people_twice` got the same label from everyone."""
    people_alpha: float | None = None
    """Krippendorff's alpha of people among themselves, the upper limit for any judge."""


class Price(Record, frozen=True, kw_only=True):
    """The price of a model in US dollars per million tokens, with its source and date."""

    input: float
    output: float
    cached: float | None = None
    """Tokens read from the cache; None if they cost as much as others."""
    cache_write: float | None = None
    """Tokens written to the cache; None if they cost as much as others."""
    source: str = field(default="")
    date: str = field(default="")
