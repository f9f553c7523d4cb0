"""Renders the certificate of a run as a document, plain data and a badge. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from msgspec import UNSET, Struct, UnsetType, convert, to_builtins
from msgspec.structs import asdict

from proctor.calibration import PeoplePassRate
from proctor.certification import Condition, HeadlineScope, Objection, TrustLevel
from proctor.model import SignatureStatus
from proctor.plurals import pluralize
from proctor.proof.statement import (
    AccessCounts,
    BundleKind,
    Claim,
    Statement,
    SuiteReference,
    TargetReference,
)
from proctor.reports.certificates.badge import Badge
from proctor.reports.certificates.judge_certificate import RunJudge, judge_lines, judge_row
from proctor.reports.document import (
    RATE_COLUMNS,
    Block,
    Bullets,
    Code,
    Column,
    Facts,
    Heading,
    Image,
    Paragraph,
    Strong,
    Table,
)
from proctor.reports.formatting import interval, percent, unmeasured
from proctor.reports.record_fields import Digest, Interval, RunId, Time, about
from proctor.reports.runs.people_rate import people_rate_record, people_rate_sentence
from proctor.reports.runs.records import PeoplePassRateRecord, PromptRecord
from proctor.safe_text import truncate

VERSION = 1
"""The version of the fields of `CertificateRecord`."""
_MAX_NAME_LENGTH = 32
"""Maximum length of a suite's name on a badge."""


class RunCertificate(Struct, frozen=True, kw_only=True):
    """A run with the result of verifying its bundle."""

    statement: Statement
    scope: HeadlineScope
    trust_level: TrustLevel
    forced_objections: tuple[Objection, ...] = ()
    """Objections that were overruled with `--force`."""
    signature_status: SignatureStatus
    signers: tuple[tuple[str, str | None], ...]
    """The fingerprint of each key that signed, with its name if it is trusted."""
    graded_again: int
    recounted: dict[str, int]
    """The number of scores that were counted without grading again, by grader."""
    unverified: tuple[str, ...]
    conditions: tuple[Condition, ...] = ()
    judges: tuple[RunJudge, ...] = ()
    """The judges of the run."""
    people_rate: PeoplePassRate | None = None
    """The pass rate that people would give it, from labels in the store."""
    looks: int | None
    """The number of holdout accesses so far; None if no store records them."""
    imported: SignatureStatus | None
    bundle: str | None
    """The file name of the bundle; None if it was not kept."""
    envelope: str
    """The SHA-256 of the bundle's envelope, as 64 hexadecimal digits."""
    proctor: str
    """The version of Proctor that checked it."""

    @property
    def claim(self) -> Claim:
        """The certified numbers."""
        return self.statement.claim


class CertifiedSuiteRecord(SuiteReference, frozen=True):
    """The suite of a certificate."""

    digest: Digest


class CertifiedTargetRecord(TargetReference, frozen=True):
    """The target of a certificate."""

    digest: Digest


class HoldoutAccessCountsRecord(AccessCounts, frozen=True):
    """The number of holdout accesses."""

    rate: Annotated[int, about("To its pass rate, before the run.")]
    reveal: Annotated[int, about("To its answers, before the run.")]
    until_now: int | None


class KeyRecord(Struct, frozen=True, kw_only=True):
    """A key that signed."""

    id: str
    trusted: bool


class SignatureRecord(Struct, frozen=True, kw_only=True):
    """The signature of a bundle."""

    standing: SignatureStatus
    keys: tuple[KeyRecord, ...]


class DerivationRecord(Struct, frozen=True, kw_only=True):
    """How the number was derived."""

    graded_again: Annotated[int, about("Scores that are the same when the answers are graded again.")]
    recounted: Annotated[dict[str, int], about("Scores that were counted without grading again, by grader.")]
    hidden: int
    unverified: tuple[str, ...]


class CertificateBundleRecord(Struct, frozen=True, kw_only=True):
    """The bundle of the certificate."""

    name: str | None
    kind: BundleKind
    envelope_sha256: str
    cases_root: str
    trials_root: str


