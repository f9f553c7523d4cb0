"""Files with the prompts of runs that a server starts.

Their texts come from a page, the API or the store. A file is named by the digest of its content and lies
beside the store, so that nothing of a request becomes a path, and the same start has the same command.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from proctor.codec import template_digest
from proctor.errors import UsageError
from proctor.model import PromptTemplate

_MAX_FILES = 500
"""At most this many files are kept, the newest. A process reads its files when it starts."""


class PromptFiles:
    """The files of one store."""

    def __init__(self, folder: Path) -> None:
        """Writes nothing.

        Args:
            folder: the folder of the files; created with the first one.
        """
        self._folder = folder

    def words(self, prompts: Iterable[PromptTemplate]) -> list[str]:
        """Returns the words `NAME=FILE` by which `proctor run --prompt` reads the prompts."""
        return [f"{prompt.name}={self._path(prompt)}" for prompt in prompts]

    def write(self, prompts: Iterable[PromptTemplate]) -> None:
        """Writes the prompts, and deletes the oldest files beyond the limit.

        Raises:
            UsageError: they cannot be written.
        """
        try:
            for prompt in prompts:
                self._folder.mkdir(parents=True, exist_ok=True)
                path = self._path(prompt)
                messages = [
                    {"role": message.role, "content": message.content, "name": message.name}
                    for message in prompt.messages
                ]
                temporary = path.with_suffix(".part")
                temporary.write_bytes(msgspec.json.encode(messages))
                temporary.replace(path)
        except OSError as error:
            raise UsageError(f"The prompts cannot be written beside the store: {error}.") from None
        with suppress(OSError):
            paths = sorted(self._folder.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
            for path in paths[_MAX_FILES:]:
                path.unlink(missing_ok=True)

    def _path(self, prompt: PromptTemplate) -> Path:
        return self._folder / f"{template_digest(prompt).removeprefix('sha256:')}.json"
