"""Reads Markdown tests of the dialect ai_tester as a suite: one file, or all files of a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from posixpath import basename, normpath
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from proctor.dialects.ai_tester.attachments import UNREADABLE, Library, is_readme, refers
from proctor.dialects.ai_tester.markdown import Conversation, conversation_of, document_of, text_of
from proctor.dialects.ai_tester.placeholders import (
    Group,
    Values,
    brackets,
    check,
    fill,
    first_line,
    groups_of,
    versions,
)
from proctor.dialects.ai_tester.prompts import (
    EVALUATOR,
    SPECIAL,
    is_prompt,
    prompts_of,
    warn_of_special,
)
from proctor.dialects.ai_tester.syntax import ENDING, USER, has_user_turn
from proctor.dialects.shared.jsonl import file_name, whole
from proctor.dialects.shared.yaml_files import shown_path
from proctor.errors import suggestion
from proctor.model import Assertion, Case, Defaults, Form, Message, Problem, Row, Suite, Tool
from proctor.protocols import Placed, Source
from proctor.validation import Fields, Notes, shown
from proctor.yaml12 import plain

TEST: Final = (
    *("systemPrompts", "tags", "replacements", "structuredResponseSchema", "availableTools"),
    *("lint", "proctor"),
)
"""The fields that the front matter of a test may have."""
KEPT: Final = "proctor"
"""The field with what the format could not express, in a converted suite."""


def check_of(evaluators: list[dict[str, str]]) -> Assertion:
    """Returns the one assertion of every test in a folder; judgments are combined by their mean."""
    params: dict[str, Any] = {"evaluators": evaluators} if evaluators else {}
    return Assertion(grader="instructions", params={**params, "rule": "mean"})


class _Heading(Struct, frozen=True):
    """The front matter of a test."""

    prompts: tuple[tuple[str, str], ...]
    """Labels and texts of the system prompts; a pair of empty texts for a test without any."""
    tags: tuple[str, ...]
    form: Form | None
    extra_metadata: dict[str, Any]
    """Copied to the metadata unchanged."""
    groups: tuple[Group, ...]


# --- the suite ---------------------------------------------------------------------------------------------


def suite_of(source: Source) -> Iterator[Suite | Placed | Problem]:
    """Yields the header, the cases by file and line, and each problem where it occurs."""
    name = suite_name(source)
    yield Suite(name=name, dialect="ai_tester", defaults=Defaults(reuse=True), folder=source.folder)
    inside = source.expand("**/*") if source.is_folder else []
    inside = [path for path in inside if path.lower().endswith(ENDING)]
    reader = _Reader(source, inside)
    yield from reader.prompts.problems
    if not source.is_folder:
        path = file_name(source.path).name or f"{name}{ENDING}"
        yield from reader.read(path, whole(source))
    for path in inside:
        if is_readme(path) or is_prompt(path, source):
            continue
        file = source.find(path)
        if file is None or file.path != path:
            where = shown_path(source, path)
            row = Row(path=where, line=1)
            yield Problem(code="missing-file", message=UNREADABLE, path=where, line=1, row=row)
        else:
            yield from reader.read(path, file.data)
    yield from reader.left_over()
    for folder in _linked(source, inside) if source.is_folder else ():
        message = "The folder is a link, which is not followed. Put the tests here, or name it as a suite."
        where = shown_path(source, folder)
        yield Problem(code="linked-folder", message=message, path=where, row=Row(path=where, line=1))


def _linked(source: Source, inside: list[str]) -> Iterator[str]:
    """Yields linked folders, whose Markdown files `**` does not find."""
    folders = {parent.as_posix() for path in inside for parent in PurePosixPath(path).parents}
    for folder in source.expand("**/*/"):
        below = source.expand(f"{folder}/**/*") if folder not in folders else []
        texts = [path for path in below if path.lower().endswith(ENDING) and not is_readme(path)]
        if not all(is_prompt(path, source) for path in texts):
            yield folder


def suite_name(source: Source) -> str:
    """Returns the name of the suite's folder, or of its file without the ending."""
    if not source.is_folder:
        return file_name(source.path).stem or "suite"
    name = basename(normpath(source.path.replace("\\", "/")))
    return name if name.strip("./") else basename(source.folder) or "suite"


