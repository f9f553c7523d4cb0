"""Dialect ai_tester: Markdown tests, one file or a folder of them.

A file has turns and, after its last `---`, the instructions by which evaluators judge the answer. Each
combination of replacements and prompts is a case. Nothing is dropped silently: a file that is no test is an
error, and so is a placeholder without a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from posixpath import basename
from typing import Final

from proctor.model import PassRule
from proctor.protocols import Dialect, FileHead

ENDING: Final = ".md"
PROMPTS_FOLDER: Final = "prompts"
"""The folder of system prompts and evaluators, which has no tests."""
USER_MARKER: Final = "# 👤"
ASSISTANT_MARKER: Final = "# 🤖"
"""The beginnings of the lines that begin a turn."""

_USER_LINE: Final = re.compile(f"^{USER_MARKER}", re.MULTILINE)


def is_readme(path: str) -> bool:
    """Whether a file is a README, which is neither a test nor a prompt."""
    return basename(path).lower() == "readme.md"


def has_user_turn(text: str) -> bool:
    """Whether a text has a line that begins a user turn."""
    return _USER_LINE.search(text) is not None


class AiTester(Dialect):
    """Reads a Markdown test, or a folder of them."""

    endings = (ENDING,)
    has_rows = False
    reads_folders = True
    file_field = "file"
    pass_rule = PassRule()
    judge_rule = "mean"
    renderer = "proctor.dialects.ai_tester.writer:render"
    output_format = "a folder of Markdown"
    reader = "proctor.dialects.ai_tester.reader:parse_suite"

    def recognises(self, head: FileHead) -> str | None:
        """Recognises a line that begins a turn, or a Markdown file name."""
        if has_user_turn(head.text):
            return f"it has a line that begins with `{USER_MARKER}`"
        return "its name ends in `.md`" if head.path.lower().endswith(ENDING) else None

    def marks_suite_folder(self, path: str, read: Callable[[], bytes]) -> bool:
        """Whether a file is Markdown with a turn, and neither a prompt nor a README."""
        *folders, name = path.split("/")
        if not name.lower().endswith(ENDING) or is_readme(name) or PROMPTS_FOLDER in folders:
            return False
        return has_user_turn(read().decode("utf-8-sig", "replace"))


DIALECT = AiTester()
