"""Calibrates a judge: it judges labelled answers as in runs, then by prompts changed only in form."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from proctor.calibration import AnswerVerdicts, lengthen, majority, make_calibration
from proctor.codec import labels_digest, target_digest
from proctor.engines.asyncio_engine import GRACE_S
from proctor.env_substitution import mask
from proctor.graders import GRADERS
from proctor.graders.judged.judge_call import MAX_REPAIRS
from proctor.graders.judged.prompt_sections import is_empty
from proctor.grading import GradingContext, build_grader, score
from proctor.model import (
    Assertion,
    Calibration,
    Case,
    Message,
    Output,
    Prompt,
    TargetSpec,
    Verdict,
)
from proctor.protocols import Answerer, JudgeTarget, Store
from proctor.services.concurrency import gather_results
from proctor.services.judges.labelled_answers import AnswerSelection, LabelledAnswer, is_judged
from proctor.services.judges.review import is_for_doubt
from proctor.services.runs.execution.judge_proxy import JudgeProxy
from proctor.services.runs.execution.target_pool import TargetPool
from proctor.services.runs.reading.report import record_holdout_access
from proctor.targets.process.suite_programs import SuiteProgramRunner
from proctor.verdicts import UsageTotal, decide_verdict


class PromptVariant(Struct, frozen=True):
    """One way to prompt the judge about an answer."""

    shift: int = 0
    """Added to the repeat number, so that seeds differ."""
    is_reversed: bool = False
    is_lengthened: bool = False


class JudgeReply(Struct, frozen=True):
    """The judge's verdict on an answer."""

    verdict: Verdict
    reason: str
    prompts: tuple[tuple[Message, ...], ...]
    """The prompts, without requests to repair a reply; empty if the judge was not called."""


class LabelDifference(Struct, frozen=True, kw_only=True):
    """An answer on which the judge and people differ, or the judge gives no verdict."""

    case_id: str
    repeat: int
    label: bool
    verdict: Verdict
    reason: str
    """Empty for held-out answers."""
    answer: str = ""
    """The judged answer; empty for held-out answers."""
    notes: tuple[str, ...] = ()
    """What people wrote beside their labels."""


class CalibrationResult(Struct, frozen=True, kw_only=True):
    """A calibration, and details that are printed once and not stored."""

    calibration: Calibration
    differences: tuple[LabelDifference, ...]
    usage: UsageTotal
    tied: int
    """Answers with as many `pass` as `fail` labels; the judge was not called for them."""
    not_judged: int
    """Answers for which no judge is called, such as empty ones."""
    repeated_cases: int
    """Answers that are further repeats of a case."""
    unfinished: int = 0
    """Answers without all replies when the calibration was stopped."""


def prompt_variants(repeats: int) -> tuple[PromptVariant, ...]:
    """Returns the prompts about each answer: `repeats` times as in runs, then reversed, then lengthened."""
    return (
        *(PromptVariant(shift) for shift in range(repeats)),
        PromptVariant(is_reversed=True),
        PromptVariant(is_lengthened=True),
    )


class CallPlan(Struct, frozen=True):
    """The calls of a judge that a calibration makes."""

    answers: int
    """The number of answers that it judges."""
    verdicts: int
    """The number of its verdicts, several on each answer."""
    calls: int
    """The number of calls, if every reply can be read."""

    @property
    def max_calls(self) -> int:
        """The number of calls, if no reply can be read."""
        return self.calls * (1 + MAX_REPAIRS)


def plan_calls(answers: Iterable[LabelledAnswer], repeats: int) -> CallPlan:
    """Returns the calls about answers; a program that grades counts as one call."""
    calls = [_count_calls(answer.case) for answer in answers if needs_judge(answer)]
    times = len(prompt_variants(repeats))
    return CallPlan(len(calls), len(calls) * times, sum(calls) * times)


def _count_calls(case: Case) -> int:
    graders = (build_grader(assertion, GRADERS.get) for assertion in filter(is_judged, case.assertions))
    return sum(len(grader.judges()) for grader in graders)


def needs_judge(answer: LabelledAnswer) -> bool:
    """Whether a judge is called: people are not divided, and the answer is not empty."""
    assert answer.trial.output is not None
    label = majority([label.passed for label in answer.labels])
    return label is not None and not is_empty(answer.trial.output)


def store_calibration(store: Store, selection: AnswerSelection, result: CalibrationResult) -> None:
    """Stores a calibration, and records an access to each holdout: labels show how much of it people pass.

    Raises:
        StoreError: the store cannot be written.
    """
    if result.calibration.count:
        store.add_calibration(result.calibration)
    held_out = {
        answer.run.id: answer.run
        for answer in selection.answers
        if answer.run is not None and answer.trial.split == "holdout"
    }
    for run in held_out.values():
        record_holdout_access(store, run, "rate")


