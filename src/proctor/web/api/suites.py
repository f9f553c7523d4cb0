"""Suites over the API: list, save, validate, compare, export."""

from __future__ import annotations

from base64 import b64encode
from itertools import islice
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query
from msgspec.structs import asdict
from starlette.requests import Request

from proctor.dialects import LOSSLESS, writable_names
from proctor.errors import ExitCode, SuiteError, UsageError, suggestion
from proctor.model import Suite
from proctor.protocols import Store
from proctor.reports.runs.json import (
    FileValidationRecord,
    ValidationRecord,
    file_issue_records,
    issue_records,
)
from proctor.reports.suites import (
    CaseRecord,
    SuiteDiffRecord,
    SuiteHistoryRecord,
    SuiteListRecord,
    SuiteRecord,
    case_record,
    detail_record,
    diff_record,
    history_record,
    list_record,
)
from proctor.services.runs.planning.target_names import TargetNames
from proctor.services.suites.convert import MAIN_FILE, ConvertedSuite, convert_suite
from proctor.services.suites.overview import describe_version, list_saved_versions
from proctor.services.suites.save_upload import DraftSettings, check_upload, save_draft, upload_options
from proctor.services.suites.upload import upload_from_text
from proctor.suite_diff import diff_suites
from proctor.web.api.bodies import SuiteRequest
from proctor.web.api.operations import Created, operation
from proctor.web.api.records import (
    CasePageRecord,
    ExportedFileRecord,
    SavedSuiteRecord,
    SuiteExportRecord,
)
from proctor.web.api.requests import MAX_INTEGER, REQUIRES_JSON, Limit, SuiteName, Version
from proctor.web.project import Project, get_project
from proctor.web.templates_env import PageNotFound

router = APIRouter(tags=["suites"])


@operation(router.get, "/suites")
def list_suites(request: Request) -> SuiteListRecord:
    """Every saved suite with its versions."""
    with get_project(request).open_store() as store:
        return list_record(list_saved_versions(store))


@operation(
    router.post,
    "/suites",
    status=201,
    responses={200: {"description": "This version already exists."}},
    dependencies=REQUIRES_JSON,
)
def save_suite(request: Request, body: SuiteRequest) -> Created[SavedSuiteRecord]:
    """Save a suite as the next version of its name; a suite with errors is a problem and is not saved.

    A suite that could act on this machine is refused: program graders, workspaces, hooks, environment
    variables, and targets or judges that this server's targets file does not name.
    """
    project = get_project(request)
    upload = upload_from_text(body.text, body.filename or body.name, body.dialect)
    settings = _draft_settings(body, project)
    try:
        with project.open_store() as store:
            saved = save_draft(store, upload, settings)
    except SuiteError:
        if errors := check_upload(upload, settings).errors:  # at their lines, and all of them
            raise SuiteError(errors) from None
        raise
    suite = saved.suite
    record = SavedSuiteRecord(
        suite=suite.name,
        version=suite.version or "",
        state=saved.state,
        cases=suite.case_count,
        dialect=suite.dialect,
        suite_digest=suite.digest,
        warnings=issue_records(saved.problems, "warning"),
    )
    location = f"/api/v1/suite?{urlencode({'name': suite.name, 'version': suite.version})}"
    return Created(record, location, None if saved.state == "new" else 200)


@operation(router.post, "/suites/validate", dependencies=REQUIRES_JSON)
def validate_suite(request: Request, body: SuiteRequest) -> ValidationRecord:
    """Every error and warning of a suite, with its line; the suite is not saved."""
    upload = upload_from_text(body.text, body.filename or body.name, body.dialect)
    draft = check_upload(upload, _draft_settings(body, get_project(request)))
    file = FileValidationRecord(
        path=upload.main,
        dialect=None if draft.suite is None else draft.suite.dialect,
        cases=0 if draft.suite is None else draft.suite.case_count,
        errors=file_issue_records(draft.errors),
        warnings=file_issue_records(draft.warnings),
    )
    return ValidationRecord(files=(file,), exit_code=int(ExitCode.USAGE if draft.errors else ExitCode.OK))


