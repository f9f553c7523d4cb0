"""Suites over the API: listed, saved, validated, compared, exported."""

from __future__ import annotations

from base64 import b64encode
from itertools import islice
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from proctor.dialects import RENDERERS
from proctor.errors import ExitCode, SuiteError, UsageError, suggestion
from proctor.model import Problem, Suite
from proctor.protocols import Store
from proctor.reports import suites as told
from proctor.reports.runs.json import problem_row, validation
from proctor.services.runs.planning.target_names import Names
from proctor.services.suites.convert import MAIN, Converted, converted
from proctor.services.suites.overview import described, kept
from proctor.services.suites.save_upload import draft_of, options_of, save
from proctor.services.suites.upload import of_text
from proctor.suite_diff import diff
from proctor.web.api.models import suites as models
from proctor.web.api.requests import JSON, LARGEST, LOCATION, Limit, SuiteName, Version
from proctor.web.api.responses import answer
from proctor.web.project import Site, site_of
from proctor.web.templates_env import NotThere

router = APIRouter(tags=["suites"])


@router.get("/suites", response_model=models.SuiteList)
def list_suites(request: Request) -> Response:
    """Every saved suite with its versions."""
    with site_of(request).store() as store:
        return answer(told.list_json(kept(store)))


@router.post(
    "/suites",
    response_model=models.SavedSuite,
    status_code=201,
    responses={
        200: {"model": models.SavedSuite, "description": "It was saved before."},
        201: {"headers": LOCATION},
    },
    dependencies=JSON,
)
def save_suite(request: Request, body: models.SuiteText) -> Response:
    """Save a suite as the next version of its name; one that is wrong is a problem, and nothing is saved.

    A suite that would act on this machine is refused: program graders, workspaces, hooks, environment
    variables, and targets or judges that this server's targets file does not name.
    """
    site = site_of(request)
    upload = of_text(body.text, body.filename or body.name, body.dialect)
    given: dict[str, Any] = {**_wanted(body), **_here(site)}
    try:
        with site.store() as store:
            saved = save(store, upload, **given)
    except SuiteError:
        if errors := draft_of(upload, **given).errors:  # at their lines, and all of them
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
    place = f"/api/v1/suite?{urlencode({'name': suite.name, 'version': suite.version})}"
    return answer(row, 201 if saved.state == "new" else 200, {"location": place})


@router.post("/suites/validate", response_model=models.Validation, dependencies=JSON)
def validate_suite(request: Request, body: models.SuiteText) -> Response:
    """Every error and warning of a suite, with its line; nothing is saved."""
    upload = of_text(body.text, body.filename or body.name, body.dialect)
    draft = draft_of(upload, **_wanted(body), **_here(site_of(request)))
    row = {
        "path": upload.main,
        "dialect": None if draft.suite is None else draft.suite.dialect,
        "cases": 0 if draft.suite is None else draft.suite.case_count,
        "errors": [problem_row(one) for one in draft.errors],
        "warnings": [problem_row(one) for one in draft.warnings],
    }
    return answer(validation([row], ExitCode.USAGE if draft.errors else ExitCode.OK))


@router.get("/suite", response_model=models.SuiteRow, responses={404: {}})
def get_suite(request: Request, name: SuiteName, version: Version = None) -> Response:
    """One version of a suite: its cases by category, tag and split, its runs, and looks at its holdout."""
    with site_of(request).store() as store:
        return answer(told.described_json(described(store, _suite(store, name, version))))


@router.get("/suite/versions", response_model=models.SuiteVersions, responses={404: {}})
def list_versions(request: Request, name: SuiteName) -> Response:
    """The versions of a suite, oldest first."""
    with site_of(request).store() as store:
        _suite(store, name, None)
        return answer(told.history_json(kept(store, name)))


