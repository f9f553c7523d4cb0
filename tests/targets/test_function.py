"""Python functions as targets."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from proctor.errors import TargetError, UsageError
from proctor.model import Tool, Usage
from proctor.targets.function import open_target
from support.builders import make_prompt, make_spec

Make = Callable[..., Any]

SOURCE = """
import asyncio, threading, time
from proctor.errors import TargetError
from proctor.model import Output

def upper(prompt):
    return prompt.upper()

async def later(prompt):
    await asyncio.sleep(0)
    return "later " + prompt

def shape(prompt):
    return repr(prompt)

def fields(prompt):
    return {"text": "4", "usage": {"input_tokens": 3, "output_tokens": 1}}

def output(prompt):
    return Output(text="4", latency_ms=7.0)

together = threading.Barrier(8)

def meet(prompt):
    together.wait(300)
    return threading.current_thread().name

def wrong(prompt):
    raise ValueError("no such city: Oz")

async def wrong_later(prompt):
    raise KeyError("Oz")

def leave(prompt):
    raise SystemExit(3)

def busy(prompt):
    raise TargetError("The tram is late.", kind="connection", transient=True)

def nothing(prompt):
    pass

def number(prompt):
    return 4

class Agent:
    def ask(self, prompt):
        return "agent " + prompt
    async def __call__(self, prompt):
        return "called " + prompt

    def formed(self, prompt, *, response_schema=None):
        return f"{prompt} {response_schema}"

def formed(prompt, tools="none", *, json_answer=False):
    return f"{prompt} {tools} {json_answer}"

async def formed_later(prompt, json_answer):
    return f"{prompt} {json_answer}"

def taken(tools):
    return tools

def anything(prompt, *more, **named):
    return f"{prompt} {more} {named}"

agent = Agent()
ANSWER = 42
"""


@pytest.fixture
def open_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opening: Make) -> Callable[[str], Any]:
    module = f"answers_{uuid4().hex}"
    (tmp_path / f"{module}.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    async def make(attribute: str) -> Any:
        return await open_target(make_spec("function", f"{module}:{attribute}"), opening())

    return make


@pytest.fixture
def answer(open_function: Make) -> Callable[..., Any]:
    """The output of a function for the text `hi`, or for other turns; fields of the prompt by name."""

    async def make(attribute: str, *turns: Any, **fields: Any) -> Any:
        return await (await open_function(attribute)).answer(make_prompt(*turns or ["hi"], **fields))

    return make


@pytest.mark.parametrize(
    ("attribute", "text"),
    [
        ("upper", "HI"),
        ("later", "later hi"),
        ("shape", "'hi'"),
        ("fields", "4"),
        ("output", "4"),
        ("agent.ask", "agent hi"),
        ("agent", "called hi"),
    ],
)
async def test_a_function_answers_whatever_kind_of_function_it_is(
    open_function: Make, attribute: str, text: str
) -> None:
    target = await open_function(attribute)
    output = await target.answer(make_prompt("hi"))
    assert output.text == text
    assert output.latency_ms > 0
    await target.aclose()


async def test_what_a_function_reports_is_kept(answer: Make) -> None:
    assert (await answer("fields")).usage == Usage(input_tokens=3, output_tokens=1)
    assert (await answer("output")).latency_ms == 7.0


async def test_a_conversation_is_given_as_a_list_of_messages(answer: Make) -> None:
    output = await answer("shape", ("system", "Be brief."), "hi")
    assert output.text == "[{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': 'hi'}]"


@pytest.mark.parametrize(
    ("attribute", "form", "text"),
    [
        ("formed", {}, "hi none False"),
        (
            "formed",
            {"tools": (Tool(name="t"),), "json_answer": True, "response_schema": {}},
            "hi [{'name': 't', 'description': '', 'parameters': {}}] True",
        ),
        ("formed_later", {"json_answer": True, "tools": (Tool(name="t"),)}, "hi True"),
        ("agent.formed", {"response_schema": {"type": "object"}}, "hi {'type': 'object'}"),
        ("taken", {"tools": (Tool(name="t"),)}, "hi"),
        ("anything", {"json_answer": True}, "hi () {}"),
        ("upper", {"json_answer": True}, "HI"),
    ],
)
async def test_a_function_is_given_what_is_asked_besides_where_it_has_parameters_for_it(
    answer: Make, attribute: str, form: dict[str, Any], text: str
) -> None:
    assert (await answer(attribute, **form)).text == text


async def test_ordinary_functions_run_beside_each_other_and_not_in_the_loop(open_function: Make) -> None:
    target = await open_function("meet")
    outputs = await asyncio.gather(*(target.answer(make_prompt("hi")) for _ in range(8)))
    names = {output.text for output in outputs}
    assert len(names) == 8
    assert threading.current_thread().name not in names
    await target.aclose()


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ("wrong", "ValueError: no such city: Oz"),
        ("wrong_later", "KeyError: 'Oz'"),
        ("leave", "SystemExit: 3"),
        ("nothing", "NoneType"),
        ("number", "int"),
    ],
)
async def test_a_function_that_fails_is_an_error_of_the_trial(
    answer: Make, attribute: str, message: str
) -> None:
    with pytest.raises(TargetError, match=message) as caught:
        await answer(attribute)
    assert (caught.value.kind, caught.value.transient) == ("program", False)
    assert caught.value.__cause__ is not None


async def test_a_target_error_of_the_functions_own_is_passed_on(answer: Make) -> None:
    with pytest.raises(TargetError, match="tram") as caught:
        await answer("busy")
    assert (caught.value.kind, caught.value.transient) == ("connection", True)


@pytest.mark.parametrize("attribute", ["missing", "ANSWER", "", "agent.missing"])
async def test_a_wrong_name_is_a_usage_error(open_function: Make, attribute: str) -> None:
    with pytest.raises(UsageError):
        await open_function(attribute)


async def test_a_module_that_is_missing_or_broken_is_a_usage_error(
    opening: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken_answers.py").write_text("def f(:\n", encoding="utf-8")
    for name, message in (("no_such_module_here", "ModuleNotFoundError"), ("broken_answers", "SyntaxError")):
        with pytest.raises(UsageError, match=message):
            await open_target(make_spec("function", f"{name}:f"), opening())


async def test_a_name_that_a_module_does_not_have_is_told_with_its_functions(
    opening: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = "from json import dumps\n\ndef judge(messages):\n    return dumps(messages)\n"
    (tmp_path / "my_judge_module.py").write_text(source, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        await open_target(make_spec("function", "my_judge_module:jugde"), opening())
    assert str(caught.value).endswith(": There is no 'jugde' in 'my_judge_module.py'. Did you mean 'judge'?")
    with pytest.raises(UsageError, match="Expected one of: judge"):
        await open_target(make_spec("function", "my_judge_module:dunps"), opening())


async def test_the_import_path_is_left_as_it_was(open_function: Make) -> None:
    before = list(sys.path)
    await open_function("upper")
    assert sys.path == before
