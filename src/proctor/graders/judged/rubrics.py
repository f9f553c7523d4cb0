"""Answers to marks by a list of items, each of which a judge decides by itself.

An item is met or not, or, where any item has score ranges, gets a whole number from 0 to 10. An item that the
judge leaves out makes the reply unreadable: what is not measured never leaves the denominator.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Literal

from msgspec import Struct

from proctor.graders.judged.judge_call import PASS_AT, Request, ask, check_judge, least
from proctor.graders.judged.prompt_sections import STANDARD, Piece, pieces_of, sectioned
from proctor.graders.judged.reply_parser import Unreadable, json_object, text_in
from proctor.graders.judged.voting import Reading
from proctor.graders.safe_regex import quoted
from proctor.graders.text import clip, refuse_repeated
from proctor.model import Entry, Mark
from proctor.protocols import Graded, Grading
from proctor.stats import reaches

BEST = 10
"""The highest score of an item with ranges."""
_GOOD = 7
"""The least score of an item whose entry counts as passed."""

_HEADING = """\
Decide each item of the RUBRICS by itself: whether the assistant's answer does what it says. The criteria, if
there are any, say what the test is about; they are no further items."""

_MET = """\
Reply with one JSON object and nothing else, in this form:
{"checks": [{"id": ID, "satisfied": true, "reasoning": "what in the answer decided it"}],
"overall_reasoning": "one sentence"}
Give every item exactly once, by the id in its brackets. It is satisfied only if the answer does all of it."""

_SCORED = """\
Reply with one JSON object and nothing else, in this form:
{"checks": [{"id": ID, "score": 7, "reasoning": "what in the answer decided it"}],
"overall_reasoning": "one sentence"}
Give every item exactly once, by the id in its brackets. Its score is a whole number from 0, for an answer
that does nothing of it, to 10, for one that does all of it. Where an item says what its scores mean, keep to
that."""


_GUARDED = """
An item marked "unless contradicted" is the exception: it is met in full, also by an answer that does not
speak of it, unless the answer claims something that contradicts it."""


class ScoreRange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the scores of an item from `low` to `high`, both included, mean."""

    low: int
    high: int
    outcome: str


