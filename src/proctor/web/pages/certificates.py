"""The page Certificates: made, shown, handed out, and bundles of other people checked."""

from __future__ import annotations

import re
import shlex
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response

from proctor.certification import conditions
from proctor.errors import ProctorError, UsageError
from proctor.model import Run
from proctor.plurals import counted
from proctor.protocols import Store
from proctor.reports.certificates.badge import MEANING
from proctor.reports.certificates.of_run import why_grey
from proctor.reports.formatting import interval, percent
from proctor.safe_text import one_line
from proctor.services.bundles.attest import check_finished
from proctor.services.runs.reading.listing import Filter, fitting
from proctor.web import certificate_files
from proctor.web.browser_sessions import visitor_of
from proctor.web.bundle_checks import verified
from proctor.web.certificate_files import FILES, Certificate, Kept, kept, kept_of
from proctor.web.project import Site, site_of
from proctor.web.security import Form, form_of
from proctor.web.tasks import Desk, Task, desk_of, followed
from proctor.web.templates_env import NotThere, page, part, run_of, url

router = APIRouter()

_PATIENCE_S = 2.5
"""For so long a request waits for a certificate; whatever takes longer is followed on the page."""
_OFFERED = 50
"""So many of the newest runs are offered."""
_LISTED = 100
_MEANING = {
    "verified": "every score was derived from the answers again, and a trusted key signed it.",
    "recounted": "some scores are those of judges or programs, and were counted as they stand.",
    "self-attested": "no trusted key signed it, or its answers were imported.",
    "claimed": "the trials that it counts are hidden.",
}
"""What each word of a certificate means."""


@router.get("/certificates")
def certificates(request: Request, run: str = "", task: str = "") -> Response:
    """All certificates, or that of a run."""
    site = site_of(request)
    with site.store() as store:
        if run:
            return _one(request, store, run, task)
        all_kept = kept(site)
        newest = all_kept[0].said if all_kept else None
        return page(
            request,
            "certificates.html",
            answer="No certificate yet" if newest is None else sentence(newest, _looks(store, newest)),
            kept=all_kept[:_LISTED],
            more=len(all_kept) - _LISTED,
            runs=_offered(store),
            **_keys(site),
        )


def _one(request: Request, store: Store, run_id: str, task_id: str) -> Response:
    site = site_of(request)
    made = kept_of(site, run_id)
    run = _run_if_there(store, run_id)
    if made is None and run is None:
        raise NotThere(f"There is no run {run_id!r} here, and no certificate of one.")
    task = desk_of(request).find(task_id) if task_id else None
    answer = f"Run {run_id} has no certificate yet"
    if made is not None:
        answer = sentence(made.said, _looks(store, made.said))
    return page(
        request,
        "certificate.html",
        answer=answer,
        run_id=run_id,
        run=run,
        made=made,
        task=None if task is None or task.has_ended else task,
        wrong=_wrong(task),
        hinders=None if run is None else _hinders(store, run),
        conditions=[] if run is None else [one.sentence for one in conditions(run)],
        splits=run is not None and run.suite.split_rule is not None,
        command=f"proctor certify {shlex.quote(run_id)} -o certificate.json -o certificate.md -o badge.svg",
        meaning=_MEANING,
        colour="" if made is None else _colour(made.said),
        **_keys(site),
    )


@router.post("/certificates")
def make(request: Request, form: Annotated[Form, Depends(form_of)]) -> Response:
    """Make a certificate, or the public bundle beside it."""
    site, desk = site_of(request), desk_of(request)
    with site.store() as store:
        run = run_of(store, form.text("run"))
        check_finished(store, run)
    key, public = certificate_files.key_of(site, form.text("key")), form.text("what") == "public"
    fewest = _fewest(form.text("fewest"))
    task = _begun(desk, site, run, key, None if public else fewest, public=public)
    if task.wait(_PATIENCE_S) and _wrong(task) is None:
        visitor_of(request).tell("The public bundle is made." if public else "The certificate is made.")
        return RedirectResponse(url("/certificates", run=run.id), 303)
    return RedirectResponse(url("/certificates", run=run.id, task=task.id), 303)


def _begun(
    desk: Desk, site: Site, run: Run, key: str | None, fewest: int | None, *, public: bool
) -> Task[Kept]:
    if public:
        return desk.ask(
            ("public bundle", run.id, key),
            lambda told: certificate_files.make_public(site, run, key, told),
            "trials written",
            lasting=False,
        )
    return desk.ask(
        ("certificate", run.id, key, fewest),
        lambda told: certificate_files.make(site, run, key, told, fewest=fewest),
        "trials written and checked",
        lasting=False,
    )


