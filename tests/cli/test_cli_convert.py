"""`proctor convert`: to stdout, to files, errors, and `--lossy`."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.waiting import PATIENCE_S

ROWS: list[dict[str, Any]] = [
    {"id": "sum", "input": "What is 3 + 4?", "expected": "7", "scorer": "exact", "tags": ["sums"]},
    {"id": "kind", "input": "Thank Ida.", "scorer": "llm_judge", "rubric": "Is it kind?"},
]
AGENT = """
name: tides
tests:
  - id: moon
    input: Why are there tides?
    criteria: Names the moon.
"""


@pytest.fixture
def tides(folder: Path) -> str:
    (folder / "tides.jsonl").write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    return "tides.jsonl"


def digest(proctor: Callable[..., Any], path: str) -> str:
    return str(proctor("hash", path).out.split()[0])


def test_without_output_the_file_is_printed_and_nothing_else(
    proctor: Callable[..., Any], tides: str, folder: Path
) -> None:
    result = proctor("convert", tides, "--to", "proctor")
    assert (result.code, result.err) == (0, "")
    header, *cases = map(json.loads, result.out.splitlines())
    assert header["proctor"] == 1
    assert [case["id"] for case in cases] == ["sum", "kind"]
    assert [path.name for path in folder.iterdir()] == [tides]


def test_a_file_that_is_written_is_the_same_suite(proctor: Callable[..., Any], tides: str) -> None:
    result = proctor("convert", tides, "--to", "proctor", "-o", "deep/tides.jsonl")
    assert (result.code, result.err) == (0, "")
    assert result.out == "Wrote deep/tides.jsonl: 2 cases in format proctor\n"
    assert digest(proctor, "deep/tides.jsonl") == digest(proctor, tides)
    assert proctor("convert", "deep/tides.jsonl", "--to", "meridian", "-o", "back/").code == 0
    assert digest(proctor, "back/tides.jsonl") == digest(proctor, tides)


def test_what_a_format_cannot_express_is_listed_and_nothing_is_written(
    proctor: Callable[..., Any], tides: str, folder: Path
) -> None:
    result = proctor("convert", tides, "--to", "pramana", "-o", "x.jsonl")
    assert (result.code, result.out) == (4, "")
    assert "tides.jsonl: error: Case 'sum': the format pramana cannot express `category`: " in result.err
    assert (
        "tides.jsonl: error: Case 'kind': the format pramana cannot express `assertions[0]`: " in result.err
    )
    assert result.err.splitlines()[-1] == (
        "Nothing was written: format pramana cannot express everything in 2 cases. With --lossy, it is "
        "moved to the metadata of its case."
    )
    assert not (folder / "x.jsonl").exists()


def test_lossy_writes_the_file_and_warns_of_what_is_lost(
    proctor: Callable[..., Any], tides: str, folder: Path
) -> None:
    result = proctor("convert", tides, "--to", "pramana", "-o", "x.jsonl", "--lossy")
    assert result.code == 0
    assert "tides.jsonl: warning: Case 'sum': the format pramana cannot express `category`" in result.err
    assert "more with the code unsayable." in result.err
    assert "error" not in result.err
    rows = [json.loads(line) for line in (folder / "x.jsonl").read_text(encoding="utf-8").splitlines()]
    assert rows[1]["metadata"]["proctor"]["assertions"][0]["params"] == {"rubric": "Is it kind?"}
    assert proctor("validate", "x.jsonl").code == 0


def test_the_name_of_a_suite_that_refuses_as_a_whole_is_told(
    proctor: Callable[..., Any], folder: Path
) -> None:
    (folder / "tides.yaml").write_text(AGENT, encoding="utf-8")
    result = proctor("convert", "tides.yaml", "--to", "meridian")
    assert result.code == 4
    assert "tides.yaml: error: Suite 'tides': the format meridian cannot express `pass_rule`: " in result.err
    assert "cannot express everything in the suite's own fields and 1 case." in result.err


def test_a_file_that_is_there_is_not_replaced_unless_forced(
    proctor: Callable[..., Any], tides: str, folder: Path
) -> None:
    (folder / "x.jsonl").write_text("mine", encoding="utf-8")
    result = proctor("convert", tides, "--to", "proctor", "-o", "x.jsonl")
    assert (result.code, result.out) == (4, "")
    assert "These files already exist: x.jsonl." in result.err
    assert (folder / "x.jsonl").read_text(encoding="utf-8") == "mine"
    assert proctor("convert", tides, "--to", "proctor", "-o", "x.jsonl", "--force").code == 0
    assert digest(proctor, "x.jsonl") == digest(proctor, tides)


@pytest.mark.slow
def test_a_suite_of_many_files_needs_a_folder(proctor: Callable[..., Any], tides: str, folder: Path) -> None:
    result = proctor("convert", tides, "--to", "ai_tester", "--lossy")
    assert (result.code, result.out) == (4, "")
    assert "Name a folder for them with -o FOLDER/." in result.err
    assert proctor("convert", tides, "--to", "ai_tester", "--lossy", "-o", "notes").code == 0
    assert (folder / "notes" / "sum.md").is_file()
    assert "2 cases in format ai_tester" in proctor("validate", "notes").out


def test_a_suite_in_the_store_can_be_converted(proctor: Callable[..., Any], tides: str, folder: Path) -> None:
    expected = digest(proctor, tides)
    assert proctor("run", tides, "--target", "echo", "--judge", "echo").code in (1, 3)
    (folder / tides).unlink()
    assert proctor("convert", "tides", "--to", "proctor", "-o", "x.jsonl").code == 0
    assert digest(proctor, "x.jsonl") == expected


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nowhere", "--to", "proctor"), "There is no suite 'nowhere'"),
        (("tides.jsonl", "--to", "promptfoo"), "the format 'promptfoo' but cannot write them."),
        (("tides.jsonl", "--to", "pramna"), "Did you mean 'pramana'?"),
        (("tides.jsonl",), "--to"),
        (("tides.jsonl", "--to", "proctor", "--store", "no.db"), "no.db"),
        (("tides.jsonl", "--to", "proctor", "--dialect", "agentv"), "error"),
    ],
)
def test_wrong_usage_is_an_error(
    proctor: Callable[..., Any], tides: str, words: tuple[str, ...], message: str
) -> None:
    result = proctor("convert", *words)
    assert (result.code, result.out) == (4, "")
    assert message in result.err


def test_a_suite_with_errors_is_not_converted(proctor: Callable[..., Any], folder: Path) -> None:
    (folder / "bad.jsonl").write_text(
        '{"id": "a", "input": "x"}\n{"id": "b", "input": "x", "expected": "y"}\n'
    )
    result = proctor("convert", "bad.jsonl", "--to", "proctor", "--dialect", "meridian")
    assert (result.code, result.out) == (4, "")
    assert "bad.jsonl:1: error: " in result.err


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="there is no full disk here")
@pytest.mark.parametrize(
    ("ending", "code", "message"), [(">/dev/full", 4, b"No space left"), (">&-", 0, b"")]
)
def test_a_full_disk_is_an_error_and_a_closed_stdout_is_none(
    tides: str, ending: str, code: int, message: bytes
) -> None:
    command = f"{shlex.quote(sys.executable)} -m proctor convert {tides} --to proctor {ending}"
    result = subprocess.run(["/bin/sh", "-c", command], capture_output=True, timeout=PATIENCE_S, check=False)
    assert result.returncode == code
    assert message in result.stderr
    assert b"fault of Proctor" not in result.stderr


def test_a_store_that_is_only_configured_need_not_be_there(
    proctor: Callable[..., Any], tides: str, folder: Path
) -> None:
    (folder / "proctor.toml").write_text('store = "runs/mine.db"\n')
    assert proctor("convert", tides, "--to", "proctor").code == 0


# --- the same verdicts -------------------------------------------------------------------------------------


@pytest.fixture
def verdicts(proctor: Callable[..., Any], folder: Path) -> Callable[[str, str], dict[str, str]]:
    """The verdict of each case of a suite when every answer is the same."""

    def of(suite: str, answer: str) -> dict[str, str]:
        (folder / "answers.jsonl").write_text(json.dumps({"*": answer}))
        proctor("run", suite, "--target", "scripted:answers.jsonl", "--quiet", "-o", "trials.jsonl")
        rows = (folder / "trials.jsonl").read_text(encoding="utf-8").splitlines()
        return {row["case_id"]: row["verdict"] for row in map(json.loads, rows)}

    return of


PEAKS = [
    {"id": "high", "input": "Which peak is the highest?", "expected": "Everest", "scorer": "contains"},
    {"id": "second", "input": "And the second?", "expected": "K2", "scorer": "exact"},
    {"id": "third", "input": "And the third?", "expected": "^Kan", "scorer": "regex"},
]
THRESHOLD = """
name: peaks
execution: {threshold: 0.7}
tests:
  - id: high
    input: Which peak is the highest?
    expected_output: Everest
    assertions: [{type: icontains, value: Everest}]
  - id: second
    input: And the second?
    expected_output: K2
    assertions: [{type: equals, value: K2}]
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text", "to", "path"),
    [
        ("peaks.jsonl", "\n".join(map(json.dumps, PEAKS)), "agentv", "new/peaks.eval.yaml"),
        ("peaks.yaml", THRESHOLD, "meridian", "new/peaks.jsonl"),
    ],
)
def test_a_pass_rule_in_other_words_gives_the_same_verdicts(
    proctor: Callable[..., Any],
    verdicts: Callable[[str, str], dict[str, str]],
    folder: Path,
    name: str,
    text: str,
    to: str,
    path: str,
) -> None:
    (folder / name).write_text(text, encoding="utf-8")
    result = proctor("convert", name, "--to", to, "-o", "new/")
    assert result.code == 0
    assert f"Suite 'peaks': format {to} has no " in result.err
    results = set()
    for answer in ("Everest", "K2", "Kan", "Kanchenjunga and Everest", "no idea"):
        assert verdicts(path, answer) == verdicts(name, answer)
        results |= set(verdicts(name, answer).values())
    assert results == {"pass", "fail"}


