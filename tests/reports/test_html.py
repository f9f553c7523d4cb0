"""Runs to one HTML file, in which every text stays text."""

from __future__ import annotations

import base64
import hashlib
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser

import pytest
from msgspec.structs import replace

from proctor.model import (
    Case,
    Evidence,
    Failure,
    Judgment,
    Message,
    Output,
    Score,
    Suite,
    TargetSpec,
    ToolCall,
    Usage,
    Verdict,
)
from proctor.reports.runs import html
from proctor.reports.runs.html import render
from proctor.reports.runs.serialize import RunReport, TrialResult, seal
from proctor.safe_text import escape_invisible
from support.builders import make_report, make_trial

PLAIN = "plain words"
HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)",
    "</style><script>alert(1)</script>",
    "</pre></details></title></textarea><h1>x",
    "<!-- <b>",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:alert(1)",
    "&lt;script&gt;&amp;",
    "]]><![CDATA[<b>",
    "\x00<\x1b[31mb\u202e>",
)


class Reader(HTMLParser):
    """The elements with the names of their attributes, the links, and the text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.values: list[tuple[str, str, str]] = []
        self.texts: list[str] = []
        self.others: list[str] = []
        self._in_style = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in_style = tag == "style"
        self.elements.append((tag, tuple(name for name, _ in attrs)))
        self.values += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        self._in_style = False
        self.elements.append((f"/{tag}", ()))

    def handle_data(self, data: str) -> None:
        if not self._in_style:
            self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        self.others.append(data)

    def unknown_decl(self, data: str) -> None:
        self.others.append(data)

    @property
    def text(self) -> str:
        return "".join(self.texts)


def render_page(*runs: RunReport) -> str:
    return "".join(render(runs))


def read_page(*runs: RunReport) -> Reader:
    return Reader(render_page(*runs))


@pytest.fixture(autouse=True)
def _no_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests without the extra `charts`, because drawing is slow and has its own file of tests."""
    monkeypatch.setitem(sys.modules, "vl_convert", None)


def make_run_with_text(text: str) -> RunReport:
    """A run with that text in every field that takes one."""
    call = ToolCall(name=text, arguments={text: text}, output=text)
    message = Message(role=text, content=text, name=text, tool_calls=(call,))
    case = Case(
        id=text,
        input=(message,),
        expected=text,
        criteria=text,
        tags=(text,),
        category=text,
        metadata={text: text},
    )
    judgment = Judgment(judge=text, prompt_digest=text, evaluator=text, feedback=text, raw=text, value=0.5)
    score = Score(
        grader="other",
        name=text,
        value=0.0,
        outcome=Verdict.FAIL,
        required=0.5,
        reason=text,
        entries=(Evidence(text="said", passed=False, evidence=text),),
        judgments=(judgment,),
        details={text: text},
    )
    output = Output(
        text=f"before {text} after",
        tool_calls=(call,),
        usage=Usage(),
        model=text,
        target=text,
        finish_reason=text,
        file_changes=text,
        refused_params=(text,),
    )
    failed = make_trial(None, score, case_id=text, output=output, failure=None, target=text, split="dev")
    passed = replace(failed, scores=(replace(score, value=1.0, outcome=Verdict.PASS),), repeat=1)
    broken = make_trial(
        None, case_id=text, failure=Failure(stage="target", kind=text, message=text), repeat=2
    )
    return make_report(
        *((trial, case) for trial in (failed, passed, broken)),
        id="run",
        suite=Suite(name=text, dialect=text, version=text, description=text, digest=text, suite_hash=text),
        target=TargetSpec(name=text, kind=text, model=text),
        judges=(TargetSpec(name=text, kind=text),),
        versions={text: text},
        tags=(text,),
        warnings=(text,),
        prices_date=text,
        imported="unsigned",
    )


@pytest.mark.slow
@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_becomes_an_element_an_attribute_or_a_comment(text: str) -> None:
    plain, hostile = (read_page(make_run_with_text(content)) for content in (PLAIN, text))
    assert hostile.elements == plain.elements
    assert hostile.others == plain.others == []
    assert "<b>" not in text or "<b>" in hostile.text
    assert escape_invisible(text) in hostile.text


def test_every_field_of_a_trial_that_did_not_pass_is_shown() -> None:
    page = read_page(make_run_with_text("Xy7"))
    assert page.text.count("Xy7") >= 40
    assert ("mark", "class", "fail") in page.values


