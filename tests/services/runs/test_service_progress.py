"""The progress lines of a run."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

from proctor.model import Selection, Settings
from proctor.services.runs.reading.progress import SpeedMeter, format_cost_so_far, opening_line
from proctor.services.runs.reading.run_summaries import SummaryReader
from proctor.stores.sqlite.store import SqliteStore
from support.sessions import MakeRuns, WriteSuite


async def test_the_first_line_tells_how_a_run_is_divided(
    make: MakeRuns, suite: WriteSuite, store: SqliteStore, folder: Path
) -> None:
    ten = suite(*((f"t{n}", f"say {n}", "x") for n in range(10)))
    (whole,) = await make(ten)
    assert opening_line(store, whole.run) == "Running custom suite: 8 dev + 2 holdout tests"
    (part,) = await make(ten, settings=Settings(selection=Selection(split="dev", limit=3)))
    assert opening_line(store, part.run) == "Running custom suite: 3 dev + 0 holdout tests"
    (other,) = await make("cheap", settings=Settings(repeats=2))
    assert opening_line(store, other.run) == "Running builtin:cheap v1 on echo: 20 trials"


def test_a_pace_is_told_as_soon_as_it_shows_and_changes_with_the_trials_alone() -> None:
    now = [100.0]
    pacing = SpeedMeter(lambda: now[0])
    assert pacing.measure(40, 100) is None  # what was there before, as of a run that is resumed
    now[0] += 0.5
    assert pacing.measure(42, 100) is None
    now[0] += 1.5
    first = pacing.measure(50, 100)
    assert first is not None
    assert (first.rate, first.remaining_s, first.words) == (5.0, 10.0, "5.0/s · 10 s left")
    now[0] += 30
    assert pacing.measure(50, 100) is first
    now[0] += 70
    later = pacing.measure(60, 100)
    assert later is not None
    assert later.rate < first.rate


async def test_money_so_far_says_what_is_not_known(
    make: MakeRuns, suite: WriteSuite, store: SqliteStore, folder: Path
) -> None:
    def read_summary(run: Any) -> Any:
        return SummaryReader(lambda: nullcontext(store)).refresh_in(store, run)

    ten = suite(("a", "say", "say"))
    (free,) = await make(ten)
    assert format_cost_so_far(read_summary(free.run)) == "$0"
    (unknown,) = await make(ten, "command:cat")
    assert format_cost_so_far(read_summary(unknown.run)) == "cost unknown"
