"""Grades which of the case's choices a model finds likeliest; the target reports how likely each one is."""

from __future__ import annotations

from typing import ClassVar

from proctor.choices import choice_length, find_likeliest, find_right_choices
from proctor.errors import CannotScore
from proctor.graders.text import quote, quote_list
from proctor.model import CHOICE_METRICS, Case, ChoiceLikelihood, ChoiceMetric, Evidence, GraderResult
from proctor.protocols import BaseGrader, GradingInput

_WORDS: dict[ChoiceMetric, str] = {
    "acc": "The likeliest choice is",
    "acc_norm": "The likeliest choice by character is",
    "acc_bytes": "The likeliest choice by byte is",
}


class MultipleChoice(BaseGrader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when the likeliest of the case's choices is right."""

    all_or_nothing: ClassVar[bool] = True

    value: str | int | tuple[str | int, ...] | None = None
    """The right choice, its index from 0, or several of these; None for the case's expected output."""
    metric: ChoiceMetric = "acc"
    """The measure that decides; the others are reported."""

    def __post_init__(self) -> None:
        if self.value == ():
            raise ValueError("`value` is empty; write at least one choice.")

    def check_case(self, case: Case) -> None:
        """Checks that the case has choices, and that what is right is among them.

        Raises:
            ValueError: it has none, or it is not.
        """
        if case.form is None or not case.form.choices:
            raise ValueError("the case has no choices; set them in its `form.choices`.")
        self._find_right(case, case.form.choices)

    def _find_right(self, case: Case, choices: tuple[str, ...]) -> frozenset[int]:
        name, value = ("value", self.value) if self.value is not None else ("expected", case.expected)
        try:
            return find_right_choices(value, choices)
        except ValueError as error:
            raise ValueError(f"`{name}`: {error}") from None

    def grade(self, grading_input: GradingInput) -> GraderResult:
        """Scores 1 if the likeliest choice is right, else 0.

        `details` has 1 or 0 for each measure, and there is one entry for each.

        Raises:
            CannotScore: the target did not report the likelihood of these choices.
        """
        case, choices = grading_input.case, grading_input.output.choices
        texts = tuple([choice.text for choice in choices])
        if not choices:
            raise CannotScore("The target did not report the likelihoods of the choices.")
        if case.form is not None and case.form.choices not in ((), texts):
            raise CannotScore(f"The target reported the likelihood of other choices: {quote_list(texts)}.")
        try:
            right = self._find_right(case, texts)
        except ValueError as error:
            raise CannotScore(f"{error}") from None
        likeliest = {metric: find_likeliest(choices, metric) for metric in CHOICE_METRICS}
        passed = likeliest[self.metric] in right
        reason = f"{_WORDS[self.metric]} {quote(texts[likeliest[self.metric]])}"
        if not passed:
            expected = [texts[index] for index in sorted(right)]
            reason += f"; expected {quote(expected[0]) if len(expected) == 1 else quote_list(expected)}"
        split = [choice.text for choice in choices if choice.splits_token]
        if split:
            reason += (
                f". Of {quote_list(split)} the first token does not count, because it is shared with "
                f"the prompt"
            )
        return GraderResult(
            value=float(passed),
            passed=passed,
            reason=f"{reason}.",
            entries=tuple(
                [
                    Evidence(
                        text=metric, passed=index in right, evidence=_describe_choice(choices[index], metric)
                    )
                    for metric, index in likeliest.items()
                ]
            ),
            details={metric: float(index in right) for metric, index in likeliest.items()},
        )


def _describe_choice(choice: ChoiceLikelihood, metric: ChoiceMetric) -> str:
    per_unit = choice.logprob / choice_length(choice.text, metric)
    unit = {"acc": "", "acc_norm": " a character", "acc_bytes": " a byte"}[metric]
    return f"{quote(choice.text)}, log-probability {per_unit:.4f}{unit}"
