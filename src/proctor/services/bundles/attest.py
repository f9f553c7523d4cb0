"""Writes finished runs as bundles: full ones, or public ones without what is held out.

A bundle has only the run and the store's record of it, so the same run always gives the same bytes.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from proctor.bundles.reader import MAX_BUNDLE_LINE_BYTES
from proctor.bundles.writer import BundleDigests, check_bundle_path, create_bundle
from proctor.codec import target_digest, template_digest
from proctor.errors import StoreError, UsageError
from proctor.holdout import holdout_positions
from proctor.model import Case, Run, Trial
from proctor.proof import merkle
from proctor.proof.canonical import canonical_json
from proctor.proof.claims import ClaimCounter
from proctor.proof.dsse import Envelope, Signature, envelope_data, signed_bytes
from proctor.proof.records import CASES_TREE, TRIALS_TREE, case_line, header_line, redacted_line, trial_line
from proctor.proof.statement import (
    CONFIG,
    ENVELOPE,
    ENVIRONMENT,
    SUITE,
    TRIALS,
    AccessCounts,
    PromptReference,
    Statement,
    SuiteReference,
    TargetReference,
    TreeHead,
    config_data,
    environment_data,
    portable_run,
    portable_trial,
    statement_data,
)
from proctor.protocols import Store, StoredTrial
from proctor.services.progress_lines import Notify, progress_reporter
from proctor.services.runs.reading.report import record_holdout_access
from proctor.targets import has_file_model

if TYPE_CHECKING:
    from proctor.bundles.keys import SigningKey

LineObserver = Callable[[str, int, bytes, bytes, Case | Trial], None]
"""Called with each line of a full bundle: its file, its index, the line, its leaf, and its case or trial."""


BUNDLE_SUFFIX, PUBLIC_SUFFIX = ".bundle", ".public.bundle"
"""Suffixes of a bundle's name after the id of its run."""


def bundle_name(run_id: str, *, public: bool) -> str:
    """Returns the default name of a run's bundle."""
    return run_id + (PUBLIC_SUFFIX if public else BUNDLE_SUFFIX)


def attest(
    store: Store, run: Run, path: Path, *, public: bool, key: SigningKey | None, notify: Notify | None = None
) -> Statement:
    """Writes a run as a bundle, and records an access to its holdout.

    Args:
        store: where the run is.
        run: the run, finished.
        path: a folder, or an archive if it ends in `.zip`; it appears only when the bundle is complete.
        public: leave out what is held out.
        key: what signs; None for no signature.
        notify: called with lines for the user.

    Raises:
        UsageError: the run is not finished, or something else is at the path.
        StoreError: the store cannot be read, or lacks trials of the run.
    """
    statement = write_bundle(store, run, path, public=public, key=key, notify=notify)
    record_bundle_access(store, run, statement)
    return statement


def write_bundle(
    store: Store, run: Run, path: Path, *, public: bool, key: SigningKey | None, notify: Notify | None = None
) -> Statement:
    """As `attest`, but records no access to the holdout: the caller does."""
    check_bundle_path(path)
    check_finished(store, run)
    if public and run.suite.split_rule is None and notify is not None:
        notify(
            f"Suite {run.suite.name} has no holdout, so this public bundle has the same content as "
            "a full one."
        )
    with create_bundle(path) as bundle:
        statement = stream_run(bundle, store, run, public=public, notify=notify)
        bundle.add(ENVELOPE, canonical_json(envelope_data(make_envelope(statement, key))))
    return statement


