"""Create Suite: cases that are pasted or uploaded, looked over, and saved as the next version."""

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

from proctor.dialects import DIALECTS, RENDERERS
from proctor.errors import ProctorError, SuiteError, UsageError
from proctor.model import Suite
from proctor.plurals import counted
from proctor.safe_text import one_line
from proctor.services.runs.planning.target_names import Names
from proctor.services.suites.convert import MAIN, converted
from proctor.services.suites.draft import Draft, draft_of, options_of, save
from proctor.services.suites.library import Saved
from proctor.services.suites.upload import FOLDER, Upload, chosen, decoded, of_files, of_text
from proctor.services.suites.zip_upload import check_paths, is_zip, unpacked
from proctor.splits import holdout_size
from proctor.web.annotated_source import marked
from proctor.web.browser_sessions import visitor_of
from proctor.web.pending_uploads import shelf_of
from proctor.web.project import Site, site_of
from proctor.web.security import Form, form_of
from proctor.web.templates_env import NotThere, page, url

router = APIRouter()

MOST_EDITED = 2**19
"""So many characters are edited in the page; a longer text is held as a file is, as browsers get slow."""
DEMO = "demo"
_STATES = {
    "new": "",
    "same": " It is the same as before.",
    "renewed": " It is the same but for tags, metadata, order or holdout.",
    "earlier": " It was this version before, and is current again.",
}


class Asked(Struct, frozen=True, kw_only=True):
    """What the form says besides the cases."""

    name: str = ""
    dialect: str = ""
    """Empty to find it from the content."""
    file_name: str = ""
    """What the text in the editor was called."""
    text: str = ""
    """What is in the editor, where nothing is held."""
    key: str = ""
    """The upload that is held instead of a text."""
    holdout: str = ""
    """The share that is held out; empty leaves that to the file."""

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
                f"The share held out is {self.holdout[:40]!r}; give a share below 1, such as 0.2, or 0 to "
                "hold nothing out."
            ) from None


@router.get("/suites/new")
def create(request: Request, name: str = "", version: str = "") -> Response:
    """An empty editor, or one with a saved suite whose next version is to be written."""
    if not name:
        return _page(request, Asked(), None)
    text, suite = _written(site_of(request), name, version)
    asked = Asked(
        name=suite.name,
        file_name="" if text is None else "suite",
        text=text or "",
        holdout="0" if suite.no_holdout else "",  # which not every format can say
    )
    if text is None:
        visitor_of(request).tell(
            f"{suite.title} is too large, or too many files, to be edited here. Export it."
        )
    return _page(request, asked, None)


@router.get("/suites/check")
@router.get("/suites/save")
@router.get("/suites/demo")
def begin_anew(_request: Request) -> Response:
    """Where somebody comes who opens the address of a form again."""
    return RedirectResponse("/suites/new", 303)


@router.post("/suites/demo")
def demo(request: Request) -> Response:
    """A sample suite in the editor, looked over and ready to be saved."""
    asked = Asked(name=DEMO, text=_demo(), file_name="demo.jsonl")
    return _looked_over(request, asked, of_text(asked.text, asked.file_name))


@router.post("/suites/check")
def check(request: Request, form: Annotated[Form, Depends(form_of)]) -> Response:
    """Everything that is wrong or doubtful, at its line, and what would be sent."""
    asked = _asked(form)
    try:
        return _looked_over(request, asked, _upload(request, form, asked))
    except ProctorError as error:
        return _refused(request, asked, error)


@router.post("/suites/save")
def keep(request: Request, form: Annotated[Form, Depends(form_of)]) -> Response:
    """The next version, or what keeps it from being saved."""
    asked = _asked(form)
    site = site_of(request)
    try:
        upload = _upload(request, form, asked)
        with site.store() as store:
            saved = save(
                store,
                upload,
                name=asked.name,
                dialect=asked.dialect or None,
                holdout=asked.share,
                own_targets=own_targets(site),
                options=options_of(site.config),
            )
    except SuiteError:
        return _looked_over(request, asked, upload, status=400)
    except UsageError as error:
        return _refused(request, asked, error)
    visitor_of(request).tell(_told(saved))
    return RedirectResponse(url("/suite", name=saved.suite.name, version=saved.suite.version), 303)


# --- what was sent -----------------------------------------------------------------------------------------


def _asked(form: Form) -> Asked:
    return Asked(
        name=form.text("name").strip(),
        dialect=form.text("dialect"),
        file_name=form.text("file_name"),
        text=form.text("text"),
        key=form.text("key"),
        holdout=form.text("holdout").strip(),
    )


