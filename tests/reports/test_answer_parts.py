"""Reasoning, tokens, speed, probabilities, ids and attachments of answers in every report and export."""

from __future__ import annotations

import csv as csv_module
import io
import json as json_module
import xml.etree.ElementTree as ET
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from proctor.codec import decode, encode
from proctor.model import Attachment, Output, PassRule, TokenLogprob, Usage
from proctor.reports.document import render_terminal
from proctor.reports.formatting import rate, token_counts
from proctor.reports.runs import console, csv, html, json, jsonl, junit, markdown, trial_text
from proctor.reports.runs.answer_parts import inline_image, logprob_text, summarize_logprobs, view_tokens
from proctor.reports.runs.serialize import RunReport
from proctor.verdicts import Tally, TallyState, UsageTotal
from support.builders import make_case, make_report, make_score, make_trial

PNG = b"\x89PNG\r\n\x1a\n"
HOSTILE = "I <script>alert(1)</script> \u202e\x1b[2J"
OUTPUT = Output(
    text="43",
    reasoning=HOSTILE,
    usage=Usage(
        input_tokens=1204, cached_tokens=800, cache_write_tokens=200, output_tokens=61, reasoning_tokens=58
    ),
    latency_ms=900.0,
    first_token_ms=300.0,
    logprobs=(
        TokenLogprob(token="4", logprob=-0.25, top=(("4", -0.25), (" \n", -2.5))),
        TokenLogprob(token="3", logprob=-0.75),
    ),
    attachments=(
        Attachment(kind="image", path="a/map.png", media_type="image/png", data=PNG),
        Attachment(kind="image", path="x.svg", media_type="image/svg+xml", data=b"<svg/>"),
        Attachment(kind="file", path="n.csv", media_type="text/csv", text="é"),
    ),
    finish_reason="length",
    response_id="resp_1",
    request_id="req_1",
    service_tier="flex",
    model="m-1",
)


@pytest.fixture
def report() -> RunReport:
    """One streamed answer with everything, one that failed, one from the cache and one not streamed."""
    outputs = (OUTPUT, OUTPUT, replace(OUTPUT, cached=True, first_token_ms=9.0), Output(text="43"))
    return make_report(
        *(
            (
                make_trial("", make_score(float(n != 1)), case_id=f"c{n}", position=n, output=output),
                make_case(f"c{n}"),
            )
            for n, output in enumerate(outputs)
        )
    )


def lines(report: RunReport, *, full: bool = False) -> str:
    row = next(iter(report.rows()))
    return "\n".join(trial_text.render_text(row, PassRule(), full=full))


# --- one answer --------------------------------------------------------------------------------------------


def test_one_trial_folds_the_reasoning_and_the_tokens(report: RunReport) -> None:
    text = lines(report)
    assert "  reasoning: 33 characters: --full shows them\n  answer:    43\n" in text
    assert "  attached:  image a/map.png, image/png, 8 bytes\n" in text
    assert "  attached:  file n.csv, text/csv, 2 bytes\n" in text
    assert "  logprobs:  mean -0.500, perplexity 1.65, over 2 tokens; --full shows each\n" in text
    assert (
        "  took:      900 ms · first token 300 ms · 100 tokens/s · 1,204 tokens in (800 cached, 200 written "
        "to the cache), 61 out (58 reasoning) · cost unknown\n  ended by:  length\n"
        "  service:   service tier flex · response id resp_1 · request id req_1\n"
    ) in text


def test_full_shows_both_and_escapes_what_is_hostile(report: RunReport) -> None:
    text = lines(report, full=True)
    assert r"  reasoning: I <script>alert(1)</script> \u202e\x1b[2J" in text
    assert "77.9% '4'  ' \\n' 8.2%\n" in text
    assert "47.2% '3'\n" in text
    assert "--full" not in text


def test_what_an_answer_does_not_have_is_not_there() -> None:
    report = make_report((make_trial("43", make_score(1.0)), make_case()))
    assert lines(report).splitlines()[2:4] == ["  answer:    43", "  pass     1.00  exact: met"]


# --- a run -------------------------------------------------------------------------------------------------


def test_a_run_adds_up_tokens_and_summarizes_the_speed_of_what_was_streamed(report: RunReport) -> None:
    text = "\n".join(render_terminal(console.document_for(report)))
    speeds = "first token p50 300 ms, p95 300 ms of 2 answers · tokens/s p50 100, p5 100 of 2 answers"
    assert f" · {speeds} · " in text
    assert ("2,408 tokens in (1,600 cached, 400 written to the cache), 122 out (116 reasoning) · ") in text


def test_markdown_and_junit_have_the_speed_and_no_reasoning(report: RunReport) -> None:
    comment, xml = "".join(markdown.render([report])), "".join(junit.render([report]))
    assert "first token p50 300 ms, p95 300 ms of 2 answers" in comment
    values = [item.attrib["value"] for item in ET.fromstring(xml).iter("property")]  # our own
    assert "tokens/s p50 100, p5 100 of 2 answers" in values
    assert "alert(1)" not in comment + xml


