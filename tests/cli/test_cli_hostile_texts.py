"""Two hundred hostile texts in every command and every report, checked by other software's readers."""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from proctor.cli.main import COMMANDS
from proctor.reports import REPORTS
from support.cli import Proctor
from support.hostile_texts import (
    EVIL,
    FORGED,
    HOSTILE_TEXTS,
    html_faults,
    markdown_faults,
    raw_characters,
    terminal_faults,
)

pytestmark = pytest.mark.fuzz

NAME = f"\x1b]0;own\x07[x](http://{EVIL}) <b>\u202e=1+1|\n{FORGED} @{EVIL} ::error::"
"""A text for places with room for one: a name of a suite, a file, or a missing thing."""
FILE = f"\x1b[2J\u202e[x](www.{EVIL})\n{FORGED} ::error::"


# --- what is sent through ----------------------------------------------------------------------------------


def _line(data: Any) -> str:
    return json.dumps(data) + "\n"


def _case(number: int, text: str) -> dict[str, Any]:
    call = {"name": text, "arguments": {text: text}, "output": text}
    file = {"kind": "file", "path": f"{number}/{text}.txt", "text": text}
    return {
        "id": text,
        "input": [
            {"role": "user", "content": text, "parts": [text, file]},
            {"role": "assistant", "content": text, "tool_calls": [call]},
            {"role": "user", "content": text, "name": text},
        ],
        "expected": text,
        "criteria": text,
        "assertions": [
            {"grader": "exact", "params": {"value": text + "!"}, "label": text},
            {"grader": "llm_judge", "params": {"prompt": f"Is it {text}?"}},
        ],
        "tags": [text, "all", "even" if number % 2 else "odd"],
        "category": text,
        "metadata": {"note": text},
    }


def _output(number: int, text: str) -> dict[str, Any]:
    if number % 7 == 3:
        return {"case_id": text, "failure": {"kind": text, "message": text}}
    call = {"name": text, "arguments": {text: text}, "output": {text: text}}
    output = {"text": text, "tool_calls": [call], "model": text, "finish_reason": text, "file_changes": text}
    return {"case_id": text, "output": output}


def _write_inputs(folder: Path) -> None:
    def write(name: str, *rows: Any) -> None:
        (folder / name).write_text("".join(map(_line, rows)), encoding="utf-8")

    texts = list(enumerate(HOSTILE_TEXTS))
    header = {"proctor": 1, "name": NAME, "description": NAME, "split_rule": {"ratio": 0.2}}
    cases = [_case(number, text) for number, text in texts]
    write("suite.jsonl", header, *cases)
    write("edited.jsonl", {**header, "description": "new"}, *[{**case, "expected": NAME} for case in cases])
    write(f"{FILE}.jsonl", header, *cases[:20])
    write("fine.jsonl", {**header, "name": "fine"}, *cases)
    write("wrong.jsonl", header, *({**case, case["id"]: 1} for case in cases))
    write("answers.jsonl", *(_output(number, text) for number, text in texts))
    write("others.jsonl", *({"case_id": text, "output": text + "!"} for text in HOSTILE_TEXTS))
    replies = [json.dumps({"verdict": "NO", "reason": text}) for text in HOSTILE_TEXTS]
    write("judge.jsonl", *({text: [reply, text]} for text, reply in zip(HOSTILE_TEXTS, replies, strict=True)))
    write("kinds.jsonl", *({"latency_ms": 5, "kind": text} for text in HOSTILE_TEXTS[::5]))
    write("metrics.jsonl", *({"latency_ms": 5, text: n} for n, text in texts))
    write("tasks.jsonl", *({"task_id": text, "n": 10, "passed": number % 11} for number, text in texts))
    write(
        "search.jsonl",
        {"baseline_val_bpb": 1.0},
        *({"iter": n + 1, "proposal": {"knob": t, "new_value": t}, "val_bpb": 1.0} for n, t in texts),
    )
    labelled = ("id", "input", "output", "judge_prompt")
    write("labels.jsonl", *({**dict.fromkeys(labelled, text), "label": n % 2 == 0} for n, text in texts))
    targets = [{"name": text, "provider": "cli", "command": f"echo {text}"} for text in HOSTILE_TEXTS[:60]]
    (folder / "wrong").mkdir()
    (folder / "wrong" / "targets.yaml").write_text(json.dumps({"targets": targets}), encoding="utf-8")


