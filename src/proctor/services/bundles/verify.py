"""Checks bundles, and derives their numbers from the trials again.

The checks run in this order and end at the first defect: the list of files, the envelope's shape, all hashes,
the signatures, whether statement and files are of one run, the cases with their tree, then trial by trial
the scores, verdicts and the tree over them, and the claims at the end. `CHECKS` has a sentence for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from proctor.bundles.keys import fingerprint, normalize_pem, verify_signature
from proctor.bundles.reader import Bundle, open_bundle
from proctor.bundles.trust_store import TrustedKey
from proctor.errors import BundleError
from proctor.model import Run, SignatureStatus
from proctor.proof.check_records import (
    CaseChecker,
    ExpectedTrials,
    TrialChecker,
    check_figures,
    check_trial,
    read_header,
)
from proctor.proof.check_statement import (
    BundleDefect,
    check_claims,
    check_statement,
    read_envelope,
    read_or_fail,
    read_run,
    read_statement,
    require_equal,
)
from proctor.proof.claims import ClaimCounter
from proctor.proof.digest_set import DigestSet
from proctor.proof.dsse import Envelope, signed_bytes
from proctor.proof.records import header_line
from proctor.proof.statement import CONFIG, ENVELOPE, ENVIRONMENT, FILES, SUITE, TRIALS, Statement
from proctor.services.bundles.regrade import ScoreChecker
from proctor.services.grading.isolated_grading import BlockingIsolation
from proctor.services.progress_lines import Notify, progress_reporter
from proctor.targets import has_file_model

if TYPE_CHECKING:
    from hashlib import _Hash as Hash


CHECKS = {
    "files": "The bundle has exactly its five files, none of them too large.",
    "envelope": "The envelope contains one well-formed statement.",
    "digests": "Every file has the SHA-256 in the statement.",
    "signatures": "Every signature is valid.",
    "run": "The statement and the files describe the same run.",
    "cases": "No case is missing or changed: the tree of cases and the suite digest are the same when "
    "computed again.",
    "trials": "No trial is missing or changed: the scores, the verdicts and the tree of trials are the "
    "same when computed again.",
    "claims": "The claimed numbers follow from the trials.",
}
"""The checks in their order."""


class CheckedSignature(Struct, frozen=True):
    """A signature that holds."""

    id: str
    """The fingerprint of its key."""
    name: str | None
    """What the user calls the key; None for one that is not trusted."""


class VerifiedBundle(Struct, frozen=True, kw_only=True):
    """A bundle without defects, its signatures, and what was and was not checked."""

    path: str
    statement: Statement
    run: Run
    """As the bundle has it: without tags, and places on its maker's machine."""
    standing: SignatureStatus
    signatures: tuple[CheckedSignature, ...]
    graded_again: int
    """How many scores were derived again from the answers."""
    recounted: dict[str, int]
    """How many scores could not be derived and were counted as recorded, by grader."""
    cluster_counts: dict[str, int]
    """The number of clusters of related cases that are shown, by the name of the claim; empty without any."""
    prompts: dict[str, set[str]]
    """The judges of shown trials by name, with the digests of their prompts."""
    reused_trials: int
    """How many shown trials have answers of earlier runs."""
    hidden: int
    """How many trials are hidden."""
    unverified: tuple[str, ...]
    """Sentences on what could not be checked."""


def verify(
    path: str | Path,
    trusted_keys: Mapping[str, TrustedKey],
    notify: Notify | None = None,
    on_check: Callable[[str], None] = lambda _check: None,
) -> VerifiedBundle:
    """Checks all of a bundle.

    Args:
        path: a folder or an archive.
        trusted_keys: the keys that the user trusts, by their ids.
        notify: called with progress lines when it takes long.
        on_check: called with each of `CHECKS` that the bundle passed.

    Raises:
        BundleError: it has a defect; the text names the first one.
        UsageError: there is no bundle, it cannot be read, or `cryptography` is missing and it is signed.
    """
    with open_bundle(path) as bundle:
        on_check("files")
        try:
            return _run_checks(bundle, trusted_keys, notify, on_check)
        except BundleDefect as defect:
            raise BundleError(f"{path}: {defect}") from None


def _run_checks(
    bundle: Bundle,
    trusted_keys: Mapping[str, TrustedKey],
    notify: Notify | None,
    on_check: Callable[[str], None],
) -> VerifiedBundle:
    """Runs all checks but the first, in order."""
    files, signatures, run = _check_before_lines(bundle, trusted_keys, on_check)
    statement = files.statement
    salts = DigestSet()
    cases, trials = CaseChecker(run, statement, salts), TrialChecker(statement, salts)
    for line in files.read_cases(run):
        cases.add(line)
    expected = cases.finish()
    on_check("cases")
    counting, tell, taken_over = ClaimCounter(run), progress_reporter(notify, "trials checked"), 0
    with closing(BlockingIsolation()) as isolation:
        checker = ScoreChecker(run, isolation)
        in_step = trials.match_cases(
            files.read_cases(run), files.read_lines(TRIALS), expected, run.settings.repeats
        )
        for case, record in in_step:
            place, trial = trials.location, record.trial
            check_trial(place, case, trial, expected.split_at(trial.position))
            check_figures(place, run, trial)
            checker.check(place, case.case, trial)
            verdict = read_or_fail(place, partial(counting.add, trial, case.case))
            require_equal(place, "the verdict", record.verdict.value, verdict.value)
            taken_over += trial.source_run is not None
            tell(counting.count, statement.trials.size)
    on_check("trials")
    check_claims(statement, run, counting, trials.hidden_count, cases.hidden_count)
    on_check("claims")
    return VerifiedBundle(
        path=bundle.path,
        statement=statement,
        run=run,
        standing=get_standing(signatures),
        signatures=signatures,
        graded_again=checker.graded_again,
        recounted=dict(sorted(checker.recounted.items())),
        cluster_counts={
            split: count
            for split, counts in counting.counts.items()
            if (count := counts.cluster_count) is not None and count < counts.cases
        },
        prompts=counting.prompts,
        reused_trials=taken_over,
        hidden=trials.hidden_count,
        unverified=(
            *_describe_hidden(statement, trials.hidden_count, cases.hidden_count, signed=bool(signatures)),
            *_describe_unchecked(run, expected, checker),
        ),
    )