class _Reader:
    """Reads the files of one suite, one after the other."""

    def __init__(self, source: Source, inside: list[str]) -> None:
        self._source = source
        self._library = Library(source)
        self.prompts = prompts_of(source, inside)
        self._assertions = (check_of(list(self.prompts.evaluators)),)
        self._unmarked: dict[str, Problem] = {}

    def read(self, path: str, data: bytes) -> Iterator[Placed | Problem]:
        """Yields the cases of one file, or its problems.

        Args:
            path: of the file, relative to the suite's folder.
            data: all of it.
        """
        where = shown_path(self._source, path) if self._source.is_folder else self._source.path
        notes = Notes(where, 1, "Test", of_case=True)
        text = text_of(data, notes)
        if text is not None and not has_user_turn(text):
            message = (
                f"The file is no test: it has no line that begins with `{USER}`. Begin a turn with one, or "
                "move the file out of the folder with the tests."
            )
            row = Row(path=where, line=1)
            self._unmarked[path] = Problem(code="not-a-test", message=message, path=where, line=1, row=row)
            return
        cases = [] if text is None else self._cases(path, text, notes)
        yield from self._library.take_problems()
        row = Row(path=where, line=1, cases=max(1, len(cases)))
        # Versions may share a problem.
        for problem in sorted(dict.fromkeys(notes.problems), key=lambda problem: problem.line or 0):
            yield problem if problem.row is None else replace(problem, row=row)
        if not notes.failed:
            yield from cases

    def left_over(self) -> Iterator[Problem]:
        """Yields a problem for each file that is neither a test nor attached to one."""
        for path, problem in self._unmarked.items():
            if path not in self._library.attached:
                yield problem

    def _cases(self, path: str, text: str, notes: Notes) -> list[Placed]:
        _check_path(path, notes)
        document = document_of(text, notes)
        if document is None:
            return []
        heading = self._heading(Fields(document.front, notes))
        talk = conversation_of(document, notes)
        if not notes.noted("replacements"):
            check(heading.groups, talk.used, talk.length, notes)
        if notes.failed:
            return []
        rows = list(versions(heading.groups))
        first_numbers: dict[tuple[str, ...], int] = {}
        cases: list[Placed] = []
        for number, (values, bracket) in enumerate(zip(rows, brackets(rows), strict=True), 1):
            version = _version(talk, values)
            if first_numbers.setdefault(version, number) != number:
                first = first_numbers[version]
                message = f"Versions {first} and {number} of the test are the same. Remove one of them."
                notes.error("duplicate-version", message, "replacements", line=first_line(heading.groups))
            cases += self._place_case(path, bracket, values, version, talk, heading, notes)
        return cases

    # --- front matter ---

    def _heading(self, fields: Fields) -> _Heading:
        prompts = self._prompts(fields)
        tags = _tags(fields)
        form = self._form(fields, tags)
        groups = groups_of(fields, "replacements")
        extra_metadata = {"lint": _lint(fields), KEPT: plain(fields.take(KEPT))}
        fields.finish(TEST)
        return _Heading(
            prompts,
            tags,
            form,
            {name: value for name, value in extra_metadata.items() if value is not None},
            groups,
        )

    def _prompts(self, fields: Fields) -> tuple[tuple[str, str], ...]:
        if "systemPrompts" not in fields:
            return (("", ""),)
        names = fields.texts("systemPrompts")
        if not names and not fields.notes.noted("systemPrompts"):
            message = "is an empty list, so the test would not be run. Name a prompt, or remove the field."
            fields.error("empty-list", "systemPrompts", message)
        selection: list[tuple[str, str]] = []
        for place, name in enumerate(names):
            field = f"systemPrompts[{place}]"
            if name in names[:place]:
                fields.error("duplicate-prompt", field, f"is {shown(name)} again. Remove it.")
            elif name in self.prompts.judging:
                fields.error("evaluator-prompt", field, f"is {shown(name)}, which is a prompt for judges.")
            elif name in self.prompts.system:
                selection.extend(self.prompts.system[name] or [(name, "")])
            elif isinstance(name, str):
                ids = list(self.prompts.system)
                advice = "There is none in a folder `prompts/` in the tests' folder, beside it or above."
                hint = suggestion(name[:60], ids) if ids else advice
                fields.error("unknown-prompt", field, f"is {shown(name)}, and no prompt has that id. {hint}")
        return tuple(selection)

    def _form(self, fields: Fields, tags: tuple[str, ...]) -> Form | None:
        special = tuple(sorted(tag for tag in dict.fromkeys(tags) if tag in SPECIAL))
        schema: dict[str, Any] | None = None
        tools: tuple[Tool, ...] = ()
        if "structuredResponseSchema" in fields and "availableTools" in fields:
            message = "cannot stand beside `structuredResponseSchema`. Keep one of them."
            fields.error("conflicting-fields", "availableTools", message)
        if "structuredResponseSchema" in fields:
            schema = self._library.schema(fields, "structuredResponseSchema")
        if "availableTools" in fields:
            tools = self._library.tools(fields, "availableTools")
        if not special and schema is None and not tools:
            return None
        return Form(json="_json_mode" in special, schema=schema, tools=tools, special_tags=special)

    # --- cases ---

    def _place_case(
        self,
        path: str,
        bracket: str,
        values: Values,
        version: tuple[str, ...],
        talk: Conversation,
        heading: _Heading,
        notes: Notes,
    ) -> Iterator[Placed]:
        """Yields the cases of one version, one for each prompt."""
        own, *texts, instructions = version
        stem = path[: -len(ENDING)] if path.lower().endswith(ENDING) else path
        turns = self._turns(texts, talk, notes)
        _check_version(version, turns, talk, notes)
        for word, prompt in heading.prompts:
            system = "\n\n".join(filter(None, (prompt, own)))
            metadata: dict[str, Any] = {"file": path}
            if word:
                metadata["prompt"] = word
            if values:
                metadata["replacements"] = dict(values)
            case = Case(
                id=f"{stem}{bracket}~{word}" if word else f"{stem}{bracket}",
                input=(Message(role="system", content=system), *turns) if system else turns,
                criteria=instructions,
                assertions=self._assertions,
                tags=heading.tags,
                metadata={**metadata, **heading.extra_metadata},
                form=heading.form,
            )
            yield Placed(case, talk.turns[0].begin, notes.path if self._source.is_folder else None)

    def _turns(self, texts: list[str], talk: Conversation, notes: Notes) -> tuple[Message, ...]:
        messages: list[Message] = []
        for text, turn in zip(texts, talk.turns, strict=True):
            message = Message(role=turn.role, content=text)
            if turn.role == "user" and refers(text):
                message = self._library.with_files(message, notes, turn.line)
            messages.append(message)
        return tuple(messages)


