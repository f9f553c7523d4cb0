"""One column of the grid: what a run has for each case of its suite, in numbers."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from math import fsum, nan

from proctor.latency import answer_latency
from proctor.model import Case, Run, Trial, Verdict
from proctor.plan import count_repeats
from proctor.protocols import Store, StoredTrial
from proctor.services.runs.reading.trial_table import VERDICTS
from proctor.verdicts import CaseRepeats, pass_rules_for, trial_score

VERDICT_CODES = {verdict: code for code, verdict in enumerate(VERDICTS, 1)}
"""The numbers of the verdicts in a column, the worst one first; 0 stands for no finished trial."""
_TRIALS_PER_REPORT = 500
"""The number of trials between two reports of progress."""


class GridColumn:
    """The finished cases of one run, by their positions in its suite."""

    def __init__(self, case_count: int) -> None:
        """Has no finished case yet."""
        self.verdicts = bytearray(case_count)
        """One of `VERDICT_CODES`."""
        self.held_out = bytearray(case_count)
        """Whether the case is held out."""
        self.scores = _missing_numbers(case_count)
        """The mean score of its repeats; NaN without one, here and below."""
        self.costs = _missing_numbers(case_count)
        """The cost of all of its repeats in US dollars."""
        self.latencies = _missing_numbers(case_count)
        """The latency of its slowest repeat in milliseconds."""

    def __len__(self) -> int:
        """Returns the number of cases of the suite."""
        return len(self.verdicts)

    def add(self, position: int, trials: Sequence[Trial], verdict: Verdict) -> None:
        """Adds a case with its trials."""
        scores = [score for trial in trials if (score := trial_score(trial)) is not None]
        outputs = [trial.output for trial in trials if trial.output is not None]
        costs = [output.cost_usd for output in outputs if output.cost_usd is not None]
        self.verdicts[position] = VERDICT_CODES[verdict]
        self.held_out[position] = trials[0].split == "holdout"
        self.scores[position] = fsum(scores) / len(scores) if scores else nan
        self.costs[position] = fsum(costs) if costs else nan
        latencies = [answer_latency(output) for output in outputs]
        self.latencies[position] = max(
            (latency_ms for latency_ms in latencies if latency_ms is not None), default=nan
        )


def read_column(store: Store, run: Run, report_count: Callable[[int], None]) -> GridColumn:
    """Reads the finished trials of a run.

    Args:
        store: has the run.
        run: the run.
        report_count: called with the number of trials read.

    Raises:
        StoreError: the store cannot be read.
    """
    column = GridColumn(run.suite.case_count)
    cases = None if run.suite.repeats_rule == "each" else store.cases(run.suite.content)
    case, last_position = None, -1
    for position, group in groupby(_count_trials(store, run, report_count), _get_position):
        trials = [(stored.trial, stored.verdict) for stored in group if stored.verdict is not None]
        if not trials or position >= len(column):
            continue
        if cases is not None:  # its pass rule decides about all repeats together
            for _ in range(position - last_position):
                case = next(cases).case
            last_position = position
        column.add(position, [trial for trial, _ in trials], combine_verdicts(run, case, trials))
    return column


def combine_verdicts(run: Run, case: Case | None, trials: Sequence[tuple[Trial, Verdict]]) -> Verdict:
    """Returns the verdict of a case in a run: by the rule over repeats, else that of its worst trial.

    Args:
        run: the run.
        case: the case; may be None if every trial of the suite counts by itself.
        trials: its finished trials, at least one.
    """
    has_rule = run.suite.repeats_rule != "each"
    if case is not None and has_rule and len(trials) >= count_repeats(case, run.settings.repeats):
        repeats = CaseRepeats(pass_rules_for(run)(case))
        for trial, verdict in trials:
            repeats.add(trial, verdict)
        return repeats.verdict(run.suite.repeats_rule)
    if len(trials) == 1:
        return trials[0][1]
    return min((verdict for _, verdict in trials), key=VERDICT_CODES.__getitem__)


def _count_trials(store: Store, run: Run, report_count: Callable[[int], None]) -> Iterator[StoredTrial]:
    for count, stored in enumerate(store.trials(run.id), 1):
        if not count % _TRIALS_PER_REPORT:
            report_count(count)
        yield stored


def _get_position(stored: StoredTrial) -> int:
    return stored.trial.position


def _missing_numbers(count: int) -> array[float]:
    return array("d", [nan]) * count
