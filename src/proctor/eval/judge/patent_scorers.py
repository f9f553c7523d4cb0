"""Scorers with a judge: for patent claims, and for responses to office actions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from proctor.eval.judge.rubrics import (
    BUILTIN_RUBRICS,
    RUBRIC_OFFICE_ACTION_ARGUMENT,
    RUBRIC_PATENT_CLAIM_VALIDITY,
)

if TYPE_CHECKING:
    from proctor.eval.judge.judge import Judge

_SCALE = (0.0, 1.0)


def patent_claim_validity(
    predicted: str, expected: str, *, judge: Judge, rubric: Mapping[str, Any] | None = None
) -> float:
    """Returns how good a patent claim is, from 0 to 1: the mean of seven dimensions, as a judge grades them.

    A reply without a score counts 0.0 and is in `judge.unscored`.

    Args:
        predicted: the claim.
        expected: a good claim for comparison; empty for none.
        judge: one with `rubric=RUBRIC_PATENT_CLAIM_VALIDITY`, or with a rubric of yours on the same scale.
        rubric: hints for the judge on this row, such as `cited_prior_art`, `claim_type`,
            `dependency_target` or `statutory_focus`.

    Raises:
        JudgeError: the call to the judge failed.
        ValueError: the judge has another of Proctor's rubrics, or another scale.
    """
    _check_judge(judge, RUBRIC_PATENT_CLAIM_VALIDITY, "RUBRIC_PATENT_CLAIM_VALIDITY")
    return _judge_score(judge, predicted, expected, rubric)


def office_action_argument(
    predicted: str, expected: str, *, judge: Judge, rubric: Mapping[str, Any] | None = None
) -> float:
    """Returns how good a response to an office action is, from 0 to 1: the mean of four dimensions.

    Arguments and errors are those of `patent_claim_validity`, with `RUBRIC_OFFICE_ACTION_ARGUMENT` and hints
    such as `rejection_type`, `required_citations`, `claim_count` or `relies_on_official_notice`.
    """
    _check_judge(judge, RUBRIC_OFFICE_ACTION_ARGUMENT, "RUBRIC_OFFICE_ACTION_ARGUMENT")
    return _judge_score(judge, predicted, expected, rubric)


def _check_judge(judge: Judge, rubric: str, name: str) -> None:
    """Raises ValueError for a judge whose scores would mean something else."""
    others = {*BUILTIN_RUBRICS.values(), RUBRIC_PATENT_CLAIM_VALIDITY, RUBRIC_OFFICE_ACTION_ARGUMENT}
    if judge.rubric != rubric and judge.rubric in others:
        raise ValueError(f"The judge uses another rubric. Create it with Judge(client, rubric={name}).")
    scale = judge.score_range
    if scale is not None and scale != _SCALE:
        raise ValueError(
            f"The judge grades from {scale[0]:g} to {scale[1]:g}, but this score is from 0 to 1. "
            f"Create the judge with Judge(client, rubric={name}), or with your own rubric on that scale."
        )


def _judge_score(judge: Judge, predicted: str, expected: str, rubric: Mapping[str, Any] | None) -> float:
    result = judge.grade(
        prediction=predicted, reference=expected or None, context=_format_hints(rubric) if rubric else None
    )
    return 0.0 if result.score is None else result.score


def _format_hints(rubric: Mapping[str, Any]) -> str:
    """Returns the hints in the order of their names, so that equal hints make equal prompts."""
    lines = ["Hints:"]
    for key in sorted(rubric, key=str):
        value = rubric[key]
        if isinstance(value, (list, tuple)):
            lines += [f"- {key}:", *(f"  - {item}" for item in value)]
        elif isinstance(value, Mapping):
            lines.append(f"- {key}: {json.dumps(dict(value), sort_keys=True, default=str)}")
        else:
            lines.append(f"- {key}: {value}")
    return "\n".join(lines)
