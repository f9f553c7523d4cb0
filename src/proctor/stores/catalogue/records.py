"""The records of a catalogue: a row for each trial, filters and pages."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from proctor.model import Verdict

VERDICTS = (Verdict.FAIL, Verdict.ERROR, Verdict.UNSCORED, Verdict.PASS)
"""In the order in which they are sorted; a row stores the index of its verdict."""

Sort = Literal["position", "case", "verdict", "score", "latency", "cost"]
"""What lines are sorted by; `-` before it turns the order around."""


class TrialRow(Struct, frozen=True, kw_only=True, gc=False):
    """One trial as a table shows it."""

    position: int
    """The place of its case in the suite, from 0."""
    repeat: int = 0
    case_id: str
    verdict: Verdict
    score: float | None = None
    split: str | None = None
    sealed: bool = False
    """It is held out, so its question and answer are not shown here."""
    category: str | None = None
    tags: tuple[str, ...] = ()
    latency_ms: float | None = None
    cost_usd: float | None = None
    question: str = ""
    """The beginning of it, as of the two that follow."""
    answer: str = ""
    why: str = ""
    """Why it did not pass; empty for one that did."""


class CatalogueEntry(Struct, frozen=True, kw_only=True, gc=False):
    """A line on its way into a catalogue, with what it is found by."""

    row: TrialRow
    """With its texts; `sealed` says that it is held out."""
    text: str = ""
    """All that a search looks through besides the case's id."""
    graders: tuple[str, ...] = ()
    """Those that graded it."""
    missed: tuple[str, ...] = ()
    """Those of them that it did not pass."""


class TrialFilter(Struct, frozen=True, kw_only=True):
    """Which trials one wants to see; what is empty leaves none out."""

    verdicts: tuple[str, ...] = ()
    """Any of them."""
    tags: tuple[str, ...] = ()
    """All of them; commas in a word mean any of its tags."""
    graders: tuple[str, ...] = ()
    """Graded by all of them."""
    missed: tuple[str, ...] = ()
    """Not passed by any of these graders."""
    category: str = ""
    split: str = ""
    case: str = ""
    """A glob; cases whose id matches it."""
    text: str = ""
    """Somewhere in the id, the question, the answer or the reasons, in small or capital letters."""


class TrialPage(Struct, frozen=True, kw_only=True):
    """Some lines, and where those before and after them are."""

    lines: tuple[TrialRow, ...]
    total: int
    """How many there are on all pages together."""
    next: str | None = None
    """What `after` is for the page that follows; None where there is none."""
    previous: str | None = None
