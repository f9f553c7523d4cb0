"""The one script in a real Chromium: keys, live sections, copying and dropped files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from proctor.web.project import Project
from proctor.web.security import SECURITY_HEADERS
from support.web import serve

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

    from support.web import Served

SCRIPT = Path(__file__).parents[2] / "src/proctor/web/static/proctor.js"
ROWS = "".join(
    f'<tr id="row-{n}"><td>{n}</td><td><a href="/there?row={n}">row {n}</a></td></tr>' for n in range(3)
)
TABLE = f'<table class="rows" data-keys><thead><tr><th>a</th></tr></thead><tbody>{ROWS}</tbody></table>'


@pytest.fixture(scope="module")
def script_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server over an empty folder, which all tests of this file share."""
    folder = tmp_path_factory.mktemp("script")
    with serve(Project(folder / ".proctor" / "proctor.db", folder=folder)) as server:
        yield server


@pytest.fixture
def tab(script_server: Served, browser: Callable[..., AbstractContextManager[Page]]) -> Iterator[Page]:
    """A page at that server; status 503 is no error, as some tests take the server down."""
    with browser(script_server.url, but="503") as page:
        yield page


@pytest.fixture
def stage(script_server: Served, tab: Page) -> Callable[..., Page]:
    """Opens a page of the server with some content; each page that it links to shows its own address."""
    frame = script_server.get("/login").text
    headers = {**SECURITY_HEADERS, "content-type": "text/html; charset=utf-8"}

    def answer_address(route: Route) -> None:
        route.fulfill(body=f"<!doctype html><title>there</title>{route.request.url}", headers=headers)

    def open_content(content: str) -> Page:
        html = frame.replace("<h1", f'<div id="stage">{content}</div><h1', 1)
        tab.route(re.compile("/there"), answer_address)
        tab.route("**/stage*", lambda route: route.fulfill(body=html, headers=headers))
        tab.goto("/stage")
        return tab

    return open_content


def address(page: Page) -> str:
    return page.url.partition("//")[2].partition("/")[2]


# --- keys --------------------------------------------------------------------------------------------------


def test_j_and_k_move_through_the_rows_and_enter_opens_one(stage: Callable[..., Page]) -> None:
    page = stage(TABLE)
    focused = "document.activeElement.textContent"
    for key, row in (("j", 0), ("j", 1), ("k", 0), ("k", 0), ("j", 1), ("j", 2), ("j", 2)):
        page.keyboard.press(key)
        assert page.evaluate(focused) == f"row {row}", key
        assert page.locator("tr.selected").get_attribute("id") == f"row-{row}"
    page.keyboard.press("Enter")
    page.wait_for_url("**/there?row=2")


def test_the_chosen_row_is_in_the_address_and_chosen_again_after_a_reload(stage: Callable[..., Page]) -> None:
    page = stage(TABLE)
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.wait_for_function("location.hash === '#row-1'")
    page.reload()
    assert page.locator("tr.selected").get_attribute("id") == "row-1"
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.textContent") == "row 2"
    page.goto(page.url.partition("#")[0] + "#%E0%A4%A")  # no text at all, and no error either


@pytest.mark.parametrize(
    ("key", "where"),
    [("n", "next"), ("]", "next"), ("p", "prev"), ("[", "prev"), ("f", "failed")],
)
def test_single_keys_follow_links(stage: Callable[..., Page], key: str, where: str) -> None:
    links = ("prev", "next")
    content = "".join(f'<a rel="{rel}" href="/there?{rel}">{rel}</a>' for rel in links)
    page = stage(f'{content}<a href="/there?failed" data-failures>failures</a>')
    page.keyboard.press(key)
    page.wait_for_url(f"**/there?{where}")


def test_a_problem_selects_its_line_in_the_editor(stage: Callable[..., Page]) -> None:
    text = "\n".join(f"line {number}" for number in range(1, 200))
    page = stage(
        f'<a href="#line-150" data-line="150">line 150</a><textarea id="text" rows="4">{text}</textarea>'
        '<p id="line-150">line 150</p>'
    )
    page.click("a[data-line]")
    selected = page.evaluate("text.value.slice(text.selectionStart, text.selectionEnd)")
    assert selected == "line 150"
    assert page.evaluate("document.activeElement.id") == "text"
    assert page.evaluate("text.scrollTop") > 0
    assert "#" not in page.url


