"""Multiple choice by likelihood: what a case with choices needs, and which choice a model finds likeliest.

The measures are those of lm-evaluation-harness. Source: `ConfigurableTask.process_results` for the output
type `multiple_choice`, lm_eval/api/task.py of https://github.com/EleutherAI/lm-evaluation-harness at
4e7e0d47.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proctor.model import Attachment, Case, ChoiceLikelihood, ChoiceMetric


def find_likeliest(choices: Sequence[ChoiceLikelihood], metric: ChoiceMetric) -> int:
    """Returns the index of the likeliest choice, and of equal ones that of the first."""
    values = [choice.logprob / choice_length(choice.text, metric) for choice in choices]
    return values.index(max(values))


def choice_length(text: str, metric: ChoiceMetric) -> int:
    """Returns the number by which the log-probability of a choice is divided, without its delimiter."""
    if metric == "acc":
        return 1
    return len(text) if metric == "acc_norm" else len(text.encode("utf-8", "surrogatepass"))


def find_right_choices(value: Any, choices: Sequence[str]) -> frozenset[int]:
    """Returns the indexes of the right choices.

    Args:
        value: a choice, its index from 0, or a list of these.
        choices: the texts of all choices.

    Raises:
        ValueError: something in `value` is none of the choices.
    """
    values = list(value) if isinstance(value, list | tuple) else [value]
    if not values or value is None:
        raise ValueError("the correct choice is missing; write one of the choices, or its index from 0.")
    return frozenset().union(*[_find_choices(entry, choices) for entry in values])


def _find_choices(value: Any, choices: Sequence[str]) -> frozenset[int]:
    """Returns the index that a value is, or those of all choices with its text."""
    if isinstance(value, str) and value in choices:
        return frozenset([index for index, choice in enumerate(choices) if choice == value])
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(choices):
        return frozenset([value])
    raise ValueError(
        f"{repr(value)[:60]} is none of the {len(choices)} choices; write one of the choices, or its index "
        f"from 0 to {len(choices) - 1}."
    )


def check_choices(case: Case) -> None:
    """Checks what a case with choices needs, whatever grades it.

    Raises:
        ValueError: there is only one choice, one is blank, or the prompt has more than text.
    """
    choices = () if case.form is None else case.form.choices
    if len(choices) < 2:
        raise ValueError("`form.choices` has only one text; write at least two.")
    if not all(choice.strip() for choice in choices):
        raise ValueError("`form.choices` contains a blank text; each choice must be text.")
    if any(
        isinstance(part, Attachment) and part.text is None for message in case.input for part in message.parts
    ):
        raise ValueError(
            "`form.choices` can be scored only after text, but `input` contains an image or another file."
        )
