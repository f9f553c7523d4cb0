"""Filters, orders and pages of a catalogue against the same done with a plain list."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.model import Verdict
from proctor.plan import split_tags
from proctor.stores.catalogue.database import Catalogue
from proctor.stores.catalogue.records import VERDICTS, CatalogueEntry, TrialFilter, TrialRow

NAMES = ("a", "b", "ab", "É", " a")
names = st.sampled_from(NAMES)
several = st.lists(names, max_size=2, unique=True).map(tuple)
numbers = st.sampled_from([None, 0.0, 0.5, 1.0, 7.5])


@st.composite
def entries(draw: st.DrawFn) -> list[CatalogueEntry]:
    places = draw(st.sets(st.tuples(st.integers(0, 12), st.integers(0, 2)), max_size=24))
    return [_entry(draw, *place) for place in sorted(places)]


def _entry(draw: st.DrawFn, position: int, repeat: int) -> CatalogueEntry:
    split = draw(st.sampled_from([None, "dev", "holdout"]))
    graders = draw(several)
    line = TrialRow(
        position=position,
        repeat=repeat,
        case_id=draw(names),
        verdict=draw(st.sampled_from(Verdict)),
        score=draw(numbers),
        split=split,
        sealed=split == "holdout",
        category=draw(st.none() | names),
        tags=draw(several),
        latency_ms=draw(numbers),
        cost_usd=draw(numbers),
        answer=draw(names),
    )
    return CatalogueEntry(row=line, text=line.answer, graders=graders, missed=graders[:1])


wants = st.builds(
    TrialFilter,
    verdicts=st.lists(st.sampled_from([verdict.value for verdict in VERDICTS]), max_size=3).map(tuple),
    tags=several,
    graders=several,
    missed=several,
    category=st.just("") | names,
    split=st.sampled_from(["", "dev", "holdout"]),
    case=st.just("") | names,
    text=st.just("") | names,
)
sorts = st.sampled_from(["position", "case", "verdict", "score", "latency", "cost"])


def fits(entry: CatalogueEntry, wanted: TrialFilter, *, revealed: bool) -> bool:
    line, hidden = entry.row, entry.row.sealed and not revealed
    text = line.case_id if hidden else f"{line.case_id}\n{entry.text}"
    return (
        (not wanted.verdicts or line.verdict.value in wanted.verdicts)
        and all(set(split_tags(word)) & set(line.tags) for word in wanted.tags)
        and set(wanted.graders) <= set(entry.graders)
        and set(wanted.missed) <= set(entry.missed)
        and wanted.category in ("", line.category)
        and wanted.split in ("", line.split)
        and wanted.case in ("", line.case_id)
        and wanted.text.casefold() in text.casefold()
    )


def in_order(found: list[CatalogueEntry], sort: str, *, down: bool, revealed: bool) -> list[tuple[int, int]]:
    def key(line: TrialRow) -> object:
        if line.sealed and not revealed and sort in ("latency", "cost"):
            return None
        known = {"case": line.case_id.encode(), "verdict": VERDICTS.index(line.verdict)}
        known |= {"position": (line.position, line.repeat), "score": line.score}
        return (known | {"latency": line.latency_ms, "cost": line.cost_usd})[sort]

    lines = [entry.row for entry in found]
    ordered = sorted((line for line in lines if key(line) is not None), key=key, reverse=down)  # type: ignore[arg-type]
    ordered += [line for line in lines if key(line) is None]
    return [(line.position, line.repeat) for line in ordered]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(entries(), wants, sorts, st.booleans(), st.booleans(), st.integers(1, 5))
def test_pages_forth_and_back_are_those_of_a_plain_list(
    known: list[CatalogueEntry], wanted: TrialFilter, sort: str, down: bool, revealed: bool, limit: int
) -> None:
    found = [entry for entry in known if fits(entry, wanted, revealed=revealed)]
    places = in_order(found, sort, down=down, revealed=revealed)
    expected = [places[start : start + limit] for start in range(0, len(places), limit)] or [[]]
    word = f"-{sort}" if down else sort
    with TemporaryDirectory() as folder:
        catalogue = Catalogue(str(Path(folder) / "kept-catalogue"))
        catalogue.add_run("r1")
        catalogue.add_trials("r1", known)
        after, back = "", []
        for number, page in enumerate(expected):
            shown = catalogue.page("r1", wanted, word, after, limit, revealed=revealed)
            assert [(line.position, line.repeat) for line in shown.lines] == page
            assert shown.total == len(places)
            assert (shown.previous is None, shown.next is None) == (number == 0, number == len(expected) - 1)
            if shown.previous is not None:
                before = catalogue.page("r1", wanted, word, shown.previous, limit, revealed=revealed)
                back.append([(line.position, line.repeat) for line in before.lines])
            after = shown.next or ""
        around = [catalogue.neighbours("r1", wanted, word, place, revealed=revealed) for place in places]
        catalogue.close()
    assert back == expected[:-1]
    assert (
        around == list(zip([None, *places[:-1]], [*places[1:], None], strict=True)) if places else not around
    )
