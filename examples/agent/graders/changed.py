"""A code grader: did the files that were to change do so, and no other ones?

It looks at the diff of the workspace (`file_changes`) and into the workspace itself, which is as the agent
left it. What is to change stands in the case's `metadata`, each file with a text that it must have then, or
null for a file that must be gone.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any


def graded(given: dict[str, Any]) -> dict[str, Any]:
    """What is printed: one assertion a file, and one for all others."""
    wanted: dict[str, str | None] = given["metadata"].get("changes", {})
    changed = set(re.findall(r"^diff --git a/(\S+) b/", given["file_changes"] or "", re.MULTILINE))
    others = sorted(changed - wanted.keys())
    checks = [{"text": "changes nothing else", "passed": not others, "evidence": ", ".join(others)}]
    for path, text in wanted.items():
        place = Path(given["workspace_path"]) / path
        found = place.read_text(encoding="utf-8") if place.exists() else None
        right = found is None if text is None else text in (found or "")
        what = f"removes {path}" if text is None else f"writes {text!r} into {path}"
        checks.append({"text": what, "passed": path in changed and right})
    return {"assertions": checks}


if __name__ == "__main__":
    print(json.dumps(graded(json.load(sys.stdin))))
