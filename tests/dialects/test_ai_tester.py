"""Markdown tests as text: front matter, turns, instructions, and the cases that come of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.codec import encode, judged_digest, sent_digest
from proctor.dialects import DIALECTS
from proctor.dialects.ai_tester import attachments, prompts, reader
from proctor.dialects.detection import detect
from proctor.dialects.shared.head import read_head
from proctor.dialects.shared.jsonl import BOM
from proctor.model import Assertion, Case, Message, Problem, ResponseFormat, Suite, SuiteDefaults
from proctor.protocols import CaseAtLine, SuiteSource

DIALECT = DIALECTS.get("ai_tester")
PLAIN = "# 👤\n\nWhich month has 28 days?\n\n---\n\nEvery month has.\n"


def read(text: str | bytes, path: str = "tests/month.md") -> tuple[Suite, list[CaseAtLine], list[Problem]]:
    data = text.encode() if isinstance(text, str) else text
    items = list(DIALECT.read(SuiteSource(path=path, read_lines=lambda: data.splitlines(keepends=True))))
    (suite,) = [item for item in items if isinstance(item, Suite)]
    cases = [item for item in items if isinstance(item, CaseAtLine)]
    return suite, cases, [item for item in items if isinstance(item, Problem)]


def cases(text: str | bytes) -> list[Case]:
    """The cases of a file with nothing wrong and nothing doubtful in it."""
    _, placed, problems = read(text)
    assert [str(problem) for problem in problems] == []
    return [one.case for one in placed]


def case(text: str | bytes) -> Case:
    (one,) = cases(text)
    return one


def told(text: str | bytes) -> list[tuple[str, str, int | None]]:
    """Level, code and line of each problem; a file with an error has no case."""
    _, placed, problems = read(text)
    assert not placed or all(problem.level == "warning" for problem in problems)
    assert all(problem.message.endswith((".", "?")) for problem in problems)
    return [(problem.level, problem.code, problem.line) for problem in problems]


def turns(one: Case) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in one.input]


def front(lines: str, body: str = PLAIN) -> str:
    return f"---\n{lines}\n---\n{body}"


# --- a test ------------------------------------------------------------------------------------------------


def test_a_test_is_a_case_whose_answer_evaluators_judge_by_the_instructions() -> None:
    suite, (placed,), problems = read(PLAIN)
    assert problems == []
    assert suite == Suite(
        name="month", dialect="ai_tester", defaults=SuiteDefaults(reuse=True, cluster="metadata.file")
    )
    assert (placed.line, placed.path) == (1, None)
    assert placed.case == Case(
        id="month",
        input=(Message(role="user", content="Which month has 28 days?"),),
        criteria="Every month has.",
        assertions=(Assertion(grader="instructions", params={"rule": "mean"}),),
        metadata={"file": "month.md"},
    )


def test_turns_alternate_and_keep_the_white_space_inside() -> None:
    text = "# 👤\nOne\n\n    two \n\n# 🤖 Three\n\nfour\n\n# 👤 Five\n---\nSix\n\n- seven"
    one = case(text)
    assert turns(one) == [("user", "One\n\n    two"), ("assistant", "Three\n\nfour"), ("user", "Five")]
    assert one.criteria == "Six\n\n- seven"


def test_the_text_before_the_first_turn_is_sent_as_system_text() -> None:
    assert turns(case("Be brief.\n\n" + PLAIN))[0] == ("system", "Be brief.")


@pytest.mark.parametrize(
    "turn",
    [
        "Say # 🤖 and # 👤 here.",
        "a\n--- \nb",
        " ---",
        "| a |\n| --- |",
        "Head\n\n```\n---\n```\nTail",
        "----",
    ],
)
def test_what_only_looks_like_a_marker_or_comes_before_the_last_rule_is_text(turn: str) -> None:
    assert turns(case(f"# 👤\nx {turn} y\n\n---\nz")) == [("user", f"x {turn} y")]


@pytest.mark.parametrize("line", ["## 👤 a", "#👤 a", "#  👤 a", " # 👤 a", "# 🤖"])
def test_a_line_that_nearly_begins_a_turn_is_text_with_a_warning(line: str) -> None:
    below = line == "# 🤖"
    text = f"# 👤\nx\n---\nz\n{line}\n" if below else f"# 👤\nx\n\n{line}\n\n---\nz"
    assert told(text) == [("warning", "not-a-turn", 5 if below else 4)]


def test_a_marker_may_carry_the_sign_that_makes_it_an_emoji() -> None:
    assert turns(case("# 👤\ufe0f\nx\n---\nz")) == [("user", "x")]


def test_a_comment_is_sent_and_warned_of_once_a_file() -> None:
    text = "# 👤\nx <!-- a -->\n<!-- b -->\n---\nz <!-- c -->"
    assert told(text) == [("warning", "comment", 2)]
    assert read(text)[1][0].case.input[0].content == "x <!-- a -->\n<!-- b -->"


@pytest.mark.parametrize(
    ("instructions", "found"),
    [
        ("Like this:\n```yaml\n---\na: 1\n```", [("warning", "rule-in-code", 6)]),
        ("~~~\n---\n~~~", [("warning", "rule-in-code", 5)]),
        ("```\na: 1\n```", []),
        ("One\n--- \ntwo", [("warning", "not-a-rule", 5)]),
        ("One\n  ---\ntwo", [("warning", "not-a-rule", 5)]),
    ],
)
def test_a_last_rule_that_may_not_be_the_one_that_is_meant_is_doubtful(
    instructions: str, found: list[Any]
) -> None:
    assert told(f"# 👤\nx\n---\n{instructions}\n") == found


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("# 👤\nx\n---\nIt greets.\n\n---\n\nIn one word.", 3),
        ("# 👤\nx\n\n---\na\n---\nb\n---\nc", 4),
        ("# 👤\nx\n# 🤖\ny\n# 👤\nx\n---\na\n---\nb", 7),
        ("# 👤\nHead\n---\n\n```\n---\n```\nTail\n---\nz", 3),
        (front("tags: [a]", "# 👤\r\nx\r\n---\r\na\r\n---\r\nb"), 6),
    ],
)
def test_a_rule_above_the_last_one_sends_what_may_be_instructions(text: str, line: int) -> None:
    (problem,) = read(text)[2]
    last = text.count("\n", 0, text.rindex("---")) + 1
    assert (problem.level, problem.code, problem.line) == ("warning", "rule-in-turn", line)
    assert f"The grading instructions begin below the last `---`, on line {last}," in problem.message
    assert "is sent to the target" in problem.message


@pytest.mark.parametrize(
    "text",
    [
        "# 👤\nx\n```yaml\n---\na: 1\n```\n---\nz",
        "# 👤\nx\n---\ny\n# 🤖\ny\n---\ny\n# 👤\nx\n---\nz",
        "a\n---\nb\n# 👤\nx\n---\nz",
        "# 👤\nx\n***\ny\n---\nz",
    ],
)
def test_a_rule_in_code_or_above_another_turn_cannot_begin_instructions(text: str) -> None:
    assert told(text) == []


def test_a_rule_with_blanks_is_named_where_there_is_no_other() -> None:
    (problem,) = read("# 👤\nx\n--- \nz")[2]
    assert (problem.code, problem.message.endswith("Line 3 does not count, because it contains spaces.")) == (
        "no-instructions",
        True,
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", [("not-a-test", 1)]),
        ("Only text.\n---\nx", [("not-a-test", 1)]),
        ("# 👤\nx", [("no-instructions", 1)]),
        ("# 👤\nx\n---\n \n", [("no-instructions", 3)]),
        ("a\n\n# 🤖\nx\n\n# 👤\ny\n---\nz", [("turn-order", 3)]),
        ("# 👤\nx\n# 👤\ny\n---\nz", [("turn-order", 3)]),
        ("# 👤\nx\n# 🤖\ny\n---\nz", [("turn-order", 3)]),
        ("# 👤\nx\n# 🤖\ny\n# 🤖\ny\n# 👤\nx\n---\nz", [("turn-order", 5)]),
        ("# 👤\n\n---\nz", [("empty-turn", 1)]),
        ("# 👤\nx\n# 🤖\n# 👤\nx\n---\nz", [("empty-turn", 3)]),
        ("a\n---\n# 👤\nx", [("no-turns", 1)]),
        (front("tags: [a]", "# 👤\nx\n# 👤\ny\n---\nz"), [("turn-order", 6)]),
        (
            "# 👤\n\n\nx {{y}}\n\n{{z}}\n---\n{{y}}",
            [("unresolved-placeholder", 4), ("unresolved-placeholder", 6)],
        ),
        ("# 👤\n{{a.b}}\n---\n{{ _actualResponse }}", [("unresolved-placeholder", 2), ("reserved-name", 4)]),
        ("a {{_file:x.md}}\n# 👤\nb\n---\nz", [("misplaced-file", 3)]),
        (b"# \xf0\x9f\x91\xa4\nx\n\xff\n---\nz", [("bad-encoding", 3)]),
        ("# 👤 x".encode("utf-16"), [("bad-encoding", 1)]),
    ],
)
def test_what_is_wrong_is_an_error_at_its_line(text: str | bytes, found: list[tuple[str, int]]) -> None:
    errors = [(code, line) for level, code, line in told(text) if level == "error"]
    assert errors == found


# --- front matter ------------------------------------------------------------------------------------------


def test_front_matter_is_read_with_a_byte_order_mark_and_crlf() -> None:
    text = front(
        "tags: [a, b]\nreplacements:\n  day:\n    - |\n      one\n      two", "# 👤\n{{day}}\n---\n\nz\n"
    )
    one = case(BOM + text.replace("\n", "\r\n").encode())
    assert (one.tags, turns(one), one.criteria) == (("a", "b"), [("user", "one\ntwo")], "z")
    assert encode(one) == encode(case(text))


@pytest.mark.parametrize(
    "text", ["---\n---\n", "---\n\n---\n", "--- \n# only a comment\n---\t\n", "---\n{}\n---\n\n\n"]
)
def test_front_matter_may_be_empty(text: str) -> None:
    assert case(text + PLAIN).tags == ()


def test_front_matter_below_the_first_line_is_text_with_a_warning() -> None:
    text = f"\n{front('tags: [a]')}"
    assert told(text) == [("warning", "not-front-matter", 2)]


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ("tag: [a]", [("unknown-field", 2)]),
        ("tags: a", [("wrong-type", 2)]),
        ("tags: [a]\n\ntags: [b]", [("bad-yaml", 4)]),
        ("tags: [\n", [("bad-yaml", 2)]),
        ("- a", [("wrong-type", 2)]),
        ("systemPrompts: []", [("empty-list", 2)]),
        ("systemPrompts: one", [("wrong-type", 2)]),
        ("tags: [x]\nsystemPrompts:\n  - one\n  - two", [("unknown-prompt", 4), ("unknown-prompt", 5)]),
        ("lint: all", [("wrong-type", 2)]),
        (
            "structuredResponseSchema: a\navailableTools: [b]",
            [("unknown-id", 2), ("conflicting-fields", 3), ("unknown-id", 3)],
        ),
        ("availableTools: []", [("empty-list", 2)]),
        ("tags:\n  - a\n  - _evaluator", [("evaluator-tag", 4)]),
        ("replacements: []", [("empty-list", 2)]),
        ("replacements:\n  a: 1", [("unused-replacement", 3)]),
    ],
)
def test_each_field_is_checked_at_its_line_of_the_file(lines: str, found: list[tuple[str, int]]) -> None:
    assert [(code, line) for _, code, line in told(front(lines))] == found


def test_an_unknown_field_names_the_nearest_known_one() -> None:
    (problem,) = read(front("systemPrompt: [a]"))[2]
    assert problem.message == "Unknown field 'systemPrompt'. Did you mean 'systemPrompts'?"


def test_front_matter_without_an_end_is_one_error() -> None:
    assert told("---\ntags: [a]\n\n# 👤\nx\n") == [("error", "open-front-matter", 1)]


@pytest.mark.parametrize(("written", "kept"), [("ignore", "ignore"), ("[L1, L2]", ["L1", "L2"])])
def test_what_lint_is_to_ignore_is_kept(written: str, kept: Any) -> None:
    assert case(front(f"lint: {written}")).metadata == {"file": "month.md", "lint": kept}


# --- special tags ------------------------------------------------------------------------------------------


def test_special_tags_are_a_part_of_what_is_sent_and_other_tags_are_not() -> None:
    plain, tagged = case(PLAIN), case(front("tags: [a]"))
    special = case(front("tags: [_tools_only, a, _json_mode, _has_tools]"))
    assert special.tags == ("_tools_only", "a", "_json_mode", "_has_tools")
    assert special.form == ResponseFormat(json=True, special_tags=("_has_tools", "_json_mode", "_tools_only"))
    assert case(front("tags: [_has_tools]")).form == ResponseFormat(special_tags=("_has_tools",))
    assert sent_digest(plain) == sent_digest(tagged) != sent_digest(special)
    assert judged_digest(plain) == judged_digest(special)


def test_a_tag_that_looks_special_and_is_not_is_any_tag_with_a_warning() -> None:
    _, (placed,), (problem,) = read(front("tags:\n  - _jsn_mode"))
    assert (problem.level, problem.code, problem.line) == ("warning", "unknown-special-tag", 3)
    assert "Did you mean '_json_mode'?" in problem.message
    assert (placed.case.tags, placed.case.form) == (("_jsn_mode",), None)


# --- replacements ------------------------------------------------------------------------------------------


def test_each_version_is_a_case_with_its_values_in_turns_system_text_and_instructions() -> None:
    lines = "replacements:\n  - land: Peru\n    city: Lima\n  - land: Fiji\n    city: |\n      Suva\n"
    body = "Talk of `{{land}}` only.\n\n# 👤\nIts capital?\n---\nMust say `{{city}}`.\n"
    first, second = cases(front(lines, body))
    assert (first.id, second.id) == ("month[land=Peru,city=Lima]", "month[land=Fiji,city=Suva]")
    assert turns(second) == [("system", "Talk of Fiji only."), ("user", "Its capital?")]
    assert second.criteria == "Must say Suva."
    assert second.metadata == {"file": "month.md", "replacements": {"land": "Fiji", "city": "Suva"}}


def test_values_used_in_the_instructions_alone_make_cases_that_are_sent_the_same() -> None:
    first, second = cases(front("replacements: {wish: [short, long]}", "# 👤\nx\n---\nIt is {{wish}}."))
    assert sent_digest(first) == sent_digest(second)
    assert judged_digest(first) != judged_digest(second)


@pytest.mark.parametrize("value", ["# 🤖 no", "---", "a\n---\nb", "# 👤\n# 👤"])
def test_a_value_never_changes_the_structure(value: str) -> None:
    lines = "replacements:\n  a: |\n" + "".join(f"    {line}\n" for line in value.split("\n"))
    one = case(front(lines, "# 👤\n{{a}}\n---\nz {{a}}"))
    assert turns(one) == [("user", value)]
    assert one.criteria == f"z {value}"


@pytest.mark.parametrize(
    ("lines", "body", "found"),
    [
        ("replacements: {a: [1, 1]}", "# 👤\n{{a}}\n---\nz", [("duplicate-version", 2)]),
        ("replacements: {a: [1, 2]}", "# 👤\nx\n---\nz", [("duplicate-version", 2)]),
        ("replacements: [{a: x y}, {a: x y}]", "# 👤\n{{a}}\n---\nz", [("duplicate-version", 2)]),
        ("replacements: {a: [b, '']}", "# 👤\n{{a}}\n---\nz", [("empty-turn", 5)]),
        ("replacements: {a: [b, '']}", "# 👤\nx\n---\n{{a}}", [("no-instructions", 5)]),
        ("replacements: {a: '{{_file:b.exe}}'}", "# 👤\n{{a}}\n---\nz", [("unknown-ending", 5)]),
        ("replacements: {a: '{{_file:b.pdf}}'}", "# 👤\nx\n---\n{{a}}", [("misplaced-file", 5)]),
    ],
)
def test_a_version_that_is_wrong_is_an_error(lines: str, body: str, found: list[tuple[str, int]]) -> None:
    assert [(code, line) for _, code, line in told(front(lines, body))] == found


# --- anything ----------------------------------------------------------------------------------------------

LINES = st.sampled_from(
    [
        *(
            "---",
            "--- ",
            "# 👤",
            "# 👤 Hi",
            "# 🤖",
            "# 🤖 So",
            "text",
            "",
            "{{a}}",
            "`{{b}}` x",
            "{{_file:a.txt}}",
        ),
        *(
            "tags: [a, _json_mode]",
            "replacements:",
            "  a: [1, 2]",
            "  - a: '{{b}}'",
            "    b: x",
            "<!-- c -->",
        ),
        *("systemPrompts: [p]", "lint: ignore", "availableTools: [t]", "nonsense: 1", "\ufeff", "\r"),
    ]
)


@pytest.mark.slow
@given(st.lists(LINES, max_size=14).map("\n".join))
def test_any_lines_give_one_suite_and_cases_or_the_reason_why_there_is_none(text: str) -> None:
    _, placed, problems = read(text)
    errors = [problem for problem in problems if problem.level == "error"]
    assert bool(placed) != bool(errors)
    for problem in problems:
        assert problem.path == "tests/month.md"
        assert 1 <= (problem.line or 0) <= text.count("\n") + 1
        assert problem.message.endswith((".", "?"))
    assert len({one.case.id for one in placed}) == len(placed)
    for one in placed:
        assert one.case.criteria
        assert all(message.content for message in one.case.input)
        assert [message.role for message in one.case.input if message.role != "system"][::2].count(
            "user"
        ) >= 1


# --- documentation -----------------------------------------------------------------------------------------


def test_every_word_of_the_dialect_is_in_its_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference/formats/markdown.md").read_text(encoding="utf-8")
    words = {
        *reader.TEST_FIELDS,
        *prompts.PROMPT_FIELDS,
        *prompts.SPECIAL_TAGS,
        *attachments.TOOL_FIELDS,
    }
    words |= {f"{folder}/" for folder in (*attachments.SCHEMA_FOLDERS, *attachments.TOOL_FOLDERS)}
    words |= {
        *attachments.IMAGE_MEDIA_TYPES,
        "ai_tester",
        "prompts",
        "evaluators",
        "# 👤",
        "# 🤖",
        "README.md",
    }
    words |= {f"{{{{{name}}}}}" for name in prompts.EVALUATOR_VARIABLES if name.startswith("_")}
    assert sorted(word for word in words if f"`{word}`" not in page) == []


# --- detection ---------------------------------------------------------------------------------------------

KNOWN = {name: DIALECTS.get(name) for name in DIALECTS.names()}


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (PLAIN, "a.md"),
        (PLAIN, "a"),
        (PLAIN, "notes.txt"),
        ("---\ntags: [x]\nlint: ignore\n---\n" + PLAIN, "a.md"),
        ("---\ntags: [x]\n---\n# 👤\nprompt: a\ntests:\n\ncriteria: b\n---\n", "A.MD"),
        ('# 👤\n{"id": "a", "input": "x", "expected": "y"}\n---\nz', "a.md"),
        ("", "a.md"),
        ("nothing", "a.md"),
    ],
)
def test_a_line_with_a_marker_or_the_ending_of_markdown_is_this_dialect(text: str, path: str) -> None:
    assert detect(read_head(path, text.encode().splitlines(keepends=True)), KNOWN) == "ai_tester"
