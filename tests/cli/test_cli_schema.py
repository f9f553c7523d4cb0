"""`proctor schema`, the schemas that `proctor init` writes, and proctor.toml's schema against its reader."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from proctor.cli.config_defaults import config_names
from proctor.cli.config_schema import config_schema
from proctor.cli.main import load_command
from proctor.cli.number_ranges import ShareRange
from proctor.cli.schemas import SCHEMAS
from proctor.services.runs.config import SHARE_KEYS, dialect_settings
from support.cli import Proctor

ROOT = Path(__file__).parents[2]
VALIDATOR = Draft202012Validator(config_schema())


@pytest.mark.parametrize("name", SCHEMAS)
def test_each_schema_is_one_of_the_draft_that_it_names(proctor: Proctor, name: str) -> None:
    result = proctor("schema", name)
    assert (result.code, result.err) == (0, "")
    schema = json.loads(result.out)
    assert schema["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
    Draft202012Validator.check_schema(schema)
    references = set(re.findall(r'"\$ref": "#/\$defs/(\w+)"', result.out))
    assert references == set(schema.get("$defs", {})), "what nothing refers to need not be there"


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_can_be_written_to_a_file(proctor: Proctor, folder: Path, name: str) -> None:
    result = proctor("schema", name, "-o", f"schemas/{name}.json")
    assert (result.code, result.out) == (0, f"Wrote schemas/{name}.json\n")
    assert (folder / "schemas" / f"{name}.json").read_text(encoding="utf-8") == proctor("schema", name).out
    (folder / "file").write_text("", encoding="utf-8")
    refusal = proctor("schema", name, "-o", "file/schema.json")
    assert refusal.code == 4
    assert "'file/schema.json' cannot be written" in refusal.err


def test_an_unknown_name_is_refused_with_the_known_ones(proctor: Proctor) -> None:
    result = proctor("schema", "suite")
    assert result.code == 4
    assert all(name in result.err for name in SCHEMAS)


# --- init --------------------------------------------------------------------------------------------------


def test_each_file_of_a_new_project_names_a_schema_that_is_there(proctor: Proctor, folder: Path) -> None:
    assert proctor("init").code == 0
    for name, pattern in (
        ("targets.yaml", r"# yaml-language-server: \$schema=(\S+)\n"),
        ("proctor.toml", r"#:schema (\S+)\n"),
    ):
        first = re.match(pattern, (folder / name).read_text(encoding="utf-8"))
        assert first, name
        assert (folder / name).parent.joinpath(first[1]).is_file()
    for name in SCHEMAS:
        path = folder / ".proctor" / "schemas" / f"{name}.schema.json"
        assert path.read_text(encoding="utf-8") == proctor("schema", name).out


def test_the_schemas_of_an_older_proctor_are_replaced(proctor: Proctor, folder: Path) -> None:
    path = folder / ".proctor" / "schemas" / "targets.schema.json"
    path.parent.mkdir(parents=True)
    path.write_text("{}", encoding="utf-8")
    assert proctor("init").code == 0
    assert path.read_text(encoding="utf-8") == proctor("schema", "targets").out


def test_schemas_are_committed_and_the_store_is_not(proctor: Proctor, folder: Path) -> None:
    git = ["git", "-c", "init.defaultBranch=main", "-C", str(folder)]
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    assert subprocess.run([*git, "init", "-q"], env=environ, check=False).returncode == 0
    assert proctor("init").code == 0
    assert proctor("run", "starter", "--target", "echo").code in (1, 3)
    paths = subprocess.run(
        [*git, "ls-files", "--others", "--exclude-standard"],
        env=environ,
        stdout=subprocess.PIPE,
        check=True,
        encoding="utf-8",
    ).stdout.split()
    assert ".proctor/schemas/agentv.schema.json" in paths
    assert [name for name in paths if name.endswith(".db")] == []


def test_files_with_the_comments_and_keys_for_editors_are_read(proctor: Proctor, folder: Path) -> None:
    (folder / "a.eval.yaml").write_text(
        "# yaml-language-server: $schema=x.json\n$schema: x.json\n"
        "tests: [{id: a, criteria: c, input: b, assertions: [{type: contains, value: b}, text]}]\n",
        encoding="utf-8",
    )
    (folder / "b.jsonl").write_text(
        '{"proctor": 1, "$schema": "x.json", "name": "b"}\n'
        '{"id": "a", "input": [{"role": "user", "content": "b"}], "assertions": [{"grader": "is_json"}]}\n',
        encoding="utf-8",
    )
    (folder / "targets.yaml").write_text(
        "# yaml-language-server: $schema=x.json\n$schema: x.json\ntargets: [{name: me, target: echo}]\n",
        encoding="utf-8",
    )
    (folder / "proctor.toml").write_text(
        '#:schema x.json\n"$schema" = "x.json"\ntarget = ["me"]\n', encoding="utf-8"
    )
    validation = proctor("validate", "a.eval.yaml", "b.jsonl", "--strict", "--json")
    assert validation.code == 0
    assert [file["warnings"] for file in validation.json["files"]] == [[], []]
    ran = proctor("run", "b.jsonl", "--json")
    assert [run["target"] for run in ran.json["runs"]] == ["me"]
    (folder / "proctor.toml").write_text('"$schema" = 1\n', encoding="utf-8")
    assert "`$schema` is 1" in proctor("run", "b.jsonl").err


def test_help_and_a_run_import_no_schema(folder: Path) -> None:
    code = (
        "import sys; from proctor.cli.main import cli; cli(['--help'], standalone_mode=False); "
        "print([name for name in sys.modules if 'schema' in name and name.startswith('proctor')])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, check=True, encoding="utf-8"
    )
    assert result.stdout.endswith("[]\n")


# --- proctor.toml ------------------------------------------------------------------------------------------


def test_every_key_of_the_file_is_described() -> None:
    keys = {name for param in load_command("run").params for name in config_names(param)}
    properties = config_schema()["properties"]
    assert properties.keys() >= {*keys, *dialect_settings(), "prompts", "evaluators", "substitutions"}
    assert [name for name, schema in properties.items() if not schema.get("description")] == []


def documents() -> list[Any]:
    pages = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]
    blocks = [
        pytest.param(body, id=page.name)
        for page in pages
        for body in re.findall(
            r"^```toml(?: write \S*proctor\.toml)?\n(.*?)^```",
            page.read_text("utf-8"),
            re.MULTILINE | re.DOTALL,
        )
    ]
    template = ROOT / "src" / "proctor" / "templates" / "proctor.toml"
    return [*blocks, pytest.param(template.read_text("utf-8"), id="template")]


@pytest.mark.parametrize("text", documents())
def test_every_file_of_the_documentation_fits(text: str) -> None:
    table = tomllib.loads(text)
    if any(isinstance(value, dict) and name != "substitutions" for name, value in table.items()):
        pytest.skip("is another file")
    assert [error.message for error in VALIDATOR.iter_errors(table)] == []


VALUES = ['"x"', '""', "0", "-1", "1", "0.5", "7", "true", '["x"]', "[1]", "[]", "{a = 1}", '["dev"]']
EXTRA = {
    **dict.fromkeys(SHARE_KEYS, '"2 %"'),
    "gate-mode": '"interval"',
    "split": '"dev"',
    "evals-class": '"Match"',
}
LOOSE = {"cluster", "prompts", "store", "attest", "resume"}
"""Keys whose text must have a form, or lead to a folder."""


@pytest.mark.parametrize("key", sorted(config_schema()["properties"]))
def test_reader_and_schema_agree_on_every_value_of_a_key(proctor: Proctor, folder: Path, key: str) -> None:
    (folder / "a.jsonl").write_text('{"id": "a", "input": "b", "expected": "b"}\n', encoding="utf-8")
    for value in [*VALUES, *filter(None, [EXTRA.get(key)])]:
        text = f'"{key}" = {value}\n'
        (folder / "proctor.toml").write_text(text, encoding="utf-8")
        result = (
            "proctor.toml: error:" in proctor("run", "a.jsonl", "--target", "echo", "--store", ":memory:").err
        )
        fits = VALIDATOR.is_valid(tomllib.loads(text))
        if not result:
            assert fits, f"{text} is accepted by the reader, and refused by the schema"
        elif key not in LOOSE or not value.startswith('"'):
            assert not fits, f"{text} is refused by the reader, and accepted by the schema"


def test_every_share_may_be_a_percentage() -> None:
    shares = [param for param in load_command("run").params if isinstance(param.type, ShareRange)]
    assert {name for param in shares for name in config_names(param)} == SHARE_KEYS


def test_an_unknown_key_is_refused(proctor: Proctor, folder: Path) -> None:
    assert not VALIDATOR.is_valid({"targt": "echo"})
    assert not VALIDATOR.is_valid({"json": True})