class CertificateRecord(Struct, frozen=True, kw_only=True):
    """What `proctor certify --json` prints of a run; the fields are a contract."""

    proctor_certificate: int = VERSION
    of: Literal["run"] = "run"
    word: Annotated[str, about("How far the number is verified.", "verified")]
    forced: tuple[str, ...]
    run: RunId
    suite: CertifiedSuiteRecord
    target: CertifiedTargetRecord
    started_at: Time
    finished_at: Time
    part: Annotated[str, about("The part of the suite that was measured.", "holdout")]
    passed: int
    total: int
    failed: int
    errors: int
    unscored: int
    cases: int
    pass_rate: float | None
    ci95: Interval
    bounds: Interval | UnsetType = UNSET
    interval_kind: Annotated[
        Literal["confidence sequence"] | UnsetType,
        about("What `ci95` is, for a run that may stop by what it shows; absent for others."),
    ] = UNSET
    claims: dict[str, Claim]
    looks: HoldoutAccessCountsRecord
    conditions: tuple[str, ...]
    judges: tuple[dict[str, Any], ...]
    signature: SignatureRecord
    imported: SignatureStatus | None
    derived: DerivationRecord
    bundle: CertificateBundleRecord
    proctor: Annotated[str, about("The version of Proctor that created it.")]
    prompt: Annotated[
        PromptRecord | UnsetType, about("The prompt; absent if the cases were sent as they are.")
    ] = UNSET
    people_pass_rate: Annotated[
        PeoplePassRateRecord | UnsetType, about("Absent if the store has no labels of the run.")
    ] = UNSET


def document_for(
    certificate: RunCertificate,
    badge: Image | None = None,
    bundle: str | None = None,
    *,
    has_key_names: bool = False,
) -> Iterator[Block]:
    """Yields the pass rate, and every fact that supports or limits it.

    Args:
        certificate: the certificate.
        badge: its badge, if there is one.
        bundle: the path of its bundle, relative to the document; None if it was not kept.
        has_key_names: show the local names of trusted keys, which mean nothing to others.
    """
    statement, claim, part = certificate.statement, certificate.claim, certificate.scope.part
    yield Heading(f"{_title(certificate)} on {statement.target_title}")
    if badge is not None:
        yield badge
    row = (part, claim.passed, claim.total, claim)
    yield Table((Column(width=8), *RATE_COLUMNS), [row], only="terminal")
    what = "trials" if part == "all" else f"{part} trials"
    passed = Strong(f"{claim.passed:,} of {claim.total:,} {what} passed")
    rate = f"{percent(claim.pass_rate)}, 95 % interval {interval(claim.ci95)} over {claim.cases:,} cases"
    rest = f"{claim.failed:,} failed, {pluralize(claim.errors, 'error')}, {claim.unscored:,} unscored"
    yield Paragraph((passed, f": {rate}; {rest}."), only="markdown")
    yield Bullets(list(_describe(certificate, has_key_names=has_key_names)))
    digests = {
        "suite": statement.suite.digest,
        "target": statement.target.digest,
        **({} if statement.prompt is None else {"prompt": statement.prompt.digest}),
        "envelope": f"sha256:{certificate.envelope}",
    }
    yield Facts([(name, (Code(digest),)) for name, digest in digests.items()], only="markdown")
    if bundle is not None:
        yield Paragraph(("Check it: ", Code(f"proctor verify {shlex.quote(bundle)}")), only="markdown")
    not_kept = (
        "The bundle was not kept. Use -o FILE to keep it next to the certificate, so that others can check "
        "it."
    )
    kept = f"Bundle {certificate.bundle}, envelope SHA-256 {certificate.envelope}"
    yield Paragraph(not_kept if certificate.bundle is None else kept, only="terminal")


def _describe(certificate: RunCertificate, *, has_key_names: bool) -> Iterator[str]:
    """Yields one sentence for each fact that supports or limits the number."""
    statement = certificate.statement
    derivation = f"{certificate.graded_again:,} scores were graded again from the answers"
    if certificate.recounted:
        parts = ", ".join(f"{count:,} of {name}" for name, count in certificate.recounted.items())
        derivation += f", and {parts} were counted as recorded"
    yield f"{certificate.trust_level.capitalize()}: {derivation}."
    yield _signature_text(certificate, has_key_names=has_key_names)
    if certificate.imported is not None:
        yield f"Its answers were imported from a bundle that was {_SIGNATURE_TEXTS[certificate.imported]}."
    yield from (condition.sentence for condition in certificate.conditions)
    if certificate.scope.not_measured:
        share = f"{certificate.scope.not_measured:,} of {certificate.claim.total:,} trials"
        yield f"{share} are ERROR or UNSCORED, and {_unmeasured_text(certificate.claim)}."
    for hindrance in certificate.forced_objections:
        yield f"Forced: {hindrance.sentence}"
    yield from certificate.unverified
    yield from judge_lines(certificate.judges, labelled=certificate.people_rate is not None)
    if certificate.people_rate is not None:
        yield people_rate_sentence(certificate.people_rate)
    yield f"Run {statement.run}, {statement.started_at:%Y-%m-%d}.{_access_text(certificate)}"


def _unmeasured_text(claim: Claim) -> str:
    if claim.bounds is None:  # version 1 of the format
        return "count as failed"
    low, high = map(percent, claim.bounds)
    return f"are not in the rate, which would be {low} if all had failed and {high} if all had passed"


_SIGNATURE_TEXTS = {
    "trusted": "signed by a trusted key",
    "unknown": "signed by an unknown key",
    "unsigned": "not signed",
}


