"""How often `proctor drift` alarms for targets that have not changed, and for some that have, as tables.

Usage: python tools/drift_figures.py [SERIES [CHART.svg]]; so many series are simulated for each row, 200 by
default, which takes half an hour. The tables are those of
docs/explanation/drift-figures.md, the chart is that of docs/guides/watch-a-provider.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import sqrt
from random import Random
from statistics import median

from proctor.charts import Chart
from proctor.drift.change_point import NO, YES, CaseRow, SeriesSplit, find_split, place_weight
from proctor.drift.detector import ALPHA, detect_drift
from proctor.drift.identical_answers import IdenticalShare
from proctor.drift.observations import RunObservation, RunObserver, TrialPlaces
from proctor.model import Output, PassRule, Run, Score, Suite, TargetSpec, Trial, Verdict
from proctor.reports.drift.chart import draw_chart
from proctor.reports.drift.report import DriftReport
from proctor.stats import (
    agresti_min_interval,
    clustered_difference_interval,
    mean_interval,
    newcombe_paired,
    wilson,
)

SEED = 20261122
NIGHTS = 60
MAX_DELAY = 30
DELAYS = 15
"""How many series a median delay is of."""
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Nights:
    """How the nights of a series differ although nothing changes."""

    name: str
    flaky: float = 1.0
    """The share of the cases that pass by chance; of the others nine in ten always pass."""
    deviation: float = 0.0
    """The standard deviation of what a night adds to the chance of each case."""
    shape: str = "normal"
    """The distribution of what a night adds: `normal`, `heavy` tails, `bad` nights, or nights in `rows`."""
    document: int = 0
    """How many cases each document has, whose questions all fail in one night of ten; 0 for no documents."""

    def chances(self, rng: Random, cases: int) -> list[float]:
        """The chances of the cases to pass, each between 50 and 95 % where all are flaky."""
        if self.flaky == 1:
            return [rng.uniform(0.5, 0.95) for _ in range(cases)]
        flaky = [rng.random() for _ in range(round(cases * self.flaky))]
        steady = cases - len(flaky)
        passing = round(steady * 0.9)
        return [1.0] * passing + [0.0] * (steady - passing) + flaky

    def effect(self, rng: Random, before: float) -> float:
        """What a night adds, where the night before has added `before`."""
        if not self.deviation:
            return 0.0
        normal = rng.gauss(0.0, self.deviation)
        if self.shape == "heavy":  # Student's t with five degrees of freedom, of the same deviation
            return normal * sqrt(3 / (2 * rng.gammavariate(2.5, 1.0)))
        if self.shape == "bad":
            return normal - 0.3 * (rng.random() < 0.02)
        return 0.8 * before + 0.6 * normal if self.shape == "rows" else normal

    def row(self, rng: Random, chances: list[float], effect: float) -> CaseRow:
        """One run: which cases pass."""
        values = [YES if rng.random() < chance + effect else NO for chance in chances]
        if self.document:
            for place in range(0, len(values), self.document):
                if rng.random() < 0.1:
                    values[place : place + self.document] = [NO] * self.document
        return bytearray(values)


@dataclass(frozen=True)
class Alarms:
    """In how many of some series each test alarmed on any night."""

    series: int
    by_cases: int
    """The former test, in which each case is independent and night k is judged with p times k (k + 1)."""
    adjusted: int
    """The test of `proctor drift`."""


def unchanged(nights: Nights, cases: int, series: int, count: int = NIGHTS) -> Alarms:
    """Alarms over some nights of targets that have not changed."""
    rng = Random(f"{SEED}/{nights}/{cases}/{count}")
    by_cases = adjusted = 0
    for _ in range(series):
        chances, effect = nights.chances(rng, cases), 0.0
        rows = list[CaseRow]()
        alarms = [False, False]
        for _ in range(count + 1):
            effect = nights.effect(rng, effect)
            rows.append(nights.row(rng, chances, effect))
            if len(rows) > 1 and not all(alarms):
                alarms = [former or current for former, current in zip(alarms, _alarms(rows), strict=True)]
        by_cases += alarms[0]
        adjusted += alarms[1]
    return Alarms(series, by_cases, adjusted)


def _alarms(rows: list[CaseRow]) -> tuple[bool, bool]:
    """Whether fewer cases pass since some night, by the former test and by that of `proctor drift`."""
    split = find_split(rows)
    if split is None or split.after >= split.before or not split.is_lasting:
        return False, False
    looks = len(rows) - 1
    former = split.p_cases * looks * 3 * looks * (looks + 1)
    weight = place_weight(split.place, looks + 1 - split.place) / 2
    return former < ALPHA, max(split.p_cases, split.p_nights) < ALPHA * weight


def delays(nights: Nights, cases: int, drop: float, night: int, series: int) -> list[tuple[int, int]]:
    """After how many nights a drop on a night is shown, by each test; 1 is at once.

    So many of the cases that passed fail for good that the pass rate falls by `drop`.
    """
    rng = Random(f"{SEED}/{nights}/{cases}/{drop}/{night}")
    delays_shown = []
    for _ in range(series):
        chances, effect = nights.chances(rng, cases), 0.0
        rows = list[CaseRow]()
        first = [MAX_DELAY + 1] * 2
        for number in range(night + MAX_DELAY):
            if number == night:
                chances = _fail_some(chances, drop * cases)
            effect = nights.effect(rng, effect)
            rows.append(nights.row(rng, chances, effect))
            if number >= night and max(first) > MAX_DELAY:
                later = number - night + 1
                first = [
                    min(delay, later) if is_alarm else delay
                    for delay, is_alarm in zip(first, _alarms(rows), strict=True)
                ]
        delays_shown.append((first[0], first[1]))
    return delays_shown


def _fail_some(chances: list[float], loss: float) -> list[float]:
    """The chances once the first cases fail for good, so many that `loss` fewer pass."""
    remaining, changed = loss, []
    for chance in chances:
        changed.append(max(0.0, chance - remaining))
        remaining -= chance - changed[-1]
    return changed


STEADY = Nights("alike, a tenth of the cases by chance", flaky=0.1)
WITHIN = (
    STEADY,
    Nights("alike, all cases by chance"),
    Nights("sd of 2 points", deviation=0.02),
    Nights("sd of 5 points", deviation=0.05),
    Nights("sd of 10 points", deviation=0.1),
    Nights("sd of 20 points", deviation=0.2),
    Nights("documents of 5 cases fail together", document=5),
)
"""What the 5 % are promised for."""
UNCOVERED = (
    Nights("sd of 5 points, heavy tails", deviation=0.05, shape="heavy"),
    Nights("sd of 2 points, and in 2 % of the nights 30 points fewer", deviation=0.02, shape="bad"),
    Nights("sd of 5 points, each night much like the one before", deviation=0.05, shape="rows"),
)
"""What they are not promised for."""


# --- the change point --------------------------------------------------------------------------------------


def turned(runs: int, change_at: int | None, series: int, *, flaky: float = 0.1) -> tuple[int, int]:
    """In how many series of 40 cases a change point is reported, and in how many of these at the right place.

    Args:
        runs: how many runs a series has.
        change_at: from this run on the last fifth of the cases fails, with other answers; None for a target
            that has not changed.
        series: how many series are made.
        flaky: the share of the cases that pass, and are answered, by chance.
    """
    rng = Random(f"{SEED}/{runs}/{change_at}")
    reports = right = 0
    for _ in range(series):
        places, cases = TrialPlaces(), 40
        chances = [rng.random() if place < cases * flaky else 1.0 for place in range(cases)]
        change_point = detect_drift(
            [_observe_run(rng, places, chances, run, change_at) for run in range(runs)]
        ).change_point
        reports += change_point is not None
        right += change_point is not None and change_point.after == change_at
    return reports, right


def _observe_run(
    rng: Random,
    places: TrialPlaces,
    chances: list[float],
    number: int,
    change_at: int | None,
    *,
    reworded: int = 0,
) -> RunObservation:
    changed = change_at is not None and number >= change_at
    run = _run(number)
    observer = RunObserver(run, places)
    for place, chance in enumerate(chances):
        passes = rng.random() < chance and not (changed and place >= len(chances) * 0.8)
        text = ("yes" if passes else "no") + "!" * (changed and place < reworded)
        observer.add(_trial(run, place, text, model=f"model-{1 + changed}"), PassRule())
    return observer.finish()


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


def rewording(
    cases: int, share: float, repeats: tuple[int, int], series: int, nights: int = 30
) -> tuple[int, int]:
    """In how many series `detect_drift` says drifting on any night, and on how many nights of all.

    The repeats are those of the first night and of the later ones.

    The target does not change and passes every case, but words an answer otherwise with a chance of `share`:
    with 1 always in words that it never uses again, else in the same other words.
    """
    rng = Random(f"{SEED}/{cases}/{share}/{repeats}/{nights}")
    some = red = 0
    for _ in range(series):
        places, rows = TrialPlaces(), list[RunObservation]()
        states = []
        for night in range(nights + 1):
            rows.append(_worded(rng, places, night, cases, share, repeats[night > 0]))
            if night:
                states.append(detect_drift(rows).state)
        some += "drifting" in states
        red += states.count("drifting")
    return some, red


def _worded(
    rng: Random, places: TrialPlaces, night: int, cases: int, share: float, repeats: int
) -> RunObservation:
    run = _run(night)
    observer = RunObserver(run, places)
    for place in range(cases):
        for repeat in range(repeats):
            other = f"yes {rng.random()}" if share == 1 else "yes, surely"
            text = other if rng.random() < share else "yes"
            observer.add(_trial(run, place, text, repeat=repeat), PassRule())
    return observer.finish()


# --- the difference beside the first verdicts ---------------------------------------------------------------


def covered(cases: int, repeats: int, worse: float, samples: int = 2000) -> tuple[float, float]:
    """How often Student's interval of the difference and that of `proctor drift` contain the truth.

    A tenth of the cases passes half of its trials, nine in ten of the others always pass, and `worse` of all
    cases fail in the later run.
    """
    rng = Random(f"{SEED}/{cases}/{repeats}/{worse}")
    truth, hits = -worse * (0.1 * 0.5 + 0.9 * 0.9), [0, 0]
    for _ in range(samples):
        differences = []
        for _ in range(cases):
            before = 0.5 if rng.random() < 0.1 else float(rng.random() < 0.9)
            after = 0.0 if rng.random() < worse else before
            passed = [sum(rng.random() < share for _ in range(repeats)) for share in (before, after)]
            differences.append((passed[1] - passed[0]) / repeats)
        for place, interval in enumerate((mean_interval(differences), agresti_min_interval(differences))):
            hits[place] += interval is not None and interval[0] <= truth <= interval[1]
    return hits[0] / samples, hits[1] / samples


# --- related cases -----------------------------------------------------------------------------------------

DOCUMENT = 5
"""How many cases each document has."""


def _documents(cases: int) -> dict[str, str]:
    """The document of each case."""
    return {f"c{place}": f"document {place // DOCUMENT}" for place in range(cases)}


def related_rewording(documents: int, share: float, series: int, nights: int = 30) -> tuple[int, int]:
    """In how many series `detect_drift` says drifting on any night, without and with clusters.

    The target does not change and passes every case. Each is asked twice a night, and each time all answers
    on a document are worded otherwise with a chance of `share`.
    """
    random = Random(f"{SEED}/{documents}/{share}/{nights}")
    cases, red = documents * DOCUMENT, [0, 0]
    for _ in range(series):
        kinds = TrialPlaces(), TrialPlaces(_documents(cases))
        rows: tuple[list[RunObservation], ...] = ([], [])
        drifted = [False, False]
        for night in range(nights + 1):
            words = [
                ["yes!" if random.random() < share else "yes" for _ in range(2)] for _ in range(documents)
            ]
            for kind, places in enumerate(kinds):
                rows[kind].append(_in_words(places, night, words))
                if night and not drifted[kind]:
                    drifted[kind] = detect_drift(rows[kind]).state == "drifting"
        red = [count + drift for count, drift in zip(red, drifted, strict=True)]
    return red[0], red[1]


def _in_words(places: TrialPlaces, night: int, words: list[list[str]]) -> RunObservation:
    run = _run(night)
    observer = RunObserver(run, places)
    for place in range(len(words) * DOCUMENT):
        for repeat, text in enumerate(words[place // DOCUMENT]):
            observer.add(_trial(run, place, text, repeat=repeat), PassRule())
    return observer.finish()


def suspected(documents: int, series: int, nights: int = NIGHTS) -> tuple[int, int]:
    """In how many series of an unchanged target the cases show fewer passes on any night.

    Without and with clusters. All cases of a document fail in one night of ten, each document by itself.
    """
    random, counts = Random(f"{SEED}/suspected/{documents}"), [0, 0]
    clusters = [place // DOCUMENT for place in range(documents * DOCUMENT)]
    steady = Nights("", flaky=0.0, document=DOCUMENT)
    for _ in range(series):
        chances, rows, alarms = [1.0] * len(clusters), list[CaseRow](), [False, False]
        for _ in range(nights + 1):
            rows.append(steady.row(random, chances, 0.0))
            for kind, names in enumerate((None, clusters)):
                if len(rows) > 1 and not alarms[kind]:
                    alarms[kind] = _suspects(rows, names)
        counts = [count + alarm for count, alarm in zip(counts, alarms, strict=True)]
    return counts[0], counts[1]


def _suspects(rows: list[CaseRow], clusters: list[int] | None) -> bool:
    """Whether the cases show that fewer pass since some night."""
    split = find_split(rows, clusters)
    return split is not None and _is_drop(split) and split.p_cases < _share_of_error(split, rows)


def _is_shown(rows: list[CaseRow], clusters: list[int] | None) -> bool:
    """Whether cases and nights both show it."""
    split = find_split(rows, clusters)
    if split is None or not _is_drop(split):
        return False
    return max(split.p_cases, split.p_nights) < _share_of_error(split, rows)


def _is_drop(split: SeriesSplit) -> bool:
    return split.after < split.before and split.is_lasting


def _share_of_error(split: SeriesSplit, rows: list[CaseRow]) -> float:
    return ALPHA * place_weight(split.place, len(rows) - split.place) / 2


def related_delays(documents: int, broken: int, night: int, series: int = DELAYS) -> tuple[float, float]:
    """After how many nights it is shown, without and with clusters, that documents fail for good: medians.

    A tenth of the cases passes by chance, the others always.
    """
    random = Random(f"{SEED}/{documents}/{broken}/{night}")
    delays_by_kind: tuple[list[int], list[int]] = ([], [])
    clusters = [place // DOCUMENT for place in range(documents * DOCUMENT)]
    for _ in range(series):
        chances = [random.random() if random.random() < 0.1 else 1.0 for _ in clusters]
        rows, first = list[CaseRow](), [MAX_DELAY + 1] * 2
        for number in range(night + MAX_DELAY):
            if number == night:
                chances = [0.0] * (broken * DOCUMENT) + chances[broken * DOCUMENT :]
            rows.append(STEADY.row(random, chances, 0.0))
            for kind, names in enumerate((None, clusters)):
                if number >= night and first[kind] > MAX_DELAY and _is_shown(rows, names):
                    first[kind] = number - night + 1
        for shown_after, delay in zip(delays_by_kind, first, strict=True):
            shown_after.append(delay)
    return median(delays_by_kind[0]), median(delays_by_kind[1])


def related_change(documents: int, correlation: float, samples: int = 2000) -> tuple[float, float]:
    """How often the interval of the change contains the truth, over cases and over clusters.

    In the later run 5 % of the cases get better and 20 % get worse; the chances of a document are Dirichlet
    distributed, so that two cases of one document are correlated.
    """
    random, hits = Random(f"{SEED}/{documents}/{correlation}"), [0, 0]
    scale = (1 - correlation) / correlation
    for _ in range(samples):
        groups = [_changes(random, scale) for _ in range(documents)]
        values = [value for group in groups for value in group]
        better, worse = values.count(1), values.count(-1)
        both_pass = sum(value == 0 and random.random() < 0.9 for value in values)
        over_cases = newcombe_paired(both_pass, better, worse, len(values) - both_pass - better - worse)
        over_clusters = clustered_difference_interval([(float(sum(group)), DOCUMENT) for group in groups])
        for place, interval in enumerate((over_cases, over_clusters)):
            hits[place] += interval is not None and interval[0] <= -0.15 <= interval[1]
    return hits[0] / samples, hits[1] / samples


def _changes(random: Random, scale: float) -> list[int]:
    weights = [random.gammavariate(share * scale, 1.0) for share in (0.05, 0.2, 0.75)]
    if not any(weights):
        weights = [0.05, 0.2, 0.75]
    return random.choices((1, -1, 0), weights, k=DOCUMENT)


def related_share(documents: int, correlation: float, samples: int = 2000) -> tuple[float, float]:
    """How often the interval of the share of identical answers, 85 %, holds it: over cases and clusters."""
    random, hits = Random(f"{SEED}/share/{documents}/{correlation}"), [0, 0]
    scale = (1 - correlation) / correlation
    cases = documents * DOCUMENT
    for _ in range(samples):
        chances = [random.betavariate(0.85 * scale, 0.15 * scale) for _ in range(documents)]
        sums = [sum(random.random() < chance for _ in range(DOCUMENT)) for chance in chances]
        groups = tuple([(float(total), DOCUMENT, 1) for total in sums])
        shares = IdenticalShare(sum(sums), cases), IdenticalShare(sum(sums), cases, groups)
        for place, share in enumerate(shares):
            hits[place] += share.ci95[0] <= 0.85 <= share.ci95[1]
    return hits[0] / samples, hits[1] / samples


def related_tables(series: int) -> Iterator[str]:
    """The lines of the tables on related cases."""
    yield "| documents of 5 | answers reworded | drifting, over cases | over clusters |"
    yield "|--:|--:|---|---|"
    for documents, share in ((2, 0.1), (3, 0.1), (4, 0.1), (8, 0.1), (2, 0.2)):
        red = related_rewording(documents, share, series)
        yield f"| {documents} | {share:.0%} | {_share(red[0], series)} | {_share(red[1], series)} |"
    yield ""
    yield "| documents of 5 | the cases show fewer passes, over cases | over clusters |"
    yield "|--:|---|---|"
    for documents in (4, 10):
        counts = suspected(documents, series)
        yield f"| {documents} | {_share(counts[0], series)} | {_share(counts[1], series)} |"
    yield ""
    yield "| documents of 5 | fail for good | on night | shown after, over cases | over clusters |"
    yield "|--:|--:|--:|--:|--:|"
    for documents, broken, night in ((10, 1, 10), (10, 1, 30), (10, 2, 30), (40, 4, 30)):
        ends = related_delays(documents, broken, night)
        words = " | ".join(f"over {MAX_DELAY}" if end > MAX_DELAY else f"{end:.0f}" for end in ends)
        yield f"| {documents} | {broken} | {night} | {words} |"
    yield ""
    columns = "change: over cases | over clusters | identical: over cases | over clusters"
    yield f"| documents of 5 | correlation | {columns} |"
    yield "|--:|--:|--:|--:|--:|--:|"
    for documents in (5, 10, 40):
        for correlation in (0.3, 0.9):
            covers = *related_change(documents, correlation), *related_share(documents, correlation)
            cells = " | ".join(f"{cover:.1%}" for cover in covers)
            yield f"| {documents} | {correlation} | {cells} |"


# --- tables ------------------------------------------------------------------------------------------------


def tables(series: int) -> Iterator[str]:
    """The lines of the page's tables."""
    yield "| nights | cases | alarmed before | now |"
    yield "|---|--:|---|---|"
    for nights in (*WITHIN, *UNCOVERED):
        for cases in (50, 200):
            yield alarms_row(nights, cases, max(1, series * 50 // cases))
    yield ""
    yield "| the nights are | cases | drop | on night | shown after, before | shown after, now |"
    yield "|---|--:|--:|--:|--:|--:|"
    for nights in (STEADY, WITHIN[2]):
        for cases in (50, 200):
            for drop in (0.05, 0.1, 0.2):
                for night in (10, 30):
                    yield delays_row(nights, cases, drop, night, DELAYS)
    yield ""
    yield "| cases | answers reworded | repeats | series of 30 nights with an alarm | nights with one |"
    yield "|--:|--:|--:|---|---|"
    for repeats in ((1, 1), (2, 1), (2, 2)):
        for cases, share in ((3, 0.1), (10, 0.2), (20, 0.1), (40, 0.2), (40, 1.0)):
            yield wording_row(cases, share, repeats, series)
    yield ""
    yield "| cases × repeats | got worse | Student's interval before | now |"
    yield "|--:|--:|--:|--:|"
    for cases in (10, 20, 50):
        for worse in (0.02, 0.05, 0.2):
            yield covered_row(cases, 2, worse)
    yield ""
    yield "| runs | changed | a change point is reported | at the right run |"
    yield "|--:|---|---|---|"
    for runs, change_at in ((30, None), (6, 3), (12, 6), (30, 15), (30, 29)):
        yield turning_row(runs, change_at, series)
    yield ""
    yield from related_tables(max(1, series // 2))


def alarms_row(nights: Nights, cases: int, series: int) -> str:
    """A line of the first table."""
    alarms_found = unchanged(nights, cases, series)
    alarms = " | ".join(_share(count, series) for count in (alarms_found.by_cases, alarms_found.adjusted))
    return f"| {nights.name} | {cases} | {alarms} |"


def delays_row(nights: Nights, cases: int, drop: float, night: int, series: int) -> str:
    """A line of the second table: medians."""
    samples = delays(nights, cases, drop, night, series)
    ends = [median(delay) for delay in zip(*samples, strict=True)]
    words = " | ".join(f"over {MAX_DELAY}" if end > MAX_DELAY else f"{end:.0f}" for end in ends)
    return f"| {nights.name} | {cases} | {drop:.0%} | {night} | {words} |"


def wording_row(cases: int, share: float, repeats: tuple[int, int], series: int, nights: int = 30) -> str:
    """A line of the third table."""
    some, red = rewording(cases, share, repeats, series, nights)
    times = f"{repeats[0]}" if repeats[0] == repeats[1] else f"{repeats[0]} on the first night"
    return f"| {cases} | {share:.0%} | {times} | {_share(some, series)} | {_share(red, series * nights)} |"


def covered_row(cases: int, repeats: int, worse: float) -> str:
    """A line of the fourth table."""
    former, now = covered(cases, repeats, worse)
    return f"| {cases} × {repeats} | {worse:.0%} | {former:.1%} | {now:.1%} |"


def turning_row(runs: int, change_at: int | None, series: int) -> str:
    """A line of the fifth table."""
    reports, right = turned(runs, change_at, series)
    where = "never" if change_at is None else f"from run {change_at + 1} on"
    place = "–" if change_at is None else _share(right, series)
    return f"| {runs} | {where} | {_share(reports, series)} | {place} |"


def _share(part: int, whole: int) -> str:
    low, high = wilson(part, whole) or (0.0, 1.0)
    return f"{part / whole:.1%} ({low:.1%} to {high:.1%})"


def picture() -> Chart:
    """Thirty nights of a target that was exchanged after the eighteenth, as `proctor drift` draws them."""
    rng, places = Random(SEED), TrialPlaces()
    chances = [rng.random() if place % 20 == 0 else float(place % 9 > 0) for place in range(60)]
    series = [_observe_run(rng, places, chances, night, 18, reworded=24) for night in range(30)]
    return draw_chart(DriftReport(drift=detect_drift(series)))


if __name__ == "__main__":
    print("\n".join(tables(int(sys.argv[1]) if len(sys.argv) > 1 else 200)))
    if len(sys.argv) > 2:
        picture().save(sys.argv[2])
