"""One suite: its versions, its cases and its runs, what changed between two versions, and its files."""

from __future__ import annotations

from difflib import unified_diff
from itertools import islice
from shlex import quote as shell_quoted
from typing import Any, Final
from urllib.parse import quote

from fastapi import APIRouter
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from proctor.dialects import RENDERERS
from proctor.errors import UsageError
from proctor.model import Case, Suite
from proctor.plurals import counted
from proctor.protocols import Store
from proctor.reports import suites as told
from proctor.reports.runs.serialize import counts_row
from proctor.reports.suites import Described, Kept
from proctor.safe_text import one_line
from proctor.services.runs.reading.listing import listed
from proctor.services.suites.convert import MAIN, Converted, converted
from proctor.services.suites.library import stored_suite
from proctor.services.suites.overview import described, kept
from proctor.services.suites.zip_upload import packed
from proctor.suite_diff import Change, Changed, diff
from proctor.web.project import Site, site_of
from proctor.web.templates_env import NotThere, page

router = APIRouter()

_CASES: Final = 50
"""So many cases a page."""
_FOLDER: Final = "a folder of Markdown"
_FILES: Final = {
    "agentv": "YAML",
    "ai_tester": _FOLDER,
    "meridian": "JSONL",
    "pramana": "JSONL",
    "proctor": "JSONL",
}
"""What the files of a dialect are."""
_FARTHEST: Final = 2**31
"""No suite has a case there, and no store breaks at it."""
_RUNS: Final = 10
_VERSIONS: Final = 50
"""So many are listed before somebody asks for the older ones."""
_LINES: Final = 400
"""So many lines of one changed text."""
_CHANGED: Final = 200
"""So many changed cases of a comparison are shown with what changed in them."""


class Row(Struct, frozen=True, kw_only=True):
    """A case in the table."""

    position: int
    case: Case
    held: bool
    graders: tuple[str, ...]


@router.get("/suite")
def suite(
    request: Request, name: str, version: str = "", after: int = -1, case: int = -1, older: bool = False
) -> Response:
    """One version: what is in it, and what was done with it."""
    site = site_of(request)
    after, case = (min(max(position, -1), _FARTHEST) for position in (after, case))
    with _store(site, name) as store:
        header = _version(store, name, version)
        found = described(store, header)
        content = found.saved.suite.content
        rows = [
            _row(found, after + 1 + nth, stored.case)
            for nth, stored in enumerate(islice(store.cases(content, after + 1), _CASES + 1))
        ]
        chosen = next(iter(store.cases(content, case)), None) if case >= 0 else None
        runs = [(listed(store, run), run) for run in found.runs[:_RUNS]]
        versions = kept(store, name)
    newest_first = versions[::-1]
    return page(
        request,
        "suite.html",
        found=found,
        suite=found.saved.suite,
        answer=_answer(found),
        versions=newest_first if older else newest_first[:_VERSIONS],
        version_count=len(versions),
        before=_before(versions, found.saved.suite),
        rows=rows[:_CASES],
        following=rows[_CASES - 1].position if len(rows) > _CASES else None,
        after=after,
        chosen=None if chosen is None else _row(found, case, chosen.case),
        runs=[(run, None if one.sealed else counts_row(one.counts)) for one, run in runs],
        dialects={name: _FILES.get(name, "") for name in RENDERERS.names()},
        command=f"proctor suites show {shell_quoted(f'{name}@{header.version}')} --cases",
    )


def _store(site: Site, name: str) -> Any:
    if not site.location.exists():
        raise NotThere(f"There is no suite {name!r}: nothing was saved here yet.")
    return site.store()


def _version(store: Store, name: str, version: str) -> Suite:
    """The version of a suite, or the current one.

    Raises:
        NotThere: there is none.
    """
    try:
        found = store.suite(name) if not version else stored_suite(store, f"{name}@{version}")
    except UsageError as error:
        raise NotThere(str(error)) from None
    if found is None or found.name != name:
        raise NotThere(f"There is no suite {name!r} here. It may have been deleted.")
    return found


def _row(found: Described, position: int, case: Case) -> Row:
    graders = dict.fromkeys(one.label or one.grader for one in case.assertions)
    held = found.split_of(position) == "holdout"
    return Row(position=position, case=case, held=held, graders=tuple(graders))


def _answer(found: Described) -> str:
    suite = found.saved.suite
    cases = counted(suite.case_count, "case")
    if found.holdout is not None:
        held = len(found.holdout)
        cases += f", {suite.case_count - held:,} dev + {held:,} holdout"
    runs = f"run {counted(len(found.runs), 'time')}" if found.runs else "not run yet"
    return f"{suite.title}: {cases}, {runs}"


