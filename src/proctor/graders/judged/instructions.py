"""Grades an answer by the case's grading instructions: each judge says pass or fail, and why.

A suite may bring its own judge prompts, its evaluators, with variables such as `{{ answer }}`. Their values
are set off by lines with a code, and variables inside the values are not replaced.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar, Literal

from msgspec import Struct

from proctor.errors import CannotScore
from proctor.graders.judged.judge_call import JudgeRequest, call_judges, check_judge, object_schema
from proctor.graders.judged.prompt_sections import (
    CRITERIA_SYSTEM_PROMPT,
    SUITE_SYSTEM_PROMPT,
    PromptSection,
    build_sections,
    calls_as_json,
    interleave,
    with_headings,
)
from proctor.graders.judged.reply_parser import get_text, parse_json_object
from proctor.graders.judged.voting import JudgeReading
from proctor.graders.text import require_unique_ids
from proctor.model import Case, GraderResult, Output
from proctor.protocols import BaseGrader, GradingInput

VARIABLES = ("instructions", "answer", "input")
"""The variables of a suite's own prompt."""

_VARIABLE = re.compile(rf"(`{{0,3}})\{{\{{\s*({'|'.join(VARIABLES)})\s*\}}\}}\1")
"""Backticks around a variable are dropped: the lines around its value set it off."""

_HEADING = """\
Decide whether the assistant's answer passes. The CRITERIA are the author's instructions for that: it passes
only if it meets all that they ask. What they do not ask decides nothing."""

_FORM = """\
Reply with one JSON object and nothing else, in this form:
{"pass": false, "feedback": "one or two sentences that name what decided it"}
`pass` is true for an answer that passes and false for one that fails. `feedback` may be empty for an answer
that passes."""

_SCHEMA = object_schema(**{"pass": {"type": "boolean"}, "feedback": {"type": "string"}})

SectionsByName = Mapping[str, tuple[PromptSection, ...]]
"""The sections of the prompt, by name."""


class Evaluator(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A judge prompt of the suite's own."""

    id: str
    system: str = ""
    user: str = ""

    def __post_init__(self) -> None:
        if not self.id.strip():
            raise ValueError("The `id` of a judge prompt is empty; give each judge prompt a name.")
        if not (self.system.strip() or self.user.strip()):
            raise ValueError(
                f"The judge prompt {self.id!r} is empty; write how to grade in `system` or `user`."
            )


class Instructions(BaseGrader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when the judges find that the answer meets the case's grading instructions (`criteria`).

    Every judge is called with each of the suite's own prompts, or with the default one if there is none.
    Every reply is kept.
    """

    needs: ClassVar[str | None] = "judge"
    shows_metadata: ClassVar[bool] = False
    all_or_nothing: ClassVar[bool] = True

    evaluators: tuple[Evaluator, ...] = ()
    """Prompts with `{{ instructions }}`, `{{ answer }}` or `{{ input }}`; none uses a built-in one."""
    judge: str | None = None
    """The name of a judge for this check; None uses those of the run."""
    temperature: float | None = None
    """The temperature of the judge; None leaves it to the judge."""
    rule: Literal["mean"] | None = None
    """`mean`: the score of several judgments is their mean, and more than half must pass the answer. It
    replaces `majority`, the default of a run; None uses the run's rule."""

    def __post_init__(self) -> None:
        check_judge(self.judge, self.temperature)
        require_unique_ids("evaluators", (evaluator.id for evaluator in self.evaluators))

    def judges(self) -> tuple[str | None, ...]:
        """Returns the judge of this check, else those of the run, once for each evaluator."""
        return (self.judge,) * max(1, len(self.evaluators))

    async def grade(self, grading_input: GradingInput) -> GraderResult:
        """Scores 1 for a pass and 0 for a fail, or their mean with `rule: mean`.

        Raises:
            CannotScore: the case has no instructions, there is no judge, or the readable replies do not
            decide.
        """
        if not (grading_input.case.criteria or "").strip():
            raise CannotScore(
                "The case has no grading instructions (`criteria`), so its answer cannot be graded."
            )
        pieces = _sections_for(grading_input.case, grading_input.output)
        if not self.evaluators:
            return await call_judges(
                grading_input, self._default_request(pieces, turned=grading_input.reverse_sections)
            )
        return await call_judges(
            grading_input, *[self._evaluator_request(evaluator, pieces) for evaluator in self.evaluators]
        )

    def _default_request(self, pieces: SectionsByName, *, turned: bool) -> JudgeRequest:
        """Builds the request for a suite without its own prompts."""
        return JudgeRequest(
            material=with_headings(pieces, turned=turned),
            heading=_HEADING,
            form=_FORM,
            schema=_SCHEMA,
            read=read_pass,
            system=CRITERIA_SYSTEM_PROMPT,
            judge=self.judge,
            temperature=self.temperature,
            rule=self.rule,
        )

    def _evaluator_request(self, evaluator: Evaluator, pieces: SectionsByName) -> JudgeRequest:
        """Builds the request for a suite's own prompt; variables that it does not use are appended."""
        used_names: set[str] = set()
        supporting = (*pieces["file_changes"], *pieces["tool_calls"])
        referenced = {
            "instructions": pieces["criteria"],
            "answer": (*pieces["output"], *(piece for piece in supporting if piece.text.strip())),
            "input": pieces["input"],
        }

        def substitute(match: re.Match[str]) -> tuple[PromptSection, ...]:
            used_names.add(match[2])
            return referenced[match[2]]

        before = interleave(evaluator.system, _VARIABLE, substitute)
        material = interleave(evaluator.user, _VARIABLE, substitute)
        if "instructions" not in used_names:
            material += ("What the author of the test asks of a good answer:", *referenced["instructions"])
        if "answer" not in used_names:
            material += ("The assistant's answer:", *referenced["answer"])
        return JudgeRequest(
            before=before,
            material=material,
            heading="",
            form=_FORM,
            schema=_SCHEMA,
            read=read_pass,
            system=SUITE_SYSTEM_PROMPT,
            template=f"{evaluator.system}\0{evaluator.user}",
            evaluator=evaluator.id,
            judge=self.judge,
            temperature=self.temperature,
            rule=self.rule,
        )


def _sections_for(case: Case, output: Output) -> SectionsByName:
    """Returns the sections without the metadata, which does not say what is requested.

    If an answer has no text, its tool calls are the answer.
    """
    pieces = {**build_sections(case, output), "metadata": ()}
    if output.tool_calls and not any(piece.text.strip() for piece in pieces["output"]):
        pieces["output"] = (PromptSection("ANSWER", calls_as_json(output.tool_calls)),)
        if all(call.output is None for call in output.tool_calls):
            pieces["tool_calls"] = ()  # they would only repeat the answer
    return pieces


def read_pass(reply: str) -> JudgeReading | None:
    """Reads a reply; returns None unless it is a JSON object whose `pass` is true or false."""
    reply_object = parse_json_object(reply, "pass")
    passed = reply_object.get("pass") if reply_object is not None else None
    if reply_object is None or not isinstance(passed, bool):
        return None
    return JudgeReading(
        value=float(passed),
        passed=passed,
        clause="says pass" if passed else "says fail",
        feedback=get_text(reply_object, "feedback") or "",
    )
