"""Draws the pictures of the pages on `proctor.eval`: runs each page's program and keeps what it saves.

Usage: python tools/draw_docs.py
"""

from __future__ import annotations

import re
import runpy
import shutil
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

DOCS = Path(__file__).parent.parent / "docs"
TOOLBOX = DOCS / "reference" / "toolbox"
PROGRAM = re.compile(r"^```python write (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def main() -> None:
    """Run every program of every page in a folder of its own."""
    for page in sorted(TOOLBOX.glob("*.md")):
        with TemporaryDirectory() as folder, chdir(folder), redirect_stdout(StringIO()):
            for name, program in PROGRAM.findall(page.read_text(encoding="utf-8")):
                Path(name).write_text(program, encoding="utf-8")
                runpy.run_path(name, run_name="__main__")
            drawn = sorted(Path().glob("*.svg"))
            for picture in drawn:
                shutil.copyfile(picture, DOCS / "images" / picture.name)
        print(f"{page.name}: {', '.join(picture.name for picture in drawn) or 'no picture'}")


if __name__ == "__main__":
    main()
