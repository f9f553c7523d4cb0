"""Certificates and bundles over the API: create, list, read, verify."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Path
from starlette.requests import Request
from starlette.responses import Response

from proctor.web.api.bodies import CertificateRequest
from proctor.web.api.operations import Created, operation
from proctor.web.api.problems import Conflict
from proctor.web.api.records import (
    CertificateListRecord,
    CheckRecord,
    StoredCertificateRecord,
    VerificationRecord,
)
from proctor.web.api.requests import REQUIRES_JSON, RunId, read_zip_body
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

_FileName = Literal["certificate", "markdown", "badge", "bundle", "public"]
_FILE_MEDIA_TYPES = ("application/json", "text/markdown", "image/svg+xml", "application/zip")
_BYTES = {"schema": {"type": "string", "format": "binary"}}
_FILE = {"description": "The file.", "content": dict.fromkeys(_FILE_MEDIA_TYPES, _BYTES)}
_ARCHIVE = {"requestBody": {"required": True, "content": {"application/zip": _BYTES}}}


@operation(router.get, "/certificates")
def list_certificates(request: Request) -> CertificateListRecord:
    """The certificates created on this server, newest first."""
    certificates = load_certificates(get_project(request))
    return CertificateListRecord(certificates=tuple([_record(certificate) for certificate in certificates]))


@operation(router.post, "/certificates", 404, 409, status=201, dependencies=REQUIRES_JSON)
def make_certificate(request: Request, body: CertificateRequest) -> Created[StoredCertificateRecord]:
    """Attest, verify and certify a finished run; an earlier certificate is replaced.

    The certified pass rate is derived again from the bundle. It is that of the holdout, if there is
    one; this counts as a holdout access.
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
    return Created(_record(certificate), f"/api/v1/certificates/{run.id}")


@operation(router.get, "/certificates/{run_id}", 404)
def get_certificate(request: Request, run_id: RunId) -> StoredCertificateRecord:
    """The certificate of a run, with its files."""
    return _record(_require_certificate(get_project(request), run_id))


@router.get("/certificates/{run_id}/files/{name}", response_class=Response, responses={200: _FILE, 404: {}})
def get_certificate_file(
    request: Request, run_id: RunId, name: Annotated[_FileName, Path(description="Which file.")]
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


@operation(router.post, "/bundles/verify", openapi_extra=_ARCHIVE)
def verify_bundle(request: Request, archive: Annotated[bytes, Depends(read_zip_body)]) -> VerificationRecord:
    """Check every file of a bundle and derive its pass rate again; nothing in it is run or stored.

    An invalid bundle is not an error of the request: `holds` is false, and `wrong` says why.
    """
    check = check_bundle(get_project(request), "the bundle", archive)
    return VerificationRecord(
        holds=check.error is None,
        wrong=check.error,
        checks=tuple([CheckRecord(check=sentence, held=passed) for sentence, passed in check.checks]),
        bundle=check.bundle,
    )


def _require_certificate(project: Project, run_id: str) -> SavedCertificate:
    certificate = find_certificate(project, run_id)
    if certificate is None:
        raise PageNotFound(
            f"Run {run_id!r} has no certificate on this server. Create one with POST /api/v1/certificates."
        )
    return certificate


def _record(certificate: SavedCertificate) -> StoredCertificateRecord:
    run_id = certificate.document.run
    names = [
        name for name, (inside, _, _) in CERTIFICATE_FILES.items() if (certificate.folder / inside).exists()
    ]
    return StoredCertificateRecord(
        run=run_id,
        made_at=certificate.made_at,
        certificate=certificate.document,
        badge_markdown=certificate.badge_markdown,
        files={name: f"/api/v1/certificates/{run_id}/files/{name}" for name in names},
    )
