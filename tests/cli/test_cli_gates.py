"""Gates by interval, and runs that stop early."""

from __future__ import annotations

import json
from functools import partialmethod
from pathlib import Path

import pytest

from proctor.proof.claims import ClaimCounter
from proctor.stats import clopper_pearson
from support.cli import CommandResult, Proctor


@pytest.fixture
def many(suite: Proctor) -> str:
    """Six hundred cases; the target `echo` passes the first nine tenths and fails the rest."""
    rows = [(f"t{n}", f"say {n}", f"say {n}" if n < 540 else "no") for n in range(600)]
    name: str = suite(*rows, name="many.jsonl")
    return name


def ask(proctor: Proctor, name: str, *words: object) -> CommandResult:
    result: CommandResult = proctor("run", name, "--target", "echo", "--no-holdout", *words)
    return result


@pytest.mark.parametrize(
    ("bar", "cases", "code", "message"),
    [
        (
            "0.8",
            20,
            0,
            "The gate passed: the exact 95 % interval starts at 83.16%, and at least 80.00% is required.",
        ),
        (
            "0.9",
            20,
            3,
            "The gate is not decided: the exact 95 % interval is 83.16% to 100.00%, and contains 90.00%.",
        ),
        (
            "0.95",
            600,
            1,
            "The gate failed: the exact 95 % interval ends at 92.28%, and at least 95.00% is required.",
        ),
    ],
)
def test_an_interval_gate_has_three_answers(
    proctor: Proctor, many: str, bar: str, cases: int, code: int, message: str
) -> None:
    words = ("--limit", cases, "--min-pass-rate", bar, "--gate-mode", "interval")
    result = ask(proctor, many, *words)
    assert (result.code, message in result.out) == (code, True)


def test_a_point_gate_tells_how_often_it_is_wrong(proctor: Proctor, many: str) -> None:
    result = ask(proctor, many, "--limit", 20, "--min-pass-rate", 0.8).out
    assert (
        "With 20 cases a target with a true pass rate of 75.0% passes this gate in 41% of runs, and one with "
        "85.0% fails it in 17%. With `--gate-mode interval`, the whole 95 % interval must reach 80.0%."
    ) in result
    assert "each run once" in ask(proctor, many, "--limit", 20, "--min-pass-rate", 0.8, "--repeat", 2).out
    assert "in 36% of runs. With `" in ask(proctor, many, "--limit", 20, "--min-pass-rate", 1).out
    assert "a true pass rate" not in ask(proctor, many, "--limit", 20, "--min-pass-rate", 0).out
    assert "a true pass rate" not in ask(proctor, many, "--limit", 20).out


def test_every_form_of_a_report_has_the_gate(proctor: Proctor, folder: Path, many: str) -> None:
    words = ("--limit", 20, "--min-pass-rate", 0.9, "--gate-mode", "interval")
    files = ("r.html", "r.md", "r.xml", "r.json")
    result = ask(proctor, many, *words, "--json", *(word for name in files for word in ("-o", name)))
    assert result.run["gate"] == {
        "min_pass_rate": 0.9,
        "mode": "interval",
        "decision": "not shown",
        "low": pytest.approx(0.8316, abs=1e-4),
        "high": 1.0,
        "errors": None,
    }
    assert result.run["exit_code"] == 3
    for name in files[:3]:
        assert (
            "The gate is not decided: the exact 95 % interval is 83.16% to 100.00%"
            in (folder / name).read_text()
        )
    report = json.loads((folder / "r.json").read_text(encoding="utf-8"))
    assert report["runs"][0]["gate"] == result.run["gate"]
    assert "The gate is not decided" in proctor("runs", "show", "last").out


def test_a_bundle_derives_the_result_of_an_interval_gate(proctor: Proctor, folder: Path, many: str) -> None:
    for bar, result in (("0.8", "PASSED"), ("0.9", "FAILED")):
        ask(proctor, many, "--limit", 20, "--min-pass-rate", bar, "--gate-mode", "interval")
        assert proctor("attest", "last", "-o", f"b{bar}").code == 0
        verification = proctor("verify", f"b{bar}", "--json")
        assert verification.code == 0
        assert verification.json["bundles"][0]["result"] == result
    assert "interval" in proctor("verify", "b0.8").out


