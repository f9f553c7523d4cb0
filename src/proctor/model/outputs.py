"""Answers, scores, judgments, labels and failures.

Import these types from `proctor.model`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final, Literal, get_args

from proctor.model.messages import Attachment, Message, Record, ToolCall


class Verdict(StrEnum):
    """The result of a trial, or of one of its scores (`Score.outcome`).

    Examples:
        >>> import proctor
        >>> run = proctor.run([{"input": "Lima", "expected": "Rome"}], target="echo", store=None)
        >>> next(run.trials()).verdict is proctor.Verdict.FAIL
        True
        >>> proctor.Verdict.FAIL == "fail"
        True
    """

    PASS = "pass"
    FAIL = "fail"
    ERROR = "error"
    UNSCORED = "unscored"


class Usage(Record, frozen=True, kw_only=True):
    """The token counts of one call as the endpoint reported them."""

    input_tokens: int = 0
    """All tokens of the prompt, with `cached_tokens` and `cache_write_tokens`."""
    output_tokens: int = 0
    """All tokens that the model wrote, with `reasoning_tokens`."""
    cached_tokens: int = 0
    """Tokens that the service read from its cache."""
    cache_write_tokens: int = 0
    """Tokens that it wrote to its cache, if that has its own price."""
    reasoning_tokens: int = 0


class TokenLogprob(Record, frozen=True, kw_only=True):
    """One token of an answer with its natural logarithm of probability."""

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()
    """The likeliest tokens at its position, most likely first, each with its log-probability."""


ChoiceMetric = Literal["acc", "acc_norm", "acc_bytes"]
"""How choices are compared: `acc` by the sum of the log-probabilities of their tokens, `acc_norm` by that sum
divided by the number of their characters, `acc_bytes` by that sum divided by the number of their bytes."""
CHOICE_METRICS: Final[tuple[ChoiceMetric, ...]] = get_args(ChoiceMetric)


class ChoiceLikelihood(Record, frozen=True, kw_only=True):
    """How likely one choice is after the prompt, by the probabilities that a model gives to its tokens."""

    text: str
    logprob: float
    """The sum of the natural logarithms of the probabilities of its tokens."""
    tokens: int
    """The number of its tokens, with the delimiter before it."""
    is_greedy: bool = False
    """Whether each of its tokens is the likeliest one at its place."""
    splits_token: bool = False
    """Whether its first characters share a token with the prompt, so that they do not count."""


class Output(Record, frozen=True, kw_only=True):
    """One answer of a target, with its usage, latency and cost.

    Examples:
        >>> import proctor
        >>> def answer(prompt: proctor.Prompt) -> proctor.Output:
        ...     return proctor.Output(text="4", cost_usd=0.25)
        >>> rows = [{"input": "What is 2 + 2?", "expected": "4"}]
        >>> proctor.run(rows, target=answer, store=None).cost_usd
        0.25
    """

    text: str
    messages: tuple[Message, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = None
    latency_ms: float = 0.0
    """The time from sending the request that succeeded until its answer was read."""
    queue_ms: float = 0.0
    """The time spent waiting: for the concurrency limit, for `Retry-After`, between retries."""
    cost_usd: float | None = None
    """None if the price is unknown."""
    finish_reason: str | None = None
    model: str | None = None
    """The model as the endpoint reported it."""
    fingerprint: str | None = None
    """The system fingerprint as the endpoint reported it."""
    refused_params: tuple[str, ...] = ()
    """Parameters that the endpoint does not accept and that were therefore not applied."""
    duration_ms: float | None = None
    """The duration that the target itself reports."""
    file_changes: str | None = None
    """The changes to the files of the workspace, as a unified diff."""
    target: str | None = None
    """The fallback that answered, if one did."""
    cached: bool = False
    """Whether the answer comes from the cache: no request was sent, and nothing was paid."""
    reasoning: str | None = None
    """What the model thought before it answered, or the service's summary of it; part of no other text."""
    logprobs: tuple[TokenLogprob, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    """Images, audio and files in the answer."""
    first_token_ms: float | None = None
    """The time from sending the request until the first token of reasoning or text; None if not streamed."""
    response_id: str | None = None
    """The id of the answer as the endpoint reported it."""
    request_id: str | None = None
    """The id of the request in the reply's headers, which a service's support needs."""
    service_tier: str | None = None
    """The tier that answered, as the endpoint reported it."""
    choices: tuple[ChoiceLikelihood, ...] = ()
    """The likelihood of each choice of the prompt, in its order; `text` is then the likeliest one."""
    batch_id: str | None = None
    """The service's id of the batch that brought the answer, at half the price; then it has no latency."""

    @property
    def tokens_per_second(self) -> float | None:
        """The output tokens after the first, per second since the first; None if that was not measured."""
        if self.first_token_ms is None or self.usage is None or self.cached:
            return None
        seconds = (self.latency_ms - self.first_token_ms) / 1000
        tokens = self.usage.output_tokens - 1
        return tokens / seconds if seconds > 0 and tokens > 0 else None


class Judgment(Record, frozen=True, kw_only=True):
    """One reply of one judge."""

    judge: str
    prompt_digest: str
    nth: int = 0
    passed: bool | None = None
    value: float | None = None
    feedback: str | None = None
    evaluator: str | None = None
    """Which of the suite's judge prompts was used, if there are several."""
    raw: str = ""
    """The judge's reply, unparsed."""
    usage: Usage | None = None
    cost_usd: float | None = None
    cached: bool = False
    """Whether it comes from the cache or an earlier run: no request was sent, and nothing was paid."""


class Evidence(Record, frozen=True, kw_only=True):
    """One line of a score's evidence: what was checked, whether it passed, and the text that shows it."""

    text: str
    passed: bool | None = None
    evidence: str | None = None


class GraderResult(Record, frozen=True, kw_only=True):
    """The result of a grader for an answer, before weight, gate and negation are applied."""

    value: float | None
    """From 0 to 1; None if the answer could not be graded, never NaN."""
    passed: bool | None
    reason: str = ""
    entries: tuple[Evidence, ...] = ()
    judgments: tuple[Judgment, ...] = ()
    details: dict[str, Any] = {}
    gate: float | None = None
    """The grader's own gate: a value below it fails the trial."""


class Score(Record, frozen=True, kw_only=True):
    """The result of one assertion for one output.

    Examples:
        >>> from proctor import Score, Verdict
        >>> score = Score(grader="exact", name="exact", value=1.0, outcome=Verdict.PASS)
        >>> score.name, score.value, score.outcome.value
        ('exact', 1.0, 'pass')
    """

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
    entries: tuple[Evidence, ...] = ()
    judgments: tuple[Judgment, ...] = ()
    details: dict[str, Any] = {}
    on: Literal["answer", "reasoning"] = "answer"
    """What was graded."""


class Failure(Record, frozen=True, kw_only=True):
    """The reason why a trial has no output, or why its grading stopped."""

    stage: Literal["setup", "target", "grading"]
    kind: str
    """`timeout`, `http`, `connection`, `refused`, `missing`, `program`, `protocol`, `too-large`, `budget`,
    `workspace`, `worker` if its process ended, `not-asked` in a regrade, or `invalid` or `unsupported` for a
    case that cannot be run."""
    message: str


LabelDraw = Literal["random", "doubt"]
"""How an answer is drawn for labelling: each equally often, or those that the judges doubt more often."""


class Label(Record, frozen=True, kw_only=True):
    """One person's verdict on one answer. Labels do not grade answers; judges are measured against them."""

    case_id: str
    repeat: int = 0
    run: str = ""
    """The run of the answer; empty if the answer is stored with the label."""
    passed: bool
    by: str = ""
    """The person who labelled the answer."""
    note: str = ""
    """The person's reason."""
    drawn: LabelDraw | None = None
    """How the answer was chosen for labelling; None if it was chosen by hand, or that is not known."""
    doubt: float | None = None
    """How often a draw for doubt takes the answer, where it takes the mean answer once."""


class Comment(Record, frozen=True, kw_only=True):
    """What a person says about one answer, without a verdict on it. Comments are in no number."""

    run: str
    case_id: str
    repeat: int = 0
    by: str
    """The person who wrote it."""
    text: str


class VerdictShift(Record, frozen=True, kw_only=True):
    """How many verdicts of a judge change when it sees the same answers in a variant of the usual prompt."""

    both: int = 0
    """Answers that pass both ways. Only answers with a verdict on both prompts are counted."""
    to_pass: int = 0
    """Answers that pass only in the variant."""
    to_fail: int = 0
    """Answers that pass only with the usual prompt."""
    neither: int = 0
    moved: int = 0
    """Answers whose verdict changed in the variant, but not when the usual prompt was repeated."""
    restless: int = 0
    """Answers whose verdict changed when the usual prompt was repeated, but not in the variant."""

    @property
    def count(self) -> int:
        """The number of answers with both verdicts."""
        return self.both + self.to_pass + self.to_fail + self.neither
