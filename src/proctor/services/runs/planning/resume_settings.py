"""The settings that a resumed or retried run keeps; a command with other values is refused."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from proctor.codec import target_digest
from proctor.errors import UsageError
from proctor.model import Params, PromptTemplate, Run, Selection, Settings, TargetSpec
from proctor.parameters import format_parameters, merge_parameters
from proctor.services.runs.planning.requested_runs import RequestedRun
from proctor.services.runs.request import Request, split_prompt_word

_CALL_FLAGS = {
    "--concurrency": "concurrency",
    "--timeout": "timeout_s",
    "--retries": "retries",
    "--max-answer-bytes": "max_answer_bytes",
    "--budget-usd": "budget_usd",
}
_CHANGEABLE_FLAGS = {
    **_CALL_FLAGS,
    "--max-failures": "max_failures",
    "--keep-workspaces": "keep_workspaces",
    "--engine": "engine",
}
"""The flags of settings that change no answer and no verdict, with their fields; they may be changed."""
_GATE_FLAGS = {
    "--threshold": "threshold",
    "--min-pass-rate": "min_pass_rate",
    "--gate-mode": "gate_mode",
    "--allow-errors": "allow_errors",
    "--cluster": "cluster",
}
_JUDGE_FLAGS = {"--judge-repeat": "judge_repeats", "--judge-rule": "judge_rule"}
_REUSE_FLAGS = {"--reuse": "reuse", "--cache": "cache"}
_SUITE_FLAGS = {**_REUSE_FLAGS, "--cluster": "cluster"}
"""The flags for which a suite has defaults."""
_ORDER_FLAGS = {"--interleave": "interleave"}
_STOP_FLAGS = {"--until": "until", "--stop-when-shown": "stop_when_shown"}
SETTING_FLAGS = {**_GATE_FLAGS, **_JUDGE_FLAGS, **_REUSE_FLAGS, **_ORDER_FLAGS, **_STOP_FLAGS}
"""The flags of other settings, with their fields, except those that determine which trials there are."""
_RETRY_FLAGS = frozenset({*_GATE_FLAGS, *_REUSE_FLAGS})
"""The flags that `--retry-errors` may change: verdicts are counted again, and passed trials stay."""
_REGRADE_FLAGS = frozenset({*_GATE_FLAGS, *_JUDGE_FLAGS, "--judge", "--judge-temperature"})
"""The flags that affect verdicts and that `proctor regrade` has."""


class SettingDifference(Struct, frozen=True):
    """One difference between a command and a stored run."""

    flag: str
    """The flag with the other value; empty if there is no flag for it."""
    text: str
    """A line with the values of the run and of the command."""
    by_regrade: bool = False
    """Whether a regrade can apply the command's value."""


class _FlagValue(Struct, frozen=True):
    """How to get a flag's value from a run and from a request."""

    get_from_run: Callable[[Run], Any]
    get_from_request: Callable[[Request], Any]


def _given_judges(run: Run) -> tuple[TargetSpec, ...]:
    return run.judges if run.judges_given else ()


def _names(targets: Iterable[str | TargetSpec]) -> tuple[str, ...]:
    return tuple(target if isinstance(target, str) else target.name for target in targets)


def _prompt_names(prompts: Iterable[str | PromptTemplate]) -> tuple[str, ...]:
    return tuple(
        split_prompt_word(prompt)[0] if isinstance(prompt, str) else prompt.name for prompt in prompts
    )


def _prompt_words(prompts: Iterable[str | PromptTemplate]) -> tuple[str, ...]:
    return tuple(prompt if isinstance(prompt, str) else prompt.name for prompt in prompts)


def _own_prompt(run: Run) -> tuple[PromptTemplate, ...]:
    """Returns the prompt that the user gave; none if it is one of the suite's."""
    return () if run.prompt is None or run.seat.prompt is not None else (run.prompt,)


def _judge_temperature(run: Run) -> float | None:
    return next((judge.params.temperature for judge in _given_judges(run)), Params().temperature)


def _holdout_share(run: Run) -> float:
    return 0.0 if run.suite.split_rule is None else run.suite.split_rule.ratio


def _split_method(run: Run) -> str | None:
    return None if run.suite.split_rule is None else run.suite.split_rule.method


def _attribute(path: str) -> _FlagValue:
    return _FlagValue(attrgetter(path), attrgetter(path))


