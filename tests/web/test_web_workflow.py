"""The whole application as people use it: by its labels, buttons and keys, in a real browser."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

import pytest
from playwright.sync_api import expect

from proctor.cli.main import _invoke
from support.web import make_runs

if TYPE_CHECKING:
    from playwright.sync_api import FilePayload, Locator, Page

    from support.web import Gate, Served

TARGETS = """
targets:
  - {name: first, provider: scripted, file: first.jsonl}
  - {name: better, provider: scripted, file: better.jsonl}
  - {name: gated, provider: function, function: "gated:answer"}
"""


def h1(page: Page) -> Locator:
    """The first line of a page."""
    return page.get_by_role("heading", level=1)


def go(page: Page, place: str) -> None:
    """Opens a page by the links at the top."""
    page.get_by_role("navigation", name="Pages").get_by_role("link", name=place, exact=True).click()


def expect_status(page: Page, sentence: str) -> None:
    """Waits until the page shows a sentence about the last action."""
    expect(page.get_by_role("status").filter(has_text=sentence).first).to_be_visible()


def start(page: Page, suite: str, target: str, **fields: str) -> None:
    """Starts a run from the link Run Suite, and waits for its page."""
    go(page, "Run Suite")
    page.get_by_label("Suite", exact=True).select_option(label=f"[Custom] {suite}")
    page.get_by_role("checkbox", name=target).check()
    for label, value in fields.items():
        page.get_by_label(label.replace("_", " ")).fill(value)
    page.get_by_role("button", name="Start").click()
    expect(page).to_have_url(re.compile("/starts/"))


@pytest.fixture
def exam(project: Path) -> str:
    """Thirty cases of which one gives its answer away, and targets that know some and more of the rest."""
    cases = [{"id": f"q{number:02}", "input": f"What is {number} + {number}?"} for number in range(1, 31)]
    for number, case in enumerate(cases, 1):
        case["expected"] = str(2 * number)
        case["tags"] = "even" if number % 2 == 0 else "odd"
    cases[6]["input"] += " It is 14."
    for name, wrong in (("first", 3), ("better", 7)):
        answers = {case["id"]: case["expected"] if place % wrong else "?" for place, case in enumerate(cases)}
        (project / f"{name}.jsonl").write_text(json.dumps(answers), encoding="utf-8")
    (project / "targets.yaml").write_text(TARGETS, encoding="utf-8")
    return "\n".join(map(json.dumps, cases))


def upload(name: str, data: str | bytes) -> FilePayload:
    """A file for a file field."""
    content = data.encode() if isinstance(data, str) else data
    return {"name": name, "mimeType": "application/octet-stream", "buffer": content}


def press(page: Page, *keys: str) -> None:
    """Presses keys, one after the other, once the page's script listens."""
    page.wait_for_load_state()
    for key in keys:
        page.keyboard.press(key)


def test_quick_start_from_an_empty_folder(browser_page: Page) -> None:
    page = browser_page
    page.goto("/")
    page.get_by_role("link", name="Create Suite").click()
    page.get_by_role("button", name="Create Demo Suite").click()
    expect(h1(page)).to_contain_text("20 cases read")
    page.get_by_role("button", name="Validate again").click()
    expect(h1(page)).to_contain_text("20 cases read")
    page.get_by_role("button", name="Save", exact=True).click()
    expect_status(page, "Saved demo v1: 20 cases.")
    go(page, "Run Suite")
    page.get_by_label("Suite", exact=True).select_option(label="[Custom] demo")
    page.get_by_role("checkbox", name="echo").check()
    page.get_by_role("button", name="Estimate").click()
    expect(h1(page)).to_contain_text("16 dev + 4 holdout cases")
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_text("Running custom suite: 16 dev + 4 holdout tests")).to_be_visible()
    expect(page.get_by_role("columnheader", name="Holdout Accuracy")).to_be_visible()
    expect(page.get_by_text(re.compile(r"^Completed: Dev \d+/16 \| Holdout \d+/4$"))).to_be_visible()
    page.get_by_role("table").get_by_role("link", name="echo", exact=True).click()
    run = page.url
    expect(h1(page)).to_contain_text("echo passed")
    press(page, "f")
    expect(page).to_have_url(re.compile("verdict=fail"))
    page.get_by_role("link", name="math_1").click()
    expect(h1(page)).to_contain_text("Failed ")
    page.go_back()
    expect(page.get_by_role("link", name="math_1")).to_be_visible()
    assert page.url.startswith(run)


