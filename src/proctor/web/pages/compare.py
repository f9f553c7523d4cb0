"""Two or more runs against one another: the verdict in a sentence, what it stands on, and what flipped."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

from fastapi import APIRouter, Query
from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from proctor.comparison.compare import By, Comparison, Flip, NotMeasured
from proctor.comparison.differences import Difference
from proctor.comparison.outcomes import Split
from proctor.errors import ProctorError, StoreError, UsageError
from proctor.model import Run
from proctor.protocols import Store
from proctor.reports.comparison import markdown
from proctor.reports.comparison import sentences as words
from proctor.reports.comparison.text import ADJUSTED, Compared, measures, ranked
from proctor.reports.runs.listing import Listed
from proctor.services.analysis import compare as comparing
from proctor.services.analysis.compare import DifferentSuites
from proctor.services.runs.reading.catalogue_sync import Looked
from proctor.services.runs.reading.listing import Filter, fitting, listed
from proctor.web.browser_sessions import visitor_of
from proctor.web.comparison_tasks import Question, Read, asked, flipped
from proctor.web.pages import compare_answers
from proctor.web.project import site_of
from proctor.web.tasks import desk_of, followed
from proctor.web.templates_env import page, part, url

router = APIRouter()
router.include_router(compare_answers.router)

Words = Query(default_factory=list)
_PATIENCE_S = 0.6
"""What is read within this time is shown at once."""
_MOST_RUNS = 12
_OFFERED = 60
"""So many runs are offered to be chosen from, the newest."""
_FLIPS = 100
"""So many cases of a kind are listed, unless more are asked for."""
_MOST_FLIPS = 2_000
"""So many at most: of more one reads no list."""


class Kind(Struct, frozen=True):
    """A table of cases that came to something else in the other run."""

    name: str
    title: str
    rows: Sequence[Flip | NotMeasured]
    total: int

    @property
    def offered(self) -> int:
        """How many are listed on the page that has more of them; 0 where there is none."""
        most = min(self.total, _MOST_FLIPS)
        return most if len(self.rows) < most else 0


_KINDS = (
    ("broken", "Broken: only the baseline passed"),
    ("fixed", "Fixed: only the candidate passed"),
    ("other", "Not measured: an ERROR, or not scored, and in no number"),
)


@router.get("/compare")
def compare(
    request: Request,
    run: list[str] = Words,
    split: Split = "all",
    by: By = "category",
    by_digest: bool = False,
    flips: int = Query(_FLIPS, ge=0, le=100_000),
    order: Literal["given", "time"] = "given",
) -> Response:
    """Runs against one another, or a choice of runs."""
    named = [word for word in run if word]
    if not named or not site_of(request).location.exists():
        return _choice(request)
    try:
        with site_of(request).store() as store:
            runs = _runs(store, named)
    except (UsageError, StoreError) as error:
        return _choice(request, wrong=str(error), picked=named)
    if order == "time":
        runs.sort(key=lambda one: one.started_at)
    ids = [one.id for one in runs]
    state = _state(split, by, by_digest=by_digest)
    if ids != named or order == "time":
        return RedirectResponse(url("/compare", run=ids, **state), 303)
    question = Question(runs=tuple(runs), split=split, by=by, by_digest=by_digest)
    task = asked(desk_of(request), site_of(request), question)
    if not task.wait(_PATIENCE_S):
        return page(request, "compare_reading.html", task=task, runs=runs, back=_choosing(runs))
    try:
        read = task.result()
    except DifferentSuites as error:
        alike = url("/compare", run=ids, **_state(split, by, by_digest=True))
        return page(request, "compare_refused.html", 400, why=error.why, alike=alike, runs=runs)
    except ProctorError as error:
        return page(request, "compare_refused.html", 400, why=str(error), alike=None, runs=runs)
    return _shown(request, question, read, flips)


@router.get("/compare/events")
def compare_events(request: Request, task: str) -> Response:
    """How far the reading of runs is."""
    return followed(desk_of(request), task, lambda one: part(request, "reading_section.html", task=one))


def _runs(store: Store, named: list[str]) -> list[Run]:
    if len(named) > _MOST_RUNS:
        raise UsageError(
            f"{len(named)} runs are too many for one page: it takes {_MOST_RUNS}. `proctor compare` takes "
            "any number."
        )
    return comparing.runs_of(store, named)


def _state(split: str, by: str, *, by_digest: bool) -> dict[str, Any]:
    """The words of the address that are not at their defaults."""
    return {
        "split": None if split == "all" else split,
        "by": None if by == "category" else by,
        "by_digest": 1 if by_digest else None,
    }


def _choosing(runs: list[Run]) -> str:
    """The address at which other runs of the same suite are chosen."""
    return url("/compare/choose", suite=runs[0].suite.name)


# --- choosing ----------------------------------------------------------------------------------------------


@router.get("/compare/choose")
def choose(request: Request, suite: str = "") -> Response:
    """The runs that can be compared."""
    return _choice(request, suite)


def _choice(request: Request, suite: str = "", *, wrong: str = "", picked: Sequence[str] = ()) -> Response:
    site = site_of(request)
    if not site.location.exists():  # looking at nothing makes nothing
        return page(request, "compare_choose.html", wrong="", rows=[], any_run=False)
    with site.store() as store:
        runs = list(store.runs())
        names = list(dict.fromkeys(run.suite.name for run in runs))
        meant = [run for run in runs if run.id in picked]
        if len(meant) == len(picked) == 1:
            suite, wrong = meant[0].suite.name, ""  # one run was chosen, and the other is still to be
        chosen = suite or _likeliest(runs)
        offered = [run for run, _ in zip(fitting(store, Filter(suite=chosen)), range(_OFFERED), strict=False)]
        known = site.cataloguer.summaries(store, offered)
        rows = [_listed(store, run, known.get(run.id)) for run in offered]
    tags = sorted({tag for run in runs for tag in run.tags})
    return page(
        request, "compare_choose.html", 400 if wrong else 200,
        wrong=wrong, rows=rows, names=names, chosen=chosen, tags=tags, any_run=bool(runs), picked=picked,
    )  # fmt: skip


def _listed(store: Store, run: Run, known: Looked | None) -> Listed:
    """A run as a list tells of it, from what was counted before where it was."""
    return listed(store, run) if known is None else Listed(run=run, counts=known.counts, there=known.done)


def _likeliest(runs: list[Run]) -> str:
    """The suite of the newest run that is not the only one of its suite."""
    counts = Counter(run.suite.digest for run in runs)
    several = (run for run in runs if counts[run.suite.digest] > 1)
    return next((run.suite.name for run in several), runs[0].suite.name if runs else "")


# --- what is shown -----------------------------------------------------------------------------------------


def _shown(request: Request, question: Question, read: Read, flips: int) -> Response:
    compared = _looked_at(request, read)
    ids = [run.id for run in question.runs]
    state = _state(question.split, question.by, by_digest=question.by_digest)
    values: dict[str, Any] = {
        "ids": ids,
        "state": state,
        "question": question,
        "compared": compared,
        "command": _command(question),
        "markdown": "".join(markdown.render(compared)),
        "look": list(words.look(compared.looks)),
        "choose": _choosing(list(question.runs)),
        "words": words,
    }
    if compared.ranking is not None:
        return page(
            request,
            "compare_several.html",
            **values,
            verdict=words.ranking(compared.ranking),
            remarks=list(ranked(compared.ranking)),
            ends=_ends([found.whole for found in compared.comparisons]),
        )
    swapped = url("/compare", run=ids[::-1], **state)
    return page(request, "compare.html", **values, **_of_two(read, flips), swapped=swapped)


def _of_two(read: Read, flips: int) -> dict[str, Any]:
    """What is shown of two runs alone."""
    found = read.compared.comparisons[0]
    parts = [part.difference for part in (*found.splits, *found.parts)]
    return {
        "found": found,
        "verdict": words.verdict(found),
        "smallest": words.smallest(found) if found.whole.shows in ("better", "worse") else "",
        "measures": list(measures(found)),
        "remarks": list(words.remarks(found)),
        "kinds": _kinds(found, flips),
        "positions": read.places,
        "adjusted": ADJUSTED,
        "ends": _ends([found.whole, *parts]),
    }


def _ends(differences: Sequence[Difference]) -> list[float | None]:
    """Every number that has to be on the axis which all differences share."""
    return [end for one in differences for end in (one.value, *(one.ci95 or ()))]


def _looked_at(request: Request, read: Read) -> Compared:
    """The comparison with this visitor's looks counted, and what is known of its judges by now."""
    visitor = visitor_of(request)
    with site_of(request).store() as store:
        for run in read.held_out:
            visitor.looks_at(store, run)
        looks = len(store.looks(read.held_out[-1].suite.digest)) if read.held_out else None
        return replace(read.compared, looks=looks, judges=comparing.about_judges(store, read.spoken))


def _kinds(found: Comparison, most: int) -> list[Kind]:
    kinds = ((name, title, flipped(found, name)) for name, title in _KINDS)
    shown = min(most, _MOST_FLIPS)
    return [Kind(name, title, rows[:shown], len(rows)) for name, title, rows in kinds if rows]


def _command(question: Question) -> str:
    given = " ".join(shlex.quote(run.id) for run in question.runs)
    flags = [f"--split {question.split}"] * (question.split != "all")
    flags += [f"--by {question.by}"] * (question.by != "category" and len(question.runs) == 2)
    flags += ["--by-case-digest"] * question.by_digest
    return " ".join(("proctor compare", given, *flags))
