"""The log of the files that a watched run reads."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from proctor.cli.run_and_report import FILE_LOG_VARIABLE, open_file_log
from proctor.services.file_log import FileLog, file_state, list_files, read_log
from proctor.services.suites.file_source import source_from_path
from proctor.services.suites.load import load_source


def test_the_state_before_the_first_reading_is_kept(tmp_path: Path) -> None:
    path, log = tmp_path / "a.txt", FileLog(tmp_path / "log.json")
    path.write_text("one", encoding="utf-8")
    log.add(path)
    before = file_state(str(path))
    path.write_text("other", encoding="utf-8")
    log.add(path)
    log.save()
    assert read_log(tmp_path / "log.json").files == {str(path): before}
    assert file_state(str(path)) != before


def test_what_a_suite_reads_looks_for_and_lists_is_logged(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    folder = tmp_path / "evals"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "a.txt").write_text("text", encoding="utf-8")
    (tmp_path / "shared.md").write_text("text", encoding="utf-8")
    suite = folder / "s.yaml"
    suite.write_text("tests: []", encoding="utf-8")
    log = FileLog(tmp_path / "log.json")
    source = source_from_path(suite, log=log)
    assert source.find_file("shared.md") is not None
    assert source.find_within("data/a.txt") is not None
    assert source.read_sibling("s.md") is None
    assert source.expand_glob("data/*.txt") == ["data/a.txt"]
    assert source.find_program("grade") is None
    files = log.contents.files
    assert files[str(suite)]
    assert files[str(folder / "data" / "a.txt")]
    assert files[str(tmp_path / "shared.md")]
    assert files[str(folder / "shared.md")] is None  # it would come first
    assert files[str(folder / "s.md")] is None
    assert log.contents.listings[0].names == (str(folder / "data" / "a.txt"),)
    assert str(folder / ".agentv" / "assertions") in {listing.folder for listing in log.contents.listings}


@pytest.mark.parametrize("name", ["chat.jsonl", "arithmetic.jsonl"])
def test_a_suite_is_read_the_same_with_and_without_a_log(name: str, tmp_path: Path) -> None:
    path = Path(__file__).parents[2] / "examples" / name
    log = FileLog(tmp_path / "log.json")
    with_log = load_source(source_from_path(path, os.environ, log=log))
    assert with_log.suite == load_source(source_from_path(path, os.environ)).suite
    assert str(path) in log.contents.files


def test_files_that_editors_make_for_a_moment_are_in_no_listing(tmp_path: Path) -> None:
    for name in ("a.yaml", "a.yaml~", ".a.yaml.swp", "b.tmp", ".hidden/c.yaml", "deep/d.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    expected = tuple(str(tmp_path / name) for name in ("a.yaml", "deep/d.yaml"))
    assert list_files(str(tmp_path), "**") == expected
    log = FileLog(tmp_path / "log.json")
    log.add_tree(tmp_path)
    assert tuple(log.contents.files) == expected


def test_ignored_files_are_not_logged_and_change_nothing(tmp_path: Path) -> None:
    path, ignored = tmp_path / "a.txt", tmp_path / "out.txt"
    for file in (path, ignored):
        file.touch()
    os.utime(path, (1, 1))
    log = FileLog(tmp_path / "log.json")
    log.contents.ignored.append(str(ignored))
    log.save()
    again = FileLog(tmp_path / "log.json")
    again.add(path, ignored)
    assert list(again.contents.files) == [str(path)]
    assert again.newest_change([ignored]) is None
    changed = again.newest_change([path, ignored])
    assert changed is not None
    assert changed.timestamp() == pytest.approx(path.stat().st_ctime, abs=1e-3)  # not what utime pretends


def test_only_a_watched_process_has_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FILE_LOG_VARIABLE, raising=False)
    assert open_file_log() is None
    monkeypatch.setenv(FILE_LOG_VARIABLE, str(tmp_path / "log.json"))
    assert open_file_log() is not None
    assert open_file_log() is None  # nor have the programs that it starts
