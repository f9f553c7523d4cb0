"""Lines and files of a suite that are too large to be read, in every format."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from proctor.errors import SuiteError, UsageError
from proctor.protocols import MAX_LINE_BYTES
from proctor.services.suites.load import load_suite
from proctor.targets.replay import first_case

pytestmark = pytest.mark.slow

ROW = json.dumps({"id": "a", "input": "q", "expected": "x"})
HEADS = {
    "s.jsonl": (ROW + "\n").encode(),
    "s.csv": b"input,expected\nq,x\n",
    "s.eval.yaml": b"tests:\n  - id: a\n    criteria: c\n    input: i\n",
    "s.json": f"[{ROW},\n{ROW},\n".encode(),
    "s.md": b"# Test\n\n## User\n\n",
}


def write_sparse(path: Path, head: bytes, size: int) -> Path:
    """Writes a file of this head and NUL bytes, which take no room on the disk."""
    with path.open("wb") as file:
        file.write(head)
        file.truncate(len(head) + size)
    return path


@pytest.mark.parametrize("name", HEADS)
def test_a_line_over_64_mib_is_an_error_with_its_file_and_number(tmp_path: Path, name: str) -> None:
    path = write_sparse(tmp_path / name, HEADS[name], MAX_LINE_BYTES + 1)
    with pytest.raises(SuiteError) as caught:
        load_suite(path)
    (problem,) = caught.value.problems
    assert (problem.code, problem.path) == ("line-too-long", str(path))
    assert problem.line == HEADS[name].count(b"\n") + 1
    assert "more than 64 MiB" in problem.message


@pytest.mark.parametrize("name", ["s.eval.yaml", "s.json", "s.md"])
def test_a_file_over_64_mib_that_is_read_as_a_whole_is_an_error(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with path.open("wb") as file:
        file.write(HEADS[name])
        for _ in range(65):
            file.write(b"#" * (2**20 - 1) + b"\n")
    with pytest.raises(SuiteError, match="more than 64 MiB, and a file of this kind is read as a whole"):
        load_suite(path)


def test_a_file_over_64_mib_that_a_suite_refers_to_is_an_error_with_its_name(tmp_path: Path) -> None:
    write_sparse(tmp_path / "large.txt", b"", MAX_LINE_BYTES + 1)
    (tmp_path / "s.eval.yaml").write_text(
        "tests: [{id: a, criteria: c, input: [{role: user, content: [{type: file, value: large.txt}]}]}]\n",
        encoding="utf-8",
    )
    with pytest.raises(SuiteError, match=r"large\.txt.*more than 64 MiB"):
        load_suite(tmp_path / "s.eval.yaml")


def test_a_line_over_64_mib_of_a_recording_is_an_error_with_its_number(tmp_path: Path) -> None:
    path = write_sparse(tmp_path / "r.jsonl", b'{"case_id": "a", "output": "x"}\n', MAX_LINE_BYTES + 1)
    with pytest.raises(UsageError, match=r"r\.jsonl:2: The line has more than 64 MiB"):
        first_case(str(path))


# Not `ru_maxrss`: a process takes that over from the one that started it.
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_line_of_300_mb_is_refused_without_holding_more_than_the_limit(tmp_path: Path) -> None:
    path = write_sparse(tmp_path / "s.jsonl", HEADS["s.jsonl"], 300_000_000)
    code = (
        "import re, sys; from pathlib import Path; from proctor.cli.main import _invoke\n"
        "assert _invoke(['validate', sys.argv[1]]) == 4\n"
        "print(int(re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1]) // 1024)"
    )
    command = [sys.executable, "-c", code, str(path)]
    process = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert "s.jsonl:2: error: The line has more than 64 MiB" in process.stdout + process.stderr
    assert int(process.stdout.split()[-1]) < 250
