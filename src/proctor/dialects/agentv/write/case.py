"""One case to one test of the dialect agentv, and what the format cannot express of it.

A test is written as well as possible, then read back, and each field of the case that differs is noted. So
the result is right whatever the reader does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from proctor.codec import encode
from proctor.dialects.agentv.read.assertions import DEFAULT
from proctor.dialects.agentv.read.test_files import Raw
from proctor.dialects.agentv.read.tests import WITHOUT_EFFECT, Common, case_of
from proctor.dialects.agentv.shared import PROSE
from proctor.dialects.agentv.write.assertions import Unsayable, row_of
from proctor.dialects.agentv.write.messages import expected_value, input_value, plain_messages, reading
from proctor.dialects.agentv.write.messages import why as why_input
from proctor.dialects.agentv.write.workspace import workspace_row
from proctor.dialects.shared.losses import Unsaid
from proctor.env_vars import names_in
from proctor.model import Case
from proctor.protocols import Source
from proctor.validation import Notes
from proctor.yaml12 import MAX_NESTING

NAME: Final = "agentv"
IN_WORKSPACE: Final = ("mode", "docker", "env")
"""Fields of a workspace that have no effect."""
LOST: Final = {"type": "regex", "name": "lost-check", "value": "(?!)", "required": True}
"""Replaces a check that the format cannot express: it never matches, so no test passes by losing it."""

_AROUND: Final = 3
"""Nesting levels above the value of a test's field: suite, list of tests, test."""
_PLACES: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "criteria": (("criteria",), "its criteria are a text that is not blank."),
    "category": (("category",), "its category is a text that is not empty and names no variable."),
    "tags": ((), "its tags stand in the metadata, which hooks of a workspace are given as it is."),
    "repeats": ((), "all tests of a suite are asked equally often, and count once by all answers."),
    "pass_rule": (("execution", "threshold"), "a test passes from a threshold of 0 to 1."),
    "target": (("execution", "target"), "a target has a name that is not blank and names no variable."),
    "only_targets": (("execution", "targets"), "targets have names that name no variable."),
    "workspace": (("workspace",), "it has no workspace that is read as this one."),
    "form": ((), "its tests ask by messages alone."),
    "notes": ((), "it has no such fields."),
}
"""The place of each field of a case in a test, and the message if it cannot be written there."""


