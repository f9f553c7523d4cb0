"""Writes one trial of a stored run as a proof, without the others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from proctor.bundles.writer import BundleDigests, check_file_path, write_new_file
from proctor.errors import UsageError
from proctor.model import Case, Run, Trial
from proctor.proof import merkle
from proctor.proof.canonical import canonical_json
from proctor.proof.inclusion_proofs import LineProof, proof_data, prove_line
from proctor.proof.statement import TRIALS, Statement
from proctor.protocols import Store
from proctor.services.bundles.attest import check_finished, make_envelope, stream_run
from proctor.services.progress_lines import Notify
from proctor.services.runs.reading.report import record_holdout_access

if TYPE_CHECKING:
    from proctor.bundles.keys import SigningKey


class ProofCollector:
    """Collects the lines of one trial and the hashes of all others, for its proof."""

    def __init__(self, case_id: str, repeat: int, path: Path) -> None:
        """Takes the trial to prove, and where to write the proof.

        Args:
            case_id: its case.
            repeat: which of its repeats, from 0.
            path: the file that is written.
        """
        self.case_id = case_id
        self.repeat = repeat
        self.path = path
        self.is_held_out = False
        self._leaves = {False: merkle.LeafList(), True: merkle.LeafList()}
        self._case = (0, b"")
        self._match: tuple[tuple[int, bytes], tuple[int, bytes]] | None = None

    def observe(self, name: str, index: int, line: bytes, leaf: bytes, record: Case | Trial) -> None:
        """Takes the next line of the bundle; a trial comes after its case."""
        self._leaves[name == TRIALS].append(leaf)
        if isinstance(record, Case):
            self._case = (index, line)
        elif (record.case_id, record.repeat) == (self.case_id, self.repeat):
            self._match = ((index, line), self._case)
            self.is_held_out = record.split == "holdout"

    def lines(self) -> tuple[LineProof, LineProof] | None:
        """Returns the trial and its case with their inclusion paths; None when the run has no such trial."""
        if self._match is None:
            return None
        (trial_at, trial), (case_at, case) = self._match
        return (
            prove_line(trial, self._leaves[True], trial_at),
            prove_line(case, self._leaves[False], case_at),
        )


def prove(
    store: Store,
    run: Run,
    collector: ProofCollector,
    *,
    public: bool,
    key: SigningKey | None,
    notify: Notify | None = None,
) -> Statement:
    """Writes the proof of one trial, with the envelope that the run's bundle has.

    Args:
        store: where the run is.
        run: the run, finished.
        collector: the trial and the file.
        public: use the envelope of the public bundle instead of the full one.
        key: what signs; None for no signature.
        notify: called with progress lines when it takes long.

    Raises:
        UsageError: the run is not finished or has no such trial, or something else is at the path.
        StoreError: the store cannot be read, or lacks trials of the run.
    """
    check_file_path(collector.path)
    check_finished(store, run)
    statement = stream_run(
        BundleDigests(), store, run, public=public, notify=notify, on_line=collector.observe
    )
    lines = collector.lines()
    if lines is None:
        repeat_text = f" with repeat {collector.repeat}" if collector.repeat else ""
        raise UsageError(
            f"Run {run.id} has no trial of case {collector.case_id!r}{repeat_text}. To list its "
            f"trials: `proctor runs export {run.id} -o trials.csv`."
        )
    write_new_file(collector.path, canonical_json(proof_data(make_envelope(statement, key), *lines)) + b"\n")
    if "holdout" in statement.claims:
        record_holdout_access(store, run, "rate")
    if collector.is_held_out:
        record_holdout_access(store, run, "reveal")
    return statement
