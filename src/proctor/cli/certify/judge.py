"""`proctor certify --judge`: a judge beside the labels of people, and what that came to."""

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
from proctor.cli.echo import say_json, tell
from proctor.cli.options import open_store, show, store_location
from proctor.cli.output_files import check_outputs, drawn, ending_of, write_output
from proctor.cli.progress import Progress
from proctor.errors import ExitCode, UsageError
from proctor.model import Calibration, Params, TargetSpec
from proctor.plurals import counted
from proctor.protocols import Store
from proctor.reports.certificates import of_judge
from proctor.reports.formatting import as_json, cost
from proctor.safe_text import one_line
from proctor.services.judges.calibrate import Calibrated, Calibrating, Difference, asks, is_asked
from proctor.services.judges.label_export import no_labels, stored_labels
from proctor.services.judges.label_files import read_labels
from proctor.services.judges.labelled_answers import Found, find_answers
from proctor.services.progress_lines import Pace
from proctor.services.runs.execution.target_pool import Reach
from proctor.services.runs.planning.target_names import Names
from proctor.services.runs.reading.report import keep_look
from proctor.splits import SEALED
from proctor.verdicts import Spent

REPEATS = 3
"""How often a judge is asked about each answer as a run asks it."""
_LISTED = 10
_LONGEST = 160


class LeftOut(NamedTuple):
    """What the file of labels has besides answers that were judged."""

    open: int
    """Lines without a label yet."""
    unjudged: int
    """Labelled answers of cases that no judge is asked about."""
    gone: int
    """Labels of runs that were deleted."""


def certify_judge(**given: Any) -> int:
    """Ask a judge about labelled answers, keep, print and write what that came to.

    Args:
        **given: the parameters of the command.
    """
    outputs: Sequence[str] = given["outputs"]
    check_outputs(outputs)
    in_file = None if given["labels"] is None else read_labels(given["labels"])
    if in_file is None and given["run"] is None and not store_location(given["store"]).exists():
        raise no_labels(None)
    with open_store(given["store"], must_exist=given["run"] is not None, writes=True) as store:
        labels = in_file or stored_labels(store, None if given["run"] is None else store.run(given["run"]))
        found = find_answers(labels, store, given["run"], os.environ)
        spec = _judge(given, found)
        with redirect_stdout(sys.stderr):  # what a function of the user's prints is no part of this
            done = asyncio.run(_calibrated(spec, found, given))
        _keep(store, found, done)
    told = LeftOut(labels.open, found.unjudged, labels.gone)
    code = ExitCode.INTERRUPTED if done.left else _exit_code(done.calibration, given["allow_errors"])
    if given["as_json"]:
        say_json(as_json({**_data(done, told), "exit_code": int(code)}))
    else:
        show(_lines(done, told))
    for path in outputs:
        _write(path, done, told)
    return code


def _judge(given: Mapping[str, Any], found: Found) -> TargetSpec:
    """The judge, named as a run of the same suite names it, so that both have the same digest."""
    names = Names(os.environ)
    if len(found.runs) == 1:
        names = names.near(found.runs[0].suite.folder)
    return names.spec(given["judge"], Params(temperature=given["judge_temperature"] or 0.0), judged=False)


async def _calibrated(spec: TargetSpec, found: Found, given: Mapping[str, Any]) -> Calibrated:
    progress = Progress(quiet=False, say=lambda _line: None)
    reach = reach_of(given, progress)
    repeats = given["repeats"] or REPEATS
    answers = sum(map(is_asked, found.answers))
    total = answers * len(asks(repeats))
    try:
        if given["budget_usd"] is not None:
            reach.require_prices([spec])
        reach.begin(budget_usd=given["budget_usd"], cached=given["cache"])
        progress.tell(_plan(reach, spec, answers, total))
        calibrating = Calibrating(reach, spec, _telling(total))
        _stop_when_told(calibrating, progress)
        done = await calibrating.calibrate(found.answers, repeats=repeats, workers=given["concurrency"])
        for note in reach.notes():
            progress.tell(note)
        return done
    finally:
        await reach.aclose()
        progress.close()


def _stop_when_told(calibrating: Calibrating, progress: Progress) -> None:
    """Let the first Ctrl-C end the asking, and the second one everything."""
    loop = asyncio.get_running_loop()

    def stop() -> None:
        calibrating.stop()
        progress.warn("Stopping: calls under way are waited for. Press Ctrl-C again to stop at once.")
        loop.remove_signal_handler(signal.SIGINT)

    with suppress(NotImplementedError):  # there is none on Windows
        loop.add_signal_handler(signal.SIGINT, stop)


def _plan(reach: Reach, spec: TargetSpec, answers: int, total: int) -> str:
    """What is about to be asked, and what that costs, as far as it is known."""
    price = reach.price(spec)
    at = "; its price is not known"
    if price is not None:
        at = f", at ${price.input:g} in and ${price.output:g} out per million tokens"
    calls = counted(total, "call")
    about = f"Asking {one_line(spec.name)} about {counted(answers, 'answer')}"
    return f"{about}: {calls}, more where a reply cannot be read{at}."


