"""The HTML report in a real browser: from a file, without a network, and with hostile texts in it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from axe_playwright_python.base import AXE_SCRIPT

from proctor.model import Evidence
from proctor.reports.runs.html import render
from support.builders import make_case, make_report, make_score, make_trial

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from playwright.sync_api import Page

HOSTILE = "</style></pre><script>window.was_run = 1</script><img src=x onerror='window.was_run = 1'>"
Open = Callable[..., AbstractContextManager["Page"]]


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """A report of a run with a hostile text in ids, answers and reasons, and with long words."""
    entry = Evidence(text="onerror", passed=False, evidence=HOSTILE)
    pairs = [
        (
            make_trial(
                HOSTILE,
                make_score(float(number % 2), reason=HOSTILE, name=HOSTILE, entries=(entry,)),
                case_id=f"{number} {HOSTILE}",
                position=number,
            ),
            make_case(HOSTILE, "w" * 500, category=HOSTILE, tags=("t" * 300,) if number else ()),
        )
        for number in range(6)
    ]
    path = tmp_path / "report.html"
    path.write_text("".join(render([make_report(*pairs)])), encoding="utf-8")
    return path


def test_it_opens_from_a_file_and_runs_and_fetches_nothing(report: Path, browser: Open) -> None:
    with browser("", offline=True) as page:
        urls: list[str] = []
        page.on("request", lambda request: urls.append(request.url))
        page.goto(report.as_uri())
        assert page.evaluate("window.was_run") is None
        assert [url for url in urls if not url.startswith("data:")] == [report.as_uri()]
        assert page.locator("h1").inner_text() == "echo passed 3 of 6 (50.0%, 19–81%)"
        assert page.locator("script, link, iframe").count() == 0
        drawing: Any = page.locator("picture img").evaluate("drawn => [drawn.complete, drawn.naturalWidth]")
        assert drawing[0]
        assert drawing[1] > 0


def test_a_trial_opens_to_its_sheet_and_the_switch_hides_what_passed(report: Path, browser: Open) -> None:
    with browser("") as page:
        page.goto(report.as_uri())
        page.locator("li.fail summary").first.click()
        assert page.locator("li.fail mark").first.inner_text().startswith("onerror")
        assert page.locator("li.pass").first.is_visible()
        page.get_by_label("only failed and errored").check()
        assert not page.locator("li.pass").first.is_visible()
        assert page.locator("li.fail").count() == 3


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_fits_a_phone_in_both_themes(report: Path, browser: Open, theme: str) -> None:
    with browser("", color_scheme=theme, viewport={"width": 390, "height": 800}) as page:
        page.goto(report.as_uri())
        page.locator("li.fail summary").first.click()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        shares: Any = page.locator(".share").evaluate_all(
            "all => all.map(one => one.getBoundingClientRect().right)"
        )
        assert max(shares) <= 390
        paper = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        assert paper == ("rgb(255, 255, 255)" if theme == "light" else "rgb(21, 23, 26)")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_wrong_in_it(report: Path, browser: Open, theme: str) -> None:
    with browser("", color_scheme=theme) as page:
        page.goto(report.as_uri())
        for folded in page.locator("details > summary").all()[:2]:
            folded.click()
        page.evaluate(AXE_SCRIPT)
        result: Any = page.evaluate("axe.run()")
        assert [
            (violation["id"], [node["html"] for node in violation["nodes"]])
            for violation in result["violations"]
        ] == []