def test_the_complete_workflow(
    browser_page: Page, exam: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _invoke(["keys", "new", "default"]) == 0
    page = browser_page
    save_thirty_cases_with_a_leak_mended(page, exam)
    first = run_and_look_at_the_failures(page)
    start(page, "exam", "better")
    page.get_by_role("table").get_by_role("link", name="better", exact=True).click()
    expect(h1(page)).to_contain_text("better passed")
    better = page.url.rpartition("/")[2]

    go(page, "Runs")
    for run in (first, better):
        page.get_by_role("checkbox", name=run).check()
    page.get_by_role("button", name="Compare").click()
    expect(h1(page)).to_contain_text(re.compile(r"better|fixed"))
    expect(h1(page)).to_contain_text(" fixed, ")

    bundle = certify(page, better, project)
    verify(page, bundle)
    capsys.readouterr()
    assert _invoke(["runs", "list", "--json"]) == 0
    assert {first, better} == {run["run"] for run in json.loads(capsys.readouterr().out)["runs"]}
    assert _invoke(["verify", str(bundle)]) == 0


def save_thirty_cases_with_a_leak_mended(page: Page, exam: str) -> None:
    page.goto("/suites/new")
    page.get_by_label("Name").fill("exam")
    page.get_by_label("File").set_input_files(upload("exam.jsonl", exam))
    page.get_by_role("button", name="Validate").click()
    expect(h1(page)).to_contain_text("30 cases read, 1 leak warning")
    line = page.get_by_role("listitem").filter(has_text='"q07"').first
    expect(line).to_contain_text("LEAK WARNING: Test 'q07' input contains expected answer")
    cases = page.get_by_label("Cases")
    cases.fill(cases.input_value().replace(" It is 14.", ""))
    page.get_by_role("button", name="Validate again").click()
    expect(h1(page)).to_contain_text("30 cases read, no errors, no warnings")
    page.get_by_role("button", name="Save", exact=True).click()
    expect_status(page, "Saved exam v1: 30 cases.")


def run_and_look_at_the_failures(page: Page) -> str:
    start(page, "exam", "first")
    page.get_by_role("table").get_by_role("link", name="first", exact=True).click()
    expect(h1(page)).to_contain_text("first passed 20 of 30 (66.7%, 49–81%); holdout hidden")
    page.get_by_label("Any split").select_option("dev")
    page.wait_for_url("**split=dev**")
    page.get_by_label("Any verdict").select_option("fail")
    page.wait_for_url("**verdict=fail**")
    trials = page.get_by_role("table").filter(has=page.get_by_role("columnheader", name="Input"))
    visible = trials.get_by_role("row").count() - 1
    assert 4 <= visible <= 10
    trials.get_by_role("row").nth(1).get_by_role("link").click()
    expect(h1(page)).to_contain_text("Failed ")
    page.go_back()
    page.get_by_role("link", name="Without holdout").or_(page.get_by_role("link", name="Without dev")).click()
    expect(trials.get_by_role("row")).to_have_count(11)
    hidden_rows = trials.get_by_role("row").filter(has_text="hidden")
    expect(hidden_rows).to_have_count(10 - visible)
    hidden_rows.first.get_by_role("link").click()
    expect(h1(page)).to_contain_text("Failed; prompt, answer and reasons are hidden (holdout)")
    expect(page.get_by_text("What is")).to_have_count(0)
    return page.url.split("/runs/")[1].partition("/")[0]


def certify(page: Page, run: str, folder: Path) -> Path:
    """A certificate with its badge, and the bundle that is downloaded beside it."""
    page.goto(f"/runs/{run}")
    page.get_by_role("link", name="Certify").click()
    page.get_by_role("button", name="Create the certificate").click()
    expect(page.get_by_role("alert")).to_have_text(
        "Not certified. 6 holdout cases are not enough; at least 20 are needed. With 20 % held out that is a "
        "suite of 100 cases. Write more cases, hold out 67 % of these 30, or lower the minimum."
    )
    page.get_by_label("Minimum cases").fill("5")
    page.get_by_role("button", name="Create the certificate").click()
    expect(h1(page)).to_contain_text(re.compile(r"^[\d.]+% \(\d+–\d+%\) verified on 6 holdout cases"))
    expect(page.get_by_role("img", name=re.compile("^Badge: "))).to_be_visible()
    expect(page.get_by_text(re.compile(r"!\[[\d.]+ % verified .*\]\(badge.svg\)"))).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="Full bundle").click()
    bundle = folder / "bundle.zip"
    download.value.save_as(bundle)
    return bundle


