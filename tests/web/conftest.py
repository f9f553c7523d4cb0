"""An empty project, its server, and a real browser that opens its pages."""

from __future__ import annotations

import os
import shutil
from asyncio import AbstractEventLoop, events
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from proctor.web.app import PAGES
from proctor.web.project import Project
from support.waiting import PATIENCE_S
from support.web import GATED, PATIENCE_MS, Gate, Served, Visitor, list_routes, open_page, serve, visit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder as the working directory, with its own keys and no variables of the user's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROCTOR_KEYS", str(tmp_path / "keys"))
    for name in ("PROCTOR_STORE", "PROCTOR_TOKEN", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def site(project: Path) -> Project:
    """A site over that folder; a test may change it before it asks for `server`."""
    return Project(project / ".proctor" / "proctor.db", folder=project)


READING = (
    "pages.case",
    "pages.certificates",
    "pages.compare_answers",
    "pages.compare",
    "pages.grid",
    "pages.run",
    "run_status",
    "pages.trends",
)
"""The modules whose pages appear after `_TIMEOUT_S`, though parts of them are not ready yet."""


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes each page wait until it is complete, however busy this machine is."""
    for name in (*READING, "api.grid", "api.trials"):
        monkeypatch.setattr(f"proctor.web.{name}._TIMEOUT_S", PATIENCE_S)
    monkeypatch.setattr("proctor.web.pages.trends._LIST_TIMEOUT_S", PATIENCE_S)


@pytest.fixture
def server(request: pytest.FixtureRequest, site: Project) -> Iterator[Visitor]:
    """The site, called in this process; on a port if the test has a browser or the mark `port`."""
    on_port = "chromium" in request.fixturenames or request.node.get_closest_marker("port")
    with (serve if on_port else visit)(site) as running:
        yield running


CHROMIUMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first has no windows and takes two fifths of the time of the others."""


@pytest.fixture(scope="session")
def launched() -> Iterator[tuple[Browser, AbstractEventLoop | None]]:
    """A real Chromium, and Playwright's event loop, which counts as running only while a test uses it."""
    where = next(filter(None, map(shutil.which, CHROMIUMS)), None)
    if where is None:
        if os.environ.get("CI"):
            pytest.fail(f"There is no Chromium, and CI must have one: apt-get install {CHROMIUMS[0]}.")
        pytest.skip(f"There is no Chromium here: apt-get install {CHROMIUMS[0]}.")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=where, args=["--no-sandbox"], timeout=PATIENCE_MS
        )
        loop = events._get_running_loop()
        events._set_running_loop(None)
        yield browser, loop
        events._set_running_loop(loop)
        browser.close()


@pytest.fixture
def chromium(launched: tuple[Browser, AbstractEventLoop | None]) -> Iterator[Browser]:
    """A real Chromium. In CI it must be installed; elsewhere its tests are skipped without it.

    Playwright leaves its loop marked as the running one of this thread, where `asyncio.run` then fails. So
    the loop is marked only while a test uses this fixture; run code with its own loop in another thread.
    """
    browser, loop = launched
    events._set_running_loop(loop)
    yield browser
    events._set_running_loop(None)


@pytest.fixture
def browser_page(chromium: Browser, server: Served) -> Iterator[Page]:
    """A page of a new browser at the server; an error of a script fails the test."""
    with open_page(chromium, server.url) as page:
        yield page


@pytest.fixture
def browser(chromium: Browser) -> Callable[..., AbstractContextManager[Page]]:
    """Opens pages: `with browser(server.url, color_scheme="dark") as page`."""
    return partial(open_page, chromium)


@pytest.fixture(scope="session")
def routes() -> list[tuple[str, str]]:
    """Every method and path of the pages."""
    routers = [import_module(place.partition(":")[0]).router for place in PAGES.values()]
    return [route for router in routers for route in list_routes(router)]


@pytest.fixture
def gate(project: Path) -> Iterator[Gate]:
    """A closed gate in the project, with the target that waits for it."""
    (project / "gated.py").write_text(GATED, encoding="utf-8")
    targets = 'targets: [{name: gated, provider: function, function: "gated:answer"}]'
    if not (project / "targets.yaml").exists():
        (project / "targets.yaml").write_text(targets, encoding="utf-8")
    gate = Gate(project)
    yield gate
    gate.open()