def _version(talk: Conversation, values: Values) -> tuple[str, ...]:
    """Returns the system text, the turns and the instructions of a test, with the values filled in."""
    texts = (talk.system, *(turn.text for turn in talk.turns), talk.instructions)
    return tuple([fill(text, values).strip() for text in texts]) if values else texts


def _check_version(
    version: tuple[str, ...], turns: tuple[Message, ...], talk: Conversation, notes: Notes
) -> None:
    own, *_, instructions = version
    for message, turn in zip(turns, talk.turns, strict=True):
        if not message.content and not message.parts:
            text = f"The turn of the {turn.role} is empty once its replacements are filled in."
            notes.error("empty-turn", text, line=turn.line)
    if not instructions:
        text = "The instructions are empty once their replacements are filled in."
        notes.error("no-instructions", text, line=talk.turns[-1].line)
    others = [own, instructions, *(message.content for message in turns if message.role != "user")]
    if any(map(refers, others)):
        text = "`{{_file:…}}` stands outside a turn of the user; only those can have files."
        notes.error("misplaced-file", text, line=talk.turns[0].line)


def _check_path(path: str, notes: Notes) -> None:
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        notes.path = notes.path.encode("utf-8", "backslashreplace").decode("utf-8")
        notes.error("bad-name", "The name of the file is not UTF-8. Rename the file.")


def _tags(fields: Fields) -> tuple[str, ...]:
    tags = fields.texts("tags")
    for place, tag in enumerate(tags):
        if tag == EVALUATOR:
            message = f"is `{EVALUATOR}`, which marks prompts for judges, and this is a test. Remove it."
            fields.error("evaluator-tag", f"tags[{place}]", message)
        elif isinstance(tag, str) and tag.startswith("_") and tag not in SPECIAL:
            warn_of_special(tag, fields, f"tags[{place}]")
    return tuple(dict.fromkeys(tags))


def _lint(fields: Fields) -> Any:
    """Parses `lint`: `ignore`, or codes of rules to silence for this test; None if it is absent."""
    if "lint" not in fields:
        return None
    value: Any = fields.take("lint")
    if value == "ignore":
        return value
    if isinstance(value, list) and all(isinstance(code, str) for code in value):
        return list(value)
    fields.wrong("lint", value, "'ignore' or a list of codes of rules")
    return None
