"""The cells of one page of the grid, with the beginnings of their answers; what is held out stays hidden."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from msgspec import Struct
from msgspec.structs import replace

from proctor.graders.reasoning import strip_reasoning
from proctor.model import Case, Output, Run, Trial, Verdict
from proctor.prompts.templates import as_text
from proctor.protocols import CaseInRun, Store
from proctor.reports.runs.serialize import TrialResult, failure_reason, question_text, seal
from proctor.services.runs.reading.grid import Grid
from proctor.services.runs.reading.grid_column import combine_verdicts
from proctor.verdicts import decide_verdict, pass_rules_for

_MAX_PREVIEW = 240
"""The maximum characters of a prompt or an answer in a row."""
_MAX_REASONING = 200_000
"""The number of characters in which the end of a model's reasoning is looked for."""


class GridCell(Struct, frozen=True, kw_only=True):
    """What one run has for one case."""

    run: Run
    position: int
    """The position of the case in the suite of the run."""
    verdict: Verdict
    """The verdict of the case."""
    trial: TrialResult
    """The trial whose answer is shown: the first with that verdict; hidden if it is held out. Its case is as
    in the suite, without the prompt of the run."""
    trial_count: int
    """The number of finished repeats."""
    passed_count: int
    has_other_input: bool
    """Whether the case was edited since the first run of the row."""
    answer: str = ""
    """The beginning of the answer, or why there is none; empty if it is hidden."""

    @property
    def sealed(self) -> bool:
        """Whether it is held out and hidden."""
        return self.trial.sealed

    @property
    def output(self) -> Output | None:
        """The answer; None if there is none, or it is hidden."""
        return self.trial.trial.output


class GridRow(Struct, frozen=True, kw_only=True):
    """One case with its cells."""

    number: int
    case_id: str
    question: str
    """The beginning of its prompt; empty if any cell is hidden."""
    cells: tuple[GridCell | None, ...]
    """One for each run; None if it has no finished trial of the case."""

    @property
    def first_cell(self) -> GridCell | None:
        """The first cell that there is."""
        return next((cell for cell in self.cells if cell is not None), None)

    @property
    def case(self) -> Case | None:
        """The case of the first cell; None if any cell is hidden."""
        cells = [cell for cell in self.cells if cell is not None]
        return cells[0].trial.case if cells and not any(cell.sealed for cell in cells) else None


def read_grid_rows(
    store: Store, grid: Grid, runs: Sequence[Run], rows: Sequence[int], revealed: Set[str]
) -> Iterator[GridRow]:
    """Yields some rows of a grid.

    Args:
        store: has the runs.
        grid: the grid of the runs.
        runs: one for each column.
        rows: the numbers of the rows.
        revealed: the ids of the runs whose held-out trials are shown in full.

    Raises:
        StoreError: the store cannot be read.
    """
    positions = [grid.get_positions(number) for number in rows]
    # Without the prompt of the run: rows have what is the same in all runs.
    columns = [
        store.cases_in_run(replace(run, prompt=None), column)
        for run, column in zip(runs, zip(*positions, strict=True), strict=bool(positions))
    ]
    for number, row_positions, places in zip(rows, positions, zip(*columns, strict=True), strict=True):
        cells, first_digest = list[GridCell | None](), None
        for run, position, place in zip(runs, row_positions, places, strict=True):
            cell = None if place is None else _make_cell(run, position, place, first_digest, revealed)
            if place is not None and cell is not None:
                first_digest = first_digest or place.case.sent_digest
            cells.append(cell)
        row = GridRow(number=number, case_id=grid.case_ids[number], question="", cells=tuple(cells))
        yield row if row.case is None else replace(row, question=preview_input(row.case))


def list_values(case: Case) -> str:
    """Returns the values that a case has for the prompt of a run, each in a line with its name."""
    return "\n".join(f"{name}: {as_text(value)}" for name, value in case.vars.items())


def preview_input(case: Case) -> str:
    """Returns the beginning of a case's prompt, or of the values that it has for a run's prompt."""
    return (question_text(case) or list_values(case))[:_MAX_PREVIEW]


def _make_cell(
    run: Run, position: int, place: CaseInRun, first_digest: str | None, revealed: Set[str]
) -> GridCell | None:
    case = place.case.case
    rule = pass_rules_for(run)(case)
    trials = [
        (stored.trial, decide_verdict(stored.trial, rule))
        for stored in place.trials
        if stored.verdict is not None
    ]
    if not trials:
        return None
    verdict = combine_verdicts(run, case, trials)
    trial, trial_verdict = next((each for each in trials if each[1] is verdict), trials[0])
    result = TrialResult(trial=trial, verdict=trial_verdict, case=case)
    result = result if run.id in revealed else seal(result)
    return GridCell(
        run=run,
        position=position,
        verdict=verdict,
        trial=result,
        trial_count=len(trials),
        passed_count=sum(each_verdict is Verdict.PASS for _, each_verdict in trials),
        has_other_input=first_digest not in (None, place.case.sent_digest),
        answer="" if result.sealed else _preview_answer(trial),
    )


def _preview_answer(trial: Trial) -> str:
    """Returns the beginning of an answer without the model's reasoning, or why there is no answer."""
    output = trial.output
    if output is None:
        return failure_reason(trial)[:_MAX_PREVIEW]
    text = strip_reasoning(output.text[:_MAX_REASONING]).strip()[:_MAX_PREVIEW]
    if not text and output.tool_calls:
        text = ", ".join(f"calls {call.name}" for call in output.tool_calls)[:_MAX_PREVIEW]
    return text
