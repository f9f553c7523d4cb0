"""The notebook in `examples/`: every cell runs, and shows what the page on Python says."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
NAME = "notebook.ipynb"


def read_notebook(folder: Path) -> Any:
    nbformat = pytest.importorskip("nbformat")
    return nbformat.read(folder / NAME, as_version=4)


def test_the_notebook_holds_no_outputs() -> None:
    cells = [cell for cell in read_notebook(EXAMPLES).cells if cell.cell_type == "code"]
    assert len(cells) >= 6
    assert [cell.outputs for cell in cells if cell.outputs] == []
    assert {cell.execution_count for cell in cells} == {None}


@pytest.mark.slow
def test_every_cell_of_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    for variable in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    folder = tmp_path / "examples"
    shutil.copytree(EXAMPLES, folder)
    notebook = read_notebook(folder)
    resources = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", resources=resources).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert [output for output in outputs if output.output_type == "error"] == []
    html = "".join(output.get("data", {}).get("text/html", "") for output in outputs)
    assert html.count('<div class="proctor">') == 4
    assert "(candidate) is better than" in html
    assert re.search(r"<th>reason</th>", html)  # of pandas
    assert 'class="verdict fail"' in html
    assert not (folder / ".proctor").exists()
