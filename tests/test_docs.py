"""The documentation: every name and link in it exists, and commands print what it shows.

CONTRIBUTING.md describes the blocks: `console check` is run, `LANGUAGE write NAME` is a file for it. With
PROCTOR_REWRITE_DOCS=1 a block that is out of date gets the output of now; read the difference.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from importlib import import_module
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
import pytest

import proctor
from proctor import eval as toolbox
from proctor.cli.main import COMMANDS, _invoke
from proctor.dialects import DIALECTS
from proctor.dialects.agentv import syntax
from proctor.dialects.agentv.read import assertions, tests, v5, workspace
from proctor.dialects.agentv.read import messages as agentv_messages
from proctor.dialects.agentv.read import suite as agentv_suite
from proctor.dialects.meridian import reader as meridian
from proctor.dialects.meridian.expected import TYPES
from proctor.dialects.pramana import reader as pramana
from proctor.errors import ExitCode
from proctor.graders import GRADERS
from proctor.invalid_cases import UNSUPPORTED_CODES
from proctor.lint.linter import CODES
from proctor.reports import REPORTS
from proctor.reports.runs import records
from proctor.targets import function, iter_kinds
from proctor.web.api.problems import PROBLEM_KINDS
from support.error_codes import SOURCE, failure_kinds, problem_codes

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tools import cli_reference, record_tables  # noqa: E402

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
TOOLBOX = sorted((ROOT / "docs/reference/toolbox").glob("*.md"))
BLOCK = re.compile(r"^```(\w+) (check|write)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
VARYING = (
    (re.compile(r"\b20\d{6}-\d{6}-[0-9a-f]{6}\b"), "…"),
    (re.compile(r"\bin [^·\n]+ · latency p50 [^·\n]+ ·"), "in … · latency … ·"),
    (re.compile(r"\bin [\d.]+ (ms|s),"), "in …,"),
    (re.compile(r"/\S*/test_what_a_page_shows_is_what\d+"), "…"),
    (re.compile(r"\b\d{2} [A-Z][a-z]{2} 20\d{2} \d{2}:\d{2}:\d{2}(\.\d+)?"), "…"),
    (re.compile(r"\"(started_at|finished_at)\": \"[^\"]+\""), r'"\1": "…"'),
)  # fmt: skip


def read_text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def page_id(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


ALL = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)


# --- names -------------------------------------------------------------------------------------------------


def options(command: click.Command, name: str) -> Iterator[tuple[str, str]]:
    """Yields each command with each of its options, and once with an empty option."""
    if isinstance(command, click.Group):
        for inner, subcommand in command.commands.items():
            yield from options(subcommand, f"{name} {inner}")
    for param in command.params:
        for flag in param.opts if isinstance(param, click.Option) else ():
            if flag.startswith("--"):
                yield name, flag
    yield name, ""


EVERY_OPTION = [
    pair
    for name in COMMANDS
    for pair in options(import_module(f"proctor.cli.commands.{name}").command, f"proctor {name}")
]


@pytest.mark.parametrize(("command", "flag"), EVERY_OPTION)
def test_every_command_and_flag_is_named(command: str, flag: str) -> None:
    assert re.search(rf"{re.escape(flag or command)}(?![\w-])", ALL)


def grader_section(name: str) -> str:
    pattern = re.compile(rf"^### `{name}`$.*?(?=^###? |\Z)", re.MULTILINE | re.DOTALL)
    pages = sorted(ROOT.glob("docs/reference/graders/*.md"), reverse=True)
    matches = filter(None, (pattern.search(page.read_text(encoding="utf-8")) for page in pages))
    section = next(matches, None)
    assert section, f"no page of docs/reference/graders has a heading ### `{name}`"
    return section[0]


@pytest.mark.parametrize("name", GRADERS.names())
def test_every_grader_and_parameter_is_described(name: str) -> None:
    section = grader_section(name)
    kind: Any = GRADERS.get(name)
    assert [field for field in kind.__struct_fields__ if f"`{field}" not in section] == []
    assert "empty answer" in section.lower() or name == "unscored"


def missing(words: Any, name: str) -> list[str]:
    page = read_text(name)
    return [word for word in words if f"`{word}" not in page]


def test_every_kind_service_alias_and_key_is_in_the_page_on_targets() -> None:
    words = {word for kind in iter_kinds() for word in (kind.name, *kind.aliases, *kind.key_variables)}
    assert missing({*words, "PROCTOR_API_KEY"}, "docs/reference/targets/index.md") == []


def test_every_word_of_the_suite_formats_is_in_the_page_on_suites() -> None:
    words = {
        *DIALECTS.names(),
        *TYPES,
        *meridian.SCORERS,
        *meridian.METHODS,
        *meridian._TEST_FIELDS,
        *meridian._HEADER_FIELDS,
    }
    words |= {*pramana._CASE_FIELDS, *pramana._ASSERTION_FIELDS, *pramana._METADATA_FIELDS}
    words |= {*pramana._PARSERS, *pramana.CATEGORIES}
    assert missing(words, "docs/reference/formats/csv-and-jsonl.md") == []


def test_every_word_of_dialect_agentv_is_in_its_page() -> None:
    words = {
        *agentv_messages.MESSAGE_FIELDS,
        *agentv_messages.BLOCK_FIELDS,
        *agentv_messages.TOOL_CALL_FIELDS,
    }
    for part in (agentv_suite, tests):
        words |= {*part.EXECUTION_FIELDS, *part.UNUSED_FIELDS}
    words |= {
        *syntax.TESTS_NAMES,
        *agentv_suite.SUITE_FIELDS,
        *agentv_suite.TRIALS_FIELDS,
        *agentv_suite.STRATEGIES,
    }
    words |= {*tests.TEST_FIELDS, *(old for names in tests.OLD_NAMES.values() for old in names)}
    words |= {*workspace.WORKSPACE_FIELDS, *workspace.HOOK_FIELDS, *workspace.REPOSITORY_FIELDS}
    words |= {*workspace.HOOK_NAMES, *workspace.CHECKOUT_FIELDS, *workspace.CLONE_FIELDS}
    words |= {*assertions.VERSION_4_TYPES, *assertions.COMMON_FIELDS}
    assert len(words) > 100
    assert missing(words, "docs/reference/formats/agentv.md") == []


def test_every_word_of_agentv_5_is_in_its_page() -> None:
    words = {*v5.VERSION_5_FIELDS, *assertions.REFUSED_TYPES, *assertions.VERSION_5_TYPES}
    assert missing(words, "docs/guides/move-from-agentv.md") == []


def test_every_type_of_assertion_has_an_example() -> None:
    suite = next(
        body
        for _, _, name, body in BLOCK.findall(read_text("docs/reference/formats/agentv-assertions.md"))
        if name
    )
    types = set(re.findall(r"\btype: ([\w-]+)", suite))
    assert assertions.VERSION_4_TYPES.keys() - types == {"rubric"}  # another word for `rubrics`


def test_every_form_of_report_is_in_the_page_on_reports() -> None:
    assert missing(REPORTS.names(), "docs/reference/reports.md") == []


def test_every_field_of_a_report_is_in_the_page_on_json() -> None:
    markers = re.findall(r"<!-- record: (\w+) -->", read_text("docs/reference/json.md"))
    own = [
        record for record in vars(records).values() if getattr(record, "__module__", "") == records.__name__
    ]
    names = {record.__name__ for record in own if isinstance(record, type)}
    bases = {"CallUsageRecord", "ChoiceLikelihoodRecord", "ExportedTrialRecord", "PromptRecord"}
    assert names - {*markers} == bases
    fields = map(record_tables.describe_fields, map(record_tables.find_record, markers))
    rows = [field for table in fields for field in table]
    assert len(rows) > 200
    assert [name for name, _, text in rows if not text] == []


JSON_COMMANDS = [
    *("run examples/arithmetic.jsonl --target echo --json", "run examples/arithmetic.jsonl --target echo -q"),
    *(
        "regrade last --json",
        "runs list --json",
        "runs show last --json",
        "runs show last --case sum-1 --json",
    ),
    *("validate examples/arithmetic.jsonl --json", "compare last last --json", "drift --json"),
    *("plan examples/arithmetic.jsonl --detect 5pp --json", "suites list --json"),
    *("suites versions arithmetic --json", "suites show arithmetic --json"),
    *(
        "suites diff arithmetic examples/chat.jsonl --json",
        "attest last --no-sign --json -o b",
        "verify b --json",
    ),
    *("runs import b --store i.db --json", "replay b --target echo --json", "keys list --keys k --json"),
    *("store check --json", "store digest --json", "store gc --json", "store migrate --json"),
    *("store repair r.db --json", "store copy .proctor/proctor.db c.db --json"),
]


@pytest.mark.slow
def test_every_field_that_a_command_prints_is_in_the_page_on_json(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    page = record_tables.fill_records(read_text("docs/reference/json.md"))
    for command in JSON_COMMANDS:
        with capture_output(tmp_path, {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}, apart=True) as (
            out,
            _,
        ):
            _invoke(command.split())
        if "--json" in command:
            output = json.loads(out.getvalue())
            firsts = [value[0] for value in output.values() if isinstance(value, list) and value]
            rows = [output, output.get("drift"), *firsts]
            names = {name for row in rows if isinstance(row, dict) for name in row}
            assert (command, {name for name in names if f"`{name}`" not in page}) == (command, set())


@pytest.mark.parametrize("name", toolbox.__all__)
def test_every_name_of_the_toolbox_is_described_in_the_page_of_its_tool(name: str) -> None:
    pages = [page.read_text(encoding="utf-8") for page in TOOLBOX if page.name != "index.md"]
    assert any(re.search(rf"`[^`\n]*\b{name}\b[^`\n]*`", page) for page in pages)


def test_every_exit_code_is_in_its_page() -> None:
    page = read_text("docs/reference/exit-codes.md")
    assert [code for code in ExitCode if f"\n| {int(code)} | " not in page] == []


def test_every_public_name_is_in_the_page_on_python() -> None:
    page = read_text("docs/reference/python.md")
    assert [name for name in proctor.__all__ if f"\n::: proctor.{name}\n" not in page] == []


def codes_in(page: str) -> set[str]:
    """The codes that a page describes: those in the first cells of its tables."""
    cells = re.findall(r"^\| (`[^|]+`) \|", page, re.MULTILINE)
    return {code for cell in cells for code in re.findall(r"`([a-z-]+)`", cell)}


def test_every_error_code_is_in_the_page_on_errors() -> None:
    page = read_text("docs/reference/errors.md")
    codes = problem_codes() - CODES.keys()
    kinds = {*failure_kinds(), "http", "invalid", "unsupported"}
    assert len(codes) > 150
    assert {*codes, *UNSUPPORTED_CODES, *PROBLEM_KINDS, "bundle"} - codes_in(page) == {"wrong-value"}
    assert "`wrong-value`" in page
    failures = page.partition("## Failures")[2].partition("## Store")[0]
    assert codes_in(failures) == kinds


def test_the_page_on_errors_has_no_code_that_is_gone() -> None:
    source = "\n".join(file.read_text(encoding="utf-8") for file in SOURCE.rglob("*.py"))
    dynamic_codes = {f"unknown-{kind}" for kind in ("image", "file", "audio", "video")}
    codes = codes_in(read_text("docs/reference/errors.md")) - dynamic_codes
    assert {code for code in codes if f'"{code}"' not in source} == set()


def test_every_lint_code_has_a_page() -> None:
    pages = {page.stem for page in (ROOT / "docs/reference/lint").glob("*.md")}
    assert pages - {"index"} == CODES.keys()


def definitions() -> dict[str, str]:
    return dict(
        re.findall(r"^- \*\*([^*]+)\*\*: (.+)$", read_text("docs/explanation/concepts.md"), re.MULTILINE)
    )


@pytest.mark.parametrize("word", definitions())
def test_a_word_is_defined_in_one_sentence(word: str) -> None:
    assert definitions()[word].endswith(".")
    assert not re.search(r"[.?!] [A-Z]", definitions()[word])


# --- pages -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_link_inside_the_tree_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|mailto:)([^)\s]+)\)", page.read_text(encoding="utf-8"))
    files = [link.partition("#")[0] for link in links]
    generated = {(ROOT / "docs" / name).resolve() for name in cli_reference.page_names()}
    broken = [link for link in files if link and not (page.parent / link).exists()]
    assert [link for link in broken if (page.parent / link).resolve() not in generated] == []


def test_every_command_has_a_page_with_its_options() -> None:
    index = cli_reference.fill_index(read_text("docs/reference/cli/index.md"))
    for name in COMMANDS:
        page = cli_reference.render_page(name)
        command = import_module(f"proctor.cli.commands.{name}").command
        assert f"({name}.md)" in index
        assert not re.search(r"^:   (Required|May|One)", page, re.MULTILINE), "describe it in _ARGUMENTS"
        for path, flag in options(command, f"proctor {name}"):
            sub = path.removeprefix(f"proctor {name}").strip()
            assert f"{{ #{sub}{flag} }}" in page if flag else path in page


CONSOLE_PAGES = [page for page in PAGES if "```console check\n" in page.read_text(encoding="utf-8")]


@pytest.mark.slow
@pytest.mark.parametrize("page", CONSOLE_PAGES, ids=page_id)
def test_what_a_page_shows_is_what_its_commands_print(
    page: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if page.name == "sandbox.md":
        request.getfixturevalue("sandboxed")
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    text = page.read_text(encoding="utf-8")
    now, position = "", 0
    begin = today()
    for block in BLOCK.finditer(text):
        _, what, name, body = block.groups()
        if what == "write":
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(body, encoding="utf-8")
            continue
        now += text[position : block.start(4)]
        position = block.end(4)
        for entry in filter(None, re.split(r"^(?=\$ )", body, flags=re.MULTILINE)):
            command, _, expected = entry[2:].partition("\n")
            output = PROGRESS.sub("", run(command, tmp_path))
            is_current = re.fullmatch(as_pattern(expected, begin, today()), output)
            now += entry if is_current else f"$ {command}\n{refresh_output(expected, output)}"
    now += text[position:]
    if os.environ.get("PROCTOR_REWRITE_DOCS"):
        page.write_text(now, encoding="utf-8")
    assert now.splitlines() == text.splitlines()


PROGRESS = re.compile(r"^[\d,]+/[\d,]+(?: \w+)? · .*\n", re.MULTILINE)
"""A line of progress, which a run prints every two seconds, so only on a slow machine."""


def test_progress_lines_are_removed_from_output() -> None:
    output = "25/80 calls · cost unknown\n1,200/2,000 · 3 failed\n5 of 80 · agreement 0.6\n"
    assert PROGRESS.sub("", output) == "5 of 80 · agreement 0.6\n"


PLAIN = re.compile(r"proctor ([\w./:@=, -]+?)(?:(; echo \$\?)|( 2>/dev/null| 2>&1)? \| (.+))?")
"""A command that needs a shell only for its exit code or a pipe; `proctor` runs in this process."""


CLOCK = {name: os.environ[name] for name in ("LD_PRELOAD", "AHEAD_S", "TZ") if name in os.environ}
"""The variables that move the clock of this process and of its children (`clock.py`)."""


def run(command: str, folder: Path) -> str:
    """Returns what a command prints in a shell, on both streams."""
    environ = {
        **CLOCK,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "PYTHONUTF8": "1",
    }
    program = re.fullmatch(r"python (\w+\.py)", command)
    if program:
        # A process of its own would have registered no functions.
        functions = patch.dict(function._registered_functions, clear=True)
        with functions, capture_output(folder, environ) as (out, _):
            runpy.run_path(program[1], run_name="__main__")
        return out.getvalue().decode("utf-8")
    plain = PLAIN.fullmatch(command)
    if not plain:
        return shell(command, folder, environ)
    words, wants_code, errors, reader = plain.groups()
    with capture_output(folder, environ, apart=bool(reader) and errors != " 2>&1") as (out, err):
        code = _invoke(words.split())
    if reader:
        error_text = "" if errors else err.getvalue().decode("utf-8")
        return error_text + shell(reader, folder, environ, out.getvalue())
    return out.getvalue().decode("utf-8") + (f"{int(code)}\n" if wants_code else "")


def shell(command: str, folder: Path, environ: dict[str, str], stdin: bytes = b"") -> str:
    """Returns what a command prints in a shell process."""
    process = subprocess.run(
        ["/bin/sh", "-c", command],
        check=False,
        cwd=folder,
        env=environ,
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return process.stdout.decode("utf-8")


@contextmanager
def capture_output(
    folder: Path, environ: dict[str, str], *, apart: bool = False
) -> Iterator[tuple[BytesIO, BytesIO]]:
    """Captures both streams, together or apart, while this process has that folder and environment."""
    data = BytesIO(), BytesIO()
    out, err = (TextIOWrapper(stream, encoding="utf-8", write_through=True) for stream in data)
    with (
        chdir(folder),
        patch.dict(os.environ, environ, clear=True),
        redirect_stdout(out),
        redirect_stderr(err if apart else out),
    ):
        yield data
    for stream in (out, err):
        stream.detach()  # or the buffer would be closed with it


def today() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d}"


DAY = re.compile(r"\b20\d\d\\?-\d\d\\?-\d\d\b")
"""A date, also as `re.escape` writes it."""


def as_pattern(expected: str, *days: str) -> str:
    """`…` stands for anything on its line, and a line of `…` alone for any number of lines.

    A date stands for itself or for one of `days`: those on which the commands run.
    """
    lines = (
        r"(?:.*\n)*" if line == "…\n" else re.escape(line).replace("…", ".*")
        for line in expected.splitlines(keepends=True)
    )
    return DAY.sub(lambda day: f"(?:{'|'.join([day[0], *days])})", "".join(lines))


@pytest.mark.parametrize(
    ("output", "holds"),
    [
        ("Run r1, 2026-11-22.\n", True),
        ("Run r1, 2031-01-01.\n", True),
        ("Run r1, 2031-01-02.\n", True),
        ("Run r1, 2031-01-03.\n", False),
        ("Run r1, 2026-11-23.\n", False),
        ("Run r1, .\n", False),
        ("Run r1.\n", False),
    ],
)
def test_a_date_on_a_page_is_that_date_or_the_day_of_the_test(output: str, holds: bool) -> None:
    pattern = as_pattern("Run …, 2026-11-22.\n", "2031-01-01", "2031-01-02")
    assert bool(re.fullmatch(pattern, output)) is holds


def refresh_output(expected: str, output: str) -> str:
    """Returns the output of now for a page that has `expected`; lines that a `…` of it matches stay."""
    for pattern, instead in VARYING:
        output = pattern.sub(instead, output)
    lines = {
        line: re.compile(as_pattern(line)) for line in expected.splitlines(keepends=True) if "…" in line[:-2]
    }
    return "".join(
        next((old for old, pattern in lines.items() if pattern.fullmatch(line)), line)
        for line in output.splitlines(keepends=True)
    )
