"""Converts runs and trials to the records that all report formats share, and sums them up in notes. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast

from msgspec import UNSET, Struct, UnsetType, convert
from msgspec.structs import asdict, replace

from proctor.clusters import is_own_cluster
from proctor.codec import template_digest
from proctor.errors import ExitCode
from proctor.holdout import SEALED_REASON, seal_case, seal_trial
from proctor.latency import LatencySummary, SpeedSummary, answer_latency
from proctor.model import CHOICE_METRICS, Calibration, Case, EarlyStop, Message, Run, Settings, Trial, Verdict
from proctor.parameters import changed_parameters
from proctor.plan import count_repeats
from proctor.plurals import describe_repeats_rule, join_names, pluralize, trial_name
from proctor.prompts.templates import format_values
from proctor.protocols import CaseHead, StoredBatch
from proctor.reports.clusters import clusters_sentence, no_clusters_sentence
from proctor.reports.formatting import milliseconds, percent, rate, round_interval
from proctor.reports.record_fields import Split, record_from
from proctor.reports.runs.records import (
    ChoiceAccuracyRecord,
    EarlyStopRecord,
    ExportedTrialRecord,
    FailureRecord,
    JudgeSummaryRecord,
    LatencyRecord,
    OutputRecord,
    PeoplePassRateRecord,
    PromptRecord,
    RunRecord,
    ScoreRecord,
    SpeedRecord,
    TokenUsageRecord,
    VerdictCountsRecord,
)
from proctor.reports.runs.splits import split_notes
from proctor.safe_text import one_line
from proctor.verdicts import (
    CaseRepeats,
    ChoiceAccuracy,
    Counts,
    Tally,
    failed_gates,
    is_below_gate,
    pass_rules_for,
    threshold_for,
    trial_score,
)

if TYPE_CHECKING:
    from proctor.calibration import PeoplePassRate


class TrialResult(Struct, frozen=True, kw_only=True):
    """A stored trial with its verdict and its case."""

    trial: Trial
    verdict: Verdict
    case: Case
    sealed: bool = False
    """Whether it is held out and hidden: trial and case then have no prompt and no answer."""

    @property
    def reason(self) -> str:
        """Why it has no PASS, in one line, or that this is hidden."""
        return SEALED_REASON if self.sealed and self.trial.failure is None else failure_reason(self.trial)


def seal(row: TrialResult) -> TrialResult:
    """Returns the row, without prompt and answer if it is held out."""
    if row.trial.split != "holdout":
        return row
    return replace(row, trial=seal_trial(row.trial), case=seal_case(row.case), sealed=True)


_MAX_BATCHES = 5
"""The maximum number of batches that a sentence names."""


_MAX_SOURCES = 8
"""The maximum number of merged runs that a sentence names."""


class RunReport(Struct, frozen=True, kw_only=True):
    """A run with everything that reports show of it."""

    run: Run
    tally: Tally
    exit_code: ExitCode
    rows: Callable[[], Iterator[TrialResult]]
    """Reads its trials in suite order; held-out trials are hidden unless revealed."""
    first_failures: Callable[[], Iterator[TrialResult]] | None = None
    """Reads the trials of the first cases without PASS, as far as `tally` remembers them."""
    looks: int | None = None
    """The number of accesses to this version's holdout, this one included; None without a holdout."""
    bundle: str | None = None
    """The path of the bundle that was just written, if any."""
    calibrations: tuple[Calibration, ...] = ()
    """The calibrations of its judges, named as in the run."""
    people_rate: PeoplePassRate | None = None
    """The pass rate that people would give it, from labels of its own answers."""
    batches: tuple[StoredBatch, ...] = ()
    """The batches of an unfinished run that a service accepted."""


