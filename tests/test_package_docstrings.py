"""Each package says in its docstring what comes in, what goes out and where to start reading."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import proctor

SOURCE = Path(proctor.__file__).parent
PACKAGES = sorted(path.parent for path in SOURCE.rglob("__init__.py") if path.parent != SOURCE)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.relative_to(SOURCE).as_posix())
def test_a_package_says_what_goes_in_and_out_and_names_files_that_exist(package: Path) -> None:
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
    assert "In: " in docstring
    assert "Out: " in docstring
    files = re.findall(r"`([\w/]+\.(?:py|toml))`", docstring)
    assert files
    assert [
        file for file in files if not any((root / file).exists() for root in (package, package.parent))
    ] == []