def _before(versions: list[Kept], suite: Suite) -> str | None:
    """The version that stands before one in the list."""
    names = [one.saved.suite.version for one in versions]
    at = names.index(suite.version) if suite.version in names else 0
    return names[at - 1] if at else None


# --- what changed ------------------------------------------------------------------------------------------


@router.get("/suite/diff")
def changes(request: Request, name: str, old: str = "", new: str = "") -> Response:
    """What changed from one version to another; without a word of it, from the one before to the current."""
    site = site_of(request)
    with _store(site, name) as store:
        versions = kept(store, name)
        if not versions:
            raise NotThere(f"There is no suite {name!r} here. It may have been deleted.")
        if not old and len(versions) == 1:
            raise UsageError(f"The suite {name!r} has only one version, {versions[0].saved.suite.version}.")
        in_turn = sorted(versions, key=lambda one: (one.saved.current, one.saved.saved_at))
        first = _version(store, name, old or str(in_turn[-2].saved.suite.version))
        second = _version(store, name, new)
        found = diff(first, _cases(store, first), second, _cases(store, second))
    return page(
        request,
        "suite_diff.html",
        name=name,
        old=first,
        new=second,
        found=found,
        answer=next(told.compared(one_line(first.title), one_line(second.title), found)),
        versions=[one.saved.suite.version for one in versions],
        changed=[(one, _parts(one)) for one in found.changed[:_CHANGED]],
        header=[_part(change) for change in found.header],
        left_out=max(0, len(found.changed) - _CHANGED),
        command=f"proctor suites diff {shell_quoted(name)} {first.version} {second.version}",
    )


def _cases(store: Store, suite: Suite) -> Any:
    return (stored.case for stored in store.cases(suite.content))


def _parts(changed: Changed) -> list[dict[str, Any]]:
    return [_part(change) for change in changed.changes]


def _part(change: Change) -> dict[str, Any]:
    """A change; one of a text of several lines as lines that went and came, with those around them."""
    old, new = change.old, change.new
    lines: list[tuple[str, str]] = []
    if isinstance(old, str) and isinstance(new, str) and "\n" in old + new:
        told_so = unified_diff(old.split("\n"), new.split("\n"), n=2, lineterm="")
        lines = [(line[:1], line[1:]) for line in islice(told_so, 2, 2 + _LINES) if not line.startswith("@@")]
    return {"field": change.field, "old": old, "new": new, "lines": lines}


# --- its files ---------------------------------------------------------------------------------------------


@router.get("/suite/export")
def export(
    request: Request, name: str, to: str = "proctor", version: str = "", lossy: bool = False
) -> Response:
    """A version as a file of any dialect that is written, or what that dialect cannot say of it."""
    site = site_of(request)
    with _store(site, name) as store:
        suite = _version(store, name, version)
        made = converted(suite, _cases(store, suite), to, lossy=lossy)
    if made.failed:
        wrong = {problem.case for problem in made.problems if problem.level == "error"} - {None}
        flags = f"--to {to} --lossy" + (" -o FOLDER/" if _FILES.get(to) == _FOLDER else "")
        what = counted(len(wrong), "case") if wrong else "the suite"
        return page(
            request,
            "suite_export.html",
            409,
            suite=suite,
            to=to,
            lossy=lossy,
            problems=made.problems[:200],
            left_out=max(0, len(made.problems) - 200),
            answer=f"Dialect {to} cannot say everything of {what}",
            command=f"proctor suites export {shell_quoted(f'{name}@{suite.version}')} {flags}",
        )
    return _download(made)


def _download(made: Converted) -> Response:
    """The files; several as a zip archive."""
    if made.files.keys() == {MAIN}:
        data, file_name = made.files[MAIN], made.name_hint
        kind = "application/yaml" if file_name.endswith((".yaml", ".yml")) else "application/jsonl"
    else:
        stem = made.name_hint.removesuffix(".jsonl").removesuffix(".eval.yaml")
        data = packed({path or made.name_hint: content for path, content in made.files.items()})
        file_name, kind = f"{stem}.zip", "application/zip"
    plain = file_name.encode("ascii", "replace").decode().replace("?", "_").replace('"', "_")
    disposition = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(file_name, safe='')}"
    return Response(
        data, headers={"content-disposition": disposition, "content-type": f"{kind}; charset=utf-8"}
    )
