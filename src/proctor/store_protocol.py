"""The interface of stores. Import these names from `proctor.protocols`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Protocol

from msgspec import Struct

from proctor.model import (
    Calibration,
    Case,
    Comment,
    HoldoutAccess,
    Label,
    Message,
    Run,
    Suite,
    Trial,
    Verdict,
)


class StoredTrial(Struct, frozen=True, gc=False):
    """A trial as stored; without verdict and scores while its judges have not replied."""

    trial: Trial
    verdict: Verdict | None


class StoredTotals(Struct, frozen=True, gc=False):
    """The totals of a run, which the store does not look into."""

    body: bytes | None
    """None if none are stored, or trials were saved since."""
    key: int
    """Identifies the run: another one that is stored under its id later has another key."""
    changes: int
    """A number that grows when trials of the run are saved."""


class StoredCase(Struct, frozen=True, gc=False):
    """A case as stored, with the digest of what is sent for it."""

    case: Case
    sent_digest: str


class CaseHead(Struct, frozen=True, gc=False):
    """What lists of trials show of a case, and search."""

    id: str
    input: tuple[Message, ...] = ()
    tags: tuple[str, ...] = ()
    category: str | None = None
    vars: dict[str, Any] = {}


class TrialUpdate(Struct, frozen=True, gc=False):
    """A trial with its case, for readers that follow a run."""

    turn: int
    """A number that grows in the order in which trials were first stored; grading does not change it."""
    trial: Trial
    verdict: Verdict | None
    """None while its judges have not replied."""
    case: Case


class SavedSuite(Struct, frozen=True, kw_only=True):
    """One version of a suite in a store."""

    suite: Suite
    """Its header, with `version` and the `content` that was saved last."""
    saved_at: datetime
    """When it was saved last."""
    current: bool
    """Whether it is the version last saved under its name."""


class PriorAnswer(Struct, frozen=True, kw_only=True):
    """A stored trial with an output, its run and its case."""

    run: str
    trial: Trial
    verdict: Verdict | None
    case: Case


class CaseInRun(Struct, frozen=True, kw_only=True):
    """The case at one position of a suite, and its trials in one run."""

    case: StoredCase
    """Has the messages that the run sends for it."""
    suite_case: Case
    """The case as its suite has it, without the prompt of the run."""
    trials: tuple[StoredTrial, ...]
    """In order of repeat."""


class SameCaseRun(Struct, frozen=True, kw_only=True):
    """Another run that sent the same case."""

    run: Run
    position: int
    verdicts: tuple[Verdict | None, ...]
    """One for each repeat; None for a trial whose judges have not replied."""


class StoredLabel(Struct, frozen=True, kw_only=True):
    """A label of a stored answer."""

    number: int
    """Unique and never reused; later labels have larger numbers."""
    label: Label
    """The label, with its run."""
    held_out: bool
    """Whether the answer is held out."""
    at: datetime


class StoredComment(Struct, frozen=True, kw_only=True):
    """A comment on a stored answer."""

    number: int
    """Unique and never reused; later comments have larger numbers."""
    comment: Comment
    at: datetime


class StoredBatch(Struct, frozen=True, kw_only=True):
    """A batch of requests that a run has submitted, or is about to."""

    key: str
    """A name of its own, by which the service's list of batches shows it."""
    target: str | None = None
    """The target that cases name; None for the run's own."""
    custom_ids: tuple[str, ...]
    """The custom ids of its requests, in order."""
    left_out: tuple[str, ...] = ()
    """The parameters that the service refused before, by its names, and that its requests leave out."""
    submitted_at: datetime
    batch_id: str | None = None
    """The service's id; None before the service has accepted it, or if no process learned its id."""
    state: str = "submitting"
    """The state as the service calls it; `submitting` before it has one, `refused` if it was not accepted."""


class StoreFault(Struct, frozen=True, kw_only=True):
    """Why a store takes no more trials."""

    message: str
    """In sentences: what happened, where the run is now, and what is lost."""
    path: str
    """Where the run is: a new file, or the store itself where none could be written or needed."""


class StoreHealth(Struct, frozen=True, kw_only=True):
    """How far a store is behind what it was given."""

    waiting: int
    """The number of trials that are not durable yet."""
    locked_s: float
    """How long they have waited for another process's lock, or for the server of the store."""
    fault: StoreFault | None
    obstacle: str = "is locked by another process"
    """What the store does while they wait, as the end of a sentence."""