class Item(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that the answer is to do."""

    id: str
    outcome: str = ""
    """What it is; may be empty only where ranges say it."""
    weight: float = 1.0
    required: bool = False
    """All of it is needed: without it the answer fails, whatever the other items say."""
    min_score: float | None = None
    """As `required`, but this share is enough; from 0 to 1."""
    score_ranges: tuple[ScoreRange, ...] = ()
    operator: Literal["correctness", "contradiction"] = "correctness"
    """Met by what the answer says, or unless what it says contradicts the outcome."""

    def __post_init__(self) -> None:
        if not self.id.strip():
            raise ValueError("The `id` of an item is empty; give each one a name.")
        if not self.outcome.strip() and not self.score_ranges:
            raise ValueError(f"The item {self.id!r} has an empty `outcome`; say what the answer is to do.")
        if not 0 <= self.weight < float("inf"):
            raise ValueError(
                f"The item {self.id!r} has the `weight` {self.weight:g}; give a number from 0 up."
            )
        if self.min_score is not None and not 0 < self.min_score <= 1:
            raise ValueError(
                f"The item {self.id!r} has the `min_score` {self.min_score:g}; "
                "give a number above 0 and up to 1."
            )
        _check_ranges(self)

    @property
    def gate(self) -> float | None:
        """The least share of the item without which the answer fails, if there is one."""
        return self.min_score if self.min_score is not None else 1.0 if self.required else None

    @property
    def title(self) -> str:
        """Id, mark and outcome, as judges and reports show them."""
        mark = " (unless contradicted)" if self.operator == "contradiction" else ""
        return f"[{self.id}]{mark} {self.outcome}".rstrip()

    def meaning(self, score: int) -> str:
        """What a score means by the item's ranges; empty where it has none."""
        return next(
            (
                score_range.outcome
                for score_range in self.score_ranges
                if score_range.low <= score <= score_range.high
            ),
            "",
        )


def _check_ranges(item: Item) -> None:
    """Check that the ranges say exactly once what each score means.

    Raises:
        ValueError: they do not.
    """
    if not item.score_ranges:
        return
    ends = sorted((score_range.low, score_range.high) for score_range in item.score_ranges)
    begins = [0, *(high + 1 for _, high in ends)]
    if any(low > high for low, high in ends) or [*(low for low, _ in ends), BEST + 1] != begins:
        raise ValueError(
            f"The `score_ranges` of the item {item.id!r} do not cover 0 to {BEST} once each; "
            "let each begin one above the end of the one before it."
        )
    if not all(score_range.outcome.strip() for score_range in item.score_ranges):
        raise ValueError(f"A range of the item {item.id!r} has an empty `outcome`; say what its scores mean.")


class Rubrics(Grading, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when a judge finds enough of a list of items in the answer, by weight, and all required ones.

    The judge sees the case's criteria, messages, expected answer and metadata, and all of the answer.
    """

    needs: ClassVar[str | None] = "judge"

    items: tuple[Item, ...]
    judge: str | None = None
    """The name of a judge of its own; None leaves it to the run."""
    temperature: float | None = None
    """At which the judge is asked; None leaves it to the judge."""

    def __post_init__(self) -> None:
        check_judge(self.judge, self.temperature)
        if not self.items:
            raise ValueError("`items` is empty; give at least one.")
        refuse_repeated("items", (item.id for item in self.items))
        if not any(item.weight for item in self.items):
            raise ValueError("Every item has the weight 0; give at least one a higher weight.")

    def judges(self) -> tuple[str | None, ...]:
        """The judge of its own, else those of the run."""
        return (self.judge,)

    @property
    def scored(self) -> bool:
        """Items get scores from 0 to 10: one of them says what such scores mean."""
        return any(item.score_ranges for item in self.items)

    async def grade(self, graded: Graded) -> Mark:
        """Value is the share of the items by weight; one entry an item.

        Where a required one is not met, the gate is 1, and the value 0 if the share would reach it. `details`
        then has the share as `raw_score` and the ids in `failed_required`, and always `raw_scores` where
        items have scores.

        Raises:
            CannotScore: there is no judge, or no majority of judges with replies that can be read; a reply
                that leaves an item out cannot.
        """
        kind = ("score", "integer") if self.scored else ("satisfied", "boolean")
        form = _SCORED if self.scored else _MET
        if any(item.operator == "contradiction" for item in self.items):
            form += _GUARDED
        request = Request(
            material=(
                *sectioned(pieces_of(graded.case, graded.output), turned=graded.turned),
                "The items to decide:",
                Piece("RUBRICS", listing(self.items)),
            ),
            heading=_HEADING,
            form=form.replace("ID", json.dumps(self.items[0].id, ensure_ascii=False), 1),
            schema=_schema([item.id for item in self.items], *kind),
            read=partial(read_checks, rubrics=self, pass_at=least(graded)),
            system=STANDARD,
            judge=self.judge,
            temperature=self.temperature,
        )
        return await ask(graded, request)


def listing(items: Sequence[Item]) -> str:
    """The items as a judge is shown them: a line each, one for each range, and nothing of their weights."""
    lines = []
    for item in items:
        lines.append(f"- {item.title}")
        lines += [
            f"    {score_range.low} to {score_range.high}: {score_range.outcome}"
            for score_range in item.score_ranges
        ]
    return "\n".join(lines)


def _schema(ids: list[str], verdict: str, kind: str) -> dict[str, Any]:
    check = {
        "type": "object",
        "properties": {
            "id": {"type": "string", "enum": ids},
            verdict: {"type": kind},
            "reasoning": {"type": "string"},
        },
        "required": ["id", verdict, "reasoning"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {"checks": {"type": "array", "items": check}, "overall_reasoning": {"type": "string"}},
        "required": ["checks", "overall_reasoning"],
        "additionalProperties": False,
    }


# --- the reply ---------------------------------------------------------------------------------------------


def read_checks(reply: str, rubrics: Rubrics, pass_at: float = PASS_AT) -> Reading | None:
    """What a reply says, or None when it is not a JSON object with `checks`.

    Args:
        reply: the judge's, without its thinking.
        rubrics: whose items it is to decide.
        pass_at: the least value that passes.

    Raises:
        Unreadable: an item is missing, unknown, there twice, or without a verdict.
    """
    reply_object = json_object(reply, "checks")
    checks = reply_object.get("checks") if reply_object is not None else None
    if reply_object is None or not isinstance(checks, list):
        return None
    ids = dict.fromkeys(item.id for item in rubrics.items)
    scored = rubrics.scored
    results: dict[str, tuple[int, str | None]] = {}
    for check in checks:
        name = check.get("id") if isinstance(check, dict) else None
        if not isinstance(name, str) or name not in ids:
            raise Unreadable(f"It has an item with the id {clip(repr(name), 60)}, which is not in the list.")
        if name in results:
            raise Unreadable(f"It has the item {quoted(name)} twice.")
        results[name] = (_read_item_score(check, name, scored=scored), text_in(check, "reasoning"))
    missing = [name for name in ids if name not in results]
    if missing:
        raise Unreadable(f"It leaves out the items {', '.join(map(quoted, missing))}; give every item.")
    return _reading(rubrics, results, text_in(reply_object, "overall_reasoning"), pass_at)


def _read_item_score(check: dict[str, Any], name: str, *, scored: bool) -> int:
    """The item's score from 0 to 10; an item that is only met or not has one or the other.

    Raises:
        Unreadable: the check has none.
    """
    if not scored:
        satisfied = check.get("satisfied")
        if not isinstance(satisfied, bool):
            raise Unreadable(f"`satisfied` of the item {quoted(name)} is neither true nor false.")
        return BEST if satisfied else 0
    score = check.get("score")
    if isinstance(score, bool) or not isinstance(score, int | float) or score not in range(BEST + 1):
        raise Unreadable(f"`score` of the item {quoted(name)} is not a whole number from 0 to {BEST}.")
    return int(score)


def _reading(
    rubrics: Rubrics, checks: dict[str, tuple[int, str | None]], feedback: str | None, pass_at: float
) -> Reading:
    scored = rubrics.scored
    scores = {item.id: checks[item.id][0] for item in rubrics.items}
    failed = dict.fromkeys(
        item.id for item in rubrics.items if item.gate is not None and scores[item.id] / BEST < item.gate
    )
    total = sum(item.weight for item in rubrics.items)
    share = min(sum(item.weight * scores[item.id] for item in rubrics.items) / (BEST * total), 1.0)
    entries = tuple(
        _entry(item, *checks[item.id], scored=scored, failed=item.id in failed) for item in rubrics.items
    )
    details: dict[str, Any] = {"raw_scores": scores} if scored else {}
    summary = f"finds {sum(bool(entry.passed) for entry in entries)} of {len(entries)} items met"
    if scored:
        summary = f"scores the items {share:.2f}"
    if failed:
        details |= {"raw_score": share, "failed_required": list(failed)}
        summary += f", and not the required {clip(', '.join(map(quoted, failed)))}"
    return Reading(
        # A whole share reaches every gate, where what is required has the weight 0.
        value=0.0 if failed and reaches(share, 1.0) else share,
        passed=not failed and reaches(share, pass_at),
        said=summary,
        feedback=feedback,
        entries=entries,
        details=details,
        gate=1.0 if failed else None,
    )


def _entry(item: Item, score: int, reasoning: str | None, *, scored: bool, failed: bool) -> Entry:
    text = item.title
    if not scored:
        return Entry(text=text, passed=score == BEST, evidence=reasoning)
    meaning = item.meaning(score)
    return Entry(
        text=f"{text}: {score}/{BEST}" + (f" ({meaning})" if meaning else ""),
        passed=not failed and score >= _GOOD,
        evidence=reasoning,
    )
