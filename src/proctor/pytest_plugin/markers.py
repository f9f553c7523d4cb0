"""The marker `proctor`: its options, its run, and the gate of its test."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import pytest

from proctor.errors import ProctorError, UsageError
from proctor.pytest_plugin.gate import check_gates, make_measured_run
from proctor.pytest_plugin.session import check_run_options, format_error, get_session
from proctor.python.results import RunGroup, RunResult

_MARKER = "proctor"
_RESULT = pytest.StashKey["RunResult | RunGroup"]()
_SHARED = pytest.StashKey[dict[tuple[int, ...], list[str]]]()
"""The tests that have the same markers, in the order in which they are collected."""


class MarkerOptions(NamedTuple):
    """The combined options of the markers of a test."""

    suite: Any
    options: dict[str, Any]


def check_marker(item: pytest.Item) -> str | None:
    """Returns what is wrong with the marker of a test that is collected; None if it can be used."""
    try:
        _read_marker(item)
    except ProctorError as error:
        return format_error(error, item)
    shared = item.config.stash.setdefault(_SHARED, {})
    shared.setdefault(_identify_marks(item), []).append(item.nodeid)
    return None


def run_marker(item: pytest.Item) -> RunResult | RunGroup:
    """Returns the run of a test's marker, and makes it first if no other test with the same marker has."""
    if item.get_closest_marker(_MARKER) is None:
        pytest.fail(
            f"{item.name} uses the fixture `proctor_run` but has no marker. Add "
            "@pytest.mark.proctor(suite=…, target=…), or use the fixture `proctor` and call "
            "proctor.run(…).",
            pytrace=False,
        )
    if _RESULT not in item.stash:
        item.stash[_RESULT] = make_measured_run(item, partial(_run, item))
    return item.stash[_RESULT]


def check_marker_gate(item: pytest.Item) -> None:
    """Fails the test if the gate of its run does not hold."""
    check_gates(item.stash[_RESULT])


def _run(item: pytest.Item) -> RunResult | RunGroup:
    suite, options = _read_marker(item)
    session = get_session(item.config)
    tests = item.config.stash.get(_SHARED, {}).get(_identify_marks(item), [])
    if len(tests) < 2:
        return session.run(item, suite, options)
    return session.run_shared(item, tests[0], suite, options)


def _read_marker(item: pytest.Item) -> MarkerOptions:
    """Returns the options of the markers of a test; nearer markers outrank those of its class and module.

    Raises:
        UsageError: they name no suite, or an option cannot be used.
    """
    options: dict[str, Any] = {}
    for mark in reversed(list(item.iter_markers(_MARKER))):
        if len(mark.args) > 1:
            raise UsageError(
                "The marker takes one positional argument, the suite. Pass other options "
                "by name: target=…, limit=…."
            )
        options |= {**dict(zip(("suite",), mark.args, strict=False)), **mark.kwargs}
    suite = options.pop("suite", None)
    check_run_options(options, further=("suite", "target"))
    if suite is None and "resume" not in options and "saved" not in options:
        raise UsageError("The marker does not name a suite. Write @pytest.mark.proctor(suite=…, target=…).")
    return MarkerOptions(suite, options)


def _identify_marks(item: pytest.Item) -> tuple[int, ...]:
    return tuple(id(mark) for mark in item.iter_markers(_MARKER))
