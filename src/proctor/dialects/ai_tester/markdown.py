"""Splits a Markdown file of the dialect ai_tester into front matter, turns and instructions.

Only the structure is parsed here, before placeholders are replaced, so that no replacement can change it.
All line numbers are those of the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct

from proctor.dialects.ai_tester.dialect import ASSISTANT_MARKER, USER_MARKER
from proctor.dialects.ai_tester.placeholders import iter_placeholders
from proctor.dialects.shared.jsonl import UTF_16_BOMS
from proctor.validation import ProblemLog, json_type, quote_value
from proctor.yaml12 import YamlError, load

_FENCE: Final = re.compile(r"^---[ \t]*(?:\n|\Z)", re.MULTILINE)
_RULE: Final = re.compile(r"^---$", re.MULTILINE)
_TURN_MARKER: Final = re.compile(f"^(?:{USER_MARKER}|{ASSISTANT_MARKER})\ufe0f?", re.MULTILINE)
_ALMOST_MARKER: Final = re.compile(r"^[ \t]*#+[ \t]*(?:👤|🤖)", re.MULTILINE)
_COMMENT_START: Final = "<!--"
_CODE_FENCE: Final = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_RULE_WITH_BLANKS: Final = re.compile(r"^(?:[ \t]+---[ \t]*|---[ \t]+)$", re.MULTILINE)
"""A line that would separate the instructions if it had no blanks around it."""
_load_yaml: Final = lru_cache(maxsize=64)(load)
"""Cached, as the tests of a folder often share their front matter. Do not change the result."""


class MarkdownDocument(Struct, frozen=True):
    """A file split into front matter and body."""

    front: dict[str, Any]
    body: str
    """Everything below the front matter."""
    line: int
    """The line on which the body begins."""


class MarkdownSection(Struct, frozen=True):
    """The text between two markers, stripped."""

    role: str
    """`system`, `user`, `assistant` or `instructions`."""
    text: str
    line: int
    """The line on which the text begins."""
    begin: int
    """The line of its marker."""


class Conversation(Struct, frozen=True):
    """The parts of a test."""

    system: str
    """The text before the first turn; often empty."""
    turns: tuple[MarkdownSection, ...]
    instructions: str
    placeholders: dict[str, int]
    """The names of all placeholders, each with the line of its first use."""

    @property
    def length(self) -> int:
        """The total number of characters."""
        return len(self.system) + len(self.instructions) + sum(len(turn.text) for turn in self.turns)


# --- the file ----------------------------------------------------------------------------------------------


def decode_text(data: bytes, notes: ProblemLog) -> str | None:
    """Decodes a file and normalizes its line endings. Returns None and notes an error if it is not UTF-8."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if data.startswith(UTF_16_BOMS):
            notes.error("bad-encoding", "The file is UTF-16; save it as UTF-8.", line=1)
            return None
        message = f"Byte {error.start + 1} of the file is not UTF-8; save the file as UTF-8."
        notes.error("bad-encoding", message, line=data.count(b"\n", 0, error.start) + 1)
        return None
    return text.replace("\r\n", "\n") if "\r" in text else text


def parse_document(text: str, notes: ProblemLog) -> MarkdownDocument | None:
    """Splits a file into front matter and body; None and an error if the front matter is invalid.

    Front matter is between two lines `---`, the first of which is line 1.
    """
    begin = _FENCE.match(text)
    if begin is None:
        return MarkdownDocument({}, text, 1)
    end = _FENCE.search(text, begin.end())
    if end is None:
        message = "The front matter is not closed; add a line `---` after its last field."
        notes.error("open-front-matter", message, line=1)
        return None
    try:
        # The empty line stands for the first, so that the lines are those of the file.
        front = _load_yaml("\n" + text[begin.end() : end.start()])
    except YamlError as error:
        notes.error("bad-yaml", str(error), line=error.line)
        return None
    if front is not None and not isinstance(front, dict):
        message = f"The front matter is {json_type(front)}; it must be an object such as `tags: [a]`."
        notes.error("wrong-type", message, line=2)
        return None
    return MarkdownDocument(front or {}, text[end.end() :], text.count("\n", 0, end.end()) + 1)


# --- turns -------------------------------------------------------------------------------------------------


def split_sections(document: MarkdownDocument, end: int | None = None) -> list[MarkdownSection]:
    """Returns the text before the first marker, which may be empty, and each turn.

    Args:
        document: the file.
        end: the offset in the body at which the turns end; None is the end of the body.
    """
    body = document.body
    end = len(body) if end is None else end
    markers = list(_TURN_MARKER.finditer(body, 0, end))
    ends = [*(marker.start() for marker in markers), end]
    turns = [
        _make_section(
            "user" if marker[0].startswith(USER_MARKER) else "assistant", document, marker.end(), stop
        )
        for marker, stop in zip(markers, ends[1:], strict=True)
    ]
    return [_make_section("system", document, 0, ends[0]), *turns]


def parse_conversation(document: MarkdownDocument, notes: ProblemLog) -> Conversation:
    """Returns the turns and the instructions of a test; problems go to `notes`."""
    body = document.body
    rules = list(_RULE.finditer(body))
    if not rules:
        message = "The test has no grading instructions; write them after the last turn, below a line `---`."
        nearly = _RULE_WITH_BLANKS.search(body)
        if nearly is not None:
            message += (
                f" Line {_get_line(document, nearly.start())} does not count, because it contains spaces."
            )
        notes.error("no-instructions", message, line=document.line)
    at = rules[-1] if rules else None
    system, *turns = split_sections(document, None if at is None else at.start())
    instructions = _make_section("instructions", document, len(body) if at is None else at.end(), len(body))
    if at is not None and not instructions.text:
        message = "There are no grading instructions below the last `---`; describe what a good answer does."
        notes.error("no-instructions", message, line=instructions.begin)
    _check_turns(turns, document, notes)
    _warn_of_doubtful_text(system, document, at, notes)
    return Conversation(
        system.text,
        tuple(turns),
        instructions.text,
        find_placeholders((system, *turns, instructions), document),
    )


