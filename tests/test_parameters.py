"""Parameters of models: their words, their values, and the digests of targets that set them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proctor.codec import decode, encode, target_digest
from proctor.engines.caching import target_parts
from proctor.errors import UsageError
from proctor.model import Params, TargetSpec
from proctor.parameters import (
    PARAMETERS,
    changed_parameters,
    check_parameter,
    check_parameters,
    describe_changes,
    describe_parameters,
    format_parameters,
    format_words,
    merge_parameters,
    parse_parameters,
)
from proctor.targets import check_params_taken
from proctor.targets.parse import parse_target

WORDS = st.text(st.characters(min_codepoint=97, max_codepoint=122), min_size=1, max_size=8)
VALUES = {
    "top_p": st.floats(0.01, 1),
    "top_k": st.integers(1, 500),
    "stop": st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=4).map(tuple),
    "presence_penalty": st.floats(-2, 2),
    "frequency_penalty": st.floats(-2, 2),
    "reasoning_effort": WORDS,
    "thinking_budget": st.integers(0, 10_000),
    "verbosity": WORDS,
    "service_tier": WORDS,
    "logprobs": st.integers(0, 20),
    "prompt_cache": st.just(True),
    "stream": st.just(True),
    "api_format": st.just("responses"),
    "extra_body": st.dictionaries(
        WORDS, st.integers(-(2**63), 2**64 - 1) | st.text(max_size=5), min_size=1, max_size=3
    ),
    "headers": st.dictionaries(st.sampled_from(["X-Team", "OpenAI-Beta"]), WORDS, min_size=1),
}
assert VALUES.keys() == PARAMETERS.keys()


def spec(params: Params) -> TargetSpec:
    return TargetSpec(name="t", kind="openai", model="m", endpoint="https://a.example/v1", params=params)


@given(st.fixed_dictionaries({}, optional=VALUES))
def test_command_line_words_give_back_their_parameters(values: dict[str, Any]) -> None:
    params = Params(**values)
    assert Params(**parse_parameters(format_parameters(params))).further == params.further


@given(st.fixed_dictionaries({}, optional=VALUES))
def test_parameters_are_part_of_digest_and_cache_only_if_they_are_set(values: dict[str, Any]) -> None:
    params = Params(**values)
    plain = spec(Params())
    assert (target_digest(spec(params)) == target_digest(plain)) == (not values)
    assert target_parts(spec(params)).keys() - target_parts(plain).keys() == params.further.keys()
    assert decode(encode(params), Params) == params


def test_a_target_without_further_parameters_has_the_digest_of_earlier_releases() -> None:
    digest = "sha256:843be17c1a3c5db60f9fc913d9134d3c4b256b7b7771c9f8978f96e8ce1f89a3"
    assert target_digest(spec(Params(temperature=0.5, max_tokens=7))) == digest


@pytest.mark.parametrize("stop", ["\n\n", "5", "a, b", '["a"]'])
def test_a_single_stop_text_is_written_on_one_line_and_read_again(stop: str) -> None:
    (word,) = format_words({"stop": stop})
    assert "\n" not in word
    assert parse_parameters([word]) == {"stop": (stop,)}


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("top_p=0.9", 0.9),
        ("stop=END", ("END",)),
        ("stop=5", ("5",)),
        ("stop=\n", ("\n",)),
        ('stop=["a", "b"]', ("a", "b")),
        ("reasoning_effort=low", "low"),
        ("stream=true", True),
        ("extra_body.min_p=0.1", {"min_p": 0.1}),
        ("extra_body.mode=fast", {"mode": "fast"}),
        ("headers.X-Title=3", {"X-Title": "3"}),
        ("headers.X-Api-Key=${{ MY_KEY }}", {"X-Api-Key": "${{ MY_KEY }}"}),
    ],
)
def test_a_word_sets_one_parameter(word: str, value: Any) -> None:
    assert list(parse_parameters([word]).values()) == [value]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("top_p", "NAME=VALUE"),
        ("top_p=2", "must be a number above 0 and at most 1"),
        ("top_p=true", "must be a number"),
        ("thinking_budget=1.5", "must be a whole number at least 0"),
        ("top_q=2", "Did you mean 'top_p'"),
        ("min_p=0.1", "extra_body"),
        ("temperature=1", "write --temperature 1"),
        ("api_format=x", "'chat' or 'responses'"),
        ("stop=[]", "a list of 1 to 16 texts"),
        ("extra_body.messages=[]", "cannot contain `messages`"),
        ("headers.Authorization=Bearer abc", "must name a variable"),
        ("headers.Content-Length=3", "cannot contain `Content-Length`"),
        ("headers.X-A=a\nb", "cannot be sent as a header"),
        ("reasoning_effort=LOW!", "a word in lower case"),
        ("reasoning_effort=low\n", "a word in lower case"),
        ("service_tier=\u202eflex", "must be a word"),
        ("top_k=1" + "0" * 400, "at least 1"),
        ("top_p=1" + "0" * 400, "at most 1"),
        ("stop=\udcff", "a list of 1 to 16 texts"),
        ("extra_body.min_p=NaN", "has nan, which JSON cannot express"),
        ('extra_body={"a": [-Infinity]}', "has -inf, which JSON cannot express"),
        ("extra_body.user=\udcff", "which JSON cannot express"),
        ("extra_body.a=" + "[" * 99 + "]" * 99, "more than 64 objects and lists"),
    ],
)
def test_a_word_that_cannot_be_used_is_refused(word: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_parameters([word])
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["extra_body=5", "extra_body.a=1"], "`extra_body` is 5; it must be an object"),
        (["headers=a", "headers.X-A=1"], "`headers` is 'a'; it must be an object"),
        (["headers.X-A=1", "headers.x-a=2"], "both `X-A` and `x-a`, which are the same header"),
    ],
)
def test_words_that_do_not_go_together_are_refused(words: list[str], message: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_parameters(words)
    assert message in str(error.value)


def test_a_kind_refuses_a_parameter_that_it_does_not_take() -> None:
    with pytest.raises(UsageError, match="Target 'echo': targets of kind `echo` do not accept `top_p`"):
        check_params_taken(parse_target("echo", Params(top_p=0.5), {}))


def test_a_parameter_that_a_fallback_does_not_take_is_refused() -> None:
    fallback = TargetSpec(name="b", kind="anthropic", model="m", params=Params(logprobs=1))
    with pytest.raises(UsageError, match=r"'b', a fallback of target 't': .*`logprobs`"):
        check_params_taken(replace(spec(Params(logprobs=1)), fallbacks=(fallback,)))


def test_the_user_overrides_a_target_s_own_parameters() -> None:
    own = Params(temperature=1.0, top_p=0.5, stop=("a",))
    assert merge_parameters(own, Params(top_p=0.9)) == Params(temperature=1.0, top_p=0.9, stop=("a",))


def test_the_user_overrides_single_headers_and_fields() -> None:
    own = Params(headers={"X-Key": "a", "X-Team": "b"}, extra_body={"a": {"b": 1, "c": 2}, "d": [1]})
    params = Params(headers={"x-team": "c"}, extra_body={"a": {"b": 3}, "d": [2]})
    merged = merge_parameters(own, params)
    assert merged.headers == {"X-Key": "a", "x-team": "c"}
    assert merged.extra_body == {"a": {"b": 3, "c": 2}, "d": [2]}


def test_a_value_of_another_type_is_refused() -> None:
    for name, value in {"stop": 3, "headers": {"a": 1}, "extra_body": [], "logprobs": True}.items():
        with pytest.raises(UsageError, match=f"`{name}` is"):
            check_parameter(name, value)
    with pytest.raises(UsageError, match="no parameter"):
        check_parameters({"stream": True}, {"top_p"})


def test_people_read_the_parameters_that_are_not_the_defaults() -> None:
    assert describe_parameters(Params()) == ""
    assert describe_parameters(Params(), with_defaults=True) == "temperature 0, seed 42"
    params = Params(temperature=1, seed=None, top_p=0.9, stop=("END",), reasoning_effort="low")
    text = 'seed unset, top_p 0.9, stop ["END"], reasoning_effort low'
    assert describe_parameters(params) == f"temperature 1, {text}"
    assert describe_parameters(Params(seed=1_234_567_890)) == "seed 1234567890"


def test_no_description_has_the_value_of_a_header() -> None:
    params = Params(headers={"X-Team": "s3cret", "X-App": "s3cret"})
    assert describe_parameters(params) == "headers X-App and X-Team"
    assert changed_parameters(params) == {"headers": ("X-App", "X-Team")}
    changes = describe_changes(params, Params(headers={"X-App": "s3cret", "X-Team": "0ther"}))
    assert changes == ("headers.X-Team (value not shown)",)


def test_changes_name_each_parameter_with_both_values() -> None:
    before = Params(extra_body={"a": 1, "b": 2})
    after = Params(temperature=None, api_format="responses", extra_body={"a": 1, "b": 3})
    changes = ("temperature 0 → unset", "api_format unset → responses", "extra_body.b 2 → 3")
    assert describe_changes(before, after) == changes
    assert describe_changes(before, before) == ()