def test_the_file_loads_nothing_and_its_policy_allows_nothing(mixed_report: RunReport) -> None:
    text = render_page(mixed_report)
    page = Reader(text)
    assert not {tag for tag, _ in page.elements} & {"script", "link", "iframe", "object", "form", "base"}
    links = [value for _, name, value in page.values if name in ("src", "href", "srcset", "action", "data")]
    assert all(value.startswith(("#", "data:image/svg+xml;base64,")) for value in links)
    assert not [name for _, name, _ in page.values if name.startswith("on") or name == "style"]
    (policy,) = [value for _, name, value in page.values if name == "content" and "default-src" in value]
    style = re.search("<style>(.*?)</style>", text, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert policy.split("; ")[:3] == [
        "default-src 'none'",
        f"style-src 'sha256-{digest}'",
        "img-src data:",
    ]


def test_the_numbers_are_those_of_the_run(mixed_report: RunReport) -> None:
    text = " ".join(" ".join(read_page(mixed_report).texts).split())
    assert "openai:m-1 passed 2 of 7 (37.5%, 9–78%)" in text
    for words in (
        "dev 2 5 37.5% · n 4 · 9–78%",
        "Rates and intervals are over 4 cases: each counts once",
        "Charts are drawn by vl-convert",
    ):
        assert words in text
    assert "proctor run 'kitchen | <sums>@v2' --target openai:m-1 --max-tokens 50" in text
    assert "sha256:" + "5" * 64 in text


def test_a_failed_trial_is_a_sheet_and_a_passed_one_a_line(mixed_report: RunReport) -> None:
    page = read_page(mixed_report)
    kinds = [value for tag, name, value in page.values if tag == "li" and name == "class"]
    assert kinds == [row.verdict.value for row in mixed_report.rows()]
    sheets = [value for tag, name, value in page.values if tag == "div" and value == "two sheet"]
    assert len(sheets) == sum(row.verdict is not Verdict.PASS for row in mixed_report.rows())
    assert "The judges disagree." in page.text
    assert "größer als 日本 😀" in page.text


@pytest.mark.slow
def test_a_sealed_trial_shows_its_verdict_only(mixed_report: RunReport) -> None:
    sealed_run = replace(mixed_report, rows=lambda: map(seal, mixed_report.rows()))
    text = " ".join(read_page(sealed_run).text.split())
    assert "The judges disagree." in read_page(mixed_report).text
    assert "The judges disagree." not in text
    assert "2 trials are in the holdout" in text
    assert "control" in text


def test_several_runs_have_a_list_and_one_axis(mixed_report: RunReport) -> None:
    page = read_page(mixed_report, mixed_report)
    assert [value for tag, name, value in page.values if tag == "a"] == ["#run-1", "#run-2"]
    ids = [value for _, name, value in page.values if name == "id"]
    assert len(ids) == len(set(ids))
    assert {"run-1", "run-2"} <= set(ids)
    headings = [tag for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert headings.count("h1") == 1


def make_long_run(count: int, row: TrialResult, run: RunReport) -> RunReport:
    def rows() -> Iterator[TrialResult]:
        for number in range(count):
            yield replace(row, trial=replace(row.trial, position=number, case_id=f"c{number}"))

    return replace(run, rows=rows)


@pytest.mark.slow
def test_what_is_left_out_is_counted(mixed_report: RunReport, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "MAX_DETAILED_TRIALS", 2)
    monkeypatch.setattr(html, "MAX_LISTED_TRIALS", 3)
    rows = {row.verdict: row for row in mixed_report.rows()}
    failed_page = read_page(make_long_run(9, rows[Verdict.ERROR], mixed_report))
    assert [tag for tag, _ in failed_page.elements].count("details") >= 2
    assert "…and 4 more that failed or errored" in failed_page.text
    assert "c4" in failed_page.text
    assert "c5" not in failed_page.text
    passed_page = read_page(make_long_run(9, rows[Verdict.PASS], mixed_report))
    assert "…and 6 more that passed" in passed_page.text


@pytest.mark.slow
def test_a_long_text_is_cut_with_the_length_of_the_rest(
    mixed_report: RunReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(html, "MAX_TEXT_LENGTH", 4)
    text = read_page(mixed_report).text
    assert "=1+1… (10 more characters)" in text
    assert '=1+1, "quoted"' not in text


def test_a_large_run_streams(mixed_report: RunReport) -> None:
    (row,) = [row for row in mixed_report.rows() if row.verdict is Verdict.PASS][:1]
    row_count = 0

    def rows() -> Iterator[TrialResult]:
        nonlocal row_count
        for _ in range(100_000):
            row_count += 1
            yield row

    pieces = render([replace(mixed_report, rows=rows)])
    while row_count < 50:
        next(pieces)
    assert row_count == 50
