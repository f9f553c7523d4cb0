"""`proctor passk`: input, output, rows left out, and grading of code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from proctor.cli.commands.passk import GradingProgress
from proctor.eval import PassAtK
from support.builders import write_lines
from support.cli import Proctor


def make_count_rows(**tasks: tuple[int, int]) -> list[dict[str, Any]]:
    return [{"task_id": name, "n": n, "passed": passed} for name, (n, passed) in tasks.items()]


def make_graded_rows(**tasks: str) -> list[dict[str, Any]]:
    """A row for each answer: `+` passes, `-` fails, `?` was not graded."""
    marks = {"+": True, "-": False, "?": None}
    return [{"task_id": name, "passed": marks[mark]} for name, answers in tasks.items() for mark in answers]


def read_result(result: Any) -> Any:
    assert result.code == 0, result
    (report,) = result.json["passk"]
    return report


# --- what it reads -----------------------------------------------------------------------------------------


def test_counts_become_a_table_with_intervals(proctor: Proctor, folder: Path) -> None:
    write_lines(folder / "a.jsonl", *make_count_rows(a=(10, 3), b=(10, 9), c=(10, 0), d=(10, 10)))
    result = proctor("passk", "a.jsonl")
    assert result.code == 0
    assert result.out.splitlines() == [
        "                a.jsonl",
        "tasks                 4",
        "graded answers       40",
        "  of each task       10",
        "",
        "k   pass@k  95 % interval  pass^k  95 % interval",
        "1    55.0%         21–85%   55.0%         21–85%",
        "5    72.9%         30–94%   37.5%         11–75%",
        "10   75.0%         30–95%   25.0%          5–70%",
    ]
    assert result.err == ""


def test_single_answers_give_the_same_as_their_counts(proctor: Proctor, folder: Path) -> None:
    write_lines(folder / "a.jsonl", *make_count_rows(a=(3, 2), b=(3, 0)))
    write_lines(folder / "b.jsonl", *reversed(make_graded_rows(a="+-+", b="---")))
    answers_report, counts_report = (
        read_result(proctor("passk", name, "--json")) for name in ("a.jsonl", "b.jsonl")
    )
    assert answers_report["pass_at"] == counts_report["pass_at"] == {"pass@1": 0.3333, "pass@3": 0.5}
    assert answers_report["statistics"] == counts_report["statistics"]


@pytest.mark.parametrize("indent", [None, 2])
def test_a_dump_of_a_result_is_read(proctor: Proctor, folder: Path, indent: int | None) -> None:
    result = PassAtK(ks=(1, 2)).from_rows(make_count_rows(a=(4, 1), b=(4, 3)))
    write_lines(folder / "dump.json", json.dumps(result.to_dict(), indent=indent))
    report = read_result(proctor("passk", "dump.json", "--k", "1,2", "--json"))
    assert {name: report[name] for name in result.to_dict()} == result.to_dict()


def test_numbers_of_answers_may_differ_and_the_smallest_is_the_largest_k(
    proctor: Proctor, folder: Path
) -> None:
    write_lines(folder / "a.jsonl", *make_count_rows(a=(3, 1), b=(8, 4)))
    report = read_result(proctor("passk", "a.jsonl", "--json"))
    assert list(report["pass_at"]) == ["pass@1", "pass@3"]
    assert report["pass_at"]["pass@1"] == pytest.approx((1 / 3 + 1 / 2) / 2, abs=1e-4)


def test_rows_without_a_task_are_tasks_of_their_own_and_others_are_put_together(
    proctor: Proctor, folder: Path
) -> None:
    write_lines(
        folder / "a.jsonl",
        {"n": 2, "passed": 2},
        {"n": 2, "passed": 0},
        *make_count_rows(a=(2, 1)),
        *make_count_rows(a=(2, 2)),
    )
    result = proctor("passk", "a.jsonl", "--json")
    assert [(row["task_id"], row["n"], row["passed"]) for row in read_result(result)["per_task"]] == [
        ("(row 1)", 2, 2),
        ("(row 2)", 2, 0),
        ("a", 4, 3),
    ]
    assert result.err == "a.jsonl: warning: Task 'a' is in several rows, which are combined.\n"


EXPORTED = [
    {"run": "r1", "target": "echo", "case_id": "a", "repeat": 0, "verdict": "pass"},
    {"run": "r1", "target": "echo", "case_id": "a", "repeat": 1, "verdict": "fail"},
    {
        "run": "r1",
        "target": "echo",
        "case_id": "b",
        "repeat": 0,
        "verdict": "error",
        "failure": {"message": "no route"},
    },
    {"run": "r1", "target": "echo", "case_id": "b", "repeat": 1, "verdict": "pass"},
    {"run": "r1", "target": "echo", "case_id": "c", "repeat": 0, "verdict": "unscored"},
]


def test_trials_that_were_not_measured_are_told_and_count_neither_way(proctor: Proctor, folder: Path) -> None:
    write_lines(folder / "run.jsonl", *EXPORTED)
    result = proctor("passk", "run.jsonl")
    assert "not counted     1 error, 1 unscored\n" in result.out
    assert "tasks left out                    1\n" in result.out
    assert result.err == "run.jsonl: warning: Task 'c' has no graded answer and is left out.\n"
    report = read_result(proctor("passk", "run.jsonl", "--json"))
    assert report["pass_at"] == {"pass@1": 0.75}
    assert report["ungraded"][0] == {"task_id": "b", "answer": 0, "reason": "no route"}


def test_each_exported_run_stands_by_itself(proctor: Proctor, folder: Path) -> None:
    again = [{**row, "run": "r2"} for row in EXPORTED[:2]]
    other = [{**row, "run": "r3", "target": "http:x"} for row in EXPORTED[:1]]
    write_lines(folder / "runs.jsonl", *EXPORTED[:2], *again, *other)
    result = proctor("passk", "runs.jsonl", "--k", "1")
    assert result.out.splitlines()[0].split("  ")[-3:] == [
        "runs.jsonl echo (r1)",
        "runs.jsonl echo (r2)",
        "runs.jsonl http:x",
    ]
    assert result.out.splitlines()[-1].split() == ["1", "50.0%", "50.0%", "100.0%"]


@pytest.mark.parametrize("form", ["jsonl", "json"])
def test_what_a_run_with_repeats_exports_is_read(proctor: Proctor, folder: Path, form: str) -> None:
    suite = [
        {"id": "hi", "input": "hi", "expected": "hi", "scorer": "exact"},
        {"id": "no", "input": "hi", "expected": "no", "scorer": "exact"},
    ]
    write_lines(folder / "s.jsonl", *suite)
    assert proctor("run", "s.jsonl", "--target", "echo", "--repeat", 3, "-o", f"out.{form}").code == 1
    report = read_result(proctor("passk", f"out.{form}", "--json"))
    assert [(row["task_id"], row["n"], row["passed"]) for row in report["per_task"]] == [
        ("hi", 3, 3),
        ("no", 3, 0),
    ]


# --- what it says ------------------------------------------------------------------------------------------


def test_several_files_stand_side_by_side_and_a_k_too_large_for_one_is_a_dash(
    proctor: Proctor, folder: Path
) -> None:
    write_lines(folder / "old.jsonl", *make_count_rows(a=(5, 1), b=(5, 5)))
    write_lines(folder / "new.jsonl", *make_graded_rows(a="++", b="+-"))
    result = proctor("passk", "old.jsonl", "new.jsonl", "--k", "2,5")
    assert result.out.splitlines()[5:] == [
        "pass@k, one of k answers passes",
        "k         old.jsonl         new.jsonl",
        "2    70.0% (24–94%)  100.0% (34–100%)",
        "5  100.0% (34–100%)                 –",
        "",
        "pass^k, all k pass",
        "k      old.jsonl      new.jsonl",
        "2  50.0% (9–91%)  50.0% (9–91%)",
        "5  50.0% (9–91%)              –",
    ]
    assert result.err == "new.jsonl: warning: no pass@5: some task has only 2 graded answers.\n"


def test_files_of_one_name_are_told_by_their_paths(proctor: Proctor, folder: Path) -> None:
    for name in ("old", "new"):
        (folder / name).mkdir()
        write_lines(folder / name / "a.jsonl", *make_count_rows(a=(1, 1)))
    result = proctor("passk", "old/a.jsonl", "new/a.jsonl")
    assert result.out.splitlines()[0].split() == ["old/a.jsonl", "new/a.jsonl"]


def test_lines_that_say_nothing_are_told_and_counted(proctor: Proctor, folder: Path) -> None:
    bad = [
        "{half",
        "5",
        {"task_id": "x"},
        {"task_id": "x", "passed": "yes"},
        {"task_id": "x", "n": 1, "passed": 2},
    ]
    more = [{"passed": True}, {"case_id": "x", "verdict": "great"}, {"task_id": "x", "completion": "pass"}]
    write_lines(folder / "a.jsonl", *bad, *more, *make_graded_rows(a="+"))
    result = proctor("passk", "a.jsonl")
    assert result.code == 0
    lines = result.err.splitlines()
    assert [line.partition(": warning: ")[0] for line in lines] == [f"a.jsonl:{n}" for n in range(1, 6)] + [
        "a.jsonl"
    ]
    assert "3 more lines" in lines[-1]
    assert "dropped lines         8\n" in result.out
    reasons = [row["reason"] for row in read_result(proctor("passk", "a.jsonl", "--json"))["dropped"]]
    assert "--problems" in reasons[7]
    assert all(reason.endswith(".") for reason in reasons)


def test_a_bad_row_inside_a_dump_costs_that_row_alone(proctor: Proctor, folder: Path) -> None:
    dump = {
        "n_problems": 3,
        "per_task": [*make_count_rows(a=(2, 1)), {"task_id": "b", "n": 2}, *make_count_rows(c=(2, 2)), 7],
    }
    write_lines(folder / "dump.json", json.dumps(dump, indent=1))
    report = read_result(proctor("passk", "dump.json", "--json"))
    assert [row["task_id"] for row in report["per_task"]] == ["a", "c"]
    assert [row["line"] for row in report["dropped"]] == [2, 4]


@pytest.mark.parametrize(
    ("rows", "code", "says"),
    [
        ([], 5, "The file has no answers"),
        (["{}"], 5, "The file has no answers"),
        (["\x00\x01"], 5, "The file has no answers"),
        (
            make_graded_rows(a="??"),
            3,
            "None of the answers could be graded. The reason for the first: passed is null",
        ),
    ],
)
def test_a_file_without_a_graded_answer_is_an_error(
    proctor: Proctor, folder: Path, rows: list[Any], code: int, says: str
) -> None:
    write_lines(folder / "a.jsonl", *rows)
    result = proctor("passk", "a.jsonl")
    assert (result.code, result.out) == (code, "")
    assert says in result.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("none.jsonl",), "'none.jsonl' cannot be read: No such file"),
        (("a.jsonl", "--k", "1,x"), "--k is '1,x'"),
        (("a.jsonl", "--k", "0"), "--k is '0'"),
        (("a.jsonl", "--k", "4,9"), "pass@4 cannot be computed: some task has only 2 graded answers"),
        (("a.jsonl", "--problems", "none.jsonl"), "'none.jsonl' cannot be read"),
        (("a.jsonl", "--timeout", "5"), "--problems FILE"),
        (("a.jsonl", "--workers", "5"), "--problems FILE"),
        (("a.jsonl", "-o", "a.png"), "The ending sets the format"),
    ],
)
def test_wrong_usage_is_4_with_a_sentence(
    proctor: Proctor, folder: Path, words: tuple[str, ...], says: str
) -> None:
    write_lines(folder / "a.jsonl", *make_count_rows(a=(2, 1)))
    result = proctor("passk", *words)
    assert (result.code, result.out) == (4, "")
    assert says in result.err


@pytest.mark.slow
def test_files_of_every_form_are_written(proctor: Proctor, folder: Path) -> None:
    write_lines(folder / "a.jsonl", *make_count_rows(a=(2, 1), b=(2, 2)))
    result = proctor("passk", "a.jsonl", "-o", "x.svg", "-o", "x.json", "-o", "x.md")
    assert result.code == 0
    assert (folder / "x.svg").read_text(encoding="utf-8").startswith("<svg")
    assert (
        read_result(result._replace(out=(folder / "x.json").read_text(encoding="utf-8")))["pass_at"]["pass@2"]
        == 1.0
    )
    assert "| k | pass@k | 95 % interval |" in (folder / "x.md").read_text(encoding="utf-8")


# --- grading -----------------------------------------------------------------------------------------------


def problem(name: str, prompt: str, *checks: str) -> dict[str, Any]:
    test = "def check(candidate):\n" + "".join(f"    assert candidate{check}\n" for check in checks)
    return {"task_id": name, "prompt": prompt, "entry_point": "double", "test": test}


PROBLEMS = [
    problem("double", "def double(x):\n", "(2) == 4", "(-1) == -2"),
    problem("text", "def double(x: str) -> str:\n", "('ab') == 'abab'"),
    problem("never sent", "def double(x):\n", "(0) == 0"),
]
COMPLETIONS = [
    {"task_id": "double", "completion": "    return x * 2\n", "passed": False},
    {"task_id": "double", "completion": "    return x + 2\n"},
    {"task_id": "text", "completion": "    return x + x\n"},
    {"task_id": "text", "completion": "    return (\n"},
    {"task_id": "elsewhere", "completion": "    return x\n"},
    {"task_id": "text", "completion": 5},
]


@pytest.mark.slow
@pytest.mark.usefixtures("sandboxed")
def test_completions_are_graded_by_running_them_whatever_they_say_of_themselves(
    proctor: Proctor, folder: Path
) -> None:
    write_lines(folder / "problems.jsonl", *PROBLEMS, {"task_id": "untested", "prompt": ""})
    write_lines(folder / "answers.jsonl", *COMPLETIONS)
    result = proctor(
        "passk", "answers.jsonl", "--problems", "problems.jsonl", "--workers", 2, "--timeout", 10, "--json"
    )
    report = read_result(result)
    assert [(row["task_id"], row["n"], row["passed"]) for row in report["per_task"]] == [
        ("double", 2, 1),
        ("text", 2, 1),
    ]
    assert (report["unanswered"], [row["line"] for row in report["dropped"]]) == (["never sent"], [5, 6])
    assert result.err.splitlines() == [
        "problems.jsonl:4: warning: The problem has no test and no entry_point.",
        "answers.jsonl:5: warning: There is no problem 'elsewhere' to grade the completion by.",
        "answers.jsonl:6: warning: The completion is 5. It must be a text.",
        "answers.jsonl: warning: Task 'never sent' has no completion and does not count.",
    ]


@pytest.mark.slow
def test_a_completion_that_never_ends_or_takes_too_much_fails_and_the_limits_are_the_callers(
    proctor: Proctor, folder: Path
) -> None:
    write_lines(folder / "problems.jsonl", PROBLEMS[0])
    bodies = (
        "    while True:\n        pass\n",
        "    return len(' ' * 10**9) and x * 2\n",
        "    return x * 2\n",
    )
    write_lines(folder / "answers.jsonl", *({"task_id": "double", "completion": body} for body in bodies))
    words = ("passk", "answers.jsonl", "--problems", "problems.jsonl", "--json")
    limits = ("--memory", 128, "--isolation", "process")
    for timeout_s in (1, 8, 64):  # long enough for this machine to run the one that is right
        report = read_result(proctor(*words, "--timeout", timeout_s, *limits))
        if report["per_task"][0]["passed"]:
            break
    assert report["per_task"] == [{"task_id": "double", "n": 3, "passed": 1}]
    result = proctor(*words, "--memory", 1)
    assert (result.code, "memory_mb is 1; it must be at least 64" in result.err) == (4, True)


@pytest.mark.usefixtures("sandboxed")
def test_completions_of_a_problem_that_cannot_test_are_not_graded(proctor: Proctor, folder: Path) -> None:
    write_lines(folder / "problems.jsonl", {**PROBLEMS[0], "test": "def check(candidate:\n"})
    write_lines(folder / "answers.jsonl", *COMPLETIONS[:2])
    result = proctor("passk", "answers.jsonl", "--problems", "problems.jsonl")
    assert (result.code, result.out) == (3, "")
    assert (
        "None of the answers could be graded. The reason for the first: UsageError: The tests of 'double'"
        in result.err
    )


@pytest.mark.parametrize(("patience", "lines"), [(3600, []), (0, ["a.jsonl: 1/3 graded, 1 passed"])])
def test_a_grading_that_takes_long_tells_how_far_it_is_and_no_more_than_every_few_seconds(
    capsys: pytest.CaptureFixture[str], patience: float, lines: list[str]
) -> None:
    progress = GradingProgress("a.jsonl", 3, patience)
    for passed in (True, None, False):
        progress(passed)
    assert capsys.readouterr() == ("", "".join(f"{line}\n" for line in lines))


def test_a_trial_that_is_there_twice_counts_once(proctor: Proctor, folder: Path) -> None:
    write_lines(folder / "run.jsonl", *EXPORTED[:2], *EXPORTED[:2])
    result = proctor("passk", "run.jsonl", "--json")
    assert [(row["n"], row["passed"]) for row in read_result(result)["per_task"]] == [(2, 1)]
    assert "run.jsonl:3: warning: Repeat 0 of case 'a' of this run appears twice" in result.err


def test_its_own_json_files_are_read(proctor: Proctor, folder: Path) -> None:
    write_lines(folder / "a.jsonl", *make_graded_rows(a="+-?", b="++"))
    write_lines(folder / "b.jsonl", *make_count_rows(a=(4, 1)))
    assert proctor("passk", "a.jsonl", "-o", "one.json").code == 0
    first, again = (read_result(proctor("passk", name, "--json")) for name in ("a.jsonl", "one.json"))
    assert first["statistics"] == again["statistics"]
    assert proctor("passk", "a.jsonl", "b.jsonl", "-o", "two.json").code == 0
    several = proctor("passk", "two.json", "--json").json["passk"]
    assert [(report["run"], report["n_problems"], len(report["ungraded"])) for report in several] == [
        ("a.jsonl", 2, 1),
        ("b.jsonl", 1, 0),
    ]


@pytest.mark.parametrize("digits", [300, 4000])
def test_huge_counts_are_dropped(proctor: Proctor, folder: Path, digits: int) -> None:
    huge = 10**digits
    write_lines(folder / "a.jsonl", *make_count_rows(a=(huge, 1), b=(1, huge), c=(1, 1)))
    result = proctor("passk", "a.jsonl")
    assert "dropped lines         2" in result.out
    assert "No task has that many answers." in result.err
    assert max(map(len, result.err.splitlines())) < 200


def test_a_wrong_k_is_refused_before_anything_is_graded(proctor: Proctor, folder: Path) -> None:
    write_lines(folder / "problems.jsonl", PROBLEMS[0])
    write_lines(folder / "answers.jsonl", *COMPLETIONS[:2], *COMPLETIONS[:2])
    result = proctor(
        "passk", "answers.jsonl", "--problems", "problems.jsonl", "--k", "9", "--isolation", "process"
    )
    assert result.code == 4
    assert "pass@9 cannot be computed" in result.err


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.parametrize("graded_first", [0, 3])
def test_what_is_graded_when_it_is_interrupted_counts(
    proctor: Proctor, folder: Path, monkeypatch: pytest.MonkeyPatch, graded_first: int
) -> None:
    write_lines(folder / "problems.jsonl", *PROBLEMS[:2])
    for name in ("a.jsonl", "b.jsonl"):
        write_lines(folder / name, *COMPLETIONS[:4])
    remaining = iter(range(graded_first))

    def grade(_text: str, _problem: Any, **_options: Any) -> bool:
        try:
            return next(remaining) >= 0
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr("proctor.eval.sandbox.sandbox.humaneval_run", grade)
    words = ("passk", "a.jsonl", "b.jsonl", "--problems", "problems.jsonl", "--workers", 1, "--json")
    result = proctor(*words, "-o", "x.json")
    assert (result.code, result.json["exit_code"]) == (2, 2)
    assert (folder / "x.json").exists() == bool(graded_first)
    if graded_first:
        assert "Interrupted: 5 completions were not graded, and do not count." in result.err
        assert [
            (report["statistics"]["answers"]["total"], len(report["ungraded"]))
            for report in result.json["passk"]
        ] == [
            (3, 1),
            (0, 4),
        ]
