"""Runs and trials to plain data: the fields that every form of report shares. Pure.

The names of the fields are a contract that scripts are written against.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from proctor.errors import ExitCode
from proctor.model import Calibration, Case, Message, Output, Run, Score, Trial, Verdict
from proctor.plan import repeats_of
from proctor.plurals import counted, counted_once, trial_name
from proctor.reports.formatting import rounded, utc
from proctor.reports.runs.splits import split_notes
from proctor.safe_text import one_line
from proctor.splits import SEALED, sealed, sealed_case
from proctor.verdicts import (
    Counts,
    Repeats,
    Spent,
    Tally,
    failed_gates,
    is_below_gate,
    rules_of,
    score_of,
    threshold_of,
)


class Row(Struct, frozen=True, kw_only=True):
    """A stored trial with its verdict and its case."""

    trial: Trial
    verdict: Verdict
    case: Case
    sealed: bool = False
    """Whether it is held out: trial and case are then without question and answer."""

    @property
    def why(self) -> str:
        """Why it did not pass, in one line, or that this is sealed."""
        return SEALED if self.sealed and self.trial.failure is None else why(self.trial)


def seal(row: Row) -> Row:
    """Returns the row without question and answer if it is held out."""
    if row.trial.split != "holdout":
        return row
    return replace(row, trial=sealed(row.trial), case=sealed_case(row.case), sealed=True)


class Reported(Struct, frozen=True, kw_only=True):
    """A run as reports get it."""

    run: Run
    tally: Tally
    exit_code: ExitCode
    rows: Callable[[], Iterator[Row]]
    """Reads its trials from the start, in suite order; held-out trials are sealed unless revealed."""
    looks: int | None = None
    """The number of accesses to this version's holdout, this one included; None without a holdout."""
    bundle: str | None = None
    """The path of the bundle that was just written, if any."""
    calibrations: tuple[Calibration, ...] = ()
    """Those of its judges, each under its name in the run."""


class Told(Struct, frozen=True, kw_only=True):
    """One unit of a run's counts: a trial, or under a rule over repeats all trials of a case."""

    rows: tuple[Row, ...]
    verdict: Verdict

    @property
    def name(self) -> str:
        """The case's id, with the number of the repeat where there are others."""
        return trial_name(self.rows[0].trial.case_id, self.rows[0].trial.repeat)

    @property
    def sealed(self) -> bool:
        """Whether its trials are held out and come without question and answer."""
        return self.rows[0].sealed

    @property
    def why(self) -> str:
        """In one line, why it did not pass."""
        if len(self.rows) == 1:
            return self.rows[0].why
        missed = [row for row in self.rows if row.verdict is not Verdict.PASS]
        summary = f"{len(self.rows) - len(missed)} of {len(self.rows)} trials passed"
        if self.sealed:
            return f"{summary}; {SEALED}"
        return "; ".join((summary, *(f"repeat {row.trial.repeat}: {why(row.trial)}" for row in missed)))


def told(report: Reported) -> Iterator[Told]:
    """Yields the units of a run's counts, in suite order; without cases whose trials are not all there."""
    run, repeats_rule = report.run, report.run.suite.repeats_rule
    if repeats_rule == "each":
        yield from (Told(rows=(row,), verdict=row.verdict) for row in report.rows())
        return
    rules = rules_of(run)
    for _, group in groupby(report.rows(), key=lambda row: row.trial.position):
        rows = tuple(group)
        case = rows[0].case
        if len(rows) < repeats_of(case, run.settings.repeats):
            continue
        repeats = Repeats(rules(case))
        for row in rows:
            repeats.add(row.trial, row.verdict)
        yield Told(rows=rows, verdict=repeats.verdict(repeats_rule))


def counts_row(counts: Counts) -> dict[str, Any]:
    """The numbers of a run, a split, a category or a tag."""
    return {
        "total": counts.total,
        "passed": counts.passed,
        "failed": counts.failed,
        "errors": counts.errors,
        "unscored": counts.unscored,
        "cases": counts.cases,
        "pass_rate": counts.pass_rate,
        "ci95": rounded(counts.ci95),
    }


def counts_by_tag(tally: Tally) -> dict[str, Counts]:
    """Returns the counts of each tag, sorted; empty if every tag is on all cases."""
    if all(counts.total == tally.counted.total for counts in tally.tags.values()):
        return {}
    return {name: tally.tags[name] for name in sorted(tally.tags)}


