"""The shapes of what the API reads and answers about certificates and bundles."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from proctor.web.api.models.runs import RUN, Interval
from proctor.web.api.models.suites import DIGEST
from proctor.web.api.requests import RequestBody

FileName = Literal["certificate", "markdown", "badge", "bundle", "public"]
FILE_MEDIA_TYPES = ("application/json", "text/markdown", "image/svg+xml", "application/zip")


class CertificateRequest(RequestBody):
    """Which run is to be certified."""

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
        default=None, ge=1, le=999_999, description="Of fewer cases there is no certificate; 20 without it."
    )


class CertifiedSuite(BaseModel):
    """The suite of a certificate."""

    name: str
    version: str | None
    digest: str = Field(examples=[DIGEST])


class CertifiedTarget(BaseModel):
    """The target of a certificate."""

    name: str
    digest: str = Field(examples=[DIGEST])


class Claim(BaseModel):
    """The numbers of a part of a run."""

    passed: int
    failed: int
    errors: int
    unscored: int
    total: int
    cases: int
    pass_rate: float | None
    ci95: Interval


class HoldoutAccessCounts(BaseModel):
    """How often a holdout was looked at."""

    rate: int = Field(description="At its pass rate, before the run.")
    reveal: int = Field(description="At its answers, before the run.")
    until_now: int | None


class Key(BaseModel):
    """A key that signed."""

    id: str
    trusted: bool


class Signature(BaseModel):
    """How a bundle is signed."""

    standing: Literal["trusted", "unknown", "unsigned"]
    keys: list[Key]


class Derivation(BaseModel):
    """What the number rests on."""

    graded_again: int = Field(description="Scores that came out again when answers were graded again.")
    recounted: dict[str, int] = Field(description="Scores that were counted as they stand, by grader.")
    hidden: int
    unverified: list[str]


class CertificateBundle(BaseModel):
    """The bundle that the certificate is of."""

    name: str | None
    kind: Literal["full", "public"]
    envelope_sha256: str
    cases_root: str
    trials_root: str


class Certificate(Claim):
    """What `proctor certify --json` prints of a run."""

    proctor_certificate: int
    of: Literal["run"]
    word: str = Field(description="What the number is worth.", examples=["verified"])
    forced: list[str]
    run: str = Field(examples=[RUN])
    suite: CertifiedSuite
    target: CertifiedTarget
    started_at: str
    finished_at: str
    part: str = Field(description="Which part of the suite the number is of.", examples=["holdout"])
    claims: dict[str, Claim]
    looks: HoldoutAccessCounts
    conditions: list[str]
    judges: list[dict[str, Any]]
    signature: Signature
    imported: Literal["trusted", "unknown", "unsigned"] | None
    derived: Derivation
    bundle: CertificateBundle
    proctor: str = Field(description="The version of Proctor that made it.")


class StoredCertificate(BaseModel):
    """A certificate that was made here."""

    run: str = Field(examples=[RUN])
    made_at: str
    certificate: Certificate
    badge_markdown: str = Field(description="The badge for a README.")
    files: dict[str, str] = Field(
        description="Where each file is: `certificate`, `markdown`, `badge`, `bundle`, perhaps `public`."
    )


class CertificateList(BaseModel):
    """The certificates that were made here, newest first."""

    certificates: list[StoredCertificate]


class Check(BaseModel):
    """One check of a bundle."""

    check: str
    held: bool | None = Field(description="Null for one that was not come to.")


class Verification(BaseModel):
    """What came of checking a bundle."""

    holds: bool
    wrong: str | None = Field(description="The first thing that is wrong.")
    checks: list[Check]
    bundle: dict[str, Any] | None = Field(
        description="What the bundle says where it holds, as `proctor verify --json` has it."
    )
