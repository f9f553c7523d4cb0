"""Every suite written in every dialect: it comes back as it was, or what does not is named."""

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

HERE = Path(__file__).parent
SIDECARS = {"lines.yaml"}
ENVIRON = json.loads((HERE / "environ.json").read_text(encoding="utf-8"))


def goldens() -> list[Path]:
    """Each file with a golden beside it, and each folder of Markdown tests."""
    folders = [HERE / name for name in DIALECTS.names() if (HERE / name).is_dir()]
    files = [
        path
        for folder in folders
        for path in sorted(folder.iterdir())
        if path.with_name(f"{path.stem}.suite.json").exists()
        and not path.name.endswith(".suite.json")
        and path.name not in SIDECARS
    ]
    return files + [path for path in sorted((HERE / "ai_tester").glob("*/")) if any(path.rglob("*.md"))]


@dataclass(frozen=True)
class Read:
    """A suite as a dialect gives it."""

    suite: Suite
    cases: tuple[Case, ...]
    problems: tuple[Problem, ...] = ()

    @property
    def digests(self) -> dict[str, tuple[str, str]]:
        return {case.id: (sent_digest(case), judged_digest(case)) for case in self.cases}

    @property
    def digest(self) -> str:
        return suite_digest(self.suite, [(name, *both) for name, both in self.digests.items()])


def read(dialect: str, path: Path, environ: dict[str, str]) -> Read:
    # Without its folder nobody looks whether the workspaces of a suite are there.
    source = replace(source_from_path(path, environ), folder="")
    items = list(DIALECTS.get(dialect).read(source))
    (suite,) = [item for item in items if isinstance(item, Suite)]
    cases = {item.case.id: item.case for item in reversed(items) if isinstance(item, CaseAtLine)}
    problems = [item for item in items if isinstance(item, Problem)]
    for item in items:
        if isinstance(item, CaseAtLine):
            suite = with_repeats_rule(suite, item.repeats_rule)
    return Read(suite, tuple(reversed(cases.values())), tuple(problems))


BASE = Case(
    id="base",
    input=(Message(role="user", content="What is the capital of Norway?"),),
    expected="Oslo",
    assertions=(Assertion(grader="exact", params={"value": "Oslo"}, label="exact"),),
    category="factual",
    metadata={"difficulty": "easy", "tokens_est": 12},
)
VALIDATOR = Draft202012Validator(suite_schema())
REFUSED = {
    ("proctor/features.jsonl", "agentv"): {
        "no-variable"
    },  # it would name a variable there, and a secret be sent
    ("meridian/table.csv", "ai_tester"): {"two\r\nlines"},  # no file can have such a name
}
"""What is refused also where losing is allowed, since nothing can stand for it."""
OUTSIDE = {"agentv/elsewhere.yaml": {"listed-2"}}
"""Cases with files that lie outside of their suite's folder, and are not written there."""
HEADERS: dict[str, dict[str, Any]] = {
    "described": {"description": "Cities.", "declared_version": "2.1"},
    "rules": {"pass_rule": PassRule(threshold=0.8), "repeats_rule": "mean"},
    "split": {"split_rule": SplitRule(ratio=0.3)},
    "whole": {"no_holdout": True},
    "defaults": {"defaults": SuiteDefaults(targets=("small",), budget_usd=2.0)},
    "notes": {"notes": {"author": "Ida"}},
}


@cache
def suites() -> dict[str, Read]:
    found = {}
    for name, fields in HEADERS.items():
        found[f"header-{name}"] = Read(Suite(name=name, dialect="proctor", **fields), (BASE,))
    for path in goldens():
        one = read(path.relative_to(HERE).parts[0], path, ENVIRON)
        if any(problem.level == "error" and problem.case is None for problem in one.problems):
            one = Read(Suite(name=one.suite.name, dialect="wrong"), one.cases)  # its header may say anything
        found[path.relative_to(HERE).as_posix()] = one
    return found


NAMES = [
    *(f"header-{name}" for name in HEADERS),
    *(str(path.relative_to(HERE)) for path in goldens()),
]
every_suite = pytest.mark.parametrize("name", NAMES)
every_renderer = pytest.mark.parametrize("to", writable_names())


def errors(problems: Iterable[Problem]) -> list[Problem]:
    return [problem for problem in problems if problem.level == "error"]


def back(made: ConvertedSuite, to: str, cases: Iterable[Case], folder: Path) -> Read:
    """What was converted, written to a disk and read from there."""
    files = write_suite_files(made, str(folder / "suite") + ("/" if MAIN_FILE in made.files else ""))
    environ = {one: f"${{{{ {one} }}}}" for case in cases for one in case.variables}
    place = folder / "suite" / made.name_hint if MAIN_FILE in made.files else folder / "suite"
    assert place in files or place.is_dir()
    return read(to, place, environ)


def as_json(thing: Any) -> Any:
    return decode(encode(thing), object)


def plain(case: Case) -> dict[str, Any]:
    """Every field of a case, its labels only where they say something."""
    fields = {name: as_json(getattr(case, name)) for name in Case.__struct_fields__}
    for one, written in zip(case.assertions, fields["assertions"], strict=True):
        written["weight"] = float(one.weight)
        if is_type_name(one):
            written.pop("label", None)
    return fields


def check_prompts_are_refused(one: Read, to: str) -> None:
    """Several prompts that the dialect has no place for are an error that names them."""
    if len(one.suite.defaults.prompts) < 2 or DIALECTS.get(to).keeps_prompts:
        return
    made = convert_suite(one.suite, one.cases, to, lossy=False)
    (problem,) = [problem for problem in made.problems if problem.field == "defaults.prompts"]
    assert problem.level == "error"
    assert all(repr(prompt.name) in problem.message for prompt in one.suite.defaults.prompts[:5])


