"""Shell command lines as targets: their input, their output, and that no value becomes shell code."""

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
from hypothesis import given
from hypothesis import strategies as st

from proctor.errors import TargetError, TargetTimeout, UsageError
from proctor.model import Attachment, Message, Output, Prompt, ToolCall, Usage
from proctor.targets.context import TargetContext
from proctor.targets.process.cli import open_target
from proctor.targets.process.command_template import FILE_PLACEHOLDERS, CommandTemplate, quote_word
from support.apis import Api
from support.builders import make_prompt, make_spec
from support.waiting import PATIENCE_S

Make = Callable[..., Any]
PATH_ONLY = {"PATH": os.environ["PATH"]}
NOTE = Attachment(kind="file", path="docs/note.md", text="höre\n")
IMAGE = Attachment(kind="image", path="pictures/a.png", media_type="image/png", data=b"\x89PNG")
WITH_FILES = Message(role="user", content="Read these.", parts=("Read these.", NOTE, IMAGE))

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the lines are those of a POSIX shell")


@pytest.fixture
def run(opening: Make) -> Callable[..., Any]:
    """What a line answers to a prompt, a text or a message; options by name."""

    async def answer(
        line: str, question: Any = "hello", *, environ: dict[str, str] = PATH_ONLY, **options: Any
    ) -> Output:
        target = await open_target(make_spec("cli", line, options=options), opening(**environ))
        prompt = (
            question if isinstance(question, Prompt) else make_prompt(question, case_id="case 1", repeat=2)
        )
        output: Output = await target.answer(prompt)
        return output

    return answer


# --- what it is given --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("printf '%s' {PROMPT}", "hello"),
        ("cat {PROMPT_FILE}", "hello"),
        ("cat", "hello"),
        ("printf '%s' {PROMPT}; cat", "hello"),
        ("echo {EVAL_ID}/{ATTEMPT}", "case 1/2"),
        ("printf '%s' {PROMPT} | tr a-z A-Z > {OUTPUT_FILE}; echo ignored", "HELLO"),
        ('printf "%s" "{PROMPT}"', "hello"),
        ("""echo "$(printf '%s' {PROMPT})" """, "hello"),
        ("HOME=x; echo ${HOME} {ATTEMPT}", "x 2"),
        ("sh -c 'cat {PROMPT_FILE} > {OUTPUT_FILE}'", "hello"),
        ('sh -c "echo no {ATTEMPT} > {OUTPUT_FILE}"', "no 2\n"),
        ("printf '43\\r\\n\\r\\n' > {OUTPUT_FILE}", "43\n\n"),
        ("printf '43\\n\\n'", "43\n"),
        ("echo one >&2; echo two", "two"),
    ],
)
async def test_placeholders_are_filled_in_and_the_answer_is_read(run: Make, line: str, text: str) -> None:
    output = await run(line)
    assert output.text == text
    assert output.latency_ms > 0
    assert (output.usage, output.tool_calls, output.messages) == (None, (), ())


NASTY = 'a b\'; touch hacked; $(touch hacked) `touch hacked` "{OUTPUT_FILE}" \\ \n {PROMPT} ${HOME} *'


