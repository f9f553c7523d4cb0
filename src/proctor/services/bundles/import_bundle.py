"""Imports bundles as stored runs: verified first, then completely or not at all; no run is overwritten."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from proctor.bundles.reader import Bundle, opened
from proctor.errors import BundleError, ProctorError, UsageError
from proctor.model import Defaults, Run, Suite
from proctor.proof.statement import Statement, config_of, environment_of, published, published_trial
from proctor.protocols import Store
from proctor.services.bundles.import_records import (
    ImportOptions,
    import_suite,
    read_cases,
    read_trials,
    verified,
)
from proctor.services.bundles.verify import Verified
from proctor.services.progress_lines import Tell, telling
from proctor.services.runs.reading.report import rows_of
from proctor.services.suites.builtin_suites import BUILTIN
from proctor.targets import has_file_model

TAG = "imported"
"""The prefix of an imported run's tag, followed by the standing of its signatures."""


class Imported(Struct, frozen=True, kw_only=True):
    """An imported run, and the bundle that it is from."""

    run: Run
    verified: Verified
    new: bool
    """Whether it was not in the store before."""


def import_bundle(store: Store, path: Path, options: ImportOptions, notify: Tell | None = None) -> Imported:
    """Stores the run of a bundle, with its suite and trials, under its own id.

    Args:
        store: where it is stored.
        path: the bundle.
        options: what the user requires of it.
        notify: called with progress lines when it takes long.

    Raises:
        BundleError: it has a defect, is not signed as required, or has the id of another stored run; nothing
            is stored.
        UsageError: there is no bundle, it is a public one, or its suite would act on this machine.
        StoreError: the store cannot be written.
    """
    verification = verified(path, options, notify)
    statement = verification.statement
    if statement.kind == "public":
        raise UsageError(
            f"{path} is a public bundle: what is held out is not in it, and a run is stored whole or not at "
            "all. Ask its maker for the full one. `proctor replay` runs its other cases again."
        )
    with opened(path) as bundle:
        existing = next((run for run in store.runs() if run.id == statement.run), None)
        if existing is not None and (existing.status == "finished" or existing.imported is None):
            if _is_same(store, existing, bundle, verification):
                return Imported(run=existing, verified=verification, new=False)
            raise BundleError(
                f"{path} has the id of another run, {existing.id}, which is in this store and differs from "
                "it. One of them is not what it says it is. Nothing was changed."
            )
        if existing is not None:  # an interrupted import
            store.delete(existing.id)
        return Imported(
            run=_store_run(store, bundle, verification, options, notify), verified=verification, new=True
        )


def _store_run(
    store: Store, bundle: Bundle, verification: Verified, options: ImportOptions, notify: Tell | None
) -> Run:
    versions_before = {(version.suite.name, version.suite.version) for version in store.versions()}
    suite = import_suite(store, bundle, verification, options)
    imported_run = replace(
        verification.run,
        suite=suite,
        tags=(f"{TAG}-{verification.standing}",),
        imported=verification.standing,
    )
    run = replace(imported_run, status="running", finished_at=None)
    is_started = False
    try:
        store.begin(run)
        is_started = True
        _store_trials(store, run, bundle, verification.statement, notify)
        store.update(imported_run)
        return imported_run
    except BaseException:
        _undo(store, run if is_started else None, suite, versions_before)
        raise


def _store_trials(store: Store, run: Run, bundle: Bundle, statement: Statement, notify: Tell | None) -> None:
    count, tell = 0, telling(notify, "trials imported")
    for count, line in enumerate(read_trials(bundle, statement), 1):
        store.record(run.id, line.trial, line.verdict)
        tell(count, run.planned)
    store.flush()
    if count != run.planned:
        raise BundleError(f"{bundle.path} was changed while it was read. Nothing was kept; verify it again.")


def _undo(store: Store, run: Run | None, suite: Suite, versions_before: set[tuple[str, str | None]]) -> None:
    """Removes what was stored; the next import of the bundle removes what could not be removed now."""
    with suppress(ProctorError):
        if run is not None:
            store.delete(run.id)
    with suppress(ProctorError):
        if (suite.name, suite.version) not in versions_before and suite.version is not None:
            store.forget(suite.name, suite.version)


# --- a run that is there already ---------------------------------------------------------------------------


def _is_same(store: Store, run: Run, bundle: Bundle, verification: Verified) -> bool:
    """Whether a bundle is of this stored run: its maker may import it again."""
    theirs, own = verification.run, published(replace(run, imported=None), has_file_model)
    if _without_place(own.suite) != _without_place(theirs.suite):
        return False
    configs = [config_of(either, has_file_model) for either in (own, theirs)]
    if configs[0] != configs[1] or environment_of(own) != environment_of(theirs):
        return False
    cases = ((stored_case.case, stored_case.sent) for stored_case in store.cases(run.suite.content))
    if not _are_equal(cases, ((line.case, line.sent) for line in read_cases(bundle, verification.statement))):
        return False
    trials = (published_trial(row.trial, row.case, run) for row in rows_of(store, run, reveal=True))
    return _are_equal(trials, (line.trial for line in read_trials(bundle, verification.statement)))


def _without_place(suite: Suite) -> Suite:
    """Returns the header without what differs from store to store: version, folder and defaults."""
    name = suite.name.removeprefix(BUILTIN)  # which bundles of earlier versions do not have
    return replace(suite, name=name, version=None, content="", folder="", defaults=Defaults())


def _are_equal(stored_rows: Iterator[Any], bundle_rows: Iterator[Any]) -> bool:
    return all(first == second for first, second in zip_longest(stored_rows, bundle_rows))
