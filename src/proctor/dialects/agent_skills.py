"""Dialect agent_skills: the `evals.json` of an agent skill.

Each entry of `evals` is a case: a prompt, files that go before it, the expected outcome, and statements that
a judge decides one by one. The format does not say when an entry passes; here 0.8 of its statements must
hold, as in AgentV, which reads these files, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

from proctor.dialects.shared.jsonl import file_name, whole
from proctor.dialects.shared.signatures import is_of_agent_skills
from proctor.model import Assertion, Attachment, Case, Message, PassRule, Problem, Suite
from proctor.protocols import Dialect, Head, Placed, Source
from proctor.validation import Fields, Notes, kind_of, shown

SUITE: Final = ("skill_name", "description", "version", "evals")
EVAL: Final = (
    *("id", "name", "prompt", "expected_output", "files", "assertions", "expectations", "should_trigger"),
    *("description", "category", "tags", "metadata"),
)
TYPES: Final = ("llm-grader", "rubrics", "skill-trigger")
"""The types of the format's assertions."""
PASS_AT: Final = 0.8
"""The share of its checks that an entry must pass."""
_STATEMENTS: Final = {"assertions": "assertion", "expectations": "expectation"}
"""The two names of the list of statements, each with the name of one item."""


class AgentSkills(Dialect):
    """Reads the `evals.json` of an agent skill."""

    endings = (".json",)
    has_rows = False

    def recognises(self, head: Head) -> str | None:
        """Recognises a JSON object with the name of a skill and its `evals`."""
        return "it is one object with the `evals` of a skill" if is_of_agent_skills(head) else None

    def read(self, source: Source) -> Iterator[Suite | Placed | Problem]:
        """Yields the header, the cases in file order, and each problem where it occurs."""
        from proctor.dialects.shared.yaml_files import json_of  # most runs use another dialect

        notes = Notes(source.path, 1)
        value = json_of(whole(source), notes)
        readable = not notes.failed
        if readable and not isinstance(value, dict):
            actual = "empty" if value is None else kind_of(value)
            notes.error("not-a-suite", f"The file is {actual}; it must be an object with `evals`.")
        fields = Fields(value if isinstance(value, dict) else {}, notes)
        fields.forgive_null(*fields.names())
        skill = fields.required_text("skill_name").strip() if "skill_name" in fields else ""
        version: Any = fields.take("version")
        yield Suite(
            name=skill or file_name(source.path).stem or "suite",
            dialect="agent_skills",
            declared_version=None if version is None else str(version),
            description=fields.text("description"),
            pass_rule=PassRule(threshold=PASS_AT),
            folder=source.folder,
        )
        evals: Any = fields.take("evals")
        if not notes.failed and (not isinstance(evals, list) or not evals):
            fields.wrong("evals", evals, "a list of objects, each with `prompt`")
        fields.finish(SUITE)
        yield from notes.problems
        if isinstance(evals, list):
            yield from _cases(evals, skill, source)

    def assertion_types(self) -> Collection[str]:
        """Returns the types of the format's assertions."""
        return TYPES


def _cases(evals: list[Any], skill: str, source: Source) -> Iterator[Placed | Problem]:
    lines = getattr(evals, "lines", [1] * len(evals))
    for place, row in enumerate(evals):
        notes = Notes(source.path, lines[place], "Eval", of_case=True)
        if isinstance(row, dict):
            case = _case(Fields(row, notes), place + 1, skill, source)
        else:
            message = f"`evals[{place}]` is {shown(row)}, {kind_of(row)}; it must be an object."
            notes.error("wrong-type", message, f"evals[{place}]")
        yield from notes.problems
        if not notes.failed:
            yield Placed(case, notes.line, named="id" in row)


def _case(fields: Fields, number: int, skill: str, source: Source) -> Case:
    from proctor.yaml12 import plain  # as above

    fields.forgive_null(*fields.names())
    case_id = _id(fields, number)
    fields.notes.case = case_id or None
    prompt = fields.required_text("prompt")
    outcome = (fields.text("expected_output") or "").strip() or None
    texts = {name: fields.text(name) for name in ("name", "description")}
    texts["skill_name"] = skill or None
    metadata: Any = plain(fields.take("metadata") or {})
    if not isinstance(metadata, dict):
        fields.wrong("metadata", metadata, "an object")
        metadata = {}
    case = Case(
        id=case_id,
        input=(_message(prompt, fields, source),),
        criteria=outcome,
        expected=outcome,
        assertions=_assertions(fields, outcome, skill),
        tags=tuple(tag for tag in fields.texts("tags") if isinstance(tag, str)),
        category=fields.text("category"),
        metadata=metadata | {name: text for name, text in texts.items() if text is not None},
    )
    fields.finish(EVAL)
    return case


def _id(fields: Fields, number: int) -> str:
    """Returns the id, a number or a text; the position of the entry where there is none."""
    if "id" not in fields:
        return str(number)
    value: Any = fields.take("id")
    if type(value) is int or (isinstance(value, str) and value.strip()):
        return str(value)
    fields.wrong("id", value, "a whole number or a text")
    return ""


def _message(prompt: str, fields: Fields, source: Source) -> Message:
    """Returns the prompt as a message, after the files that it refers to. A missing file is an error."""
    from proctor.dialects.agentv.read.messages import attached

    files: list[Attachment] = []
    for place, path in enumerate(fields.texts("files")):
        field = f"files[{place}]"
        line = fields.line_of("files")
        file = attached("file", path, fields.notes, field, line, source) if isinstance(path, str) else None
        files += [] if file is None else [file]
    return Message(role="user", content=prompt, parts=(*files, prompt) if files else ())


# --- what judges an answer ---------------------------------------------------------------------------------


def _assertions(fields: Fields, outcome: str | None, skill: str) -> tuple[Assertion, ...]:
    """Returns a checklist of the statements, or a judge with the expected outcome, and the skill check."""
    assertions: list[Assertion] = []
    items = [item for name in _STATEMENTS for item in _items(fields, name)]
    if items:
        assertions.append(
            Assertion(grader="rubrics", params={"items": items}, pass_at=PASS_AT, label="rubrics")
        )
    elif outcome is not None:
        assertions.append(Assertion(grader="llm_grader", pass_at=PASS_AT, label="llm-grader"))
    if "should_trigger" in fields:
        assertions.append(_trigger(fields, skill))
    if not assertions and not fields.notes.failed:
        fields.missing("expected_output", "text, unless there are `assertions` or `should_trigger`")
    return tuple(assertions)


def _items(fields: Fields, name: str) -> list[dict[str, Any]]:
    """Returns the statements of a list as checklist items of equal weight."""
    items: list[dict[str, Any]] = []
    for place, text in enumerate(fields.texts(name)):
        if isinstance(text, str) and not text.strip():
            fields.error("empty-value", f"{name}[{place}]", "is blank; write a statement, or remove it.")
        items.append({"id": f"{_STATEMENTS[name]}-{place + 1}", "outcome": text})
    return items


def _trigger(fields: Fields, skill: str) -> Assertion:
    should_trigger = fields.truth("should_trigger", True)
    if not skill:
        fields.error("missing-field", "should_trigger", "needs the skill's name; write `skill_name` above.")
    params: dict[str, Any] = {"skill": skill} if should_trigger else {"skill": skill, "should_trigger": False}
    return Assertion(grader="skill_trigger", params=params, label=f"skill-trigger-{skill}")


DIALECT = AgentSkills()
