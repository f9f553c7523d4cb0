"""Certificates and bundles over the API: create, list, read, verify."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path
from starlette.requests import Request
from starlette.responses import Response

from proctor.reports.formatting import format_utc
from proctor.web.api.models import certificates as models
from proctor.web.api.problems import Conflict
from proctor.web.api.requests import LOCATION_HEADER, REQUIRES_JSON, RunId, read_zip_body
from proctor.web.api.responses import json_response
from proctor.web.browser_sessions import get_session
from proctor.web.bundle_checks import check_bundle
from proctor.web.certificate_files import (
    CERTIFICATE_FILES,
    CertificateError,
    SavedCertificate,
    create_certificate,
    find_certificate,
    load_certificates,
    record_reveal,
    resolve_key,
)
from proctor.web.project import Project, get_project
from proctor.web.templates_env import PageNotFound, load_run

router = APIRouter(tags=["certificates"])

_BYTES = {"schema": {"type": "string", "format": "binary"}}
_FILE = {"description": "The file.", "content": dict.fromkeys(models.FILE_MEDIA_TYPES, _BYTES)}
_ARCHIVE = {"requestBody": {"required": True, "content": {"application/zip": _BYTES}}}


@router.get("/certificates", response_model=models.CertificateListResource)
def list_certificates(request: Request) -> Response:
    """The certificates created on this server, newest first."""
    rows = [_row(certificate) for certificate in load_certificates(get_project(request))]
    return json_response({"certificates": rows})


@router.post(
    "/certificates",
    response_model=models.StoredCertificateResource,
    status_code=201,
    responses={201: {"headers": LOCATION_HEADER}, 404: {}, 409: {}},
    dependencies=REQUIRES_JSON,
)
def make_certificate(request: Request, body: models.CertificateRequest) -> Response:
    """Attest, verify and certify a finished run; an earlier certificate is replaced.

    The certified pass rate is derived again from the bundle; it is that of the holdout if there is
    one, which is a holdout access.
    """
    project = get_project(request)
    with project.open_store() as store:
        run = load_run(store, body.run)
    try:
        key = resolve_key(project, body.sign_key or "")
        certificate = create_certificate(
            project, run, key, lambda _count, _total: None, min_cases=body.min_cases
        )
    except CertificateError as error:
        raise Conflict(str(error)) from None
    return json_response(_row(certificate), 201, {"location": f"/api/v1/certificates/{run.id}"})


@router.get("/certificates/{run_id}", response_model=models.StoredCertificateResource, responses={404: {}})
def get_certificate(request: Request, run_id: RunId) -> Response:
    """The certificate of a run, with its files."""
    return json_response(_row(_require_certificate(get_project(request), run_id)))


@router.get("/certificates/{run_id}/files/{name}", response_class=Response, responses={200: _FILE, 404: {}})
def get_certificate_file(
    request: Request, run_id: RunId, name: Annotated[models.FileName, Path(description="Which file.")]
) -> Response:
    """A file of a certificate: the certificate as JSON or Markdown, the badge, or a bundle.

    `bundle` contains everything held out, and downloading it is recorded as a holdout access;
    `public`, if it was created, does not.
    """
    certificate = _require_certificate(get_project(request), run_id)
    if name == "bundle":
        record_reveal(get_project(request), get_session(request), certificate)
    inside, outside, kind = CERTIFICATE_FILES[name]
    try:
        data = (certificate.folder / inside).read_bytes()
    except OSError:
        raise PageNotFound(f"The certificate of run {run_id} has no such file.") from None
    headers = {"content-disposition": f'attachment; filename="{run_id}.{outside}"'}
    return Response(data, headers=headers, media_type=kind)


@router.post("/bundles/verify", response_model=models.VerificationResource, openapi_extra=_ARCHIVE)
def verify_bundle(request: Request, archive: Annotated[bytes, Depends(read_zip_body)]) -> Response:
    """Check every byte of a bundle and derive its pass rate again; nothing in it is run or kept.

    An invalid bundle is not an error of the request: `holds` is false, and `wrong` says why.
    """
    check = check_bundle(get_project(request), "the bundle", archive)
    checks = [{"check": sentence, "held": passed} for sentence, passed in check.checks]
    row = {"holds": check.error is None, "wrong": check.error, "checks": checks}
    return json_response({**row, "bundle": check.bundle})


def _require_certificate(project: Project, run_id: str) -> SavedCertificate:
    certificate = find_certificate(project, run_id)
    if certificate is None:
        raise PageNotFound(
            f"Run {run_id!r} has no certificate here. Make one with POST /api/v1/certificates."
        )
    return certificate


def _row(certificate: SavedCertificate) -> dict[str, Any]:
    run_id = certificate.document.run
    text = (certificate.folder / CERTIFICATE_FILES["certificate"][0]).read_text(encoding="utf-8")
    names = [
        name for name, (inside, _, _) in CERTIFICATE_FILES.items() if (certificate.folder / inside).exists()
    ]
    return {
        "run": run_id,
        "made_at": format_utc(certificate.made_at),
        "certificate": json.loads(text),
        "badge_markdown": certificate.badge_markdown,
        "files": {name: f"/api/v1/certificates/{run_id}/files/{name}" for name in names},
    }
