"""Dialect ai_tester: Markdown tests, one file or a folder of them, to a suite.

A file has turns and, after its last `---`, the instructions by which evaluators judge the answer to them;
replacements make several cases of it, and so does each prompt that it names. Nothing is left out: a file that
is no test is an error, and so is a placeholder that nothing fills.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from proctor.model import Problem, Suite
from proctor.protocols import Head, Placed, Source

ENDING: Final = ".md"
USER: Final = "# 👤"
ASSISTANT: Final = "# 🤖"
"""What the lines begin with at which turns begin."""

_USER_LINE: Final = re.compile(f"^{USER}", re.MULTILINE)


def has_user_turn(text: str) -> bool:
    """Whether a line of a text begins a turn of a user."""
    return _USER_LINE.search(text) is not None


class AiTester:
    """The dialect; holds nothing."""

    def recognises(self, head: Head) -> str | None:
        """A line that begins a turn, or a name such as Markdown has."""
        if has_user_turn(head.text):
            return f"it has a line that begins with `{USER}`"
        return "its name ends as Markdown's does" if head.path.lower().endswith(ENDING) else None

    def read(self, source: Source) -> Iterator[Suite | Placed | Problem]:
        """The header, the cases in file order, and every problem where it is met."""
        from proctor.dialects.ai_tester.reader import suite_of  # most runs are of another dialect

        yield from suite_of(source)


DIALECT = AiTester()
