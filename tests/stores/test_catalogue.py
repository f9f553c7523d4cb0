"""The catalogue beside a store: which trials it finds, in which order and pages, and what it never shows."""

from __future__ import annotations

import random
import sqlite3
import threading
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from proctor.errors import StoreError
from proctor.model import Verdict
from proctor.stores.catalogue.database import Catalogue
from proctor.stores.catalogue.records import VERDICTS, CatalogueEntry, TrialFilter, TrialPage, TrialRow


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalogue:
    return Catalogue(str(tmp_path / "kept-catalogue"))


def entry(position: int, text: str = "", **fields: Any) -> CatalogueEntry:
    beside = {name: fields.pop(name) for name in ("graders", "missed") if name in fields}
    given: dict[str, Any] = {"case_id": f"c{position}", "verdict": Verdict.PASS, "answer": text[:9]}
    return CatalogueEntry(row=TrialRow(position=position, **given | fields), text=text, **beside)


def filled(catalogue: Catalogue, *entries: CatalogueEntry, run: str = "r1") -> Catalogue:
    catalogue.add_run(run)
    catalogue.add_trials(run, entries)
    return catalogue


def positions(page: TrialPage) -> list[int]:
    return [line.position for line in page.lines]


def all_pages(catalogue: Catalogue, wanted: TrialFilter, sort: str, limit: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    after: str | None = ""
    while after is not None:
        page = catalogue.page("r1", wanted, sort, after, limit)
        found += [(line.position, line.repeat) for line in page.lines]
        after = page.next
    return found


# --- pages -------------------------------------------------------------------------------------------------


def some(count: int = 57) -> list[CatalogueEntry]:
    choose = random.Random(3)
    return [
        entry(
            number,
            repeat=choose.randrange(3),
            verdict=choose.choice(VERDICTS),
            score=choose.choice([None, 0.0, 0.5, 1.0]),
            latency_ms=choose.choice([None, float(choose.randrange(20))]),
            cost_usd=choose.choice([None, 0.5, 1.5]),
            case_id=choose.choice(["a", "b", "ä"]),
        )
        for number in range(count)
    ]


def key_of(entry: CatalogueEntry, sort: str) -> tuple[bool, Any]:
    line = entry.row
    values: dict[str, Any] = {
        "position": line.position,
        "case": line.case_id,
        "verdict": VERDICTS.index(line.verdict),
        "score": line.score,
        "latency": line.latency_ms,
        "cost": line.cost_usd,
    }
    return values[sort] is None, values[sort]


def in_order(entries: Sequence[CatalogueEntry], sort: str) -> list[tuple[int, int]]:
    name, down = sort.removeprefix("-"), sort.startswith("-")
    known = sorted((one for one in entries if not key_of(one, name)[0]), key=lambda one: one.row.position)
    known.sort(key=lambda one: key_of(one, name)[1], reverse=down)
    unknown = [one for one in entries if key_of(one, name)[0]]
    return [(one.row.position, one.row.repeat) for one in (*known, *unknown)]


@pytest.mark.parametrize("down", ["", "-"])
@pytest.mark.parametrize("sort", ["position", "case", "verdict", "score", "latency", "cost"])
def test_pages_have_every_trial_once_in_order_with_what_is_unknown_last(
    catalogue: Catalogue, sort: str, down: str
) -> None:
    entries = some()
    filled(catalogue, *entries)
    assert all_pages(catalogue, TrialFilter(), down + sort, 10) == in_order(entries, down + sort)


@pytest.mark.parametrize("sort", ["position", "-latency", "verdict"])
def test_going_back_shows_the_pages_that_were_before(catalogue: Catalogue, sort: str) -> None:
    filled(catalogue, *some())
    pages, after = [], ""
    while True:
        pages.append(catalogue.page("r1", TrialFilter(), sort, after, 10))
        if pages[-1].next is None:
            break
        after = pages[-1].next
    assert pages[0].previous is None
    for earlier, later in pairwise(pages):
        assert later.previous is not None
        back = catalogue.page("r1", TrialFilter(), sort, later.previous, 10)
        assert back.lines == earlier.lines
        assert (back.next is None, back.previous is None) == (False, earlier.previous is None)


def test_an_address_that_makes_no_sense_shows_a_page_all_the_same(catalogue: Catalogue) -> None:
    filled(catalogue, entry(0), entry(1))
    for sort, after in (("nonsense", ""), ("--position", ""), ("latency; DROP TABLE lines", ""), ("", "x.y")):
        assert positions(catalogue.page("r1", TrialFilter(), sort, after)) == [0, 1]
    assert catalogue.page("r1", TrialFilter(), "position", "7.0").lines == ()
    assert catalogue.page("unknown", TrialFilter()) == TrialPage(lines=(), total=0)


def test_the_trials_beside_one_are_those_before_and_after_it_in_its_order(catalogue: Catalogue) -> None:
    entries = some()
    filled(catalogue, *entries)
    order = in_order(entries, "-latency")
    found = [catalogue.neighbours("r1", TrialFilter(), "-latency", place) for place in order]
    assert [before for before, _ in found] == [None, *order[:-1]]
    assert [behind for _, behind in found] == [*order[1:], None]


# --- filters -----------------------------------------------------------------------------------------------


def test_each_word_of_a_filter_leaves_out_what_does_not_fit(catalogue: Catalogue) -> None:
    filled(
        catalogue,
        entry(0, "An answer", tags=("x", "y"), category="c", split="dev", graders=("exact",)),
        entry(
            1,
            "Ein Spaß",
            tags=("xx",),
            category="cc",
            verdict=Verdict.FAIL,
            graders=("a", "b"),
            missed=("b",),
        ),
        entry(2, "ÉTÉ\n100%_", tags=("x",), verdict=Verdict.ERROR, split="holdout"),
        entry(3, "été", verdict=Verdict.UNSCORED, graders=("b",), case_id="Été"),
    )
    expected = {
        TrialFilter(verdicts=("fail", "error")): [1, 2],
        TrialFilter(tags=("x",)): [0, 2],
        TrialFilter(tags=("x", "y")): [0],
        TrialFilter(tags=("y,xx",)): [0, 1],
        TrialFilter(tags=("x", "y, xx")): [0],
        TrialFilter(tags=(",",)): [],
        TrialFilter(category="c"): [0],
        TrialFilter(split="holdout"): [2],
        TrialFilter(case="c1"): [1],
        TrialFilter(case="c*"): [0, 1, 2],
        TrialFilter(case="[!a-c]*"): [3],
        TrialFilter(case="C1"): [],
        TrialFilter(graders=("b",)): [1, 3],
        TrialFilter(missed=("b",)): [1],
        TrialFilter(text="ANSWER"): [0],
        TrialFilter(text="spass"): [1],
        TrialFilter(text="été"): [2, 3],
        TrialFilter(text="%_"): [2],
        TrialFilter(text="' OR 1=1 --"): [],
        TrialFilter(text="C2"): [2],
        TrialFilter(verdicts=("fail",), text="été"): [],
        TrialFilter(verdicts=("nonsense",)): [],
    }
    for wanted, places in expected.items():
        page = catalogue.page("r1", wanted)
        assert (positions(page), page.total) == (places, len(places)), wanted
        assert all_pages(catalogue, wanted, "-latency", 1) == [(place, 0) for place in places]


def test_a_text_is_not_found_across_two_trials_nor_in_another_run(catalogue: Catalogue) -> None:
    filled(catalogue, entry(0, "begin"), entry(1, "nings", case_id="end"))
    filled(catalogue, entry(0, "beginnings"), run="r2")
    for text in ("beginend", "begin\0end", "beginnings", "\0"):
        assert positions(catalogue.page("r1", TrialFilter(text=text))) == []
    assert positions(catalogue.page("r2", TrialFilter(text="beginnings"))) == [0]


def test_what_is_added_after_a_search_is_found_by_the_next_one(catalogue: Catalogue) -> None:
    filled(catalogue, entry(0, "rare"))
    assert catalogue.page("r1", TrialFilter(text="rare")).total == 1
    catalogue.add_trials("r1", [entry(number, "rare") for number in range(1, 600)])
    assert catalogue.page("r1", TrialFilter(text="rare")).total == 600


def test_a_trial_that_is_added_again_takes_its_new_form(catalogue: Catalogue) -> None:
    filled(catalogue, entry(0, "old", verdict=Verdict.FAIL), entry(0, "new"))
    page = catalogue.page("r1", TrialFilter())
    assert [(line.verdict, line.answer) for line in page.lines] == [(Verdict.PASS, "new")]


# --- what is held out --------------------------------------------------------------------------------------


def test_nothing_of_a_sealed_answer_is_shown_found_or_sorted_by(catalogue: Catalogue) -> None:
    secret = {"question": "q", "answer": "a", "why": "w", "latency_ms": 9.0, "cost_usd": 1.0, "score": 0.5}
    filled(
        catalogue,
        entry(0, "open", latency_ms=1.0),
        entry(1, "secret", sealed=True, split="holdout", verdict=Verdict.FAIL, tags=("t",), **secret),
        entry(2, "open", latency_ms=3.0),
    )
    sealed = catalogue.page("r1", TrialFilter(split="holdout")).lines[0]
    told: dict[str, Any] = {"verdict": Verdict.FAIL, "split": "holdout", "score": 0.5, "tags": ("t",)}
    assert sealed == entry(1, sealed=True, **told).row
    assert catalogue.page("r1", TrialFilter(text="secret")).total == 0
    assert positions(catalogue.page("r1", TrialFilter(text="c1"))) == [1]
    assert positions(catalogue.page("r1", TrialFilter(), "-latency")) == [2, 0, 1]
    revealed = catalogue.page("r1", TrialFilter(text="secret"), revealed=True).lines[0]
    assert (revealed.sealed, revealed.question, revealed.answer, revealed.why) == (False, "q", "a", "w")
    assert positions(catalogue.page("r1", TrialFilter(), "-latency", revealed=True)) == [1, 2, 0]
    assert (
        catalogue.page("r1", TrialFilter(text="secret")).total == 0
    )  # also after somebody else has found it


# --- the file ----------------------------------------------------------------------------------------------


def test_what_is_kept_of_a_run_is_there_for_another_process_until_it_is_forgotten(
    catalogue: Catalogue,
) -> None:
    token = catalogue.add_run("r1").token
    filled(catalogue, entry(0, "text"))
    catalogue.mark_complete("r1", token, "stamp", b"body")
    other = Catalogue(catalogue.path)
    assert (other.add_run("r1").stamp, other.add_run("r1").body) == ("stamp", b"body")
    assert set(other.runs()) == {"r1"}
    other.delete_runs(["r1", "r2"])
    assert catalogue.runs() == {}
    assert catalogue.page("r1", TrialFilter(text="text")).total == 0
    again = catalogue.add_run("r1")
    assert (again.token == token, again.stamp) == (False, "")
    catalogue.mark_complete("r1", token, "stamp", b"of lines that are gone")
    assert catalogue.add_run("r1").stamp == ""


@pytest.mark.parametrize("what", ["deleted", "damaged", "of another version"])
def test_a_file_that_is_gone_or_of_no_use_is_made_anew(catalogue: Catalogue, what: str) -> None:
    filled(catalogue, entry(0))
    if what == "of another version":
        db = sqlite3.connect(catalogue.path)
        db.execute("PRAGMA user_version = 999")
        db.close()
    catalogue.close()
    if what != "of another version":
        for path in Path(catalogue.path).parent.glob("kept-catalogue*"):
            path.unlink()
    if what == "damaged":
        Path(catalogue.path).write_bytes(b"no database at all" * 1000)
    assert catalogue.runs() == {}
    filled(catalogue, entry(1))
    assert positions(catalogue.page("r1", TrialFilter())) == [1]


def test_a_file_that_is_deleted_while_it_is_open_is_made_anew(catalogue: Catalogue) -> None:
    filled(catalogue, entry(0))
    for path in Path(catalogue.path).parent.glob("kept-catalogue*"):
        path.unlink()
    assert catalogue.page("r1", TrialFilter()).total == 0
    assert positions(filled(catalogue, entry(1)).page("r1", TrialFilter())) == [1]


def test_another_programs_database_is_left_as_it_is(catalogue: Catalogue) -> None:
    db = sqlite3.connect(catalogue.path)
    db.execute("CREATE TABLE theirs (x)")
    db.close()
    before = Path(catalogue.path).read_bytes()
    with pytest.raises(StoreError, match="another program's database"):
        catalogue.runs()
    assert Path(catalogue.path).read_bytes() == before


def test_several_threads_and_catalogues_can_write_and_look_at_once(catalogue: Catalogue) -> None:
    problems: list[BaseException] = []

    def work(number: int, mine: Catalogue) -> None:
        try:
            mine.add_run(f"r{number % 2}")
            for start in range(0, 60, 10):
                mine.add_trials(f"r{number % 2}", [entry(start + place, "word") for place in range(10)])
                assert mine.page(f"r{number % 2}", TrialFilter(text="word")).total >= start + 10
        except BaseException as error:  # noqa: BLE001  # handed to the test
            problems.append(error)

    others = [catalogue, Catalogue(catalogue.path)]
    threads = [threading.Thread(target=work, args=(number, others[number // 2 % 2])) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert [catalogue.page(run, TrialFilter()).total for run in ("r0", "r1")] == [60, 60]
