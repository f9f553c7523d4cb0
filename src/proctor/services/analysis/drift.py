"""The words of `proctor drift` to stored runs, and these to what became of a target over time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta

from msgspec import Struct
from msgspec.structs import replace

from proctor.codec import target_digest
from proctor.drift.detector import drift
from proctor.drift.observations import Places, Seeing, Seen
from proctor.errors import NothingSelected, UnknownName, UsageError
from proctor.model import Case, Params, Run, TargetSpec
from proctor.plurals import counted
from proctor.protocols import Store
from proctor.reports.drift.text import Drifted
from proctor.safe_text import one_line
from proctor.services.runs.config import Config
from proctor.services.runs.planning.target_names import Names
from proctor.services.runs.reading.report import keep_look
from proctor.services.suites.save_and_open import Suites
from proctor.verdicts import rules_of

_DIGEST = re.compile(r"sha256:[0-9a-f]{6,64}")
_AGO = re.compile(r"([1-9][0-9]{0,5})([hdw])")
_HOURS = {"h": 1, "d": 24, "w": 168}
_LISTED = 8
"""So many suites with their targets are named where nothing fits."""


class DriftRequest(Struct, frozen=True, kw_only=True):
    """Which runs are looked at."""

    suite: str | None = None
    """None stands for the only one that has runs; so it does for the target."""
    target: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    baseline: str | None = None
    """The run that the others are held against: an id, a beginning of one, `last`, or a tag."""


class RunSelection(Struct, frozen=True, kw_only=True):
    """The runs of one suite on one target, in time order."""

    runs: tuple[Run, ...]
    notes: tuple[str, ...]
    """Sentences that tell which others were left out."""


def moment(word: str, now: datetime, *, ends: bool = False) -> datetime:
    """A date such as `2026-10-03`, a time such as `2026-10-03T14:00`, or so long ago, such as `30d`.

    Args:
        word: what the user wrote; times without a zone are UTC.
        now: what `30d` is counted from.
        ends: a date stands for its end instead of its beginning.

    Raises:
        UsageError: it is none of these.
    """
    ago = _AGO.fullmatch(word)
    try:
        if ago is not None:
            return now - timedelta(hours=int(ago[1]) * _HOURS[ago[2]])
        if "T" not in word and " " not in word:
            return datetime.combine(date.fromisoformat(word), time.max if ends else time.min, UTC)
        found = datetime.fromisoformat(word)
    except (ValueError, OverflowError):
        raise UsageError(
            f"{word!r} is no time. Give a date such as 2026-10-03, or how long ago: 12h, 30d or 8w."
        ) from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


class DriftQuery:
    """Finds the runs of one store, and reads them."""

    def __init__(self, store: Store, environ: Mapping[str, str], config: Config) -> None:
        """Reads nothing yet.

        Args:
            store: where runs are.
            environ: what suites and names of targets may depend on.
            config: what the project says of reading suites.
        """
        self._store = store
        self._environ = environ
        self._config = config

    def find(self, wanted: DriftRequest) -> RunSelection:
        """The runs that are wanted.

        Raises:
            NothingSelected: fewer than two runs fit; says which there are.
            UsageError: a word stands for nothing, or a word is missing and more than one thing has runs.
            SuiteError: the suite's file is wrong.
        """
        stored = list(self._store.runs())
        asked = [run for run in stored if run.regrade_of is None]
        fitting = asked if wanted.suite is None else self._of_suite(asked, wanted.suite)
        fitting = fitting if wanted.target is None else self._of_target(fitting, wanted.target, asked)
        chosen = _only_pair([run for run in fitting if run.imported is None] or fitting, asked)
        # The newest comes first in a store, and of two that began at once the later stored is the later one.
        every = sorted((run for run in asked[::-1] if _pair(run) == chosen), key=lambda run: run.started_at)
        finished = [run for run in every if run.status == "finished"]
        regraded = [run for run in stored if run.regrade_of is not None and _pair(run) == chosen]
        notes = [*_otherwise(every[-1], asked)]
        notes += _left_out(len(every) - len(finished), "did not finish")
        notes += _left_out(len(regraded), "graded stored answers again and asked nobody")
        runs = self._within(finished, wanted, notes)
        if len(runs) < 2:
            since = " in that time" if wanted.since or wanted.until else ""
            fits = f"{_titled(every[-1])} fits{since}"
            there = f"Only {counted(len(runs), 'run')} of {fits}" if runs else f"No finished run of {fits}"
            raise NothingSelected(" ".join([f"{there}, and drift needs two.", *notes, _listing(asked)]))
        return RunSelection(runs=tuple(runs), notes=tuple(notes))

    def read(
        self, found: RunSelection, told: Callable[[int, int], None] = lambda _done, _all: None
    ) -> Drifted:
        """What the runs show. Shows a holdout's pass rate, where they have one, and counts that as one look.

        Args:
            found: the runs.
            told: told how many of how many are read.

        Raises:
            NothingSelected: in fewer than two of them anybody was asked.
            StoreError: the store cannot be read, or the look not be kept.
        """
        drifted = self.gathered(found, told)
        shown = held_out(drifted)
        if shown is None:
            return drifted
        keep_look(self._store, shown, "rate")
        return replace(drifted, looks=len(self._store.looks(shown.suite.digest)))

    def gathered(
        self, found: RunSelection, told: Callable[[int, int], None] = lambda _done, _all: None
    ) -> Drifted:
        """The same without a look: whoever shows it counts one for the run of `held_out`.

        Raises:
            NothingSelected: in fewer than two of them anybody was asked.
            StoreError: the store cannot be read.
        """
        places, special = Places(), self._with_rules(found.runs[-1])
        series: list[Seen] = []
        notes = list(found.notes)
        for place, run in enumerate(found.runs):
            told(place, len(found.runs))
            series.append(self._seen(run, places, special))
        kept = [seen for seen in series[:-1] if any(seen.answers)]
        notes += _left_out(len(series) - 1 - len(kept), "did not ask the target anew, or got no answer")
        if not kept:
            raise NothingSelected(
                f"The target was asked anew in none of the runs of {_titled(found.runs[-1])} but the last. "
                "Run the suite with --no-reuse and without --cache."
            )
        return Drifted(drift=drift([*kept, series[-1]]), notes=tuple(notes))

    def _seen(self, run: Run, places: Places, special: Mapping[str, Case]) -> Seen:
        rule_of, plain, seeing = rules_of(run), Case(id="", input=()), Seeing(run, places)
        for stored in self._store.trials(run.id):
            if stored.verdict is not None:
                seeing.add(stored.trial, rule_of(special.get(stored.trial.case_id, plain)))
        return seeing.seen()

    def _with_rules(self, run: Run) -> dict[str, Case]:
        """The cases with a pass rule of their own, of which one digest has one set."""
        cases = (stored.case for stored in self._store.cases(run.suite.content))
        return {
            case.id: Case(id=case.id, input=(), pass_rule=case.pass_rule)
            for case in cases
            if case.pass_rule is not None
        }

    def _of_suite(self, runs: Sequence[Run], word: str) -> list[Run]:
        if _DIGEST.fullmatch(word):
            found = [run for run in runs if run.suite.digest.startswith(word)]
            if len({run.suite.digest for run in found}) > 1:
                raise UsageError(f"The digests of several suites begin with {word!r}. Give more of it.")
            what = f"a suite of digest {word}"
        else:
            with Suites(self._store, self._environ, self._config).opened(word) as opened:
                suite = opened.suite
            found = [run for run in runs if run.suite.digest == suite.digest]
            what = f"{word!r} as it is now ({suite.digest[:19]})"
        if not found:
            raise NothingSelected(f"No run of {what} is stored. {_listing(runs)}")
        return found

    def _of_target(self, runs: Sequence[Run], word: str, everything: Sequence[Run]) -> list[Run]:
        """The runs on the target that was last called so, else on what the word means now."""
        digest = next((target_digest(run.target) for run in runs if run.target.name == word), None)
        if digest is None:
            try:
                digest = target_digest(Names(self._environ).spec(word, Params(), judged=False))
            except (UnknownName, UsageError):
                digest = ""
        found = [run for run in runs if target_digest(run.target) == digest]
        if not found:
            raise NothingSelected(f"No such run on {word!r} is stored. {_listing(everything)}")
        return found

    def _within(self, runs: Sequence[Run], wanted: DriftRequest, notes: list[str]) -> list[Run]:
        """The runs of the time that is wanted, from the baseline on, which may be anybody's."""
        baseline = None if wanted.baseline is None else self._baseline(runs, wanted.baseline)
        first, last, now = wanted.since, wanted.until, datetime.now(UTC)
        own = [run for run in runs if run is baseline or run.imported is None]
        notes += _left_out(len(runs) - len(own), "came from a bundle, and somebody else asked")
        past = [run for run in own if run is baseline or run.started_at <= now]
        notes += _left_out(len(own) - len(past), "began in the future, by a clock that was wrong")
        chosen = [
            run
            for run in past
            if run is baseline
            or ((first is None or run.started_at >= first) and (last is None or run.started_at <= last))
        ]
        if baseline is None:
            return chosen
        start = chosen.index(baseline)
        notes += _left_out(start, "began before the baseline")
        return chosen[start:]

    def _baseline(self, runs: Sequence[Run], word: str) -> Run:
        tagged = [run for run in runs if word in run.tags]
        if tagged:
            return tagged[-1]
        named = self._store.run(word)
        for run in runs:
            if run.id == named.id:
                return run
        raise UsageError(
            f"Run {named.id} cannot be the baseline: it is no finished run of this suite on this target."
        )


