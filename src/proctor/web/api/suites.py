"""Suites over the API: list, save, validate, compare, export."""

from __future__ import annotations

from base64 import b64encode
from itertools import islice
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from proctor.dialects import LOSSLESS, writable_names
from proctor.errors import ExitCode, SuiteError, UsageError, suggestion
from proctor.model import Problem, Suite
from proctor.protocols import Store
from proctor.reports import suites as suite_reports
from proctor.reports.runs.json import problem_row, render_validation
from proctor.services.runs.planning.target_names import TargetNames
from proctor.services.suites.convert import MAIN_FILE, ConvertedSuite, convert_suite
from proctor.services.suites.overview import describe_version, list_saved_versions
from proctor.services.suites.save_upload import check_upload, save_draft, upload_options
from proctor.services.suites.upload import upload_from_text
from proctor.suite_diff import diff_suites
from proctor.web.api.models import suites as models
from proctor.web.api.requests import LOCATION_HEADER, MAX_INTEGER, REQUIRES_JSON, Limit, SuiteName, Version
from proctor.web.api.responses import json_response
from proctor.web.project import Project, get_project
from proctor.web.templates_env import PageNotFound

router = APIRouter(tags=["suites"])


@router.get("/suites", response_model=models.SuiteListResource)
def list_suites(request: Request) -> Response:
    """Every saved suite with its versions."""
    with get_project(request).open_store() as store:
        return json_response(suite_reports.render_list_json(list_saved_versions(store)))


@router.post(
    "/suites",
    response_model=models.SavedSuiteResource,
    status_code=201,
    responses={
        200: {"model": models.SavedSuiteResource, "description": "It was saved before."},
        201: {"headers": LOCATION_HEADER},
    },
    dependencies=REQUIRES_JSON,
)
def save_suite(request: Request, body: models.SuiteRequest) -> Response:
    """Save a suite as the next version of its name; a suite with errors is a problem and is not saved.

    A suite that would act on this machine is refused: program graders, workspaces, hooks, environment
    variables, and targets or judges that this server's targets file does not name.
    """
    project = get_project(request)
    upload = upload_from_text(body.text, body.filename or body.name, body.dialect)
    options: dict[str, Any] = {**_body_options(body), **_project_options(project)}
    try:
        with project.open_store() as store:
            saved = save_draft(store, upload, **options)
    except SuiteError:
        if errors := check_upload(upload, **options).errors:  # at their lines, and all of them
            raise SuiteError(errors) from None
        raise
    suite = saved.suite
    row = {
        "suite": suite.name,
        "version": suite.version,
        "state": saved.state,
        "cases": suite.case_count,
        "dialect": suite.dialect,
        "suite_digest": suite.digest,
        "warnings": _rows(saved.problems),
    }
    location = f"/api/v1/suite?{urlencode({'name': suite.name, 'version': suite.version})}"
    return json_response(row, 201 if saved.state == "new" else 200, {"location": location})


@router.post("/suites/validate", response_model=models.ValidationResource, dependencies=REQUIRES_JSON)
def validate_suite(request: Request, body: models.SuiteRequest) -> Response:
    """Every error and warning of a suite, with its line; the suite is not saved."""
    upload = upload_from_text(body.text, body.filename or body.name, body.dialect)
    draft = check_upload(upload, **_body_options(body), **_project_options(get_project(request)))
    row = {
        "path": upload.main,
        "dialect": None if draft.suite is None else draft.suite.dialect,
        "cases": 0 if draft.suite is None else draft.suite.case_count,
        "errors": [problem_row(problem) for problem in draft.errors],
        "warnings": [problem_row(problem) for problem in draft.warnings],
    }
    return json_response(render_validation([row], ExitCode.USAGE if draft.errors else ExitCode.OK))


@router.get("/suite", response_model=models.SuiteResource, responses={404: {}})
def get_suite(request: Request, name: SuiteName, version: Version = None) -> Response:
    """One version of a suite: its cases by category, tag and split, its runs, and its holdout accesses."""
    with get_project(request).open_store() as store:
        return json_response(
            suite_reports.render_detail_json(describe_version(store, _suite(store, name, version)))
        )


@router.get("/suite/versions", response_model=models.SuiteHistoryResource, responses={404: {}})
def list_versions(request: Request, name: SuiteName) -> Response:
    """The versions of a suite, oldest first."""
    with get_project(request).open_store() as store:
        _suite(store, name, None)
        return json_response(suite_reports.render_history_json(list_saved_versions(store, name)))