@pytest.mark.parametrize(
    "line", ["printf '%s' {PROMPT}", 'printf "%s" "{PROMPT}"', "cat {PROMPT_FILE}", "cat"]
)
async def test_no_prompt_can_act_as_a_command(run: Make, tmp_path: Path, line: str) -> None:
    output = await run(line, NASTY, cwd=str(tmp_path))
    assert output.text == NASTY
    assert list(tmp_path.iterdir()) == []


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40))
def test_a_quoted_value_is_one_word_whatever_it_holds(value: str) -> None:
    assert shlex.split(CommandTemplate("x {PROMPT} y").fill({"PROMPT": quote_word(value)})) == [
        "x",
        value,
        "y",
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("agent {PROMPTS}", "'{PROMPT}'"),
        ("agent {EVALID}", "'{EVAL_ID}'"),
        ("agent {prompt}", "{PROMPT}"),
        ('agent "ask: {PROMPT}"', "inside quotes"),
        ("agent 'ask: {PROMPT}'", "inside quotes"),
        ('agent "{PROMPT} {ATTEMPT}"', "inside quotes"),
        ('echo "$(a b)" "c {PROMPT}"', "inside quotes"),
        ('echo "`a {ATTEMPT}` {PROMPT}"', "inside quotes"),
    ],
)
def test_a_line_in_which_a_value_could_do_harm_is_refused(line: str, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("{", r"\{")):
        CommandTemplate(line)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (r"it\'s {PROMPT}", r"it\'s X"),
        ("echo 'it' {PROMPT} \"x\" {FILES}", "echo 'it' X \"x\" X"),
        ("awk '{print $1}' {PROMPT_FILE}", "awk '{print $1}' X"),
        ("echo ${HOME} {a,b}", "echo ${HOME} {a,b}"),
        ('echo "a (b" \'{PROMPT}\' "{FILES}"', 'echo "a (b" X X'),
        ('(echo "$(cat {PROMPT_FILE})" `a {ATTEMPT}`)', '(echo "$(cat X)" `a X`)'),
    ],
)
def test_other_braces_are_left_to_the_shell(line: str, expected: str) -> None:
    read = CommandTemplate(line)
    assert read.fill(dict.fromkeys(read.placeholders, "X")) == expected


def test_the_form_of_files_has_placeholders_of_its_own() -> None:
    assert CommandTemplate("-f {path}", FILE_PLACEHOLDERS).fill({"path": "'x'"}) == "-f 'x'"
    with pytest.raises(ValueError, match=r"\{basename\}"):
        CommandTemplate("{basenam}", FILE_PLACEHOLDERS)


# --- where it runs -----------------------------------------------------------------------------------------


async def test_the_workspace_comes_before_the_folder_of_the_options_and_that_before_this_one(
    run: Make, tmp_path: Path
) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "work").mkdir()
    in_workspace = make_prompt("?", workspace=str(tmp_path / "work"))
    assert Path((await run("pwd -P")).text) == Path.cwd().resolve()
    assert Path((await run("pwd -P", cwd=str(tmp_path / "own"))).text).name == "own"
    assert Path((await run("pwd -P", in_workspace, cwd=str(tmp_path / "own"))).text).name == "work"


async def test_a_folder_that_is_not_there_is_an_error_that_names_it(run: Make, tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="nowhere"):
        await run("true", cwd=str(tmp_path / "nowhere"))


async def test_it_inherits_no_secret_but_what_the_options_name_and_that_is_in_no_output(run: Make) -> None:
    environ = {
        **PATH_ONLY,
        "OPENAI_API_KEY": "sk-one-secret",
        "OTHER_API_KEY": "sk-two-secret",
        "LANG": "C.UTF-8",
    }
    variables = {"AGENT_KEY": "${{ OPENAI_API_KEY }}", "MODE": "fast"}
    output = await run("env", environ=environ, env=variables)
    lines = output.text.splitlines()
    assert {"AGENT_KEY=${{ OPENAI_API_KEY }}", "MODE=fast", "LANG=C.UTF-8"} <= set(lines)
    assert "secret" not in output.text
    with pytest.raises(TargetError) as caught:
        await run('echo "$AGENT_KEY" >&2; exit 1', environ=environ, env=variables)
    assert "secret" not in str(caught.value)
    assert (await run("printf %s $AGENT_KEY | wc -c", environ=environ, env=variables)).text.strip() == "13"


async def test_a_variable_that_the_options_name_must_be_set(run: Make) -> None:
    with pytest.raises(UsageError, match="NOT_THERE"):
        await run("true", env={"A": "${{ NOT_THERE }}"})


