"""Certifies runs and bundles: each is verified first, and only derived results are certified."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from proctor import __version__
from proctor.bundles.reader import open_bundle
from proctor.bundles.trust_store import TrustedKey
from proctor.calibration import PeoplePassRate
from proctor.certification import (
    CertificationTerms,
    Condition,
    NotCertified,
    find_conditions,
    find_objections,
    headline_scope,
    trust_level,
)
from proctor.errors import BundleError, StoreError
from proctor.model import Run
from proctor.proof.statement import ENVELOPE
from proctor.protocols import Store
from proctor.reports.certificates.judge_certificate import match_calibrations
from proctor.reports.certificates.run_certificate import RunCertificate
from proctor.reports.clusters import clusters_sentence
from proctor.services.bundles.attest import includes_holdout, write_bundle
from proctor.services.bundles.verify import VerifiedBundle, verify
from proctor.services.progress_lines import Notify
from proctor.services.runs.reading.report import build_report, find_calibrations, record_holdout_access

if TYPE_CHECKING:
    from proctor.bundles.keys import SigningKey


def certify_bundle(
    path: Path,
    trusted_keys: Mapping[str, TrustedKey],
    terms: CertificationTerms,
    *,
    force: bool,
    store: Store | None = None,
    notify: Notify | None = None,
) -> RunCertificate:
    """Checks a bundle, and returns what may be certified of it.

    Args:
        path: the bundle.
        trusted_keys: the keys that the user trusts, by their ids.
        terms: the requirements for a certificate.
        force: certify it even if it does not meet the terms.
        store: where calibrations of judges are.
        notify: called with progress lines when it takes long.

    Raises:
        BundleError: something is wrong with the bundle.
        NotCertified: it does not meet the terms.
        UsageError: there is no bundle, or it cannot be read.
    """
    envelope = _hash_envelope(path)
    verification = verify(path, trusted_keys, notify)
    statement = verification.statement
    measurement = headline_scope(
        verification.run,
        split=statement.split,
        cases=statement.claim.cases,
        not_measured=statement.claim.unmeasured,
        hidden_trials=verification.hidden,
    )
    objections = find_objections(measurement, terms)
    if objections and not force:
        raise NotCertified(objections)
    recounted = sum(verification.recounted.values())
    calibrations = () if store is None else find_calibrations(store, verification.run)
    if _hash_envelope(path) != envelope:
        raise BundleError(f"{path} changed while it was checked.")
    return RunCertificate(
        statement=statement,
        scope=measurement,
        trust_level=trust_level(
            verification.standing,
            hidden_trials=measurement.hidden_trials,
            recounted=recounted,
            imported=verification.run.imported,
        ),
        forced_objections=objections,
        signature_status=verification.standing,
        signers=tuple((signature.id, signature.name) for signature in verification.signatures),
        graded_again=verification.graded_again,
        recounted=verification.recounted,
        unverified=verification.unverified,
        conditions=(*find_conditions(verification.run), *_find_cluster_conditions(verification)),
        judges=tuple(match_calibrations(verification.prompts, calibrations)),
        people_rate=None if store is None else _find_people_rate(store, verification.run.id),
        looks=None,
        imported=verification.run.imported,
        bundle=path.name,
        envelope=envelope,
        proctor=__version__,
    )


def _find_cluster_conditions(verification: VerifiedBundle) -> Iterator[Condition]:
    """Yields which clusters the interval is over, if the cases are related and none is hidden."""
    count = verification.cluster_counts.get(verification.statement.split)
    field = verification.run.settings.cluster
    if count is not None and field is not None and not verification.hidden:
        yield Condition(sentence=clusters_sentence("The interval is", count, field))


def _find_people_rate(store: Store, run_id: str) -> PeoplePassRate | None:
    try:
        run = store.run(run_id)
    except StoreError:
        return None  # the store does not have the bundle's run
    return build_report(store, run, stored=True).people_rate if run.id == run_id else None


@contextmanager
def new_bundle(
    store: Store, run: Run, path: Path, key: SigningKey | None, notify: Notify | None = None
) -> Iterator[None]:
    """Writes the full bundle of a run, and removes it again when the block fails, unless it was there before.

    Args:
        store: where the run is.
        run: the run, finished.
        path: where the bundle goes.
        key: what signs; None for no signature.
        notify: called with progress lines when it takes long.

    Raises:
        UsageError: the run is not finished, or something else is at the path.
        StoreError: the store cannot be read.
        BundleError: the block found a defect in the bundle; the text names the run.
    """
    existed = path.exists()
    write_bundle(store, run, path, public=False, key=key, notify=notify)
    try:
        yield
    except BaseException as error:
        if not existed:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if isinstance(error, BundleError):  # the message names the run, as its bundle is gone
            what = str(error).removeprefix(f"{path}: ")
            raise BundleError(f"Run {run.id} fails verification. {what}") from None
        raise


def record_certificate_access(
    store: Store, run: Run, certified: RunCertificate, *, stays: bool
) -> int | None:
    """Records that a certificate shows the pass rate of a holdout, and returns the number of accesses so far.

    Args:
        store: where accesses to holdouts are kept.
        run: the run.
        certified: its certificate.
        stays: the bundle is kept, with all held-out cases.
    """
    if "holdout" in certified.statement.claims:
        record_holdout_access(store, run, "rate")
    if stays and includes_holdout(run, certified.statement):
        record_holdout_access(store, run, "reveal")
    return None if run.suite.split_rule is None else len(store.holdout_accesses(run.suite.digest))


def _hash_envelope(path: Path) -> str:
    with open_bundle(path) as bundle:
        return bundle.sha256(ENVELOPE)
