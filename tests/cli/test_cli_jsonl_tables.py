"""What `bench`, `passk` and `trajectories` share: input files, output files and tables."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.cli import Proctor
from support.waiting import PATIENCE_S

COMMANDS = ("bench", "passk", "trajectories")
ROW = json.dumps({"latency_ms": 1, "task_id": "a", "passed": True, "iter": 1, "val_bpb": 2}) + "\n"


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("words", [(), ("--json",)])
def test_a_file_that_is_read_is_never_written_over(
    proctor: Proctor, folder: Path, command: str, words: tuple[str, ...]
) -> None:
    (folder / "x.json").write_text(ROW, encoding="utf-8")
    (folder / "link.json").symlink_to("x.json")
    for output in ("x.json", "./x.json", "link.json"):
        result = proctor(command, "x.json", "-o", output, *words)
        assert result.code == 4
        assert f"{output!r} is an input of this command and would be overwritten." in result.err + result.out
    assert (folder / "x.json").read_text(encoding="utf-8") == ROW


def test_the_problems_are_never_written_over(proctor: Proctor, folder: Path) -> None:
    for name in ("x.jsonl", "problems.json"):
        (folder / name).write_text(ROW, encoding="utf-8")
    result = proctor("passk", "x.jsonl", "--problems", "problems.json", "-o", "problems.json")
    assert (result.code, "is an input of this command and would be overwritten" in result.err) == (4, True)


@pytest.mark.parametrize("command", COMMANDS)
def test_charts_that_cannot_be_drawn_are_refused_before_anything_is_read(
    proctor: Proctor, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    result = proctor(command, "none.jsonl", "-o", "x.svg")
    assert (result.code, "proctor[charts]" in result.err) == (4, True)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_stdin_and_pipes_are_read_like_files(
    process: Proctor, start: Callable[..., Any], folder: Path, command: str
) -> None:
    (folder / "x.jsonl").write_text(ROW, encoding="utf-8")
    with (folder / "x.jsonl").open("rb") as file:
        assert process(command, "-", stdin=file).code == 0
    os.mkfifo(folder / "pipe")
    child = start(command, "pipe")
    (folder / "pipe").write_text(ROW, encoding="utf-8")
    out, err = child.communicate(timeout=PATIENCE_S)
    assert (child.returncode, err) == (0, "")
    assert "pipe" in out


@pytest.mark.parametrize("command", COMMANDS)
def test_utf_16_is_named(proctor: Proctor, folder: Path, command: str) -> None:
    (folder / "x.jsonl").write_text(ROW, encoding="utf-16")
    result = proctor(command, "x.jsonl")
    assert result.code == 5
    assert "x.jsonl:1: warning: The file is UTF-16. Save it as UTF-8." in result.err