def _telling(total: int) -> Callable[[int, Spent], None]:
    """Tells on stderr how far it is and what it has cost, where it takes long."""
    pace = Pace()

    def told(done: int, spent: Spent) -> None:
        if pace.is_due() and done < total:
            tell(f"{done:,}/{total:,} asked · cost {cost(spent.cost_usd)}")

    return told


def _keep(store: Store, found: Found, done: Calibrated) -> None:
    """Keep the calibration, and that the labels show how much of a holdout people pass."""
    if done.calibration.count:
        store.calibrate(done.calibration)
    held_out = [one.run for one in found.answers if one.run is not None and one.trial.split == "holdout"]
    for run in {run.id: run for run in held_out}.values():
        keep_look(store, run, "rate")


def _exit_code(found: Calibration, allowed: int) -> ExitCode:
    if not found.count or found.unscored > allowed:
        return ExitCode.NOT_MEASURED
    return ExitCode.OK


# --- what is told ------------------------------------------------------------------------------------------


def _lines(done: Calibrated, told: LeftOut) -> Iterator[str]:
    found = done.calibration
    if not found.count:
        answers = counted(found.unscored, "answer")
        yield one_line(f"The judge {found.name} gave no verdict on any of {answers}.")
    else:
        yield from of_judge.lines(found)
    yield from _besides(done, told)
    if done.differences:
        yield ""
        yield from map(_difference_line, done.differences[:_LISTED])
        more = len(done.differences) - _LISTED
        if more > 0:
            yield f"…and {more:,} more: --json has all"
    yield ""
    spent = done.spent
    parts = [counted(spent.calls, "call")]
    parts += [f"{spent.cached:,} from the cache"] * bool(spent.cached)
    if spent.input_tokens or spent.output_tokens:
        parts.append(f"{spent.input_tokens:,} tokens in, {spent.output_tokens:,} out")
    yield " · ".join([*parts, f"cost {cost(spent.cost_usd)}"])


def _besides(done: Calibrated, told: LeftOut) -> Iterator[str]:
    """What was left out."""
    if done.left:
        yield f"Stopped, and not asked about all of the rest: {counted(done.left, 'answer')}."
    if done.divided:
        yield f"Not asked, as people are divided: {counted(done.divided, 'answer')}."
    if done.unasked:
        yield f"Not asked, as there is nothing to judge: {counted(done.unasked, 'answer')}."
    if told.unjudged:
        yield f"Not asked, as no assertion asks a judge: {counted(told.unjudged, 'answer')}."
    if told.open:
        yield f"Without a label yet: {counted(told.open, 'line')}."
    if told.gone:
        yield f"Of runs that were deleted, and left out: {counted(told.gone, 'label')}."
    if done.repeated_cases:
        yield (
            f"Note: further repeats of a case: {counted(done.repeated_cases, 'answer')}. The intervals take "
            "all as independent, and are too narrow."
        )


def _difference_line(one: Difference) -> str:
    repeat = f" (repeat {one.repeat})" if one.repeat else ""
    people = "people pass it" if one.label else "people fail it"
    notes = f" [{'; '.join(one.notes)}]" if one.notes else ""
    about = f"{one_line(f'{one.case_id}{repeat}')}  {people}{notes and ' ' + one_line(notes)}"
    line = f"{one.said.value.upper():<8}  {about}: {one_line(one.reason or SEALED)}"
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def _data(done: Calibrated, told: LeftOut) -> dict[str, Any]:
    spent = done.spent
    return {
        "calibration": of_judge.row(done.calibration) if done.calibration.count else None,
        "unscored": done.calibration.unscored,
        "left": done.left,
        "divided": done.divided,
        "unasked": done.unasked,
        "unjudged": told.unjudged,
        "open": told.open,
        "gone": told.gone,
        "repeated_cases": done.repeated_cases,
        "differences": [
            {
                "case_id": one.case_id,
                "repeat": one.repeat,
                "label": "pass" if one.label else "fail",
                "judge": one.said.value,
                "reason": one.reason,
                "notes": list(one.notes),
            }
            for one in done.differences
        ],
        "calls": spent.calls,
        "cached": spent.cached,
        "usage": {"input_tokens": spent.input_tokens, "output_tokens": spent.output_tokens},
        "cost_usd": spent.cost_usd,
    }


def _write(path: str, done: Calibrated, told: LeftOut) -> None:
    found, ending = done.calibration, ending_of(path)
    if ending == ".json":
        text = as_json(_data(done, told)) + "\n"
    elif not found.count:
        raise UsageError(f"{path!r} is not written: the judge gave no verdict.")
    elif ending == ".svg":
        text = drawn(lambda: of_judge.chart(found))
    else:
        text = "".join(chain([of_judge.markdown(found)], (f"\n{line}\n" for line in _besides(done, told))))
    write_output(path, text)
