"""What results look like in a notebook: a line of text, and a table that no text can break out of."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.eval import AgentRun, Bench, GradedPromptSuite, Judge, MatchedBaseComparison, PassAtK
from proctor.eval.agent_runs import AgentRuns
from proctor.eval.graded import CheckSpec, GradedPrompt
from proctor.eval.tables import html_table
from proctor.safe_text import one_line

HOSTILE = "<img src=x onerror=alert(1)>\x1b[2J\u202e|\"'&"
TAGS = {"table", "caption", "b", "thead", "tbody", "tr", "th", "td"}


class Cells(HTMLParser):
    """The rows of all tables in a text, which may have nothing but tables."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.captions: list[str] = []
        self.inside = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS
        assert {name for name, _ in attrs} <= {"style"}
        assert not any("color" in (value or "") for _, value in attrs)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        elif tag == "caption":
            self.captions.append("")
        self.inside = {"b": "caption"}.get(tag, tag)

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside == "caption":
            self.captions[-1] += data
        else:
            assert self.inside in ("td", "th")
            self.rows[-1][-1] += data


class FixedClient:
    def chat(self, messages: Any, **_: Any) -> dict[str, Any]:
        return {"choices": [{"message": {"content": '{"score": 4, "rationale": "Nearly."}'}}]}


def judge() -> Judge:
    judge = Judge(FixedClient(), rubric=f"Be strict. {HOSTILE}")
    judge.grade(prediction="Lima")
    return judge


def suite_score() -> Any:
    prompts = (
        GradedPrompt("tide", "When?", HOSTILE, check=CheckSpec("substring", any=("7",))),
        GradedPrompt(HOSTILE, "Where?", "sea", check=CheckSpec("substring", any=(HOSTILE,))),
    )
    return GradedPromptSuite(HOSTILE, prompts).score({"tide": "At 7.", HOSTILE: "There."})


def matched_comparison() -> Any:
    def rows(passed: bool) -> list[dict[str, Any]]:
        grade = {
            "passed": passed,
            "n_passed": int(passed),
            "n_total": 1,
            "assertions": [{"kind": HOSTILE, "passed": passed}],
        }
        return [{"task_id": f"synth-{HOSTILE}-{n}", "final_grade": grade, "n_turns": 2} for n in range(3)]

    return MatchedBaseComparison().compare(rows(False), rows(True))


def statistic() -> Any:
    bench = Bench(HOSTILE, metrics=[HOSTILE])
    bench.run(lambda n: {HOSTILE: n}, [1, 2, 4])
    return bench.statistics()[HOSTILE]


def agent_runs() -> AgentRuns:
    return AgentRuns(
        AgentRun.from_record({"status": "ok", "wall_seconds": 2.0 + n, "question_id": HOSTILE})
        for n in range(3)
    )


def pass_at_k() -> Any:
    return PassAtK(ks=(1, 2)).from_rows({"task_id": f"{HOSTILE}{n}", "n": 3, "passed": n} for n in range(3))


RESULTS = [judge, suite_score, matched_comparison, statistic, agent_runs, pass_at_k]


@pytest.mark.parametrize("result", RESULTS)
def test_a_result_is_one_short_line_of_text(result: Any) -> None:
    text = repr(result())
    assert text.startswith("<")
    assert len(text) < 160
    assert text.isprintable()


@pytest.mark.parametrize("result", RESULTS)
def test_a_result_is_tables_in_a_notebook(result: Any) -> None:
    html = result()._repr_html_()
    cells = Cells(html)
    assert len(cells.rows) > 1
    assert len(cells.captions) >= 1
    assert html.count("<table>") == html.count("</table>")
    assert all(line.isprintable() for row in cells.rows for line in row)
    assert "<img" not in html


@pytest.mark.slow
@given(st.text(), st.lists(st.tuples(st.text(), st.none() | st.integers() | st.floats())))
def test_any_cell_is_text_and_prints(title: str, rows: list[tuple[Any, ...]]) -> None:
    html = html_table(title, ["name", "<b>"], rows)
    assert one_line(html) == html
    assert Cells(html).rows[0] == ["name", "<b>"]
    assert len(Cells(html).rows) == len(rows) + 1


def test_a_long_table_shows_its_first_rows_and_its_last() -> None:
    rows = Cells(html_table("all", ["number"], ((n,) for n in range(10_000)))).rows
    assert len(rows) < 80
    assert rows[1] == ["0"]
    assert rows[-2:] == [["… 9,941 more rows"], ["9,999"]]


@pytest.mark.parametrize("name", ["x" * 10_000, HOSTILE * 1_000])
def test_a_long_name_leaves_a_short_line(name: str) -> None:
    bench = Bench(name, metrics=[name])
    bench.run(lambda n: {name: n}, [1, 2, 4])
    for result in (bench.statistics()[name], GradedPromptSuite(name, ()).score({})):
        assert len(repr(result)) < 200
