"""Dialect agentv: evaluation files for agents, in YAML or JSON Lines.

A suite has tests and what all of them share: messages before the input, assertions after their own, a
workspace. The documented meaning counts. Nothing is dropped silently: unknown or incomplete fields are
errors; known fields without an effect are kept, with one warning per file.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final

from proctor.dialects.agentv.syntax import TESTS_NAMES
from proctor.dialects.shared.jsonl import read_all
from proctor.dialects.shared.non_suite_yaml import detect_non_suite
from proctor.dialects.shared.report_once import report_once
from proctor.dialects.shared.signatures import (
    YAML_ENDINGS,
    is_agent_skills,
    is_deepeval,
    is_evals_registry,
    is_promptfoo,
)
from proctor.lazy_pattern import lazy_pattern
from proctor.model import PassRule, Problem, Suite
from proctor.protocols import CaseAtLine, Dialect, FileHead, SuiteSource

_OWN_FIELDS: Final = (
    *("criteria", "expected_output", "input_files", "expected_outcome", "input_messages"),
    *("expected_messages", "rubrics", *TESTS_NAMES),
)
"""Fields that only this dialect has."""
_TESTS_LINE: Final = lazy_pattern(
    rf"^(\{{\s*)?[\"']?({'|'.join(TESTS_NAMES)})[\"']?[ \t]*:".encode(), re.MULTILINE
)


class AgentV(Dialect):
    """Reads AgentV evaluation files."""

    endings = (*YAML_ENDINGS, ".jsonl", ".ndjson", ".json")
    pass_rule = PassRule(threshold=1.0)
    has_js_patterns = True
    renderer = "proctor.dialects.agentv.write.suite:render"
    output_ending = ".eval.yaml"
    output_format = "YAML"

    def recognises(self, head: FileHead) -> str | None:
        """Recognises a field that only this dialect has, or YAML with fields of a suite."""
        names = {name for row in head.rows for name in row}
        if is_promptfoo(head) or is_evals_registry(head) or is_agent_skills(head):
            return None
        for name in () if is_deepeval(head) else _OWN_FIELDS:
            if name in names:
                return f"it has `{name}`"
        if any(isinstance(row.get("assertions"), list) for row in head.rows):
            return "its lines have a list of `assertions`"
        return "it is YAML with the fields of a suite" if _has_suite_fields(head, names) else None

    def read(self, source: SuiteSource) -> Iterator[Suite | CaseAtLine | Problem]:
        """Yields the header, the cases in file order, and each problem where it occurs."""
        from proctor.dialects.agentv.read.suite import parse_suite  # most runs use another dialect

        yield from report_once(parse_suite(source), ("no-effect", "deprecated"))

    def may_be_suite(self, source: SuiteSource) -> bool:
        """Returns False for YAML without a field of tests, which may belong to any program."""
        return (
            not source.path.lower().endswith(YAML_ENDINGS) or _TESTS_LINE.search(read_all(source)) is not None
        )

    def assertion_types(self) -> Collection[str]:
        """Returns the types of the format's assertions."""
        from proctor.dialects.agentv.read.assertions import TYPES  # most runs use another dialect

        return TYPES


def _has_suite_fields(head: FileHead, names: set[str]) -> bool:
    """Whether YAML may be a suite whose tests are missing: at least half of its fields are a suite's."""
    if not head.path.lower().endswith(YAML_ENDINGS) or detect_non_suite(head) is not None:
        return False
    from proctor.dialects.agentv.read.suite import (  # most runs use another dialect
        SUITE_FIELDS,
        UNUSED_FIELDS,
    )

    suite_fields = names & {*SUITE_FIELDS, *UNUSED_FIELDS, "targets"}
    return 2 * len(suite_fields) >= len(names)


DIALECT = AgentV()
