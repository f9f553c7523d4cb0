"""The recipes of docs/guides/scale/shards.md, run as the processes that each system would start."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

from proctor.services.runs.reading.report import build_report
from proctor.stores import open_store
from support.endpoints import JsonHandler, serve_in_thread
from support.waiting import PATIENCE_S

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[1] / "docs" / "guides/scale/shards.md").read_text(encoding="utf-8")
RECIPE = re.compile(r"^```\w+ recipe (\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RECIPES = {(system, name): body for system, name, body in RECIPE.findall(PAGE)}
CASES = 12
SENT_TEXTS: list[str] = []
"""The texts that were sent to the model."""


class Model(JsonHandler):
    """A model that repeats its last message."""

    def handle_json(self, body: Any) -> None:
        text = body["messages"][-1]["content"]
        SENT_TEXTS.append(text)
        message = {"role": "assistant", "content": text}
        self.send_json({"choices": [{"message": message, "finish_reason": "stop"}], "usage": {}})


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Makes folders with the project: a suite of which 11 cases pass, and a target."""
    SENT_TEXTS.clear()
    rows = [f"c{number},say {number},say {number or 'no'},exact\n" for number in range(CASES)]

    def check_out(name: str) -> Path:
        folder = tmp_path / name
        (folder / "suites").mkdir(parents=True)
        (folder / "suites" / "support.csv").write_text(
            "id,input,expected,scorer\n" + "".join(rows), encoding="utf-8"
        )
        entry = {"name": "default", "provider": "openai", "model": "m", "base_url": f"{url}/v1"}
        (folder / "targets.yaml").write_text(yaml.safe_dump({"targets": [entry]}), encoding="utf-8")
        return folder

    with serve_in_thread(Model) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        yield check_out


def begin(script: str, folder: Path, **variables: str) -> subprocess.Popen[str]:
    """Starts a script as one machine does, with its variables."""
    return subprocess.Popen(
        ["sh", "-e", "-c", script],
        cwd=folder,
        env={
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(folder),
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "PYTHONUTF8": "1",
            "OPENAI_API_KEY": "k",
            **variables,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )


def finish(*processes: subprocess.Popen[str]) -> None:
    """Waits for scripts, which must all succeed."""
    for process in processes:
        output, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, output


def check_merged(path: Path) -> None:
    """Checks that a store has the whole run, and that each case was sent once."""
    with closing(open_store(str(path))) as store:
        run = store.run("last")
        report = build_report(store, run)
    assert len(run.merged_from) == 4
    assert (run.status, report.tally.all.total, report.tally.all.passed) == ("finished", CASES, CASES - 1)
    assert sorted(SENT_TEXTS) == sorted(f"say {number}" for number in range(CASES))


def test_the_page_has_a_recipe_for_each_system() -> None:
    assert sorted(RECIPES) == [
        ("github", ""),
        ("kubernetes", ""),
        ("slurm", "merge.sh"),
        ("slurm", "shard.sh"),
    ]


class GitHub:
    """As much of GitHub Actions as the recipe uses: each job has a machine of its own."""

    def __init__(self, check_out: Callable[[str], Path], artifacts: Path) -> None:
        self._check_out = check_out
        self._artifacts = artifacts

    def run(self, jobs: list[tuple[str, dict[str, Any], dict[str, str]]]) -> list[Path]:
        """Runs jobs at the same time, each given with a name and the values of expressions."""
        folders = [self._check_out(name) for name, _, _ in jobs]
        scripts = []
        for folder, (_, job, values) in zip(folders, jobs, strict=True):
            self._download(job, folder)
            environ = {name: fill(text, values) for name, text in job.get("env", {}).items()}
            lines = [fill(step["run"], values) for step in job["steps"] if "run" in step]
            assert lines[0] == "pip install proctor"
            scripts.append(begin("\n".join(lines[1:]), folder, **environ))
        finish(*scripts)
        for folder, (_, job, values) in zip(folders, jobs, strict=True):
            self._upload(job, folder, values)
        return folders

    def _upload(self, job: dict[str, Any], folder: Path, values: dict[str, str]) -> None:
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/upload-artifact"):
                to = self._artifacts / fill(step["with"]["name"], values)
                to.mkdir(parents=True)
                for path in folder.glob(step["with"]["path"]):
                    shutil.copy(path, to)

    def _download(self, job: dict[str, Any], folder: Path) -> None:
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/download-artifact"):
                assert step["with"]["merge-multiple"]
                for artifact in self._artifacts.iterdir():
                    if fnmatch(artifact.name, step["with"]["pattern"]):
                        shutil.copytree(artifact, folder, dirs_exist_ok=True)


def fill(text: str, values: dict[str, str]) -> str:
    """Replaces the expressions in a text."""
    return re.sub(r"\$\{\{ ([\w.-]+) \}\}", lambda match: values[match[1]], str(text))


def test_the_recipe_for_github_actions(checkout: Callable[[str], Path], tmp_path: Path) -> None:
    jobs = yaml.safe_load(RECIPES["github", ""])["jobs"]
    system = GitHub(checkout, tmp_path / "artifacts")
    indices = jobs["shard"]["strategy"]["matrix"]["index"]
    values = {"strategy.job-total": str(len(indices)), "secrets.OPENAI_API_KEY": "k"}
    system.run([(f"job{n}", jobs["shard"], values | {"matrix.index": str(n)}) for n in indices])
    assert jobs["merge"]["needs"] == "shard"
    (folder,) = system.run([("merge", jobs["merge"], values)])
    check_merged(folder / "merged.db")


def test_the_recipe_for_slurm(checkout: Callable[[str], Path]) -> None:
    folder, script = checkout("cluster"), RECIPES["slurm", "shard.sh"]
    array = re.search(r"^#SBATCH --array=(\d+)-(\d+)$", script, re.MULTILINE)
    assert array is not None
    ids = range(int(array[1]), int(array[2]) + 1)
    tasks = [
        begin(script, folder, SLURM_ARRAY_TASK_ID=str(n), SLURM_ARRAY_TASK_COUNT=str(len(ids))) for n in ids
    ]
    finish(*tasks)
    finish(begin(RECIPES["slurm", "merge.sh"], folder))
    check_merged(folder / "merged.db")


def test_the_recipe_for_kubernetes(checkout: Callable[[str], Path]) -> None:
    job = yaml.safe_load(RECIPES["kubernetes", ""])
    assert job["spec"]["completionMode"] == "Indexed"
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["sh", "-c"]
    (script,) = container["args"]
    folder = checkout("volume")
    (folder / "runs").mkdir()
    open_store(str(folder / "runs" / "shard-1.db")).close()  # of a pod that was killed before its run began
    pods = [begin(script, folder, JOB_COMPLETION_INDEX=str(n)) for n in range(job["spec"]["completions"])]
    finish(*pods)
    finish(begin(script, folder, JOB_COMPLETION_INDEX="0"))  # a pod that is started again
    merge = re.search(r"`(proctor runs merge runs/[^`]+)`", PAGE)
    assert merge is not None
    finish(begin(merge[1], folder))
    check_merged(folder / "runs" / "merged.db")