_RUN = ("run", "suite.jsonl", "--judge", "scripted:judge.jsonl", "--no-cache")
COMMAND_LINES: dict[str, tuple[tuple[str, ...], ...]] = {
    "run": (
        (*_RUN, "-t", "replay:answers.jsonl"),
        (*_RUN, "-t", "replay:others.jsonl", "--quiet"),
        ("run", "fine.jsonl", "--judge", "scripted:judge.jsonl", "-t", "replay:answers.jsonl", "--json"),
        ("run", f"{FILE}.jsonl", "-t", "echo", "--tag", NAME),
        ("run", NAME, "-t", "echo"),
        ("run", "suite.jsonl", "-t", NAME),
        ("run", "suite.jsonl", "-t", f"replay:{NAME}", "--json"),
        ("run", "wrong.jsonl", "-t", "echo"),
        ("run", "suite.jsonl", "-t", "echo", "--id", NAME),
    ),
    "regrade": (("regrade", "1"), ("regrade", NAME), ("regrade", "1", "--json")),
    "validate": (
        ("validate", "suite.jsonl"),
        ("validate", "suite.jsonl", "--json"),
        ("validate", "wrong.jsonl", f"{FILE}.jsonl"),
        ("validate", NAME),
    ),
    "hash": (("hash", "suite.jsonl", f"{FILE}.jsonl"), ("hash", NAME)),
    "convert": (
        *(("convert", "suite.jsonl", "--to", to, "--lossy") for to in ("proctor", "agentv", "meridian")),
        ("convert", "suite.jsonl", "--to", "ai_tester"),
        ("convert", "suite.jsonl", "--to", "agentv", "-o", "agentv/", "--lossy"),
        ("convert", "suite.jsonl", "--to", "proctor", "-o", f"{FILE}.jsonl"),
        ("convert", "suite.jsonl", "--to", NAME),
    ),
    "suites": (
        ("suites", "save", "suite.jsonl"),
        ("suites", "save", "edited.jsonl", "--name", "edited"),
        ("suites", "list"),
        ("suites", "list", "--json"),
        ("suites", "versions", NAME),
        ("suites", "show", NAME, "--cases"),
        ("suites", "show", NAME, "--cases", "--json"),
        ("suites", "diff", "suite.jsonl", "edited.jsonl"),
        ("suites", "diff", "suite.jsonl", "edited.jsonl", "--json"),
        ("suites", "export", NAME, "-o", f"{FILE}-export.jsonl"),
        ("suites", "delete", f"{NAME}@v9"),
    ),
    "runs": (
        ("runs", "list"),
        ("runs", "list", "--json"),
        ("runs", "tag", "last", "evil"),
        ("runs", "tag", "last", NAME),
        ("runs", "show", "0", "--reveal"),
        ("runs", "show", "0", "--failures", "--reveal"),
        ("runs", "show", "0", "--failures", "--reveal", "--json"),
        ("runs", "show", "0", "--case", "*", "--reveal"),
        ("runs", "show", "0", "--case", NAME),
        ("runs", "show", NAME),
        ("runs", "labels", "last"),
        ("runs", "import", NAME),
        (*_RUN, "-t", "replay:answers.jsonl", "--shard", "0/2", "--store", "shard.db", "--quiet"),
        ("runs", "merge", "shard.db", "--store", "merged.db"),
        ("runs", "merge", NAME, "--store", "merged.db"),
        ("runs", "delete", NAME),
        *(("runs", "export", "0", "-o", f"export{ending}", "--reveal") for ending in REPORTS.names()),
    ),
    "compare": (
        ("compare", "0", "1"),
        ("compare", "0", "1", "2", "--by", "tag"),
        ("compare", "0", "1", "--by", "tag", "--flips", "200", "--json"),
        (
            "compare",
            "0",
            "1",
            "--flips",
            "200",
            "-o",
            "compare.md",
            "-o",
            "compare.svg",
            "-o",
            "compare.json",
        ),
        ("compare", NAME, "1"),
    ),
    "plan": (
        ("plan", "suite.jsonl", "-o", "plan.md", "-o", "plan.json"),
        ("plan", f"{FILE}.jsonl", "--json"),
        ("plan", f"{FILE}.jsonl", "--against", "0"),
        ("plan", NAME, "--detect", NAME),
        ("plan", NAME),
    ),
    "drift": (
        ("drift", "suite.jsonl", "-t", "replay:answers.jsonl", "-o", "drift.md", "-o", "drift.svg"),
        ("drift", "suite.jsonl", "-t", "replay:answers.jsonl", "--json"),
        ("drift", NAME, "-t", NAME),
    ),
    "attest": (
        ("attest", "2", "-o", "bundle.zip"),
        ("attest", "0", "-o", FILE + ".zip", "--json"),
        ("attest", "0", "--trial", HOSTILE_TEXTS[1], "-o", "proof.json"),
        ("attest", "0", "--trial", NAME),
        ("attest", NAME),
    ),
    "verify": (
        ("verify", "bundle.zip", "proof.json", FILE + ".zip"),
        ("verify", "bundle.zip", "proof.json", "--json"),
        ("verify", NAME),
    ),
    "replay": (
        ("replay", "bundle.zip", "-t", "replay:others.jsonl", "--store", "other.db", "-o", "replay.md"),
        ("replay", "bundle.zip", "-t", NAME),
    ),
    "certify": (
        ("certify", "bundle.zip", "--force", "-o", "c.md", "-o", "c.svg", "-o", "c.json"),
        ("certify", "--judge", "scripted:judge.jsonl", "--labels", "labels.jsonl", "-o", "j.md"),
        ("certify", "--target", "replay:answers.jsonl", "-o", "t.md"),
        ("certify", NAME),
    ),
    "store": (
        ("store", "check"),
        ("store", "check", "--json"),
        ("store", "check", "--store", NAME),
        ("store", "backup", f"{FILE}.db"),
        ("store", "backup", f"{NAME}/b.db"),
        ("store", "copy", ".proctor/proctor.db", f"{FILE}-copy.db"),
        ("store", "copy", NAME, "c.db"),
        ("store", "digest", "--store", NAME),
        ("store", "digest", "--json"),
        ("store", "repair", f"{FILE}-new.db"),
        ("store", "repair", "new.db", "--json"),
        ("store", "gc", "--dry-run"),
    ),
    "keys": (("keys", "new"), ("keys", "list"), ("keys", "show", NAME), ("keys", "trust", NAME)),
    "bench": (
        ("bench", "kinds.jsonl", "--by", "kind", "-o", "bench.md", "-o", "bench.svg"),
        ("bench", "metrics.jsonl", "-o", "metrics.md"),
        ("bench", "metrics.jsonl", "--json"),
        ("bench", "kinds.jsonl", "--by", NAME),
        ("bench", NAME),
    ),
    "passk": (
        ("passk", "tasks.jsonl", "-o", "passk.md", "-o", "passk.svg"),
        ("passk", "tasks.jsonl", "--json"),
        ("passk", "suite.jsonl"),
        ("passk", NAME),
    ),
    "trajectories": (
        ("trajectories", "search.jsonl", "--top", "300", "-o", "search.md", "-o", "search.svg"),
        ("trajectories", "search.jsonl", "--json"),
        ("trajectories", "search.jsonl", "--score-field", NAME),
    ),
    "targets": (
        ("targets", "list"),
        ("targets", "check", f"mock:{NAME}", "replay:answers.jsonl", f"replay:{NAME}", NAME),
    ),
    "models": (("models", "pull", NAME),),
    "serve": (("serve", "--port", NAME),),
    "completion": (("completion", "bash"),),
    "mcp": (("mcp", NAME),),
    "init": (("init", f"{FILE} folder"),),
    "schema": (("schema", NAME), ("schema", "config", "-o", f"{FILE}.schema.json")),
}
"""The arguments of each command; a number stands for the run with that number in this test."""
REFUSED_WORDS = ("wrong.jsonl", "labels", "agentv", "agentv/", "ai_tester", "new")
"""Words of commands that fail; every other command must print a hostile text."""


