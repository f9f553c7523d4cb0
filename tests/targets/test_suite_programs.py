"""The programs of a suite: their paths and environment, and that no process is left."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest
import uvloop

from proctor.errors import TargetError
from proctor.protocols import CompletedProgram
from proctor.targets.process.suite_programs import SuiteProgramRunner
from support.processes import FAMILY, list_living, make_late
from support.waiting import PATIENCE_S, wait_until

PATH_ONLY = {"PATH": os.environ["PATH"]}
posix = pytest.mark.skipif(sys.platform == "win32", reason="runs scripts with a first line #!")
linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc to see which processes live")


async def run(folder: Path, *argv: str, **more: object) -> CompletedProgram:
    options: dict[str, object] = {"timeout_s": PATIENCE_S, **more}
    return await SuiteProgramRunner(str(folder), PATH_ONLY).run(argv, **options)  # type: ignore[arg-type]


def script(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)


async def read_output(folder: Path, *argv: str, **more: object) -> str:
    finished = await run(folder, *argv, **more)
    assert finished.exit_code == 0, finished.stderr
    return finished.stdout.decode().strip()


# --- where -------------------------------------------------------------------------------------------------


async def test_python_is_the_interpreter_that_runs_proctor(tmp_path: Path) -> None:
    assert (
        await read_output(tmp_path, "python", "-S", "-c", "import sys; print(sys.executable)")
        == sys.executable
    )
    other = SuiteProgramRunner(str(tmp_path), {**PATH_ONLY, "PATH": str(tmp_path)}, python="/bin/echo")
    finished = [await other.run([name, "hi"], timeout_s=PATIENCE_S) for name in ("python", "python3")]
    assert [result.stdout for result in finished] == [b"hi\n"] * 2


@posix
async def test_python3_on_the_path_is_taken(tmp_path: Path) -> None:
    script(tmp_path / "bin/python3", "echo mine")
    programs = SuiteProgramRunner(str(tmp_path), {"PATH": str(tmp_path / "bin")})
    assert (await programs.run(["python3"], timeout_s=PATIENCE_S)).stdout == b"mine\n"


@posix
async def test_a_relative_path_and_the_folder_it_runs_in_begin_at_the_suite(tmp_path: Path) -> None:
    script(tmp_path / "graders/where.sh", "pwd; cat")
    (tmp_path / "data").mkdir()
    suite = tmp_path.resolve()
    assert await read_output(suite, "./graders/where.sh", stdin=b"in") == f"{suite}\nin"
    assert await read_output(suite, "graders/where.sh", cwd="data") == f"{suite}/data"
    assert (
        await read_output(suite, str(suite / "graders/where.sh"), cwd=str(suite / "graders"))
        == f"{suite}/graders"
    )
    assert await read_output(suite / "data", "../graders/where.sh", cwd="..") == f"{suite}"


@pytest.mark.parametrize(
    ("argv", "cwd", "why"),
    [
        ([], None, "The command is empty"),
        ([""], None, "The command is empty"),
        (["no-such-program-anywhere"], None, "no program 'no-such-program-anywhere' on the PATH"),
        (["plain.txt"], None, "write ./plain.txt for the file beside the suite"),
        (["./missing.sh"], None, ("no program './missing.sh'; its path is relative to the folder of the "
"suite")),
        (["./folder"], None, "no program './folder'"),
        (["./plain.txt"], None, "'./plain.txt' cannot be run; make it executable"),
        (["./broken"], None, "'./broken' could not be started"),
        (["python", "a\0b"], None, "could not be started"),
        (["python", "-c", "1"], "gone", "no folder 'gone' to run a program in"),
        (["python", "-c", "1"], "plain.txt", "no folder 'plain.txt'"),
    ],
)  # fmt: skip
@posix
async def test_a_program_that_cannot_be_started_is_an_error_that_names_it(
    tmp_path: Path, argv: list[str], cwd: str | None, why: str
) -> None:
    (tmp_path / "plain.txt").write_text("text", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    (tmp_path / "broken").write_bytes(b"\x7fELF")
    (tmp_path / "broken").chmod(0o755)
    with pytest.raises(TargetError, match=why) as caught:
        await run(tmp_path, *argv, cwd=cwd)
    assert (caught.value.kind, caught.value.transient) == ("program", False)


@pytest.mark.parametrize(
    ("argv", "cwd", "why"),
    [
        (["python", "grade.py"], None, "no file 'grade.py'; its path is relative to the folder of the suite"),
        (["python3.12", "grade.py", "--strict"], None, "no file 'grade.py'"),
        (["bun", "run", "graders/grade.ts"], None, "no file 'graders/grade.ts'"),
        (["sh", "grade.sh"], "here", "no file 'grade.sh'; its path is relative to `cwd`, 'here'"),
        (["./grade.sh"], None, "no program './grade.sh'"),
        (["python", "plain.py"], "gone", "no folder 'gone'"),
        (["./plain.py"], None, "'./plain.py' cannot be run; make it executable"),
    ],
)
@posix
def test_a_file_of_a_command_that_is_missing_is_known_before_it_runs(
    tmp_path: Path, argv: list[str], cwd: str | None, why: str
) -> None:
    (tmp_path / "plain.py").write_text("text", encoding="utf-8")
    (tmp_path / "here").mkdir()
    defect = SuiteProgramRunner(str(tmp_path), {}).find_defect(argv, cwd)
    assert defect is not None
    assert why in defect


@pytest.mark.parametrize(
    ("argv", "cwd"),
    [
        (["python", "plain.py"], None),
        (["python", "../plain.py"], "here"),
        (["python", "-m", "grade.py"], None),
        (["python", "-c", "import grade.py"], None),
        (["bash", "-c", "grade.sh"], None),
        (["sh", "tool.sh"], None),  # on the PATH
        (["sh", "words"], None),
        (["deno", "run", "https://example.org/grade.ts"], None),
        (["grade-it", "grade.py"], None),
        (["${{ GRADERS }}/grade.sh"], None),
    ],
)
@posix
def test_a_command_that_may_run_has_no_defect(tmp_path: Path, argv: list[str], cwd: str | None) -> None:
    (tmp_path / "plain.py").write_text("text", encoding="utf-8")
    (tmp_path / "here").mkdir()
    script(tmp_path / "bin/tool.sh", "true")
    assert SuiteProgramRunner(str(tmp_path), {"PATH": str(tmp_path / "bin")}).find_defect(argv, cwd) is None


async def test_a_suite_whose_folder_is_gone_runs_nothing(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="no folder"):
        await run(tmp_path / "gone", "python", "-c", "1")


# --- what it inherits --------------------------------------------------------------------------------------


async def test_a_program_inherits_no_secret_and_what_it_is_given(tmp_path: Path) -> None:
    programs = SuiteProgramRunner(str(tmp_path), {**PATH_ONLY, "OPENAI_API_KEY": "sk", "LANG": "C"})
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    finished = await programs.run(
        ["python", "-S", "-c", code], timeout_s=PATIENCE_S, variables={"PROCTOR_WORKSPACE_PATH": "/w"}
    )
    text = finished.stdout.decode()
    assert '"PROCTOR_WORKSPACE_PATH": "/w"' in text
    assert '"LANG": "C"' in text
    assert "OPENAI_API_KEY" not in text


async def test_python_reads_and_writes_utf8_whatever_the_system_speaks(tmp_path: Path) -> None:
    programs = SuiteProgramRunner(str(tmp_path), {**PATH_ONLY, "LC_ALL": "de_DE.ISO-8859-1"})
    finished = await programs.run(
        ["python", "-S", "-c", "print(input())"], "zwölf €".encode(), timeout_s=PATIENCE_S
    )
    assert finished.stdout.decode("utf-8").strip() == "zwölf €"


# --- what is left ------------------------------------------------------------------------------------------


@pytest.mark.slow
@linux
async def test_a_program_that_is_late_dies_with_those_who_left_its_group(family: Path) -> None:
    error, limit_s = await make_late(
        family, lambda limit_s: run(family, "python", "-S", "-c", FAMILY, "3600", timeout_s=limit_s)
    )
    assert re.search(rf"'python -S -c .*within {limit_s:g} s.* ends with: still at it", str(error), re.DOTALL)
    assert error.kind == "timeout"
    assert await list_living(family, 0) == []


@linux
async def test_a_program_that_is_cancelled_while_it_starts_dies_with_those_who_left_its_group(
    family: Path,
) -> None:
    running = asyncio.create_task(run(family, "python", "-S", "-c", FAMILY, "3600"))
    for _ in range(3):
        await asyncio.sleep(0)
    wait_until((family / "pids").exists)  # the loop stands still, as on a busy machine
    running.cancel()
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(asyncio.CancelledError):
            await running
    assert await list_living(family, 0) == []


@linux
async def test_a_program_that_is_cancelled_dies_with_those_who_left_its_group(family: Path) -> None:
    running = asyncio.create_task(run(family, "python", "-S", "-c", FAMILY, "3600"))
    while not (family / "pids").exists():
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await list_living(family, 0) == []


@linux
async def test_a_program_that_writes_too_much_dies_with_those_who_left_its_group(family: Path) -> None:
    endless = FAMILY + "\nwhile True: sys.stdout.write('x' * 65536)"
    with pytest.raises(TargetError, match=r"10,000,000 bytes.*still at it"):
        await run(family, "python", "-S", "-c", endless, "0")
    assert await list_living(family, 0) == []


@pytest.mark.slow
@linux
async def test_only_a_server_in_a_session_of_its_own_outlives_a_program_that_ended(family: Path) -> None:
    finished = await run(family, "python", "-S", "-c", FAMILY, "0")
    assert finished.exit_code == 0
    server = int((family / "pids").read_text(encoding="utf-8").split()[2])
    assert await list_living(family, 1) == [server]


@pytest.mark.slow
@linux
def test_programs_run_under_the_fast_event_loop_as_well(family: Path) -> None:
    async def main() -> bytes:
        await make_late(
            family,
            lambda limit_s: run(family, "python", "-S", "-c", FAMILY, "3600", timeout_s=limit_s),
        )
        assert await list_living(family, 0) == []
        (family / "inner").mkdir()
        return (await run(family, "cat", stdin=b"given", cwd="inner")).stdout

    assert uvloop.run(main()) == b"given"
