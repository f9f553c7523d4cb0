"""Grades an answer by a judge's number from 0 to 1, with the default prompt or the suite's own.

A suite's own prompt has variables such as `{{ output }}`. Their values are set off by lines with a code, and
variables inside the values are not replaced.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import msgspec

from proctor.graders.judged.judge_call import PASS_AT, Request, ask, check_judge, least
from proctor.graders.judged.prompt_sections import (
    STANDARD,
    Parts,
    Piece,
    as_json,
    pieces_of,
    sectioned,
    woven,
)
from proctor.graders.judged.reply_parser import Unreadable, json_object, text_in
from proctor.graders.judged.rubrics import Item, listing
from proctor.graders.judged.voting import Reading
from proctor.model import Case, Entry, Mark
from proctor.protocols import Graded, Grading
from proctor.stats import reaches

ENTRIES = 8
"""How many of the judge's assertions are kept."""

_VARIABLE = re.compile(r"(?<!\$)\{\{\s*([A-Za-z_]\w*)((?:\.[\w-]+)*)\s*\}\}")
_OLD = {"input_text": "input", "output_text": "output", "expected_output_text": "expected_output"}
_CONFIG = "config"
_OF_CASE = frozenset(
    {
        "input",
        "output",
        "expected_output",
        "criteria",
        "file_changes",
        "metadata",
        "metadata_json",
        "tool_calls",
        "rubrics",
        "rubrics_json",
    }
)
VARIABLES = frozenset({*_OF_CASE, *_OLD, _CONFIG})
"""The variables of a prompt."""
_OF_ANSWER = frozenset({"output", "file_changes", "tool_calls"})

_HEADING = """\
Judge how well the assistant's answer does what was asked of it. Where there are CRITERIA, they decide; if
there are none, a right and complete answer is a good one. The answer need not use a reference's words."""

_FORM = """\
Reply with one JSON object and nothing else, in this form:
{"score": 0.75, "assertions": [{"text": "a thing you checked", "passed": true, "evidence": "what shows it"}],
"reasoning": "one or two sentences that name what decided the score"}
The score is a number from 0, for an answer that does nothing of what is asked, to 1, for one that does all
of it. Give at most 8 assertions."""

_SCHEMA_PROPERTIES = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "passed": {"type": "boolean"},
        "evidence": {"type": "string"},
    },
    "required": ["text", "passed", "evidence"],
    "additionalProperties": False,
}
_SCHEMA = {
    "type": "object",
    "properties": {
        "score": {"type": "number", "minimum": 0, "maximum": 1},
        "assertions": {"type": "array", "items": _SCHEMA_PROPERTIES},
        "reasoning": {"type": "string"},
    },
    "required": ["score", "assertions", "reasoning"],
    "additionalProperties": False,
}


