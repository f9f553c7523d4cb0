"""The page Certificates: create, show and download them, and verify bundles of others."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response

from proctor.certification import find_conditions
from proctor.errors import ProctorError, UsageError
from proctor.model import Run
from proctor.plurals import pluralize
from proctor.protocols import Store
from proctor.reports.certificates.badge import COLOUR_MEANING
from proctor.reports.certificates.run_certificate import CertificateRecord, grey_reason
from proctor.reports.formatting import format_run_name, interval, percent
from proctor.safe_text import one_line
from proctor.services.bundles.attest import check_finished
from proctor.services.runs.reading.listing import RunFilter, find_runs
from proctor.web import certificate_files
from proctor.web.browser_sessions import get_session
from proctor.web.bundle_checks import check_bundle
from proctor.web.certificate_files import (
    CERTIFICATE_FILES,
    SavedCertificate,
    find_certificate,
    load_certificates,
)
from proctor.web.project import Project, get_project
from proctor.web.security import PageForm, read_form
from proctor.web.tasks import Task, TaskRunner, get_task_runner, stream_task
from proctor.web.templates_env import PageNotFound, load_run, render_fragment, render_page, url

router = APIRouter()

_TIMEOUT_S = 2.5
"""How long a request waits for a certificate before the page shows its progress."""
_MAX_RUNS = 50
"""Number of newest runs to choose from."""
_MAX_LISTED = 100
_WORD_MEANINGS = {
    "verified": "every score was derived again from the answers, and a trusted key signed the certificate.",
    "recounted": "some scores come from judges or programs and were counted as recorded.",
    "self-attested": "no trusted key signed the certificate, or its answers were imported.",
    "claimed": "the trials that it counts are hidden.",
}
"""What each verdict of a certificate means."""


@router.get("/certificates")
def show_certificates(request: Request, run: str = "", task: str = "") -> Response:
    """Shows all certificates, or that of a run."""
    project = get_project(request)
    with project.open_store() as store:
        if run:
            return _certificate_page(request, store, run, task)
        all_certificates = load_certificates(project)
        newest = all_certificates[0].document if all_certificates else None
        return render_page(
            request,
            "certificates.html",
            answer="No certificate yet"
            if newest is None
            else summarize(newest, _access_count(store, newest)),
            kept=all_certificates[:_MAX_LISTED],
            more=len(all_certificates) - _MAX_LISTED,
            runs=_certifiable_runs(store),
            run_name_text=format_run_name,
            **_signing_options(project),
        )


def _certificate_page(request: Request, store: Store, run_id: str, task_id: str) -> Response:
    project = get_project(request)
    certificate = find_certificate(project, run_id)
    run: Run | None = None
    with suppress(PageNotFound):
        run = load_run(store, run_id)
    if certificate is None and run is None:
        raise PageNotFound(f"This server has no run {run_id!r} and no certificate for it.")
    task = get_task_runner(request).find(task_id) if task_id else None
    answer, colour = f"{format_run_name(run) if run else run_id} has no certificate yet", ""
    if certificate is not None:
        document = certificate.document
        answer = summarize(document, _access_count(store, document))
        colour = (
            grey_reason(document.word, document.pass_rate, forced=bool(document.forced)) or COLOUR_MEANING
        )
    return render_page(
        request,
        "certificate.html",
        answer=answer,
        run_id=run_id,
        run=run,
        made=certificate,
        task=None if task is None or task.has_ended else task,
        wrong=_task_error(task),
        hinders=None if run is None else _obstacle(store, run, project.store_flags),
        conditions=[] if run is None else [condition.sentence for condition in find_conditions(run)],
        splits=run is not None and run.suite.split_rule is not None,
        command=f"proctor certify {shlex.quote(run_id)} -o certificate.json -o certificate.md -o badge.svg",
        meaning=_WORD_MEANINGS,
        colour=colour,
        **_signing_options(project),
    )


@router.post("/certificates")
def create(request: Request, form: Annotated[PageForm, Depends(read_form)]) -> Response:
    """Creates a certificate, or the public bundle beside it."""
    project, tasks = get_project(request), get_task_runner(request)
    with project.open_store() as store:
        run = load_run(store, form.text("run"))
        check_finished(store, run, store_flags=project.store_flags)
    key, public = certificate_files.resolve_key(project, form.text("key")), form.text("what") == "public"
    min_cases = _parse_min_cases(form.text("fewest"))
    task = _submit(tasks, project, run, key, None if public else min_cases, public=public)
    if task.wait(_TIMEOUT_S) and _task_error(task) is None:
        get_session(request).flash("The public bundle is ready." if public else "The certificate is ready.")
        return RedirectResponse(url("/certificates", run=run.id), 303)
    return RedirectResponse(url("/certificates", run=run.id, task=task.id), 303)


def _submit(
    tasks: TaskRunner, project: Project, run: Run, key: str | None, min_cases: int | None, *, public: bool
) -> Task[SavedCertificate]:
    if public:
        return tasks.submit(
            ("public bundle", run.id, key),
            lambda on_progress: certificate_files.create_public_bundle(project, run, key, on_progress),
            "trials written",
            cacheable=False,
        )
    return tasks.submit(
        ("certificate", run.id, key, min_cases),
        lambda on_progress: certificate_files.create_certificate(
            project, run, key, on_progress, min_cases=min_cases
        ),
        "trials written and checked",
        cacheable=False,
    )


@router.get("/certificates/progress/{task_id}")
def stream_progress(request: Request, task_id: str) -> Response:
    """Streams the progress of a certificate."""

    def render_progress(task: Task[object]) -> str:
        return render_fragment(request, "certificate_progress.html", task=task)

    return stream_task(get_task_runner(request), task_id, render_progress)


@router.get("/certificates/file")
def download_file(request: Request, run: str, name: str) -> Response:
    """Sends a file of a certificate, except the full bundle, which needs a form."""
    if name == "bundle":
        raise PageNotFound("Download the full bundle with the button on the certificate's page.")
    return _file_response(_require_certificate(request, run), name)


@router.post("/certificates/bundle")
def download_bundle(request: Request, form: Annotated[PageForm, Depends(read_form)]) -> Response:
    """Sends the full bundle with everything held out, which is a holdout access."""
    certificate = _require_certificate(request, form.text("run"))
    certificate_files.record_reveal(get_project(request), get_session(request), certificate)
    return _file_response(certificate, "bundle")


@router.post("/certificates/verify")
def verify(request: Request, form: Annotated[PageForm, Depends(read_form)]) -> Response:
    """Checks an uploaded bundle; nothing of it is kept."""
    files = form.files("bundle")
    if len(files) != 1:
        raise UsageError("Choose one bundle: an archive whose name ends in .zip.")
    bundle_check = check_bundle(get_project(request), files[0].name, files[0].data)
    return render_page(request, "verified.html", checked=bundle_check)


# --- views -------------------------------------------------------------------------------------------------


def summarize(document: CertificateRecord, access_count: int | None) -> str:
    """Sums up a certificate, as in `77.5% (62–88%) verified on 40 holdout cases, accessed 3 times`."""
    noun = "case" if document.part == "all" else f"{document.part} case"
    rate = f"{percent(document.pass_rate)} ({interval(document.ci95)})"
    text = f"{rate} {document.word} on {pluralize(document.cases, noun)}"
    if document.part != "holdout" or access_count is None:
        return text
    return f"{text}, accessed {'once' if access_count == 1 else f'{access_count:,} times'}"


def _access_count(store: Store, document: CertificateRecord) -> int | None:
    return len(store.holdout_accesses(document.suite.digest)) if document.part == "holdout" else None


def _certifiable_runs(store: Store) -> list[Run]:
    """Returns the newest runs that can be certified."""
    finished = find_runs(store, RunFilter(status="finished"))
    return list(islice((run for run in finished if run.imported is None), _MAX_RUNS))


def _signing_options(project: Project) -> dict[str, Any]:
    """Returns the names of the keys that can sign here."""
    return {"keys": certificate_files.list_signing_keys(project), "can_sign": certificate_files.can_sign()}


def _parse_min_cases(text: str) -> int | None:
    """Parses the minimum number of cases; None for the default.

    Raises:
        UsageError: it is no such number.
    """
    stripped = text.strip()
    if not stripped:
        return None
    if not re.fullmatch(r"[0-9]{1,6}", stripped) or not int(stripped):
        raise UsageError(
            f"{one_line(stripped[:40])!r} is not a number of cases. Enter a whole number of at least 1."
        )
    return int(stripped)


def _obstacle(store: Store, run: Run, store_flags: Sequence[str]) -> str | None:
    """Returns why a run cannot be certified, as far as that is known before trying."""
    try:
        check_finished(store, run, store_flags=store_flags)
    except UsageError as error:
        return str(error)
    return None


def _task_error(task: Task[Any] | None) -> str | None:
    """Returns the error of a task that has ended, or None."""
    if task is None or not task.has_ended:
        return None
    try:
        task.result()
    except ProctorError as error:
        return str(error)
    return None


def _require_certificate(request: Request, run_id: str) -> SavedCertificate:
    certificate = find_certificate(get_project(request), run_id)
    if certificate is None:
        raise PageNotFound(f"This server has no certificate for run {run_id!r}.")
    return certificate


def _file_response(certificate: SavedCertificate, name: str) -> Response:
    """Returns a file as a download, which browsers do not show as a page of ours."""
    if name not in CERTIFICATE_FILES:
        raise PageNotFound("A certificate has no such file.")
    file_name, suffix, kind = CERTIFICATE_FILES[name]
    path = certificate.folder / file_name
    if not path.is_file():
        raise PageNotFound("This file is missing. Create the certificate again.")
    return FileResponse(path, media_type=kind, filename=f"{certificate.document.run}.{suffix}")
