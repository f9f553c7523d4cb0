"""Checks that the lines of a bundle are those of its suite and of exactly the trials of its run.

Lines are streamed. In memory are salts and short digests of ids; rows to sort go to temporary files.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Collection, Iterator
from functools import partial

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from proctor.codec import SuiteHasher, judged_digest, sent_digest
from proctor.holdout import holdout_positions, holdout_size
from proctor.model import Case, Run, Suite, Trial
from proctor.plan import CaseIndexer, count_repeats
from proctor.proof.canonical import parse_json
from proctor.proof.check_statement import BundleDefect, check_name, format_value, read_or_fail, require_equal
from proctor.proof.digest_set import DigestSet, TextSet
from proctor.proof.merkle import MerkleTree, leaf_hash
from proctor.proof.records import (
    CaseLine,
    RedactedLine,
    TrialLine,
    parse_case_line,
    parse_header,
    parse_trial_line,
)
from proctor.proof.statement import CONFIG, ENVELOPE, SUITE, TRIALS, Statement, TreeHead
from proctor.spools import RowSorter

MAX_LINES = 2_000_000
"""The maximum number of cases or of trials in a bundle; each takes a little memory."""
_MAX_GLOBS = 10_000
"""The maximum number of id globs; each is matched with every case."""


def read_header(line: bytes) -> Suite:
    """Reads the suite's header, the first line of suite.jsonl.

    Raises:
        BundleDefect: it is no header.
    """
    return read_or_fail(f"{SUITE}:1", lambda: parse_header(line))


class LineChecker:
    """Checks the tree over the lines of one file, their indexes and their salts."""

    def __init__(self, name: str, before: int, head: TreeHead, salts: DigestSet) -> None:
        """Starts without lines.

        Args:
            name: the file.
            before: how many lines of the file are before the first.
            head: the tree head in the statement.
            salts: the salts of all lines so far, including other files.
        """
        self.hidden_count = 0
        self._name = name
        self._before = before
        self._head = head
        self._salts = salts
        self._tree = MerkleTree()

    @property
    def count(self) -> int:
        """The number of lines so far."""
        return self._tree.size

    @property
    def location(self) -> str:
        """The location of the last line, for messages."""
        return f"{self._name}:{self._tree.size + self._before}"

    def add(self, line: bytes, read: CaseLine | TrialLine | RedactedLine) -> None:
        """Checks the next line and its content.

        Raises:
            BundleDefect: its index is wrong, or its salt is used twice.
        """
        index = self._tree.size
        if index == MAX_LINES:
            raise BundleDefect(
                f"{self._name} has more than {MAX_LINES} lines, which is the limit for a bundle."
            )
        self._tree.add(bytes.fromhex(read.leaf) if isinstance(read, RedactedLine) else leaf_hash(line))
        require_equal(self.location, "the index", read.index, index)
        if isinstance(read, RedactedLine):
            self.hidden_count += 1
            return
        if not self._salts.add(bytes.fromhex(read.salt)):
            raise BundleDefect(f"{self.location}: another line has the same salt.")

    def finish(self) -> None:
        """Checks the tree after the last line.

        Raises:
            BundleDefect: the statement has another tree.
        """
        what = "cases" if self._name == SUITE else "trials"
        require_equal(ENVELOPE, f"the number of {what}", self._head.size, self._tree.size)
        require_equal(ENVELOPE, f"the Merkle root of the {what}", self._head.root, self._tree.root.hex())


class ExpectedTrials(Struct, frozen=True, kw_only=True):
    """The trials that a run must have, as far as that is known."""

    positions: Collection[int]
    """The places of selected cases among the cases that are not hidden."""
    holdout: Collection[int] | None
    """The positions of all held-out cases; None for a suite that is not split."""
    has_hidden_cases: bool
    """Whether cases are hidden."""
    may_end_early: bool
    """Whether hidden cases may have used up the limit, so that the last selected cases may be missing."""

    def split_at(self, position: int) -> str | None:
        """Returns `dev`, `holdout`, or None for a suite without a split."""
        return None if self.holdout is None else "holdout" if position in self.holdout else "dev"


class CaseChecker:
    """Checks the cases of a bundle's suite."""

    def __init__(self, run: Run, statement: Statement, salts: DigestSet) -> None:
        """Starts without cases.

        Raises:
            BundleDefect: the run has too many id globs to check in a reasonable time.
        """
        if len(run.settings.selection.ids) > _MAX_GLOBS:
            raise BundleDefect(
                f"{CONFIG}: the run selects cases by more than {_MAX_GLOBS} ids, which is the limit for a "
                f"bundle."
            )
        self._run = run
        self._statement = statement
        self._lines = LineChecker(SUITE, 1, statement.cases, salts)
        # What is hidden takes part in limit and split, so that these cannot be applied here.
        all_cases = replace(run.settings.selection, split="all", limit=None)
        public = statement.kind == "public"
        self._indexer = CaseIndexer(all_cases if public else run.settings.selection, run.settings.repeats)
        self._selection = run.settings.selection
        self._digests = RowSorter[tuple[str, str, str]](tuple[str, str, str])
        self._ids = TextSet()
        self._hidden_positions: set[int] = set()

    @property
    def hidden_count(self) -> int:
        """The number of hidden cases."""
        return self._lines.hidden_count

    def add(self, line: bytes) -> None:
        """Checks the next line of the file.

        Raises:
            BundleDefect: the line is wrong.
        """
        lines, index = self._lines, self._lines.count
        read = read_or_fail(f"{SUITE}:{index + 2}", lambda: parse_case_line(line))
        lines.add(line, read)
        if isinstance(read, RedactedLine):
            if self._statement.kind == "full":
                raise BundleDefect(f"{lines.location} is hidden, but nothing in a full bundle is hidden.")
            self._hidden_positions.add(index)
            return
        case = read.case
        for name in (case.id, case.category or "", *case.tags):
            check_name(lines.location, "a name", name)
        if not self._ids.add(case.id):
            raise BundleDefect(f"{lines.location}: another case has the id {format_value(case.id)}.")
        require_equal(
            lines.location,
            "the digest of what is sent",
            read.sent,
            read_or_fail(lines.location, lambda: sent_digest(case)),
        )
        self._digests.add((case.id, read.sent, read_or_fail(lines.location, lambda: judged_digest(case))))
        read_or_fail(lines.location, lambda: self._indexer.add(case))

    def finish(self) -> ExpectedTrials:
        """Checks the suite after its last case, and returns the trials that the run must have.

        Raises:
            BundleDefect: cases of the suite are missing, or the wrong ones are hidden.
        """
        run, suite = self._run, self._run.suite
        self._lines.finish()
        rule = suite.split_rule
        if rule is not None and not 0 < rule.ratio < 1:
            raise BundleDefect(f"{SUITE}:1: the holdout share is {rule.ratio}, but must be between 0 and 1.")
        if not self._hidden_positions:
            hasher = SuiteHasher(suite)
            for row in self._digests:
                hasher.add(row)
            require_equal(f"{SUITE}:1", "the digest of the suite", suite.digest, hasher.digest())
        del self._digests, self._ids
        if self._statement.kind == "full" or rule is None:
            if self._hidden_positions:
                raise BundleDefect(
                    f"{SUITE}: {self.hidden_count} cases are hidden, but the suite has no holdout."
                )
            index = self._indexer.build(rule, run.seat)
            require_equal(CONFIG, "the number of planned trials", run.planned, index.trial_count)
            return ExpectedTrials(
                positions=index.positions, holdout=index.holdout, has_hidden_cases=False, may_end_early=False
            )
        self._check_hidden()
        index = self._indexer.build(None, run.seat)
        shown_ones = array("I") if self._selection.split == "holdout" else index.positions
        return ExpectedTrials(
            positions=shown_ones,
            holdout=frozenset(self._hidden_positions),
            has_hidden_cases=True,
            may_end_early=self._selection.limit is not None,
        )

    def _check_hidden(self) -> None:
        """Checks that the hidden cases are the held-out ones, as far as possible without their ids."""
        rule, count = self._run.suite.split_rule, self._statement.cases.size
        assert rule is not None
        is_shuffled = rule.method == "shuffle"
        held_out = count - int(count * (1 - rule.ratio)) if is_shuffled else holdout_size(count, rule.ratio)
        require_equal(SUITE, "the number of hidden cases", self.hidden_count, held_out)
        if is_shuffled:
            right = holdout_positions([""] * count, [None] * count, rule)
            require_equal(SUITE, "the list of hidden cases", sorted(self._hidden_positions), sorted(right))