def _upload(request: Request, form: Form, asked: Asked) -> Upload:
    """What is to be read: the files that were chosen now, else what is held, else the text in the editor.

    Raises:
        UsageError: it is nothing that can be read; says what is wrong with it.
    """
    sent = form.files("file")
    if len(sent) == 1 and is_zip(sent[0].data):
        return of_files(unpacked(sent[0].data), splitext(basename(sent[0].name))[0])
    if len(sent) == 1:
        return of_text(decoded(sent[0].data, sent[0].name), sent[0].name, asked.dialect or None)
    if sent:
        check_paths([one.name for one in sent])
        return of_files({one.name: one.data for one in sent})
    if asked.key:
        upload = shelf_of(site_of(request)).get(visitor_of(request).id, asked.key)
        if upload is None:
            raise UsageError(
                "The upload is gone: it is held until the server stops, or until you upload others. "
                "Choose the file once more."
            )
        main = form.text("main")
        return chosen(upload, main) if main else upload
    return of_text(asked.text, asked.file_name, asked.dialect or None)


def own_targets(site: Site) -> frozenset[str]:
    """The names of the server's own targets file; none where it is wrong, which Run Suite says."""
    try:
        return frozenset(Names(site.environ, site.folder).names())
    except ProctorError:
        return frozenset()


@cache
def _demo() -> str:
    return files("proctor.web").joinpath("demo.jsonl").read_text("utf-8")


def _written(site: Site, name: str, version: str) -> tuple[str | None, Suite]:
    """A saved suite as a text to edit; None where it is more than a text."""
    with site.store() as store:
        suite = store.suite(name, version or None)
        if suite is None:
            raise NotThere(f"There is no suite {name!r} {version} here.")
        cases = [stored.case for stored in store.cases(suite.content)]
    for dialect in dict.fromkeys((suite.dialect, "proctor")):
        if dialect in RENDERERS.names():
            made = converted(suite, cases, dialect, lossy=False)
            if not made.failed and made.files.keys() == {MAIN}:
                text = made.files[MAIN].decode("utf-8")
                return (text if len(text) <= MOST_EDITED else None), suite
    return None, suite


# --- what is shown -----------------------------------------------------------------------------------------


def _looked_over(request: Request, asked: Asked, upload: Upload, status: int = 200) -> Response:
    site = site_of(request)
    draft = draft_of(
        upload,
        name=asked.name,
        dialect=asked.dialect or None,
        holdout=asked.share,
        own_targets=own_targets(site),
        options=options_of(site.config),
    )
    text = upload.text
    if text is not None and len(text) <= MOST_EDITED:
        shown = replace(asked, file_name=upload.main, text=text, key="")
    else:
        key, shelf, visitor = asked.key, shelf_of(site), visitor_of(request)
        if not key or shelf.get(visitor.id, key) != upload:
            key = shelf.put(visitor.id, upload)
        shown = replace(asked, file_name="", text="", key=key)
    return _page(request, shown, draft, status=status)


def _refused(request: Request, asked: Asked, error: ProctorError) -> Response:
    """The form with all that was typed, and why it came to nothing."""
    if asked.key and shelf_of(site_of(request)).get(visitor_of(request).id, asked.key) is None:
        asked = replace(asked, key="")
    return _page(request, asked, None, status=400, wrong=str(error))


def _page(
    request: Request, asked: Asked, draft: Draft | None, *, status: int = 200, wrong: str = ""
) -> Response:
    return page(
        request,
        "create.html",
        status,
        asked=asked,
        draft=draft,
        wrong=wrong,
        answer=first_line(draft) if draft else "",
        split=_split(draft) if draft else "",
        known=_known(request, asked, draft),
        marked=marked(draft.upload, draft.problems) if draft else None,
        dialects=DIALECTS.names(),
        folder=FOLDER,
    )


def _known(request: Request, asked: Asked, draft: Draft | None) -> Suite | None:
    """The version that is current under the name it would be saved by."""
    name = asked.name or (draft.suite.name if draft and draft.suite else "")
    site = site_of(request)
    if not name or not site.location.exists():
        return None
    with site.store() as store:
        return store.suite(name)


def first_line(draft: Draft) -> str:
    """What looking over a suite came to: `30 cases read, 1 error, 2 leak warnings: fix or ignore …`."""
    errors, warnings = len(draft.errors), len(draft.warnings)
    leaks = sum(one.code == "leak" for one in draft.warnings)
    told = [counted(draft.read, "case") + " read"]
    told += [counted(errors, "error")] * bool(errors)
    told += [counted(leaks, "leak warning")] * bool(leaks)
    told += [counted(warnings - leaks, "other warning" if leaks else "warning")] * (warnings > leaks)
    if errors:
        return f"{', '.join(told)}: fix {'it' if errors == 1 else 'them'} before saving"
    if warnings:
        return f"{', '.join(told)}: fix or ignore before saving"
    return f"{told[0]}, no error, no warning: ready to be saved"


def _split(draft: Draft) -> str:
    """How many cases are dev and holdout; empty where nothing is held out."""
    suite = draft.suite
    if suite is None or suite.split_rule is None:
        return ""
    held = len(draft.holdout) or holdout_size(suite.case_count, suite.split_rule.ratio)
    return f"{suite.case_count - held:,} dev + {held:,} holdout"


def _told(saved: Saved) -> str:
    suite = saved.suite
    cases = counted(suite.case_count, "case")
    return f"Saved {one_line(suite.title)}: {cases}.{_STATES[saved.state]}"
