"""The files used by Markdown tests: attachments, schemas and tools. Each is read once per suite.

The search for folders of prompts, schemas and tools is here, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import chain
from pathlib import PurePosixPath
from posixpath import basename, splitext
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from proctor.dialects.ai_tester.markdown import text_of
from proctor.dialects.shared.attachments import DOCUMENTS
from proctor.dialects.shared.yaml_files import shown_path
from proctor.errors import suggestion
from proctor.model import Attachment, Message, Problem, Tool
from proctor.protocols import Found, Source
from proctor.validation import Fields, Notes, kind_of, shown
from proctor.yaml12 import BadYaml, load, plain

SCHEMA_FOLDERS: Final = ("structured-schemas", "schemas")
TOOL_FOLDERS: Final = ("tool-definitions", "tools")
TOOL: Final = ("id", "name", "description", "parameters")
IMAGES: Final = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
}
TEXTS: Final = (
    *(".txt", ".md", ".yaml", ".yml", ".json", ".csv", ".tsv"),
    *(".html", ".xml", ".css", ".js", ".jsx", ".ts", ".tsx"),
)
"""Endings of files that are attached as text."""
UNREADABLE: Final = "The file cannot be read. May you read it, and does it lead anywhere if it is a link?"

_FILE: Final = re.compile(r"`\{\{\s*_file:([^{}\n]*)\}\}`|\{\{\s*_file:([^{}\n]*)\}\}")
_DEFINITIONS: Final = (".yaml", ".yml", ".json")
_ABOVE: Final = 2
"""How many folders above the suite's are searched if it is in no repository."""


# --- folders -----------------------------------------------------------------------------------------------


def nearest(source: Source, folders: tuple[str, ...]) -> list[str]:
    """Returns the files in folders of these names, in the suite's folder or the nearest one above it.

    The search ends at the root of the suite's repository.
    """
    up = ""
    for _ in range(_levels_above(source) + 1):
        paths = [path for name in folders for path in source.expand(f"{up}{name}/**/*")]
        if paths:
            return paths
        up += "../"
    return []


def _levels_above(source: Source) -> int:
    """Returns how many folders above the suite's may be searched."""
    depth = len(PurePosixPath(source.folder.replace("\\", "/")).parts) or _ABOVE
    for level in range(depth):
        up = "../" * level
        if source.expand(f"{up}.git/") or source.expand(f"{up}.git"):
            return level
    return min(depth, _ABOVE)


def is_readme(path: str) -> bool:
    """Whether a file is a README, which is neither a test nor a prompt."""
    return basename(path).lower() == "readme.md"


# --- what is read ------------------------------------------------------------------------------------------


class Library:
    """The attachments, schemas and tools that the tests of a suite use."""

    def __init__(self, source: Source) -> None:
        """Reads no file yet; each is read when a test first uses it."""
        self._source = source
        self._attachments: dict[str, Attachment | Problem] = {}
        self._schemas: _Definitions | None = None
        self._tools: _Definitions | None = None
        self.attached: set[str] = set()
        """The paths of all attached files, relative to the suite's folder."""
        self._problems: list[Problem] = []

    def take_problems(self) -> list[Problem]:
        """Returns the problems with schemas and tools since the last call."""
        problems, self._problems = self._problems, []
        return problems

    # --- attachments ---

    def with_files(self, message: Message, notes: Notes, line: int) -> Message:
        """Returns a message with the files that its text names inserted at their places.

        If one is on a line with other text, the text around all of them keeps its white space.
        """
        text = message.content
        inline = any(_is_in_text(text, match) for match in _FILE.finditer(text))
        parts: list[str | Attachment] = []
        end = 0
        for match in _FILE.finditer(text):
            parts.append(text[end : match.start()])
            attachment = self._attachment((match[1] or match[2] or "").strip(), notes, line)
            parts += [] if attachment is None else [attachment]
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

    def _attachment(self, path: str, notes: Notes, line: int) -> Attachment | None:
        if path not in self._attachments:
            self._attachments[path] = self._read(path)
        result = self._attachments[path]
        if isinstance(result, Attachment):
            return result
        notes.error(result.code, result.message, line=line)
        return None

    def _read(self, path: str) -> Attachment | Problem:
        """Reads an attached file, or returns the problem with it."""
        ending = splitext(path.replace("\\", "/"))[1].lower()
        if ending not in (*IMAGES, *DOCUMENTS, *TEXTS):
            endings = ", ".join((*TEXTS, *IMAGES, *DOCUMENTS))
            message = (
                f"The attached file {shown(path)} has an ending that is not known. Known are: {endings}."
            )
            return Problem(code="unknown-ending", message=message)
        file = self._source.find(path)
        if file is None:
            message = (
                f"The attached file {shown(path)} is not in the suite's folder, a folder above it in its "
                "repository, or the working directory."
            )
            return Problem(code="missing-file", message=message)
        self.attached.add(file.path)
        name = path.replace("\\", "/")
        if ending not in TEXTS:
            kind: Any = "image" if ending in IMAGES else "file"
            media_type = IMAGES.get(ending) or DOCUMENTS[ending]
            return Attachment(kind=kind, path=name, media_type=media_type, data=file.data)
        try:
            text = file.data.decode("utf-8-sig").replace("\r\n", "\n")
        except UnicodeDecodeError as error:
            message = f"Byte {error.start + 1} of the attached text {shown(path)} is not UTF-8."
            return Problem(code="bad-encoding", message=f"{message} Save it as UTF-8.")
        return Attachment(kind="file", path=name, text=text)

    # --- schemas and tools ---

    def schema(self, fields: Fields, name: str) -> dict[str, Any] | None:
        """Returns the JSON schema with the id in a field, or None and an error."""
        schema_id = fields.required_text(name)
        if not schema_id:
            return None
        if self._schemas is None:
            self._schemas = _Definitions(self._source, SCHEMA_FOLDERS, _schema)
            self._problems += self._schemas.problems
        parameters: dict[str, Any] | None = self._schemas.get(schema_id, fields, name)
        return parameters

    def tools(self, fields: Fields, name: str) -> tuple[Tool, ...]:
        """Returns the tools with the ids in a field; an unknown id is an error."""
        tool_ids = fields.texts(name)
        if not tool_ids and not fields.notes.noted(name):
            fields.error("empty-list", name, "names no tool. Name some, or remove the field.")
        if self._tools is None:
            self._tools = _Definitions(self._source, TOOL_FOLDERS, _tool)
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
                message = f"is a second tool with the name {shown(tool.name)}. Keep one of them."
                fields.error("duplicate-tool", f"{name}[{place}]", message)
        return tuple([tool for tool in definitions if tool is not None])


