"""Names that recognising a file of the dialect, reading and writing it share."""

from __future__ import annotations

from typing import Final

from proctor.protocols import ORIGIN_NOTES

KEY: Final = "proctor"
"""The field by which a header is known; its value is the version of the form."""
FROM: Final = ORIGIN_NOTES[0]
