"""One case to one test of the dialect agentv, and what the format cannot express of it.

A test is written as well as possible, then read back, and each field of the case that differs is noted. So
the result is right whatever the reader does.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, nextafter
from posixpath import normpath
from typing import Any, Final

from msgspec.structs import replace

from proctor.codec import encode
from proctor.dialects.agentv.read.assertions import DEFAULT_ASSERTION
from proctor.dialects.agentv.read.messages import ROLES, parse_expected, parse_input
from proctor.dialects.agentv.read.test_files import RawTest
from proctor.dialects.agentv.read.tests import UNUSED_FIELDS, SuiteLevel, parse_test
from proctor.dialects.agentv.read.workspace import HOOK_NAMES
from proctor.dialects.agentv.shared import PROSE_FIELDS
from proctor.dialects.agentv.write.assertions import UnsupportedAssertion, render_assertion
from proctor.dialects.shared.losses import LossReport
from proctor.env_substitution import names_in
from proctor.model import Attachment, Case, Hook, Message, Repository, ToolCall, Workspace
from proctor.protocols import SourceFile, SuiteSource
from proctor.validation import FieldReader, ProblemLog
from proctor.yaml12 import MAX_NESTING

DIALECT_NAME: Final = "agentv"
UNUSED_WORKSPACE_FIELDS: Final = ("mode", "docker", "env")
"""Fields of a workspace that have no effect."""
LOST_CHECK: Final = {"type": "regex", "name": "lost-check", "value": "(?!)", "required": True}
"""Replaces a check that the format cannot express: it never matches, so no test passes by losing it."""

_OUTER_LEVELS: Final = 3
"""Nesting levels above the value of a test's field: suite, list of tests, test."""
_FIELD_PLACES: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "criteria": (("criteria",), "its criteria must be text that is not blank."),
    "category": (("category",), "its category must be text that is not empty and contains no variable."),
    "tags": (
        (),
        "it keeps tags in the metadata, and the hooks of a workspace receive the metadata unchanged.",
    ),
    "repeats": (
        (),
        "all tests of a suite have the same number of repeats and the same rule for combining them.",
    ),
    "pass_rule": (("execution", "threshold"), "the pass threshold of a test must be from 0 to 1."),
    "target": (("execution", "target"), "the name of a target must not be blank or contain a variable."),
    "only_targets": (("execution", "targets"), "the names of targets must not contain variables."),
    "workspace": (("workspace",), "it cannot express this workspace."),
    "form": ((), "its tests can contain only messages."),
    "notes": ((), "it has no such fields."),
    **dict.fromkeys(
        ("vars", "prefix", "suffix", "prompts"), ((), "its tests must contain the whole prompt.")
    ),
}
"""The place of each field of a case in a test, and the message if it cannot be written there."""