class LlmGrader(Grading, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when a judge gives the answer at least 0.8, by the case's criteria or the suite's own prompt.

    The judge sees the case's criteria, messages, expected answer and metadata, and the whole answer: its
    text, changed files and tool calls. Every reply is kept.
    """

    needs: ClassVar[str | None] = "judge"

    prompt: str | None = None
    """A template with `{{ name }}` or `{{ metadata.field }}`; a text without any is one more criterion."""
    judge: str | None = None
    """The name of a judge for this check; None uses those of the run."""
    temperature: float | None = None
    """The temperature of the judge; None leaves it to the judge."""
    config: dict[str, Any] = msgspec.field(default_factory=dict)
    """The value of `{{ config }}`."""

    def __post_init__(self) -> None:
        check_judge(self.judge, self.temperature)
        if self.prompt is not None and not self.prompt.strip():
            raise ValueError("`prompt` is empty; leave it out, or say what the judge is to look at.")

    def judges(self) -> tuple[str | None, ...]:
        """Returns the judge of this check, else those of the run."""
        return (self.judge,)

    async def grade(self, graded: Graded) -> Mark:
        """Scores what the judge gives, with one entry for each of its first 8 assertions.

        Raises:
            CannotScore: there is no judge, or no majority of judges with readable replies.
        """
        pieces = {**pieces_of(graded.case, graded.output), **_rubrics(graded.case)}
        data = {"metadata": graded.case.metadata, _CONFIG: self.config}
        references = _VARIABLE.finditer(self.prompt or "")
        own = any(_stands_for(name, pieces, data) is not None for name in references)
        if self.prompt is not None and not own:
            pieces["criteria"] = (Piece("CRITERIA", self.prompt.strip()), *pieces["criteria"])
        request = Request(
            material=filled(self.prompt or "", pieces, data)
            if own
            else sectioned(pieces, turned=graded.turned),
            heading="" if own else _HEADING,
            form=_FORM,
            schema=_SCHEMA,
            read=partial(read_graded, pass_at=least(graded)),
            system=STANDARD,
            template=self.prompt or "",
            judge=self.judge,
            temperature=self.temperature,
        )
        return await ask(graded, request)


def filled(template: str, pieces: Mapping[str, tuple[Piece, ...]], data: Mapping[str, Any]) -> Parts:
    """Fills the suite's prompt with sections for its variables.

    Unknown names stay as they are. If the prompt shows nothing of the answer, the answer is appended.

    Args:
        template: the suite's prompt.
        pieces: the sections by name.
        data: values whose fields can be named: `metadata`, and `config`, which becomes part of the text.
    """
    used_names: set[str] = set()

    def substitute(match: re.Match[str]) -> tuple[Piece, ...] | str:
        replacement = _stands_for(match, pieces, data)
        if isinstance(replacement, tuple):
            used_names.add(_OLD.get(match[1], match[1]))
        return match[0] if replacement is None else replacement

    parts = woven(template, _VARIABLE, substitute)
    return parts if used_names & _OF_ANSWER else (*parts, "The assistant's answer:", *pieces["output"])


def _stands_for(
    match: re.Match[str], pieces: Mapping[str, tuple[Piece, ...]], data: Mapping[str, Any]
) -> tuple[Piece, ...] | str | None:
    """Returns what a variable becomes: sections, words of the suite's own, or None if it is unknown."""
    name, path = _OLD.get(match[1], match[1]), match[2][1:]
    if name in _OF_CASE and not path:
        return pieces.get(name)
    value = data.get(name)
    for key in path.split(".") if path else ():
        value = value.get(key) if isinstance(value, Mapping) else None
    if value is None:
        return None
    text = value if isinstance(value, str) else as_json(value)
    return text if name == _CONFIG else (Piece(f"METADATA {path}", text),)


def _rubrics(case: Case) -> dict[str, tuple[Piece, ...]]:
    """Returns the items of all `rubrics` assertions of the case."""
    lists = [
        assertion.params.get("items", ()) for assertion in case.assertions if assertion.grader == "rubrics"
    ]
    raw = [item for items in lists for item in items]
    return {
        "rubrics": (Piece("RUBRICS", listing(msgspec.convert(raw, tuple[Item, ...]))),),
        "rubrics_json": (Piece("RUBRICS", as_json(raw)),),
    }


def read_graded(reply: str, pass_at: float = PASS_AT) -> Reading | None:
    """Reads a reply; returns None unless it is a JSON object with a score. `pass_at` and above passes.

    Raises:
        Unreadable: the score is not between 0 and 1, or an assertion has no text or verdict.
    """
    reply_object = json_object(reply, "score")
    score = reply_object.get("score") if reply_object is not None else None
    if reply_object is None or isinstance(score, bool) or not isinstance(score, int | float):
        return None
    if not 0 <= score <= 1:
        raise Unreadable("Its score is not a number from 0 to 1.")
    return Reading(
        value=float(score),
        passed=reaches(score, pass_at),
        said=f"gave {score:.2f}".rstrip("0").rstrip("."),
        feedback=text_in(reply_object, "reasoning"),
        entries=_entries(reply_object.get("assertions")),
    )


def _entries(assertions: Any) -> tuple[Entry, ...]:
    """Reads the first of the judge's assertions.

    Raises:
        Unreadable: they are not a list of texts with verdicts.
    """
    if assertions is None:
        return ()
    rows: list[Any] = assertions if isinstance(assertions, list) else [None]
    entries = []
    for row in rows:
        text = text_in(row, "text") if isinstance(row, dict) else None
        if text is None or not isinstance(row.get("passed"), bool):
            raise Unreadable(
                "An assertion of it has no `text`, or a `passed` that is neither true nor false."
            )
        entries.append(Entry(text=text, passed=row["passed"], evidence=text_in(row, "evidence")))
    return tuple(entries[:ENTRIES])
