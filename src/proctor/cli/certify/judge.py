"""`proctor certify --judge`: compares a judge with human labels, and prints and writes the calibration."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from typing import Any, NamedTuple

import click

from proctor.cli.certify.output import make_target_pool
from proctor.cli.echo import echo_err
from proctor.cli.options import open_store, store_location
from proctor.cli.output_files import check_outputs, draw_svg, file_ending, print_and_write
from proctor.cli.run_and_report import STOPPING, watch_signals
from proctor.errors import ExitCode, UsageError
from proctor.holdout import SEALED_REASON
from proctor.model import Params, TargetSpec, Verdict
from proctor.plurals import pluralize, trial_name
from proctor.reports.certificates import judge_certificate
from proctor.reports.document import Block, Column, Paragraph, Table, render_markdown, render_terminal
from proctor.reports.formatting import cost, to_json
from proctor.safe_text import one_line, truncate
from proctor.services.judges.calibrate import (
    CalibrationResult,
    CallPlan,
    JudgeCalibrator,
    LabelDifference,
    plan_calls,
    store_calibration,
)
from proctor.services.judges.label_export import load_stored_labels, no_labels_error
from proctor.services.judges.label_files import read_labels
from proctor.services.judges.labelled_answers import AnswerSelection, find_answers
from proctor.services.progress import Progress
from proctor.services.runs.execution.target_pool import TargetPool
from proctor.services.runs.planning.target_names import TargetNames
from proctor.validation import quote_value

DEFAULT_REPEATS = 3
"""The default number of judge votes per answer."""
_PROGRESS_EVERY_S = 2.0
_MAX_LISTED = 10
_MAX_TEXT_LENGTH = 160


class SkippedLabels(NamedTuple):
    """Labels that the calibration does not use."""

    unlabelled: int
    """Lines without a label yet."""
    unjudged: int
    """Labelled answers of cases that have no judge."""
    deleted: int
    """Labels of runs that were deleted."""


def certify_judge(**options: Any) -> int:
    """Calibrates a judge with labelled answers; stores, prints and writes the calibration.

    Args:
        **options: the parameters of the command.
    """
    outputs: Sequence[str] = options["outputs"]
    check_outputs(outputs)
    labels_of_file = None if options["labels"] is None else read_labels(options["labels"])
    if labels_of_file is None and options["run"] is None and not store_location(options["store"]).exists():
        raise no_labels_error(None)
    with open_store(options["store"], must_exist=options["run"] is not None, writes=True) as store:
        labels = labels_of_file or load_stored_labels(
            store, None if options["run"] is None else store.run(options["run"])
        )
        selection = find_answers(labels, store, options["run"], os.environ)
        spec = _judge_spec(options, selection)
        with redirect_stdout(sys.stderr):  # output of user-defined functions must not mix with ours
            try:
                result = asyncio.run(_calibrate(spec, selection, options))
            except asyncio.CancelledError:
                raise click.Abort from None  # a second signal stopped it at once
        store_calibration(store, selection, result)
    skipped = SkippedLabels(labels.unlabelled, selection.unjudged, labels.orphaned)
    calibration = result.calibration
    if result.unfinished:
        code = ExitCode.INTERRUPTED
    elif not calibration.count or calibration.unscored > options["allow_errors"]:
        code = ExitCode.NOT_MEASURED
    else:
        code = ExitCode.OK
    data = {**_to_dict(result, skipped), "exit_code": int(code)}
    print_and_write(
        outputs,
        render_file=lambda path: _render_file(path, result, skipped),
        render_text=lambda: render_terminal(_document(result, skipped)),
        render_json=(lambda: to_json(data)) if options["as_json"] else None,
    )
    return code


def _judge_spec(options: Mapping[str, Any], selection: AnswerSelection) -> TargetSpec:
    """Returns the judge, resolved as in a run of the same suite, so that both have the same digest."""
    names = TargetNames(os.environ)
    if len(selection.runs) == 1:
        names = names.for_folder(selection.runs[0].suite.folder)
    return names.get_spec(
        options["judge"], Params(temperature=options["judge_temperature"] or 0.0), judged=False
    )


async def _calibrate(
    spec: TargetSpec, selection: AnswerSelection, options: Mapping[str, Any]
) -> CalibrationResult:
    progress = Progress(quiet=False, write_line=lambda _line: None)
    targets = make_target_pool(options, progress)
    repeats = options["repeats"] or DEFAULT_REPEATS
    plan = plan_calls(selection.answers, repeats)
    try:
        if options["budget_usd"] is not None:
            targets.require_prices([spec])
        account = targets.start_run(budget_usd=options["budget_usd"], cached=options["cache"])
        await targets.open_target(spec, judging=True)  # before the plan is printed
        progress.notify(_describe_plan(targets, spec, plan))
        calibrator = JudgeCalibrator(targets, spec)
        _stop_on_signals(calibrator, progress)
        progress_task = asyncio.create_task(_show_progress(calibrator, plan.verdicts))
        try:
            result = await calibrator.calibrate(
                selection.answers, repeats=repeats, workers=options["concurrency"]
            )
        finally:
            progress_task.cancel()
        for note in account.notes():
            progress.notify(note)
        return result
    finally:
        await targets.aclose()
        progress.close()


def _stop_on_signals(calibrator: JudgeCalibrator, progress: Progress) -> None:
    """Makes the first signal stop the calls as in a run, and the second one end the command at once."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    is_stopping = False

    def stop() -> None:
        nonlocal is_stopping
        if not is_stopping:
            is_stopping = True
            calibrator.stop()
            progress.warn(STOPPING)
        elif task is not None:
            task.cancel()

    watch_signals(loop, stop)


