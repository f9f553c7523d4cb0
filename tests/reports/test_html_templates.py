"""What templates are given: escaping, filters, and the drawings of shares and differences."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest
from jinja2 import DictLoader, TemplateAssertionError, UndefinedError

from proctor.reports.formatting import axis_limit, interval
from proctor.reports.html_templates import make_environment
from proctor.reports.runs.serialize import counts_record
from support.builders import make_counts


def render_source(source: str, **values: Any) -> str:
    return make_environment().from_string(f'{{% import "parts.html" as parts %}}{source}').render(**values)


def number(name: str, text: str) -> float:
    match = re.search(rf' {name}="([-\d.]+)"', text)
    assert match is not None
    return float(match[1])


def test_values_are_always_escaped() -> None:
    assert render_source("{{ a }}", a="<b>&\"'") == "&lt;b&gt;&amp;&#34;&#39;"
    with pytest.raises(TemplateAssertionError):
        render_source("{{ a|safe }}", a="")


def test_an_undefined_value_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        render_source("{{ nobody }}")


def test_an_interval_is_that_of_the_console_although_json_has_it_rounded() -> None:
    counts = make_counts(passed=1, failed=1)
    assert interval(counts.ci95) == "9–91%"
    assert counts_record(counts).ci95 == (0.095, 0.905)
    assert 'n 2 · <span class="whole">9–91%' in render_source("{{ parts.share(counts) }}", counts=counts)


def test_a_share_says_what_was_not_measured_and_could_change_it() -> None:
    for counts in (make_counts(3, 1, errors=1), counts_record(make_counts(3, 1, errors=1))):
        assert "75.0%</b> · n 4 · " in render_source("{{ parts.share(counts) }}", counts=counts)
        assert "not measured 1: 60.0–80.0%" in render_source("{{ parts.share(counts) }}", counts=counts)
    assert "nothing measured" in render_source("{{ parts.share(counts) }}", counts=make_counts(errors=2))


def test_further_templates_come_first_and_share_the_macros() -> None:
    more = make_environment(DictLoader({"page.html": '{% import "parts.html" as p %}{{ p.number(1234) }}'}))
    assert more.get_template("page.html").render() == '<span class="number">1,234</span>'


@pytest.mark.parametrize(
    ("source", "value", "expected"),
    [
        ("percent", 0.775, "77.5%"),
        ("percent", None, "–"),
        ("interval", [0.62, 0.88], "62–88%"),
        ("ms", 12_300, "12.3 s"),
        ("cost", None, "unknown"),
        ("number", 100_000, "100,000"),
        ("number", None, "–"),
        ("points", -0.125, "-12.5pp"),
        ("moment", "2026-10-03T14:00:00Z", "2026-10-03 14:00"),
        ("moment", datetime(2026, 10, 3, 14, tzinfo=timezone(timedelta(hours=2))), "2026-10-03 12:00"),
        ("moment", None, "–"),
        ("iso", datetime(2026, 10, 3, 14, tzinfo=UTC), "2026-10-03T14:00:00Z"),
        ("cut(4)", "a\nlong text", "a l…"),
        ("head(3)", "abcdef", "abc… (3 more characters)"),
        ("written", "as it is", "as it is"),
        ("written", [1, None], "[\n  1,\n  null\n]"),
    ],
)
def test_a_filter_writes_as_the_command_line_does(source: str, value: Any, expected: str) -> None:
    assert render_source(f"{{{{ value|{source} }}}}", value=value) == expected


def test_a_share_is_a_dot_on_a_band_on_an_axis_with_its_text() -> None:
    counts = {"pass_rate": 0.5, "ci95": [0.25, 1.0], "total": 3600, "cases": 1200}
    text = render_source("{{ parts.share(counts) }}", counts=counts)
    assert number("cx", text) == 62
    assert number("x", text) == 34
    assert number("x", text) + number("width", text.split("<rect")[1]) == 118
    assert re.sub("<[^>]*>", "", text) == "50.0% · n 1,200 · 25–100%"
    assert 'role="img" aria-label="50.0% on an axis from 0 to 100 %, interval 25–100%"' in text


def test_without_a_trial_there_is_nothing_to_draw() -> None:
    text = render_source("{{ parts.share(counts) }}", counts={"pass_rate": None, "ci95": None, "total": 0})
    assert "<svg" not in text
    assert "none yet" in text
    assert "nothing measured" in render_source(
        "{{ parts.difference({'value': none, 'unmeasured': 0}, 0.5) }}"
    )


@pytest.mark.parametrize(("value", "at"), [(0.0, 62.0), (0.25, 90.0), (-0.5, 6.0), (-0.9, 6.0), (0.7, 118.0)])
def test_a_difference_stands_around_zero_and_inside_its_axis(value: float, at: float) -> None:
    difference = SimpleNamespace(value=value, ci95=(value - 0.2, value + 0.2), unmeasured=0, bounds=None)
    text = render_source("{{ parts.difference(difference, 0.5) }}", difference=difference)
    assert number("cx", text) == at
    band = text.split("<rect")[1]
    assert number("x", band) >= 6
    assert number("x", band) + number("width", band) <= 119


def test_an_axis_is_as_wide_as_it_has_to_be() -> None:
    unmeasured = SimpleNamespace(value=None, ci95=None)
    assert axis_limit((SimpleNamespace(value=0.02, ci95=(-0.04, 0.03)), unmeasured)) == 0.05
    assert axis_limit((SimpleNamespace(value=-0.4, ci95=None),)) == 0.5
    assert axis_limit((SimpleNamespace(value=0.3, ci95=None),)) == 0.3
    assert axis_limit(()) == 0.05


def test_commands_empty_pages_and_problems_are_escaped() -> None:
    problem = {"level": "warning", "line": 3, "case": "<c>", "field": "f", "message": "<m>", "code": "leak"}
    text = render_source(
        "{{ parts.problems([problem], 'L') }}{{ parts.command('proctor <x>') }}", problem=problem
    )
    assert '<a href="#L3">line 3</a> <code>&lt;c&gt;</code> <code>f</code>: &lt;m&gt;' in text
    assert 'data-copy="proctor &lt;x&gt;"' in text
    empty = render_source("{{ parts.empty('Nothing.', '/run', 'Run one', 'proctor run cheap') }}")
    assert 'href="/run"' in empty
    assert "proctor run cheap" in empty
