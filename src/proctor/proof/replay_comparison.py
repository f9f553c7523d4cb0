"""Compares the trials of a bundle with those of a replay: answers and verdicts. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import sha256
from math import fsum

from msgspec import Struct

from proctor.codec import encode
from proctor.errors import ExitCode
from proctor.model import Trial, Verdict
from proctor.plurals import trial_name
from proctor.stats import clustered_wilson
from proctor.verdicts import NO_TRIALS, Counts

_MEASURED_VERDICTS = frozenset({Verdict.PASS, Verdict.FAIL})


class AnswerSummary(Struct, frozen=True, gc=False):
    """The parts of one trial that are compared."""

    case_id: str
    repeat: int
    split: str | None
    verdict: Verdict
    answer: bytes | None
    """The digest of the answer's text and tool calls; None without an answer."""

    @property
    def name(self) -> str:
        """The case's id, with the number of the repeat where there are others."""
        return trial_name(self.case_id, self.repeat)

    @property
    def is_measured(self) -> bool:
        """Whether it passed or failed."""
        return self.verdict in _MEASURED_VERDICTS


def summarize_answer(trial: Trial, verdict: Verdict) -> AnswerSummary:
    """Returns the parts of a trial that are compared; tool calls without their results and times."""
    output = trial.output
    answer = None
    if output is not None:
        calls = [(call.name, call.arguments) for call in output.tool_calls]
        answer = sha256(encode((output.text, calls))).digest()
    return AnswerSummary(trial.case_id, trial.repeat, trial.split, verdict, answer)


class ReplayShare(Struct, frozen=True):
    """A share of the trials that were measured both times."""

    count: int
    """The number of trials."""
    share: float | None
    """The mean over cases of the share of their trials, as in a pass rate; None without trials."""
    ci95: tuple[float, float] | None
    """The interval of the share, `clustered_wilson`: the repeats of a case are not independent."""


class ReplayComparison(Struct, frozen=True, kw_only=True):
    """The result of a replay."""

    total: int
    """The number of the bundle's trials that were replayed."""
    identical: ReplayShare
    """The same text, the same tool calls and the same verdict."""
    same_verdict: ReplayShare
    """Another answer with the same verdict."""
    changed: ReplayShare
    """Another verdict."""
    now_failing: tuple[AnswerSummary, ...]
    now_passing: tuple[AnswerSummary, ...]
    not_measured: tuple[AnswerSummary, ...]
    """Trials without an answer or a verdict in the replay."""
    not_measured_before: tuple[AnswerSummary, ...]
    """Trials without an answer or a verdict in the bundle that were measured in the replay."""
    then: Counts
    """The counts of the bundle's trials."""
    now: Counts
    """The counts of the new trials."""

    @property
    def exit_code(self) -> ExitCode:
        """0 if every verdict is the same, 1 if one changed, 3 if one is missing."""
        if self.not_measured or self.identical.share is None:
            return ExitCode.NOT_MEASURED
        return ExitCode.FAILED if self.changed.count else ExitCode.OK


def compare_replay(before: Iterable[AnswerSummary], after: Iterable[AnswerSummary]) -> ReplayComparison:
    """Compares the new answers with those of a bundle, pair by pair.

    Args:
        before: the trials of the bundle that were replayed.
        after: the new trials; those that `before` does not have are ignored.
    """
    new_trials = {(trial.case_id, trial.repeat): trial for trial in after}
    parts: dict[str, list[AnswerSummary]] = {name: [] for name in _PARTS}
    then, now = Counts(), Counts()
    shapes: dict[str, tuple[str, str]] = {}
    counts_by_case: dict[str, Counter[str]] = {}
    total = 0
    for trial in before:
        total += 1
        again = new_trials.get((trial.case_id, trial.repeat))
        if again is None:  # it was not replayed
            again = AnswerSummary(trial.case_id, trial.repeat, trial.split, Verdict.ERROR, None)
        shape_then, shape_now = shapes.get(trial.case_id, (NO_TRIALS, NO_TRIALS))
        shapes[trial.case_id] = then.add(trial.verdict, shape_then), now.add(again.verdict, shape_now)
        part = _classify(trial, again)
        parts[part].append(trial)
        if trial.is_measured and again.is_measured:
            counts_by_case.setdefault(trial.case_id, Counter())[part] += 1
    return ReplayComparison(
        total=total,
        identical=_share(counts_by_case, "identical"),
        same_verdict=_share(counts_by_case, "same_verdict"),
        changed=_share(counts_by_case, "now_failing", "now_passing"),
        now_failing=tuple(parts["now_failing"]),
        now_passing=tuple(parts["now_passing"]),
        not_measured=tuple(parts["not_measured"]),
        not_measured_before=tuple(parts["not_measured_before"]),
        then=then,
        now=now,
    )


_PARTS = ("identical", "same_verdict", "now_failing", "now_passing", "not_measured", "not_measured_before")


def _share(counts_by_case: Mapping[str, Counter[str]], *parts: str) -> ReplayShare:
    """Returns the share of some parts; of each case the number of its pairs in each part is given."""
    shares, count, inverse_pairs = Counter[float](), 0, list[float]()
    for counts in counts_by_case.values():
        part_count, pairs = sum(counts[part] for part in parts), counts.total()
        count += part_count
        shares[part_count / pairs] += 1
        inverse_pairs.append(1 / pairs)
    if not shares:
        return ReplayShare(0, None, None)
    mean = fsum(share * cases for share, cases in shares.items()) / shares.total()
    groups = [(share, 1, cases) for share, cases in shares.items()]
    return ReplayShare(count, mean, clustered_wilson(groups, fsum(inverse_pairs)))


def _classify(before: AnswerSummary, after: AnswerSummary) -> str:
    if not after.is_measured:
        return "not_measured"
    if not before.is_measured:
        return "not_measured_before"
    if before.verdict is not after.verdict:
        return "now_passing" if after.verdict is Verdict.PASS else "now_failing"
    return "identical" if before.answer == after.answer else "same_verdict"
