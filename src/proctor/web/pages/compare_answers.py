"""Two answers to the same prompt side by side, with their differences marked."""

from __future__ import annotations

import shlex
from itertools import zip_longest
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from proctor.comparison.compare import GroupBy
from proctor.comparison.outcomes import SplitName
from proctor.errors import NothingSelected
from proctor.model import Run, Score, Verdict
from proctor.reports.runs.one_line import first_reason
from proctor.reports.runs.serialize import TrialResult
from proctor.reports.word_diff import diff_words
from proctor.services.runs.reading.case_detail import CaseDetail, find_same_case, load_case_detail
from proctor.services.runs.starts.allowed_targets import SPLITS
from proctor.web.browser_sessions import get_session
from proctor.web.comparison_tasks import ComparisonQuery, list_flips, submit_comparison
from proctor.web.pages.case import MAX_TEXT_LENGTH
from proctor.web.project import get_project
from proctor.web.security import PageForm, read_form
from proctor.web.tasks import get_task_runner
from proctor.web.templates_env import PageNotFound, load_run, render_page, url

router = APIRouter()
_TIMEOUT_S = 1.0
"""How long the page waits for the neighbouring cases; then it shows no links to them."""

_OUTCOMES = {
    (Verdict.PASS, Verdict.PASS): "both passed",
    (Verdict.FAIL, Verdict.FAIL): "both failed",
    (Verdict.PASS, Verdict.FAIL): "broken: the baseline passed, the candidate failed",
    (Verdict.FAIL, Verdict.PASS): "fixed: the baseline failed, the candidate passed",
}
GROUPINGS: tuple[GroupBy, ...] = ("category", "tag")
RunIds = Query(default_factory=list)


class AnswerSide(Struct, frozen=True):
    """The answer of one run."""

    name: str
    """`baseline` or `candidate`."""
    case_detail: CaseDetail
    row: TrialResult


class CaseNavigation(Struct, frozen=True, kw_only=True):
    """The table of a comparison that the user came from, for links to its other cases."""

    runs: tuple[Run, ...]
    kind: str
    split: SplitName
    by_digest: bool
    by: GroupBy | None = None

    def address(self, position: int, repeat: int) -> str:
        """Returns the address of another case of the table."""
        return url(
            "/compare/answers",
            run=[run.id for run in self.runs],
            position=position,
            repeat=repeat or None,
            kind=self.kind,
            split=None if self.split == "all" else self.split,
            by=self.by,
            by_digest=1 if self.by_digest else None,
        )


@router.get("/compare/answers")
def show_answers(
    request: Request,
    position: int,
    run: list[str] = RunIds,
    repeat: int = 0,
    kind: str = "",
    split: SplitName = "all",
    by: GroupBy | None = None,
    by_digest: bool = False,
) -> Response:
    """Shows the answers of two runs to one case; `position` is its place in the first run's suite."""
    if len(run) != 2:
        raise PageNotFound("Name two runs to compare their answers, the earlier one first.")
    before, after = _load_sides(request, run, position, repeat)
    navigation = CaseNavigation(
        runs=(before.case_detail.run, after.case_detail.run),
        kind=kind,
        split=split,
        by_digest=by_digest,
        by=by,
    )
    previous, following = _neighbours(request, navigation, after.row)
    texts = [side.row.trial.output.text for side in (before, after) if side.row.trial.output is not None]
    diff = None
    if len(texts) == 2:
        diff = diff_words(texts[0][:MAX_TEXT_LENGTH], texts[1][:MAX_TEXT_LENGTH])
    return render_page(
        request,
        "compare_answers.html",
        sides=(before, after),
        answer=_headline(before.row, after.row),
        found=diff,
        left_out=max(0, *(len(text) - MAX_TEXT_LENGTH for text in texts)) if texts else 0,
        longest=MAX_TEXT_LENGTH,
        pieces=(diff.before, diff.after) if diff else ((), ()),
        scores=list(_pair_scores(before.row, after.row)),
        sealed=[side for side in (before, after) if side.row.sealed],
        navigation=navigation,
        position=position,
        previous=previous,
        following=following,
        back=url(
            "/compare",
            run=run,
            split=None if split == "all" else split,
            by=by,
            by_digest=1 if by_digest else None,
        ),
        has_same_prompt=before.row.sealed
        or after.row.sealed
        or before.row.case.input == after.row.case.input,
        commands=[_command(side) for side in (before, after)],
    )


