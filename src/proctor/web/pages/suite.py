"""The page of a suite: versions, cases, runs, changes between versions, and exports."""

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

from proctor.dialects import DIALECTS, LOSSLESS, writable_names
from proctor.errors import UsageError
from proctor.model import Case, Suite
from proctor.plurals import pluralize
from proctor.protocols import Store
from proctor.reports import suites as suite_reports
from proctor.reports.suites import SuiteDetail, VersionEntry
from proctor.safe_text import one_line
from proctor.services.runs.reading.listing import summarize_run
from proctor.services.suites.convert import MAIN_FILE, ConvertedSuite, convert_suite
from proctor.services.suites.overview import describe_version, list_saved_versions
from proctor.services.suites.save_and_open import find_stored_suite
from proctor.services.suites.zip_upload import pack
from proctor.suite_diff import FieldChange, diff_suites
from proctor.web.project import Project, get_project
from proctor.web.templates_env import PageNotFound, render_page

router = APIRouter()

_PAGE_SIZE: Final = 50
"""Cases on one page."""
_MAX_POSITION: Final = 2**31
"""No suite has a case there, and every store accepts the number."""
_MAX_RUNS: Final = 10
_MAX_VERSIONS: Final = 50
"""Number of versions listed unless the older ones are requested."""
_MAX_DIFF_LINES: Final = 400
"""Lines shown of one changed text."""
_MAX_CHANGED_CASES: Final = 200
"""Changed cases of a comparison that are shown with their changes."""


class CaseEntry(Struct, frozen=True, kw_only=True):
    """A case in the table."""

    position: int
    case: Case
    is_held_out: bool
    graders: tuple[str, ...]


@router.get("/suite")
def show_suite(
    request: Request, name: str, version: str = "", after: int = -1, case: int = -1, older: bool = False
) -> Response:
    """Shows one version: its content and its runs."""
    project = get_project(request)
    after, case = (min(max(position, -1), _MAX_POSITION) for position in (after, case))
    with _open_store(project, name) as store:
        header = _find_version(store, name, version)
        detail = describe_version(store, header)
        content = detail.saved.suite.content
        rows = [
            _case_entry(detail, after + 1 + offset, stored_case.case)
            for offset, stored_case in enumerate(islice(store.cases(content, after + 1), _PAGE_SIZE + 1))
        ]
        selected = next(iter(store.cases(content, case)), None) if case >= 0 else None
        runs = [(summarize_run(store, run), run) for run in detail.runs[:_MAX_RUNS]]
        versions = list_saved_versions(store, name)
    newest_first = versions[::-1]
    return render_page(
        request,
        "suite.html",
        found=detail,
        suite=detail.saved.suite,
        answer=_headline(detail),
        versions=newest_first if older else newest_first[:_MAX_VERSIONS],
        version_count=len(versions),
        before=_previous_version(versions, detail.saved.suite),
        rows=rows[:_PAGE_SIZE],
        following=rows[_PAGE_SIZE - 1].position if len(rows) > _PAGE_SIZE else None,
        after=after,
        chosen=None if selected is None else _case_entry(detail, case, selected.case),
        runs=[(run, None if listed_run.is_sealed else listed_run.counts) for listed_run, run in runs],
        dialects={name: DIALECTS.get(name).output_format for name in writable_names()},
        command=f"proctor suites show {shell_quoted(f'{name}@{header.version}')} --cases",
    )


def _open_store(project: Project, name: str) -> Any:
    if not project.location.exists():
        raise PageNotFound(f"There is no suite {name!r}: this store is empty.")
    return project.open_store()


def _find_version(store: Store, name: str, version: str) -> Suite:
    """Returns a version of a suite, or the current one.

    Raises:
        PageNotFound: there is none.
    """
    try:
        suite = store.suite(name) if not version else find_stored_suite(store, f"{name}@{version}")
    except UsageError as error:
        raise PageNotFound(str(error)) from None
    if suite is None or suite.name != name:
        raise PageNotFound(f"There is no suite {name!r} in this store. It may have been deleted.")
    return suite


def _case_entry(detail: SuiteDetail, position: int, case: Case) -> CaseEntry:
    graders = dict.fromkeys(assertion.label or assertion.grader for assertion in case.assertions)
    is_held_out = detail.split_at(position) == "holdout"
    return CaseEntry(position=position, case=case, is_held_out=is_held_out, graders=tuple(graders))


def _headline(detail: SuiteDetail) -> str:
    suite = detail.saved.suite
    cases = pluralize(suite.case_count, "case")
    if detail.holdout is not None:
        holdout_count = len(detail.holdout)
        cases += f", {suite.case_count - holdout_count:,} dev + {holdout_count:,} holdout"
    runs = f"run {pluralize(len(detail.runs), 'time')}" if detail.runs else "not run yet"
    return f"{suite.title}: {cases}, {runs}"


