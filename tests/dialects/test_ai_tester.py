"""Markdown tests as text: front matter, turns, instructions, and the cases they give."""

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
    located_cases = [item for item in items if isinstance(item, CaseAtLine)]
    return suite, located_cases, [item for item in items if isinstance(item, Problem)]


def read_cases(text: str | bytes) -> list[Case]:
    """The cases of a file, which must have no errors or warnings."""
    _, located_cases, problems = read(text)
    assert [str(problem) for problem in problems] == []
    return [item.case for item in located_cases]


def read_case(text: str | bytes) -> Case:
    (case,) = read_cases(text)
    return case


def list_problems(text: str | bytes) -> list[tuple[str, str, int | None]]:
    """Level, code and line of each problem; a file with an error has no case."""
    _, located_cases, problems = read(text)
    assert not located_cases or all(problem.level == "warning" for problem in problems)
    assert all(problem.message.endswith((".", "?")) for problem in problems)
    return [(problem.level, problem.code, problem.line) for problem in problems]


def list_turns(case: Case) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in case.input]


def with_front_matter(lines: str, body: str = PLAIN) -> str:
    return f"---\n{lines}\n---\n{body}"


# --- a test ------------------------------------------------------------------------------------------------


def test_a_test_becomes_a_case_with_its_instructions_as_criteria() -> None:
    suite, (located_case,), problems = read(PLAIN)
    assert problems == []
    assert suite == Suite(
        name="month", dialect="ai_tester", defaults=SuiteDefaults(reuse=True, cluster="metadata.file")
    )
    assert (located_case.line, located_case.path) == (1, None)
    assert located_case.case == Case(
        id="month",
        input=(Message(role="user", content="Which month has 28 days?"),),
        criteria="Every month has.",
        assertions=(Assertion(grader="instructions", params={"rule": "mean"}),),
        metadata={"file": "month.md"},
    )


def test_turns_alternate_and_keep_white_space_inside() -> None:
    text = "# 👤\nOne\n\n    two \n\n# 🤖 Three\n\nfour\n\n# 👤 Five\n---\nSix\n\n- seven"
    case = read_case(text)
    assert list_turns(case) == [("user", "One\n\n    two"), ("assistant", "Three\n\nfour"), ("user", "Five")]
    assert case.criteria == "Six\n\n- seven"


def test_the_text_before_the_first_turn_is_sent_as_system_text() -> None:
    assert list_turns(read_case("Be brief.\n\n" + PLAIN))[0] == ("system", "Be brief.")


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
def test_text_that_only_looks_like_a_marker_or_rule_is_text(turn: str) -> None:
    assert list_turns(read_case(f"# 👤\nx {turn} y\n\n---\nz")) == [("user", f"x {turn} y")]


@pytest.mark.parametrize("line", ["## 👤 a", "#👤 a", "#  👤 a", " # 👤 a", "# 🤖"])
def test_a_line_that_almost_begins_a_turn_is_text_with_a_warning(line: str) -> None:
    below = line == "# 🤖"
    text = f"# 👤\nx\n---\nz\n{line}\n" if below else f"# 👤\nx\n\n{line}\n\n---\nz"
    assert list_problems(text) == [("warning", "not-a-turn", 5 if below else 4)]


def test_a_marker_may_have_a_variation_selector() -> None:
    assert list_turns(read_case("# 👤\ufe0f\nx\n---\nz")) == [("user", "x")]


def test_a_comment_is_sent_with_one_warning_per_file() -> None:
    text = "# 👤\nx <!-- a -->\n<!-- b -->\n---\nz <!-- c -->"
    assert list_problems(text) == [("warning", "comment", 2)]
    assert read(text)[1][0].case.input[0].content == "x <!-- a -->\n<!-- b -->"