class CaseResult(Struct, frozen=True, kw_only=True):
    """One unit of a run's counts: a trial, or all trials of a case if each case counts once."""

    rows: tuple[TrialResult, ...]
    verdict: Verdict

    @property
    def name(self) -> str:
        """The id of the case, with the number of the repeat if it is not the first."""
        return trial_name(self.rows[0].trial.case_id, self.rows[0].trial.repeat)

    @property
    def sealed(self) -> bool:
        """Whether its trials are held out and hidden."""
        return self.rows[0].sealed

    @property
    def reason(self) -> str:
        """Why it has no PASS, in one line."""
        if len(self.rows) == 1:
            return self.rows[0].reason
        missed = [row for row in self.rows if row.verdict is not Verdict.PASS]
        summary = f"{len(self.rows) - len(missed)} of {len(self.rows)} trials passed"
        if self.sealed:
            return f"{summary}; {SEALED_REASON}"
        return "; ".join(
            (summary, *(f"repeat {row.trial.repeat}: {failure_reason(row.trial)}" for row in missed))
        )


def case_results(report: RunReport) -> Iterator[CaseResult]:
    """Yields the units of a run's counts in suite order, without cases that lack trials."""
    return group_results(report.run, report.rows())


def first_failures(report: RunReport) -> Iterator[CaseResult]:
    """Yields the first units of a run's counts without PASS: `MAX_FIRST_FAILURES`, or all if fewer."""
    rows = report.rows() if report.first_failures is None else report.first_failures()
    return (result for result in group_results(report.run, rows) if result.verdict is not Verdict.PASS)


def failed_results(report: RunReport) -> Iterator[CaseResult]:
    """Yields all units of a run's counts without PASS; reads all of its trials."""
    results = group_results(report.run, report.rows())
    return (result for result in results if result.verdict is not Verdict.PASS)


def group_results(run: Run, trial_rows: Iterator[TrialResult]) -> Iterator[CaseResult]:
    """Yields the units of a run's counts from its trials in suite order, without cases that lack trials."""
    repeats_rule = run.suite.repeats_rule
    if repeats_rule == "each":
        yield from (CaseResult(rows=(row,), verdict=row.verdict) for row in trial_rows)
        return
    rules = pass_rules_for(run)
    for _, group in groupby(trial_rows, key=lambda row: row.trial.position):
        rows = tuple(group)
        case = rows[0].case
        if len(rows) < count_repeats(case, run.settings.repeats):
            continue
        repeats = CaseRepeats(rules(case))
        for row in rows:
            repeats.add(row.trial, row.verdict)
        yield CaseResult(rows=rows, verdict=repeats.verdict(repeats_rule))


def shard_text(run: Run) -> str | UnsetType:
    """Returns the shard of a run, such as `0/4`; UNSET if it is none."""
    shard = run.settings.selection.shard
    return UNSET if shard is None else str(shard)


def stopping_fields(run: Run) -> dict[str, Any]:
    """Returns the fields of a record on a run that may stop by what it shows; else they are UNSET."""
    stop = run.early_stop
    return {
        "early_stop": UNSET if stop is None else _early_stop_record(stop),
        "interval_kind": "confidence sequence" if run.settings.is_watched else UNSET,
    }


def _early_stop_record(stop: EarlyStop) -> EarlyStopRecord:
    ends = {name: round_interval(getattr(stop, name)) for name in ("interval", "fixed_interval")}
    return record_from(stop, EarlyStopRecord, **ends)


def counts_record(counts: Counts) -> VerdictCountsRecord:
    """Returns the counts of a run, a split, a category or a tag as a record."""
    ends = {name: round_interval(getattr(counts, name)) for name in ("ci95", "bounds")}
    return record_from(counts, VerdictCountsRecord, **ends)


def counts_by_tag(tally: Tally) -> dict[str, Counts]:
    """Returns the counts of each tag, sorted; empty if every tag is on all cases."""
    if all(counts.total == tally.result_counts.total for counts in tally.tags.values()):
        return {}
    return {name: tally.tags[name] for name in sorted(tally.tags)}


def prompt_record(run: Run) -> PromptRecord | None:
    """Returns the prompt of a run as a record; None if it has none."""
    if run.prompt is None:
        return None
    return PromptRecord(name=run.prompt.name, digest=template_digest(run.prompt))


