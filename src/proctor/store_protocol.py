"""The door to stores: what a store is given and what it gives back.

Part of `proctor.protocols`, which is where everything else imports it from.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from proctor.model import Calibration, Case, Label, Look, Run, Suite, Trial, Verdict


class StoredTrial(Struct, frozen=True, gc=False):
    """A trial as stored; it has no verdict, and no scores, while it waits for its judges."""

    trial: Trial
    verdict: Verdict | None


class StoredCase(Struct, frozen=True, gc=False):
    """A case as stored, with the digest of what is sent for it."""

    case: Case
    sent: str


class Followed(Struct, frozen=True, gc=False):
    """A trial as stored, with its case, read by somebody who follows the run."""

    turn: int
    """Grows in the order in which a run's trials were first stored; a trial keeps it when it is graded."""
    trial: Trial
    verdict: Verdict | None
    """None while it waits for its judges."""
    case: Case


class SavedSuite(Struct, frozen=True, kw_only=True):
    """One version of a suite in a store."""

    suite: Suite
    """Its header, with `version` and the `content` that came last."""
    saved_at: datetime
    """When it was saved last."""
    current: bool
    """It is the one last saved under its name."""


class Answered(Struct, frozen=True, kw_only=True):
    """A stored trial with an output, and what it was asked and judged by."""

    run: str
    trial: Trial
    verdict: Verdict | None
    case: Case


class CaseInRun(Struct, frozen=True, kw_only=True):
    """The case at one position of a suite, and its trials in one run."""

    case: StoredCase
    trials: tuple[StoredTrial, ...]
    """In order of repeat."""


class SameCaseElsewhere(Struct, frozen=True, kw_only=True):
    """Another run that sent the same case."""

    run: Run
    position: int
    verdicts: tuple[Verdict | None, ...]
    """One a repeat; None for one that waits for its judges."""


class KeptLabel(Struct, frozen=True, kw_only=True):
    """A label of a stored answer."""

    number: int
    """Its own for ever; a later label has a greater one."""
    label: Label
    """It names its run."""
    held_out: bool
    """It is of a held-out answer."""
    at: datetime


class StoreFault(Struct, frozen=True, kw_only=True):
    """Why a store's file takes no more trials."""

    message: str
    """In sentences: what happened, where the run is now, and what is lost."""
    path: str
    """The file in which the run is: a new one, or the store's own where none could be written."""


class StoreHealth(Struct, frozen=True, kw_only=True):
    """How far a store is behind what it was given."""

    waiting: int
    """How many trials were handed over and are not durable yet."""
    locked_s: float
    """For so long they have waited for another process's lock."""
    fault: StoreFault | None


class SuiteWriter(Protocol):
    """A suite on its way into a store."""

    def add(self, case: Case, sent_digest: str) -> None:
        """The next case, in order, with the digest of what is sent for it."""

    def keep(self, suite: Suite) -> Suite:
        """Keeps the suite with its cases, and returns its header with `content` and `version` filled in.

        The same content is kept once. Under a name, another digest is the next version; a digest that was
        there before is its old version again, with the content that came last.
        """

    def drop(self) -> None:
        """Forgets what was added. Safe to call at any time, also after `keep`."""


Progress = Callable[[int, int], None]
"""Called with how much is done of how much."""


class AnswerCache(Protocol):
    """Answers of targets by all that they depend on, for later runs; it does not know what is in them."""

    def get(self, key: bytes) -> tuple[bytes | None, str] | None:
        """What was put under that key: an answer, or why there is none; None when nothing was."""

    def earlier(self, about: str) -> list[bytes]:
        """The parts of what earlier commands put about that, newest first."""

    def put(self, key: bytes, about: str, parts: bytes, value: bytes | None, why_not: str) -> None:
        """Keeps an answer, or why there is none, which never replaces an answer.

        Args:
            key: of all that the answer depends on.
            about: what `earlier` finds it by.
            parts: what `earlier` returns.
            value: the answer; None for none.
            why_not: why there is none.
        """

    def close(self) -> None:
        """Writes what waits, and releases everything. Safe to call twice."""


