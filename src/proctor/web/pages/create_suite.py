"""The page Create Suite: paste or upload cases, validate them, and save them as the next version."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from posixpath import basename, splitext
from typing import Annotated

from fastapi import APIRouter, Depends
from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from proctor.dialects import DIALECTS, LOSSLESS, writable_names
from proctor.errors import ProctorError, SuiteError, UsageError
from proctor.holdout import holdout_size
from proctor.model import Suite
from proctor.plurals import pluralize
from proctor.protocols import Store
from proctor.safe_text import one_line
from proctor.services.runs.planning.target_names import TargetNames
from proctor.services.suites.convert import MAIN_FILE, convert_suite
from proctor.services.suites.save_upload import (
    DraftSettings,
    UploadDraft,
    check_upload,
    save_draft,
    upload_options,
)
from proctor.services.suites.upload import (
    FOLDER_CHOICE,
    Upload,
    choose_suite,
    decode_suite_text,
    upload_from_files,
    upload_from_text,
)
from proctor.services.suites.zip_upload import check_paths, is_zip, unpack
from proctor.web.annotated_source import annotate
from proctor.web.browser_sessions import get_session
from proctor.web.pending_uploads import get_pending_uploads
from proctor.web.project import Project, get_project
from proctor.web.security import PageForm, read_form
from proctor.web.templates_env import PageNotFound, render_page, url

router = APIRouter()

MAX_EDITED_LENGTH = 2**19
"""Characters that can be edited in the page; a longer text is held like a file, as browsers get slow."""
DEMO = "demo"
_STATES = {
    "new": "",
    "same": " Nothing changed.",
    "renewed": " Only tags, metadata, order, holdout or prompts changed.",
    "earlier": " An earlier version with these cases is current again.",
}


class SuiteForm(Struct, frozen=True, kw_only=True):
    """The fields of the form."""

    name: str = ""
    dialect: str = ""
    """Empty to detect it from the content."""
    file_name: str = ""
    """The file name of the text in the editor."""
    text: str = ""
    """The text in the editor; empty if an upload is held."""
    key: str = ""
    """The key of the upload that is held instead of a text."""
    holdout: str = ""
    """The share held out; empty for what the file says."""
    new_case: str = ""
    """The id of the case that was added, which is shown once it is saved; empty if there is none."""

    @property
    def share(self) -> float | None:
        """The share as a number.

        Raises:
            UsageError: it is none.
        """
        if not self.holdout:
            return None
        try:
            return float(self.holdout)
        except ValueError:
            raise UsageError(
                f"The share held out is {self.holdout[:40]!r}. Enter a share below 1, such as 0.2, or 0 to "
                "hold nothing out."
            ) from None


@router.get("/suites/new")
def show_editor(request: Request, name: str = "", version: str = "") -> Response:
    """Shows an empty editor, or one with a saved suite to write its next version."""
    if not name:
        return _editor_page(request, SuiteForm(), None)
    text, suite = _load_for_editing(get_project(request), name, version)
    suite_form = SuiteForm(
        name=suite.name,
        file_name="" if text is None else "suite",
        text=text or "",
        holdout="0" if suite.no_holdout else "",  # not every format can express it
    )
    if text is None:
        get_session(request).flash(
            f"{suite.title} is too large, or has too many files, to be edited here. Export it instead."
        )
    return _editor_page(request, suite_form, None)


@router.get("/suites/check")
@router.get("/suites/save")
@router.get("/suites/demo")
def redirect_to_editor(_request: Request) -> Response:
    """Redirects when the address of a form is opened directly."""
    return RedirectResponse("/suites/new", 303)


@router.post("/suites/demo")
def show_demo(request: Request) -> Response:
    """Shows a validated sample suite in the editor."""
    suite_form = SuiteForm(name=DEMO, text=_load_demo(), file_name="demo.jsonl")
    return _checked_page(request, suite_form, upload_from_text(suite_form.text, suite_form.file_name))


@router.post("/suites/check")
def check(request: Request, form: Annotated[PageForm, Depends(read_form)]) -> Response:
    """Shows every error and warning at its line, and what would be sent to targets."""
    suite_form = _parse_form(form)
    try:
        return _checked_page(request, suite_form, _read_upload(request, form, suite_form))
    except ProctorError as error:
        return _refused_page(request, suite_form, error)


@router.post("/suites/save")
def save_version(request: Request, form: Annotated[PageForm, Depends(read_form)]) -> Response:
    """Saves the next version, or shows its errors."""
    suite_form = _parse_form(form)
    project = get_project(request)
    try:
        upload = _read_upload(request, form, suite_form)
        with project.open_store() as store:
            saved = save_draft(store, upload, _draft_settings(suite_form, project))
            place = _find_case(store, saved.suite, suite_form.new_case)
    except SuiteError:
        return _checked_page(request, suite_form, upload, status=400)
    except UsageError as error:
        return _refused_page(request, suite_form, error)
    suite = saved.suite
    cases = pluralize(suite.case_count, "case")
    get_session(request).flash(f"Saved {one_line(suite.title)}: {cases}.{_STATES[saved.state]}")
    saved_at = url("/suite", name=suite.name, version=suite.version, case=place)
    return RedirectResponse(saved_at if place is None else f"{saved_at}#case", 303)


def _find_case(store: Store, suite: Suite, case_id: str) -> int | None:
    """Returns the position of a case in a suite; None if no case has the id."""
    heads = enumerate(store.case_heads(suite.content)) if case_id else ()
    return next((position for position, head in heads if head.id == case_id), None)


# --- input -------------------------------------------------------------------------------------------------


def _parse_form(form: PageForm) -> SuiteForm:
    return SuiteForm(
        name=form.text("name").strip(),
        dialect=form.text("dialect"),
        file_name=form.text("file_name"),
        text=form.text("text"),
        key=form.text("key"),
        holdout=form.text("holdout").strip(),
        new_case=form.text("new_case"),
    )


def _read_upload(request: Request, form: PageForm, suite_form: SuiteForm) -> Upload:
    """Returns the upload to read: the files just chosen, else the held upload, else the text.

    Raises:
        UsageError: it cannot be read.
    """
    uploaded_files = form.files("file")
    if len(uploaded_files) == 1:
        name, data = uploaded_files[0].name, uploaded_files[0].data
        if is_zip(data):
            return upload_from_files(unpack(data), splitext(basename(name))[0])
        return upload_from_text(decode_suite_text(data, name), name, suite_form.dialect or None)
    if uploaded_files:
        check_paths([file.name for file in uploaded_files])
        return upload_from_files({file.name: file.data for file in uploaded_files})
    if suite_form.key:
        upload = get_pending_uploads(get_project(request)).get(get_session(request).id, suite_form.key)
        if upload is None:
            raise UsageError(
                "The upload is gone: the server keeps it until it stops or you upload other files. "
                "Choose the file again."
            )
        main = form.text("main")
        return choose_suite(upload, main) if main else upload
    return upload_from_text(suite_form.text, suite_form.file_name, suite_form.dialect or None)


def list_own_targets(project: Project) -> frozenset[str]:
    """Returns the names in the server's own targets file; empty if that is invalid, which Run Suite shows."""
    try:
        return frozenset(TargetNames(project.environ, project.folder).names())
    except ProctorError:
        return frozenset()


