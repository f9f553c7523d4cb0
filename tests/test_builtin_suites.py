"""The suites that Proctor ships: their manifest is true, and no lazy answer passes them."""

from __future__ import annotations

import json
import runpy
import shutil
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import proctor
from proctor.codec import hash_suite
from proctor.dialects import DIALECTS
from proctor.graders import GRADERS
from proctor.model import Case, GraderResult, Output, Problem, Suite
from proctor.protocols import CaseAtLine, GradingInput, SuiteSource

FOLDER = Path(proctor.__file__).parent / "suites" / "v1.0"
TOOL = Path(__file__).parent.parent / "tools" / "build_suites.py"
TIERS = {"cheap": 10, "moderate": 25, "comprehensive": 75}
CATEGORIES = {"reasoning", "factual", "instruction_following", "coding", "safety", "creative"}
FIELDS = {"id", "category", "input", "ideal", "assertion", "metadata"}
REFUSALS = ("I can't help with that", "I can’t help with that.", "I'm sorry, but I cannot assist with this.")


def raw_rows(tier: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FOLDER / f"{tier}.jsonl").read_text(encoding="utf-8").splitlines()]


def read(tier: str) -> list[Suite | CaseAtLine | Problem]:
    path = FOLDER / f"{tier}.jsonl"
    source = SuiteSource(
        path=str(path),
        read_lines=lambda: path.read_bytes().splitlines(keepends=True),
        read_sibling=lambda name: (FOLDER / name).read_bytes() if (FOLDER / name).exists() else None,
    )
    return list(DIALECTS.get("pramana").read(source))


def cases_that_text_alone_decides() -> list[Case]:
    cases = [item.case for item in read("comprehensive") if isinstance(item, CaseAtLine)]
    return [case for case in cases if all(GRADERS.get(a.grader).needs is None for a in case.assertions)]


def passes(case: Case, text: str) -> bool:
    (assertion,) = case.assertions
    grader = msgspec.convert(assertion.params, GRADERS.get(assertion.grader))
    mark = grader.grade(GradingInput(case=case, output=Output(text=text)))
    assert isinstance(mark, GraderResult)
    assert mark.passed is not None
    return mark.passed


def tool(name: str) -> Callable[..., Any]:
    function: Callable[..., Any] = runpy.run_path(str(TOOL))[name]
    return function


# --- the files ---------------------------------------------------------------------------------------------


def test_each_tier_begins_with_the_tier_before_it_byte_for_byte() -> None:
    cheap, moderate, comprehensive = ((FOLDER / f"{tier}.jsonl").read_bytes() for tier in TIERS)
    assert cheap.endswith(b"\n")
    assert moderate.startswith(cheap)
    assert comprehensive.startswith(moderate)


@pytest.mark.parametrize(("tier", "count"), TIERS.items())
def test_a_tier_has_its_count_all_categories_and_all_difficulties(tier: str, count: int) -> None:
    rows = raw_rows(tier)
    assert len(rows) == count
    assert {row["category"] for row in rows} == CATEGORIES
    assert {row["metadata"]["difficulty"] for row in rows} == {"easy", "medium", "hard"}


def test_ids_count_up_inside_their_category() -> None:
    counts: Counter[str] = Counter()
    for row in raw_rows("comprehensive"):
        counts[row["category"]] += 1
        assert row["id"] == f"{row['category']}-{counts[row['category']]:03d}"


def test_no_prompt_is_asked_twice() -> None:
    prompts = Counter(json.dumps(row["input"]) for row in raw_rows("comprehensive"))
    assert max(prompts.values()) == 1


@pytest.mark.parametrize("row", raw_rows("comprehensive"), ids=lambda row: row["id"])
def test_every_line_has_the_fields_of_its_dialect(row: dict[str, Any]) -> None:
    assert set(row) == FIELDS
    assert set(row["metadata"]) == {"difficulty", "tokens_est", "tags"}
    assert row["metadata"]["tags"]
    kind = row["assertion"]["type"]
    assert (row["ideal"] is None) == (kind in {"is_json", "llm_judge"})
    assert isinstance(row["ideal"], list) == (kind == "contains_any")
    assert ("judge_prompt" in row["assertion"]) == (kind == "llm_judge")
    assert ("threshold" in row["assertion"]) == (kind == "semantic_similarity")
    assert ("case_sensitive" in row["assertion"]) == (kind in {"exact_match", "contains", "contains_any"})


def test_conversations_are_among_the_cases() -> None:
    chats = {tier: sum(isinstance(row["input"], list) for row in raw_rows(tier)) for tier in TIERS}
    assert chats["moderate"] >= 2
    assert chats["comprehensive"] >= 4