# --- who reads it ------------------------------------------------------------------------------------------


def xml_faults(text: str) -> list[str]:
    """Elements and characters in XML, which must parse, that act on the reader."""
    faults = [
        f"an element {element.tag}" for element in ET.fromstring(text).iter() if "evil" in str(element.tag)
    ]
    return [*faults, *raw_characters(text)]


def csv_faults(text: str) -> Iterator[str]:
    """Cells that a spreadsheet would compute."""
    for row in csv.reader(io.StringIO(text, newline="")):
        for cell in row:
            if cell[:1] in tuple("=+-@\t\r\n＝") and not re.fullmatch(r"[+-]?\d+(\.\d+)?", cell):
                yield f"a formula {cell[:40]!r}"
        yield from (fault for cell in row for fault in raw_characters(cell))


def json_faults(text: str) -> list[str]:
    """Control characters in JSON, which must parse."""
    json.loads(text)
    return list(terminal_faults(text))


def json_lines_faults(text: str) -> list[str]:
    """Like `json_faults`, for each line."""
    return [fault for line in text.split("\n")[:-1] for fault in json_faults(line)]


CHECKS: dict[str, Callable[[str], Any]] = {
    ".csv": csv_faults,
    ".html": html_faults,
    ".json": json_faults,
    ".jsonl": json_lines_faults,
    ".md": markdown_faults,
    ".parquet": lambda _data: [],  # typed columns, which a reader shows as data
    ".svg": xml_faults,
    ".xml": xml_faults,
}
"""The check for files with each ending."""


