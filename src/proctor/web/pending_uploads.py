"""Uploads between Validate and Save, held in memory for the session that sent them, within limits."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from threading import Lock
from typing import Final

from proctor.services.suites.upload import Upload
from proctor.web.project import Project

MAX_PER_SESSION: Final = 4
"""Uploads held for one session, enough for the pages a person has open."""
MAX_TOTAL_BYTES: Final = 256 * 2**20
"""Size limit over all sessions: a few of the largest uploads."""


class PendingUploads:
    """Uploads that are not saved yet; safe to use from many threads."""

    def __init__(self, max_bytes: int = MAX_TOTAL_BYTES) -> None:
        """Starts empty.

        Args:
            max_bytes: the total size of held uploads; the least recently used are dropped first.
        """
        self._max_bytes = max_bytes
        self._uploads: OrderedDict[tuple[str, str], Upload] = OrderedDict()
        self._lock = Lock()

    def add(self, session_id: str, upload: Upload) -> str:
        """Holds an upload for a session; returns the key that gets it back."""
        key = secrets.token_urlsafe(12)
        with self._lock:
            own_keys = [owner_key for owner_key in self._uploads if owner_key[0] == session_id]
            for owner_key in own_keys[: max(0, len(own_keys) + 1 - MAX_PER_SESSION)]:
                del self._uploads[owner_key]
            self._uploads[session_id, key] = upload
            while (
                len(self._uploads) > 1
                and sum(upload.size for upload in self._uploads.values()) > self._max_bytes
            ):
                self._uploads.popitem(last=False)
        return key

    def get(self, session_id: str, key: str) -> Upload | None:
        """Returns the upload of a key; None if it is gone or belongs to another session."""
        with self._lock:
            upload = self._uploads.get((session_id, key))
            if upload is not None:
                self._uploads.move_to_end((session_id, key))
        return upload


def get_pending_uploads(project: Project) -> PendingUploads:
    """Returns the pending uploads of a project."""
    return project.get_shared("pending uploads", PendingUploads)
