"""What replacements make of one text: how many versions, which, and in which order."""

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
    notes = ProblemLog("t.md", 1)
    fields = FieldReader(load(text), notes)
    groups = parse_groups(fields, "replacements")
    fields.finish(())
    return groups, notes.problems


def groups(text: str) -> tuple[ReplacementGroup, ...]:
    found, problems = read(text)
    assert problems == []
    return found


def filled(template: str, text: str) -> list[str]:
    """Each version of a template, whose replacements have nothing wrong with them."""
    found = groups(text)
    notes = ProblemLog("t.md", 1)
    check_replacements(found, {name: 1 for name, _ in iter_placeholders(template)}, len(template), notes)
    assert notes.problems == []
    return [fill(template, values).strip() for values in expand_versions(found)]


def problems(template: str, text: str) -> list[tuple[str, int | None]]:
    notes = ProblemLog("t.md", 1)
    check_replacements(
        groups(text), {name: 9 for name, _ in iter_placeholders(template)}, len(template), notes
    )
    return [(problem.code, problem.line) for problem in notes.problems]


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
def test_lists_combine_inside_their_map_the_first_key_slowest(
    template: str, text: str, versions: list[str]
) -> None:
    assert filled(template, f"replacements: {text}") == versions


# --- laws --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(GROUPS)
def test_a_map_makes_as_many_versions_as_the_product_of_its_lists(group: ReplacementGroup) -> None:
    assert len(list(expand_versions([group]))) == prod(map(len, group.values.values()))


@pytest.mark.slow
@given(GROUPS)
def test_the_versions_of_a_map_are_in_the_order_of_counting(group: ReplacementGroup) -> None:
    places = product(*(range(len(values)) for values in group.values.values()))
    wanted = [
        {key: group.values[key][at] for key, at in zip(group.values, place, strict=True)} for place in places
    ]
    made = list(expand_versions([group]))
    assert made == wanted
    assert all(list(values) == list(group.values) for values in made)


@pytest.mark.slow
@given(st.lists(GROUPS, max_size=3), st.lists(GROUPS, max_size=3))
def test_the_versions_of_two_lists_of_maps_are_those_of_one_and_then_of_the_other(
    first: list[ReplacementGroup], second: list[ReplacementGroup]
) -> None:
    assert list(expand_versions(first + second)) == [*expand_versions(first), *expand_versions(second)]


@pytest.mark.slow
@given(st.dictionaries(NAMES, VALUES), st.text(max_size=40))
def test_a_text_without_braces_stays_as_it_is(values: dict[str, str], text: str) -> None:
    assert fill(text.replace("{", "("), values) == text.replace("{", "(")


@pytest.mark.slow
@given(NAMES, st.text(max_size=30), VALUES, VALUES)
def test_a_value_is_put_in_as_it_is(name: str, value: str, before: str, after: str) -> None:
    assert fill(f"{before}{{{{{name}}}}}{after}", {name: value}) == before + value + after


# --- placeholders ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "made"),
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
def test_a_placeholder_goes_with_the_backticks_directly_around_it(template: str, made: str) -> None:
    assert fill(template, {"a": "1"}) == made


@pytest.mark.parametrize("value", ["$5", "$$5", "$&", "$`", "\\1", "\\g<0>", "{{", "}}", "# 👤 x", "---"])
def test_no_character_of_a_value_or_name_is_special(value: str) -> None:
    assert fill("<{{a.b}}>{{a(}}", {"a.b": value, "a(": value}) == f"<{value}>{value}"
    assert fill("{{axb}}", {"a.b": value}) == "{{axb}}"


