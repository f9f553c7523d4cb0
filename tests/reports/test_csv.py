"""Runs to CSV, which a spreadsheet reads as text and never as formulas."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from proctor.reports.runs.csv import render
from proctor.reports.runs.serialize import RunReport
from support.builders import make_case, make_report, make_trial
from support.golden import assert_golden

COLUMNS = [
    "run",
    "suite",
    "suite_version",
    "target",
    "prompt",
    "case_id",
    "repeat",
    "verdict",
    "score",
    "category",
    "tags",
    "split",
    "sealed",
    "question",
    "output",
    "why",
    "latency_ms",
    "input_tokens",
    "output_tokens",
    "cost_usd",
    "started_at",
    "source_run",
    "reasoning",
    "cached_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "first_token_ms",
    "tokens_per_second",
    "mean_logprob",
    "finish_reason",
    "model",
    "response_id",
    "request_id",
    "service_tier",
    "attachments",
]


def parse_csv(*runs: RunReport) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO("".join(render(runs)), newline="")))


def test_the_file_is_its_golden_file(mixed_report: RunReport) -> None:
    assert_golden(Path(__file__).parent / "golden" / "mixed.csv", "".join(render([mixed_report])))


def test_every_trial_is_a_row_under_the_same_columns(mixed_report: RunReport) -> None:
    rows = parse_csv(mixed_report, mixed_report)
    assert len(rows) == 14
    assert {tuple(row) for row in rows} == {tuple(COLUMNS)}
    assert [row["verdict"] for row in rows[:7]] == [row.verdict.value for row in mixed_report.rows()]


def test_nothing_to_report_is_a_header() -> None:
    assert "".join(render([])) == "".join(render([make_report()])) == ",".join(COLUMNS) + "\r\n"


def test_texts_with_quotes_commas_and_line_ends_come_back_whole(mixed_report: RunReport) -> None:
    rows = parse_csv(mixed_report)
    assert rows[3]["case_id"] == "two\nlines"
    assert rows[3]["question"] == "first\nsecond"
    assert rows[4]["output"] == "````\n``` <b>*bold*</b>\n````"
    assert rows[5]["output"] == r"\x01\x1b[31mred\x1b[0m \ufffe]]> " + "\t ok"
    assert rows[2]["output"] == '\'=1+1, "quoted"'
    assert rows[6]["output"] == "größer als 日本 😀"


def test_what_is_not_known_is_an_empty_cell(mixed_report: RunReport) -> None:
    failed = parse_csv(mixed_report)[3]
    empty = ("score", "output", "latency_ms", "input_tokens", "output_tokens", "cost_usd", "tags")
    assert [failed[name] for name in empty] == [""] * len(empty)
    assert failed["why"] == "timeout: Nothing came within 2 s."


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        "+cmd|' /C calc'!A0",
        "-2+3",
        "@SUM(A1)",
        "\t=1",
        "\n=1",
        "＝1",
        "'=1",
        "=",
        "+",
        "-",
        "--1",
        "-1e5",
        "+1 or 2",
    ],
)
def test_a_text_that_a_spreadsheet_would_compute_gets_an_apostrophe(text: str) -> None:
    (row,) = parse_csv(make_report((make_trial(text), make_case(text, text, category=text, tags=(text,)))))
    for column in ("output", "question", "category", "tags"):
        assert row[column] == f"'{text}"


@pytest.mark.parametrize("text", ["-5", "+5", "-0.25", "5", "a=b", "'quoted'", "", " =1", "1+1"])
def test_a_plain_text_or_a_signed_number_stays_as_it_is(text: str) -> None:
    (row,) = parse_csv(make_report((make_trial(text), make_case("c", text))))
    assert (row["output"], row["question"]) == (text, text)
