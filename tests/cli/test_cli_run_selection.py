"""`proctor run`: selection of cases, runs of a command, and output."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from support.cli import Proctor

# --- what is selected --------------------------------------------------------------------------------------


@pytest.fixture
def mixed_suite(suite: Proctor) -> str:
    rows = [
        {"id": f"{kind}-{n}", "input": "x", "expected": "x", "category": kind, "tags": [kind[0], str(n % 2)]}
        for kind in ("math", "law", "art")
        for n in range(5)
    ]
    name: str = suite(*rows, name="mixed.jsonl")
    return name


@pytest.mark.parametrize(
    ("words", "total"),
    [
        ((), 15),
        (("--category", "law"), 5),
        (("--tag", "m", "--exclude-tag", "1"), 3),
        (("--id", "math-[01]", "--id", "law-4"), 3),
        (("--limit", "4"), 4),
        (("--split", "holdout"), 3),
        (("--repeat", "3", "--limit", "2"), 6),
    ],
)
def test_filters_decide_the_number_of_trials(
    proctor: Proctor, mixed_suite: str, words: tuple[str, ...], total: int
) -> None:
    assert proctor("run", mixed_suite, "--target", "echo", "--json", *words).run["total"] == total


def test_dev_and_holdout_are_the_whole_suite_and_share_no_case(proctor: Proctor, mixed_suite: str) -> None:
    ids = {}
    for split in ("dev", "holdout", "all"):
        proctor("run", mixed_suite, "--target", "echo", "--split", split, "-o", f"{split}.jsonl")
        lines = Path(f"{split}.jsonl").read_text(encoding="utf-8").splitlines()
        ids[split] = {json.loads(line)["case_id"] for line in lines}
    assert ids["dev"] | ids["holdout"] == ids["all"]
    assert not ids["dev"] & ids["holdout"]
    assert {case_id.split("-")[0] for case_id in ids["holdout"]} == {"math", "law", "art"}


def test_every_category_and_tag_has_its_numbers(proctor: Proctor, mixed_suite: str) -> None:
    run = proctor("run", mixed_suite, "--target", "echo", "--json").run
    assert {name: counts["total"] for name, counts in run["by_category"].items()} == {
        "art": 5,
        "law": 5,
        "math": 5,
    }
    assert run["by_tag"]["0"]["total"] == 9
    assert run["by_tag"]["m"]["pass_rate"] == 1.0


# --- several runs ------------------------------------------------------------------------------------------


def test_suites_and_targets_of_one_command_share_a_group_and_of_two_do_not(
    proctor: Proctor, suite: Proctor, script: Proctor
) -> None:
    a, b = suite(("a", "x", "x"), name="one.jsonl"), suite(("b", "x", "x"), name="other.jsonl")
    words = ("run", a, "--suite", b, "--target", "echo", "--model", script(rules={"*": "x"}), "--json")
    first, second = proctor(*words).json["runs"], proctor(*words).json["runs"]
    assert [(run["suite"], run["target"]) for run in first] == [
        ("one", "echo"),
        ("one", "scripted:answers0.jsonl"),
        ("other", "echo"),
        ("other", "scripted:answers0.jsonl"),
    ]
    assert len({run["run"] for run in first + second}) == 8
    assert len({run["group"] for run in first}) == 1
    assert first[0]["group"] != second[0]["group"]


def test_a_folder_is_all_suites_in_it(proctor: Proctor, suite: Proctor) -> None:
    for name in ("b", "a"):
        suite((name, "x", "x"), name=f"all/{name}.jsonl")
    suite(("c", "x", "x"), name="all/notes.txt")
    runs = proctor("run", "all", "--target", "echo", "--json").json["runs"]
    assert [run["suite"] for run in runs] == ["a", "b"]


def test_a_suite_in_the_folder_suites_goes_by_its_name(proctor: Proctor, suite: Proctor) -> None:
    suite(("a", "x", "x"), name="suites/mine.jsonl")
    assert proctor("run", "--suite", "mine", "--target", "echo", "--json").run["suite"] == "mine"
    suite(("a", "x", "x"), name="suites/mine.csv")
    assert "mine.csv" in proctor("run", "mine", "--target", "echo").err


def test_a_built_in_tier_runs_by_its_name_wherever_one_is(proctor: Proctor) -> None:
    run = proctor("run", "--tier", "cheap", "--target", "echo", "--json").run
    assert (run["dialect"], run["total"], run["suite_version"]) == ("pramana", 10, "v1")
    assert run["declared_version"] == "v1.0"
    assert run["suite_hash"].startswith("sha256:")
    assert run["splits"] == {}


# --- what is told ------------------------------------------------------------------------------------------

RUN_FIELDS = {
    *("run", "group", "suite", "suite_version", "suite_digest", "suite_hash", "dialect", "target", "judges"),
    *("status", "total", "passed", "failed", "errors", "unscored", "cases", "pass_rate", "ci95"),
    *("mean_score", "splits", "by_category", "by_tag", "asked", "graded", "reused", "latency_ms", "usage"),
    *("cost_usd", "warnings", "exit_code"),
}
COUNTS = {"total", "passed", "failed", "errors", "unscored", "cases", "pass_rate", "ci95", "bounds"}


def test_the_json_of_a_run_has_every_field_of_the_contract(proctor: Proctor, half: str) -> None:
    result = proctor("run", half, "--target", "echo", "--json")
    run = result.run
    assert set(result.json) == {"runs", "exit_code"}
    assert set(run) >= RUN_FIELDS
    assert run["suite"] == "half"
    assert run["suite_digest"].startswith("sha256:")
    assert run["judges"] == run["warnings"] == []
    assert run["status"] == "finished"
    assert (run["total"], run["passed"], run["failed"], run["errors"], run["unscored"]) == (10, 5, 5, 0, 0)
    assert (run["pass_rate"], run["mean_score"]) == (0.5, 0.5)
    assert run["ci95"] == [0.237, 0.763]
    assert set(run["splits"]) == {"dev", "holdout"}
    assert all(set(counts) == COUNTS for counts in run["splits"].values())
    assert (run["splits"]["dev"]["total"], run["splits"]["holdout"]["total"]) == (8, 2)
    assert (run["asked"], run["graded"], run["reused"]) == (10, 10, 0)
    assert set(run["latency_ms"]) == {"p50", "p95", "mean", "answers", "left_out"}
    assert {"input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens"} < set(run["usage"])
    assert run["cost_usd"] == 0
    assert run["exit_code"] == result.json["exit_code"] == result.code == 1


def test_quiet_prints_nothing_when_nothing_is_wrong(proctor: Proctor, suite: Proctor) -> None:
    result = proctor("run", suite(("a", "x", "x")), "--target", "echo", "--quiet")
    assert (result.out, result.err) == ("", "")


def test_what_did_not_pass_is_named_with_its_reason(proctor: Proctor, half: str) -> None:
    out = proctor("run", half, "--target", "echo").out
    assert "FAIL      t0  exact: The answer is 'say 0'; expected 'no'." in out.splitlines()
    assert "all              10   50.0%" in out
    assert "\n5 failed · " in out
    assert "PASS" not in out


def test_more_than_ten_that_did_not_pass_are_counted(proctor: Proctor, suite: Proctor) -> None:
    result = proctor("run", suite(*((f"t{n}", "x", "no") for n in range(13))), "--target", "echo")
    assert sum(line.startswith("FAIL ") for line in result.out.splitlines()) == 10
    assert "…and 3 more: proctor runs show " in result.out


def test_a_function_that_raises_is_an_error_with_its_reason_in_one_line(
    proctor: Proctor, suite: Proctor, function: Proctor
) -> None:
    target = function("def f(prompt):\n    raise RuntimeError('first\\nsecond')\n")
    result = proctor("run", suite(("a", "x", "x")), "--target", target, "--reveal")
    assert result.code == 3
    (line,) = [line for line in result.out.splitlines() if line.startswith("ERROR ")]
    assert "RuntimeError: first second" in line


def test_an_answer_that_no_text_can_hold_is_an_error_of_that_trial_only(
    proctor: Proctor, half: str, function: Proctor
) -> None:
    target = function("def f(prompt):\n    return chr(0xd800) if prompt == 'say 3' else prompt\n")
    result = proctor("run", half, "--target", target, "--json")
    assert (result.code, result.run["total"], result.run["errors"]) == (3, 10, 1)


def test_any_case_id_works_in_all_commands_and_reports(
    proctor: Proctor, suite: Proctor, folder: Path
) -> None:
    ids = [
        *("../../etc/passwd", "/abs/olute", "a\nb\tc", "🦉 ünï", "C:\\x", "-rf", "--json", "a" * 500),
        *("%s{0}$HOME", "'\"`", "[red]x[/red]"),
    ]
    name = suite(*((case_id, "x", "x") for case_id in ids), ("other", "x", "no"))
    outputs = [word for ending in ("json", "jsonl", "csv", "md", "xml") for word in ("-o", f"out.{ending}")]
    result = proctor("run", name, "--target", "echo", "--json", *outputs)
    assert (result.code, result.run["passed"]) == (1, len(ids))
    lines = (folder / "out.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    assert [json.loads(line)["case_id"] for line in lines] == [*ids, "other"]
    for case_id in ids:
        report = proctor("runs", "show", result.run["run"], f"--case={case_id}")
        assert (report.code, report.out[:5]) == (0, "PASS "), case_id
    names = {path.name for path in folder.iterdir()} - {".proctor", "s.jsonl"}
    assert names == {"out.csv", "out.json", "out.jsonl", "out.md", "out.xml"}


def test_a_target_gets_every_message_with_its_role(proctor: Proctor, folder: Path, function: Proctor) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    row = {"id": "a", "input": messages, "ideal": "system,user", "assertion": {"type": "exact_match"}}
    row |= {"category": "factual", "metadata": {"difficulty": "easy", "tokens_est": 9}}
    (folder / "chat.jsonl").write_text(json.dumps(row), encoding="utf-8")
    target = function("def f(messages):\n    return ','.join(m['role'] for m in messages)\n")
    assert proctor("run", "chat.jsonl", "--target", target).code == 0


def test_the_store_is_where_the_flag_or_the_variable_says(
    proctor: Proctor, half: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proctor("run", half, "--target", "echo", "--store", "deep/down/one.db")
    monkeypatch.setenv("PROCTOR_STORE", str(folder / "two.db"))
    proctor("run", half, "--target", "echo")
    monkeypatch.delenv("PROCTOR_STORE")
    proctor("run", half, "--target", "echo")
    assert all((folder / path).is_file() for path in ("deep/down/one.db", "two.db", ".proctor/proctor.db"))


def test_a_file_name_that_is_not_utf_8_is_refused_with_a_sentence(
    proctor: Proctor, folder: Path, suite: Proctor
) -> None:
    suite(("a", "x", "x"), name="all/a.jsonl")
    Path("all/a.jsonl").rename(os.fsdecode(b"all/\xe9.jsonl"))
    assert proctor("run", "all", "--target", "echo").code == 4
    assert proctor("run", os.fsdecode(b"all/\xe9.jsonl"), "--target", "echo").code == 4
    assert proctor("validate", "all").code == 4
