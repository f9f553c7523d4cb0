"""The files used by Markdown tests: attachments, schemas and tools. Each is read once per suite.

The search for folders of prompts, schemas and tools is here, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import chain
from pathlib import PurePosixPath
from posixpath import splitext
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from proctor.dialects.ai_tester.markdown import decode_text
from proctor.dialects.shared.attachments import (
    AUDIO_MEDIA_TYPES,
    DOCUMENT_MEDIA_TYPES,
    VIDEO_MEDIA_TYPES,
)
from proctor.dialects.shared.yaml_files import display_path
from proctor.errors import suggestion
from proctor.model import Attachment, AttachmentKind, Message, Problem, Tool
from proctor.protocols import SourceFile, SuiteSource
from proctor.validation import FieldReader, ProblemLog, json_type, quote_value
from proctor.yaml12 import YamlError, load, to_plain

SCHEMA_FOLDERS: Final = ("structured-schemas", "schemas")
TOOL_FOLDERS: Final = ("tool-definitions", "tools")
TOOL_FIELDS: Final = ("id", "name", "description", "parameters")
IMAGE_MEDIA_TYPES: Final = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
}
TEXT_ENDINGS: Final = (
    *(".txt", ".md", ".yaml", ".yml", ".json", ".csv", ".tsv"),
    *(".html", ".xml", ".css", ".js", ".jsx", ".ts", ".tsx"),
)
"""Endings of files that are attached as text."""
_BYTES_KINDS: Final[dict[str, tuple[AttachmentKind, str]]] = {
    **{ending: ("image", media_type) for ending, media_type in IMAGE_MEDIA_TYPES.items()},
    **{ending: ("file", media_type) for ending, media_type in DOCUMENT_MEDIA_TYPES.items()},
    **{ending: ("audio", media_type) for ending, media_type in AUDIO_MEDIA_TYPES.items()},
    **{ending: ("video", media_type) for ending, media_type in VIDEO_MEDIA_TYPES.items()},
}
"""Endings of all other files, with the kind and media type of each."""
UNREADABLE_MESSAGE: Final = (
    "The file cannot be read. Check its permissions and, if it is a link, that its target exists."
)

_FILE_PLACEHOLDER: Final = re.compile(r"`\{\{\s*_file:([^{}\n]*)\}\}`|\{\{\s*_file:([^{}\n]*)\}\}")
_DEFINITION_ENDINGS: Final = (".yaml", ".yml", ".json")
_MAX_LEVELS_ABOVE: Final = 2
"""How many folders above the suite's are searched if it is in no repository."""


# --- folders -----------------------------------------------------------------------------------------------


def find_nearest(source: SuiteSource, folders: tuple[str, ...]) -> list[str]:
    """Returns the files in folders of these names, in the suite's folder or the nearest one above it.

    The search ends at the root of the suite's repository.
    """
    up = ""
    for _ in range(_count_levels_above(source) + 1):
        paths = [path for name in folders for path in source.expand_glob(f"{up}{name}/**/*")]
        if paths:
            return paths
        up += "../"
    return []


def _count_levels_above(source: SuiteSource) -> int:
    """Returns how many folders above the suite's may be searched."""
    depth = len(PurePosixPath(source.folder.replace("\\", "/")).parts) or _MAX_LEVELS_ABOVE
    for level in range(depth):
        up = "../" * level
        if source.expand_glob(f"{up}.git/") or source.expand_glob(f"{up}.git"):
            return level
    return min(depth, _MAX_LEVELS_ABOVE)


# --- what is read ------------------------------------------------------------------------------------------


