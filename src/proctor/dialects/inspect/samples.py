"""The samples of an Inspect dataset to a suite.

A dataset names no solver and no scorer; the task that loads it does. Samples with `choices` get the prompt of
Inspect's `multiple_choice`, and are graded by one letter or several. For all others the scorer is `includes`,
with a warning, unless `inspect-scorer` in proctor.toml names another. Source: Inspect's documentation of
datasets, and `dataset/_util.py`, `solver/_multiple_choice.py` and `scorer/_match.py` of inspect_ai 0.3.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from string import ascii_uppercase
from typing import Any, Final

from msgspec.structs import replace

from proctor.dialects.inspect.messages import parse_messages
from proctor.dialects.shared.case_rows import read_cases
from proctor.dialects.shared.csv_rows import read_table
from proctor.dialects.shared.jsonl import file_name
from proctor.dialects.shared.report_once import report_once
from proctor.dialects.shared.yaml_files import ignore_fields
from proctor.model import Assertion, Case, Message, Problem, Suite
from proctor.protocols import CaseAtLine, SuiteSource
from proctor.validation import FieldReader, ProblemLog, quote_value

SAMPLE_FIELDS: Final = (
    *("input", "target", "choices", "id", "description", "metadata", "sandbox", "files", "setup"),
    "checkpoint",
)
SCORER_OPTION: Final = "inspect_scorer"
"""The option in `proctor.toml` that names the scorer."""
_SANDBOX_FIELDS: Final = ("sandbox", "files", "setup")
DEFAULT_SCORER: Final = "includes"
_NO_SANDBOX_MESSAGE: Final = (
    "needs a sandbox, which Proctor does not start. Write the case with a "
    "workspace, in a suite in the format agentv."
)
_DEFAULT_SCORER_MESSAGE: Final = (
    "The dataset names no scorer, so an answer passes if it contains a "
    "target, ignoring case, like Inspect's `includes`. To choose another scorer, set `inspect-scorer` in "
    "proctor.toml."
)
_MAX_CHOICES: Final = len(ascii_uppercase)
_IGNORED_ENDS: Final = r"[\s!-/:-@\[-`{-~]*"
"""The white space and punctuation that Inspect's `match` ignores at both ends."""

_SINGLE_ANSWER_TEMPLATE: Final = """\
Answer the following multiple choice question. The entire content of your response should be of the \
following format: 'ANSWER: $LETTER' (without quotes) where LETTER is one of {letters}.

{question}

{choices}"""
_MULTIPLE_ANSWER_TEMPLATE: Final = """\
Answer the following multiple choice question where multiple answers may be correct. The entire content \
of your response should be of the following format: 'ANSWER: $LETTERS' (without quotes) where LETTERS is one \
or more of {letters}.

{question}

{choices}"""
"""Inspect's own templates, word for word."""


def parse_suite(source: SuiteSource) -> Iterator[Suite | CaseAtLine | Problem]:
    """Yields the header, the cases in file order, and each problem where it occurs."""
    yield Suite(name=file_name(source.path).stem or "suite", dialect="inspect")
    yield from report_once(_read_cases(source), ("default-scorer", "no-effect"))


def _read_cases(source: SuiteSource) -> Iterator[CaseAtLine | Problem]:
    several: bool | None = None

    def parse(notes: ProblemLog, row: dict[str, Any], number: int) -> CaseAtLine:
        nonlocal several
        if row.get("choices") and several is None:
            several = _has_multiple_answers(source)
        elif not row.get("choices") and SCORER_OPTION not in source.options:
            notes.warn("default-scorer", _DEFAULT_SCORER_MESSAGE)
        case = _parse_case(FieldReader(row, notes), f"sample-{number}", source, several=several is True)
        return CaseAtLine(case, notes.line, has_own_id=row.get("id") is not None)

    return read_cases(read_table(source), source.path, parse)


