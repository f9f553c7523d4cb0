"""Renders runs as one self-contained HTML file: no script, no network, every value escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from functools import cached_property

from proctor.charts import Chart
from proctor.errors import UsageError
from proctor.model import Run, Verdict
from proctor.parameters import describe_parameters
from proctor.reports.document import RATE_COLUMNS, Column, Facts, Paragraph, Table
from proctor.reports.formatting import NONE, milliseconds, seconds, token_counts
from proctor.reports.runs import histogram
from proctor.reports.runs.blocks import cost_text, count_notes, count_row, group_tables
from proctor.reports.runs.command_line import rerun_command
from proctor.reports.runs.serialize import (
    NO_LATENCY,
    RunReport,
    TrialResult,
    access_note,
    counts_by_tag,
    judge_notes,
    latency_scope,
    prompt_record,
    reuse_notes,
    speed_texts,
)
from proctor.reports.runs.settings import describe_settings
from proctor.reports.runs.splits import split_notes

MAX_DETAILED_TRIALS = 300
"""At most this many failed trials are shown with prompt, answer and scores."""
MAX_LISTED_TRIALS = 5_000
"""At most this many further trials are shown as a line, for passed and failed ones each."""
MAX_GROUPS = 200
"""At most this many categories and tags are listed."""
MAX_TEXT_LENGTH = 20_000
"""Maximum length of a text."""
_MIN_ANSWERS = 2
"""Minimum number of answers for a chart."""


def render(runs: Sequence[RunReport]) -> Iterator[str]:
    """Yields a page with all runs, each with its numbers, parts, trials and settings."""
    from proctor.reports.html_templates import make_environment

    templates = make_environment()
    style = templates.get_template("proctor.css").render()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    page = templates.get_template("report.html").generate(
        runs=[RunSection(report, number) for number, report in enumerate(runs, start=1)],
        overview=_overview(runs),
        style_digest=digest,
        longest=MAX_TEXT_LENGTH,
    )
    yield from map(str, page)


def _overview(runs: Sequence[RunReport]) -> Table:
    return Table(
        columns=(Column("run"), *RATE_COLUMNS, Column("median latency", "milliseconds"), Column("cost")),
        rows=[
            (
                *count_row(
                    f"{report.run.suite.title} on {report.run.target_title}", report.tally.result_counts
                ),
                report.tally.latency_ms().p50,
                cost_text(report.tally),
            )
            for report in runs
        ],
        notes=[
            f"Latency{scope} in {report.run.suite.title} on {report.run.target_title}."
            for report in runs
            if (scope := latency_scope(report.tally.latency_ms()))
        ],
    )


class RunSection:
    """The values that the template shows of one run."""

    def __init__(self, report: RunReport, number: int) -> None:
        self.report, self.run, self.tally = report, report.run, report.tally
        self.anchor = f"run-{number}"
        self.link = f"#{self.anchor}"
        self.counts = report.tally.result_counts
        self.trials = TrialListing(report)

    @property
    def name(self) -> str:
        """The suite and the target."""
        return f"{self.run.suite.title} on {self.run.target_title}"

    @property
    def notes(self) -> Iterator[Paragraph]:
        """Warnings about the numbers, and sentences that explain them."""
        for warning in (*split_notes(self.tally.splits), *self.run.warnings):
            yield Paragraph(warning, style="warning")
        for note in (*count_notes(self.report), access_note(self.report), *judge_notes(self.report)):
            if note is not None:
                yield Paragraph(note, style="note")

    @property
    def parts(self) -> Iterator[Table]:
        """The tables of the splits, categories and tags."""
        tally = self.tally
        for name, groups in (
            ("split", tally.splits),
            ("category", tally.categories),
            ("tag", counts_by_tag(tally)),
        ):
            yield from group_tables(name, groups, MAX_GROUPS)

    @cached_property
    def charts(self) -> tuple[list[tuple[str, str, str]], str]:
        """The charts as (title, light image URL, dark image URL), and why there are none."""
        classes = histogram.make_bins(self.tally.latencies_ms.sort())
        if sum(bin_.count for bin_ in classes) < _MIN_ANSWERS:
            return [], ""
        left_out = self.tally.latency_ms().left_out
        title = "Latency of answers" + f", without {left_out:,} from the cache or reused" * bool(left_out)
        chart = histogram.draw_histogram(classes, title=title, unit="latency", write=histogram.format_ms)
        try:
            return [(title, _image(chart, dark=False), _image(chart, dark=True))], ""
        except UsageError as error:
            return [], str(error)

    @property
    def facts(self) -> Facts:
        """Settings, versions and duration of the run."""
        return Facts([(name, value) for name, value in _facts(self.run, self.report) if value])

    @property
    def command(self) -> str:
        """The command line that repeats the run."""
        return rerun_command(self.run)


class TrialListing:
    """Iterates over the trials that the report shows, and counts those that it leaves out."""

    def __init__(self, report: RunReport) -> None:
        self._report = report
        self.sealed_count = self.more_passed = self.more_missed = 0

    def __iter__(self) -> Iterator[tuple[TrialResult, bool]]:
        """Yields each trial that is shown, and whether it is shown with prompt, answer and scores."""
        sheets = passed = missed = 0
        for row in self._report.rows():
            self.sealed_count += row.sealed
            if row.verdict is Verdict.PASS:
                passed += 1
                self.more_passed += passed > MAX_LISTED_TRIALS
                if passed <= MAX_LISTED_TRIALS:
                    yield row, False
            elif sheets < MAX_DETAILED_TRIALS and not row.sealed:
                sheets += 1
                yield row, True
            else:
                missed += 1
                self.more_missed += missed > MAX_LISTED_TRIALS
                if missed <= MAX_LISTED_TRIALS:
                    yield row, False


def _image(chart: Chart, *, dark: bool) -> str:
    """Returns a chart as a data URL."""
    return f"data:image/svg+xml;base64,{base64.b64encode(chart.svg(dark=dark).encode()).decode()}"


def _facts(run: Run, report: RunReport) -> Iterator[tuple[str, str]]:
    tally = report.tally
    usage, latency = tally.target_usage, tally.latency_ms()
    yield "Cost", cost_text(tally)
    scope = latency_scope(latency)
    figures = f"median {milliseconds(latency.p50)}, 95 % under {milliseconds(latency.p95)}{scope}"
    if latency.p50 is None and latency.left_out:
        figures = NO_LATENCY
    yield "Latency", "" if run.settings.is_batch and latency.p50 is None else figures
    yield "Speed", "; ".join(speed_texts(tally))
    yield "Tokens", token_counts(usage)
    yield "Reused", ", ".join(reuse_notes(tally))
    yield "Mean score", NONE if tally.mean_score is None else f"{tally.mean_score:.3f}"
    yield "Target", run.target.name
    prompt = prompt_record(run)
    yield "Prompt", "" if prompt is None else f"{prompt.name}, {prompt.digest}"
    yield "Model", ", ".join(sorted(tally.models)) or run.target.model
    yield "Parameters", describe_parameters(run.target.params, with_defaults=True)
    yield "Not applied", ", ".join(sorted(tally.refused_params))
    yield "Judges", ", ".join(judge.name for judge in run.judges)
    yield "Settings", ", ".join(describe_settings(run.settings))
    yield "Suite", f"{run.suite.title} ({run.suite.case_count:,} cases, format {run.suite.dialect})"
    yield "Suite digest", run.suite.digest
    yield "Suite hash", run.suite.suite_hash or ""
    yield "Run", run.id
    yield "Tags", ", ".join(run.tags)
    yield "Regrade of", run.regrade_of or ""
    yield "Imported", "" if run.imported is None else f"answers from a bundle, {run.imported}"
    yield "Started", f"{run.started_at:%Y-%m-%d %H:%M:%S} UTC"
    if run.finished_at is not None:
        yield "Duration", seconds((run.finished_at - run.started_at).total_seconds())
    yield "Prices of", run.prices_date or ""
    yield "Software", ", ".join(f"{name} {version}" for name, version in run.versions.items())
