"""A page of rows that a thread reads before anyone needs it."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread
from typing import Any


class PageInAdvance:
    """Reads rows in a thread, which does not keep the process alive."""

    def __init__(self, read: Callable[[], list[Any]]) -> None:
        """Starts to read.

        Args:
            read: returns the rows.
        """
        self._read = read
        self._rows: list[Any] = []
        self._error: BaseException | None = None
        self._is_done = Event()
        Thread(target=self._run, name="proctor-page", daemon=True).start()

    def rows(self) -> list[Any]:
        """Returns the rows, or raises what reading them raised; waits until they are there."""
        self._is_done.wait()
        if self._error is not None:
            raise self._error
        return self._rows

    def _run(self) -> None:
        try:
            self._rows = self._read()
        except BaseException as error:  # noqa: BLE001  # whoever needs the rows gets it
            self._error = error
        finally:
            self._is_done.set()