def find_placeholders(sections: Iterable[MarkdownSection], document: MarkdownDocument) -> dict[str, int]:
    """Returns the placeholders in the sections, each with the line of its first use."""
    names: dict[str, int] = {}
    if "{{" in document.body:
        for section in sections:
            for name, offset in iter_placeholders(section.text):
                names.setdefault(name, section.line + section.text.count("\n", 0, offset))
    return names


def warn_of_comment(document: MarkdownDocument, notes: ProblemLog) -> None:
    """Warns about a comment, which is sent like any other text."""
    if _COMMENT_START in document.body:
        message = (
            "The comment `<!--` is sent to the target as it is. Remove it if you do not want to send it."
        )
        notes.warn("comment", message, line=_get_line(document, document.body.index(_COMMENT_START)))


def _get_line(document: MarkdownDocument, offset: int) -> int:
    """Returns the line of the file at an offset in the body."""
    return document.line + document.body.count("\n", 0, offset)


def _make_section(role: str, document: MarkdownDocument, start: int, end: int) -> MarkdownSection:
    body = document.body
    text = body[start:end]
    bare = text.strip()
    begin = _get_line(document, start)
    above = text.index(bare) if bare else 0
    return MarkdownSection(role, bare, begin + text.count("\n", 0, above), begin)


def _check_turns(turns: list[MarkdownSection], document: MarkdownDocument, notes: ProblemLog) -> None:
    if not turns:
        message = (
            f"The test has no turn; begin one with a line `{USER_MARKER}` above the grading instructions."
        )
        notes.error("no-turns", message, line=document.line)
        return
    expected = "user"
    for turn in turns:
        if turn.role != expected:
            marker = USER_MARKER if expected == "user" else ASSISTANT_MARKER
            message = f"A turn of the {turn.role} is in the place of a turn of the {expected} (`{marker}`)."
            notes.error("turn-order", message, line=turn.begin)
        if not turn.text:
            message = f"The turn of the {turn.role} is empty; write its text or remove the turn."
            notes.error("empty-turn", message, line=turn.begin)
        expected = "assistant" if turn.role == "user" else "user"
    if turns[-1].role != "user":
        message = (
            "The last turn is a turn of the assistant; end with a turn of the user, which the target answers."
        )
        notes.error("turn-order", message, line=turns[-1].begin)


def _warn_of_doubtful_text(
    system: MarkdownSection, document: MarkdownDocument, rule: re.Match[str] | None, notes: ProblemLog
) -> None:
    """Warns about text that is sent, though probably not on purpose."""
    body, end = document.body, len(document.body) if rule is None else rule.start()
    warn_of_comment(document, notes)
    if rule is not None:
        _check_rule(document, rule, notes)
    if system.text.startswith("---\n"):
        message = "The text before the first turn begins with `---`. Front matter must begin on line 1."
        notes.warn("not-front-matter", message, line=system.line)
    for match in _ALMOST_MARKER.finditer(body):
        exact = _TURN_MARKER.match(body, match.start()) is not None
        if exact and match.start() < end:
            continue
        why = (
            "is below the last `---`, so it is part of the grading instructions"
            if exact
            else f"is plain text; a marker is `{USER_MARKER}` or `{ASSISTANT_MARKER}` at the start of a line"
        )
        notes.warn(
            "not-a-turn", f"{quote_value(match[0].strip())} {why}.", line=_get_line(document, match.start())
        )


def _check_rule(document: MarkdownDocument, rule: re.Match[str], notes: ProblemLog) -> None:
    """Warns if the last `---` may not be the intended one, so that instructions above it would be sent."""
    if len(_CODE_FENCE.findall(document.body, rule.end())) % 2:
        message = (
            "The last `---` is inside a code block, so the grading instructions begin there and "
            "everything above is sent. Grading instructions cannot contain a line `---`."
        )
        notes.warn("rule-in-code", message, line=_get_line(document, rule.start()))
    else:
        _check_rule_in_turn(document, rule, notes)
    nearly = _RULE_WITH_BLANKS.search(document.body, rule.end())
    if nearly is not None:
        message = "`---` with spaces around it is plain text, so the grading instructions do not begin here."
        notes.warn("not-a-rule", message, line=_get_line(document, nearly.start()))


def _check_rule_in_turn(document: MarkdownDocument, last: re.Match[str], notes: ProblemLog) -> None:
    """Warns about a rule outside code in the last turn, where the instructions may be meant to begin."""
    body = document.body
    begin = max(
        (marker.end() for marker in _TURN_MARKER.finditer(body, 0, last.start())), default=last.start()
    )
    for rule in _RULE.finditer(body, begin, last.start()):
        if len(_CODE_FENCE.findall(body, begin, rule.start())) % 2 == 0:
            message = (
                f"The grading instructions begin below the last `---`, on line "
                f"{_get_line(document, last.start())}, "
                "so everything between this line and that one is sent to the target. If it belongs to the "
                "grading instructions, remove every `---` below this line. If you want to send it, write "
                "`***` here."
            )
            notes.warn("rule-in-turn", message, line=_get_line(document, rule.start()))
            return
