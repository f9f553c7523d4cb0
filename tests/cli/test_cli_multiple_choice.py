"""Cases with choices from a file to the totals of a run, and targets that cannot score them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from proctor.errors import ExitCode
from support.cli import Proctor

SCORER = """
from proctor import Prompt

def score(prompt: Prompt):
    logprobs = [-len(text) / 2 - at for at, text in enumerate(prompt.choices)]
    pairs = zip(prompt.choices, logprobs)
    choices = [{"text": text, "logprob": logprob, "tokens": 2} for text, logprob in pairs]
    return {"text": prompt.choices[0], "choices": choices}

def answer(prompt: Prompt):
    return prompt.choices[0]
"""
"""`score` prefers the first choice by sum, and a later, longer one per character."""


def make_case(id: str, *choices: str, value: Any = 0, **fields: Any) -> dict[str, Any]:  # noqa: A002
    check = {"grader": "multiple_choice", "params": {"value": value}}
    prompt = [{"role": "user", "content": "The sky is"}]
    form = {"choices": choices}
    return {"id": id, "input": prompt, "form": form, "assertions": [check], **fields}


def write_suite(*cases: dict[str, Any]) -> str:
    lines = ({"proctor": 1, "name": "sky"}, *cases)
    Path("sky.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    Path("scorer.py").write_text(SCORER, encoding="utf-8")
    return "sky.jsonl"


def test_a_run_shows_each_measure_beside_the_pass_rate(proctor: Proctor) -> None:
    suite = write_suite(
        make_case("a", "no", "rather blue than not"), make_case("b", "no", "blue as the sea at noon", value=1)
    )
    result = proctor("run", suite, "--target", "function:scorer:score")
    assert "all                1      2   50.0%" in result.out
    assert "Multiple choice: acc 50.0%, acc_norm 50.0%, acc_bytes 50.0% of 2 answers." in result.out
    assert "multiple_choice: The likeliest choice is 'no'; expected 'blue as the sea at noon'." in result.out
    case = proctor("runs", "show", "last", "--case", "b").out
    assert "  choices:     -1.0000  no (2 tokens)\n" in case
    assert "✓ acc_norm – 'blue as the sea at noon', log-probability -0.5435 a character" not in case
    run = proctor("runs", "show", "last", "--json").run
    assert run["multiple_choice"] == {"answers": 2, "acc": 0.5, "acc_norm": 0.5, "acc_bytes": 0.5}


def test_each_of_two_choices_with_the_right_text_is_right(proctor: Proctor) -> None:
    Path("later.py").write_text(SCORER.replace("- at for", "+ at for"), encoding="utf-8")
    suite = write_suite(make_case("a", "yes", "yes", value="yes"))
    assert proctor("run", suite, "--target", "function:later:score", "--json").run["passed"] == 1


def test_the_example_has_a_right_choice_in_each_case(proctor: Proctor) -> None:
    out = proctor("validate", Path(__file__).parents[2] / "examples" / "choices.jsonl").out
    assert "10 cases in format proctor, 0 errors, 0 warnings" in out


def test_a_run_without_choices_says_nothing_of_them(proctor: Proctor) -> None:
    Path("plain.jsonl").write_text('{"question": "Blue?", "answer": "Blue?"}\n', encoding="utf-8")
    result = proctor("run", "plain.jsonl", "--target", "echo", "--json")
    assert "multiple_choice" not in result.run


def test_a_target_that_reports_no_likelihood_leaves_a_case_unscored(proctor: Proctor) -> None:
    result = proctor("run", write_suite(make_case("a", "no", "yes")), "--target", "function:scorer:answer")
    assert (
        "UNSCORED  a  multiple_choice: The target did not report the likelihoods of the choices."
        in result.out
    )
    assert "Multiple choice:" not in result.out


REFUSAL = (
    "Case 'a' of sky.jsonl has choices, but target {target!r} cannot report their log-probabilities. "
    "Use `local`, `local:FILE.gguf`, `vllm:MODEL`, `sglang:MODEL`, `llamacpp:MODEL`, or `openai:MODEL@URL`"
)


@pytest.mark.parametrize(
    "target",
    ["echo", "mock", "anthropic:m", "groq:m", "openai:gpt-5", "openai:m@https://api.groq.com/openai/v1"],
)
def test_a_target_that_cannot_score_choices_is_refused_before_the_first_request(
    proctor: Proctor, target: str
) -> None:
    result = proctor("run", write_suite(make_case("a", "no", "yes")), "--target", target)
    assert result.code == ExitCode.USAGE
    assert REFUSAL.format(target=target) in result.err


def test_fallbacks_and_targets_of_cases_are_refused_too(proctor: Proctor) -> None:
    Path("targets.yaml").write_text(
        "targets:\n"
        "  - {name: scorer, provider: function, function: 'scorer:score'}\n"
        "  - {name: behind, provider: function, function: 'scorer:score', fallback_targets: [echoing]}\n"
        "  - {name: echoing, provider: echo}\n",
        encoding="utf-8",
    )
    suite = write_suite(make_case("a", "no", "yes"))
    assert REFUSAL.format(target="echoing") in proctor("run", suite, "--target", "behind").err
    suite = write_suite(make_case("a", "no", "yes", target="echoing"))
    assert REFUSAL.format(target="echoing") in proctor("run", suite, "--target", "scorer").err
    suite = write_suite(make_case("a", "no", "yes", target="scorer"))
    assert proctor("run", suite, "--target", "echoing").code == 0
    suite = write_suite(
        make_case("a", "no", "yes", only_targets=["scorer"]), make_case("b", "no", "yes", target="scorer")
    )
    assert proctor("run", suite, "--target", "scorer", "--target", "echoing").code == 0
    assert REFUSAL.format(target="echoing") in proctor("run", suite, "--target", "echoing").err


def test_what_a_suite_cannot_mean_is_refused_with_its_line(proctor: Proctor) -> None:
    suite = write_suite(
        make_case("one", "no"),
        make_case("blank", "no", " "),
        make_case("none", "no", "yes", value="maybe"),
        make_case("without") | {"form": None},
        make_case("file", "no", "yes")
        | {"input": [{"role": "user", "parts": [{"kind": "image", "path": "a.png", "data": "AA=="}]}]},
    )
    err = proctor("validate", suite).err
    for number, words in enumerate(
        (
            "'one': `form.choices` has only one text; write at least two.",
            "'blank': `form.choices` contains a blank text; each choice must be text.",
            (
                "'none', 'multiple_choice': `value`: 'maybe' is none of the 2 choices; write one of the "
                "choices, or"
            ),
            "'without', 'multiple_choice': the case has no choices; set them in its `form.choices`.",
            (
                "'file': `form.choices` can be scored only after text, "
                "but `input` contains an image or another file."
            ),
        ),
        start=2,
    ):
        assert f"sky.jsonl:{number}: error: Case {words}" in err
