"""Reads the labels of a store for `certify --judge`, and exports them as a file of labels."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from proctor.errors import StoreError, UsageError
from proctor.model import Run
from proctor.protocols import Store, StoredLabel
from proctor.services.judges.label_files import RUN_LABEL_FIELDS, LabelLine, LabelSet
from proctor.services.runs.reading.report import record_holdout_accesses

STORED_LABELS_NAME = "labels of the store"
"""Used in messages instead of a file's name."""
_HINT = (
    "Label answers on the Review page of `proctor serve`, or give a file of labelled answers with "
    "--labels FILE."
)


def load_stored_labels(store: Store, run: Run | None) -> LabelSet:
    """Returns the labels in a store whose runs exist.

    Args:
        store: has the labels.
        run: only labels of this run; None for all.

    Raises:
        UsageError: there is no label.
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
        raise no_labels_error(run)
    return LabelSet(
        STORED_LABELS_NAME, tuple(labelled), unlabelled=0, orphaned=len(all_labels) - len(labelled)
    )


def no_labels_error(run: Run | None) -> UsageError:
    """Returns the error that no answer has a label, of a run or of all of them."""
    return UsageError(
        f"No answer of {'any run' if run is None else f'run {run.id}'} has a label yet. {_HINT}"
    )


def _has_run(store: Store, run_id: str) -> bool:
    try:
        return store.run(run_id).id == run_id  # the id may also be a prefix of another
    except StoreError:
        return False


def export_label_lines(
    store: Store, run: Run | None, labels: Sequence[StoredLabel], *, reveal: bool
) -> Iterator[str]:
    """Yields labels as lines that `certify --labels` reads.

    Labels of held-out answers show how many of them people pass, which is an access to the holdout; what
    people wrote about these answers is left out unless `reveal`, which is a further access.

    Args:
        store: records accesses.
        run: the run of the labels; None for a deleted one.
        labels: the labels to write.
        reveal: include the notes on held-out answers.
    """
    if run is not None and any(stored_label.held_out for stored_label in labels):
        record_holdout_accesses(store, run, reveal=reveal)
    return format_label_lines(labels, reveal=reveal)


def format_label_lines(labels: Iterable[StoredLabel], *, reveal: bool) -> Iterator[str]:
    """Yields the lines without recording an access: the caller does."""
    for stored_label in labels:
        label = (
            stored_label.label
            if reveal or not stored_label.held_out
            else replace(stored_label.label, note="")
        )
        verdict = "pass" if label.passed else "fail"
        values = (
            *(label.run, label.case_id, label.repeat, verdict, label.by, label.note),
            *(label.drawn, label.doubt),
        )
        fields = zip(RUN_LABEL_FIELDS, values, strict=True)
        yield json.dumps({name: value for name, value in fields if value is not None}, ensure_ascii=False)
