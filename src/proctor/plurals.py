"""Formats counts, names and lists for sentences. Pure."""

from __future__ import annotations

from collections.abc import Sequence

_REPEATS_RULES = {
    "any": "it passes if any of its trials passes",
    "mean": "by the mean of its trials' scores",
    "lower_bound": "by the lower end of the 95 % interval of its trials' mean score",
}
"""How a case counts once, by the suite's repeats rule."""


def describe_repeats_rule(rule: str, threshold: float | None) -> str | None:
    """Describes how a case counts once; None if each trial counts.

    Args:
        rule: the suite's repeats rule.
        threshold: the lowest mean score that passes; None if every assertion must pass.
    """
    if rule == "mean" and threshold is None:
        return "it passes if all of its trials pass"
    return _REPEATS_RULES.get(rule)


def pluralize(count: int, noun: str) -> str:
    """Formats a count with its noun: `1 case`, `1,200 cases`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def join_names(names: Sequence[str], most: int) -> str:
    """Joins the first names, with the number of the rest: `a, b and 3 more`."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def trial_name(case_id: str, repeat: int) -> str:
    """Returns the name of a trial: its case's id, and the number of the repeat unless it is the first."""
    return f"{case_id} (repeat {repeat})" if repeat else case_id


def format_size(size: int) -> str:
    """Formats a number of bytes: `512 bytes`, `12.3 kB`, `1.2 GB`."""
    if size < 1000:
        return pluralize(size, "byte")
    value, unit = size / 1000, "kB"
    for larger in ("MB", "GB", "TB"):
        if value < 999.95:
            break
        value, unit = value / 1000, larger
    return f"{value:,.1f} {unit}"