@operation(router.get, "/suite", 404)
def get_suite(request: Request, name: SuiteName, version: Version = None) -> SuiteRecord:
    """One version of a suite: its cases by category, tag and split, its runs, and its holdout accesses."""
    with get_project(request).open_store() as store:
        return detail_record(describe_version(store, _suite(store, name, version)))


@operation(router.get, "/suite/versions", 404)
def list_versions(request: Request, name: SuiteName) -> SuiteHistoryRecord:
    """The versions of a suite, oldest first."""
    with get_project(request).open_store() as store:
        _suite(store, name, None)
        return history_record(list_saved_versions(store, name))


@operation(router.get, "/suite/cases", 404)
def list_cases(
    request: Request,
    name: SuiteName,
    version: Version = None,
    after: Annotated[
        int | None, Query(ge=0, le=MAX_INTEGER, description="Only cases after this position.")
    ] = None,
    limit: Limit = 100,
) -> CasePageRecord:
    """The cases of a version, in order; `/suite/export` has their texts."""
    start = 0 if after is None else after + 1
    with get_project(request).open_store() as store:
        detail = describe_version(store, _suite(store, name, version))
        suite = detail.saved.suite
        cases = list(islice(store.cases(suite.content, start), limit + 1))
        records = [
            CaseRecord(**asdict(case_record(detail, position, stored_case)) | {"position": position})
            for position, stored_case in enumerate(cases[:limit], start)
        ]
    return CasePageRecord(
        suite=suite.name,
        version=suite.version or "",
        cases=tuple(records),
        next=start + limit - 1 if len(cases) > limit else None,
    )


@operation(router.get, "/suite/diff", 400, 404)
def compare_versions(
    request: Request,
    name: SuiteName,
    old: Annotated[str, Query(description="The older version.", examples=["v1"])],
    new: Annotated[
        str | None, Query(description="The newer version; by default the one saved last.", examples=["v2"])
    ] = None,
) -> SuiteDiffRecord:
    """What changed between two versions: cases added, removed, renamed, and changed field by field."""
    with get_project(request).open_store() as store:
        old_suite, new_suite = _suite(store, name, old), _suite(store, name, new)
        old_cases, new_cases = (
            (stored_case.case for stored_case in store.cases(suite.content))
            for suite in (old_suite, new_suite)
        )
        return diff_record(old_suite, new_suite, diff_suites(old_suite, old_cases, new_suite, new_cases))


@operation(router.get, "/suite/export", 400, 404)
def export_suite(
    request: Request,
    name: SuiteName,
    version: Version = None,
    to: Annotated[
        str, Query(description="The suite format to write.", json_schema_extra={"enum": writable_names()})
    ] = LOSSLESS,
    lossy: Annotated[bool, Query(description="Leave out what the format cannot express.")] = False,
) -> SuiteExportRecord:
    """A version in another suite format; what that format cannot express is listed in a problem response."""
    if to not in writable_names():
        raise UsageError(
            f"Suites cannot be exported to the format {to!r}. {suggestion(to, writable_names())}"
        )
    with get_project(request).open_store() as store:
        suite = _suite(store, name, version)
        conversion = convert_suite(
            suite, (stored_case.case for stored_case in store.cases(suite.content)), to, lossy=lossy
        )
    if conversion.has_errors:
        raise SuiteError(conversion.problems)
    return SuiteExportRecord(
        suite=suite.name,
        version=suite.version or "",
        dialect=to,
        files=tuple([_file_record(conversion, path) for path in conversion.files]),
        warnings=issue_records(conversion.problems, "warning"),
    )


def _draft_settings(body: SuiteRequest, project: Project) -> DraftSettings:
    """Returns the suite of a body, which may use the targets of the server's own file."""
    return DraftSettings(
        name=body.name,
        dialect=body.dialect,
        holdout=body.holdout,
        own_targets=TargetNames(project.environ, project.folder).names(),
        options=upload_options(project.config),
    )


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


def _file_record(conversion: ConvertedSuite, path: str) -> ExportedFileRecord:
    data = conversion.files[path]
    try:
        text, encoded = data.decode("utf-8"), None
    except UnicodeDecodeError:
        text, encoded = None, b64encode(data).decode("ascii")
    name = conversion.name_hint if path == MAIN_FILE else path
    return ExportedFileRecord(path=name, text=text, base64=encoded)
