"""Programs as targets: their input and environment, and that no process outlives a call."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from proctor.errors import TargetError, TargetTimeout, UsageError
from proctor.model import Output, Prompt, Tool
from proctor.targets import TARGETS
from proctor.targets.context import TargetContext
from proctor.targets.process.command import open_target
from proctor.targets.process.subprocesses import clean_environ, run_process
from support.builders import make_prompt, make_spec
from support.processes import FAMILY, list_living, make_late
from support.waiting import PATIENCE_S

Make = Callable[..., Any]
PATH_ONLY = {"PATH": os.environ["PATH"]}


def _python(code: str, *arguments: str) -> str:
    return shlex.join([sys.executable, "-S", "-c", code, *arguments])


async def _answer(opening: Make, prompt: Prompt, line: str, kind: str = "command", **environ: Any) -> Output:
    target = await TARGETS.get(kind).open_target(make_spec(kind, line), opening(**{**PATH_ONLY, **environ}))
    return await target.answer(prompt)


# --- what command lines of either kind have in common ------------------------------------------------------

needs_shell = pytest.mark.skipif(sys.platform == "win32", reason="its lines are those of a POSIX shell")
either_kind = pytest.mark.parametrize("kind", ["command", pytest.param("cli", marks=needs_shell)])


@either_kind
@pytest.mark.parametrize(
    ("turns", "text"),
    [
        (["zwölf"], "zwölf"),
        (
            [("system", "Be brief."), "2+2?", ("assistant", "4"), "sure?"],
            "system: Be brief.\n\nuser: 2+2?\n\nassistant: 4\n\nuser: sure?",
        ),
    ],
)
async def test_a_user_message_or_a_conversation_is_stdin_and_stdout_is_the_answer(
    opening: Make, kind: str, turns: list[Any], text: str
) -> None:
    output = await _answer(opening, make_prompt(*turns), "cat", kind)
    assert output.text == text
    assert output.latency_ms > 0
    assert output.usage is None


PLACE = {"type": "object", "properties": {"town": {"type": "string"}}}


@either_kind
@pytest.mark.parametrize(
    ("fields", "form"),
    [
        ({}, None),
        ({"json_answer": True}, {"json_answer": True}),
        ({"response_schema": PLACE}, {"response_schema": PLACE}),
        (
            {"tools": (Tool(name="weather", description="Ö", parameters=PLACE), Tool(name="stop"))},
            {
                "tools": [
                    {"name": "weather", "description": "Ö", "parameters": PLACE},
                    {"name": "stop", "description": "", "parameters": {}},
                ]
            },
        ),
    ],
)
async def test_what_is_asked_besides_the_messages_is_in_a_variable(
    opening: Make, kind: str, fields: dict[str, Any], form: dict[str, Any] | None
) -> None:
    line = _python("import os; print(os.environ.get('PROCTOR_FORM', 'null'))")
    output = await _answer(opening, make_prompt("2+2?", **fields), line, kind, PROCTOR_FORM="another")
    assert json.loads(output.text) == form


@either_kind
async def test_an_output_file_that_was_not_written_is_an_error(opening: Make, kind: str) -> None:
    with pytest.raises(TargetError, match="OUTPUT_FILE") as caught:
        await _answer(opening, make_prompt("?"), _python("pass", "{OUTPUT_FILE}"), kind)
    assert (caught.value.kind, caught.value.transient) == ("program", False)


@either_kind
async def test_a_nonzero_exit_is_an_error_with_the_end_of_stderr(opening: Make, kind: str) -> None:
    code = "import sys; sys.stderr.write('x' * 200000 + 'the cause'); sys.exit(3)"
    with pytest.raises(TargetError, match=r"exit code 3: …x+the cause$") as caught:
        await _answer(opening, make_prompt("?"), _python(code), kind)
    assert (caught.value.kind, caught.value.transient) == ("program", False)
    assert len(str(caught.value)) < 1000


@either_kind
async def test_no_secret_is_in_the_programs_environment(opening: Make, kind: str) -> None:
    code = "import json, os; print(json.dumps(sorted(os.environ)))"
    secrets = {"OPENAI_API_KEY": "sk", "AWS_SECRET_ACCESS_KEY": "s", "DATABASE_URL": "postgres://u:p@h"}
    variables = {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
    output = await _answer(opening, make_prompt("?"), _python(code), kind, **secrets, **variables)
    names = set(json.loads(output.text))
    assert {"PATH", *variables} <= names
    assert not names & set(secrets)


# --- programs without a shell ------------------------------------------------------------------------------


async def test_a_prompt_inside_an_argument_is_one_argument_and_not_on_stdin(opening: Make) -> None:
    code = "import sys; print(sys.argv[1:], repr(sys.stdin.read()))"
    prompt = make_prompt("a b; $(ls) {OUTPUT_FILE} {PROMPT}")
    output = await _answer(opening, prompt, _python(code, "--ask={PROMPT}"))
    assert output.text == "['--ask=a b; $(ls) {OUTPUT_FILE} {PROMPT}'] ''"


async def test_an_output_file_is_the_answer_and_is_gone_afterwards(opening: Make, tmp_path: Path) -> None:
    code = "import sys; open(sys.argv[1], 'w').write('42'); open(sys.argv[2], 'w').write(sys.argv[1])"
    output = await _answer(opening, make_prompt("?"), _python(code, "{OUTPUT_FILE}", str(tmp_path / "p")))
    assert output.text == "42"
    assert not Path((tmp_path / "p").read_text(encoding="utf-8")).exists()


@pytest.mark.parametrize(
    ("data", "text"),
    [(b"4\n", "4"), (b"4\r\n", "4"), (b"4\n\n", "4\n"), (b" 4 ", " 4 "), (b"\xff4", "\ufffd4"), (b"", "")],
)
async def test_stdout_is_utf8_without_its_last_line_ending(opening: Make, data: bytes, text: str) -> None:
    line = _python(f"import sys; sys.stdout.buffer.write({data!r})")
    assert (await _answer(opening, make_prompt("?"), line)).text == text


async def test_a_program_that_does_not_read_a_long_prompt_is_no_error(opening: Make) -> None:
    line = _python("import os; os.close(0); print('fine')")
    assert (await _answer(opening, make_prompt("x" * 1_000_000), line)).text == "fine"


async def test_an_argument_the_system_cannot_take_is_an_error_of_the_trial(opening: Make) -> None:
    for text in ("a\0b", "x" * 1_000_000):
        with pytest.raises(TargetError, match="could not be started") as caught:
            await _answer(opening, make_prompt(text), _python("pass", "{PROMPT}"))
        assert caught.value.kind == "program"


def test_scrubbing_keeps_what_programs_need() -> None:
    variables = {"PATH": "/bin", "HOME": "/h", "LC_CTYPE": "C", "TMPDIR": "/t", "SystemRoot": "C:"}
    assert clean_environ({**variables, "GITHUB_TOKEN": "t", "http_proxy": "http://u:p@h"}) == variables


@pytest.mark.parametrize(
    ("line", "why"),
    [("no-such-program-anywhere", "no program"), ("", "names no command"), ("echo 'a", "split")],
)
async def test_a_command_that_cannot_be_is_a_usage_error_before_anything_is_asked(
    opening: Make, line: str, why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        await open_target(make_spec("command", line), opening(**PATH_ONLY))


# --- limits ------------------------------------------------------------------------------------------------

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc to see which processes live")


@pytest.mark.slow
@linux
async def test_a_timeout_kills_the_program_and_its_grandchildren(opening: Make, family: Path) -> None:
    async def ask(limit_s: float) -> None:
        spec = make_spec("command", _python(FAMILY, "3600"))
        await (await open_target(spec, opening(limit_s, **PATH_ONLY))).answer(make_prompt("?"))

    error, limit_s = await make_late(family, ask)
    assert f" {limit_s:g} s" in str(error)
    assert error.kind == "timeout"
    assert await list_living(family) == []


@linux
async def test_a_cancelled_question_kills_the_program_and_its_grandchildren(
    opening: Make, family: Path
) -> None:
    question = asyncio.create_task(_answer(opening, make_prompt("?"), _python(FAMILY, "3600")))
    while not (family / "pids").exists():
        await asyncio.sleep(0.01)
    question.cancel()
    with pytest.raises(asyncio.CancelledError):
        await question
    assert await list_living(family) == []


@linux
async def test_what_a_program_leaves_running_in_its_group_ends_with_it(opening: Make, family: Path) -> None:
    output = await _answer(opening, make_prompt("?"), _python(FAMILY + "print('done')", "0"))
    assert output.text == "done"
    assert len(await list_living(family, 1)) == 1


async def test_too_much_output_is_an_error_and_not_kept() -> None:
    code = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
    with pytest.raises(TargetError, match="1,000,000 bytes") as caught:
        await run_process(
            [sys.executable, "-S", "-c", code],
            timeout_s=PATIENCE_S,
            environ=PATH_ONLY,
            output_limit=1_000_000,
        )
    assert (caught.value.kind, caught.value.transient) == ("program", False)


@pytest.mark.slow
def test_programs_run_under_the_fast_event_loop_as_well() -> None:
    async def main() -> tuple[Output, int]:
        cat = await open_target(make_spec("command", "cat"), TargetContext(PATH_ONLY, timeout_s=PATIENCE_S))
        text = "y" * 2_000_000
        output = await cat.answer(make_prompt(text))
        with pytest.raises(TargetTimeout):
            await run_process(["sleep", "3600"], timeout_s=0.2, environ=PATH_ONLY)
        deaf = [sys.executable, "-S", "-c", "import os; os.close(0)"]
        result = await run_process(deaf, text.encode(), timeout_s=PATIENCE_S, environ=PATH_ONLY)
        return output, result.exit_code

    output, exit_code = uvloop.run(main())
    assert len(output.text) == 2_000_000
    assert exit_code == 0


@linux
async def test_a_program_may_open_its_stdin_by_name(opening: Make) -> None:
    assert (await _answer(opening, make_prompt("by name"), "cat /dev/stdin")).text == "by name"
