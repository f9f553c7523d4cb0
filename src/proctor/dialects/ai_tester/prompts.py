"""Reads prompts of the dialect ai_tester, Markdown files with an `id`: system prompts and evaluators.

A prompt with the tag `_evaluator` is for judges and has a system text and one user turn. Any other is a
system text. Each version that its replacements give is a prompt of its own.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from posixpath import normpath
from typing import Any, Final

from msgspec import Struct

from proctor.dialects.ai_tester.attachments import (
    UNREADABLE_MESSAGE,
    find_nearest,
    has_file_placeholder,
)
from proctor.dialects.ai_tester.dialect import ENDING, PROMPTS_FOLDER, USER_MARKER, is_readme
from proctor.dialects.ai_tester.markdown import (
    MarkdownDocument,
    MarkdownSection,
    decode_text,
    find_placeholders,
    parse_document,
    split_sections,
    warn_of_comment,
)
from proctor.dialects.ai_tester.placeholders import (
    ReplacementGroup,
    check_replacements,
    expand_versions,
    fill,
    get_first_line,
    make_brackets,
    parse_groups,
)
from proctor.dialects.shared.yaml_files import display_path
from proctor.errors import suggestion
from proctor.model import Problem
from proctor.protocols import SuiteSource
from proctor.validation import FieldReader, ProblemLog, quote_value

PROMPT_FIELDS: Final = ("id", "tags", "replacements")
EVALUATOR_TAG: Final = "_evaluator"
SPECIAL_TAGS: Final = ("_evaluator", "_has_tools", "_json_mode", "_tools_only")
"""The tags with a special meaning."""
EVALUATOR_VARIABLES: Final = {
    "_evaluationInstructions": "instructions",
    "_actualResponse": "answer",
    "_input": "input",
    **{name: name for name in ("instructions", "answer", "input")},
}
"""The placeholders of an evaluator prompt, with the graders' names for them."""

_EVALUATOR_PLACEHOLDER: Final = re.compile(r"\{\{\s*(" + "|".join(EVALUATOR_VARIABLES) + r")\s*\}\}")


class SuitePrompts(Struct, frozen=True):
    """All prompts of a suite."""

    system: dict[str, tuple[tuple[str, str], ...]]
    """The versions of each system prompt by id, as suffix and text; empty for an invalid prompt."""
    evaluators: tuple[dict[str, str], ...]
    """The prompts that judges get, each with `id`, `system` and `user`."""
    evaluator_ids: frozenset[str]
    """The ids of all evaluator prompts."""
    problems: tuple[Problem, ...]


class _PromptFile(Struct, frozen=True):
    id: str
    path: str
    is_evaluator: bool
    versions: tuple[tuple[str, ...], ...] = ()
    """The label and the texts of each version; empty for an invalid prompt."""


# --- which files -------------------------------------------------------------------------------------------


def is_prompt(path: str, source: SuiteSource) -> bool:
    """Whether a file in a suite's folder is a prompt rather than a test."""
    if PROMPTS_FOLDER in path.split("/")[:-1]:
        return True
    folder = _get_prompts_folder(source)
    return folder is not None and path.startswith(f"{folder}/")


def _get_prompts_folder(source: SuiteSource) -> str | None:
    """Returns the folder of prompts that the user set."""
    folder: Any = source.options.get("prompts")
    return normpath(str(folder).replace("\\", "/")) if folder else None


def _find_paths(source: SuiteSource, inside: Sequence[str], problems: list[Problem]) -> list[str]:
    """Returns the paths of the prompts.

    Args:
        source: the suite.
        inside: the Markdown files in its folder, if it is one.
        problems: takes a problem if the user's folder has no prompts.
    """
    folder = _get_prompts_folder(source)
    if folder is None:
        paths = [path for path in inside if is_prompt(path, source)] or find_nearest(
            source, (PROMPTS_FOLDER,)
        )
    else:
        paths = source.expand_glob(f"{folder}/**/*")
    paths = [path for path in paths if path.lower().endswith(ENDING) and not is_readme(path)]
    if folder is not None and not paths:
        message = (
            f"The folder {quote_value(folder)} that proctor.toml names as `prompts` contains no "
            f"Markdown file."
        )
        problems.append(Problem(code="no-prompts", message=message, path=source.path, line=1))
    return paths


