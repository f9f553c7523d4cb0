"""Addresses of stores: paths, URLs, and the store in memory."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from proctor.cli.main import cli
from proctor.errors import UsageError
from proctor.stores import locate_store, move_address, open_store

CASE = (
    '{"id": "a", "category": "reasoning", "input": "four", "ideal": "four", '
    '"assertion": {"type": "contains"}, "metadata": {"difficulty": "easy", "tokens_est": 1}}\n'
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("address", "path"),
    [("runs.db", "runs.db"), ("sqlite:///runs.db", "runs.db"), ("SQLite:///a/runs.db", "a/runs.db")],
)
def test_a_path_and_a_url_name_a_file(folder: Path, address: str, path: str) -> None:
    location = locate_store(address)
    assert not location.exists()
    open_store(address).close()
    assert location.exists()
    assert (folder / path).is_file()


def test_an_absolute_url_has_four_slashes(tmp_path: Path) -> None:
    assert locate_store(f"sqlite:///{tmp_path}/runs.db").address == f"{tmp_path}/runs.db"


@pytest.mark.parametrize(
    "address", ["mysql://ana:secret@host/runs", "sqlite://runs.db", "sqlite:///", "memory://x"]
)
def test_a_wrong_address_is_an_error_without_the_password(address: str) -> None:
    with pytest.raises(UsageError) as error_info:
        locate_store(address)
    assert "secret" not in str(error_info.value)
    assert str(error_info.value).endswith(".")


def test_an_unknown_scheme_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"mysql://\. Known schemes: memory://, postgres"):
        locate_store("mysql://host/runs")


def test_a_relative_address_in_a_file_is_relative_to_its_folder(folder: Path) -> None:
    assert (
        move_address("runs.db", folder / "a")
        == move_address("sqlite:///runs.db", folder / "a")
        == "a/runs.db"
    )
    assert move_address(":memory:", folder / "a") == ":memory:"


def test_every_store_in_memory_is_a_store_of_its_own(folder: Path) -> None:
    with closing(open_store(":memory:")) as first, closing(open_store(":memory:")) as second:
        first.claim_name("s", str(folder / "s.jsonl"))
        assert second.path_for_name("s") is None
    assert list(folder.iterdir()) == []


def test_a_run_in_memory_leaves_no_file(folder: Path) -> None:
    (folder / "suite.jsonl").write_text(CASE * 1, encoding="utf-8")
    words = ["run", "suite.jsonl", "--target", "echo", "--store", ":memory:", "--cache"]
    result = CliRunner().invoke(cli, words, standalone_mode=False)
    assert result.exception is None, result.output
    assert result.return_value == 0
    assert "--resume" not in result.output
    assert [path.name for path in folder.iterdir()] == ["suite.jsonl"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["store", "check"], "has no file"),
        (["store", "backup", "new.db"], "has no file"),
        (["serve"], "Name a file"),
        (["runs", "list"], "no store at :memory:"),
    ],
)
def test_commands_that_need_a_file_refuse_a_store_in_memory(
    folder: Path, words: list[str], sentence: str
) -> None:
    result = CliRunner().invoke(cli, [*words, "--store", ":memory:"], standalone_mode=False)
    assert isinstance(result.exception, UsageError)
    assert sentence in str(result.exception)
    assert list(folder.iterdir()) == []
