"""Runs and bundles to certificates: attested, verified, and only what was derived again is certified."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from proctor import __version__
from proctor.bundles.reader import opened
from proctor.bundles.trust_store import Trusted
from proctor.certification import Measured, NotCertified, Terms, conditions, hindrances, measured, word_of
from proctor.errors import BundleError
from proctor.model import Run
from proctor.proof.statement import ENVELOPE
from proctor.protocols import Store
from proctor.reports.certificates.of_judge import judges_known
from proctor.reports.certificates.of_run import Certified
from proctor.services.bundles.attest import bundled, shows_held_out
from proctor.services.bundles.verify import Verified, verify
from proctor.services.progress_lines import Tell
from proctor.services.runs.reading.report import calibrations_of, keep_look

if TYPE_CHECKING:
    from proctor.bundles.keys import SigningKey


def certify_bundle(
    path: Path,
    trusted: Mapping[str, Trusted],
    terms: Terms,
    *,
    force: bool,
    store: Store | None = None,
    told: Tell | None = None,
) -> Certified:
    """Check a bundle, and say what may be certified of it.

    Args:
        path: the bundle.
        trusted: the keys that the user trusts, by their ids.
        terms: what a certificate asks for.
        force: certify it all the same where it asks for more.
        store: knows how well judges judge.
        told: told how far it is when it takes long.

    Raises:
        BundleError: something is wrong with the bundle.
        NotCertified: it is not enough for a certificate.
        UsageError: there is no bundle, or it cannot be read.
    """
    envelope = _envelope(path)
    found = verify(path, trusted, told)
    of = _measured(found)
    against = hindrances(of, terms)
    if against and not force:
        raise NotCertified(against)
    recounted = sum(found.recounted.values())
    known = () if store is None else calibrations_of(store, found.run)
    if _envelope(path) != envelope:
        raise BundleError(f"{path} was changed while it was checked.")
    return Certified(
        statement=found.statement,
        measured=of,
        word=word_of(
            found.standing, hidden_trials=of.hidden_trials, recounted=recounted, imported=found.run.imported
        ),
        forced=against,
        standing=found.standing,
        signers=tuple((one.id, one.name) for one in found.signatures),
        graded_again=found.graded_again,
        recounted=found.recounted,
        unverified=found.unverified,
        conditions=conditions(found.run),
        judges=tuple(judges_known(found.prompts, known)),
        looks=None,
        imported=found.run.imported,
        bundle=path.name,
        envelope=envelope,
        proctor=__version__,
    )


def _measured(found: Verified) -> Measured:
    """What the number of a bundle is of; what was not measured counts in every part of its run."""
    whole = found.statement.claims["all"]
    return measured(
        found.run,
        split=found.statement.split,
        cases=found.statement.claim.cases,
        not_measured=whole.errors + whole.unscored,
        hidden_trials=found.hidden,
    )


@contextmanager
def bundle_of(
    store: Store, run: Run, path: Path, key: SigningKey | None, told: Tell | None = None
) -> Iterator[None]:
    """The full bundle of a run, which is gone again when the block fails, unless it was there before.

    Args:
        store: where the run is.
        run: the run, finished.
        path: where the bundle goes.
        key: what signs; None for no signature.
        told: told how far it is when it takes long.

    Raises:
        UsageError: the run is not finished, or something else is at the path.
        StoreError: the store cannot be read.
        BundleError: the block found a defect in the bundle; the text names the run.
    """
    there = path.exists()
    bundled(store, run, path, public=False, key=key, told=told)
    try:
        yield
    except BaseException as error:
        if not there:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if isinstance(error, BundleError):  # of the run, as its bundle is gone
            what = str(error).removeprefix(f"{path}: ")
            raise BundleError(f"Run {run.id} does not hold. {what}") from None
        raise


def looked_at(store: Store, run: Run, certified: Certified, *, stays: bool) -> int | None:
    """Keep that a certificate shows the pass rate of a holdout, and give the looks until now.

    Args:
        store: where looks are kept.
        run: the run.
        certified: its certificate.
        stays: the bundle stays, with all that is held out.
    """
    if "holdout" in certified.statement.claims:
        keep_look(store, run, "rate")
    if stays and shows_held_out(run, certified.statement):
        keep_look(store, run, "reveal")
    return None if run.suite.split_rule is None else len(store.looks(run.suite.digest))


def _envelope(path: Path) -> str:
    with opened(path) as bundle:
        return bundle.sha256(ENVELOPE)