def test_without_an_editor_a_problem_leads_to_the_line_on_the_page(stage: Callable[..., Page]) -> None:
    page = stage('<a href="#line-150" data-line="150">line 150</a><p id="line-150">line 150</p>')
    page.click("a[data-line]")
    assert page.url.endswith("#line-150")


def test_a_key_that_a_button_names_presses_it_before_all_else(stage: Callable[..., Page]) -> None:
    page = stage(
        '<a rel="prev" href="/there?prev">prev</a>'
        '<form action="/there"><button name="label" value="pass" data-press="p">Pass</button></form>'
    )
    page.keyboard.press("p")
    page.wait_for_url("**/there?label=pass")


def test_keys_do_nothing_in_fields_and_with_other_keys_held(stage: Callable[..., Page]) -> None:
    page = stage(
        '<input id="text" data-search><select id="one"><option>n</option></select>'
        '<textarea id="more"></textarea>'
        '<input type="checkbox" id="box"><a rel="next" href="/there?next">next</a>'
    )
    page.keyboard.press("/")
    page.keyboard.type("n/p?j")
    assert page.input_value("#text") == "n/p?j"
    for field in ("#one", "#more"):
        page.focus(field)
        page.keyboard.press("n")
    page.keyboard.press("Escape")
    page.focus("#text")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement === document.body")
    for chord in ("ctrlKey", "altKey", "metaKey"):
        page.dispatch_event("body", "keydown", {"key": "n", chord: True, "bubbles": True})
    assert address(page) == "stage"
    page.focus("#box")
    page.keyboard.press("n")
    page.wait_for_url("**/there?next")


def test_the_list_of_keys_opens_and_switches_them_off_for_good(stage: Callable[..., Page]) -> None:
    page = stage(TABLE)
    dialog = page.locator("dialog[data-keys-dialog]")
    assert not dialog.is_visible()
    page.keyboard.press("?")
    assert dialog.is_visible()
    page.keyboard.press("j")  # belongs to the dialog now
    assert page.locator("tr.selected").count() == 0
    page.uncheck("[data-keys-switch]")
    page.keyboard.press("Escape")
    assert not dialog.is_visible()
    page.keyboard.press("j")
    page.keyboard.press("?")
    assert page.locator("tr.selected").count() == 0
    assert not dialog.is_visible()
    page.reload()
    page.keyboard.press("j")
    assert page.locator("tr.selected").count() == 0
    page.click("[data-keys-open]")
    assert not page.is_checked("[data-keys-switch]")
    page.check("[data-keys-switch]")
    page.click("dialog button")
    page.keyboard.press("j")
    assert page.locator("tr.selected").count() == 1


# --- copying and dropping ----------------------------------------------------------------------------------


@pytest.mark.parametrize("has_clipboard", [True, False])
def test_copying_says_that_it_is_done(stage: Callable[..., Page], tab: Page, has_clipboard: bool) -> None:
    if has_clipboard:
        tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    else:
        tab.add_init_script("delete Navigator.prototype.clipboard")
    page = stage(
        '<p><code>beside it</code> <button id="near" data-copy>Copy</button></p>'
        '<button id="own" data-copy="proctor run x">Copy</button><pre id="long">a\nb</pre>'
        '<button id="named" data-copy-of="long">Copy</button><textarea id="into"></textarea>'
    )
    status = page.locator("[data-said]")
    assert status.get_attribute("role") == "status"
    for button, text in (("#near", "beside it"), ("#own", "proctor run x"), ("#named", "a\nb")):
        page.click(button)
        status.get_by_text("Copied.").wait_for()
        page.fill("#into", "")
        page.focus("#into")
        page.keyboard.press("Control+v")
        assert page.input_value("#into") == text
        page.evaluate("document.querySelector('[data-said]').textContent = ''")


def drop(page: Page, selector: str, *names: str) -> None:
    files = page.evaluate_handle(
        "names => { const taken = new DataTransfer();"
        " for (const name of names) taken.items.add(new File(['x'], name)); return taken; }",
        list(names),
    )
    page.dispatch_event(selector, "dragover", {"dataTransfer": files})
    page.dispatch_event(selector, "drop", {"dataTransfer": files})


NAMES = "[...document.querySelector('#stage input').files].map(file => file.name)"