def test_a_page_folds_the_reasoning_as_text_and_shows_only_safe_images(report: RunReport) -> None:
    page = "".join(html.render([report]))
    assert "<summary>Reasoning, 33 characters</summary>" in page
    assert "I &lt;script&gt;alert(1)&lt;/script&gt; \\u202e\\x1b[2J" in page
    assert page.count("<img class=") == 1
    assert 'src="data:image/png;base64,iVBORw0KGgo="' in page
    assert "x.svg, image/svg+xml, 6 bytes" in page


def test_json_has_the_figures_of_a_run(report: RunReport) -> None:
    row = msgspec.json.decode(json.render_summary([report]))["runs"][0]
    assert row["first_token_ms"] == {"p5": 300.0, "p50": 300.0, "p95": 300.0, "mean": 300.0, "answers": 2}
    assert row["tokens_per_second"] == {"p5": 100.0, "p50": 100.0, "p95": 100.0, "mean": 100.0, "answers": 2}
    assert row["usage"] == {
        "input_tokens": 2408,
        "output_tokens": 122,
        "cached_tokens": 1600,
        "cache_write_tokens": 400,
        "reasoning_tokens": 116,
    }


def test_a_run_without_streamed_answers_has_no_speed() -> None:
    report = make_report((make_trial("43", make_score(1.0)), make_case()))
    row = msgspec.json.decode(json.render_summary([report]))["runs"][0]
    assert not {"first_token_ms", "tokens_per_second"} & row.keys()
    assert "first token" not in "\n".join(render_terminal(console.document_for(report)))


def test_stored_totals_give_the_same_numbers_as_counted_ones(report: RunReport) -> None:
    state = decode(encode(report.tally.state()), TallyState)
    restored = replace(report, tally=Tally.restore(report.run, state))
    assert json.render_summary([restored]) == json.render_summary([report])


# --- exports -----------------------------------------------------------------------------------------------


def test_a_line_of_jsonl_gives_the_answer_back(report: RunReport) -> None:
    row = json_module.loads("".join(jsonl.render([report])).splitlines()[0])
    assert row["output"]["tokens_per_second"] == 100.0
    assert msgspec.convert(row["output"], Output) == OUTPUT


def test_csv_has_a_column_for_each_part(report: RunReport) -> None:
    row = next(csv_module.DictReader(io.StringIO("".join(csv.render([report])), newline="")))
    names = ("cached_tokens", "cache_write_tokens", "reasoning_tokens", "first_token_ms", "tokens_per_second")
    assert [row[name] for name in names] == ["800", "200", "58", "300.0", "100.0"]
    assert (row["mean_logprob"], row["finish_reason"], row["service_tier"]) == ("-0.5", "length", "flex")
    assert (row["response_id"], row["request_id"], row["model"]) == ("resp_1", "req_1", "m-1")
    assert "alert(1)" in row["reasoning"]
    assert row["attachments"].splitlines()[0] == "image a/map.png, image/png, 8 bytes"


def test_a_table_has_a_column_for_each_part(report: RunReport) -> None:
    pytest.importorskip("pyarrow")
    from proctor.reports.runs.arrow import make_table

    first, *_, plain = make_table(report.run, report.rows()).to_pylist()
    assert (first["reasoning"], first["reasoning_tokens"], first["first_token_ms"]) == (HOSTILE, 58, 300.0)
    assert json_module.loads(first["logprobs"])[1] == {"token": "3", "logprob": -0.75}
    assert [file["data"] for file in first["attachments"]] == [PNG, b"<svg/>", "é".encode()]
    assert (plain["reasoning"], plain["logprobs"], plain["attachments"]) == (None, None, [])


# --- parts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("usage", "text"),
    [
        (Usage(), "0 in, 0 out"),
        (Usage(input_tokens=1200, output_tokens=3), "1,200 in, 3 out"),
        (Usage(input_tokens=9, cache_write_tokens=4), "9 in (4 written to the cache), 0 out"),
        (UsageTotal(output_tokens=9, reasoning_tokens=9), "0 in, 9 out (9 reasoning)"),
    ],
)
def test_tokens_name_only_parts_that_are_there(usage: Any, text: str) -> None:
    assert token_counts(usage) == text


@pytest.mark.parametrize(("value", "text"), [(None, "–"), (0.25, "0.2"), (9.96, "10.0"), (84.4, "84")])
def test_a_rate_has_as_many_digits_as_help(value: float | None, text: str) -> None:
    assert rate(value) == text


@pytest.mark.parametrize("logprob", [-9999.0, float("-inf")])
def test_impossible_tokens_have_an_infinite_perplexity(logprob: float) -> None:
    output = Output(text="x", logprobs=(TokenLogprob(token="x", logprob=logprob),))
    assert "perplexity infinite" in logprob_text(output)
    assert view_tokens(output.logprobs, 5)[0].probability == 0.0
    assert summarize_logprobs(()) is None


def test_a_large_image_is_not_put_into_a_page() -> None:
    image = Attachment(kind="image", path="a.png", media_type="image/png", data=PNG * 40_000)
    assert inline_image(image) == ""