class ReferencedFiles:
    """The attachments, schemas and tools that the tests of a suite use."""

    def __init__(self, source: SuiteSource) -> None:
        """Reads no file yet; each is read when a test first uses it."""
        self._source = source
        self._attachments: dict[str, Attachment | Problem] = {}
        self._schemas: _DefinitionIndex | None = None
        self._tools: _DefinitionIndex | None = None
        self.attached_paths: set[str] = set()
        """The paths of all attached files, relative to the suite's folder."""
        self._problems: list[Problem] = []

    def take_problems(self) -> list[Problem]:
        """Returns the problems with schemas and tools since the last call."""
        problems, self._problems = self._problems, []
        return problems

    # --- attachments ---

    def attach_files(self, message: Message, notes: ProblemLog, line: int) -> Message:
        """Returns a message with the files that its text names inserted at their places.

        If one is on a line with other text, the text around all of them keeps its white space.
        """
        text = message.content
        inline = any(_is_inline(text, match) for match in _FILE_PLACEHOLDER.finditer(text))
        parts: list[str | Attachment] = []
        end = 0
        for match in _FILE_PLACEHOLDER.finditer(text):
            parts.append(text[end : match.start()])
            attachment = self._get_attachment((match[1] or match[2] or "").strip(), notes, line)
            if attachment is not None:
                parts.append(attachment)
            end = match.end()
        parts.append(text[end:])
        if not inline:
            parts = [part.strip() if isinstance(part, str) else part for part in parts]
        filled_parts = tuple([part for part in parts if part])
        if not filled_parts:
            return message
        whole = replace(message, parts=filled_parts, inline=inline)
        return replace(
            whole, content=whole.between.join(part for part in filled_parts if isinstance(part, str))
        )

    def _get_attachment(self, path: str, notes: ProblemLog, line: int) -> Attachment | None:
        if path not in self._attachments:
            self._attachments[path] = self._read_attachment(path)
        result = self._attachments[path]
        if isinstance(result, Attachment):
            return result
        notes.error(result.code, result.message, line=line)
        return None

    def _read_attachment(self, path: str) -> Attachment | Problem:
        """Reads an attached file, or returns the problem with it."""
        ending = splitext(path.replace("\\", "/"))[1].lower()
        if ending not in (*_BYTES_KINDS, *TEXT_ENDINGS):
            endings = ", ".join((*TEXT_ENDINGS, *_BYTES_KINDS))
            message = (
                f"The attached file {quote_value(path)} has an unknown file extension. Known extensions: "
                f"{endings}."
            )
            return Problem(code="unknown-ending", message=message)
        file = self._source.find_file(path)
        if file is None:
            message = (
                f"The attached file {quote_value(path)} is not in the folder of the suite, a folder "
                f"above it in the same repository, or the working directory."
            )
            return Problem(code="missing-file", message=message)
        self.attached_paths.add(file.path)
        name = path.replace("\\", "/")
        if ending not in TEXT_ENDINGS:
            kind, media_type = _BYTES_KINDS[ending]
            return Attachment(kind=kind, path=name, media_type=media_type, data=file.data)
        try:
            text = file.data.decode("utf-8-sig").replace("\r\n", "\n")
        except UnicodeDecodeError as error:
            message = f"Byte {error.start + 1} of the attached text {quote_value(path)} is not UTF-8."
            return Problem(code="bad-encoding", message=f"{message} Save it as UTF-8.")
        return Attachment(kind="file", path=name, text=text)

    # --- schemas and tools ---

    def get_schema(self, fields: FieldReader, name: str) -> dict[str, Any] | None:
        """Returns the JSON schema with the id in a field, or None and an error."""
        schema_id = fields.required_text(name)
        if not schema_id:
            return None
        if self._schemas is None:
            self._schemas = _DefinitionIndex(self._source, SCHEMA_FOLDERS, _parse_schema)
            self._problems += self._schemas.problems
        parameters: dict[str, Any] | None = self._schemas.get(schema_id, fields, name)
        return parameters

    def get_tools(self, fields: FieldReader, name: str) -> tuple[Tool, ...]:
        """Returns the tools with the ids in a field; an unknown id is an error."""
        tool_ids = fields.texts(name)
        if not tool_ids and not fields.problem_log.has_error_at(name):
            fields.error("empty-list", name, "names no tool. List at least one, or remove the field.")
        if self._tools is None:
            self._tools = _DefinitionIndex(self._source, TOOL_FOLDERS, _parse_tool)
            self._problems += self._tools.problems
        definitions = [
            self._tools.get(tool_id, fields, f"{name}[{place}]")
            for place, tool_id in enumerate(tool_ids)
            if isinstance(tool_id, str)
        ]
        for place, tool in enumerate(definitions):
            if tool is not None and any(
                tool.name == other.name for other in definitions[:place] if other is not None
            ):
                message = f"is a second tool with the name {quote_value(tool.name)}. Keep one of them."
                fields.error("duplicate-tool", f"{name}[{place}]", message)
        return tuple([tool for tool in definitions if tool is not None])


