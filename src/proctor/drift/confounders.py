"""Finds what else changed from one run to the next, on the target's side and on the user's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal

from msgspec import Struct

from proctor.codec import encode, target_digest
from proctor.drift.observations import RunObservation
from proctor.model import Run, Selection, TargetSpec

ChangeSide = Literal["target", "yours"]


class RecordedChange(Struct, frozen=True, kw_only=True):
    """One recorded difference between two successive runs."""

    place: int
    """The place in the series of the first run after the change."""
    side: ChangeSide
    what: str
    was: str
    now: str


def find_recorded_changes(series: Sequence[RunObservation]) -> tuple[RecordedChange, ...]:
    """Returns all changes between successive runs, in time order."""
    return tuple(
        [
            RecordedChange(place=place, side=side, what=what, was=was, now=now)
            for place, (before, observation) in enumerate(pairwise(series), 1)
            for side, what, was, now in _diff_runs(before, observation)
        ]
    )


def judging_key(run: Run) -> tuple[object, ...]:
    """Returns what determines grading besides the suite; verdicts are compared only if it is equal."""
    settings = run.settings
    judges = tuple([target_digest(judge) for judge in (*run.judges, *run.named_judges)])
    return judges, run.judges_given, settings.judge_repeats, settings.judge_rule, settings.threshold


def _diff_runs(
    before: RunObservation, observation: RunObservation
) -> Iterator[tuple[ChangeSide, str, str, str]]:
    for what, was, now in (
        ("reported model", before.models, observation.models),
        ("system fingerprint", before.fingerprints, observation.fingerprints),
    ):
        if was and now and was != now:  # an endpoint that says nothing has not changed what it says
            yield "target", what, ", ".join(sorted(was)), ", ".join(sorted(now))
    earlier, later = before.run, observation.run
    for what, old, new in _recorded_values(earlier, later):
        if old != new:
            yield "yours", what, old, new


def _recorded_values(earlier: Run, later: Run) -> Iterator[tuple[str, str, str]]:
    for name in sorted(earlier.versions.keys() & later.versions.keys()):
        yield f"version of {name}", earlier.versions[name], later.versions[name]
    for what, was, now in (
        ("judges", earlier.judges, later.judges),
        ("judges that graders name", earlier.named_judges, later.named_judges),
    ):
        yield what, *_target_names(was, now)
    old, new = earlier.settings, later.settings
    yield "selection", _selection_text(old.selection), _selection_text(new.selection)
    for what, first, second in (
        ("repeats", old.repeats, new.repeats),
        ("judge repeats", old.judge_repeats, new.judge_repeats),
        ("judge rule", old.judge_rule, new.judge_rule),
        ("threshold", old.threshold, new.threshold),
        ("concurrency", old.concurrency, new.concurrency),
    ):
        yield what, _value_text(first), _value_text(second)
    yield "tags, metadata or order of the suite", earlier.suite.content[:19], later.suite.content[:19]


def _target_names(was: Sequence[TargetSpec], now: Sequence[TargetSpec]) -> tuple[str, str]:
    """Returns targets by their names, with digests if different targets have the same names."""
    names = [", ".join(spec.name for spec in specs) or "none" for specs in (was, now)]
    digests = [[target_digest(spec) for spec in specs] for specs in (was, now)]
    if names[0] != names[1] or digests[0] == digests[1]:
        return names[0], names[1] if digests[0] != digests[1] else names[0]
    first, second = (
        ", ".join(f"{spec.name} ({digest[:19]})" for spec, digest in zip(specs, spec_digests, strict=True))
        for specs, spec_digests in zip((was, now), digests, strict=True)
    )
    return first, second


def _selection_text(selection: Selection) -> str:
    return "all" if selection == Selection() else encode(selection).decode("utf-8")


def _value_text(value: float | str | None) -> str:
    return "as the suite says" if value is None else str(value)
