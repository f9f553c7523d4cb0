"""The results of runs: numbers, trials, tables, reports and comparisons."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from msgspec.structs import replace

from proctor.errors import ExitCode, UsageError
from proctor.model import Message, PromptTemplate, Run, Suite, TargetSpec, Verdict
from proctor.protocols import Store
from proctor.python.locations import open_location
from proctor.reports.document import Block, render_terminal
from proctor.reports.runs.records import ExportedTrialRecord, RunRecord
from proctor.reports.runs.serialize import RunReport, TrialResult, run_record, trial_record
from proctor.services.runs.reading.report import build_report, read_trial_rows, write_report

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from proctor.comparison.compare import GroupBy
    from proctor.comparison.outcomes import SplitName
    from proctor.python.comparisons import RunComparison
    from proctor.stores.location import StoreLocation


class GradedTrial(ExportedTrialRecord, frozen=True, kw_only=True, gc=False):
    """A trial of a run with its case, as reports show it. A hidden one has only its verdict and numbers.

    Examples:
        >>> import proctor
        >>> run = proctor.run([{"input": "Lima", "expected": "Rome"}], target="echo", store=None)
        >>> trial = next(run.failures())
        >>> trial.verdict.value, trial.answer, trial.expected, trial.reason
        ('fail', 'Lima', 'Rome', "exact: The answer is 'Lima'; expected 'Rome'.")
    """

    input: tuple[Message, ...] | None
    """What the target received, without its own system message."""
    expected: Any
    reason: str
    """The reason for a verdict other than PASS, in one line; empty for PASS."""

    @property
    def answer(self) -> str | None:
        """The text of the answer."""
        return None if self.output is None else self.output.text


def grade_trial_record(run: Run, row: TrialResult) -> GradedTrial:
    """Returns a trial of a run as a record."""
    record = trial_record(run, row)
    return GradedTrial(
        **{name: getattr(record, name) for name in record.__struct_fields__},
        input=None if row.sealed else row.case.input,
        expected=None if row.sealed else row.case.expected,
        reason="" if row.verdict is Verdict.PASS else row.reason,
    )


class Trials(Iterator[GradedTrial]):
    """An iterator over the trials of a run, which keeps only the current one in memory.

    Examples:
        >>> import proctor
        >>> run = proctor.run([{"input": "Lima", "expected": "Lima"}], target="echo", store=None)
        >>> [trial.answer for trial in run.trials()]
        ['Lima']
    """

    def __init__(self, run: Run, read: Callable[[], Iterator[TrialResult]]) -> None:
        """Reads nothing before the first trial is requested."""
        self._run = run
        self._rows = read()

    def __next__(self) -> GradedTrial:
        """Returns the next trial."""
        return grade_trial_record(self._run, next(self._rows))

    def __iter__(self) -> Trials:
        """Returns itself, like every iterator."""
        return self

    def to_arrow(self) -> pyarrow.Table:
        """Returns the remaining trials as an Arrow table with one row per trial.

        Raises:
            UsageError: pyarrow is not installed.
        """
        from proctor.reports.runs.arrow import make_table

        return make_table(self._run, self._rows)

    def to_pandas(self) -> pandas.DataFrame:
        """Returns the remaining trials as a pandas `DataFrame`.

        Raises:
            UsageError: pyarrow or pandas is not installed.
        """
        _require("pandas")
        frame: pandas.DataFrame = self.to_arrow().to_pandas()
        return frame

    def to_polars(self) -> polars.DataFrame:
        """Returns the remaining trials as a polars `DataFrame`.

        Raises:
            UsageError: pyarrow or polars is not installed.
        """
        frame: polars.DataFrame = _require("polars").from_arrow(self.to_arrow())
        return frame


def _require(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError:
        raise UsageError(f"This needs {name}. Install it: pip install {name}") from None


class RunResult:
    """A run with its numbers and its trials, which are read from the store when you use them.

    In a terminal, it prints as the table of `proctor run`; in a notebook, as a table with its failures.

    Examples:
        >>> import proctor
        >>> rows = [{"input": "Lima", "expected": "Lima"}, {"input": "Rome", "expected": "Oslo"}]
        >>> run = proctor.run(rows, target="echo", store=None)
        >>> run.pass_rate, run.passed, run.total, run.ok
        (0.5, 1, 2, False)
        >>> [trial.answer for trial in run.failures()]
        ['Rome']
    """

    def __init__(self, report: RunReport, location: StoreLocation, *, reveal: bool = False) -> None:
        """Takes the report of a run, and the store from which its trials are read when they are needed."""
        self.location = location
        self._reveal = reveal
        run = report.run
        self._report = replace(
            report,
            rows=partial(_read_rows, location, run, reveal=reveal),
            first_failures=partial(_read_first_failures, location, report, reveal=reveal),
        )

    @property
    def run(self) -> Run:
        """The run as it is stored: suite, target, judges, settings, times."""
        return self._report.run

    @property
    def id(self) -> str:
        """The id of the run in the store."""
        return self.run.id

    @property
    def suite(self) -> Suite:
        """The suite, without its cases."""
        return self.run.suite

    @property
    def target(self) -> TargetSpec:
        """The target."""
        return self.run.target

    @property
    def prompt(self) -> PromptTemplate | None:
        """The prompt that each case fills in; None if the cases were sent unchanged."""
        return self.run.prompt

    @property
    def status(self) -> str:
        """`finished`, `interrupted` or `running`."""
        return self.run.status

    @property
    def pass_rate(self) -> float | None:
        """The mean over cases of the share of measured trials that passed; None if nothing was measured."""
        return self._report.tally.result_counts.pass_rate

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the pass rate, the same as in reports."""
        return run_record(self._report).ci95

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The pass rate if all errors and unscored trials had failed, and if all had passed."""
        return self._report.tally.result_counts.bounds

    @property
    def total(self) -> int:
        """The number of trials, or of cases if each case counts once."""
        return self._report.tally.result_counts.total

    @property
    def passed(self) -> int:
        """The number of passed trials, or cases."""
        return self._report.tally.result_counts.passed

    @property
    def failed(self) -> int:
        """The number of failed trials, or cases."""
        return self._report.tally.result_counts.failed

    @property
    def errors(self) -> int:
        """The number of trials, or cases, with the verdict ERROR."""
        return self._report.tally.result_counts.errors

    @property
    def unscored(self) -> int:
        """The number of trials, or cases, that could not be graded."""
        return self._report.tally.result_counts.unscored

    @property
    def cost_usd(self) -> float | None:
        """The cost of the target in US dollars; None if a price is unknown."""
        return self._report.tally.target_cost_usd

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of `proctor run`: 0 if all cases passed or the gate passed."""
        return self._report.exit_code

    @property
    def ok(self) -> bool:
        """Whether all cases passed; with a gate, whether the gate passed."""
        return self._report.exit_code is ExitCode.OK

    @property
    def record(self) -> RunRecord:
        """All numbers, as printed by `proctor runs show --json`."""
        return run_record(self._report)

    def trials(self) -> Trials:
        """Returns an iterator over all trials, in suite order; held-out ones are hidden unless revealed."""
        return Trials(self.run, self._report.rows)

    def failures(self) -> Trials:
        """Returns an iterator over the trials without PASS: failed, errored and unscored."""
        return Trials(
            self.run, lambda: (row for row in self._report.rows() if row.verdict is not Verdict.PASS)
        )

    def __iter__(self) -> Iterator[GradedTrial]:
        """Yields its trials."""
        return self.trials()

    def report(self, path: str | Path) -> Path:
        """Writes a report in the format of the file's extension, and returns its path.

        Args:
            path: a file that ends in `.html`, `.md`, `.json`, `.jsonl`, `.csv`, `.xml` (JUnit) or `.parquet`.

        Raises:
            UsageError: the extension is unknown, or the file cannot be written.
        """
        return write_reports([self], path)

    def attest(
        self,
        path: str | Path | None = None,
        *,
        public: bool = False,
        sign: bool = True,
        sign_key: str | None = None,
    ) -> Path:
        """Writes a bundle that anyone can check with `proctor verify`, and returns its path.

        Args:
            path: a folder, or an archive if it ends in `.zip`; None for `RUN.bundle`.
            public: replace the holdout by salted digests, so that you can publish the bundle.
            sign: sign the bundle, which needs `pip install "proctor[sign]"`. Anyone could have made an
                unsigned bundle.
            sign_key: the name of the key that signs; None for your own key, which is created if needed.

        Raises:
            UsageError: the run has not finished, the path cannot be written, or signing is not possible.
        """
        from proctor.python.bundles import write_run_bundle

        with open_location(self.location) as store:
            return write_run_bundle(store, self.run, path, public=public, sign=sign, sign_key=sign_key)

    def compare(
        self,
        baseline: RunResult,
        *,
        by: GroupBy = "category",
        split: SplitName = "all",
        by_case_digest: bool = False,
        cluster: str | None = None,
    ) -> RunComparison:
        """Compares this run with an earlier one of the same suite, case by case.

        Args:
            baseline: the earlier run, which can be in another store.
            by: how the parts are grouped: by "category" or by "tag".
            split: the cases to compare: "dev", "holdout" or "all".
            by_case_digest: pair cases by input and grading instead of by id, so that the suites can differ.
            cluster: the field that names related cases; None for that of the runs.

        Returns:
            The comparison, with this run as the candidate.

        Raises:
            UsageError: the runs are of different suites.
        """
        from proctor.python.comparisons import compare_runs

        return compare_runs(
            [baseline, self], by=by, split=split, by_case_digest=by_case_digest, cluster=cluster
        )

    def __repr__(self) -> str:
        return "\n".join(render_terminal(self.blocks()))

    def _repr_html_(self) -> str:
        """Returns the table that a notebook shows."""
        from proctor.reports.html_templates import render_fragment

        return render_fragment(self.blocks())

    def blocks(self, *, apart: bool = False) -> Iterator[Block]:
        """Yields the report; `apart` lists unmeasured cases separately from failed ones."""
        from proctor.reports.runs.console import document_for

        return document_for(self._report, apart=apart)