def _describe_plan(targets: TargetPool, spec: TargetSpec, plan: CallPlan) -> str:
    """Describes the planned calls, with their price if it is known."""
    price = targets.get_price(spec)
    at = " (price unknown)"
    if price is not None:
        at = f" at ${price.input:g} per million input tokens and ${price.output:g} per million output tokens"
    about = f"{one_line(spec.name)} judges {pluralize(plan.answers, 'answer')}"
    calls = f"{pluralize(plan.calls, 'call')}, or up to {plan.max_calls:,} if replies cannot be read"
    return f"{about}: {calls}{at}."


async def _show_progress(calibrator: JudgeCalibrator, verdicts: int) -> None:
    """Prints progress and cost to stderr every few seconds, also while no call ends."""
    while True:
        await asyncio.sleep(_PROGRESS_EVERY_S)
        usage = calibrator.usage
        parts = (f"{calibrator.verdict_count:,}/{verdicts:,} verdicts", pluralize(usage.calls, "call"))
        echo_err(" · ".join((*parts, f"cost {cost(usage.cost_usd)}")))


# --- the report --------------------------------------------------------------------------------------------


def _document(result: CalibrationResult, skipped: SkippedLabels) -> Iterator[Block]:
    calibration, usage = result.calibration, result.usage
    if not calibration.count:
        if calibration.unscored:
            answers = pluralize(calibration.unscored, "answer")
            yield Paragraph(f"The judge {calibration.name} gave no verdict on any of {answers}.")
    else:
        yield from judge_certificate.document_for(calibration)
    yield from map(Paragraph, _describe_skipped(result, skipped))
    has_one_reason = len({difference.reason for difference in result.differences}) == 1
    listed = result.differences[: 1 if has_one_reason and not calibration.count else _MAX_LISTED]
    more = len(result.differences) - len(listed)
    yield Table(
        columns=(Column(), Column(), Column()),
        rows=list(map(_difference_row, listed)),
        notes=[f"…and {more:,} more; --json lists all"] if more > 0 else (),
        only="terminal",
    )
    parts = [pluralize(usage.calls, "call")]
    parts += [f"{usage.cached:,} from the cache"] * bool(usage.cached)
    if usage.input_tokens or usage.output_tokens:
        parts.append(f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out")
    yield Paragraph(" · ".join([*parts, f"cost {cost(usage.cost_usd)}"]), only="terminal")


def _describe_skipped(result: CalibrationResult, skipped: SkippedLabels) -> Iterator[str]:
    """Yields a line for each kind of answer that was left out."""
    if result.unfinished:
        yield f"Not judged, because the command was stopped: {pluralize(result.unfinished, 'answer')}."
    if result.tied:
        yield f"Not judged, because people disagree: {pluralize(result.tied, 'answer')}."
    if result.not_judged:
        yield f"Not judged, because the answer is empty: {pluralize(result.not_judged, 'answer')}."
    if skipped.unjudged:
        yield f"Not judged, because no assertion has a judge: {pluralize(skipped.unjudged, 'answer')}."
    if skipped.unlabelled:
        yield f"Skipped, because they have no label yet: {pluralize(skipped.unlabelled, 'line')}."
    if skipped.deleted:
        yield f"Skipped, because their runs were deleted: {pluralize(skipped.deleted, 'label')}."
    if result.repeated_cases:
        yield (
            f"Note: {pluralize(result.repeated_cases, 'answer')} are further repeats of a case. The "
            "intervals treat all answers as independent, so they are too narrow."
        )


def _difference_row(difference: LabelDifference) -> tuple[str, str, str]:
    people = Verdict.PASS if difference.label else Verdict.FAIL
    notes = f"[{'; '.join(difference.notes)}] " if difference.notes else ""
    text = SEALED_REASON
    if difference.reason:
        text = f"{notes}{difference.reason} Answer: {quote_value(difference.answer)}"
    name = trial_name(difference.case_id, difference.repeat)
    return (
        name,
        f"judge: {difference.verdict.value.upper()}, people: {people.value.upper()}",
        truncate(text, _MAX_TEXT_LENGTH),
    )


def _to_dict(result: CalibrationResult, skipped: SkippedLabels) -> dict[str, Any]:
    usage = result.usage
    return {
        "calibration": judge_certificate.calibration_row(result.calibration)
        if result.calibration.count
        else None,
        "unscored": result.calibration.unscored,
        "left": result.unfinished,
        "divided": result.tied,
        "unasked": result.not_judged,
        "unjudged": skipped.unjudged,
        "open": skipped.unlabelled,
        "gone": skipped.deleted,
        "repeated_cases": result.repeated_cases,
        "differences": [
            {
                "case_id": difference.case_id,
                "repeat": difference.repeat,
                "label": "pass" if difference.label else "fail",
                "judge": difference.verdict.value,
                "reason": difference.reason,
                "notes": list(difference.notes),
            }
            for difference in result.differences
        ],
        "calls": usage.calls,
        "cached": usage.cached,
        "usage": {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens},
        "cost_usd": usage.cost_usd,
    }


def _render_file(path: str, result: CalibrationResult, skipped: SkippedLabels) -> str:
    """Returns a calibration in the format of the file's ending."""
    calibration, ending = result.calibration, file_ending(path)
    if ending == ".json":
        return to_json(_to_dict(result, skipped)) + "\n"
    if not calibration.count:
        raise UsageError(f"{path!r} was not written, because the judge gave no verdict.")
    if ending == ".svg":
        return draw_svg(lambda: judge_certificate.draw_chart(calibration))
    return "".join(render_markdown(_document(result, skipped)))
