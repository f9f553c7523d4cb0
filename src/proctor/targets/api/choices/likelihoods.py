"""What all ways to score choices share: the text before the choices, and the answer made of likelihoods.

A prompt and a choice are split into tokens as lm-evaluation-harness does: together, and cut after as many
tokens as the prompt alone has, without the white space at its end. Source: `TemplateLM._encode_pair`,
lm_eval/api/model.py of https://github.com/EleutherAI/lm-evaluation-harness at 4e7e0d47.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from proctor.choices import find_likeliest
from proctor.errors import TargetError
from proctor.model import ChoiceLikelihood, Output, Prompt, Usage
from proctor.targets.api.messages import format_message

T = TypeVar("T")

DEFAULT_DELIMITER = " "
"""Goes before a choice that follows a plain text."""


def get_plain_text(prompt: Prompt) -> str | None:
    """Returns the text of a prompt of one user message; None for any other, which needs a chat template."""
    if len(prompt.messages) != 1 or prompt.messages[0].role != "user":
        return None
    return format_message(prompt.messages[0])


def strip_context(text: str) -> str:
    """Returns a prompt without the white space at its end, which belongs to the first token of a choice.

    Raises:
        TargetError: nothing is left.
    """
    context = text.rstrip()
    if not context:
        raise TargetError("Choices are scored after a prompt, but this prompt is blank.", kind="unsupported")
    return context


def cut_choice(context: Sequence[T], whole: Sequence[T], choice: str) -> tuple[Sequence[T], bool]:
    """Returns the tokens of a choice, and whether the prompt and the choice share a token.

    Args:
        context: the tokens of the prompt alone.
        whole: the tokens of prompt and choice together.
        choice: the choice, for messages.

    Raises:
        TargetError: no token is left for the choice.
    """
    tokens = whole[len(context) :]
    if not tokens:
        raise TargetError(
            f"No token of the choice {choice!r} remains after the prompt, because prompt and choice share "
            f"their tokens. Set `choice_delimiter`, for example to a space.",
            kind="unsupported",
        )
    return tokens, list(whole[: len(context)]) != list(context)


def make_choice_output(
    choices: Sequence[ChoiceLikelihood], usage: Usage | None, latency_ms: float, model: str | None
) -> Output:
    """Returns the answer: the likeliest choice, with the likelihood of each."""
    return Output(
        text=choices[find_likeliest(choices, "acc")].text,
        choices=tuple(choices),
        usage=usage,
        latency_ms=latency_ms,
        model=model,
    )
