"""What all commands share: help, and errors as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from proctor import __version__
from proctor.cli.main import COMMANDS, cli
from proctor.reports import REPORTS
from support.cli import Proctor


def _leaves(group: click.Group, *words: str) -> Iterator[tuple[str, ...]]:
    """The words of every command, without groups."""
    with click.Context(group) as context:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            if isinstance(command, click.Group):
                yield from _leaves(command, *words, name)
            else:
                yield (*words, name)


LEAVES = list(_leaves(cli))
GROUPS = sorted({words[0] for words in LEAVES if len(words) > 1})


def test_every_command_is_covered_by_these_tests() -> None:
    assert {words[0] for words in LEAVES} == set(COMMANDS)


@pytest.mark.parametrize("words", [(), *LEAVES], ids=" ".join)
def test_help_fits_a_terminal_of_80_columns(proctor: Proctor, words: tuple[str, ...]) -> None:
    result = proctor(*words, "--help")
    assert result.code == 0
    examples = [line for line in result.out.splitlines() if line.startswith("  proctor ")]
    assert [line for line in result.out.splitlines() if len(line) > 80 and line not in examples] == []


def command_named(*words: str) -> click.Command:
    command: click.Command = cli
    for word in words:
        assert isinstance(command, click.Group)
        subcommand = command.get_command(click.Context(command), word)
        assert subcommand is not None
        command = subcommand
    return command


@pytest.mark.parametrize("width", [80, 110])
@pytest.mark.parametrize("words", [("run",), ("regrade",), ("certify",)], ids=" ".join)
def test_options_are_in_groups_and_each_of_them_once(words: tuple[str, ...], width: int) -> None:
    command = command_named(*words)
    context = click.Context(command, info_name="proctor", terminal_width=width, help_option_names=["--help"])
    text = command.get_help(context)
    lines = [line for line in text.splitlines() if not line.startswith("  proctor ")]
    assert max(map(len, lines)) <= width
    assert max(map(len, lines)) > width - 12
    flags = re.findall(r"^  (?:-\w, )?(--[\w-]+)", text, re.MULTILINE)
    options = [param for param in command.get_params(context) if isinstance(param, click.Option)]
    firsts = [next(flag for flag in option.opts if flag.startswith("--")) for option in options]
    assert sorted(flags) == sorted(firsts)
    titles = re.findall(r"^(\S.*):$", text, re.MULTILINE)
    assert len(titles) == len(set(titles)) >= 6
    assert text.rstrip().endswith("Show this message and exit.")


def test_the_groups_of_run_go_from_what_is_run_to_what_is_written(proctor: Proctor) -> None:
    text = proctor("run", "--help").out
    assert re.findall(r"^(\S.*):$", text, re.MULTILINE) == [
        "What to run",
        "Targets and prompts",
        "Grading",
        "Gate",
        "Holdout",
        "Limits",
        "Resume and reuse",
        "Execution",
        "Output",
    ]
    assert (
        text.index("  proctor run cheap --target local")
        < text.index("SUITE is a file")
        < text.index("What to")
    )
    assert all(range_type not in text for range_type in ("INTEGER", "FLOAT", "TEXT"))


def test_the_version_has_a_short_flag(proctor: Proctor) -> None:
    assert proctor("-V") == proctor("--version")
    assert __version__ in proctor("-V").out


@pytest.mark.parametrize("words", [("run",), ("runs", "export")], ids=" ".join)
def test_the_flag_for_reports_names_every_ending(proctor: Proctor, words: tuple[str, ...]) -> None:
    text = proctor(*words, "--help").out
    assert [ending for ending in REPORTS.names() if ending not in text] == []


@pytest.mark.parametrize("group", GROUPS)
def test_the_summary_of_a_command_in_its_group_is_complete(proctor: Proctor, group: str) -> None:
    lines = proctor(group, "--help").out.partition("\nCommands:\n")[2].splitlines()
    assert lines
    assert [line for line in lines if not line.endswith(".") or line.endswith("...")] == []


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_the_same_flag_is_described_in_the_same_words(words: tuple[str, ...]) -> None:
    command: click.Command = cli
    for word in words:
        assert isinstance(command, click.Group)
        subcommand = command.get_command(click.Context(command), word)
        assert subcommand is not None
        command = subcommand
    descriptions = {
        "--json": "Print one JSON object",
        "--store": "The store: a file",
        "--keys": "Folder with your keys and the trust file.",
    }
    for option in command.params:
        for flag in descriptions.keys() & set(option.opts):
            assert isinstance(option, click.Option)
            assert (option.help or "").startswith(descriptions[flag])
        assert "Repeatable" not in (getattr(option, "help", None) or "")


@pytest.mark.parametrize("command", ["attest", "certify", "compare", "regrade"])
def test_a_run_is_named_by_its_id_last_or_a_tag(proctor: Proctor, command: str) -> None:
    assert "an id, `last` or a tag, as in `proctor runs`" in " ".join(proctor(command, "--help").out.split())


# --- JSON when nothing could be done -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "lists"),
    [
        (("run", "none", "--target", "echo"), {"runs"}),
        (("runs", "show", "none"), {"runs"}),
        (("runs", "stop", "none"), {"runs"}),
        (("validate", "none"), {"files"}),
        (("suites", "show", "none"), set()),
        (("compare", "one", "two"), {"runs", "comparisons"}),
        (("plan", "none"), set()),
        (("drift", "none"), set()),
        (("attest", "none"), set()),
        (("verify", "none"), {"bundles"}),
        (("replay", "none", "--target", "echo"), set()),
        (("certify", "none"), set()),
        (("keys", "list", "--keys", "s.jsonl"), {"keys"}),
        (("bench", "none"), {"benches"}),
        (("passk", "none"), {"passk"}),
        (("trajectories", "none"), {"trajectories"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_json_has_the_lists_of_its_command_when_nothing_could_be_done(
    proctor: Proctor, suite: Callable[..., str], words: tuple[str, ...], lists: set[str]
) -> None:
    suite(("a", "x", "x"))
    result = proctor(*words, "--json")
    assert set(result.json) == {"errors", "exit_code", *lists}
    assert all(result.json[name] == [] for name in lists)
    assert result.code == result.json["exit_code"] != 0
    assert result.json["errors"][0]["message"] in result.err


@pytest.mark.parametrize("words", [("certify", "--target", "a"), ("drift", "--target", "a")], ids=" ".join)
def test_json_has_each_problem_of_a_targets_file_with_its_line(
    proctor: Proctor, suite: Callable[..., str], words: tuple[str, ...]
) -> None:
    proctor("run", suite(("a", "x", "x")), "--target", "echo")
    entry = "targets:\n  - name: a\n    provider: openai\n    model: m\n    temperature: warm\n    seed: x\n"
    Path("targets.yaml").write_text(entry, encoding="utf-8")
    result = proctor(*words, "--json")
    assert result.code == 4
    assert [(problem["path"], problem["line"]) for problem in result.json["errors"]] == [
        ("targets.yaml", 5),
        ("targets.yaml", 6),
    ]


def test_json_tells_a_defect_of_a_bundle_from_wrong_usage(proctor: Proctor) -> None:
    Path("b.zip").write_bytes(b"PK\x03\x04 and no more")
    codes = {
        words: (result.code, [problem["code"] for problem in result.json["errors"]])
        for words in (("verify", "b.zip"), ("certify", "b.zip"), ("replay", "b.zip", "--target", "echo"))
        for result in [proctor(*words, "--json")]
    }
    assert set(map(json.dumps, codes.values())) == {'[1, ["bundle"]]'}
