"""Dialect pramana beyond its goldens: any values, streaming, and manifests."""

from __future__ import annotations

import json
from copy import deepcopy
from itertools import repeat
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.codec import hash_rows
from proctor.dialects.pramana.reader import DIALECT
from proctor.model import Problem, Suite
from proctor.protocols import CaseAtLine, SuiteSource
from support.suite_files import make_source, split_items

ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(-1e9, 1e9)
    | st.sampled_from(["", "a", "user"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "type", "tags", "difficulty", "x"]), inner, max_size=4
        )
    ),
    max_leaves=6,
)
TYPES = [
    *("exact_match", "contains", "contains_any", "is_json", "llm_judge", "semantic_similarity"),
    *("numeric_match", "numeric_equal"),
]
CASE = {
    "id": "reasoning-001",
    "category": "reasoning",
    "input": "How many legs have two spiders?",
    "ideal": ["16", "sixteen"],
    "assertion": {"type": "contains_any"},
    "metadata": {"difficulty": "easy", "tokens_est": 8},
}
FIELDS = [
    *((name,) for name in CASE),
    ("more",),
    *(("assertion", name) for name in ("type", "case_sensitive", "threshold", "judge_prompt", "more")),
    *(("metadata", name) for name in ("difficulty", "tokens_est", "tags", "more")),
]


def line(row: object) -> bytes:
    return json.dumps(row).encode() + b"\n"


def read(data: bytes, **neighbours: bytes) -> list[Suite | CaseAtLine | Problem]:
    files = {f"{name}.toml": text for name, text in neighbours.items()}
    return list(DIALECT.read(make_source(data, "a\\b\\tier.jsonl", read_sibling=files.get)))


def read_problems(data: bytes, **neighbours: bytes) -> list[Problem]:
    return split_items(read(data, **neighbours))[2]


@given(st.sampled_from(FIELDS), st.sampled_from(TYPES), ANY | st.text(max_size=3), st.booleans())
def test_a_null_field_changes_nothing(
    field: tuple[str, ...], kind: str, value: object, is_changed: bool
) -> None:
    row: dict[str, Any] = deepcopy(CASE) | {"ideal": "16", "assertion": {"type": kind}}
    inner = row[field[0]] if len(field) == 2 else row
    if is_changed:
        inner[field[-1]] = value
    assertion = row["assertion"]
    with_null = {**assertion, "threshold": None} if isinstance(assertion, dict) else assertion
    assert "threshold" in field or read(line(row)) == read(line({**row, "assertion": with_null}))


@pytest.mark.slow
@given(st.sampled_from(FIELDS), st.sampled_from(TYPES), ANY)
def test_any_value_in_any_field_is_a_case_or_an_error_that_names_the_field(
    field: tuple[str, ...], kind: str, value: object
) -> None:
    row: dict[str, Any] = deepcopy(CASE) | {
        "assertion": {"type": kind, "judge_prompt": "Is it?", "threshold": 0.5}
    }
    inner = row
    for name in field[:-1]:
        inner = inner[name]
    inner[field[-1]] = value
    items = read(line(row))
    errors = [item for item in items if isinstance(item, Problem) and item.level == "error"]
    assert any(isinstance(item, CaseAtLine) for item in items) == (not errors)
    assert all((error.field or "").split(".")[0].split("[")[0] == field[0] for error in errors)


@pytest.mark.parametrize("path", [("more",), ("assertion", "more"), ("metadata", "more"), ("input", "more")])
def test_an_unknown_field_at_any_level_is_an_error(path: tuple[str, ...]) -> None:
    row: dict[str, Any] = deepcopy(CASE) | {"input": [{"role": "user", "content": "Count."}]}
    inner: Any = row
    for name in path[:-1]:
        inner = inner[name][0] if name == "input" else inner[name]
    inner[path[-1]] = 1
    (problem,) = read_problems(line(row))
    assert problem.code == "unknown-field"
    assert (problem.field or "").endswith("more")