class JudgeCalibrator:
    """Calls one judge about labelled answers."""

    def __init__(self, targets: TargetPool, spec: TargetSpec) -> None:
        """Takes the judge; no request is sent before `calibrate`.

        Args:
            targets: opens the judge.
            spec: the judge.
        """
        self._targets = targets
        self._spec = spec
        self.usage = UsageTotal()
        """What the calls so far used."""
        self.verdict_count = 0
        """The number of verdicts so far."""
        self._prompts: set[str] = set()
        self._stopping = asyncio.Event()
        self._judge_proxy = JudgeProxy()
        self._programs: dict[str, SuiteProgramRunner] = {}
        """The programs that grade, by the folder of their suite."""

    def stop(self) -> None:
        """Starts no further calls; running ones get `GRACE_S`. The replies so far count."""
        self._stopping.set()

    async def calibrate(
        self, answers: Sequence[LabelledAnswer], *, repeats: int, workers: int
    ) -> CalibrationResult:
        """Calls the judge about all answers, and compares its verdicts with the labels.

        Args:
            answers: the labelled answers.
            repeats: how often it judges each answer as in runs, at least once.
            workers: the number of concurrent requests.

        Raises:
            UsageError: the judge cannot be opened.
        """
        target = await self._targets.open_target(self._spec, judging=True)
        assertions = (assertion for answer in answers for assertion in answer.case.assertions)
        graders = (build_grader(assertion, GRADERS.get) for assertion in filter(is_judged, assertions))
        if any("embedder" in grader.requirements() for grader in graders):
            await self._targets.open_embedder()
        replies: list[dict[PromptVariant, JudgeReply]] = [{} for _ in answers]
        waiting = iter(
            [
                (index, variant)
                for index, answer in enumerate(answers)
                if needs_judge(answer)
                for variant in prompt_variants(repeats)
            ]
        )

        async def work(jobs: Iterator[tuple[int, PromptVariant]]) -> None:
            for index, variant in jobs:
                if self._stopping.is_set():
                    return
                replies[index][variant] = await self._reply(answers[index], variant, target)
                self.verdict_count += 1

        try:
            await self._run_workers([work(waiting) for _ in range(workers)])
        finally:
            await self._judge_proxy.aclose()
            for programs in self._programs.values():
                await programs.aclose()
        variant_count = len(prompt_variants(repeats))
        complete = [
            (answer, answer_replies)
            for answer, answer_replies in zip(answers, replies, strict=True)
            if len(answer_replies) == variant_count or not needs_judge(answer)
        ]
        return self._build_result(
            [answer for answer, _ in complete],
            [answer_replies for _, answer_replies in complete],
            repeats,
            unfinished=len(answers) - len(complete),
        )

    async def _run_workers(self, work: Sequence[Coroutine[Any, Any, None]]) -> None:
        """Runs the workers to their end, or until `GRACE_S` after `stop`."""
        running = {asyncio.create_task(worker) for worker in work}
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            while running and not self._stopping.is_set():
                done, _ = await asyncio.wait({*running, stopping}, return_when=asyncio.FIRST_COMPLETED)
                await asyncio.gather(*(done - {stopping}))  # raises what a worker raised
                running -= done
            if running:  # calls that queue for a judge such as `local` would all be waited for otherwise
                done, _ = await asyncio.wait(running, timeout=GRACE_S)
                await asyncio.gather(*done)
        finally:
            for task in (*running, stopping):
                task.cancel()
            await asyncio.gather(*running, stopping, return_exceptions=True)

    async def _reply(self, answer: LabelledAnswer, variant: PromptVariant, target: Answerer) -> JudgeReply:
        assert answer.trial.output is not None
        recorder = _PromptRecorder(target, variant.shift)
        case, output = answer.case, answer.trial.output
        if variant.is_reversed:
            case = replace(case, assertions=tuple(map(_reverse_items, case.assertions)))
        if variant.is_lengthened:
            output = replace(output, text=lengthen(output.text))
        folder = "" if answer.run is None else answer.run.suite.folder
        if folder not in self._programs:
            self._programs[folder] = SuiteProgramRunner(folder, self._targets.environ)
        context = GradingContext(
            judges=(JudgeTarget(name=self._spec.name, target=recorder),),
            gather=gather_results,
            embedder=self._targets.get_embedder,
            programs=self._programs[folder],
            judge_provider=self._judge_proxy,
            reverse_sections=variant.is_reversed,
        )
        grading_input = context.input_for(case, output)
        assertions = [assertion for assertion in case.assertions if is_judged(assertion)]
        scores = tuple([await score(assertion, grading_input, GRADERS.get) for assertion in assertions])
        for judgment in (judgment for assertion_score in scores for judgment in assertion_score.judgments):
            self.usage.add(judgment)
            if variant == PromptVariant():
                self._prompts.add(judgment.prompt_digest)
        verdict = decide_verdict(replace(answer.trial, output=output, scores=scores), answer.rule)
        reasons = [
            assertion_score.reason
            for assertion_score in scores
            if assertion_score.outcome is not Verdict.PASS
        ] or [scores[0].reason]
        return JudgeReply(verdict, " ".join(reasons), tuple(recorder.prompts))

    def _build_result(
        self,
        answers: Sequence[LabelledAnswer],
        replies: Sequence[dict[PromptVariant, JudgeReply]],
        repeats: int,
        *,
        unfinished: int,
    ) -> CalibrationResult:
        judged_answers = [
            _to_judged_answer(answer, answer_replies, repeats)
            for answer, answer_replies in zip(answers, replies, strict=True)
        ]
        cases = Counter((answer.trial.case_id, answer.trial.sent) for answer in answers if answer.trial.sent)
        return CalibrationResult(
            calibration=make_calibration(
                judged_answers,
                judge=target_digest(self._spec),
                name=self._spec.name,
                at=datetime.now(UTC).replace(microsecond=0),
                labels=labels_digest(
                    (answer.case, answer.trial.output.text, label)
                    for answer in answers
                    if answer.trial.output is not None
                    for label in answer.labels
                ),
                prompts=tuple(self._prompts),
            ),
            differences=tuple(_find_differences(answers, judged_answers, replies, self._targets.environ)),
            usage=self.usage,
            tied=sum(judged_answer.label is None for judged_answer in judged_answers),
            not_judged=sum(
                judged_answer.label is not None and not judged_answer.judge_verdicts
                for judged_answer in judged_answers
            ),
            repeated_cases=sum(count - 1 for count in cases.values()),
            unfinished=unfinished,
        )