# --- the tests ---------------------------------------------------------------------------------------------


def test_every_command_has_hostile_words_and_every_report_a_reader() -> None:
    missing = set(COMMANDS) - set(COMMAND_LINES)
    assert not missing, f"Add command lines that show foreign text to COMMAND_LINES for: {missing}."
    missing = set(REPORTS.names()) - set(CHECKS)
    assert not missing, f"Add a function to CHECKS that reads reports ending in: {missing}."


def test_no_text_acts_on_who_sees_it(proctor: Proctor, folder: Path) -> None:
    pytest.importorskip("vl_convert")
    _write_inputs(folder)
    input_names = {path.name for path in folder.iterdir()}
    faults: dict[str, None] = {}
    runs: list[str] = []
    for command in ("keys", *COMMAND_LINES):
        for words in COMMAND_LINES[command]:
            result = proctor(
                *(runs[int(word)] if word.isdigit() and len(word) == 1 else word for word in words)
            )
            if "--json" in words and result.out:
                json.loads(result.out)
            command_line = " ".join(word if word.isprintable() else "HOSTILE" for word in words)
            assert result.code != 4 or "HOSTILE" in command_line or {*REFUSED_WORDS} & {*words}, (
                command_line,
                result,
            )
            exact = command == "convert" and result.code == 0  # data on stdout that is no terminal
            for text in (result.err, *([] if exact else [result.out])):
                faults |= dict.fromkeys(f"{command_line}: {fault}" for fault in terminal_faults(text))
            if command == "run" and len(runs) < 3:
                runs.append(json.loads(proctor("runs", "list", "--json", "--limit", 1).out)["runs"][0]["run"])
    for path in folder.iterdir():
        if path.name not in input_names and path.suffix in CHECKS and not path.name.startswith(FILE):
            text = path.read_bytes().decode("utf-8", "strict" if path.suffix != ".parquet" else "replace")
            faults |= dict.fromkeys(f"{path.name}: {fault}" for fault in CHECKS[path.suffix](text))
    assert not list(faults)


def test_data_stay_exact(proctor: Proctor, folder: Path) -> None:
    _write_inputs(folder)
    proctor("run", "suite.jsonl", "-t", "echo", "--judge", "scripted:judge.jsonl", "--quiet", "--reveal")
    proctor("runs", "export", "last", "-o", "all.jsonl", "--reveal")
    lines = (folder / "all.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    assert [json.loads(line)["case_id"] for line in lines] == list(HOSTILE_TEXTS)
    trials = proctor("runs", "show", "last", "--case", "*", "--reveal", "--json").json["trials"]
    assert [trial["case_id"] for trial in trials] == list(HOSTILE_TEXTS)


def test_colours_never_come_from_hostile_texts(folder: Path) -> None:
    from rich.console import Console

    from proctor.cli.colours import THEME, print_coloured

    screen = io.StringIO()
    print_coloured(
        HOSTILE_TEXTS, Console(file=screen, force_terminal=True, theme=THEME, color_system="standard")
    )
    text = re.sub(r"\x1b\[[\d;]*m", "", screen.getvalue())
    assert terminal_faults(text) == []
    assert "💣" not in text
    assert "[bold red]" in text
