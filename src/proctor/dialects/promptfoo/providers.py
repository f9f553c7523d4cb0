"""Translates promptfoo's providers to the names of targets."""

from __future__ import annotations

import re
from typing import Any, Final

from proctor.validation import Notes, shown

_APIS: Final = (
    *("assistant", "chat", "codex", "completion", "embedding", "embeddings", "image", "messages"),
    *("moderation", "realtime", "responses", "speech", "transcription", "tts", "video"),
)
_PREFIXES: Final = {
    "openai:chat:": "openai:",
    "openai:": "openai:",
    "anthropic:messages:": "anthropic:",
    "anthropic:": "anthropic:",
    "ollama:chat:": "ollama:",
    "google:": "google:",
    "mistral:": "mistral:",
    "groq:": "groq:",
    "deepseek:": "deepseek:",
    "openrouter:": "openrouter:",
    "togetherai:": "together:",
}
"""Prefixes of providers, longest first, each with its prefix here."""
_MODEL: Final = re.compile(r"[\w./:@-]+")


def target_of(provider: Any) -> str | None:
    """Returns the target's name for a provider; None if there is none."""
    word = provider.get("id") if isinstance(provider, dict) else provider
    if not isinstance(word, str):
        return None
    if word == "echo":
        return word
    for prefix, instead in _PREFIXES.items():
        model = word.removeprefix(prefix)
        if model != word:
            is_api = model.partition(":")[0] in _APIS
            return None if is_api or not _MODEL.fullmatch(model) else instead + model
    return None


def targets_of(value: Any, notes: Notes, field: str, line: int | None) -> tuple[str, ...]:
    """Returns the names of a list of providers; warns about unknown ones and about settings."""
    items: list[Any] = value if isinstance(value, list) else [] if value is None else [value]
    lines = getattr(items, "lines", [line] * len(items))
    targets: list[str] = []
    for place, item in enumerate(items):
        where = f"{field}[{place}]" if isinstance(value, list) else field
        if isinstance(item, dict) and "id" not in item and len(item) == 1:
            word, inside = next(iter(item.items()))
            item = {"id": word, **(inside if isinstance(inside, dict) else {})}
        target = target_of(item)
        if target is None:
            word = item.get("id", item) if isinstance(item, dict) else item
            message = f"`{where}` is {shown(word)}, which is no target here. Name one with --target."
            notes.warn("unknown-provider", message, where, line=lines[place])
            continue
        targets.append(target)
        more = sorted(item.keys() - {"id", "label"}) if isinstance(item, dict) else []
        if more:
            message = f"`{where}` has {', '.join(more)}, which has no effect here."
            notes.warn("no-effect", message, where, line=lines[place])
    return tuple(dict.fromkeys(targets))
