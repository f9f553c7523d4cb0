"""Dialect ai_tester: Markdown tests, one file or a folder of them, to a suite.

A file has turns and, after its last `---`, the instructions by which evaluators judge the answer to them;
replacements make several cases of it, and so does each prompt that it names. Nothing is left out: a file that
is no test is an error, and so is a placeholder that nothing fills.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from proctor.dialects.ai_tester.syntax import ENDING, USER, has_user_turn
from proctor.model import PassRule, Problem, Suite
from proctor.protocols import Dialect, Head, Placed, Source

_PROMPTS: Final = "prompts"
"""The folder of system prompts, in which no file is a test."""
_README: Final = "readme.md"


class AiTester(Dialect):
    """The dialect."""

    endings = (ENDING,)
    has_rows = False
    reads_folders = True
    file_field = "file"
    pass_rule = PassRule()
    judge_rule = "mean"
    renderer = "proctor.dialects.ai_tester.writer:render"
    written_form = "a folder of Markdown"

    def recognises(self, head: Head) -> str | None:
        """A line that begins a turn, or a name such as Markdown has."""
        if has_user_turn(head.text):
            return f"it has a line that begins with `{USER}`"
        return "its name ends as Markdown's does" if head.path.lower().endswith(ENDING) else None

    def read(self, source: Source) -> Iterator[Suite | Placed | Problem]:
        """The header, the cases in file order, and every problem where it is met."""
        from proctor.dialects.ai_tester.reader import suite_of  # most runs are of another dialect

        yield from suite_of(source)

    def is_test_of_folder(self, path: str, read: Callable[[], bytes]) -> bool:
        """Markdown with a turn that is neither a prompt nor a README."""
        *folders, name = path.split("/")
        if not name.lower().endswith(ENDING) or name.lower() == _README or _PROMPTS in folders:
            return False
        return has_user_turn(read().decode("utf-8-sig", "replace"))


DIALECT = AiTester()
