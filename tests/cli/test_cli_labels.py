"""Labels in the store on the command line: `runs labels`, `certify --judge`, `runs delete`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from proctor.errors import SuiteError
from proctor.model import Label
from proctor.services.judges.label_files import read_labels
from proctor.stores import open_store
from support.cli import Proctor

STORE = ".proctor/proctor.db"
JUDGE = """
import json, re

def f(messages):
    text = messages[-1]["content"]
    answer = re.search(r"<<<BEGIN ANSWER \\w+>>>\\n(.*?)\\n<<<END", text, re.S)[1]
    good = "right" in answer or "lucky" in answer
    return json.dumps({"score": 5 if good else 1, "reason": "It is " + answer})
"""


@pytest.fixture
def judge(function: Callable[[str], str]) -> str:
    return function(JUDGE)


@pytest.fixture
def run_id(proctor: Proctor, suite: Proctor, script: Proctor, judge: str) -> str:
    """A run of eight answers: four right, two wrong ones that the judge passes, two plainly wrong."""
    words = ["right"] * 4 + ["lucky"] * 2 + ["wrong"] * 2
    cases = [
        {"id": f"t{n}", "input": f"Question {n}?", "scorer": "llm_judge", "rubric": "Be right."}
        for n in range(8)
    ]
    target = script(**{f"t{n}": f"{word} {n}" for n, word in enumerate(words)})
    result = proctor("run", suite(*cases), "--target", target, "--judge", judge, "--json")
    return str(result.run["run"])


def label(run_id: str, *, by: str = "ana", held_out: bool = False, count: int = 8) -> None:
    """Ana and Bo pass what is right."""
    store = open_store(STORE)
    for n in range(count):
        store.add_label(
            Label(run=run_id, case_id=f"t{n}", passed=n < 4, by=by, note=f"nóte {n}"), held_out=held_out
        )
    store.close()


@pytest.mark.slow
def test_a_judge_is_measured_by_the_labels_in_the_store(proctor: Proctor, judge: str, run_id: str) -> None:
    label(run_id)
    result = proctor("certify", "--judge", judge)
    assert "agrees with people on 6 of 8 answers" in result.out
    assert "t4  judge: PASS, people: FAIL  [nóte 4]" in result.out
    assert (
        proctor("certify", run_id, "--judge", judge, "--json").json["calibration"]["agreement"]["count"] == 6
    )


def test_only_the_labels_of_the_named_run_are_taken(proctor: Proctor, judge: str, run_id: str) -> None:
    label("20200101-000000-gone00", count=3)
    result = proctor("certify", run_id, "--judge", judge)
    assert result.code == 4
    assert f"No answer of run {run_id} has a label yet." in result.err
    label(run_id, count=2)
    result = proctor("certify", "--judge", judge)
    assert "agrees with people on 2 of 2 answers" in result.out
    assert "Skipped, because their runs were deleted: 3 labels." in result.out


@pytest.mark.slow
def test_labels_are_written_as_they_are_read_again(
    proctor: Proctor, judge: str, run_id: str, folder: Path
) -> None:
    label(run_id)
    label(run_id, by="Bo", count=1)
    output = proctor("runs", "labels", "last").out
    result = proctor("runs", "labels", run_id, "-o", "mine.jsonl")
    assert result.out == ""
    assert "9 labels written to mine.jsonl" in result.err
    assert (folder / "mine.jsonl").read_text(encoding="utf-8") == output
    assert json.loads(output.splitlines()[0]) == {
        "run": run_id,
        "case_id": "t0",
        "repeat": 0,
        "label": "pass",
        "by": "ana",
        "note": "nóte 0",
    }
    assert [line.label.by for line in read_labels("mine.jsonl").lines] == ["ana"] * 8 + ["Bo"]
    from_file = proctor("certify", "--judge", judge, "--labels", "mine.jsonl", "--json").json["calibration"]
    calibration = proctor("certify", "--judge", judge, "--json").json["calibration"]
    assert from_file["labels_digest"] == calibration["labels_digest"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("runs", "labels", "last"), "has a label yet"),
        (("runs", "labels", "nobody"), "There is no run 'nobody'"),
        (("runs", "labels", "last", "-o", "x.csv"), "one of .jsonl"),
    ],
)
def test_wrong_usage_is_4_with_a_sentence(
    proctor: Proctor, run_id: str, words: tuple[str, ...], message: str
) -> None:
    result = proctor(*words)
    assert result.code == 4
    assert message in result.err


def test_labels_of_held_out_answers_are_a_look_and_their_notes_are_sealed(
    proctor: Proctor, half: str
) -> None:
    proctor("run", half, "--target", "echo", "--holdout", "0.4", "--quiet")
    run = proctor("runs", "show", "last", "--json").run
    looks = run["looks"]
    label(run["run"], held_out=True, count=2)
    result = proctor("runs", "labels", "last")
    assert [json.loads(line)["note"] for line in result.out.splitlines()] == ["", ""]
    revealed = proctor("runs", "labels", "last", "--reveal")
    assert "nóte 1" in revealed.out
    assert proctor("runs", "show", "last", "--json").run["looks"] == looks + 1 + 2 + 1


def test_labels_of_a_deleted_run_stay_and_that_is_said(proctor: Proctor, run_id: str) -> None:
    label(run_id)
    result = proctor("runs", "delete", run_id, "--yes")
    assert f"Its labels for 8 answers are kept. `proctor runs labels {run_id}` exports them" in result.err
    assert len(proctor("runs", "labels", run_id).out.splitlines()) == 8


@pytest.mark.slow
def test_labels_count_again_when_their_run_is_imported(proctor: Proctor, run_id: str, judge: str) -> None:
    label(run_id)
    proctor("attest", run_id, "--no-sign", "-o", "b.zip")
    proctor("runs", "delete", run_id, "--yes")
    assert "No answer of any run has a label yet." in proctor("certify", "--judge", judge).err
    assert proctor("runs", "import", "b.zip").code == 0
    assert "agrees with people on 6 of 8 answers" in proctor("certify", "--judge", judge).out


def test_a_file_that_is_wrong_is_still_told_by_its_lines(proctor: Proctor, judge: str, folder: Path) -> None:
    (folder / "l.jsonl").write_text('{"case_id": "a", "lable": "pass"}\n', encoding="utf-8")
    with pytest.raises(SuiteError):
        read_labels("l.jsonl")
    assert "l.jsonl:1" in proctor("certify", "--judge", judge, "--labels", "l.jsonl").err
