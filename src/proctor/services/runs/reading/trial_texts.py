"""The texts of a run's trials that a search covers: few in memory, many in a temporary file."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from tempfile import SpooledTemporaryFile
from threading import Lock
from weakref import finalize

from proctor.model import Trial, Verdict
from proctor.protocols import CaseHead
from proctor.reports.runs.serialize import case_subject, failure_reason

_MAX_BYTES_IN_MEMORY = 2**20
"""The maximum size of the texts of a run that are not in a file."""
_TEXTS_PER_CHUNK = 256
"""Texts that are searched at once: Python finds bytes in few long texts faster than in many short ones."""
_SEPARATOR = b"\0"
"""Separates two texts; no text contains it."""


class TrialTexts:
    """The texts of trials by the numbers of their rows; those of held-out trials are found when revealed."""

    def __init__(self, heads: Iterator[CaseHead]) -> None:
        """Takes the cases of the suite, in order; no text is read yet."""
        self._heads, self._head, self._position = heads, CaseHead(id=""), -1
        self._open = _TextFile()
        self._sealed = _TextFile()

    def add(self, row: int, trial: Trial, verdict: Verdict) -> None:
        """Adds the id, input, values, answer and reasons of a trial; trials come in suite order."""
        while self._position < trial.position:
            self._head, self._position = next(self._heads, self._head), self._position + 1
        answer = "" if trial.output is None else trial.output.text
        reason = "" if verdict is Verdict.PASS else failure_reason(trial)
        text = "\n".join((trial.case_id, case_subject(self._head), answer, reason))
        if trial.split == "holdout":
            self._sealed.add(row, text)
            text = trial.case_id
        self._open.add(row, text)

    def flush(self) -> None:
        """Writes what was added."""
        self._open.flush()
        self._sealed.flush()

    def find(self, text: str, *, revealed: bool) -> set[int]:
        """Returns the rows with a text, ignoring case. For hidden trials, only the id is searched."""
        files = (self._open, self._sealed) if revealed else (self._open,)
        return {row for text_file in files for row in text_file.find(text)}


class _TextFile:
    """Texts of rows, ignoring case, in a temporary file without a name."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(_MAX_BYTES_IN_MEMORY)  # noqa: SIM115  # open as long as its table
        finalize(self, self._file.close)
        self._lock = Lock()
        self._chunks: list[tuple[array[int], int]] = []
        """The rows of each chunk, and its number of bytes."""
        self._pending: list[tuple[int, bytes]] = []

    def add(self, row: int, text: str) -> None:
        """Adds the text of a row."""
        self._pending.append((row, _fold_case(text)))
        if len(self._pending) == _TEXTS_PER_CHUNK:
            self.flush()

    def flush(self) -> None:
        """Writes what was added."""
        if not self._pending:
            return
        body = _SEPARATOR.join([text for _, text in self._pending])
        self._chunks.append((array("L", [row for row, _ in self._pending]), len(body)))
        self._file.write(body)
        self._pending.clear()

    def find(self, text: str) -> Iterator[int]:
        """Yields the rows whose text contains a text."""
        needle = _fold_case(text)
        with self._lock:
            self._file.seek(0)
            for rows, size in self._chunks:
                body = self._file.read(size)
                if needle in body:
                    yield from (
                        row
                        for row, content in zip(rows, body.split(_SEPARATOR), strict=True)
                        if needle in content
                    )


def _fold_case(text: str) -> bytes:
    return text.casefold().encode("utf-8", "surrogatepass").replace(_SEPARATOR, b" ")
