"""Reads Markdown tests of the dialect ai_tester as a suite: one file, or all files of a folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from posixpath import basename, normpath
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from proctor.dialects.ai_tester.attachments import (
    UNREADABLE_MESSAGE,
    ReferencedFiles,
    has_file_placeholder,
)
from proctor.dialects.ai_tester.dialect import ENDING, USER_MARKER, has_user_turn, is_readme
from proctor.dialects.ai_tester.markdown import Conversation, decode_text, parse_conversation, parse_document
from proctor.dialects.ai_tester.placeholders import (
    ReplacementGroup,
    Values,
    check_replacements,
    expand_versions,
    fill,
    get_first_line,
    make_brackets,
    parse_groups,
)
from proctor.dialects.ai_tester.prompts import (
    EVALUATOR_TAG,
    SPECIAL_TAGS,
    is_prompt,
    read_prompts,
    warn_of_special_tag,
)
from proctor.dialects.shared.jsonl import file_name, read_all
from proctor.dialects.shared.yaml_files import display_path
from proctor.errors import suggestion
from proctor.model import (
    Assertion,
    Case,
    Message,
    Problem,
    PromptTemplate,
    ResponseFormat,
    Suite,
    SuiteDefaults,
    Tool,
    UnreadableRow,
)
from proctor.protocols import CaseAtLine, SuiteSource
from proctor.validation import FieldReader, ProblemLog, quote_value
from proctor.yaml12 import to_plain

TEST_FIELDS: Final = (
    *("systemPrompts", "tags", "replacements", "structuredResponseSchema", "availableTools"),
    *("lint", "proctor"),
)
"""The fields that the front matter of a test may have."""
_PROMPTS_FIELD: Final = b"systemPrompts"
LOSSES_FIELD: Final = "proctor"
"""The field with what the format could not express, in a converted suite."""


def make_assertion(evaluators: list[dict[str, str]]) -> Assertion:
    """Returns the one assertion of every test in a folder; judgments are combined by their mean."""
    params: dict[str, Any] = {"evaluators": evaluators} if evaluators else {}
    return Assertion(grader="instructions", params={**params, "rule": "mean"})


class _FrontMatter(Struct, frozen=True):
    """The front matter of a test."""

    prompts: tuple[tuple[str, str], ...]
    """Labels and texts of the system prompts; a pair of empty texts for a test without any."""
    tags: tuple[str, ...]
    form: ResponseFormat | None
    extra_metadata: dict[str, Any]
    """Copied to the metadata unchanged."""
    groups: tuple[ReplacementGroup, ...]


# --- the suite ---------------------------------------------------------------------------------------------


def parse_suite(source: SuiteSource) -> Iterator[Suite | CaseAtLine | Problem]:
    """Yields the header, the cases by file and line, and each problem where it occurs."""
    name = suite_name(source)
    inside = source.expand_glob("**/*") if source.is_folder else []
    inside = [path for path in inside if path.lower().endswith(ENDING)]
    tests = [path for path in inside if not (is_readme(path) or is_prompt(path, source))]
    single = None if source.is_folder else read_all(source)
    reader = _FolderReader(source, inside)
    files = (file.data for path in tests if (file := source.find_file(path)) is not None)
    prompts = reader.share_prompts(files if single is None else (single,))
    defaults = SuiteDefaults(reuse=True, cluster="metadata.file", prompts=prompts)
    yield Suite(name=name, dialect="ai_tester", defaults=defaults, folder=source.folder)
    yield from reader.prompts.problems
    if single is not None:
        path = file_name(source.path).name or f"{name}{ENDING}"
        yield from reader.read_file(path, single)
    for path in tests:
        file = source.find_file(path)
        if file is None or file.path != path:
            where = display_path(source, path)
            row = UnreadableRow(path=where, line=1)
            yield Problem(code="missing-file", message=UNREADABLE_MESSAGE, path=where, line=1, row=row)
        else:
            yield from reader.read_file(path, file.data)
    yield from reader.report_unused_files()
    for folder in _find_linked_folders(source, inside) if source.is_folder else ():
        message = (
            "The folder is a symbolic link, which is not followed. Move the tests here, or pass the "
            "folder as its own suite."
        )
        where = display_path(source, folder)
        yield Problem(
            code="linked-folder", message=message, path=where, row=UnreadableRow(path=where, line=1)
        )


def _find_linked_folders(source: SuiteSource, inside: list[str]) -> Iterator[str]:
    """Yields linked folders, whose Markdown files `**` does not find."""
    folders = {parent.as_posix() for path in inside for parent in PurePosixPath(path).parents}
    for folder in source.expand_glob("**/*/"):
        below = source.expand_glob(f"{folder}/**/*") if folder not in folders else []
        texts = [path for path in below if path.lower().endswith(ENDING) and not is_readme(path)]
        if not all(is_prompt(path, source) for path in texts):
            yield folder


def suite_name(source: SuiteSource) -> str:
    """Returns the name of the suite's folder, or of its file without the ending."""
    if not source.is_folder:
        return file_name(source.path).stem or "suite"
    name = basename(normpath(source.path.replace("\\", "/")))
    return name if name.strip("./") else basename(source.folder) or "suite"