class _PromptRecorder:
    """A judge that records its prompts about one answer."""

    def __init__(self, target: Answerer, shift: int) -> None:
        self._target = target
        self._shift = shift
        self.prompts: list[tuple[Message, ...]] = []

    async def answer(self, prompt: Prompt) -> Output:
        if not any(message.role == "assistant" for message in prompt.messages):
            self.prompts.append(prompt.messages)
        return await self._target.answer(replace(prompt, repeat=prompt.repeat + self._shift))


def _reverse_items(assertion: Assertion) -> Assertion:
    items: Any = assertion.params.get("items")
    if assertion.grader != "rubrics" or not isinstance(items, list | tuple):
        return assertion
    return replace(assertion, params={**assertion.params, "items": list(reversed(items))})


# --- replies to a calibration ------------------------------------------------------------------------------

_PASSED = {Verdict.PASS: True, Verdict.FAIL: False}


def _to_judged_answer(
    answer: LabelledAnswer, replies: dict[PromptVariant, JudgeReply], repeats: int
) -> AnswerVerdicts:
    people = tuple(label.passed for label in answer.labels)
    first = replies.get(PromptVariant())
    if first is None or not first.prompts:
        return AnswerVerdicts(human_verdicts=people)
    with_reversed_items = replies[PromptVariant(is_reversed=True)]
    longer = replies[PromptVariant(is_lengthened=True)]
    return AnswerVerdicts(
        human_verdicts=people,
        judge_verdicts=tuple(_PASSED.get(replies[PromptVariant(shift)].verdict) for shift in range(repeats)),
        # A custom prompt of the suite may show the judge the same; then the order was not tested.
        reversed_verdict=None
        if with_reversed_items.prompts == first.prompts
        else _PASSED.get(with_reversed_items.verdict),
        lengthened_verdict=None if longer.prompts == first.prompts else _PASSED.get(longer.verdict),
        for_doubt=is_for_doubt(answer.labels),
    )


def _find_differences(
    answers: Sequence[LabelledAnswer],
    judged_answers: Sequence[AnswerVerdicts],
    replies: Sequence[dict[PromptVariant, JudgeReply]],
    environ: Mapping[str, str],
) -> Iterator[LabelDifference]:
    for answer, judged_answer, answer_replies in zip(answers, judged_answers, replies, strict=True):
        if (
            judged_answer.label is None
            or not judged_answer.judge_verdicts
            or judged_answer.judge_verdicts[0] == judged_answer.label
        ):
            continue
        is_holdout = answer.trial.split == "holdout"
        yield LabelDifference(
            case_id=answer.trial.case_id,
            repeat=answer.trial.repeat,
            label=judged_answer.label,
            verdict=answer_replies[PromptVariant()].verdict,
            reason=""
            if is_holdout
            else mask(answer_replies[PromptVariant()].reason, answer.case.variables, environ),
            answer=""
            if is_holdout or answer.trial.output is None
            else mask(answer.trial.output.text, answer.case.variables, environ),
            notes=() if is_holdout else tuple(label.note for label in answer.labels if label.note),
        )
