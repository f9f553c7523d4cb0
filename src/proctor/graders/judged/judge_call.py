"""Calls judges for a grader: sends the prompt, reads the replies, and retries unreadable ones.

`prompt_sections.py` builds the prompt, `reply_parser.py` reads a reply, and `voting.py` combines several
judgments into one result.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from proctor import codec
from proctor.errors import CannotScore, TargetError, TimeLimitExceeded
from proctor.graders.judged.prompt_sections import (
    SYSTEM_PROMPT,
    PromptParts,
    default_sections,
    format_parts,
    get_images,
    is_empty,
    make_prompt_code,
)
from proctor.graders.judged.reply_parser import (
    NO_QUOTES,
    UnreadableReply,
    is_only_quoted,
    strip_thinking,
    unwrap_json_string,
    variants_without_quotes,
)
from proctor.graders.judged.voting import JudgeReading, PanelRule, Vote, decide
from proctor.graders.text import clip
from proctor.grading import run_isolated
from proctor.model import Case, GraderResult, Judgment, Message, Output, Prompt
from proctor.protocols import GradingInput, JudgeTarget
from proctor.stats import reaches

MAX_ANSWER_LENGTH = 1_000_000
"""In characters; a longer answer is not sent to a judge, as no model reads more."""
MAX_REPLY_LENGTH = 1_000_000
"""In characters; a judge's longer reply is not read."""

MAX_REPAIRS = 2
"""How often a judge is called again after an unreadable reply."""

DEFAULT_PASS_AT = 0.8
"""The lowest score that passes unless the assertion or the grader sets another."""

REPAIR_PROMPT = (
    "That reply cannot be read.{wrong} Do not explain it. Judge the same material again.\n\n{form}"
)

_PLACEHOLDER = re.compile(r'"([^"]{20,})"')
"""A placeholder in the reply form; small models copy it, with the verdict beside it."""
_REPEATS_THE_EXAMPLE = "It repeats the example of the form and judges nothing."


class JudgeRequest(Struct, frozen=True, kw_only=True):
    """A grader's request to a judge, and how its reply is read."""

    heading: str
    """The task, or the line above the question."""
    question: str = ""
    """The suite's question to the judge."""
    form: str
    """The paragraph that says how to reply."""
    schema: dict[str, Any]
    read: Callable[[str], JudgeReading | None]
    """Reads a reply; returns None, or raises `UnreadableReply` with a reason, if it cannot."""
    before: PromptParts = ()
    """The beginning of the system message, from the suite's own prompt."""
    system: str = SYSTEM_PROMPT
    material: PromptParts | None = None
    """The sections before the heading; None for messages, reference and answer."""
    template: str = ""
    """The suite's own prompt before the case is filled in; part of the prompt's digest."""
    evaluator: str | None = None
    """The name of the suite's own prompt, if it may have several."""
    judge: str | None = None
    """The name of a judge for this grader only."""
    temperature: float | None = None
    """None leaves it to the judge's target."""
    rule: PanelRule | None = None
    """The assertion's own rule, which replaces the run's default, `majority`."""

    @property
    def digest(self) -> str:
        """The digest of the prompt before the case is filled in."""
        fixed = (self.system, self.template, self.heading, self.form, REPAIR_PROMPT)
        return codec.prompt_digest("\n\n".join(filter(None, fixed)))


