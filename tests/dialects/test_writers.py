"""Every suite written in every dialect is read unchanged, or the losses are reported."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from msgspec.structs import replace

from proctor.codec import decode, encode, judged_digest, sent_digest, suite_digest
from proctor.dialects import DIALECTS, writable_names
from proctor.dialects.detection import detect
from proctor.dialects.proctor.schema import suite_schema
from proctor.dialects.shared.head import read_head
from proctor.dialects.shared.losses import is_type_name
from proctor.model import (
    Assertion,
    Case,
    Message,
    PassRule,
    Problem,
    SplitRule,
    Suite,
    SuiteDefaults,
)
from proctor.prompts.fill import fill_first_prompt
from proctor.protocols import CaseAtLine
from proctor.services.suites.convert import MAIN_FILE, ConvertedSuite, convert_suite
from proctor.services.suites.file_source import source_from_path
from proctor.services.suites.load import with_repeats_rule
from proctor.services.suites.pass_rules import restate_rules
from proctor.services.suites.write_files import write_suite_files

FOLDER = Path(__file__).parent
SIDECARS = {"lines.yaml"}
ENVIRON = json.loads((FOLDER / "environ.json").read_text(encoding="utf-8"))


def list_golden_paths() -> list[Path]:
    """Each file with a golden beside it, and each folder of Markdown tests."""
    folders = [FOLDER / name for name in DIALECTS.names() if (FOLDER / name).is_dir()]
    files = [
        path
        for folder in folders
        for path in sorted(folder.iterdir())
        if path.with_name(f"{path.stem}.suite.json").exists()
        and not path.name.endswith(".suite.json")
        and path.name not in SIDECARS
    ]
    return files + [path for path in sorted((FOLDER / "ai_tester").glob("*/")) if any(path.rglob("*.md"))]


@dataclass(frozen=True)
class ReadSuite:
    """A suite as a dialect gives it."""

    suite: Suite
    cases: tuple[Case, ...]
    problems: tuple[Problem, ...] = ()

    @property
    def digests(self) -> dict[str, tuple[str, str]]:
        return {case.id: (sent_digest(case), judged_digest(case)) for case in self.cases}

    @property
    def digest(self) -> str:
        return suite_digest(self.suite, [(case_id, *digests) for case_id, digests in self.digests.items()])


def read(dialect: str, path: Path, environ: dict[str, str]) -> ReadSuite:
    # Without a folder it is not checked whether the workspaces of a suite exist.
    source = replace(source_from_path(path, environ), folder="")
    items = list(DIALECTS.get(dialect).read(source))
    (suite,) = [item for item in items if isinstance(item, Suite)]
    cases = {item.case.id: item.case for item in reversed(items) if isinstance(item, CaseAtLine)}
    problems = [item for item in items if isinstance(item, Problem)]
    for item in items:
        if isinstance(item, CaseAtLine):
            suite = with_repeats_rule(suite, item.repeats_rule)
    return ReadSuite(suite, tuple(reversed(cases.values())), tuple(problems))


BASE = Case(
    id="base",
    input=(Message(role="user", content="What is the capital of Norway?"),),
    expected="Oslo",
    assertions=(Assertion(grader="exact", params={"value": "Oslo"}, label="exact"),),
    category="factual",
    metadata={"difficulty": "easy", "tokens_est": 12},
)
VALIDATOR = Draft202012Validator(suite_schema())
REFUSED_CASES = {
    ("proctor/features.jsonl", "agentv"): {
        "no-variable"
    },  # it would name a variable there, and a secret be sent
    ("meridian/table.csv", "ai_tester"): {"two\r\nlines"},  # no file can have such a name
}
"""Cases that are refused even if losses are allowed."""
CASES_WITH_FILES_OUTSIDE = {"agentv/elsewhere.yaml": {"listed-2"}}
"""Cases with files outside of the suite's folder, which cannot be written."""
HEADERS: dict[str, dict[str, Any]] = {
    "described": {"description": "Cities.", "declared_version": "2.1"},
    "rules": {"pass_rule": PassRule(threshold=0.8), "repeats_rule": "mean"},
    "split": {"split_rule": SplitRule(ratio=0.3)},
    "whole": {"no_holdout": True},
    "defaults": {"defaults": SuiteDefaults(targets=("small",), budget_usd=2.0)},
    "notes": {"notes": {"author": "Ida"}},
}


