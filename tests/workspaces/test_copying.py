"""Copying and removing folders, and paths that lead outside them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.errors import WorkspaceError
from proctor.workspaces.copying import copy_template, copy_workspace, remove_tree, resolve_inside


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc",
        "..",
        "a/../../b",
        "a/..",
        "C:\\x",
        "C:x",
        "\\\\host\\x",
        "a\\..\\..\\b",
        ".git",
        "a/.git/hooks",
    ],
)
def test_a_path_that_could_lead_out_is_refused_with_its_value(path: str, tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match=r"^The path of a repository is ") as caught:
        resolve_inside(tmp_path.resolve(), path, "The path of a repository")
    assert repr(path) in str(caught.value)


@pytest.mark.parametrize("path", [".", "a", "a/b", "./a", "a..b", "..."])
def test_a_path_that_stays_inside_is_that_place(path: str, tmp_path: Path) -> None:
    assert resolve_inside(tmp_path.resolve(), path, "It") == tmp_path.resolve() / path


def test_a_link_out_of_the_folder_is_no_way_out(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link").symlink_to(tmp_path)
    with pytest.raises(WorkspaceError, match="'link/x', which leads outside the workspace through a link"):
        resolve_inside((tmp_path / "in").resolve(), "link/x", "It")


@given(st.text(alphabet="ab./\\:C", max_size=12))
def test_no_text_leads_out(path: str) -> None:
    root = Path("/nowhere/at/all")
    try:
        place = resolve_inside(root, path, "It")
    except WorkspaceError:
        return
    assert os.path.normpath(place).startswith(str(root))


# --- templates ---------------------------------------------------------------------------------------------


@pytest.fixture
def template(tmp_path: Path) -> Path:
    folder = tmp_path / "template"
    (folder / "src" / ".git").mkdir(parents=True)
    (folder / "src" / "run.sh").write_text("#!/bin/sh\n", encoding="utf-8")
    (folder / "src" / "run.sh").chmod(0o755)
    (folder / "empty").mkdir()
    (folder / ".gitignore").write_text("x\n", encoding="utf-8")
    (folder / "link").symlink_to("src/run.sh")
    return folder


def _copy(template: Path, skip: Path = Path("/nowhere")) -> Path:
    target = template.parent / "target"
    target.mkdir()
    copy_template(template, target, skip)
    return target


def test_a_template_is_copied_with_modes_links_and_empty_folders_but_without_git(template: Path) -> None:
    target = _copy(template)
    paths = sorted(str(path.relative_to(target)) for path in target.rglob("*"))
    assert paths == [".gitignore", "empty", "link", "src", "src/run.sh"]
    assert (target / "src" / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (target / "link").readlink() == Path("src/run.sh")


@pytest.mark.parametrize("where", ["/etc/passwd", "../secret", "src/../../secret", "src/out"])
def test_a_link_out_of_the_template_is_refused(template: Path, where: str) -> None:
    (template / "bad").symlink_to(where)
    (template / "src" / "out").symlink_to("../../secret")
    with pytest.raises(WorkspaceError, match="is outside the template"):
        _copy(template)


def test_an_absolute_link_into_the_template_is_refused_as_an_agent_would_change_the_template(
    template: Path,
) -> None:
    (template / "bad").symlink_to(template / "src")
    with pytest.raises(WorkspaceError, match="is outside the template"):
        _copy(template)


def test_a_pipe_in_a_template_is_refused(template: Path) -> None:
    os.mkfifo(template / "pipe")
    with pytest.raises(WorkspaceError, match="not a file, a folder or a link"):
        _copy(template)


def test_a_template_around_the_workspaces_is_copied_without_them(template: Path) -> None:
    inner = template / "made"
    (inner / "target").mkdir(parents=True)
    copy_template(template, inner / "target", inner)
    assert not (inner / "target" / "made").exists()
    assert (inner / "target" / "src").is_dir()


def test_an_absolute_link_of_a_prepared_folder_leads_into_its_copy(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    (tmp_path / "one" / "file").write_text("one", encoding="utf-8")
    (tmp_path / "one" / "in").symlink_to(tmp_path / "one" / "file")
    (tmp_path / "one" / "out").symlink_to("/usr/bin/env")
    copy_workspace(tmp_path / "one", tmp_path / "two")
    assert (tmp_path / "two" / "in").readlink() == tmp_path / "two" / "file"
    assert (tmp_path / "two" / "out").readlink() == Path("/usr/bin/env")


# --- removing ----------------------------------------------------------------------------------------------


def test_what_may_not_be_written_is_removed_and_what_links_lead_to_is_not(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    folder = tmp_path / "folder"
    (folder / "closed" / "deep").mkdir(parents=True)
    (folder / "closed" / "deep" / "file").touch(0o400)
    (folder / "link").symlink_to(precious)
    (folder / "closed" / "deep").chmod(0o500)
    (folder / "closed").chmod(0)
    remove_tree(folder)
    assert not folder.exists()
    assert (precious / "file").exists()


def test_a_folder_that_became_a_link_is_removed_as_a_link(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "folder").symlink_to(tmp_path / "precious")
    remove_tree(tmp_path / "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


@pytest.mark.slow
def test_folders_deeper_than_a_path_may_be_long_are_removed(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    for _ in range(3):  # each on top of the ones before, as no path leads to the deepest
        deep = tmp_path / "deep"
        deep.joinpath(*["d" * 9] * 350).mkdir(parents=True)
        (deep / "file").touch()
        if folder.exists():
            folder.rename(deep.joinpath(*["d" * 9] * 350) / "on")
        deep.rename(folder)
    remove_tree(folder)
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_is_removed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    remove_tree(tmp_path / "pipe")
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_there_needs_no_removing(tmp_path: Path) -> None:
    remove_tree(tmp_path / "nothing")
    assert list(tmp_path.iterdir()) == []