@pytest.mark.parametrize("flag", [("--gate-mode", "interval"), ("--stop-when-shown",)])
def test_flags_on_a_gate_need_one(proctor: Proctor, many: str, flag: tuple[str, ...]) -> None:
    result = ask(proctor, many, *flag)
    assert (result.code, f"{flag[0]} needs a gate. Add --min-pass-rate" in result.err) == (4, True)


def test_a_gate_mode_in_the_project_file_needs_no_gate(proctor: Proctor, folder: Path, many: str) -> None:
    (folder / "proctor.toml").write_text('gate-mode = "interval"\n', encoding="utf-8")
    assert ask(proctor, many, "--limit", 20).code == 0
    assert ask(proctor, many, "--limit", 20, "--min-pass-rate", 0.9).code == 3


def test_grades_can_be_held_to_the_other_mode_again(proctor: Proctor, many: str) -> None:
    ask(proctor, many, "--limit", 20, "--min-pass-rate", 0.9)
    result = proctor("regrade", "last", "--gate-mode", "interval", "--json")
    assert (result.code, result.run["gate"]["decision"]) == (3, "not shown")


# --- stopping early ----------------------------------------------------------------------------------------


def test_a_run_stops_when_its_gate_is_decided(proctor: Proctor, many: str) -> None:
    result = ask(proctor, many, "--min-pass-rate", 0.7, "--stop-when-shown", "--concurrency", 1, "--json")
    run = result.run
    assert (result.code, run["status"], run["gate"]["decision"]) == (0, "finished", "shown")
    assert run["total"] == run["planned"] < 250
    assert run["early_stop"]["reason"] == "shown"
    assert run["early_stop"]["planned_cases"] == 600
    assert run["early_stop"]["cases"] <= run["total"]
    # The last tenth of the suite fails, and the order is shuffled.
    assert 0 < run["failed"] < run["total"]
    report = proctor("runs", "show", "last").out
    assert f"Stopped early: after {run['early_stop']['cases']} of 600 cases a pass rate of" in report
    assert "stopping early costs" in report
    listing = proctor("runs", "list").out
    assert ("missing" in listing, "on echo (stopped early)" in listing) == (False, True)
    low, high = run["early_stop"]["interval"]
    assert f"{100 * low:.0f}–{100 * high:.0f}%" in listing
    assert proctor("store", "check").code == 0


def test_a_run_stops_when_it_is_sure_to_so_many_points(proctor: Proctor, many: str) -> None:
    result = ask(proctor, many, "--until", "8pp", "--concurrency", 1)
    assert result.code == 1
    assert "cases the pass rate is known to ±8 points (confidence sequence " in result.out
    again = proctor("run", many, "--target", "echo", "--no-holdout", "--until", "0.08", "--json").run
    low, high = again["early_stop"]["interval"]
    assert (high - low) / 2 <= 0.08
    assert again["total"] < 600


def test_the_same_cases_come_first_in_every_run(proctor: Proctor, many: str) -> None:
    for bar in ("0.7", "0.6"):
        ask(proctor, many, "--min-pass-rate", bar, "--stop-when-shown", "--concurrency", 1)
    result = proctor("compare", *list_runs(proctor)).out
    assert result.count("Its own interval is a confidence sequence. The intervals of differences") == 2
    assert result.count("Only in the") <= 1  # the longer run has every case of the shorter one


def list_runs(proctor: Proctor) -> list[str]:
    return [str(run["run"]) for run in proctor("runs", "list", "--json").json["runs"]][:2]


def test_a_run_that_never_knows_enough_asks_everything_and_is_held_to_its_sequence(
    proctor: Proctor, many: str
) -> None:
    result = ask(proctor, many, "--min-pass-rate", 0.89, "--stop-when-shown", "--json")
    assert (result.code, result.run["total"], "early_stop" in result.run) == (3, 600, False)
    gate = result.run["gate"]
    assert [round(gate["low"], 3), round(gate["high"], 3)] == result.run["ci95"]
    assert result.run["interval_kind"] == "confidence sequence"
    low, high = clopper_pearson(result.run["passed"], 600) or (0, 1)
    assert gate["low"] < low < high < gate["high"]


