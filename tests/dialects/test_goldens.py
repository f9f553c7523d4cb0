"""Each suite file below this folder against the suite, cases and problems that it must give.

After a change that is meant, `PROCTOR_REWRITE_GOLDEN=1 pytest tests/dialects/test_goldens.py` writes every
`*.suite.json` anew; read the difference before you keep it.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from msgspec import convert
from msgspec.structs import replace

from proctor.codec import encode
from proctor.dialects import DIALECTS
from proctor.dialects.meridian.expected import UNSCORED_TYPES
from proctor.dialects.shared import json_arrays
from proctor.graders import GRADERS
from proctor.model import Problem, Suite
from proctor.protocols import SuiteSource
from proctor.services.suites.file_source import source_from_path

FOLDER = Path(__file__).parent
SIDECARS = {"lines.yaml", "rows.eval.yaml"}
FILES = sorted(
    path
    for name, kind in DIALECTS.load_all().items()
    for path in (*(FOLDER / name).glob("*.*"), *(FOLDER / name).glob("*/tests"))
    if path.is_dir() or (path.suffix in kind.endings and path.name not in SIDECARS)
    if not path.name.endswith(".suite.json")
)
"""Each file with an ending of its dialect; a folder `tests` is a suite, whose golden is beside its parent."""
ENVIRON = json.loads((FOLDER / "environ.json").read_text(encoding="utf-8"))
OPTIONS = {"suite.json": {"substitutions": {"codeword": "OTTER-5", "colour": "{{codeword}} blue"}}}
"""Options of the reader, as in `proctor.toml`, by the name of the file."""


def open_source(path: Path) -> SuiteSource:
    """A file whose path in messages is `folder/name`."""
    file_source = source_from_path(path, ENVIRON, OPTIONS.get(path.name, {}))
    return replace(file_source, path=f"{path.parent.name}/{path.name}", folder="/suites")


def find_golden(path: Path) -> Path:
    main = path.parent if path.is_dir() else path
    return main.with_name(f"{main.stem}.suite.json")


def find_dialect(path: Path) -> str:
    return path.relative_to(FOLDER).parts[0]


def read(path: Path) -> dict[str, Any]:
    content: dict[str, list[Any]] = {"suite": [], "cases": [], "problems": []}
    for item in json_arrays.read_suite(DIALECTS.get(find_dialect(path)), open_source(path)):
        if isinstance(item, Suite):
            content["suite"].append(item)
        elif isinstance(item, Problem):
            if not item.repeated:  # tests/contracts/test_dialects.py checks the rows
                content["problems"].append(replace(item, row=None))
        else:
            where = {"line": item.line} if item.path is None else {"line": item.line, "path": item.path}
            content["cases"].append({**where, "case": item.case})
    plain: dict[str, Any] = json.loads(encode(content))
    return plain


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_file_gives_its_golden_suite(path: Path) -> None:
    text = json.dumps(read(path), indent=1, ensure_ascii=False) + "\n"
    if os.environ.get("PROCTOR_REWRITE_GOLDEN"):
        find_golden(path).write_text(text, encoding="utf-8")
    assert find_golden(path).read_text(encoding="utf-8") == text


def test_no_two_files_share_a_golden() -> None:
    assert len({find_golden(path) for path in FILES}) == len(FILES)


def test_all_but_one_row_of_the_full_schema_load() -> None:
    content = read(FOLDER / "meridian" / "full.jsonl")
    rows = (FOLDER / "meridian" / "full.jsonl").read_text(encoding="utf-8").splitlines()[1:]
    types = Counter(json.loads(row)["expected"]["type"] for row in rows)
    assert len(types) == 27
    errors = [problem for problem in content["problems"] if "level" not in problem]
    assert [(error["case"], error["code"]) for error in errors] == [("numeric-1", "missing-expected")]
    assert len(content["cases"]) == len(rows) - 1

    unscored = {
        entry["case"]["id"]
        for entry in content["cases"]
        if any(assertion["grader"] == "unscored" for assertion in entry["case"]["assertions"])
    }
    warned = {problem["case"] for problem in content["problems"] if problem["code"] == "unscored-type"}
    assert unscored == warned
    assert {case.rpartition("-")[0] for case in unscored} == {*UNSCORED_TYPES, "format", "length"}


@pytest.mark.slow
def test_every_assertion_of_the_goldens_has_valid_parameters() -> None:
    for path in FILES:
        for entry in read(path)["cases"]:
            for assertion in entry["case"]["assertions"]:
                convert(assertion.get("params", {}), GRADERS.get(assertion["grader"]))