async def test_the_whole_line_may_come_from_the_environment(run: Make) -> None:
    output = await run("${{ LINE }}", environ={**PATH_ONLY, "LINE": "echo {ATTEMPT}"})
    assert output.text == "2"
    with pytest.raises(UsageError, match=r"\{PROMT\}"):
        await run("${{ LINE }}", environ={**PATH_ONLY, "LINE": "echo {PROMT}"})


# --- files -------------------------------------------------------------------------------------------------


async def test_files_are_given_as_paths_under_their_own_names(run: Make) -> None:
    output = await run("for file in {FILES}; do echo $file; done; cat {FILES} {PROMPT_FILE}", WITH_FILES)
    first, second, *lines = output.text.splitlines()
    assert first.endswith("/docs/note.md")
    assert second.endswith("/pictures/a.png")
    assert lines == ["höre", "\ufffdPNGRead these."]
    assert not Path(first).exists()


async def test_the_form_of_each_file_can_be_given(run: Make) -> None:
    output = await run("echo {FILES}", WITH_FILES, files_format="--file={basename}")
    assert output.text == "--file=note.md --file=a.png"


async def test_without_a_place_for_files_the_text_says_where_they_are(run: Make) -> None:
    head, note, image = (await run("cat", WITH_FILES)).text.split("\n\n")
    assert head == "Read these."
    assert note.startswith('<file: path="')
    assert note.endswith('docs/note.md">')
    assert image.startswith('<image: path="')


async def test_a_file_that_the_text_names_can_be_read(run: Make) -> None:
    output = await run("""sed -n 's/^<file: path="\\(.*\\)">$/\\1/p' | xargs cat""", WITH_FILES)
    assert output.text == "höre"


@pytest.mark.parametrize(
    "path", ["../../up.md", "/etc/up.md", "a/../../../up.md", "C:\\x\\up.md", "..\\up.md", "..", ""]
)
async def test_no_name_leads_out_of_the_private_folder(run: Make, path: str) -> None:
    message = Message(role="user", parts=(Attachment(kind="file", path=path, text="inside"),))
    output = await run("realpath {FILES} {PROMPT_FILE}; cat {FILES}", message)
    file, prompt_file, content = output.text.splitlines()
    assert Path(file).is_relative_to(Path(prompt_file).parent / "files")
    assert content == "inside"


async def test_files_of_one_name_are_kept_apart_and_one_file_is_given_once(run: Make) -> None:
    def file(path: str, text: str) -> Attachment:
        return Attachment(kind="file", path=path, text=text)

    parts = (file("a.md", "one\n"), file("../a.md", "two\n"), file("A.md", "three\n"), file("a.md", "one\n"))
    output = await run("cat {FILES}", Message(role="user", parts=parts))
    assert output.text.splitlines() == ["one", "two", "three"]


async def test_temporary_files_are_kept_where_that_is_asked_for() -> None:
    messages: list[str] = []
    opening = TargetContext(PATH_ONLY, notify=messages.append)
    spec = make_spec("cli", "cat {PROMPT_FILE} > {OUTPUT_FILE}", options={"keep_temp_files": True})
    target = await open_target(spec, opening)
    await target.answer(make_prompt("kept", case_id="../c", repeat=1))
    assert target.kept_folder is not None
    (folder,) = Path(target.kept_folder).iterdir()
    assert target.kept_folder in messages[0]
    assert (folder / "answer").read_text(encoding="utf-8") == "kept"
    for path in (*folder.iterdir(), folder, folder.parent):
        path.rmdir() if path.is_dir() else path.unlink()


# --- what goes wrong ---------------------------------------------------------------------------------------


async def test_an_output_file_that_became_a_pipe_is_an_error_and_not_waited_for(run: Make) -> None:
    with pytest.raises(TargetError, match=r"OUTPUT_FILE., but it is not a file") as caught:
        await run("mkfifo {OUTPUT_FILE}")
    assert caught.value.kind == "program"


