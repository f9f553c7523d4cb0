"""References `${{ NAME }}`: where they are recognized, substituted, and values masked again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proctor.env_substitution import mask, names_in, stream_end, substitute, substitute_in_case, unmask
from proctor.errors import UsageError
from proctor.graders.text import clip
from proctor.model import Assertion, Attachment, Case, Failure, Message, Output, Score, ToolCall, Verdict

ENVIRON = {"KEY": "s3cret-key", "HOST": "example.test", "PORT": "80", "EMPTY": "", "_x1": "underscored"}

NAMES = st.sampled_from(["A", "B", "C_1", "_d"])
VALUES = st.text("0123456789", min_size=6, max_size=8)
WORDS = st.text("é. ${}\n", max_size=6)
ENVIRONS = st.fixed_dictionaries(dict.fromkeys(["A", "B", "C_1", "_d"], VALUES))
TEXTS = st.lists(WORDS | NAMES.map(lambda name: f"${{{{ {name} }}}}"), max_size=6).map("".join)
ALL = ("A", "B", "C_1", "_d")


def nested(texts: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.recursive(
        texts | st.none() | st.booleans() | st.integers(0, 9) | st.binary(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.lists(inner, max_size=3).map(tuple)
            | st.dictionaries(st.sampled_from(["k", "${{ A }}"]), inner, max_size=2)
        ),
        max_leaves=6,
    )


# --- what is a reference -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("${{ KEY }}", "s3cret-key"),
        ("${{KEY}}", "s3cret-key"),
        ("${{\n\tKEY  }}", "s3cret-key"),
        ("http://${{ HOST }}:${{ PORT }}/", "http://example.test:80/"),
        ("${{ _x1 }}", "underscored"),
        ("[${{ EMPTY }}]", "[]"),
        ("$${{ PORT }}", "$80"),
        ("${{{ PORT }}}", "${{{ PORT }}}"),
        ("{{ KEY }}", "{{ KEY }}"),
        ("$KEY ${KEY} $ {{ KEY }}", "$KEY ${KEY} $ {{ KEY }}"),
        ("${{ 1X }} ${{ a-b }} ${{ secrets.KEY }} ${{ }}", "${{ 1X }} ${{ a-b }} ${{ secrets.KEY }} ${{ }}"),
        ("${{ KÉY }}", "${{ KÉY }}"),
        ("", ""),
    ],
)
def test_a_reference_is_a_name_in_two_braces_after_a_dollar(text: str, becomes: str) -> None:
    assert substitute(text, ENVIRON) == becomes
    assert bool(names_in(text)) == (text != becomes)


def test_the_value_of_a_variable_is_not_looked_through_for_references() -> None:
    assert substitute("${{ A }}", {"A": "${{ B }}", "B": "no"}) == "${{ B }}"


def test_names_are_found_everywhere_once_and_sorted() -> None:
    data = {"${{ KEYS_OF_OBJECTS }}": ["${{ B }} ${{ A }}", ("${{ B }}", {"x": "${{ C }}"}), 1, None]}
    assert names_in(data) == ("A", "B", "C")


def test_a_variable_that_is_not_set_is_an_error_that_names_it_and_says_what_to_do() -> None:
    with pytest.raises(UsageError, match=r"variable NONE is not set.*export NONE="):
        substitute({"a": ["${{ NONE }}"]}, ENVIRON)


# --- nouns -------------------------------------------------------------------------------------------------


def make_case(text: str, attached: str = "") -> Case:
    return Case(
        id="c",
        input=(
            Message(
                role="user",
                content=text,
                parts=(text, Attachment(kind="file", path="ci.yml", text=attached, data=b"${{ KEY }}")),
                tool_calls=(ToolCall(name="t", arguments={"x": [text]}),),
            ),
        ),
        expected={"a": text},
        assertions=(Assertion(grader="contains", params={"value": text}, label=text),),
        metadata={"m": (text,)},
        variables=names_in(text),
    )


def test_a_case_is_filled_in_at_every_place_and_keeps_all_else() -> None:
    assert substitute_in_case(make_case("a ${{ KEY }}"), ENVIRON) == replace(
        make_case("a s3cret-key"), variables=("KEY",)
    )


def test_a_case_without_variables_is_returned_as_it_is() -> None:
    case = make_case("plain")
    assert substitute_in_case(case, {}) is case


def test_references_in_attached_files_are_ignored() -> None:
    case = make_case("${{ KEY }}", attached="run: ${{ GITHUB_SHA }} ${{ KEY }}")
    assert names_in(case) == ("KEY",)
    part = substitute_in_case(case, ENVIRON).input[0].parts[1]
    assert isinstance(part, Attachment)
    assert part.text == "run: ${{ GITHUB_SHA }} ${{ KEY }}"


def test_a_secret_in_an_attachment_of_an_answer_is_masked() -> None:
    attachment = Attachment(kind="file", path="env.txt", text="KEY=s3cret-key")
    output = Output(text="see file", messages=(Message(role="assistant", parts=(attachment,)),))
    assert "s3cret" not in repr(mask(output, ("KEY",), ENVIRON))


def test_a_secret_in_a_key_is_masked() -> None:
    assert mask({"is s3cret-key": {"s3cret-key": 1}}, ("KEY",), ENVIRON) == {
        "is ${{ KEY }}": {"${{ KEY }}": 1}
    }


def test_words_of_an_enumeration_stay_members_of_it() -> None:
    assert substitute([Verdict.PASS], ENVIRON)[0] is Verdict.PASS
    assert mask([Verdict.PASS], ("V",), {"V": "passpass"})[0] is Verdict.PASS


def test_fields_with_fixed_words_keep_them_whatever_a_variable_says() -> None:
    score = Score(grader="g", name="answer", outcome=Verdict.PASS)
    failure = Failure(stage="target", kind="timeout", message="The target waits.")
    environ = {"A": "answer", "T": "target"}
    masked_score, masked_failure = (mask(value, ("A", "T"), environ) for value in (score, failure))
    assert masked_score == replace(score, name="${{ A }}")
    assert masked_failure == replace(failure, message="The ${{ T }} waits.")


# --- masking -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "environ", "becomes"),
    [
        ("my s3cret-key!", {"A": "s3cret-key"}, "my ${{ A }}!"),
        ("s3cret-keys3cret-key", {"A": "s3cret-key"}, "${{ A }}${{ A }}"),
        ("the port 80", {"A": "80"}, "the port 80"),
        ("12345", {"A": "12345"}, "12345"),
        ("123456", {"A": "123456"}, "${{ A }}"),
        ("", {"A": ""}, ""),
        ("s3cret-key", {}, "s3cret-key"),
        ("abcdefgh abcdef", {"A": "abcdef", "B": "abcdefgh"}, "${{ B }} ${{ A }}"),
        ("abcdefgh abcdef", {"B": "abcdef", "A": "abcdefgh"}, "${{ A }} ${{ B }}"),
        ("token-token", {"A": "token-token", "B": "token-token"}, "${{ A }}"),
        ("a.c+(de)", {"A": "a.c+(de)"}, "${{ A }}"),
        ("abc+xde)", {"A": "a.c+(de)"}, "abc+xde)"),
        ("LINE1\nLINE2", {"A": "LINE1\nLINE2"}, "${{ A }}"),
    ],
)
def test_a_value_of_six_characters_or_more_becomes_its_reference(
    text: str, environ: dict[str, str], becomes: str
) -> None:
    assert mask(text, ("A", "B"), environ) == becomes


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("ends with: …3cret-key is wrong", "ends with: … is wrong"),
        ("'key=s3cret-k…' is wrong", "'key=…' is wrong"),
        ("…s3cret-key!", "…${{ KEY }}!"),
        ("…et-key of s3cret…", "… of …"),
        ("s3cret-ke…s3cret-ke", "…s3cret-ke"),
        ("3cret-key…", "3cret-key…"),
        ("…t-key s3cre…", "…t-key s3cre…"),
        ("…lue underscor…", "…lue …"),
        ("a … b", "a … b"),
    ],
)
def test_the_part_of_a_value_beside_an_ellipsis_is_removed(text: str, becomes: str) -> None:
    assert mask(text, ("KEY", "_x1"), ENVIRON) == becomes


@given(st.integers(1, 200))
def test_a_cut_shows_no_more_of_a_value_than_five_characters(most: int) -> None:
    text = f"{'x' * 40} {ENVIRON['KEY']} {'é' * 40}"
    for part in (stream_end(text.encode(), most), clip(text, most)):
        assert len(part) <= most
        result = mask(part, ("KEY",), ENVIRON)
        assert not any(ENVIRON["KEY"][at : at + 6] in result for at in range(5))


def test_only_the_variables_that_are_named_are_masked() -> None:
    assert mask("s3cret-key example.test", ("HOST",), ENVIRON) == "s3cret-key ${{ HOST }}"


def test_a_value_is_not_found_inside_the_reference_to_another() -> None:
    environ = {"MY_SECRET_NAME": "a-long-value", "OTHER": "SECRET"}
    assert mask("a-long-value SECRET", ("MY_SECRET_NAME", "OTHER"), environ) == (
        "${{ MY_SECRET_NAME }} ${{ OTHER }}"
    )


def test_with_nothing_to_mask_the_same_thing_comes_back() -> None:
    output = Output(text="x")
    assert mask(output, ("PORT", "NONE"), ENVIRON) is output


def test_an_answer_that_names_a_variable_of_its_own_accord_gets_no_value() -> None:
    output = Output(text="${{ HOST }} ${{ NONE }} ${{ KEY }}")
    assert unmask(output, ("KEY",), ENVIRON).text == "${{ HOST }} ${{ NONE }} s3cret-key"


# --- laws --------------------------------------------------------------------------------------------------


@given(nested(TEXTS), ENVIRONS)
def test_masking_a_substituted_value_loses_nothing(value: Any, environ: dict[str, str]) -> None:
    whole = substitute(value, environ)
    assert substitute(mask(whole, ALL, environ), environ) == whole


@given(st.lists(WORDS.filter(lambda word: "$" not in word) | NAMES, max_size=6), st.permutations("123456"))
def test_filling_and_masking_gives_the_references_back(parts: list[str], digits: list[str]) -> None:
    # Each value ends in a letter of its own, so that no two of them make a third where they meet.
    environ = {name: "".join(digits) + "WXYZ"[place] for place, name in enumerate(ALL)}
    template = "".join(f"${{{{ {part} }}}}" if part in environ else part for part in parts)
    assert mask(substitute(template, environ), ALL, environ) == template


@given(nested(TEXTS), ENVIRONS)
def test_no_value_is_left_after_masking(value: Any, environ: dict[str, str]) -> None:
    result = repr(mask(substitute(value, environ), ALL, environ))
    assert not any(secret in result for secret in environ.values())


@given(
    nested(
        st.lists(st.sampled_from(["1234567", "123456", "7654321", "é", "${{ B "]), max_size=4).map("".join)
    )
)
def test_unmasking_undoes_masking(value: Any) -> None:
    environ = {"A": "1234567", "B": "123456", "C_1": "7654321"}
    assert unmask(mask(value, ALL, environ), ALL, environ) == value


@given(nested(TEXTS))
def test_filling_needs_exactly_the_names_that_are_found(value: Any) -> None:
    names = names_in(value)
    substitute(value, dict.fromkeys(names, "x"))
    for name in names:
        with pytest.raises(UsageError, match=name):
            substitute(value, {other: "x" for other in names if other != name})