class CaseDraft:
    """One case while it is rendered."""

    __slots__ = ("_case", "_source", "_suite_level", "fatal_losses", "losses", "row")

    def __init__(
        self, case: Case, common: SuiteLevel, files: Mapping[str, bytes] | None, unsaid: LossReport
    ) -> None:
        """Renders the case as far as the format allows.

        Args:
            case: what to write.
            common: what the suite gives to each of its tests.
            files: the files that the case refers to; None if they cannot be written beside the suite.
            unsaid: collects what the format cannot express and may be lost.
        """
        self._case = case
        self._suite_level = common
        # An empty value differs from what was written, so any use of a variable is noticed.
        source = SuiteSource(path="", read_lines=lambda: (), environ=dict.fromkeys(case.variables, ""))
        self._source = _source_with_files(source, files or {})
        self.losses = unsaid
        self.fatal_losses = LossReport(case, DIALECT_NAME, lossy=False)
        """What cannot be written, not even in a lossy conversion."""
        fields = {
            "id": case.id,
            "criteria": case.criteria,
            "category": case.category,
            "input": self._render_input(files is not None),
            "expected_output": self._render_expected(),
            "execution": _render_execution(case),
            "workspace": None if case.workspace is None else _render_workspace(case.workspace),
            "assertions": self._render_assertions(),
        }
        self.row: dict[str, Any] = {name: value for name, value in fields.items() if value is not None}
        """The rendered test."""
        self._add_notes()

    @property
    def is_refused(self) -> bool:
        """Whether the case cannot be written."""
        return self.losses.is_refused or self.fatal_losses.is_refused

    def finalize(self, above: Mapping[str, Any]) -> None:
        """Reads the test back, notes and drops what differs, and adds the metadata.

        Args:
            above: what was lost of the suite, which this case keeps.
        """
        strangers = sorted(set(names_in(replace(self._case, notes={}))) - set(self._case.variables))
        if strangers:
            name = f"`${{{{ {strangers[0]} }}}}`"
            self.fatal_losses.note(
                "variables", f"{name} is plain text here and would be an environment variable there."
            )
            return
        notes = self._read_back(above)
        if self.losses.lost_fields:
            notes = self._read_back(above)
        if notes.has_errors and not self.is_refused:
            wrong = next(problem for problem in notes.problems if problem.level == "error")
            self.fatal_losses.note("id", f"the test would be rejected. {wrong.message}")
        self._check_depth()

    def _read_back(self, above: Mapping[str, Any]) -> ProblemLog:
        """Reads the test back, and notes and drops the fields that differ."""
        metadata = self._render_metadata(above)
        self.row.pop("metadata", None)
        if metadata:
            self.row["metadata"] = metadata
        notes = ProblemLog("", 1, "Test")
        read = parse_test(RawTest(row=self.row, line=1, source=self._source), self._suite_level, notes)
        if read.id != self._case.id:
            self.fatal_losses.note("id", "its ids must be text that is not blank and contains no variable.")
        wrong = [problem.field or "" for problem in notes.problems if problem.level == "error"]
        for name, (place, why) in _FIELD_PLACES.items():
            same = encode(getattr(read, name)) == encode(getattr(self._case, name))
            is_lost = place and any(field.startswith(".".join(place)) for field in wrong)
            if (is_lost or not same) and name not in self.losses.lost_fields:
                self.losses.note(name, why)
                _drop(self.row, place)
        return notes

    # --- fields --------------------------------------------------------------------------------------------

    def _render_input(self, has_files: bool) -> Any:
        messages = self._case.input
        value = _render_input(messages, self._source) if has_files else None
        if value is not None:
            return value
        place, sentence = _explain_unsupported_input(messages, self._source)
        self.losses.note("input" if place is None else f"input[{place}]", sentence)
        text = "\n\n".join(message.content for message in messages).strip()
        return _render_input(_to_plain_messages(messages), self._source) or text or self._case.id

    def _render_expected(self) -> Any:
        if self._case.expected is None:
            return None
        value = _render_expected(self._case.expected, self._source)
        if value is None:
            self.losses.note(
                "expected", "its expected answer must be a text, an object, a list of values or messages."
            )
        return value

    def _render_assertions(self) -> list[dict[str, Any]] | None:
        case = self._case
        if case.assertions == (DEFAULT_ASSERTION,) and (case.criteria or "").strip():
            return None
        rows: list[dict[str, Any]] = []
        has_losses = False
        for place, assertion in enumerate(case.assertions):
            try:
                row, has_label = render_assertion(assertion, self._source)
            except UnsupportedAssertion as error:
                self.losses.note(f"assertions[{place}]", str(error))
                has_losses = True
                continue
            rows.append(row)
            if not has_label:
                why = "the name of a check must not be blank or contain a variable."
                self.losses.note(f"assertions[{place}].label", why)
        if not case.assertions:
            self.losses.note("assertions", "a test without assertions is graded by `llm-grader`.")
        return [*rows, dict(LOST_CHECK)] if has_losses or not rows else rows

    def _add_notes(self) -> None:
        for name, value in self._case.notes.items():
            outer, _, inner = name.partition(".")
            if name in UNUSED_FIELDS or name in PROSE_FIELDS:
                self.row[name] = value
            elif outer == "workspace" and inner in UNUSED_WORKSPACE_FIELDS:
                self.row["workspace"] = {**self.row.get("workspace", {}), inner: value}

    def _render_metadata(self, above: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the metadata, including tags that neither the test nor the suite can hold elsewhere."""
        metadata = self.losses.build_metadata(above)
        tags, shared = self._case.tags, self._suite_level.tags
        if self._case.workspace is not None or "tags" in metadata or tags == shared:
            return metadata
        return {**metadata, "tags": list(tags[len(shared) :] if tags[: len(shared)] == shared else tags)}

    def _check_depth(self) -> None:
        """Notes values that are nested too deep for YAML as it is read here."""
        for name, value in self.row.items():
            field = {"expected_output": "expected", "execution": "target"}.get(name, name)
            field = field if field in Case.__struct_fields__ else "notes"
            if _depth(value) > MAX_NESTING - _OUTER_LEVELS:
                self.fatal_losses.note(
                    field, f"lists and objects can nest at most {MAX_NESTING} levels deep."
                )


def _render_execution(case: Case) -> dict[str, Any] | None:
    fields = {
        "target": case.target,
        "targets": list(case.only_targets) or None,
        "threshold": None if case.pass_rule is None else case.pass_rule.threshold,
    }
    return {name: value for name, value in fields.items() if value is not None} or None


def _drop(row: dict[str, Any], place: tuple[str, ...]) -> None:
    if place:
        for name in place[:-1]:
            row = row.get(name, {})
        row.pop(place[-1], None)


def _depth(value: Any) -> int:
    inside = list(value.values()) if isinstance(value, dict) else value
    return 1 + max(map(_depth, inside), default=0) if isinstance(inside, list | tuple) else 0


# --- input and expected output -----------------------------------------------------------------------------


def _source_with_files(source: SuiteSource, files: Mapping[str, bytes]) -> SuiteSource:
    """Returns the source with these files available."""

    def find(reference: str) -> SourceFile | None:
        data = files.get(normpath(reference))
        return None if data is None else SourceFile(path=reference, data=data)

    return replace(source, find_file=find)


def _render_input(messages: tuple[Message, ...], source: SuiteSource) -> Any:
    """Returns the `input` that is read as these messages; None if there is none."""
    first = messages[0] if messages else None
    alone = len(messages) == 1 and first == Message(role="user", content=first.content if first else "")
    value: Any = first.content if first and alone else [_render_message(message) for message in messages]
    notes = ProblemLog("", 1)
    read = parse_input(FieldReader({"input": value}, notes), "input", source)
    return None if notes.has_errors or encode(read) != encode(messages) else value


def _explain_unsupported_input(messages: tuple[Message, ...], source: SuiteSource) -> tuple[int | None, str]:
    """Returns the position of the message that cannot be written, if it is a single one, and the reason."""
    for place, message in enumerate(messages):
        if message.role not in ROLES:
            return place, f"its roles are {', '.join(ROLES)}."
        if any(isinstance(part, Attachment) for part in message.parts):
            if _render_input((message,), source) is None:
                return place, (
                    "its files must be inside the folder of the suite, be text if they are UTF-8, have the "
                    "media type of their content or extension, and be placed between paragraphs."
                )
        elif message.parts and _render_input((message,), source) is None:
            return place, "a message without files must be one text."
    return None, "its messages must not be empty, and each tool call needs the name of its tool."


def _to_plain_messages(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Returns the messages as plain texts, with roles that the format knows."""
    return tuple(
        [
            Message(role=message.role if message.role in ROLES else "user", content=message.content)
            for message in messages
        ]
    )


def _render_message(message: Message) -> dict[str, Any]:
    row: dict[str, Any] = {"role": message.role}
    if message.name is not None:
        row["name"] = message.name
    if message.parts:
        row["content"] = [
            part if isinstance(part, str) else {"type": part.kind, "value": part.path}
            for part in message.parts
        ]
    elif message.content or not message.tool_calls:
        row["content"] = message.content
    if message.tool_calls:
        row["tool_calls"] = [_render_call(call) for call in message.tool_calls]
    return row


def _render_call(call: ToolCall) -> dict[str, Any]:
    row = {
        "tool": call.name,
        "input": call.arguments or None,
        "output": call.output,
        "id": call.id,
        "duration_ms": call.duration_ms,
    }
    return {name: value for name, value in row.items() if value is not None}


def _render_expected(expected: Any, source: SuiteSource) -> Any:
    """Returns the `expected_output` that is read as this value; None if there is none."""
    for value in (expected, [{"role": "assistant", "content": expected}]):
        notes = ProblemLog("", 1)
        read = parse_expected(FieldReader({"expected_output": value}, notes), "expected_output", source)
        if not notes.has_errors and encode(read) == encode(expected):
            return value
    return None


# --- workspace ---------------------------------------------------------------------------------------------


def _render_workspace(workspace: Workspace) -> dict[str, Any]:
    """Returns the workspace as an object. The caller checks that it is read back as the same."""
    row: dict[str, Any] = {}
    if workspace.template is not None:
        row["template"] = workspace.template
    if workspace.path is not None:
        row["path"] = workspace.path
    if workspace.isolation != "shared":
        row["isolation"] = workspace.isolation
    if workspace.repositories:
        row["repos"] = [_render_repository(repository) for repository in workspace.repositories]
    hooks = {moment: getattr(workspace.hooks, moment) for moment in HOOK_NAMES}
    rows = {moment: _render_hook(hook) for moment, hook in hooks.items() if hook is not None}
    return {**row, "hooks": rows} if rows else row


def _render_hook(hook: Hook) -> dict[str, Any]:
    row: dict[str, Any] = {}
    if hook.command:
        row["command"] = list(hook.command)
    if hook.timeout_s is not None:
        row["timeout_ms"] = _to_milliseconds(hook.timeout_s)
    if hook.cwd is not None:
        row["cwd"] = hook.cwd
    if hook.reset != "none":
        row["reset"] = hook.reset
    return row


def _to_milliseconds(seconds: float) -> float:
    """Returns the milliseconds that are read back as exactly these seconds, an integer if possible."""
    near = seconds * 1000
    candidates = (
        candidate
        for candidate in (near, nextafter(near, inf), nextafter(near, -inf))
        if candidate / 1000 == seconds
    )
    exact = next(candidates, near)
    return int(exact) if exact.is_integer() and abs(exact) < 2**53 else exact


def _render_repository(repository: Repository) -> dict[str, Any]:
    row: dict[str, Any] = {"path": repository.path}
    if repository.local:
        row["source"] = {"type": "local", "path": repository.source}
    else:
        row["source"] = {"type": "git", "url": repository.source}
    if repository.ref != "HEAD":
        row["commit"] = repository.ref
    if repository.ancestor:
        row["ancestor"] = repository.ancestor
    if repository.sparse:
        row["sparse"] = list(repository.sparse)
    if repository.depth is not None:
        row["clone"] = {"depth": repository.depth}
    return row