@cache
def _load_demo() -> str:
    return files("proctor.web").joinpath("demo.jsonl").read_text("utf-8")


def _load_for_editing(project: Project, name: str, version: str) -> tuple[str | None, Suite]:
    """Returns a saved suite as text to edit; None if it needs several files or is too long."""
    with project.open_store() as store:
        suite = store.suite(name, version or None)
        if suite is None:
            raise PageNotFound(f"There is no suite {name!r} {version} in this store.")
        cases = [stored_case.case for stored_case in store.cases(suite.content)]
    for dialect in dict.fromkeys((suite.dialect, LOSSLESS)):
        if dialect in writable_names():
            conversion = convert_suite(suite, cases, dialect, lossy=False)
            if not conversion.has_errors and conversion.files.keys() == {MAIN_FILE}:
                text = conversion.files[MAIN_FILE].decode("utf-8")
                return (text if len(text) <= MAX_EDITED_LENGTH else None), suite
    return None, suite


# --- views -------------------------------------------------------------------------------------------------


def _draft_settings(suite_form: SuiteForm, project: Project) -> DraftSettings:
    return DraftSettings(
        name=suite_form.name,
        dialect=suite_form.dialect or None,
        holdout=suite_form.share,
        own_targets=list_own_targets(project),
        options=upload_options(project.config),
    )


