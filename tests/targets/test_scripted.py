"""Scripts and echo: answers without any model."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.errors import TargetError, UsageError
from proctor.model import Output, Prompt, Usage
from proctor.targets import echo
from proctor.targets.context import TargetContext
from proctor.targets.scripted import ScriptedTarget, open_target
from support.builders import ECHO, make_prompt, make_spec


async def _open(path: Path, text: str) -> ScriptedTarget:
    path.write_text(text, encoding="utf-8")
    return await open_target(make_spec("scripted", str(path)), TargetContext({}))


async def _text(target: ScriptedTarget, case_id: str, repeat: int = 0) -> str:
    return (await target.answer(make_prompt("?", case_id=case_id, repeat=repeat))).text


async def test_the_first_key_that_matches_decides(tmp_path: Path) -> None:
    script = '{"t1": "4", "t*": "T"}\n\n{"t2": "too late", "a[0]": "literally", "*": "NO"}\n{"*": "never"}\n'
    target = await _open(tmp_path / "s.jsonl", script)
    answers = {case_id: await _text(target, case_id) for case_id in ("t1", "t2", "a[0]", "a0", "T1", "")}
    assert answers == {"t1": "4", "t2": "T", "a[0]": "literally", "a0": "literally", "T1": "NO", "": "NO"}


async def test_no_match_is_an_error_that_names_the_case(tmp_path: Path) -> None:
    target = await _open(tmp_path / "s.jsonl", '{"t1": "4"}')
    with pytest.raises(TargetError, match="'t2'") as caught:
        await _text(target, "t2")
    assert (caught.value.kind, caught.value.transient) == ("missing", False)


async def test_an_answer_can_be_an_output_or_one_for_each_repeat(tmp_path: Path) -> None:
    script = '{"a": {"text": "4", "usage": {"input_tokens": 3}, "cost_usd": 0.5}, "b": ["x", {"text": "y"}]}'
    target = await _open(tmp_path / "s.jsonl", script)
    output = await target.answer(Prompt(messages=(), case_id="a"))
    assert output == Output(text="4", usage=Usage(input_tokens=3), cost_usd=0.5)
    assert [await _text(target, "b", repeat) for repeat in range(5)] == ["x", "y", "x", "y", "x"]


async def test_line_separators_inside_an_answer_do_not_end_its_line(tmp_path: Path) -> None:
    target = await _open(tmp_path / "s.jsonl", '\ufeff{"a": "one\u2028two\x85three"}\r\n')
    assert await _text(target, "a") == "one\u2028two\x85three"


@pytest.mark.parametrize(
    "line",
    [
        "[]",
        '"a"',
        "{",
        '{"a": 4}',
        '{"a": null}',
        '{"a": []}',
        '{"a": [4]}',
        '{"a": {"txt": "4"}}',
        '{"a": {"text": 4}}',
    ],
)
async def test_what_is_no_script_is_a_usage_error_with_its_line(tmp_path: Path, line: str) -> None:
    with pytest.raises(UsageError, match=r"s\.jsonl:2:"):
        await _open(tmp_path / "s.jsonl", f'{{"ok": "ok"}}\n{line}\n')


async def test_a_missing_script_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match=r"nowhere\.jsonl"):
        await open_target(make_spec("scripted", "nowhere.jsonl"), TargetContext({}))


keys = st.text(alphabet="ab*?[]!-", max_size=4)


@given(rules=st.lists(keys, max_size=8), case_id=st.text(alphabet="ab[]*", max_size=4))
async def test_looking_up_is_trying_every_key_in_order(rules: list[str], case_id: str) -> None:
    target = ScriptedTarget("s", [(key, (Output(text=str(rank)),)) for rank, key in enumerate(rules)])
    matching = [rank for rank, key in enumerate(rules) if key == case_id or fnmatchcase(case_id, key)]
    if matching:
        assert await _text(target, case_id) == str(matching[0])
    else:
        with pytest.raises(TargetError):
            await _text(target, case_id)


@pytest.mark.slow
@given(st.dictionaries(st.text(max_size=5), st.text(max_size=20), min_size=1))
async def test_any_text_can_be_an_answer(answers: dict[str, str]) -> None:
    decoded = json.loads(json.dumps(answers))
    target = ScriptedTarget("s", [(key, (Output(text=value),)) for key, value in decoded.items()])
    first = next(iter(answers))
    assert await _text(target, first) == answers[first]


# --- echo --------------------------------------------------------------------------------------------------


async def _echo(prompt: Prompt) -> str:
    target = await echo.open_target(ECHO, TargetContext({}))
    return (await target.answer(prompt)).text


async def test_echo_answers_with_the_last_user_message() -> None:
    assert await _echo(make_prompt("one", ("assistant", "no"), " two ", ("system", "later"))) == " two "


async def test_echo_has_nothing_to_say_without_a_user_message() -> None:
    with pytest.raises(TargetError, match="no user message"):
        await _echo(make_prompt(("system", "Be brief.")))
