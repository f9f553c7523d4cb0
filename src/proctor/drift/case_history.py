"""Turns a series of runs into rows that say of each case whether it passes, or has its earlier answer."""

from __future__ import annotations

from collections.abc import Sequence

from proctor.drift.change_point import NO, UNKNOWN, YES, CaseRow
from proctor.drift.observations import PASSED, ObservationRows, RunObservation


def pass_rows(series: Sequence[RunObservation]) -> list[CaseRow]:
    """Returns for each run which cases pass in more than half of their trials.

    Identical answers count as the first of them was graded: a different grade later is no change of the
    target.
    """
    places = series[0].places
    rows = [bytearray(len(places.cases)) for _ in series]
    for case, own in enumerate(places.group_by_case()):
        first_values: dict[tuple[int, ...], int] = {}
        for row, observation in zip(rows, series, strict=True):
            value = _majority(observation, own)
            if value != UNKNOWN:
                answers = tuple([_at(observation.answers, place) for place in own])
                row[case] = first_values.setdefault(answers, value)
    return rows


def _majority(rows: ObservationRows, places: Sequence[int]) -> int:
    verdicts = [verdict for place in places if (verdict := _at(rows.verdicts, place))]
    if not verdicts:
        return UNKNOWN
    return YES if 2 * verdicts.count(PASSED) > len(verdicts) else NO


def identity_rows(series: Sequence[RunObservation]) -> list[CaseRow]:
    """Returns for each run which cases have the answer of the first of these runs that has one.

    That first run does not know the case. Its repeats would tell how alike the answers of one night are, and
    those of different nights can be less alike though nothing changes.
    """
    places = series[0].places
    own = places.places_at(0)
    firsts: dict[int, int] = {}
    rows = [bytearray(len(places.cases)) for _ in series]
    for row, observation in zip(rows, series, strict=True):
        for case, place in own.items():
            answer = _at(observation.answers, place)
            if case in firsts and answer:
                row[case] = YES if answer == firsts[case] else NO
            elif answer:
                firsts[case] = answer
    return rows


def _at(row: Sequence[int], place: int) -> int:
    return row[place] if place < len(row) else 0
