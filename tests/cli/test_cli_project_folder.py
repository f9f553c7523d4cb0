"""Where commands find the project's store, and which of them create its folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.cli import PYTHON, Proctor
from support.waiting import PATIENCE_S

STORE = Path(".proctor/proctor.db")


@pytest.fixture
def project(folder: Path, suite: Callable[..., str], proctor: Proctor) -> Path:
    """A project with one stored run, and an empty folder `evals/deep` in it."""
    assert proctor("run", suite(("a", "x", "x")), "--target", "echo", "--quiet").code == 0
    (folder / "evals/deep").mkdir(parents=True)
    return folder


def stores_below(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob(".proctor"))


# --- commands that only read -------------------------------------------------------------------------------

READS = (
    ("validate", "s.jsonl"),
    ("validate", "cheap"),
    ("hash", "s.jsonl"),
    ("hash", "none"),
    ("convert", "s.jsonl", "--to", "none"),
    ("suites", "list"),
    ("suites", "show", "none"),
    ("suites", "versions", "none"),
    ("suites", "diff", "s.jsonl", "s.jsonl"),
    ("suites", "diff", "none"),
    ("suites", "export", "none", "-o", "x.jsonl"),
    ("suites", "delete", "none", "--yes"),
    ("runs", "list"),
    ("runs", "show", "last"),
    ("runs", "export", "last", "-o", "x.json"),
    ("runs", "labels", "last"),
    ("runs", "tag", "last", "x"),
    ("runs", "delete", "last", "--yes"),
    ("runs", "import", "x.zip"),
    ("compare", "a", "b"),
    ("plan", "s.jsonl"),
    ("drift", "s.jsonl"),
    ("store", "check"),
    ("store", "backup", "x.db"),
    ("store", "repair", "x.db"),
    ("store", "gc", "--yes"),
    ("attest", "last"),
    ("verify", "x.zip"),
    ("replay", "x.zip", "--target", "echo"),
    ("certify", "last"),
    ("certify", "x.zip"),
    ("keys", "list"),
    ("bench", "s.jsonl"),
    ("passk", "s.jsonl"),
    ("trajectories", "s.jsonl"),
    ("targets", "list"),
    ("targets", "check", "echo"),
    ("models", "list"),
    ("regrade", "last"),
    ("run", "--resume=none"),
    ("run", "--retry-errors", "none"),
)
TYPING_ERRORS = (
    ("run", "none.jsonl", "--target", "echo"),
    ("run", "--saved", "none", "--target", "echo"),
    ("run", "s.jsonl", "--target", "ehco"),
    ("run", "s.jsonl", "--target", "echo", "--judge", "ehco"),
)


@pytest.mark.parametrize("words", [*READS, *TYPING_ERRORS], ids=" ".join)
def test_a_command_that_only_reads_creates_nothing(
    proctor: Proctor, suite: Callable[..., str], folder: Path, words: tuple[str, ...]
) -> None:
    Path(suite(("a", "x", "x"))).rename("s.jsonl")
    result = proctor(*words)
    assert sorted(path.name for path in folder.iterdir()) == ["s.jsonl"], result
    assert words not in TYPING_ERRORS or result.code == 4


# --- upward ------------------------------------------------------------------------------------------------


def test_a_command_in_a_nested_folder_uses_the_store_above(
    project: Path, proctor: Proctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("evals/deep")
    assert len(proctor("runs", "list", "--json").json["runs"]) == 1
    assert proctor("run", "cheap", "--target", "echo", "--limit", "1", "--quiet").code in (0, 1)
    assert len(proctor("runs", "list", "--json").json["runs"]) == 2
    assert stores_below(project) == [".proctor"]


def test_messages_show_the_store_as_the_working_directory_sees_it(
    project: Path, proctor: Proctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("evals/deep")
    assert proctor("store", "check").out.startswith("../../.proctor/proctor.db is sound: 1 run")
    assert "There is no run 'x' in ../../.proctor/proctor.db." in proctor("runs", "show", "x").err
    STORE.parent.mkdir()
    monkeypatch.chdir(project)
    (project / STORE).unlink()
    assert "There is no store at .proctor/proctor.db" in proctor("runs", "list").err


def test_the_nearest_store_counts(project: Path, proctor: Proctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("evals")
    proctor("run", "cheap", "--target", "echo", "--limit", "1", "--quiet", "--store", STORE)
    monkeypatch.chdir("deep")
    (row,) = proctor("runs", "list", "--json").json["runs"]
    assert row["suite"] == "builtin:cheap"


def test_a_project_ends_at_the_root_of_its_repository(
    project: Path, proctor: Proctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "evals/.git").mkdir()
    monkeypatch.chdir("evals/deep")
    assert "There is no store at .proctor/proctor.db" in proctor("runs", "list").err


def test_a_new_store_is_created_in_a_project_folder_above_that_has_none(
    folder: Path, proctor: Proctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / ".proctor").mkdir()
    (folder / "evals").mkdir()
    monkeypatch.chdir("evals")
    proctor("run", "cheap", "--target", "echo", "--limit", "1", "--quiet")
    assert stores_below(folder) == [".proctor"]
    assert (folder / STORE).is_file()


def test_a_project_folder_without_a_store_does_not_hide_the_store_above(
    project: Path, proctor: Proctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "evals/.proctor/assertions").mkdir(parents=True)
    monkeypatch.chdir("evals")
    assert len(proctor("runs", "list", "--json").json["runs"]) == 1


def test_variable_and_flag_come_before_the_store_above(
    project: Path, proctor: Proctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("evals")
    assert "There is no store at other.db" in proctor("runs", "list", "--store", "other.db").err
    monkeypatch.setenv("PROCTOR_STORE", "third.db")
    assert "There is no store at third.db" in proctor("runs", "list").err


def test_links_lead_to_the_project_of_the_folder_that_they_mean(
    project: Path, proctor: Proctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "elsewhere").mkdir()
    (project / "elsewhere/.git").mkdir()
    (project / "elsewhere/link").symlink_to(project / "evals/deep")
    monkeypatch.chdir("elsewhere/link")
    assert len(proctor("runs", "list", "--json").json["runs"]) == 1
    (project / "elsewhere/.proctor").symlink_to(project / ".proctor")
    monkeypatch.chdir(project / "elsewhere")
    assert len(proctor("runs", "list", "--json").json["runs"]) == 1


def test_targets_and_prices_of_the_project_count_in_a_nested_folder(
    project: Path, proctor: Proctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "targets.yaml").write_text(
        "targets:\n  - name: parrot\n    provider: echo\n", encoding="utf-8"
    )
    (project / ".proctor/prices.toml").write_text("no prices", encoding="utf-8")
    monkeypatch.chdir("evals/deep")
    assert "parrot" in proctor("targets", "list").out
    for store in ((), ("--store", ":memory:")):
        error = proctor("run", "cheap", "--target", "echo", "--limit", "1", *store).err
        assert "../../.proctor/prices.toml" in error, error


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_a_store_that_somebody_else_put_above_is_ignored(
    project: Path, proctor: Proctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.chown(project / ".proctor", 65534, 65534)
    assert len(proctor("runs", "list", "--json").json["runs"]) == 1
    monkeypatch.chdir("evals")
    assert "There is no store at .proctor/proctor.db" in proctor("runs", "list").err
    os.chown(project / "evals", 65534, 65534)  # as in a container, where the checkout is another user's
    assert len(proctor("runs", "list", "--json").json["runs"]) == 1


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs file modes")
@pytest.mark.parametrize(
    ("locked", "message"),
    [
        (".proctor", "The store ../../.proctor/proctor.db cannot be"),
        ("evals", ""),
    ],
)
def test_a_folder_without_rights_is_passed_by_and_a_store_in_one_is_an_error(
    project: Path, locked: str, message: str
) -> None:
    prefix = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    if prefix and subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode:
        pytest.skip("root cannot give up its privileges here")
    if not prefix and locked == "evals":
        pytest.skip("only root can enter such a folder")
    (project / locked).chmod(0)
    try:
        process = subprocess.run(
            [*prefix, *PYTHON, "runs", "list"],
            cwd=project / "evals/deep",
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE_S,
            check=False,
        )
    finally:
        (project / locked).chmod(0o755)
    assert process.returncode == (4 if message else 0), process
    assert message in process.stderr
    assert process.stderr.count("\n") == bool(message)


# --- the web application -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_serve_shows_the_store_above_and_creates_none(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    empty = tmp_path_factory.mktemp("empty")
    for place, store_path in ((project / "evals", "../.proctor/proctor.db"), (empty, ".proctor/proctor.db")):
        with subprocess.Popen(
            [*PYTHON, "serve", "--port", "0"], cwd=place, stderr=subprocess.PIPE, encoding="utf-8"
        ) as server:
            assert server.stderr is not None
            assert f"It shows {store_path} to this machine." in server.stderr.readline()
            server.terminate()
    assert list(empty.iterdir()) == []
    assert json.dumps(stores_below(project)) == '[".proctor"]'
