"""Grades an answer by a list of rubric items that a judge decides one by one.

An item is met or not or, if any item has score ranges, gets a whole number from 0 to 10. A reply that leaves
an item out is unreadable, so that every item stays in the denominator.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Literal

from msgspec import Struct

from proctor.graders.judged.judge_call import (
    DEFAULT_PASS_AT,
    JudgeRequest,
    call_judges,
    check_judge,
    get_pass_at,
    object_schema,
)
from proctor.graders.judged.prompt_sections import (
    CRITERIA_SYSTEM_PROMPT,
    PromptSection,
    build_sections,
    with_headings,
)
from proctor.graders.judged.reply_parser import UnreadableReply, get_text, parse_json_object
from proctor.graders.judged.voting import JudgeReading
from proctor.graders.safe_regex import quote_full
from proctor.graders.text import clip, require_unique_ids
from proctor.model import Evidence, GraderResult
from proctor.protocols import BaseGrader, GradingInput
from proctor.stats import reaches

MAX_ITEM_SCORE = 10
"""The highest score of an item with ranges."""
_MIN_PASSING_SCORE = 7
"""The lowest score with which an item's entry counts as passed."""

_HEADING = """\
Decide each item of the RUBRICS by itself: whether the assistant's answer does what it says. The criteria, if
there are any, say what the test is about; they are no further items."""

_MET_FORM = """\
Reply with one JSON object and nothing else, in this form:
{"checks": [{"id": ID, "satisfied": true, "reasoning": "what in the answer decided it"}],
"overall_reasoning": "one sentence"}
Give every item exactly once, by the id in its brackets. It is satisfied only if the answer does all of it."""

_SCORED_FORM = """\
Reply with one JSON object and nothing else, in this form:
{"checks": [{"id": ID, "score": 7, "reasoning": "what in the answer decided it"}],
"overall_reasoning": "one sentence"}
Give every item exactly once, by the id in its brackets. Its score is a whole number from 0, for an answer
that does nothing of it, to 10, for one that does all of it. Where an item says what its scores mean, keep to
that."""


_CONTRADICTION_FORM = """
An item marked "unless contradicted" is the exception: it is met in full, also by an answer that does not
speak of it, unless the answer claims something that contradicts it."""


class ScoreRange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The meaning of an item's scores from `low` to `high`, both included."""

    low: int
    high: int
    outcome: str


