"""Uploads between Validate and Save: held in memory, each for the visitor who sent it, and never too many."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from threading import Lock
from typing import Final

from proctor.services.suites.upload import Upload
from proctor.web.project import Project

MOST_EACH: Final = 4
"""So many uploads of one visitor are held: one for each page that is likely open."""
MOST_BYTES: Final = 256 * 2**20
"""Of all visitors together: a few of the largest uploads."""


class PendingUploads:
    """What was uploaded and not saved yet."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        """Empty.

        Args:
            most_bytes: how much is held; what lies longest goes first.
        """
        self._most_bytes = most_bytes
        self._held: OrderedDict[tuple[str, str], Upload] = OrderedDict()
        self._lock = Lock()

    def put(self, session: str, upload: Upload) -> str:
        """Hold an upload for a visitor; gives the key by which that visitor has it again."""
        key = secrets.token_urlsafe(12)
        with self._lock:
            own = [place for place in self._held if place[0] == session]
            for place in own[: max(0, len(own) + 1 - MOST_EACH)]:
                del self._held[place]
            self._held[session, key] = upload
            while len(self._held) > 1 and sum(one.size for one in self._held.values()) > self._most_bytes:
                self._held.popitem(last=False)
        return key

    def get(self, session: str, key: str) -> Upload | None:
        """The upload of a key; None where it is not held any more, or is another visitor's."""
        with self._lock:
            upload = self._held.get((session, key))
            if upload is not None:
                self._held.move_to_end((session, key))
        return upload


def get_pending_uploads(project: Project) -> PendingUploads:
    """The shelf of a site."""
    return project.get_shared("pending uploads", PendingUploads)
