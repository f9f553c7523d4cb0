"""The marker `proctor` and the fixture `proctor_run`: the gate of a run is the outcome of a test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.slow

Run = Callable[..., pytest.RunResult]


def make_test(marker: str, body: str = "def test_it(): pass") -> str:
    return f"import pytest\n\n@pytest.mark.proctor({marker})\n{body}\n"


def test_a_test_passes_if_its_gate_holds(run_pytest: Run, stored_runs: Callable[[], list[Any]]) -> None:
    source = make_test('suite="suite.jsonl", target="echo", min_pass_rate=0.8')
    result = run_pytest(source=source)
    result.assert_outcomes(passed=1)
    (run,) = stored_runs()
    result.stdout.fnmatch_lines(
        [f"{run.id}  suite v1 on echo: 16 of 20 passed, 4 failed", "To show a run: proctor runs show ID"]
    )


def test_a_test_fails_if_its_gate_does_not_hold_and_shows_table_and_cases(run_pytest: Run) -> None:
    source = make_test('"suite.jsonl", target="echo", min_pass_rate=0.9', "def test_it(): raise OSError")
    result = run_pytest(source=source)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "The gate failed: the pass rate is 80.0%, and at least 90.0% is required.",
            "*passed*total*rate*",
            "all*16*20*80.0%*",
            "Failed:",
            "FAIL      c0  exact: The answer is 'say 0'; expected 'no 0'.",
            "FAILED test_it.py::test_it - Failed: The gate failed*",
        ]
    )
    result.stdout.no_fnmatch_line("*OSError*")
    result.stdout.no_fnmatch_line("Not measured:")


def test_a_marker_names_prompts(run_pytest: Run, stored_runs: Callable[[], list[Any]]) -> None:
    prompts = '{"plain": "{{ input }}", "kind": "Please {{ input }}"}'
    source = make_test(f'suite="suite.jsonl", target="echo", prompts={prompts}, min_pass_rate=0.8')
    result = run_pytest(source=source)
    result.assert_outcomes(failed=1)
    assert {run.run.target_title for run in stored_runs()} == {"echo · plain", "echo · kind"}
    result.stdout.fnmatch_lines(["*suite v1 on echo · kind: 0 of 20 passed*"])


def test_without_a_gate_every_case_must_pass(run_pytest: Run) -> None:
    result = run_pytest(source=make_test('suite="suite.jsonl", target="echo"'))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["4 of 20 failed. Set min_pass_rate to tolerate failures."])


ANSWER = """
import pytest

def answer(question):
    if question == "say 7":
        raise RuntimeError("no luck")
    return question