class RunOwner(Struct, frozen=True, kw_only=True, gc=False):
    """The process that has locked a run."""

    pid: int | None
    """Its id on its machine; None if the system does not tell: on Windows, and for a process in another
    container."""
    host: str | None = None
    """The name of its machine, if the store is open to several; None for this machine."""
    user: str | None = None
    """The user that it belongs to, if the store is open to several machines."""

    @property
    def title(self) -> str:
        """What sentences call it: `process 4711`, or `ana's process 4711 on gpu-3`."""
        name = "another process" if self.pid is None else f"process {self.pid}"
        name = name if self.user is None else f"{self.user}'s {name.removeprefix('another ')}"
        return name if self.host is None else f"{name} on {self.host}"


class SuiteWriter(Protocol):
    """Saves one suite."""

    def add(self, case: Case, sent_digest: str) -> None:
        """Adds the next case, in order, with the digest of what is sent for it."""

    def commit(self, suite: Suite) -> Suite:
        """Saves the suite with its cases, and returns its header with `content` and `version` set.

        The same content is stored once. A new digest becomes the next version under the suite's name; a known
        digest stays its old version, with the content that was saved last.
        """

    def discard(self) -> None:
        """Discards what was added; the next `add` begins again.

        Safe to call at any time, also after `commit`.
        """


Progress = Callable[[int, int], None]
"""Called with the amount done and the total."""


class AnswerCache(Protocol):
    """Answers of targets, by everything that they depend on, for later runs; values are opaque bytes."""

    def get(self, key: bytes) -> tuple[bytes | None, str] | None:
        """Returns the answer of a key, or why there is none; None if nothing is stored."""

    def earlier_parts(self, about: str) -> list[bytes]:
        """Returns the parts that earlier commands stored for `about`, newest first."""

    def put(self, key: bytes, about: str, parts: bytes, value: bytes | None, why_not: str) -> None:
        """Stores an answer, or why there is none, which never replaces an answer.

        Args:
            key: the digest of everything that the answer depends on.
            about: the key of `earlier_parts`.
            parts: the value that `earlier_parts` returns.
            value: the answer; None for none.
            why_not: why there is none.
        """

    def close(self) -> None:
        """Writes pending entries and releases all resources. Safe to call twice."""


