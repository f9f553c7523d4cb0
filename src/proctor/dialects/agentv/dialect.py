"""Dialect agentv: evaluation files for agents, in YAML or JSON Lines.

A suite has tests and what all of them share: messages before the input, assertions after their own, a
workspace. The documented meaning counts. Nothing is dropped silently: unknown or incomplete fields are
errors; known fields without an effect are kept, with one warning per file.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final

from proctor.dialects.agentv.syntax import TESTS, YAML
from proctor.dialects.shared.jsonl import whole
from proctor.dialects.shared.non_suite_yaml import kind_of_yaml
from proctor.dialects.shared.signatures import (
    is_of_agent_skills,
    is_of_deepeval,
    is_of_evals_registry,
    is_of_promptfoo,
)
from proctor.model import PassRule, Problem, Suite
from proctor.protocols import Dialect, Head, Placed, Source

_OWN: Final = (
    *("criteria", "expected_output", "input_files", "expected_outcome", "input_messages"),
    *("expected_messages", "rubrics", *TESTS),
)
"""Fields that only this dialect has."""
_ONCE: Final = frozenset(("no-effect", "deprecated"))
_PLACES: Final = re.compile(r"\[\d+\]")
_TESTS: Final = re.compile(rf"^(\{{\s*)?[\"']?({'|'.join(TESTS)})[\"']?[ \t]*:".encode(), re.MULTILINE)


class AgentV(Dialect):
    """Reads AgentV evaluation files."""

    endings = (*YAML, ".jsonl", ".ndjson", ".json")
    pass_rule = PassRule(threshold=1.0)
    has_js_patterns = True
    renderer = "proctor.dialects.agentv.write.suite:render"
    written_ending = ".eval.yaml"
    written_form = "YAML"

    def recognises(self, head: Head) -> str | None:
        """Recognises a field that only this dialect has, or YAML with fields of a suite."""
        names = {name for row in head.rows for name in row}
        if is_of_promptfoo(head) or is_of_evals_registry(head) or is_of_agent_skills(head):
            return None
        for name in () if is_of_deepeval(head) else _OWN:
            if name in names:
                return f"it has `{name}`"
        if any(isinstance(row.get("assertions"), list) for row in head.rows):
            return "its lines have a list as `assertions`"
        return "it is YAML with fields of a suite" if _has_suite_fields(head, names) else None

    def read(self, source: Source) -> Iterator[Suite | Placed | Problem]:
        """Yields the header, the cases in file order, and each problem where it occurs."""
        from proctor.dialects.agentv.read.document import suite_of  # most runs use another dialect

        reported_keys: set[tuple[str, str, str]] = set()
        for item in suite_of(source):
            if isinstance(item, Problem) and item.code in _ONCE:
                key = (item.path, item.code, _PLACES.sub("", item.field or ""))
                if key in reported_keys:
                    continue
                reported_keys.add(key)
            yield item

    def may_be_suite(self, source: Source) -> bool:
        """Returns False for YAML without a field of tests, which may belong to any program."""
        return not source.path.lower().endswith(YAML) or _TESTS.search(whole(source)) is not None

    def assertion_types(self) -> Collection[str]:
        """Returns the types of the format's assertions."""
        from proctor.dialects.agentv.read.assertions import TYPES  # most runs use another dialect

        return TYPES


def _has_suite_fields(head: Head, names: set[str]) -> bool:
    """Whether YAML may be a suite whose tests are missing: at least half of its fields are a suite's."""
    if not head.path.lower().endswith(YAML) or kind_of_yaml(head) is not None:
        return False
    from proctor.dialects.agentv.read.suite import SUITE, WITHOUT_EFFECT  # most runs use another dialect

    suite_fields = names & {*SUITE, *WITHOUT_EFFECT, "targets"}
    return 2 * len(suite_fields) >= len(names)


DIALECT = AgentV()