def run_record(report: RunReport) -> RunRecord:
    """Returns one run with its numbers as a record."""
    from proctor.reports.runs.gate import gate_record

    run, tally = report.run, report.tally
    return record_from(
        run,
        RunRecord,
        run=run.id,
        suite=run.suite.name,
        suite_version=run.suite.version,
        declared_version=run.suite.declared_version,
        suite_digest=run.suite.digest,
        suite_hash=run.suite.suite_hash,
        dialect=run.suite.dialect,
        target=run.target.name,
        prompt=prompt_record(run),
        judges=tuple([judge.name for judge in run.judges]),
        **asdict(counts_record(tally.result_counts)),
        repeats_rule=run.suite.repeats_rule,
        by_trial=None if tally.cases is None else counts_record(tally.all),
        mean_score=tally.mean_score,
        splits=_group_records(tally.splits),
        split_notes=tuple(split_notes(tally.splits)),
        looks=report.looks,
        by_category=_group_records(tally.categories),
        by_tag=_group_records(tally.tags),
        asked=tally.asked_count,
        cached=tally.cached_count,
        graded=tally.graded_count,
        reused=tally.reused_count,
        latency_ms=record_from(tally.latency_ms(), LatencyRecord),
        usage=record_from(tally.target_usage, TokenUsageRecord),
        cost_usd=tally.target_cost_usd,
        judge=record_from(
            tally.judge_usage,
            JudgeSummaryRecord,
            calibrations=_calibration_rows(report),
            people_pass_rate=_people_rate_record(report),
        ),
        refused_params=tuple(sorted(tally.refused_params)),
        exit_code=int(report.exit_code),
        stopped=UNSET if run.stopped is None else run.stopped,
        engine=UNSET if run.settings.engine == Settings().engine else run.settings.engine,
        shard=shard_text(run),
        merged_from=run.merged_from or UNSET,
        notes=UNSET,
        gate=gate_record(run, tally.result_counts),
        **stopping_fields(run),
        multiple_choice=_choice_accuracy_record(tally.choice_accuracy),
        bundle=UNSET if report.bundle is None else report.bundle,
        first_token_ms=_speed_record(tally.speeds().first_token_ms),
        tokens_per_second=_speed_record(tally.speeds().tokens_per_second),
        params=changed_parameters(run.target.params) or UNSET,
    )


def _choice_accuracy_record(accuracy: ChoiceAccuracy) -> ChoiceAccuracyRecord | UnsetType:
    if not accuracy.answers:
        return UNSET
    rates = {metric: accuracy.rate(metric) for metric in CHOICE_METRICS}
    return ChoiceAccuracyRecord(answers=accuracy.answers, **rates)


def _speed_record(summary: SpeedSummary | None) -> SpeedRecord | UnsetType:
    return UNSET if summary is None else record_from(summary, SpeedRecord)


def _calibration_rows(report: RunReport) -> tuple[dict[str, Any], ...]:
    """Returns a row for each judge that judged in a run, with its calibration."""
    if not report.tally.judge_stats.prompts:
        return ()
    from proctor.reports.certificates.judge_certificate import get_run_judges, judge_row

    judges = get_run_judges(report.run, report.tally, report.calibrations)
    return tuple([judge_row(judge) for judge in judges])


def _people_rate_record(report: RunReport) -> PeoplePassRateRecord | UnsetType:
    if report.people_rate is None:
        return UNSET
    from proctor.reports.runs.people_rate import people_rate_record

    return people_rate_record(report.people_rate)


def judge_notes(report: RunReport) -> list[str]:
    """Returns sentences: how far the judges of a run agree with each other, and each one's calibration."""
    judging = report.tally.judge_stats
    if not judging.prompts:
        return []
    from proctor.reports.certificates.judge_certificate import get_run_judges, judge_lines

    judges = get_run_judges(report.run, report.tally, report.calibrations)
    lines = judge_lines(judges, labelled=report.people_rate is not None)
    if report.people_rate is not None:
        from proctor.reports.runs.people_rate import people_rate_sentence

        lines.append(people_rate_sentence(report.people_rate))
    if judging.panels:
        scores = pluralize(judging.panels, "score")
        lines.insert(0, f"All judgments agree on {judging.unanimous:,} of {scores} that several decided.")
    return lines


