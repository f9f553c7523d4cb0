"""Targets that stand for judges."""

from __future__ import annotations

from proctor.model import Output, Prompt


class SteadyJudge:
    """Answers by the number of the repeat, however many ask at once, and keeps every prompt."""

    def __init__(self, *replies: str, cached: bool = False) -> None:
        self.replies = replies
        self.cached = cached
        self.prompts: list[Prompt] = []

    async def answer(self, prompt: Prompt) -> Output:
        self.prompts.append(prompt)
        return Output(text=self.replies[prompt.repeat], cached=self.cached)
