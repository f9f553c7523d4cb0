"""Prompts of a call from Python: files, texts and templates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from proctor.errors import UsageError
from proctor.model import PromptTemplate
from proctor.validation import has_surrogates

PromptLike = str | Path | PromptTemplate
"""A prompt: a file or "NAME=FILE", the name of a prompt in the store, or a template."""
PromptList = list[Any] | tuple[Any, ...] | Mapping[str, Any]
"""Several prompts: a list, each a `PromptLike` or a dictionary; or a dictionary of names and texts."""


def resolve_prompts(prompts: PromptLike | PromptList | None) -> tuple[str | PromptTemplate, ...]:
    """Returns what a request names for prompts; texts and templates are checked.

    Raises:
        SuiteError: a text is not a prompt.
        UsageError: an item is not a prompt.
    """
    if prompts is None:
        return ()
    several = prompts if isinstance(prompts, (list, tuple)) else (prompts,)
    resolved = tuple([prompt for item in several for prompt in _resolve_prompt(item)])
    if not resolved:
        raise UsageError("`prompts` is empty. Pass at least one prompt, or leave it out.")
    return resolved


def _resolve_prompt(prompt: Any) -> Iterator[str | PromptTemplate]:
    from proctor.services.runs.planning.load_prompts import check_prompt, prompt_from_value

    if isinstance(prompt, str) and ("{{" in prompt or "\n" in prompt):
        raise UsageError(f"{prompt!r:.80} is a text without a name. Pass a dictionary: {{'terse': TEXT}}.")
    if isinstance(prompt, (str, Path)):
        yield str(prompt)
    elif isinstance(prompt, PromptTemplate):
        _check_name(prompt.name)
        yield check_prompt(prompt)
    elif isinstance(prompt, Mapping):
        for name, value in prompt.items():
            _check_name(name)
            yield prompt_from_value(name, value)
    else:
        raise UsageError(
            f"{prompt!r:.80} is not a prompt. Pass a file, a `proctor.PromptTemplate`, or a dictionary of "
            "names and texts such as {'terse': 'Answer briefly. {{ input }}'}."
        )


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not name.strip() or has_surrogates(name):
        raise UsageError(f"{name!r} is not a valid name of a prompt. Use a text that is not empty.")