def selection_note(report: RunReport) -> str | None:
    """Returns a sentence on a run of the cases that last failed; None for any other run."""
    run, selection = report.run, report.run.settings.selection
    if selection.failed_in is None:
        return None
    return (
        f"Of the {pluralize(run.suite.case_count, 'case')} of {run.suite.name}, only those that failed or "
        f"errored last, in run {selection.failed_in}."
    )


def shard_note(report: RunReport) -> str | None:
    """Returns sentences on a shard; None for any other run."""
    shard = report.run.settings.selection.shard
    if shard is None:
        return None
    return f"This is {shard.title}. `proctor runs merge` makes one run of all shards; its exit code counts."


def merge_note(report: RunReport) -> str | None:
    """Returns a sentence on the runs that a run was merged from; None for any other run."""
    ids = report.run.merged_from
    return f"Merged from {pluralize(len(ids), 'run')}: {join_names(ids, _MAX_SOURCES)}." if ids else None


def missing_note(report: RunReport) -> str | None:
    """Returns a sentence on the missing trials; None for a finished run."""
    planned_count, stored_count = report.run.planned, report.tally.all.total
    if stored_count >= planned_count:
        return None
    sentence = f"Not finished: {planned_count - stored_count:,} of {planned_count:,} trials are missing."
    sentences = [sentence, report.run.stopped, _describe_batches(report)]
    return " ".join(filter(None, sentences))


def _describe_batches(report: RunReport) -> str | None:
    """Returns a sentence on the batches of an unfinished run, with their last known states."""
    if not report.batches:
        return None
    names = [
        f"{one_line(batch.batch_id or '')} ({one_line(batch.state)}, "
        f"{pluralize(len(batch.custom_ids), 'request')}, submitted {batch.submitted_at:%Y-%m-%d %H:%M} UTC)"
        for batch in report.batches
    ]
    command = f"`proctor run --resume={report.run.id}`"
    return f"Its batches, as last seen: {join_names(names, _MAX_BATCHES)}. {command} collects their answers."


def early_stop_note(report: RunReport) -> str | None:
    """Returns sentences on why a run stopped by its own settings before its end, or why it did not stop.

    None if it could not stop, or is not finished.
    """
    if not report.run.settings.is_watched:
        return None
    from proctor.reports.runs.gate import describe_early_stop, describe_unreached_width

    run = report.run
    if run.early_stop is not None:
        return describe_early_stop(run.early_stop, run.settings)
    return describe_unreached_width(report.tally.result_counts, run) if run.status == "finished" else None


def access_note(report: RunReport) -> str | None:
    """Returns a sentence on the number of holdout accesses; None for the first, and without a holdout."""
    looks = report.looks
    if looks is None or looks < 2 or "holdout" not in report.tally.splits:
        return None
    return f"Holdout accessed {looks:,} times."


def choice_note(report: RunReport) -> str | None:
    """Returns a sentence on how often the likeliest choice was right, by measure; None without choices."""
    accuracy = report.tally.choice_accuracy
    if not accuracy.answers:
        return None
    rates = ", ".join(f"{metric} {percent(accuracy.rate(metric))}" for metric in CHOICE_METRICS)
    return f"Multiple choice: {rates} of {pluralize(accuracy.answers, 'answer')}."


def reuse_notes(tally: Tally) -> list[str]:
    """Returns short texts on results that needed no call, as they are cached or reused."""
    judgments = tally.judge_usage.cached
    sources = (
        (tally.cached_count, "from the cache"),
        (tally.reused_count, "reused"),
        (judgments, f"judgment{'s' * (judgments > 1)} reused"),
    )
    return [f"{count:,} {what}" for count, what in sources if count]