@pytest.mark.proctor(suite="suite.jsonl", target=answer, min_pass_rate=0.9, allow_errors={allowed})
def test_it(): pass
"""


def test_a_run_that_was_not_measured_is_an_error_and_no_failure(run_pytest: Run) -> None:
    result = run_pytest(source=ANSWER.format(allowed=0))
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [
            "The gate is not decided: 1 of 20 trials could not be measured.",
            "Failed:",
            "FAIL      c0 *",
            "Not measured:",
            "ERROR     c7  program: answer raised RuntimeError: no luck",
        ]
    )


def test_errors_that_are_allowed_are_shown_apart_from_failed_cases(run_pytest: Run) -> None:
    result = run_pytest(source=ANSWER.format(allowed=1))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["The gate failed: the pass rate is 78.9%, *", "Failed:", "Not measured:", "ERROR     c7 *"]
    )


def test_a_test_takes_the_run(run_pytest: Run) -> None:
    body = "def test_it(proctor_run): assert (proctor_run.total, proctor_run.target.name) == (3, 'echo')"
    source = make_test('suite="suite.jsonl", target="echo", limit=3, min_pass_rate=0.5', body)
    run_pytest(source=source).assert_outcomes(passed=1)


def test_a_test_of_several_targets_takes_the_group(run_pytest: Run) -> None:
    body = "def test_it(proctor_run): assert [run.passed for run in proctor_run] == [16, 0]"
    source = make_test('suite="suite.jsonl", target=["echo", lambda q: "no"], min_pass_rate=0', body)
    run_pytest(source=source).assert_outcomes(passed=1)


def test_the_run_comes_after_the_fixtures_of_its_test(run_pytest: Run) -> None:
    source = """
    import pytest
    answers = []

    @pytest.fixture
    def server():
        answers.append("ready")

    @pytest.mark.proctor(suite="suite.jsonl", target=lambda question: answers[0], min_pass_rate=0)
    def test_it(server): pass
    """
    run_pytest(source=source).assert_outcomes(passed=1)


def test_markers_of_a_module_a_class_and_a_parameter_add_up(run_pytest: Run) -> None:
    source = """
    import pytest
    pytestmark = pytest.mark.proctor(suite="suite.jsonl", target="echo", min_pass_rate=0)

    class TestClass:
        pytestmark = pytest.mark.proctor(limit=2)

        @pytest.mark.parametrize("total", [2, pytest.param(4, marks=pytest.mark.proctor(limit=4))])
        def test_it(self, proctor_run, total):
            assert proctor_run.total == total
    """
    run_pytest(source=source).assert_outcomes(passed=2)


def test_tests_that_share_a_marker_share_its_run(
    run_pytest: Run, stored_runs: Callable[[], list[Any]]
) -> None:
    source = """
    import pytest
    pytestmark = pytest.mark.proctor(suite="suite.jsonl", target="echo", min_pass_rate=0.5)

    @pytest.mark.parametrize("number", range(3))
    def test_it(proctor_run, number): assert proctor_run.passed == 16

    def test_more(proctor_run): assert proctor_run.passed == 16
    """
    run_pytest(source=source).assert_outcomes(passed=4)
    assert len(stored_runs()) == 1


def test_methods_of_unittest_have_markers_too(run_pytest: Run) -> None:
    source = """
    import unittest
    import pytest

    class TestClass(unittest.TestCase):
        @pytest.mark.proctor(suite="suite.jsonl", target="echo", min_pass_rate=0.9)
        def test_it(self): pass
    """
    result = run_pytest(source=source)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["The gate failed*"])


@pytest.mark.parametrize(
    ("marker", "error"),
    [
        ('suite="suite.jsonl", repeat=3', "There is no option 'repeat'. Did you mean 'repeats'*"),
        ('siute="suite.jsonl"', "There is no option 'siute'. Did you mean 'suite'*"),
        ('suite="suite.jsonl", limit="3"', "`limit` is '3'. Expected `int`, got `str`."),
        ('suite="suite.jsonl", min_pass_rate=90', "`min_pass_rate` is 90. *"),
        ('target="echo"', "The marker does not name a suite. *"),
        ('"suite.jsonl", "echo"', "The marker takes one positional argument, the suite. *"),
    ],
)
def test_a_wrong_marker_is_an_error_of_collection(run_pytest: Run, marker: str, error: str) -> None:
    result = run_pytest(source=make_test(marker))
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*ERROR collecting test_it.py*", f"test_it.py:3: error: {error}"])


def test_all_wrong_markers_of_a_module_are_told(run_pytest: Run) -> None:
    source = """
    import pytest

    @pytest.mark.proctor("suite.jsonl", limt=3)
    @pytest.mark.parametrize("number", range(3))
    def test_it(number): pass

    @pytest.mark.proctor("suite.jsonl", repeats=0)
    def test_more(): pass
    """
    result = run_pytest("--junitxml=junit.xml", source=source)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["test_it.py:3: error: There is no option 'limt'.*", "test_it.py:7: error: `repeats` is 0. *"],
        consecutive=True,
    )


def test_a_suite_that_is_not_there_is_an_error_of_its_test(run_pytest: Run) -> None:
    result = run_pytest(source=make_test('suite="nope.jsonl", target="echo"'))
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["test_it.py:3: error: There is no suite 'nope.jsonl'*"])
    result.stdout.no_fnmatch_line("*During handling*")


def test_an_invalid_suite_is_an_error_with_all_of_its_problems(
    run_pytest: Run, pytester: pytest.Pytester
) -> None:
    rows = '{"id": "a", "input": "x", "expected": "y", "scorre": 1}\n{"id": "b", "expected": "y"}\n'
    pytester.path.joinpath("bad.jsonl").write_text(rows, encoding="utf-8")
    result = run_pytest(source=make_test('suite="bad.jsonl", target="echo"'))
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["bad.jsonl:1: error: *", "bad.jsonl:2: error: *"])


def test_a_suite_is_found_beside_its_test(run_pytest: Run, pytester: pytest.Pytester) -> None:
    folder = pytester.mkdir("evals")
    pytester.path.joinpath("suite.jsonl").rename(folder / "suite.jsonl")
    source = make_test('suite="suite.jsonl", target="echo", min_pass_rate=0.5')
    folder.joinpath("test_it.py").write_text(source, encoding="utf-8")
    run_pytest("evals").assert_outcomes(passed=1)


def test_a_test_that_takes_the_run_needs_the_marker(run_pytest: Run) -> None:
    result = run_pytest(source="def test_it(proctor_run): pass")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["test_it uses the fixture `proctor_run` but has no marker. *"])


def test_a_skipped_test_sends_nothing(run_pytest: Run, pytester: pytest.Pytester) -> None:
    source = make_test('suite="suite.jsonl", target="echo"', "@pytest.mark.skip\ndef test_it(): pass")
    run_pytest(source=source).assert_outcomes(skipped=1)
    assert not pytester.path.joinpath(".proctor").exists()


def test_strict_markers_know_the_marker(run_pytest: Run) -> None:
    source = make_test('suite="suite.jsonl", target="echo", min_pass_rate=0.5')
    run_pytest("--strict-markers", "-W", "error", source=source).assert_outcomes(passed=1)


def test_options_of_the_session_are_defaults_of_markers(run_pytest: Run) -> None:
    words = ["--proctor-target=echo", "--proctor-limit=5", "--proctor-option=repeats=2"]
    words += ["--proctor-min-pass-rate=0.8"]
    body = "def test_it(proctor_run): assert (proctor_run.total, proctor_run.passed) == (10, 8)"
    run_pytest(*words, source=make_test('suite="suite.jsonl"', body)).assert_outcomes(passed=1)
    body = "def test_it(proctor_run): assert proctor_run.total == 4"
    run_pytest(
        *words, source=make_test('suite="suite.jsonl", limit=2, min_pass_rate=0', body)
    ).assert_outcomes(passed=1)


def test_junit_files_name_the_run(
    run_pytest: Run, pytester: pytest.Pytester, stored_runs: Callable[[], list[Any]]
) -> None:
    source = make_test('suite="suite.jsonl", target="echo", min_pass_rate=0.5')
    run_pytest("--junitxml=junit.xml", source=source)
    text = pytester.path.joinpath("junit.xml").read_text(encoding="utf-8")
    assert f'<property name="proctor_run" value="{stored_runs()[0].id}" />' in text