_FLAGS: dict[str, _FlagValue] = {
    "--target": _FlagValue(lambda run: (run.target.name,), lambda request: _names(request.targets)),
    "--prompt": _FlagValue(
        lambda run: _prompt_names(_own_prompt(run)), lambda request: _prompt_names(request.prompts)
    ),
    "--judge": _FlagValue(lambda run: _names(_given_judges(run)), lambda request: _names(request.judges)),
    "--judge-temperature": _FlagValue(_judge_temperature, attrgetter("judge_params.temperature")),
    "--dialect": _FlagValue(attrgetter("suite.dialect"), attrgetter("dialect")),
    "--holdout": _FlagValue(_holdout_share, attrgetter("holdout")),
    "--split-method": _FlagValue(_split_method, attrgetter("split_method")),
    "--repeat": _attribute("settings.repeats"),
    "--split": _attribute("settings.selection.split"),
    "--tag": _attribute("settings.selection.tags"),
    "--all-tag": _attribute("settings.selection.all_tags"),
    "--exclude-tag": _attribute("settings.selection.exclude_tags"),
    "--category": _attribute("settings.selection.categories"),
    "--id": _attribute("settings.selection.ids"),
    "--limit": _attribute("settings.selection.limit"),
    "--shard": _attribute("settings.selection.shard"),
    "--last-failed": _FlagValue(attrgetter("settings.selection.failed_in"), attrgetter("last_failed")),
    **{f"--{name.replace('_', '-')}":
           _FlagValue(attrgetter(f"target.params.{name}"), attrgetter(f"params.{name}"))
       for name in ("temperature", "seed", "max_tokens")},
    "--param": _FlagValue(
        lambda run: format_parameters(run.target.params), lambda request: format_parameters(request.params)
    ),
    **{flag: _attribute(f"settings.{name}") for flag, name in SETTING_FLAGS.items()},
}  # fmt: skip
_COMMAND_FLAGS = _FLAGS | {flag: _attribute(f"settings.{name}") for flag, name in _CHANGEABLE_FLAGS.items()}
"""The flags that a command for a new run includes."""
# A name alone would take the text of the last run of that name.
_COMMAND_FLAGS["--prompt"] = replace(
    _FLAGS["--prompt"], get_from_request=lambda request: _prompt_words(request.prompts)
)
_DEFAULT_VALUES = {flag: source.get_from_request(Request()) for flag, source in _COMMAND_FLAGS.items()} | {
    "--split-method": "rank",
}
"""Values that a command can omit."""


def flag_texts(run: Run) -> dict[str, str]:
    """Returns the values of the flags by which a run was made, but for its shard, as texts by flag."""
    return {
        flag: _format_value(source.get_from_run(run)) for flag, source in _FLAGS.items() if flag != "--shard"
    }


def find_differences(run: Run, request: Request, flags: Iterable[str]) -> Iterator[SettingDifference]:
    """Yields the flags whose value in a request differs from the run's.

    Args:
        run: the stored run.
        request: the user's request.
        flags: the flags to compare; flags without a value in the run are skipped.
    """
    for flag in sorted(_FLAGS.keys() & set(flags), key=list(_FLAGS).index):
        run_value, request_value = _FLAGS[flag].get_from_run(run), _FLAGS[flag].get_from_request(request)
        if flag == "--param" and merge_parameters(run.target.params, request.params) == run.target.params:
            continue  # the run has others besides, which its target sets
        if run_value != request_value and not _has_no_effect(flag, run):
            text = _describe_difference(flag, run_value, request_value)
            yield SettingDifference(flag, text, by_regrade=flag in _REGRADE_FLAGS)


def find_run_differences(run: Run, other: Run, flags: Iterable[str]) -> Iterator[SettingDifference]:
    """Yields the flags whose values would make a different run.

    Args:
        run: the stored run.
        other: the run that a command requests.
        flags: the flags of the command; those that decide no trial are compared only if they are among them.
    """
    optional = SETTING_FLAGS.keys() - set(flags)
    for flag, source in _FLAGS.items():
        value, other_value = source.get_from_run(run), source.get_from_run(other)
        if value != other_value and flag not in optional and not _has_no_effect(flag, run):
            yield SettingDifference(flag, _describe_difference(flag, value, other_value))


