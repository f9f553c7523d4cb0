"""Every page in its states: accessible, inside every screen, and without requests to other hosts."""

from __future__ import annotations

import fcntl
import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from fnmatch import fnmatchcase
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from msgspec.structs import replace
from playwright.sync_api import expect

from proctor.model import Run, Settings
from proctor.web.project import Project
from support.web import make_runs, read_outside, save_suite, serve

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from support.web import Served

Act = Callable[["Page"], None]

NO_PAGES = {
    "/": "leads to /suites",
    "/favicon.ico": "a picture",
    "/static/{name}": "files",
    "/suites/demo": "leads to /suites/new, as the two below",
    "/suites/save": "",
    "/suites/check": "",
    "/starts/{group}/events": "a stream",
    "/runs/{run_id}/events": "a stream",
    "/runs/{run_id}/trials/events": "a stream",
    "/compare/events": "a stream",
    "/grid/events": "a stream",
    "/trends/events": "a stream",
    "/certificates/progress/{task_id}": "a stream",
    "/runs/{run_id}/charts/{name}.svg": "a picture",
    "/trends/chart.svg": "a picture",
    "/runs/{run_id}/export.{extension}": "a file",
    "/runs/{run_id}/cases/{position}/{repeat}.json": "a file",
    "/runs/{run_id}/cases/{position}/attachments/{number}": "a file",
    "/runs/{run_id}/cases/{position}/answers/{repeat}/media/{number}": "a file",
    "/certificates/file": "a file",
    "/review/labels.jsonl": "a file",
}
"""What is asked for by GET and is no page that somebody reads, with the reason."""
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
AXE = """async ([tags, rules]) => {
  const rest = {resultTypes: ["violations"], rules: {"target-size": {enabled: true}}};
  const only = tags ? {type: "tag", values: tags} : {type: "rule", values: rules};
  const found = await axe.run(document, {...rest, runOnly: only});
  return found.violations.flatMap(
    ({id, nodes}) => nodes.map((node) => `${id}: ${node.target.join(" ")} ${node.html.slice(0, 160)}`));
}"""
GATED = """
import fcntl

def answer(question):
    with open("gate", "rb") as gate:
        fcntl.flock(gate, fcntl.LOCK_SH)
    return "4"
"""
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
LONG = "supercalifragilisticexpialidocious" * 6


PARTS = {
    "reasoning": f"Is it {LONG}? Perhaps.",
    "first_token_ms": 90.0,
    "usage": {"input_tokens": 30, "output_tokens": 9, "reasoning_tokens": 7},
    "response_id": f"resp_{LONG}",
    "logprobs": [
        {"token": "Perhaps ", "logprob": -0.9, "top": [["Perhaps ", -0.9], [LONG, -1.2]]},
        {"token": LONG, "logprob": -4.0},
    ],
    "attachments": [
        {"kind": "image", "path": f"{LONG}.png", "media_type": "image/png", "data": PIXEL},
        {"kind": "audio", "path": "spoken.wav", "media_type": "audio/wav", "data": "UklGRg=="},
        {"kind": "file", "path": f"{LONG}.svg", "media_type": "image/svg+xml", "text": "<svg/>"},
    ],
}
"""What an answer can have besides its text."""


def suite(count: int = 16, wording: str = "What is") -> str:
    """Cases as lines, one of them with words that are too long for a phone."""
    cases = [
        {"id": f"q{number:02}", "input": f"{wording} {number} + {number}?", "expected": str(2 * number)}
        for number in range(1, count + 1)
    ]
    cases[2] |= {"input": f"What is {LONG}?", "tags": f"easy,{LONG[:60]}", "category": "sums"}
    return "\n".join(map(json.dumps, cases))


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("empty")
    with serve(
        Project(folder / "proctor.db", folder=folder, environ={"PROCTOR_KEYS": str(folder / "keys")})
    ) as at:
        yield at