def _reread_cases(lines: Iterator[bytes]) -> Iterator[CaseLine | RedactedLine]:
    """Yields the content of lines that were checked before; the hash of the file shows any change."""
    for number, line in enumerate(lines, 2):
        data = read_or_fail(f"{SUITE}:{number}", partial(parse_json, line))
        kind = RedactedLine if isinstance(data, dict) and "leaf" in data else CaseLine
        yield read_or_fail(f"{SUITE}:{number}", partial(msgspec.convert, data, kind))


class TrialChecker:
    """Checks the trials of a bundle."""

    def __init__(self, statement: Statement, salts: DigestSet) -> None:
        """Starts without trials."""
        self._full = statement.kind == "full"
        self._lines = LineChecker(TRIALS, 0, statement.trials, salts)

    @property
    def hidden_count(self) -> int:
        """The number of hidden trials."""
        return self._lines.hidden_count

    @property
    def location(self) -> str:
        """The location of the last trial, for messages."""
        return self._lines.location

    def match_cases(
        self,
        case_lines: Iterator[bytes],
        trial_lines: Iterator[bytes],
        expected: ExpectedTrials,
        repeats: int | None,
    ) -> Iterator[tuple[CaseLine, TrialLine]]:
        """Yields each visible trial with its case, and checks the tree at the end.

        Args:
            case_lines: the lines of the suite, which were checked before.
            trial_lines: the lines of the trials.
            expected: the trials that there must be.
            repeats: how often the run sends each case; None leaves it to the case.

        Raises:
            BundleDefect: a trial is missing, duplicated, misplaced, invalid, or of a case outside the run.
        """
        cases, trials = _reread_cases(case_lines), self._read(trial_lines)
        positions, place, hidden_cases = iter(expected.positions), -1, 0
        next_wanted = next(positions, None)
        for case in cases:
            if isinstance(case, RedactedLine):
                hidden_cases += 1
                continue
            place += 1
            if place != next_wanted:
                continue
            next_wanted = next(positions, None)
            for repeat in range(count_repeats(case.case, repeats)):
                trial_line = self._next(trials, may_be_hidden=hidden_cases > 0 and repeat == 0)
                if trial_line is None and expected.may_end_early and repeat == 0:
                    deque(cases, maxlen=0)  # only at its end the file tells whether it was exchanged
                    return
                if trial_line is None or (trial_line.trial.position, trial_line.trial.repeat) != (
                    case.index,
                    repeat,
                ):
                    raise self._missing_trial(case.case, repeat, trial_line)
                yield case, trial_line
            hidden_cases = 0
        if self._next(trials, may_be_hidden=hidden_cases > 0) is not None:
            raise BundleDefect(
                f"{self.location} is one trial more than the run has, or belongs to a case that the run does "
                f"not select."
            )

    def _read(self, lines: Iterator[bytes]) -> Iterator[TrialLine | RedactedLine]:
        for number, line in enumerate(lines, 1):
            read = read_or_fail(f"{TRIALS}:{number}", partial(parse_trial_line, line))
            self._lines.add(line, read)
            if self._full and isinstance(read, RedactedLine):
                raise BundleDefect(f"{self.location} is hidden, but nothing in a full bundle is hidden.")
            yield read
        self._lines.finish()

    def _next(self, trials: Iterator[TrialLine | RedactedLine], *, may_be_hidden: bool) -> TrialLine | None:
        for trial_line in trials:
            if isinstance(trial_line, TrialLine):
                return trial_line
            if not may_be_hidden:
                raise BundleDefect(
                    f"{self.location} is hidden, but no trial of a holdout case can be at this place."
                )
        return None

    def _missing_trial(self, case: Case, repeat: int, trial_line: TrialLine | None) -> BundleDefect:
        trial_words = f"the trial of case {format_value(case.id)}" + (f", repeat {repeat}," if repeat else "")
        if trial_line is None:
            return BundleDefect(f"{TRIALS}: {trial_words} is missing at its end.")
        trial = trial_line.trial
        other = f"position {trial.position}, repeat {trial.repeat}"
        return BundleDefect(
            f"{self.location}: {trial_words} should be here, but a different one is ({other})."
        )


