"""Replacements: which versions of a text they give, and in which order."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.dialects.ai_tester.placeholders import (
    MAX_VERSIONS,
    ReplacementGroup,
    check_replacements,
    expand_versions,
    fill,
    format_number,
    iter_placeholders,
    make_brackets,
    parse_groups,
)
from proctor.model import Problem
from proctor.validation import FieldReader, ProblemLog
from proctor.yaml12 import load

NAMES = st.sampled_from(["dish", "guest", "hour", "a b", "größe", "n-1", "x.y"])
VALUES = st.text(st.characters(exclude_characters="{}`", exclude_categories=["Cs"]), max_size=8)
MAPS = st.dictionaries(NAMES, st.lists(VALUES, min_size=1, max_size=3).map(tuple), max_size=3)
GROUPS = MAPS.map(lambda values: ReplacementGroup(values, dict.fromkeys(values, 1)))


def read(text: str) -> tuple[tuple[ReplacementGroup, ...], list[Problem]]:
    log = ProblemLog("t.md", 1)
    fields = FieldReader(load(text), log)
    groups = parse_groups(fields, "replacements")
    fields.finish(())
    return groups, log.problems


def read_groups(text: str) -> tuple[ReplacementGroup, ...]:
    groups, problems = read(text)
    assert problems == []
    return groups


def fill_versions(template: str, text: str) -> list[str]:
    """Each version of a template, whose replacements must have no problems."""
    groups = read_groups(text)
    log = ProblemLog("t.md", 1)
    check_replacements(groups, {name: 1 for name, _ in iter_placeholders(template)}, len(template), log)
    assert log.problems == []
    return [fill(template, values).strip() for values in expand_versions(groups)]


def find_problems(template: str, text: str) -> list[tuple[str, int | None]]:
    log = ProblemLog("t.md", 1)
    check_replacements(
        read_groups(text), {name: 9 for name, _ in iter_placeholders(template)}, len(template), log
    )
    return [(problem.code, problem.line) for problem in log.problems]


# --- patterns ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "text", "versions"),
    [
        ("Dish: `{{a}}`", "{a: [Soup?, Eggs?]}", ["Dish: Soup?", "Dish: Eggs?"]),
        ("{{b}} wants {{a}}", "{a: [1, 2], b: [x, y]}", ["x wants 1", "y wants 1", "x wants 2", "y wants 2"]),
        ("{{a}}{{b}}", "[{a: 1, b: x}, {a: 2, b: y}]", ["1x", "2y"]),
        ("{{a}}{{b}}", "[{a: 1, b: x}, {a: [2, 3], b: [y, z]}]", ["1x", "2y", "2z", "3y", "3z"]),
        ("{{a}}{{b}}", "[{a: 1, b: x}, {a: [2, 3], b: y}]", ["1x", "2y", "3y"]),
    ],
    ids=["a list", "two lists", "a list of maps", "lists inside a map", "a list beside a value"],
)
def test_lists_in_a_map_are_combined_with_the_first_key_varying_slowest(
    template: str, text: str, versions: list[str]
) -> None:
    assert fill_versions(template, f"replacements: {text}") == versions


# --- laws --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(GROUPS)
def test_a_map_makes_as_many_versions_as_the_product_of_its_lists(group: ReplacementGroup) -> None:
    assert len(list(expand_versions([group]))) == prod(map(len, group.values.values()))


@pytest.mark.slow
@given(GROUPS)
def test_the_versions_of_a_map_are_in_lexicographic_order(group: ReplacementGroup) -> None:
    places = product(*(range(len(values)) for values in group.values.values()))
    expected = [
        {key: group.values[key][at] for key, at in zip(group.values, place, strict=True)} for place in places
    ]
    versions = list(expand_versions([group]))
    assert versions == expected
    assert all(list(values) == list(group.values) for values in versions)


@pytest.mark.slow
@given(st.lists(GROUPS, max_size=3), st.lists(GROUPS, max_size=3))
def test_the_versions_of_a_list_are_those_of_its_maps_one_after_another(
    first: list[ReplacementGroup], second: list[ReplacementGroup]
) -> None:
    assert list(expand_versions(first + second)) == [*expand_versions(first), *expand_versions(second)]


@pytest.mark.slow
@given(st.dictionaries(NAMES, VALUES), st.text(max_size=40))
def test_a_text_without_braces_stays_as_it_is(values: dict[str, str], text: str) -> None:
    assert fill(text.replace("{", "("), values) == text.replace("{", "(")


@pytest.mark.slow
@given(NAMES, st.text(max_size=30), VALUES, VALUES)
def test_a_value_is_inserted_unchanged(name: str, value: str, before: str, after: str) -> None:
    assert fill(f"{before}{{{{{name}}}}}{after}", {name: value}) == before + value + after


# --- placeholders ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "result"),
    [
        ("`{{a}}`", "1"),
        ("{{a}}", "1"),
        ("`{{ a }}`", "1"),
        ("{{  a  }}", "1"),
        ("`{{a}}`{{a}}`{{a}}`", "111"),
        ("`{{a}} and {{a}}`", "`1 and 1`"),
        ("``{{a}}``", "`1`"),
        ("{{a}}`", "1`"),
        ("{{{a}}}", "{1}"),
        ("{{b}}", "{{b}}"),
        ("{{}} {{ }} { {a}} {{a} }", "{{}} {{ }} { {a}} {{a} }"),
        ("{{\na}}", "{{\na}}"),
    ],
)
def test_backticks_directly_around_a_placeholder_are_removed(template: str, result: str) -> None:
    assert fill(template, {"a": "1"}) == result


@pytest.mark.parametrize("value", ["$5", "$$5", "$&", "$`", "\\1", "\\g<0>", "{{", "}}", "# 👤 x", "---"])
def test_no_character_in_a_value_or_name_is_special(value: str) -> None:
    assert fill("<{{a.b}}>{{a(}}", {"a.b": value, "a(": value}) == f"<{value}>{value}"
    assert fill("{{axb}}", {"a.b": value}) == "{{axb}}"


@pytest.mark.parametrize(
    ("text", "printed_value"),
    [
        ("440.0", "440"),
        ("1.50", "1.5"),
        ("1e3", "1000"),
        ("-0.0", "0"),
        ("1e21", "1e+21"),
        ("1.5e300", "1.5e+300"),
        ("0.000001", "0.000001"),
        ("1e-7", "1e-7"),
        ("123456789012345680000.0", "123456789012345680000"),
        ("0.1", "0.1"),
        ("010", "10"),
        ("0x10", "16"),
        ("9007199254740993", "9007199254740993"),
        ("-3", "-3"),
        ("true", "true"),
        ("FALSE", "false"),
        ("null", "null"),
        ("~", "null"),
        ("Yes", "Yes"),
        ("no", "no"),
        ("2019-02-03", "2019-02-03"),
        ("12:30", "12:30"),
        ("1_000", "1_000"),
        ("'007'", "007"),
        ("'  a  '", "a"),
    ],
)
def test_scalars_are_read_as_in_yaml_1_2_and_numbers_printed_as_in_javascript(
    text: str, printed_value: str
) -> None:
    assert fill_versions("<{{a}}>", f"replacements: {{a: {text}}}") == [f"<{printed_value}>"]
    assert fill_versions("<{{a}}>", f"replacements: {{a: [{text}, b]}}") == [f"<{printed_value}>", "<b>"]


@pytest.mark.slow
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_printed_number_is_the_number(number: float) -> None:
    text = format_number(number)
    assert float(text) == number
    assert not text.endswith(".0")


# --- values in values --------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["a: x `{{b}}` y\n  b: 1", "b: 1\n  a: x {{ b }} y"])
def test_a_value_may_refer_to_another_key_before_or_after_it(text: str) -> None:
    assert fill_versions("<{{a}}>", f"replacements:\n  {text}\n") == ["<x 1 y>"]


def test_values_may_refer_to_each_other_over_several_steps() -> None:
    text = "replacements:\n  a: '{{b}}{{b}}'\n  b: ['{{c}}', '-']\n  c: [1, 2]\n"
    assert fill_versions("{{a}}{{c}}", text) == ["111", "222", "--1", "--2"]


def test_cyclic_references_are_errors() -> None:
    text = "replacements:\n  a: '{{b}}'\n  b: [x, '{{a}}']\n  c: '{{c}}'\n  d: '{{a}}'\n"
    assert find_problems("{{a}}{{b}}{{c}}{{d}}", text) == [
        ("replacement-loop", 2),
        ("replacement-loop", 3),
        ("replacement-loop", 4),
    ]


@pytest.mark.slow
def test_a_long_chain_of_values_is_followed() -> None:
    rows = "".join(f"  k{at}: '{{{{k{at + 1}}}}}'\n" for at in range(3000))
    assert fill_versions("{{k0}}", f"replacements:\n{rows}  k3000: end\n") == ["end"]


# --- errors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("replacements: []", "empty-list", 1),
        ("replacements:\n  a: []", "empty-list", 2),
        ("replacements:\n  - a: 1\n  - a: []", "empty-list", 3),
        ("replacements: x", "wrong-type", 1),
        ("replacements:\n  - a: 1\n  - x", "wrong-type", 3),
        ("replacements:\n  a:\n    b: 1", "wrong-type", 2),
        ("replacements:\n  a:\n    - 1\n    - [2]", "wrong-type", 4),
        ("replacements:\n  _a: 1", "reserved-name", 2),
        ("replacements:\n  'a}': 1", "bad-name", 2),
        ("replacements:\n  ' a': 1", "bad-name", 2),
        ("replacements:\n  '': 1", "bad-name", 2),
    ],
)
def test_an_invalid_replacement_is_an_error_at_its_line(text: str, code: str, line: int) -> None:
    assert [(problem.code, problem.line) for problem in read(text)[1]] == [(code, line)]


def test_without_the_field_or_with_an_empty_map_there_is_one_version() -> None:
    assert [list(expand_versions(read_groups(text))) for text in ("{}", "replacements: {}")] == [[{}], [{}]]


@pytest.mark.parametrize(
    ("template", "text", "expected"),
    [
        ("{{a}} {{b}}", "replacements: {a: 1}", [("unresolved-placeholder", 9)]),
        ("{{a}}", "{}", [("unresolved-placeholder", 9)]),
        ("{{a}}", "replacements:\n  a: '{{b}}'", [("unresolved-placeholder", 2)]),
        ("{{a}}{{b}}", "replacements: [{a: 1, b: 2}, {a: 3}]", [("unresolved-placeholder", 9)]),
        ("{{_a}}", "replacements: {}", [("reserved-name", 9)]),
        ("x", "replacements:\n  a: 1", [("unused-replacement", 2)]),
        ("x", "replacements:\n  a: [1, 2]", [("duplicate-version", 2)]),
        ("{{a}}", "replacements:\n  - {a: 1, b: 1}\n  - {a: 2, b: 2}", [("unused-replacement", 2)]),
        ("{{a}}", "replacements:\n  a: '{{b}}'\n  b: 1\n  c: '{{b}}'", [("unused-replacement", 4)]),
        ("{{_file:x.txt}}", "{}", []),
    ],
)
def test_placeholders_without_a_value_and_unused_keys_are_reported(
    template: str, text: str, expected: list[Any]
) -> None:
    assert find_problems(template, text) == expected


def test_a_key_that_any_item_of_the_list_uses_is_used() -> None:
    assert find_problems("{{a}}", "replacements: [{a: '{{b}}', b: 1}, {a: 2, b: 1}]") == []


def test_a_placeholder_without_a_value_names_the_item_and_the_nearest_key() -> None:
    log = ProblemLog("t.md", 1)
    check_replacements(
        read_groups("replacements: [{guest: 1, dish: 2}, {gest: 1, dish: 2}]"), {"guest": 3}, 5, log
    )
    first = log.problems[0]
    assert first.message == "`{{guest}}` has no value in item 2 of `replacements`. Did you mean 'gest'?"


def test_too_many_versions_are_refused_before_they_are_generated() -> None:
    keys = [f"k{at}" for at in range(30)]
    text = "replacements:\n" + "".join(f"  {key}: [1, 2, 3]\n" for key in keys)
    template = "".join(f"{{{{{key}}}}}" for key in keys)
    assert find_problems(template, text) == [("too-many-versions", 2)]
    assert MAX_VERSIONS < 3**30


def test_values_that_grow_too_long_are_refused_before_they_are_generated() -> None:
    rows = "".join(f"  k{at}: '{{{{k{at + 1}}}}}{{{{k{at + 1}}}}}'\n" for at in range(60))
    assert find_problems("{{k0}}", f"replacements:\n{rows}  k60: x\n") == [("too-long", 2)]


# --- ids ---------------------------------------------------------------------------------------------------


def test_the_bracket_of_an_id_has_all_keys_in_order_on_one_line() -> None:
    assert make_brackets([{"b": "x\n  y", "a": "1"}, {}]) == ["[b=x y,a=1]", ""]


def test_a_long_bracket_is_a_digest_of_twelve_digits() -> None:
    just = {"a": "x" * 56}
    long = {"a": "x" * 57}
    assert make_brackets([just]) == [f"[a={'x' * 56}]"]
    (bracket,) = make_brackets([long])
    assert len(bracket) == 14
    assert set(bracket[1:-1]) <= set("0123456789abcdef")
    assert make_brackets([{"a": "y" * 57}]) != [bracket]


def test_versions_that_differ_in_white_space_alone_have_digests() -> None:
    first, second, third = make_brackets([{"a": "x y"}, {"a": "x\ny"}, {"a": "z"}])
    assert len({first, second}) == 2
    assert (len(first), len(second), third) == (14, 14, "[a=z]")
