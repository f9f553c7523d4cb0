"""What was changed in a folder, as a unified diff."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proctor.workspaces import diffs as changes
from proctor.workspaces.copying import remove_tree
from proctor.workspaces.snapshots import MAX_CONTENT_BYTES
from support.workspaces import Folder, Ground


async def test_nothing_changed_is_none(folder: Folder) -> None:
    folder.write("file", "text\n")
    folder.begin()
    (folder.path / "file").touch()
    (folder.path / "empty").mkdir()
    assert await folder.changes() is None


async def test_an_edit_a_new_and_a_deleted_file_are_told_as_git_tells_them(folder: Folder) -> None:
    folder.write("edited", "one\ntwo\nthree\n")
    folder.write("gone", "old\n")
    folder.begin()
    folder.write("edited", "one\n2\nthree")
    (folder.path / "gone").unlink()
    folder.write("new folder/new", "born\n")
    assert await folder.changes() == (
        "diff --git a/edited b/edited\n"
        "index 4cb29ea..a623a0b 100644\n"
        "--- a/edited\n+++ b/edited\n"
        "@@ -1,3 +1,3 @@\n one\n-two\n-three\n+2\n+three\n\\ No newline at end of file\n"
        "diff --git a/gone b/gone\n"
        "deleted file mode 100644\n"
        "index 3367afd..0000000\n"
        "--- a/gone\n+++ /dev/null\n"
        "@@ -1 +0,0 @@\n-old\n"
        "diff --git a/new folder/new b/new folder/new\n"
        "new file mode 100644\n"
        "index 0000000..078b2f6\n"
        "--- /dev/null\n+++ b/new folder/new\t\n"
        "@@ -0,0 +1 @@\n+born\n"
    )


def _rename_file(folder: Folder) -> None:
    (folder.path / "old").rename(folder.path / "né w")


def _make_binary(folder: Folder) -> None:
    (folder.path / "old").write_bytes(b"\0\1")


def _make_executable(folder: Folder) -> None:
    (folder.path / "old").chmod(0o755)


def _add_link(folder: Folder) -> None:
    (folder.path / "link").symlink_to("/nowhere")


def _replace_by_folder(folder: Folder) -> None:
    (folder.path / "old").unlink()
    folder.write("old/new", "born\n")


def _add_nested_repository(folder: Folder) -> None:
    folder.write("sub/.git/HEAD", "ref: refs/heads/main\n")
    folder.write("sub/file", "in it\n")


def _ignored(folder: Folder) -> None:
    folder.write(".gitignore", "*\n")
    folder.write(".gitattributes", "* -diff\n")


def _odd_names(folder: Folder) -> None:
    folder.write('q"u o\nte', "x\n")
    folder.write(":(top)x", "x\n")


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (_rename_file, ["similarity index 100%", "rename from old\n", "rename to né w\n"]),
        (_make_binary, ["Binary files a/old and b/old differ"]),
        (_make_executable, ["old mode 100644", "new mode 100755"]),
        (_add_link, ["diff --git a/link b/link\nnew file mode 120000", "+/nowhere"]),
        (_replace_by_folder, ["+++ /dev/null", "+++ b/old/new"]),
        (_add_nested_repository, ["+++ b/sub/file", "+in it"]),
        (_ignored, ["+++ b/.gitignore", "+* -diff"]),
        (_odd_names, ['diff --git "a/q\\"u o\\nte" "b/q\\"u o\\nte"', "+++ b/:(top)x"]),
    ],
)
async def test_a_change_of_another_kind_is_told(
    folder: Folder, change: Callable[[Folder], None], parts: list[str]
) -> None:
    folder.write("old", "".join(f"line {number}\n" for number in range(9)))
    folder.begin()
    change(folder)
    text = await folder.changes() or ""
    assert [part for part in parts if part not in text] == []
    assert ".git/HEAD" not in text


async def test_of_what_is_too_large_only_the_name_is_told(folder: Folder) -> None:
    folder.write("big", "x" * 3_000_000)
    folder.begin()
    folder.write("big", "y" * 3_000_000)
    folder.write("huge\n", "x" * (MAX_CONTENT_BYTES + 1))
    folder.write("small", "s\n")
    text = await folder.changes() or ""
    assert "+s\n" in text
    assert text.endswith(
        "diff --git a/big b/big\n"
        "Files a/big and b/big differ (too large, too deep or closed)\n"
        'diff --git "a/huge\\n" "b/huge\\n"\n'
        'Files /dev/null and "b/huge\\n" differ (too large, too deep or closed)\n'
    )


@pytest.mark.slow
async def test_of_what_lies_very_deep_only_the_name_is_told(folder: Folder) -> None:
    deep = folder.path
    for _ in range(1_200):
        deep = deep / "d"
        deep.mkdir()
    (deep / "file").touch()
    folder.write("small", "s\n")
    text = await folder.changes() or ""
    remove_tree(folder.path / "d")
    assert "+s\n" in text
    assert text.endswith("/d/d/file differ (too large, too deep or closed)\n")


@pytest.mark.slow
async def test_a_long_diff_is_cut_at_a_line_and_says_so(folder: Folder) -> None:
    folder.write("long", "12345678\n" * 150_000)
    text = await folder.changes() or ""
    lines = text.splitlines()
    assert changes.MAX_DIFF_LENGTH - 20 < len(text) < changes.MAX_DIFF_LENGTH + 100
    assert lines[-2] == "+12345678"
    assert lines[-1] == "(The diff is cut here: 500,120 more characters are left out.)"


@pytest.mark.slow
async def test_many_files_at_once_are_told_or_named(folder: Folder) -> None:
    for number in range(2_010):
        folder.write(f"{number:04}", "x\n")
    text = await folder.changes() or ""
    assert text.count("\n+x\n") == 2_000
    assert text.count("(too large, too deep or closed)") == 10


LINES = st.lists(
    st.sampled_from(["a", "b", "", "diff --git a/x a/x", "rename from a/y", "--- a/z"]), max_size=8
)


@pytest.mark.slow
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(old=st.dictionaries(st.sampled_from("xyz"), LINES), new=st.dictionaries(st.sampled_from("xyz"), LINES))
async def test_the_diff_applied_to_the_old_files_gives_the_new_ones(
    ground: Ground, old: dict[str, list[str]], new: dict[str, list[str]]
) -> None:
    shutil.rmtree(ground.suite / "folder", ignore_errors=True)
    folder = Folder(ground)
    for name, lines in old.items():
        folder.write(name, "\n".join(lines))
    folder.begin()
    copy = ground.suite / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder.path, copy)
    for name in old:
        (folder.path / name).unlink()
    for name, lines in new.items():
        folder.write(name, "\n".join(lines))
    diff = await folder.changes()
    if diff is not None:
        subprocess.run(
            ["git", "apply", "-"],
            cwd=copy,
            input=diff.encode(),
            check=True,
            env={**os.environ, "GIT_CEILING_DIRECTORIES": str(ground.suite.parent)},
        )
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == {
        path.name: path.read_bytes() for path in folder.path.iterdir()
    }
    folder.contents.close()
