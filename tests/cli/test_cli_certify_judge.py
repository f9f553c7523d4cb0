"""`proctor certify --judge`: a judge compared with people, and what runs report about their judge."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.cli import Proctor
from support.endpoints import JsonHandler, serve_in_thread
from support.waiting import PATIENCE_S

JUDGE = """
import json, re

def f(messages):
    text = messages[-1]["content"]
    answer = re.search(r"<<<BEGIN ANSWER \\w+>>>\\n(.*?)\\n<<<END", text, re.S)[1]
    right = "right" in answer or "lucky" in answer
    return json.dumps({"score": float(right), "assertions": [], "reasoning": "It is " + answer})
"""


def rows(right: int, lucky: int, wrong: int) -> list[dict[str, Any]]:
    """Rows of right answers, wrong answers that the judge passes, and wrong answers that it fails."""
    words = ["right"] * right + ["lucky"] * lucky + ["wrong"] * wrong
    return [
        {
            "id": f"t{place}",
            "input": f"Question {place}?",
            "output": f"{word} {place}",
            "criteria": "Is right",
            "label": "pass" if word == "right" else "fail",
        }
        for place, word in enumerate(words)
    ]


@pytest.fixture
def judge(function: Callable[[str], str]) -> str:
    return function(JUDGE)


@pytest.fixture
def labels(folder: Path) -> Callable[..., str]:
    def write(lines: list[dict[str, Any]], name: str = "labels.jsonl") -> str:
        (folder / name).write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
        return name

    return write


@pytest.mark.slow
def test_a_judge_is_measured_printed_and_written(
    proctor: Proctor, judge: str, labels: Proctor, folder: Path
) -> None:
    outputs = [word for name in ("j.json", "j.md", "j.svg") for word in ("-o", name)]
    result = proctor("certify", "--judge", judge, "--labels", labels(rows(25, 10, 15)), *outputs)
    assert result.code == 0
    assert (
        f"{judge} judges 50 answers: 250 calls, or up to 750 if replies cannot be read (price unknown)."
    ) in result.err
    assert "agrees with people on 40 of 50 answers (80.0%, 67–89%), kappa 0.60 (" in result.out
    assert "it passes 40.0% (23–59%) of what people fail." in result.out
    assert "judge: FAIL" not in result.out
    assert "t25  judge: PASS, people: FAIL  The judge" in result.out
    assert "Answer: 'lucky 25'" in result.out
    assert "250 calls · cost" in result.out
    data = json.loads((folder / "j.json").read_text(encoding="utf-8"))
    agreement = data["calibration"]["agreement"]
    assert agreement == {"count": 40, "of": 50, "rate": 0.8, "ci95": [0.67, 0.888]}
    assert [difference["case_id"] for difference in data["differences"]] == [f"t{n}" for n in range(25, 35)]
    page = (folder / "j.md").read_text(encoding="utf-8")
    assert "| agrees with people | 40/50 | 80.0% | 67–89% |" in page
    assert (folder / "j.svg").read_text(encoding="utf-8").startswith("<svg")


def test_json_is_one_object_and_nothing_else(proctor: Proctor, judge: str, labels: Proctor) -> None:
    result = proctor("certify", "--judge", judge, "--labels", labels(rows(2, 0, 2)), "--repeat", 1, "--json")
    assert result.json["calibration"]["repeats"] == 1
    assert result.json["calls"] == 12
    assert result.json["exit_code"] == result.code == 0
    assert result.json["calibration"]["sensitivity"]["rate"] == 1.0


@pytest.fixture
def judged(suite: Proctor, script: Proctor) -> tuple[str, str]:
    """A suite of twenty cases by a rubric, and a target that gets twelve right and is lucky in four."""
    words = ["right"] * 12 + ["lucky"] * 4 + ["wrong"] * 4
    cases = [
        {"id": f"t{n}", "input": f"Question {n}?", "scorer": "llm_judge", "rubric": "Be right."}
        for n in range(20)
    ]
    return suite(*cases), script(**{f"t{n}": f"{word} {n}" for n, word in enumerate(words)})


RUBRIC_JUDGE = JUDGE.replace(
    '{"score": float(right), "assertions": [], "reasoning"', '{"score": 5 if right else 1, "reason"'
)


@pytest.mark.slow
def test_a_run_says_what_its_judge_is_worth_before_and_after(
    proctor: Proctor, function: Proctor, labels: Proctor, judged: tuple[str, str], folder: Path
) -> None:
    judge = function(RUBRIC_JUDGE)
    run = ("run", judged[0], "--target", judged[1], "--judge", judge)
    before = proctor(*run)
    assert (
        f"It has not been measured whether the judge {judge!r} agrees with people. To measure it: proctor "
        "certify --judge" in before.out
    )

    own = [{**row, "rubric": "Be right."} for row in rows(40, 10, 30)]
    for row in own:
        del row["criteria"]
    assert proctor("certify", "--judge", judge, "--labels", labels(own)).code == 0
    after = proctor("runs", "show", "last")
    line = next(line for line in after.out.splitlines() if line.startswith("The judge"))
    assert "agrees with people on 70 of 80 answers (87.5%, 78–93%)" in line
    assert "it passes 25.0% (14–40%) of what people fail (measured 20" in line
    assert "Corrected for that, people would pass 73.3% (" in line
    (calibration,) = proctor("runs", "show", "last", "--json").run["judge"]["calibrations"]
    assert calibration["corrected_pass_rate"]["rate"] == pytest.approx((16 / 20 + 0.75 - 1) / 0.75)
    assert calibration["other_prompts"] is False
    assert proctor("runs", "export", "last", "-o", "o.md").code == 0
    assert line[:40] in (folder / "o.md").read_text(encoding="utf-8").replace("\\", "")


@pytest.mark.slow
def test_a_run_that_asks_by_other_prompts_says_so(
    proctor: Proctor, function: Proctor, labels: Proctor, judged: tuple[str, str]
) -> None:
    judge = function(RUBRIC_JUDGE)
    question = [{**row, "judge_prompt": "Right?"} for row in rows(2, 0, 2)]
    for row in question:
        del row["criteria"]
    script = Path("yes.jsonl")
    script.write_text('{"t0": "YES", "t1": "YES", "*": "NO"}', encoding="utf-8")
    assert proctor("certify", "--judge", "scripted:yes.jsonl", "--labels", labels(question)).code == 0
    proctor("run", judged[0], "--target", judged[1], "--judge", judge, "--json")
    Path("scores.jsonl").write_text('{"*": "5"}', encoding="utf-8")
    script.write_text('{"*": "5"}', encoding="utf-8")
    result = proctor("run", judged[0], "--target", judged[1], "--judge", "scripted:yes.jsonl")
    assert "It was measured with other judge prompts than this run uses." in result.out
    assert "Corrected" not in result.out


@pytest.mark.slow
def test_an_export_with_labels_is_judged_again(
    proctor: Proctor, function: Proctor, labels: Proctor, judged: tuple[str, str], folder: Path
) -> None:
    judge = function(RUBRIC_JUDGE)
    proctor("run", judged[0], "--target", judged[1], "--judge", judge, "--split", "dev", "--quiet")
    proctor("runs", "export", "last", "-o", "out.jsonl")
    lines = [json.loads(line) for line in (folder / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    for line in lines:
        line["label"] = "pass" if line["output"]["text"].startswith("right") else "fail"
    result = proctor("certify", "--judge", judge, "--labels", labels(lines), "--json")
    calibration = result.json["calibration"]
    assert calibration["agreement"]["of"] == len(lines)
    assert calibration["base_rate"]["count"] == sum(line["label"] == "pass" for line in lines)
    share = f"{calibration['agreement']['count']} of {len(lines)} answers"
    assert f"agrees with people on {share}" in proctor("runs", "show", "last").out


def test_labels_of_held_out_answers_count_as_a_look_and_show_no_reason(
    proctor: Proctor, function: Proctor, labels: Proctor, judged: tuple[str, str]
) -> None:
    judge = function(RUBRIC_JUDGE)
    run = proctor(
        "run", judged[0], "--target", judged[1], "--judge", judge, "--split", "holdout", "--json"
    ).run
    lines = [{"case_id": f"t{n}", "label": "fail", "note": "the sealed reason"} for n in range(20)]
    before = proctor("runs", "export", "last", "-o", "out.jsonl", "--reveal")
    assert before.code == 0
    held_out_ids = [
        json.loads(line)["case_id"] for line in Path("out.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    looks = proctor("runs", "show", "last", "--json").run["looks"]
    result = proctor(
        *("certify", run["run"], "--judge", judge, "--labels"),
        labels([line for line in lines if line["case_id"] in held_out_ids]),
    )
    assert result.code == 0
    assert "people: FAIL  hidden; use --reveal to show it" in result.out
    assert "Question" not in result.out + result.err
    assert "the sealed reason" not in result.out
    assert proctor("runs", "show", "last", "--json").run["looks"] == looks + 2


def test_the_announced_calls_are_those_of_all_assertions_with_a_judge(
    proctor: Proctor, labels: Proctor, suite: Proctor
) -> None:
    question = [{"role": "user", "content": "Q?"}]
    member = {"grader": "llm_grader", "params": {}}
    members = [{"name": name, "assertion": member} for name in ("a", "b")]
    composite = {"members": members, "aggregator": {"type": "weighted_average"}}
    judged = [member, {"grader": "composite", "params": composite}]
    name = suite({"proctor": 1, "name": "s"}, {"id": "t0", "input": question, "assertions": judged})
    Path("yes.jsonl").write_text('{"*": "{\\"score\\": 1}"}', encoding="utf-8")
    proctor("run", name, "--target", "echo", "--judge", "scripted:yes.jsonl", "--quiet")
    label = labels([{"case_id": "t0", "label": "pass"}])
    result = proctor("certify", "last", "--judge", "scripted:yes.jsonl", "--labels", label, "--json")
    assert "judges 1 answer: 15 calls, or up to 45" in result.err
    assert result.json["calls"] == 15


def test_a_judge_without_verdicts_is_3_and_nothing_is_kept(
    proctor: Proctor, labels: Proctor, folder: Path, judged: tuple[str, str]
) -> None:
    result = proctor("certify", "--judge", "echo", "--labels", labels(rows(2, 0, 2)), "--repeat", 1)
    assert result.code == 3
    assert "gave no verdict on any of 4 answers" in result.out
    assert result.out.count("UNSCORED") == 1  # the reason of all is the same
    assert "…and 3 more; --json lists all" in result.out
    assert "12 calls, or up to 36 if" in result.err
    assert "36 calls · cost" in result.out
    proctor("certify", "--judge", "echo", "--labels", "labels.jsonl", "--repeat", 1, "-o", "e.json")
    assert json.loads((folder / "e.json").read_text(encoding="utf-8"))["calibration"] is None


def test_what_was_unscored_is_3_unless_so_many_are_allowed(
    proctor: Proctor, labels: Proctor, folder: Path
) -> None:
    replies = {"t0": '{"score": 1}', "t1": '{"score": 1}', "t3": '{"score": 0}'}
    (folder / "j.jsonl").write_text(json.dumps(replies), encoding="utf-8")
    words = ("certify", "--judge", "scripted:j.jsonl", "--labels", labels(rows(2, 0, 2)))
    result = proctor(*words)
    assert result.code == 3
    assert "It gave no verdict on 1 more" in result.out
    assert proctor(*words, "--allow-errors", 1).code == 0


class Yes(JsonHandler):
    """An OpenAI-compatible judge that passes everything."""

    def handle_json(self, body: Any) -> None:
        message = {"role": "assistant", "content": '{"score": 1}'}
        self.send_json({"choices": [{"message": message}]})


@pytest.fixture
def over_http() -> Iterator[str]:
    with serve_in_thread(Yes) as server:
        yield f"openai:j@http://127.0.0.1:{server.server_port}/v1"


@pytest.mark.slow
def test_replies_are_taken_from_the_cache_where_that_is_asked_for(
    proctor: Proctor, over_http: str, labels: Proctor
) -> None:
    words = ("certify", "--judge", over_http, "--labels", labels(rows(2, 0, 2)), "--cache", "--json")
    first, second = proctor(*words).json, proctor(*words).json
    assert (first["calls"], first["cached"]) == (20, 0)
    assert (second["calls"], second["cached"]) == (0, 20)


@pytest.mark.slow
def test_what_was_measured_before_a_stop_is_told_and_kept(
    process: Proctor, function: Proctor, labels: Proctor
) -> None:
    stopping = """