def _make_template(name: str, text: str) -> PromptTemplate:
    message = Message(role="system", content=text)
    is_literal = any(mark in text for mark in ("{{", "{%", "{#"))
    return PromptTemplate(name=name, messages=(message,), is_literal=is_literal)


class _FolderReader:
    """Reads the files of one suite, one after the other."""

    def __init__(self, source: SuiteSource, inside: list[str]) -> None:
        self._source = source
        self._files = ReferencedFiles(source)
        self.prompts = read_prompts(source, inside)
        self._assertions = (make_assertion(list(self.prompts.evaluators)),)
        self._not_tests: dict[str, Problem] = {}
        self._has_shared_prompts = False

    def share_prompts(self, files: Iterable[bytes]) -> tuple[PromptTemplate, ...]:
        """Returns the prompts of the suite, which are those of the tests that have several.

        Any other test is sent with its own prompt, if it has one. Call it before `read_file`.

        Args:
            files: the tests, which are read twice as the header of a suite comes first.
        """
        texts = {name: text for versions in self.prompts.system.values() for name, text in versions}
        names = set[str]()
        for data in files if len(texts) > 1 else ():
            if _PROMPTS_FIELD in data:
                names.update(self._list_several_prompts(data))
        self._has_shared_prompts = bool(names)
        return tuple([_make_template(name, text) for name, text in texts.items() if name in names])

    def _list_several_prompts(self, data: bytes) -> list[str]:
        """Returns the names of the prompts of a test that has several; else, or in case of errors, none."""
        notes = ProblemLog("", 1)  # `read_file` reports the problems
        text = decode_text(data, notes)
        document = None if text is None else parse_document(text, notes)
        prompts = () if document is None else self._select_prompts(FieldReader(document.front, notes))
        return [name for name, _ in prompts] if len(prompts) > 1 else []

    def read_file(self, path: str, data: bytes) -> Iterator[CaseAtLine | Problem]:
        """Yields the cases of one file, or its problems.

        Args:
            path: of the file, relative to the suite's folder.
            data: all of it.
        """
        where = display_path(self._source, path) if self._source.is_folder else self._source.path
        notes = ProblemLog(where, 1, "Test", of_case=True)
        text = decode_text(data, notes)
        if text is not None and not has_user_turn(text):
            message = (
                f"The file is not a test: no line begins with `{USER_MARKER}`. Begin a turn with that "
                f"marker, or move the file out of the tests folder."
            )
            row = UnreadableRow(path=where, line=1)
            self._not_tests[path] = Problem(code="not-a-test", message=message, path=where, line=1, row=row)
            return
        cases = [] if text is None else self._parse_cases(path, text, notes)
        yield from self._files.take_problems()
        row = UnreadableRow(path=where, line=1, cases=max(1, len(cases)))
        # Versions may share a problem.
        for problem in sorted(dict.fromkeys(notes.problems), key=lambda problem: problem.line or 0):
            yield problem if problem.row is None else replace(problem, row=row)
        if not notes.has_errors:
            yield from cases

    def report_unused_files(self) -> Iterator[Problem]:
        """Yields a problem for each file that is neither a test nor attached to one."""
        for path, problem in self._not_tests.items():
            if path not in self._files.attached_paths:
                yield problem

    def _parse_cases(self, path: str, text: str, notes: ProblemLog) -> list[CaseAtLine]:
        _check_path(path, notes)
        document = parse_document(text, notes)
        if document is None:
            return []
        heading = self._parse_front_matter(FieldReader(document.front, notes))
        talk = parse_conversation(document, notes)
        if not notes.has_error_at("replacements"):
            check_replacements(heading.groups, talk.placeholders, talk.length, notes)
        if notes.has_errors:
            return []
        rows = list(expand_versions(heading.groups))
        first_numbers: dict[tuple[str, ...], int] = {}
        cases: list[CaseAtLine] = []
        for number, (values, bracket) in enumerate(zip(rows, make_brackets(rows), strict=True), 1):
            version = _fill_version(talk, values)
            if first_numbers.setdefault(version, number) != number:
                first = first_numbers[version]
                message = f"Versions {first} and {number} of the test are the same. Remove one of them."
                notes.error("duplicate-version", message, "replacements", line=get_first_line(heading.groups))
            cases.append(self._build_case(path, bracket, values, version, talk, heading, notes))
        return cases

    # --- front matter ---

    def _parse_front_matter(self, fields: FieldReader) -> _FrontMatter:
        prompts = self._select_prompts(fields)
        tags = _parse_tags(fields)
        form = self._parse_form(fields, tags)
        groups = parse_groups(fields, "replacements")
        extra_metadata = {"lint": _parse_lint(fields), LOSSES_FIELD: to_plain(fields.pop(LOSSES_FIELD))}
        fields.finish(TEST_FIELDS)
        return _FrontMatter(
            prompts,
            tags,
            form,
            {name: value for name, value in extra_metadata.items() if value is not None},
            groups,
        )

    def _select_prompts(self, fields: FieldReader) -> tuple[tuple[str, str], ...]:
        if "systemPrompts" not in fields:
            return (("", ""),)
        names = fields.texts("systemPrompts")
        if not names and not fields.problem_log.has_error_at("systemPrompts"):
            message = "is an empty list, so the test would not run. Name a prompt, or remove the field."
            fields.error("empty-list", "systemPrompts", message)
        selection: list[tuple[str, str]] = []
        for place, name in enumerate(names):
            field = f"systemPrompts[{place}]"
            if name in names[:place]:
                fields.error(
                    "duplicate-prompt", field, f"lists {quote_value(name)} twice. Remove one of them."
                )
            elif name in self.prompts.evaluator_ids:
                fields.error("evaluator-prompt", field, f"is {quote_value(name)}, which is a judge prompt.")
            elif name in self.prompts.system:
                selection.extend(self.prompts.system[name] or [(name, "")])
            elif isinstance(name, str):
                ids = list(self.prompts.system)
                advice = (
                    "There is no prompt in a folder `prompts/` inside the tests folder, beside it or "
                    "above it."
                )
                hint = suggestion(name[:60], ids) if ids else advice
                fields.error(
                    "unknown-prompt", field, f"is {quote_value(name)}, and no prompt has that id. {hint}"
                )
        return tuple(selection)

    def _parse_form(self, fields: FieldReader, tags: tuple[str, ...]) -> ResponseFormat | None:
        special = tuple(sorted(tag for tag in dict.fromkeys(tags) if tag in SPECIAL_TAGS))
        schema: dict[str, Any] | None = None
        tools: tuple[Tool, ...] = ()
        if "structuredResponseSchema" in fields and "availableTools" in fields:
            message = "cannot be combined with `structuredResponseSchema`. Keep one of them."
            fields.error("conflicting-fields", "availableTools", message)
        if "structuredResponseSchema" in fields:
            schema = self._files.get_schema(fields, "structuredResponseSchema")
        if "availableTools" in fields:
            tools = self._files.get_tools(fields, "availableTools")
        if not special and schema is None and not tools:
            return None
        return ResponseFormat(json="_json_mode" in special, schema=schema, tools=tools, special_tags=special)

    # --- cases ---

    def _build_case(
        self,
        path: str,
        bracket: str,
        values: Values,
        version: tuple[str, ...],
        talk: Conversation,
        heading: _FrontMatter,
        notes: ProblemLog,
    ) -> CaseAtLine:
        """Returns the case of one version; a single prompt is part of its input."""
        own, *texts, instructions = version
        stem = path[: -len(ENDING)] if path.lower().endswith(ENDING) else path
        turns = self._build_turns(texts, talk, notes)
        _check_version(version, turns, talk, notes)
        names: tuple[str, ...] | None = () if self._has_shared_prompts else None
        word, prompt = heading.prompts[0] if len(heading.prompts) == 1 else ("", "")
        if len(heading.prompts) > 1:
            names = tuple([name for name, _ in heading.prompts])
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
            prompts=names,
        )
        return CaseAtLine(case, talk.turns[0].begin, notes.path if self._source.is_folder else None)

    def _build_turns(self, texts: list[str], talk: Conversation, notes: ProblemLog) -> tuple[Message, ...]:
        messages: list[Message] = []
        for text, turn in zip(texts, talk.turns, strict=True):
            message = Message(role=turn.role, content=text)
            if turn.role == "user" and has_file_placeholder(text):
                message = self._files.attach_files(message, notes, turn.line)
            messages.append(message)
        return tuple(messages)