# --- all of them -------------------------------------------------------------------------------------------


def read_prompts(source: SuiteSource, inside: Sequence[str] = ()) -> SuitePrompts:
    """Reads all prompts of a suite; `inside` are the Markdown files in its folder, if it is one."""
    problems: list[Problem] = []
    prompts: dict[str, _PromptFile] = {}
    for path in _find_paths(source, inside, problems):
        notes = ProblemLog(display_path(source, path), 1, "Prompt")
        prompt = _read_prompt(path, source, notes)
        if prompt is not None and prompt.id in prompts:
            message = (
                f"The prompt {quote_value(prompt.id)} is also in {prompts[prompt.id].path}. Rename "
                f"one of them."
            )
            notes.error("duplicate-id", message, "id")
        elif prompt is not None:
            prompts[prompt.id] = prompt
        problems += notes.problems
    judging = [prompt for prompt in prompts.values() if prompt.is_evaluator]
    enabled = _enabled_evaluators(source, [prompt.id for prompt in judging], problems)
    return SuitePrompts(
        system={
            prompt.id: tuple([(word, text) for word, text in prompt.versions])
            for prompt in prompts.values()
            if not prompt.is_evaluator
        },
        evaluators=tuple(
            [
                {"id": word, "system": system, "user": user}
                for prompt in judging
                if prompt.id in enabled
                for word, system, user in prompt.versions
            ]
        ),
        evaluator_ids=frozenset(prompt.id for prompt in judging),
        problems=tuple(problems),
    )


def _enabled_evaluators(source: SuiteSource, ids: list[str], problems: list[Problem]) -> Collection[str]:
    """Returns the ids of the evaluator prompts to use: those that the user chose, or all."""
    selection: Any = source.options.get("evaluators")
    if not selection:
        return ids
    for name in selection:
        if name not in ids:
            message = (
                f"`evaluators` of proctor.toml names {quote_value(name)}, and no judge prompt has "
                f"that id. {suggestion(str(name)[:60], ids)}"
            )
            problems.append(Problem(code="unknown-evaluator", message=message, path=source.path, line=1))
    return [str(name) for name in selection]


# --- one ---------------------------------------------------------------------------------------------------


def _read_prompt(path: str, source: SuiteSource, notes: ProblemLog) -> _PromptFile | None:
    """Reads a prompt; None if not even its id is known."""
    file = source.find_file(path)
    if file is None:
        notes.error("missing-file", UNREADABLE_MESSAGE)
        return None
    text = decode_text(file.data, notes)
    document = None if text is None else parse_document(text, notes)
    if document is None:
        return None
    fields = FieldReader(document.front, notes)
    name = fields.required_text("id")
    if name != " ".join(name.split()):
        fields.error("bad-id", "id", "has line breaks, surrounding spaces or repeated spaces; remove them.")
    evaluator = _is_evaluator(fields)
    groups = parse_groups(fields, "replacements")
    fields.finish(PROMPT_FIELDS)
    sections = _read_sections(document, evaluator, notes)
    if not notes.has_error_at("replacements"):
        length = sum(len(section.text) for section in sections)
        check_replacements(
            groups,
            find_placeholders(sections, document),
            length,
            notes,
            EVALUATOR_VARIABLES if evaluator else (),
        )
    versions = () if notes.has_errors else _read_versions(name, groups, sections, evaluator, notes)
    return _PromptFile(name, notes.path, evaluator, () if notes.has_errors else versions) if name else None


def _is_evaluator(fields: FieldReader) -> bool:
    tags = fields.texts("tags")
    evaluator = EVALUATOR_TAG in tags
    for place, tag in enumerate(tags):
        if not isinstance(tag, str) or not tag.startswith("_") or tag == EVALUATOR_TAG:
            continue
        if tag not in SPECIAL_TAGS:
            warn_of_special_tag(tag, fields, f"tags[{place}]")
        elif not (evaluator and tag == "_json_mode"):
            fields.warn(
                "no-effect",
                f"tags[{place}]",
                f"is `{tag}`, which has no effect here. Add it to tests instead.",
            )
    return evaluator