def verify(page: Page, bundle: Path) -> None:
    go(page, "Certificates")
    page.get_by_label("Bundle").set_input_files(bundle)
    page.get_by_role("button", name="Verify").click()
    expect(h1(page)).to_contain_text(
        "bundle.zip verified: every score, verdict and number follows from the answers"
    )


def test_a_live_run_survives_a_reload_and_a_lost_connection_and_is_stopped_and_resumed(
    browser: Callable[..., AbstractContextManager[Page]], server: Served, exam: str, gate: Gate
) -> None:
    suite = "\n".join(exam.splitlines()[:6])
    server.post("/suites/save", {"name": "six", "text": suite})
    with browser(server.url, but="net::ERR_") as page:
        page.goto("/")
        start(page, "six", "gated", Concurrent_requests="1")
        far = page.get_by_role("region").get_by_text(re.compile("^3 of 6 trials"))
        expect(far).to_be_visible()
        page.reload()
        expect(far).to_be_visible()
        expect(page.get_by_text("Live.", exact=True)).to_be_visible()
        page.context.set_offline(True)
        server.drop()
        expect(page.get_by_text("Not live: connection lost, trying again.")).to_be_visible()
        page.context.set_offline(False)
        expect(page.get_by_text("Live.", exact=True)).to_be_visible()
        page.get_by_role("link", name="All trials so far").click()
        expect(h1(page)).to_contain_text("of 6 trials of six v1 on gated")
        expect(far).to_be_visible()
        page.go_back()
        page.get_by_role("button", name="Stop").click()
        expect_status(page, "Stopping: open calls get 1 second")
        gate.open()
        expect(h1(page)).to_have_text("Stopped: 4 of 6 trials of six v1 on gated are stored")
        page.get_by_role("button", name="Resume").click()
        expect(h1(page)).to_contain_text("Finished: 0%, 0 of 6 passed, six v1 on gated")


def archive(**files: str) -> bytes:
    """A zip of files, whose names have `__` where there is a folder's end."""
    data = io.BytesIO()
    with ZipFile(data, "w") as archive_file:
        for name, text in files.items():
            archive_file.writestr(name.replace("__", "/").replace("_md", ".md"), text)
    return data.getvalue()


FORMATS = {
    "csv": upload("a.csv", "id,input,expected,scorer\nt1,What is 2+2?,4,exact\nt2,And 3+3?,6,exact\n"),
    "agentv": upload(
        "b.eval.yaml",
        "name: b\ntests:\n  - id: a\n    criteria: agrees\n    input: Do you agree?\n"
        "    expected_output: 'yes'\n    assertions: [{type: contains, value: 'yes'}]\n",
    ),
    "ai_tester": upload(
        "greet.zip",
        archive(
            greet__hello_md="# 👤\n\nGreet me.\n\n---\n\nIt must greet.\n",
            greet__sub__bye_md="# 👤\n\nBye.\n\n---\n\nKind.\n",
        ),
    ),
}


