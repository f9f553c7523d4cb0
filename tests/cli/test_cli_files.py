"""Files that commands read and write, and output whose reader has closed it."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from proctor.cli.output_files import print_and_write
from proctor.errors import UsageError
from proctor.services.runs.planning.load_suites import SKIP_INVALID_HINT
from support.cli import Proctor
from support.waiting import PATIENCE_S

GOOD = b'{"id": "a", "input": "x", "expected": "x", "scorer": "exact"}\n'

# --- suites ------------------------------------------------------------------------------------------------

WRONG = {
    "empty": b"",
    "blank": b"\n\n  \n",
    "binary": bytes(range(256)) * 40,
    "png": b"\x89PNG\r\n\x1a\n" + b"\x00\xff" * 500,
    "zip": b"PK\x03\x04" + b"\x00" * 100,
    "prose": b"Dear reader,\nthis is no suite.\n",
    "list-of-numbers": b"[1, 2]\n",
    "half-a-list": b'[{"id": "a", "input": "x", "expected": "x"},\n',
    "list-comma": b'[{"id": "a", "input": "x", "expected": "x"},]\n',
    "list-latin-1": b'[{"id": "a", "input": "\xe9", "expected": "x"}]\n',
    "list-deep": b'[{"id": "a", "input": "x", "expected": ' + b"[" * 100_000,
    "pretty": b'{\n  "id": "a",\n  "input": "x",\n  "expected": "x"\n}\n',
    "number": b"42\n",
    "half-a-line": GOOD + b'{"id": "b", "inp',
    "comma": GOOD.replace(b"}\n", b"},\n"),
    "single-quotes": b"{'id': 'a', 'input': 'x', 'expected': 'x'}\n",
    "nan": b'{"id": "a", "input": "x", "expected": NaN}\n',
    "twice": GOOD + GOOD,
    "utf-16": GOOD.decode().encode("utf-16"),
    "latin-1": b'{"id": "a", "input": "\xe9", "expected": "x"}\n',
    "surrogate": b'{"id": "a", "input": "\\ud800", "expected": "x"}\n',
    "nul": b'{"id": "a\\u0000", "input": 7, "expected": "x"}\n',
    "deep": b'{"id": "a", "input": "x", "expected": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
    "long-number": b'{"id": "a", "input": "x", "expected": ' + b"9" * 10_000 + b"}\n",
    "long-line-cut": b'{"id": "a", "input": "' + b"x" * 300_000,
    "header-only": b'{"suite_name": "s", "version": "1"}\n',
    "csv-header-only": b"id,input,expected\n",
    "csv-quote": b'id,input,expected\na,"x,x\n',
    "csv-short": b"id,input,expected,scorer\na,x\n",
    "yaml": b"tests:\n  - input: x\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("name", ["s.csv", "suite"])
def test_a_file_that_is_no_suite_is_4_with_its_name_and_a_line_for_each_problem(
    proctor: Proctor, folder: Path, kind: str, name: str
) -> None:
    (folder / name).write_bytes(WRONG[kind])
    for words in (("run", name, "--target", "echo"), ("validate", name), ("hash", name)):
        result = proctor(*words)
        assert result.code == 4
        lines = result.err.removesuffix(f"{SKIP_INVALID_HINT}\n").splitlines()
        assert lines
        assert all(line.startswith(f"{name}:") for line in lines)
        assert len(result.err) < 3000


@pytest.mark.slow
@pytest.mark.parametrize("kind", WRONG)
def test_what_is_wrong_with_a_file_is_told_in_json_too(proctor: Proctor, folder: Path, kind: str) -> None:
    (folder / "s.jsonl").write_bytes(WRONG[kind])
    result = proctor("validate", "s.jsonl", "--json")
    (file,) = result.json["files"]
    assert result.code == result.json["exit_code"] == 4
    assert set(file) == {"path", "dialect", "cases", "errors", "warnings"}
    assert file["path"] == "s.jsonl"
    assert all(set(error) == {"line", "field", "case", "code", "message"} for error in file["errors"])
    assert file["errors"]
    assert all(line.startswith("s.jsonl:") for line in result.err.splitlines())


@pytest.mark.slow
@pytest.mark.parametrize(
    "content",
    [
        GOOD.strip(),
        b"\xef\xbb\xbf" + GOOD,
        GOOD.replace(b"\n", b"\r\n"),
        b"\n\n" + GOOD + b"\n \n",
        GOOD + b'{"id": "long", "input": "' + b"x" * 5_000_000 + b'", "expected": "y"}\n',
        b"\xef\xbb\xbfid;input;expected;scorer\r\na;x;x;exact\r\n",
        b"\xef\xbb\xbf\r\n[\r\n" + GOOD.strip() + b"\r\n]",
    ],
    ids=["no-end", "bom", "crlf", "blank-lines", "five-megabyte-line", "csv-bom-semicolon", "array"],
)
def test_what_editors_do_to_a_file_is_forgiven(proctor: Proctor, folder: Path, content: bytes) -> None:
    (folder / "s.jsonl").write_bytes(content)
    result = proctor("run", "s.jsonl", "--target", "echo", "--json", "--id", "a")
    assert (result.code, result.run["passed"]) == (0, 1)


@pytest.mark.parametrize("name", ["nothing", "empty-folder"])
def test_a_suite_that_is_not_there_is_4(proctor: Proctor, folder: Path, name: str) -> None:
    (folder / "empty-folder").mkdir()
    for command in (("run", "--target", "echo"), ("validate",), ("hash",)):
        result = proctor(*command, name)
        assert result.code == 4
        assert name in result.err


def test_validation_tells_every_error_and_warning_and_the_counts(proctor: Proctor, folder: Path) -> None:
    rows = [
        {"id": "a", "input": "w", "expected": 4},
        {"id": "b", "input": "x"},
        {"input": "y", "expected": "q", "colour": "red"},
        {"id": "d", "input": "z", "expected": "q"},
    ]
    (folder / "s.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    result = proctor("validate", "s.jsonl")
    assert result.code == 4
    lines = result.err.splitlines()
    assert [line.split(" ")[:2] for line in lines] == [
        ["s.jsonl:1:", "warning:"],
        ["s.jsonl:2:", "error:"],
        ["s.jsonl:3:", "error:"],
    ]
    assert "s.jsonl: 2 cases in format meridian, 2 errors, 1 warning" in result.out


def test_more_than_five_warnings_of_a_kind_are_counted_and_all_errors_are_listed(
    proctor: Proctor, folder: Path
) -> None:
    rows = [{"id": f"w{n}", "input": f"x{n}", "expected": n} for n in range(9)]
    rows += [{"id": f"e{n}", "input": "x"} for n in range(9)]
    (folder / "s.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    lines = proctor("validate", "s.jsonl").err.splitlines()
    assert sum(": error: " in line for line in lines) == 9
    assert sum(": warning: " in line for line in lines) == 6
    assert lines[-1].startswith("s.jsonl: warning: 4 more")


def test_strict_validation_fails_on_a_warning(proctor: Proctor, folder: Path) -> None:
    (folder / "s.jsonl").write_text('{"id": "a", "input": "x", "expected": 4}\n', encoding="utf-8")
    assert proctor("validate", "s.jsonl").code == 0
    assert proctor("validate", "s.jsonl", "--strict").code == 4
    assert proctor("validate", "s.jsonl", "--strict", "--json").json["exit_code"] == 4


def test_one_bad_suite_among_good_ones_keeps_all_from_running(
    proctor: Proctor, folder: Path, half: str
) -> None:
    (folder / "bad.jsonl").write_bytes(WRONG["comma"])
    assert proctor("run", half, "bad.jsonl", "--target", "echo").code == 4
    assert "No stored run matches" in proctor("runs", "list").out
    result = proctor("validate", half, "bad.jsonl")
    assert result.code == 4
    assert f"{half}: 10 cases" in result.out


def test_a_hash_depends_on_the_cases_and_not_on_their_order_or_the_files_spaces(
    proctor: Proctor, folder: Path
) -> None:
    fields = {"category": "factual", "assertion": {"type": "exact_match"}}
    fields["metadata"] = {"difficulty": "easy", "tokens_est": 1}
    rows = [{"id": name, "input": "ü", "ideal": "x", **fields} for name in ("a", "b")]
    texts = {
        "one": "\n".join(map(json.dumps, rows)),
        "two": "\n\n".join(
            json.dumps(row, ensure_ascii=False, separators=(" , ", ":  ")) for row in rows[::-1]
        ),
        "three": json.dumps(rows[0]),
        "four": json.dumps(rows, indent=1),
    }
    for name, text in texts.items():
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    out = proctor("hash", *(f"{name}.jsonl" for name in texts)).out.splitlines()
    hashes = [line.split("  ") for line in out]
    assert [path for _, path in hashes] == [f"{name}.jsonl" for name in texts]
    assert hashes[0][0] == hashes[1][0] == hashes[3][0] != hashes[2][0]
    assert proctor("run", "one.jsonl", "--target", "echo", "--json").run["suite_hash"] == hashes[0][0]


# --- results -----------------------------------------------------------------------------------------------


@pytest.fixture
def outputs(proctor: Proctor, suite: Proctor, script: Proctor) -> Any:
    """A run of four cases, one of each verdict, written in every form."""
    rows = [
        {"id": "pass", "input": "=1+1", "expected": "yes", "tags": ["x", "y"], "category": "c"},
        {"id": "fail", "input": "a|b\nc", "expected": "yes", "category": "c"},
        {"id": "error", "input": "<b>&", "expected": "yes"},
        {"id": "unscored", "input": "?", "scorer": "llm_judge", "rubric": "Good?"},
    ]
    target = script(
        rules={"pass": "yes", "fail": {"text": "no\x00\x1b[31m🦉", "latency_ms": 5.0}, "unscored": "hm"}
    )
    words = [word for ending in ("json", "jsonl", "csv", "md", "xml") for word in ("-o", f"out.{ending}")]
    result = proctor("run", suite(*rows), "--target", target, "--judge", "echo", "--json", *words)
    assert result.code == 3
    return result


def test_jsonl_has_a_line_a_trial_with_the_contracts_fields(outputs: Any, folder: Path) -> None:
    rows = [json.loads(line) for line in (folder / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(row["case_id"], row["verdict"]) for row in rows] == [
        ("pass", "pass"),
        ("fail", "fail"),
        ("error", "error"),
        ("unscored", "unscored"),
    ]
    fields = "run case_id target repeat verdict score scores output failure latency_ms usage cost_usd tags"
    fields += " category split sealed started_at"
    assert all(set(row) >= set(fields.split()) for row in rows)
    passed, failed, error, unscored = rows
    assert passed["run"] == outputs.run["run"]
    assert (passed["score"], failed["score"], error["score"], unscored["score"]) == (1.0, 0.0, None, None)
    assert passed["tags"] == ["x", "y"]
    assert failed["output"]["text"] == "no\x00\x1b[31m🦉"
    assert failed["latency_ms"] == 5.0
    assert (error["output"], error["failure"]["stage"], error["scores"]) == (None, "target", [])
    (score,) = unscored["scores"]
    expected = "grader name value outcome weight required reason entries judgments"
    assert set(score) >= set(expected.split())
    assert (score["value"], score["outcome"]) == (None, "unscored")
    assert len(score["judgments"]) == 3
    assert {row["split"] for row in rows} == {"dev", "holdout"}


def test_json_has_the_numbers_and_the_trials(outputs: Any, folder: Path) -> None:
    report = json.loads((folder / "out.json").read_text(encoding="utf-8"))
    (run,) = report["runs"]
    assert [trial["verdict"] for trial in run.pop("trials")] == ["pass", "fail", "error", "unscored"]
    assert run == outputs.run
    assert report["exit_code"] == 3


def test_an_exported_run_is_the_same_as_the_one_written_at_once(
    proctor: Proctor, outputs: Any, folder: Path
) -> None:
    looks = re.compile(rb'"looks": \d+|Holdout accessed \d+ times\.\n\n')
    for ending in ("json", "jsonl", "csv", "md", "xml"):
        assert proctor("runs", "export", outputs.run["run"], "-o", f"again.{ending}").code == 0
        again, out = ((folder / f"{name}.{ending}").read_bytes() for name in ("again", "out"))
        assert looks.sub(b"", again) == looks.sub(b"", out)  # only the number of the holdout access differs


def test_replaying_an_exported_run_gives_its_verdicts(proctor: Proctor, outputs: Any, folder: Path) -> None:
    words = ("run", "s.jsonl", "--judge", "echo", "-o", "again.jsonl", "--json")
    replayed = proctor(*words, "--target", "replay:out.jsonl")
    verdicts = {}
    for name in ("out", "again"):
        lines = (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        verdicts[name] = [(json.loads(line)["case_id"], json.loads(line)["verdict"]) for line in lines]
    assert verdicts["again"] == verdicts["out"]
    assert replayed.code == 3
    assert replayed.run["latency_ms"] == outputs.run["latency_ms"]


def test_repeats_are_replayed_each_with_its_own_output(
    proctor: Proctor, suite: Proctor, script: Proctor
) -> None:
    name = suite(("a", "x", "yes"))
    target = script(rules={"*": ["yes", "no", "yes"]})
    words = ("run", name, "--repeat", 3, "--json", "--reveal")
    first = proctor(*words, "--target", target, "-o", "out.jsonl").run
    again = proctor(*words, "--target", "replay:out.jsonl").run
    assert (first["passed"], first["failed"]) == (again["passed"], again["failed"]) == (2, 1)


def test_a_file_that_is_there_is_replaced_and_nothing_else_is_left(
    proctor: Proctor, half: str, folder: Path
) -> None:
    (folder / "out.json").write_text("old", encoding="utf-8")
    proctor("run", half, "--target", "echo", "-o", "out.json")
    assert json.loads((folder / "out.json").read_text(encoding="utf-8"))["runs"]
    assert not list(folder.glob("*.part"))


@pytest.mark.parametrize("output", ["out.json", "out.xml"])
def test_a_folder_in_the_place_of_the_file_is_told_before_anything_is_asked(
    proctor: Proctor, half: str, folder: Path, output: str
) -> None:
    (folder / output).mkdir()
    result = proctor("run", half, "--target", "echo", "-o", output, "--json")
    assert result.code == result.json["exit_code"] == 4
    assert output in result.err
    assert not (folder / ".proctor").exists()


# --- readers that have gone, and terminals that know few characters ----------------------------------------


@pytest.mark.slow
def test_the_work_is_done_to_its_end_when_nobody_reads_it(start: Proctor, half: str, folder: Path) -> None:
    process: subprocess.Popen[str] = start(
        "run", half, "--target", "echo", "-o", "out.jsonl", "-o", "out.xml"
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    complaint = process.stderr.read()
    assert (process.wait(PATIENCE_S), complaint) == (1, "")
    assert len((folder / "out.jsonl").read_text(encoding="utf-8").splitlines()) == 10
    assert (folder / "out.xml").is_file()


@pytest.mark.slow
def test_warnings_that_nobody_reads_do_not_end_a_run(start: Proctor, suite: Proctor, folder: Path) -> None:
    name = suite(*({"id": str(n), "input": "4", "expected": 4} for n in range(3)))
    process: subprocess.Popen[str] = start("run", name, "--target", "echo", "-o", "out.jsonl")
    assert process.stderr is not None
    process.stderr.close()
    assert process.stdout is not None
    assert "Completed: Dev 2/2 | Holdout 1/1\n" in process.stdout.read()
    assert process.wait(PATIENCE_S) == 0


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_json_stays_json_on_a_terminal_that_knows_few_characters(
    process: Proctor, suite: Proctor, encoding: str
) -> None:
    name = suite({"id": "é🦉", "input": "é🦉—", "expected": "x", "tags": ["ü🦉"]})
    result = process("run", name, "--target", "echo", "--json", environ={"PYTHONIOENCODING": encoding})
    assert result.code == 1
    assert list(result.run["by_tag"]) == ["ü🦉"]
    result = process("validate", name, "no-🦉", "--json", environ={"PYTHONIOENCODING": encoding})
    assert "no-🦉" in result.json["errors"][0]["message"]


@pytest.mark.slow
def test_text_is_told_on_a_terminal_that_knows_few_characters(process: Proctor, suite: Proctor) -> None:
    name = suite(("é🦉", "é🦉—", "x"))
    result = process("run", name, "--target", "echo", environ={"PYTHONIOENCODING": "ascii"})
    assert result.code == 1
    assert "FAIL" in result.out


@pytest.mark.slow
def test_names_and_answers_are_utf_8_in_files_whatever_the_locale(
    process: Proctor, suite: Proctor, folder: Path
) -> None:
    environ = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    name = suite(("é🦉", "é🦉", "é🦉"))
    words = ("-o", "out.jsonl", "-o", "out.csv", "-o", "out.md", "-o", "out.xml")
    result = process("run", name, "--target", "echo", *words, environ=environ)
    assert result.code == 0
    for ending in ("jsonl", "csv", "xml"):
        assert "é🦉" in (folder / f"out.{ending}").read_text(encoding="utf-8")


@pytest.mark.slow
def test_on_a_terminal_there_is_a_bar_and_colour_and_the_same_words(
    start: Proctor, suite: Proctor, function: Proctor
) -> None:
    name = suite(*((f"t{n}", "x", "x" if n else "no") for n in range(30)))
    target = function(
        "import asyncio\nasync def f(prompt):\n    await asyncio.sleep(0.06)\n    return prompt\n"
    )
    ours, theirs = os.openpty()
    words = ("run", name, "--target", target, "--concurrency", "6")
    environ = {"TERM": "xterm-256color", "COLUMNS": "120"}
    process: subprocess.Popen[str] = start(*words, stdout=theirs, stderr=theirs, environ=environ)
    os.close(theirs)
    data = b""
    with suppress(OSError):  # Linux raises it when the other side has closed
        while chunk := os.read(ours, 65536):
            data += chunk
    os.close(ours)
    text = data.decode("utf-8")
    assert process.wait(PATIENCE_S) == 1
    assert "/30" in text
    assert "\n1 failed · in " in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    assert "\x1b[" in text
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("render_json", "output"), [(None, "the result\n"), (lambda: "{}", "")], ids=["lines", "json"]
)
def test_json_is_printed_only_when_all_files_are_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], render_json: Callable[[], str] | None, output: str
) -> None:
    (tmp_path / "a.json").mkdir()
    with pytest.raises(UsageError, match="cannot be written"):
        print_and_write(
            [str(tmp_path / "a.json")],
            render_file=lambda _path: "{}",
            render_text=lambda: ["the result"],
            render_json=render_json,
        )
    assert capsys.readouterr().out == output