def test_what_stopped_early_is_no_part_of_a_whole(proctor: Proctor, folder: Path, many: str) -> None:
    ask(proctor, many, "--min-pass-rate", 0.7, "--stop-when-shown", "--concurrency", 1)
    for words in (("attest", "last", "-o", "b"), ("run", "--resume=last"), ("regrade", "last")):
        result = proctor(*words)
        assert (result.code, "stopped early" in result.err) == (4, True)
    assert not (folder / "b").exists()
    whole = ask(proctor, many, "--reuse", "--json").run
    assert (whole["total"], "early_stop" in whole) == (600, False)
    assert 0 < whole["reused"] < 250


def test_calls_in_flight_when_a_run_stops_finish_and_count(
    proctor: Proctor, many: str, script: Proctor
) -> None:
    target = script(rules={"*": "no"})
    words = ("--min-pass-rate", 0.7, "--stop-when-shown", "--concurrency", 8, "--json")
    run = proctor("run", many, "--target", target, "--no-holdout", *words).run
    assert run["gate"]["decision"] == "ruled out"
    assert run["early_stop"]["cases"] == run["cases"] == run["total"]
    assert run["early_stop"]["interval"] == run["ci95"]


def test_a_target_that_answers_at_once_is_sent_no_case_too_many(proctor: Proctor, many: str) -> None:
    words = ("--min-pass-rate", 0.7, "--stop-when-shown", "--json")
    one_call, many_calls = (ask(proctor, many, *words, "--concurrency", n).run for n in (1, 32))
    assert one_call["total"] == many_calls["total"] == one_call["early_stop"]["cases"]


def test_a_run_says_how_many_cases_it_would_have_needed(proctor: Proctor, many: str) -> None:
    result = ask(proctor, many, "--until", "2pp")
    assert (
        "after 600 cases the pass rate is known to ±4.2 points, and --until 2pp needs about 2,200."
        in result.out
    )
    assert "Stopped early" not in result.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--stop-when-shown", "--min-pass-rate", 0.5, "--gate-mode", "point"),
            "--gate-mode point does not have",
        ),
        (("--until", "5pp", "--attest=bundles"), "Remove --attest"),
    ],
)
def test_what_does_not_go_together_is_refused_before_the_first_call(
    proctor: Proctor, many: str, words: tuple[str, ...], message: str
) -> None:
    result = ask(proctor, many, *words)
    assert (result.code, message in result.err) == (4, True)
    assert not proctor("runs", "list", "--json").json["runs"]


