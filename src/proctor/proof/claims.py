"""Computes the claims of a statement from trials, both for making and for checking a bundle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from proctor.errors import ExitCode
from proctor.model import Case, Run, Trial, Verdict
from proctor.plan import count_repeats
from proctor.plurals import trial_name
from proctor.proof.statement import VERSION, Claim, make_claim
from proctor.run_gate import run_exit_code
from proctor.spools import RowSpool
from proctor.verdicts import CaseRepeats, Counts, Tally, pass_rules_for


class ClaimCounter:
    """Counts the trials of a run in order of position and repeat, without holding their answers."""

    def __init__(self, run: Run) -> None:
        """Starts without trials."""
        self._run = run
        self._rules = pass_rules_for(run)
        self._tally = Tally.for_run(run)
        self._repeats = CaseRepeats(run.suite.pass_rule)
        self._position = -1
        self._name = ""
        self._passed = RowSpool[tuple[str, bool]](tuple[str, bool])
        """The names of what passed, as in reports, and whether each is held out."""
        self._failed = RowSpool[tuple[str, bool]](tuple[str, bool])
        """The same of what failed; unmeasured trials are in neither."""

    def add(self, trial: Trial, case: Case) -> Verdict:
        """Counts the next trial, of that case, and returns its verdict."""
        verdict = self._tally.add(trial, case)
        if self._run.suite.repeats_rule == "each":
            self._list_by_verdict(trial_name(trial.case_id, trial.repeat), verdict, trial)
            return verdict
        if trial.position != self._position:
            self._position, self._name = trial.position, trial_name(trial.case_id, trial.repeat)
            self._repeats = CaseRepeats(self._rules(case))
        self._repeats.add(trial, verdict)
        if len(self._repeats) == count_repeats(case, self._run.settings.repeats):
            self._list_by_verdict(self._name, self._repeats.verdict(self._run.suite.repeats_rule), trial)
        return verdict

    @property
    def count(self) -> int:
        """The number of counted trials."""
        return self._tally.all.total

    @property
    def prompts(self) -> dict[str, set[str]]:
        """The digests of the judge prompts, by the names of the judges."""
        return self._tally.judge_stats.prompts

    def claims(self, version: int = VERSION, *, fixed_size: bool = False) -> dict[str, Claim]:
        """Returns the claims for all trials and for each split with trials.

        Args:
            version: the version of the format.
            fixed_size: whether intervals are those of a run of fixed size, whatever the run may do.
        """
        if fixed_size:
            for counts in self.counts.values():
                counts.best_count = None
        return {split: make_claim(counts, version) for split, counts in sorted(self.counts.items())}

    @property
    def counts(self) -> dict[str, Counts]:
        """The counts of all trials and of each split with trials."""
        return {"all": self._tally.result_counts, **self._tally.splits}

    @property
    def result(self) -> Literal["PASSED", "FAILED"]:
        """Whether the exit code of the run is 0."""
        code = run_exit_code(self._tally.result_counts, self._run.settings)
        return "PASSED" if code is ExitCode.OK else "FAILED"

    def passed_names(self, *, public: bool) -> Iterator[str]:
        """Yields the names of what passed; with `public`, without what is held out."""
        return _visible_names(self._passed, public)

    def failed_names(self, *, public: bool) -> Iterator[str]:
        """Yields the names of what failed; with `public`, without what is held out."""
        return _visible_names(self._failed, public)

    def _list_by_verdict(self, name: str, verdict: Verdict, trial: Trial) -> None:
        if verdict is Verdict.PASS:
            self._passed.append((name, trial.split == "holdout"))
        elif verdict is Verdict.FAIL:
            self._failed.append((name, trial.split == "holdout"))


def _visible_names(names: RowSpool[tuple[str, bool]], public: bool) -> Iterator[str]:
    return (name for name, held_out in names if not (public and held_out))