@pytest.fixture(scope="module")
def busy_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """A server over a store with a bit of everything, and a run that goes on until the module ends."""
    folder = tmp_path_factory.mktemp("filled")
    write_targets(folder)
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(1) as executor:
        patch.chdir(folder)
        patch.setenv("PROCTOR_KEYS", str(folder / "keys"))
        site = Project(folder / ".proctor" / "proctor.db", folder=folder)
        save_suite(site, "exam", suite())
        save_suite(site, "exam", suite(wording="How much is"))
        save_suite(site, "other", suite(6))
        once, twice = Settings(concurrency=4), Settings(repeats=3, concurrency=4)
        first, better, patchy = make_runs(site, "exam", "first", "better", "patchy", settings=once)
        (again,) = make_runs(site, "exam", "better", settings=once)
        (repeated,) = make_runs(site, "other", "first", settings=twice)
        interrupted_run = replace(
            first, id="20200101-000000-abcdef", status="interrupted", tags=("cut",), finished_at=None
        )
        with site.open_store() as store:
            store.add_run(interrupted_run)
        with (folder / "gate").open("wb") as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)
            live = executor.submit(make_runs, site, "other", "gated", settings=Settings(timeout_s=3600))
            with serve(site) as server:
                yield SimpleNamespace(
                    server=server,
                    first=first.id,
                    better=better.id,
                    again=again.id,
                    patchy=patchy.id,
                    repeated=repeated.id,
                    cut=interrupted_run.id,
                    group=first.group,
                    sealed=find_held_out_position(site, first),
                )
        live.result()


def write_targets(folder: Path) -> None:
    answers = {f"q{number:02}": str(2 * number) for number in range(1, 17)}
    wrong: dict[str, Any] = {
        key: f"Perhaps {LONG}" if int(key[1:]) % 3 == 0 else text for key, text in answers.items()
    }
    wrong["q03"] = {"text": f"Perhaps {LONG}", **PARTS}
    missing = {key: text for key, text in answers.items() if int(key[1:]) % 4}
    lines = ["targets:"]
    for name, script in (("first", wrong), ("better", answers), ("patchy", missing)):
        (folder / f"{name}.jsonl").write_text(json.dumps(script), encoding="utf-8")
        lines.append(f"  - {{name: {name}, provider: scripted, file: {name}.jsonl}}")
    lines.append('  - {name: gated, provider: function, function: "gated:answer"}')
    (folder / "targets.yaml").write_text("\n".join(lines), encoding="utf-8")
    (folder / "gated.py").write_text(GATED, encoding="utf-8")


def find_held_out_position(site: Project, run: Run) -> int:
    """The position of a held-out case."""
    with site.open_store() as store:
        return next(
            stored.trial.position for stored in store.trials(run.id) if stored.trial.split == "holdout"
        )


# --- what is done on a page before it is looked at ---------------------------------------------------------


def press(name: str) -> Act:
    return lambda page: page.get_by_role("button", name=name, exact=True).first.click()


def paste_suite(text: str) -> Act:
    def act(page: Page) -> None:
        page.get_by_label("Cases").fill(text)
        page.get_by_role("button", name="Validate").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("read")

    return act


def enter_name(page: Page) -> None:
    page.get_by_label("Your name").fill("Ann")
    page.get_by_role("button", name="Start").click()


def label_answer(page: Page) -> None:
    page.get_by_role("button", name="Fail").click()
    expect(page.get_by_role("button", name="Undo")).to_be_visible()
    page.get_by_role("link", name="Show it again").click()
    expect(page.get_by_text("Your label:")).to_be_visible()


def add_comment(page: Page) -> None:
    page.get_by_label("Your name").fill("Ann")
    page.get_by_label("Comment", exact=True).fill("Is this right?")
    page.get_by_role("button", name="Add comment").click()
    expect(page.get_by_role("button", name="Delete this comment").first).to_be_visible()


def unfold_details(page: Page) -> None:
    page.get_by_text("Reasoning,").click()
    page.get_by_text("Probabilities as a table").click()


def open_keys(page: Page) -> None:
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()


def drop_file(page: Page) -> None:
    file = {"name": "b.zip", "mimeType": "application/zip", "buffer": b"PK\x03\x04 no archive"}
    page.get_by_label("Bundle").set_input_files(file)  # type: ignore[arg-type]
    page.get_by_role("button", name="Verify").click()
    expect(page.get_by_role("alert")).to_be_visible()


def delete_version(page: Page) -> None:
    page.get_by_role("button", name="Delete v2").click()
    expect(page.get_by_role("button", name="Undo")).to_be_visible()


