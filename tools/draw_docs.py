"""Draws the pictures of the pages on `proctor.eval`: runs each page's programs and keeps the pictures.

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
FILE = re.compile(r"^```\w+ write (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def main() -> None:
    """Runs the programs of each page in a temporary folder."""
    for page in sorted(TOOLBOX.glob("*.md")):
        with TemporaryDirectory() as folder, chdir(folder), redirect_stdout(StringIO()):
            for name, content in FILE.findall(page.read_text(encoding="utf-8")):
                Path(name).write_text(content, encoding="utf-8")
                if name.endswith(".py"):
                    runpy.run_path(name, run_name="__main__")
            pictures = sorted(Path().glob("*.svg"))
            for picture in pictures:
                shutil.copyfile(picture, DOCS / "images" / picture.name)
        print(f"{page.name}: {', '.join(picture.name for picture in pictures) or 'no picture'}")


if __name__ == "__main__":
    main()