async def test_a_prompt_for_whose_files_there_is_no_place_is_an_error(opening: Make) -> None:
    spec = make_spec("cli", "cat {PROMPT_FILE}", options={"keep_temp_files": True})
    target = await open_target(spec, opening(**PATH_ONLY))
    assert target.kept_folder is not None
    Path(target.kept_folder).rmdir()
    with pytest.raises(TargetError, match=r"cannot receive its files: .* No such file") as caught:
        await target.answer(make_prompt("hello"))
    assert caught.value.kind == "program"


@pytest.mark.slow
async def test_a_line_that_takes_too_long_is_killed_with_all_it_started(run: Make) -> None:
    with pytest.raises(TargetTimeout, match=r"0\.2 s"):
        await asyncio.wait_for(run("sleep 3600 & sleep 3600", timeout_seconds=0.2), PATIENCE_S)


# --- what it reports ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", ["cat report.json", "cp report.json {OUTPUT_FILE}"])
async def test_an_agents_report_is_understood_where_it_stands(run: Make, tmp_path: Path, line: str) -> None:
    call = {"tool": "read", "input": {"path": "a"}, "duration_ms": 5}
    message = {"role": "assistant", "content": "done", "tool_calls": [call]}
    report = {"output": [message], "token_usage": {"input": 3, "output": 4}, "cost_usd": 1}
    (tmp_path / "report.json").write_text(json.dumps(report), encoding="utf-8")
    output = await run(line, cwd=str(tmp_path))
    assert (output.text, output.usage, output.cost_usd) == ("done", Usage(input_tokens=3, output_tokens=4), 1)
    assert output.tool_calls == (ToolCall(name="read", arguments={"path": "a"}, duration_ms=5),)
    assert output.latency_ms > 0


# --- health ------------------------------------------------------------------------------------------------


async def test_a_healthy_target_is_opened_and_asked_about_once(run: Make, tmp_path: Path) -> None:
    health = {"command": "echo looked >> health.txt", "cwd": str(tmp_path)}
    assert (await run("cat", healthcheck=health)).text == "hello"
    assert (tmp_path / "health.txt").read_text(encoding="utf-8") == "looked\n"


@pytest.mark.parametrize("status", [200, 204, 302, 404, 500])
async def test_a_url_is_healthy_when_it_answers_with_success(run: Make, api: Api, status: int) -> None:
    api.reply(b"", status)
    health = {"url": f"{api.url}/health"}
    if 200 <= status < 300:
        assert (await run("cat", healthcheck=health)).text == "hello"
    else:
        with pytest.raises(UsageError, match=f"GET {api.url}/health, failed: it answered {status}"):
            await run("cat", healthcheck=health)


@pytest.mark.parametrize(
    ("health", "message"),
    [
        ({"command": "echo down >&2; exit 4"}, "exit code 4: down"),
        ({"command": "sleep 3600", "timeout_seconds": 0.1}, "did not end within"),
        ({"url": "http://127.0.0.1:9/"}, "127.0.0.1:9"),
        ({"url": "http://"}, "failed"),
    ],
)
async def test_an_unhealthy_target_is_not_opened_and_says_what_was_tried(
    run: Make, health: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match="not ready") as caught:
        await run("cat", healthcheck=health)
    assert message in str(caught.value)
    assert str(health.get("command") or health.get("url")) in str(caught.value)


async def test_a_health_check_keeps_an_address_from_a_variable_to_itself(
    run: Make, unused_tcp_port: int
) -> None:
    environ = {"WHERE": f"http://127.0.0.1:{unused_tcp_port}/up"}
    with pytest.raises(UsageError, match=r"GET \$\{\{ WHERE \}\}, failed: .* host \[host\]:") as caught:
        await run("cat", environ=environ, healthcheck={"url": "${{ WHERE }}"})
    assert "127.0.0.1" not in str(caught.value)