@router.post("/compare/answers/reveal")
def reveal(request: Request, form: Annotated[PageForm, Depends(read_form)]) -> Response:
    """Reveals the held-out answers of both runs to this session, which records holdout accesses."""
    session = get_session(request)
    with get_project(request).open_store() as store:
        runs = tuple(load_run(store, name) for name in form.texts("run"))
        for run in runs:
            session.reveal(store, run)
    session.flash(
        "The holdouts of these runs are now revealed to you, and the holdout accesses are recorded."
    )
    numbers = [form.text(name, "0") for name in ("position", "repeat")]
    position, repeat = (int(number) if number.isascii() and number.isdigit() else 0 for number in numbers)
    split: SplitName = next((number for number in SPLITS if number == form.text("split")), "all")
    by: GroupBy | None = next((word for word in GROUPINGS if word == form.text("by")), None)
    by_digest = form.text("by_digest") == "1"
    navigation = CaseNavigation(runs=runs, kind=form.text("kind"), split=split, by_digest=by_digest, by=by)
    return RedirectResponse(navigation.address(position, repeat), 303)


def _load_sides(
    request: Request, names: list[str], position: int, repeat: int
) -> tuple[AnswerSide, AnswerSide]:
    project, revealed = get_project(request), get_session(request).revealed
    with project.open_store() as store:
        runs = [load_run(store, name) for name in names]
        try:
            baseline = load_case_detail(store, runs[0], position, reveal=runs[0].id in revealed, history=0)
            candidate_position = find_same_case(store, runs[0], position, runs[1])
            candidate = load_case_detail(
                store, runs[1], candidate_position, reveal=runs[1].id in revealed, history=0
            )
            return (
                AnswerSide("baseline", baseline, baseline.get_row(repeat)),
                AnswerSide("candidate", candidate, candidate.get_row(repeat)),
            )
        except NothingSelected as error:
            raise PageNotFound(str(error)) from None


def _headline(before: TrialResult, after: TrialResult) -> str:
    """Sums up both verdicts in one line."""
    outcome = _OUTCOMES.get(
        (before.verdict, after.verdict),
        f"{before.verdict.value.upper()} in the baseline, {after.verdict.value.upper()} in the candidate",
    )
    outputs = (row.trial.output for row in (before, after))
    answers = [(output.text, output.tool_calls) for output in outputs if output is not None]
    if len(answers) == 2 and answers[0] == answers[1]:
        outcome += ", with the same answer"
    failed = next((row for row in (after, before) if row.verdict is Verdict.FAIL and not row.sealed), None)
    return f"{outcome}: {first_reason(failed.trial)}" if failed is not None else outcome


def _pair_scores(before: TrialResult, after: TrialResult) -> list[tuple[Score | None, Score | None]]:
    """Pairs the scores of both answers by assertion."""
    baseline_scores, candidate_scores = list(before.trial.scores), list(after.trial.scores)
    if [_score_key(score) for score in baseline_scores] == [_score_key(score) for score in candidate_scores]:
        return list(zip(baseline_scores, candidate_scores, strict=True))
    unmatched = {_score_key(score): score for score in candidate_scores}
    pairs: list[tuple[Score | None, Score | None]] = [
        (score, unmatched.pop(_score_key(score), None)) for score in baseline_scores
    ]
    return [*pairs, *zip_longest((), unmatched.values())]


def _score_key(score: Score) -> tuple[str, str]:
    return score.assertion or score.grader, score.name


def _neighbours(
    request: Request, navigation: CaseNavigation, row: TrialResult
) -> tuple[str | None, str | None]:
    """Returns the addresses of the cases before and after this one in the table."""
    if not navigation.kind:
        return None, None
    query = ComparisonQuery(
        runs=navigation.runs,
        split=navigation.split,
        by=navigation.by,
        by_digest=navigation.by_digest,
    )
    task = submit_comparison(get_task_runner(request), get_project(request), query)
    task.wait(_TIMEOUT_S)
    flips = list_flips(task, navigation.kind)
    current = (row.trial.case_id, row.trial.repeat)
    if current not in flips:
        return None, None
    positions, index = task.result().positions, flips.index(current)
    neighbours = (flips[index - 1] if index else None, flips[index + 1] if index + 1 < len(flips) else None)
    before, after = (
        None if flip is None else navigation.address(positions[flip[0]], flip[1]) for flip in neighbours
    )
    return before, after


def _command(side: AnswerSide) -> str:
    return f"proctor runs show {side.case_detail.run.id} --case {shlex.quote(side.row.trial.case_id)}"