def _has_multiple_answers(source: SuiteSource) -> bool:
    """Whether any sample has more than one right choice; then every prompt allows several choices."""
    return any(
        len(_parse_letters(_to_texts(item[2].get("target")))) > 1
        for item in read_table(source)
        if not isinstance(item, Problem) and item[2].get("choices")
    )


def _parse_case(fields: FieldReader, default_id: str, source: SuiteSource, *, several: bool) -> Case:
    fields.drop_null()
    notes = fields.problem_log
    notes.case = case_id = _parse_id(fields, default_id)
    messages = parse_messages(fields, source)
    choices = _parse_choices(fields)
    target = fields.pop("target")
    targets = _to_texts(target)
    if not (targets and all(text.strip() for text in targets)):
        what = "has a blank text" if targets else "is missing or is not text"
        fields.error("missing-expected", "target", f"{what}; it must be a text or a list of texts.")
    for name in _SANDBOX_FIELDS:
        if fields.pop(name):
            fields.error("unsupported", name, _NO_SANDBOX_MESSAGE)
    if choices:
        messages = _with_choices(messages, choices, fields, several=several)
        assertion = _make_choice_assertion(targets, choices, fields, several=several)
    elif notes.has_errors:
        assertion = Assertion(grader="")
    else:
        scorer = source.options.get(SCORER_OPTION, DEFAULT_SCORER)
        assertion = replace(SCORERS[scorer](targets), label=scorer)
    return Case(
        id=case_id,
        input=messages,
        expected=targets[0] if len(targets) == 1 else targets,
        assertions=(assertion,),
        metadata=_parse_metadata(fields),
    )


def _parse_id(fields: FieldReader, default: str) -> str:
    value = fields.pop("id")
    if isinstance(value, str | int) and not isinstance(value, bool):
        return str(value).strip() or default
    if value is not None:
        fields.report_wrong_type("id", value, "text or a whole number")
    return default


def _to_texts(value: Any) -> list[str]:
    """Returns a target as texts, as Inspect's reader does."""
    values = value if isinstance(value, list) else [value]
    return [str(element) for element in values if not isinstance(element, list | dict | None)]


def _parse_metadata(fields: FieldReader) -> dict[str, Any]:
    """Returns the sample's metadata, with every field that Inspect's reader ignores."""
    own = fields.pop("metadata")
    if isinstance(own, str):
        try:
            own = json.loads(own)
        except (ValueError, RecursionError):
            fields.error(
                "bad-json", "metadata", f"is {quote_value(own)}, which is not JSON; write an object."
            )
            own = {}
    if own is not None and not isinstance(own, dict):
        fields.report_wrong_type("metadata", own, "an object")
    metadata = dict(own) if isinstance(own, dict) else {}
    ignore_fields(fields, ("checkpoint",), metadata)
    for name in fields.remaining_names():
        value = fields.pop(name)
        if metadata.setdefault(name, value) != value:
            fields.error("conflicting-fields", name, f"and `metadata.{name}` differ; keep one of them.")
    return metadata


# --- multiple choice ---------------------------------------------------------------------------------------


def _parse_choices(fields: FieldReader) -> list[str]:
    """Returns the choices; in CSV they are one cell, separated by commas or else spaces."""
    value = fields.pop("choices")
    if isinstance(value, str):
        parts = value.split(",")
        value = parts if len(parts) > 1 else value.split()
    if not value:
        return []
    texts = [text for item in value for text in _to_texts(item)] if isinstance(value, list) else []
    choices = [text.strip() for text in texts if text.strip()]
    if not 2 <= len(choices) <= _MAX_CHOICES:
        message = f"has {len(choices)} texts to choose from; write a list of 2 to {_MAX_CHOICES} texts."
        fields.error("bad-options", "choices", message)
        return []
    return choices


def _parse_letters(targets: list[str]) -> list[str]:
    """Returns the letters in the targets; `B`, `A, C` and `AC` are valid."""
    return sorted({letter for target in targets for letter in re.sub(r"[\s,]", "", target).upper()})


