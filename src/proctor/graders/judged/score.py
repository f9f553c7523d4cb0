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

from proctor.graders.judged.judge_call import (
    DEFAULT_PASS_AT,
    JudgeRequest,
    call_judges,
    check_judge,
    get_pass_at,
    object_schema,
)
from proctor.graders.judged.prompt_sections import (
    CRITERIA_SYSTEM_PROMPT,
    PromptParts,
    PromptSection,
    build_sections,
    interleave,
    to_compact_json,
    with_headings,
)
from proctor.graders.judged.reply_parser import UnreadableReply, get_text, parse_json_object
from proctor.graders.judged.rubrics import RubricItem, format_items
from proctor.graders.judged.voting import JudgeReading
from proctor.model import Case, Evidence, GraderResult
from proctor.protocols import BaseGrader, GradingInput
from proctor.stats import reaches

MAX_ENTRIES = 8
"""How many of the judge's assertions are kept."""

_VARIABLE = re.compile(r"(?<!\$)\{\{\s*([A-Za-z_]\w*)((?:\.[\w-]+)*)\s*\}\}")
_OLD_NAMES = {"input_text": "input", "output_text": "output", "expected_output_text": "expected_output"}
_CONFIG = "config"
_CASE_VARIABLES = frozenset(
    (
        *("input", "output", "expected_output", "criteria", "file_changes"),
        *("metadata", "metadata_json", "tool_calls", "rubrics", "rubrics_json"),
    )
)
VARIABLES = frozenset({*_CASE_VARIABLES, *_OLD_NAMES, _CONFIG})
"""The variables of a prompt."""
_ANSWER_VARIABLES = frozenset({"output", "file_changes", "tool_calls"})

_HEADING = """\
Judge how well the assistant's answer does what was asked of it. Where there are CRITERIA, they decide; if
there are none, a right and complete answer is a good one. The answer need not use a reference's words."""

_FORM = """\
Reply with one JSON object and nothing else, in this form:
{"score": 0.75, "assertions": [{"text": "a thing you checked", "passed": true, "evidence": "what shows it"}],
"reasoning": "one or two sentences that name what decided the score"}
The score is a number from 0, for an answer that does nothing of what is asked, to 1, for one that does all
of it. Give at most 8 assertions."""

_ASSERTION_SCHEMA = object_schema(
    text={"type": "string"}, passed={"type": "boolean"}, evidence={"type": "string"}
)
_SCHEMA = object_schema(
    score={"type": "number", "minimum": 0, "maximum": 1},
    assertions={"type": "array", "items": _ASSERTION_SCHEMA},
    reasoning={"type": "string"},
)


