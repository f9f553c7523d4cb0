"""Runs to the text that a terminal shows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from proctor.model import Judgment, Output, Params, Score, Settings, SplitRule, Suite, Verdict
from proctor.reports.document import render_terminal
from proctor.reports.runs.blocks import overview_table
from proctor.reports.runs.console import document_for, verdict_line
from proctor.reports.runs.html import render as render_html
from proctor.reports.runs.markdown import render
from proctor.reports.runs.serialize import CaseResult, RunReport, TrialResult, run_record
from proctor.reports.runs.splits import split_sizes_line
from support.builders import make_case, make_report, make_score, make_trial
from support.golden import assert_golden
from support.records import plain


def render_text(report: RunReport) -> Iterator[str]:
    return render_terminal(document_for(report))


def test_the_text_is_its_golden_file(mixed_report: RunReport) -> None:
    assert_golden(Path(__file__).parent / "golden" / "mixed.txt", "\n".join(render_text(mixed_report)) + "\n")


def test_the_text_of_a_run_of_nothing_is_its_golden_file() -> None:
    assert_golden(
        Path(__file__).parent / "golden" / "nothing.txt", "\n".join(render_text(make_report())) + "\n"
    )


def test_cached_answers_are_counted_and_judging_has_its_own_cost() -> None:
    judgments = tuple(
        Judgment(judge="j", prompt_digest="sha256:0", cost_usd=0.25, cached=cached)
        for cached in (True, False)
    )
    judged = Score(grader="llm_judge", name="kind", value=1.0, outcome=Verdict.PASS, judgments=judgments)
    fresh_output, cached_output = (Output(text="x", cost_usd=0.5, cached=cached) for cached in (False, True))
    report = make_report(
        (make_trial("x", judged, output=fresh_output), make_case("a")),
        (make_trial("x", output=cached_output), make_case("b")),
    )
    (footer,) = (line for line in render_text(report) if " · cost " in line)
    assert footer.endswith(" · 1 from the cache · 1 judgment reused · cost $0.5000 + $0.2500 for judging")
    assert "for judging, 1 from the cache, 1 judgment reused." in "".join(render([report]))


def test_an_engine_that_is_not_the_default_is_named() -> None:
    for engine in ("ray", "asyncio"):
        report = make_report((make_trial("x"), make_case()), settings=Settings(engine=engine))
        assert any(f"engine {engine}" in line for line in render_text(report)) == (engine == "ray")
        assert plain(run_record(report)).get("engine") == ("ray" if engine == "ray" else None)


@pytest.mark.parametrize(
    ("dev", "holdout", "line"),
    [
        (8, 2, "Running custom suite: 8 dev + 2 holdout tests"),
        (0, 0, "Running custom suite: 0 dev + 0 holdout tests"),
        (8, None, None),
        (None, None, None),
    ],
)
def test_the_opening_line_counts_both_splits(dev: int | None, holdout: int | None, line: str | None) -> None:
    assert split_sizes_line(dev, holdout) == line


@pytest.fixture
def make_split_run() -> Callable[[int, int, int, int], RunReport]:
    """Makes a split run with these numbers of passed and of all cases in dev and in the holdout."""

    def make(dev_passed: int, dev: int, holdout_passed: int, holdout: int) -> RunReport:
        parts = [("dev", dev_passed, dev), ("holdout", holdout_passed, holdout)]
        pairs = [
            (
                make_trial("x", make_score(1.0 if number < passed else 0.0), split=name),
                make_case(f"{name}-{number}"),
            )
            for name, passed, total in parts
            for number in range(total)
        ]
        return make_report(*pairs, suite=Suite(name="s", dialect="meridian", split_rule=SplitRule()))

    return make


@pytest.mark.parametrize(
    ("numbers", "completed", "cells"),
    [
        ((6, 8, 2, 2), "Dev 6/8 | Holdout 2/2", "75.0%            | 100.0% (+25.0pp)   | 8"),
        ((8, 8, 1, 2), "Dev 8/8 | Holdout 1/2", "100.0%           | 50.0% (-50.0pp)    | 9"),
        ((0, 3, 0, 1), "Dev 0/3 | Holdout 0/1", "0.0%             | 0.0% (+0.0pp)      | 0"),
        ((0, 0, 3, 3), "Dev 0/0 | Holdout 3/3", "–                | 100.0%             | 3"),
    ],
)
def test_a_split_run_begins_with_both_accuracies(
    make_split_run: Callable[..., RunReport], numbers: tuple[int, ...], completed: str, cells: str
) -> None:
    text = list(render_text(make_split_run(*numbers)))
    assert text[0] == f"Completed: {completed}"
    rule = "+------------------+--------------------+---------------+---------+"
    assert text[2] == text[5] == rule
    assert text[3] == "| Dev Accuracy     | Holdout Accuracy   | Total Passed  | Latency |"
    assert text[4] == f"| {cells}             | 0ms     |"


def test_a_run_of_dev_cases_alone_has_no_table_of_accuracies(
    make_split_run: Callable[..., RunReport],
) -> None:
    text = list(render_text(make_split_run(3, 4, 0, 0)))
    assert text[0] == "s on echo"
    assert [line.split()[:4] for line in text[2:4]] == [
        ["passed", "total", "rate", "0%"],
        ["all", "3", "4", "75.0%"],
    ]
    assert "oldout" not in "\n".join(text)


@pytest.fixture
def make_tagged_run() -> Callable[..., RunReport]:
    """Makes a run of a passed trial for each word and a failed one for each of `failed`: letters are tags."""

    def make(*words: str, failed: tuple[str, ...] = ()) -> RunReport:
        passed = [
            (make_trial("x", make_score(1.0)), make_case(f"p{n}", tags=tuple(word)))
            for n, word in enumerate(words)
        ]
        return make_report(
            *passed,
            *(
                (make_trial("x", make_score(0.0)), make_case(f"f{n}", tags=tuple(w)))
                for n, w in enumerate(failed)
            ),
        )

    return make


def test_the_pass_rate_of_each_tag_stands_below_with_its_n_and_interval(make_tagged_run: Any) -> None:
    text = list(render_text(make_tagged_run("ab", "a", "", failed=("a", "b"))))
    start = text.index(next(line for line in text if line.startswith("tag")))
    assert text[start - 1] == text[start + 3] == ""
    assert text[start].split()[:5] == ["tag", "passed", "total", "rate", "0%"]
    assert [(*line.split()[:4], line.split()[-1]) for line in text[start + 1 : start + 3]] == [
        ("a", "2", "3", "66.7%", "21–94%"),
        ("b", "1", "2", "50.0%", "9–91%"),
    ]
    axes = {line.index("0%") for line in text if "95% interval" in line}
    assert len(axes) == 1


def test_a_tag_on_one_case_tells_no_more_than_the_case_and_is_only_counted(make_tagged_run: Any) -> None:
    assert not any("tag" in line for line in render_text(make_tagged_run("a", "b")))
    text = "\n".join(render_text(make_tagged_run("a", "ab", "a", "")))
    assert "\na                  3      3" in text
    assert "\n…and 1 more tag: proctor runs show 20260301-120000-abc123 --json\n\n" in text


@pytest.mark.slow
@pytest.mark.parametrize("words", [("", ""), ("a", "a"), ("ab", "ab")])
def test_tags_that_tell_no_more_than_the_whole_are_not_shown(
    make_tagged_run: Any, words: tuple[str, ...]
) -> None:
    report = make_tagged_run(*words, failed=words[:1])
    assert not any(line.startswith("tag") for line in render_text(report))
    assert "| Tag |" not in "".join(render([report]))
    assert '<th scope="col">Tag</th>' not in "".join(render_html([report]))


def test_of_many_tags_those_on_most_cases_are_shown_and_the_others_counted(make_tagged_run: Any) -> None:
    letters = "abcdefghijklmno"
    text = list(render_text(make_tagged_run(*(letters[:end] for end in range(15)), letters)))
    start = text.index(next(line for line in text if line.startswith("tag")))
    assert "".join(line.split()[0] for line in text[start + 1 : start + 11]) == letters[:10]
    assert text[start + 11] == "…and 5 more tags: proctor runs show 20260301-120000-abc123 --json"


def test_a_tag_is_shown_on_one_line_of_bounded_length() -> None:
    tags = ("red\n" + "x" * 300,)
    cases = ((make_trial("x"), make_case(name, tags=tags if name != "c" else ())) for name in "abc")
    (line,) = (line for line in render_text(make_report(*cases)) if "xxx" in line)
    assert line.startswith(f"red {'x' * 35}…  ")


@pytest.mark.parametrize("numbers", [(16, 23, 4, 7), (17, 24, 0, 0)])
def test_no_number_of_a_run_stands_twice_on_a_screen(
    make_split_run: Callable[..., RunReport], numbers: tuple[int, ...]
) -> None:
    dev_passed, dev, holdout_passed, holdout = numbers
    passed, total = dev_passed + holdout_passed, dev + holdout
    text = "\n".join(
        line for line in render_text(make_split_run(*numbers)) if not line.startswith(("Run ", "FAIL", "…"))
    )
    for count in {passed, total, dev_passed, dev, holdout_passed, holdout} - {0}:
        assert len(re.findall(rf"(?<![\d.]){count}(?![\d.%–]| tests)", text)) <= 1, (count, text)
    rates = re.findall(r"\d+\.\d%", text)
    assert len(rates) == len(set(rates)) == (3 if holdout else 1)


@pytest.mark.parametrize(
    ("failed", "line_count", "more"), [(0, 0, None), (1, 1, None), (10, 10, None), (11, 10, 1), (14, 10, 4)]
)
def test_ten_trials_that_did_not_pass_are_listed_and_the_others_counted(
    failed: int, line_count: int, more: int | None
) -> None:
    text = list(
        render_text(make_report(*[(make_trial(None), make_case(str(number))) for number in range(failed)]))
    )
    assert sum(line.startswith("ERROR") for line in text) == line_count
    more_lines = [line for line in text if line.startswith("…and")]
    command = "proctor runs show 20260301-120000-abc123 --failures"
    assert more_lines == ([] if more is None else [f"…and {more} more: {command}"])


@pytest.mark.parametrize(("length", "command_lines"), [(113, 0), (114, 1)])
def test_the_command_that_shows_a_cut_reason_in_full_is_named(length: int, command_lines: int) -> None:
    failed = make_trial("x", make_score(0.0, reason="r" * length))
    lines = list(render_text(make_report((failed, make_case()))))
    command = "In full: proctor runs show 20260301-120000-abc123 --failures"
    assert lines.count(command) == command_lines
    assert sum("…" in line for line in lines) == command_lines


@pytest.mark.parametrize(
    ("verdict", "repeat", "reason", "line"),
    [
        (Verdict.FAIL, 0, "two\nlines", "FAIL      c  exact: two lines"),
        (Verdict.UNSCORED, 0, "wrong", "UNSCORED  c  exact: wrong"),
        (Verdict.ERROR, 2, "wrong", "ERROR     c (repeat 2)  exact: wrong"),
        (
            Verdict.FAIL,
            0,
            f"The answer is '{'r' * 200}'; expected 'Lima'.",
            f"FAIL      c  exact: The answer is '{'r' * 55} … {'r' * 21}'; expected 'Lima'.",
        ),
        (Verdict.PASS, 0, "", "PASS      c"),
    ],
)
def test_a_trial_is_one_line(verdict: Verdict, repeat: int, reason: str, line: str) -> None:
    trial = make_trial("x", make_score(0.0, reason=reason), repeat=repeat)
    row = TrialResult(trial=trial, verdict=verdict, case=make_case())
    assert verdict_line(CaseResult(rows=(row,), verdict=verdict)) == line


@pytest.mark.parametrize(
    ("suites", "targets", "names"),
    [
        (("s", "s"), ("a", "b"), ["a", "b"]),
        (("s", "t"), ("a", "a"), ["s v2", "t v2"]),
        (("s", "t"), ("a", "b"), ["s v2 on a", "t v2 on b"]),
    ],
)
def test_several_runs_are_compared_by_what_they_differ_in(
    mixed_report: RunReport, suites: tuple[str, ...], targets: tuple[str, ...], names: list[str]
) -> None:
    runs = [
        replace(
            mixed_report,
            run=replace(
                mixed_report.run,
                suite=replace(mixed_report.run.suite, name=suite),
                target=replace(mixed_report.run.target, name=target),
            ),
        )
        for suite, target in zip(suites, targets, strict=True)
    ]
    heading, *rows = render_terminal([overview_table(runs)])
    assert heading.split()[:2] == ["passed", "total"]
    assert [row[:12].strip() for row in rows] == names
    assert [row.split("●")[0][12:].split()[:3] for row in rows] == [["2", "7", "37.5%"]] * 2


def test_the_last_lines_tell_what_was_not_applied_and_which_run_it_was() -> None:
    trial = make_trial("x", output=Output(text="x", refused_params=("temperature", "seed")))
    assert list(render_text(make_report((trial, make_case()))))[-2:] == [
        "Not applied, because the target does not support it: seed, temperature",
        "Run 20260301-120000-abc123",
    ]


def test_parameters_that_are_not_the_defaults_are_on_a_line_of_each_report() -> None:
    report = make_report((make_trial("x"), make_case()))
    target = replace(
        report.run.target, params=Params(temperature=1, reasoning_effort="low", headers={"X-Team": "s3cret"})
    )
    changed = replace(report, run=replace(report.run, target=target))
    line = "Parameters: temperature 1, reasoning_effort low, headers X-Team"
    assert line in list(render_text(changed))
    assert "Parameters" not in "".join(render_text(report))
    markdown, page = "".join(render([changed])), "".join(render_html([changed]))
    assert "Parameters: temperature 1, reasoning" in markdown
    assert "Parameters" not in "".join(render([report]))
    assert "temperature 1, seed 42" in page
    assert "s3cret" not in markdown + page
    record = plain(run_record(changed))
    assert record["params"] == {"temperature": 1, "reasoning_effort": "low", "headers": ["X-Team"]}
    assert "params" not in plain(run_record(report))
