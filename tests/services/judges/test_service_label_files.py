"""Files of labels: their fields, and errors with their lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.errors import StoreError, SuiteError, UsageError
from proctor.model import Message, Output
from proctor.reports import REPORTS
from proctor.services import events
from proctor.services.judges.label_files import EXPORT_FIELDS, RUN_LABEL_FIELDS, read_labels
from proctor.services.judges.labelled_answers import AnswerSelection, find_answers
from proctor.services.runs.reading.report import build_report, write_report
from proctor.stores.sqlite.store import SqliteStore
from support.sessions import MakeRuns, WriteSuite

OWN = {"input": "2 + 2?", "output": "4", "expected": "4", "label": "pass"}


def write_labels(*rows: Any, name: str = "labels.jsonl") -> str:
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    Path(name).write_text("\n".join(lines), encoding="utf-8")
    return name


def read_problems(path: str) -> list[tuple[int | None, str]]:
    with pytest.raises(SuiteError) as caught:
        read_labels(path)
    assert all(problem.path == path for problem in caught.value.problems)
    return [(problem.line, problem.message) for problem in caught.value.problems]


# --- the fields of a line ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "grader", "params"),
    [
        ({"criteria": "Adds up"}, "llm_grader", {}),
        ({"expected": "4"}, "llm_grader", {}),
        ({"judge_prompt": "Is it 4?", "expected": "4"}, "llm_judge", {"prompt": "Is it 4?"}),
        ({"rubric": "5 for a 4"}, "rubric", {"rubric": "5 for a 4"}),
    ],
)
def test_an_answer_beside_its_label_is_judged_by_what_stands_there(
    fields: dict[str, Any], grader: str, params: dict[str, Any]
) -> None:
    (line,) = read_labels(write_labels({"input": "2 + 2?", "output": "4", "label": "pass", **fields})).lines
    assert line.standalone is not None
    (assertion,) = line.standalone.case.assertions
    assert (assertion.grader, assertion.params) == (grader, params)
    assert line.standalone.case.input == (Message(role="user", content="2 + 2?"),)
    assert line.standalone.output == Output(text="4")
    assert line.standalone.case.id == "line-1"


@pytest.mark.parametrize(
    ("label", "passed"), [("pass", True), (" PASS ", True), ("fail", False), (True, True), (False, False)]
)
def test_a_label_is_pass_or_fail(label: Any, passed: bool) -> None:
    (line,) = read_labels(write_labels({**OWN, "label": label, "by": " ana ", "note": "n"})).lines
    assert (line.label.passed, line.label.by, line.label.note) == (passed, "ana", "n")


def test_a_conversation_and_an_output_with_tool_calls_can_stand_there() -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 + 2?"}]
    output = {"text": "4", "tool_calls": [{"name": "add", "arguments": {"a": 2}}]}
    (line,) = read_labels(write_labels({**OWN, "input": messages, "output": output})).lines
    assert line.standalone is not None
    assert [message.role for message in line.standalone.case.input] == ["system", "user"]
    assert line.standalone.output.tool_calls[0].name == "add"


def test_a_line_whose_label_is_blank_has_none_yet() -> None:
    labels = read_labels(write_labels({**OWN, "label": ""}, {**OWN, "label": None}, OWN))
    assert ([line.line for line in labels.lines], labels.unlabelled) == ([3], 2)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({**OWN, "label": "good"}, "`label` is 'good'; write `pass` or `fail`."),
        ({**OWN, "label": 1}, "`label` is 1; write `pass` or `fail`."),
        ({**OWN, "lable": "pass"}, "Unknown field 'lable'. Did you mean 'label'?"),
        ({"case_id": "a", "label": "pass", "output": "4"}, "Unknown field 'output'."),
        ({"case_id": "a", "label": "pass", "repeat": -1}, "`repeat` is -1"),
        ({"case_id": "", "label": "pass"}, "`case_id` is blank"),
        ({"input": "x", "output": "y", "label": "pass"}, "There are no grading instructions for the answer"),
        ({**OWN, "judge_prompt": "a?", "rubric": "b"}, "cannot be combined with `judge_prompt`"),
        ({**OWN, "judge_prompt": "a?", "criteria": "b"}, "`criteria` must be next to `judge_prompt`"),
        ({**OWN, "judge_prompt": " "}, "`prompt` is empty"),
        ({**OWN, "input": [{"role": "nobody"}]}, "`input` is"),
        ({**OWN, "input": [{"role": "user", "contents": "x"}]}, "`input` is"),
        ({**OWN, "output": None}, "`output` is missing"),
        ({**OWN, "output": {"txt": "4"}}, "`output` is"),
        ({"output": "4", "criteria": "c", "label": "pass"}, "`input` is missing"),
        ('{"case_id": "a"', "The line is not JSON"),
        ('["a"]', "not a JSON object"),
    ],
)
def test_a_wrong_line_is_told_with_its_place(row: Any, message: str) -> None:
    problems = read_problems(write_labels(OWN, row))
    assert problems[0][0] == 2
    assert message in " ".join(text for _, text in problems)


def test_every_wrong_line_is_told_at_once() -> None:
    rows = [{**OWN, "label": "?"}, OWN, {"input": "x"}, {**OWN, "b": 1}]
    assert {line for line, _ in read_problems(write_labels(*rows))} == {1, 3, 4}


def test_a_file_without_labels_or_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="has no label"):
        read_labels(write_labels({**OWN, "label": None}))
    with pytest.raises(UsageError, match="cannot be read"):
        read_labels("nowhere.jsonl")


# --- CSV ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_csv_says_the_same(separator: str) -> None:
    rows = [["Input", "output", "expected", "label", "by"], ['"2 + 2?\nQuick"', "4", "4", "PASS", "ana"]]
    text = "\r\n".join(separator.join(row) for row in rows)
    Path("l.csv").write_bytes(b"\xef\xbb\xbf" + text.encode("utf-8"))
    (line,) = read_labels("l.csv").lines
    assert line.standalone is not None
    assert line.standalone.case.input[0].content == "2 + 2?\nQuick"
    assert (line.standalone.case.expected, line.label.passed, line.label.by, line.line) == (
        "4",
        True,
        "ana",
        2,
    )


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("input,output,lable\nx,y,pass", 1, "Unknown column 'lable'. Did you mean 'label'?"),
        ("input,output,criteria\nx,y,z", 1, "There is no column `label`"),
        ("label,label\npass,fail", 1, "appears twice"),
        ("case_id,label\na,pass,more", 2, "3 cells, but the first line has 2 columns"),
        ('case_id,label\n\na,"pass', 3, "The row is not valid CSV"),
        ("case_id,label\na,maybe", 2, "write `pass` or `fail`"),
        ("case_id,label,repeat\na,pass,two", 2, "`repeat` is 'two'"),
    ],
)
def test_wrong_csv_is_told_with_its_place(text: str, line: int, message: str) -> None:
    Path("l.csv").write_text(text, encoding="utf-8")
    assert [(line, True)] == [
        (place, message in text_of_problem) for place, text_of_problem in read_problems("l.csv")
    ][:1]


@pytest.mark.parametrize("separator", [",", ";"])
def test_a_table_with_a_header_of_its_own_is_told_once_what_to_rename_and_to_add(separator: str) -> None:
    header = ["question", "right answer", "what the bot said", "Verdict", "rater"]
    rows = [header, *([f"q{n}", "a", "b", "good", "ana"] for n in range(25))]
    Path("rated.csv").write_text("\n".join(map(separator.join, rows)), encoding="utf-8")
    problems = read_problems("rated.csv")
    assert {line for line, _ in problems} == {1}
    messages = [message for _, message in problems]
    assert messages[0] == "Unknown column 'question'. Rename it to `input`."
    assert messages[1] == "Unknown column 'right answer'. Rename it to `expected`."
    assert messages[2].startswith("Unknown column 'what the bot said'. Expected one of: by, criteria,")
    assert messages[3:] == [
        "Unknown column 'verdict'. Rename it to `label`.",
        "Unknown column 'rater'. Rename it to `by`.",
        "There is no column `output`. Add one, with the answer in each row.",
    ]


def test_a_column_is_not_renamed_to_one_that_is_there() -> None:
    Path("l.csv").write_text("input,prompt,question,label\nx,y,z,pass", encoding="utf-8")
    assert "Rename" not in " ".join(message for _, message in read_problems("l.csv"))


def test_a_header_without_grading_instructions_is_told_once() -> None:
    Path("l.csv").write_text("input,output,label\nx,y,pass\nz,y,fail", encoding="utf-8")
    ((line, message),) = read_problems("l.csv")
    assert line == 1
    assert message.startswith("There is no column with grading instructions. Add one of `criteria`, ")


def test_a_fault_of_many_lines_is_told_once_with_their_numbers() -> None:
    rows = ["case_id,label", *(f"c{n},{'good' if n % 2 else 'bad'}" for n in range(25)), "a,?", "b,?"]
    Path("l.csv").write_text("\n".join(rows), encoding="utf-8")
    words = "write `pass` or `fail`. The same on"
    assert read_problems("l.csv") == [
        (2, f"`label` is 'bad'; {words} 12 other lines: 4, 6, 8, 10, 12 and 7 more."),
        (3, f"`label` is 'good'; {words} 11 other lines: 5, 7, 9, 11, 13 and 6 more."),
        (27, f"`label` is '?'; {words} line 28."),
    ]


def test_a_field_with_another_name_is_told_once_what_to_call_it() -> None:
    row = {"question": "2 + 2?", "answer": "4", "expected": "4", "verdict": "pass", "rater": "ana"}
    renames = [
        message for _, message in read_problems(write_labels(row, row, row)) if "Unknown field" in message
    ]
    assert renames == [
        f"Unknown field {name!r}. Rename it to `{field}`. The same on 2 other lines: 2, 3."
        for name, field in (
            ("question", "input"),
            ("answer", "output"),
            ("verdict", "label"),
            ("rater", "by"),
        )
    ]


def test_csv_that_is_not_utf_8_is_told_with_its_line() -> None:
    Path("l.csv").write_bytes(b"case_id,label\na,pass\nb\xff,fail\n")
    assert read_problems("l.csv") == [(3, "The line is not UTF-8. Save the file as UTF-8.")]


@given(st.binary(max_size=200), st.sampled_from(("l.csv", "l.jsonl")))
def test_no_bytes_break_the_reading(data: bytes, name: str) -> None:
    Path(name).write_bytes(data)
    with pytest.raises((SuiteError, UsageError)):
        read_labels(name)


# --- the answers that labels are of ------------------------------------------------------------------------

SUITE = """
tests:
  - {id: a, input: one, criteria: Is one, assertions: [{type: llm-grader}]}
  - {id: b, input: two, criteria: Is two, assertions: [{type: llm-grader}]}
  - {id: "=c", input: three, criteria: Is three, assertions: [{type: llm-grader}]}