def check_finished(store: Store, run: Run, *, store_flags: Sequence[str] = ()) -> None:
    """Refuses a run that is incomplete or imported.

    Args:
        store: has the run.
        run: the run.
        store_flags: the words of a command that name the store; none for the default one.

    Raises:
        UsageError: it was interrupted or stopped early, trials are missing, or its answers were imported.
        StoreError: it has a holdout, and the access cannot be recorded.
    """
    if run.suite.split_rule is not None:
        store.check_can_record_access()
    if run.imported is not None:
        raise UsageError(
            f"The answers of run {run.id} were imported from a bundle. Share that bundle instead; "
            "`proctor attest BUNDLE` adds your signature to it."
        )
    if run.early_stop is not None:
        raise UsageError(
            f"Run {run.id} stopped early after {run.early_stop.cases:,} of "
            f"{run.early_stop.planned_cases:,} cases, and a bundle needs all cases. Run the suite "
            "without --until and --stop-when-shown; with --reuse, only the rest is sent."
        )
    shard = run.settings.selection.shard
    if shard is not None:
        raise UsageError(
            f"Run {run.id} is {shard.title}, and a bundle needs all cases. Merge all shards first: "
            "`proctor runs merge`."
        )
    trial_count = sum(count for verdict, count in store.count_verdicts(run.id).items() if verdict is not None)
    if run.status != "finished" or trial_count != run.planned:
        command = shlex.join(("proctor", "run", f"--resume={run.id}", *store_flags))
        raise UsageError(
            f"Run {run.id} is not finished: it has {trial_count:,} of {run.planned:,} trials, and a "
            f"bundle needs all. Resume it with `{command}`."
        )


def record_bundle_access(store: Store, run: Run, statement: Statement) -> None:
    """Records what a bundle shows of a holdout: its pass rate, and in a full one the cases too."""
    if "holdout" in statement.claims:
        record_holdout_access(store, run, "rate")
    if includes_holdout(run, statement):
        record_holdout_access(store, run, "reveal")


def includes_holdout(run: Run, statement: Statement) -> bool:
    """Whether a bundle shows held-out cases; a full one has every case of the suite."""
    return statement.kind == "full" and run.suite.split_rule is not None


def make_envelope(statement: Statement, key: SigningKey | None) -> Envelope:
    """Returns the envelope of a statement, signed if there is a key."""
    payload = canonical_json(statement_data(statement))
    return Envelope(payload, () if key is None else (sign_payload(payload, key),))


def sign_payload(payload: bytes, key: SigningKey) -> Signature:
    """Signs a statement with a key."""
    return Signature(key.id, key.sign(signed_bytes(payload)), key.public_pem)


def stream_run(
    out: BundleDigests,
    store: Store,
    run: Run,
    *,
    public: bool,
    notify: Notify | None,
    on_line: LineObserver | None = None,
) -> Statement:
    """Streams a run once through the files of its bundle, and returns the statement about it.

    Args:
        out: receives the lines of all files but the envelope.
        store: where the run is.
        run: the run, finished.
        public: hide what is held out.
        notify: called with progress lines when it takes long.
        on_line: called with each line.

    Raises:
        StoreError: the store cannot be read, or lacks cases or trials of the run.
        UsageError: a bundle cannot hold one of its values.
    """
    if public and run.suite.split_rule is not None:
        run = replace(run, warnings=())  # they may quote held-out cases
    redacted_run = portable_run(run, has_file_model)
    out.add(CONFIG, canonical_json(config_data(run, has_file_model)))
    out.add(ENVIRONMENT, canonical_json(environment_data(run)))
    out.add(SUITE, header_line(redacted_run.suite))
    stream = _RunStream(out, store, run, public=public, on_line=on_line)
    stream.write_all(progress_reporter(notify, "trials written"))
    counting = stream.counting
    claims = counting.claims()
    # Later accesses to the holdout change no bundle of the run.
    looks = [access.kind for access in store.holdout_accesses(run.suite.digest) if access.at < run.started_at]
    assert run.finished_at is not None
    return Statement(
        files=out.digests(),
        result=counting.result,
        passed_tests=tuple(counting.passed_names(public=public)),
        failed_tests=tuple(counting.failed_names(public=public)),
        kind="public" if public else "full",
        run=run.id,
        group=run.group,
        suite=SuiteReference(run.suite.name, run.suite.version, run.suite.digest),
        target=TargetReference(redacted_run.target.name, target_digest(redacted_run.target)),
        prompt=None if run.prompt is None else PromptReference(run.prompt.name, template_digest(run.prompt)),
        started_at=run.started_at,
        finished_at=run.finished_at,
        split="holdout" if "holdout" in claims else "all",
        claims=claims,
        cases=stream.heads[SUITE],
        trials=stream.heads[TRIALS],
        looks=AccessCounts(looks.count("rate"), looks.count("reveal")),
    )


