"""Runs once, before all tests: puts a draft on the desk that no template has."""

from __future__ import annotations

import json
import sys
from pathlib import Path

desk = Path(json.load(sys.stdin)["workspace_path"])
(desk / "drafts").mkdir()
(desk / "drafts" / "old.txt").write_text("Open from ten to four?\n", encoding="utf-8")