@cache
def read_all_suites() -> dict[str, ReadSuite]:
    suites_by_name = {}
    for name, fields in HEADERS.items():
        suites_by_name[f"header-{name}"] = ReadSuite(Suite(name=name, dialect="proctor", **fields), (BASE,))
    for path in list_golden_paths():
        content = read(path.relative_to(FOLDER).parts[0], path, ENVIRON)
        if any(problem.level == "error" and problem.case is None for problem in content.problems):
            content = ReadSuite(
                Suite(name=content.suite.name, dialect="wrong"), content.cases
            )  # its header may say anything
        suites_by_name[path.relative_to(FOLDER).as_posix()] = content
    return suites_by_name


NAMES = [
    *(f"header-{name}" for name in HEADERS),
    *(str(path.relative_to(FOLDER)) for path in list_golden_paths()),
]
every_suite = pytest.mark.parametrize("name", NAMES)
every_renderer = pytest.mark.parametrize("dialect_name", writable_names())


def errors(problems: Iterable[Problem]) -> list[Problem]:
    return [problem for problem in problems if problem.level == "error"]


def write_and_read(
    conversion: ConvertedSuite, dialect_name: str, cases: Iterable[Case], folder: Path
) -> ReadSuite:
    """Writes a converted suite to a folder and reads it."""
    files = write_suite_files(
        conversion, str(folder / "suite") + ("/" if MAIN_FILE in conversion.files else "")
    )
    environ = {name: f"${{{{ {name} }}}}" for case in cases for name in case.variables}
    path = folder / "suite" / conversion.name_hint if MAIN_FILE in conversion.files else folder / "suite"
    assert path in files or path.is_dir()
    return read(dialect_name, path, environ)


def as_json(thing: Any) -> Any:
    return decode(encode(thing), object)


def to_plain(case: Case) -> dict[str, Any]:
    """Every field of a case, without labels that only repeat the type."""
    fields = {name: as_json(getattr(case, name)) for name in Case.__struct_fields__}
    for assertion, row in zip(case.assertions, fields["assertions"], strict=True):
        row["weight"] = float(assertion.weight)
        if is_type_name(assertion):
            row.pop("label", None)
    return fields


def check_prompts_are_refused(original: ReadSuite, dialect_name: str) -> None:
    """Checks that several prompts are an error that names them, if the dialect cannot keep them."""
    if len(original.suite.defaults.prompts) < 2 or DIALECTS.get(dialect_name).keeps_prompts:
        return
    conversion = convert_suite(original.suite, original.cases, dialect_name, lossy=False)
    (problem,) = [problem for problem in conversion.problems if problem.field == "defaults.prompts"]
    assert problem.level == "error"
    assert all(repr(prompt.name) in problem.message for prompt in original.suite.defaults.prompts[:5])


def with_prompts(original: ReadSuite, dialect_name: str) -> ReadSuite:
    """A suite as it is written: prompts are filled in if the dialect has none."""
    prompts = original.suite.defaults.prompts
    if not prompts or DIALECTS.get(dialect_name).keeps_prompts:
        return original
    cases: list[Case] = []
    for case in original.cases:
        if case.prompts == ():
            cases.append(replace(case, prompts=None))
        for prompt in prompts:
            if case.prompts is None or prompt.name in case.prompts:
                name = f"{case.id}~{prompt.name}" if len(prompts) > 1 else case.id
                cases.append(replace(fill_first_prompt(case, (prompt,)), id=name))
    suite = replace(original.suite, defaults=replace(original.suite.defaults, prompts=()))
    return ReadSuite(suite, tuple(cases), original.problems)


def with_dialect_rules(original: ReadSuite, dialect_name: str) -> ReadSuite:
    """A suite as it must be read: with its pass rules as the dialect expresses them."""
    suite, cases, _ = restate_rules(
        original.suite, list(original.cases), dialect_name, DIALECTS.get(dialect_name)
    )
    return ReadSuite(suite, tuple(cases))


# --- every suite in every dialect --------------------------------------------------------------------------