def held_out(drifted: Drifted) -> Run | None:
    """The last run whose holdout's pass rate is in what is shown; None where none is."""
    shown = [step.seen.run for step in drifted.drift.steps if step.seen.holdout]
    return shown[-1] if shown else None


def _pair(run: Run) -> tuple[str, str]:
    return run.suite.digest, target_digest(run.target)


def _only_pair(fitting: Sequence[Run], everything: Sequence[Run]) -> tuple[str, str]:
    """The suite and target of the runs, where these are one; else those of which alone there are several."""
    if not everything:
        raise NothingSelected("No run is stored here. `proctor run SUITE --target T` makes one.")
    counts = Counter(map(_pair, fitting))
    several = [pair for pair, count in counts.items() if count > 1]
    if len(counts) == 1 or len(several) == 1:
        return next(iter(counts)) if len(counts) == 1 else several[0]
    if several:
        raise UsageError(f"Say which: proctor drift SUITE --target T. {_listing(fitting)}")
    raise NothingSelected(f"No suite has two runs on one target, and drift needs two. {_listing(fitting)}")


def _otherwise(chosen: Run, everything: Sequence[Run]) -> Iterator[str]:
    """Which runs asked something else under the same names."""
    same_suite = [run for run in everything if run.suite.digest == chosen.suite.digest]
    targets = [
        run for run in same_suite if run.target.name == chosen.target.name and _pair(run) != _pair(chosen)
    ]
    if targets:
        differs = ", ".join(_difference(targets[0].target, chosen.target)) or "its options"
        yield (
            f"{counted(len(targets), 'run')} on the same name asked another target ({differs}): left out. "
            "What changed there is on your side."
        )
    versions = [
        run
        for run in everything
        if run.suite.name == chosen.suite.name
        and run.suite.digest != chosen.suite.digest
        and target_digest(run.target) == target_digest(chosen.target)
    ]
    yield from _left_out(len(versions), "asked another version of the suite")


def _left_out(count: int, why: str) -> Iterator[str]:
    if count:
        yield f"{counted(count, 'run')} {why}: left out."


def _difference(was: TargetSpec, now: TargetSpec) -> Iterator[str]:
    for name in ("kind", "model", "endpoint"):
        if getattr(was, name) != getattr(now, name):
            yield one_line(f"{name} {getattr(was, name)} instead of {getattr(now, name)}")
    for name in was.params.__struct_fields__:
        if getattr(was.params, name) != getattr(now.params, name):
            yield f"{name} {getattr(was.params, name)} instead of {getattr(now.params, name)}"


def _listing(runs: Sequence[Run]) -> str:
    counts = Counter(_titled(run) for run in runs)
    if not counts:
        return "No run is stored here."
    shown = [f"{name} ({counted(count, 'run')})" for name, count in counts.most_common(_LISTED)]
    more = f", and {len(counts) - _LISTED:,} more" if len(counts) > _LISTED else ""
    return f"Stored are: {', '.join(shown)}{more}."


def _titled(run: Run) -> str:
    return one_line(f"{run.suite.title} on {run.target.name}")