"""


@pytest.fixture
async def run(make: MakeRuns) -> events.RunFinished:
    Path("s.eval.yaml").write_text(SUITE, encoding="utf-8")
    Path("answers.jsonl").write_text('{"a": "=1", "b": "2"}', encoding="utf-8")
    Path("judge.jsonl").write_text('{"*": "{\\"score\\": 1}"}', encoding="utf-8")
    (result,) = await make("s.eval.yaml", "scripted:answers.jsonl", judges=("scripted:judge.jsonl",))
    run: events.RunFinished = result
    return run


def find_selection(path: str, store: SqliteStore, run: str | None = None) -> AnswerSelection:
    return find_answers(read_labels(path), store, run, {})


def find_errors(path: str, store: SqliteStore, run: str | None = None) -> list[str]:
    with pytest.raises(SuiteError) as caught:
        find_selection(path, store, run)
    return [str(problem) for problem in caught.value.problems]


async def test_what_an_export_has_besides_is_known(run: events.RunFinished, store: SqliteStore) -> None:
    write_report("out.jsonl", [build_report(store, run.run)])
    write_report("out.csv", [build_report(store, run.run)])
    fields = set(json.loads(Path("out.jsonl").read_text(encoding="utf-8").split("\n")[0]))
    fields |= set(Path("out.csv").read_bytes().decode("utf-8").split("\r\n")[0].split(","))
    assert fields - {*RUN_LABEL_FIELDS} == EXPORT_FIELDS
    assert {".jsonl", ".csv"} <= {*REPORTS.names()}


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
async def test_an_exported_run_becomes_labels_with_one_more_field(
    run: events.RunFinished, store: SqliteStore, ending: str
) -> None:
    write_report(f"out.{ending}", [build_report(store, run.run)])
    lines = Path(f"out.{ending}").read_text(encoding="utf-8").splitlines()
    if ending == "jsonl":
        labelled_lines = [json.dumps({**json.loads(lines[0]), "label": "pass"}), *lines[1:]]
    else:
        labelled_lines = ["label," + lines[0], "fail," + lines[1], *("," + line for line in lines[2:])]
    Path(f"labels.{ending}").write_text("\n".join(labelled_lines), encoding="utf-8")
    labels = read_labels(f"labels.{ending}")
    assert (len(labels.lines), labels.unlabelled) == (1, 2)
    (answer,) = find_selection(f"labels.{ending}", store).answers
    assert answer.trial.output is not None
    assert (answer.trial.case_id, answer.trial.output.text) == ("a", "=1")
    assert [label.passed for label in answer.labels] == [ending == "jsonl"]
    assert answer.run == run.run


async def test_answers_are_in_the_order_of_the_file(run: events.RunFinished, store: SqliteStore) -> None:
    path = write_labels({"case_id": "b", "label": "pass"}, OWN, {"case_id": "a", "label": "fail"})
    assert [line.trial.case_id for line in find_selection(path, store, "last").answers] == [
        "b",
        "line-2",
        "a",
    ]


async def test_lines_that_name_no_answer_are_told(run: events.RunFinished, store: SqliteStore) -> None:
    path = write_labels(
        {"case_id": "z", "label": "pass"},
        {"case_id": "a", "label": "pass", "repeat": 1},
        {"case_id": "=c", "label": "fail"},
        {"case_id": "b", "label": "pass", "verdict": "pass", "output": {"text": "3"}},
        {"case_id": "b", "label": "pass", "run": "20000101-000000-000000"},
    )
    errors = find_errors(path, store, run.run.id)
    assert [line.split(":")[1] for line in errors] == ["1", "2", "3", "4", "5"]
    assert "has no finished answer to case 'z'." in errors[0]
    assert "to case 'a', repeat 1." in errors[1]
    assert "Case '=c' has no answer in that run: missing: No key" in errors[2]
    assert "differs from the one in the run" in errors[3]
    assert "no run '20000101-000000-000000'" in errors[4]


async def test_a_line_without_a_run_needs_one_and_must_not_name_another(
    run: events.RunFinished, store: SqliteStore, make: MakeRuns
) -> None:
    path = write_labels({"case_id": "a", "label": "pass"})
    assert "Name the run with the answers" in find_errors(path, store)[0]
    with pytest.raises(StoreError, match="no run 'gone'"):
        find_selection(path, store, "gone")
    (other,) = await make("s.eval.yaml", "echo", judges=("scripted:judge.jsonl",))
    path = write_labels({"case_id": "a", "label": "pass", "run": run.run.id})
    assert (
        f"belongs to run {run.run.id}, but you named run {other.run.id}"
        in find_errors(path, store, "last")[0]
    )
    assert len(find_selection(path, store).answers) == 1


async def test_several_people_may_label_an_answer_and_one_may_not_contradict_themselves(
    run: events.RunFinished, store: SqliteStore
) -> None:
    rows = [{**OWN, "by": "ana"}, {**OWN, "by": "bo", "label": "fail"}, {**OWN, "by": "ana"}]
    (answer,) = find_selection(write_labels(*rows), store).answers
    assert [(label.by, label.passed) for label in answer.labels] == [("ana", True), ("bo", False)]
    path = write_labels(*rows, {**OWN, "by": "ana", "label": "fail"})
    assert (
        "labels.jsonl:4: error: ana gave the same answer the opposite label on line 1"
        in find_errors(path, store)[0]
    )
    path = write_labels({"case_id": "a", "label": "pass"}, {"case_id": "a", "label": "fail"})
    assert "or name the people in `by`" in find_errors(path, store, "last")[0]


def test_an_id_stands_for_one_answer(store: SqliteStore) -> None:
    rows = [{**OWN, "id": "x"}, {**OWN, "id": "x", "by": "bo"}, {**OWN, "id": "x", "output": "5"}]
    assert find_errors(write_labels(*rows), store) == [
        "labels.jsonl:3: error: The id 'x' names another answer on line 1. Give each answer its own id."
    ]


async def test_labels_of_cases_that_nobody_judges_alone_are_refused(
    store: SqliteStore, suite: WriteSuite, make: MakeRuns
) -> None:
    await make(suite(("a", "x", "x")))
    with pytest.raises(UsageError, match="has an assertion that uses a judge"):
        find_selection(write_labels({"case_id": "a", "label": "pass"}), store, "last")


# --- how an answer was drawn -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["labels.jsonl", "labels.csv"])
def test_a_line_may_say_how_its_answer_was_drawn(name: str) -> None:
    plain = {"run": "r1", "case_id": "c1", "label": "pass"}
    rows: tuple[Any, ...] = (plain | {"drawn": "doubt", "doubt": 1.5}, plain | {"case_id": "c2"})
    if name.endswith("csv"):
        rows = ("run,case_id,label,drawn,doubt", "r1,c1,pass,doubt,1.5", "r1,c2,pass,,")
    first, second = (line.label for line in read_labels(write_labels(*rows, name=name)).lines)
    assert (first.drawn, first.doubt) == ("doubt", 1.5)
    assert (second.drawn, second.doubt) == (None, None)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"drawn": "chosen"}, "`drawn`"),
        ({"drawn": "random", "doubt": 0}, "must be above 0"),
        ({"doubt": "much"}, "`doubt`"),
    ],
)
def test_a_draw_that_does_not_exist_is_told(fields: dict[str, Any], words: str) -> None:
    ((line, message),) = read_problems(
        write_labels({"run": "r1", "case_id": "c1", "label": "pass", **fields})
    )
    assert line == 1
    assert words.replace("`", "") in message.replace("`", "").replace("'", "")