def _describe_difference(flag: str, run_value: Any, request_value: Any) -> str:
    run_text, request_text = _format_value(run_value), _format_value(request_value)
    return f"{flag}: the run has {run_text}, this command sets {request_text}"


def _has_no_effect(flag: str, run: Run) -> bool:
    """Returns whether a flag is about judges or other targets, and the run has none."""
    return (
        (flag == "--judge" and not run.judges)
        or (flag == "--judge-temperature" and not run.judges_given)
        or (flag == "--interleave" and run.seat.alone and run.prompt is None)
    )


def fill_from_run(run: Run, request: Request) -> Request:
    """Returns the request with the run's values for whatever the command line does not set."""
    own = {flag: _FLAGS[flag].get_from_run(run) for flag in _FLAGS.keys() - request.flags}
    params = request.params if "--param" in request.flags else run.target.params
    plain = {name: own.get(f"--{name.replace('_', '-')}", getattr(request.params, name))
             for name in ("temperature", "seed", "max_tokens")}  # fmt: skip
    judge_temperature = own.get("--judge-temperature", request.judge_params.temperature)
    return replace(
        request,
        targets=own.get("--target", request.targets),
        prompts=request.prompts if "--prompt" in request.flags else _own_prompt(run),
        judges=own.get("--judge", request.judges),
        params=replace(params, **plain),
        judge_params=replace(request.judge_params, temperature=judge_temperature),
        settings=replace(request.settings, selection=Selection()),
        holdout=None,
        split_method=None,
    )


def find_content_differences(run: Run, requested_run: RequestedRun) -> Iterator[SettingDifference]:
    """Yields how the suite, the target and the judges of the same names differ from the run's.

    Args:
        run: the stored run.
        requested_run: the suite, target and judges as they are now.
    """
    suite, judges = requested_run.suite, requested_run.judge_selection.judges
    if run.suite.digest != suite.digest:
        text = f"the suite: the run has {run.suite.title!r}, and the content of {suite.title!r} differs"
        yield SettingDifference("--suite", text, by_regrade=True)
    if run.prompt != requested_run.prompt:
        yield SettingDifference("", _describe_prompts(run.prompt, requested_run.prompt))
    if run.target.name == requested_run.target.name and target_digest(run.target) != target_digest(
        requested_run.target
    ):
        yield SettingDifference("", f"the target {run.target.name!r}: its configuration has changed")
    if _names(run.judges) == _names(judges) and run.judges != judges:
        yield SettingDifference(
            "", f"the judges {', '.join(_names(run.judges))}: their configuration has changed"
        )


def _describe_prompts(own: PromptTemplate | None, other: PromptTemplate | None) -> str:
    if own is not None and other is not None and own.name == other.name:
        return f"the prompt {own.name!r}: its text has changed"
    names = ["none" if prompt is None else repr(prompt.name) for prompt in (own, other)]
    return f"the prompt: the run has {names[0]}, this command has {names[1]}"


def check_same(
    run: Run, request: Request, others: Iterable[SettingDifference], *, retried: bool = False
) -> None:
    """Refuses a command whose values differ from those of the run that it continues.

    Args:
        run: the stored run.
        request: what the user requests.
        others: differences besides the values of flags.
        retried: whether a new run reuses the trials that did not fail.

    Raises:
        UsageError: values differ; lists all of them, with commands that can apply them.
    """
    flags = request.flags - _RETRY_FLAGS if retried else request.flags
    all_differences = [*find_differences(run, request, flags), *others]
    if not all_differences:
        return
    lines = [
        f"Run {run.id} keeps its settings, but this command has different ones:",
        *(f"  {difference.text}" for difference in all_differences),
        f"To resume, use the settings of the run. To start a new run: {_new_run_command(run, request)}",
    ]
    several = len(request.suites) + len(request.stored_names) > 1
    if all(difference.by_regrade for difference in all_differences) and not several and not retried:
        resume_command = shlex.join(["proctor", "run", f"--resume={run.id}", *format_store(request)])
        first = "" if run.status == "finished" else f"{resume_command}, then "
        command = _regrade_command(
            run, request, by_suite=any(difference.flag == "--suite" for difference in all_differences)
        )
        lines.append(f"To grade the answers of this run again: {first}{command}")
    raise UsageError("\n".join(lines))


