"""The labels of a store, as a file of labels has them: for `certify --judge`, and for export."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from proctor.errors import StoreError, UsageError
from proctor.model import Run
from proctor.protocols import KeptLabel, Store
from proctor.services.judges.label_files import OF_RUN, LabelLine, Labels
from proctor.services.runs.reading.report import keep_looks

PLACE = "labels of the store"
"""Used in messages instead of a file's name."""
_HOW = (
    "Label some on the page Review of `proctor serve`, or give answers that people have judged with "
    "--labels FILE."
)


def stored_labels(store: Store, run: Run | None) -> Labels:
    """The labels in a store that count.

    Args:
        store: where they are.
        run: only those of this run.

    Raises:
        UsageError: there is none.
        StoreError: the store cannot be read.
    """
    all_labels = store.labels(None if run is None else run.id)
    runs = {
        run_id: _has_run(store, run_id) for run_id in {stored_label.label.run for stored_label in all_labels}
    }
    labelled = [
        LabelLine(line=stored_label.number, label=stored_label.label)
        for stored_label in all_labels
        if runs[stored_label.label.run]
    ]
    if not labelled:
        raise no_labels(run)
    return Labels(PLACE, tuple(labelled), open=0, gone=len(all_labels) - len(labelled))


def no_labels(run: Run | None) -> UsageError:
    """Returns the error that no answer has a label, of a run or of all of them."""
    return UsageError(f"No answer of {'any run' if run is None else f'run {run.id}'} has a label yet. {_HOW}")


def _has_run(store: Store, run_id: str) -> bool:
    try:
        return store.run(run_id).id == run_id  # a word may mean another run too
    except StoreError:
        return False


def exported_labels(
    store: Store, run: Run | None, labels: Sequence[KeptLabel], *, reveal: bool
) -> Iterator[str]:
    """Labels as lines that `certify --labels` reads.

    Labels of held-out answers show how many of them people pass, which is an access to the holdout; what
    people wrote about these answers is left out unless `reveal`, which is a further access.

    Args:
        store: where accesses are kept.
        run: the run that they are of; None for one that was deleted.
        labels: what is written.
        reveal: with the notes on held-out answers.
    """
    if run is not None and any(stored_label.held_out for stored_label in labels):
        keep_looks(store, run, reveal=reveal)
    return label_lines(labels, reveal=reveal)


def label_lines(labels: Iterable[KeptLabel], *, reveal: bool) -> Iterator[str]:
    """Yields the lines without recording an access: the caller does."""
    for stored_label in labels:
        label = (
            stored_label.label
            if reveal or not stored_label.held_out
            else replace(stored_label.label, note="")
        )
        verdict = "pass" if label.passed else "fail"
        values = (label.run, label.case_id, label.repeat, verdict, label.by, label.note)
        yield json.dumps(dict(zip(OF_RUN, values, strict=True)), ensure_ascii=False)
