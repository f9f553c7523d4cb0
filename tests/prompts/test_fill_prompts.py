"""Prompts that cases fill in: which messages are sent, and what is refused before anything is sent."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.model import Attachment, Case, Message, PromptTemplate, RunSlot
from proctor.prompts.fill import fill_case, fill_prompt
from proctor.prompts.requirements import CaseVariables
from support.builders import make_case, make_run

SYSTEM = Message(role="system", content="Be kind.")
ASK = PromptTemplate(name="ask", messages=(Message(role="user", content="The city of {{ input }}?"),))
ROLE = PromptTemplate(name="role", messages=(Message(role="system", content="Speak {{ lang }}."),))
CHAT = PromptTemplate(
    name="chat",
    messages=(
        Message(role="system", content="Be brief."),
        Message(role="user", content="{{ input }} {{ place.city }} {{ places.1 }}"),
    ),
)
PICTURE = Message(role="user", content="x", parts=("x", Attachment(kind="image", path="a.png", data=b"1")))
CONVERSATION = tuple(Message(role=role, content=role) for role in ("user", "assistant", "user"))


def texts(messages: tuple[Message, ...]) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in messages]


def test_input_stands_for_the_text_of_the_case() -> None:
    assert texts(fill_prompt(ASK, make_case(text="Peru"))) == [("user", "The city of Peru?")]


def test_variables_may_be_fields_of_objects_and_items_of_lists() -> None:
    case = make_case(text="Hi.", vars={"place": {"city": "Lima"}, "places": ["a", "b"]})
    assert texts(fill_prompt(CHAT, case)) == [("system", "Be brief."), ("user", "Hi. Lima b")]


def test_a_system_prompt_goes_before_the_messages_of_a_case() -> None:
    case = Case(id="c", input=(*CONVERSATION, PICTURE), vars={"lang": "Quechua"})
    assert fill_prompt(ROLE, case) == (Message(role="system", content="Speak Quechua."), *case.input)


@pytest.mark.parametrize(
    ("prompt", "messages"),
    [
        (ASK, [("system", "Be kind."), ("user", "The city of 2 + 2??")]),
        (ROLE, [("system", "Speak es.\n\nBe kind."), ("user", "2 + 2?")]),
    ],
)
def test_the_system_message_of_a_case_stays(prompt: PromptTemplate, messages: list[tuple[str, str]]) -> None:
    case = make_case(vars={"lang": "es"})
    assert texts(fill_prompt(prompt, Case(id="c", input=(SYSTEM, *case.input), vars=case.vars))) == messages


def test_prefix_and_suffix_go_around_the_text_of_the_user() -> None:
    case = make_case(text="Peru", prefix="Please: ", suffix=" {{ input }}!")
    assert texts(fill_prompt(ASK, case)) == [("user", "Please: The city of Peru? Peru!")]


def test_a_value_is_no_template_itself() -> None:
    assert texts(fill_prompt(ASK, make_case(text="{{ input }}{% x %}"))) == [
        ("user", "The city of {{ input }}{% x %}?")
    ]


@given(text=st.text())
def test_a_prompt_that_is_only_the_input_sends_the_input(text: str) -> None:
    prompt = PromptTemplate(name="p", messages=(Message(role="user", content="{{input}}"),))
    case = make_case(text=text)
    assert fill_case(case, make_run(prompt=prompt)).input == case.input


def test_a_case_with_a_prompt_of_its_own_is_sent_as_it_is_unless_the_user_names_a_prompt() -> None:
    case = make_case(prompts=())
    assert fill_case(case, make_run(prompt=ASK, seat=RunSlot(prompt="ask"))) is case
    assert fill_case(case, make_run(prompt=ASK)).input != case.input


# --- what is refused before anything is sent ---------------------------------------------------------------


def find_problems(prompt: PromptTemplate | None, *cases: Case, of_suite: bool = False) -> list[str]:
    variables = CaseVariables()
    for case in cases:
        variables.add(case)
    return list(variables.find_problems([prompt] if prompt else [], of_suite=of_suite))


@pytest.mark.parametrize(
    ("prompt", "cases", "problem"),
    [
        (
            ROLE,
            [make_case("a"), make_case("b"), make_case("c", vars={"lang": "es"})],
            "The prompt 'role' uses `{{ lang }}`, and 2 cases, such as 'a', have no value for it.",
        ),
        (
            ROLE,
            [make_case(vars={"lnag": "es"})],
            "The prompt 'role' uses `{{ lang }}`, and case 'c' has no value for it. Did you mean 'lnag'?",
        ),
        (
            ROLE,
            [make_case()],
            "The prompt 'role' uses `{{ lang }}`, and case 'c' has no value for it. Write `{{ input }}`, the",
        ),
        (
            CHAT,
            [make_case(vars={"place": {"city": "Lima"}, "places": ["a"]})],
            "The prompt 'chat' uses `{{ places.1 }}`, and case 'c' has no value for it.",
        ),
        (
            ASK,
            [Case(id="talk", input=CONVERSATION)],
            "The input of case 'talk' is a conversation, which the prompt 'ask' would replace with its own",
        ),
        (ASK, [Case(id="c", input=(PICTURE,))], "The input of case 'c' has attachments, which"),
        (
            None,
            [Case(id="c", input=(), vars={"city": "x"})],
            "Case 'c' has no input. Pass a prompt that uses `city`",
        ),
        (ROLE, [Case(id="c", input=(), vars={"lang": "x"})], "Case 'c' has no input."),
    ],
)
def test_a_prompt_that_the_cases_cannot_fill_in_is_described(
    prompt: PromptTemplate | None, cases: list[Case], problem: str
) -> None:
    (sentence,) = find_problems(prompt, *cases)
    assert sentence.startswith(problem)


@pytest.mark.parametrize(
    ("prompt", "case"),
    [
        (None, make_case()),
        (ASK, make_case()),
        (CHAT, make_case(vars={"place": {"city": 1}, "places": [1, 2]})),
        (ROLE, Case(id="c", input=CONVERSATION, vars={"lang": "x"})),
        (ASK, Case(id="c", input=(), vars={"input": "x"})),
        (ASK, Case(id="c", input=(SYSTEM,), vars={"input": "x"})),
        (None, Case(id="c", input=(SYSTEM,))),
    ],
)
def test_a_case_that_can_be_sent_is_no_problem(prompt: PromptTemplate | None, case: Case) -> None:
    assert find_problems(prompt, case) == []
    if prompt is not None:
        assert fill_prompt(prompt, case)


def test_the_prompts_of_a_suite_need_values_only_of_their_own_cases() -> None:
    case = make_case(prompts=("ask",))
    assert find_problems(ROLE, case, of_suite=True) == []
    assert find_problems(ROLE, case)


@given(
    values=st.dictionaries(
        st.sampled_from(["a", "b", "c"]), st.none() | st.integers() | st.text(), max_size=3
    ),
    names=st.lists(st.sampled_from(["a", "b", "c", "input"]), min_size=1, max_size=3),
)
def test_a_prompt_without_problems_can_be_filled_in_and_others_cannot(
    values: dict[str, Any], names: list[str]
) -> None:
    content = " ".join(f"{{{{ {name} }}}}" for name in names)
    prompt = PromptTemplate(name="p", messages=(Message(role="user", content=content),))
    case = make_case(vars=values)
    missing = set(names) - values.keys() - {"input"}
    assert bool(find_problems(prompt, case)) == bool(missing)
    if not missing:
        assert fill_prompt(prompt, case)


def test_a_name_may_begin_with_any_letter() -> None:
    prompt = PromptTemplate(name="p", messages=(Message(role="user", content="{{ \u0433\u043e\u0434 }}"),))
    case = make_case(vars={"\u0433\u043e\u0434": "1961"})
    assert find_problems(prompt, case) == []
    assert texts(fill_prompt(prompt, case)) == [("user", "1961")]


def test_a_value_whose_name_has_a_dot_can_be_used_by_no_prompt() -> None:
    prompt = PromptTemplate(name="p", messages=(Message(role="user", content="{{ a.b }}"),))
    case = make_case(vars={"a.b": "x"})
    (problem,) = find_problems(prompt, case)
    assert problem.startswith("The prompt 'p' uses `{{ a.b }}`, and case 'c' has no value for it.")
    variables = CaseVariables()
    variables.add(case)
    assert variables.find_unused([ASK]) == ["a.b"]


def test_names_that_no_prompt_uses_are_listed() -> None:
    variables = CaseVariables()
    variables.add(make_case(vars={"lang": "es", "city": "Lima"}))
    assert variables.find_unused([ASK]) == ["city", "lang"]
    assert variables.find_unused([ROLE]) == ["city"]
    assert variables.find_unused([CHAT]) == ["city", "lang"]
    user = PromptTemplate(name="p", messages=(Message(role="user", content="{{ lang }} {{ city }}"),))
    assert variables.find_unused([user]) == ["input"]


def test_a_value_whose_name_the_input_has_in_braces_is_named_with_its_case() -> None:
    variables = CaseVariables()
    variables.add(make_case(id="a", vars={"city": "Lima"}))
    assert variables.find_in_input() is None
    variables.add(make_case(id="b", vars={"city": "Lima"}, text="{{ river }} and {{ city | upper }}"))
    assert variables.find_in_input() is None
    variables.add(make_case(id="c", vars={"city": "Lima"}, text="Where is {{city}}? {% if %}"))
    assert variables.find_in_input() == ("c", "city")
