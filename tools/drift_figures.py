"""How often `proctor drift` alarms for targets that have not changed, and for some that have, as tables.

Usage: python tools/drift_figures.py [SERIES [CHART.svg]]; so many series are simulated for each row, 200 by
default, which takes some minutes. The chart is that of docs/drift.md, of one such target.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random

from proctor.charts import Chart
from proctor.drift.change_point import NO, YES, CaseRow, find_split
from proctor.drift.detector import ALPHA, detect_drift
from proctor.drift.observations import RunObservation, RunObserver, TrialPlaces
from proctor.model import Output, PassRule, Run, Score, Suite, TargetSpec, Trial, Verdict
from proctor.reports.drift.chart import draw_chart
from proctor.reports.drift.report import DriftReport
from proctor.stats import wilson

SEED = 20261122
NIGHTS = 100
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Alarms:
    """In how many of some series each test alarmed on any night."""

    series: int
    naive: int
    """The same test, judged on each night as if it were the only one."""
    adjusted: int
    """The test of `proctor drift`."""


def unchanged(cases: int, flaky: float, series: int, nights: int = NIGHTS, seed: int = SEED) -> Alarms:
    """Alarms over some nights of targets that have not changed.

    Args:
        cases: how many cases a suite has.
        flaky: the share of the cases that pass by chance, each with its own probability in each run; the
            others never change.
        series: how many series are made.
        nights: how often each is looked at.
        seed: of the random numbers.
    """
    drawn = Random(f"{seed}/{cases}/{flaky}/{nights}")
    naive = adjusted = 0
    for _ in range(series):
        chances = [drawn.random() for _ in range(round(cases * flaky))]
        rows = [_row(drawn, chances) for _ in range(nights + 1)]
        worse = {
            look: p_value for look in range(1, nights + 1) if (p_value := _worse(rows[: look + 1])) < ALPHA
        }
        naive += bool(worse)
        adjusted += any(_paid(p_value, look) < ALPHA for look, p_value in worse.items())
    return Alarms(series, naive, adjusted)


def _row(drawn: Random, chances: list[float]) -> CaseRow:
    return bytearray(YES if drawn.random() < chance else NO for chance in chances)


def _worse(rows: list[CaseRow]) -> float:
    """The p-value that fewer cases pass since some night, as if this were the only look; else 1."""
    found = find_split(rows)
    return found.p_value if found is not None and found.after < found.before and found.is_lasting else 1.0


def _paid(p_value: float, look: int) -> float:
    return p_value * 3 * look * (look + 1)


def shown_after(cases: int, drop: float, night: int, series: int, seed: int = SEED) -> dict[int, int]:
    """In how many series a drop on a night is shown that night, and by 1, 3 and 7 nights later.

    A tenth of the cases pass by chance; of the others nine in ten pass, and so many of all cases fail for
    good from that night on.
    """
    drawn = Random(f"{seed}/{cases}/{drop}/{night}")
    within = dict.fromkeys((0, 1, 3, 7), 0)
    steady = cases - cases // 10
    for _ in range(series):
        flaky = [drawn.random() for _ in range(cases // 10)]
        passing = round(steady * 0.9)
        before = flaky + [1.0] * passing + [0.0] * (steady - passing)
        lost = round(cases * drop)
        after = flaky + [0.0] * lost + [1.0] * (passing - lost) + [0.0] * (steady - passing)
        rows = [_row(drawn, before) for _ in range(night)]
        shown = False
        for later in range(max(within) + 1):
            rows.append(_row(drawn, after))
            shown = shown or _paid(_worse(rows), night + later) < ALPHA
            if later in within:
                within[later] += shown
    return within


# --- the change point --------------------------------------------------------------------------------------


def turned(runs: int, change_at: int | None, series: int, *, flaky: float = 0.1) -> tuple[int, int]:
    """In how many series of 40 cases a change point is told, and in how many of these at the right place.

    Args:
        runs: how many runs a series has.
        change_at: from this run on the last fifth of the cases fails, with other answers; None for a target
            that has not changed.
        series: how many series are made.
        flaky: the share of the cases that pass, and are answered, by chance.
    """
    drawn = Random(f"{SEED}/{runs}/{change_at}")
    told = right = 0
    for _ in range(series):
        places, cases = TrialPlaces(), 40
        chances = [drawn.random() if place < cases * flaky else 1.0 for place in range(cases)]
        found = detect_drift(
            [_seen(drawn, places, chances, run, change_at) for run in range(runs)]
        ).change_point
        told += found is not None
        right += found is not None and found.after == change_at
    return told, right


def _seen(
    drawn: Random,
    places: TrialPlaces,
    chances: list[float],
    number: int,
    change_at: int | None,
    *,
    reworded: int = 0,
) -> RunObservation:
    changed = change_at is not None and number >= change_at
    run = _run(number)
    seeing = RunObserver(run, places)
    for place, chance in enumerate(chances):
        passes = drawn.random() < chance and not (changed and place >= len(chances) * 0.8)
        text = ("yes" if passes else "no") + "!" * (changed and place < reworded)
        seeing.add(_trial(run, place, text, model=f"model-{1 + changed}"), PassRule())
    return seeing.finish()


def _run(number: int) -> Run:
    return Run(
        id=f"r{number}",
        group="g",
        suite=Suite(name="support", version="v1", dialect="proctor"),
        target=TargetSpec(name="production", kind="echo"),
        started_at=BEGAN + timedelta(days=number),
    )


def _trial(run: Run, place: int, text: str, *, repeat: int = 0, model: str | None = None) -> Trial:
    """A trial that passes when its text begins with `yes`."""
    passes = text.startswith("yes")
    outcome = Verdict.PASS if passes else Verdict.FAIL
    return Trial(
        case_id=f"c{place}",
        position=place,
        repeat=repeat,
        sent="",
        output=Output(text=text, model=model),
        scores=(Score(grader="exact", name="exact", value=float(passes), outcome=outcome),),
        started_at=run.started_at,
    )


# --- other words -------------------------------------------------------------------------------------------


def rewording(cases: int, share: float, repeats: int, series: int, nights: int = 30) -> tuple[int, int]:
    """In how many series `detect_drift` says drifting on any night, and on how many nights of all.

    The target does not change and passes every case, but words an answer otherwise with a chance of `share`:
    with 1 always in words that it never uses again, else in the same other words.
    """
    drawn = Random(f"{SEED}/{cases}/{share}/{repeats}/{nights}")
    some = red = 0
    for _ in range(series):
        places, rows = TrialPlaces(), list[RunObservation]()
        states = []
        for night in range(nights + 1):
            rows.append(_worded(drawn, places, night, cases, share, repeats))
            if night:
                states.append(detect_drift(rows).state)
        some += "drifting" in states
        red += states.count("drifting")
    return some, red


def _worded(
    drawn: Random, places: TrialPlaces, night: int, cases: int, share: float, repeats: int
) -> RunObservation:
    run = _run(night)
    seeing = RunObserver(run, places)
    for place in range(cases):
        for repeat in range(repeats):
            other = f"yes {drawn.random()}" if share == 1 else "yes, surely"
            text = other if drawn.random() < share else "yes"
            seeing.add(_trial(run, place, text, repeat=repeat), PassRule())
    return seeing.finish()


# --- tables ------------------------------------------------------------------------------------------------


def tables(series: int) -> Iterator[str]:
    """The lines of the page's tables."""
    yield "| cases | flaky | nights | judged as the only look | judged as one of many |"
    yield "|--:|--:|--:|---|---|"
    for cases, flaky, nights in ((40, 0.1, 100), (200, 0.5, 100), (40, 0.5, 365)):
        yield alarms_row(cases, flaky, nights, series)
    yield ""
    yield "| cases | drop | on night | at once | a night later | 3 later | 7 later |"
    yield "|--:|--:|--:|--:|--:|--:|--:|"
    for cases, drop in ((40, 0.1), (100, 0.1), (500, 0.03)):
        for night in (10, 100):
            yield power_row(cases, drop, night, max(1, series // 2))
    yield ""
    yield "| cases | answers reworded | repeats | series of 30 nights with an alarm | nights with one |"
    yield "|--:|--:|--:|---|---|"
    for repeats in (1, 2):
        for cases, share in ((10, 0.05), (10, 0.2), (40, 0.05), (40, 0.2), (40, 1.0)):
            yield wording_row(cases, share, repeats, series)
    yield ""
    yield "| runs | changed | a change point is told | at the right run |"
    yield "|--:|---|---|---|"
    for runs, change_at in ((30, None), (6, 3), (30, 15), (30, 29)):
        yield turning_row(runs, change_at, series)


def alarms_row(cases: int, flaky: float, nights: int, series: int) -> str:
    """A line of the first table."""
    found = unchanged(cases, flaky, series, nights)
    alarms = " | ".join(_share(count, series) for count in (found.naive, found.adjusted))
    return f"| {cases} | {flaky:.0%} | {nights} | {alarms} |"


def power_row(cases: int, drop: float, night: int, series: int) -> str:
    """A line of the second table."""
    within = shown_after(cases, drop, night, series)
    shares = " | ".join(f"{count / series:.0%}" for count in within.values())
    return f"| {cases} | {drop:.0%} | {night} | {shares} |"


def wording_row(cases: int, share: float, repeats: int, series: int, nights: int = 30) -> str:
    """A line of the third table."""
    some, red = rewording(cases, share, repeats, series, nights)
    return f"| {cases} | {share:.0%} | {repeats} | {_share(some, series)} | {_share(red, series * nights)} |"


def turning_row(runs: int, change_at: int | None, series: int) -> str:
    """A line of the fourth table."""
    told, right = turned(runs, change_at, series)
    where = "never" if change_at is None else f"from run {change_at + 1} on"
    place = "–" if change_at is None else _share(right, series)
    return f"| {runs} | {where} | {_share(told, series)} | {place} |"


def _share(part: int, whole: int) -> str:
    low, high = wilson(part, whole) or (0.0, 1.0)
    return f"{part / whole:.1%} ({low:.1%} to {high:.1%})"


def picture() -> Chart:
    """Thirty nights of a target that was exchanged after the eighteenth, as `proctor drift` draws them."""
    drawn, places = Random(SEED), TrialPlaces()
    chances = [drawn.random() if place % 20 == 0 else float(place % 9 > 0) for place in range(60)]
    series = [_seen(drawn, places, chances, night, 18, reworded=24) for night in range(30)]
    return draw_chart(DriftReport(drift=detect_drift(series)))


if __name__ == "__main__":
    print("\n".join(tables(int(sys.argv[1]) if len(sys.argv) > 1 else 200)))
    if len(sys.argv) > 2:
        picture().save(sys.argv[2])