def _fill_version(talk: Conversation, values: Values) -> tuple[str, ...]:
    """Returns the system text, the turns and the instructions of a test, with the values filled in."""
    texts = (talk.system, *(turn.text for turn in talk.turns), talk.instructions)
    return tuple([fill(text, values).strip() for text in texts]) if values else texts


def _check_version(
    version: tuple[str, ...], turns: tuple[Message, ...], talk: Conversation, notes: ProblemLog
) -> None:
    own, *_, instructions = version
    for message, turn in zip(turns, talk.turns, strict=True):
        if not message.content and not message.parts:
            text = f"The turn of the {turn.role} is empty after its replacements are filled in."
            notes.error("empty-turn", text, line=turn.line)
    if not instructions:
        text = "The grading instructions are empty after their replacements are filled in."
        notes.error("no-instructions", text, line=talk.turns[-1].line)
    others = [own, instructions, *(message.content for message in turns if message.role != "user")]
    if any(map(has_file_placeholder, others)):
        text = "`{{_file:…}}` is outside a user turn; only user turns can have files."
        notes.error("misplaced-file", text, line=talk.turns[0].line)


def _check_path(path: str, notes: ProblemLog) -> None:
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        notes.path = notes.path.encode("utf-8", "backslashreplace").decode("utf-8")
        notes.error("bad-name", "The name of the file is not UTF-8. Rename the file.")


def _parse_tags(fields: FieldReader) -> tuple[str, ...]:
    tags = fields.texts("tags")
    for place, tag in enumerate(tags):
        if tag == EVALUATOR_TAG:
            message = f"is `{EVALUATOR_TAG}`, which marks judge prompts, but this is a test. Remove it."
            fields.error("evaluator-tag", f"tags[{place}]", message)
        elif isinstance(tag, str) and tag.startswith("_") and tag not in SPECIAL_TAGS:
            warn_of_special_tag(tag, fields, f"tags[{place}]")
    return tuple(dict.fromkeys(tags))


def is_lint(value: Any) -> bool:
    """Whether a value may be `lint`: `ignore`, or codes of rules to silence for a test."""
    return value == "ignore" or (isinstance(value, list) and all(isinstance(code, str) for code in value))


def _parse_lint(fields: FieldReader) -> Any:
    if "lint" not in fields:
        return None
    value: Any = fields.pop("lint")
    if is_lint(value):
        return to_plain(value)
    fields.report_wrong_type("lint", value, "'ignore' or a list of codes of rules")
    return None
