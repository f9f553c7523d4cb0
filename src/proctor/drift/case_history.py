"""Turns a series of runs into rows that say of each case whether it passes, or has its earlier answer."""

from __future__ import annotations

from collections.abc import Sequence

from proctor.drift.change_point import NO, UNKNOWN, YES, CaseRow
from proctor.drift.identical_answers import repeats_show_noise
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

    In that first run, the second answer is compared with the first. A target that does not change is as
    likely to repeat an answer there as in any other run.
    """
    places = series[0].places
    own, second = places.places_at(0), places.places_at(1)
    firsts: dict[int, int] = {}
    rows = [bytearray(len(places.cases)) for _ in series]
    for row, observation in zip(rows, series, strict=True):
        for case, place in own.items():
            answer = _at(observation.answers, place)
            if not answer:
                continue
            if case not in firsts:
                firsts[case] = answer
                answer = (
                    _at(observation.answers, second[case])
                    if case in second and repeats_show_noise(observation.run)
                    else 0
                )
            if answer:
                row[case] = YES if answer == firsts[case] else NO
    return rows


def _at(row: Sequence[int], place: int) -> int:
    return row[place] if place < len(row) else 0
