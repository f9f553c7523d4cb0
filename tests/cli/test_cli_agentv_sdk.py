"""Graders that are written with AgentV's SDK, scored here and by AgentV 4.9.1.

`tests/data/agentv_sdk` has the suite, its graders, and in `agentv-4.9.1.json` what AgentV's own command line
gave for each of them; null where the SDK refused the payload or the grader failed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.waiting import PATIENCE_S

DATA = Path(__file__).parents[1] / "data" / "agentv_sdk"
SDK = "@agentv/eval@4.9.1"


@pytest.fixture
def sdk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A `node_modules` with AgentV's SDK: that of `$AGENTV_SDK`, else one that npm installs."""
    if path := os.environ.get("AGENTV_SDK"):
        return Path(path)
    npm = shutil.which("npm")
    if npm is None:
        if os.environ.get("CI"):
            pytest.fail("There is no npm, and CI must have one: apt-get install npm.")
        pytest.skip("There is no npm here: apt-get install npm.")
    folder = tmp_path_factory.mktemp("sdk")
    options = ("--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(folder))
    process = subprocess.run(
        [npm, "install", *options, SDK], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    if "E404" in process.stderr:
        pytest.skip(f"The npm registry has no {SDK}; name a node_modules that has it in AGENTV_SDK.")
    if process.returncode and not os.environ.get("CI"):
        pytest.skip(f"npm cannot install {SDK} here; name a node_modules that has it in AGENTV_SDK.")
    assert process.returncode == 0, process.stderr
    return folder / "node_modules"


@pytest.mark.slow
def test_graders_written_with_agentvs_sdk_score_as_under_agentv(
    sdk: Path, folder: Path, proctor: Callable[..., Any]
) -> None:
    shutil.copytree(DATA, folder, dirs_exist_ok=True)
    (folder / "node_modules").symlink_to(sdk.resolve(), target_is_directory=True)
    proctor("run", "suite.eval.yaml", "-o", "results.json")
    (run,) = json.loads(Path("results.json").read_text(encoding="utf-8"))["runs"]
    scores = {
        trial["case_id"]: {score["name"]: score["value"] for score in trial["scores"]}
        for trial in run["trials"]
    }
    by_agentv = json.loads((DATA / "agentv-4.9.1.json").read_text(encoding="utf-8"))
    # Nothing tells that an agent which reports no calls made none: AgentV counts 0, here the trace is null.
    by_agentv["plain"]["trace"] = 0.5
    assert scores == by_agentv
