"""Writes the files of an ai_tester suite and reads them back: tests, evaluators, schemas and tools."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from posixpath import normpath
from typing import Any, Final

from msgspec import Struct

from proctor.codec import encode
from proctor.dialects.ai_tester.attachments import SCHEMA_FOLDERS, TOOL_FOLDERS
from proctor.dialects.ai_tester.dialect import ASSISTANT_MARKER, DIALECT, ENDING, PROMPTS_FOLDER, USER_MARKER
from proctor.dialects.ai_tester.prompts import EVALUATOR_TAG, read_prompts
from proctor.dialects.shared.output_files import encode_text, unique_file_stem
from proctor.dialects.shared.yaml_writer import dump_yaml
from proctor.model import Case, Problem, ResponseFormat, Tool
from proctor.protocols import CaseAtLine, SourceFile, SuiteSource

README: Final = f"{PROMPTS_FOLDER}/README.md"
NO_PROMPTS_TEXT: Final = (
    b"The tests beside this folder need no prompts. While it is here, no other one is used.\n"
)
"""The README of an empty prompts folder. Without it, prompts in a folder above would be used."""

_TURN_MARKERS: Final = {"user": USER_MARKER, "assistant": ASSISTANT_MARKER}
_ALL_FILES: Final = "/**/*"
_NON_NAME: Final = re.compile(r"[^\w-]+")


class MarkdownTest(Struct, frozen=True, kw_only=True):
    """The content of a test file."""

    front: Mapping[str, Any] = {}
    system: str = ""
    turns: Sequence[tuple[str, str]] = (("user", "?"),)
    """Roles and texts."""
    instructions: str = "?"

    def encode(self) -> bytes:
        """Returns the content as bytes."""
        begin = f"---\n{dump_yaml(dict(self.front)) if self.front else ''}---\n\n"
        if not self.front and not self.system.startswith("---"):
            begin = ""
        turns = [f"{_TURN_MARKERS[role]}\n\n{text}" for role, text in self.turns]
        parts = [*filter(None, [self.system]), *turns, "---", self.instructions]
        return encode_text(begin + "\n\n".join(parts) + "\n")


# --- reading -----------------------------------------------------------------------------------------------


def read_back(
    path: str, test: MarkdownTest, files: Mapping[str, bytes]
) -> tuple[Case | None, Problem | None]:
    """Reads a test back with these files beside it. Returns the case, or None and the problem."""
    items = list(DIALECT.read(_make_source({**files, path: test.encode()})))
    cases = [item.case for item in items if isinstance(item, CaseAtLine)]
    wrong = [item for item in items if isinstance(item, Problem) and item.level == "error"]
    if len(cases) == 1 and not wrong:
        return cases[0], None
    return None, wrong[0] if wrong else None


def _make_source(files: Mapping[str, bytes]) -> SuiteSource:
    def find(reference: str) -> SourceFile | None:
        path = normpath(reference)
        return SourceFile(path=path, data=files[path]) if path in files else None

    def expand(pattern: str) -> list[str]:
        if pattern.startswith(".git"):
            return [pattern]  # no folder above is searched
        if pattern.endswith(_ALL_FILES):
            return sorted(path for path in files if path.startswith(pattern.removesuffix("**/*")))
        return sorted(path for path in files if path.endswith(ENDING))

    return SuiteSource(
        path="suite", read_lines=lambda: (), find_file=find, expand_glob=expand, is_folder=True
    )


# --- evaluators --------------------------------------------------------------------------------------------


def render_evaluators(evaluators: Sequence[Mapping[str, Any]]) -> dict[str, bytes] | None:
    """Returns prompt files that are read as these evaluators, in order; None if that is impossible."""
    used_stems: set[str] = set()
    try:
        names = [
            f"{unique_file_stem(evaluator['id'].replace('/', '-'), used_stems)}{ENDING}"
            for evaluator in evaluators
        ]
        if names != sorted(names):
            names = [f"{number:04d}-{name}" for number, name in enumerate(names, 1)]
        files = {
            f"{PROMPTS_FOLDER}/{name}": _render_evaluator(
                evaluator["id"], evaluator["system"], evaluator["user"]
            )
            for name, evaluator in zip(names, evaluators, strict=True)
        }
    except (KeyError, TypeError, AttributeError):
        return None
    prompts = read_prompts(_make_source(files), sorted(files))
    wrong = any(problem.level == "error" for problem in prompts.problems)
    return None if wrong or encode(prompts.evaluators) != encode(evaluators) else files


def _render_evaluator(name: str, system: str, user: str) -> bytes:
    front = dump_yaml({"id": name, "tags": [EVALUATOR_TAG]})
    return encode_text(f"---\n{front}---\n\n{system}\n\n{USER_MARKER}\n\n{user}\n")


# --- schemas and tools -------------------------------------------------------------------------------------


def render_definitions(form: ResponseFormat | None) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Returns the fields of a test that name its schema and tools, and the files with those."""
    front: dict[str, Any] = {}
    files: dict[str, bytes] = {}
    if form is not None and form.schema is not None:
        name = f"schema-{_digest(form.schema)}"
        front["structuredResponseSchema"] = name
        files[f"{SCHEMA_FOLDERS[0]}/{name}.yaml"] = _render_definition({**form.schema, "id": name})
    if form is not None and form.tools:
        front["availableTools"] = [_make_tool_id(tool) for tool in form.tools]
        files |= {f"{TOOL_FOLDERS[0]}/{_make_tool_id(tool)}.yaml": _render_tool(tool) for tool in form.tools}
    return front, files


def _render_tool(tool: Tool) -> bytes:
    fields = {"description": tool.description, "parameters": tool.parameters}
    row = {"id": _make_tool_id(tool), "name": tool.name}
    return _render_definition(row | {name: value for name, value in fields.items() if value})


def _make_tool_id(tool: Tool) -> str:
    return f"{_NON_NAME.sub('-', tool.name)[:40]}-{_digest(tool)}"


def _render_definition(row: Mapping[str, Any]) -> bytes:
    return dump_yaml(dict(sorted(row.items(), key=lambda pair: pair[0] != "id"))).encode("utf-8")


def _digest(thing: Any) -> str:
    return sha256(encode(thing)).hexdigest()[:8]


def is_in_reserved_folder(paths: Iterable[str]) -> bool:
    """Whether a file would be in a folder of schemas, tools or prompts."""
    reserved = {PROMPTS_FOLDER, *SCHEMA_FOLDERS, *TOOL_FOLDERS}
    return any(reserved.intersection(path.split("/")[:-1]) for path in paths)