def certified(page: Page) -> None:
    page.get_by_label("Minimum cases").fill("1")
    page.get_by_role("button", name="Create the certificate").click()
    expect(page.get_by_role("img", name=re.compile("^Badge"))).to_be_visible()


WRONG = '{"id": "a", "input": "Say 4", "expected": "4"}\n{"id": "a", "scorer": "none"}\nno JSON\n'

EMPTY_PAGES: list[tuple[str, Act | None]] = [
    ("/suites", None),
    ("/suites/new", None),
    ("/run", None),
    ("/run", press("Start")),
    ("/runs", None),
    ("/compare", None),
    ("/grid", None),
    ("/trends", None),
    ("/review", None),
    ("/certificates", None),
    ("/certificates", drop_file),
    ("/api", None),
    ("/login", None),
    ("/nowhere", None),
    ("/suites", open_keys),
]
BUSY_PAGES: dict[str, list[tuple[str, Act | None]]] = {
    "suites": [
        ("/suites", None),
        ("/suites?find=nothing", None),
        ("/suites/new", paste_suite(WRONG)),
        ("/suites/new", press("Create Demo Suite")),
        ("/suites/new?name=exam", None),
        ("/suite?name=exam&version=v2&case=2", None),
        ("/suite/diff?name=exam&old=v1&new=v2", None),
        ("/suite/export?name=exam&to=ai_tester", None),
        ("/suite?name=other", None),
    ],
    "running": [
        ("/run?suite=exam&target=first&target=better", None),
        ("/run?suite=exam&target=nobody&repeats=-1", None),
        ("/starts/{group}", None),
        ("/runs/{live}", None),
        ("/starts/{live_group}", None),
        ("/runs/{cut}", None),
    ],
    "runs": [
        ("/runs", None),
        ("/runs?suite=exam&sort=-rate", None),
        ("/runs?text=nothing", None),
        ("/runs/{first}", None),
        ("/runs/{first}?verdict=fail&verdict=error&text=what&sort=-latency", None),
        ("/runs/{first}?text=nothing", None),
        ("/runs/{patchy}", None),
        ("/runs/{first}/cases/2", None),
        ("/runs/{first}/cases/2?view=markdown", add_comment),
        ("/runs/{first}/cases/2?view=tokens", unfold_details),
        ("/runs/{first}/cases/{sealed}", None),
        ("/runs/{patchy}/cases/3", None),
        ("/runs/{repeated}/cases/1?repeat=1", None),
        ("/runs/{first}", press("Reveal the holdout")),
        ("/runs/{first}/cases/{sealed}", None),
    ],
    "comparing": [
        ("/compare/choose?suite=other", None),
        ("/compare", None),
        ("/compare?run={first}&run={better}", None),
        ("/compare?run={first}&run={better}&run={patchy}", None),
        ("/compare?run={first}&run={repeated}", None),
        ("/compare/answers?run={first}&run={better}&position=2", None),
        ("/compare/answers?run={first}&run={better}&position={sealed}", None),
        ("/grid", None),
        ("/grid?run={first}&run={better}&run={patchy}&open=2", None),
        ("/grid?run={first}&run={repeated}&show=differ&tag=easy&text=what&sort=-cost", None),
        ("/grid?run={first}&run={better}&open={sealed}", None),
        ("/suites/add-case?run={first}&position=2", None),
        ("/trends", None),
        ("/trends?suite=exam&target=better", None),
        ("/trends?suite=exam&target=nobody", None),
    ],
    "certifying and reviewing": [
        ("/certificates", None),
        ("/certificates?run={better}", None),
        ("/certificates?run={better}", certified),
        ("/certificates", None),
        ("/review", None),
        ("/review?run={first}", None),
        ("/review?run={first}", enter_name),
        ("/review?run={first}", label_answer),
        ("/review?run={first}&show=disagreements", None),
    ],
}


# --- looking -----------------------------------------------------------------------------------------------