def run_row(report: Reported) -> dict[str, Any]:
    """One run with its numbers."""
    run, tally = report.run, report.tally
    return {
        "run": run.id,
        "group": run.group,
        "suite": run.suite.name,
        "suite_version": run.suite.version,
        "declared_version": run.suite.declared_version,
        "suite_digest": run.suite.digest,
        "suite_hash": run.suite.suite_hash,
        "dialect": run.suite.dialect,
        "target": run.target.name,
        "judges": [judge.name for judge in run.judges],
        "status": run.status,
        "planned": run.planned,
        **counts_row(tally.counted),
        "repeats_rule": run.suite.repeats_rule,
        "by_trial": None if tally.cases is None else counts_row(tally.all),
        "mean_score": tally.mean_score,
        "splits": _group_rows(tally.splits),
        "split_notes": split_notes(tally.splits),
        "looks": report.looks,
        "by_category": _group_rows(tally.categories),
        "by_tag": _group_rows(tally.tags),
        "asked": tally.asked,
        "cached": tally.cached,
        "graded": tally.graded,
        "reused": tally.reused,
        "latency_ms": tally.latency_ms(),
        "usage": _usage_row(tally.spent),
        "cost_usd": tally.target_cost_usd,
        "judge": {
            "calls": tally.spent_judging.calls,
            "cached": tally.spent_judging.cached,
            **_usage_row(tally.spent_judging),
            "cost_usd": tally.spent_judging.cost_usd,
            "calibrations": _calibration_rows(report),
        },
        "refused_params": sorted(tally.refused_params),
        "prices_date": run.prices_date,
        "tags": list(run.tags),
        "started_at": utc(run.started_at),
        "finished_at": None if run.finished_at is None else utc(run.finished_at),
        "warnings": list(run.warnings),
        "exit_code": int(report.exit_code),
        **({} if run.stopped is None else {"stopped": run.stopped}),
        **({} if report.bundle is None else {"bundle": report.bundle}),
    }


def _calibration_rows(report: Reported) -> list[dict[str, Any]]:
    """Returns a row for each judge that judged in a run, with its calibration."""
    if not report.tally.judging.prompts:
        return []
    from proctor.reports.certificates.of_judge import judge_row, run_judges

    return [judge_row(judge) for judge in run_judges(report.run, report.tally, report.calibrations)]


def about_judges(report: Reported) -> list[str]:
    """Returns sentences: how far the judges of a run agree with each other, and each one's calibration."""
    judging = report.tally.judging
    if not judging.prompts:
        return []
    from proctor.reports.certificates.of_judge import judge_lines, run_judges

    lines = judge_lines(run_judges(report.run, report.tally, report.calibrations))
    if judging.panels:
        scores = counted(judging.panels, "score")
        lines.insert(0, f"All judgments agree on {judging.unanimous:,} of {scores} that several decided.")
    return lines


def _usage_row(usage: Spent) -> dict[str, int]:
    return {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}


def missing(report: Reported) -> str | None:
    """Returns a sentence on the missing trials; None for a finished run."""
    planned_count, stored_count = report.run.planned, report.tally.all.total
    if stored_count >= planned_count:
        return None
    sentence = f"Not finished: {planned_count - stored_count:,} of {planned_count:,} trials are missing."
    return f"{sentence} {report.run.stopped}" if report.run.stopped else sentence


def which_look(report: Reported) -> str | None:
    """Returns a sentence on the number of holdout accesses; None for the first, and without a holdout."""
    looks = report.looks
    if looks is None or looks < 2 or "holdout" not in report.tally.splits:
        return None
    return f"Look {looks:,} at this holdout."


def taken_over(tally: Tally) -> list[str]:
    """Returns short texts on what needed no call: results from the cache and from earlier runs."""
    judgments = tally.spent_judging.cached
    sources = (
        (tally.cached, "from the cache"),
        (tally.reused, "reused"),
        (judgments, f"judgment{'s' * (judgments > 1)} reused"),
    )
    return [f"{count:,} {what}" for count, what in sources if count]


def by_case(report: Reported) -> str | None:
    """Returns a sentence on how repeats are counted; None if each trial counts for itself."""
    run, trials = report.run, report.tally.all
    how = counted_once(run.suite.repeats_rule, threshold_of(run))
    if how is None:
        return None
    return f"Each case counts once: {how}; {trials.passed:,} of {trials.total:,} trials passed."


def over_cases(report: Reported) -> str | None:
    """Returns a sentence on what the intervals are over; None without repeats."""
    counts = report.tally.counted
    if counts.total <= counts.cases:
        return None
    cases = f"{counts.cases:,} case{'s' * (counts.cases != 1)}"
    return f"Intervals are over {cases}: repeats of a case tell less than as many cases."