def _with_choices(
    messages: tuple[Message, ...], choices: list[str], fields: FieldReader, *, several: bool
) -> tuple[Message, ...]:
    """Adds the choices to the last user message."""
    place = max((at for at, message in enumerate(messages) if message.role == "user"), default=None)
    if place is None:
        if not fields.problem_log.has_error_at("input"):
            message = "has no message of role 'user' to add the choices to; add one."
            fields.error("missing-prompt", "input", message)
        return messages
    last = messages[place]
    prompt = (_MULTIPLE_ANSWER_TEMPLATE if several else _SINGLE_ANSWER_TEMPLATE).format(
        letters=",".join(ascii_uppercase[: len(choices)]),
        question=last.content,
        choices="\n".join(f"{ascii_uppercase[at]}) {text}" for at, text in enumerate(choices)),
    )
    parts = tuple(part for part in last.parts if not isinstance(part, str))
    question = replace(last, content=prompt, parts=(*parts, prompt) if parts else ())
    return (*messages[:place], question, *messages[place + 1 :])


def _make_choice_assertion(
    targets: list[str], choices: list[str], fields: FieldReader, *, several: bool
) -> Assertion:
    """Returns an assertion for one letter, or for all letters if several may be right."""
    options = ascii_uppercase[: len(choices)]
    letters = _parse_letters(targets)
    wrong = [letter for letter in letters if letter not in options]
    if wrong and not fields.problem_log.has_error_at("target"):
        places = [options[choices.index(text)] for text in targets if text in choices]
        hint = f" The choice with this text is {places[0]}." if places else ""
        message = f"is {quote_value(', '.join(targets))}; it must be a letter from A to {options[-1]}.{hint}"
        fields.error("bad-options", "target", message)
    if fields.problem_log.has_errors:
        return Assertion(grader="")
    if not several:
        params = {"value": letters[0], "options": options, "anywhere": False}
        return Assertion(grader="choice", params=params, label="choice")
    lookaheads = "".join(rf"(?=[^\n]*{letter})" for letter in letters)
    letter_list = rf"\s*:\s*{lookaheads}(?:[ \t\r,.*()$]|and|[{''.join(letters)}])*(?:\n|\Z)"
    pattern = rf"(?i:\bANSWER){letter_list}(?![\s\S]*(?i:\bANSWER)\s*:)"
    return Assertion(grader="regex", params={"pattern": pattern}, label="choice")


# --- scorers -----------------------------------------------------------------------------------------------


def _make_includes_assertion(targets: list[str]) -> Assertion:
    if len(targets) == 1:
        return Assertion(grader="contains", params={"value": targets[0], "ignore_case": True})
    return Assertion(grader="contains_any", params={"values": targets, "ignore_case": True})


def _make_match_assertion(targets: list[str]) -> Assertion:
    """Checks that the answer ends with a target, apart from white space and punctuation."""
    ends = (
        re.sub(rf"\A{_IGNORED_ENDS}|{_IGNORED_ENDS}\Z", "", target) or target.strip() for target in targets
    )
    pattern = rf"(?:{'|'.join(map(re.escape, ends))}){_IGNORED_ENDS}\Z"
    return Assertion(grader="regex", params={"pattern": pattern, "flags": "i"})


def _make_judge_assertion(targets: list[str]) -> Assertion:
    return Assertion(grader="llm_judge", params={"prompt": make_content_question(targets)})


def make_content_question(answers: list[str]) -> str:
    """Returns the question to a judge whether an answer has the content of an expected one."""
    what = "this expected answer" if len(answers) == 1 else "one of these expected answers"
    question = f"Does the answer contain the content of {what}? It may use other words and say more, but "
    return "\n\n".join((f"{question}nothing in it may contradict what is expected.", *answers))


SCORERS: Final[dict[str, Callable[[list[str]], Assertion]]] = {
    "includes": _make_includes_assertion,
    "match": _make_match_assertion,
    "model_graded_fact": _make_judge_assertion,
}
"""How each of Inspect's scorers compares an answer with the targets."""
TYPES: Final = ("choice", *SCORERS)
