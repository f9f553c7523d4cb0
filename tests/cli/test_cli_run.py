"""`proctor run`: exit codes and gates."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proctor.services.grading import worker_pool
from support.cli import Proctor

# --- exit codes --------------------------------------------------------------------------------------------


def test_all_passed_is_0(proctor: Proctor, suite: Proctor) -> None:
    assert proctor("run", suite(("a", "x", "x")), "--target", "echo").code == 0


def test_a_failure_is_1(proctor: Proctor, half: str) -> None:
    assert proctor("run", half, "--target", "echo").code == 1


def test_an_error_is_3_though_others_failed(proctor: Proctor, half: str, script: Proctor) -> None:
    result = proctor("run", half, "--target", script(rules={"t[0-8]": "wrong"}), "--json")
    assert (result.code, result.run["failed"], result.run["errors"]) == (3, 9, 1)


def test_what_cannot_be_judged_is_3(proctor: Proctor, suite: Proctor) -> None:
    row = {"id": "a", "input": "x", "scorer": "llm_judge", "rubric": "Is it good?"}
    result = proctor("run", suite(row), "--target", "echo", "--json")
    assert (result.code, result.run["unscored"], result.run["errors"]) == (3, 1, 0)


@pytest.mark.parametrize(
    "words",
    [
        ("--tag", "none"),
        ("--category", "none"),
        ("--id", "zzz*"),
        ("--exclude-tag", "all"),
        ("--tag", "all", "--exclude-tag", "all"),
    ],
)
def test_nothing_selected_is_5(proctor: Proctor, suite: Proctor, words: tuple[str, ...]) -> None:
    name = suite({"id": "a", "input": "x", "expected": "x", "tags": ["all"]})
    result = proctor("run", name, "--target", "echo", "--json", *words)
    assert result.code == result.json["exit_code"] == 5
    assert result.json["runs"] == []


def test_one_suite_of_two_without_selected_cases_is_a_warning(proctor: Proctor, suite: Proctor) -> None:
    first, second = suite(("a", "x", "x"), name="one.jsonl"), suite(("b", "x", "x"), name="other.jsonl")
    result = proctor("run", first, second, "--target", "echo", "--id", "a", "--json")
    assert result.code == 0
    assert [run["total"] for run in result.json["runs"]] == [1]
    assert "No case of other" in result.err


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ((), 'or set `suite = ["SUITE"]` in proctor.toml.'),
        (("--resume",), "proctor run --resume=last"),
        (("s.jsonl",), "--target"),
        (("missing.jsonl", "--target", "echo"), "'missing.jsonl'"),
        (("chep", "--target", "echo"), "'cheap'"),
        (("s.jsonl", "--target", "ecko"), "'echo'"),
        (("s.jsonl", "--target", "gpt5"), "Unknown target 'gpt5'"),
        (("s.jsonl", "--target", "openai:m"), "OPENAI_API_KEY"),
        (("s.jsonl", "--target", "scripted:no.jsonl"), "'no.jsonl'"),
        (("s.jsonl", "--target", "replay:no.jsonl"), "'no.jsonl'"),
        (("s.jsonl", "--target", "command:no-such-program"), "'no-such-program'"),
        (("s.jsonl", "--target", "function:no_such_module:f"), "no_such_module"),
        (("s.jsonl", "--target", "echo", "--judge", "nobody"), "Unknown target 'nobody'"),
        (("s.jsonl", "--target", "echo", "--target", "local", "--target", "echo"), "use --repeat."),
        (("s.jsonl", "--target", "echo", *("--judge", "mock") * 2), "use --judge-repeat."),
        (("s.jsonl", "--target", "echo", "--dialect", "meridain"), "'meridian'"),
        (("s.jsonl", "--target", "echo", "--no-such-flag"), "--no-such-flag"),
        (("s.jsonl", "--target", "echo", "--split", "test"), "'test'"),
        (("s.jsonl", "--target", "echo", "--threshold", "1.5"), "1.5"),
        (("s.jsonl", "--target", "echo", "--min-pass-rate", "80"), "80%"),
        (("s.jsonl", "--target", "echo", "--concurrency", "0"), "0"),
        (("s.jsonl", "--target", "echo", "--repeat", "0"), "0"),
        (("s.jsonl", "--target", "echo", "--retries", "-1"), "-1"),
        (("s.jsonl", "--target", "echo", "--timeout", "0"), "0"),
        (("s.jsonl", "--target", "echo", "--limit", "none"), "none"),
        (("s.jsonl", "--target", "echo", "-o", "results.docx"), ".jsonl"),
        (("s.jsonl", "--target", "echo", "-o", "results"), "'results'"),
        (("s.jsonl", "--target", "echo", "-o", "no/such/folder.json"), "folder"),
        (("s.jsonl", "--target", "echo", "--store", "."), "."),
        (("s.jsonl", "--target", "echo", "--resume=zzz"), "'zzz'"),
        (("s.jsonl", "--target", "echo", "--retry-errors", "zzz"), "'zzz'"),
        (("--resume=zzz",), "'zzz'"),
        (("s.jsonl", "--target", "echo", "--attest=b.zip"), "must name a folder"),
    ],
)
def test_wrong_usage_is_4_with_a_sentence_that_helps_and_the_same_as_json(
    proctor: Proctor, suite: Proctor, words: tuple[str, ...], hint: str
) -> None:
    suite(("a", "x", "x"))
    result = proctor("run", *words, "--json")
    assert result.code == result.json["exit_code"] == 4
    assert result.json["runs"] == []
    assert hint in result.err
    assert result.err.rstrip().endswith((".", "?", "`"))
    assert any(hint in error["message"] for error in result.json["errors"])
    assert {"path", "line", "field", "case", "code", "message"} <= set(result.json["errors"][0])


def test_a_suite_with_errors_is_4_and_all_of_them_are_told(
    proctor: Proctor, folder: Path, suite: Proctor
) -> None:
    (folder / "bad.jsonl").write_text(
        '{"id": "a", "input": "x"}\n{"id": "b", "expected": "x"}\n{"id": "c", "input": "x", "expektd": 1}\n',
        encoding="utf-8",
    )
    result = proctor("run", "bad.jsonl", suite(("a", "x", "x")), "--target", "echo", "--json")
    assert result.code == result.json["exit_code"] == 4
    assert {(error["path"], error["line"]) for error in result.json["errors"]} >= {
        ("bad.jsonl", 1),
        ("bad.jsonl", 2),
        ("bad.jsonl", 3),
    }
    assert result.err.splitlines()[0].startswith("bad.jsonl:1: error: ")
    assert "No stored run matches" in proctor("runs", "list").out


@pytest.mark.parametrize(
    "flag",
    ["--budget-usd", "--threshold", "--timeout", "--temperature", "--judge-temperature", "--min-pass-rate"],
)
def test_what_is_no_number_is_refused(
    flag: str, suite: Callable[..., str], proctor: Callable[..., Any]
) -> None:
    result = proctor("run", suite(("a", "x", "fine")), "--target", "echo", flag, "nan")
    assert result.code == 4
    assert f"Invalid value for '{flag}': 'nan' is not a " in result.err


@pytest.mark.parametrize(
    ("word", "code"), [("50%", 0), ("50 %", 0), ("0.5", 0), ("50.1%", 1), ("100%", 1), ("0%", 0), ("1", 1)]
)
def test_a_gate_may_be_a_percentage(proctor: Proctor, half: str, word: str, code: int) -> None:
    assert proctor("run", half, "--target", "echo", "--min-pass-rate", word).code == code


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("90", "90 is more than 1. Did you mean 0.9 or 90%?"),
        ("2.5", "2.5 is more than 1. Did you mean 0.025 or 2.5%?"),
        ("most", "'most' is not a share. Give a number such as 0.05, or a percentage such as 5%."),
        ("%", "'%' is not a share."),
        ("101%", "1.01 is not in the range 0<=x<=1."),
        ("-1", "-1.0 is not in the range 0<=x<=1."),
    ],
)
def test_what_is_no_share_is_refused_with_a_suggestion(
    proctor: Proctor, half: str, word: str, hint: str
) -> None:
    result = proctor("run", half, "--target", "echo", "--min-pass-rate", word)
    assert result.code == 4
    assert f"Invalid value for '--min-pass-rate': {hint}" in result.err


@pytest.mark.parametrize("command", ["", "rum", "compare", "suites", "convert", "certify"])
def test_what_is_no_command_is_4(proctor: Proctor, command: str) -> None:
    assert proctor(*([command] if command else [])).code == 4


def test_the_worst_of_several_runs_is_the_exit_code(proctor: Proctor, half: str, script: Proctor) -> None:
    result = proctor(
        *("run", half, "--target", "echo", "--target", script(rules={"t1": "say 1"}), "--json"),
        *("--target", script(rules={"*": "no"})),
    )
    assert [run["exit_code"] for run in result.json["runs"]] == [1, 3, 1]
    assert result.code == result.json["exit_code"] == 3


# --- gates -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rate", "code"), [("0.5", 0), ("0.51", 1), ("0", 0), ("1", 1)])
def test_the_gate_that_was_asked_for_decides(proctor: Proctor, half: str, rate: str, code: int) -> None:
    assert proctor("run", half, "--target", "echo", "--min-pass-rate", rate).code == code


@pytest.mark.parametrize(("allowed", "code"), [(0, 3), (4, 3), (5, 1), (10, 1)])
def test_so_many_errors_are_allowed_and_the_failures_count_all_the_same(
    proctor: Proctor, half: str, script: Proctor, allowed: int, code: int
) -> None:
    target = script(rules={"t[0-4]": "wrong"})
    assert proctor("run", half, "--target", target, "--allow-errors", allowed).code == code


def test_errors_are_in_the_total_and_in_no_rate(proctor: Proctor, half: str, script: Proctor) -> None:
    target = script(rules={"t1": "say 1", "t3": "say 3"})
    result = proctor("run", half, "--target", target, "--allow-errors", 8, "--min-pass-rate", 0.2, "--json")
    assert (result.code, result.run["pass_rate"], result.run["total"], result.run["errors"]) == (
        0,
        1.0,
        10,
        8,
    )
    assert result.run["bounds"] == [0.2, 1.0]
    undecided = proctor("run", half, "--target", target, "--allow-errors", 8, "--min-pass-rate", 0.21)
    assert undecided.code == 3
    assert "The gate is not decided: 20.00% to 100.00% passed" in undecided.out


@pytest.mark.parametrize(("threshold", "verdicts"), [("0", 1), ("0.4", 1), ("0.76", 0), ("1", 0)])
def test_a_case_passes_at_the_threshold(
    proctor: Proctor, suite: Proctor, script: Proctor, threshold: str, verdicts: int
) -> None:
    graded = {"id": "a", "input": "x", "scorer": "llm_judge", "rubric": "Is it good?"}
    judge = script(rules={"*": '{"score": 4, "reason": "nearly"}'})  # 4 of 1 to 5 is 0.75
    words = ("run", suite(graded), "--target", "echo", "--judge", judge, "--threshold", threshold, "--json")
    result = proctor(*words)
    assert result.run["passed"] == verdicts
    assert result.run["mean_score"] == 0.75


def test_a_suite_whose_file_is_gone_runs_by_its_name_from_the_store(
    proctor: Proctor, folder: Path, half: str
) -> None:
    first = proctor("run", half, "--target", "echo", "--json").run
    (folder / half).unlink()
    again = proctor("run", Path(half).stem, "--target", "echo", "--split", "dev", "--json").run
    assert again["suite_digest"] == first["suite_digest"]
    assert again["total"] == first["splits"]["dev"]["total"]
    assert proctor("run", "never-run", "--target", "echo").code == 4


# --- too few cases -----------------------------------------------------------------------------------------

FEW = "Too few cases to distinguish targets or to decide a gate"


@pytest.mark.parametrize(
    ("words", "warnings"),
    [
        ((), 0),
        (("--min-pass-rate", "0.5"), 1),
        (("--min-pass-rate", "0"), 0),
        (("--target", "scripted:yes.jsonl"), 1),
        (("--target", "scripted:yes.jsonl", "--min-pass-rate", "0.5"), 1),
        (("o.jsonl", "--min-pass-rate", "0.5"), 1),
        (("o.jsonl",), 0),
    ],
)
def test_too_few_cases_are_told_once_and_only_where_something_rests_on_them(
    proctor: Proctor, suite: Proctor, folder: Path, words: tuple[str, ...], warnings: int
) -> None:
    (folder / "yes.jsonl").write_text('{"*": "yes"}', encoding="utf-8")
    suite(("b", "y", "y"), name="o.jsonl")
    err = proctor("run", suite(("a", "x", "x")), "--target", "echo", *words).err
    assert err.count(FEW) == warnings
    if "o.jsonl" in words and warnings:
        assert "'s' (1 case), 'o' (1 case)" in err


def test_enough_cases_are_not_called_too_few_unless_a_selection_leaves_few(
    proctor: Proctor, suite: Proctor
) -> None:
    name = suite(*((f"t{number}", f"say {number}", "no") for number in range(20)))
    gate = ("--target", "echo", "--min-pass-rate", 0.5)
    assert FEW not in proctor("run", name, *gate).err
    assert FEW in proctor("run", name, *gate, "--limit", 19).err


def test_a_case_silences_that_its_suite_is_small(proctor: Proctor, suite: Proctor) -> None:
    name = suite({"id": "a", "input": "x", "expected": "x", "lint": ["too-few-cases"]})
    for word in (name, "s"):  # the file, then the suite in the store
        assert FEW not in proctor("run", word, "--target", "echo", "--min-pass-rate", 0.5).err
        Path(name).unlink(missing_ok=True)


RELATED_WARNING = "Cases look related: 12 of 12 share their `metadata.document`"


def related_cases(**fields: Any) -> list[dict[str, Any]]:
    return [
        {"id": f"t{n}", "input": f"say {n}", "expected": "no", "metadata": {"document": n // 3}, **fields}
        for n in range(12)
    ]


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ((), 1),
        (("--target", "scripted:yes.jsonl"), 1),
        (("--cluster", "metadata.document"), 0),
        (("--cluster", "none"), 0),
        (("--limit", "9"), 0),
    ],
)
def test_related_cases_are_told_once_where_no_cluster_is_named(
    proctor: Proctor, suite: Proctor, folder: Path, words: tuple[str, ...], count: int
) -> None:
    (folder / "yes.jsonl").write_text('{"*": "yes"}', encoding="utf-8")
    name = suite(*related_cases())
    assert proctor("run", name, "--target", "echo", *words).err.count(RELATED_WARNING) == count


def test_a_case_and_the_project_file_silence_that_cases_look_related(
    proctor: Proctor, suite: Proctor, folder: Path
) -> None:
    silent = suite(*related_cases(lint=["related-cases"]), name="silent.jsonl")
    assert RELATED_WARNING not in proctor("run", silent, "--target", "echo").err
    name = suite(*related_cases())
    assert RELATED_WARNING in proctor("validate", name).err
    (folder / "proctor.toml").write_text('cluster = "metadata.document"', encoding="utf-8")
    assert RELATED_WARNING not in proctor("run", name, "--target", "echo").err
    assert RELATED_WARNING not in proctor("validate", name).err


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no alarm to end a search with")
def test_a_large_answer_is_compared_without_another_process(
    proctor: Proctor, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "script.jsonl").write_text(json.dumps({"a": "x" * 300_000 + "end"}), encoding="utf-8")
    checks: list[dict[str, Any]] = [
        {"type": "equals", "value": "end"},
        {"type": "icontains", "value": "END"},
        {"type": "ends-with", "value": "end"},
    ]
    row = {"id": "a", "input": "q", "assertions": checks}
    (folder / "suite.jsonl").write_text(json.dumps(row), encoding="utf-8")
    monkeypatch.setattr(worker_pool, "GradingPool", None)  # starting a pool fails the test
    result = proctor("run", "suite.jsonl", "--target", "scripted:script.jsonl", "-o", "out.jsonl", "--reveal")
    assert result.code == 1, result.err
    scores = json.loads((folder / "out.jsonl").read_text(encoding="utf-8").splitlines()[0])["scores"]
    assert [score["outcome"] for score in scores] == ["fail", "pass", "pass"]


def test_an_answer_over_max_answer_bytes_is_an_error_trial_of_any_command(
    proctor: Proctor, suite: Proctor, folder: Path
) -> None:
    script = json.dumps({"a": "x" * 101, "b": "x" * 100})
    (folder / "script.jsonl").write_text(script, encoding="utf-8")
    words = ("--target", "scripted:script.jsonl", "--max-answer-bytes", "100", "-o", "out.jsonl", "--reveal")
    result = proctor("run", suite(("a", "q", "x"), ("b", "q", "x")), *words)
    assert result.code == 3
    rows = [json.loads(line) for line in (folder / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    failure = rows[0]["failure"]
    assert (rows[0]["verdict"], failure["kind"], rows[1]["verdict"]) == ("error", "too-large", "fail")
    assert failure["message"].startswith("The answer has 101 bytes, over the limit of 100.")
    assert "raise --max-answer-bytes" in failure["message"]
    (folder / "proctor.toml").write_text("max-answer-bytes = 99\n", encoding="utf-8")
    assert proctor("run", suite(("b", "q", "x")), *words[:2], "--json").run["errors"] == 1
    assert "no answer" in proctor("targets", "check", "scripted:script.jsonl", "--max-answer-bytes", "99").out


def test_a_suite_of_the_project_is_found_by_its_name_below_its_folder(
    proctor: Proctor, suite: Proctor, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite(("a", "x", "x"), name="suites/birds.jsonl")
    assert proctor("run", "birds", "--target", "echo").code == 0
    suite(("a", "x", "other"), name="suites/birds.jsonl")
    (folder / "below").mkdir()
    monkeypatch.chdir(folder / "below")
    result = proctor("run", "birds", "--target", "echo", "--json")
    assert (result.code, result.run["suite_version"]) == (1, "v2")