def test_a_dropped_file_is_in_the_forms_field(stage: Callable[..., Page]) -> None:
    page = stage('<form data-drop><input type="file" name="file"></form><p id="aside">aside</p>')
    drop(page, "form[data-drop]", "a.jsonl", "b.jsonl")
    assert page.evaluate(NAMES) == ["a.jsonl"]
    assert page.locator("[data-said]").text_content() == "Chosen: a.jsonl."
    drop(page, "#aside", "c.jsonl")  # the only place for files on the page is meant
    assert page.evaluate(NAMES) == ["c.jsonl"]
    assert page.locator(".drop").count() == 0
    assert address(page) == "stage"


def test_several_files_stay_several(stage: Callable[..., Page]) -> None:
    page = stage('<form data-drop><input type="file" name="file" multiple></form>')
    drop(page, "form[data-drop]", "a.jsonl", "b.jsonl")
    assert page.evaluate(NAMES) == ["a.jsonl", "b.jsonl"]


# --- live sections -----------------------------------------------------------------------------------------


class Stream:
    """The streams that the server sends on a live address, one for each connection."""

    def __init__(self, page: Page, *bodies: str) -> None:
        self.bodies = list(bodies)
        self.requests = 0
        page.route("**/events", self._answer)

    def _answer(self, route: Route) -> None:
        body = self.bodies[min(self.requests, len(self.bodies) - 1)]
        self.requests += 1
        if body == "down":
            route.fulfill(status=503)
        else:
            route.fulfill(body=f"retry: 60000\n{body}", headers={"content-type": "text/event-stream"})


def message(html: str) -> str:
    return f"data: {html}\n\n"


LIVE = '<section data-live="/events"><p>first</p></section>'
STATE = ".live-state"


def test_a_live_section_shows_what_is_sent_and_says_when_the_connection_is_lost(
    stage: Callable[..., Page], tab: Page
) -> None:
    heading = '<div data-heading="Running: 1 of 3 &amp;lt;b>"></div>'
    Stream(tab, message(f"{heading}<p data-summary>1 of 3 <b>done</b></p>"))
    page = stage(LIVE)
    page.get_by_text("Not live: connection lost, trying again.").wait_for()
    assert page.locator("section[data-live] b").text_content() == "done"
    assert page.locator(STATE).get_attribute("role") == "status"
    messages = page.locator("section[data-live]").evaluate(
        "it => [...document.querySelectorAll('[role=status].unseen')].map(one => one.textContent)"
    )
    assert messages == ["1 of 3 done"]
    assert page.locator("h1").text_content() == "Running: 1 of 3 &lt;b>"
    assert page.title() == "Running: 1 of 3 &lt;b> · Proctor"


def test_a_lost_connection_is_tried_again_until_it_is_back(stage: Callable[..., Page], tab: Page) -> None:
    tab.clock.install()
    stream = Stream(tab, "down", "down", message("<p>back</p>"))
    page = stage(LIVE)
    page.get_by_text("Not live: connection lost").wait_for()
    while page.get_by_text("back").count() == 0:
        page.clock.run_for(1_000)
    assert stream.requests >= 3
    assert page.locator("section[data-live]").inner_text() == "back"


def test_a_page_that_is_refused_asks_more_and_more_rarely(stage: Callable[..., Page], tab: Page) -> None:
    tab.clock.install()
    tab.clock.pause_at(datetime.now() + timedelta(hours=1))  # noqa: DTZ005  # the browser's own clock
    stream = Stream(tab, "down")
    page = stage(LIVE)
    page.get_by_text("Not live: connection lost").wait_for()
    for wait_s in (3, 6, 12, 24, 48, 60, 60):
        count, ticks = stream.requests, 0
        while stream.requests == count:
            page.clock.run_for(1_000)
            ticks += 1
        assert ticks >= wait_s - 1  # the second in which it was refused may count for either


def test_focus_scroll_and_open_details_stay_when_a_section_is_shown_anew(
    stage: Callable[..., Page], tab: Page
) -> None:
    content = (
        '<details><summary>more</summary>x</details><a href="/there?a">a</a><a href="/there?b">b {n}</a>'
        '<div class="scroll">{wide}</div>'
    )
    wide = f"<pre>{'wide ' * 400}</pre>"
    later = content.replace("{n}", "2").replace("{wide}", wide).replace('<a href="/there?a">a</a>', "")
    first = content.replace("{n}", "1").replace("{wide}", wide)
    Stream(tab, message(first), message(later))
    page = stage(f'<section data-live="/events">{first}</section>')
    page.get_by_text("Not live").wait_for()
    page.set_viewport_size({"width": 600, "height": 700})
    page.click("summary")
    page.focus("text=b 1")
    page.evaluate("document.querySelector('.scroll').scrollTo(300, 0)")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")  # connects anew
    page.get_by_text("b 2").wait_for()
    assert page.evaluate("document.activeElement.textContent") == "b 2"
    assert page.evaluate("document.querySelector('details').open")
    assert page.evaluate("document.querySelector('.scroll').scrollLeft") == 300