WORKSPACE = AGENT + "    workspace: {template: ./tpl}\n"


@pytest.mark.parametrize(("output", "has_note"), [("near.jsonl", False), ("away/far.jsonl", True)])
def test_a_suite_that_moves_away_from_what_it_names_says_so(
    proctor: Callable[..., Any], folder: Path, output: str, has_note: bool
) -> None:
    (folder / "tpl").mkdir()
    (folder / "tpl" / "a.txt").write_text("a")
    (folder / "tides.yaml").write_text(WORKSPACE, encoding="utf-8")
    result = proctor("convert", "tides.yaml", "--to", "proctor", "-o", output)
    assert result.code == 0
    assert ("these paths are relative to 'away'" in result.err) is has_note


CHECKS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "a check that is negated": (
        "red",
        [{"grader": "required_words", "params": {"words": ["red"]}, "negated": True}],
    ),
    "a second check that is negated": (
        "red",
        [
            {"grader": "contains", "params": {"value": "red", "ignore_case": True}},
            {"grader": "length", "params": {"max_words": 5}, "negated": True},
        ],
    ),
    "a third check of another kind": (
        "red and blue",
        [
            {"grader": "contains", "params": {"value": "red"}},
            {"grader": "contains", "params": {"value": "blue"}},
            {"grader": "number", "params": {"value": 3}},
        ],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ["agentv", "meridian", "pramana"])
@pytest.mark.parametrize("what", CHECKS)
def test_no_answer_passes_a_case_that_has_lost_what_a_check_means(
    proctor: Any, folder: Path, dialect: str, what: str
) -> None:
    answer, checks = CHECKS[what]
    case = {"id": "c", "input": [{"role": "user", "content": answer}], "assertions": checks}
    (folder / "s.jsonl").write_text(
        "\n".join(map(json.dumps, ({"proctor": 1, "name": "s"}, case))), encoding="utf-8"
    )
    output = f"out.{'eval.yaml' if dialect == 'agentv' else 'jsonl'}"
    assert proctor("convert", "s.jsonl", "--to", dialect, "--lossy", "-o", output).code == 0
    for suite in ("s.jsonl", output):
        assert proctor("run", suite, "--target", "echo", "--judge", "echo", "--json").run["passed"] == 0
