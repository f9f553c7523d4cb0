"""What a store keeps besides its runs: calibrations of judges, holdout accesses, and labels of people."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

from proctor.codec import decode, encode
from proctor.errors import StoreError
from proctor.model import Calibration, HoldoutAccess, Label
from proctor.protocols import StoredLabel
from proctor.stores.sqlite.case_queries import CaseQueries
from proctor.stores.sqlite.connection import as_store_errors, is_read_only
from proctor.stores.sqlite.transactions import decode_row

_NEWEST = "SELECT max(number) FROM labels {} GROUP BY run, case_id, repeat, by"
"""The numbers of the labels that count: the newest label of each person for each answer."""


class AnnotationTables(CaseQueries):
    """The tables of a store that outlive its runs: deleting a run deletes nothing here."""

    # --- judges ---

    def add_calibration(self, calibration: Calibration) -> None:
        """Saves the calibration of a judge."""
        with as_store_errors(self.path):
            self._db.execute(
                "INSERT INTO calibrations (judge, body) VALUES (?, ?)",
                (calibration.judge, encode(calibration)),
            )

    def calibrations(self, judge: str) -> list[Calibration]:
        """Returns the calibrations of the judge with that target digest, oldest first."""
        with as_store_errors(self.path):
            rows = self._db.execute(
                "SELECT body FROM calibrations WHERE judge = ? ORDER BY key", (judge,)
            ).fetchall()
        return [decode_row(self.path, partial(decode, body, Calibration)) for (body,) in rows]

    # --- holdout accesses ---

    def check_can_record_access(self) -> None:
        """See `Store.check_can_record_access`."""
        if is_read_only(self._db):
            raise StoreError(
                f"This shows held-out cases, and each such access is counted in the store; {self.path} is "
                "read-only, so nothing is shown. Copy the store to a folder that you can write to, and name "
                "the copy with --store."
            )

    def add_holdout_access(self, access: HoldoutAccess) -> None:
        """Saves an access to a holdout."""
        self.check_can_record_access()
        with as_store_errors(self.path):
            self._db.execute("INSERT INTO looks (suite, body) VALUES (?, ?)", (access.suite, encode(access)))

    def holdout_accesses(self, suite_digest: str) -> list[HoldoutAccess]:
        """Returns the accesses to the holdout of a suite, oldest first, including those of deleted runs."""
        with as_store_errors(self.path):
            rows = self._db.execute(
                "SELECT body FROM looks WHERE suite = ? ORDER BY key", (suite_digest,)
            ).fetchall()
        return [decode_row(self.path, partial(decode, body, HoldoutAccess)) for (body,) in rows]

    # --- labels ---

    def add_label(self, label: Label, *, held_out: bool = False) -> StoredLabel:
        """Saves a label of a run's answer; it replaces the same person's earlier label.

        The earlier label stays stored and counts again when this one is removed. Labels outlive their run,
        and count again when the run is imported from its bundle.
        """
        at = datetime.now(UTC)
        row = (label.run, label.case_id, label.repeat, label.by, held_out, at.isoformat(), encode(label))
        with as_store_errors(self.path):
            cursor = self._db.execute(
                "INSERT INTO labels (run, case_id, repeat, by, held_out, at, body) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                row,
            )
        assert cursor.lastrowid is not None
        return StoredLabel(number=cursor.lastrowid, label=label, held_out=held_out, at=at)

    def remove_label(self, number: int) -> bool:
        """Removes a label, so that the one before it counts again; returns False if it is already removed."""
        with as_store_errors(self.path):
            return self._db.execute("DELETE FROM labels WHERE number = ?", (number,)).rowcount > 0

    def labels(self, run_id: str | None = None) -> list[StoredLabel]:
        """Returns the labels that count, of one run or of all, oldest first."""
        one_run, values = ("WHERE run = ?", (run_id,)) if run_id is not None else ("", ())
        with as_store_errors(self.path):
            rows = self._db.execute(
                f"SELECT number, held_out, at, body FROM labels WHERE number IN ({_NEWEST.format(one_run)}) "  # noqa: S608
                "ORDER BY number",
                values,
            ).fetchall()
        return [decode_row(self.path, partial(_decode_label, *row)) for row in rows]

    def count_labelled_answers(self) -> dict[str, int]:
        """Returns the number of labelled answers by run id, including deleted runs."""
        with as_store_errors(self.path):
            rows = self._db.execute(
                "SELECT run, count(*) FROM (SELECT DISTINCT run, case_id, repeat FROM labels) GROUP BY run"
            ).fetchall()
        return dict(rows)


def _decode_label(number: int, held_out: int, at: str, body: bytes) -> StoredLabel:
    label = decode(body, Label)
    return StoredLabel(number=number, label=label, held_out=bool(held_out), at=datetime.fromisoformat(at))