_MAX_TOKENS = 10**9
"""The maximum of each token count that Proctor stores."""
_KINDS_NEVER_SENT = frozenset({"invalid", "unsupported"})
"""The kinds of failure of cases that are wrong in their file."""


def check_figures(place: str, run: Run, trial: Trial) -> None:
    """Checks that the times, costs and token counts of a trial are possible in its run.

    A reused answer has the times of the run that it comes from.

    Raises:
        BundleDefect: it started outside its run, or a figure is negative or too large.
    """
    end = run.finished_at or run.started_at
    if trial.source_run is None and not run.started_at <= trial.started_at <= end:
        raise BundleDefect(
            f"{place}: the trial began at {trial.started_at}, but its run lasted from {run.started_at} to "
            f"{end}."
        )
    usages = [(judgment.usage, judgment.cost_usd) for score in trial.scores for judgment in score.judgments]
    if trial.output is not None:
        usages.append((trial.output.usage, trial.output.cost_usd))
        for name in ("latency_ms", "queue_ms", "duration_ms", "first_token_ms"):
            if (getattr(trial.output, name) or 0) < 0:
                raise BundleDefect(f"{place}: `{name}` is below 0.")
    for usage, cost_usd in usages:
        if (cost_usd or 0) < 0:
            raise BundleDefect(f"{place}: a cost is below 0.")
        counts = () if usage is None else [getattr(usage, name) for name in usage.__struct_fields__]
        if not all(0 <= count <= _MAX_TOKENS for count in counts):
            raise BundleDefect(f"{place}: a count of tokens is not from 0 to {_MAX_TOKENS:,}.")


def check_trial(place: str, case: CaseLine, trial: Trial, split: str | None) -> None:
    """Checks a trial against its case.

    Raises:
        BundleDefect: it is not a trial of that case, or is inconsistent.
    """
    require_equal(place, "the case's id", trial.case_id, case.case.id)
    require_equal(place, "the digest of what was sent", trial.sent, case.sent)
    require_equal(place, "the split", trial.split, split)
    require_equal(place, "the case's own target", trial.target, case.case.target)
    if case.case.problems and trial.output is not None:
        raise BundleDefect(f"{place}: the case is invalid in its file, but it has an answer.")
    failure = trial.failure
    if failure is not None and failure.kind in _KINDS_NEVER_SENT and not case.case.problems:
        raise BundleDefect(f"{place}: the trial failed because of an invalid case, but the case is valid.")
    if trial.output is None and trial.scores:
        raise BundleDefect(f"{place}: there are scores but no answer.")
    if (trial.output is None) is (trial.failure is None):
        raise BundleDefect(
            f"{place}: a trial has either an answer or a failure, but this one has both or neither."
        )
    if trial.output is not None:
        require_equal(place, "the number of scores", len(trial.scores), len(case.case.assertions))