def gate(report: Reported) -> str | None:
    """Returns a sentence on whether the gate held; None without a gate."""
    minimum = report.run.settings.min_pass_rate
    if minimum is None:
        return None
    rate = report.tally.counted.pass_rate or 0.0
    if rate >= minimum - 1e-12:
        return f"The gate held: {rate:.2%} passed and {minimum:.2%} had to."
    return f"The gate did not hold: {rate:.2%} passed and {minimum:.2%} had to."


def _group_rows(groups: dict[str, Counts]) -> dict[str, Any]:
    return {name: counts_row(groups[name]) for name in sorted(groups)}


def trial_row(run: Run, row: Row) -> dict[str, Any]:
    """Returns one trial with all fields; of a sealed one, its verdict and its numbers."""
    trial = row.trial
    output = trial.output
    return {
        "run": run.id,
        "suite": run.suite.name,
        "suite_version": run.suite.version,
        "case_id": trial.case_id,
        "target": trial.target or run.target.name,
        "repeat": trial.repeat,
        "verdict": row.verdict.value,
        "score": score_of(trial),
        "failed_gates": failed_gates(trial),
        "scores": [score_row(score) | (_SEALED_FIELDS if row.sealed else {}) for score in trial.scores],
        "output": _output_row(output),
        "failure": _all_fields(trial.failure),
        "latency_ms": None if output is None else output.latency_ms,
        "usage": None if output is None else _all_fields(output.usage),
        "cost_usd": None if output is None else output.cost_usd,
        "tags": list(row.case.tags),
        "category": row.case.category,
        "split": trial.split,
        "sealed": row.sealed,
        "started_at": utc(trial.started_at),
        "source_run": trial.source_run,
    }


_SEALED_FIELDS = dict.fromkeys(("reason", "entries", "judgments", "details"))
"""The fields of a score that a sealed trial hides."""


def score_row(score: Score) -> dict[str, Any]:
    """One score; every field is there, also at its default."""
    return {
        "grader": score.grader,
        "name": score.name,
        "value": score.value,
        "outcome": score.outcome.value,
        "weight": score.weight,
        "required": score.required,
        "reason": score.reason,
        "entries": [
            {"text": entry.text, "passed": entry.passed, "evidence": entry.evidence}
            for entry in score.entries
        ],
        "judgments": [
            {**_all_fields(judgment), "usage": _all_fields(judgment.usage)} for judgment in score.judgments
        ],
        "details": score.details,
    }


def question_of(case: Case) -> str:
    """The messages of a case as one text: the user's alone as it is, a conversation with its roles."""
    if len(case.input) == 1 and case.input[0].role == "user":
        return _message_text(case.input[0])
    return "\n".join(f"{message.role}: {_message_text(message)}" for message in case.input)


def _message_text(message: Message) -> str:
    """A message's text with what is attached to it in its place, and the tools that it calls."""
    parts = message.parts or (message.content,)
    part_texts = (part if isinstance(part, str) else f"[{part.kind} {part.path}]" for part in parts)
    calls = (f"[calls {call.name}]" for call in message.tool_calls)
    return " ".join(filter(None, (message.between.join(part_texts), *calls)))


def why(trial: Trial) -> str:
    """In one line, why a trial did not pass: its failure, or the reasons of the scores that did not."""
    if trial.failure is not None:
        return one_line(f"{trial.failure.kind}: {trial.failure.message}")
    gates, mean = gates_of(trial), score_of(trial)
    reasons = [
        f"{score.name}: {score.reason or score.outcome.value}"
        for score in trial.scores
        if score.outcome is not Verdict.PASS
    ]
    if gates:
        reasons.insert(0, gates)
    elif not reasons:
        reasons = [
            "nothing that counts could be scored"
            if mean is None
            else f"no assertion failed, but the score is {mean:.2f}"
        ]
    return one_line("; ".join(reasons))


def gates_of(trial: Trial) -> str:
    """Which gates were not reached, and the weighted score that did not help; empty where all were."""
    below = [
        f"{score.name} ({score.value:.2f}, gate {score.required:g})"
        for score in trial.scores
        if is_below_gate(score)
    ]
    if not below:
        return ""
    mean = score_of(trial)
    return f"below the gate: {', '.join(below)}" + (f"; score {mean:.2f}" if mean is not None else "")


def _all_fields(record: Any) -> Any:
    """A noun with all of its fields, also those at their defaults."""
    if record is None:
        return None
    return {name: to_builtins(getattr(record, name)) for name in record.__struct_fields__}


def _output_row(output: Output | None) -> dict[str, Any] | None:
    return None if output is None else {**_all_fields(output), "usage": _all_fields(output.usage)}
