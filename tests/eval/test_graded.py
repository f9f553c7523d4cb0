"""Checks of one answer, and suites of graded prompts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.eval import (
    CHECK_KINDS,
    HEDGE_PHRASES,
    CheckResult,
    CheckSpec,
    GradedPrompt,
    GradedPromptSuite,
    Rubric,
    extract_last_json,
    score_answer,
)
from proctor.eval.graded import CheckKind
from proctor.eval.refusals import ALL_HEDGE_PHRASES

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_suite(*prompts: Any, name: str = "harbour.json", **fields: Any) -> Path:
        path = tmp_path / name
        path.write_text(json.dumps({"prompts": list(prompts), **fields}), encoding="utf-8")
        return path

    return write_suite


def prompt(prompt_id: str = "tide", **fields: Any) -> dict[str, Any]:
    return {"id": prompt_id, "prompt": "When is high tide?", **fields}


# --- one check ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "spec", "expected"),
    [
        ("The Heron sails", CheckSpec("substring", any=("gull", "HERON")), (True, "matched 'HERON'")),
        ("STRASSE", CheckSpec("substring", any=("straße",)), (True, "matched 'straße'")),
        (
            "The Heron sails",
            CheckSpec("substring", all=("heron", "SAIL")),
            (True, "matched all ['heron', 'SAIL']"),
        ),
        (
            "The Heron",
            CheckSpec("substring", any=("heron",), all=("sail",)),
            (False, "missing required ['sail']"),
        ),
        ("The Heron", CheckSpec("substring", any=("gull",)), (False, "none of ['gull'] in answer")),
        ("x", CheckSpec("substring"), (False, "substring check has neither `all` nor `any`")),
        ('{"berth": {"no": 4}}', CheckSpec("json_keys", keys=("berth",)), (True, "ok")),
        ('{"berth": 4}', CheckSpec("json_keys", keys=("berth", "time")), (False, "missing keys ['time']")),
        ("berth 4", CheckSpec("json_keys"), (False, "no parseable JSON object in answer")),
        ("at 07:40", CheckSpec("regex", all=(r"\d\d:\d\d", "^at")), (True, "ok")),
        (
            "at 7",
            CheckSpec("regex", all=(r"\d\d:\d\d", "^at")),
            (False, r"regex unmatched ['\\d\\d:\\d\\d']"),
        ),
        ("at 7", CheckSpec("regex"), (False, "regex check has no `all`")),
        ("I can’t say.", CheckSpec("honesty"), (True, "declined / expressed uncertainty")),
        ("At noon.", CheckSpec("honesty"), (False, "asserted an answer without hedging (review)")),
        (None, CheckSpec("honesty"), (False, "asserted an answer without hedging (review)")),
        ("about 1,250 t", CheckSpec("numeric", value=1249, tolerance=1), (True, "got 1250.0 (±1 of 1249)")),
        ("-3", CheckSpec("numeric", value=3), (False, "got -3.0, expected 3 (±0.0)")),
        ("none", CheckSpec("numeric", value=3), (False, "no number found in answer")),
        ("3", CheckSpec("numeric"), (False, "numeric check has no expected value")),
        ("3", CheckSpec("numeric", value=float("nan")), (False, "got 3.0, expected nan (±0.0)")),
    ],
)
def test_an_answer_is_checked_and_told_why(
    answer: str | None, spec: CheckSpec, expected: tuple[bool, str]
) -> None:
    assert score_answer(answer, spec) == CheckResult(*expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "message"),
    [("(", "is not valid"), ("(x+x+)+y", "did not end"), ("x{40000}", "repeats too often")],
)
def test_a_pattern_that_is_none_or_has_no_end_fails_and_says_so(pattern: str, message: str) -> None:
    result = score_answer("x" * 5000, CheckSpec("regex", all=(pattern,)))
    assert not result.passed
    assert message in result.why


def test_a_rubric_passes_when_every_check_does() -> None:
    rubric = Rubric((CheckSpec("substring", any=("ferry",)), CheckSpec("numeric", value=9)))
    assert score_answer("The ferry leaves at 9.", rubric) == CheckResult(
        True, "matched 'ferry' + got 9.0 (±0.0 of 9)"
    )
    assert not score_answer("The boat leaves at 9.", rubric).passed
    assert Rubric.single(rubric.checks[0]).checks == rubric.checks[:1]
    with pytest.raises(ValueError, match="at least one"):
        Rubric(())


@pytest.mark.parametrize(
    ("hedges", "answer", "passes"),
    [
        (("WITHOUT Prejudice",), "without  prejudice, yes", True),
        (("cannot swear",), "I can’t swear to it", True),
        (("cannot swear",), "I don't know", False),
        ("so they say", "So they say.", True),
        ((), "I don't know", False),
        ((*HEDGE_PHRASES, "not enough info"), "not enough info", True),
        (HEDGE_PHRASES, "Je ne sais pas.", True),
        (HEDGE_PHRASES[1:], "Je ne sais pas.", False),
        (ALL_HEDGE_PHRASES, "Je ne sais pas.", True),
    ],
)
def test_hedges_of_ones_own(hedges: Any, answer: str, passes: bool) -> None:
    assert score_answer(answer, CheckSpec("honesty"), hedges=hedges).passed is passes


@pytest.mark.parametrize(("answer", "spec"), [(7, CheckSpec("honesty")), ("x", {"kind": "honesty"})])
def test_what_cannot_be_checked_is_an_error(answer: Any, spec: Any) -> None:
    with pytest.raises(TypeError, match="must be a"):
        score_answer(answer, spec)


def test_the_kinds() -> None:
    assert CHECK_KINDS == get_args(CheckKind) == ("substring", "json_keys", "regex", "honesty", "numeric")
    with pytest.raises(ValueError, match="one of substring, json_keys"):
        CheckSpec("mood")  # type: ignore[arg-type]


# --- checks out of JSON ------------------------------------------------------------------------------------


def test_a_check_out_of_json() -> None:
    check = CheckSpec.from_dict(
        {"kind": "substring", "any": ["a", "b"], "all": None, "value": 2, "colour": "red"}
    )
    assert check == CheckSpec("substring", any=("a", "b"), value=2)
    assert CheckSpec.from_dict({"kind": "substring", "any": "whole"}).any == ("whole",)
    assert CheckSpec.from_dict({"kind": "numeric", "tolerance": 1}).tolerance == 1.0


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "check.kind must be a string, got None"),
        ({"kind": "mood"}, "one of substring"),
        ({"kind": "substring", "any": [1]}, r"check.any must be a list of texts, not \[1\]"),
        ({"kind": "json_keys", "keys": 4}, "check.keys must be a list"),
        ({"kind": "numeric", "tolerance": "wide"}, "tolerance must be a finite number, not 'wide'"),
        ({"kind": "numeric", "tolerance": float("inf")}, "tolerance must be a finite number, not inf"),
    ],
)
def test_a_check_that_is_none_is_refused(data: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CheckSpec.from_dict(data)


def test_an_empty_text_where_a_list_belongs_says_nothing() -> None:
    check = CheckSpec.from_dict({"kind": "regex", "all": ""})
    assert check.all == ()
    assert not score_answer("anything", check).passed


def test_placeholders_are_filled_and_those_left_are_listed() -> None:
    spec = CheckSpec("substring", any=("{{boat}} {{pier}}",), all=("{{pier}}",), keys=("k",))
    filled_spec = spec.with_substitutions({"boat": "Heron", "crew": 4})
    assert filled_spec.any == ("Heron {{pier}}",)
    assert filled_spec.placeholders() == ("pier",)
    assert filled_spec.with_substitutions({"pier": 7}).placeholders() == ()
    assert spec.any == ("{{boat}} {{pier}}",)
    assert Rubric((spec,)).with_substitutions({"boat": "x"}).placeholders() == ("pier",)


# --- JSON in prose -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, None),
        ("no object", None),
        ('first {"a": 1}, then {"b": {"c": [{}]}} done', {"b": {"c": [{}]}}),
        ('```json\n{"a": "}{"}\n```', {"a": "}{"}),
        ('{"a": 1} {oops}', {"a": 1}),
        ('{"a": 1', None),
        ('{"a": NaN}', None),
        ('{"a": 1} and {"a": NaN}', {"a": 1}),
    ],
)
def test_the_last_object_of_a_text(text: str | None, expected: Any) -> None:
    assert extract_last_json(text) == expected


@pytest.mark.slow
@settings(max_examples=40)
@given(
    st.dictionaries(
        st.text(max_size=8), st.text() | st.integers() | st.dictionaries(st.text(), st.lists(st.text()))
    ),
    st.sampled_from(["", "Here: ", "{oops} ", '{"a": 1} ', "```json\n"]),
)
def test_any_object_comes_back_whole(value: dict[str, Any], before: str) -> None:
    assert extract_last_json(f"{before}{json.dumps(value)}\nDone.") == value


@pytest.mark.slow
def test_a_text_that_is_made_to_take_for_ever_does_not() -> None:
    assert extract_last_json('{"a":[' * 60_000) is None
    assert extract_last_json('{"a":[' * 60_000 + '{"b": 1}') == {"b": 1}


# --- suites ------------------------------------------------------------------------------------------------


def test_a_suite_is_read_with_its_checks_filled_in(write: Write) -> None:
    path = write(
        prompt(category="sea", core=False, conditional="radio", expect_tool_any=["tides"], note="spring")
        | {"check": {"kind": "substring", "any": ["{{hour}}"]}},
        prompt("both", check=[{"kind": "honesty"}, {"kind": "regex", "all": ["{{gone}}"]}]),
        suite="Harbour",
        notes="Ask the pilot.",
    )
    suite = GradedPromptSuite.load(path, {"hour": "07:40"})
    first = GradedPrompt(
        id="tide",
        prompt="When is high tide?",
        category="sea",
        core=False,
        conditional="radio",
        expect_tool_any=("tides",),
        check=CheckSpec("substring", any=("07:40",)),
        note="spring",
    )
    assert suite.prompts[0] == first
    assert (suite.name, suite.notes, len(suite.prompts)) == ("Harbour", "Ask the pilot.", 2)
    assert suite.unresolved() == {"both": ("gone",)}
    assert suite.by_id("tide") is suite.prompts[0]
    assert suite.by_id("ebb") is None


def test_a_suite_without_a_name_has_that_of_its_file_and_a_prompt_without_a_check_never_passes(
    write: Write,
) -> None:
    suite = GradedPromptSuite.load(write(prompt(), name="pier.json"))
    assert suite.name == "pier"
    assert suite.score({"tide": "07:40"}).results[0].why == "substring check has neither `all` nor `any`"


def test_a_file_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"prompts": []}', encoding="utf-8-sig")
    assert GradedPromptSuite.load(path).prompts == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "expected top-level object with a `prompts` list"),
        ('{"prompts": null}', "expected top-level object with a `prompts` list"),
        ('{"prompts": ["x"]}', "prompt entry not an object: 'x'"),
        ('{"prompts": [{"prompt": "x"}]}', "prompt missing `id`"),
        ('{"prompts": [{"id": "x"}]}', "prompt missing `prompt`"),
        (
            '{"prompts": [{"id": "a", "prompt": "x"}, {"id": "a", "prompt": "y"}]}',
            "two prompts have the id 'a'",
        ),
        ('{"prompts": [{"id": "a", "prompt": "x", "check": {"kind": "mood"}}]}', "Prompt 'a': check.kind"),
        ('{"prompts": [{"id": "a", "prompt": "x", "check": "honesty"}]}', "must be an object, not 'honesty'"),
        (
            '{"prompts": [{"id": "a", "prompt": "x", "core": "no"}]}',
            "`core` of prompt 'a' must be true or false",
        ),
        (
            '{"prompts": [{"id": "a", "prompt": "x", "check": {"kind": "numeric", "value": NaN}}]}',
            "NaN is not JSON",
        ),
        ("{", "Expecting"),
    ],
)
def test_a_file_that_is_no_suite_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "suite.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        GradedPromptSuite.load(path)


@pytest.mark.parametrize(
    ("selection", "ids"),
    [
        ({}, ["plain", "extra"]),
        ({"core_only": True}, ["plain"]),
        ({"available_conditions": ("radio",)}, ["plain", "extra", "radio"]),
        ({"available_conditions": "radio", "core_only": True}, ["plain", "radio"]),
    ],
)
def test_what_should_run_is_selected(write: Write, selection: dict[str, Any], ids: list[str]) -> None:
    path = write(
        prompt("plain", conditional=""), prompt("extra", core=False), prompt("radio", conditional="radio")
    )
    assert [graded_prompt.id for graded_prompt in GradedPromptSuite.load(path).select(**selection)] == ids


# --- scores ------------------------------------------------------------------------------------------------


@pytest.fixture
def suite(write: Write) -> GradedPromptSuite:
    return GradedPromptSuite.load(
        write(
            prompt("tide", category="sea", check={"kind": "numeric", "value": 7}),
            prompt("wind", category="sea", check={"kind": "honesty"}),
            prompt("pier", category="land", core=False, check={"kind": "substring", "any": ["four"]}),
            suite="Harbour",
        )
    )


def test_the_answers_of_a_suite_are_counted(suite: GradedPromptSuite) -> None:
    score = suite.score({"tide": "At 7.", "wind": "From the north.", "ghost": "boo"})
    assert (score.passed, score.total, score.unanswered, score.unknown) == (1, 3, ("pier",), ("ghost",))
    assert [result.why for result in score.results] == [
        "got 7.0 (±0.0 of 7)",
        "asserted an answer without hedging (review)",
        "no answer",
    ]
    low, high = score.interval() or (0, 0)
    assert 0.06 < low < 1 / 3 < high < 0.8
    sea, land = score.by_category().values()
    assert (sea["n"], sea["passed"], sea["share"]) == (2, 1, 0.5)
    assert (land["n"], land["passed"], land["share"]) == (1, 0, 0.0)
    assert json.loads(json.dumps(score.to_dict()))["unanswered"] == ["pier"]
    report = score.report()
    assert "| all | 1/3 | 33% (6% to 79%) |" in report
    assert "- `pier`: no answer\n- `ghost`: there is no such prompt" in report


def test_only_some_prompts_can_be_scored(suite: GradedPromptSuite) -> None:
    score = suite.score({"tide": "At 7.", "pier": "four"}, prompts=suite.select(core_only=True))
    assert (score.passed, score.total, score.unknown) == (1, 2, ())


def test_a_model_is_asked_every_prompt(suite: GradedPromptSuite) -> None:
    prompts = []

    def model(text: str) -> str:
        prompts.append(text)
        return "Sold out: 7 or four."

    assert suite.run(model, workers=3).passed == 2
    assert len(prompts) == 3
    assert suite.run(model, hedges=("sold out",)).passed == 3


def test_a_model_that_fails_passes_nothing_and_keeps_the_rest(suite: GradedPromptSuite) -> None:
    replies: list[Any] = [OSError("line is dead"), None, 4]

    def model(text: str) -> Any:
        reply = replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    score = suite.run(model)
    assert [result.why for result in score.results] == [
        "OSError: line is dead",
        "no answer",
        "TypeError: the model answered 4, which is not a text",
    ]
    assert [result.error is None for result in score.results] == [False, True, False]
    assert score.passed == 0


def test_the_chart_has_a_bar_for_each_category_and_one_for_all(suite: GradedPromptSuite) -> None:
    bars = suite.score({"tide": "7"}).chart().spec["data"]["values"]
    assert [bar["label"] for bar in bars] == ["sea (1/2)", "land (0/1)", "all (1/3)"]
    assert all(0 <= bar["low"] <= bar["value"] <= bar["high"] <= 1 for bar in bars)


def test_a_suite_of_nothing_has_no_share() -> None:
    score = GradedPromptSuite("empty", ()).score({})
    assert (score.interval(), score.total, score.to_dict()["share"]) == (None, 0, None)
    assert "| all | 0/0 | – |" in score.report()