class Store(Protocol):
    """Stores suites, runs and trials.

    `save_output` and `save_trial` return at once and are durable within 100 ms; all other methods are durable
    on return. Every method raises StoreError if the store cannot be read or written.

    While another process has locked the store, or its server does not answer, methods wait up to 30 s, or
    after `protect` without a limit. `save_output` and `save_trial` only wait if very many trials are pending.
    """

    is_durable: bool
    """Whether the store outlives this process."""
    shared_address: str | None
    """The address, without a password, by which other machines open the store; None if they cannot."""

    def on_wait(self, tell: Callable[[str], None]) -> None:
        """Sets a callback that gets a sentence when a method has waited 2 s for a lock or the server."""

    def protect(self) -> None:
        """Makes sure from now on that no trial is lost: waits, and saves elsewhere if need be.

        `save_output` and `save_trial` then accept trials whatever happens to the store, and `health` reports
        it.
        """

    def abandon_lock(self) -> None:
        """Stops waiting for locks and servers; after `protect`, pending trials are saved elsewhere."""

    def is_full(self) -> bool:
        """Returns whether too many trials are pending for new requests to be sent."""

    def health(self) -> StoreHealth:
        """Returns how far the store is behind, and what is wrong with it."""

    def open_suite_writer(
        self, *, aside: bool = False, again: bool = False, name: Callable[[Suite], str] | None = None
    ) -> SuiteWriter:
        """Starts to save a suite; nothing of it is visible before `commit`.

        Args:
            aside: an existing version keeps its content, and the version last saved under the name stays the
                current one; the new content is stored for a run that is added next.
            again: restores a deleted version, with its number and its place among the others; an existing
                version stays as it is.
            name: chooses the name while no other process can save; None leaves it as it is.
        """

    def add_run(self, run: Run) -> None:
        """Adds a run that is starting, and locks it for this process."""

    def lock_run(self, run_id: str) -> None:
        """Locks a run for this process; raises StoreError if another process has locked it."""

    def save_output(self, run_id: str, trial: Trial) -> None:
        """Saves a trial with an output whose grading has not ended."""

    def save_trial(self, run_id: str, trial: Trial, verdict: Verdict) -> None:
        """Saves a finished trial; a second one for the same case and repeat is ignored."""

    def update_run(self, run: Run, *, wait: bool = True, totals: bytes | None = None) -> None:
        """Saves the current state of a run, after all trials so far.

        Args:
            run: the run.
            wait: whether to return only when it is durable; otherwise call `flush`.
            totals: the totals of all of its trials, if they are known.
        """

    def totals(self, run_id: str) -> StoredTotals:
        """Returns the stored totals of a run."""

    def totals_of_runs(self, run_ids: Iterable[str]) -> dict[str, StoredTotals]:
        """Returns the stored totals of runs by id, without those that are not there; reads many at once."""

    def save_totals(self, run_id: str, totals: StoredTotals) -> None:
        """Saves the totals of a run if it has not changed since and the store can be written right now.

        Args:
            run_id: the run.
            totals: its totals, with `changes` as they were before its trials were read.
        """

    def flush(self, timeout_s: float | None = None) -> bool:
        """Waits until everything so far is durable; returns False if that takes longer than the timeout."""

    def runs(self) -> Iterator[Run]:
        """Yields every run, newest first."""

    def run(self, word: str) -> Run:
        """Returns the run that a word names.

        The word is, in this order, an id, `last` for the newest run, a tag, which stands for its newest run,
        or the beginning of an id.

        Raises:
            StoreError: there is none, or more than one.
        """

    def find_equivalent_runs(self, suite_digest: str, call_digest: str, settings_digest: str) -> list[Run]:
        """Returns the runs with the same suite, target and settings, newest first."""

    def count_verdicts(self, run_id: str) -> dict[Verdict | None, int]:
        """Returns the number of a run's trials by stored verdict; None for trials without one."""

    def count_cases(self, run_id: str) -> dict[tuple[int, int, int, int], int]:
        """Returns the number of a run's cases by how many of their trials have which stored verdict.

        A key has the number of PASS, FAIL, ERROR and UNSCORED trials; cases without a verdict are left out.
        """

    def trials(self, run_id: str) -> Iterator[StoredTrial]:
        """Yields a run's trials in suite order, without holding them all."""

    def trial_places(
        self,
        run_id: str,
        verdicts: Collection[str] = (),
        after: tuple[int, int] | None = None,
        limit: int = 50,
        *,
        back: bool = False,
    ) -> list[tuple[int, int]]:
        """Returns the positions and repeats of some finished trials of a run, in suite order.

        Args:
            run_id: the run.
            verdicts: the stored verdicts that they may have; none stands for all.
            after: begins after this position and repeat, or at the end of the run.
            limit: the maximum number of results.
            back: goes towards the beginning of the suite.
        """

    def get_progress(self, run_id: str) -> tuple[int, int]:
        """Returns the number of stored trials of a run and the turn of the last, or 0. Fast for any run."""

    def trials_since(
        self, run_id: str, after: int = 0, waiting: Collection[int] = ()
    ) -> Iterator[TrialUpdate]:
        """Yields a run's trials in the order in which they were first stored, without holding them all.

        Args:
            run_id: the run, which may still be running in another process.
            after: yields only trials with a later turn.
            waiting: turns of earlier trials without a verdict; those that have one now are yielded again.
        """

    def is_run_locked(self, run_id: str) -> bool:
        """Returns whether any process has locked the run; True if the system cannot tell."""

    def unlocked_runs(self) -> frozenset[str]:
        """Returns the ids of the runs that are stored as `running` and certainly locked by no process."""

    def lock_owner(self, run_id: str) -> RunOwner | None:
        """Returns the process that has locked the run, which may be this process; None if none has."""

    def request_stop(self, run_id: str) -> bool:
        """Requests the process that has locked a run to stop it, on any machine.

        The request ends with the lock. Returns False if no process has locked the run, and for a store whose
        processes are all on this machine: those are stopped by signals.
        """

    def is_stop_requested(self, run_id: str) -> bool:
        """Returns whether `request_stop` was called for a run since it was locked; for any thread."""

    def suite(self, name: str, version: str | None = None) -> Suite | None:
        """Returns the suite of that name, or None.

        Args:
            name: its name.
            version: `v2`, or a digest or the beginning of one (`sha256:…`); None for the version last saved.
        """

    def versions(self, name: str | None = None) -> list[SavedSuite]:
        """Returns the versions of one suite or of all suites, by name and version."""

    def path_for_name(self, name: str) -> str | None:
        """Returns the absolute path of the file that owns a suite's name; None if no file does."""

    def names_for_path(self, path: str) -> list[str]:
        """Returns the suite names that belong to a file, given by its absolute path."""

    def claim_name(self, name: str, path: str) -> None:
        """Assigns a suite's name to a file, given by its absolute path, instead of any other file."""

    def delete_version(self, name: str, version: str) -> None:
        """Deletes one version of a suite; its number is not used again.

        Raises:
            StoreError: there is no such version, or runs of it are stored.
        """

    def cases(self, content: str, start: int = 0) -> Iterator[StoredCase]:
        """Yields the cases of a suite's content from a position on, in order, without holding them all."""

    def case_heads(self, content: str) -> Iterator[CaseHead]:
        """Yields all cases of a suite's content as `cases` does, but reads only what lists show of them."""

    def find_prior_answers(
        self, sent_digest: str, call_digest: str, run_id: str | None = None
    ) -> Iterator[PriorAnswer]:
        """Yields trials with an output for the same request to the same target, newest run first.

        Does not hold them all. With `run_id` only trials of that run are yielded.
        """

    def case_in_run(self, run: Run, position: int) -> CaseInRun | None:
        """Returns the case at a position of a run's suite, with its trials; None past the end.

        The case has the messages that the run sends for it, with the run's prompt filled in. Reads by keys,
        so that it is fast however many trials the run has.
        """

    def cases_in_run(self, run: Run, positions: Iterable[int]) -> Iterator[CaseInRun | None]:
        """Yields what `case_in_run` returns for each position, in that order; reads several at once."""

    def find_position(self, run: Run, sent_digest: str, case_id: str) -> int | None:
        """Returns the position of the case with that digest in the suite of a run, or None.

        If several cases send the same, it is the one with that id, else the first.
        """

    def find_same_case(self, run: Run, sent_digest: str, limit: int) -> list[SameCaseRun]:
        """Returns the newest other runs of a suite of the same name that sent the same; at most `limit`."""

    def delete_run(self, run_id: str) -> None:
        """Deletes a run and its trials; the version of the suite and the labels of its answers stay."""

    def secret(self, run_id: str) -> bytes:
        """Returns the run's own 32 random bytes, which are created at first use."""

    def save_variable_digests(self, run_id: str, digests: Mapping[str, bytes]) -> None:
        """Saves keyed digests of the values of a run's environment variables, by their names."""

    def variable_digests(self, run_id: str) -> dict[str, bytes]:
        """Returns what `save_variable_digests` saved for a run; empty for a run of an older Proctor."""

    def save_batch(self, run_id: str, batch: StoredBatch) -> None:
        """Saves a batch of a run; one with the same key gets its id and its state."""

    def batches(self, run_id: str) -> list[StoredBatch]:
        """Returns the batches of a run, oldest first."""

    def add_calibration(self, calibration: Calibration) -> None:
        """Saves the calibration of a judge."""

    def calibrations(self, judge: str) -> list[Calibration]:
        """Returns the calibrations of the judge with that target digest, oldest first."""

    def check_can_record_access(self) -> None:
        """Raises StoreError if no holdout access can be saved; call it before a holdout is shown."""

    def add_holdout_access(self, access: HoldoutAccess) -> None:
        """Saves an access to a holdout."""

    def holdout_accesses(self, suite_digest: str) -> list[HoldoutAccess]:
        """Returns the accesses to the holdout of a suite, oldest first, including those of deleted runs."""

    def add_label(self, label: Label, *, held_out: bool = False, at: datetime | None = None) -> StoredLabel:
        """Saves a label of a run's answer; it replaces the same person's earlier label.

        The earlier label stays stored and counts again when this one is removed. Labels outlive their run,
        and count again when the run is imported from its bundle.

        Args:
            label: the label.
            held_out: whether the answer is held out.
            at: when it was given; None for now.
        """

    def remove_label(self, number: int) -> bool:
        """Removes a label, so that the one before it counts again; returns False if it is already removed."""

    def labels(self, run_id: str | None = None) -> list[StoredLabel]:
        """Returns the labels that count, of one run or of all, oldest first."""

    def count_labelled_answers(self) -> dict[str, int]:
        """Returns the number of labelled answers by run id, including deleted runs."""

    def add_comment(self, comment: Comment, *, at: datetime | None = None) -> StoredComment:
        """Saves a comment on a run's answer, given at a time or now. Comments outlive their run."""

    def remove_comment(self, number: int) -> bool:
        """Removes a comment for good; returns False if it is already removed."""

    def comments(self, run_id: str, case_id: str | None = None) -> list[StoredComment]:
        """Returns the comments on the answers of a run, or of one of its cases, oldest first."""

    def open_answer_cache(self, notify: Callable[[str], None] = ...) -> AnswerCache:
        """Opens the answer cache of this store; close it after use.

        Args:
            notify: called with a sentence if the cache is damaged or cannot be used; no run stops for that.
        """

    def count_unused_rows(self) -> dict[str, int]:
        """Returns the number of unreferenced rows by kind, without kinds that have none."""

    def delete_unused_rows(self) -> None:
        """Deletes unreferenced rows, without blocking other processes for long."""

    def close(self) -> None:
        """Flushes and releases all resources. Safe to call twice."""