@pytest.mark.parametrize(
    ("text", "made"),
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
def test_scalars_are_those_of_yaml_1_2_and_numbers_print_as_in_javascript(text: str, made: str) -> None:
    assert filled("<{{a}}>", f"replacements: {{a: {text}}}") == [f"<{made}>"]
    assert filled("<{{a}}>", f"replacements: {{a: [{text}, b]}}") == [f"<{made}>", "<b>"]


@pytest.mark.slow
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_printed_number_is_the_number(number: float) -> None:
    text = format_number(number)
    assert float(text) == number
    assert not text.endswith(".0")


# --- values in values --------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["a: x `{{b}}` y\n  b: 1", "b: 1\n  a: x {{ b }} y"])
def test_a_value_may_name_another_key_wherever_that_stands(text: str) -> None:
    assert filled("<{{a}}>", f"replacements:\n  {text}\n") == ["<x 1 y>"]


def test_values_name_one_another_over_several_steps_and_in_each_combination() -> None:
    text = "replacements:\n  a: '{{b}}{{b}}'\n  b: ['{{c}}', '-']\n  c: [1, 2]\n"
    assert filled("{{a}}{{c}}", text) == ["111", "222", "--1", "--2"]


def test_keys_that_lead_back_to_themselves_are_errors_and_end() -> None:
    text = "replacements:\n  a: '{{b}}'\n  b: [x, '{{a}}']\n  c: '{{c}}'\n  d: '{{a}}'\n"
    assert problems("{{a}}{{b}}{{c}}{{d}}", text) == [
        ("replacement-loop", 2),
        ("replacement-loop", 3),
        ("replacement-loop", 4),
    ]


@pytest.mark.slow
def test_a_long_chain_of_values_is_followed() -> None:
    rows = "".join(f"  k{at}: '{{{{k{at + 1}}}}}'\n" for at in range(3000))
    assert filled("{{k0}}", f"replacements:\n{rows}  k3000: end\n") == ["end"]


# --- what is wrong -----------------------------------------------------------------------------------------


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
def test_what_is_no_replacement_is_an_error_at_its_line(text: str, code: str, line: int) -> None:
    assert [(problem.code, problem.line) for problem in read(text)[1]] == [(code, line)]


def test_without_the_field_or_with_an_empty_map_there_is_one_version() -> None:
    assert [list(expand_versions(groups(text))) for text in ("{}", "replacements: {}")] == [[{}], [{}]]


@pytest.mark.parametrize(
    ("template", "text", "found"),
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
def test_what_has_no_value_or_no_use_is_told(template: str, text: str, found: list[Any]) -> None:
    assert problems(template, text) == found


def test_a_key_that_any_item_of_the_list_uses_is_used() -> None:
    assert problems("{{a}}", "replacements: [{a: '{{b}}', b: 1}, {a: 2, b: 1}]") == []


def test_a_placeholder_without_a_value_names_the_item_and_the_nearest_key() -> None:
    notes = ProblemLog("t.md", 1)
    check_replacements(
        groups("replacements: [{guest: 1, dish: 2}, {gest: 1, dish: 2}]"), {"guest": 3}, 5, notes
    )
    first = notes.problems[0]
    assert first.message == "`{{guest}}` has no value in item 2 of `replacements`. Did you mean 'gest'?"


def test_more_versions_than_anybody_means_are_refused_before_they_are_made() -> None:
    keys = [f"k{at}" for at in range(30)]
    text = "replacements:\n" + "".join(f"  {key}: [1, 2, 3]\n" for key in keys)
    template = "".join(f"{{{{{key}}}}}" for key in keys)
    assert problems(template, text) == [("too-many-versions", 2)]
    assert MAX_VERSIONS < 3**30


def test_values_that_double_one_another_are_refused_before_they_are_made() -> None:
    rows = "".join(f"  k{at}: '{{{{k{at + 1}}}}}{{{{k{at + 1}}}}}'\n" for at in range(60))
    assert problems("{{k0}}", f"replacements:\n{rows}  k60: x\n") == [("too-long", 2)]


# --- ids ---------------------------------------------------------------------------------------------------


def test_the_bracket_of_an_id_has_all_keys_in_order_on_one_line() -> None:
    assert make_brackets([{"b": "x\n  y", "a": "1"}, {}]) == ["[b=x y,a=1]", ""]


def test_a_long_bracket_is_a_digest_of_twelve_digits() -> None:
    just = {"a": "x" * 56}
    long = {"a": "x" * 57}
    assert make_brackets([just]) == [f"[a={'x' * 56}]"]
    (made,) = make_brackets([long])
    assert len(made) == 14
    assert set(made[1:-1]) <= set("0123456789abcdef")
    assert make_brackets([{"a": "y" * 57}]) != [made]


def test_versions_that_differ_in_white_space_alone_have_digests() -> None:
    first, second, third = make_brackets([{"a": "x y"}, {"a": "x\ny"}, {"a": "z"}])
    assert len({first, second}) == 2
    assert (len(first), len(second), third) == (14, 14, "[a=z]")
