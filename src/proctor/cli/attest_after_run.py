"""`proctor run --attest`: writes a bundle of each run as soon as it has finished."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from msgspec.structs import replace

from proctor.cli.commands.attest import load_signing_key
from proctor.cli.echo import echo
from proctor.cli.options import keys_path
from proctor.errors import UsageError
from proctor.protocols import Store
from proctor.reports.runs.serialize import RunReport
from proctor.services.bundles.attest import bundle_name, includes_holdout, write_bundle
from proctor.services.runs.reading.report import record_holdout_access


class RunAttester:
    """Writes the bundles of one command. Folder and key are checked before the first call."""

    def __init__(self, folder: str, *, public: bool, sign_key: str | None, quiet: bool) -> None:
        """Creates the folder, and the user's key if there is none yet.

        Args:
            folder: where the bundles go; empty for the working directory.
            public: leave out held-out cases.
            sign_key: the name of the key that signs; None for the user's own.
            quiet: do not print where each bundle is.

        Raises:
            UsageError: the folder is not writable, or there is no key to sign with.
        """
        self._folder = Path(folder or ".")
        self._public = public
        self._quiet = quiet
        self.has_failed = False
        """Whether a bundle could not be written."""
        _check_folder(self._folder)
        self._key = load_signing_key(sign_key, keys_path(None))

    def attest(self, store: Store, report: RunReport) -> RunReport:
        """Writes the bundle of a run, and returns the report with its path; unfinished runs get none."""
        run = report.run
        if run.status != "finished":
            echo(f"Run {run.id} was stopped before it finished, so no bundle was written for it.", err=True)
            return report
        path = self._folder / bundle_name(run.id, public=self._public)
        try:
            statement = write_bundle(
                store, run, path, public=self._public, key=self._key, notify=self._notify
            )
        except UsageError as error:
            self.has_failed = True
            echo(f"Run {run.id} is stored, but no bundle was written for it. {error}", err=True)
            return report
        if "holdout" not in report.tally.splits and includes_holdout(run, statement):
            record_holdout_access(store, run, "reveal")
        self._notify(f"Bundle: {path}")
        return replace(report, bundle=str(path))

    def shows_holdout(self, report: RunReport) -> bool:
        """Whether the bundle of the run contains held-out cases."""
        return report.bundle is not None and not self._public

    def _notify(self, line: str) -> None:
        if not self._quiet:
            echo(line, err=True)


def _check_folder(folder: Path) -> None:
    if folder.suffix.lower() == ".zip":
        raise UsageError(
            f"--attest={folder} must name a folder, which gets a bundle for each run. To write an "
            f"archive, run `proctor attest last -o {shlex.quote(str(folder))}` after the run."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"The folder of --attest={folder} cannot be created: {error.strerror}.") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"The folder of --attest={folder} is not writable. Name another one.")
