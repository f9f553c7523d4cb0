"""Dialect openai_evals: rows of `input` and `ideal`, or the registry's YAML that names them.

Rows do not say how an answer is compared with `ideal`. A registry does: YAML that names the file and the
class of its eval.
"""

from __future__ import annotations

from proctor.dialects.shared.head import read_head
from proctor.dialects.shared.signatures import YAML_ENDINGS, is_evals_registry, is_openai_evals
from proctor.protocols import Dialect, DialectSetting, FileHead, SuiteSource


class OpenAiEvals(Dialect):
    """Reads rows of OpenAI's evals, or a registry of them."""

    endings = (".jsonl", ".ndjson", ".json", *YAML_ENDINGS)
    reader = "proctor.dialects.openai_evals.suite:parse_suite"
    types = "proctor.dialects.openai_evals.classes:TYPES"

    def recognises(self, head: FileHead) -> str | None:
        """Recognises rows of `input` and `ideal` without pramana's fields, or a registry."""
        if is_openai_evals(head):
            return "its lines have `input` and `ideal`, and neither `assertion` nor `category`"
        if is_evals_registry(head):
            return "it has evals with `class` and `samples_jsonl`"
        return None

    def may_be_suite(self, source: SuiteSource) -> bool:
        """Returns False for YAML that is no registry."""
        is_yaml = source.path.lower().endswith(YAML_ENDINGS)
        return not is_yaml or is_evals_registry(read_head(source.path, source.read_lines()))

    def settings(self) -> tuple[DialectSetting, ...]:
        """How rows are judged that no registry names."""
        from proctor.dialects.openai_evals.classes import TYPES  # most runs are of another dialect

        return (DialectSetting("evals-class", TYPES, "The class of an OpenAI eval that no registry names."),)


DIALECT = OpenAiEvals()