class RubricItem(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that the answer should do."""

    id: str
    outcome: str = ""
    """What it should do; may be empty only if the score ranges say it."""
    weight: float = 1.0
    required: bool = False
    """Whether the answer fails unless the item is fully met."""
    min_score: float | None = None
    """As `required`, but this share of the item is enough; from 0 to 1."""
    score_ranges: tuple[ScoreRange, ...] = ()
    operator: Literal["correctness", "contradiction"] = "correctness"
    """Whether the answer must state the outcome, or only must not contradict it."""

    def __post_init__(self) -> None:
        if not self.id.strip():
            raise ValueError("The `id` of an item is empty; give each item a name.")
        if not self.outcome.strip() and not self.score_ranges:
            raise ValueError(
                f"The item {self.id!r} has an empty `outcome`; describe what the answer must do."
            )
        if not 0 <= self.weight < float("inf"):
            raise ValueError(
                f"The item {self.id!r} has the `weight` {self.weight:g}; it must be a number of 0 or more."
            )
        if self.min_score is not None and not 0 < self.min_score <= 1:
            raise ValueError(
                f"The item {self.id!r} has the `min_score` {self.min_score:g}; it must be a number above 0 "
                f"and at most 1."
            )
        _check_ranges(self)

    @property
    def gate(self) -> float | None:
        """The share of the item below which the answer fails; None if there is none."""
        return self.min_score if self.min_score is not None else 1.0 if self.required else None

    @property
    def title(self) -> str:
        """Id, operator and outcome, as judges and reports show them."""
        result = " (unless contradicted)" if self.operator == "contradiction" else ""
        return f"[{self.id}]{result} {self.outcome}".rstrip()

    def get_meaning(self, score: int) -> str:
        """Returns what a score means by the item's ranges; empty if it has none."""
        return next(
            (
                score_range.outcome
                for score_range in self.score_ranges
                if score_range.low <= score <= score_range.high
            ),
            "",
        )


def _check_ranges(item: RubricItem) -> None:
    """Checks that the ranges cover each score exactly once.

    Raises:
        ValueError: they do not.
    """
    if not item.score_ranges:
        return
    ends = sorted((score_range.low, score_range.high) for score_range in item.score_ranges)
    begins = [0, *(high + 1 for _, high in ends)]
    if any(low > high for low, high in ends) or [*(low for low, _ in ends), MAX_ITEM_SCORE + 1] != begins:
        raise ValueError(
            f"The `score_ranges` of the item {item.id!r} do not cover 0 to {MAX_ITEM_SCORE} exactly once; "
            f"let each range begin one above the end of the previous one."
        )
    if not all(score_range.outcome.strip() for score_range in item.score_ranges):
        raise ValueError(
            f"A range of the item {item.id!r} has an empty `outcome`; describe what its scores mean."
        )


class Rubrics(BaseGrader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when a judge finds enough of a list of items in the answer, by weight, and all required ones.

    The judge sees the case's criteria, messages, expected answer and metadata, and the whole answer.
    """

    needs: ClassVar[str | None] = "judge"

    items: tuple[RubricItem, ...]
    judge: str | None = None
    """The name of a judge for this check; None uses those of the run."""
    temperature: float | None = None
    """The temperature of the judge; None leaves it to the judge."""

    def __post_init__(self) -> None:
        check_judge(self.judge, self.temperature)
        if not self.items:
            raise ValueError("`items` is empty; add at least one item.")
        require_unique_ids("items", (item.id for item in self.items))
        if not any(item.weight for item in self.items):
            raise ValueError("Every item has weight 0; give at least one item a higher weight.")

    def judges(self) -> tuple[str | None, ...]:
        """Returns the judge of this check, else those of the run."""
        return (self.judge,)

    @property
    def has_scores(self) -> bool:
        """Whether items get scores from 0 to 10, because one of them has score ranges."""
        return any(item.score_ranges for item in self.items)

    async def grade(self, grading_input: GradingInput) -> GraderResult:
        """Scores the weighted share of the items, with one entry per item.

        If a required item is not met, the gate is 1, and the score 0 if the share would reach it. `details`
        then has the share as `raw_score` and the ids as `failed_required`. If items have scores, it always
        has `raw_scores`.

        Raises:
            CannotScore: there is no judge, or no majority of judges with readable replies; a reply that
                leaves an item out is unreadable.
        """
        verdict = {"score": {"type": "integer"}} if self.has_scores else {"satisfied": {"type": "boolean"}}
        ids = [item.id for item in self.items]
        check = object_schema(id={"type": "string", "enum": ids}, **verdict, reasoning={"type": "string"})
        form = _SCORED_FORM if self.has_scores else _MET_FORM
        if any(item.operator == "contradiction" for item in self.items):
            form += _CONTRADICTION_FORM
        request = JudgeRequest(
            material=(
                *with_headings(
                    build_sections(grading_input.case, grading_input.output),
                    turned=grading_input.reverse_sections,
                ),
                "The items to decide:",
                PromptSection("RUBRICS", format_items(self.items)),
            ),
            heading=_HEADING,
            form=form.replace("ID", json.dumps(self.items[0].id, ensure_ascii=False), 1),
            schema=object_schema(
                checks={"type": "array", "items": check}, overall_reasoning={"type": "string"}
            ),
            read=partial(read_checks, rubrics=self, pass_at=get_pass_at(grading_input)),
            system=CRITERIA_SYSTEM_PROMPT,
            judge=self.judge,
            temperature=self.temperature,
        )
        return await call_judges(grading_input, request)


def format_items(items: Sequence[RubricItem]) -> str:
    """Formats the items for a judge: one line per item and per range, without weights."""
    lines = []
    for item in items:
        lines.append(f"- {item.title}")
        lines += [
            f"    {score_range.low} to {score_range.high}: {score_range.outcome}"
            for score_range in item.score_ranges
        ]
    return "\n".join(lines)


# --- the reply ---------------------------------------------------------------------------------------------


def read_checks(reply: str, rubrics: Rubrics, pass_at: float = DEFAULT_PASS_AT) -> JudgeReading | None:
    """Reads a reply; returns None unless it is a JSON object with `checks`.

    Args:
        reply: the judge's reply without its thinking.
        rubrics: the grader with the items.
        pass_at: the lowest score that passes.

    Raises:
        UnreadableReply: an item is missing, unknown, repeated, or has no verdict.
    """
    reply_object = parse_json_object(reply, "checks")
    checks = reply_object.get("checks") if reply_object is not None else None
    if reply_object is None or not isinstance(checks, list):
        return None
    ids = dict.fromkeys(item.id for item in rubrics.items)
    scored = rubrics.has_scores
    results: dict[str, tuple[int, str | None]] = {}
    for check in checks:
        name = check.get("id") if isinstance(check, dict) else None
        if not isinstance(name, str) or name not in ids:
            raise UnreadableReply(
                f"It has an item with the id {clip(repr(name), 60)}, which is not in the list."
            )
        if name in results:
            raise UnreadableReply(f"It has the item {quote_full(name)} twice.")
        results[name] = (_read_item_score(check, name, scored=scored), get_text(check, "reasoning"))
    missing = [name for name in ids if name not in results]
    if missing:
        raise UnreadableReply(
            f"It leaves out the items {', '.join(map(quote_full, missing))}; give every item."
        )
    return _make_reading(rubrics, results, get_text(reply_object, "overall_reasoning"), pass_at)


def _read_item_score(check: dict[str, Any], name: str, *, scored: bool) -> int:
    """Returns the item's score from 0 to 10; an item that is only met or not has 10 or 0.

    Raises:
        UnreadableReply: the check has no score.
    """
    if not scored:
        satisfied = check.get("satisfied")
        if not isinstance(satisfied, bool):
            raise UnreadableReply(f"`satisfied` of the item {quote_full(name)} is neither true nor false.")
        return MAX_ITEM_SCORE if satisfied else 0
    score = check.get("score")
    if (
        isinstance(score, bool)
        or not isinstance(score, int | float)
        or score not in range(MAX_ITEM_SCORE + 1)
    ):
        raise UnreadableReply(
            f"`score` of the item {quote_full(name)} is not a whole number from 0 to {MAX_ITEM_SCORE}."
        )
    return int(score)


def _make_reading(
    rubrics: Rubrics, checks: dict[str, tuple[int, str | None]], feedback: str | None, pass_at: float
) -> JudgeReading:
    scored = rubrics.has_scores
    scores = {item.id: checks[item.id][0] for item in rubrics.items}
    failed = dict.fromkeys(
        item.id
        for item in rubrics.items
        if item.gate is not None and scores[item.id] / MAX_ITEM_SCORE < item.gate
    )
    total = sum(item.weight for item in rubrics.items)
    share = min(sum(item.weight * scores[item.id] for item in rubrics.items) / (MAX_ITEM_SCORE * total), 1.0)
    entries = tuple(
        _make_entry(item, *checks[item.id], scored=scored, failed=item.id in failed) for item in rubrics.items
    )
    details: dict[str, Any] = {"raw_scores": scores} if scored else {}
    summary = f"finds {sum(bool(entry.passed) for entry in entries)} of {len(entries)} items met"
    if scored:
        summary = f"scores the items {share:.2f}"
    if failed:
        details |= {"raw_score": share, "failed_required": list(failed)}
        summary += f", and not the required {clip(', '.join(map(quote_full, failed)))}"
    return JudgeReading(
        # A full share would reach every gate if the required items have the weight 0.
        value=0.0 if failed and reaches(share, 1.0) else share,
        passed=not failed and reaches(share, pass_at),
        clause=summary,
        feedback=feedback,
        entries=entries,
        details=details,
        gate=1.0 if failed else None,
    )


def _make_entry(
    item: RubricItem, score: int, reasoning: str | None, *, scored: bool, failed: bool
) -> Evidence:
    text = item.title
    if not scored:
        return Evidence(text=text, passed=score == MAX_ITEM_SCORE, evidence=reasoning)
    meaning = item.get_meaning(score)
    return Evidence(
        text=f"{text}: {score}/{MAX_ITEM_SCORE}" + (f" ({meaning})" if meaning else ""),
        passed=not failed and score >= _MIN_PASSING_SCORE,
        evidence=reasoning,
    )