@pytest.mark.parametrize(
    ("instructions", "expected"),
    [
        ("Like this:\n```yaml\n---\na: 1\n```", [("warning", "rule-in-code", 6)]),
        ("~~~\n---\n~~~", [("warning", "rule-in-code", 5)]),
        ("```\na: 1\n```", []),
        ("One\n--- \ntwo", [("warning", "not-a-rule", 5)]),
        ("One\n  ---\ntwo", [("warning", "not-a-rule", 5)]),
    ],
)
def test_a_last_rule_that_may_be_a_mistake_is_warned_about(instructions: str, expected: list[Any]) -> None:
    assert list_problems(f"# 👤\nx\n---\n{instructions}\n") == expected


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("# 👤\nx\n---\nIt greets.\n\n---\n\nIn one word.", 3),
        ("# 👤\nx\n\n---\na\n---\nb\n---\nc", 4),
        ("# 👤\nx\n# 🤖\ny\n# 👤\nx\n---\na\n---\nb", 7),
        ("# 👤\nHead\n---\n\n```\n---\n```\nTail\n---\nz", 3),
        (with_front_matter("tags: [a]", "# 👤\r\nx\r\n---\r\na\r\n---\r\nb"), 6),
    ],
)
def test_an_earlier_rule_is_warned_about_because_instructions_may_be_sent(text: str, line: int) -> None:
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
    assert list_problems(text) == []


