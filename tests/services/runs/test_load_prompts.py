"""Prompt files: text, and messages with roles in Markdown, YAML and JSON; errors name file and line."""

from __future__ import annotations

import pytest

from proctor.errors import SuiteError
from proctor.services.runs.planning.load_prompts import parse_prompt

CHAT = [("system", "Be brief."), ("user", "Hi {{ input }}")]


@pytest.mark.parametrize(
    ("path", "text", "messages"),
    [
        ("a.txt", "\n Name {{ input }}.\n\n", [("user", "Name {{ input }}.")]),
        ("a.txt", "\ufeffa\r\n{{ b }}\r\n", [("user", "a\n{{ b }}")]),
        ("a", "{{ input }}", [("user", "{{ input }}")]),
        ("a.md", "# Task\n{{ input }}\n# user\n", [("user", "# Task\n{{ input }}\n# user")]),
        ("a.md", "# system\nBe brief.\n\n# User:\nHi {{ input }}\n", CHAT),
        ("a.md", "\n## system\nBe brief.\n## user\nHi {{ input }}", CHAT),
        ("a.md", "# system\n# Rules\n* one", [("system", "# Rules\n* one")]),
        (
            "a.md",
            "# user\n```md\n# assistant\n```\n{{ a }}\n# assistant\n~~~\n# user",
            [("user", "```md\n# assistant\n```\n{{ a }}"), ("assistant", "~~~\n# user")],
        ),
        (
            "a.json",
            '[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi {{ input }}"}]',
            CHAT,
        ),
        ("a.yaml", "- role: system\n  content: Be brief.\n- role: user\n  content: Hi {{ input }}", CHAT),
        (
            "a.yml",
            "messages:\n- {role: system, content: Be brief.}\n- {role: user, content: 'Hi {{ input }}'}",
            CHAT,
        ),
        ("a.yaml", "'Hi {{ input }}'", [("user", "Hi {{ input }}")]),
    ],
)
def test_a_file_is_a_text_or_messages(path: str, text: str, messages: list[tuple[str, str]]) -> None:
    prompt = parse_prompt("p", path, text.encode())
    assert [(message.role, message.content) for message in prompt.messages] == messages


@pytest.mark.parametrize(
    ("path", "data", "problem"),
    [
        ("a.txt", b"", "a.txt:1: error: The prompt is empty."),
        (
            "a.txt",
            b"hi",
            "a.txt:1: error: The prompt has no `{{ variable }}`, so each case would send the same",
        ),
        (
            "a.txt",
            b"x\n\n{{ a | upper }}",
            "a.txt:3: error: The prompt has '{{ a | upper }}'. Only plain names",
        ),
        ("a.txt", b"{{ a }}\n{% if b %}", "a.txt:2: error: The prompt has '{% if b %}'."),
        ("a.txt", b"a\n\xff", "a.txt:2: error: Byte 3 of the file is not UTF-8"),
        (
            "a.md",
            b"# system\n\n# user\n{{ a }}",
            "a.md:3: error: There is no text under the heading '# system'.",
        ),
        ("a.md", b"# user\nx\n\n# user\n\n{{ b", "a.md:1: error: The prompt has no `{{ variable }}`"),
        ("a.json", b"[", "a.json:1: error: The file is not JSON"),
        (
            "a.yaml",
            b"- role: bot\n  content: x",
            "a.yaml:1: error: `[0].role` is 'bot'. Expected one of: system",
        ),
        (
            "a.yaml",
            b"- role: user\n  content: x\n- role: user\n  contents: x",
            "a.yaml:3: error: `[1].content` is missing",
        ),
        (
            "a.yaml",
            b"a: b",
            "a.yaml:1: error: The file is an object; it must be a text, or a list of messages",
        ),
        ("a.yaml", b"- hi", "a.yaml:1: error: `[0]` is 'hi', text; it must be an object with `role`"),
        ("a.json", b"[]", "a.json:1: error: The file is empty; it must be"),
    ],
)
def test_what_is_no_prompt_is_an_error_with_file_and_line(path: str, data: bytes, problem: str) -> None:
    with pytest.raises(SuiteError) as caught:
        parse_prompt("p", path, data)
    assert str(caught.value.problems[0]).startswith(problem)