@pytest.mark.parametrize("kind", ["numeric_match", "numeric_equal"])
@pytest.mark.parametrize(
    ("options", "params"),
    [({}, {"value": "5 km"}), ({"rel_tolerance": 0}, {"value": "5 km", "rel_tolerance": 0.0})],
)
def test_a_type_that_compares_numbers_is_the_grader_of_its_name(
    kind: str, options: dict[str, float], params: dict[str, Any]
) -> None:
    items = read(line(CASE | {"ideal": "5 km", "assertion": {"type": kind, **options}}))
    (assertion,) = next(item for item in items if isinstance(item, CaseAtLine)).case.assertions
    assert (assertion.grader, assertion.params) == (kind, params)


def test_an_invalid_tolerance_is_an_error_and_one_without_effect_a_warning() -> None:
    assertion = {"type": "numeric_equal", "rel_tolerance": -1}
    (problem,) = read_problems(line(CASE | {"ideal": "5", "assertion": assertion}))
    assert (problem.level, problem.code) == ("error", "bad-tolerance")
    assertion = {"type": "exact_match", "rel_tolerance": 1}
    (problem,) = read_problems(line(CASE | {"ideal": "5", "assertion": assertion}))
    assert (problem.level, problem.code) == ("warning", "ignored-field")


@pytest.mark.parametrize("kind", ["exact_match", "contains", "numeric_match", "numeric_equal"])
@pytest.mark.parametrize(("ideal", "is_warned"), [(["a"], False), ("a", False), (["a", "b"], True)])
def test_a_list_of_which_only_the_first_item_is_used_is_warned_about(
    kind: str, ideal: object, is_warned: bool
) -> None:
    items = read(line(CASE | {"ideal": ideal, "assertion": {"type": kind}}))
    (located_case,) = [item for item in items if isinstance(item, CaseAtLine)]
    warnings = [item for item in items if isinstance(item, Problem)]
    assert located_case.case.assertions[0].params["value"] == "a"
    assert located_case.case.expected == ideal
    assert [warning.code for warning in warnings] == ["first-item-only"] * is_warned
    assert all("reasoning-001" in warning.message for warning in warnings)


@pytest.mark.parametrize(
    ("options", "ignore_case"),
    [({}, None), ({"case_sensitive": True}, None), ({"case_sensitive": False}, True)],
)
@pytest.mark.parametrize("kind", ["exact_match", "contains", "contains_any"])
def test_answers_are_compared_case_sensitively_by_default(
    kind: str, options: dict[str, bool], ignore_case: bool | None
) -> None:
    items = read(line(CASE | {"ideal": "a", "assertion": {"type": kind, **options}}))
    (located_case,) = [item for item in items if isinstance(item, CaseAtLine)]
    assert located_case.case.assertions[0].params.get("ignore_case") is ignore_case


def test_every_message_of_a_conversation_is_kept_in_order() -> None:
    chat = [{"role": role, "content": f"say {role}"} for role in ("system", "user", "assistant", "user")]
    (located_case,) = [item for item in read(line(CASE | {"input": chat})) if isinstance(item, CaseAtLine)]
    assert [(message.role, message.content) for message in located_case.case.input] == [
        (message["role"], message["content"]) for message in chat
    ]


def test_cases_stream_before_the_file_ends() -> None:
    items = DIALECT.read(SuiteSource(path="x.jsonl", read_lines=lambda: repeat(line(CASE))))
    assert [type(next(items)).__name__ for _ in range(3)] == ["Suite", "CaseAtLine", "CaseAtLine"]


# --- the manifest ------------------------------------------------------------------------------------------

SUITE = line(CASE) + line(CASE | {"id": "reasoning-002"})
MANIFEST = f"""
[suite]
version = "v2"
created = 2026-03-01
[tiers.small]
file = "tier.jsonl"
test_count = 2
estimated_cost_usd = 0.02
estimated_tokens = 16
hash = "{hash_rows([CASE, CASE | {"id": "reasoning-002"}])}"
[metadata]
categories = ["reasoning"]
assertion_types = ["contains_any"]
cost_model = "list prices"
"""


