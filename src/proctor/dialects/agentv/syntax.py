"""Names shared by recognising and reading suites of the dialect."""

from __future__ import annotations

from typing import Final

TESTS_NAMES: Final = ("tests", "eval_cases", "evalcases")
"""The names of the field with the tests; all but the first are deprecated."""
