"""A phone: the way from a suite to an answer, by touch, with nothing outside the screen."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from proctor.web.project import Project
from support.web import Served, read_outside, save_suite

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from playwright.sync_api import Page

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def test_a_suite_is_run_and_an_answer_is_read_by_touch(
    site: Project, server: Served, browser: Callable[..., AbstractContextManager[Page]]
) -> None:
    name = "questions-with-a-name-that-is-longer-than-the-screen-of-a-phone"
    cases = [{"id": f"q{n}", "input": f"Say {n}.", "expected": str(n)} for n in range(6)]
    save_suite(site, name, "\n".join(map(json.dumps, cases)))
    with browser(server.url, **PHONE) as page:
        heading = page.get_by_role("heading", level=1)
        page.goto("/suites")
        assert read_outside(page) == []
        page.get_by_role("table").get_by_role("link", name="Run", exact=True).tap()
        page.get_by_role("checkbox", name="echo").tap()
        assert read_outside(page) == []
        page.get_by_role("button", name="Start").tap()
        page.wait_for_url("**/starts/*")
        assert read_outside(page) == []
        page.get_by_role("table").get_by_role("link", name="echo", exact=True).tap()
        expect(heading).to_contain_text("echo passed")
        assert read_outside(page) == []
        page.get_by_role("link", name="q1", exact=True).tap()
        expect(page).to_have_url(re.compile("/cases/"))
        assert read_outside(page) == []
        page.get_by_role("navigation", name="Pages").get_by_role("link", name="Runs").tap()
        expect(page.get_by_role("rowheader")).to_have_text(re.compile("echo"))
        expect(page.get_by_role("rowheader").locator("code")).to_be_hidden()
        assert read_outside(page) == []