def _check_before_lines(
    bundle: Bundle, trusted_keys: Mapping[str, TrustedKey], on_check: Callable[[str], None]
) -> tuple[_BundleFiles, tuple[CheckedSignature, ...], Run]:
    """Runs the checks before the first line is read."""
    envelope = read_envelope(bundle.read(ENVELOPE))
    files = _BundleFiles(bundle, read_statement(envelope))
    on_check("envelope")
    files.check()
    on_check("digests")
    signatures = check_signatures(envelope, trusted_keys)
    on_check("signatures")
    run = files.read_run()
    check_statement(files.statement, run)
    on_check("run")
    return files, signatures, run


def check_signatures(
    envelope: Envelope, trusted_keys: Mapping[str, TrustedKey]
) -> tuple[CheckedSignature, ...]:
    """Checks the signatures of an envelope, and returns them.

    Raises:
        BundleDefect: one does not hold, or is by another key than it says.
        UsageError: `cryptography` is missing.
    """
    signatures: list[CheckedSignature] = []
    data = signed_bytes(envelope.payload)
    for nth, signature in enumerate(envelope.signatures, 1):
        place = f"{ENVELOPE}: signature {nth}"
        key = read_or_fail(place, partial(fingerprint, signature.public_key))
        require_equal(place, "the key's id", signature.keyid, key)
        require_equal(place, "the key", signature.public_key, normalize_pem(signature.public_key))
        if signatures and key <= signatures[-1].id:
            raise BundleDefect(
                f"{place}: the key {key} signed twice, or the signatures are not sorted by key."
            )
        if not verify_signature(signature.public_key, data, signature.sig):
            raise BundleDefect(f"{place} by the key {key} is not valid: something else was signed.")
        signatures.append(CheckedSignature(key, trusted_keys[key].name if key in trusted_keys else None))
    return tuple(signatures)


def get_standing(signatures: tuple[CheckedSignature, ...]) -> SignatureStatus:
    """Returns whether signatures that hold are by a trusted key, by unknown keys, or missing."""
    if not signatures:
        return "unsigned"
    return "trusted" if any(signature.name is not None for signature in signatures) else "unknown"


class _BundleFiles:
    """The files of a bundle that the statement covers; they may not change while they are read."""

    def __init__(self, bundle: Bundle, statement: Statement) -> None:
        self._bundle = bundle
        self.statement = statement

    def check(self) -> None:
        """Compares each file with its digest, before its content is used."""
        for name in FILES:
            require_equal(name, "the SHA-256", self._bundle.sha256(name), self.statement.files[name])

    def read_run(self) -> Run:
        """Returns the run, from the header of the suite and two files."""
        header = next(self._bundle.lines(SUITE), b"")
        return read_run(
            self._read_whole(CONFIG), self._read_whole(ENVIRONMENT), read_header(header), has_file_model
        )

    def read_cases(self, run: Run) -> Iterator[bytes]:
        """Returns the lines of the cases; the header before them must be that of the run."""
        lines = self.read_lines(SUITE)
        if header_line(run.suite) != next(lines, None):
            raise BundleDefect(f"{SUITE} changed while it was read.")
        return lines

    def read_lines(self, name: str) -> Iterator[bytes]:
        """Yields the lines of a file."""
        hasher = sha256()
        yield from self._bundle.lines(name, hasher)
        self._check_same(name, hasher)

    def _read_whole(self, name: str) -> bytes:
        data = self._bundle.read(name)
        self._check_same(name, sha256(data))
        return data

    def _check_same(self, name: str, hasher: Hash) -> None:
        if hasher.hexdigest() != self.statement.files[name]:
            raise BundleDefect(f"{name} changed while it was read.")


def _describe_hidden(statement: Statement, trials: int, cases: int, *, signed: bool) -> Iterator[str]:
    """Yields what could not be checked because it is hidden."""
    if cases:
        yield (
            f"{cases:,} of {statement.cases.size:,} cases of the suite are hidden, so neither the "
            "suite digest nor the choice of held-out cases could be checked."
        )
    if trials:
        holdout = statement.claims["holdout"]
        rests = "the signature alone" if signed else "the word of its author alone"
        yield (
            f"{trials:,} of {statement.trials.size:,} trials are held out and hidden: the claim on the "
            f"holdout ({holdout.passed:,} of {holdout.total:,} passed) rests on {rests}."
        )


def _describe_unchecked(run: Run, expected: ExpectedTrials, checker: ScoreChecker) -> Iterator[str]:
    """Yields what else could not be checked."""
    if expected.may_end_early:
        yield (
            f"The run was limited to {run.settings.selection.limit:,} cases, some of which are hidden, "
            "so it could not be checked whether visible trials are missing at the end."
        )
    if checker.unread_judgments:
        yield (
            f"{checker.unread_judgments:,} judgments were taken as recorded, without reading the "
            "judges' replies again: their prompts come from another version of Proctor or use "
            "variables, or the run has no such judge."
        )
    if checker.timed_out:
        names = ", ".join(checker.timed_out)
        yield f"Not every check by {names} ended in time; those scores were taken as recorded."