class _RunStream:
    """Streams the cases and trials of a run into the files of a bundle."""

    def __init__(
        self, out: BundleDigests, store: Store, run: Run, *, public: bool, on_line: LineObserver | None
    ) -> None:
        self._out = out
        self._store = store
        self._run = run
        self._on_line = on_line
        self._secret = store.secret(run.id)
        self._public = public
        self._holdout_positions = _find_holdout(store, run) if public else frozenset[int]()
        self._trees = {SUITE: merkle.MerkleTree(), TRIALS: merkle.MerkleTree()}
        self.counting = ClaimCounter(run)

    def write_all(self, tell: Callable[[int, int], None]) -> None:
        """Writes all of them, each trial after its case."""
        trials = self._store.trials(self._run.id)
        trial = next(trials, None)
        for position, stored_case in enumerate(self._store.cases(self._run.suite.content)):
            is_hidden = position in self._holdout_positions
            salt = merkle.line_salt(self._secret, CASES_TREE, position)
            line = partial(case_line, position, salt, stored_case.case, stored_case.sent_digest)
            self._write_line(SUITE, line, is_hidden, stored_case.case)
            while trial is not None and trial.trial.position == position:
                self._write_trial(trial, stored_case.case, is_hidden)
                tell(self.counting.count, self._run.planned)
                trial = next(trials, None)
        if trial is not None or self.counting.count != self._run.planned:
            raise StoreError(f"The store is damaged: it lacks cases or trials of run {self._run.id}.")

    @property
    def heads(self) -> dict[str, TreeHead]:
        """The heads of the trees over both files."""
        return {name: TreeHead(tree.root.hex(), tree.size) for name, tree in self._trees.items()}

    def _write_trial(self, stored_trial: StoredTrial, case: Case, is_hidden: bool) -> None:
        trial = portable_trial(stored_trial.trial, case, self._run)
        if self._public and (trial.split == "holdout") is not is_hidden:
            raise StoreError(
                f"The store is damaged: the holdout of run {self._run.id} is not the one of its suite."
            )
        verdict = self.counting.add(trial, case)
        index = self._trees[TRIALS].size
        salt = merkle.line_salt(self._secret, TRIALS_TREE, index)
        self._write_line(TRIALS, partial(trial_line, index, salt, trial, verdict), is_hidden, trial)

    def _write_line(
        self, name: str, encode_line: Callable[[], bytes], is_hidden: bool, record: Case | Trial
    ) -> None:
        case_id = record.id if isinstance(record, Case) else record.case_id
        try:
            line = encode_line()
        except UsageError as error:
            raise UsageError(f"Case {case_id!r}: {error}") from None
        if len(line) > MAX_BUNDLE_LINE_BYTES:
            raise UsageError(
                f"Case {case_id!r} makes a line of {len(line):,} bytes in {name}, but a line of a "
                f"bundle may have at most {MAX_BUNDLE_LINE_BYTES:,}. Run the suite without this case "
                "to attest the rest."
            )
        leaf, index = merkle.leaf_hash(line), self._trees[name].size
        self._trees[name].add(leaf)
        self._out.add(name, redacted_line(index, leaf) if is_hidden else line)
        if self._on_line is not None:
            self._on_line(name, index, line, leaf, record)


def _find_holdout(store: Store, run: Run) -> frozenset[int]:
    """Returns the positions of the held-out cases, including those that the run did not select."""
    rule = run.suite.split_rule
    if rule is None:
        return frozenset()
    ids, categories = [], []
    for stored_case in store.cases(run.suite.content):
        ids.append(stored_case.case.id)
        categories.append(stored_case.case.category)
    return frozenset(holdout_positions(ids, categories, rule))
