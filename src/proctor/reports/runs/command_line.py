"""The command line that repeats a run. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from proctor.model import Params, Run, Selection, Settings


def rerun_command(run: Run) -> str:
    """Returns the command that runs the same cases on the same target with the same settings.

    The suite is named as in the store, so the command needs that store, and the keys of the target.
    """
    words = ["proctor", "run"]
    if run.regrade_of is not None:
        words = ["proctor", "regrade", run.regrade_of]
    else:
        version = run.suite.version
        words.append(run.suite.name if version is None else f"{run.suite.name}@{version}")
        words += ["--target", run.target.name]
        if run.prompt is not None and run.seat.prompt is None:
            words += ["--prompt", run.prompt.name]
    if run.judges_given or run.regrade_of is not None:
        words += [word for judge in run.judges for word in ("--judge", judge.name)]
    if run.regrade_of is None:
        words += selection_flags(run.settings.selection)
        words += _param_flags(run.target.params)
    words += _setting_flags(run.settings)
    return shlex.join(words)


def selection_flags(selection: Selection) -> Iterator[str]:
    """Yields the flags of a selection, each with its value or followed by it."""
    if selection.split != "all":
        yield from ("--split", selection.split)
    repeatable = {
        "--tag": selection.tags,
        "--all-tag": selection.all_tags,
        "--exclude-tag": selection.exclude_tags,
        "--category": selection.categories,
        "--id": selection.ids,
    }
    for flag, values in repeatable.items():
        for value in values:
            yield from (flag, value)
    if selection.failed_in is not None:
        yield f"--last-failed={selection.failed_in}"
    if selection.limit is not None:
        yield from ("--limit", str(selection.limit))
    if selection.shard is not None:
        yield from ("--shard", str(selection.shard))


def _param_flags(params: Params) -> Iterator[str]:
    defaults = Params()
    if params.temperature is not None and params.temperature != defaults.temperature:
        yield from ("--temperature", f"{params.temperature:.12g}")
    if params.seed is not None and params.seed != defaults.seed:
        yield from ("--seed", str(params.seed))
    if params.max_tokens is not None:
        yield from ("--max-tokens", str(params.max_tokens))


_SETTING_FLAGS = {
    "repeats": "--repeat",
    "concurrency": "--concurrency",
    "timeout_s": "--timeout",
    "retries": "--retries",
    "max_answer_bytes": "--max-answer-bytes",
    "threshold": "--threshold",
    "min_pass_rate": "--min-pass-rate",
    "gate_mode": "--gate-mode",
    "until": "--until",
    "stop_when_shown": "--stop-when-shown",
    "allow_errors": "--allow-errors",
    "cluster": "--cluster",
    "judge_repeats": "--judge-repeat",
    "judge_rule": "--judge-rule",
    "budget_usd": "--budget-usd",
    "max_failures": "--max-failures",
    "engine": "--engine",
}


def _setting_flags(settings: Settings) -> Iterator[str]:
    defaults = Settings()
    for field, flag in _SETTING_FLAGS.items():
        value = getattr(settings, field)
        if value is True:
            yield flag
        elif field == "engine" and settings.is_batch:
            yield "--batch"
        elif value is not None and value != getattr(defaults, field):
            yield from (flag, f"{value:.12g}" if isinstance(value, float) else str(value))