@router.get("/suite/cases", response_model=models.CasePage, responses={404: {}})
def list_cases(
    request: Request,
    name: SuiteName,
    version: Version = None,
    after: Annotated[
        int | None, Query(ge=0, le=LARGEST, description="Only cases behind this position.")
    ] = None,
    limit: Limit = 100,
) -> Response:
    """The cases of a version, in order; `/suite/export` has their texts."""
    start = 0 if after is None else after + 1
    with site_of(request).store() as store:
        found = described(store, _suite(store, name, version))
        suite = found.saved.suite
        cases = list(islice(store.cases(suite.content, start), limit + 1))
        rows = [
            {"position": place} | told.case_row(found, place, stored)
            for place, stored in enumerate(cases[:limit], start)
        ]
    more = len(cases) > limit
    row = {"suite": suite.name, "version": suite.version, "cases": rows}
    return answer({**row, "next": start + limit - 1 if more else None})


@router.get("/suite/diff", response_model=models.SuiteDiff, responses={400: {}, 404: {}})
def compare_versions(
    request: Request,
    name: SuiteName,
    old: Annotated[str, Query(description="The older version.", examples=["v1"])],
    new: Annotated[
        str | None, Query(description="The newer one; the version saved last without it.", examples=["v2"])
    ] = None,
) -> Response:
    """What changed between two versions: cases added, removed, renamed, and changed field by field."""
    with site_of(request).store() as store:
        was, is_ = _suite(store, name, old), _suite(store, name, new)
        before, after = ((stored.case for stored in store.cases(suite.content)) for suite in (was, is_))
        return answer(told.compared_json(was, is_, diff(was, before, is_, after)))


@router.get("/suite/export", response_model=models.Exported, responses={400: {}, 404: {}})
def export_suite(
    request: Request,
    name: SuiteName,
    version: Version = None,
    to: Annotated[
        str, Query(description="The dialect to write.", json_schema_extra={"enum": RENDERERS.names()})
    ] = "proctor",
    lossy: Annotated[bool, Query(description="Leave out what the dialect cannot say.")] = False,
) -> Response:
    """A version in any dialect that is written; what the dialect cannot say is a problem that names it."""
    if to not in RENDERERS.names():
        raise UsageError(f"Nothing is written in dialect {to!r}. {suggestion(to, RENDERERS.names())}")
    with site_of(request).store() as store:
        suite = _suite(store, name, version)
        made = converted(suite, (stored.case for stored in store.cases(suite.content)), to, lossy=lossy)
    if made.failed:
        raise SuiteError(made.problems)
    row = {"suite": suite.name, "version": suite.version, "dialect": to}
    return answer({**row, "files": _files(made), "warnings": _rows(made.problems)})


def _wanted(body: models.SuiteText) -> dict[str, Any]:
    """What a body says of the suite besides its text."""
    return {"name": body.name, "dialect": body.dialect, "holdout": body.holdout}


def _here(site: Site) -> dict[str, Any]:
    """What a suite may use here: the targets of the server's own file, and the project's way of reading."""
    names = Names(site.environ, site.folder).names()
    return {"own_targets": names, "options": options_of(site.config)}


def _suite(store: Store, name: str, version: str | None) -> Suite:
    """The suite of exactly that name, in that version or the one last saved.

    Raises:
        NotThere: there is none.
        UsageError: more than one version fits.
    """
    last = store.suite(name)
    if last is not None and version is None:
        return last
    if last is not None and version is not None:
        every = [one.suite for one in store.versions(name)]
        fitting = [one for one in every if version == one.version or one.digest.startswith(version)]
        if len(fitting) > 1:
            raise UsageError(f"The digests of several versions begin with {version!r}. Give more digits.")
        if fitting:
            return fitting[0]
        raise NotThere(f"The suite {name!r} has no version {version!r}.")
    names = sorted({one.suite.name for one in store.versions()})
    raise NotThere(f"There is no suite {name!r} in the store. {suggestion(name, names)}")


def _rows(problems: tuple[Problem, ...] | list[Problem]) -> list[dict[str, Any]]:
    return [{"path": one.path, **problem_row(one)} for one in problems]


def _files(made: Converted) -> list[dict[str, Any]]:
    rows = []
    for path, data in made.files.items():
        try:
            text, coded = data.decode("utf-8"), None
        except UnicodeDecodeError:
            text, coded = None, b64encode(data).decode("ascii")
        rows.append({"path": made.name_hint if path == MAIN else path, "text": text, "base64": coded})
    return rows
