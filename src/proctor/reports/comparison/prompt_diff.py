"""The prompts of compared runs, with what differs in their texts. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from proctor.codec import template_digest
from proctor.model import PromptTemplate, Run
from proctor.reports.document import Block, Paragraph, TextDiff

_MAX_DIFFS = 4
"""Of more prompts only these are compared with the first."""


def prompt_text(prompt: PromptTemplate | None) -> str:
    """Returns the messages of a prompt as one text, each after its role unless it is a single user's."""
    if prompt is None:
        return ""
    messages = prompt.messages
    if len(messages) == 1 and messages[0].role == "user":
        return messages[0].content
    return "\n\n".join(f"[{message.role}]\n{message.content}" for message in messages)


def have_same_text(before: PromptTemplate | None, after: PromptTemplate | None) -> bool:
    """Returns whether two prompts have the same messages, or neither run has a prompt."""
    if before is None or after is None:
        return before is after
    return template_digest(before) == template_digest(after)


def prompt_diff_blocks(baseline: Run, candidate: Run) -> Iterator[Block]:
    """Yields a sentence on the prompts of two runs, and what differs; nothing if they are the same."""
    before, after = baseline.prompt, candidate.prompt
    if have_same_text(before, after):
        if before is not None and after is not None and before.name != after.name:
            yield _same_text(before.name, after.name)
        return
    if before is None or after is None:
        side, prompt = ("candidate", after) if before is None else ("baseline", before)
        other = "baseline" if before is None else "candidate"
        assert prompt is not None
        yield Paragraph(f'Only the {side} has a prompt, "{prompt.name}"; the {other} sends cases unchanged.')
    else:
        yield Paragraph(f'Prompts "{before.name}" and "{after.name}" differ:')
    yield TextDiff(before=prompt_text(before), after=prompt_text(after), names=_diff_names(before, after))


def _same_text(first: str, second: str) -> Paragraph:
    return Paragraph(f'Prompts "{first}" and "{second}" have the same text.')


def _diff_names(before: PromptTemplate | None, after: PromptTemplate | None) -> tuple[str, str]:
    first, second = ("no prompt" if prompt is None else prompt.name for prompt in (before, after))
    return first, second


def group_prompt_blocks(runs: Sequence[Run]) -> Iterator[Block]:
    """Yields what differs between the first prompt of several runs and each other one."""
    prompts: list[PromptTemplate | None] = []
    for run in runs:
        if run.prompt not in prompts:
            prompts.append(run.prompt)
    if len(prompts) < 2:
        return
    first, others = prompts[0], prompts[1:]
    for other in others[:_MAX_DIFFS]:
        names = _diff_names(first, other)
        if have_same_text(first, other):
            yield _same_text(*names)
        else:
            yield Paragraph(f'Prompts "{names[0]}" and "{names[1]}" differ:')
            yield TextDiff(before=prompt_text(first), after=prompt_text(other), names=names)
    if len(others) > _MAX_DIFFS:
        yield Paragraph(
            f"{len(others) - _MAX_DIFFS:,} more prompts: compare two of the runs to see what differs."
        )