def warn_of_special_tag(tag: str, fields: FieldReader, place: str) -> None:
    """Warns about a tag that looks special but has no meaning."""
    message = (
        f"is {quote_value(tag)}, which is not a special tag and has no effect on how the test runs. "
        f"{suggestion(tag[:60], SPECIAL_TAGS)}"
    )
    fields.warn("unknown-special-tag", place, message)


def _read_sections(document: MarkdownDocument, evaluator: bool, notes: ProblemLog) -> list[MarkdownSection]:
    system, *turns = sections = split_sections(document)
    warn_of_comment(document, notes)
    if not system.text:
        message = "The prompt is empty; write its text below the front matter."
        if evaluator:
            message = f"The judge prompt has no system text; write one above its `{USER_MARKER}`."
        notes.error("empty-prompt", message, line=document.line)
    if not evaluator and turns:
        message = (
            f"A prompt cannot contain turns; remove the marker, or add the tag `{EVALUATOR_TAG}` if "
            f"this is a judge prompt."
        )
        notes.error("turn-in-prompt", message, line=turns[0].begin)
    elif evaluator and [turn.role for turn in turns] != ["user"]:
        message = (
            "A judge prompt needs exactly one turn below its system text, which begins with `{USER_MARKER}`."
        )
        notes.error("turn-order", message, line=turns[0].begin if turns else document.line)
    elif evaluator and not turns[0].text:
        notes.error(
            "empty-turn", "The turn of the user is empty; include the answer there.", line=turns[0].begin
        )
    return sections


def _read_versions(
    name: str,
    groups: Sequence[ReplacementGroup],
    sections: list[MarkdownSection],
    evaluator: bool,
    notes: ProblemLog,
) -> tuple[tuple[str, ...], ...]:
    rows = list(expand_versions(groups))
    words = make_brackets(rows) if len(rows) > 1 else [""]
    labels_by_text: dict[tuple[str, ...], str] = {}
    for number, (values, bracket) in enumerate(zip(rows, words, strict=True), 1):
        texts = tuple([fill(section.text, values).strip() for section in sections])
        if evaluator:
            texts = tuple([_EVALUATOR_PLACEHOLDER.sub(_rename_placeholder, text) for text in texts])
        _check_texts(f"{name}{bracket}", texts, sections, evaluator, notes)
        if texts in labels_by_text:
            message = f"Version {number} of the prompt is the same as an earlier version. Remove one of them."
            notes.error("duplicate-version", message, "replacements", line=get_first_line(groups))
        labels_by_text[texts] = f"{name}{bracket}"
    return tuple([(word, *texts) for texts, word in labels_by_text.items()])


def _rename_placeholder(match: re.Match[str]) -> str:
    """Returns the placeholder with the grader's name."""
    return f"{{{{ {EVALUATOR_VARIABLES[match[1]]} }}}}"


def _check_texts(
    word: str, texts: tuple[str, ...], sections: list[MarkdownSection], evaluator: bool, notes: ProblemLog
) -> None:
    for text, section in zip(texts, sections, strict=True):
        if not text:
            message = f"Prompt {quote_value(word)} has an empty text after its replacements are filled in."
            notes.error("empty-prompt", message, line=section.line)
        if has_file_placeholder(text):
            message = "A prompt contains `{{_file:…}}`; only user turns of a test can have files."
            notes.error("misplaced-file", message, line=section.line)
    if not evaluator or notes.has_errors:
        return
    if not any("{{ answer }}" in text for text in texts):
        message = (
            f"The judge prompt {quote_value(word)} does not contain the answer. "
            "Write `{{_actualResponse}}` where it belongs."
        )
        notes.error("no-answer", message, line=sections[-1].line)
    if not any("{{ instructions }}" in text for text in texts):
        message = (
            f"The judge prompt {quote_value(word)} does not contain the grading instructions of a "
            f"test, so they are added at its end. Write `{{_evaluationInstructions}}` where they belong."
        )
        notes.warn("no-instructions", message, line=sections[0].line)