def test_a_suite_as_published_has_the_manifests_version_and_no_problem() -> None:
    header, *items = read(SUITE, manifest=MANIFEST.encode())
    assert isinstance(header, Suite)
    assert header.declared_version == "v2"
    assert [type(item).__name__ for item in items] == ["CaseAtLine", "CaseAtLine"]


def test_the_order_of_lines_does_not_change_the_hash() -> None:
    assert read_problems(line(CASE | {"id": "reasoning-002"}) + line(CASE), manifest=MANIFEST.encode()) == []


@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        ("test_count = 2", "test_count = 3", "manifest-mismatch", "2 cases"),
        ('["reasoning"]', '["safety"]', "manifest-mismatch", "category 'reasoning'"),
        ('["contains_any"]', "[]", "manifest-mismatch", "assertion type 'contains_any'"),
        ('"sha256:', '"sha256:0', "bad-hash", "64"),
        ("cost_model", "cost_modell", "unknown-field", "cost_model"),
        ('version = "v2"', "", "missing-field", "version"),
        ("test_count = 2", "", "missing-field", "test_count"),
        ("test_count = 2", 'test_count = "2"', "wrong-type", "test_count"),
        ("[suite]", "[suite", "bad-toml", "TOML"),
        ("created = 2026-03-01", "created = 7", "wrong-type", "date"),
    ],
)
def test_a_manifest_that_does_not_fit_is_an_error(old: str, new: str, code: str, message: str) -> None:
    (problem,) = read_problems(SUITE, manifest=MANIFEST.replace(old, new).encode())
    assert (problem.code, problem.level) == (code, "error")
    assert message in problem.message


def test_a_wrong_estimate_of_tokens_is_a_warning() -> None:
    text = MANIFEST.replace("estimated_tokens = 16", "estimated_tokens = 20")
    (problem,) = read_problems(SUITE, manifest=text.encode())
    assert (problem.code, problem.level) == ("manifest-estimate", "warning")
    assert problem.message == "`tokens_est` sums to 16; the manifest says 20."


def test_a_changed_suite_is_an_error_that_asks_for_a_new_version() -> None:
    (problem,) = read_problems(SUITE.replace(b"spiders", b"beetles"), manifest=MANIFEST.encode())
    assert problem.code == "hash-mismatch"
    assert "version v2" in problem.message
    assert "new version" in problem.message


def test_a_manifest_without_a_hash_is_a_warning() -> None:
    text = "\n".join(row for row in MANIFEST.splitlines() if not row.startswith("hash"))
    (problem,) = read_problems(SUITE, manifest=text.encode())
    assert (problem.code, problem.level) == ("missing-hash", "warning")


def test_a_file_that_the_manifest_does_not_list_is_not_checked() -> None:
    header, *items = read(SUITE, manifest=MANIFEST.replace("tier.jsonl", "other.jsonl").encode())
    assert isinstance(header, Suite)
    assert header.version is None
    assert [type(item).__name__ for item in items] == ["CaseAtLine", "CaseAtLine"]


def test_a_manifest_of_another_program_is_a_warning() -> None:
    (problem,) = read_problems(SUITE, manifest=b"[package]\nname = 'x'\n")
    assert (problem.code, problem.level) == ("foreign-manifest", "warning")


def test_a_problem_of_a_manifest_has_the_path_and_line_of_the_manifest() -> None:
    (problem,) = read_problems(SUITE, manifest=MANIFEST.replace("cost_model", "costs").encode())
    assert problem.path == "a\\b\\manifest.toml"
    assert problem.line == MANIFEST.splitlines().index('cost_model = "list prices"') + 1


@given(st.binary(max_size=200) | st.text(alphabet="[]suite.=\"'\n tiers1#", max_size=80).map(str.encode))
def test_any_manifest_gives_problems_and_never_raises(data: bytes) -> None:
    assert sum(isinstance(item, Suite) for item in read(SUITE, manifest=data)) == 1
