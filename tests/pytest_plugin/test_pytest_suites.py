"""`--proctor-suite`: suites as tests, one for each suite and target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.slow

Run = Callable[..., pytest.RunResult]
ROW = '{"id": "a", "input": "Lima", "expected": "Lima"}\n'


@pytest.fixture(autouse=True)
def folder(pytester: pytest.Pytester) -> None:
    """A folder with two suites, one of which `echo` does not pass."""
    evals = pytester.mkdir("evals")
    evals.joinpath("good.jsonl").write_text(ROW, encoding="utf-8")
    evals.joinpath("bad.jsonl").write_text(ROW.replace('ed": "Lima', 'ed": "Rome'), encoding="utf-8")


def test_each_suite_is_a_test(run_pytest: Run) -> None:
    result = run_pytest(
        "-v", "--proctor-suite", "evals/good.jsonl", "evals/bad.jsonl", "--proctor-target=echo"
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*collected 2 items",
            "evals/good.jsonl::echo PASSED*",
            "evals/bad.jsonl::echo FAILED*",
            "FAIL      a *",
        ]
    )


def test_each_target_is_a_test_and_a_folder_stands_for_its_suites(run_pytest: Run) -> None:
    words = ("--proctor-suite=evals", "--proctor-target=echo", "--proctor-target=scripted:no.jsonl")
    result = run_pytest("--collect-only", "-q", *words)
    result.stdout.fnmatch_lines(
        [
            "evals/bad.jsonl::echo",
            "evals/bad.jsonl::scripted:no.jsonl",
            "evals/good.jsonl::echo",
            "evals/good.jsonl::scripted:no.jsonl",
            "4 tests collected*",
        ]
    )


def test_without_a_target_a_suite_runs_on_those_that_it_names(
    run_pytest: Run, pytester: pytest.Pytester
) -> None:
    targets = "targets:\n  - name: a\n    provider: echo\ndefault: a\n"
    pytester.path.joinpath("targets.yaml").write_text(targets, encoding="utf-8")
    result = run_pytest("-v", "--proctor-suite", "evals/good.jsonl")
    result.stdout.fnmatch_lines(["evals/good.jsonl::run *"])


def test_paths_add_tests_and_without_paths_suites_are_all(run_pytest: Run, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it="def test_it(): pass")
    words = ("--proctor-suite", "evals/good.jsonl", "--proctor-target=echo")
    run_pytest(*words).assert_outcomes(passed=1)
    run_pytest("test_it.py", *words).assert_outcomes(passed=2)


def test_collecting_sends_nothing(run_pytest: Run, counting_server: Any, pytester: pytest.Pytester) -> None:
    result = run_pytest(
        "--collect-only", "--proctor-suite=evals", f"--proctor-target={counting_server.target}"
    )
    assert result.ret == 0
    assert counting_server.prompts == []
    assert not pytester.path.joinpath(".proctor").exists()


def test_words_select_suites(run_pytest: Run) -> None:
    words = ("--proctor-suite", "evals", "--proctor-target=echo", "-k", "good")
    run_pytest(*words).assert_outcomes(passed=1, deselected=1)


def test_the_last_failed_suites_run_again(pytester: pytest.Pytester) -> None:
    words = ("-p", "proctor.pytest_plugin.hooks", "--proctor-suite", "evals", "--proctor-target=echo")
    pytester.runpytest_inprocess(*words).assert_outcomes(passed=1, failed=1)
    result = pytester.runpytest_inprocess(*words, "--lf", "-v")
    result.assert_outcomes(failed=1, deselected=1)
    result.stdout.fnmatch_lines(["evals/bad.jsonl::echo FAILED*"])


def test_a_file_that_is_named_twice_is_run_once(run_pytest: Run) -> None:
    words = ("--proctor-suite=evals/good.jsonl", "--proctor-suite", "evals", "./evals/good.jsonl")
    result = run_pytest("--collect-only", "-q", *words, "--proctor-target=echo")
    result.stdout.fnmatch_lines(["evals/good.jsonl::echo", "evals/bad.jsonl::echo", "2 tests collected*"])


@pytest.mark.parametrize("value", ["c1", '["c1", "c2"]', "7"])
def test_the_value_of_an_option_is_json_or_a_text(run_pytest: Run, value: str) -> None:
    words = ("--proctor-suite", "suite.jsonl", "--proctor-target=echo", f"--proctor-option=id={value}")
    result = run_pytest(*words)
    count = len(value.split(",")) if "c" in value else 0
    result.assert_outcomes(passed=int(count > 0), errors=int(not count))
    result.stdout.fnmatch_lines([f"*{count} of {count} passed" if count else "*No case is selected.*"])


def test_the_gate_and_other_options_are_those_of_the_session(run_pytest: Run) -> None:
    words = ("--proctor-suite", "suite.jsonl", "--proctor-target=echo", "--proctor-min-pass-rate")
    run_pytest(*words, "0.8").assert_outcomes(passed=1)
    run_pytest(*words, "80%").assert_outcomes(passed=1)
    run_pytest(*words, "90%").assert_outcomes(failed=1)


@pytest.mark.parametrize(
    ("word", "error"),
    [
        (
            "--proctor-min-pass-rate=90",
            "ERROR: --proctor-min-pass-rate: 90 is more than 1. Did you mean 0.9 or 90%?",
        ),
        ("--proctor-min-pass-rate=101%", "ERROR: `min_pass_rate` is 1.01. *"),
        ("--proctor-option=limt=3", "ERROR: There is no option 'limt'. Did you mean 'limit'*"),
        ("--proctor-option=repeats", "ERROR: --proctor-option repeats: write NAME=VALUE*"),
        ("--proctor-option=repeats=many", "ERROR: `repeats` is 'many'. *"),
        ("--proctor-option=store=x.db", "ERROR: There is no option 'store'. *"),
    ],
)
def test_an_option_that_cannot_be_used_is_refused(run_pytest: Run, word: str, error: str) -> None:
    result = run_pytest(word)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([error])


def test_a_suite_that_is_not_there_is_an_error_of_collection(run_pytest: Run) -> None:
    result = run_pytest("--proctor-suite", "evals/god.jsonl", "evals/good.jsonl", "--proctor-target=echo")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*ERROR collecting evals/god.jsonl*", "There is no suite 'evals/god.jsonl'*"]
    )


def test_a_suite_of_the_store_is_named_as_on_the_command_line(run_pytest: Run) -> None:
    words = ("--proctor-target=echo", "--proctor-suite")
    run_pytest(*words, "evals/good.jsonl").assert_outcomes(passed=1)
    run_pytest(*words, "good@v1").assert_outcomes(passed=1)
    run_pytest(*words, "good@v2").assert_outcomes(errors=1)


def test_a_file_of_a_folder_that_is_no_suite_is_a_warning(run_pytest: Run, pytester: pytest.Pytester) -> None:
    pytester.path.joinpath("evals", "notes.jsonl").write_text('{"a": 1}\n', encoding="utf-8")
    result = run_pytest("--proctor-suite=evals", "--proctor-target=echo", "-k", "good")
    result.stdout.fnmatch_lines(["*PytestCollectionWarning: Skipped 1 file*evals/notes.jsonl*"])


def test_a_target_that_cannot_be_used_is_an_error_of_its_test(run_pytest: Run) -> None:
    result = run_pytest("--proctor-suite=evals/good.jsonl", "--proctor-target=nope")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["evals/good.jsonl: error: *'nope'*"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_junit_files_have_a_test_case_for_each_suite(run_pytest: Run, pytester: pytest.Pytester) -> None:
    run_pytest("--proctor-suite=evals", "--proctor-target=echo", "--junitxml=junit.xml")
    text = pytester.path.joinpath("junit.xml").read_text(encoding="utf-8")
    assert '<testcase classname="evals.good.jsonl" name="echo"' in text
    assert '<failure message="Failed: 1 of 1 failed.' in text