class Store(Protocol):
    """Keeps suites, runs and trials.

    `arrived` and `record` return at once and are durable within 100 ms; all else is durable on return. Every
    method raises StoreError when the store cannot be read or written.

    While another process holds the lock, every method waits: for 30 s, or since `protect` for as long as it
    takes. `arrived` and `record` never wait for a lock unless very much waits already.
    """

    is_durable: bool
    """Whether it is still there when this process has ended."""

    def on_wait(self, tell: Callable[[str], None]) -> None:
        """Tells in a sentence when a method has waited for another process's lock for 2 s."""

    def protect(self) -> None:
        """Loses no trial from now on: waits for locks, and saves elsewhere what it cannot write here.

        `arrived` and `record` then take trials whatever happens to the file, and `health` tells of it.
        """

    def abandon_lock(self) -> None:
        """Stops waiting for locks; what waits is saved elsewhere where `protect` was called."""

    def is_full(self) -> bool:
        """Whether too many trials wait to be written for more to be requested."""

    def health(self) -> StoreHealth:
        """How far the store is behind, and what is wrong with its file."""

    def saving(
        self, *, aside: bool = False, again: bool = False, name: Callable[[Suite], str] | None = None
    ) -> SuiteWriter:
        """Begins to save a suite; nothing of it is there before `keep`.

        Args:
            aside: a version that is there keeps its content, and the one last saved under the name is still
                that one; the content is kept for a run that is begun next.
            again: the version was forgotten and becomes what it was, with its number and its place among the
                others; one that is there already stays as it is.
            name: chooses the name, while nobody else can save; None leaves it as it is.
        """

    def begin(self, run: Run) -> None:
        """Keeps a run that is starting, and locks it for this process."""

    def claim(self, run_id: str) -> None:
        """Makes sure that no other process makes this run; raises StoreError when one does."""

    def arrived(self, run_id: str, trial: Trial) -> None:
        """Keeps an output whose grading has not ended."""

    def record(self, run_id: str, trial: Trial, verdict: Verdict) -> None:
        """Keeps a finished trial; a second one for the same case and repeat changes nothing."""

    def update(self, run: Run, *, wait: bool = True) -> None:
        """Keeps a run's present state, after everything handed over so far.

        Args:
            run: the run.
            wait: return when it is durable; else `flush` does.
        """

    def flush(self, timeout_s: float | None = None) -> bool:
        """Returns when everything handed over so far is durable; False when that takes longer."""

    def runs(self) -> Iterator[Run]:
        """Every run, newest first."""

    def run(self, word: str) -> Run:
        """The run that a word names.

        By its id; else `last` is the newest; else the newest that has it as a tag; else the one whose id
        begins like that.

        Raises:
            StoreError: there is none, or more than one.
        """

    def alike(self, suite_digest: str, target_digest: str, settings_digest: str) -> list[Run]:
        """The runs of that suite, target and settings, newest first."""

    def counts(self, run_id: str) -> dict[Verdict | None, int]:
        """How many of a run's trials have each stored verdict; None for those that wait for one."""

    def asked_cases(self, run_id: str) -> int:
        """How many cases have a trial with a stored verdict in a run, whatever their repeats."""

    def trials(self, run_id: str) -> Iterator[StoredTrial]:
        """A run's trials in suite order; nothing holds them all."""

    def reach(self, run_id: str) -> tuple[int, int]:
        """How many trials of a run are stored, and the turn of the last; 0 for none. Quick for any run."""

    def changed(self, run_id: str, after: int = 0, waiting: Collection[int] = ()) -> Iterator[Followed]:
        """A run's trials in the order in which they were first stored; nothing holds them all.

        Args:
            run_id: the run, which another process may be making.
            after: only those with a later turn than this.
            waiting: the turns of known trials that had no verdict; those that have one now come again.
        """

    def claimed(self, run_id: str) -> bool:
        """Whether any process makes this run right now; True where the system cannot tell."""

    def maker(self, run_id: str) -> int | None:
        """The id of the process that makes this run right now; this process's own where it does itself.

        None where no process does, and where the system does not tell which: on Windows, and of a process
        in another container.
        """

    def suite(self, name: str, version: str | None = None) -> Suite | None:
        """The suite of that name, or None.

        Args:
            name: its name.
            version: `v2`, or the digest or the beginning of one (`sha256:…`); None for the one last saved.
        """

    def versions(self, name: str | None = None) -> list[SavedSuite]:
        """The versions of the suite of that name, or of all suites; by name, then in order of version."""

    def origin(self, name: str) -> str | None:
        """The absolute path of the file that has a suite's name; None where no file has it."""

    def names_from(self, path: str) -> list[str]:
        """The names of suites that the file of an absolute path has."""

    def claim_name(self, name: str, path: str) -> None:
        """Gives a suite's name to the file of an absolute path, and takes it from any other file."""

    def forget(self, name: str, version: str) -> None:
        """Forgets one version of a suite; its number is given to no other.

        Raises:
            StoreError: there is none, or runs of it are stored.
        """

    def cases(self, content: str, start: int = 0) -> Iterator[StoredCase]:
        """The cases of the suite of that content from a position on, in order; nothing holds them all."""

    def answered(self, sent_digest: str, target_digest: str, run_id: str | None = None) -> Iterator[Answered]:
        """The trials with an output that asked the target of that digest the same, newest run first.

        Nothing holds them all; only those of one run where it is given.
        """

    def case_in_run(self, run: Run, position: int) -> CaseInRun | None:
        """The case at a position of a run's suite, with its trials; None for a position past the end.

        Reads by keys, however many trials the run has.
        """

    def find_position(self, run: Run, sent_digest: str, case_id: str) -> int | None:
        """The position of the case with that digest of what is sent, in the suite of a run; None for none.

        Where several cases send the same, it is the one with that id, else the first.
        """

    def same_case_elsewhere(self, run: Run, sent_digest: str, limit: int) -> list[SameCaseElsewhere]:
        """The newest other runs of a suite of the same name that sent the same; at most `limit`."""

    def delete(self, run_id: str) -> None:
        """Forgets a run and its trials; the version of the suite stays, and so do labels of its answers."""

    def secret(self, run_id: str) -> bytes:
        """32 random bytes of the run's own, which are made at first use and stay the same."""

    def keep_variables(self, run_id: str, digests: Mapping[str, bytes]) -> None:
        """Keeps keyed digests of the values that variables have in a run, by their names."""

    def variables(self, run_id: str) -> dict[str, bytes]:
        """What `keep_variables` was given for a run; empty for a run of an earlier version."""

    def calibrate(self, calibration: Calibration) -> None:
        """Keeps the calibration of a judge."""

    def calibrations(self, judge: str) -> list[Calibration]:
        """How well the judge of that target digest judged, oldest first."""

    def check_can_count_looks(self) -> None:
        """Raises StoreError where no look can be kept, before anything is written that shows a holdout."""

    def look(self, look: Look) -> None:
        """Keeps a look at a holdout."""

    def looks(self, suite_digest: str) -> list[Look]:
        """The looks at the holdout of the suite of that digest, oldest first; deleted runs' included."""

    def label(self, label: Label, *, held_out: bool = False) -> KeptLabel:
        """Keeps a label of a run's answer, in the place of what the same person said of it before.

        That stays behind it and counts again when this one is taken back. Labels outlive their run, and
        count again when it is imported from its bundle.
        """

    def unlabel(self, number: int) -> bool:
        """Takes a label back, so that the one before it counts again; False when it is gone already."""

    def labels(self, run_id: str | None = None) -> list[KeptLabel]:
        """The labels that count, oldest first; only those of one run where it is given."""

    def labelled(self) -> dict[str, int]:
        """How many answers of each run have a label, by the run's id; deleted runs' included."""

    def open_answer_cache(self, notify: Callable[[str], None] = ...) -> AnswerCache:
        """The cache of answers that lies beside the store; close it after use.

        Args:
            notify: called with a sentence when the cache is damaged or cannot be used; no run stops for that.
        """

    def count_unused_rows(self) -> dict[str, int]:
        """How many rows of each kind nothing refers to; kinds of which there are none are left out."""

    def delete_unused_rows(self) -> None:
        """Deletes them, without blocking other processes for long."""

    def close(self) -> None:
        """Flushes and releases everything. Safe to call twice."""
