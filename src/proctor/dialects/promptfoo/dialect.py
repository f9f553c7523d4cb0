"""Dialect promptfoo: the data of a promptfoo configuration, in YAML or JSON, to a suite.

Prompts times tests are the cases. Nothing is run and nothing is fetched: code, and whatever asks another
service, is refused by name. Names in double braces are filled in; filters, loops and conditions are refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final

from msgspec.structs import replace

from proctor.dialects.shared.head import read_head
from proctor.dialects.shared.signatures import YAML, is_of_promptfoo
from proctor.model import Problem, Suite
from proctor.protocols import Dialect, Head, Placed, Source

_ONCE: Final = frozenset(("no-effect", "no-assertions"))
"""Warnings that are told once a file."""
_SHARED: Final = "defaultTest"
"""The field that all tests have in common, whose problems are told once."""
_PLACES: Final = re.compile(r"\[\d+\]")


class Promptfoo(Dialect):
    """The dialect."""

    endings = (*YAML, ".json")
    has_rows = False

    def recognises(self, head: Head) -> str | None:
        """The name of promptfoo's configuration, or the fields at the top of one."""
        if is_of_promptfoo(head):
            return "it is named `promptfooconfig`, or has `prompts` or `providers` for its tests"
        return None

    def read(self, source: Source) -> Iterator[Suite | Placed | Problem]:
        """The header, the cases in file order, and every problem where it is met."""
        from proctor.dialects.promptfoo.reader import suite_of  # most runs are of another dialect

        reported: set[tuple[str, str, str, str]] = set()
        for item in suite_of(source):
            if isinstance(item, Problem):
                field = item.field or ""
                shared = field.startswith(_SHARED)
                if shared or item.code in _ONCE:
                    place = field if shared else _PLACES.sub("", field)
                    key = (item.path, item.code, place, item.level)
                    if key in reported:
                        if item.level == "warning" or item.row is None:
                            continue
                        item = replace(item, repeated=True)
                    reported.add(key)
            yield item

    def may_be_suite(self, source: Source) -> bool:
        """JSON, or YAML that is a configuration; any other YAML may be of any program."""
        is_yaml = source.path.lower().endswith(YAML)
        return not is_yaml or is_of_promptfoo(read_head(source.path, source.lines()))

    def assertion_types(self) -> Collection[str]:
        """The types of the format's assertions."""
        from proctor.dialects.promptfoo.assertions import TYPES  # most runs are of another dialect

        return (*TYPES, *(f"not-{name}" for name in TYPES))


DIALECT = Promptfoo()
