"""Imports bundles as stored runs: verified first, then completely or not at all; no run is overwritten."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from proctor.bundles.reader import Bundle, open_bundle
from proctor.errors import BundleError, ProctorError, UsageError
from proctor.model import Run, Suite, SuiteDefaults
from proctor.proof.statement import Statement, config_data, environment_data, portable_run, portable_trial
from proctor.protocols import Store
from proctor.services.bundles.import_records import (
    ImportOptions,
    import_suite,
    read_cases,
    read_trials,
    verify_for_import,
)
from proctor.services.bundles.verify import VerifiedBundle
from proctor.services.progress_lines import Notify, progress_reporter
from proctor.services.runs.reading.report import read_trial_rows
from proctor.services.suites.builtin_suites import BUILTIN_PREFIX
from proctor.targets import has_file_model

TAG_PREFIX = "imported"
"""The prefix of an imported run's tag, followed by the standing of its signatures."""


class ImportResult(Struct, frozen=True, kw_only=True):
    """An imported run, and the bundle that it is from."""

    run: Run
    verification: VerifiedBundle
    is_new: bool
    """Whether it was not in the store before."""


def import_bundle(
    store: Store, path: Path, options: ImportOptions, notify: Notify | None = None
) -> ImportResult:
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
    verification = verify_for_import(path, options, notify)
    statement = verification.statement
    if statement.kind == "public":
        raise UsageError(
            f"{path} is a public bundle. It does not contain the held-out cases, so it cannot be "
            "stored as a run. Get the full bundle from its author, or run the other cases again with "
            "`proctor replay`."
        )
    with open_bundle(path) as bundle:
        existing = next((run for run in store.runs() if run.id == statement.run), None)
        if existing is not None and (existing.status == "finished" or existing.imported is None):
            if _is_same(store, existing, bundle, verification):
                return ImportResult(run=existing, verification=verification, is_new=False)
            raise BundleError(
                f"{path} has the same id as run {existing.id} in this store, but its content differs. "
                "One of the two is not genuine. Nothing was changed."
            )
        if existing is not None:  # an interrupted import
            store.delete_run(existing.id)
        return ImportResult(
            run=_store_run(store, bundle, verification, options, notify),
            verification=verification,
            is_new=True,
        )


def _store_run(
    store: Store, bundle: Bundle, verification: VerifiedBundle, options: ImportOptions, notify: Notify | None
) -> Run:
    versions_before = {(version.suite.name, version.suite.version) for version in store.versions()}
    suite = import_suite(store, bundle, verification, options)
    imported_run = replace(
        verification.run,
        suite=suite,
        tags=(f"{TAG_PREFIX}-{verification.standing}",),
        imported=verification.standing,
    )
    run = replace(imported_run, status="running", finished_at=None)
    is_started = False
    try:
        store.add_run(run)
        is_started = True
        _store_trials(store, run, bundle, verification.statement, notify)
        store.update_run(imported_run)
        return imported_run
    except BaseException:
        _undo(store, run if is_started else None, suite, versions_before)
        raise


def _store_trials(
    store: Store, run: Run, bundle: Bundle, statement: Statement, notify: Notify | None
) -> None:
    count, tell = 0, progress_reporter(notify, "trials imported")
    for count, line in enumerate(read_trials(bundle, statement), 1):
        store.save_trial(run.id, line.trial, line.verdict)
        tell(count, run.planned)
    store.flush()
    if count != run.planned:
        raise BundleError(
            f"{bundle.path} changed while it was read. Nothing was stored. Verify the bundle again."
        )


def _undo(store: Store, run: Run | None, suite: Suite, versions_before: set[tuple[str, str | None]]) -> None:
    """Removes what was stored; the next import of the bundle removes what could not be removed now."""
    with suppress(ProctorError):
        if run is not None:
            store.delete_run(run.id)
    with suppress(ProctorError):
        if (suite.name, suite.version) not in versions_before and suite.version is not None:
            store.delete_version(suite.name, suite.version)


# --- a run that is there already ---------------------------------------------------------------------------


def _is_same(store: Store, run: Run, bundle: Bundle, verification: VerifiedBundle) -> bool:
    """Whether a bundle is of this stored run: its maker may import it again."""
    theirs, own = verification.run, portable_run(replace(run, imported=None), has_file_model)
    if _without_place(own.suite) != _without_place(theirs.suite):
        return False
    configs = [config_data(either, has_file_model) for either in (own, theirs)]
    if configs[0] != configs[1] or environment_data(own) != environment_data(theirs):
        return False
    cases = ((stored_case.case, stored_case.sent_digest) for stored_case in store.cases(run.suite.content))
    if not _are_equal(cases, ((line.case, line.sent) for line in read_cases(bundle, verification.statement))):
        return False
    trials = (portable_trial(row.trial, row.case, run) for row in read_trial_rows(store, run, reveal=True))
    return _are_equal(trials, (line.trial for line in read_trials(bundle, verification.statement)))


def _without_place(suite: Suite) -> Suite:
    """Returns the header without what differs from store to store: version, folder and defaults."""
    name = suite.name.removeprefix(BUILTIN_PREFIX)  # which bundles of earlier versions do not have
    return replace(suite, name=name, version=None, content="", folder="", defaults=SuiteDefaults())


def _are_equal(stored_rows: Iterator[Any], bundle_rows: Iterator[Any]) -> bool:
    return all(first == second for first, second in zip_longest(stored_rows, bundle_rows))
