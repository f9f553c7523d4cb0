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


class Shown(Struct, frozen=True):
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
        runs = made(Path(project))
        with served(Path(project)) as url, browser() as chromium:
            if "--docs" in sys.argv:
                of_docs(chromium, url, runs)
                proctor(Path(project), "runs", "export", runs[0], "-o", "report.html")
                report = Shown("report", "/report.html", (("click", "li.fail summary", ""),))
                take(chromium, Path(project).as_uri(), report, DOCS / "report.png", size=README, whole=False)
            for shown in pages(runs):
                for theme in ("light", "dark"):
                    take(chromium, url, shown, folder / f"{shown.name}-{theme}.png", theme=theme)
                if shown.on_phone:
                    take(chromium, url, shown, folder / f"{shown.name}-phone.png", size=PHONE)


def made(project: Path) -> list[str]:
    """The ids of the runs of the project, in the order in which they were made."""
    picture_project.write(project)
    for words in picture_project.commands():
        proctor(project, *words)
    listed = proctor(project, "runs", "list")
    return re.findall(r"^(\d{8}-\d{6}-[0-9a-f]{6})", listed, re.MULTILINE)[::-1]


def proctor(project: Path, *words: str) -> str:
    """What a command prints in the project; a run that did not pass is no error here."""
    ended = subprocess.run(
        [*PROCTOR, *words], cwd=project, env=_environ(project), capture_output=True, text=True, check=False
    )
    if ended.returncode not in (0, 1):
        sys.exit(f"proctor {' '.join(words)}: {ended.stderr}")
    return ended.stdout


def _environ(project: Path) -> dict[str, str]:
    return {**os.environ, "PROCTOR_KEYS": str(project / "keys")}


@contextmanager
def served(project: Path) -> Iterator[str]:
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
        found = next(filter(None, (re.search(r"http://\S+", line) for line in server.stdout)), None)
        if found is None:
            sys.exit("The server did not start.")
        yield found[0].rstrip("/")
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


def pages(runs: list[str]) -> Iterator[Shown]:
    """Every page with something to see on it."""
    weak, base, again, new, echo, *prompted = runs
    suite = urlencode({"name": "support-desk"})
    yield Shown("suites", "/suites", on_phone=True)
    yield Shown("suite", f"/suite?{suite}")
    yield Shown("suite-diff", f"/suite/diff?{suite}&old=v1&new=v2")
    yield Shown("create", "/suites/new")
    yield Shown(
        "create-checked",
        "/suites/new",
        (("fill", "textarea", _WRONG), ("click", "button:has-text('Validate')", "")),
    )
    yield Shown("run-suite", f"/run?{urlencode({'suite': 'support-desk', 'target': 'aurora'})}")
    yield Shown(
        "started",
        f"/run?{urlencode({'suite': 'support-desk', 'target': 'aurora', 'judge': 'referee'})}",
        (("click", "button:has-text('Start')", ""),),
    )
    yield Shown("runs", "/runs", on_phone=True)
    yield Shown("run", f"/runs/{weak}", on_phone=True)
    yield Shown("run-revealed", f"/runs/{base}", (("click", "button:has-text('Reveal')", ""),))
    yield Shown("run-nothing-passed", f"/runs/{echo}?verdict=fail")
    grid = f"/grid?group={picture_project.GROUP}&show=differ"
    yield Shown("grid", grid, on_phone=True)
    yield Shown("grid-open", f"{grid}&open=5#row-5")
    yield Shown("compare-prompts", f"/compare?{urlencode({'run': prompted}, doseq=True)}", on_phone=True)
    yield Shown("case", f"/runs/{weak}/cases/2", on_phone=True)
    yield Shown("case-sum", f"/runs/{weak}/cases/12")
    yield Shown("compare-choose", "/compare")
    yield Shown("compare", f"/compare?{urlencode({'run': [weak, new]}, doseq=True)}")
    yield Shown("compare-same", f"/compare?{urlencode({'run': [base, again]}, doseq=True)}")
    three = urlencode({"run": [weak, base, new]}, doseq=True)
    yield Shown("grid", f"/grid?{three}", on_phone=True)
    yield Shown("grid-open", f"/grid?{three}&show=differ&open=1")
    yield Shown("compare-three", f"/compare?{three}")
    asked = urlencode({"run": [weak, new], "position": 1}, doseq=True)
    yield Shown("compare-answers", f"/compare/answers?{asked}")
    yield Shown("trends", f"/trends?{urlencode({'suite': 'support-desk', 'target': 'aurora'})}")
    yield Shown("compare-refused", f"/compare?{urlencode({'run': [weak, echo]}, doseq=True)}")
    yield Shown("certificates", "/certificates")
    making = (("click", "button:has-text('Create the certificate')", ""),)
    yield Shown("certificate", f"/certificates?run={base}", making)
    naming = (("fill", "input[autofocus], #name", "ada"), ("click", "button:has-text('Start')", ""))
    yield Shown("review", f"/review?run={weak}", naming)
    yield Shown("reviews", "/review")
    yield Shown("login", "/login")
    yield Shown("not-there", "/runs/20260101-000000-abcdef")


_WRONG = """{"id": "a", "input": "2 + 2?", "expected": "4", "scorer": "exact"}
{"id": "b", "input": "Capital of Spain?", "expected": "Madrid", "scorer": "exactly"}
{"id": "b", "input": "Capital of Spain?", "scorer": "contains"}
"""


def take(
    chromium: Browser,
    url: str,
    shown: Shown,
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
    told: list[str] = []
    page.on("console", lambda message: told.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: told.append(str(error)))
    page.goto(url + shown.path)
    for step in shown.steps:
        _do(page, *step)
    page.wait_for_load_state("load")
    _see_all(page)
    wider = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    page.screenshot(path=path, full_page=whole)
    context.close()
    print(
        f"{path.name:36} {path.stat().st_size // 1024:>5} kB" + f"  {wider} px too wide" * (wider > 0), *told
    )


def _do(page: Page, what: str, where: str, value: str) -> None:
    found = page.locator(where).first
    if not found.count():
        return  # done already, for the picture before this one
    if what == "fill":
        found.fill(value)
    else:
        found.click()
        page.wait_for_load_state("load")
        page.mouse.move(0, 0)


def _see_all(page: Page) -> None:
    """Scroll past every picture that is loaded when it is seen, wait until it is there, and go back."""
    for picture in page.locator("img[loading=lazy]").all():
        if picture.is_visible():
            picture.scroll_into_view_if_needed()
            picture.evaluate("drawn => drawn.decode()")
    page.evaluate("window.scrollTo(0, 0)")


def of_docs(chromium: Browser, url: str, runs: list[str]) -> None:
    """The pictures of the README and of the pages in docs/, in both themes."""
    weak, _, _, new, *_ = runs
    compared = urlencode({"run": [weak, new]}, doseq=True)
    grid = f"/grid?group={picture_project.GROUP}&show=differ"
    for name, path, size in (
        ("run", f"/runs/{weak}", README),
        ("compare", f"/compare?{compared}", README),
        ("grid", grid, WIDE),
    ):
        for ending, theme in (("", "light"), ("-dark", "dark")):
            picture = DOCS / f"web-{name}{ending}.png"
            take(chromium, url, Shown(name, path), picture, theme=theme, size=size, whole=False)


if __name__ == "__main__":
    main()