def _previous_version(versions: list[VersionEntry], suite: Suite) -> str | None:
    """Returns the version listed before another one."""
    names = [saved.saved.suite.version for saved in versions]
    index = names.index(suite.version) if suite.version in names else 0
    return names[index - 1] if index else None


# --- changes between versions ------------------------------------------------------------------------------


@router.get("/suite/diff")
def show_changes(request: Request, name: str, old: str = "", new: str = "") -> Response:
    """Shows what changed between two versions; by default between the last two."""
    project = get_project(request)
    with _open_store(project, name) as store:
        versions = list_saved_versions(store, name)
        if not versions:
            raise PageNotFound(f"There is no suite {name!r} in this store. It may have been deleted.")
        if not old and len(versions) == 1:
            raise UsageError(f"The suite {name!r} has only one version, {versions[0].saved.suite.version}.")
        by_age = sorted(versions, key=lambda saved: (saved.saved.current, saved.saved.saved_at))
        first = _find_version(store, name, old or str(by_age[-2].saved.suite.version))
        second = _find_version(store, name, new)
        suite_diff = diff_suites(first, _read_cases(store, first), second, _read_cases(store, second))
    return render_page(
        request,
        "suite_diff.html",
        name=name,
        old=first,
        new=second,
        found=suite_diff,
        answer=next(suite_reports.render_diff(one_line(first.title), one_line(second.title), suite_diff)),
        versions=[saved.saved.suite.version for saved in versions],
        changed=[
            (case_change, [_describe_change(change) for change in case_change.changes])
            for case_change in suite_diff.changed[:_MAX_CHANGED_CASES]
        ],
        header=[_describe_change(change) for change in suite_diff.header],
        left_out=max(0, len(suite_diff.changed) - _MAX_CHANGED_CASES),
        command=f"proctor suites diff {shell_quoted(name)} {first.version} {second.version}",
    )


def _read_cases(store: Store, suite: Suite) -> Any:
    return (stored_case.case for stored_case in store.cases(suite.content))


def _describe_change(change: FieldChange) -> dict[str, Any]:
    """Returns a change; for texts of several lines the removed and added lines with context."""
    old, new = change.old, change.new
    lines: list[tuple[str, str]] = []
    if isinstance(old, str) and isinstance(new, str) and "\n" in old + new:
        diff_lines = unified_diff(old.split("\n"), new.split("\n"), n=2, lineterm="")
        lines = [
            (line[:1], line[1:])
            for line in islice(diff_lines, 2, 2 + _MAX_DIFF_LINES)
            if not line.startswith("@@")
        ]
    return {"field": change.field, "old": old, "new": new, "lines": lines}


# --- exports -----------------------------------------------------------------------------------------------


@router.get("/suite/export")
def export(
    request: Request, name: str, to: str = LOSSLESS, version: str = "", lossy: bool = False
) -> Response:
    """Sends a version in another dialect, or shows what that dialect cannot express."""
    project = get_project(request)
    with _open_store(project, name) as store:
        suite = _find_version(store, name, version)
        conversion = convert_suite(suite, _read_cases(store, suite), to, lossy=lossy)
    if conversion.has_errors:
        failed_cases = {problem.case for problem in conversion.problems if problem.level == "error"} - {None}
        flags = f"--to {to} --lossy" + (" -o FOLDER/" if DIALECTS.get(to).reads_folders else "")
        scope = pluralize(len(failed_cases), "case") if failed_cases else "the suite"
        return render_page(
            request,
            "suite_export.html",
            409,
            suite=suite,
            to=to,
            lossy=lossy,
            problems=conversion.problems[:200],
            left_out=max(0, len(conversion.problems) - 200),
            answer=f"The format {to} cannot express all of {scope}",
            command=f"proctor suites export {shell_quoted(f'{name}@{suite.version}')} {flags}",
        )
    return _download(conversion)


def _download(conversion: ConvertedSuite) -> Response:
    """Returns the files; several as a zip archive."""
    if conversion.files.keys() == {MAIN_FILE}:
        data, file_name = conversion.files[MAIN_FILE], conversion.name_hint
        kind = "application/yaml" if file_name.endswith((".yaml", ".yml")) else "application/jsonl"
    else:
        data = pack({path or conversion.name_hint: content for path, content in conversion.files.items()})
        file_name, kind = f"{conversion.stem}.zip", "application/zip"
    plain = file_name.encode("ascii", "replace").decode().replace("?", "_").replace('"', "_")
    disposition = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(file_name, safe='')}"
    return Response(
        data, headers={"content-disposition": disposition, "content-type": f"{kind}; charset=utf-8"}
    )
