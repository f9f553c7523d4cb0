"""Small files that are what they claim to be: a second of silence, a page, a box of a video."""

from __future__ import annotations

import struct

WAV = (
    b"RIFF"
    + struct.pack("<I", 36 + 16)
    + b"WAVEfmt "
    + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 8000, 1, 8)
    + b"data"
    + struct.pack("<I", 16)
    + b"\x80" * 16
)
"""Sixteen samples of silence, in mono."""
MP3 = b"ID3\x04\0\0\0\0\0\0\xff\xfb\x90\0"
FLAC = b"fLaC\0\0\0\x22" + b"\0" * 34
OGG = b"OggS\0\x02" + b"\0" * 22 + b"\xff"
MP4 = b"\0\0\0\x18ftypisom\0\0\x02\0isommp41"
M4A = b"\0\0\0\x18ftypM4A \0\0\x02\0isommp42"
MOV = b"\0\0\0\x14ftypqt  \0\0\x02\0qt  "
WEBM = b"\x1aE\xdf\xa3\x9fB\x86\x81\x01B\xf7\x81\x01B\xf2\x81\x04"
PDF = (
    b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
    b"2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"
)
PNG = b"\x89PNG\r\n\x1a\n\0"