class LlmGrader(BaseGrader, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
            raise ValueError("`prompt` is empty; remove it, or describe what the judge should check.")

    def judges(self) -> tuple[str | None, ...]:
        """Returns the judge of this check, else those of the run."""
        return (self.judge,)

    async def grade(self, grading_input: GradingInput) -> GraderResult:
        """Scores what the judge gives, with one entry for each of its first 8 assertions.

        Raises:
            CannotScore: there is no judge, or no majority of judges with readable replies.
        """
        pieces = {
            **build_sections(grading_input.case, grading_input.output),
            **_rubric_sections(grading_input.case),
        }
        data = {"metadata": grading_input.case.metadata, _CONFIG: self.config}
        references = _VARIABLE.finditer(self.prompt or "")
        own = any(_resolve_variable(name, pieces, data) is not None for name in references)
        if self.prompt is not None and not own:
            pieces["criteria"] = (PromptSection("CRITERIA", self.prompt.strip()), *pieces["criteria"])
        request = JudgeRequest(
            material=fill_prompt(self.prompt or "", pieces, data)
            if own
            else with_headings(pieces, turned=grading_input.reverse_sections),
            heading="" if own else _HEADING,
            form=_FORM,
            schema=_SCHEMA,
            read=partial(read_grade, pass_at=get_pass_at(grading_input)),
            system=CRITERIA_SYSTEM_PROMPT,
            template=self.prompt or "",
            judge=self.judge,
            temperature=self.temperature,
        )
        return await call_judges(grading_input, request)


def fill_prompt(
    template: str, pieces: Mapping[str, tuple[PromptSection, ...]], data: Mapping[str, Any]
) -> PromptParts:
    """Fills the suite's prompt with sections for its variables.

    Unknown names stay as they are. If the prompt shows nothing of the answer, the answer is appended.

    Args:
        template: the suite's prompt.
        pieces: the sections by name.
        data: values whose fields can be named: `metadata`, and `config`, which becomes part of the text.
    """
    used_names: set[str] = set()

    def substitute(match: re.Match[str]) -> tuple[PromptSection, ...] | str:
        replacement = _resolve_variable(match, pieces, data)
        if isinstance(replacement, tuple):
            used_names.add(_OLD_NAMES.get(match[1], match[1]))
        return match[0] if replacement is None else replacement

    parts = interleave(template, _VARIABLE, substitute)
    return parts if used_names & _ANSWER_VARIABLES else (*parts, "The assistant's answer:", *pieces["output"])


def _resolve_variable(
    match: re.Match[str], pieces: Mapping[str, tuple[PromptSection, ...]], data: Mapping[str, Any]
) -> tuple[PromptSection, ...] | str | None:
    """Returns what a variable becomes: sections, words of the suite's own, or None if it is unknown."""
    name, path = _OLD_NAMES.get(match[1], match[1]), match[2][1:]
    if name in _CASE_VARIABLES and not path:
        return pieces.get(name)
    value = data.get(name)
    for key in path.split(".") if path else ():
        value = value.get(key) if isinstance(value, Mapping) else None
    if value is None:
        return None
    text = value if isinstance(value, str) else to_compact_json(value)
    return text if name == _CONFIG else (PromptSection(f"METADATA {path}", text),)


def _rubric_sections(case: Case) -> dict[str, tuple[PromptSection, ...]]:
    """Returns the items of all `rubrics` assertions of the case."""
    lists = [
        assertion.params.get("items", ()) for assertion in case.assertions if assertion.grader == "rubrics"
    ]
    raw = [item for items in lists for item in items]
    return {
        "rubrics": (PromptSection("RUBRICS", format_items(msgspec.convert(raw, tuple[RubricItem, ...]))),),
        "rubrics_json": (PromptSection("RUBRICS", to_compact_json(raw)),),
    }


def read_grade(reply: str, pass_at: float = DEFAULT_PASS_AT) -> JudgeReading | None:
    """Reads a reply; returns None unless it is a JSON object with a score. `pass_at` and above passes.

    Raises:
        UnreadableReply: the score is not between 0 and 1, or an assertion has no text or verdict.
    """
    reply_object = parse_json_object(reply, "score")
    score = reply_object.get("score") if reply_object is not None else None
    if reply_object is None or isinstance(score, bool) or not isinstance(score, int | float):
        return None
    if not 0 <= score <= 1:
        raise UnreadableReply("Its score is not a number from 0 to 1.")
    return JudgeReading(
        value=float(score),
        passed=reaches(score, pass_at),
        clause=f"gave {score:.2f}".rstrip("0").rstrip("."),
        feedback=get_text(reply_object, "reasoning"),
        entries=_read_entries(reply_object.get("assertions")),
    )


def _read_entries(assertions: Any) -> tuple[Evidence, ...]:
    """Reads the first of the judge's assertions.

    Raises:
        UnreadableReply: they are not a list of texts with verdicts.
    """
    if assertions is None:
        return ()
    rows: list[Any] = assertions if isinstance(assertions, list) else [None]
    entries = []
    for row in rows:
        text = get_text(row, "text") if isinstance(row, dict) else None
        if text is None or not isinstance(row.get("passed"), bool):
            raise UnreadableReply(
                "An assertion of it has no `text`, or a `passed` that is neither true nor false."
            )
        entries.append(Evidence(text=text, passed=row["passed"], evidence=get_text(row, "evidence")))
    return tuple(entries[:MAX_ENTRIES])
