"""The field `lint` of a case, which silences rules, and the rule `unknown-lint` about its values."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

from proctor.errors import suggestion
from proctor.lint.findings import Finding, case_label, quote_text
from proctor.model import Case

IGNORE_ALL: Final = "ignore"
"""The word that silences every rule for a case."""


def silenced_codes(case: Case) -> frozenset[str]:
    """Returns the codes that a case silences; `ignore` stands for all."""
    value: Any = case.metadata.get("lint")
    if isinstance(value, str):
        value = value.replace(";", ",").split(",")
    if not isinstance(value, list | tuple):
        return frozenset()
    return frozenset(code.strip() for code in value if isinstance(code, str) and code.strip())


def find_unknown_codes(case: Case, codes: Collection[str]) -> Iterator[Finding]:
    """`unknown-lint`: values of `lint` that are not codes."""
    value: Any = case.metadata.get("lint")
    entries = value if isinstance(value, list | tuple) else ()
    wrong = [item for item in entries if not isinstance(item, str)]
    if value is not None and not isinstance(value, str | list | tuple):
        wrong = [value]
    for item in wrong:
        message = (
            f"{case_label(case)}: `lint` has {item!r}, which is not a lint code. Write 'ignore' for "
            f"all rules, or a list of codes."
        )
        yield Finding("unknown-lint", message, "lint")
    for code in sorted(silenced_codes(case)):
        if code not in codes and code != IGNORE_ALL:
            message = (
                f"{case_label(case)}: `lint` has the unknown code {quote_text(code)}, which has no "
                f"effect. {suggestion(code[:60], [IGNORE_ALL, *codes])}"
            )
            yield Finding("unknown-lint", message, "lint")
