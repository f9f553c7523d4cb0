"""Files that hold what is expected, byte for byte.

After a change that is meant, `PROCTOR_REWRITE_GOLDEN=1 pytest` writes every golden file anew; read the
difference before you keep it.
"""

from __future__ import annotations

import os
from pathlib import Path


def assert_golden(path: Path, text: str) -> None:
    """Holds a text against a file."""
    if os.environ.get("PROCTOR_REWRITE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode("utf-8"))
    assert path.read_bytes().decode("utf-8") == text