def describe_ignored_settings(run: Run, request: Request) -> str | None:
    """Returns a note on settings of `proctor.toml` that differ from the run's; None if there are none."""
    by_file = {f"--{name}" for name in request.config.flags} - request.flags
    texts = [
        f"{difference.flag} {_format_value(_FLAGS[difference.flag].get_from_run(run))}"
        for difference in find_differences(run, request, by_file & SETTING_FLAGS.keys())
    ]
    if not texts:
        return None
    return f"Run {run.id} keeps its own settings instead of those in proctor.toml: {', '.join(texts)}."


def resumed_settings(run: Run, request: Request, *, retried: bool = False) -> Settings:
    """Returns a run's own settings, with the command's values of those that change no result."""
    names = request.explicit & set(_CHANGEABLE_FLAGS.values())
    if retried:
        names |= {name for flag, name in SETTING_FLAGS.items() if flag in request.flags & _RETRY_FLAGS}
    return replace(run.settings, **{name: getattr(request.settings, name) for name in names})


# --- messages ----------------------------------------------------------------------------------------------


def _format_value(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value).removesuffix(".0")


def _new_run_command(run: Run, request: Request) -> str:
    suites = (*request.suites, *(f"--saved={suite}" for suite in request.stored_names))
    arguments = ["proctor", "run", *(suites or (f"{run.suite.name}@{run.suite.version}",))]
    unsplit = run.suite.split_rule is None and not run.suite.no_holdout
    left_out = {"--dialect", "--interleave", *(["--holdout", "--split-method"] if unsplit else ())}
    for flag, source in _COMMAND_FLAGS.items():
        if flag in request.flags:
            arguments += _format_flag(flag, source.get_from_request(request))
        elif flag not in left_out and not _is_default(flag, source.get_from_run(run), run, request):
            arguments += _format_flag(flag, source.get_from_run(run))
    arguments += [flag for flag in ("--strict", "--skip-invalid") if flag in request.flags]
    return shlex.join([*arguments, *format_store(request)])


def format_request(request: Request) -> str:
    """Returns the command for new runs of a request; empty if a suite or target has no name to type."""
    targets = (*request.targets, *request.judges)
    if request.sources or request.saved_suites or not all(isinstance(word, str) for word in targets):
        return ""
    # A call from Python has these without their flags.
    flags = (
        request.flags
        | {"--target", "--judge", "--prompt"}
        | ({"--repeat"} if request.settings.repeats else set())
    )
    arguments = ["proctor", "run", *request.suites, *(f"--saved={name}" for name in request.stored_names)]
    for flag, source in _COMMAND_FLAGS.items():
        if flag in flags:
            arguments += _format_flag(flag, source.get_from_request(request))
    arguments += [flag for flag in ("--strict", "--skip-invalid") if flag in request.flags]
    return shlex.join([*arguments, *format_store(request)])


def _is_default(flag: str, value: Any, run: Run, request: Request) -> bool:
    """Returns whether a new run of the run's suite would have that value without the flag."""
    if flag.removeprefix("--") in request.config.flags:
        return False
    suite_value = getattr(run.suite.defaults, _SUITE_FLAGS[flag]) if flag in _SUITE_FLAGS else None
    return bool(value == (_DEFAULT_VALUES[flag] if suite_value is None else suite_value))


def _regrade_command(run: Run, request: Request, *, by_suite: bool) -> str:
    arguments = ["proctor", "regrade", run.id]
    if by_suite:
        arguments += ["--suite", *(request.suites or request.stored_names)]
    flags = _REGRADE_FLAGS | _CALL_FLAGS.keys() | ({"--dialect"} if by_suite else set())
    for flag, source in _COMMAND_FLAGS.items():
        if flag in flags & request.flags:
            arguments += _format_flag(flag, source.get_from_request(request))
    return shlex.join([*arguments, *format_store(request)])


def format_store(request: Request) -> tuple[str, ...]:
    """Returns the words of a command that name the store of a request."""
    return ("--store", request.store) if request.store and "--store" in request.flags else ()


def _format_flag(flag: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [flag if value else flag.replace("--", "--no-", 1)]
    if flag in ("--keep-workspaces", "--last-failed"):  # their values are optional
        return [] if value is None else [f"{flag}={value}" if value else flag]
    values = value if isinstance(value, tuple) else (value,)
    return [argument for part in values if part is not None for argument in (flag, str(part))]
