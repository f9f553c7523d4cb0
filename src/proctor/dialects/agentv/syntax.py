"""Names that recognising a suite of the dialect and reading it share."""

from __future__ import annotations

from typing import Final

TESTS: Final = ("tests", "eval_cases", "evalcases")
"""The names of the field with the tests; all but the first are old."""
YAML: Final = (".yaml", ".yml")
