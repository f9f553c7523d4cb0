"""The records of a catalogue: a row for each trial, filters and pages."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from proctor.model import Verdict

VERDICTS = (Verdict.FAIL, Verdict.ERROR, Verdict.UNSCORED, Verdict.PASS)
"""In sort order; a row stores the index of its verdict."""

Sort = Literal["position", "case", "verdict", "score", "latency", "cost"]
"""The columns to sort by; a leading `-` reverses the order."""


class TrialRow(Struct, frozen=True, kw_only=True, gc=False):
    """One trial as a table shows it."""

    position: int
    """The position of its case in the suite, from 0."""
    repeat: int = 0
    case_id: str
    verdict: Verdict
    score: float | None = None
    split: str | None = None
    sealed: bool = False
    """Whether it is held out, so that its question and answer are not shown."""
    category: str | None = None
    tags: tuple[str, ...] = ()
    latency_ms: float | None = None
    cost_usd: float | None = None
    question: str = ""
    """The beginning of the question; the two fields below are cut, too."""
    answer: str = ""
    why: str = ""
    """Why it did not pass; empty if it did."""


class CatalogueEntry(Struct, frozen=True, kw_only=True, gc=False):
    """A trial to add to a catalogue, with what it can be found by."""

    row: TrialRow
    """The row with its texts; `sealed` says that it is held out."""
    text: str = ""
    """The text that a search covers, besides the id of the case."""
    graders: tuple[str, ...] = ()
    """The graders that graded it."""
    missed: tuple[str, ...] = ()
    """The graders that it did not pass."""


class TrialFilter(Struct, frozen=True, kw_only=True):
    """Selects trials; an empty field selects all."""

    verdicts: tuple[str, ...] = ()
    """Has any of these verdicts."""
    tags: tuple[str, ...] = ()
    """Has all of these; an item with commas means any of its tags."""
    graders: tuple[str, ...] = ()
    """Was graded by all of these graders."""
    missed: tuple[str, ...] = ()
    """Did not pass any of these graders."""
    category: str = ""
    split: str = ""
    case: str = ""
    """A glob that the id of the case matches."""
    text: str = ""
    """A text in the id, the question, the answer or the reasons, ignoring case."""


class TrialPage(Struct, frozen=True, kw_only=True):
    """One page of trials, and where the pages before and after it begin."""

    lines: tuple[TrialRow, ...]
    total: int
    """The number of trials on all pages."""
    next: str | None = None
    """The argument `after` of the next page; None if there is none."""
    previous: str | None = None
