"""`proctor bench`: files of calls side by side."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from proctor.eval import Bench
from support.cli import Proctor


@pytest.fixture
def files(folder: Path) -> None:
    """A dump and a partial file of the same 20 calls, of which two failed."""
    with Bench("dumped", ["right", "words"], partial="part.jsonl") as bench:
        for number in range(18):
            kind = {"kind": "odd" if number % 2 else "even"}
            bench.record(latency_ms=number + 1, tags=kind, right=float(number > 8), words=number * 100)
        for _ in range(2):
            bench.record(latency_ms=500, success=False, tags={"kind": "odd"})
    bench.dump("whole.json")


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("name", ["whole.json", "part.jsonl"])
def test_one_file_is_a_table_of_its_metrics(proctor: Proctor, name: str) -> None:
    result = proctor("bench", name)
    assert (result.code, result.err) == (0, "")
    lines = [line.split() for line in result.out.splitlines()]
    assert lines[1][:4] == [name, "dumped", "20", "2"]
    assert ["right", "18", "0.5", "0.2903", "–", "0.7097", "0.5", "1", "1", "2", "0.45"] in lines
    assert next(line for line in lines if line[:1] == ["latency_ms"])[:3] == ["latency_ms", "18", "9.5"]


@pytest.mark.usefixtures("files")
def test_files_and_groups_stand_side_by_side(proctor: Proctor) -> None:
    result = proctor("bench", "whole.json", "part.jsonl", "--by", "kind", "--metric", "right")
    rows = [line.split()[:5] for line in result.out.splitlines()]
    assert result.code == 0
    assert [row for row in rows if "·" in row] == [
        [name, "·", kind, "9", mean]
        for name in ("whole.json", "part.jsonl")
        for kind, mean in (("even", "0.4444"), ("odd", "0.5556"))
    ]
    assert "words" not in result.out


@pytest.mark.usefixtures("files")
def test_json_has_every_percentile(proctor: Proctor) -> None:
    result = proctor("bench", "whole.json", "--by", "kind", "--json").json
    (bench,) = result["benches"]
    assert result["exit_code"] == 0
    assert (bench["calls"], bench["failed"], bench["by"], bench["dropped"]) == (20, 2, "kind", [])
    assert bench["statistics"]["latency_ms"]["p25"] == 5.25
    assert bench["groups"]["odd"]["right"]["failed"] == 2


@pytest.mark.slow
@pytest.mark.usefixtures("files")
def test_charts_and_tables_are_written(proctor: Proctor, folder: Path) -> None:
    pytest.importorskip("vl_convert")
    outputs = ("-o", "x.svg", "-o", "x.md", "-o", "x.json")
    result = proctor("bench", "whole.json", "part.jsonl", "--metric", "right", *outputs)
    assert result.code == 0
    svg = (folder / "x.svg").read_text(encoding="utf-8")
    assert "part.jsonl" in svg
    assert "mean of right" in svg
    assert "### right" in (folder / "x.md").read_text(encoding="utf-8")
    assert len(json.loads((folder / "x.json").read_text(encoding="utf-8"))["benches"]) == 2


def test_an_exported_run_is_read(proctor: Proctor, half: str) -> None:
    assert proctor("run", half, "-t", "echo").code == 1
    for name in ("x.jsonl", "x.json"):
        assert proctor("runs", "export", "last", "-o", name).code == 0
        result = proctor("bench", name, "--json").json
        passed = result["benches"][0]["statistics"]["passed"]
        assert (passed["n"], passed["mean"], passed["unit"]) == (10, 0.5, "share")


def test_lines_that_cannot_be_used_are_told(proctor: Proctor, folder: Path) -> None:
    lines = ['{"latency_ms": 1}', *['{"latency_ms": "x"}'] * 7, '{"latency_ms": 2']
    Path("calls.jsonl").write_text("\n".join(lines), encoding="utf-8")
    result = proctor("bench", "calls.jsonl")
    assert result.code == 0
    first, *_, last = result.err.splitlines()
    assert first == "calls.jsonl:2: warning: `latency_ms` must be a number of at least 0, not 'x'."
    assert "3 more lines were skipped" in last
    assert len(proctor("bench", "calls.jsonl", "--json").json["benches"][0]["dropped"]) == 8


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (["none.json"], 4, "'none.json' cannot be read: No such file"),
        (["."], 4, "cannot be read"),
        (
            ["whole.json", "--metric", "rihgt"],
            4,
            "No call has the metric 'rihgt'. Available metrics: latency_ms, right",
        ),
        (["whole.json", "--by", "kidn"], 4, "No call has the tag 'kidn'; their tags are kind"),
        (["whole.json", "-o", "x.png"], 4, "x.png"),
        (["empty.jsonl"], 5, "The file has no calls"),
        (["whole.json", "empty.jsonl"], 5, "empty.jsonl: error: The file has no calls"),
        (["other.json"], 5, "The file has no calls"),
        (["bytes.bin"], 5, "The file has no calls"),
        (["failed.jsonl", "-o", "x.svg"], 4, "No chart can be drawn"),
        ([], 4, "Missing argument"),
    ],
)
def test_what_cannot_be_used_is_said(
    proctor: Proctor, folder: Path, words: list[str], code: int, why: str
) -> None:
    (folder / "empty.jsonl").write_bytes(b"")
    (folder / "other.json").write_bytes(b'{\n"suite": 1}')
    (folder / "bytes.bin").write_bytes(bytes(range(256)))
    (folder / "failed.jsonl").write_bytes(b'{"latency_ms": 1, "success": false}\n')
    result = proctor("bench", *words)
    assert (result.code, result.out) == (code, "")
    assert why in result.err


def test_failed_calls_alone_still_have_a_table(proctor: Proctor, folder: Path) -> None:
    (folder / "failed.jsonl").write_bytes(b'{"latency_ms": 1, "success": false}\n')
    result = proctor("bench", "failed.jsonl")
    assert result.code == 0
    assert "latency_ms  0" in result.out


@pytest.mark.slow
def test_halves_of_characters_and_numbers_beyond_a_float_break_nothing(
    process: Proctor, folder: Path
) -> None:
    pytest.importorskip("vl_convert")
    rows = [
        r'{"latency_ms": 1, "t": "\ud800", "\ud801": 3}',
        '{"latency_ms": 1.7e308, "t": "b", "m": 1.7e308}',
    ]
    (folder / "odd.jsonl").write_text("\n".join([*rows, rows[1]]), encoding="utf-8")
    outputs = ("-o", "x.svg", "-o", "x.md", "-o", "x.json")
    assert process("bench", "odd.jsonl", "--by", "t", *outputs).code == 0
    result = process("bench", "odd.jsonl", "--by", "t", "--json").json["benches"][0]
    assert result["groups"]["b"]["m"]["mean"] is None
    assert r">\ud800<" in (folder / "x.svg").read_text(encoding="utf-8")


def test_a_trial_that_is_there_twice_counts_once(proctor: Proctor, half: str, folder: Path) -> None:
    assert proctor("run", half, "-t", "echo", "-o", "x.jsonl").code == 1
    once = (folder / "x.jsonl").read_text(encoding="utf-8")
    (folder / "twice.jsonl").write_text(once + once, encoding="utf-8")
    result = proctor("bench", "twice.jsonl", "--json")
    assert result.json["benches"][0]["calls"] == 10
    assert len(result.json["benches"][0]["dropped"]) == 10
    assert "of this run appears twice; the first one counts." in result.err


def test_answers_to_one_case_are_told_not_to_be_independent(proctor: Proctor, half: str) -> None:
    for repeat, has_note in ((1, False), (2, True)):
        assert proctor("run", half, "-t", "echo", "--repeat", repeat, "-o", "x.jsonl").code == 1
        assert (
            "`proctor passk` computes intervals over cases" in proctor("bench", "x.jsonl").err
        ) == has_note
