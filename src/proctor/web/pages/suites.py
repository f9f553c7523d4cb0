"""Suites: what is saved, what changed since it was run last, and what was deleted and can be had back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from proctor.errors import StoreError, UsageError
from proctor.plurals import counted
from proctor.plurals import listed as in_words
from proctor.protocols import Store
from proctor.reports.runs.serialize import counts_row
from proctor.safe_text import one_line
from proctor.services.runs.reading.listing import listed
from proctor.services.suites.overview import Overview, overviews
from proctor.services.suites.suite_sources import BUILTIN, TIERS
from proctor.services.suites.trash import Discarded, Trash
from proctor.web.browser_sessions import visitor_of
from proctor.web.project import Site, site_of
from proctor.web.security import Form, form_of
from proctor.web.templates_env import page, url

router = APIRouter()

SORTS: dict[str, tuple[str, Callable[[Overview], Any], bool]] = {
    "name": ("Suite", lambda one: one.name.casefold(), False),
    "cases": ("Cases", lambda one: one.current.suite.case_count, True),
    "saved": ("Saved", lambda one: one.current.saved_at, True),
    "runs": ("Runs", lambda one: one.runs, True),
}
"""What the list can be sorted by: its heading, its value, and whether the largest comes first."""
_AT_ONCE = 100
"""So many suites a page."""
_BUILTIN = tuple(f"{BUILTIN}{tier}" for tier in TIERS)
_UNDO = 10
"""So many deleted versions are offered back."""


class Entry(Struct, frozen=True, kw_only=True):
    """A suite as the list has it."""

    suite: Overview
    counts: dict[str, Any] | None
    """What its last run came to; None where there is none, or it is of the holdout alone."""


@router.get("/suites")
def suites(
    request: Request, sort: str = "name", down: bool = False, after: str = "", find: str = ""
) -> Response:
    """Every suite once."""
    site = site_of(request)
    sort = sort if sort in SORTS else "name"
    if not site.location.exists():  # looking at nothing makes nothing
        return page(
            request, "suites.html", entries=[], answer=_answer([]), deleted=[], tiers=_BUILTIN, **_state()
        )
    with site.store() as store:
        found = overviews(store)
        fitting = [one for one in found if find.casefold() in one.name.casefold()]
        fitting.sort(key=SORTS[sort][1], reverse=SORTS[sort][2] != down)
        shown, following = _from(fitting, after)
        entries = [_entry(store, one) for one in shown]
        deleted = deleted_in(site, store)
    return page(
        request,
        "suites.html",
        entries=entries,
        answer=_answer(found),
        deleted=deleted,
        tiers=_BUILTIN,
        **_state(sort, down=down, find=find, following=following, after=after),
    )


def _state(
    sort: str = "name", *, down: bool = False, find: str = "", following: str = "", after: str = ""
) -> dict[str, Any]:
    return {
        "sort": sort,
        "sorts": SORTS,
        "down": down,
        "find": find,
        "following": following,
        "after": after,
    }


def _from(found: list[Overview], after: str) -> tuple[list[Overview], str]:
    """One page of suites, and the name after which the next one begins."""
    names = [one.name for one in found]
    begin = names.index(after) + 1 if after in names else 0
    shown = found[begin : begin + _AT_ONCE]
    return shown, shown[-1].name if begin + _AT_ONCE < len(found) else ""


def _answer(found: list[Overview]) -> str:
    if not found:
        return "No suite is saved yet"
    changed = sum(one.changed for one in found)
    run = sum(one.last is not None for one in found)
    suites = counted(len(found), "suite")
    if not run:
        return f"{suites}, {'not' if len(found) == 1 else 'none'} run yet"
    if not changed:
        return f"{suites}, none changed since {'its' if len(found) == 1 else 'their'} last run"
    return f"{suites}, {changed:,} changed since {'its' if changed == 1 else 'their'} last run"


def _entry(store: Store, one: Overview) -> Entry:
    if one.last is None:
        return Entry(suite=one, counts=None)
    came = listed(store, one.last)
    return Entry(suite=one, counts=None if came.sealed else counts_row(came.counts))


# --- deleting, and having back -----------------------------------------------------------------------------


def trash_of(site: Site) -> Callable[[], AbstractContextManager[Store]]:
    """Opens the store with what was deleted from the site's."""
    trash = site.location.trash()
    return lambda: closing(trash.open_store())


def deleted_in(site: Site, store: Store) -> list[Discarded]:
    """What can be had back, the last first; nothing where nothing was ever deleted."""
    if not site.location.trash().exists():
        return []
    return Trash(store, trash_of(site)).discarded()[:_UNDO]


@router.post("/suite/delete")
def delete(request: Request, form: Annotated[Form, Depends(form_of)]) -> Response:
    """Delete a version, or all versions of a suite; they can be had back."""
    site, name = site_of(request), form.text("name")
    with site.store() as store:
        gone = Trash(store, trash_of(site)).discard(name, form.text("version") or None)
    what = in_words([one.version or "" for one in gone], 5)
    visitor_of(request).tell(f"Deleted {one_line(name)} {what}. It can be had back below.")
    return RedirectResponse("/suites#deleted", 303)


@router.post("/suite/undo")
def undo(request: Request, form: Annotated[Form, Depends(form_of)]) -> Response:
    """Have a deleted version back, as it was."""
    site = site_of(request)
    try:
        with site.store() as store:
            suite = Trash(store, trash_of(site)).restore(form.text("name"), form.text("version"))
    except StoreError as error:
        raise UsageError(str(error)) from None
    visitor_of(request).tell(f"{one_line(suite.title)} is back as it was.")
    return RedirectResponse(url("/suite", name=suite.name, version=suite.version), 303)
