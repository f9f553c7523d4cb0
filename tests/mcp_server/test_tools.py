"""The table of tools, without a server."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

pytest.importorskip("anyio")

from proctor.mcp_server.results import ToolResult, object_schema, quote
from proctor.mcp_server.tools import TOOLS

PAGE = Path(__file__).parents[2] / "docs" / "guides/use-coding-agents.md"


@pytest.mark.parametrize("name", TOOLS)
def test_every_tool_has_a_row_in_its_page(name: str) -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert [row for row in rows if f"`{name}`" in row.split(" | ")[0]]


@pytest.mark.parametrize("name", TOOLS)
def test_every_argument_is_described_to_the_agent(name: str) -> None:
    schema = object_schema(TOOLS[name].arguments)
    assert schema["additionalProperties"] is False
    assert [field for field, rule in schema["properties"].items() if not rule.get("description")] == []


class Numbers(msgspec.Struct):
    texts: list[str]


def test_a_long_answer_is_cut_and_says_by_how_much() -> None:
    result = ToolResult(record=Numbers([]), lines=("x" * 20_000,))
    assert result.text.endswith("…\n(8,000 more characters were left out.)")


def test_invisible_characters_are_shown_in_both_forms() -> None:
    result = ToolResult(record=Numbers(["\x1b[2J"]), lines=("\x1b[2J",))
    assert (result.text, result.data) == (r"\x1b[2J", {"texts": [r"\x1b[2J"]})


def test_a_quoted_text_cannot_end_its_quotation() -> None:
    assert quote('a" b\n"c') == r'"a\" b \"c"'
