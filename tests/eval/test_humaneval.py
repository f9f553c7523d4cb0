"""Answers to HumanEval-style problems, as models write them, become programs that are tested."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.errors import UsageError
from proctor.eval import humaneval_run
from proctor.eval.sandbox.child import _compile_first
from proctor.eval.sandbox.humaneval import build_programs, parse_problem

PROBLEM = {
    "task_id": "own/0",
    "prompt": "from math import floor\n\n\ndef half(text: str) -> str:\n    '''The first half.'''\n",
    "test": "def check(candidate):\n    assert candidate('abcd') == 'ab'\n    assert candidate('') == ''\n",
    "entry_point": "half",
}


RIGHT = "    return text[: floor(len(text) / 2)]\n"
WHOLE = f"def half(text):\n{RIGHT}"


@pytest.mark.parametrize(
    "text",
    [
        RIGHT,
        RIGHT.lstrip(),
        f"{RIGHT}\n\nprint(half('unfinished",
        f"{RIGHT}\n\ndef other(): return",
        WHOLE,
        WHOLE.replace("\n", "\r\n"),
        f"Here it is:\n\n```python\n{WHOLE}```\nIt takes the first half.",
        f"```\n{RIGHT}```",
        f"```python\n{WHOLE}",
        f"~~~py\n{WHOLE}~~~",
        f"```python\nprint(half('ab'))\n```\n\n```python\n{WHOLE}```\n\n```python\nhalf('ab')\n```",
        f"<think>```python\ndef half(text): return 1\n```</think>\n{WHOLE}",
        f"Here it is:\n\n{WHOLE}\nIt takes the first half.",
        f"import os\n\n{WHOLE}",
        f"{RIGHT}```\n\nExplanation: it takes the first half.",
        f"{RIGHT.lstrip()}```\n\nThat is it.",
        f"{WHOLE}\nFor example:\n\n```python\nprint(half('ab'))\n```",
        f"{RIGHT}\n\nif __name__ == '__main__':\n    raise SystemExit(half())",
        f"1. Like this:\n\n   ```python\n   def half(text):\n   {RIGHT}   ```",
        f"```python\ndef half(text): return text\n```\n\nNo, rather:\n\n```python\n{WHOLE}```",
        "half = lambda text: text[: floor(len(text) / 2)]\n",
        "\treturn text[: floor(len(text) / 2)]\n",
    ],
)
def test_an_answer_is_understood_in_every_dress(text: str) -> None:
    names: dict[str, Any] = {}
    exec(_compile_first(build_programs(text, parse_problem(PROBLEM))), names)
    assert (names["half"]("abcd"), names["half"]("")) == ("ab", "")


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.parametrize("text", [RIGHT, WHOLE, f"Here it is:\n```python\n{WHOLE}```"])
def test_a_right_answer_passes(text: str) -> None:
    assert humaneval_run(text, PROBLEM)


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.parametrize("text", ["", "    return text\n", "\0", "\ud800", "(" * 5000, "def half(: pass"])
def test_a_wrong_answer_fails(text: str) -> None:
    assert not humaneval_run(text, PROBLEM)


@pytest.mark.slow
@pytest.mark.usefixtures("sandboxed")
def test_a_prompt_in_prose_and_a_body_over_lines_are_understood() -> None:
    prose = PROBLEM | {"prompt": "Write a function that halves a text."}
    assert humaneval_run("def half(text):\n    return text[:len(text) // 2]", prose)
    changes = PROBLEM | {
        "prompt": "def half(items: list) -> None:\n    '''Keep the first half.'''\n",
        "test": "items = [1, 2]\nassert half(items) is None\nassert items == [1]",
    }
    assert humaneval_run("middle = len(items) // 2\nitems[:] = items[:middle]", changes)
    body = "middle = floor(len(text) / 2)\nif not text:\n    return ''\nreturn text[:middle]"
    assert humaneval_run(body, PROBLEM)


def test_a_problem_that_is_none_is_told() -> None:
    for key in ("test", "entry_point"):
        with pytest.raises(UsageError, match=f"'own/0' has no '{key}'"):
            humaneval_run("x", {name: value for name, value in PROBLEM.items() if name != key})
    with pytest.raises(UsageError, match="'test' of type list"):
        humaneval_run("x", PROBLEM | {"test": ["assert True"]})
    with pytest.raises(UsageError, match="name a function"):
        humaneval_run("x", PROBLEM | {"entry_point": "two words"})


@given(st.text(st.sampled_from("`~ \n\tdefhal(tx):~ python<think>/")))
def test_any_text_makes_programs(text: str) -> None:
    assert all(isinstance(program, str) for program in build_programs(text, parse_problem(PROBLEM)))