def test_a_rule_with_spaces_is_named_if_there_is_no_other() -> None:
    (problem,) = read("# 👤\nx\n--- \nz")[2]
    assert (problem.code, problem.message.endswith("Line 3 does not count, because it contains spaces.")) == (
        "no-instructions",
        True,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
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
        (with_front_matter("tags: [a]", "# 👤\nx\n# 👤\ny\n---\nz"), [("turn-order", 6)]),
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
def test_a_mistake_is_an_error_at_its_line(text: str | bytes, expected: list[tuple[str, int]]) -> None:
    errors = [(code, line) for level, code, line in list_problems(text) if level == "error"]
    assert errors == expected


# --- front matter ------------------------------------------------------------------------------------------


def test_front_matter_is_read_with_a_byte_order_mark_and_crlf() -> None:
    text = with_front_matter(
        "tags: [a, b]\nreplacements:\n  day:\n    - |\n      one\n      two", "# 👤\n{{day}}\n---\n\nz\n"
    )
    case = read_case(BOM + text.replace("\n", "\r\n").encode())
    assert (case.tags, list_turns(case), case.criteria) == (("a", "b"), [("user", "one\ntwo")], "z")
    assert encode(case) == encode(read_case(text))


@pytest.mark.parametrize(
    "text", ["---\n---\n", "---\n\n---\n", "--- \n# only a comment\n---\t\n", "---\n{}\n---\n\n\n"]
)
def test_front_matter_may_be_empty(text: str) -> None:
    assert read_case(text + PLAIN).tags == ()


def test_front_matter_after_the_first_line_is_text_with_a_warning() -> None:
    text = f"\n{with_front_matter('tags: [a]')}"
    assert list_problems(text) == [("warning", "not-front-matter", 2)]


@pytest.mark.parametrize(
    ("lines", "expected"),
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
def test_each_field_is_checked_at_its_line_of_the_file(lines: str, expected: list[tuple[str, int]]) -> None:
    assert [(code, line) for _, code, line in list_problems(with_front_matter(lines))] == expected


def test_an_unknown_field_names_the_nearest_known_one() -> None:
    (problem,) = read(with_front_matter("systemPrompt: [a]"))[2]
    assert problem.message == "Unknown field 'systemPrompt'. Did you mean 'systemPrompts'?"


def test_front_matter_without_an_end_is_one_error() -> None:
    assert list_problems("---\ntags: [a]\n\n# 👤\nx\n") == [("error", "open-front-matter", 1)]


@pytest.mark.parametrize(("lint_yaml", "lint"), [("ignore", "ignore"), ("[L1, L2]", ["L1", "L2"])])
def test_the_lint_field_is_kept_in_the_metadata(lint_yaml: str, lint: Any) -> None:
    assert read_case(with_front_matter(f"lint: {lint_yaml}")).metadata == {"file": "month.md", "lint": lint}


# --- special tags ------------------------------------------------------------------------------------------


def test_special_tags_change_the_sent_digest_and_other_tags_do_not() -> None:
    plain, tagged = read_case(PLAIN), read_case(with_front_matter("tags: [a]"))
    special = read_case(with_front_matter("tags: [_tools_only, a, _json_mode, _has_tools]"))
    assert special.tags == ("_tools_only", "a", "_json_mode", "_has_tools")
    assert special.form == ResponseFormat(json=True, special_tags=("_has_tools", "_json_mode", "_tools_only"))
    assert read_case(with_front_matter("tags: [_has_tools]")).form == ResponseFormat(
        special_tags=("_has_tools",)
    )
    assert sent_digest(plain) == sent_digest(tagged) != sent_digest(special)
    assert judged_digest(plain) == judged_digest(special)


def test_an_unknown_special_tag_is_a_plain_tag_with_a_warning() -> None:
    _, (located_case,), (problem,) = read(with_front_matter("tags:\n  - _jsn_mode"))
    assert (problem.level, problem.code, problem.line) == ("warning", "unknown-special-tag", 3)
    assert "Did you mean '_json_mode'?" in problem.message
    assert (located_case.case.tags, located_case.case.form) == (("_jsn_mode",), None)


# --- replacements ------------------------------------------------------------------------------------------


def test_each_version_is_a_case_with_its_values_filled_in_everywhere() -> None:
    lines = "replacements:\n  - land: Peru\n    city: Lima\n  - land: Fiji\n    city: |\n      Suva\n"
    body = "Talk of `{{land}}` only.\n\n# 👤\nIts capital?\n---\nMust say `{{city}}`.\n"
    first, second = read_cases(with_front_matter(lines, body))
    assert (first.id, second.id) == ("month[land=Peru,city=Lima]", "month[land=Fiji,city=Suva]")
    assert list_turns(second) == [("system", "Talk of Fiji only."), ("user", "Its capital?")]
    assert second.criteria == "Must say Suva."
    assert second.metadata == {"file": "month.md", "replacements": {"land": "Fiji", "city": "Suva"}}


def test_values_used_only_in_the_instructions_do_not_change_what_is_sent() -> None:
    first, second = read_cases(
        with_front_matter("replacements: {wish: [short, long]}", "# 👤\nx\n---\nIt is {{wish}}.")
    )
    assert sent_digest(first) == sent_digest(second)
    assert judged_digest(first) != judged_digest(second)


@pytest.mark.parametrize("value", ["# 🤖 no", "---", "a\n---\nb", "# 👤\n# 👤"])
def test_a_value_never_changes_the_structure_of_a_test(value: str) -> None:
    lines = "replacements:\n  a: |\n" + "".join(f"    {line}\n" for line in value.split("\n"))
    case = read_case(with_front_matter(lines, "# 👤\n{{a}}\n---\nz {{a}}"))
    assert list_turns(case) == [("user", value)]
    assert case.criteria == f"z {value}"


@pytest.mark.parametrize(
    ("lines", "body", "expected"),
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
def test_a_version_that_is_wrong_is_an_error(lines: str, body: str, expected: list[tuple[str, int]]) -> None:
    assert [(code, line) for _, code, line in list_problems(with_front_matter(lines, body))] == expected


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
def test_any_lines_give_a_suite_with_cases_or_with_errors(text: str) -> None:
    _, located_cases, problems = read(text)
    errors = [problem for problem in problems if problem.level == "error"]
    assert bool(located_cases) != bool(errors)
    for problem in problems:
        assert problem.path == "tests/month.md"
        assert 1 <= (problem.line or 0) <= text.count("\n") + 1
        assert problem.message.endswith((".", "?"))
    assert len({located_case.case.id for located_case in located_cases}) == len(located_cases)
    for located_case in located_cases:
        assert located_case.case.criteria
        assert all(message.content for message in located_case.case.input)
        assert [message.role for message in located_case.case.input if message.role != "system"][::2].count(
            "user"
        ) >= 1


# --- documentation -----------------------------------------------------------------------------------------


def test_every_keyword_of_the_dialect_is_documented() -> None:
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

DIALECTS_BY_NAME = {name: DIALECTS.get(name) for name in DIALECTS.names()}


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
def test_a_file_with_a_marker_or_a_markdown_ending_is_of_this_dialect(text: str, path: str) -> None:
    assert detect(read_head(path, text.encode().splitlines(keepends=True)), DIALECTS_BY_NAME) == "ai_tester"