@pytest.mark.slow
@every_renderer
@every_suite
def test_a_suite_is_read_unchanged_except_for_cases_that_are_reported(
    name: str, dialect_name: str, tmp_path: Path
) -> None:
    original = read_all_suites()[name]
    check_prompts_are_refused(original, dialect_name)
    original = with_prompts(original, dialect_name)
    conversion = convert_suite(original.suite, original.cases, dialect_name, lossy=False)
    for problem in errors(conversion.problems):
        assert problem.code == "unsayable"
        assert repr(problem.case or original.suite.name)[1:40] in problem.message
        assert f"the format {dialect_name} " in problem.message
        assert problem.field
    refused_ids = {problem.case for problem in errors(conversion.problems)}
    assert refused_ids <= {None, *original.digests}
    writable_cases = [case for case in original.cases if case.id not in refused_ids]
    if not writable_cases:
        assert refused_ids or not original.cases
        return
    final_conversion = (
        convert_suite(original.suite, writable_cases, dialect_name, lossy=False)
        if refused_ids - {None}
        else conversion
    )
    assert {problem.case for problem in errors(final_conversion.problems)} <= {None}
    result = write_and_read(final_conversion, dialect_name, writable_cases, tmp_path)
    expected = with_dialect_rules(ReadSuite(original.suite, tuple(writable_cases)), dialect_name)
    assert errors(result.problems) == []
    assert result.digests == expected.digests
    read_cases_by_id = {case.id: case for case in result.cases}
    for case in writable_cases:
        read_case = read_cases_by_id[case.id]
        for field in ("tags", "category", "repeats", "only_targets", "variables", "notes"):
            assert getattr(read_case, field) == getattr(case, field)
        problem_fields = {problem.field for problem in final_conversion.problems if problem.case == case.id}
        for field, value in case.metadata.items():
            assert (
                read_case.metadata.get(field) == value
                or f"metadata.{field}" in problem_fields
                or field == "file"
            )
    if not refused_ids:
        assert result.digest == expected.digest


@pytest.mark.slow
@every_renderer
@every_suite
def test_losses_are_reported_and_kept_and_no_case_is_missing(
    name: str, dialect_name: str, tmp_path: Path
) -> None:
    original = read_all_suites()[name]
    if not original.cases:
        return
    conversion = convert_suite(original.suite, original.cases, dialect_name, lossy=True)
    original = with_prompts(original, dialect_name)
    refused_ids = {problem.case for problem in errors(conversion.problems)}
    assert refused_ids == REFUSED_CASES.get((name, dialect_name), set())
    if MAIN_FILE in conversion.files:
        first = conversion.files[MAIN_FILE].splitlines(keepends=True)
        assert (
            detect(
                read_head(conversion.name_hint, first), {key: DIALECTS.get(key) for key in DIALECTS.names()}
            )
            == dialect_name
        )
    result = write_and_read(conversion, dialect_name, original.cases, tmp_path)
    assert errors(result.problems) == []
    assert result.digests.keys() == original.digests.keys() - refused_ids
    original = with_dialect_rules(original, dialect_name)
    written_cases = {case.id: case for case in result.cases}
    for case in (case for case in original.cases if case.id not in refused_ids):
        written_case = written_cases[case.id]
        if written_case == case:
            continue
        lost_fields = written_case.metadata.get("proctor", {})
        problem_fields = {problem.field for problem in conversion.problems if problem.case == case.id}
        before, after = to_plain(case), to_plain(written_case)
        after["metadata"] = {key: value for key, value in after["metadata"].items() if key in case.metadata}
        for field, value in before.items():
            if after[field] != value:
                assert lost_fields[field] == as_json(getattr(case, field))
                assert any((place or "").startswith(field) for place in problem_fields)
    above: dict[str, Any] = {}
    for case in result.cases:
        above |= case.metadata.get("proctor", {}).get("suite", {})
    for rule in ("pass_rule", "repeats_rule", "description", "declared_version"):
        if (
            getattr(result.suite, rule) != getattr(original.suite, rule)
            and getattr(original.suite, rule) is not None
        ):
            assert (
                above.get(rule) == as_json(getattr(original.suite, rule))
                or original.suite.dialect == dialect_name
            )


@every_suite
def test_dialect_proctor_expresses_every_suite_and_its_schema_accepts_it(name: str) -> None:
    original = read_all_suites()[name]
    conversion = convert_suite(original.suite, original.cases, "proctor", lossy=False)
    assert conversion.problems == []
    rows = [json.loads(row) for row in conversion.files[MAIN_FILE].splitlines()]
    assert len(rows) == len(original.cases) + 1
    assert [error.message for row in rows for error in VALIDATOR.iter_errors(row)] == []


@pytest.mark.parametrize("dialect", [name for name in writable_names() if (FOLDER / name).is_dir()])
def test_a_dialect_can_write_the_suites_that_it_has_read(dialect: str) -> None:
    for name, original in read_all_suites().items():
        if name.startswith(f"{dialect}/") and original.suite.dialect == dialect:
            original = with_prompts(original, dialect)  # the dialect can express each of these cases
            conversion = convert_suite(original.suite, original.cases, dialect, lossy=False)
            assert {problem.case for problem in errors(conversion.problems)} == CASES_WITH_FILES_OUTSIDE.get(
                name, set()
            )
