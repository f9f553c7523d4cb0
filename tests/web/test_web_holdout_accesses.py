"""A holdout access of the pages and the API: once for each person and day, whatever shows it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from proctor.model import Run
from proctor.web.project import Project
from support.web import Visitor, make_runs, save_suite, visit

ANA, BEN = "token-of-ana-0123456789", "token-of-ben-0123456789"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def runs(site: Project) -> list[Run]:
    """Two runs of a suite of ten cases, of which two are held out; no page has shown them."""
    rows = [json.dumps({"id": f"c{n}", "input": f"say {n}", "expected": f"say {n}"}) for n in range(10)]
    save_suite(site, "ten", "\n".join(rows))
    return [*make_runs(site, "ten", "echo"), *make_runs(site, "ten", "echo")]


@pytest.fixture
def visitor(site: Project) -> Iterator[Visitor]:
    """A browser at a server of two people, whose clock stands at noon."""
    site.named_tokens = {"ana": ANA, "ben": BEN}
    site.sessions.accesses.now = lambda: NOON
    with visit(site) as running:
        yield running


def log_in(visitor: Visitor, token: str) -> Visitor:
    """Another browser that has shown a token."""
    browser = visitor.new_visitor()
    assert browser.post("/login", {"token": token}).status == 303
    return browser


def persons(site: Project, run: Run) -> list[tuple[str | None, str]]:
    with site.open_store() as store:
        return [(access.person, access.kind) for access in store.holdout_accesses(run.suite.digest)]


def test_two_browsers_with_one_token_are_one_person(site: Project, visitor: Visitor, runs: list[Run]) -> None:
    before = persons(site, runs[0])
    for browser in (log_in(visitor, ANA), log_in(visitor, ANA)):
        for run in runs:
            browser.page(f"/runs/{run.id}")
            browser.page(f"/runs/{run.id}/export.md")
    assert persons(site, runs[0]) == [*before, ("ana", "rate")]


def test_another_person_and_the_api_with_their_token(
    site: Project, visitor: Visitor, runs: list[Run]
) -> None:
    before = persons(site, runs[0])
    log_in(visitor, ANA).page(f"/runs/{runs[0].id}")
    log_in(visitor, BEN).page(f"/runs/{runs[0].id}")
    answer = visitor.new_visitor().get(f"/api/v1/runs/{runs[0].id}", Authorization=f"Bearer {BEN}")
    assert answer.status == 200
    assert persons(site, runs[0]) == [*before, ("ana", "rate"), ("ben", "rate")]


def test_the_next_day_counts_again_by_utc(site: Project, visitor: Visitor, runs: list[Run]) -> None:
    before = persons(site, runs[0])
    browser = log_in(visitor, ANA)
    for moment in (NOON, NOON.replace(hour=23, minute=59), NOON + timedelta(hours=12)):
        site.sessions.accesses.now = lambda moment=moment: moment  # type: ignore[misc]
        browser.page(f"/runs/{runs[0].id}")
    assert persons(site, runs[0]) == [*before, ("ana", "rate"), ("ana", "rate")]


def test_a_server_that_starts_again_knows_who_looked_today(
    site: Project, visitor: Visitor, runs: list[Run]
) -> None:
    log_in(visitor, ANA).page(f"/runs/{runs[0].id}")
    people = persons(site, runs[0])
    again = Project(site.location.address, folder=site.folder, named_tokens=site.named_tokens)
    again.sessions.accesses.now = lambda: NOON
    with visit(again) as other:
        log_in(other, ANA).page(f"/runs/{runs[1].id}")
    assert persons(site, runs[0]) == people


def test_revealing_is_an_access_of_its_own_and_reveals_to_one_person(
    site: Project, visitor: Visitor, runs: list[Run]
) -> None:
    before, address = persons(site, runs[0]), f"/runs/{runs[0].id}"
    browser = log_in(visitor, ANA)
    browser.page(address)
    for reader in (browser, log_in(visitor, ANA)):
        assert reader.post(f"{address}/reveal").status == 303
    assert persons(site, runs[0]) == [*before, ("ana", "rate"), ("ana", "reveal")]
    assert "holdout revealed" in browser.page(address)
    assert browser.post("/login", {"token": BEN}).status == 303
    assert "holdout hidden" in browser.page(address)


def test_without_tokens_there_is_one_owner(site: Project, runs: list[Run]) -> None:
    before = persons(site, runs[0])
    with visit(site) as visitor:
        for browser in (visitor.new_visitor(), visitor.new_visitor()):
            browser.page(f"/runs/{runs[0].id}")
    assert persons(site, runs[0]) == [*before, ("owner", "rate")]
