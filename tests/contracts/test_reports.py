"""Properties that hold for every report that can be written to a file, with any runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from proctor.model import Output
from proctor.reports import REPORTS
from proctor.reports.runs.serialize import RunReport, TrialResult
from support.builders import make_case, make_report, make_score, make_trial
from support.records import render_report

every_report = pytest.mark.parametrize("ending", REPORTS.names())
STREAMING = [ending for ending in REPORTS.names() if ending not in (".xml", ".parquet")]
"""XML is built as a tree, which holds every trial."""


@pytest.fixture
def make_run() -> Callable[..., RunReport]:
    """Makes a run of failed trials, each with its number in the id of its case."""

    def make(count: int, **fields: Any) -> RunReport:
        pairs = [
            (
                make_trial("x", make_score(0.0, reason="wrong"), case_id=f"case-{number}-", position=number),
                make_case(f"case-{number}-"),
            )
            for number in range(count)
        ]
        return make_report(*pairs, **fields)

    return make


class ReadCounter:
    """A run that counts how often its rows are read, and how many are."""

    def __init__(self, run: RunReport) -> None:
        self._rows = run.rows
        self.run = replace(run, rows=self.rows)
        self.readings = self.row_count = 0

    def rows(self) -> Iterator[TrialResult]:
        self.readings += 1
        for row in self._rows():
            self.row_count += 1
            yield row


@every_report
def test_a_report_renders_no_run_an_empty_one_and_several(
    ending: str, make_run: Callable[..., RunReport]
) -> None:
    for runs in ([], [make_run(0)], [make_run(1)], [make_run(0), make_run(3, id="other"), make_run(0)]):
        text = render_report(ending, runs)
        assert all(f"case-{number}-" in text for run in runs for number in range(run.tally.all.total))


@every_report
def test_a_report_names_every_run_with_trials_and_gives_the_same_text_twice(
    ending: str, make_run: Callable[..., RunReport]
) -> None:
    runs = [make_run(1, id="run-1"), make_run(2, id="run-2")]
    text = render_report(ending, runs)
    assert "run-1" in text
    assert "run-2" in text
    assert render_report(ending, runs) == text


@every_report
def test_a_report_reads_the_trials_of_a_run_once(ending: str, make_run: Callable[..., RunReport]) -> None:
    counters = [ReadCounter(make_run(3)), ReadCounter(make_run(2))]
    list(REPORTS.get(ending)([counter.run for counter in counters]))
    assert [(counter.readings, counter.row_count) for counter in counters] == [(1, 3), (1, 2)]


@pytest.mark.parametrize("ending", STREAMING)
def test_a_report_holds_a_few_trials_at_a_time(ending: str, make_run: Callable[..., RunReport]) -> None:
    first, second = ReadCounter(make_run(20)), ReadCounter(make_run(20))
    for piece in REPORTS.get(ending)([first.run, second.run]):
        if "case-5-" in piece:
            break
    assert 6 <= first.row_count <= 7
    assert second.readings == 0


@every_report
def test_a_report_reads_nothing_before_its_first_piece_is_requested(
    ending: str, make_run: Callable[..., RunReport]
) -> None:
    counter = ReadCounter(make_run(1))
    REPORTS.get(ending)([counter.run])
    assert counter.readings == 0


@pytest.mark.slow
@every_report
@settings(max_examples=25)
@given(text=st.text(max_size=30))
def test_a_report_takes_any_text_anywhere(ending: str, text: str) -> None:
    trial = make_trial(
        text,
        make_score(0.0, reason=text, name=text),
        case_id=text,
        output=Output(text=text, refused_params=(text,), model=text),
    )
    run = make_report(
        (trial, make_case(text, text, category=text, tags=(text,), metadata={text: text})), tags=(text,)
    )
    render_report(ending, [run]).encode("utf-8")
