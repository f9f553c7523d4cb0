"""Splits suites into dev and holdout as a request says."""

from __future__ import annotations

from msgspec.structs import replace

from proctor.errors import UsageError
from proctor.holdout import with_holdout_share
from proctor.services.runs.request import Request
from proctor.services.suites.builtin_suites import BUILTIN_PREFIX
from proctor.services.suites.load import LoadedSuite


def apply_split(load_result: LoadedSuite, request: Request) -> LoadedSuite:
    """Splits the suite as the request sets, or else as its dialect does.

    Raises:
        UsageError: the share is invalid; a flag splits a built-in suite; or a split method is given for a
            suite that is not split.
    """
    suite = load_result.suite
    ratio, method = request.holdout, request.split_method
    if ratio is None and method is None:
        return load_result
    if ratio is not None:
        check_share(ratio, "--holdout")
    is_set_by_flag = _is_set_by_flag(request)
    if ratio == 0:
        _check_nothing_held_out(request, is_set_by_flag=is_set_by_flag)
    if suite.name.startswith(BUILTIN_PREFIX):
        if not is_set_by_flag or ratio == 0:
            return load_result
        raise UsageError(
            "Built-in suites have no holdout. Remove --holdout and --split-method, or copy the cases "
            f"of {suite.name} to a suite of your own."
        )
    if ratio is None and suite.split_rule is None:
        if not is_set_by_flag:
            return load_result
        raise UsageError(
            f"The suite {suite.name!r} has no holdout, so --split-method {method} has no effect. Set "
            "the share to hold out, such as --holdout 0.2."
        )
    if ratio is not None:
        suite = with_holdout_share(suite, ratio)
    if suite.split_rule is not None and method is not None:
        suite = replace(suite, split_rule=replace(suite.split_rule, method=method))
    return replace(load_result, suite=suite)


def check_share(share: float, name: str) -> None:
    """Checks the share of cases to hold out.

    Args:
        share: the share.
        name: what it is called, for the message.

    Raises:
        UsageError: it is not from 0 to below 1.
    """
    if not 0 <= share < 1:  # also where it is not a number
        raise UsageError(f"{name} is {share}. Give a share below 1, such as 0.2, or 0 for no holdout.")


def _check_nothing_held_out(request: Request, *, is_set_by_flag: bool) -> None:
    """Refuses what contradicts a holdout of 0."""
    split = request.settings.selection.split
    if split != "all":
        raise UsageError(
            f"There is no holdout, so --split {split} has no effect. Remove --split, or the holdout of 0."
        )
    if request.split_method is not None and is_set_by_flag and "--split-method" in request.flags:
        raise UsageError(
            f"There is no holdout, so --split-method {request.split_method} has no effect. Remove it."
        )


def _is_set_by_flag(request: Request) -> bool:
    """Whether a flag sets the split, and not only `proctor.toml`, which applies to suites of all kinds."""
    names = ("holdout", "split-method")
    by_file = any(name in request.config.flags for name in names)
    return not by_file or any(f"--{name}" in request.flags for name in names)