NO_LATENCY = "not measured, because all answers are reused"
"""Said of the latency if no request was sent."""


def latency_scope(latency: LatencySummary | LatencyRecord) -> str:
    """Returns the words after a latency that say of which answers it is; empty if it is of all."""
    if not latency.left_out:
        return ""
    verb = "is" if latency.left_out == 1 else "are"
    answers = pluralize(latency.answers, "answer")
    return f" of {answers}; {latency.left_out:,} from the cache or reused {verb} left out"


def speed_texts(tally: Tally) -> list[str]:
    """Returns the times to the first token and the tokens per second of a run, if any was measured."""
    speeds, answers = tally.speeds(), tally.latency_ms().answers
    texts, first_token, token_rate = [], speeds.first_token_ms, speeds.tokens_per_second
    if first_token is not None:
        numbers = f"p50 {milliseconds(first_token.p50)}, p95 {milliseconds(first_token.p95)}"
        texts.append(f"first token {numbers}{speed_scope(first_token, answers)}")
    if token_rate is not None:
        numbers = f"p50 {rate(token_rate.p50)}, p5 {rate(token_rate.p5)}"
        texts.append(f"tokens/s {numbers}{speed_scope(token_rate, answers)}")
    return texts


def speed_scope(speed: SpeedSummary | SpeedRecord, answers: int) -> str:
    """Returns the words after a speed that say of which of the measured answers it is; empty if of all."""
    return "" if speed.answers == answers else f" of {pluralize(speed.answers, 'answer')}"


def repeats_note(report: RunReport) -> str | None:
    """Returns a sentence on how repeats are counted; None if each trial counts for itself."""
    run, trials = report.run, report.tally.all
    how = describe_repeats_rule(run.suite.repeats_rule, threshold_for(run))
    if how is None:
        return None
    return f"Each case counts once: {how}; {trials.passed:,} of {trials.total:,} trials passed."


def cluster_warning(report: RunReport) -> str | None:
    """Returns a sentence on a field that should say which cases are related, and that no case has."""
    clusters, field = report.tally.result_counts.clusters, report.run.settings.cluster
    if not clusters or not all(map(is_own_cluster, clusters)):
        return None
    return no_clusters_sentence(field or "")


def interval_note(report: RunReport) -> str | None:
    """Returns a sentence on what rates and intervals are over; None without repeats and clusters."""
    counts, field = report.tally.result_counts, report.run.settings.cluster
    cases, by_repeats = pluralize(counts.cases, "case"), ""
    if counts.passed + counts.failed != counts.cases:
        by_repeats = ": each counts once, by the share of its repeats that passed"
    if counts.cluster_count is None:
        return f"Rates and intervals are over {cases}{by_repeats}." if by_repeats else None
    if warning := cluster_warning(report):
        return warning
    what = f"Rates are over {cases}{by_repeats}; intervals are"
    return clusters_sentence(what, counts.cluster_count, field or "")


def unmeasured_note(report: RunReport) -> str | None:
    """Returns a sentence on the trials that are in no rate, and what they could change; None without any."""
    counts = report.tally.result_counts
    if not counts.unmeasured or counts.bounds is None:
        return None
    noun = "trial" if report.tally.cases is None else "case"
    low, high = counts.bounds
    are = "is" if counts.unmeasured == 1 else "are"
    return (
        f"{counts.unmeasured:,} of {pluralize(counts.total, noun)} could not be measured and {are} not in "
        f"the pass rate, which would be {percent(low)} if all had failed and {percent(high)} if all had "
        "passed."
    )


def gate_note(report: RunReport) -> str | None:
    """Returns sentences on whether the gate passed, and how often such a gate errs; None without a gate."""
    if report.run.settings.min_pass_rate is None:
        return None
    from proctor.reports.runs.gate import describe_gate

    return describe_gate(report.run, report.tally.result_counts)