def _is_in_text(text: str, match: re.Match[str]) -> bool:
    """Whether other text, not counting further files, is on the line of a file placeholder."""
    end = text.find("\n", match.end())
    line = text[text.rfind("\n", 0, match.start()) + 1 : len(text) if end < 0 else end]
    return bool(_FILE.sub("", line).strip())


def refers(text: str) -> bool:
    """Whether a text contains a placeholder for a file."""
    return "{{" in text and _FILE.search(text) is not None


# --- definitions -------------------------------------------------------------------------------------------


class _Definition(Struct, frozen=True):
    path: str
    value: Any
    """None if the definition is invalid; its problem is noted."""


class _Definitions:
    """The schemas or the tools available to a suite, by id."""

    def __init__(self, source: Source, folders: tuple[str, ...], make: Callable[[Fields], Any]) -> None:
        self._folders = " or ".join(f"`{name}/`" for name in folders)
        self._by_id: dict[str, _Definition] = {}
        self.problems: list[Problem] = []
        for path in nearest(source, folders):
            if path.lower().endswith(_DEFINITIONS):
                self._add(source.find(path), Notes(shown_path(source, path), 1), make)

    def _add(self, file: Found | None, notes: Notes, make: Callable[[Fields], Any]) -> None:
        fields = _fields(file, notes)
        if fields is not None:
            name = fields.required_text("id")
            value = make(fields)
            if name in self._by_id:
                message = f"is {shown(name)}, which {self._by_id[name].path} has already. Rename one of them."
                fields.error("duplicate-id", "id", message)
            elif name:
                self._by_id[name] = _Definition(notes.path, None if notes.failed else value)
        self.problems += notes.problems

    def get(self, definition_id: str, fields: Fields, name: str) -> Any:
        """Returns the definition with that id, or None and an error."""
        definition = self._by_id.get(definition_id)
        if definition is not None:
            return definition.value
        if self._by_id:
            hint = f"{suggestion(definition_id[:60], list(self._by_id))} They stand in {self._folders}."
        else:
            hint = f"There is no file with an `id` in {self._folders} beside the tests or above."
        fields.error("unknown-id", name, f"is {shown(definition_id)}, which is not there. {hint}")
        return None


def _fields(file: Found | None, notes: Notes) -> Fields | None:
    if file is None:
        notes.error("missing-file", UNREADABLE)
        return None
    text = text_of(file.data, notes)
    if text is None:
        return None
    try:
        row = load(text)
    except BadYaml as error:
        notes.error("bad-yaml", str(error), line=error.line)
        return None
    if not isinstance(row, dict):
        message = f"The file is {kind_of(row)}; it must be an object with an `id`."
        notes.error("wrong-type", message)
        return None
    return Fields(row, notes)


def _schema(fields: Fields) -> dict[str, Any]:
    schema = {name: plain(fields.take(name)) for name in fields.names()}
    _check_schema(schema, fields, "")
    return schema


def _tool(fields: Fields) -> Tool:
    name = fields.required_text("name")
    description = fields.text("description") or ""
    parameters: Any = plain(fields.take("parameters")) if "parameters" in fields else {}
    if not isinstance(parameters, dict):
        fields.wrong("parameters", parameters, "a JSON schema of the arguments")
    else:
        _check_schema(parameters, fields, "parameters")
    fields.finish(TOOL)
    return Tool(name=name, description=description, parameters=parameters)


def _check_schema(schema: dict[str, Any], fields: Fields, name: str) -> None:
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for

    try:
        validator_for(schema).check_schema(schema)
    except SchemaError as error:
        inside = ".".join(str(step) for step in chain([name] if name else [], error.absolute_path))
        message = f"is no JSON schema: {error.message[:200]}."
        fields.error("bad-schema", inside or "id", message)