def test_a_bundle_of_a_run_that_could_stop_has_its_confidence_sequence(proctor: Proctor, many: str) -> None:
    run = ask(proctor, many, "--until", "2pp", "--json").run
    assert proctor("attest", "last", "-o", "b").code == 0
    verification = proctor("verify", "b", "--json")
    assert verification.code == 0
    (bundle,) = verification.json["bundles"]
    claim = bundle["claims"]["all"]
    assert [round(end, 3) for end in claim["ci95"]] == run["ci95"]
    assert claim["interval_kind"] == "confidence sequence"
    proctor("certify", "last", "--force", "--no-sign", "-o", "c.json", "-o", "badge.svg")
    certificate = json.loads(Path("c.json").read_text(encoding="utf-8"))
    assert [round(end, 3) for end in certificate["ci95"]] == run["ci95"]
    assert certificate["interval_kind"] == "confidence sequence"
    assert "n=600 · 85–94 %" in Path("badge.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize("flag", [(), ("--public",)])
def test_a_bundle_from_before_has_the_interval_of_a_run_of_fixed_size_and_holds(
    proctor: Proctor, many: str, monkeypatch: pytest.MonkeyPatch, flag: tuple[str, ...]
) -> None:
    run = proctor("run", many, "--target", "echo", "--until", "2pp", "--json").run
    with monkeypatch.context() as patch:
        patch.setattr(ClaimCounter, "claims", partialmethod(ClaimCounter.claims, fixed_size=True))
        assert proctor("attest", "last", "-o", "before", *flag).code == 0
    assert proctor("attest", "last", "-o", "now", *flag).code == 0
    before, now = (proctor("verify", bundle, "--json") for bundle in ("before", "now"))
    assert (before.code, now.code) == (0, 0)
    fixed, sequence = (result.json["bundles"][0]["claims"]["all"] for result in (before, now))
    assert fixed["interval_kind"] is None
    assert sequence["ci95"][0] < fixed["ci95"][0] < fixed["ci95"][1] < sequence["ci95"][1]
    assert [round(end, 3) for end in sequence["ci95"]] == run["ci95"]
    if not flag:
        replayed = proctor("replay", "now", "--target", "echo", "--json").json
        assert replayed["then"]["ci95"] == run["ci95"]
        assert "early_stop" not in proctor("runs", "show", replayed["replay"], "--json").run


def test_errors_of_a_run_that_stopped_early_are_asked_again_until_it_stops(
    proctor: Proctor, many: str, script: Proctor
) -> None:
    target = script(rules={"t?": "say", "t??": "say", "*": "yes"})
    words = ("run", many, "--target", target, "--no-holdout", "--min-pass-rate", 0.5, "--stop-when-shown")
    first = proctor(*words, "--json").run
    assert first["early_stop"]["reason"] == "ruled out"
    again = proctor("run", f"--retry-errors={first['run']}", "--json").run
    assert again["early_stop"]["reason"] == "ruled out"
    assert again["reused"] > 0


def test_a_retry_of_a_run_that_stopped_early_may_send_all_cases(
    proctor: Proctor, many: str, script: Proctor
) -> None:
    target = script(rules={"t?": "say", "t??": "say", "*": "yes"})
    words = ("run", many, "--target", target, "--no-holdout", "--min-pass-rate", 0.5, "--stop-when-shown")
    first = proctor(*words, "--json").run
    assert first["early_stop"]["reason"] == "ruled out"
    again = proctor("run", f"--retry-errors={first['run']}", "--min-pass-rate", 0.001, "--json").run
    assert (again["planned"], again["total"], "early_stop" in again) == (600, 600, False)


def test_a_regrade_grades_every_answer_of_a_run_that_could_have_stopped(proctor: Proctor, many: str) -> None:
    ask(proctor, many, "--min-pass-rate", 0.89, "--stop-when-shown")
    result = proctor("regrade", "last", "--min-pass-rate", 0.1, "--json")
    assert (result.code, result.run["total"], "early_stop" in result.run) == (0, 600, False)


def test_a_run_that_was_cut_short_goes_on_in_its_order_until_it_knows_enough(
    proctor: Proctor, many: str, script: Proctor
) -> None:
    target = script(rules={"t?": "say", "t1*": "no", "t2*": "no", "t3*": "no"})  # and errors for the rest
    words = ("--min-pass-rate", 0.9, "--stop-when-shown", "--allow-errors", 600, "--concurrency", 1)
    result = proctor("run", many, "--target", target, "--no-holdout", *words, "--max-failures", 1, "--json")
    assert (result.code, result.run["status"], "early_stop" in result.run) == (3, "interrupted", False)
    refusal = proctor("run", f"--resume={result.run['run']}", "--until", "0.1")
    assert (refusal.code, "--until: the run has none, this command sets 0.1" in refusal.err) == (4, True)
    refusal = proctor("run", f"--resume={result.run['run']}", "--attest=bundles")
    assert (refusal.code, "Remove --attest" in refusal.err) == (4, True)
    again = proctor("run", f"--resume={result.run['run']}", "--max-failures", 600, "--json").run
    assert (again["status"], again["early_stop"]["reason"]) == ("finished", "ruled out")
    assert again["planned"] == again["total"] >= again["early_stop"]["cases"]
    assert again["exit_code"] == 1


def test_runs_that_stop_early_have_independent_cases(proctor: Proctor, many: str) -> None:
    result = ask(proctor, many, "--until", "5pp", "--cluster", "id")
    assert (result.code, "these are in clusters by 'id'" in result.err) == (4, True)


def test_interleaving_by_the_project_file_hinders_no_run_on_one_target(
    proctor: Proctor, folder: Path, many: str
) -> None:
    (folder / "proctor.toml").write_text("interleave = true\n", encoding="utf-8")
    result = ask(proctor, many, "--min-pass-rate", 0.5, "--stop-when-shown", "--json")
    assert (result.code, result.run["early_stop"]["reason"]) == (0, "shown")


def test_an_interval_gate_is_over_clusters(proctor: Proctor, suite: Proctor) -> None:
    rows = [(f"c{n // 5}[{n % 5}]", f"say {n}", f"say {n}" if n % 50 > 4 else "no") for n in range(200)]
    words = ("--min-pass-rate", 0.84, "--gate-mode", "interval")
    name = suite(*rows)
    assert ask(proctor, name, *words, "--cluster", "none").code == 0
    assert ask(proctor, name, *words, "--cluster", "id").code == 3
    assert proctor("attest", "last", "-o", "b").code == 0
    assert proctor("verify", "b", "--json").json["bundles"][0]["result"] == "FAILED"
    result = ask(proctor, name, "--min-pass-rate", 0.8, "--cluster", "id").out
    assert "With 200 independent cases a target with a true pass rate of" in result


def test_a_report_says_how_to_run_it_again(proctor: Proctor, many: str) -> None:
    ask(proctor, many, "--until", "20pp", "--min-pass-rate", 0.5, "--stop-when-shown", "-o", "r.html")
    text = Path("r.html").read_text(encoding="utf-8")
    assert "--min-pass-rate 0.5 --gate-mode interval --until 0.2 --stop-when-shown" in text
    assert "order shuffled by seed 42" in text


# --- certificates of targets -------------------------------------------------------------------------------


def test_a_target_is_certified_by_its_interval(proctor: Proctor) -> None:
    result = proctor("certify", "--target", "echo", "--seed", 7, "--gate-mode", "interval", "--json")
    data = result.json
    assert (result.code, data["decision"], data["rounds"], data["total"]) == (1, "ruled out", 3, 42)
    assert {check["round"] for check in data["checks"]} == {1, 2, 3}
    assert "Running 42 checks on echo with 84 questions." in result.err
    questions = [check["questions"][0]["asked"] for check in data["checks"] if check["check"] == "arithmetic"]
    assert questions[0] != questions[1] != questions[2]


def test_a_point_certificate_tells_how_often_it_is_wrong(proctor: Proctor) -> None:
    result = proctor("certify", "--target", "echo", "--seed", 7)
    assert (
        "With 14 checks, a target that passes 75% of such checks is certified in 28% of tries" in result.out
    )
    assert proctor("certify", "last", "--gate-mode", "interval").code == 4


def test_a_gate_is_not_decided_where_more_errors_are_there_than_allowed(
    proctor: Proctor, many: str, script: Proctor
) -> None:
    target = script(rules={f"t{n}": f"say {n}" for n in range(20)})
    words = ("run", many, "--no-holdout", "--target", target, "--retries", 0, "--limit", 30)
    result = proctor(*words, "--min-pass-rate", 0.5)
    assert result.code == 3
    assert (
        "The gate is not decided: 10 trials could not be measured, and --allow-errors allows 0." in result.out
    )
    gate = proctor("runs", "show", "last", "--json").run["gate"]
    assert (gate["decision"], gate["low"]) == ("not shown", pytest.approx(2 / 3))


def test_several_runs_end_with_how_many_passed_their_gate(
    proctor: Proctor, suite: Proctor, folder: Path
) -> None:
    suite(("t", "a", "a"), name="s/good.jsonl")
    suite(("t", "a", "b"), name="s/bad.jsonl")
    words = ("run", "s", "--target", "echo", "--no-holdout", "--min-pass-rate", 0.5)
    result = proctor(*words, "-o", "r.md")
    assert result.code == 1
    assert result.out.endswith("\n1 of 2 runs failed the gate: bad v1.\n")
    assert "1 of 2 runs failed the gate: bad v1." in (folder / "r.md").read_text(encoding="utf-8")
    result = proctor(*words, "--gate-mode", "interval")
    assert (result.code, result.out.splitlines()[-1]) == (
        3,
        "The gate is not decided for 2 of 2 runs: bad v1, good v1.",
    )
    assert proctor("run", "s", "--target", "echo", "--min-pass-rate", 0).out.endswith(
        "\nAll 2 runs passed the gate.\n"
    )
    assert "passed the gate" not in proctor("run", "s", "--target", "echo").out
