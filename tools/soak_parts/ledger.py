"""What was acknowledged, kept outside Proctor, and what a store must therefore have."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Literal, NamedTuple

from tools.soak_parts.endpoint import Call
from tools.soak_parts.questions import answer_to, passes
from tools.soak_parts.store_file import (
    StoredTrial,
    check_integrity,
    connect_read_only,
    read_runs,
    read_trials,
)

GRACE_S = 1.0
"""An answer that was given so shortly before a kill may be lost: Proctor promises 100 ms from its arrival."""
_LOOK_EVERY_S = 0.2

Kind = Literal["lost", "doubled", "hung", "wrong"]


class Fault(NamedTuple):
    """Something that must never happen."""

    kind: Kind
    text: str


class Ledger:
    """What one store has acknowledged: every row that a reader beside Proctor saw committed."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self._rows: dict[tuple[str, str, int], StoredTrial] = {}
        self._labels: dict[str, str] = {}
        """The label of each run that was seen."""
        self._may_be_gone: set[str] = set()
        self._last = 0
        self._lock = Lock()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Look into the store now and then, in a thread."""
        stopped = Event()
        thread = Thread(target=self._watch, args=(stopped,), name=f"reader of {self.store}")
        thread.start()
        try:
            yield
        finally:
            stopped.set()
            thread.join()

    def expect_deletion(self, run: str) -> None:
        """From now on a run may be gone; as long as it is there, it must be whole."""
        self._may_be_gone.add(run)

    def outputs(self, label: str) -> set[tuple[str, int]]:
        """Which trials have an acknowledged output in any run of a label."""
        with self._lock:
            return {
                (row.token, row.repeat)
                for row in self._rows.values()
                if row.output is not None and self._labels.get(row.run) == label
            }

    def snapshot(self) -> list[StoredTrial]:
        """All rows that are acknowledged by now."""
        with self._lock:
            return list(self._rows.values())

    def compare(self) -> list[Fault]:
        """What is not as it was acknowledged, or as it must be; what the store has now is acknowledged."""
        if not self.store.exists():
            return [Fault("lost", f"{self.store} is gone")] if self._rows else []
        integrity = check_integrity(self.store)
        if integrity != "ok":
            return [Fault("wrong", f"{self.store}: {integrity}")]
        runs = read_runs(self.store)
        with closing(connect_read_only(self.store)) as db:
            trials = [trial for _, trial in read_trials(db)] if runs else []
        with self._lock:
            deleted = self._may_be_gone - runs.keys()
            acknowledged = [row for row in self._rows.values() if row.run not in deleted]
            faults = [*missing_rows(acknowledged, trials), *wrong_rows(trials)]
            for run in runs.values():
                self._labels[run.id] = run.label
                rows = [trial for trial in trials if trial.run == run.id]
                faults += _wrong_count(run.id, run.status, run.planned, rows)
            self._rows = {trial.key: trial for trial in trials}
        return faults

    def _watch(self, stopped: Event) -> None:
        while not stopped.wait(_LOOK_EVERY_S):
            try:
                self._look()
            except (sqlite3.Error, FileNotFoundError):
                continue  # it is being made, or cannot be read while the disk is full: look again

    def _look(self) -> None:
        runs = read_runs(self.store)
        if not runs:
            return
        with closing(connect_read_only(self.store)) as db:
            trials = list(read_trials(db, self._last))
        with self._lock:
            for number, trial in trials:
                self._last = number
                self._rows.setdefault(trial.key, trial)
                self._labels[trial.run] = runs[trial.run].label if trial.run in runs else ""


def missing_rows(acknowledged: Iterable[StoredTrial], current: Iterable[StoredTrial]) -> Iterator[Fault]:
    """Acknowledged rows that are gone or have other content; one that waited may have its verdict by now."""
    now = {trial.key: trial for trial in current}
    for row in acknowledged:
        same = now.get(row.key)
        if same is None:
            yield Fault("lost", f"trial {row.token}/{row.repeat} of run {row.run} was committed and is gone")
        elif row.output != same.output or (row.verdict is not None and row.digest != same.digest):
            yield Fault("wrong", f"trial {row.token}/{row.repeat} of run {row.run} has other content now")


def wrong_rows(trials: Iterable[StoredTrial]) -> Iterator[Fault]:
    """Trials that are there twice, or with an answer or a verdict that is not theirs."""
    for key, count in Counter(trial.key for trial in trials).items():
        if count > 1:
            yield Fault("doubled", f"trial {key} stands in the store {count} times")
    for trial in trials:
        if trial.text is None:
            continue
        truth = answer_to(trial.token, trial.repeat)
        verdict = "pass" if passes(truth) else "fail"
        if trial.text != truth:
            yield Fault("wrong", f"trial {trial.key} has the answer {trial.text!r}, which is {truth!r}")
        elif trial.verdict not in {None, verdict, "unscored"}:
            yield Fault("wrong", f"trial {trial.key} has the verdict {trial.verdict}, which is {verdict}")


def _wrong_count(run: str, status: str, planned: int, rows: list[StoredTrial]) -> Iterator[Fault]:
    if len(rows) > planned:
        yield Fault("wrong", f"run {run} has {len(rows)} trials of {planned}")
    if status == "finished":
        verdict_count = sum(row.verdict is not None for row in rows)
        if verdict_count != planned:
            yield Fault("wrong", f"run {run} is finished with {verdict_count} of {planned} trials")


def doubled_calls(calls: Iterable[Call], before: set[tuple[str, int]]) -> Iterator[Fault]:
    """Calls that arrived although their outputs were acknowledged `before`, or an answer was delivered.

    A call that follows a broken answer, or one that the client may not have, is a retry. That an answer is
    delivered may be known only after the next call has arrived; then the client did not wait for it.
    """
    delivered = set(before)
    doubled = Counter[tuple[str, int]]()
    for call in calls:
        trial = call.token, call.repeat
        if trial in delivered:
            doubled[trial] += 1
        elif call.is_delivered:
            delivered.add(trial)
    for (token, repeat), count in doubled.items():
        yield Fault("doubled", f"trial {token}/{repeat} had its answer and was sent {count} times more")


def lost_answers(calls: Iterable[Call], rows: Iterable[StoredTrial]) -> Iterator[Fault]:
    """Delivered answers that no row has; one that came too late for a time limit is an ERROR."""
    stored_keys = {
        (row.token, row.repeat) for row in rows if row.output is not None or row.failure == "timeout"
    }
    for call in calls:
        if call.is_delivered and (call.token, call.repeat) not in stored_keys:
            yield Fault("lost", f"the answer to {call.token}/{call.repeat} was delivered and is not stored")