def _checked_page(request: Request, suite_form: SuiteForm, upload: Upload, status: int = 200) -> Response:
    project = get_project(request)
    draft = check_upload(upload, _draft_settings(suite_form, project))
    text = upload.text
    if text is not None and len(text) <= MAX_EDITED_LENGTH:
        updated_form = replace(suite_form, file_name=upload.main, text=text, key="")
    else:
        key, uploads, session = suite_form.key, get_pending_uploads(project), get_session(request)
        if not key or uploads.get(session.id, key) != upload:
            key = uploads.add(session.id, upload)
        updated_form = replace(suite_form, file_name="", text="", key=key)
    return _editor_page(request, updated_form, draft, status=status)


def _refused_page(request: Request, suite_form: SuiteForm, error: ProctorError) -> Response:
    """Shows the form with everything that was typed, and the error."""
    if (
        suite_form.key
        and get_pending_uploads(get_project(request)).get(get_session(request).id, suite_form.key) is None
    ):
        suite_form = replace(suite_form, key="")
    return _editor_page(request, suite_form, None, status=400, error=str(error))


def _editor_page(
    request: Request, suite_form: SuiteForm, draft: UploadDraft | None, *, status: int = 200, error: str = ""
) -> Response:
    return render_page(
        request,
        "create.html",
        status,
        suite_form=suite_form,
        draft=draft,
        wrong=error,
        answer=summarize_draft(draft) if draft else "",
        split=_split_text(draft) if draft else "",
        known=_current_version(request, suite_form, draft),
        annotated=annotate(draft.upload, draft.problems) if draft else None,
        dialects=DIALECTS.names(),
        folder=FOLDER_CHOICE,
    )


def _current_version(request: Request, suite_form: SuiteForm, draft: UploadDraft | None) -> Suite | None:
    """Returns the current version under the name that the suite would be saved by."""
    name = suite_form.name or (draft.suite.name if draft and draft.suite else "")
    project = get_project(request)
    if not name or not project.location.exists():
        return None
    with project.open_store() as store:
        return store.suite(name)


def summarize_draft(draft: UploadDraft) -> str:
    """Sums up a draft: `30 cases read, 1 error, 2 leak warnings: fix or ignore …`."""
    errors, warnings = len(draft.errors), len(draft.warnings)
    leaks = sum(problem.code == "leak" for problem in draft.warnings)
    parts = [pluralize(draft.read, "case") + " read"]
    parts += [pluralize(errors, "error")] * bool(errors)
    parts += [pluralize(leaks, "leak warning")] * bool(leaks)
    parts += [pluralize(warnings - leaks, "other warning" if leaks else "warning")] * (warnings > leaks)
    if errors:
        return f"{', '.join(parts)}: fix {'it' if errors == 1 else 'them'} before saving"
    if warnings:
        return f"{', '.join(parts)}: fix or ignore before saving"
    return f"{parts[0]}, no errors, no warnings: ready to save"


def _split_text(draft: UploadDraft) -> str:
    """Returns how many cases are dev and holdout; empty if nothing is held out."""
    suite = draft.suite
    if suite is None or suite.split_rule is None:
        return ""
    holdout_count = len(draft.holdout) or holdout_size(suite.case_count, suite.split_rule.ratio)
    return f"{suite.case_count - holdout_count:,} dev + {holdout_count:,} holdout"
