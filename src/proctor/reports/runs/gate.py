"""Describes the gate of a run, and why a run stopped early, in sentences and as records. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, UnsetType

from proctor.model import EarlyStop, Run, Settings
from proctor.plurals import pluralize
from proctor.reports.formatting import percent
from proctor.reports.record_fields import record_from
from proctor.reports.runs.records import PointGateErrorsRecord, RunGateRecord
from proctor.run_gate import GateDecision, decide_gate, decide_run_gate, gate_range, is_measured
from proctor.safe_text import one_line
from proctor.stats import point_gate_errors
from proctor.verdicts import Counts, sequence_best_count

_MAX_NAMES = 10
"""At most this many runs are named in a sentence."""
_OUTCOMES = {
    GateDecision.SHOWN: "passed",
    GateDecision.NOT_SHOWN: "is not decided",
    GateDecision.RULED_OUT: "failed",
}


def describe_gate(run: Run, counts: Counts) -> str | None:
    """Returns sentences on whether the gate passed, and how often such a gate is wrong; None without a gate.

    Args:
        run: the run.
        counts: its result counts.
    """
    settings = run.settings
    bar = settings.min_pass_rate
    if bar is None:
        return None
    if obstacle := _find_obstacle(run, counts):
        return f"The gate is not decided: {obstacle}."
    low, high = gate_range(counts, settings) or (0.0, 1.0)
    if settings.gate_mode == "interval":
        return _describe_interval_gate(settings, counts, low, high)
    errors = _describe_errors(counts, bar)
    decision = decide_gate(low, high, bar)
    if decision is GateDecision.NOT_SHOWN:
        rates = f"{low:.2%} to {high:.2%} passed, depending on unmeasured trials"
        what = f"{rates}, and at least {bar:.2%} must pass"
    else:
        what = f"the pass rate is {counts.pass_rate or 0.0:.2%}, and at least {bar:.2%} is required"
    sentence = f"The gate {_OUTCOMES[decision]}: {what}."
    return " ".join(filter(None, (sentence, errors)))


def _find_obstacle(run: Run, counts: Counts) -> str | None:
    """Returns why the gate of a run cannot be decided, whatever its pass rate is, as a clause."""
    if run.status != "finished":
        return "the run is not finished"
    if run.settings.selection.shard is not None:
        return f"this is {run.settings.selection.shard.title}, and the gate is for the merged run"
    if not counts.total:
        return "nothing was measured"
    if is_measured(counts, run.settings):
        return None
    trials = pluralize(counts.unmeasured, "trial" if run.suite.repeats_rule == "each" else "case")
    return f"{trials} could not be measured, and --allow-errors allows {run.settings.allow_errors:,}"


def _describe_interval_gate(settings: Settings, counts: Counts, low: float, high: float) -> str:
    bar = settings.min_pass_rate or 0.0
    what = "confidence sequence" if settings.is_watched else "exact 95 % interval"
    if counts.unmeasured:
        what += ", counting unmeasured trials either way,"
    decision = decide_gate(low, high, bar)
    ends = {
        GateDecision.SHOWN: f"starts at {low:.2%}, and at least {bar:.2%} is required.",
        GateDecision.NOT_SHOWN: f"is {low:.2%} to {high:.2%}, and contains {bar:.2%}.",
        GateDecision.RULED_OUT: f"ends at {high:.2%}, and at least {bar:.2%} is required.",
    }
    return f"The gate {_OUTCOMES[decision]}: the {what} {ends[decision]}"


def _describe_errors(counts: Counts, bar: float) -> str | None:
    """Returns a sentence on how often a gate on the pass rate is wrong; None if it cannot be."""
    if not counts.cases or bar <= 0:
        return None
    errors = point_gate_errors(counts.cases, bar)
    kind = "case" if counts.clusters is None else "independent case"
    run_once = "" if counts.passed + counts.failed == counts.cases else ", each run once,"
    sentence = (
        f"With {pluralize(counts.cases, kind)}{run_once} a target with a true pass rate of "
        f"{percent(errors.below)} passes this gate in {errors.false_passes:.0%} of runs"
    )
    if bar < 1:
        sentence += f", and one with {percent(errors.above)} fails it in {errors.false_failures:.0%}"
    return f"{sentence}. With `--gate-mode interval`, the whole 95 % interval must reach {percent(bar)}."


def describe_gates(runs: Sequence[tuple[str, Run, Counts]]) -> str | None:
    """Returns a sentence on how many of several runs passed their gate; None if none has one.

    Args:
        runs: the names of runs, with each run and its result counts.
    """
    decisions = [
        (name, gate.decision) for name, run, counts in runs if (gate := gate_record(run, counts)) is not UNSET
    ]
    if not decisions:
        return None
    total = pluralize(len(decisions), "run")
    failed = [one_line(name) for name, decision in decisions if decision is GateDecision.RULED_OUT]
    undecided = [one_line(name) for name, decision in decisions if decision is GateDecision.NOT_SHOWN]
    sentences = []
    if failed:
        sentences.append(f"{len(failed):,} of {total} failed the gate: {_list_names(failed)}.")
    if undecided:
        sentences.append(
            f"The gate is not decided for {len(undecided):,} of {total}: {_list_names(undecided)}."
        )
    return " ".join(sentences) or f"All {total} passed the gate."


def _list_names(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {more:,} more" if more > 0 else "")


def gate_record(run: Run, counts: Counts) -> RunGateRecord | UnsetType:
    """Returns the gate of a run with these result counts as a record; UNSET without a gate."""
    settings = run.settings
    bar = settings.min_pass_rate
    if bar is None:
        return UNSET
    low, high = gate_range(counts, settings) or (None, None)
    errors = None
    if settings.gate_mode == "point" and counts.cases and bar > 0:
        errors = record_from(point_gate_errors(counts.cases, bar), PointGateErrorsRecord)
    return RunGateRecord(
        min_pass_rate=bar,
        mode=settings.gate_mode,
        decision=(
            GateDecision.NOT_SHOWN if _find_obstacle(run, counts) else decide_run_gate(counts, settings)
        ),
        low=low,
        high=high,
        errors=errors,
    )


def describe_early_stop(stop: EarlyStop, settings: Settings) -> str:
    """Returns sentences on why and when a run stopped, what is known, and what stopping early has cost."""
    when = f"Stopped early: after {stop.cases:,} of {pluralize(stop.planned_cases, 'case')}"
    if stop.reason == "until":
        why = f"the pass rate is known to ±{_points(settings.until or 0.0)} points"
    else:
        bar = settings.min_pass_rate or 0.0
        if decide_gate(*stop.gate_range, bar).value == stop.reason:
            why = f"a pass rate of {percent(bar)} is {stop.reason}"
        else:
            why = f"because a pass rate of {percent(bar)} was {stop.reason} before the last calls ended"
    if stop.interval is None or stop.fixed_interval is None:
        return f"{when} {why}."
    price = (stop.interval[1] - stop.interval[0]) - (stop.fixed_interval[1] - stop.fixed_interval[0])
    return (
        f"{when} {why} (confidence sequence {_range(stop.interval)}; a run of fixed size with "
        f"{pluralize(stop.cases, 'case')} would give {_range(stop.fixed_interval)}: stopping early costs "
        f"{_points(price)} points of width)."
    )


def describe_unreached_width(counts: Counts, run: Run) -> str | None:
    """Returns a sentence on how far a run that has sent every case is from `--until`; None if it is not."""
    until, ends = run.settings.until, counts.ci95
    if until is None or ends is None or counts.bounds is None or (ends[1] - ends[0]) / 2 <= until:
        return None
    from proctor.stats.sequences import count_for_width

    cases = pluralize(sum(counts.shapes.values()), "case")
    sentence = (
        f"Not stopped early: after {cases} the pass rate is known to ±{_points((ends[1] - ends[0]) / 2)} "
        f"points, and --until {_points(until)}pp"
    )
    count = count_for_width(until, counts.bounds, sequence_best_count(run.settings))
    if count is None:
        return f"{sentence} cannot be reached with this many unmeasured trials."
    return f"{sentence} needs about {_round_up(count):,}."


def _round_up(count: int) -> int:
    """Returns the next number with two digits that are not 0."""
    unit = int(10 ** max(0, len(str(count)) - 2))
    return -(-count // unit) * unit


def _range(ends: tuple[float, float]) -> str:
    return f"{100 * ends[0]:.1f}–{100 * ends[1]:.1f} %"


def _points(share: float) -> str:
    return f"{100 * share:.1f}".removesuffix(".0")
