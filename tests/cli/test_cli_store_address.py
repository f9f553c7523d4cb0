"""Addresses of stores on servers: no door repeats a password, or takes a URL for a path."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli import Proctor


@pytest.mark.parametrize(
    "words",
    [
        ("run", "cheap", "--target", "echo"),
        ("runs", "list"),
        ("runs", "show", "last", "--json"),
        ("suites", "list"),
        ("store", "check"),
        ("store", "migrate", "--json"),
        ("validate", "suite.jsonl"),
        ("serve", "--port", "0"),
        ("mcp",),
    ],
)
@pytest.mark.parametrize("door", ["flag", "variable", "project file"])
def test_no_door_repeats_a_password_or_makes_a_folder(
    proctor: Proctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], door: str
) -> None:
    monkeypatch.chdir(tmp_path)
    address = "postgresql://ana:hunter2@127.0.0.1/evals"
    flags: tuple[str, ...] = ()
    if door == "flag":
        flags = ("--store", address)
    elif door == "variable":
        monkeypatch.setenv("PROCTOR_STORE", address)
    else:
        (tmp_path / "proctor.toml").write_text(f'store = "{address}"\n', "utf-8")
    result = proctor(*words, *flags)
    assert "hunter2" not in result.out + result.err
    assert result.code == 4
    assert "PGPASSWORD" in result.out + result.err
    assert not [path for path in tmp_path.iterdir() if "postgres" in path.name or path.name == ".proctor"]
