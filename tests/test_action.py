"""`action.yml`: its scripts, run as GitHub runs them, and what it may do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.waiting import PATIENCE_S

ROOT = Path(__file__).parent.parent
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS: dict[str, Any] = {step["name"]: step for step in ACTION["runs"]["steps"] if "run" in step}
TARGET = "scripted:examples/scripted/answers.jsonl"


@pytest.fixture
def run_suites(tmp_path: Path) -> Any:
    """Runs the step that runs the suites; returns its outputs."""
    if sys.platform == "win32" or not shutil.which("bash"):
        pytest.skip("bash is missing")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")

    def run(**inputs: str) -> dict[str, str]:
        defaults = {name: str(field.get("default", "")) for name, field in ACTION["inputs"].items()}
        values = defaults | {"target": TARGET} | {name.replace("_", "-"): inputs[name] for name in inputs}
        step = STEPS["Run the suites"]
        keys = {
            name: text.removeprefix("${{ inputs.").removesuffix(" }}") for name, text in step["env"].items()
        }
        environ = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "GITHUB_OUTPUT": str(tmp_path / "output"),
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
            **{name: values[key] for name, key in keys.items()},
        }
        (tmp_path / "step.sh").write_text(step["run"], encoding="utf-8")
        # This is how GitHub runs a step with `shell: bash`.
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "step.sh"]
        subprocess.run(command, env=environ, cwd=tmp_path, check=True, timeout=PATIENCE_S)
        lines = (tmp_path / "output").read_text(encoding="utf-8").splitlines()
        return dict(line.split("=", 1) for line in lines)

    return run


@pytest.mark.slow
@pytest.mark.parametrize(("gate", "code"), [("0.8", "0"), ("0.9", "1"), ("", "1")])
def test_the_gate_decides_and_the_report_is_written(
    run_suites: Any, tmp_path: Path, gate: str, code: str
) -> None:
    assert run_suites(suites="examples/arithmetic.jsonl", min_pass_rate=gate)["exit-code"] == code
    report = (tmp_path / "proctor.md").read_text(encoding="utf-8")
    assert "8" in report
    assert (tmp_path / "summary.md").read_text(encoding="utf-8") == report
    assert (tmp_path / "proctor.xml").exists()


@pytest.mark.slow
def test_words_are_split_as_in_a_shell_and_never_expanded(run_suites: Any, tmp_path: Path) -> None:
    case = '{"id": "a", "input": "x", "expected": "x"}\n'
    (tmp_path / "my $(touch pwned) `touch pwned` *.jsonl").write_text(case, encoding="utf-8")
    suites = "'my $(touch pwned) `touch pwned` *.jsonl'"
    outputs = run_suites(suites=suites, target="echo", args="--limit '1'", validate="false")
    assert outputs["exit-code"] == "0"
    assert not (tmp_path / "pwned").exists()


@pytest.mark.slow
def test_an_invalid_suite_runs_nothing_and_leaves_no_report(run_suites: Any, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text("{}\n", encoding="utf-8")
    assert run_suites(suites="bad.jsonl")["exit-code"] == "4"
    assert not (tmp_path / "proctor.md").exists()


def test_inputs_reach_scripts_as_variables_only() -> None:
    assert not any("${{" in step["run"] for step in STEPS.values())


def test_the_last_step_ends_with_the_code_of_the_run() -> None:
    def exit_code(value: str) -> int:
        script = STEPS["Pass or fail"]["run"]
        return subprocess.run(["sh", "-c", script], env={"CODE": value}, check=False).returncode

    assert [exit_code(value) for value in ("0", "1", "3", "")] == [0, 1, 3, 4]
    assert ACTION["runs"]["steps"][-1]["name"] == "Pass or fail"
