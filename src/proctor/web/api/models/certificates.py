"""Requests and responses about certificates and bundles."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from proctor.web.api.models.runs import RUN, Interval
from proctor.web.api.models.suites import DIGEST
from proctor.web.api.requests import RequestBody

FileName = Literal["certificate", "markdown", "badge", "bundle", "public"]
FILE_MEDIA_TYPES = ("application/json", "text/markdown", "image/svg+xml", "application/zip")


class CertificateRequest(RequestBody):
    """The run to certify."""

    run: str = Field(
        min_length=1, max_length=200, description="The whole id of a finished run.", examples=[RUN]
    )
    sign_key: str | None = Field(
        default=None,
        max_length=200,
        description="The name of a key of the server's owner, as `proctor keys list` shows it; null for no "
        "signature.",
        examples=["default"],
    )
    min_cases: int | None = Field(
        default=None, ge=1, le=999_999, description="The minimum number of cases; 20 by default."
    )


class CertifiedSuiteResource(BaseModel):
    """The suite of a certificate."""

    name: str
    version: str | None
    digest: str = Field(examples=[DIGEST])


class CertifiedTargetResource(BaseModel):
    """The target of a certificate."""

    name: str
    digest: str = Field(examples=[DIGEST])


class ClaimResource(BaseModel):
    """The numbers of one part of a run."""

    passed: int
    failed: int
    errors: int
    unscored: int
    total: int
    cases: int
    pass_rate: float | None
    ci95: Interval


class HoldoutAccessCountsResource(BaseModel):
    """The number of holdout accesses."""

    rate: int = Field(description="To its pass rate, before the run.")
    reveal: int = Field(description="To its answers, before the run.")
    until_now: int | None


class KeyResource(BaseModel):
    """A key that signed."""

    id: str
    trusted: bool


class SignatureResource(BaseModel):
    """The signature of a bundle."""

    standing: Literal["trusted", "unknown", "unsigned"]
    keys: list[KeyResource]


class DerivationResource(BaseModel):
    """How the number was derived."""

    graded_again: int = Field(description="Scores that are the same when the answers are graded again.")
    recounted: dict[str, int] = Field(
        description="Scores that were counted without grading again, by grader."
    )
    hidden: int
    unverified: list[str]


class CertificateBundleResource(BaseModel):
    """The bundle of the certificate."""

    name: str | None
    kind: Literal["full", "public"]
    envelope_sha256: str
    cases_root: str
    trials_root: str


class CertificateResource(ClaimResource):
    """What `proctor certify --json` prints of a run."""

    proctor_certificate: int
    of: Literal["run"]
    word: str = Field(description="How far the number is verified.", examples=["verified"])
    forced: list[str]
    run: str = Field(examples=[RUN])
    suite: CertifiedSuiteResource
    target: CertifiedTargetResource
    started_at: str
    finished_at: str
    part: str = Field(description="The part of the suite that was measured.", examples=["holdout"])
    claims: dict[str, ClaimResource]
    looks: HoldoutAccessCountsResource
    conditions: list[str]
    judges: list[dict[str, Any]]
    signature: SignatureResource
    imported: Literal["trusted", "unknown", "unsigned"] | None
    derived: DerivationResource
    bundle: CertificateBundleResource
    proctor: str = Field(description="The version of Proctor that created it.")


class StoredCertificateResource(BaseModel):
    """A certificate that was created on this server."""

    run: str = Field(examples=[RUN])
    made_at: str
    certificate: CertificateResource
    badge_markdown: str = Field(description="The badge for a README.")
    files: dict[str, str] = Field(
        description="Addresses of its files: `certificate`, `markdown`, `badge`, `bundle`, perhaps `public`."
    )


class CertificateListResource(BaseModel):
    """The certificates created on this server, newest first."""

    certificates: list[StoredCertificateResource]


class CheckResource(BaseModel):
    """One check of a bundle."""

    check: str
    held: bool | None = Field(description="Null if it was not reached.")


class VerificationResource(BaseModel):
    """The result of checking a bundle."""

    holds: bool
    wrong: str | None = Field(description="The first thing that is wrong.")
    checks: list[CheckResource]
    bundle: dict[str, Any] | None = Field(
        description="The content of a valid bundle, as in `proctor verify --json`."
    )
