"""Hooks of `mkdocs build`, for what the pages of `docs/` have that a site has not.

A fence says what a test does with its block: "console check", "yaml write suite.yaml" (CONTRIBUTING.md).
The site shows the first as a console, and the second under the name of the file. Two pages and the examples,
which are beside `docs/`, are part of the site. The pages of the commands (`cli_reference.py`)
and the tables of records (`record_tables.py`) are generated.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT))  # mkdocs adds the folder of this file only

from tools import cli_reference, record_tables  # noqa: E402

PAGES = ("CHANGELOG.md", "CONTRIBUTING.md")
ERRORS = "reference/errors.md"
CODE = re.compile(r"^\| `([a-z-]+)`", re.MULTILINE)
FENCE = re.compile(r"^```(\w+) (?:check|(before|after)|write (\S+)|recipe \w+(?: (\S+))?)$", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)\s]+)\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The configuration, with the pages of the commands after their index in the navigation."""
    _add_commands(config.nav or [])
    return config


def _add_commands(items: list[Any]) -> None:
    for index, item in enumerate(items):
        if item == f"{cli_reference.FOLDER}/index.md":
            items[index + 1 : index + 1] = cli_reference.page_names()
            return
        for inner in item.values() if isinstance(item, dict) else ():
            if isinstance(inner, list):
                _add_commands(inner)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The files of the site, with those beside `docs/`."""
    examples = (
        path
        for path in (ROOT / "examples").rglob("*")
        if path.is_file() and path.suffix != ".md" and "__pycache__" not in path.parts
    )
    for path in (*(ROOT / name for name in PAGES), *sorted(examples)):
        name = path.relative_to(ROOT).as_posix()
        files.append(File.generated(config, name, abs_src_path=str(path)))
    for name in cli_reference.page_names():
        content = cli_reference.render_page(PurePosixPath(name).stem)
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """The page with fences that `pymdownx.superfences` understands, and links within the site."""
    if page.file.src_uri == f"{cli_reference.FOLDER}/index.md":
        markdown = cli_reference.fill_index(markdown)
    markdown = record_tables.fill_records(markdown)
    if page.file.src_uri == ERRORS:
        markdown = _with_anchors(markdown)
    folder = posixpath.dirname(page.file.src_uri)
    place = "." if page.file.src_uri in PAGES else posixpath.join("docs", folder)

    def inside(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(place, link[1]))
        return f"]({posixpath.relpath(target.removeprefix('docs/'), folder or '.')})"

    return LINK.sub(inside, FENCE.sub(_plain_fence, markdown))


def _with_anchors(markdown: str) -> str:
    """The page with an anchor for each code that begins a row; the first of two with the same code."""
    codes: set[str] = set()

    def anchor(code: re.Match[str]) -> str:
        if code[1] in codes:
            return code[0]
        codes.add(code[1])
        return f"{code[0]}{{ #{code[1]} }}"

    return CODE.sub(anchor, markdown)


def _plain_fence(fence: re.Match[str]) -> str:
    language, name = fence[1], (fence[2] or "").capitalize() or fence[3] or fence[4]
    return f'```{language} title="{name}"' if name else f"```{language}"