def _group_records(groups: dict[str, Counts]) -> dict[str, VerdictCountsRecord]:
    return {name: counts_record(groups[name]) for name in sorted(groups)}


class _TrialParts(Struct, frozen=True, kw_only=True, gc=False):
    """The parts of a trial that have records of their own, which are converted together, as that is fast."""

    scores: tuple[ScoreRecord, ...]
    output: OutputRecord | None
    failure: FailureRecord | None


def trial_record(run: Run, row: TrialResult) -> ExportedTrialRecord:
    """Returns one trial as a record; of a hidden one, only its verdict and numbers."""
    trial = row.trial
    parts = convert(trial, _TrialParts, from_attributes=True)
    output, scores = parts.output, parts.scores
    if row.sealed:
        hidden = {"reason": None, "entries": None, "judgments": None, "details": None}
        scores = tuple([replace(score, **hidden) for score in scores])
    return ExportedTrialRecord(
        run=run.id,
        suite=run.suite.name,
        suite_version=run.suite.version,
        case_id=trial.case_id,
        target=trial.target or run.target.name,
        prompt=run.prompt_name,
        repeat=trial.repeat,
        verdict=row.verdict,
        score=trial_score(trial),
        failed_gates=tuple(failed_gates(trial)),
        scores=scores,
        output=output,
        failure=parts.failure,
        latency_ms=answer_latency(output),
        usage=None if output is None else output.usage,
        cost_usd=None if output is None else output.cost_usd,
        tags=row.case.tags,
        category=row.case.category,
        split=cast("Split | None", trial.split),
        sealed=row.sealed,
        started_at=trial.started_at,
        source_run=trial.source_run,
    )


def question_text(case: Case | CaseHead) -> str:
    """Returns the messages of a case as one text, with roles unless it is a single user message.

    Of a case without messages, its values for the variables of a prompt.
    """
    return _messages_text(case) or format_values(case.vars)


def case_subject(case: Case | CaseHead) -> str:
    """Returns what tells a case from others with the same prompt: its input, and its values for variables."""
    return "\n".join(filter(None, (_messages_text(case), format_values(case.vars))))


def _messages_text(case: Case | CaseHead) -> str:
    if len(case.input) == 1 and case.input[0].role == "user":
        return _message_text(case.input[0])
    return "\n".join(f"{message.role}: {_message_text(message)}" for message in case.input)


def _message_text(message: Message) -> str:
    """Returns the text of a message, with placeholders for attachments and tool calls."""
    parts = message.parts or (message.content,)
    part_texts = (part if isinstance(part, str) else f"[{part.kind} {part.path}]" for part in parts)
    calls = (f"[calls {call.name}]" for call in message.tool_calls)
    return " ".join(filter(None, (message.between.join(part_texts), *calls)))


def failure_reason(trial: Trial) -> str:
    """Returns why a trial has no PASS, in one line: its failure, or the reasons of its scores."""
    if trial.failure is not None:
        return one_line(f"{trial.failure.kind}: {trial.failure.message}")
    gates, mean = failed_gates_text(trial), trial_score(trial)
    reasons = [
        f"{score.name}: {score.reason or score.outcome.value}"
        for score in trial.scores
        if score.outcome is not Verdict.PASS
    ]
    if gates:
        reasons.insert(0, gates)
    elif not reasons:
        reasons = [
            "no assertion that counts could be scored"
            if mean is None
            else f"no assertion failed, but the score is {mean:.2f}"
        ]
    return one_line("; ".join(reasons))


def failed_gates_text(trial: Trial) -> str:
    """Returns the required checks that failed, with the weighted score; empty if none did."""
    below = [
        f"{score.name} ({score.value:.2f}, at least {score.required:g} required)"
        for score in trial.scores
        if is_below_gate(score)
    ]
    if not below:
        return ""
    mean = trial_score(trial)
    checks = "check" if len(below) == 1 else "checks"
    score_text = f"; score {mean:.2f}" if mean is not None else ""
    return f"required {checks} failed: {', '.join(below)}{score_text}"
