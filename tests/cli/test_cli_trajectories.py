"""`proctor trajectories`: files of search loops, alone and side by side."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from support.cli import Proctor

TRIED = [
    ("lr", 0.1, 0.9, "keep"),
    ("lr", 0.2, 1.1, "revert"),
    ("wd", [1, 2], 0.5, "keep"),
    ("lr", 0.2, 0.6, ""),
]


def rows(score: str = "val_bpb", scale: float = 1.0) -> list[str]:
    records: list[dict[str, Any]] = [{f"baseline_{score}": scale}]
    for number, (knob, value, loss, decision) in enumerate(TRIED, 1):
        proposal = {"knob": knob, "new_value": value}
        records.append({"iter": number, "stage": "proposed", "proposal": proposal})
        records.append({"iter": number, "proposal": proposal, "decision": decision, score: loss * scale})
    return [json.dumps(row) for row in records]


@pytest.fixture
def search(folder: Path) -> Path:
    path = folder / "search.jsonl"
    path.write_text("\n".join(rows()), encoding="utf-8")
    return path


def cells(out: str) -> dict[str, list[str]]:
    """The lines of the table by their first column."""
    lines = (line.split("  ") for line in out.splitlines() if "  " in line.strip())
    return {line[0] or line[1]: [cell.strip() for cell in line[1:] if cell.strip()] for line in lines}


def test_a_file_is_shown_in_tables(proctor: Proctor, search: Path) -> None:
    result = proctor("trajectories", "search.jsonl")
    table = cells(result.out)
    assert result.code == 0
    assert result.err == ""
    assert table["iterations"] == ["4"]
    assert table["baseline"] == ["1"]
    assert table["best score"] == ["0.5"]
    assert table["at iteration"][-1] == "3"
    assert table["kept"] == ["2"]
    assert table["repeat rate"] == ["25.0%"]
    assert table["rows 'proposed'"] == ["4"]
    assert table["dropped lines"] == ["0"]
    assert table["lr"] == ["3"]
    assert table["lr = 0.2"] == ["2 (50.0%)"]
    assert table["wd = [1, 2]"] == ["1 (25.0%)"]


def test_the_curve_falls_from_the_first_best_to_the_last(proctor: Proctor, search: Path) -> None:
    assert cells(proctor("trajectories", search.name).out)[search.name] == ["0.9", "██▁▁", "0.5"]


def test_files_stand_side_by_side_and_share_one_scale(proctor: Proctor, search: Path, folder: Path) -> None:
    (folder / "half.jsonl").write_text("\n".join(rows(scale=0.5)[:-2]), encoding="utf-8")
    result = proctor("trajectories", search.name, "half.jsonl", "--window", 2)
    table = cells(result.out)
    assert table["iterations"] == ["4", "3"]
    assert table["best score"] == ["0.5", "0.25"]
    assert table["half.jsonl"] == ["0.45", "▃▃▁", "0.25"]
    assert table["1–2"] == ["0.0%", "0.0%"]
    assert table["3–4"] == ["50.0%", "0.0%"]
    assert table["lr = 0.2"] == ["2 (50.0%)", "1 (33.3%)"]


def test_a_window_that_only_one_file_has_is_a_dash_for_the_other(
    proctor: Proctor, search: Path, folder: Path
) -> None:
    (folder / "short.jsonl").write_text("\n".join(rows()[:3]), encoding="utf-8")
    assert cells(proctor("trajectories", "short.jsonl", search.name, "--window", 3).out)["4–4"] == [
        "–",
        "100.0%",
    ]


def test_files_of_one_name_are_told_by_their_paths(proctor: Proctor, search: Path, folder: Path) -> None:
    (folder / "old").mkdir()
    (folder / "old" / search.name).write_text(search.read_text("utf-8"), encoding="utf-8")
    out = proctor("trajectories", search.name, f"old/{search.name}").out
    assert f"old/{search.name}" in out
    assert cells(out)["iterations"] == ["4", "4"]


def test_score_field_and_direction_are_chosen(proctor: Proctor, folder: Path) -> None:
    (folder / "a.jsonl").write_text("\n".join(rows("acc")), encoding="utf-8")
    table = cells(proctor("trajectories", "a.jsonl", "--score-field", "acc", "--higher-is-better").out)
    assert table["best score"] == ["1.1"]
    assert table["a.jsonl"] == ["1", "▁███", "1.1"]


def test_top_limits_the_rows_and_says_so(proctor: Proctor, search: Path) -> None:
    out = proctor("trajectories", search.name, "--top", 1).out
    assert "Knobs, the 1 most frequent of 2" in out
    assert "Modes, the 1 most frequent of 3" in out
    assert "wd = [1, 2]" not in out.partition("Knobs")[2]


def test_json_is_one_object_with_everything(proctor: Proctor, search: Path) -> None:
    result = proctor("trajectories", search.name, "--json", "--window", 4, "--top", 1)
    (trajectory,) = result.json["trajectories"]
    assert result.json["exit_code"] == result.code == 0
    assert trajectory["path"] == search.name
    assert trajectory["best"]["iter"] == 3
    assert trajectory["cumulative_best"] == [0.9, 0.9, 0.5, 0.5]
    assert len(trajectory["modes"]) == 3
    assert trajectory["repeat_windows"] == [{"first": 1, "last": 4, "n": 4, "repeats": 1, "rate": 0.25}]


def test_lines_that_are_left_out_are_told_with_their_places(proctor: Proctor, search: Path) -> None:
    search.write_text("\n".join(["{half", *rows(), *["[]"] * 6]), encoding="utf-8")
    result = proctor("trajectories", search.name)
    lines = result.err.splitlines()
    assert result.code == 0
    assert cells(result.out)["dropped lines"] == ["7"]
    assert lines[0].startswith("search.jsonl:1: warning: The line is not JSON")
    assert len(lines) == 6
    assert lines[-1] == "search.jsonl: warning: 2 more lines were skipped. --json lists them all."


def test_scores_that_are_not_finite_are_counted(proctor: Proctor, search: Path) -> None:
    search.write_text("\n".join([*rows(), '{"iter": 9, "val_bpb": NaN}']), encoding="utf-8")
    result = proctor("trajectories", search.name)
    assert cells(result.out)["scores that are not finite"] == ["1"]
    assert cells(result.out)["best score"] == ["0.5"]


def test_a_search_without_a_finite_score_has_tables_and_no_chart(proctor: Proctor, folder: Path) -> None:
    (folder / "nan.jsonl").write_text('{"iter": 1, "val_bpb": NaN}\n', encoding="utf-8")
    assert proctor("trajectories", "nan.jsonl").code == 0
    result = proctor("trajectories", "nan.jsonl", "-o", "x.svg")
    assert (result.code, "No chart can be drawn: There is nothing to draw" in result.err) == (4, True)


@pytest.mark.parametrize(
    "content", ["", "\n\n", "prose\nand more\n", '{"iter": 1}\n', '[{"case_id": "a"}]', "[1, 2]"]
)
def test_a_file_without_iterations_is_5(proctor: Proctor, folder: Path, content: str) -> None:
    (folder / "x.jsonl").write_text(content, encoding="utf-8")
    for words in ((), ("--json",)):
        result = proctor("trajectories", "x.jsonl", *words)
        assert result.code == 5
        assert "x.jsonl: error: No line is an iteration with 'val_bpb'." in result.err


def test_the_fields_that_could_be_the_score_are_named(proctor: Proctor, folder: Path) -> None:
    (folder / "x.jsonl").write_text("\n".join(rows("loss")), encoding="utf-8")
    result = proctor("trajectories", "x.jsonl")
    assert result.code == 5
    assert "Set the field with --score-field. Fields with numbers: loss." in result.err


@pytest.mark.parametrize("name", ["none.jsonl", "."])
def test_a_file_that_cannot_be_read_is_4(proctor: Proctor, search: Path, name: str) -> None:
    result = proctor("trajectories", search.name, name)
    assert result.code == 4
    assert f"{name!r} cannot be read: " in result.err


@pytest.mark.slow
def test_results_are_written_by_ending(proctor: Proctor, search: Path, folder: Path) -> None:
    result = proctor("trajectories", search.name, "-o", "a.svg", "-o", "a.json", "-o", "a.MD")
    assert result.code == 0
    assert ET.parse(folder / "a.svg").getroot().tag.endswith("svg")
    assert json.loads((folder / "a.json").read_text("utf-8"))["trajectories"][0]["iterations"] == 4
    assert "| best score | 0.5 |" in (folder / "a.MD").read_text("utf-8")
    assert not list(folder.glob("*.part"))


@pytest.mark.slow
def test_the_chart_of_several_files_has_a_line_for_each(proctor: Proctor, search: Path, folder: Path) -> None:
    (folder / "half.jsonl").write_text("\n".join(rows(scale=0.5)), encoding="utf-8")
    assert proctor("trajectories", search.name, "half.jsonl", "-o", "a.svg").code == 0
    svg = (folder / "a.svg").read_text("utf-8")
    assert "search.jsonl" in svg
    assert "half.jsonl" in svg


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("a.csv", "The ending sets the format: one of .svg .json .md"),
        ("no/a.md", "does not exist"),
        ("d.md", "is a folder"),
    ],
)
def test_a_file_that_cannot_be_written_is_4_and_nothing_is_told(
    proctor: Proctor, search: Path, folder: Path, output: str, message: str
) -> None:
    (folder / "d.md").mkdir()
    result = proctor("trajectories", search.name, "-o", output)
    assert (result.code, result.out) == (4, "")
    assert message in result.err


@pytest.mark.slow
def test_what_stands_in_the_rows_neither_breaks_a_line_nor_a_cell(proctor: Proctor, folder: Path) -> None:
    proposal = {"knob": "a|b\n\u001b[31m", "new_value": "\ud800" + "x" * 400}
    (folder / "x.jsonl").write_text(
        json.dumps({"iter": 1, "val_bpb": 1, "proposal": proposal}), encoding="utf-8"
    )
    result = proctor("trajectories", "x.jsonl", "-o", "x.svg", "-o", "x.json", "-o", "x.md")
    assert result.code == 0
    assert "\u001b" not in result.out
    assert max(map(len, result.out.splitlines())) < 120
    assert r"a\|b \\x1b\[31m = " in (folder / "x.md").read_text("utf-8")
    mode = json.loads((folder / "x.json").read_text("utf-8"))["trajectories"][0]["modes"][0]
    assert mode["value"] == proposal["new_value"]


def test_a_long_search_has_a_short_curve(proctor: Proctor, folder: Path) -> None:
    lines = (json.dumps({"iter": place, "val_bpb": 1 / place}) for place in range(1, 2001))
    (folder / "x.jsonl").write_text("\n".join(lines), encoding="utf-8")
    first, curve, last = cells(proctor("trajectories", "x.jsonl").out)["x.jsonl"]
    assert (first, last) == ("1", "0.0005")
    assert len(curve) == 40
    assert curve.endswith("▁")


@pytest.mark.slow
def test_a_long_search_has_a_small_chart(proctor: Proctor, folder: Path) -> None:
    lines = (json.dumps({"iter": place, "val_bpb": 1 + place % 7}) for place in range(1, 9001))
    (folder / "x.jsonl").write_text("\n".join(lines), encoding="utf-8")
    assert proctor("trajectories", "x.jsonl", "-o", "x.svg").code == 0
    svg = (folder / "x.svg").read_text("utf-8")
    assert "and one of 5 iterations as a dot" in svg
    assert len(svg) < 1_000_000


def test_a_file_of_something_else_is_told_what_a_line_needs(proctor: Proctor, folder: Path) -> None:
    (folder / "x.jsonl").write_text('{"case_id": "a"}\n' * 2, encoding="utf-8")
    assert "Each line needs an `iter` and a `val_bpb`." in proctor("trajectories", "x.jsonl").err
