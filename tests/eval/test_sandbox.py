"""Programs in the sandbox: what they may do, what they may use up, and what is left of them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from proctor.errors import UsageError
from proctor.eval import CodeSandbox, SandboxResult
from proctor.eval.sandbox import limits as job
from proctor.eval.sandbox.supervisor import folder_exceeds_limit, remove_folder
from support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.usefixtures("sandboxed")

LIMITS: dict[str, Any] = {"timeout_s": PATIENCE_S, "output_limit": 20_000}
DOUBLE = "def check(candidate):\n    assert candidate(4) == 8\n    assert candidate(-3) == -6\n"


def run(program: str, stdin: str = "", **limits: Any) -> SandboxResult:
    return CodeSandbox(**LIMITS | limits).run(dedent(program), stdin)


# --- what a program may do ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_program_reads_stdin_and_writes_both_outputs() -> None:
    result = run("import sys\nprint(input() * 2)\nprint('to err', file=sys.stderr)", stdin="é\n")
    assert (result.status, result.exit_code, result.stdout, result.stderr) == (
        "passed",
        0,
        "éé\n",
        "to err\n",
    )
    assert result.passed
    assert result.reason == ""
    assert result.seconds > 0


@pytest.mark.parametrize(
    "program",
    [
        "import json, re, decimal, random, hashlib, statistics; json.dumps(re.findall('a', 'aa'))",
        "from concurrent.futures import ThreadPoolExecutor as P; list(P(99).map(pow, [2] * 99, [9] * 99))",
        "import asyncio; asyncio.run(asyncio.sleep(0))",
        "open('a', 'w').write('x' * 10); assert open('a').read() == 'x' * 10",
        "import os; os.makedirs('a/b'); os.rename('a/b', 'c'); os.rmdir('c')",
        "import tempfile; tempfile.TemporaryFile().write(b'x')",
        "import zoneinfo; zoneinfo.ZoneInfo('UTC')",
        "import os, signal; signal.signal(signal.SIGUSR1, print); os.kill(os.getpid(), signal.SIGUSR1)",
    ],
)
def test_ordinary_programs_run(program: str) -> None:
    result = run(program)
    assert result.passed, result.stderr


@pytest.mark.slow
def test_the_folder_is_empty_at_first_and_gone_afterwards() -> None:
    result = run("import os; assert os.listdir() == []; open('left', 'w'); print(os.getcwd())")
    assert result.passed, result.stderr
    assert not Path(result.stdout.strip()).exists()


def test_an_error_is_shown_from_the_first_line_of_the_program_on() -> None:
    result = run("def f():\n    return 1 / 0\nf()")
    assert (result.status, result.exit_code) == ("failed", 1)
    assert result.reason == "ZeroDivisionError: division by zero"
    assert result.stderr.splitlines()[1:3] == [
        '  File "<program>", line 3, in <module>',
        '  File "<program>", line 2, in f',
    ]
    assert str(Path(job.__file__).parent) not in result.stderr


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("raise SystemExit(3)", "it ended with exit code 3"),
        ("import os; os.closerange(0, 64)", "it ended with exit code 120"),
        ("raise ExceptionGroup('two', [ValueError('inner')])", "ValueError: inner"),
    ],
)
def test_what_fails_says_why(program: str, reason: str) -> None:
    result = run(program)
    assert (result.status, result.reason) == ("failed", reason)


def test_what_is_no_python_fails() -> None:
    result = run("def :")
    assert result.status == "failed"
    assert result.reason.startswith("SyntaxError")


# --- limits ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("program", ["while True: pass", "import os; os.kill(os.getpid(), 19)"])
def test_wall_time_is_limited(program: str) -> None:
    result = run(program, timeout_s=0.1)
    assert (result.status, result.exit_code) == ("timeout", None)
    assert result.reason == "it did not end within 0.1 s"


@pytest.mark.slow
def test_what_was_written_before_a_timeout_is_kept() -> None:
    for limit_s in (0.5, 4, 32, PATIENCE_S):  # long enough for this machine to have written it
        result = run("import time\nprint('so far', flush=True)\ntime.sleep(3600)", timeout_s=limit_s)
        assert result.status == "timeout"
        if result.stdout:
            break
    assert result.stdout == "so far\n"


def test_processor_time_is_limited_also_for_many_threads() -> None:
    grants = job.compute_grants(0.4, 512, False, "kernel")
    assert grants["limits"]["RLIMIT_CPU"] == (1, 2)
    program = "import resource; assert resource.getrlimit(resource.RLIMIT_CPU) == (5, 6)"
    assert run(program, timeout_s=5).passed


@pytest.mark.parametrize(
    "program",
    [
        "x = bytearray(10 ** 9)",
        "x = [0]\nwhile True: x += x",
        "import mmap\nx = [mmap.mmap(-1, 2 ** 20) for _ in range(99)]",
    ],
)
def test_memory_is_limited(program: str) -> None:
    result = run(program, memory_mb=64)
    assert result.status == "memory"
    assert result.reason == "it needed more than 64 MB"


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_flood_of_output_ends_the_program(stream: str) -> None:
    result = run(f"import sys\nwhile True: sys.{stream}.write('x' * 1000)")
    assert (result.status, result.reason) == ("output", "it wrote more than 20,000 bytes")
    assert len(getattr(result, stream)) == 20_000


def test_output_up_to_the_limit_is_kept() -> None:
    assert run("print('x' * 19_999)").stdout == "x" * 19_999 + "\n"


def test_a_large_file_cannot_be_written() -> None:
    assert (
        "File too large" in run("with open('a', 'wb') as f:\n    while True: f.write(bytes(10 ** 6))").reason
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "program",
    [
        "for n in range(3000): os.link('a', str(n))",
        "for n in range(5): open(str(n), 'wb').write(bytes(2 ** 24 - 1))",
        "for n in range(20): os.mkdir('d' * 250); os.chdir('d' * 250)",
    ],
    ids=["entries", "bytes", "depth"],
)
def test_a_folder_that_fills_up_ends_the_program(program: str) -> None:
    result = run(f"import os, time\nopen('a', 'w')\n{program}\ntime.sleep(60)")
    assert (result.status, result.reason) == ("output", "it filled its working folder")


def test_files_that_are_nowhere_to_be_seen_are_noticed_on_the_disk(tmp_path: Path) -> None:
    assert folder_exceeds_limit(tmp_path, min_free=10**18)
    assert not folder_exceeds_limit(tmp_path)


@pytest.mark.slow
def test_threads_are_limited() -> None:
    result = run("""
        import _thread, threading, time
        threading.stack_size(32_768)
        while True:
            try: _thread.start_new_thread(time.sleep, (60,))
            except RuntimeError: time.sleep(60)
        """)
    assert (result.status, result.reason) == ("failed", "it started too many threads")


@pytest.mark.slow
def test_open_files_are_limited() -> None:
    assert "Too many open files" in run("all = [open('a', 'w') for _ in range(1000)]").reason


@pytest.mark.slow
def test_a_deep_and_closed_folder_is_removed_too(tmp_path: Path) -> None:
    (tmp_path / "left" / "closed").mkdir(parents=True)
    (tmp_path / "left" / "closed").chmod(0)
    handle = os.open(tmp_path / "left", os.O_RDONLY)
    for _ in range(1100):
        os.mkdir("d", dir_fd=handle)
        inner = os.open("d", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.close(handle)
    remove_folder(tmp_path / "left")
    assert list(tmp_path.iterdir()) == []


def test_what_a_link_leads_to_is_not_removed(tmp_path: Path) -> None:
    own_file = tmp_path / "mine" / "kept"
    own_file.parent.mkdir()
    own_file.touch()
    (tmp_path / "left").mkdir()
    (tmp_path / "left" / "link").symlink_to(own_file.parent)
    (tmp_path / "swapped").symlink_to(own_file.parent)
    for name in ("left", "swapped"):
        remove_folder(tmp_path / name)
    assert own_file.exists()
    assert not (tmp_path / "left").exists()


# --- limits only -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_without_isolation_a_grandchild_in_a_session_of_its_own_is_killed() -> None:
    result = run(
        """
        import os, sys, time
        try:
            child = os.fork()
        except OSError:  # where the system limits the user's processes
            print(0); sys.exit()
        if not child:
            os.setsid()
            if not os.fork():
                print(os.getpid(), flush=True)
                os.closerange(0, 64)
                time.sleep(60)
            os._exit(0)
        os.waitpid(child, 0)
        """,
        isolation="process",
    )
    pid = int(result.stdout)
    wait_until(lambda: not pid or not is_running(pid))  # what is killed still has to die


def is_running(pid: int) -> bool:
    """Whether the process runs and is no zombie."""
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.slow
@pytest.mark.parametrize("isolation", ["process", "seccomp"])
def test_the_weaker_isolations_keep_the_limits_and_the_verdict(isolation: str) -> None:
    limits: dict[str, Any] = {"memory_mb": 100, "isolation": isolation}
    assert run("print(1)", **limits).passed
    assert run("bytearray(10 ** 9)", **limits).status == "memory"
    assert run("while True: pass", timeout_s=0.1, **limits).status == "timeout"
    sandbox = CodeSandbox(isolation=isolation)  # type: ignore[arg-type]
    assert sandbox.check("def double(n): return n + n", DOUBLE, "double").passed
    assert sandbox.check("def double(n): return n", DOUBLE, "double").status == "failed"


# --- the sandbox itself ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings_",
    [
        {"timeout_s": 0},
        {"timeout_s": float("nan")},
        {"memory_mb": 10},
        {"output_limit": 0},
        {"isolation": "none"},
    ],
)
def test_limits_that_make_no_sense_are_refused(settings_: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=next(iter(settings_))):
        CodeSandbox(**settings_)  # type: ignore[arg-type]


def test_another_system_is_never_silently_weaker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(UsageError, match=r"parts of Linux, and this is darwin.*isolation='process'"):
        CodeSandbox()
    assert "this is darwin" in CodeSandbox.lack()
    assert CodeSandbox.lack("process") == ""


@pytest.mark.slow
def test_a_kernel_that_refuses_a_part_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = job.compute_grants(1, 512, False, "kernel") | {"filter": b"\xff" * 8}
    monkeypatch.setattr("proctor.eval.sandbox.sandbox.compute_grants", lambda *_: wrong)
    assert "seccomp is refused: Invalid argument" in CodeSandbox.lack()
    with pytest.raises(UsageError, match="seccomp is refused: Invalid argument"):
        CodeSandbox().run("print(1)")
    with pytest.raises(UsageError, match="seccomp is refused"):
        CodeSandbox().check("def double(n): return n", DOUBLE, "double")


@pytest.mark.slow
def test_many_run_at_once_and_come_in_order() -> None:
    batch = CodeSandbox(**LIMITS).run_many([f"print({n})" if n % 4 else "1/0" for n in range(12)], workers=4)
    assert [result.stdout for result in batch.results] == ["" if n % 4 == 0 else f"{n}\n" for n in range(12)]
    assert batch.counts() == {"passed": 9, "failed": 3, "timeout": 0, "memory": 0, "output": 0, "crashed": 0}
    assert "12 programs" in batch.chart().spec["title"]
    assert batch.results[0].to_dict()["status"] == "failed"


@pytest.mark.slow
def test_nothing_is_left_open_or_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    handles = len(list(Path("/proc/self/fd").iterdir()))
    for program in ("print(1)", "1/0", "import os; os._exit(0)"):
        run(program)
        CodeSandbox(**LIMITS).check(program, DOUBLE, "double")
    assert len(list(Path("/proc/self/fd").iterdir())) <= handles
    assert list(tmp_path.iterdir()) == []
