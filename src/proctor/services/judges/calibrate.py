"""A judge asked about labelled answers as runs ask it, and in other ways to see what sways it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from proctor.calibration import Heard, calibrated, majority, padded
from proctor.codec import labels_digest, target_digest
from proctor.env_vars import masked
from proctor.graders import GRADERS
from proctor.graders.judged.prompt_sections import is_empty
from proctor.grading import Help, bind, score
from proctor.model import (
    Assertion,
    Calibration,
    Case,
    Message,
    Output,
    Prompt,
    Score,
    TargetSpec,
    Verdict,
)
from proctor.protocols import Answers, Judge
from proctor.services.judges.labelled_answers import Answer, is_judged
from proctor.services.runs.execution.judge_proxy import Lending
from proctor.services.runs.execution.open_targets import together
from proctor.services.runs.execution.target_pool import Reach
from proctor.targets.process.suite_programs import SuitePrograms
from proctor.verdicts import Spent, verdict_of


class PromptVariant(Struct, frozen=True):
    """One time that a judge is asked about an answer."""

    shift: int = 0
    """So many repeats later than a run begins with, so that seeds differ."""
    turned: bool = False
    padded: bool = False


class JudgeReply(Struct, frozen=True):
    """What came of it."""

    verdict: Verdict
    reason: str
    shown: tuple[tuple[Message, ...], ...]
    """What the judge was shown, repairs left out; empty where it was not asked."""


class Difference(Struct, frozen=True, kw_only=True):
    """An answer of which a judge says something else than people, or says nothing."""

    case_id: str
    repeat: int
    label: bool
    said: Verdict
    reason: str
    """Empty for what is held out."""
    notes: tuple[str, ...] = ()
    """What people wrote beside their labels."""


class Calibrated(Struct, frozen=True, kw_only=True):
    """A calibration, and what is told once and not kept."""

    calibration: Calibration
    differences: tuple[Difference, ...]
    spent: Spent
    divided: int
    """Answers of which as many people say pass as fail; the judge was not asked about them."""
    unasked: int
    """Answers that no judge is asked about, such as empty ones."""
    repeated_cases: int
    """Answers that are further repeats of a case."""
    left: int = 0
    """Answers that the judge was still to be asked about when it was stopped."""


def prompt_variants(repeats: int) -> tuple[PromptVariant, ...]:
    """How a judge is asked about each answer: as runs ask, so often; then turned, and padded."""
    return (
        *(PromptVariant(shift) for shift in range(repeats)),
        PromptVariant(turned=True),
        PromptVariant(padded=True),
    )


def needs_judge(answer: Answer) -> bool:
    """Whether a judge is asked: people are not divided, and there is something to judge."""
    assert answer.trial.output is not None
    label = majority([label.passed for label in answer.labels])
    return label is not None and not is_empty(answer.trial.output)


class Calibrating:
    """Asks one judge about labelled answers."""

    def __init__(self, reach: Reach, spec: TargetSpec, told: Callable[[int, Spent], None]) -> None:
        """Asks nobody yet.

        Args:
            reach: opens the judge.
            spec: the judge.
            told: called after each time that the judge was asked, with how often that was and what it cost.
        """
        self._reach = reach
        self._spec = spec
        self._told = told
        self._spent = Spent()
        self._prompts: set[str] = set()
        self._done = 0
        self._stopped = False
        self._lending = Lending()

    def stop(self) -> None:
        """Ask no more; what is asked about already counts."""
        self._stopped = True

    async def calibrate(self, answers: Sequence[Answer], *, repeats: int, workers: int) -> Calibrated:
        """What the judge is worth.

        Args:
            answers: the labelled answers.
            repeats: how often it is asked about each in the usual way, at least once.
            workers: how many questions are under way at once.

        Raises:
            UsageError: the judge cannot be opened.
        """
        target = await self._reach.target(self._spec, judging=True)
        if any("embedder" in wants for answer in answers for wants in _wants(answer.case)):
            await self._reach.open_embedder()
        replies: list[dict[PromptVariant, JudgeReply]] = [{} for _ in answers]
        waiting = iter(
            [
                (place, ask)
                for place, answer in enumerate(answers)
                if needs_judge(answer)
                for ask in prompt_variants(repeats)
            ]
        )

        async def work(jobs: Iterator[tuple[int, PromptVariant]]) -> None:
            for place, ask in jobs:
                if self._stopped:
                    return
                replies[place][ask] = await self._reply(answers[place], ask, target)
                self._done += 1
                self._told(self._done, self._spent)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(work(waiting))
        finally:
            await self._lending.aclose()
        whole = len(prompt_variants(repeats))
        there = [
            (answer, said)
            for answer, said in zip(answers, replies, strict=True)
            if len(said) == whole or not needs_judge(answer)
        ]
        done = self._calibrated([answer for answer, _ in there], [said for _, said in there], repeats)
        return replace(done, left=len(answers) - len(there))

    async def _reply(self, answer: Answer, ask: PromptVariant, target: Answers) -> JudgeReply:
        assert answer.trial.output is not None
        asking = _Asking(target, ask.shift)
        case = _turned(answer.case) if ask.turned else answer.case
        output = _padded(answer.trial.output) if ask.padded else answer.trial.output
        folder = "" if answer.run is None else answer.run.suite.folder
        help_ = Help(
            judges=(Judge(name=self._spec.name, target=asking),),
            together=together,
            embedder=self._reach.embedder,
            programs=SuitePrograms(folder, self._reach.environ),
            lender=self._lending,
            turned=ask.turned,
        )
        graded = help_.graded(case, output)
        judged = [assertion for assertion in case.assertions if is_judged(assertion)]
        scores = tuple([await score(assertion, graded, GRADERS.get) for assertion in judged])
        self._count(scores, usual=ask == PromptVariant())
        verdict = verdict_of(replace(answer.trial, output=output, scores=scores), answer.rule)
        reasons = [one.reason for one in scores if one.outcome is not Verdict.PASS] or [scores[0].reason]
        return JudgeReply(verdict, " ".join(reasons), tuple(asking.shown))

    def _count(self, scores: Sequence[Score], *, usual: bool) -> None:
        for judgment in (judgment for one in scores for judgment in one.judgments):
            self._spent.add(judgment)
            if usual:
                self._prompts.add(judgment.prompt_digest)

    def _calibrated(
        self, answers: Sequence[Answer], replies: Sequence[dict[PromptVariant, JudgeReply]], repeats: int
    ) -> Calibrated:
        heard = [_heard(answer, said, repeats) for answer, said in zip(answers, replies, strict=True)]
        cases = Counter((answer.trial.case_id, answer.trial.sent) for answer in answers if answer.trial.sent)
        return Calibrated(
            calibration=calibrated(
                heard,
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
            differences=tuple(_differences(answers, heard, replies, self._reach.environ)),
            spent=self._spent,
            divided=sum(one.label is None for one in heard),
            unasked=sum(one.label is not None and not one.usual for one in heard),
            repeated_cases=sum(count - 1 for count in cases.values()),
        )


class _Asking:
    """A judge for one look at one answer, which remembers what it was shown."""

    def __init__(self, target: Answers, shift: int) -> None:
        self._target = target
        self._shift = shift
        self.shown: list[tuple[Message, ...]] = []

    async def answer(self, prompt: Prompt) -> Output:
        if not any(message.role == "assistant" for message in prompt.messages):
            self.shown.append(prompt.messages)
        return await self._target.answer(replace(prompt, repeat=prompt.repeat + self._shift))


def _wants(case: Case) -> Iterator[frozenset[str]]:
    for assertion in case.assertions:
        if is_judged(assertion):
            yield bind(assertion, GRADERS.get).wants()


def _turned(case: Case) -> Case:
    """The case with the items of each of its lists in the reverse order."""
    return replace(case, assertions=tuple(map(_turned_items, case.assertions)))


def _turned_items(assertion: Assertion) -> Assertion:
    items: Any = assertion.params.get("items")
    if assertion.grader != "rubrics" or not isinstance(items, list | tuple):
        return assertion
    return replace(assertion, params={**assertion.params, "items": list(reversed(items))})


def _padded(output: Output) -> Output:
    return replace(output, text=padded(output.text))


# --- replies to a calibration ------------------------------------------------------------------------------

_PASSED = {Verdict.PASS: True, Verdict.FAIL: False}


def _heard(answer: Answer, replies: dict[PromptVariant, JudgeReply], repeats: int) -> Heard:
    people = tuple(label.passed for label in answer.labels)
    first = replies.get(PromptVariant())
    if first is None or not first.shown:
        return Heard(people=people)
    turned, longer = replies[PromptVariant(turned=True)], replies[PromptVariant(padded=True)]
    return Heard(
        people=people,
        usual=tuple(_PASSED.get(replies[PromptVariant(shift)].verdict) for shift in range(repeats)),
        # By a prompt of the suite's own the judge is shown the same, and the order was not tried.
        turned=None if turned.shown == first.shown else _PASSED.get(turned.verdict),
        padded=None if longer.shown == first.shown else _PASSED.get(longer.verdict),
    )


def _differences(
    answers: Sequence[Answer],
    heard: Sequence[Heard],
    replies: Sequence[dict[PromptVariant, JudgeReply]],
    environ: Mapping[str, str],
) -> Iterator[Difference]:
    for answer, one, said in zip(answers, heard, replies, strict=True):
        if one.label is None or not one.usual or one.usual[0] == one.label:
            continue
        sealed = answer.trial.split == "holdout"
        yield Difference(
            case_id=answer.trial.case_id,
            repeat=answer.trial.repeat,
            label=one.label,
            said=said[PromptVariant()].verdict,
            reason="" if sealed else masked(said[PromptVariant()].reason, answer.case.variables, environ),
            notes=() if sealed else tuple(label.note for label in answer.labels if label.note),
        )
