"""The files that a name stands for, and the files around a suite that it may read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from proctor.errors import UsageError
from proctor.protocols import SuiteSource
from proctor.services.suites.file_source import source_from_path
from proctor.services.suites.load import load_suite
from proctor.services.suites.suite_argument import SuiteLocator


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a suite two folders deep, and the working directory outside of it."""
    for name in ("repo/.git", "repo/evals/deep", "elsewhere"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "elsewhere")
    write(tmp_path, "repo/evals/deep/s.yaml", "tests: []")
    return tmp_path


def write(root: Path, name: str, text: str = "x") -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def make_suite_source(root: Path) -> SuiteSource:
    return source_from_path(root / "repo/evals/deep/s.yaml", {"A": "b"})


def find_path(source: SuiteSource, reference: str) -> str | None:
    file = source.find_file(reference)
    return None if file is None else file.path


# --- words -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["office", "office.eval"])
def test_a_name_stands_for_a_file_in_suites_without_its_endings(word: str, root: Path) -> None:
    write(root, "elsewhere/suites/office.eval.yaml", "tests: []")
    assert [path.name for path in SuiteLocator().find(word).paths] == ["office.eval.yaml"]


def test_what_goes_with_a_suite_is_not_a_second_suite_of_its_name(root: Path) -> None:
    write(root, "elsewhere/suites/office.jsonl", "{}")
    write(root, "elsewhere/suites/office.yaml", "name: x\n")
    assert [path.name for path in SuiteLocator().find("office").paths] == ["office.jsonl"]


# --- files of a suite --------------------------------------------------------------------------------------


def test_a_file_is_looked_for_from_the_suites_folder_up_to_the_repositorys_then_in_the_working_one(
    root: Path,
) -> None:
    source = make_suite_source(root)
    assert find_path(source, "p.md") is None
    paths = {
        "elsewhere/p.md": "../../../elsewhere/p.md",
        "repo/p.md": "../../p.md",
        "repo/evals/p.md": "../p.md",
        "repo/evals/deep/p.md": "p.md",
    }
    write(root, "p.md", "above the repository")
    assert find_path(make_suite_source(root), "p.md") is None
    for name, path in paths.items():
        write(root, name, name)
        file = make_suite_source(root).find_file("p.md")
        assert file is not None
        assert (file.path, file.data) == (path, name.encode())


def test_without_a_repository_only_the_suites_folder_and_the_working_one_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    outside = source_from_path(write(tmp_path, "a/b/s.yaml"))
    inside = source_from_path(write(tmp_path, "here/a/b/s.yaml"))
    write(tmp_path, "a/p.md")
    write(tmp_path, "here/a/p.md")
    write(tmp_path, "here/q.md")
    assert find_path(outside, "p.md") is None
    assert find_path(outside, "q.md") == "../../here/q.md"
    assert find_path(inside, "p.md") == "../p.md"


def test_an_absolute_path_is_taken_as_it_is_and_else_from_the_folders(root: Path) -> None:
    absolute = write(root, "repo/evals/p.md")
    assert find_path(make_suite_source(root), str(absolute)) == "../p.md"
    assert find_path(make_suite_source(root), "/p.md") == "../p.md"


@pytest.mark.parametrize("name", ["", ".", "..", "deep", "x" * 5000, "a\0b", "p.md/q"])
def test_what_is_no_file_is_not_found(name: str, root: Path) -> None:
    write(root, "repo/p.md")
    assert find_path(make_suite_source(root), name) is None


def test_a_backslash_parts_folders_as_well(root: Path) -> None:
    write(root, "repo/evals/deep/a/p.md")
    assert find_path(make_suite_source(root), "a\\p.md") == "a/p.md"


# --- globs -------------------------------------------------------------------------------------------------


def test_a_glob_begins_at_the_suites_folder_and_its_files_are_sorted(root: Path) -> None:
    for name in ("b.yaml", "a.yaml", "c/x/d.yaml", "c/e.txt", ".hidden.yaml", ".dot/f.yaml", "../up.yaml"):
        write(root, f"repo/evals/deep/{name}")
    expand = make_suite_source(root).expand_glob
    assert expand("*.yaml") == ["a.yaml", "b.yaml", "s.yaml"]
    assert expand("./[ab].yaml") == ["a.yaml", "b.yaml"]
    assert expand("**/*.yaml") == ["a.yaml", "b.yaml", "c/x/d.yaml", "s.yaml"]
    assert expand("c/*") == ["c/e.txt"]
    assert expand("c/*/d.yaml") == ["c/x/d.yaml"]
    assert expand("../*.yaml") == ["../up.yaml"]
    assert expand(".dot/*.yaml") == [".dot/f.yaml"]
    assert expand(".*.yaml") == [".hidden.yaml"]
    assert expand(f"{root}/repo/evals/*.yaml") == ["../up.yaml"]
    assert expand("a.yaml") == ["a.yaml"]
    for path in expand("**/*"):
        assert find_path(make_suite_source(root), path) == path


def test_a_glob_that_ends_in_a_slash_matches_folders(root: Path) -> None:
    write(root, "repo/evals/deep/c/x/d.yaml")
    expand = make_suite_source(root).expand_glob
    assert (expand("*/"), expand("c/*/"), expand("c/"), expand("s.yaml/")) == (["c"], ["c/x"], ["c"], [])


