"""Draws the README's picture: what `proctor run cheap --target local` prints, as an SVG of a terminal.

Usage: python tools/picture.py [docs/images/run.svg]
"""

from __future__ import annotations

import io
import os
import re
import sys
from pathlib import Path

from rich.console import Console

from proctor.cli.colours import THEME, print_coloured
from proctor.reports.document import render_terminal
from proctor.reports.runs import console as report
from proctor.services.runs.reading.report import build_report
from proctor.stores import open_store

COMMAND = "proctor run cheap --target local"
COLUMNS = 118


def main() -> None:
    """Draw the newest run of the store."""
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images/run.svg")
    store = open_store(os.environ.get("PROCTOR_STORE", ".proctor/proctor.db"))
    newest = next(store.runs())
    recorder = Console(record=True, width=COLUMNS, file=io.StringIO(), theme=THEME, force_terminal=True)
    recorder.print(f"$ {COMMAND}", style="bold", highlight=False)
    lines = render_terminal(report.document_for(build_report(store, newest)))
    rows = (line[at : at + COLUMNS] for line in lines for at in range(0, len(line) or 1, COLUMNS))
    print_coloured(rows, recorder)
    # The reader's own monospaced font will do: a picture must not fetch anything.
    svg = re.sub(r"@font-face \{.*?\}", "", recorder.export_svg(title="proctor"), flags=re.DOTALL)
    path.write_text(re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE), encoding="utf-8")
    store.close()
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