def test_the_page_is_loaded_again_when_the_stream_says_that_it_is_done(
    stage: Callable[..., Page], tab: Page
) -> None:
    Stream(tab, "event: done\ndata: done\n\n", message("<p>after</p>"))
    page = stage(LIVE)
    page.get_by_text("after").wait_for()


def test_what_a_stream_sends_runs_no_script(stage: Callable[..., Page], tab: Page) -> None:
    Stream(tab, message("<p>shown<script>window.ran = 1</script></p>"))
    page = stage(LIVE)
    page.get_by_text("shown").wait_for()
    assert page.evaluate("window.ran") is None


# --- forms -------------------------------------------------------------------------------------------------

FORM = (
    '<form method="post" action="/there" data-again="#told, #kept">'
    '<input name="csrf" value="secret"><input name="group" value="1">'
    '<p id="told">old</p><p id="kept">old <input name="a"></p>'
    '<select name="b"><option value="">none<option>one</select></form>'
)


def test_another_choice_is_told_at_once_and_kept_in_the_address(
    stage: Callable[..., Page], tab: Page, script_server: Served
) -> None:
    addresses = list[str]()

    def answer(route: Route) -> None:
        addresses.append(route.request.url.removeprefix(script_server.url))
        route.fulfill(body="<h1>60 calls</h1><p id=told>new</p><p id=kept>new</p>", content_type="text/html")

    page = stage(FORM)
    tab.route("**/there?*", answer)
    page.select_option("[name=b]", "one")
    page.locator("#told", has_text="new").wait_for()
    page.locator("#kept", has_text="new").wait_for()
    assert addresses == ["/there?b=one"], "neither what is empty nor what is secret"
    page.wait_for_url(f"{script_server.url}/there?b=one")


def test_a_live_section_does_not_replace_a_field_with_focus(stage: Callable[..., Page], tab: Page) -> None:
    page = stage(FORM)
    tab.route(
        "**/there?*", lambda route: route.fulfill(body="<h1>x</h1><p id=told>new</p><p id=kept>new</p>")
    )
    page.fill("[name=a]", "x y")
    page.locator("[name=a]").dispatch_event("change")
    page.locator("#told", has_text="new").wait_for()
    assert page.input_value("[name=a]") == "x y"


def test_a_filter_applies_when_it_changes_and_leaves_out_what_is_empty(stage: Callable[..., Page]) -> None:
    page = stage(
        '<form method="get" action="/there" data-auto><select name="tag"><option value="">any<option>easy'
        '</select><input type="hidden" name="tag" value="hard"><input name="q"><button>Show</button></form>'
    )
    assert not page.locator("#stage button").is_visible()
    page.select_option("[name=tag]", "easy")
    page.wait_for_url("**/there?**")
    assert address(page) == "there?tag=easy&tag=hard"


def test_a_form_that_takes_long_says_for_how_long(stage: Callable[..., Page], tab: Page) -> None:
    tab.clock.install()
    page = stage('<form data-waits="Being read"><button>Send</button></form>')
    page.evaluate("document.querySelector('form').addEventListener('submit', (it) => it.preventDefault())")
    page.click("text=Send")
    page.clock.run_for(6_500)
    assert page.locator("[data-said]").text_content() == "Being read: 6 s so far."


# --- the file ----------------------------------------------------------------------------------------------


def test_the_script_is_small_strict_and_makes_nothing_from_text() -> None:
    text = SCRIPT.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 400
    assert '"use strict"' in text
    for word in ("eval(", "new Function", "http://", "https://", "import ", "document.write"):
        assert word not in text, word
    assert text.count("innerHTML") == 1


def test_every_page_has_the_script_and_the_list_of_keys(script_server: Served) -> None:
    text = script_server.get("/suites").text
    assert '<script src="/static/proctor.js" defer></script>' in text
    assert "data-keys-dialog" in text
    answer = script_server.get("/static/proctor.js")
    assert answer.headers["content-type"].startswith("text/javascript")