@pytest.mark.parametrize("dialect", FORMATS)
def test_every_format_is_uploaded_and_comes_back_the_same(browser_page: Page, dialect: str) -> None:
    page = browser_page
    page.goto("/suites/new")
    page.get_by_label("Name").fill("mine")
    page.get_by_label("File").set_input_files(FORMATS[dialect])
    page.get_by_role("button", name="Validate").click()
    page.get_by_role("button", name="Save", exact=True).click()
    expect_status(page, "Saved mine v1")
    with page.expect_download() as download:
        page.get_by_role("link", name="proctor", exact=True).click()
    page.goto("/suites/new")
    page.get_by_label("Name").fill("mine")
    page.get_by_label("File").set_input_files(download.value.path())
    page.get_by_role("button", name="Validate").click()
    page.get_by_role("button", name="Save", exact=True).click()
    expect_status(page, "Nothing changed.")


def tab_to(page: Page, locator: Locator) -> None:
    """Moves the focus to an element with the Tab key alone."""
    for _ in range(80):
        if locator.evaluate("it => it === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"{locator} cannot be reached by the keyboard")


def test_keys_alone_do_everything(browser_page: Page) -> None:
    page = browser_page
    page.goto("/suites/new")
    press(page, "Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    press(page, "Enter")
    tab_to(page, page.get_by_role("button", name="Create Demo Suite"))
    press(page, "Enter")
    tab_to(page, page.get_by_role("button", name="Save", exact=True))
    press(page, "Enter")
    expect_status(page, "Saved demo v1")
    tab_to(page, page.get_by_role("main").get_by_role("link", name="Run Suite"))
    press(page, "Enter")
    tab_to(page, page.get_by_label("Suite", exact=True))
    page.keyboard.type("[Custom] demo")
    tab_to(page, page.get_by_role("checkbox", name="echo"))
    press(page, "Space")
    tab_to(page, page.get_by_role("button", name="Start"))
    press(page, "Enter")
    expect(page.get_by_role("columnheader", name="Holdout Accuracy")).to_be_visible()
    press(page, "j", "Enter")
    expect(h1(page)).to_contain_text("echo passed")
    press(page, "/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("math")
    press(page, "Enter")
    expect(page).to_have_url(re.compile("text=math"))
    press(page, "j", "j", "Enter")
    expect(h1(page)).to_contain_text("Failed")
    case = page.url
    press(page, "n")
    expect(page).not_to_have_url(case)
    press(page, "p")
    expect(page).to_have_url(case)


def test_everything_works_without_scripts(
    browser: Callable[..., AbstractContextManager[Page]], server: Served, exam: str
) -> None:
    with browser(server.url, java_script_enabled=False) as page:
        page.goto("/suites/new")
        page.get_by_label("Name").fill("plain")
        page.get_by_label("Cases").fill(exam)
        page.get_by_role("button", name="Validate").click()
        page.get_by_role("button", name="Save", exact=True).click()
        expect_status(page, "Saved plain v1")
        start(page, "plain", "first")
        server.get(f"{page.url.removeprefix(server.url)}/events")  # ends when the run does
        page.reload()
        page.get_by_role("table").get_by_role("link", name="first", exact=True).click()
        expect(h1(page)).to_contain_text("first passed 20 of 30")
        page.get_by_role("link", name="Failed and errored").click()
        page.get_by_role("link", name=re.compile("^q")).first.click()
        expect(h1(page)).to_contain_text("Failed")
        page.get_by_role("link", name="next").click()
        expect(h1(page)).to_contain_text("Failed")


def test_a_run_is_printed_without_what_is_only_for_screens(
    browser_page: Page, server: Served, exam: str
) -> None:
    server.post("/suites/save", {"name": "exam", "text": exam})
    make_runs(server.site, "exam", "first")
    page = browser_page
    page.goto("/runs")
    page.get_by_role("table").get_by_role("link").nth(4).or_(page.locator("tbody th a")).first.click()
    page.emulate_media(media="print")
    expect(h1(page)).to_be_visible()
    expect(page.get_by_role("link", name="q01")).to_be_visible()
    expect(page.get_by_role("navigation", name="Pages")).to_be_hidden()
    for button in page.get_by_role("button").all():
        expect(button).to_be_hidden()
    assert page.pdf().startswith(b"%PDF")
