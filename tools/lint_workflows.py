"""Checks workflows with actionlint: ours, those that `proctor init` writes, and the steps of action.yml.

Usage: python tools/lint_workflows.py; actionlint has to be on the PATH, and runs shellcheck if it is there.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent


def main() -> None:
    """Run actionlint, and exit with its code."""
    templates = ROOT / "src" / "proctor" / "templates"
    script = (templates / "comment.sh").read_text(encoding="utf-8")
    with TemporaryDirectory() as folder:
        workflow = Path(folder) / "workflow.yml"
        text = (templates / "workflow.yml").read_text(encoding="utf-8")
        workflow.write_text(
            text.replace("COMMENT_SCRIPT", script.replace("\n", "\n          ")), encoding="utf-8"
        )
        action = Path(folder) / "action.yml"
        content = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
        action.write_text(yaml.safe_dump(as_workflow(content), sort_keys=False), encoding="utf-8")
        files = [*(ROOT / ".github" / "workflows").glob("*.yml"), templates / "drift.yml", workflow, action]
        sys.exit(subprocess.run(["actionlint", *map(str, files)], cwd=ROOT, check=False).returncode)


def as_workflow(action: dict[str, Any]) -> dict[str, Any]:
    """A reusable workflow with the inputs and steps of a composite action, which actionlint does not read."""
    inputs = {
        name: {"type": "string", "required": field.get("required", False)}
        for name, field in action["inputs"].items()
    }
    job = {"runs-on": "ubuntu-latest", "steps": action["runs"]["steps"]}
    return {"name": action["name"], "on": {"workflow_call": {"inputs": inputs}}, "jobs": {"action": job}}


if __name__ == "__main__":
    main()
