"""Two answers to the same question side by side, with what is only in one of them."""

from __future__ import annotations

import shlex
from itertools import zip_longest
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from proctor.comparison.outcomes import Split
from proctor.errors import NothingSelected
from proctor.model import Run, Score, Verdict
from proctor.reports.runs.one_line import because
from proctor.reports.runs.serialize import Row
from proctor.reports.word_diff import wordwise
from proctor.services.runs.reading.case_detail import AskedCase, asked_case, same_case
from proctor.web.browser_sessions import visitor_of
from proctor.web.comparison_tasks import Question, asked, flips_of
from proctor.web.pages.case import LONGEST
from proctor.web.project import site_of
from proctor.web.runs.allowed_targets import SPLITS
from proctor.web.security import Form, form_of
from proctor.web.tasks import desk_of
from proctor.web.templates_env import NotThere, page, run_of, url

router = APIRouter()
_PATIENCE_S = 1.0
"""For so long the links to the cases before and after are looked for; else there are none."""

_CAME_TO = {
    (Verdict.PASS, Verdict.PASS): "both passed",
    (Verdict.FAIL, Verdict.FAIL): "both failed",
    (Verdict.PASS, Verdict.FAIL): "broken: the baseline passed, the candidate failed",
    (Verdict.FAIL, Verdict.PASS): "fixed: the baseline failed, the candidate passed",
}
Words = Query(default_factory=list)


class Side(Struct, frozen=True):
    """One run's answer."""

    name: str
    """`baseline` or `candidate`."""
    asked_case: AskedCase
    row: Row


class Way(Struct, frozen=True, kw_only=True):
    """How one came here: which cases of a comparison one goes through."""

    runs: tuple[Run, ...]
    kind: str
    split: Split
    by_digest: bool

    def address(self, position: int, repeat: int) -> str:
        """The address of another of its cases."""
        return url(
            "/compare/answers",
            run=[run.id for run in self.runs],
            position=position,
            repeat=repeat or None,
            kind=self.kind,
            split=None if self.split == "all" else self.split,
            by_digest=1 if self.by_digest else None,
        )


@router.get("/compare/answers")
def answers(
    request: Request,
    position: int,
    run: list[str] = Words,
    repeat: int = 0,
    kind: str = "",
    split: Split = "all",
    by_digest: bool = False,
) -> Response:
    """The answers of two runs to one case; `position` is its place in the first one's suite."""
    if len(run) != 2:
        raise NotThere("Two runs have answers to compare: name two, the earlier one first.")
    before, after = _sides(request, run, position, repeat)
    way = Way(runs=(before.asked_case.run, after.asked_case.run), kind=kind, split=split, by_digest=by_digest)
    previous, following = _beside(request, way, after.row)
    one, other = before.row.trial.output, after.row.trial.output
    found = None if one is None or other is None else wordwise(one.text[:LONGEST], other.text[:LONGEST])
    left_out = max((len(output.text) - LONGEST for output in (one, other) if output is not None), default=0)
    return page(
        request,
        "compare_answers.html",
        sides=(before, after),
        answer=_answer(before.row, after.row),
        found=found,
        left_out=max(0, left_out),
        longest=LONGEST,
        pieces=(found.before, found.after) if found else ((), ()),
        scores=list(_scores(before.row, after.row)),
        sealed=[side for side in (before, after) if side.row.sealed],
        way=way,
        position=position,
        previous=previous,
        following=following,
        back=url(
            "/compare", run=run, split=None if split == "all" else split, by_digest=1 if by_digest else None
        ),
        commands=[_command(side) for side in (before, after)],
    )


@router.post("/compare/answers/reveal")
def reveal(request: Request, form: Annotated[Form, Depends(form_of)]) -> Response:
    """Show this visitor what both runs have sealed, which is counted as a look at each for ever."""
    visitor = visitor_of(request)
    with site_of(request).store() as store:
        runs = tuple(run_of(store, name) for name in form.texts("run"))
        for run in runs:
            visitor.reveal(store, run)
    visitor.tell("The holdouts of these runs are revealed to you, and the looks are recorded.")
    words = [form.text(name, "0") for name in ("position", "repeat")]
    position, repeat = (int(word) if word.isascii() and word.isdigit() else 0 for word in words)
    split: Split = next((word for word in SPLITS if word == form.text("split")), "all")
    way = Way(runs=runs, kind=form.text("kind"), split=split, by_digest=form.text("by_digest") == "1")
    return RedirectResponse(way.address(position, repeat), 303)


def _sides(request: Request, names: list[str], position: int, repeat: int) -> tuple[Side, Side]:
    site, revealed = site_of(request), visitor_of(request).revealed
    with site.store() as store:
        runs = [run_of(store, name) for name in names]
        try:
            one = asked_case(store, runs[0], position, reveal=runs[0].id in revealed, history=0)
            place = same_case(store, runs[0], position, runs[1])
            other = asked_case(store, runs[1], place, reveal=runs[1].id in revealed, history=0)
            return Side("baseline", one, one.row(repeat)), Side("candidate", other, other.row(repeat))
        except NothingSelected as error:
            raise NotThere(str(error)) from None


def _answer(before: Row, after: Row) -> str:
    """What the two came to, in one line."""
    told = _CAME_TO.get((before.verdict, after.verdict))
    if told is None:
        told = (
            f"{before.verdict.value.upper()} in the baseline, {after.verdict.value.upper()} in the candidate"
        )
    failed = next((row for row in (after, before) if row.verdict is Verdict.FAIL and not row.sealed), None)
    one, other = before.trial.output, after.trial.output
    if one is not None and other is not None and (one.text, one.tool_calls) == (other.text, other.tool_calls):
        told += ", with the same answer"
    return f"{told}: {because(failed.trial)}" if failed is not None else told


def _scores(before: Row, after: Row) -> list[tuple[Score | None, Score | None]]:
    """The scores of both by assertion; what only one of them has stands alone."""
    one, other = list(before.trial.scores), list(after.trial.scores)
    if [_key(score) for score in one] == [_key(score) for score in other]:
        return list(zip(one, other, strict=True))
    left = {_key(score): score for score in other}
    pairs: list[tuple[Score | None, Score | None]] = [(score, left.pop(_key(score), None)) for score in one]
    return [*pairs, *zip_longest((), left.values())]


def _key(score: Score) -> tuple[str, str]:
    return score.assertion or score.grader, score.name


def _beside(request: Request, way: Way, row: Row) -> tuple[str | None, str | None]:
    """The addresses of the cases before and after this one in the table one came from."""
    if not way.kind:
        return None, None
    question = Question(runs=way.runs, split=way.split, by_digest=way.by_digest)
    task = asked(desk_of(request), site_of(request), question)
    task.wait(_PATIENCE_S)
    flips = flips_of(task, way.kind)
    here = (row.trial.case_id, row.trial.repeat)
    if here not in flips:
        return None, None
    places, at = task.result().places, flips.index(here)
    around = (flips[at - 1] if at else None, flips[at + 1] if at + 1 < len(flips) else None)
    before, after = (None if one is None else way.address(places[one[0]], one[1]) for one in around)
    return before, after


def _command(side: Side) -> str:
    return f"proctor runs show {side.asked_case.run.id} --case {shlex.quote(side.row.trial.case_id)}"
