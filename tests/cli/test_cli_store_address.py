"""Addresses of stores on servers: no command repeats a password, or takes a URL for a path."""

from __future__ import annotations

from pathlib import Path

import pytest

import proctor as python
from proctor.errors import UsageError
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
        ("serve", "--port", "0"),
        pytest.param(("mcp",), marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("door", ["flag", "variable", "project file"])
def test_no_command_repeats_a_password_or_creates_a_folder(
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


@pytest.mark.parametrize(
    "address", ["mysql://ana:hunter2@db/evals", "postgresql:/db/evals", "postgres:evals", "PostgreSQL:/x"]
)
def test_no_address_of_a_server_is_taken_for_a_path(
    proctor: Proctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for words in (("run", "cheap", "--target", "echo"), ("store", "migrate"), ("runs", "list")):
        result = proctor(*words, "--store", address)
        assert (result.code, "hunter2" in result.err, "://" in result.err) == (4, False, True)
    (tmp_path / "proctor.toml").write_text(f'store = "{address}"\n', "utf-8")
    assert proctor("run", "cheap", "--target", "echo").code == 4
    assert [path.name for path in tmp_path.iterdir()] == ["proctor.toml"]


@pytest.mark.parametrize("address", ["postgresql://ana:hunter2@db/evals", Path("postgresql://db/evals")])
def test_python_functions_refuse_these_addresses_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str | Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as error:
        python.run([{"input": "Lima", "expected": "Lima"}], target="echo", store=address)
    assert "hunter2" not in str(error.value)
    with pytest.raises(UsageError):
        python.open_store(address)
    assert not list(tmp_path.iterdir())
