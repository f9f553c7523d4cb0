"""The fixture `proctor`: `check` grades one answer, `run` runs a suite with the options of the session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.slow

Run = Callable[..., pytest.RunResult]


def make_test(call: str) -> str:
    return (
        f"import proctor as package\n\ndef judge(prompt):\n    return JUDGMENT\n\n"
        f'JUDGMENT = \'{{"score": 0.2, "assertions": [], "reasoning": "It is curt."}}\'\n\n'
        f"def test_it(proctor):\n    {call}\n"
    )


@pytest.mark.parametrize(
    "call",
    [
        'assert proctor.check("Lima", expected="Lima").answer == "Lima"',
        'proctor.check("It is Lima.", expected={"type": "contains", "value": "Lima"})',
        'proctor.check("[1]", graders=["is_json"])',
        'proctor.check("Lima", graders=[lambda answer, expected: answer != expected], expected="Rome")',
        'proctor.check("Lima", graders=lambda answer: True)',
        'proctor.check("Lima", criteria="Is it a town?", judge=lambda p: JUDGMENT.replace("0.2", "1"))',
        'proctor.check(package.Output(text="x", cost_usd=1), graders=[{"grader": "cost", "budget_usd": 2}])',
        'proctor.check("x", graders=["is_json", lambda answer: True], threshold=0.5)',
    ],
)
def test_an_answer_that_passes(run_pytest: Run, call: str) -> None:
    run_pytest(source=make_test(call)).assert_outcomes(passed=1)


def test_prompts_of_the_project_have_no_part_in_a_check(run_pytest: Run, pytester: pytest.Pytester) -> None:
    (pytester.path / "city.txt").write_text("{{ city }}", encoding="utf-8")
    (pytester.path / "proctor.toml").write_text('prompt = "city.txt"\n', encoding="utf-8")
    run_pytest(source=make_test('proctor.check("Lima", expected="Lima")')).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("call", "lines"),
    [
        (
            'proctor.check("Rome", expected="Lima")',
            ["FAIL      exact 0.00: The answer is 'Rome'; expected 'Lima'."],
        ),
        (
            'proctor.check("{}", graders=["is_json", lambda answer: (0.2, "too short")])',
            ["PASS      is_json 1.00*", "FAIL      lambda* 0.20: too short"],
        ),
        (
            'proctor.check("Lima", criteria="Is it polite?", judge=judge)',
            ["FAIL      criteria 0.20: The judge 'judge' gave 0.2: It is curt."],
        ),
    ],
)
def test_an_answer_that_does_not_pass_fails_with_a_line_for_each_score(
    run_pytest: Run, call: str, lines: list[str]
) -> None:
    result = run_pytest(source=make_test(call))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f">*{call.replace('[', '[[]')}"])
    result.stdout.fnmatch_lines(
        ["E*AssertionError: The answer does not pass.", *(f"E*{line}" for line in lines)]
    )
    result.stdout.fnmatch_lines(["E*Answer: *", "test_it.py:9: AssertionError"])
    assert "_grade" not in result.stdout.str()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (
            'proctor.check("Lima", criteria="Is it polite?", judge=lambda prompt: "hm")',
            "*CannotScore: The answer could not be graded.",
        ),
        ('proctor.check("Lima", criteria="Is it polite?")', "*UsageError: This check needs a judge. *"),
        ('proctor.check("Lima")', "*UsageError: There is nothing to grade the answer with. *"),
        ('proctor.check("Lima", graders=["is_jsn"])', "*is_jsn*Did you mean 'is_json'*"),
    ],
)
def test_an_answer_that_cannot_be_graded_is_no_failed_assertion(
    run_pytest: Run, call: str, error: str
) -> None:
    result = run_pytest(source=make_test(call))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"E{error}"])
    result.stdout.no_fnmatch_line("E*AssertionError*")
    assert "_grade(" not in result.stdout.str()


def test_texts_of_a_model_cannot_act_on_the_terminal(run_pytest: Run) -> None:
    source = r"""
    import pytest

    HOSTILE = "\x1b[31mred\x1b]0;title\x07 \u202eback"

    def test_check(proctor):
        proctor.check(HOSTILE, graders=[lambda answer: (False, answer)])

    @pytest.mark.proctor(suite="suite.jsonl", target=lambda question: HOSTILE, name=HOSTILE)
    def test_marker(): pass

    def test_run(proctor):
        assert proctor.run("suite.jsonl", target=lambda question: HOSTILE).ok
    """
    result = run_pytest("--tb=short", source=source)
    result.assert_outcomes(failed=3)
    text = result.stdout.str()
    assert "red" in text
    assert not {"\x1b", "\x07", "\u202e"} & set(text)


def test_a_check_stores_nothing_and_ignores_the_selection_of_the_project(
    run_pytest: Run, pytester: pytest.Pytester
) -> None:
    settings = 'tag = "smoke"\nlimit = 3\nrepeat = 2\nmin-pass-rate = 0.1\ngate-mode = "interval"\n'
    pytester.path.joinpath("proctor.toml").write_text(settings, encoding="utf-8")
    result = run_pytest(source=make_test('proctor.check("Lima", expected="Lima")'))
    result.assert_outcomes(passed=1)
    assert not pytester.path.joinpath(".proctor").exists()
    result.stdout.no_fnmatch_line("*proctor runs show*")


def test_a_check_works_beside_a_running_loop(run_pytest: Run) -> None:
    source = """
    import asyncio

    def test_it(proctor):
        async def main():
            proctor.check("Lima", expected="Lima")
        asyncio.run(main())
    """
    run_pytest(source=source).assert_outcomes(passed=1)


def test_the_judge_of_the_session_judges_checks(run_pytest: Run) -> None:
    source = make_test('proctor.check("Lima", criteria="Is it polite?")')
    result = run_pytest("--proctor-judge=echo", source=source)
    result.stdout.fnmatch_lines(["*UNSCORED  criteria: The judge 'echo' *"])


def test_run_has_the_store_and_the_options_of_the_session(
    run_pytest: Run, pytester: pytest.Pytester, stored_runs: Callable[..., list[Any]]
) -> None:
    source = """
    def test_it(proctor, monkeypatch, tmp_path):
        run = proctor.run("suite.jsonl", target="echo")
        assert run.total == 5
        monkeypatch.chdir(tmp_path)
        rows = [{"input": "Lima", "expected": "Lima"}]
        assert proctor.run(rows, target="echo", name="towns").total == 1
        assert proctor.run(rows, target="echo", store=None).ok
    """
    result = run_pytest("--proctor-limit=5", "--proctor-store=kept.db", source=source)
    result.assert_outcomes(passed=1)
    assert [run.suite.name for run in stored_runs("kept.db")] == ["towns", "suite"]
    result.stdout.fnmatch_lines(
        [
            "*suite v1 on echo: 4 of 5*",
            "*towns*",
            "*data*(not kept)",
            "To show a run: proctor runs show ID --store kept.db",
        ]
    )


def test_a_failed_test_shows_the_runs_that_it_made(run_pytest: Run) -> None:
    source = "def test_it(proctor): assert proctor.run('suite.jsonl', target='echo').ok"
    result = run_pytest(source=source)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*Captured proctor call*", "*all*16*20*80.0%*", "FAIL      c0 *"])
