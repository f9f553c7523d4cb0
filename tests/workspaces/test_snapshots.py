"""Snapshots of a folder: taking them, listing changes and restoring."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.workspaces import snapshots
from proctor.workspaces.snapshots import ContentStore, Snapshot, restore_snapshot, take_snapshot
from support.waiting import wait_until
from support.workspaces import Folder


def test_every_kind_of_change_is_seen(folder: Folder) -> None:
    for name in ("same", "touched", "edited", "gone", "run"):
        folder.write(name)
    link = folder.path / "link"
    link.symlink_to("same")
    folder.begin()
    (folder.path / "touched").touch()
    folder.write("edited", "new")
    (folder.path / "gone").unlink()
    (folder.path / "run").chmod(0o755)
    link.unlink()
    link.symlink_to("edited")
    folder.write("folder/deep/added", "")
    assert folder.list_differing() == ["edited", "folder/deep/added", "gone", "link", "run"]


def test_a_change_within_one_tick_of_the_clock_is_seen(folder: Folder) -> None:
    file = folder.write("file", "old")
    status = file.stat()
    folder.begin()
    file.write_text("new", encoding="utf-8")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert folder.list_differing() == ["file"]


def test_a_file_settles_when_its_clock_has_ticked(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write("file")
    with monkeypatch.context() as patch:
        patch.setattr(snapshots, "_CLOCK_TICK_NS", 3600 * 10**9)
        assert not folder.look().files["file"].is_settled
    wait_until(lambda: folder.look().files["file"].is_settled)


def test_what_has_settled_is_not_read_again(folder: Folder) -> None:
    folder.write("file")
    early = folder.look().files["file"]
    believed = Snapshot({"file": early._replace(is_settled=True, digest=b"believed")}, ())
    doubted = Snapshot({"file": early._replace(is_settled=False, digest=b"doubted")}, ())
    assert folder.look(believed).files["file"].digest == b"believed"
    assert folder.look(doubted).files["file"].digest == early.digest


def test_of_a_large_file_it_is_known_that_it_changed(folder: Folder) -> None:
    folder.write("file", "12345")
    assert folder.begin(limit=4).files["file"].digest is None
    assert folder.list_differing(limit=4) == []
    folder.write("file", "123456")
    assert folder.list_differing(limit=4) == ["file"]


def test_git_is_looked_into_only_when_asked_for(folder: Folder) -> None:
    folder.write("sub/.git/HEAD")
    folder.write("sub/file")
    assert [*folder.look().files] == ["sub/file"]
    assert sorted(folder.look(git=True).files) == ["sub/.git/HEAD", "sub/file"]


def test_a_content_longer_than_a_block_comes_back_whole(folder: Folder) -> None:
    data = os.urandom(2**20 + 3)
    for name in ("one", "two"):
        (folder.path / name).write_bytes(data)
    files = folder.look().files
    assert files["one"].digest is not None
    assert files["one"].digest == files["two"].digest
    assert b"".join(folder.contents.read_blocks(files["one"].digest)) == data


# --- the way back ------------------------------------------------------------------------------------------


def test_what_is_spared_stays_unless_it_stands_in_the_way(folder: Folder) -> None:
    file = folder.write("src/file")
    folder.begin()
    outside = folder.path.parent / "elsewhere"
    outside.mkdir()
    file.unlink()
    file.parent.rmdir()
    file.parent.symlink_to(outside)
    out, junk = folder.write("build/out"), folder.write("junk")
    folder.restore({"src", "build/out"})
    assert file.read_text(encoding="utf-8") == "old"
    assert not file.parent.is_symlink()
    assert list(outside.iterdir()) == []
    assert out.exists()
    assert not junk.exists()


def test_what_was_closed_meanwhile_is_brought_back(folder: Folder) -> None:
    file = folder.write("src/file")
    file.chmod(0o640)
    folder.begin()
    file.chmod(0)
    new = folder.write("src/new")
    file.parent.chmod(0o500)
    folder.restore()
    assert file.read_text(encoding="utf-8") == "old"
    assert file.stat().st_mode & 0o777 == 0o640
    assert not new.exists()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is closed to root")
def test_what_a_closed_folder_has_is_seen_and_the_folder_stays_closed(folder: Folder) -> None:
    inner = folder.write("src/in/file").parent
    folder.begin()
    folder.write("src/in/new")
    inner.chmod(0)
    inner.parent.chmod(0o200)
    assert folder.list_differing() == ["src/in/new"]
    assert inner.parent.stat().st_mode & 0o777 == 0o200
    folder.restore()
    assert [path.name for path in inner.iterdir()] == ["file"]


@pytest.mark.parametrize("instead", ["nothing", "a link", "a file", "a pipe"])
def test_the_way_back_leads_back_where_the_folder_itself_is_gone(folder: Folder, instead: str) -> None:
    precious = folder.path.parent / "precious"
    precious.mkdir()
    (precious / "file").touch()
    file = folder.write("src/file")
    folder.begin()
    folder.path.rename(folder.path.parent / "moved")
    match instead:
        case "a link":
            folder.path.symlink_to(precious)
        case "a file":
            folder.path.touch()
        case "a pipe":
            os.mkfifo(folder.path)
    folder.restore()
    assert file.read_text(encoding="utf-8") == "old"
    assert [path.name for path in precious.iterdir()] == ["file"]


def test_a_pipe_in_the_place_of_a_file_is_replaced_by_the_file(folder: Folder) -> None:
    file = folder.write("file")
    folder.begin()
    file.unlink()
    os.mkfifo(file)
    folder.restore()
    assert file.read_text(encoding="utf-8") == "old"


NAMES = st.sampled_from(["a", "b", "a/c", "a/d", "b/c/e", ".git/x"])
THING = st.one_of(st.binary(max_size=3), st.sampled_from(["folder", "-> a", "-> /nowhere", "run", "nothing"]))
TREE = st.lists(st.tuples(NAMES, THING), max_size=8)


def _lay(root: Path, tree: list[tuple[str, bytes | str]]) -> None:
    """Makes what each item says, unless a folder is there or a file or link is above it."""
    for name, thing in tree:
        path = root / name
        if any(parent.is_symlink() or parent.is_file() for parent in path.parents):
            continue
        if path.is_symlink() or path.is_file():
            path.unlink()
        if path.is_dir():
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(thing, bytes):
            path.write_bytes(thing)
        elif thing.startswith("-> "):
            path.symlink_to(thing[3:])
        elif thing == "folder":
            path.mkdir()
        elif thing == "run":
            path.touch(0o755)


def _read_tree(root: Path) -> dict[str, object]:
    contents: dict[str, object] = {}
    for path in root.rglob("*"):
        is_file = path.is_file() and not path.is_symlink()
        content: object = path.read_bytes() if is_file else path.readlink() if path.is_symlink() else None
        contents[str(path)] = (path.lstat().st_mode if is_file else 0, content)
    return contents


@pytest.mark.slow
@settings(max_examples=40)
@given(TREE, TREE)
def test_the_way_back_leads_back_whatever_was_done(
    first: list[tuple[str, bytes | str]], then: list[tuple[str, bytes | str]]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "root"
        root.mkdir()
        contents = ContentStore(Path(name))
        _lay(root, first)
        snapshot, tree = take_snapshot(root, contents, limit=None, git=True), _read_tree(root)
        for path in sorted(root.rglob("*"), reverse=True)[::2]:
            if path.is_dir() and not path.is_symlink():
                if not any(path.iterdir()):
                    path.rmdir()
            else:
                path.unlink()
        _lay(root, then)
        restore_snapshot(root, snapshot, take_snapshot(root, contents, snapshot, git=True), contents)
        assert _read_tree(root) == tree
        contents.close()
