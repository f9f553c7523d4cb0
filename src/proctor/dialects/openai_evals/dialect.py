"""Dialect openai_evals: rows of `input` and `ideal`, or the registry's YAML that names them.

Rows do not say how an answer is compared with `ideal`. A registry does: YAML that names the file and the
class of its eval.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from proctor.dialects.shared.head import read_head
from proctor.dialects.shared.signatures import YAML, is_of_evals_registry, is_of_openai_evals
from proctor.model import Problem, Suite
from proctor.protocols import Dialect, DialectSetting, Head, Placed, Source


class OpenAiEvals(Dialect):
    """Reads rows of OpenAI's evals, or a registry of them."""

    endings = (".jsonl", ".ndjson", ".json", *YAML)

    def recognises(self, head: Head) -> str | None:
        """Recognises rows of `input` and `ideal` without pramana's fields, or a registry."""
        if is_of_openai_evals(head):
            return "its lines have `input` and `ideal`, and neither `assertion` nor `category`"
        if is_of_evals_registry(head):
            return "it has evals with `class` and `samples_jsonl`"
        return None

    def read(self, source: Source) -> Iterator[Suite | Placed | Problem]:
        """Yields the header, the cases in file order, and each problem where it occurs."""
        from proctor.dialects.openai_evals.suite import suite_of  # most runs use another dialect

        yield from suite_of(source)

    def may_be_suite(self, source: Source) -> bool:
        """Returns False for YAML that is no registry."""
        is_yaml = source.path.lower().endswith(YAML)
        return not is_yaml or is_of_evals_registry(read_head(source.path, source.lines()))

    def assertion_types(self) -> Collection[str]:
        """Returns the types of the format's assertions."""
        from proctor.dialects.openai_evals.classes import TYPES  # most runs use another dialect

        return TYPES

    def settings(self) -> tuple[DialectSetting, ...]:
        """How rows are judged that no registry names."""
        from proctor.dialects.openai_evals.classes import TYPES  # most runs are of another dialect

        return (DialectSetting("evals-class", TYPES),)


DIALECT = OpenAiEvals()
