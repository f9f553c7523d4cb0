"""How the dialects of JSON Lines write each field of a case."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proctor.codec import decode, encode
from proctor.dialects import DIALECTS
from proctor.model import Assertion, Case, Message, PassRule, Problem, Suite
from proctor.protocols import CaseAtLine, RenderedFile
from proctor.services.suites.convert import MAIN_FILE, convert_suite
from proctor.services.suites.file_source import source_from_path

FEATURES = Path(__file__).parent / "proctor" / "features.jsonl"
"""Every dialect can express the first case; each other one differs from it in what its id names."""
ITEMS = list(DIALECTS.get("proctor").read(source_from_path(FEATURES)))
CASES = {item.case.id: item.case for item in ITEMS if isinstance(item, CaseAtLine)}
BASE = CASES["nothing"]
SUITE = Suite(name="features", dialect="proctor")


def errors(problems: list[Problem]) -> list[Problem]:
    return [problem for problem in problems if problem.level == "error"]


LOSSLESS_FEATURES = {
    "meridian": {
        *("nothing", "weight", "tags", "category", "no-category", "metadata", "no-metadata"),
        *("no-variable", "pass-rule"),
    },
    "pramana": {
        "pass-rule",
        "nothing",
        "system",
        "turns",
        "name",
        "tags",
        "odd-tags",
        "no-variable",
        "expected",
    },
    "proctor": set(CASES),
}
FIELDS = {
    "expected": "expected",
    "no-expected": "expected",
    "criteria": "criteria",
    "weight": "assertions[0].weight",
    "weights": {"meridian": "assertions[1].weight", "pramana": "assertions[1]"},
    "required": "assertions[0].required",
    "negated": "assertions[0].negated",
    "pass-at": "assertions[0].pass_at",
    "label": "assertions[0].label",
    "two-checks": "assertions[1]",
    "other-params": {"meridian": "assertions[0]", "pramana": None},
    "other-grader": "assertions[0]",
    "system": "input",
    "turns": "input",
    "name": "input[0].name",
    "tool-calls": {"meridian": "input", "pramana": "input[1].tool_calls"},
    "parts": "input[0].parts",
    "image": "input[0].parts",
    "odd-tags": "tags",
    "category": "category",
    "no-category": "category",
    "metadata": "metadata.author",
    "no-metadata": "metadata.difficulty",
    "repeats": {"meridian": "repeats_rule", "pramana": "repeats"},
    "target": "target",
    "only-targets": "only_targets",
    "workspace": "workspace",
    "form": "form",
    "variables": "variables",
    "notes": "notes",
}  # fmt: skip


@pytest.mark.parametrize("feature", CASES)
@pytest.mark.parametrize("dialect", LOSSLESS_FEATURES)
def test_each_feature_is_written_or_reported(feature: str, dialect: str) -> None:
    result = convert_suite(SUITE, [CASES[feature]], dialect, lossy=False)
    expected = FIELDS.get(feature)
    field = expected.get(dialect) if isinstance(expected, dict) else expected
    if feature in LOSSLESS_FEATURES[dialect] or field is None:
        assert errors(result.problems) == []
    else:
        assert field in [problem.field for problem in errors(result.problems)]


def check(grader: str, label: str | None = None, weight: float = 1.0, **params: Any) -> Assertion:
    return Assertion(grader=grader, params=params, label=label, weight=weight)


ROWS: list[tuple[Any, list[Assertion], dict[str, Any]]] = [
    ("x", [check("contains", value="x", ignore_case=True)], {"expected": "x", "scorer": "contains"}),
    ("a+", [check("regex", pattern="a+")], {"expected": "a+", "scorer": "regex"}),
    (None, [check("regex", pattern="a+")], {"expected": {"type": "regex", "pattern": "a+"}}),
    (
        "7",
        [check("number", "exact", weight=2.0, value=7.0)],
        {"expected": "7", "scoring": {"method": "numeric_match", "weight": 2.0}},
    ),
    (
        "7",
        [check("number", value=7.0, tolerance=0.5)],
        {"expected": {"type": "numeric", "value": "7", "tolerance": 0.5}},
    ),
    ("7 km", [check("numeric_match", value="7 km")], {"expected": "7 km", "scorer": "numeric_match"}),
    (
        "7 km",
        [check("numeric_equal", value="7 km", rel_tolerance=0.5)],
        {"expected": {"type": "numeric_equal", "value": "7 km", "rel_tolerance": 0.5}},
    ),
    (None, [check("rubric", rubric="Is it kind?")], {"scorer": "llm_judge", "rubric": "Is it kind?"}),
    (None, [check("length", "word_count", max_words=5)], {"expected": {"type": "word_count", "max": 5}}),
    (None, [check("length", max_words=5)], {"expected": {"type": "length", "max_words": 5}}),
    (
        None,
        [check("json_schema", schema={"type": "object"})],
        {"expected": {"type": "object"}, "scorer": "json_schema"},
    ),
    (
        None,
        [check("json_schema", schema={"type": "json"})],
        {"expected": {"type": "json_schema", "schema": {"type": "json"}}},
    ),
    (
        "b",
        [
            check("required_words", words=["a"]),
            check("contains", value="b", ignore_case=True),
            check("forbidden_words", words=["c"]),
        ],
        {"expected": {"type": "contains", "required_words": ["a"], "value": "b", "forbidden_words": ["c"]}},
    ),
]


@pytest.mark.parametrize(("expected", "assertions", "row"), ROWS)
def test_a_case_is_written_as_the_simplest_possible_row_of_meridian(
    expected: Any, assertions: list[Assertion], row: dict[str, Any]
) -> None:
    message = Message(role="user", content="Hi")
    case = Case(id="a", input=(message,), expected=expected, assertions=tuple(assertions))
    result = convert_suite(Suite(name="s", dialect="x"), [case], "meridian", lossy=False)
    assert errors(result.problems) == []
    header, test_row = result.files[MAIN_FILE].splitlines()
    assert json.loads(header) == {"suite_name": "s", "holdout": 0}
    assert json.loads(test_row) == {"id": "a", "input": "Hi", **row}


def test_a_lost_check_is_replaced_by_one_that_never_passes() -> None:
    case = CASES["other-grader"]
    rows = {}
    for dialect in ("meridian", "pramana"):
        result = convert_suite(SUITE, [case], dialect, lossy=True)
        rows[dialect] = json.loads(result.files[MAIN_FILE].splitlines()[-1])
        assert rows[dialect]["metadata"]["proctor"]["assertions"] == decode(encode(case.assertions), object)
    assert rows["meridian"]["expected"] == {"type": "length"}  # without a limit: UNSCORED
    assert rows["pramana"]["assertion"]["type"] == "llm_judge"
    assert rows["pramana"]["assertion"]["judge_prompt"].endswith("Answer NO.")


def test_lost_fields_of_a_suite_are_kept_in_its_first_case_only() -> None:
    suite = Suite(name="s", dialect="agentv", description="D.", pass_rule=PassRule(threshold=0.0))
    result = convert_suite(suite, [BASE, replace(BASE, id="second")], "pramana", lossy=True)
    first, second = (json.loads(row)["metadata"] for row in result.files[MAIN_FILE].splitlines())
    assert first["proctor"] == {"suite": {"description": "D.", "pass_rule": {"threshold": 0.0}}}
    assert "proctor" not in second


@pytest.mark.parametrize("lint", ["ignore", ["leak"], None])
@pytest.mark.parametrize("dialect", LOSSLESS_FEATURES)
def test_the_lint_field_is_written(dialect: str, lint: Any) -> None:
    case = replace(BASE, metadata={**BASE.metadata, "lint": lint})
    result = convert_suite(SUITE, [case], dialect, lossy=False)
    assert errors(result.problems) == []
    source = replace(
        source_from_path(FEATURES), read_lines=lambda: result.files[MAIN_FILE].splitlines(keepends=True)
    )
    (read_case,) = [item.case for item in DIALECTS.get(dialect).read(source) if isinstance(item, CaseAtLine)]
    assert read_case.metadata["lint"] == lint


def test_a_refused_case_is_not_written_and_the_others_are() -> None:
    cases = [BASE, replace(BASE, id="bad", criteria="C.")]
    items = list(DIALECTS.get("pramana").render(Suite(name="s", dialect="pramana"), cases, lossy=False))
    assert [json.loads(item.data)["id"] for item in items if isinstance(item, RenderedFile)] == ["nothing"]
    assert [item.case for item in items if isinstance(item, Problem)] == ["bad"]


# --- any case ----------------------------------------------------------------------------------------------

TEXTS = st.sampled_from(["", " ", "x", "7", "7.0", "nan", "a\nb", "\u2028", "{}", "object"])
VALUES = st.recursive(
    TEXTS | st.integers(-3, 9) | st.floats(-2, 9) | st.none() | st.booleans(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS | st.just("type"), inner, max_size=2),
    max_leaves=3,
)
PARAMS = (
    "value values ignore_case pattern tolerance rel_tolerance max_words min_bullets schema keys words rubric "
    "prompt"
)
GRADERS = (
    "exact contains contains_any regex number numeric_match numeric_equal length json_schema json_keys "
    "is_json rubric llm_judge other"
)
ANY_CASE = st.builds(
    Case,
    id=st.just("a"),
    input=st.tuples(
        st.builds(
            Message, role=st.sampled_from(["user", "system", "odd"]), content=TEXTS, name=TEXTS | st.none()
        ),
        st.builds(Message, role=st.just("user"), content=st.just("Hi")),
    )
    | st.just((Message(role="user", content="Hi", name=""),)),
    expected=VALUES,
    assertions=st.lists(
        st.builds(
            Assertion,
            grader=st.sampled_from(GRADERS.split()),
            params=st.dictionaries(st.sampled_from(PARAMS.split()), VALUES, max_size=2),
            weight=st.sampled_from([1.0, 0.0, 2.5]),
            label=TEXTS | st.none(),
        ),
        max_size=3,
    ).map(tuple),
    tags=st.lists(TEXTS, max_size=2).map(tuple),
    category=st.sampled_from([None, "", "coding"]),
    metadata=st.dictionaries(
        st.sampled_from(["difficulty", "tokens_est", "task", "proctor"]), VALUES, max_size=3
    ),
    repeats=st.none() | st.integers(1, 4),
)


@pytest.mark.slow
@given(case=ANY_CASE, dialect=st.sampled_from(["meridian", "pramana"]))
def test_a_renderer_reports_every_loss_itself_and_has_no_errors_if_losses_are_allowed(
    case: Case, dialect: str
) -> None:
    problems = errors(convert_suite(SUITE, [case], dialect, lossy=False).problems)
    assert [problem.message for problem in problems if "cannot express it: " in problem.message] == []
    assert errors(convert_suite(SUITE, [case], dialect, lossy=True).problems) == []
