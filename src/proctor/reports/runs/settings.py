"""How a run was set up, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from proctor.model import Selection, Settings
from proctor.reports.formatting import percent


def in_words(settings: Settings) -> Iterator[str]:
    """What was set otherwise than by default, and how many calls were made at once."""
    usual = Settings()
    yield f"{settings.concurrency} at once"
    if settings.repeats is not None:
        yield f"{settings.repeats} repeats"
    yield from _selected(settings.selection)
    numbers = {
        "passes from {:g}": settings.threshold,
        "budget ${:g}": settings.budget_usd,
        "stops after {:g} errors": settings.max_failures,
        "{:g} s for a call": None if settings.timeout_s == usual.timeout_s else settings.timeout_s,
        "{:g} retries": None if settings.retries == usual.retries else settings.retries,
    }
    yield from (form.format(number) for form, number in numbers.items() if number is not None)
    if settings.min_pass_rate is not None:
        yield f"gate at {percent(settings.min_pass_rate)}"
    if (settings.judge_repeats, settings.judge_rule) != (usual.judge_repeats, usual.judge_rule):
        yield f"each judge asked {settings.judge_repeats} times, {settings.judge_rule} decides"
    yield from (name for name in ("cache", "reuse") if getattr(settings, name))


def _selected(wanted: Selection) -> Iterator[str]:
    if wanted.split != "all":
        yield f"only {wanted.split}"
    chosen = {"tag": wanted.tags, "all tags": wanted.all_tags, "without tag": wanted.exclude_tags}
    chosen |= {"category": wanted.categories, "id": wanted.ids}
    yield from (f"{name} {', '.join(words)}" for name, words in chosen.items() if words)
    if wanted.limit is not None:
        yield f"the first {wanted.limit:,} cases"
