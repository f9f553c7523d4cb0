"""A run to the command line that makes it again. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from proctor.model import Params, Run, Settings


def command_of(run: Run) -> str:
    """What asks the same cases of the same target in the same way; what is as by default is left out.

    The suite is named as the store has it, so the store must be at hand, and the keys of the target.
    """
    words = ["proctor", "run"]
    if run.regrade_of is not None:
        words = ["proctor", "regrade", run.regrade_of]
    else:
        version = run.suite.version
        words.append(run.suite.name if version is None else f"{run.suite.name}@{version}")
        words += ["--target", run.target.name]
    if run.judges_given or run.regrade_of is not None:
        words += [word for judge in run.judges for word in ("--judge", judge.name)]
    if run.regrade_of is None:
        words += _selected(run)
        words += _asked(run.target.params)
    words += _settings(run.settings)
    return shlex.join(words)


def _selected(run: Run) -> Iterator[str]:
    wanted = run.settings.selection
    if wanted.split != "all":
        yield from ("--split", wanted.split)
    many = {
        "--tag": wanted.tags,
        "--all-tag": wanted.all_tags,
        "--exclude-tag": wanted.exclude_tags,
        "--category": wanted.categories,
        "--id": wanted.ids,
    }
    for flag, values in many.items():
        for value in values:
            yield from (flag, value)
    if wanted.limit is not None:
        yield from ("--limit", str(wanted.limit))


def _asked(params: Params) -> Iterator[str]:
    usual = Params()
    if params.temperature is not None and params.temperature != usual.temperature:
        yield from ("--temperature", f"{params.temperature:.12g}")
    if params.seed is not None and params.seed != usual.seed:
        yield from ("--seed", str(params.seed))
    if params.max_tokens is not None:
        yield from ("--max-tokens", str(params.max_tokens))


_FLAGS = {
    "repeats": "--repeat",
    "concurrency": "--concurrency",
    "timeout_s": "--timeout",
    "retries": "--retries",
    "max_answer_bytes": "--max-answer-bytes",
    "threshold": "--threshold",
    "min_pass_rate": "--min-pass-rate",
    "allow_errors": "--allow-errors",
    "judge_repeats": "--judge-repeat",
    "judge_rule": "--judge-rule",
    "budget_usd": "--budget-usd",
    "max_failures": "--max-failures",
}


def _settings(settings: Settings) -> Iterator[str]:
    usual = Settings()
    for field, flag in _FLAGS.items():
        value = getattr(settings, field)
        if value is not None and value != getattr(usual, field):
            yield from (flag, f"{value:.12g}" if isinstance(value, float) else str(value))
