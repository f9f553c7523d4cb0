"""`proctor certify --judge`: compares a judge with human labels, and prints and writes the calibration."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from itertools import chain
from typing import Any, NamedTuple

from proctor.cli.certify.output import reach_of
from proctor.cli.echo import echo_err, echo_json
from proctor.cli.options import open_store, show, store_location
from proctor.cli.output_files import check_outputs, drawn, ending_of, write_output
from proctor.cli.progress import Progress
from proctor.errors import ExitCode, UsageError
from proctor.model import Calibration, Params, TargetSpec
from proctor.plurals import counted
from proctor.reports.certificates import of_judge
from proctor.reports.formatting import as_json, cost
from proctor.safe_text import one_line
from proctor.services.judges.calibrate import (
    Calibrated,
    Calibrating,
    Difference,
    needs_judge,
    prompt_variants,
    store_calibration,
)
from proctor.services.judges.label_export import no_labels, stored_labels
from proctor.services.judges.label_files import read_labels
from proctor.services.judges.labelled_answers import Found, find_answers
from proctor.services.progress_lines import Pace
from proctor.services.runs.execution.target_pool import Reach
from proctor.services.runs.planning.target_names import Names
from proctor.splits import SEALED
from proctor.verdicts import Spent

REPEATS = 3
"""The default number of judge votes per answer."""
_MAX_LISTED = 10
_MAX_LINE_LENGTH = 160


class SkippedLabels(NamedTuple):
    """Labels that the calibration does not use."""

    open: int
    """Lines without a label yet."""
    unjudged: int
    """Labelled answers of cases that have no judge."""
    gone: int
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
        raise no_labels(None)
    with open_store(options["store"], must_exist=options["run"] is not None, writes=True) as store:
        labels = labels_of_file or stored_labels(
            store, None if options["run"] is None else store.run(options["run"])
        )
        selection = find_answers(labels, store, options["run"], os.environ)
        spec = _judge_spec(options, selection)
        with redirect_stdout(sys.stderr):  # output of user-defined functions must not mix with ours
            result = asyncio.run(_calibrate(spec, selection, options))
        store_calibration(store, selection, result)
    skipped = SkippedLabels(labels.open, selection.unjudged, labels.gone)
    code = ExitCode.INTERRUPTED if result.left else _exit_code(result.calibration, options["allow_errors"])
    if options["as_json"]:
        echo_json(as_json({**_data(result, skipped), "exit_code": int(code)}))
    else:
        show(_lines(result, skipped))
    for path in outputs:
        _write(path, result, skipped)
    return code


def _judge_spec(options: Mapping[str, Any], selection: Found) -> TargetSpec:
    """Returns the judge, resolved as in a run of the same suite, so that both have the same digest."""
    names = Names(os.environ)
    if len(selection.runs) == 1:
        names = names.near(selection.runs[0].suite.folder)
    return names.spec(options["judge"], Params(temperature=options["judge_temperature"] or 0.0), judged=False)


async def _calibrate(spec: TargetSpec, selection: Found, options: Mapping[str, Any]) -> Calibrated:
    progress = Progress(quiet=False, write_line=lambda _line: None)
    targets = reach_of(options, progress)
    repeats = options["repeats"] or REPEATS
    answers = sum(map(needs_judge, selection.answers))
    total = answers * len(prompt_variants(repeats))
    try:
        if options["budget_usd"] is not None:
            targets.require_prices([spec])
        targets.begin(budget_usd=options["budget_usd"], cached=options["cache"])
        progress.tell(_describe_plan(targets, spec, answers, total))
        calibration = Calibrating(targets, spec, _report_progress(total))
        _stop_on_interrupt(calibration, progress)
        result = await calibration.calibrate(
            selection.answers, repeats=repeats, workers=options["concurrency"]
        )
        for note in targets.notes():
            progress.tell(note)
        return result
    finally:
        await targets.aclose()
        progress.close()


def _stop_on_interrupt(calibration: Calibrating, progress: Progress) -> None:
    """Makes the first Ctrl-C stop further calls, and the second one stop at once."""
    loop = asyncio.get_running_loop()

    def stop() -> None:
        calibration.stop()
        progress.warn("Stopping: calls under way are waited for. Press Ctrl-C again to stop at once.")
        loop.remove_signal_handler(signal.SIGINT)

    with suppress(NotImplementedError):  # there is none on Windows
        loop.add_signal_handler(signal.SIGINT, stop)


def _describe_plan(targets: Reach, spec: TargetSpec, answers: int, total: int) -> str:
    """Describes the planned calls, with their price if it is known."""
    price = targets.price(spec)
    at = "; its price is not known"
    if price is not None:
        at = f", at ${price.input:g} in and ${price.output:g} out per million tokens"
    calls = counted(total, "call")
    about = f"Asking {one_line(spec.name)} about {counted(answers, 'answer')}"
    return f"{about}: {calls}, more where a reply cannot be read{at}."


def _report_progress(total: int) -> Callable[[int, Spent], None]:
    """Returns a callback that prints progress and cost to stderr if the calibration takes long."""
    pace = Pace()

    def report(count: int, usage: Spent) -> None:
        if pace.is_due() and count < total:
            echo_err(f"{count:,}/{total:,} asked · cost {cost(usage.cost_usd)}")

    return report


def _exit_code(calibration: Calibration, max_errors: int) -> ExitCode:
    if not calibration.count or calibration.unscored > max_errors:
        return ExitCode.NOT_MEASURED
    return ExitCode.OK


# --- the report --------------------------------------------------------------------------------------------


def _lines(result: Calibrated, skipped: SkippedLabels) -> Iterator[str]:
    calibration = result.calibration
    if not calibration.count:
        answers = counted(calibration.unscored, "answer")
        yield one_line(f"The judge {calibration.name} gave no verdict on any of {answers}.")
    else:
        yield from of_judge.lines(calibration)
    yield from _describe_skipped(result, skipped)
    if result.differences:
        yield ""
        yield from map(_difference_line, result.differences[:_MAX_LISTED])
        more = len(result.differences) - _MAX_LISTED
        if more > 0:
            yield f"…and {more:,} more: --json has all"
    yield ""
    usage = result.spent
    parts = [counted(usage.calls, "call")]
    parts += [f"{usage.cached:,} from the cache"] * bool(usage.cached)
    if usage.input_tokens or usage.output_tokens:
        parts.append(f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out")
    yield " · ".join([*parts, f"cost {cost(usage.cost_usd)}"])


def _describe_skipped(result: Calibrated, skipped: SkippedLabels) -> Iterator[str]:
    """Yields a line for each kind of answer that was left out."""
    if result.left:
        yield f"Stopped before all replies were in: {counted(result.left, 'answer')}."
    if result.divided:
        yield f"Not judged, because people disagree: {counted(result.divided, 'answer')}."
    if result.unasked:
        yield f"Not judged, because the answer is empty: {counted(result.unasked, 'answer')}."
    if skipped.unjudged:
        yield f"Not judged, because no assertion has a judge: {counted(skipped.unjudged, 'answer')}."
    if skipped.open:
        yield f"Without a label yet: {counted(skipped.open, 'line')}."
    if skipped.gone:
        yield f"Of runs that were deleted, and left out: {counted(skipped.gone, 'label')}."
    if result.repeated_cases:
        yield (
            f"Note: further repeats of a case: {counted(result.repeated_cases, 'answer')}. The intervals "
            "take all as independent, and are too narrow."
        )


def _difference_line(difference: Difference) -> str:
    repeat = f" (repeat {difference.repeat})" if difference.repeat else ""
    people = "people pass it" if difference.label else "people fail it"
    notes = f" [{'; '.join(difference.notes)}]" if difference.notes else ""
    about = f"{one_line(f'{difference.case_id}{repeat}')}  {people}{notes and ' ' + one_line(notes)}"
    line = f"{difference.said.value.upper():<8}  {about}: {one_line(difference.reason or SEALED)}"
    return line if len(line) <= _MAX_LINE_LENGTH else f"{line[: _MAX_LINE_LENGTH - 1]}…"


def _data(result: Calibrated, skipped: SkippedLabels) -> dict[str, Any]:
    usage = result.spent
    return {
        "calibration": of_judge.row(result.calibration) if result.calibration.count else None,
        "unscored": result.calibration.unscored,
        "left": result.left,
        "divided": result.divided,
        "unasked": result.unasked,
        "unjudged": skipped.unjudged,
        "open": skipped.open,
        "gone": skipped.gone,
        "repeated_cases": result.repeated_cases,
        "differences": [
            {
                "case_id": difference.case_id,
                "repeat": difference.repeat,
                "label": "pass" if difference.label else "fail",
                "judge": difference.said.value,
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


def _write(path: str, result: Calibrated, skipped: SkippedLabels) -> None:
    calibration, ending = result.calibration, ending_of(path)
    if ending == ".json":
        text = as_json(_data(result, skipped)) + "\n"
    elif not calibration.count:
        raise UsageError(f"{path!r} is not written: the judge gave no verdict.")
    elif ending == ".svg":
        text = drawn(lambda: of_judge.chart(calibration))
    else:
        text = "".join(
            chain(
                [of_judge.markdown(calibration)],
                (f"\n{line}\n" for line in _describe_skipped(result, skipped)),
            )
        )
    write_output(path, text)
