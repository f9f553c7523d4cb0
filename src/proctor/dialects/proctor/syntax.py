"""Names shared by recognising, reading and writing files of the dialect."""

from __future__ import annotations

from typing import Final

from proctor.protocols import ORIGIN_NOTES

HEADER_KEY: Final = "proctor"
"""The field that marks a header; its value is the version of the format."""
ORIGIN_KEY: Final = ORIGIN_NOTES[0]