def _is_inline(text: str, match: re.Match[str]) -> bool:
    """Whether other text, not counting further files, is on the line of a file placeholder."""
    end = text.find("\n", match.end())
    line = text[text.rfind("\n", 0, match.start()) + 1 : len(text) if end < 0 else end]
    return bool(_FILE_PLACEHOLDER.sub("", line).strip())


def has_file_placeholder(text: str) -> bool:
    """Whether a text contains a placeholder for a file."""
    return "{{" in text and _FILE_PLACEHOLDER.search(text) is not None


# --- definitions -------------------------------------------------------------------------------------------


class _Definition(Struct, frozen=True):
    path: str
    value: Any
    """None if the definition is invalid; its problem is noted."""


class _DefinitionIndex:
    """The schemas or the tools available to a suite, by id."""

    def __init__(
        self, source: SuiteSource, folders: tuple[str, ...], make: Callable[[FieldReader], Any]
    ) -> None:
        self._folders = " or ".join(f"`{name}/`" for name in folders)
        self._by_id: dict[str, _Definition] = {}
        self.problems: list[Problem] = []
        for path in find_nearest(source, folders):
            if path.lower().endswith(_DEFINITION_ENDINGS):
                self._add(source.find_file(path), ProblemLog(display_path(source, path), 1), make)

    def _add(self, file: SourceFile | None, notes: ProblemLog, make: Callable[[FieldReader], Any]) -> None:
        fields = _read_fields(file, notes)
        if fields is not None:
            name = fields.required_text("id")
            value = make(fields)
            if name in self._by_id:
                message = (
                    f"is {quote_value(name)}, which {self._by_id[name].path} has already. Rename one of them."
                )
                fields.error("duplicate-id", "id", message)
            elif name:
                self._by_id[name] = _Definition(notes.path, None if notes.has_errors else value)
        self.problems += notes.problems

    def get(self, definition_id: str, fields: FieldReader, name: str) -> Any:
        """Returns the definition with that id, or None and an error."""
        definition = self._by_id.get(definition_id)
        if definition is not None:
            return definition.value
        if self._by_id:
            hint = f"{suggestion(definition_id[:60], list(self._by_id))} They are in {self._folders}."
        else:
            hint = (
                f"No file in {self._folders} has an `id`. These folders are searched beside the tests "
                f"and in the folders above."
            )
        fields.error("unknown-id", name, f"is {quote_value(definition_id)}, which does not exist. {hint}")
        return None


def _read_fields(file: SourceFile | None, notes: ProblemLog) -> FieldReader | None:
    if file is None:
        notes.error("missing-file", UNREADABLE_MESSAGE)
        return None
    text = decode_text(file.data, notes)
    if text is None:
        return None
    try:
        row = load(text)
    except YamlError as error:
        notes.error("bad-yaml", str(error), line=error.line)
        return None
    if not isinstance(row, dict):
        message = f"The file is {json_type(row)}; it must be an object with an `id`."
        notes.error("wrong-type", message)
        return None
    return FieldReader(row, notes)


def _parse_schema(fields: FieldReader) -> dict[str, Any]:
    schema = {name: to_plain(fields.pop(name)) for name in fields.remaining_names()}
    _check_schema(schema, fields, "")
    return schema


def _parse_tool(fields: FieldReader) -> Tool:
    name = fields.required_text("name")
    description = fields.text("description") or ""
    parameters: Any = to_plain(fields.pop("parameters")) if "parameters" in fields else {}
    if not isinstance(parameters, dict):
        fields.report_wrong_type("parameters", parameters, "a JSON schema of the arguments")
    else:
        _check_schema(parameters, fields, "parameters")
    fields.finish(TOOL_FIELDS)
    return Tool(name=name, description=description, parameters=parameters)


def _check_schema(schema: dict[str, Any], fields: FieldReader, name: str) -> None:
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for

    try:
        validator_for(schema).check_schema(schema)
    except SchemaError as error:
        inside = ".".join(str(step) for step in chain([name] if name else [], error.absolute_path))
        message = f"is not a valid JSON schema: {error.message[:200]}."
        fields.error("bad-schema", inside or "id", message)