def _signature_text(certificate: RunCertificate, *, has_key_names: bool) -> str:
    if not certificate.signers:
        return "It is not signed, so anyone could have made it."
    keys = []
    for key, name in certificate.signers:
        trusted = f"trusted, {name}" if has_key_names else "trusted by the author of this certificate"
        keys.append(f"{key} ({'unknown' if name is None else trusted})")
    return f"Signed by {', '.join(keys)}."


def _access_text(certificate: RunCertificate) -> str:
    if certificate.statement.split != "holdout":
        return ""
    before = certificate.statement.looks
    text = f" Holdout accesses: {before.rate + before.reveal:,} before the run"
    return f"{text}." if certificate.looks is None else f"{text}, {certificate.looks:,} so far."


def certificate_record(certificate: RunCertificate) -> CertificateRecord:
    """Returns everything as a record."""
    statement = certificate.statement
    return CertificateRecord(
        word=certificate.trust_level,
        forced=tuple([hindrance.sentence for hindrance in certificate.forced_objections]),
        run=statement.run,
        suite=convert(statement.suite, CertifiedSuiteRecord, from_attributes=True),
        target=convert(statement.target, CertifiedTargetRecord, from_attributes=True),
        prompt=UNSET
        if statement.prompt is None
        else PromptRecord(name=statement.prompt.name, digest=statement.prompt.digest),
        started_at=statement.started_at,
        finished_at=statement.finished_at,
        part=certificate.scope.part,
        **{name: value for name, value in to_builtins(certificate.claim).items() if name != "shapes"},
        claims=statement.claims,
        looks=HoldoutAccessCountsRecord(**asdict(statement.looks), until_now=certificate.looks),
        conditions=tuple([condition.sentence for condition in certificate.conditions]),
        judges=tuple([judge_row(judge) for judge in certificate.judges]),
        signature=SignatureRecord(
            standing=certificate.signature_status,
            keys=tuple([KeyRecord(id=key, trusted=name is not None) for key, name in certificate.signers]),
        ),
        imported=certificate.imported,
        derived=DerivationRecord(
            graded_again=certificate.graded_again,
            recounted=certificate.recounted,
            hidden=certificate.scope.hidden_trials,
            unverified=certificate.unverified,
        ),
        bundle=CertificateBundleRecord(
            name=certificate.bundle,
            kind=statement.kind,
            envelope_sha256=certificate.envelope,
            cases_root=statement.cases.root,
            trials_root=statement.trials.root,
        ),
        proctor=certificate.proctor,
        people_pass_rate=UNSET
        if certificate.people_rate is None
        else people_rate_record(certificate.people_rate),
    )


def make_badge(certificate: RunCertificate, link: str | None) -> Badge:
    """Returns a badge with the pass rate, how far it is verified, the number of cases and the interval."""
    message = badge_message(certificate)
    rate, part = certificate.claim.pass_rate, certificate.scope.part
    # A long name is cut, so that a badge has room for the part.
    name = truncate(certificate.statement.suite.name, _MAX_NAME_LENGTH)
    grey = grey_reason(certificate.trust_level, rate, forced=bool(certificate.forced_objections))
    title = f"{message} · {_title(certificate)} on {certificate.statement.target_title}"
    return Badge(
        label=name if part == "all" else f"{name} {part}",
        message=message,
        rate=None if grey else rate,
        grey_reason=grey,
        title=f"{title} · {certificate.statement.started_at:%Y-%m-%d}",
        link=link,
    )


def grey_reason(word: str, rate: float | None, *, forced: bool) -> str:
    """Returns why a badge is grey, as a sentence; empty if it has the colour of its pass rate."""
    if forced:
        return "Grey: the certificate was forced."
    if rate is None:
        return "Grey: nothing was measured."
    if word in ("verified", "recounted"):
        return ""
    return f"Grey: the number is {word}, and no trusted key signed it."


def badge_message(certificate: RunCertificate) -> str:
    """Returns the right side of a badge, as in `77.5 % verified · n=40 · 62–88 %`."""
    claim = certificate.claim
    rate = percent(claim.pass_rate).replace("%", " %")
    parts = [f"{rate} {certificate.trust_level}", f"n={claim.cases}", interval(claim.ci95).replace("%", " %")]
    if rest := unmeasured(claim.unmeasured, claim.bounds):
        parts.append(f"not measured {rest}")
    parts += [condition.short for condition in certificate.conditions if condition.short]
    if certificate.forced_objections:
        parts.append(f"forced: {', '.join(objection.short for objection in certificate.forced_objections)}")
    return " · ".join(parts)


def _title(certificate: RunCertificate) -> str:
    suite = certificate.statement.suite
    return suite.name if suite.version is None else f"{suite.name} {suite.version}"