@router.get("/certificates/progress/{task_id}")
def progress(request: Request, task_id: str) -> Response:
    """How far a certificate is, live."""

    def shown(task: Task[object]) -> str:
        return part(request, "certificate_progress.html", task=task)

    return followed(desk_of(request), task_id, shown)


@router.get("/certificates/file")
def file(request: Request, run: str, name: str) -> Response:
    """A file of a certificate but for the full bundle, which is asked for by a button."""
    if name == "bundle":
        raise NotThere("The full bundle is handed out by the button on the certificate's page.")
    return _sent(_kept(request, run), name)


@router.post("/certificates/bundle")
def bundle(request: Request, form: Annotated[Form, Depends(form_of)]) -> Response:
    """The full bundle, with everything that is held out, which counts as a look at it."""
    made = _kept(request, form.text("run"))
    certificate_files.reveal(site_of(request), visitor_of(request), made)
    return _sent(made, "bundle")


@router.post("/certificates/verify")
def verify(request: Request, form: Annotated[Form, Depends(form_of)]) -> Response:
    """Check a bundle that was dropped, and keep nothing of it."""
    files = form.files("bundle")
    if len(files) != 1:
        raise UsageError("Choose one bundle: an archive that ends in .zip.")
    checked = verified(site_of(request), files[0].name, files[0].data)
    return page(request, "verified.html", checked=checked)


# --- what is shown -----------------------------------------------------------------------------------------


def sentence(said: Certificate, looks: int | None) -> str:
    """What a certificate comes to, as in `77.5% (62–88%) verified on 40 holdout cases, looked at 3 times`."""
    named = "case" if said.part == "all" else f"{said.part} case"
    text = f"{percent(said.pass_rate)} ({interval(said.ci95)}) {said.word} on {counted(said.cases, named)}"
    if said.part != "holdout" or looks is None:
        return text
    return f"{text}, looked at {'once' if looks == 1 else f'{looks:,} times'}"


def _colour(said: Certificate) -> str:
    """What the colour of the badge means."""
    return why_grey(said.word, said.pass_rate, forced=bool(said.forced)) or MEANING


def _looks(store: Store, said: Certificate) -> int | None:
    return len(store.looks(said.suite.digest)) if said.part == "holdout" else None


def _offered(store: Store) -> list[Run]:
    """The newest runs of which a certificate can be made."""
    finished = fitting(store, Filter(status="finished"))
    return list(islice((run for run in finished if run.imported is None), _OFFERED))


def _keys(site: Site) -> dict[str, Any]:
    """Who can sign here, by name and never more than that."""
    return {"keys": certificate_files.signing_names(site), "can_sign": certificate_files.can_sign()}


def _fewest(typed: str) -> int | None:
    """So few cases a certificate may be of; None for what is usual.

    Raises:
        UsageError: it is no such number.
    """
    text = typed.strip()
    if not text:
        return None
    if not re.fullmatch(r"[0-9]{1,6}", text) or not int(text):
        raise UsageError(f"{one_line(text[:40])!r} is no number of cases. Give a whole number from 1.")
    return int(text)


def _hinders(store: Store, run: Run) -> str | None:
    """Why no certificate can be made of a run, as far as that is known at once."""
    try:
        check_finished(store, run)
    except UsageError as error:
        return str(error)
    return None


def _wrong(task: Task[Any] | None) -> str | None:
    """Why a task came to nothing."""
    if task is None or not task.has_ended:
        return None
    try:
        task.result()
    except ProctorError as error:
        return str(error)
    return None


def _run_if_there(store: Store, run_id: str) -> Run | None:
    try:
        return run_of(store, run_id)
    except NotThere:
        return None


def _kept(request: Request, run_id: str) -> Kept:
    made = kept_of(site_of(request), run_id)
    if made is None:
        raise NotThere(f"There is no certificate of run {run_id!r} here.")
    return made


def _sent(made: Kept, name: str) -> Response:
    """A file, to be kept and not opened: browsers show none of it as a page of ours."""
    if name not in FILES:
        raise NotThere("A certificate has no such file.")
    own, called, kind = FILES[name]
    path = made.folder / own
    if not path.is_file():
        raise NotThere("This file is not there. Make the certificate again.")
    return FileResponse(path, media_type=kind, filename=f"{made.said.run}.{called}")
