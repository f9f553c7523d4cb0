"""The page Suites: saved suites, changes since their last run, and deleted versions that can be restored."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from proctor.errors import StoreError, UsageError
from proctor.plurals import join_names as in_words
from proctor.plurals import pluralize
from proctor.protocols import Store
from proctor.safe_text import one_line
from proctor.services.runs.reading.listing import summarize_run
from proctor.services.suites.builtin_suites import BUILTIN_PREFIX, TIERS
from proctor.services.suites.overview import SuiteOverview, list_overviews
from proctor.services.suites.trash import DeletedVersion, Trash
from proctor.verdicts import Counts
from proctor.web.browser_sessions import get_session
from proctor.web.paging import slice_page
from proctor.web.project import Project, get_project
from proctor.web.security import PageForm, read_form
from proctor.web.templates_env import render_page, url

router = APIRouter()

SORTS: dict[str, tuple[str, Callable[[SuiteOverview], Any], bool]] = {
    "name": ("Suite", lambda overview: overview.name.casefold(), False),
    "cases": ("Cases", lambda overview: overview.current.suite.case_count, True),
    "saved": ("Saved", lambda overview: overview.current.saved_at, True),
    "runs": ("Runs", lambda overview: overview.runs, True),
}
"""Sort orders of the list: heading, key, and whether the largest comes first."""
_PAGE_SIZE = 100
"""Suites on one page."""
_BUILTIN_NAMES = tuple(f"{BUILTIN_PREFIX}{tier}" for tier in TIERS)
_MAX_DELETED = 10
"""Deleted versions that are offered for restoring."""


class SuiteEntry(Struct, frozen=True, kw_only=True):
    """A suite in the list."""

    suite: SuiteOverview
    counts: Counts | None
    """The result of its last run; None if there is none or it is of the holdout alone."""


@router.get("/suites")
def list_suites(
    request: Request, sort: str = "name", down: bool = False, after: str = "", find: str = ""
) -> Response:
    """Lists every suite once."""
    project = get_project(request)
    sort = sort if sort in SORTS else "name"
    if not project.location.exists():  # showing an empty list creates no store
        return render_page(
            request,
            "suites.html",
            entries=[],
            answer=_headline([]),
            deleted=[],
            tiers=_BUILTIN_NAMES,
            sort="name",
            sorts=SORTS,
            down=False,
            find="",
            following="",
            after="",
        )
    with project.open_store() as store:
        all_suites = list_overviews(store)
        matching = [overview for overview in all_suites if find.casefold() in overview.name.casefold()]
        matching.sort(key=SORTS[sort][1], reverse=SORTS[sort][2] != down)
        page_suites, following, _ = slice_page(matching, lambda overview: overview.name, after, _PAGE_SIZE)
        entries = [_make_entry(store, overview) for overview in page_suites]
        deleted = list_deleted(project, store)
    return render_page(
        request,
        "suites.html",
        entries=entries,
        answer=_headline(all_suites),
        deleted=deleted,
        tiers=_BUILTIN_NAMES,
        sort=sort,
        sorts=SORTS,
        down=down,
        find=find,
        following=following,
        after=after,
    )


def _headline(all_suites: list[SuiteOverview]) -> str:
    if not all_suites:
        return "No suites yet"
    changed = sum(overview.changed for overview in all_suites)
    run = sum(overview.last is not None for overview in all_suites)
    suites = pluralize(len(all_suites), "suite")
    if not run:
        return f"{suites}, {'not' if len(all_suites) == 1 else 'none'} run yet"
    if not changed:
        return f"{suites}, none changed since {'its' if len(all_suites) == 1 else 'their'} last run"
    return f"{suites}, {changed:,} changed since {'its' if changed == 1 else 'their'} last run"


def _make_entry(store: Store, overview: SuiteOverview) -> SuiteEntry:
    if overview.last is None:
        return SuiteEntry(suite=overview, counts=None)
    listed_run = summarize_run(store, overview.last)
    return SuiteEntry(suite=overview, counts=None if listed_run.is_sealed else listed_run.counts)


# --- deleting and restoring --------------------------------------------------------------------------------


def get_trash_opener(project: Project) -> Callable[[], AbstractContextManager[Store]]:
    """Returns a function that opens the project's store of deleted suites."""
    trash = project.location.trash()
    return lambda: closing(trash.open_store())


def list_deleted(project: Project, store: Store) -> list[DeletedVersion]:
    """Returns what can be restored, last deleted first."""
    if not project.location.trash().exists():
        return []
    return Trash(store, get_trash_opener(project)).list_deleted()[:_MAX_DELETED]


@router.post("/suite/delete")
def delete(request: Request, form: Annotated[PageForm, Depends(read_form)]) -> Response:
    """Deletes a version or all versions of a suite; they can be restored."""
    project, name = get_project(request), form.text("name")
    with project.open_store() as store:
        deleted_versions = Trash(store, get_trash_opener(project)).discard(name, form.text("version") or None)
    version_names = in_words([overview.version or "" for overview in deleted_versions], 5)
    get_session(request).flash(f"Deleted {one_line(name)} {version_names}. You can restore it below.")
    return RedirectResponse("/suites#deleted", 303)


@router.post("/suite/undo")
def undo(request: Request, form: Annotated[PageForm, Depends(read_form)]) -> Response:
    """Restores a deleted version."""
    project = get_project(request)
    try:
        with project.open_store() as store:
            suite = Trash(store, get_trash_opener(project)).restore(form.text("name"), form.text("version"))
    except StoreError as error:
        raise UsageError(str(error)) from None
    get_session(request).flash(f"{one_line(suite.title)} is restored.")
    return RedirectResponse(url("/suite", name=suite.name, version=suite.version), 303)
