"""The package as a whole: what importing it costs, and what holds for every one of its files."""

from __future__ import annotations

import ast
import builtins
import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import click
import pytest

import proctor
from proctor.cli.main import COMMANDS, cli
from support.sources import PACKAGE, list_nodes
from support.waiting import PATIENCE_S

# --- what is loaded ----------------------------------------------------------------------------------------

_SCRIPT = """
import json, sys
before = set(sys.modules)
try:
    {code}
except SystemExit as end:
    assert not end.code, end.code
print("\\n" + json.dumps(sorted(set(sys.modules) - before)))
"""


def list_loaded_modules(code: str, folder: Path) -> list[str]:
    """Lists the modules that the code loads in a fresh interpreter."""
    process = subprocess.run(
        [sys.executable, "-I", "-c", _SCRIPT.format(code=code)],
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    names: list[str] = json.loads(process.stdout.splitlines()[-1])
    return names


def list_modules_of_command(folder: Path, *arguments: str) -> list[str]:
    """Lists the modules that a command loads."""
    words = ["proctor", *arguments]
    return list_loaded_modules(f"sys.argv = {words!r}; from proctor.cli.main import main; main()", folder)


def foreign_packages(modules: list[str]) -> set[str]:
    """The packages that are neither the standard library's nor ours."""
    tops = {name.partition(".")[0] for name in modules}
    return tops - sys.stdlib_module_names - {"proctor", "__mp_main__"}


def own_modules(modules: list[str]) -> list[str]:
    return [name for name in modules if name.partition(".")[0] == "proctor"]


def test_importing_proctor_loads_itself_and_the_standard_library_alone(tmp_path: Path) -> None:
    modules = list_loaded_modules("import proctor", tmp_path)
    assert own_modules(modules) == ["proctor"]
    assert foreign_packages(modules) == set()


def test_a_public_name_loads_its_module_and_msgspec_alone(tmp_path: Path) -> None:
    modules = list_loaded_modules("from proctor import Case, hash_suite", tmp_path)
    assert own_modules(modules) == [
        "proctor",
        "proctor.codec",
        "proctor.model",
        "proctor.model.messages",
        "proctor.model.outputs",
        "proctor.model.suites_and_runs",
    ]
    assert foreign_packages(modules) <= {"msgspec", "typing_extensions"}


HELP_OF_CLI = ("", ".interrupts", ".main", ".echo")
HELP_AT_MOST = 73
"""Modules, most of them click's and the standard library's: 63 on Python 3.11."""


def test_help_loads_click_and_no_command(tmp_path: Path) -> None:
    modules = list_modules_of_command(tmp_path, "--help")
    assert set(own_modules(modules)) <= {
        "proctor",
        "proctor.errors",
        *(f"proctor.cli{name}" for name in HELP_OF_CLI),
    }
    assert "click" in foreign_packages(modules) <= {"click", "typing_extensions", "colorama"}
    assert len(modules) <= HELP_AT_MOST


SUITE = (
    '{"id": "a", "category": "reasoning", "input": "four", "ideal": "four", '
    '"assertion": {"type": "contains"}, "metadata": {"difficulty": "easy", "tokens_est": 1}}\n'
)
RUN_AT_MOST = 346
"""Modules, asyncio, sqlite3, packages and all: 343 on Python 3.11."""


def test_a_quiet_run_of_echo_loads_nothing_that_it_does_not_need(tmp_path: Path) -> None:
    suite = tmp_path / "suite.jsonl"
    suite.write_text(SUITE, encoding="utf-8")
    store = str(tmp_path / "store.db")
    modules = list_modules_of_command(
        tmp_path, "run", str(suite), "--target", "echo", "--quiet", "--store", store
    )
    needless = {
        "rich",
        "jsonschema",
        "regex",
        "aiohttp",
        "yaml",
        "junitparser",
        "onnxruntime",
        "numpy",
        "xllamacpp",
    }
    assert not foreign_packages(modules) & needless
    assert not {"tomllib", "proctor.charts", "proctor.reports.document"} & set(modules)
    assert len(modules) <= RUN_AT_MOST


def test_an_address_is_looked_up_without_the_kinds_that_have_none(tmp_path: Path) -> None:
    word = "openai:m@http://127.0.0.1:1/v1"
    code = (
        "from proctor.model import Params; from proctor.targets import get_service; "
        "from proctor.targets.parse import parse_target; "
        f"assert get_service(parse_target({word!r}, Params(), {{}})).name == 'openai'"
    )
    modules = list_loaded_modules(code, tmp_path)
    assert "proctor.targets.api.openai.services" in modules
    assert not {"proctor.targets.process.command", "proctor.targets.function"} & set(modules)


@pytest.mark.parametrize("word", COMMANDS)
def test_every_command_in_the_table_is_there_under_its_name(word: str) -> None:
    command = cli.get_command(click.Context(cli), word)
    assert command is not None
    assert command.name == word


# --- the public names --------------------------------------------------------------------------------------


def announced(module: ModuleType) -> dict[str, str]:
    """The names that a type checker sees, with the modules they come from."""
    tree = ast.parse(Path(str(module.__file__)).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    return {name.name: str(node.module) for node in imports for name in node.names}


def test_the_public_names_are_sorted_and_the_same_for_people_type_checkers_and_python() -> None:
    assert proctor.__all__ == sorted(proctor.__all__)
    homes = {name: f"proctor.{module}" for name, module in proctor._HOMES.items()}
    assert announced(proctor) == homes
    assert set(proctor.__all__) == set(homes)


@pytest.mark.parametrize("name", proctor.__all__)
def test_a_public_name_is_what_its_module_has(name: str) -> None:
    assert getattr(proctor, name) is getattr(import_module(f"proctor.{proctor._HOMES[name]}"), name)


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'proctor' has no attribute 'Sample'"):
        _ = proctor.Sample  # type: ignore[attr-defined]


# --- every file --------------------------------------------------------------------------------------------

Function = ast.FunctionDef | ast.AsyncFunctionDef


def place(path: Path, node: ast.AST | None = None) -> str:
    line = getattr(node, "lineno", 1)
    return f"{path.relative_to(PACKAGE).as_posix()}:{line} {getattr(node, 'name', '')}".rstrip()


@pytest.mark.slow
def test_every_error_in_a_docstring_exists() -> None:
    names = set(dir(builtins))
    raised: dict[str, str] = {}
    for path, node in list_nodes(PACKAGE):
        if isinstance(node, ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name.rpartition(".")[2])
        if isinstance(node, Function | ast.ClassDef):
            _, _, section = (ast.get_docstring(node) or "").partition("Raises:\n")
            raised |= dict.fromkeys(re.findall(r"^    ([A-Z]\w+): ", section, re.MULTILINE), place(path))
    assert {name: where for name, where in raised.items() if name not in names} == {}


def opens_text(call: ast.Call) -> bool:
    """Whether the call appears to open a file as text."""
    function = call.func
    modes = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg == "mode")]
    if any(isinstance(mode, ast.Constant) and "b" in str(mode.value) for mode in modes):
        return False
    if isinstance(function, ast.Name):
        return function.id in ("open", "TextIOWrapper")
    if not isinstance(function, ast.Attribute):
        return False
    if function.attr == "open":
        # os.open gives a number, and a member of a ZIP archive is always bytes
        return not (isinstance(function.value, ast.Name) and function.value.id in ("os", "archive"))
    return function.attr in ("read_text", "write_text", "fdopen", "TextIOWrapper")


def names_encoding(call: ast.Call) -> bool:
    words = [argument.value for argument in call.args if isinstance(argument, ast.Constant)]
    return any(argument.arg == "encoding" for argument in call.keywords) or "utf-8" in words


@pytest.mark.slow
def test_every_text_file_is_opened_with_its_encoding_named() -> None:
    calls = [(path, node) for path, node in list_nodes(PACKAGE) if isinstance(node, ast.Call)]
    assert [place(path, call) for path, call in calls if opens_text(call) and not names_encoding(call)] == []


@pytest.mark.parametrize(
    ("code", "is_text"),
    [
        ("open(p)", True),
        ("open(p, 'rb')", False),
        ("p.open(mode='wb')", False),
        ("p.open('w')", True),
        ("p.read_text()", True),
        ("os.open(p, 0)", False),
        ("archive.open(p)", False),
        ("os.fdopen(3, 'w')", True),
        ("io.BytesIO()", False),
    ],
)
def test_the_check_of_encodings_recognizes_calls_that_open_text_files(code: str, is_text: bool) -> None:
    (statement,) = ast.parse(code).body
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Call)
    assert opens_text(statement.value) is is_text