class Looker:
    """Opens pages of one server and collects their problems."""

    def __init__(self, page: Page, server: Served) -> None:
        self.page = page
        self.wrong: list[str] = []
        page.on("request", lambda request: self._check_request(request.url, server.url))

    def _check_request(self, url: str, own: str) -> None:
        if not url.startswith((f"{own}/", "data:", "blob:")):
            self.wrong.append(f"asks {url}")

    def look(self, path: str, act: Act | None) -> None:
        self.page.goto(path)
        if act is not None:
            act(self.page)
            self.page.wait_for_load_state()
        where = f"{path} {getattr(act, '__name__', '')}".strip()
        expect(self.page.get_by_role("heading", level=1), where).to_have_text(re.compile(r"\S"))
        self.page.evaluate(AXE_SCRIPT)
        problems = {"light": self.page.evaluate(AXE, [RULES, None])}
        self.page.emulate_media(color_scheme="dark")
        problems["dark"] = self.page.evaluate(AXE, [None, ["color-contrast"]])
        self.page.emulate_media(color_scheme="light")
        self.page.set_viewport_size(NARROW)  # type: ignore[arg-type]
        problems["narrow"] = self.page.evaluate(AXE, [None, ["target-size", "scrollable-region-focusable"]])
        problems["narrow"] += read_outside(self.page)
        self.page.set_viewport_size(WIDE)  # type: ignore[arg-type]
        self.wrong += [
            f"{where}, {how}: {message}" for how, messages in problems.items() for message in messages
        ]


Browser = Callable[..., AbstractContextManager["Page"]]


def test_pages_with_nothing_on_them_yet(browser: Browser, empty: Served) -> None:
    with browser(empty.url, viewport=WIDE, but="status of 4") as page:
        looker = Looker(page, empty)
        for path, act in EMPTY_PAGES:
            looker.look(path, act)
        assert not looker.wrong, "\n".join(looker.wrong)


@pytest.mark.parametrize("kind", BUSY_PAGES)
def test_pages_with_something_on_them(browser: Browser, busy_site: SimpleNamespace, kind: str) -> None:
    server = busy_site.server
    with browser(server.url, viewport=WIDE, but="status of 4") as page:
        looker = Looker(page, server)
        places = vars(busy_site) | find_live_run(page)
        for path, act in BUSY_PAGES[kind]:
            looker.look(path.format(**places), act)
        assert not looker.wrong, "\n".join(looker.wrong)


def find_live_run(page: Page) -> dict[str, str]:
    """The id of the run in progress, and that of its group."""
    page.goto("/runs?status=running")
    header = page.get_by_role("table").get_by_role("rowheader")
    expect(header).to_have_count(1)
    run = header.locator("code").inner_text()
    page.goto(f"/runs/{run}")
    group = page.locator("dt", has_text="group").locator("+ dd").inner_text()
    return {"live": run, "live_group": group}


def test_every_page_is_looked_at(routes: list[tuple[str, str]]) -> None:
    addresses = {
        path.partition("?")[0]
        for path, _ in [*EMPTY_PAGES, *(page for group in BUSY_PAGES.values() for page in group)]
    }
    pages = {path for method, path in routes if method == "GET"} | {"/api"}
    assert pages >= NO_PAGES.keys(), "these are not there any more"
    for path in pages - NO_PAGES.keys():
        pattern = re.sub(r"{[^}]*}", "?*", path)
        assert any(
            fnmatchcase(address, pattern) and address.count("/") == path.count("/") for address in addresses
        ), path


SHIFTS = """window.shifted = [];
new PerformanceObserver((list) => {
  for (const one of list.getEntries())
    window.shifted.push([one.value, one.sources.map(({node}) => node?.outerHTML?.slice(0, 120) ?? "")]);
}).observe({type: "layout-shift", buffered: true});"""


@pytest.mark.parametrize("screen", [WIDE, NARROW], ids=["wide", "narrow"])
def test_nothing_moves_while_a_run_is_opened(
    browser: Browser, busy_site: SimpleNamespace, screen: Any
) -> None:
    with browser(busy_site.server.url, viewport=screen) as page:
        page.add_init_script(SHIFTS)
        page.goto(f"/runs/{busy_site.first}")
        for picture in page.locator("figure img").all():
            picture.scroll_into_view_if_needed()
            expect(picture).to_have_js_property("complete", True)
        page.goto(f"/runs/{busy_site.first}/cases/2")
        case = page.evaluate("window.shifted")
        page.go_back()
        assert sum(value for value, _ in case) < 0.02, case
        shifted = page.evaluate("window.shifted")
        assert sum(value for value, _ in shifted) < 0.02, shifted
