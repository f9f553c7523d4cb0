"""Takes a picture of every page of the web application, light and dark, and of some as a phone shows them.

Usage: python -m tools.pictures FOLDER [--docs]

It makes a project in a temporary folder, runs it, and opens the real server over it in Chromium, whose path
may be given as CHROMIUM. With --docs it takes the pictures of the documentation again too.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from msgspec import Struct
from tools import picture_project

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

DOCS = Path(__file__).resolve().parent.parent / "docs" / "images"
WIDE, PHONE, README = (1280, 860), (390, 844), (1000, 1150)
PROCTOR = (sys.executable, "-m", "proctor")


class PagePicture(Struct, frozen=True):
    """One picture of a page."""

    name: str
    path: str
    steps: tuple[tuple[str, str, str], ...] = ()
    """What is done there first: `click` or `fill`, where, and with what."""
    on_phone: bool = False


def main() -> None:
    """Make the project, open the server, take the pictures."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "pictures")
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as project:
        runs = make_project(Path(project))
        with serve_project(Path(project)) as url, browser() as chromium:
            if "--docs" in sys.argv:
                take_docs_pictures(chromium, url, runs)
                proctor(Path(project), "runs", "export", runs[0], "-o", "report.html")
                report = PagePicture("report", "/report.html", (("click", "li.fail summary", ""),))
                take(chromium, Path(project).as_uri(), report, DOCS / "report.png", size=README, whole=False)
            for picture in pages(runs):
                for theme in ("light", "dark"):
                    take(chromium, url, picture, folder / f"{picture.name}-{theme}.png", theme=theme)
                if picture.on_phone:
                    take(chromium, url, picture, folder / f"{picture.name}-phone.png", size=PHONE)


def make_project(project: Path) -> list[str]:
    """The ids of the runs of the project, in the order in which they were made."""
    picture_project.write(project)
    for words in picture_project.commands():
        proctor(project, *words)
    listing = proctor(project, "runs", "list")
    return re.findall(r"^(\d{8}-\d{6}-[0-9a-f]{6})", listing, re.MULTILINE)[::-1]


def proctor(project: Path, *words: str) -> str:
    """What a command prints in the project; a run that did not pass is no error here."""
    process = subprocess.run(
        [*PROCTOR, *words], cwd=project, env=_environ(project), capture_output=True, text=True, check=False
    )
    if process.returncode not in (0, 1):
        sys.exit(f"proctor {' '.join(words)}: {process.stderr}")
    return process.stdout


def _environ(project: Path) -> dict[str, str]:
    return {**os.environ, "PROCTOR_KEYS": str(project / "keys")}


