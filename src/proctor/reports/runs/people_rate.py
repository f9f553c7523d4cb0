"""The pass rate that people would give a run, as a sentence and as a record. Pure."""

from __future__ import annotations

from proctor.calibration import PeoplePassRate
from proctor.plurals import pluralize
from proctor.reports.formatting import interval, percent, round_interval
from proctor.reports.runs.records import PeoplePassRateRecord


def people_rate_sentence(rate: PeoplePassRate) -> str:
    """Returns the rate with its interval, and what it is made of."""
    answers = pluralize(rate.judgments, "judgment")
    if rate.held_out:
        answers += f" of answers outside the holdout ({rate.held_out:,} are in it)"
    text = (
        f"People would pass {percent(rate.value)} ({interval(rate.ci95)}), from "
        f"{pluralize(rate.labels, 'label')} and {answers}."
    )
    if rate.for_doubt:
        text += (
            f" {rate.for_doubt:,} of the labels are on answers that judges doubted, and are weighted for "
            "that."
        )
    if rate.not_drawn:
        left_out = pluralize(rate.not_drawn, "labelled answer")
        text += f" Left out, because it is not known how they were chosen: {left_out}."
    return text


def people_rate_record(rate: PeoplePassRate) -> PeoplePassRateRecord:
    """Returns it as a record."""
    return PeoplePassRateRecord(
        rate=rate.value,
        ci95=round_interval(rate.ci95),
        labels=rate.labels,
        for_doubt=rate.for_doubt,
        judgments=rate.judgments,
        not_drawn=rate.not_drawn,
        held_out=rate.held_out,
    )