class Draft:
    """One case while it is rendered."""

    __slots__ = ("_case", "_common", "_source", "refusal", "row", "unsaid")

    def __init__(self, case: Case, common: Common, files: Mapping[str, bytes] | None, unsaid: Unsaid) -> None:
        """Renders the case as far as the format allows.

        Args:
            case: what to write.
            common: what the suite gives to each of its tests.
            files: the files that the case refers to; None if they cannot be written beside the suite.
            unsaid: collects what the format cannot express and may be lost.
        """
        self._case = case
        self._common = common
        # An empty value differs from what was written, so any use of a variable is noticed.
        source = Source(path="", lines=lambda: (), environ=dict.fromkeys(case.variables, ""))
        self._source = reading(source, files or {})
        self.unsaid = unsaid
        self.refusal = Unsaid(case, NAME, lossy=False)
        """What cannot be written, not even in a lossy conversion."""
        fields = {
            "id": case.id,
            "criteria": case.criteria,
            "category": case.category,
            "input": self._input(files is not None),
            "expected_output": self._expected(),
            "execution": _execution(case),
            "workspace": None if case.workspace is None else workspace_row(case.workspace),
            "assertions": self._assertions(),
        }
        self.row: dict[str, Any] = {name: value for name, value in fields.items() if value is not None}
        """The rendered test."""
        self._add_notes()

    @property
    def refused(self) -> bool:
        """Whether the case cannot be written."""
        return self.unsaid.refused or self.refusal.refused

    def settle(self, above: Mapping[str, Any]) -> None:
        """Reads the test back, notes and drops what differs, and adds the metadata.

        Args:
            above: what was lost of the suite, which this case keeps.
        """
        strangers = sorted(set(names_in(replace(self._case, notes={}))) - set(self._case.variables))
        if strangers:
            name = f"`${{{{ {strangers[0]} }}}}`"
            self.refusal.note(
                "variables", f"{name} is text here and would name an environment variable there."
            )
            return
        notes = self._read(above)
        if self.unsaid.kept:
            notes = self._read(above)
        if notes.failed and not self.refused:
            wrong = next(problem for problem in notes.problems if problem.level == "error")
            self.refusal.note("id", f"the test would be refused. {wrong.message}")
        self._check_yaml()

    def _read(self, above: Mapping[str, Any]) -> Notes:
        """Reads the test back, and notes and drops the fields that differ."""
        metadata = self._metadata(above)
        self.row.pop("metadata", None)
        if metadata:
            self.row["metadata"] = metadata
        notes = Notes("", 1, "Test")
        read = case_of(Raw(row=self.row, line=1, source=self._source), self._common, notes)
        if read.id != self._case.id:
            self.refusal.note("id", "its ids are texts that are not blank and name no variable.")
        wrong = [problem.field or "" for problem in notes.problems if problem.level == "error"]
        for name, (place, why) in _PLACES.items():
            same = encode(getattr(read, name)) == encode(getattr(self._case, name))
            is_lost = place and any(field.startswith(".".join(place)) for field in wrong)
            if (is_lost or not same) and name not in self.unsaid.kept:
                self.unsaid.note(name, why)
                _drop(self.row, place)
        return notes

    # --- fields --------------------------------------------------------------------------------------------

    def _input(self, has_files: bool) -> Any:
        messages = self._case.input
        value = input_value(messages, self._source) if has_files else None
        if value is not None:
            return value
        place, sentence = why_input(messages, self._source)
        self.unsaid.note("input" if place is None else f"input[{place}]", sentence)
        text = "\n\n".join(message.content for message in messages).strip()
        return input_value(plain_messages(messages), self._source) or text or self._case.id

    def _expected(self) -> Any:
        if self._case.expected is None:
            return None
        value = expected_value(self._case.expected, self._source)
        if value is None:
            self.unsaid.note("expected", "it expects a text, an object, a list of values or messages.")
        return value

    def _assertions(self) -> list[dict[str, Any]] | None:
        case = self._case
        if case.assertions == (DEFAULT,) and (case.criteria or "").strip():
            return None
        rows: list[dict[str, Any]] = []
        has_losses = False
        for place, assertion in enumerate(case.assertions):
            try:
                row, has_label = row_of(assertion, self._source)
            except Unsayable as error:
                self.unsaid.note(f"assertions[{place}]", str(error))
                has_losses = True
                continue
            rows.append(row)
            if not has_label:
                why = "a check has a name that is not blank and names no variable."
                self.unsaid.note(f"assertions[{place}].label", why)
        if not case.assertions:
            self.unsaid.note("assertions", "a test without any is judged by `llm-grader`.")
        return [*rows, dict(LOST)] if has_losses or not rows else rows

    def _add_notes(self) -> None:
        for name, value in self._case.notes.items():
            outer, _, inner = name.partition(".")
            if name in WITHOUT_EFFECT or name in PROSE:
                self.row[name] = value
            elif outer == "workspace" and inner in IN_WORKSPACE:
                self.row["workspace"] = {**self.row.get("workspace", {}), inner: value}

    def _metadata(self, above: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the metadata, including tags that neither the test nor the suite can hold elsewhere."""
        metadata = self.unsaid.metadata(above)
        tags, shared = self._case.tags, self._common.tags
        if self._case.workspace is not None or "tags" in metadata or tags == shared:
            return metadata
        return {**metadata, "tags": list(tags[len(shared) :] if tags[: len(shared)] == shared else tags)}

    def _check_yaml(self) -> None:
        """Notes values that are nested too deep for YAML as it is read here."""
        for name, value in self.row.items():
            field = {"expected_output": "expected", "execution": "target"}.get(name, name)
            field = field if field in Case.__struct_fields__ else "notes"
            if _depth(value) > MAX_NESTING - _AROUND:
                self.refusal.note(field, f"lists and objects nest at most {MAX_NESTING} levels deep.")


def _execution(case: Case) -> dict[str, Any] | None:
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
