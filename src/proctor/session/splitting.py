"""How a request wants suites divided into dev and holdout."""

from __future__ import annotations

from msgspec.structs import replace

from proctor.errors import UsageError
from proctor.model import Run, SplitRule
from proctor.session.finding import BUILTIN
from proctor.session.loading import Loaded
from proctor.session.request import Request


def as_asked(loaded: Loaded, request: Request) -> Loaded:
    """The suite, divided as the request says; without a word of it as its dialect does.

    Raises:
        UsageError: the share is none; a flag divides a built-in suite, or one that is not split by no share.
    """
    suite = loaded.suite
    ratio, method = request.holdout, request.split_method
    if ratio is None and method is None:
        return loaded
    if ratio is not None and not 0 < ratio < 1:  # also where it is not a number
        raise UsageError(f"--holdout is a share between 0 and 1, such as 0.2, and not {ratio}.")
    by_flag = _by_flag(request)
    if suite.name.startswith(BUILTIN):
        if not by_flag:
            return loaded
        raise UsageError(
            f"Built-in suites are not split, so {suite.name} has no holdout. Leave --holdout and "
            "--split-method out, or copy its cases to a suite of your own."
        )
    if ratio is None and suite.split_rule is None:
        if not by_flag:
            return loaded
        raise UsageError(
            f"The suite {suite.name!r} is not split, so there is nothing to do by --split-method {method}. "
            "Say with --holdout 0.2 how much of it is to be held out."
        )
    rule = suite.split_rule or SplitRule()
    rule = replace(
        rule,
        ratio=rule.ratio if ratio is None else ratio,
        method=rule.method if method is None else method,
    )
    return replace(loaded, suite=replace(suite, split_rule=rule))


def _by_flag(request: Request) -> bool:
    """Whether more than the project's `proctor.toml`, which is for suites of all kinds, divides the suite."""
    names = ("holdout", "split-method")
    by_file = any(name in request.config.flags for name in names)
    return not by_file or any(f"--{name}" in request.fixed for name in names)


def check_alike(earlier: Run, wanted: Run, request: Request, flag: str) -> None:
    """Refuse a stored run that is divided otherwise than the request says.

    Raises:
        UsageError: it is.
    """
    if request.holdout is None and request.split_method is None:
        return
    if earlier.suite.split_rule != wanted.suite.split_rule:
        raise UsageError(
            f"{flag}={earlier.id} is divided otherwise into dev and holdout. Leave --holdout and "
            "--split-method out, or begin a new run."
        )
