"""Files named by a suite argument, and reports that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proctor.errors import UsageError
from proctor.services.runs.config import Config
from proctor.services.runs.reading.report import check_report_paths, write_report
from proctor.services.suites.file_source import source_from_path
from proctor.services.suites.suite_argument import SuiteLocator
from support.builders import make_case, make_report, make_score, make_trial


def _touch(*paths: str) -> None:
    for path in paths:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text("x\n", encoding="utf-8")


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("mien", "'mine'"),
        ("all", "contains no suite"),
        ("twice", "twice.csv, suites/twice.jsonl"),
        ("", "is empty"),
    ],
)
def test_a_word_for_nothing_says_what_there_is(folder: Path, word: str, hint: str) -> None:
    _touch("suites/mine.jsonl", "suites/twice.jsonl", "suites/twice.csv", "all/notes.md")
    with pytest.raises(UsageError) as caught:
        SuiteLocator().find(word)
    assert hint in str(caught.value)


def test_a_word_for_nothing_is_told_with_the_names_in_the_store_and_in_the_project(folder: Path) -> None:
    locator = SuiteLocator(
        saved_names=lambda name: [] if name else ["saved"],
        config=Config(flags={"suite": ["set/own.jsonl", "typo"]}),
    )
    with pytest.raises(UsageError, match="Expected one of: cheap, comprehensive, moderate, saved, set/own"):
        locator.find("typo")


def test_a_file_is_suggested_for_its_name_without_the_ending(folder: Path) -> None:
    _touch("q.csv")
    with pytest.raises(UsageError, match=r"Did you mean 'q\.csv'\?$"):
        SuiteLocator().find("q")


def test_of_many_names_ten_are_listed_and_the_command_that_lists_all(folder: Path) -> None:
    saved = [f"a{number}" for number in range(9)]
    with pytest.raises(UsageError) as caught:
        SuiteLocator(saved_names=lambda name: [] if name else saved).find("zzz")
    hint = str(caught.value).partition("name of a suite. ")[2]
    assert hint == (
        f"Expected one of: {', '.join(saved)}, cheap and 2 more. To list those in the store: "
        "`proctor suites list`."
    )


def test_a_source_can_be_read_again_and_again_and_sees_its_neighbours(folder: Path) -> None:
    _touch("one/a.jsonl", "one/b.toml")
    source = source_from_path(Path("one/a.jsonl"))
    assert [list(source.read_lines()) for _ in range(2)] == [[b"x\n"]] * 2
    assert source.read_sibling("b.toml") == b"x\n"
    assert source.read_sibling("c.toml") is None


def test_a_source_that_cannot_be_opened_or_named_is_told(folder: Path) -> None:
    for path in (Path("missing"), folder / "missing", Path(os.fsdecode(b"\xe9"))):
        with pytest.raises(UsageError):
            source_from_path(path)


# --- files that are written --------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["x", "x.txt", "x.jsonl.gz", ".json", "no/x.json", "folder.json"])
def test_what_cannot_be_written_is_known_beforehand(folder: Path, path: str) -> None:
    Path("folder.json").mkdir()
    with pytest.raises(UsageError) as caught:
        check_report_paths(["fine.json", path])
    assert repr(path) in str(caught.value)


@pytest.mark.parametrize("path", ["x.json", "X.JSONL", "a b.csv", "deep/x.md", "x.xml", "x.html"])
def test_what_can_be_written_passes(folder: Path, path: str) -> None:
    Path("deep").mkdir()
    check_report_paths([path])


class _FailingReport:
    """Rows that cannot be read to their end."""

    def __init__(self, report: Any) -> None:
        self.run, self.tally, self.exit_code = report.run, report.tally, report.exit_code
        self._rows, self.looks = report.rows, report.looks
        self.bundle, self.calibrations = report.bundle, report.calibrations
        self.people_rate = report.people_rate

    def rows(self) -> Iterator[Any]:
        yield from self._rows()
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("ending", ["html", "json", "jsonl", "csv", "md", "xml"])
def test_a_file_stays_as_it_was_when_the_new_one_cannot_be_finished(folder: Path, ending: str) -> None:
    good = make_report((make_trial("4", make_score(0.0)), make_case()))
    path = f"out.{ending}"
    write_report(path, [good])
    before = Path(path).read_bytes()
    with pytest.raises(UsageError, match="No space left"):
        write_report(path, [_FailingReport(good)])  # type: ignore[list-item]  # has what a report looks at
    assert Path(path).read_bytes() == before
    assert [entry.name for entry in folder.iterdir()] == [path]