def object_schema(**properties: Any) -> dict[str, Any]:
    """Returns the JSON Schema of an object that has all of these properties and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def get_judges(grading_input: GradingInput, name: str | None) -> tuple[JudgeTarget, ...]:
    """Returns the judge of that name if there is one, else the judges of the run."""
    return (
        (grading_input.named_judges[name],)
        if name is not None and name in grading_input.named_judges
        else grading_input.judges
    )


def get_pass_at(grading_input: GradingInput) -> float:
    """Returns the lowest score with which a judgment passes the answer."""
    return DEFAULT_PASS_AT if grading_input.pass_at is None else grading_input.pass_at


def check_judge(judge: str | None, temperature: float | None) -> None:
    """Checks the parameters with which a grader chooses its judge.

    Raises:
        ValueError: a parameter is invalid.
    """
    if judge is not None and not judge.strip():
        raise ValueError("`judge` is empty; write the name of a target.")
    if temperature is not None and not 0 <= temperature <= 2:
        raise ValueError(f"`temperature` is {temperature:g}; it must be a number from 0 to 2.")


async def call_judges(grading_input: GradingInput, *requests: JudgeRequest) -> GraderResult:
    """Calls the judges and returns their combined result; an empty answer fails without a call.

    Every judge gets each request as often as the run says, each time with another `repeat`, so that seeds and
    cached replies differ. Earlier judgments of this answer replace the first repeats. The run's rule decides,
    or the assertion's own if the run has the default rule. Unreadable replies count for neither side.

    Args:
        grading_input: the answer and the judges.
        requests: at least one, all for the same judges.

    Raises:
        CannotScore: there is no judge, or the readable replies do not decide.
    """
    judges = get_judges(grading_input, requests[0].judge)
    if not judges:
        raise CannotScore("This check needs a judge, but the run has none; choose one with --judge.")
    if is_empty(grading_input.output):
        return GraderResult(value=0.0, passed=False, reason="The answer is empty, so no judge was called.")
    if len(grading_input.output.text) > MAX_ANSWER_LENGTH:
        raise CannotScore(
            f"The answer has {len(grading_input.output.text):,} characters, but a judge can read at most "
            f"{MAX_ANSWER_LENGTH:,}; have the target write shorter answers."
        )
    opinions = await grading_input.gather(
        pending
        for judge in judges
        for request in requests
        for pending in _request_votes(grading_input, judge, request)
    )
    own = requests[0].rule if grading_input.judge_rule == "majority" else None
    return decide(opinions, own or grading_input.judge_rule)


def _request_votes(
    grading_input: GradingInput, judge: JudgeTarget, request: JudgeRequest
) -> Iterator[Awaitable[Vote]]:
    """Yields one vote per repeat, the recorded ones first."""
    recorded = _recorded_votes(grading_input, judge, request)[: grading_input.judge_repeats]
    yield from map(_return_vote, recorded)
    if len(recorded) == grading_input.judge_repeats:
        return
    prompt = Prompt(
        messages=build_messages(
            grading_input.case, grading_input.output, request, turned=grading_input.reverse_sections
        ),
        case_id=grading_input.case.id,
        response_schema=request.schema,
        temperature=request.temperature,
    )
    for repeat in range(len(recorded), grading_input.judge_repeats):
        yield _call_judge(judge, replace(prompt, repeat=repeat), request, grading_input)


async def _return_vote(opinion: Vote) -> Vote:
    return opinion


def _recorded_votes(grading_input: GradingInput, judge: JudgeTarget, request: JudgeRequest) -> list[Vote]:
    """Returns the judge's recorded votes, as far as they can be read."""
    call_key = (judge.name, request.evaluator, request.digest)
    same = [
        record
        for record in grading_input.prior_judgments
        if (record.judge, record.evaluator, record.prompt_digest) == call_key
    ]
    opinions = []
    for judgment in sorted(same, key=lambda record: record.nth):
        reading, _ = _read_reply(request, judgment.raw, grading_input)
        if reading is not None:
            readings = (_with_reading(replace(judgment, cached=True), reading),)
            opinions.append(_make_vote(judge, request, readings, reading))
    return opinions


def build_messages(
    case: Case, output: Output, request: JudgeRequest, *, turned: bool = False
) -> tuple[Message, ...]:
    """Returns the system message and the user message for a judge, with their images.

    Args:
        case: the case.
        output: its answer.
        request: the request; its own `material`, if any, replaces the default sections.
        turned: whether the default sections come in reverse order.
    """
    material = default_sections(case, output, turned=turned) if request.material is None else request.material
    parts = (*material, request.heading, request.question, request.form)
    content = (*request.before, *parts)
    code, images = make_prompt_code(content), get_images(content)
    text = format_parts(parts, code)
    return (
        Message(
            role="system", content=format_parts((*request.before, request.system.format(tag=code)), code)
        ),
        Message(role="user", content=text, parts=(text, *images) if images else ()),
    )


