"""Uploads between Validate and Save: held in memory, each for the visitor who sent it, and never too many."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from threading import Lock
from typing import Final

from proctor.services.suites.upload import Upload
from proctor.web.project import Project

MAX_PER_SESSION: Final = 4
"""So many uploads of one visitor are held: one for each page that is likely open."""
MAX_TOTAL_BYTES: Final = 256 * 2**20
"""Of all visitors together: a few of the largest uploads."""


class PendingUploads:
    """What was uploaded and not saved yet."""

    def __init__(self, max_bytes: int = MAX_TOTAL_BYTES) -> None:
        """Empty.

        Args:
            max_bytes: how much is held; what lies longest goes first.
        """
        self._max_bytes = max_bytes
        self._uploads: OrderedDict[tuple[str, str], Upload] = OrderedDict()
        self._lock = Lock()

    def add(self, session: str, upload: Upload) -> str:
        """Hold an upload for a visitor; gives the key by which that visitor has it again."""
        key = secrets.token_urlsafe(12)
        with self._lock:
            own = [owner_key for owner_key in self._uploads if owner_key[0] == session]
            for owner_key in own[: max(0, len(own) + 1 - MAX_PER_SESSION)]:
                del self._uploads[owner_key]
            self._uploads[session, key] = upload
            while (
                len(self._uploads) > 1
                and sum(upload.size for upload in self._uploads.values()) > self._max_bytes
            ):
                self._uploads.popitem(last=False)
        return key

    def get(self, session: str, key: str) -> Upload | None:
        """The upload of a key; None where it is not held any more, or is another visitor's."""
        with self._lock:
            upload = self._uploads.get((session, key))
            if upload is not None:
                self._uploads.move_to_end((session, key))
        return upload


def get_pending_uploads(project: Project) -> PendingUploads:
    """The shelf of a site."""
    return project.get_shared("pending uploads", PendingUploads)
