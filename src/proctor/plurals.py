"""Counts, names and lists to the words in which sentences have them. Pure; knows no noun."""

from __future__ import annotations

from collections.abc import Sequence

_COUNTED_ONCE = {
    "any": "it passes if any of its trials does",
    "mean": "by the mean of its trials' scores",
    "lower_bound": "by the lower end of the 95 % interval of its trials' mean score",
}
"""How a case counts once, by the rule over repeats; without such a rule each trial counts."""


def counted_once(rule: str, threshold: float | None) -> str | None:
    """How a case counts once; None where each trial counts.

    Args:
        rule: the rule over repeats.
        threshold: the least mean score that passes; None where every assertion must pass.
    """
    if rule == "mean" and threshold is None:
        return "it passes if all of its trials do"
    return _COUNTED_ONCE.get(rule)


def counted(count: int, noun: str) -> str:
    """A number of things: `1 case`, `1,200 cases`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def listed(names: Sequence[str], most: int) -> str:
    """The first names, and how many more there are: `a, b and 3 more`."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def trial_name(case_id: str, repeat: int) -> str:
    """What a trial is called: its case's id, with the number of the repeat where it is not the first."""
    return f"{case_id} (repeat {repeat})" if repeat else case_id


def format_size(size: int) -> str:
    """A number of bytes: `512 bytes`, `12.3 kB`, `1.2 GB`."""
    if size < 1000:
        return counted(size, "byte")
    value, unit = size / 1000, "kB"
    for larger in ("MB", "GB", "TB"):
        if value < 999.95:
            break
        value, unit = value / 1000, larger
    return f"{value:,.1f} {unit}"