async def _call_judge(
    judge: JudgeTarget, prompt: Prompt, request: JudgeRequest, grading_input: GradingInput
) -> Vote:
    """Calls one judge, and again with its earlier replies while they are unreadable."""
    judgments: list[Judgment] = []
    caller = f"The judge {judge.name!r}" + (f" by {request.evaluator!r}" if request.evaluator else "")
    wrong = ""
    for _ in range(1 + MAX_REPAIRS):
        try:
            reply = await judge.target.answer(prompt)
        except TargetError as error:
            return _make_vote(judge, request, judgments, None, f"{caller} did not answer: {error}")
        reading, wrong = await _read_isolated(request, reply.text, grading_input)
        judgment = Judgment(
            judge=judge.name,
            prompt_digest=request.digest,
            evaluator=request.evaluator,
            raw=reply.text,
            usage=reply.usage,
            cost_usd=reply.cost_usd,
            cached=reply.cached,
        )
        judgments.append(_with_reading(judgment, reading))
        if reading is not None:
            return _make_vote(judge, request, judgments, reading)
        again = (
            Message(role="assistant", content=reply.text or "(no text)"),
            Message(
                role="user", content=REPAIR_PROMPT.format(wrong=wrong and f" {wrong}", form=request.form)
            ),
        )
        prompt = replace(prompt, messages=prompt.messages + again)
    problem = f"{caller} gave no readable verdict in {len(judgments)} replies; " + (
        f"of the last: {wrong}" if wrong else f"the last is {clip(judgments[-1].raw, 60)!r}."
    )
    return _make_vote(judge, request, judgments, None, problem)


def _make_vote(
    judge: JudgeTarget,
    request: JudgeRequest,
    judgments: Sequence[Judgment],
    reading: JudgeReading | None,
    problem: str = "",
) -> Vote:
    return Vote(
        judge=judge.name,
        evaluator=request.evaluator,
        reading=reading,
        problem=problem,
        judgments=tuple(judgments),
    )


async def _read_isolated(
    request: JudgeRequest, reply: str, grading_input: GradingInput
) -> tuple[JudgeReading | None, str]:
    if len(reply) > MAX_REPLY_LENGTH:
        return None, f"It has {len(reply):,} characters, and only {MAX_REPLY_LENGTH:,} are read."
    alone = GradingInput(
        case=Case(id=grading_input.case.id, input=()),
        output=Output(text=grading_input.output.text),
        pass_at=grading_input.pass_at,
    )
    try:
        size = len(reply) + len(grading_input.output.text)
        return await run_isolated(grading_input, partial(_read_reply, request, reply, alone), size)
    except CannotScore as problem:
        return None, str(problem)
    except TimeLimitExceeded as limit:
        return None, f"Reading it did not end within {limit}."


def _read_reply(
    request: JudgeRequest, reply: str, grading_input: GradingInput
) -> tuple[JudgeReading | None, str]:
    """Reads a reply; returns the reading, or None and why it is unreadable, if known.

    An unreadable reply is read again without its quotes of the answer. That can only fail the answer, so that
    no answer gains by being quoted. A passing verdict that occurs only in a quote does not count.
    """
    reply, answer = unwrap_json_string(reply), grading_input.output.text

    def passes(text: str) -> bool:
        reading, _ = _read_text(request, text, grading_input.pass_at)
        return reading is not None and reading.passed

    reading, wrong = _read_text(request, reply, grading_input.pass_at)
    if reading is not None:
        if reading.passed and is_only_quoted(reply, answer, request.form, passes):
            return None, f"Its verdict stands only in what it quotes. {NO_QUOTES}"
        return reading, ""
    for own in variants_without_quotes(reply, answer, request.form):
        reading, _ = _read_text(request, own, grading_input.pass_at)
        if reading is not None:
            return (None, wrong) if reading.passed else (reading, "")
    return None, wrong


def _read_text(request: JudgeRequest, reply: str, pass_at: float | None) -> tuple[JudgeReading | None, str]:
    examples = _PLACEHOLDER.findall(request.form)
    try:
        reading = request.read(strip_thinking(reply))
    except UnreadableReply as error:
        return None, str(error)
    if reading is None:
        return None, _REPEATS_THE_EXAMPLE if any(text in reply for text in examples) else ""
    if any(text in examples for text in (reading.feedback, *(entry.evidence for entry in reading.entries))):
        return None, _REPEATS_THE_EXAMPLE
    if pass_at is None:
        return reading, ""
    return replace(reading, passed=reading.gate is None and reaches(reading.value, pass_at)), ""


def _with_reading(judgment: Judgment, reading: JudgeReading | None) -> Judgment:
    """Returns the judgment with the values of its reading."""
    if reading is None:
        return judgment
    return replace(judgment, passed=reading.passed, value=reading.value, feedback=reading.feedback)