import os, signal
calls = []

def f(messages):
    calls.append(1)
    if len(calls) == 12:  # an answer is asked about five times
        os.kill(os.getpid(), signal.SIGINT)
    return '{"score": 1}'
"""
    words = ("certify", "--judge", function(stopping), "--labels", labels(rows(3, 0, 2)), "--concurrency", 1)
    result = process(*words)
    assert result.code == 2
    assert "agrees with people on 2 of 2 answers" in result.out
    assert "Not judged, because the command was stopped: 3 answers." in result.out
    assert "Stopping: requests in progress have 1 s to finish." in result.err


BLOCKING = """
import os, signal, threading
calls = []

def f(messages):
    calls.append(1)
    if len(calls) > 7:  # five calls for the first answer, and two for the next
        print("blocked", flush=True)
        {on_block}
        threading.Event().wait()
    return '{{"score": 1}}'
"""


@pytest.mark.slow
def test_ctrl_c_drops_calls_that_do_not_end_and_keeps_finished_answers(
    process: Proctor, function: Proctor, labels: Proctor
) -> None:
    judge = function(BLOCKING.format(on_block="os.kill(os.getpid(), signal.SIGINT)"))
    words = ("certify", "--judge", judge, "--labels", labels(rows(3, 0, 2)), "--concurrency", 1)
    result = process(*words, "-o", "c.json")
    assert result.code == 2
    assert "agrees with people on 1 of 1 answer (" in result.out
    assert "Not judged, because the command was stopped: 4 answers." in result.out
    assert json.loads(Path("c.json").read_text(encoding="utf-8"))["left"] == 4
    assert Path(".proctor/proctor.db").exists()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_a_calibration_at_once(
    start: Proctor, function: Proctor, labels: Proctor, number: signal.Signals
) -> None:
    judge = function(BLOCKING.format(on_block="pass"))
    process = start("certify", "--judge", judge, "--labels", labels(rows(3, 0, 2)), "--concurrency", 1)
    assert any(line.strip() == "blocked" for line in process.stderr)
    process.send_signal(number)
    assert any("Stopping: requests in progress" in line for line in process.stderr)
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE_S)
    # A busy machine may send the second signal only after the second in which calls may finish.
    assert process.returncode == 2
    assert "Interrupted." in err or "agrees with people on 1 of 1 answer (" in out


@pytest.mark.slow
def test_progress_is_printed_while_no_call_ends(start: Proctor, function: Proctor, labels: Proctor) -> None:
    judge = function(BLOCKING.format(on_block="pass"))
    process = start("certify", "--judge", judge, "--labels", labels(rows(3, 0, 2)), "--concurrency", 1)
    assert any(line.startswith("7/25 verdicts · 7 calls · cost") for line in process.stderr)


def test_a_budget_needs_a_price_and_another_temperature_is_another_judge(
    proctor: Proctor, judge: str, labels: Proctor
) -> None:
    words = ("certify", "--judge", judge, "--labels", labels(rows(1, 0, 1)), "--json")
    result = proctor(*words, "--budget-usd", 1)
    assert result.code == 4
    assert "A budget needs the price" in result.err
    digests = {
        proctor(*words, *more).json["calibration"]["judge_digest"]
        for more in ((), ("--judge-temperature", 0.7))
    }
    assert len(digests) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--judge", "echo"), "No answer of any run has a label yet. Label answers on the Review page"),
        (("--judge", "echo", "--labels", "none.jsonl"), "cannot be read"),
        (("--judge", "echo", "--labels", "l.jsonl"), "l.jsonl:2: error: Unknown field 'lable'."),
        (("--judge", "nobody", "--labels", "ok.jsonl"), "Unknown target 'nobody'"),
        (("--judge", "function:no_such_module:f", "--labels", "ok.jsonl"), "cannot be imported"),
        (("--judge", "echo", "--labels", "ok.jsonl", "-o", "x.pdf"), "one of .svg .json .md"),
        (("--judge", "echo", "--labels", "ok.jsonl", "--force"), "--force applies to certificates of a run"),
        (("last", "--judge", "echo", "--labels", "ok.jsonl"), "There is no store at"),
        (("--judge", "echo", "--target", "echo", "--labels", "ok.jsonl"), "Only one thing"),
    ],
)
def test_wrong_usage_is_4_with_a_sentence(
    proctor: Proctor, labels: Proctor, words: tuple[str, ...], message: str
) -> None:
    labels(rows(1, 0, 0), "ok.jsonl")
    labels([*rows(1, 0, 0), {"lable": "pass", **rows(1, 0, 0)[0]}], "l.jsonl")
    result = proctor("certify", *words)
    assert result.code == 4
    assert message in result.err
    assert "judges 1 answer" not in result.err
