"""The JSON Schema of dialect agentv and its reader accept the same suites."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from msgspec.structs import replace

from proctor.dialects import DIALECTS
from proctor.dialects.agentv.read import assertions
from proctor.dialects.agentv.read.suite import SUITE_FIELDS, UNUSED_FIELDS
from proctor.dialects.agentv.read.tests import TEST_FIELDS
from proctor.dialects.agentv.schema import suite_schema
from proctor.field_schemas import spec_fields
from proctor.model import Problem
from proctor.services.suites.file_source import source_from_path
from proctor.yaml12 import YamlError, load, to_plain

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent / "agentv"
ENVIRON = json.loads((FOLDER.parent / "environ.json").read_text(encoding="utf-8"))
DIALECT = DIALECTS.get("agentv")
VALIDATOR = Draft202012Validator(suite_schema())
TEST_VALIDATOR = Draft202012Validator({"$ref": "#/$defs/test", "$defs": suite_schema()["$defs"]})

EXPRESSED = {
    "wrong-type": "a value of another type",
    "unknown-field": "a field that no reader knows",
    "unknown-value": "a text that is none of the choices",
    "missing-field": "a required field that is absent or blank",
    "bad-threshold": "a threshold outside of 0 to 1",
    "bad-workers": "a number of workers outside of 1 to 50",
    "bad-budget": "a budget of 0 or less",
    "bad-timeout": "a time limit of 0 or less",
    "bad-number": "a number outside of its range",
    "bad-holdout": "a share outside of 0 to 1",
    "removed-field": "a field of an older version",
    "empty-list": "an empty list of members, tools or items",
    "empty-value": "a blank text",
    "not-a-suite": "a file that is no object",
    "not-supported": "a field of AgentV 5 that is refused",
}
"""The codes of errors that the schema can express, with what it then refuses."""
NOT_EXPRESSED = {
    "unset-variable": "depends on the environment",
    "missing-variable": "depends on the `vars` of a test",
    "missing-file": "depends on other files",
    "missing-folder": "depends on other files",
    "missing-include": "depends on other files",
    "missing-prompt-file": "depends on other files",
    "empty-glob": "depends on other files",
    "unknown-ending": "depends on other files",
    "no-tests": "depends on other files",
    "not-an-object": "depends on other files",
    "two-sidecars": "depends on other files",
    "include-cycle": "depends on other files",
    "too-deep": "depends on other files",
    "unknown-type": "a custom grader may have any name",
    "old-type": "a custom grader may have any name",
    "unknown-image": "depends on the content of a file",
    "bad-yaml": "the file has no values to check",
    "bad-json": "the file has no values to check",
    "bad-encoding": "the file has no values to check",
    "bad-path": "depends on the folder of the suite",
    "bad-command": "depends on how a shell reads a text",
    "bad-regex": "depends on the language of the pattern",
    "bad-flag": "depends on the language of the pattern",
    "bad-range": "depends on the other ranges of an item",
    "conflicting-fields": "depends on two fields; an editor could not say which of them is wrong",
    "duplicate-path": "depends on the other repositories",
    "duplicate-id": "depends on the other items",
    "duplicate-name": "depends on the other members",
    "duplicate-key": "a parser keeps one of the two",
}
"""The codes that it cannot express, each with the reason."""


def problems(path: Path, text: str | None = None) -> list[Problem]:
    """The errors of a file, or of `text` if it is given, at the path of the file."""
    source = source_from_path(path, ENVIRON, {})
    if text is not None:
        data = text.encode()
        source = replace(source, read_lines=lambda: iter(data.splitlines(keepends=True)))
    items = DIALECT.read(replace(source, folder=""))
    return [item for item in items if isinstance(item, Problem) and item.level == "error"]


def parse_yaml(text: str) -> Any:
    return to_plain(load(text))


def suites() -> list[Path]:
    """The suites in YAML that can be parsed; those beside a JSON Lines file are only headers."""
    return [
        path
        for path in sorted(FOLDER.glob("*.yaml"))
        if path.name not in ("lines.yaml", "rows.eval.yaml", "no_utf8.yaml", "no_yaml.yaml")
    ]


def test_the_schema_is_a_schema_of_the_draft_that_it_names() -> None:
    assert suite_schema()["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
    Draft202012Validator.check_schema(suite_schema())


def test_the_schema_is_smaller_than_60_kb() -> None:
    assert len(json.dumps(suite_schema())) < 60_000


@pytest.mark.parametrize("path", suites(), ids=lambda path: path.name)
def test_a_golden_suite_fits_unless_it_has_an_error_that_can_be_expressed(path: Path) -> None:
    own = {problem.code for problem in problems(path) if Path(problem.path or "").name == path.name}
    errors = [
        f"{error.json_path}: {error.message}"
        for error in VALIDATOR.iter_errors(parse_yaml(path.read_text("utf-8")))
    ]
    assert bool(errors) == bool(own & EXPRESSED.keys()), errors


def test_every_code_of_the_goldens_is_in_one_of_the_tables() -> None:
    codes = {problem.code for path in suites() for problem in problems(path)}
    assert codes <= EXPRESSED.keys() | NOT_EXPRESSED.keys()
    assert EXPRESSED.keys().isdisjoint(NOT_EXPRESSED)


@pytest.mark.parametrize("name", ["lines.jsonl", "rows.jsonl"])
def test_the_lines_of_a_suite_in_json_lines_fit_as_tests(name: str) -> None:
    path = FOLDER / name
    wrong = {problem.line for problem in problems(path)}
    lines = path.read_text("utf-8").splitlines()
    fitting = [number for number, line in enumerate(lines, 1) if number not in wrong and line.strip()]
    assert fitting
    assert [number for number in fitting if not TEST_VALIDATOR.is_valid(json.loads(lines[number - 1]))] == []


def examples() -> list[Any]:
    """The suites in the documentation and the examples."""
    pages = sorted((ROOT / "docs").rglob("*.md"))
    blocks = [
        pytest.param(body, id=f"{page.name}-{name}")
        for page in pages
        for name, body in re.findall(
            r"^```yaml write (\S+)\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL
        )
        if "targets.yaml" not in name
    ]
    files = [
        pytest.param(path.read_text("utf-8"), id=path.name) for path in (ROOT / "examples").rglob("*.yaml")
    ]
    return [*blocks, *files]


@pytest.mark.parametrize("text", examples())
def test_every_suite_of_the_documentation_fits(text: str) -> None:
    try:
        document = parse_yaml(text)
    except YamlError:
        pytest.skip("shows an error of YAML")
    if not isinstance(document, dict) or "tests" not in document or "providers" in document:
        pytest.skip("is no suite of this dialect")
    codes = {problem.code for problem in problems(FOLDER / "seed.yaml", text)} & EXPRESSED.keys()
    errors = [f"{error.json_path}: {error.message}" for error in VALIDATOR.iter_errors(document)]
    assert bool(errors) == bool(codes), errors


# --- laws --------------------------------------------------------------------------------------------------

VALUES: list[Any] = [None, 0, -1, 2.5, "", "x", [], {}, True, ["x"], {"zz": 1}, [[]], [{}]]
WHOLE = ("whole_suite.yaml", "workspaces.yaml", "messages.yaml", "old_names.yaml", "v5.yaml", "seed.yaml")
LOOSE = {
    "expected_output",
    "expected_messages",
    "vars",
    "prompts",
    "criteria",
    "expected_outcome",
    "input_files",
}
"""Fields that hold values of any form, texts with variables, or what is required only without others."""


class Mutation(NamedTuple):
    """A change at one place of a suite."""

    place: tuple[str | int, ...]
    change: str
    value: Any = None

    def apply(self, document: Any) -> Any:
        changed = deepcopy(document)
        outer = changed
        for key in self.place[:-1]:
            outer = outer[key]
        if self.change == "delete":
            del outer[self.place[-1]]
        elif self.change == "set":
            outer[self.place[-1]] = self.value
        else:
            (outer[self.place[-1]] if self.place else changed)["no_such_field"] = 1
        return changed


def mutations(node: Any, place: tuple[str | int, ...] = ()) -> Iterator[Mutation]:
    if isinstance(node, dict):
        yield Mutation(place, "add")
        yield from (Mutation((*place, key), "delete") for key in node)
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in inner:
        yield from (Mutation((*place, key), "set", other) for other in VALUES)
        yield from mutations(value, (*place, key))


@cache
def document(name: str) -> Any:
    return parse_yaml((FOLDER / name).read_text("utf-8"))


@cache
def all_mutations(name: str) -> list[Mutation]:
    return list(mutations(document(name)))


def check_law(name: str, mutation: Mutation) -> None:
    changed = mutation.apply(document(name))
    codes = {problem.code for problem in problems(FOLDER / name, json.dumps(changed))}
    fits = VALIDATOR.is_valid(changed)
    if not codes:
        assert fits, f"{mutation} is accepted by the reader, and refused by the schema"
    if codes & {"wrong-type", "unknown-field", "unknown-value"} and LOOSE.isdisjoint(mutation.place):
        assert not fits, f"{mutation} is refused by the reader ({codes}), and accepted by the schema"


@given(
    st.sampled_from(WHOLE).flatmap(
        lambda name: st.tuples(st.just(name), st.sampled_from(all_mutations(name)))
    )
)
def test_reader_and_schema_agree_after_any_change(change: tuple[str, Mutation]) -> None:
    check_law(*change)


# --- help in editors ---------------------------------------------------------------------------------------


def test_every_field_has_a_description() -> None:
    schema = suite_schema()
    for fields, table in (
        (schema["properties"], SUITE_FIELDS),
        (schema["$defs"]["test"]["properties"], TEST_FIELDS),
    ):
        assert [name for name in table if not fields[name].get("description")] == []
    types = assertions.VERSION_4_TYPES | assertions.VERSION_5_TYPES
    fields = {
        name: field
        for kind in types.values()
        for name, field in {**spec_fields(kind.fields), **kind.names}.items()
    }
    assert [
        name for name, field in fields.items() if not field.get("description") and "not" not in field
    ] == []


def test_a_misspelled_field_is_an_error_at_its_path() -> None:
    suite = {"tests": [{"id": "a", "input": "b", "asertions": []}]}
    (error,) = VALIDATOR.iter_errors(suite)
    assert (error.json_path, "asertions" in error.message) == ("$.tests[0]", True)


def test_every_type_is_offered_for_completion() -> None:
    choices = suite_schema()["$defs"]["assertion"]["properties"]["type"]["anyOf"][0]["enum"]
    assert choices == list(assertions.TYPES)


def test_fields_without_effect_are_valid() -> None:
    assert VALIDATOR.is_valid({"tests": [], **dict.fromkeys(UNUSED_FIELDS, "x")})
