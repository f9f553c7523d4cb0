"""Translates promptfoo's providers to the names of targets."""

from __future__ import annotations

import re
from typing import Any, Final

from proctor.validation import ProblemLog, quote_value

_API_NAMES: Final = (
    *("assistant", "chat", "codex", "completion", "embedding", "embeddings", "image", "messages"),
    *("moderation", "realtime", "responses", "speech", "transcription", "tts", "video"),
)
_TARGET_PREFIXES: Final = {
    "openai:chat:": "openai:",
    "openai:": "openai:",
    "anthropic:messages:": "anthropic:",
    "anthropic:": "anthropic:",
    "ollama:chat:": "ollama:",
    "google:": "google:",
    "vertex:": "vertex:",
    "mistral:": "mistral:",
    "groq:": "groq:",
    "deepseek:": "deepseek:",
    "openrouter:": "openrouter:",
    "togetherai:": "together:",
}
"""Prefixes of providers, longest first, each with its prefix here."""
_MODEL: Final = re.compile(r"[\w./:@-]+")


def parse_target_name(provider: Any) -> str | None:
    """Returns the target's name for a provider; None if there is none."""
    word = provider.get("id") if isinstance(provider, dict) else provider
    if not isinstance(word, str):
        return None
    if word == "echo":
        return word
    for prefix, instead in _TARGET_PREFIXES.items():
        model = word.removeprefix(prefix)
        if model != word:
            is_api = model.partition(":")[0] in _API_NAMES
            return None if is_api or not _MODEL.fullmatch(model) else instead + model
    return None


def parse_target_names(value: Any, notes: ProblemLog, field: str, line: int | None) -> tuple[str, ...]:
    """Returns the names of a list of providers; warns about unknown ones and about settings."""
    items: list[Any] = value if isinstance(value, list) else [] if value is None else [value]
    lines = getattr(items, "lines", [line] * len(items))
    targets: list[str] = []
    for place, item in enumerate(items):
        where = f"{field}[{place}]" if isinstance(value, list) else field
        if isinstance(item, dict) and "id" not in item and len(item) == 1:
            word, inside = next(iter(item.items()))
            item = {"id": word, **(inside if isinstance(inside, dict) else {})}
        target = parse_target_name(item)
        if target is None:
            word = item.get("id", item) if isinstance(item, dict) else item
            message = (
                f"`{where}` is {quote_value(word)}, which is not a known target. Choose one with --target."
            )
            notes.warn("unknown-provider", message, where, line=lines[place])
            continue
        targets.append(target)
        more = sorted(item.keys() - {"id", "label"}) if isinstance(item, dict) else []
        if more:
            message = f"`{where}` has {', '.join(more)}, which has no effect here."
            notes.warn("no-effect", message, where, line=lines[place])
    return tuple(dict.fromkeys(targets))