class RunGroup(Sequence[RunResult]):
    """The runs of one call, in order: each suite with each prompt on each target.

    Examples:
        >>> import proctor
        >>> rows = [{"input": "Lima", "expected": "Lima"}]
        >>> group = proctor.run(rows, target=["echo", str.upper], store=None)
        >>> [(run.target.name, run.passed) for run in group]
        [('echo', 1), ('upper', 0)]
        >>> group["upper"].failed
        1
    """

    def __init__(self, runs: Sequence[RunResult]) -> None:
        """Takes the runs."""
        self._runs = tuple(runs)

    @overload
    def __getitem__(self, index: int | str) -> RunResult: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[RunResult]: ...

    def __getitem__(self, index: int | str | slice) -> RunResult | Sequence[RunResult]:
        """Returns the run at an index, or the run with a name: of its target, its prompt, or "echo · terse".

        Raises:
            KeyError: no run has the name, or several runs with different prompts or targets have it.
        """
        if not isinstance(index, str):
            return self._runs[index]
        runs = [run for run in self._runs if run.run.target_title == index] or [
            run for run in self._runs if index in (run.target.name, run.run.prompt_name)
        ]
        titles = list(dict.fromkeys(run.run.target_title for run in runs or self._runs))
        if not runs:
            raise KeyError(f"There is no run on {index!r}. The runs are: {', '.join(titles)}.")
        if len(titles) > 1:
            raise KeyError(f"Several runs have the name {index!r}. Use one of: {', '.join(titles)}.")
        return runs[0]

    def __len__(self) -> int:
        return len(self._runs)

    def compare(
        self, *, by: GroupBy = "category", split: SplitName = "all", cluster: str | None = None
    ) -> RunComparison:
        """Compares the runs of one suite: two runs case by case, more than two by rank and in pairs.

        Raises:
            UsageError: the runs are of different suites, or there are fewer than two.
        """
        from proctor.python.comparisons import compare_runs

        return compare_runs(self._runs, by=by, split=split, cluster=cluster)

    def report(self, path: str | Path) -> Path:
        """Writes one report of all runs; see `RunResult.report`."""
        return write_reports(self._runs, path)

    def __repr__(self) -> str:
        return "\n".join(render_terminal([self._table()]))

    def _repr_html_(self) -> str:
        """Returns the table that a notebook shows."""
        from proctor.reports.html_templates import render_fragment

        return render_fragment([self._table()])

    def _table(self) -> Block:
        from proctor.reports.runs.blocks import overview_table

        return overview_table([run._report for run in self._runs])


def load_result(store: Store, location: StoreLocation, run: Run, *, reveal: bool = False) -> RunResult:
    """Returns the result of a stored run, from its stored totals if there are any."""
    return RunResult(build_report(store, run, reveal=reveal, stored=True), location, reveal=reveal)


def write_reports(runs: Sequence[RunResult], path: str | Path) -> Path:
    """Writes one report of runs, in the format of the file's ending, and returns its path."""
    from proctor.services.runs.reading.report import check_report_paths

    check_report_paths([str(path)])
    write_report(str(path), [run._report for run in runs])
    return Path(path)


def _read_rows(location: StoreLocation, run: Run, *, reveal: bool) -> Iterator[TrialResult]:
    with open_location(location) as store:
        yield from read_trial_rows(store, run, reveal=reveal)


def _read_first_failures(
    location: StoreLocation, report: RunReport, *, reveal: bool
) -> Iterator[TrialResult]:
    with open_location(location) as store:
        fresh = build_report(store, report.run, report.tally, reveal=reveal)
        assert fresh.first_failures is not None
        yield from fresh.first_failures()
