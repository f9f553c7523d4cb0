"""Runs to one HTML file: all of it as text, nothing of it sealed away from a reader who may see it."""

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


def rendered(*runs: RunReport) -> str:
    return "".join(render(runs))


def read(*runs: RunReport) -> Reader:
    return Reader(rendered(*runs))


@pytest.fixture(autouse=True)
def _undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """As without the extra `charts`: drawing takes its time, and is looked at in a file of its own."""
    monkeypatch.setitem(sys.modules, "vl_convert", None)


def carrying(text: str) -> RunReport:
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
        *((one, case) for one in (failed, passed, broken)),
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
    plain, hostile = (read(carrying(one)) for one in (PLAIN, text))
    assert hostile.elements == plain.elements
    assert hostile.others == plain.others == []
    assert "<b>" not in text or "<b>" in hostile.text
    assert escape_invisible(text) in hostile.text


def test_every_field_of_a_trial_that_did_not_pass_is_shown() -> None:
    told = read(carrying("Xy7"))
    assert told.text.count("Xy7") >= 40
    assert ("mark", "class", "fail") in told.values


def test_the_file_needs_nothing_else_and_may_do_nothing(mixed: RunReport) -> None:
    text = rendered(mixed)
    found = Reader(text)
    assert not {tag for tag, _ in found.elements} & {"script", "link", "iframe", "object", "form", "base"}
    links = [value for _, name, value in found.values if name in ("src", "href", "srcset", "action", "data")]
    assert all(value.startswith(("#", "data:image/svg+xml;base64,")) for value in links)
    assert not [name for _, name, _ in found.values if name.startswith("on") or name == "style"]
    (policy,) = [value for _, name, value in found.values if name == "content" and "default-src" in value]
    style = re.search("<style>(.*?)</style>", text, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert policy.split("; ")[:3] == [
        "default-src 'none'",
        f"style-src 'sha256-{digest}'",
        "img-src data:",
    ]


def test_the_numbers_are_those_of_the_run(mixed: RunReport) -> None:
    text = " ".join(" ".join(read(mixed).texts).split())
    assert "openai:m-1 passed 2 of 7 (37.5%, 9–78%)" in text
    for words in (
        "dev 2 5 37.5% · n 4 · 9–78%",
        "Rates and intervals are over 4 cases: each counts once",
        "Charts are drawn by vl-convert",
    ):
        assert words in text
    assert "proctor run 'kitchen | <sums>@v2' --target openai:m-1 --max-tokens 50" in text
    assert "sha256:" + "5" * 64 in text


def test_what_did_not_pass_is_a_sheet_and_what_passed_a_line(mixed: RunReport) -> None:
    found = read(mixed)
    kinds = [value for tag, name, value in found.values if tag == "li" and name == "class"]
    assert kinds == [row.verdict.value for row in mixed.rows()]
    sheets = [value for tag, name, value in found.values if tag == "div" and value == "two sheet"]
    assert len(sheets) == sum(row.verdict is not Verdict.PASS for row in mixed.rows())
    assert "The judges disagree." in found.text
    assert "größer als 日本 😀" in found.text


@pytest.mark.slow
def test_a_sealed_trial_tells_its_verdict_only(mixed: RunReport) -> None:
    shut = replace(mixed, rows=lambda: map(seal, mixed.rows()))
    text = " ".join(read(shut).text.split())
    assert "The judges disagree." in read(mixed).text
    assert "The judges disagree." not in text
    assert "2 trials are in the holdout" in text
    assert "control" in text


def test_several_runs_have_a_list_and_one_axis(mixed: RunReport) -> None:
    found = read(mixed, mixed)
    assert [value for tag, name, value in found.values if tag == "a"] == ["#run-1", "#run-2"]
    ids = [value for _, name, value in found.values if name == "id"]
    assert len(ids) == len(set(ids))
    assert {"run-1", "run-2"} <= set(ids)
    headings = [tag for tag, _ in found.elements if re.fullmatch("h[1-6]", tag)]
    assert headings.count("h1") == 1


def many(count: int, row: TrialResult, run: RunReport) -> RunReport:
    def rows() -> Iterator[TrialResult]:
        for number in range(count):
            yield replace(row, trial=replace(row.trial, position=number, case_id=f"c{number}"))

    return replace(run, rows=rows)


@pytest.mark.slow
def test_what_is_left_out_is_counted(mixed: RunReport, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "MAX_DETAILED_TRIALS", 2)
    monkeypatch.setattr(html, "MAX_LISTED_TRIALS", 3)
    rows = {row.verdict: row for row in mixed.rows()}
    missed = read(many(9, rows[Verdict.ERROR], mixed))
    assert [tag for tag, _ in missed.elements].count("details") >= 2
    assert "…and 4 more that failed or errored" in missed.text
    assert "c4" in missed.text
    assert "c5" not in missed.text
    passed = read(many(9, rows[Verdict.PASS], mixed))
    assert "…and 6 more that passed" in passed.text


@pytest.mark.slow
def test_a_long_text_is_cut_with_a_word_on_the_rest(
    mixed: RunReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(html, "MAX_TEXT_LENGTH", 4)
    text = read(mixed).text
    assert "=1+1… (10 more characters)" in text
    assert '=1+1, "quoted"' not in text


def test_a_large_run_streams(mixed: RunReport) -> None:
    (row,) = [row for row in mixed.rows() if row.verdict is Verdict.PASS][:1]
    taken = 0

    def rows() -> Iterator[TrialResult]:
        nonlocal taken
        for _ in range(100_000):
            taken += 1
            yield row

    pieces = render([replace(mixed, rows=rows)])
    while taken < 50:
        next(pieces)
    assert taken == 50