@contextmanager
def serve_project(project: Path) -> Iterator[str]:
    """The URL of a server over the project, which ends with the block."""
    server = subprocess.Popen(
        [*PROCTOR, "serve", "--port", "0"],
        cwd=project,
        env=_environ(project) | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        match = next(filter(None, (re.search(r"http://\S+", line) for line in server.stdout)), None)
        if match is None:
            sys.exit("The server did not start.")
        yield match[0].rstrip("/")
    finally:
        server.terminate()
        server.wait(timeout=20)


@contextmanager
def browser() -> Iterator[Browser]:
    """Chromium, without a window."""
    from playwright.sync_api import sync_playwright

    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield running
        finally:
            running.close()


def pages(runs: list[str]) -> Iterator[PagePicture]:
    """Every page with something to see on it."""
    weak, base, again, new, echo, *prompted = runs
    suite = urlencode({"name": "support-desk"})
    yield PagePicture("suites", "/suites", on_phone=True)
    yield PagePicture("suite", f"/suite?{suite}")
    yield PagePicture("suite-diff", f"/suite/diff?{suite}&old=v1&new=v2")
    yield PagePicture("create", "/suites/new")
    yield PagePicture(
        "create-checked",
        "/suites/new",
        (("fill", "textarea", _WRONG), ("click", "button:has-text('Validate')", "")),
    )
    yield PagePicture("run-suite", f"/run?{urlencode({'suite': 'support-desk', 'target': 'aurora'})}")
    yield PagePicture(
        "started",
        f"/run?{urlencode({'suite': 'support-desk', 'target': 'aurora', 'judge': 'referee'})}",
        (("click", "button:has-text('Start')", ""),),
    )
    yield PagePicture("runs", "/runs", on_phone=True)
    yield PagePicture("run", f"/runs/{weak}", on_phone=True)
    yield PagePicture("run-revealed", f"/runs/{base}", (("click", "button:has-text('Reveal')", ""),))
    yield PagePicture("run-nothing-passed", f"/runs/{echo}?verdict=fail")
    grid = f"/grid?group={picture_project.GROUP}&show=differ"
    yield PagePicture("grid", grid, on_phone=True)
    yield PagePicture("grid-open", f"{grid}&open=5#row-5")
    yield PagePicture(
        "compare-prompts", f"/compare?{urlencode({'run': prompted}, doseq=True)}", on_phone=True
    )
    yield PagePicture("case", f"/runs/{weak}/cases/2", on_phone=True)
    yield PagePicture("case-sum", f"/runs/{weak}/cases/12")
    yield PagePicture("compare-choose", "/compare")
    yield PagePicture("compare", f"/compare?{urlencode({'run': [weak, new]}, doseq=True)}")
    yield PagePicture("compare-same", f"/compare?{urlencode({'run': [base, again]}, doseq=True)}")
    three = urlencode({"run": [weak, base, new]}, doseq=True)
    yield PagePicture("grid", f"/grid?{three}", on_phone=True)
    yield PagePicture("grid-open", f"/grid?{three}&show=differ&open=1")
    yield PagePicture("compare-three", f"/compare?{three}")
    query = urlencode({"run": [weak, new], "position": 1}, doseq=True)
    yield PagePicture("compare-answers", f"/compare/answers?{query}")
    yield PagePicture("trends", f"/trends?{urlencode({'suite': 'support-desk', 'target': 'aurora'})}")
    yield PagePicture("compare-refused", f"/compare?{urlencode({'run': [weak, echo]}, doseq=True)}")
    yield PagePicture("certificates", "/certificates")
    create_steps = (("click", "button:has-text('Create the certificate')", ""),)
    yield PagePicture("certificate", f"/certificates?run={base}", create_steps)
    name_steps = (("fill", "input[autofocus], #name", "ada"), ("click", "button:has-text('Start')", ""))
    yield PagePicture("review", f"/review?run={weak}", name_steps)
    yield PagePicture("reviews", "/review")
    yield PagePicture("login", "/login")
    yield PagePicture("not-there", "/runs/20260101-000000-abcdef")


_WRONG = """{"id": "a", "input": "2 + 2?", "expected": "4", "scorer": "exact"}
{"id": "b", "input": "Capital of Spain?", "expected": "Madrid", "scorer": "exactly"}
{"id": "b", "input": "Capital of Spain?", "scorer": "contains"}
"""


def take(
    chromium: Browser,
    url: str,
    picture: PagePicture,
    path: Path,
    *,
    theme: Any = "light",
    size: tuple[int, int] = WIDE,
    whole: bool = True,
) -> None:
    """Open one page, do its steps, and keep what is seen of it."""
    width, height = size
    context = chromium.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
    page = context.new_page()
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(url + picture.path)
    for step in picture.steps:
        _do(page, *step)
    page.wait_for_load_state("load")
    _see_all(page)
    wider = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    page.screenshot(path=path, full_page=whole)
    context.close()
    print(
        f"{path.name:36} {path.stat().st_size // 1024:>5} kB" + f"  {wider} px too wide" * (wider > 0),
        *errors,
    )


def _do(page: Page, what: str, where: str, value: str) -> None:
    element = page.locator(where).first
    if not element.count():
        return  # done already, for the picture before this one
    if what == "fill":
        element.fill(value)
    else:
        element.click()
        page.wait_for_load_state("load")
        page.mouse.move(0, 0)


def _see_all(page: Page) -> None:
    """Scroll past every picture that is loaded when it is seen, wait until it is there, and go back."""
    for picture in page.locator("img[loading=lazy]").all():
        if picture.is_visible():
            picture.scroll_into_view_if_needed()
            picture.evaluate("drawn => drawn.decode()")
    page.evaluate("window.scrollTo(0, 0)")


def take_docs_pictures(chromium: Browser, url: str, runs: list[str]) -> None:
    """The pictures of the README and of the pages in docs/, in both themes."""
    weak, _, _, new, *_ = runs
    query = urlencode({"run": [weak, new]}, doseq=True)
    grid = f"/grid?group={picture_project.GROUP}&show=differ"
    for name, path, size in (
        ("run", f"/runs/{weak}", README),
        ("compare", f"/compare?{query}", README),
        ("grid", grid, WIDE),
    ):
        for ending, theme in (("", "light"), ("-dark", "dark")):
            picture = DOCS / f"web-{name}{ending}.png"
            take(chromium, url, PagePicture(name, path), picture, theme=theme, size=size, whole=False)


if __name__ == "__main__":
    main()
