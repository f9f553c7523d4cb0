"""Suggestions for unknown words, and the use of colours."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from proctor.cli.echo import wants_colour
from proctor.cli.main import COMMANDS
from proctor.cli.suggestions import _OTHER_WORDS
from support.cli import PYTHON, Proctor
from support.waiting import PATIENCE_S

SUITE = (
    '{"id": "a", "category": "reasoning", "input": "four", "ideal": "four", '
    '"assertion": {"type": "contains"}, "metadata": {"difficulty": "easy", "tokens_est": 1}}\n'
)

# --- commands and flags ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "suggestion"),
    [
        (("view",), "`proctor serve`"),
        (("ui",), "`proctor serve`"),
        (("report",), "`proctor runs show`"),
        (("show", "last", "--failures"), "`proctor runs show last --failures`"),
        (("list",), "`proctor runs list`"),
        (("diff", "a", "b"), "`proctor compare a b`"),
        (("test", "s.jsonl"), "`proctor run s.jsonl`"),
        (("eval", "my suite.jsonl"), "`proctor run 'my suite.jsonl'`"),
        (("my suite.jsonl", "-t", "echo"), "`proctor run 'my suite.jsonl' -t echo`"),
        (("valdate",), "'validate'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_another_word_for_a_command_is_understood(
    proctor: Proctor, folder: Path, words: tuple[str, ...], suggestion: str
) -> None:
    (folder / "my suite.jsonl").write_text(SUITE, encoding="utf-8")
    result = proctor(*words)
    assert result.code == 4
    assert f"Unknown command {words[0]!r}. Did you mean {suggestion}?" in result.err


@pytest.mark.parametrize("word", _OTHER_WORDS)
def test_each_other_word_is_no_command_and_means_one(proctor: Proctor, word: str) -> None:
    assert word not in COMMANDS
    words = _OTHER_WORDS[word].split()
    assert proctor(*words, *([] if words[0].startswith("-") else ["--help"])).code == 0


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("run", "--gate"), "No such option '--gate'. `proctor compare` has it."),
        (("compare", "--min-pass-rate", "1"), " `proctor run` and `proctor regrade` have it."),
        (("compare", "-q"), " `proctor run`, `proctor regrade` and `proctor replay` have it."),
        (("run", "cheap", "--tarlet", "x"), "'--target'"),
        (("run", "cheap", "--zzz"), "No such option '--zzz'. See `proctor run --help`."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_flag_of_another_command_is_found_there(
    proctor: Proctor, words: tuple[str, ...], hint: str
) -> None:
    result = proctor(*words)
    assert result.code == 4
    assert hint in result.err


# --- files and targets -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("run", "suport.csv", "-t", "echo"), "Did you mean 'support.csv'?"),
        (("run", "suite/support.csv", "-t", "echo"), "Did you mean 'suites/support.csv'?"),
        (("run", "suites/suport.csv", "-t", "echo"), "Did you mean 'suites/support.csv'?"),
        (("validate", "suport.csv"), "Did you mean 'support.csv'?"),
        (("validate", "chaep"), "Did you mean 'cheap'?"),
        (("validate", "nothing/like/it.csv"), "Expected one of: "),
        (("verify", "relaese.zip"), "There is no bundle at relaese.zip. Did you mean 'release.zip'?"),
        (("replay", "relaese.zip", "-t", "echo"), "Did you mean 'release.zip'?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_file_beside_a_typing_error_is_suggested(
    proctor: Proctor, folder: Path, words: tuple[str, ...], hint: str
) -> None:
    (folder / "suites").mkdir()
    for name in ("support.csv", "suites/support.csv", "release.zip"):
        (folder / name).write_bytes(b"")
    result = proctor(*words)
    assert result.code == 4
    assert hint in result.err


@pytest.mark.parametrize(
    ("word", "suggestion"),
    [
        ("llama3", "'ollama:llama3'"),
        ("llama3.2:1b", "'ollama:llama3.2:1b'"),
        ("qwen2.5", "'ollama:qwen2.5'"),
        ("codestral-latest", "'mistral:codestral-latest'"),
        ("deepseek-reasoner", "'deepseek:deepseek-reasoner'"),
        ("gpt5.2", "'gpt-5.2'"),
        ("sonet", "'sonnet'"),
        ("parot", "'parrot'"),
        ("lama-parrot", "'llama-parrot'"),
    ],
)
def test_the_name_of_a_model_says_which_service_has_it(
    proctor: Proctor, folder: Path, word: str, suggestion: str
) -> None:
    (folder / "targets.yaml").write_text(
        "targets:\n  - name: parrot\n    provider: echo\n  - name: llama-parrot\n    provider: echo\n",
        encoding="utf-8",
    )
    result = proctor("run", "cheap", "--target", word)
    assert result.code == 4
    assert f"Did you mean {suggestion}" in result.err


# --- colours -----------------------------------------------------------------------------------------------


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environ", "on_terminal", "in_file"),
    [
        ({}, True, False),
        ({"TERM": "xterm"}, True, False),
        ({"TERM": "dumb"}, False, False),
        ({"NO_COLOR": "1"}, False, False),
        ({"NO_COLOR": ""}, True, False),
        ({"FORCE_COLOR": "1"}, True, True),
        ({"FORCE_COLOR": "3", "TERM": "dumb"}, True, True),
        ({"FORCE_COLOR": "0"}, True, False),
        ({"FORCE_COLOR": ""}, True, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, False),
    ],
)
def test_colours_are_for_terminals_unless_variables_say_otherwise(
    environ: dict[str, str], on_terminal: bool, in_file: bool
) -> None:
    assert wants_colour(_Terminal(), environ) is on_terminal
    assert wants_colour(io.StringIO(), environ) is in_file


@pytest.mark.parametrize("term", ["xterm", "dumb", ""])
def test_a_report_in_a_file_has_colours_when_they_are_forced(
    proctor: Proctor, monkeypatch: pytest.MonkeyPatch, term: str
) -> None:
    monkeypatch.setenv("TERM", term)
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    plain = proctor("run", "cheap", "--target", "echo", "--limit", "2")
    assert "\x1b" not in plain.out + plain.err
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = proctor("runs", "show", "last")
    assert "\x1b[" in coloured.out
    assert "\x1b" not in proctor("runs", "show", "last", "--json").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in proctor("runs", "show", "last").out


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(
    ("variables", "has_colours", "has_bar"),
    [({}, True, True), ({"NO_COLOR": "1"}, False, True), ({"TERM": "dumb"}, False, False)],
)
def test_on_a_terminal_the_bar_and_the_report_heed_the_variables(
    folder: Path, variables: dict[str, str], has_colours: bool, has_bar: bool
) -> None:
    import pty

    terminal, side = pty.openpty()
    environ = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    with subprocess.Popen(
        [*PYTHON, "run", "cheap", "--target", "echo"],
        env=environ | {"TERM": "xterm-256color", "PYTHONUNBUFFERED": "1"} | variables,
        stdout=side,
        stderr=side,
    ) as run:
        os.close(side)
        output = bytearray()
        try:
            while piece := os.read(terminal, 65536):
                output += piece
        except OSError:  # the end of a pseudo-terminal
            pass
        run.wait(PATIENCE_S)
    os.close(terminal)
    text = output.decode("utf-8")
    assert ("\x1b[32m" in text or "\x1b[1;31m" in text) is has_colours
    assert ("\x1b[?25l" in text) is has_bar  # the bar hides the cursor
    assert "\x1b[38" not in text or has_colours
