"""Dialect agent_skills: the `evals.json` of an agent skill.

Each entry of `evals` is a case: a prompt, files that go before it, the expected outcome, and statements that
a judge decides one by one. The format does not say when an entry passes; here 0.8 of its statements must
hold, as in AgentV, which reads these files, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from proctor.dialects.shared.case_rows import list_objects, read_cases
from proctor.dialects.shared.jsonl import file_name, read_all
from proctor.dialects.shared.signatures import is_agent_skills
from proctor.model import Assertion, Attachment, Case, Message, PassRule, Problem, Suite
from proctor.protocols import CaseAtLine, Dialect, FileHead, SuiteSource
from proctor.validation import FieldReader, ProblemLog

SUITE_FIELDS: Final = ("skill_name", "description", "version", "evals")
EVAL_FIELDS: Final = (
    *("id", "name", "prompt", "expected_output", "files", "assertions", "expectations", "should_trigger"),
    *("description", "category", "tags", "metadata"),
)
TYPES: Final = ("llm-grader", "rubrics", "skill-trigger")
"""The types of the format's assertions."""
DEFAULT_PASS_AT: Final = 0.8
"""The share of its checks that an entry must pass."""
_STATEMENT_FIELDS: Final = {"assertions": "assertion", "expectations": "expectation"}
"""The two names of the list of statements, each with the name of one item."""


class AgentSkills(Dialect):
    """Reads the `evals.json` of an agent skill."""

    endings = (".json",)
    has_rows = False
    types = "proctor.dialects.agent_skills:TYPES"

    def recognises(self, head: FileHead) -> str | None:
        """Recognises a JSON object with the name of a skill and its `evals`."""
        return "it is one object with the `evals` of a skill" if is_agent_skills(head) else None

    def read(self, source: SuiteSource) -> Iterator[Suite | CaseAtLine | Problem]:
        """Yields the header, the cases in file order, and each problem where it occurs."""
        from proctor.dialects.shared.yaml_files import (  # most runs use another dialect
            parse_json,
            require_object,
        )

        notes = ProblemLog(source.path, 1)
        row = require_object(parse_json(read_all(source), notes), notes, "an object with `evals`")
        fields = FieldReader(row, notes)
        fields.drop_null()
        skill = fields.required_text("skill_name").strip() if "skill_name" in fields else ""
        version: Any = fields.pop("version")
        yield Suite(
            name=skill or file_name(source.path).stem or "suite",
            dialect="agent_skills",
            declared_version=None if version is None else str(version),
            description=fields.text("description"),
            pass_rule=PassRule(threshold=DEFAULT_PASS_AT),
            folder=source.folder,
        )
        evals: Any = fields.pop("evals")
        if not notes.has_errors and (not isinstance(evals, list) or not evals):
            fields.report_wrong_type("evals", evals, "a list of objects, each with `prompt`")
        fields.finish(SUITE_FIELDS)
        yield from notes.problems
        if isinstance(evals, list):
            rows = list_objects(evals, "evals", source.path)
            parse = partial(_parse_case, skill, source)
            yield from read_cases(rows, source.path, parse, "Eval")


def _parse_case(
    skill: str, source: SuiteSource, notes: ProblemLog, row: dict[str, Any], place: int
) -> CaseAtLine:
    from proctor.yaml12 import to_plain  # as above

    fields = FieldReader(row, notes)
    fields.drop_null()
    case_id = _parse_id(fields, place + 1)
    notes.case = case_id or None
    prompt = fields.required_text("prompt")
    outcome = (fields.text("expected_output") or "").strip() or None
    texts = {name: fields.text(name) for name in ("name", "description")}
    texts["skill_name"] = skill or None
    metadata: Any = to_plain(fields.pop("metadata") or {})
    if not isinstance(metadata, dict):
        fields.report_wrong_type("metadata", metadata, "an object")
        metadata = {}
    case = Case(
        id=case_id,
        input=(_build_message(prompt, fields, source),),
        criteria=outcome,
        expected=outcome,
        assertions=_parse_assertions(fields, outcome, skill),
        tags=tuple(tag for tag in fields.texts("tags") if isinstance(tag, str)),
        category=fields.text("category"),
        metadata=metadata | {name: text for name, text in texts.items() if text is not None},
    )
    fields.finish(EVAL_FIELDS)
    return CaseAtLine(case, notes.line, has_own_id="id" in row)


def _parse_id(fields: FieldReader, number: int) -> str:
    """Returns the id, a number or a text; the position of the entry if it has no id."""
    if "id" not in fields:
        return str(number)
    value: Any = fields.pop("id")
    if type(value) is int or (isinstance(value, str) and value.strip()):
        return str(value)
    fields.report_wrong_type("id", value, "a whole number or a text")
    return ""


def _build_message(prompt: str, fields: FieldReader, source: SuiteSource) -> Message:
    """Returns the prompt as a message, after the files that it refers to. A missing file is an error."""
    from proctor.dialects.agentv.read.messages import read_attachment

    files: list[Attachment] = []
    for place, path in enumerate(fields.texts("files")):
        if isinstance(path, str):
            field, line = f"files[{place}]", fields.line_for("files")
            file = read_attachment("file", path, fields.problem_log, field, line, source)
            if file is not None:
                files.append(file)
    return Message(role="user", content=prompt, parts=(*files, prompt) if files else ())


# --- what judges an answer ---------------------------------------------------------------------------------


def _parse_assertions(fields: FieldReader, outcome: str | None, skill: str) -> tuple[Assertion, ...]:
    """Returns a checklist of the statements, or a judge with the expected outcome, and the skill check."""
    assertions: list[Assertion] = []
    items = [item for name in _STATEMENT_FIELDS for item in _parse_items(fields, name)]
    if items:
        assertions.append(
            Assertion(grader="rubrics", params={"items": items}, pass_at=DEFAULT_PASS_AT, label="rubrics")
        )
    elif outcome is not None:
        assertions.append(Assertion(grader="llm_grader", pass_at=DEFAULT_PASS_AT, label="llm-grader"))
    if "should_trigger" in fields:
        assertions.append(_make_trigger_assertion(fields, skill))
    if not assertions and not fields.problem_log.has_errors:
        fields.report_missing("expected_output", "text, unless there are `assertions` or `should_trigger`")
    return tuple(assertions)


def _parse_items(fields: FieldReader, name: str) -> list[dict[str, Any]]:
    """Returns the statements of a list as checklist items of equal weight."""
    items: list[dict[str, Any]] = []
    for place, text in enumerate(fields.texts(name)):
        if isinstance(text, str) and not text.strip():
            fields.error("empty-value", f"{name}[{place}]", "is blank; write a statement or remove it.")
        items.append({"id": f"{_STATEMENT_FIELDS[name]}-{place + 1}", "outcome": text})
    return items


def _make_trigger_assertion(fields: FieldReader, skill: str) -> Assertion:
    should_trigger = fields.boolean("should_trigger", True)
    if not skill:
        fields.error(
            "missing-field",
            "should_trigger",
            "needs the name of the skill; add `skill_name` at the top of the file.",
        )
    params: dict[str, Any] = {"skill": skill} if should_trigger else {"skill": skill, "should_trigger": False}
    return Assertion(grader="skill_trigger", params=params, label=f"skill-trigger-{skill}")


DIALECT = AgentSkills()