@router.get("/suite/cases", response_model=models.CasePageResource, responses={404: {}})
def list_cases(
    request: Request,
    name: SuiteName,
    version: Version = None,
    after: Annotated[
        int | None, Query(ge=0, le=MAX_INTEGER, description="Only cases behind this position.")
    ] = None,
    limit: Limit = 100,
) -> Response:
    """The cases of a version, in order; `/suite/export` has their texts."""
    start = 0 if after is None else after + 1
    with get_project(request).open_store() as store:
        detail = describe_version(store, _suite(store, name, version))
        suite = detail.saved.suite
        cases = list(islice(store.cases(suite.content, start), limit + 1))
        rows = [
            {"position": position} | suite_reports.case_row(detail, position, stored_case)
            for position, stored_case in enumerate(cases[:limit], start)
        ]
    more = len(cases) > limit
    row = {"suite": suite.name, "version": suite.version, "cases": rows}
    return json_response({**row, "next": start + limit - 1 if more else None})


@router.get("/suite/diff", response_model=models.SuiteDiffResource, responses={400: {}, 404: {}})
def compare_versions(
    request: Request,
    name: SuiteName,
    old: Annotated[str, Query(description="The older version.", examples=["v1"])],
    new: Annotated[
        str | None, Query(description="The newer one; the version saved last without it.", examples=["v2"])
    ] = None,
) -> Response:
    """What changed between two versions: cases added, removed, renamed, and changed field by field."""
    with get_project(request).open_store() as store:
        old_suite, new_suite = _suite(store, name, old), _suite(store, name, new)
        old_cases, new_cases = (
            (stored_case.case for stored_case in store.cases(suite.content))
            for suite in (old_suite, new_suite)
        )
        return json_response(
            suite_reports.render_diff_json(
                old_suite, new_suite, diff_suites(old_suite, old_cases, new_suite, new_cases)
            )
        )


@router.get("/suite/export", response_model=models.SuiteExportResource, responses={400: {}, 404: {}})
def export_suite(
    request: Request,
    name: SuiteName,
    version: Version = None,
    to: Annotated[
        str, Query(description="The dialect to write.", json_schema_extra={"enum": writable_names()})
    ] = LOSSLESS,
    lossy: Annotated[bool, Query(description="Leave out what the dialect cannot say.")] = False,
) -> Response:
    """A version in another dialect; what the dialect cannot express is a problem that names it."""
    if to not in writable_names():
        raise UsageError(f"Nothing is written in dialect {to!r}. {suggestion(to, writable_names())}")
    with get_project(request).open_store() as store:
        suite = _suite(store, name, version)
        conversion = convert_suite(
            suite, (stored_case.case for stored_case in store.cases(suite.content)), to, lossy=lossy
        )
    if conversion.has_errors:
        raise SuiteError(conversion.problems)
    row = {"suite": suite.name, "version": suite.version, "dialect": to}
    return json_response({**row, "files": _files(conversion), "warnings": _rows(conversion.problems)})


def _body_options(body: models.SuiteRequest) -> dict[str, Any]:
    """Returns the options that a body gives besides the suite's text."""
    return {"name": body.name, "dialect": body.dialect, "holdout": body.holdout}


def _project_options(project: Project) -> dict[str, Any]:
    """Returns what suites may use here: the targets of the server's own file, and the reading options."""
    names = TargetNames(project.environ, project.folder).names()
    return {"own_targets": names, "options": upload_options(project.config)}


def _suite(store: Store, name: str, version: str | None) -> Suite:
    """Returns the suite of exactly that name, in the given version or the current one.

    Raises:
        PageNotFound: there is none.
        UsageError: more than one version fits.
    """
    current = store.suite(name)
    if current is not None and version is None:
        return current
    if current is not None and version is not None:
        versions = [saved_suite.suite for saved_suite in store.versions(name)]
        matches = [
            saved_suite
            for saved_suite in versions
            if version == saved_suite.version or saved_suite.digest.startswith(version)
        ]
        if len(matches) > 1:
            raise UsageError(f"The digests of several versions begin with {version!r}. Give more digits.")
        if matches:
            return matches[0]
        raise PageNotFound(f"The suite {name!r} has no version {version!r}.")
    names = sorted({saved_suite.suite.name for saved_suite in store.versions()})
    raise PageNotFound(f"There is no suite {name!r} in the store. {suggestion(name, names)}")


def _rows(problems: tuple[Problem, ...] | list[Problem]) -> list[dict[str, Any]]:
    return [{"path": problem.path, **problem_row(problem)} for problem in problems]


def _files(conversion: ConvertedSuite) -> list[dict[str, Any]]:
    rows = []
    for path, data in conversion.files.items():
        try:
            text, encoded = data.decode("utf-8"), None
        except UnicodeDecodeError:
            text, encoded = None, b64encode(data).decode("ascii")
        rows.append(
            {"path": conversion.name_hint if path == MAIN_FILE else path, "text": text, "base64": encoded}
        )
    return rows
