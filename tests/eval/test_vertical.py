"""Questions of a trade: reading four forms of rows, asking, scoring and reporting."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.eval import (
    Bench,
    VerticalBench,
    VerticalQA,
    contains,
    exact_match,
    irac_structure,
    mcq_letter,
    numeric_match,
    patent_claim_validity,
)
from proctor.eval.vertical import HintedQA, VerticalRun
from proctor.eval.vertical.bench import PATENT_STRATEGIST_SCORER_FNS, PATENT_STRATEGIST_SCORERS
from support.builders import write_lines

Row = dict[str, Any]
PATENT = {"family": "D", "use_case": "exam", "scoring_mode": "closed"}


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., Path]:
    """Writes lines to a file: rows as JSON, texts as they are."""
    return partial(write_lines, tmp_path / "set.jsonl")


def load_questions(path: Path, **options: Any) -> list[tuple[str, str, str, Row]]:
    return [
        (question.qid, question.question, question.expected, question.tags)
        for question in VerticalBench.from_jsonl(path, **options).questions
    ]


# --- forms of rows -----------------------------------------------------------------------------------------

FINANCE = {
    "financebench_id": "fb-7",
    "question": "What was the margin?",
    "answer": "12 %",
    "company": "Acme",
    "doc_period": 2023,
    "doc_name": "ACME_2023",
    "question_type": "metrics",
    "evidence": [{"evidence_text": "Sales were 50."}, {"page": 3}, "Profit was 6.", " "],
}


def test_finance_is_asked_after_its_evidence_and_scored_by_number(file: Callable[..., Path]) -> None:
    bench = VerticalBench.from_jsonl(file(FINANCE))
    prompt = (
        "Context from ACME_2023:\n\nSales were 50.\n\nProfit was 6.\n\n"
        "Question: What was the margin?\n\nAnswer with just the numeric value."
    )
    tags = {"company": "Acme", "doc_period": 2023, "question_type": "metrics"}
    assert bench.questions == [VerticalQA("fb-7", prompt, "12 %", tags)]
    assert bench.scorer is numeric_match
    assert bench.summary() == {"name": "set", "n": 1, "scorer": "numeric_match", "tag_keys": sorted(tags)}


def test_a_closed_book_has_no_evidence(file: Callable[..., Path]) -> None:
    assert load_questions(file(FINANCE), open_book=False)[0][1] == "What was the margin?"
    assert load_questions(file(FINANCE | {"evidence": None}))[0][1] == "What was the margin?"
    assert (
        load_questions(file({"question": "Q", "answer": "1", "evidence": "E"}), open_book=True)[0][1] == "Q"
    )
    assert load_questions(file(FINANCE), format="generic")[0][1] == "What was the margin?"


@pytest.mark.parametrize(
    ("row", "scorer", "question"),
    [
        ({"text": "t", "answer": "y", "index": 0, "task": "k"}, exact_match, ("0", "t", "y", {"task": "k"})),
        ({"input": "i", "label": "no", "id": "L"}, exact_match, ("L", "i", "no", {})),
        ({"question": "q", "gold": "g", "qid": "own"}, exact_match, ("own", "q", "g", {})),
        ({"prompt": "p", "question": " ", "label": "x"}, exact_match, ("q-0", "p", "x", {})),
        ({"question": "q", "answer": "", "expected": "e"}, exact_match, ("q-0", "q", "e", {})),
        ({"gold_standard": "5", "question": "q", "answer": "6"}, numeric_match, ("fb-0", "q", "5", {})),
        (
            PATENT | {"question": "q", "gold_label": "B", "reviewed": 1, "tags": {"y": 20, "family": "D2"}},
            mcq_letter,
            ("ps-0", "q", "B", PATENT | {"family": "D2", "reviewed": True, "y": 20}),
        ),
    ],
)  # fmt: skip
def test_each_form_has_its_fields_scorer_and_tags(
    file: Callable[..., Path], row: Row, scorer: Any, question: Any
) -> None:
    bench = VerticalBench.from_jsonl(file(row))
    assert bench.dropped == ()
    assert [(item.qid, item.question, item.expected, item.tags) for item in bench.questions] == [question]
    assert bench.scorer is scorer


@pytest.mark.parametrize(
    ("row", "prompt"),
    [
        ({"scoring_mode": "closed", "context": "C"}, "Q"),
        ({"scoring_mode": None, "context": "C"}, "Q"),
        (
            {"scoring_mode": "retrieval", "context": "C", "oracle_context": "O"},
            "Context:\n\nC\n\nQuestion: Q",
        ),
        ({"scoring_mode": "oracle", "context": "C", "oracle_context": "O"}, "Context:\n\nO\n\nQuestion: Q"),
        ({"scoring_mode": "oracle", "context": "C"}, "Context:\n\nC\n\nQuestion: Q"),
        ({"scoring_mode": "oracle"}, "Q"),
        ({"options": ["one", 2, "three"]}, "Q\n\nOptions:\nA. one\nC. three"),
        ({"options": {"A": "one"}}, "Q"),
    ],
)
def test_a_patent_question_shows_what_its_mode_allows(
    file: Callable[..., Path], row: Row, prompt: str
) -> None:
    assert load_questions(file(PATENT | {"question": "Q", "gold_label": "A"} | row))[0][1] == prompt


def test_the_dialect_asks_the_same(file: Callable[..., Path]) -> None:
    from proctor.dialects.fieldkit.questions import DIALECT
    from proctor.protocols import CaseAtLine, SuiteSource

    rows = [
        FINANCE,
        PATENT | {"question": "Q", "gold_label": "A", "options": ["x", "y"], "mode": "closed"},
        {"text": "T", "answer": "yes"},
        {"question": "Q", "answer": 0},
    ]
    for row in rows:
        path = file(row)
        content = path.read_bytes()
        source = SuiteSource(path=path.name, read_lines=partial(iter, [content]))
        case = next(item.case for item in DIALECT.read(source) if isinstance(item, CaseAtLine))
        question = load_questions(path)[0]
        assert (question[1], question[2]) == (case.input[0].content, case.expected)


@pytest.mark.parametrize(
    ("answer", "expected"), [(0, "0"), (False, "false"), (0.0, "0.0"), (["é", 2], '["é", 2]')]
)
def test_an_answer_that_is_no_text_is_kept(file: Callable[..., Path], answer: Any, expected: str) -> None:
    assert load_questions(file({"question": "Q", "answer": answer}))[0][2] == expected


@pytest.mark.parametrize(
    ("rows", "questions", "scorer"),
    [
        ([{"text": "t", "input": "i", "answer": "a"}], ["t"], exact_match),
        ([{"prompt": "p", "answer": "a"}, {"text": "t", "answer": "b"}], ["p"], exact_match),
        ([{"question": "why"}, {"gold_standard": 5, "question": "q"}], ["q"], numeric_match),
        ([{"gold_standard": 5}, {"question": "q", "answer": "a"}], ["q"], exact_match),
        ([{"gold_standard": 5}, {"question": "why"}], [], numeric_match),
    ],
)
def test_the_first_row_with_a_question_and_an_answer_tells_the_format(
    file: Callable[..., Path], rows: list[Row], questions: list[str], scorer: Any
) -> None:
    bench = VerticalBench.from_jsonl(file(*rows))
    assert [question.question for question in bench.questions] == questions
    assert bench.scorer is scorer


def test_what_cannot_be_used_is_left_out_and_listed(file: Callable[..., Path]) -> None:
    bench = VerticalBench.from_jsonl(
        file(
            {"question": "Q", "answer": "A"},
            "{broken",
            {"answer": "A"},
            "",
            {"question": "Q", "answer": " "},
            {"question": ["Q"], "answer": "A"},
            "7",
            {"question": "last", "answer": "A"},
        )
    )
    assert [question.qid for question in bench.questions] == ["q-0", "q-7"]
    assert [row.line for row in bench.dropped] == [2, 3, 5, 6, 7]
    reasons = [row.reason for row in bench.dropped]
    for reason, part in zip(
        reasons, ("not JSON", "no question", "no right answer", "must be text", "not an object"), strict=True
    ):
        assert part in reason
        assert reason.endswith(".")


def test_more_options_than_letters_are_not_cut_off(file: Callable[..., Path]) -> None:
    bench = VerticalBench.from_jsonl(
        file(PATENT | {"question": "Q", "gold_label": "A", "options": ["x"] * 27})
    )
    assert bench.questions == []
    assert "27 options" in bench.dropped[0].reason


def test_an_empty_file_has_no_questions(file: Callable[..., Path]) -> None:
    assert VerticalBench.from_jsonl(file("")).summary() == {
        "name": "set",
        "n": 0,
        "scorer": "exact_match",
        "tag_keys": [],
    }


def test_a_subset_is_taken_before_the_limit_and_of_finance_only(file: Callable[..., Path]) -> None:
    rows = [FINANCE | {"financebench_id": str(n), "question_type": "ab"[n % 2]} for n in range(6)]
    bench = VerticalBench.from_jsonl(file(*rows), subset="b", limit=2, name="mine", scorer=contains)
    assert [question.qid for question in bench.questions] == ["1", "3"]
    assert (bench.name, bench.scorer, bench.not_in_subset) == ("mine", contains, 2)
    assert len(load_questions(file({"question": "Q", "answer": "A"}), subset="b")) == 1


@pytest.mark.parametrize(("limit", "count"), [(None, 3), (0, 0), (2, 2), (9, 3)])
def test_a_limit_holds_back_questions(file: Callable[..., Path], limit: int | None, count: int) -> None:
    path = file(*({"question": str(n), "answer": "A"} for n in range(3)))
    assert len(load_questions(path, limit=limit)) == count
    assert len(VerticalBench.from_jsonl(path).run(str, limit=limit).calls) == count


@pytest.mark.parametrize(
    ("options", "message"),
    [({"limit": -1}, "limit must be 0 or more"), ({"format": "finance-bench"}, "'financebench'")],
)
def test_what_makes_no_sense_is_refused(file: Callable[..., Path], options: Row, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        VerticalBench.from_jsonl(file(FINANCE), **options)
    with pytest.raises(ValueError, match="limit must be 0 or more"):
        make_bench(1).run(str, limit=-1)


FIELD_VALUES = (
    st.none() | st.booleans() | st.integers(-1, 1) | st.sampled_from(["", " ", "x", [], ["x"], {}, {"x": 1}])
)
FIELD_NAMES = st.sampled_from(
    ["financebench_id", "gold_standard", "question", "text", "answer", "label", "id", "evidence", "options"]
)  # fmt: skip


@pytest.mark.slow
@given(st.lists(st.dictionaries(FIELD_NAMES, FIELD_VALUES, max_size=4), max_size=6))
def test_every_row_is_a_question_or_listed(tmp_path_factory: pytest.TempPathFactory, rows: list[Row]) -> None:
    path = write_lines(tmp_path_factory.getbasetemp() / "rows.jsonl", *rows)
    bench = VerticalBench.from_jsonl(path)
    assert len(bench.questions) + len(bench.dropped) == len(rows)
    assert all(
        question.question.strip() and question.expected.strip() and question.qid
        for question in bench.questions
    )


# --- runs --------------------------------------------------------------------------------------------------


def make_bench(count: int, **options: Any) -> VerticalBench:
    """Questions `0`, `1` … whose right answers are themselves; the even ones are tagged so."""
    questions = [VerticalQA(f"q{n}", str(n), str(n), {"even": n % 2 == 0}) for n in range(count)]
    return VerticalBench("numbers", questions, **options)


def test_each_answer_is_scored_and_tagged() -> None:
    answers = {"0": "0", "1": "I do not know", "2": "three"}
    run = make_bench(3).run(answers.__getitem__, extra_tags={"variant": "small", "even": "own"})
    assert isinstance(run, Bench)
    assert run.name == "numbers"
    assert [call.metrics for call in run.calls] == [
        {"accuracy": 1.0, "refusal": 0.0},
        {"accuracy": 0.0, "refusal": 1.0},
        {"accuracy": 0.0, "refusal": 0.0},
    ]
    assert run.calls[2].tags == {"qid": "q2", "even": "own", "variant": "small"}
    assert (run.calls[2].input, run.calls[2].output) == ("2", "three")
    assert run.summary()["accuracy"]["n"] == 3
    lines = run.report().splitlines()
    assert "| accuracy | 0.33 | 0.0 | 0.0 | 1.0 |" in lines
    assert "- accuracy: 0.333 of n = 3, 95 % interval 0.061 to 0.792" in lines


async def echo_later(prompt: str) -> str:
    await asyncio.sleep(0.001 * (9 - int(prompt)))
    return prompt


def echo_in_turn(prompt: str) -> str:
    threading.Event().wait(0.001 * (9 - int(prompt)))
    return prompt


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("model", [echo_in_turn, echo_later])
def test_results_are_in_the_order_of_the_questions(model: Any, workers: int) -> None:
    thread_ids = []
    run = make_bench(9).run(model, workers=workers, on_row=lambda: thread_ids.append(threading.get_ident()))
    assert [call.tags["qid"] for call in run.calls] == [f"q{n}" for n in range(9)]
    assert run.accuracy().mean == 1.0
    assert len(thread_ids) == 9
    assert all(call.latency_ms >= 0.9 for call in run.calls)


def fail_on_some(prompt: str) -> Any:
    if prompt == "1":
        raise RuntimeError("no connection")
    return {"2": None, "3": ["3"]}.get(prompt, prompt)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_failure_is_recorded_and_ends_nothing(workers: int) -> None:
    def score(predicted: str, expected: str) -> Any:
        return {"4": float("nan"), "5": "high"}.get(predicted, 1.0)

    rows = []
    run = make_bench(7, scorer=score).run(fail_on_some, workers=workers, on_row=lambda: rows.append(1))
    assert [call.success for call in run.calls] == [True, False, False, False, False, False, True]
    errors = [str(call.error) for call in run.calls]
    assert errors[1] == "RuntimeError: no connection"
    assert errors[2] == "TypeError: The model gave NoneType, and only text can be scored."
    assert "gave list" in errors[3]
    assert errors[4].endswith("(from the scorer score)")
    assert "could not convert" in errors[5]
    assert [call.output for call in run.calls] == ["0", None, None, ["3"], "4", "5", "6"]
    assert len(rows) == 7
    accuracy = run.accuracy()
    assert (accuracy.n, accuracy.failed, accuracy.mean) == (2, 5, 1.0)
    assert accuracy.mean_failed_as_0 == pytest.approx(2 / 7)
    assert "- accuracy with failures as 0: 0.286 (95 % interval 0.082 to 0.641)" in run.report()


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("prompt", ["1", "2"])
def test_a_failure_is_raised_on_request(prompt: str, workers: int) -> None:
    bench = VerticalBench("b", [VerticalQA("q", prompt, "x")])
    with pytest.raises((RuntimeError, TypeError)):
        bench.run(fail_on_some, on_error="raise", workers=workers)


async def cancel_itself(prompt: str) -> str:
    raise asyncio.CancelledError("given up")


def test_a_model_that_cancels_itself_is_a_failure() -> None:
    assert make_bench(1).run(cancel_itself).calls[0].error == "CancelledError: given up"


def is_near(predicted: str, expected: str, off: float = 0.0) -> float:
    return float(abs(float(predicted) - float(expected)) <= off)


def test_a_scorer_is_given_its_arguments() -> None:
    answers = [VerticalQA("q", "101", "100")]
    for scorer, name in ((is_near, "off"), (numeric_match, "rel_tolerance")):
        assert VerticalBench("b", answers, scorer, {name: 1.0}).run(str).accuracy().mean == 1.0
        assert VerticalBench("b", answers, scorer, {name: 0.0}).run(str).accuracy().mean == 0.0


@pytest.mark.parametrize(
    ("scorer", "scorer_kwargs", "message"),
    [
        (is_near, {"of": 1.0}, "unexpected keyword argument 'of'"),
        (exact_match, {"tolerance": 1}, "exact_match cannot be called"),
        (patent_claim_validity, {}, "judge"),
        (is_near, {"expected": "x"}, "expected"),
    ],
)
def test_arguments_that_a_scorer_does_not_take_are_refused_first(
    scorer: Any, scorer_kwargs: Row, message: str
) -> None:
    prompts: list[str] = []

    def model(prompt: str) -> str:
        prompts.append(prompt)
        return prompt

    with pytest.raises(TypeError, match=message):
        make_bench(2, scorer=scorer, scorer_kwargs=scorer_kwargs).run(model)
    assert prompts == []


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(("after", "aborted"), [(0, True), (2, True), (4, False)])
def test_an_aborted_run_keeps_what_is_done_and_says_so(after: int, aborted: bool, workers: int) -> None:
    polls = iter(range(9))
    run = make_bench(4).run(str, should_abort=lambda: next(polls) >= after, workers=workers)
    assert [call.tags["qid"] for call in run.calls] == [f"q{n}" for n in range(after)]
    assert (run.aborted, run.planned) == (aborted, 4)
    assert (f"- aborted after {after} of 4 questions" in run.report()) == aborted


def test_what_is_done_outlives_an_interrupted_run(tmp_path: Path) -> None:
    def interrupted(prompt: str) -> str:
        if prompt == "3":
            raise KeyboardInterrupt
        return prompt

    partial_path = tmp_path / "done.jsonl"
    with pytest.raises(KeyboardInterrupt):
        make_bench(5, partial=partial_path).run(interrupted)
    assert [call.tags["qid"] for call in Bench.load(partial_path).calls] == ["q0", "q1", "q2"]


def test_results_are_grouped_by_tag_and_drawn() -> None:
    run = make_bench(5).run(lambda prompt: prompt if int(prompt) % 2 == 0 else "?")
    slices = run.by("even")
    assert [(name, statistic.n, statistic.mean) for name, statistic in slices.items()] == [
        ("True", 3, 1.0),
        ("False", 2, 0.0),
    ]
    assert run.accuracy().interval == pytest.approx((0.2307, 0.8824), abs=1e-4)
    rows = run.chart(by="even").spec["data"]["values"]
    assert [row["label"] for row in rows] == ["all (n = 5)", "True (n = 3)", "False (n = 2)"]
    assert all(row["low"] <= row["value"] <= row["high"] for row in rows)
    assert len(run.chart().spec["data"]["values"]) == 1
    assert run.chart("refusal", by="even").spec["data"]["values"]
    with pytest.raises(ValueError, match="'odd'"):
        run.by("odd")
    with pytest.raises(ValueError, match="nothing to draw"):
        make_bench(0).run(str).chart()


# --- judges ------------------------------------------------------------------------------------------------


class EchoJudge:
    """Records its calls, and scores the answers that are numbers."""

    rubric = "a rubric of my own"
    score_range = None

    def __init__(self) -> None:
        self.requests: list[Row] = []

    def grade(self, **fields: Any) -> SimpleNamespace:
        self.requests.append(fields)
        text = fields["prediction"]
        return SimpleNamespace(score=float(text) if text.isdigit() else None)


def test_hints_of_a_row_reach_the_judge(file: Callable[..., Path]) -> None:
    row = PATENT | {"family": "A", "gold_label": "claim", "question": "1"}
    path = file(row | {"rubric": {"claim_type": "method"}}, row | {"rubric": "not hints"}, row)
    judge = EchoJudge()
    bench = VerticalBench.from_jsonl(
        path,
        scorer=patent_claim_validity,
        scorer_kwargs={"judge": judge, "rubric": {"claim_type": "any", "statutory_focus": "103"}},
    )
    assert [type(question) for question in bench.questions] == [HintedQA, VerticalQA, VerticalQA]
    assert bench.run(str).accuracy().mean == 1.0
    assert [request["context"] for request in judge.requests] == [
        "Hints:\n- claim_type: method\n- statutory_focus: 103",
        *["Hints:\n- claim_type: any\n- statutory_focus: 103"] * 2,
    ]


def test_hints_stay_away_from_scorers_that_take_none(file: Callable[..., Path]) -> None:
    path = file(PATENT | {"gold_label": "B", "question": "B", "rubric": {"a": 1}})
    assert VerticalBench.from_jsonl(path).run(str).accuracy().mean == 1.0


@pytest.mark.parametrize("workers", [1, 4])
def test_a_judge_without_a_score_is_counted_apart(workers: int) -> None:
    questions = [VerticalQA(str(n), "1" if n % 3 else "?", "claim") for n in range(9)]
    bench = VerticalBench("claims", questions, patent_claim_validity, {"judge": EchoJudge()})
    run = bench.run(str, workers=workers)
    assert [call.tags.get("unscored", False) for call in run.calls] == [n % 3 == 0 for n in range(9)]
    assert run.unscored == 3
    assert run.accuracy().mean == pytest.approx(6 / 9)
    assert "- unscored, counted as 0: 3" in run.report()


def test_a_judge_that_is_down_fails_the_row_alone() -> None:
    class Down(EchoJudge):
        def grade(self, **fields: Any) -> SimpleNamespace:
            raise ConnectionError("refused")

    run = make_bench(2, scorer=patent_claim_validity, scorer_kwargs={"judge": Down()}).run(str)
    assert {call.error for call in run.calls} == {
        "ConnectionError: refused (from the scorer patent_claim_validity)"
    }


def test_each_family_of_patent_questions_has_a_scorer() -> None:
    assert list(PATENT_STRATEGIST_SCORERS) == ["A", "B", "C", "D-mcq", "D-oa", "D-irac", "E"]
    names = {family: scorer.__name__ for family, scorer in PATENT_STRATEGIST_SCORER_FNS.items()}
    assert names == {
        family: name for family, name in PATENT_STRATEGIST_SCORERS.items() if name != "judge_rubric"
    }
    assert PATENT_STRATEGIST_SCORER_FNS["D-irac"] is irac_structure


def test_a_run_comes_back_from_its_file_as_a_run(tmp_path: Path) -> None:
    vb = VerticalBench("v", [VerticalQA("a", "a" * 9999, "yes")])
    run = vb.run(lambda _prompt: "yes")
    loaded_run = VerticalRun.load(run.dump(tmp_path / "run.json"))
    assert (type(loaded_run), loaded_run.name, loaded_run.accuracy().mean) == (VerticalRun, "v", 1.0)
    assert repr(vb) == "<VerticalBench 'v': 1 questions, exact_match>"
    assert repr(run) == repr(loaded_run) == "<VerticalRun 'v': 1 calls, 0 failed>"
