"""A project whose store is on a server: its other files, and the address that its commands get."""

from __future__ import annotations

from pathlib import Path

import pytest

from proctor.python.stores import locate
from proctor.services.project_folder import ProjectFolder
from proctor.services.project_store import locate_project_store
from proctor.services.runs.config import Config

ADDRESS = "postgresql://ana@db.example.com/evals?schema=team&sslmode=require"


@pytest.fixture
def nested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder within a project, which is the working directory."""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".proctor").mkdir()
    folder = tmp_path / "evals"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("PROCTOR_STORE", raising=False)
    return folder


def test_its_other_files_are_in_the_folder_of_the_project(nested: Path) -> None:
    home = nested.parent / ".proctor"
    assert locate_project_store(ADDRESS).folder.resolve() == home
    assert locate_project_store(None, {"PROCTOR_STORE": ADDRESS}).folder.resolve() == home
    assert locate(ADDRESS, Config()).folder == home
    assert ProjectFolder(ADDRESS, folder=nested).location.folder == home


def test_its_address_stays_whole(nested: Path) -> None:
    project = ProjectFolder(ADDRESS, folder=nested)
    assert project.location.address == ADDRESS
    assert project.location.name == "evals/team"
    assert project.store_flags == (f"--store={ADDRESS}",)


def test_two_schemes_name_the_same_store() -> None:
    assert locate_project_store(ADDRESS.replace("postgresql", "Postgres")).address == ADDRESS
