"""`prompts=`: what it takes, and what runs show of their prompts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import proctor
from proctor.codec import template_digest
from proctor.errors import SuiteError, UsageError
from support.cli import CommandResult

ROWS = [{"input": "Lima", "expected": "Lima"}, {"input": "Rome", "expected": "Rome"}]
QUIET: Any = {"progress": False, "store": None}
USER = proctor.PromptTemplate(
    name="polite", messages=(proctor.Message(role="user", content="Please: {{ input }}"),)
)


def _texts(run: proctor.RunResult) -> list[str]:
    return [trial.input[-1].content for trial in run.trials() if trial.input]


def test_a_list_of_prompts_gives_a_run_for_each_prompt_and_target(rows: Any) -> None:
    Path("terse.txt").write_text("Briefly: {{ input }}", encoding="utf-8")
    Path("b.md").write_text("# system\nBe kind.", encoding="utf-8")
    prompts = [Path("terse.txt"), "kind=b.md", USER, {"plain": "{{ input }}"}]
    group = proctor.run(ROWS, target=["echo", str.upper], prompts=prompts, **QUIET)
    assert isinstance(group, proctor.RunGroup)
    names = ["terse", "kind", "polite", "plain"]
    assert [run.run.target_title for run in group] == [
        f"{target} · {name}" for name in names for target in ("echo", "upper")
    ]
    assert _texts(group["echo · terse"]) == ["Briefly: Lima", "Briefly: Rome"]
    assert _texts(group["echo · kind"]) == ["Lima", "Rome"]
    assert group["echo · polite"].prompt == USER
    assert group["echo · plain"].passed == 2
    assert "echo · terse" in repr(group)
    assert "echo · terse" in group._repr_html_()


def test_a_dictionary_has_texts_or_messages() -> None:
    prompts = {
        "text": "{{ input }}",
        "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "<{{ input }}>"}],
    }
    group = proctor.run(ROWS, target="echo", prompts=prompts, **QUIET)
    assert [_texts(run) for run in group] == [["Lima", "Rome"], ["<Lima>", "<Rome>"]]
    assert group["text"].passed == 2


def test_one_prompt_gives_one_run_with_its_name_in_records_and_tables() -> None:
    run = proctor.run(ROWS, target="echo", prompts=USER, **QUIET)
    assert isinstance(run, proctor.RunResult)
    assert run.record.prompt is not None
    assert (run.record.prompt.name, run.record.prompt.digest) == ("polite", template_digest(USER))
    assert {trial.prompt for trial in run.trials()} == {"polite"}
    assert "data v1 on echo · polite" in repr(run)
    pytest.importorskip("pyarrow")
    assert run.trials().to_arrow().column("prompt").to_pylist() == ["polite", "polite"]


def test_a_run_without_a_prompt_has_none() -> None:
    run = proctor.run(ROWS, target="echo", **QUIET)
    assert run.prompt is None
    assert run.record.prompt is None
    assert next(run.trials()).prompt is None


def test_a_name_that_several_runs_share_is_refused() -> None:
    group = proctor.run(ROWS, target="echo", prompts={"a": "{{ input }}", "b": "{{input}}!"}, **QUIET)
    with pytest.raises(KeyError, match="Several runs have the name 'echo'"):
        group["echo"]
    with pytest.raises(KeyError, match=r"There is no run on 'c'\. The runs are: echo · a, echo · b"):
        group["c"]


@pytest.mark.parametrize(
    ("prompts", "error", "message"),
    [
        ({"a": "no variable"}, SuiteError, "prompt 'a':1: error: The prompt has no `{{ variable }}`"),
        ({"a": "{{ if | x }}"}, SuiteError, "Only plain names such as `{{ city }}`"),
        ({"a": [{"role": "user"}]}, SuiteError, "`[0].content` is missing"),
        ({"a": 3}, SuiteError, "The prompt is a number"),
        ({"": "{{ input }}"}, UsageError, "'' is not a valid name of a prompt"),
        (
            proctor.PromptTemplate(name=" ", messages=USER.messages),
            UsageError,
            "' ' is not a valid name of a prompt",
        ),
        ({"a\ud800": "{{ input }}"}, UsageError, "'a\\ud800' is not a valid name of a prompt"),
        ({"a": "\ud800{{ input }}"}, SuiteError, "The prompt has half of a character"),
        ({"a": "{{ city }}"}, SuiteError, "The prompt 'a' uses `{{ city }}`"),
        ("Say {{ input }}", UsageError, "is a text without a name"),
        ("nope.txt", UsageError, "There is no prompt file 'nope.txt'. Write `prompts` FILE"),
        ([], UsageError, "`prompts` is empty"),
        (3, UsageError, "3 is not a prompt"),
        ([USER, USER], UsageError, "Two prompts are named 'polite'"),
        (
            proctor.PromptTemplate(name="x", messages=(proctor.Message(role="tool", content="{{ input }}"),)),
            SuiteError,
            "`[0].role`",
        ),
    ],
)
def test_what_is_no_prompt_is_refused_before_anything_is_sent(
    prompts: Any, error: type[Exception], message: str
) -> None:
    def answer(_question: str) -> str:
        raise AssertionError

    with pytest.raises(error) as caught:
        proctor.run(ROWS, target=answer, prompts=prompts, **QUIET)
    assert message in str(caught.value)


def test_a_system_prompt_that_is_literal_keeps_its_braces() -> None:
    message = proctor.Message(role="system", content="Write {{ name }}.")
    literal = proctor.PromptTemplate(name="literal", messages=(message,), is_literal=True)
    run = proctor.run(ROWS, target="echo", prompts=literal, **QUIET)
    assert run.record.prompt is not None
    assert run.record.prompt.digest == template_digest(literal)


def test_trials_of_several_prompts_are_iterated(rows: Any) -> None:
    trials = proctor.iter_run(ROWS, target="echo", prompts={"a": "{{ input }}", "b": "-{{ input }}"}, **QUIET)
    assert sorted((trial.prompt or "", trial.answer or "") for trial in trials) == [
        ("a", "Lima"),
        ("a", "Rome"),
        ("b", "-Lima"),
        ("b", "-Rome"),
    ]


def test_the_project_names_prompts_and_they_are_no_reason_to_refuse_to_resume(
    command: Callable[..., CommandResult],
) -> None:
    Path("s.jsonl").write_text('{"input": "Lima", "expected": "Lima"}\n', encoding="utf-8")
    Path("own.txt").write_text("{{ input }}", encoding="utf-8")
    own = proctor.run("s.jsonl", target="echo", prompts="own.txt", store="s.db", progress=False)
    Path("prompts").mkdir()
    Path("prompts/terse.txt").write_text("Briefly: {{ input }}", encoding="utf-8")
    Path("proctor.toml").write_text('prompt = ["short=prompts/terse.txt"]\n', encoding="utf-8")
    run = proctor.run("s.jsonl", target="echo", store="s.db", progress=False)
    assert run.run.target_title == "echo · short"
    again = proctor.run(resume=own.id, store="s.db", progress=False)
    assert (again.id, again.run.prompt_name) == (own.id, "own")