def with_prompts(one: Read, to: str) -> Read:
    """A suite as it is written: where the dialect has no prompts, they are filled in."""
    prompts = one.suite.defaults.prompts
    if not prompts or DIALECTS.get(to).keeps_prompts:
        return one
    cases: list[Case] = []
    for case in one.cases:
        if case.prompts == ():
            cases.append(replace(case, prompts=None))
        for prompt in prompts:
            if case.prompts is None or prompt.name in case.prompts:
                name = f"{case.id}~{prompt.name}" if len(prompts) > 1 else case.id
                cases.append(replace(fill_first_prompt(case, (prompt,)), id=name))
    suite = replace(one.suite, defaults=replace(one.suite.defaults, prompts=()))
    return Read(suite, tuple(cases), one.problems)


def as_said(one: Read, to: str) -> Read:
    """A suite as it must come back: with its pass rules in the words of the dialect."""
    suite, cases, _ = restate_rules(one.suite, list(one.cases), to, DIALECTS.get(to))
    return Read(suite, tuple(cases))


# --- for all pairs -----------------------------------------------------------------------------------------


@pytest.mark.slow
@every_renderer
@every_suite
def test_a_suite_comes_back_as_it_was_or_each_case_that_does_not_is_named(
    name: str, to: str, tmp_path: Path
) -> None:
    one = suites()[name]
    check_prompts_are_refused(one, to)
    one = with_prompts(one, to)
    made = convert_suite(one.suite, one.cases, to, lossy=False)
    for problem in errors(made.problems):
        assert problem.code == "unsayable"
        assert repr(problem.case or one.suite.name)[1:40] in problem.message
        assert f"the format {to} " in problem.message
        assert problem.field
    named = {problem.case for problem in errors(made.problems)}
    assert named <= {None, *one.digests}
    rest = [case for case in one.cases if case.id not in named]
    if not rest:
        assert named or not one.cases
        return
    again = convert_suite(one.suite, rest, to, lossy=False) if named - {None} else made
    assert {problem.case for problem in errors(again.problems)} <= {None}
    found = back(again, to, rest, tmp_path)
    wanted = as_said(Read(one.suite, tuple(rest)), to)
    assert errors(found.problems) == []
    assert found.digests == wanted.digests
    same_cases = {case.id: case for case in found.cases}
    for case in rest:
        same = same_cases[case.id]
        for field in ("tags", "category", "repeats", "only_targets", "variables", "notes"):
            assert getattr(same, field) == getattr(case, field)
        told = {problem.field for problem in again.problems if problem.case == case.id}
        for field, value in case.metadata.items():
            assert same.metadata.get(field) == value or f"metadata.{field}" in told or field == "file"
    if not named:
        assert found.digest == wanted.digest


@pytest.mark.slow
@every_renderer
@every_suite
def test_what_is_lost_is_told_and_kept_and_no_case_disappears(name: str, to: str, tmp_path: Path) -> None:
    one = suites()[name]
    if not one.cases:
        return
    made = convert_suite(one.suite, one.cases, to, lossy=True)
    one = with_prompts(one, to)
    refused = {problem.case for problem in errors(made.problems)}
    assert refused == REFUSED.get((name, to), set())
    if MAIN_FILE in made.files:
        first = made.files[MAIN_FILE].splitlines(keepends=True)
        assert (
            detect(read_head(made.name_hint, first), {each: DIALECTS.get(each) for each in DIALECTS.names()})
            == to
        )
    found = back(made, to, one.cases, tmp_path)
    assert errors(found.problems) == []
    assert found.digests.keys() == one.digests.keys() - refused
    one = as_said(one, to)
    written_cases = {case.id: case for case in found.cases}
    for case in (each for each in one.cases if each.id not in refused):
        written = written_cases[case.id]
        if written == case:
            continue
        kept = written.metadata.get("proctor", {})
        told = {problem.field for problem in made.problems if problem.case == case.id}
        before, after = plain(case), plain(written)
        after["metadata"] = {key: value for key, value in after["metadata"].items() if key in case.metadata}
        for field, value in before.items():
            if after[field] != value:
                assert kept[field] == as_json(getattr(case, field))
                assert any((place or "").startswith(field) for place in told)
    above: dict[str, Any] = {}
    for case in found.cases:
        above |= case.metadata.get("proctor", {}).get("suite", {})
    for rule in ("pass_rule", "repeats_rule", "description", "declared_version"):
        if getattr(found.suite, rule) != getattr(one.suite, rule) and getattr(one.suite, rule) is not None:
            assert above.get(rule) == as_json(getattr(one.suite, rule)) or one.suite.dialect == to


@every_suite
def test_dialect_proctor_says_all_of_every_suite_and_fits_its_schema(name: str) -> None:
    one = suites()[name]
    made = convert_suite(one.suite, one.cases, "proctor", lossy=False)
    assert made.problems == []
    rows = [json.loads(row) for row in made.files[MAIN_FILE].splitlines()]
    assert len(rows) == len(one.cases) + 1
    assert [error.message for row in rows for error in VALIDATOR.iter_errors(row)] == []


@pytest.mark.parametrize("dialect", [name for name in writable_names() if (HERE / name).is_dir()])
def test_a_dialect_can_say_what_it_has_read(dialect: str) -> None:
    for name, one in suites().items():
        if name.startswith(f"{dialect}/") and one.suite.dialect == dialect:
            one = with_prompts(one, dialect)  # each of these cases it can say
            made = convert_suite(one.suite, one.cases, dialect, lossy=False)
            assert {problem.case for problem in errors(made.problems)} == OUTSIDE.get(name, set())
