"""Measures targets in earlier runs: the latency of answers, and the tokens of a suite."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice

from msgspec import Struct
from msgspec.structs import replace

from proctor.codec import encode
from proctor.model import Params, Run, Suite, TargetSpec, Usage
from proctor.protocols import Store
from proctor.services.runs.planning.judge_choice import all_judges

_MAX_RUNS = 200
"""The newest runs that are considered, at most."""
_MAX_RUNS_READ = 12
"""The runs among them whose trials are read, at most."""
_MAX_TRIALS = 100
"""The trials that are read of each run, at most."""


class MeanUsage(Struct, frozen=True):
    """The average usage of a call."""

    input_tokens: float
    output_tokens: float
    cached_tokens: float

    def times(self, calls: int) -> Usage:
        """Returns the usage of a number of calls."""
        return Usage(
            input_tokens=round(self.input_tokens * calls),
            output_tokens=round(self.output_tokens * calls),
            cached_tokens=round(self.cached_tokens * calls),
        )


class TargetHistory(Struct, frozen=True):
    """The usage and latency of a target or judge in earlier runs; None if unknown."""

    usage: MeanUsage | None = None
    latency_s: float | None = None


def target_key(spec: TargetSpec) -> bytes:
    """Returns the key of a target or judge, independent of its name and parameters."""
    return encode(
        replace(spec, name="", params=Params(), judge=None, fallbacks=(), workers=None, retries=None)
    )


class RunHistory:
    """The usage and latency of targets and judges in the newest runs."""

    def __init__(self, store: Store, suite: Suite, specs: Sequence[TargetSpec]) -> None:
        """Reads the runs that are needed.

        Args:
            store: has the earlier runs.
            suite: the suite whose tokens are measured, in any version.
            specs: the targets and judges.

        Raises:
            StoreError: the store cannot be read.
        """
        self._latencies: dict[bytes, list[float]] = {}
        self._usages: dict[tuple[bytes, bool], list[Usage]] = {}
        keys = {target_key(spec) for spec in specs}
        read = 0
        for run in islice(store.runs(), _MAX_RUNS):
            if read == _MAX_RUNS_READ:
                break
            same = run.suite.name == suite.name
            if (
                run.imported is None
                and run.regrade_of is None
                and self._has_new_data(keys, run, same_suite=same)
            ):
                read += 1
                self._read(store, run, same_suite=same)

    def get(self, spec: TargetSpec, *, judging: bool) -> TargetHistory:
        """Returns the history of a spec as a target, or as a judge."""
        key = target_key(spec)
        usages, latencies = self._usages.get((key, judging)), self._latencies.get(key)
        return TargetHistory(
            usage=_mean_usage(usages) if usages else None,
            latency_s=sum(latencies) / len(latencies) / 1000 if latencies else None,
        )

    def _has_new_data(self, keys: set[bytes], run: Run, *, same_suite: bool) -> bool:
        """Whether a run may have data that newer runs did not have."""
        target = target_key(run.target)
        if target in keys and target not in self._latencies:
            return True
        callees = [(target, False), *((target_key(judge), True) for judge in all_judges(run))]
        return same_suite and any(callee[0] in keys and callee not in self._usages for callee in callees)

    def _read(self, store: Store, run: Run, *, same_suite: bool) -> None:
        target = target_key(run.target)
        judges = {judge.name: target_key(judge) for judge in all_judges(run)}
        latencies, usages = list[float](), dict[tuple[bytes, bool], list[Usage]]()
        for stored_trial in islice(store.trials(run.id), _MAX_TRIALS):
            trial, output = stored_trial.trial, stored_trial.trial.output
            if output is None or output.cached or trial.source_run or trial.target:
                continue  # the run's own target did not answer, or not now
            if output.batch_id is None:
                latencies.append(output.latency_ms)
            if output.usage is not None:
                usages.setdefault((target, False), []).append(output.usage)
            for judgment in chain.from_iterable(score.judgments for score in trial.scores):
                if judgment.usage is not None and judgment.judge in judges:
                    usages.setdefault((judges[judgment.judge], True), []).append(judgment.usage)
        if latencies:
            self._latencies.setdefault(target, latencies)
        for key, usage in usages.items() if same_suite else ():
            self._usages.setdefault(key, usage)


def _mean_usage(usages: Sequence[Usage]) -> MeanUsage:
    count = len(usages)
    return MeanUsage(
        sum(usage.input_tokens for usage in usages) / count,
        sum(usage.output_tokens for usage in usages) / count,
        sum(usage.cached_tokens for usage in usages) / count,
    )
