"""Runs before each test: tells the clerk which files it may change, as the test's metadata say."""

from __future__ import annotations

import json
import sys
from pathlib import Path

told = json.load(sys.stdin)
allowed = {"may_change": told["case_metadata"]["may_change"]}
(Path(told["workspace_path"]) / "clerk.json").write_text(json.dumps(allowed), encoding="utf-8")
