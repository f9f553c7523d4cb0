"""Dialect openai_evals: what a registry says of the file, and what that asks of an answer."""

from __future__ import annotations

import asyncio
import inspect
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import convert

from proctor.dialects.openai_evals import DIALECT
from proctor.graders import GRADERS
from proctor.model import Case, Output, Problem, Suite
from proctor.ports import Graded, Placed
from proctor.session.finding import source_of


def read(path: Path) -> tuple[Suite, list[Case], list[Problem]]:
    found = list(DIALECT.read(source_of(path)))
    (suite,) = [item for item in found if isinstance(item, Suite)]
    return (
        suite,
        [item.case for item in found if isinstance(item, Placed)],
        [item for item in found if isinstance(item, Problem)],
    )


def written(folder: Path, ideal: Any, name: str = "samples.jsonl") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(json.dumps({"input": "What is it?", "ideal": ideal}) + "\n", encoding="utf-8")
    return path


def registry(path: Path, kind: str, samples: str, name: str = "tea.v1", **more: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    args = {"samples_jsonl": samples, **more}
    entry = {"tea": {"id": name, "metrics": ["accuracy"]}, name: {"class": kind, "args": args}}
    path.write_text(json.dumps(entry, indent=1), encoding="utf-8")


def passes(case: Case, answer: str) -> bool | None:
    (assertion,) = case.assertions
    grader = convert(assertion.params, GRADERS.get(assertion.grader))
    mark = grader.grade(Graded(case=case, output=Output(text=answer)))
    passed: bool | None = (asyncio.run(mark) if inspect.iscoroutine(mark) else mark).passed
    return passed


MATCH = [("Earl Grey, sir", True), (" Earl Grey", True), ("It is Earl Grey", False), ("earl grey", False)]


@pytest.mark.parametrize(("answer", "passed"), MATCH)
@pytest.mark.parametrize("ideal", ["Earl Grey", ["Earl Grey"], ["Oolong?", "Earl Grey "]])
def test_without_a_registry_an_answer_must_begin_with_an_ideal(
    tmp_path: Path, answer: str, passed: bool, ideal: Any
) -> None:
    _, (case,), (problem,) = read(written(tmp_path, ideal))
    assert passes(case, answer) is passed
    assert (problem.level, problem.code) == ("warning", "default-class")


@pytest.mark.parametrize(
    ("kind", "more", "ideal", "answer", "passed"),
    [
        *[("match:Match", {}, "Earl Grey", answer, passed) for answer, passed in MATCH],
        ("includes:Includes", {}, "Grey", "It is Earl Grey", True),
        ("includes:Includes", {}, ["green", "Grey"], "It is Earl Grey", True),
        ("includes:Includes", {}, ["green", "grey"], "It is Earl Grey", False),
        ("includes:Includes", {"ignore_case": True}, "grey", "It is Earl Grey", True),
        ("includes:Includes", {"ignore_case": True}, ["x", "grey"], "It is Earl Grey", True),
        ("fuzzy_match:FuzzyMatch", {}, "The Earl Grey", "earl grey!", True),
        ("fuzzy_match:FuzzyMatch", {}, ["Oolong", "Assam"], "earl grey", False),
        ("numbers:NumericMatch", {}, "12 cups", "12.1 is my guess", True),
        ("numbers:NumericMatch", {"rel_tolerance": 0.5}, ["2", "8"], "12", True),
        ("numbers:NumericMatch", {}, ["2", "8"], "12", False),
        ("numbers:NumericEqual", {}, "1.5 million", "It cost 1,500k.", True),
        ("numbers:NumericEqual", {}, ["£2", "$2"], "$2", True),
        ("numbers:NumericEqual", {"rel_tolerance": 0}, "$2", "$2.01", False),
        ("json_match:JsonMatch", {}, '{"a": [1, 2]}', '{"a":[1,2]}', True),
        ("json_match:JsonMatch", {}, ['{"a": 2}', '{"a": 1}'], '{"a": 1.0}', True),
        ("json_match:JsonMatch", {}, '{"a": 1}', '{"a": 1, "b": 2}', False),
    ],
)
def test_the_registry_says_how_answers_are_compared(
    tmp_path: Path, kind: str, more: dict[str, Any], ideal: Any, answer: str, passed: bool
) -> None:
    path = written(tmp_path, ideal)
    registry(tmp_path / "tea.yaml", f"evals.elsuite.basic.{kind}", "tea/samples.jsonl", **more)
    suite, (case,), problems = read(path)
    assert problems == []
    assert suite.name == "tea.v1"
    assert passes(case, answer) is passed
    assert [each.label for each in case.assertions] == [kind.partition(":")[2]]


def test_the_registry_is_found_where_its_project_keeps_it(tmp_path: Path) -> None:
    path = written(tmp_path / "data" / "tea", "x")
    registry(tmp_path / "evals" / "others.yaml", "evals:Match", "coffee/samples.jsonl", "coffee.v1")
    registry(tmp_path / "evals" / "tea.yaml", "evals:Includes", "tea/samples.jsonl")
    suite, (case,), problems = read(path)
    assert (suite.name, case.assertions[0].grader, problems) == ("tea.v1", "contains", [])


def test_of_several_evals_the_first_is_read_and_the_rest_are_told(tmp_path: Path) -> None:
    path = written(tmp_path, "x")
    registry(tmp_path / "a.yaml", "evals:Includes", "samples.jsonl", "a.v1")
    registry(tmp_path / "b.yaml", "evals:Match", "samples.jsonl", "b.v1")
    suite, _, (problem,) = read(path)
    assert suite.name == "a.v1"
    assert problem.code == "several-evals"
    assert "b.v1" in problem.message


@pytest.mark.parametrize(
    ("kind", "more", "code"),
    [
        ("evals.elsuite.modelgraded.classify:ModelBasedClassify", {}, "unknown-class"),
        ("evals.elsuite.basic.match:Match", {"num_few_shot": 2, "few_shot_jsonl": "x"}, "few-shot"),
        ("evals.elsuite.basic.json_match:JsonMatch", {}, "bad-json"),
    ],
)
def test_what_is_not_read_is_an_error(tmp_path: Path, kind: str, more: dict[str, Any], code: str) -> None:
    path = written(tmp_path, "no JSON")
    registry(tmp_path / "tea.yaml", kind, "samples.jsonl", **more)
    _, _, problems = read(path)
    assert [(problem.level, problem.code) for problem in problems] == [("error", code)]


def test_a_registry_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    path = written(tmp_path, "x")
    (tmp_path / "tea.yaml").write_text("tea: [samples.jsonl\n", encoding="utf-8")
    _, cases, problems = read(path)
    assert len(cases) == 1
    assert [problem.code for problem in problems] == ["bad-registry", "default-class"]


@pytest.mark.parametrize(
    ("folder", "file", "name"), [("tea", "samples.jsonl", "tea"), ("tea", "own.jsonl", "own")]
)
def test_a_file_with_the_usual_name_is_called_by_its_folder(
    tmp_path: Path, folder: str, file: str, name: str
) -> None:
    suite, _, _ = read(written(tmp_path / folder, "x", file))
    assert suite.name == name
