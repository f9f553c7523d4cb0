"""What was in a folder, what differs now, and the way back."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.workspaces import snapshots
from proctor.workspaces.snapshots import ContentStore, Snapshot, is_same, restore_snapshot, take_snapshot
from support.waiting import wait_until


@pytest.fixture
def contents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContentStore]:
    kept = ContentStore(tmp_path_factory.mktemp("contents"))
    yield kept
    kept.close()


def _differing(one: Snapshot, two: Snapshot) -> list[str]:
    return sorted(
        path
        for path in one.files.keys() | two.files.keys()
        if not is_same(one.files.get(path), two.files.get(path))
    )


def test_every_kind_of_change_is_seen(tmp_path: Path, contents: ContentStore) -> None:
    for name in ("same", "touched", "edited", "gone", "run"):
        (tmp_path / name).write_text("old", encoding="utf-8")
    (tmp_path / "link").symlink_to("same")
    before = take_snapshot(tmp_path, contents)
    (tmp_path / "touched").touch()
    (tmp_path / "edited").write_text("new", encoding="utf-8")
    (tmp_path / "gone").unlink()
    (tmp_path / "run").chmod(0o755)
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("edited")
    (tmp_path / "folder" / "deep").mkdir(parents=True)
    (tmp_path / "folder" / "deep" / "added").touch()
    after = take_snapshot(tmp_path, contents, before)
    assert _differing(before, after) == ["edited", "folder/deep/added", "gone", "link", "run"]


def test_a_change_within_one_tick_of_the_clock_is_seen(tmp_path: Path, contents: ContentStore) -> None:
    file = tmp_path / "file"
    file.write_text("old", encoding="utf-8")
    found = file.stat()
    before = take_snapshot(tmp_path, contents)
    file.write_text("new", encoding="utf-8")
    os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert _differing(before, take_snapshot(tmp_path, contents, before)) == ["file"]


def test_a_file_settles_when_its_clock_has_ticked(
    tmp_path: Path, contents: ContentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    with monkeypatch.context() as patch:
        patch.setattr(snapshots, "_CLOCK_TICK_NS", 3600 * 10**9)
        assert not take_snapshot(tmp_path, contents).files["file"].is_settled
    wait_until(lambda: take_snapshot(tmp_path, contents).files["file"].is_settled)


def test_what_has_settled_is_not_read_again(tmp_path: Path, contents: ContentStore) -> None:
    (tmp_path / "file").write_text("old", encoding="utf-8")
    early = take_snapshot(tmp_path, contents).files["file"]
    believed = Snapshot({"file": early._replace(is_settled=True, digest=b"believed")}, ())
    doubted = Snapshot({"file": early._replace(is_settled=False, digest=b"doubted")}, ())
    assert take_snapshot(tmp_path, contents, believed).files["file"].digest == b"believed"
    assert take_snapshot(tmp_path, contents, doubted).files["file"].digest == early.digest


def test_of_a_large_file_it_is_known_that_it_changed(tmp_path: Path, contents: ContentStore) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    before = take_snapshot(tmp_path, contents, limit=4)
    assert before.files["file"].digest is None
    assert _differing(before, take_snapshot(tmp_path, contents, before, limit=4)) == []
    file.write_bytes(b"123456")
    assert _differing(before, take_snapshot(tmp_path, contents, before, limit=4)) == ["file"]


def test_git_is_looked_into_only_when_asked_for(tmp_path: Path, contents: ContentStore) -> None:
    (tmp_path / "sub" / ".git").mkdir(parents=True)
    (tmp_path / "sub" / ".git" / "HEAD").touch()
    (tmp_path / "sub" / "file").touch()
    assert [*take_snapshot(tmp_path, contents).files] == ["sub/file"]
    assert sorted(take_snapshot(tmp_path, contents, git=True).files) == ["sub/.git/HEAD", "sub/file"]


def test_a_content_longer_than_a_block_comes_back_whole(tmp_path: Path, contents: ContentStore) -> None:
    data = os.urandom(2**20 + 3)
    (tmp_path / "one").write_bytes(data)
    (tmp_path / "two").write_bytes(data)
    found = take_snapshot(tmp_path, contents).files
    assert found["one"].digest is not None
    assert found["one"].digest == found["two"].digest
    assert b"".join(contents.read_blocks(found["one"].digest)) == data


# --- the way back ------------------------------------------------------------------------------------------


def test_what_is_spared_stays_unless_it_stands_in_the_way(tmp_path: Path, contents: ContentStore) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "file").write_text("old", encoding="utf-8")
    before = take_snapshot(tmp_path, contents)
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    elsewhere.mkdir()
    (tmp_path / "src" / "file").unlink()
    (tmp_path / "src").rmdir()
    (tmp_path / "src").symlink_to(elsewhere)
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "out").touch()
    (tmp_path / "junk").touch()
    restore_snapshot(
        tmp_path, before, take_snapshot(tmp_path, contents, before), contents, {"src", "build/out"}
    )
    assert (tmp_path / "src" / "file").read_text(encoding="utf-8") == "old"
    assert not (tmp_path / "src").is_symlink()
    assert list(elsewhere.iterdir()) == []
    assert (tmp_path / "build" / "out").exists()
    assert not (tmp_path / "junk").exists()


def test_what_was_closed_meanwhile_is_brought_back(tmp_path: Path, contents: ContentStore) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "file").write_text("old", encoding="utf-8")
    (tmp_path / "src" / "file").chmod(0o640)
    before = take_snapshot(tmp_path, contents)
    (tmp_path / "src" / "file").chmod(0)
    (tmp_path / "src" / "new").touch()
    (tmp_path / "src").chmod(0o500)
    restore_snapshot(tmp_path, before, take_snapshot(tmp_path, contents, before), contents)
    assert (tmp_path / "src" / "file").read_text(encoding="utf-8") == "old"
    assert (tmp_path / "src" / "file").stat().st_mode & 0o777 == 0o640
    assert not (tmp_path / "src" / "new").exists()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is closed to root")
def test_what_a_closed_folder_has_is_seen_and_the_folder_stays_closed(
    tmp_path: Path, contents: ContentStore
) -> None:
    (tmp_path / "src" / "in").mkdir(parents=True)
    (tmp_path / "src" / "in" / "file").touch()
    before = take_snapshot(tmp_path, contents)
    (tmp_path / "src" / "in" / "new").touch()
    (tmp_path / "src" / "in").chmod(0)
    (tmp_path / "src").chmod(0o200)
    after = take_snapshot(tmp_path, contents, before)
    mode = (tmp_path / "src").stat().st_mode & 0o777
    assert _differing(before, after) == ["src/in/new"]
    assert mode == 0o200
    restore_snapshot(tmp_path, before, after, contents)
    assert [path.name for path in (tmp_path / "src" / "in").iterdir()] == ["file"]


@pytest.mark.parametrize("instead", ["nothing", "a link", "a file", "a pipe"])
def test_the_way_back_leads_back_where_the_folder_itself_is_gone(
    tmp_path: Path, contents: ContentStore, instead: str
) -> None:
    root, precious = tmp_path / "root", tmp_path / "precious"
    for folder in (root / "src", precious):
        folder.mkdir(parents=True)
        (folder / "file").write_text("old", encoding="utf-8")
    before = take_snapshot(root, contents)
    root.rename(tmp_path / "moved")
    match instead:
        case "a link":
            root.symlink_to(precious)
        case "a file":
            root.touch()
        case "a pipe":
            os.mkfifo(root)
    restore_snapshot(root, before, take_snapshot(root, contents, before), contents)
    assert (root / "src" / "file").read_text(encoding="utf-8") == "old"
    assert [path.name for path in precious.iterdir()] == ["file"]


def test_a_pipe_in_the_place_of_a_file_is_replaced_by_the_file(
    tmp_path: Path, contents: ContentStore
) -> None:
    (tmp_path / "file").write_text("old", encoding="utf-8")
    before = take_snapshot(tmp_path, contents)
    (tmp_path / "file").unlink()
    os.mkfifo(tmp_path / "file")
    restore_snapshot(tmp_path, before, take_snapshot(tmp_path, contents, before), contents)
    assert (tmp_path / "file").read_text(encoding="utf-8") == "old"


NAMES = st.sampled_from(["a", "b", "a/c", "a/d", "b/c/e", ".git/x"])
THING = st.one_of(st.binary(max_size=3), st.sampled_from(["folder", "-> a", "-> /nowhere", "run", "nothing"]))
TREE = st.lists(st.tuples(NAMES, THING), max_size=8)


def _lay(root: Path, tree: list[tuple[str, bytes | str]]) -> None:
    """Put things at places where there is room for them."""
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


def _seen(root: Path) -> dict[str, object]:
    seen: dict[str, object] = {}
    for path in root.rglob("*"):
        is_file = path.is_file() and not path.is_symlink()
        content: object = path.read_bytes() if is_file else path.readlink() if path.is_symlink() else None
        seen[str(path)] = (path.lstat().st_mode if is_file else 0, content)
    return seen


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
        wanted, seen = take_snapshot(root, contents, limit=None, git=True), _seen(root)
        for path in sorted(root.rglob("*"), reverse=True)[::2]:
            if path.is_dir() and not path.is_symlink():
                if not any(path.iterdir()):
                    path.rmdir()
            else:
                path.unlink()
        _lay(root, then)
        restore_snapshot(root, wanted, take_snapshot(root, contents, wanted, git=True), contents)
        assert _seen(root) == seen
        contents.close()