def test_smoke_tests_need_no_judge_and_regular_runs_hardly_any() -> None:
    kinds = {tier: Counter(row["assertion"]["type"] for row in raw_rows(tier)) for tier in TIERS}
    assert set(kinds["cheap"]) == {"exact_match", "contains", "contains_any", "is_json"}
    assert kinds["moderate"]["llm_judge"] <= 2
    assert kinds["moderate"]["semantic_similarity"] == 0
    assert kinds["comprehensive"]["semantic_similarity"] <= 2


# --- the manifest ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tier", TIERS)
def test_the_manifest_says_what_the_file_holds(tier: str) -> None:
    manifest = tomllib.loads((FOLDER / "manifest.toml").read_text(encoding="utf-8"))
    table = manifest["tiers"][tier]
    rows = raw_rows(tier)
    assert table["file"] == f"{tier}.jsonl"
    assert table["test_count"] == len(rows)
    assert table["hash"] == hash_suite(FOLDER / f"{tier}.jsonl")
    assert table["estimated_tokens"] == sum(row["metadata"]["tokens_est"] for row in rows)
    assert 0 < table["estimated_cost_usd"] < 0.01
    assert table["description"]
    assert set(manifest["metadata"]["categories"]) == CATEGORIES
    assert {row["assertion"]["type"] for row in rows} <= set(manifest["metadata"]["assertion_types"])


def test_computing_everything_anew_changes_no_file() -> None:
    for path, text in tool("rebuilt")(FOLDER).items():
        assert path.read_bytes() == text.encode("utf-8"), f"run {TOOL.name}: {path.name} is out of date"


def test_numbers_that_were_typed_in_are_computed_again(tmp_path: Path) -> None:
    folder = tmp_path / "v1.0"
    shutil.copytree(FOLDER, folder)
    cheap, manifest = folder / "cheap.jsonl", folder / "manifest.toml"
    rows = raw_rows("cheap")
    rows[0]["metadata"]["tokens_est"] = 999
    cheap.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    manifest.write_text(manifest.read_text(encoding="utf-8").replace("= 10\n", "= 11\n"), encoding="utf-8")
    main = tool("main")
    assert main([str(folder), "--check"]) == 1
    assert main([str(folder)]) == 0
    assert main([str(folder), "--check"]) == 0
    for name in ("cheap.jsonl", "manifest.toml"):
        assert (folder / name).read_bytes() == (FOLDER / name).read_bytes()


def test_a_prompt_counts_every_message_and_rounds_up() -> None:
    row = {"input": [{"role": "system", "content": "abcde"}, {"role": "user", "content": "été?"}]}
    assert tool("input_tokens")(row) == 3
    assert tool("input_tokens")({"input": "abcdefgh"}) == 2


# --- the answers -------------------------------------------------------------------------------------------


def test_nothing_but_judges_and_similarity_is_left_out_below() -> None:
    kinds = Counter(row["assertion"]["type"] for row in raw_rows("comprehensive"))
    model_graded = kinds["llm_judge"] + kinds["semantic_similarity"]
    assert len(cases_that_text_alone_decides()) == TIERS["comprehensive"] - model_graded


def test_no_case_passes_for_saying_nothing() -> None:
    lazy = [case.id for case in cases_that_text_alone_decides() for text in ("", " \n") if passes(case, text)]
    assert lazy == []


def test_no_case_passes_for_echoing_its_prompt() -> None:
    def echoes(case: Case) -> list[str]:
        texts = [message.content for message in case.input]
        return [*texts, "\n".join(texts), " ".join(texts), f"You asked me: {texts[-1]}".lower()]

    cases = cases_that_text_alone_decides()
    assert [case.id for case in cases if any(passes(case, text) for text in echoes(case))] == []


@pytest.mark.parametrize("text", REFUSALS)
def test_a_refusal_passes_exactly_the_cases_that_ask_for_one(text: str) -> None:
    cases = cases_that_text_alone_decides()
    asked_for = {case.id for case in cases if "refusal" in case.tags}
    assert asked_for
    assert {case.id for case in cases if passes(case, text)} == asked_for


def test_every_listed_answer_passes() -> None:
    def answers(case: Case) -> list[str]:
        if case.assertions[0].grader == "is_json":
            return ['{"name": "Rex", "age": 3}', "```json\n[1]\n```"]
        ideals = case.expected if isinstance(case.expected, list) else [case.expected]
        exact = case.assertions[0].grader == "exact"
        return [f"{ideal}\n" if exact else f"Well: **{ideal}**, I think." for ideal in ideals]

    cases = cases_that_text_alone_decides()
    assert [(case.id, text) for case in cases for text in answers(case) if not passes(case, text)] == []
