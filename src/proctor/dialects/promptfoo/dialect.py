"""Dialect promptfoo: a promptfoo configuration in YAML or JSON.

The cases are prompts times tests. Nothing is run or fetched: code, and whatever calls another service, is
refused by name. Names in double braces are filled in; filters, loops and conditions are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from proctor.dialects.shared.head import read_head
from proctor.dialects.shared.signatures import YAML_ENDINGS, is_promptfoo
from proctor.model import Problem, Suite
from proctor.protocols import CaseAtLine, Dialect, FileHead, SuiteSource

_REPORTED_ONCE: Final = frozenset(("no-effect", "no-assertions"))
"""Warnings that are reported once per file."""
_SHARED_FIELD: Final = "defaultTest"
"""The field that all tests share, whose problems are reported once."""
_LIST_INDEX: Final = re.compile(r"\[\d+\]")


class Promptfoo(Dialect):
    """Reads promptfoo configurations."""

    endings = (*YAML_ENDINGS, ".json")
    has_rows = False
    types = "proctor.dialects.promptfoo.assertions:ASSERTION_TYPES"

    def recognises(self, head: FileHead) -> str | None:
        """Recognises promptfoo's file name, or the fields of a configuration."""
        if is_promptfoo(head):
            return "it is named `promptfooconfig`, or has `prompts` or `providers` for its tests"
        return None

    def read(self, source: SuiteSource) -> Iterator[Suite | CaseAtLine | Problem]:
        """Yields the header, the cases in file order, and each problem where it occurs."""
        from proctor.dialects.promptfoo.reader import parse_suite  # most runs use another dialect

        reported_keys: set[tuple[str, str, str, str]] = set()
        for item in parse_suite(source):
            if isinstance(item, Problem):
                field = item.field or ""
                shared = field.startswith(_SHARED_FIELD)
                if shared or item.code in _REPORTED_ONCE:
                    place = field if shared else _LIST_INDEX.sub("", field)
                    key = (item.path, item.code, place, item.level)
                    if key in reported_keys:
                        if item.level == "warning" or item.row is None:
                            continue
                        item = replace(item, repeated=True)
                    reported_keys.add(key)
            yield item

    def may_be_suite(self, source: SuiteSource) -> bool:
        """Returns False for YAML that is no configuration, which may belong to any program."""
        is_yaml = source.path.lower().endswith(YAML_ENDINGS)
        return not is_yaml or is_promptfoo(read_head(source.path, source.read_lines()))


DIALECT = Promptfoo()
