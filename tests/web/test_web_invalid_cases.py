"""Pages of a run with invalid cases: they are there, they say why, and no run is estimated to send them."""

from __future__ import annotations

import asyncio
import json
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from proctor.model import Run
from proctor.services.runs.execution.session import RunSession
from proctor.services.runs.reading.estimate import estimate_request
from proctor.services.runs.request import Request
from proctor.web.project import Project
from support.web import Visitor

pytestmark = pytest.mark.slow

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def run(site: Project, project: Path) -> Run:
    """A run of one case that passes and one that is invalid, at position 1."""
    rows: list[dict[str, Any]] = [
        {"id": "a", "input": "x", "expected": "x"},
        {"id": "b", "input": "x", "expected": "x", HOSTILE: 1},
    ]
    (project / "s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    async def make() -> Run:
        with site.open_store() as store:
            session = RunSession(store, site.environ, lambda event: None, folder=site.location.folder)
            (result,) = await session.run(Request(suites=("s.jsonl",), targets=("echo",), skip_invalid=True))
            return result.run

    return asyncio.run(make())


@pytest.mark.parametrize("path", ["/runs/{}", "/runs/{}/cases/1"])
def test_a_page_of_a_run_says_why_a_case_is_invalid(server: Visitor, run: Run, path: str) -> None:
    page = server.page(path.format(run.id))
    assert "s.jsonl:2: Test 'b': Unknown field" in unescape(page)
    assert HOSTILE not in page


def test_the_page_of_its_suite_shows_it(server: Visitor, run: Run) -> None:
    page = server.page(f"/suite?name={run.suite.name}&case=1")
    assert ">b<" in page
    assert "s.jsonl:2: Test 'b': Unknown field" in unescape(page)
    assert HOSTILE not in page


def test_no_estimate_sends_it(site: Project, run: Run) -> None:
    with site.open_store() as store:
        request = Request(stored_names=(run.suite.name,), targets=("echo",))
        estimate = estimate_request(store, request, site.environ, folder=site.location.folder)
    assert (estimate.cases, estimate.calls) == (2, 1)