@pytest.mark.parametrize(
    "pattern", ["", "/", "none/*.yaml", "*.none", "[", "a\0*", "***", "x" * 5000, "../../../../*/*"]
)
def test_any_other_glob_gives_a_list(pattern: str, root: Path) -> None:
    assert isinstance(make_suite_source(root).expand_glob(pattern), list)


def test_links_in_a_circle_end(root: Path) -> None:
    folder = root / "repo/evals/deep"
    (folder / "round").symlink_to(folder)
    (folder / "self.yaml").symlink_to(folder / "self.yaml")
    assert make_suite_source(root).expand_glob("**/*.yaml") == ["s.yaml", "self.yaml"]
    assert find_path(make_suite_source(root), "self.yaml") is None


def test_a_file_that_cannot_be_read_is_an_error_and_no_test_that_is_missing(root: Path) -> None:
    path = write(root, "repo/evals/deep/s.yaml", "tests: ['file://c/*.yaml']")
    write(root, "repo/evals/deep/c/a.yaml", "- {id: a, input: x, criteria: y}")
    (root / "repo/evals/deep/c/b.yaml").symlink_to("gone")
    suite = load_suite(path)
    assert [problem.code for problem in suite.errors] == ["missing-file"]
    assert "c/b.yaml" in suite.errors[0].message


# --- graders of the user's own -----------------------------------------------------------------------------


def test_a_grader_is_a_python_file_or_a_program_of_that_name_the_nearest_first(root: Path) -> None:
    program = make_suite_source(root).find_program
    assert program("polite") is None
    write(root, "repo/.agentv/assertions/polite.py")
    assert make_suite_source(root).find_program("polite") == ("python", "../../.agentv/assertions/polite.py")
    write(root, "repo/evals/.agentv/assertions/polite.sh").chmod(0o755)
    assert make_suite_source(root).find_program("polite") == ("../.agentv/assertions/polite.sh",)
    write(root, "repo/evals/.proctor/assertions/polite").chmod(0o755)
    assert make_suite_source(root).find_program("polite") == ("../.proctor/assertions/polite",)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs file modes")
def test_a_file_that_may_not_be_run_is_no_grader_and_that_is_said_where_there_is_no_other(root: Path) -> None:
    write(root, "repo/evals/.proctor/assertions/polite.js").chmod(0o644)
    (root / "repo/.proctor/assertions/loud").mkdir(parents=True)
    with pytest.raises(
        UsageError, match=r"'\.\./\.proctor/assertions/polite\.js' is not executable.*chmod \+x"
    ):
        make_suite_source(root).find_program("polite")
    assert make_suite_source(root).find_program("loud") is None
    write(root, "repo/.agentv/assertions/polite.py")
    assert make_suite_source(root).find_program("polite") == ("python", "../../.agentv/assertions/polite.py")


# --- the rest ----------------------------------------------------------------------------------------------


def test_a_suite_knows_its_folder_and_the_environment(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root / "repo")
    source = source_from_path(Path("evals/deep/s.yaml"), {"A": "b"})
    assert (source.folder, source.environ) == (str(root / "repo/evals/deep"), {"A": "b"})
    assert source.path == "evals/deep/s.yaml"


# --- files that must lie within the suite's folder ---------------------------------------------------------


def test_a_file_within_the_folder_is_read_and_named_from_there(root: Path) -> None:
    write(root, "repo/evals/deep/data/a.txt", "letters")
    for reference in ("data/a.txt", "./data/a.txt", "data\\a.txt", "data/../data/a.txt"):
        file = make_suite_source(root).find_within(reference)
        assert file is not None
        assert (file.path, file.data) == ("data/a.txt", b"letters")


@pytest.mark.parametrize(
    "reference",
    [
        "../a.txt",
        "data/../../a.txt",
        "link.txt",
        "up/a.txt",
        "loop",
        "data",
        "no.txt",
        "",
        "a\0b",
    ],
)
def test_no_path_and_no_link_leads_out_of_the_folder(root: Path, reference: str) -> None:
    outside = write(root, "repo/evals/a.txt")
    deep = root / "repo/evals/deep"
    (deep / "data").mkdir()
    (deep / "link.txt").symlink_to(outside)
    (deep / "up").symlink_to(outside.parent)
    (deep / "loop").symlink_to(deep / "loop")
    assert make_suite_source(root).find_within(reference) is None


def test_a_link_that_stays_within_the_folder_is_followed(root: Path) -> None:
    target = write(root, "repo/evals/deep/data/a.txt")
    (root / "repo/evals/deep/near.txt").symlink_to(target)
    file = make_suite_source(root).find_within("near.txt")
    assert file is not None
    assert file.data == b"x"


def test_a_suite_that_is_reached_by_a_link_has_the_folder_of_the_link(root: Path) -> None:
    write(root, "repo/evals/deep/a.txt", "beside")
    (root / "short").symlink_to(root / "repo/evals/deep")
    file = source_from_path(root / "short/s.yaml").find_within("a.txt")
    assert file is not None
    assert file.data == b"beside"
