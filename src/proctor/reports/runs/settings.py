"""Describes the settings of a run. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from proctor.clusters import NO_CLUSTERS
from proctor.model import Selection, Settings
from proctor.plurals import pluralize
from proctor.reports.formatting import percent


def describe_settings(settings: Settings) -> Iterator[str]:
    """Yields the settings that differ from the defaults, and the concurrency."""
    defaults, retries = Settings(), "retry" if settings.retries == 1 else "retries"
    yield f"{settings.concurrency} concurrent"
    if settings.repeats is not None:
        yield pluralize(settings.repeats, "repeat")
    yield from _describe_selection(settings.selection)
    numbers = {
        "pass threshold {:g}": settings.threshold,
        "budget ${:g}": settings.budget_usd,
        f"stops after {pluralize(settings.max_failures or 0, 'error')}": settings.max_failures,
        "timeout {:g} s": None if settings.timeout_s == defaults.timeout_s else settings.timeout_s,
        f"{{:g}} {retries}": None if settings.retries == defaults.retries else settings.retries,
    }
    yield from (form.format(number) for form, number in numbers.items() if number is not None)
    if settings.min_pass_rate is not None:
        by = " by interval" if settings.gate_mode == "interval" else ""
        yield f"gate at {percent(settings.min_pass_rate)}{by}"
    if settings.until is not None:
        yield f"until ±{100 * settings.until:.12g} points"
    if settings.stop_when_shown:
        yield "stops when the gate is decided"
    if settings.order_seed is not None:
        yield f"order shuffled by seed {settings.order_seed}"
    if settings.cluster is not None:
        independent = settings.cluster == NO_CLUSTERS
        yield "cases treated as independent" if independent else f"clustered by {settings.cluster}"
    if (settings.judge_repeats, settings.judge_rule) != (defaults.judge_repeats, defaults.judge_rule):
        yield f"{pluralize(settings.judge_repeats, 'vote')} per judge, aggregation {settings.judge_rule}"
    yield from (name for name in ("cache", "reuse") if getattr(settings, name))
    if settings.interleave:
        yield "interleaved"
    if settings.is_batch:
        yield "in batches at half the price"
    elif settings.engine != defaults.engine:
        yield f"engine {settings.engine}"


def _describe_selection(selection: Selection) -> Iterator[str]:
    if selection.split != "all":
        yield f"only {selection.split}"
    filters = {"tag": selection.tags, "all tags": selection.all_tags, "without tag": selection.exclude_tags}
    filters |= {"category": selection.categories, "id": selection.ids}
    yield from (f"{name} {', '.join(words)}" for name, words in filters.items() if words)
    if selection.failed_in is not None:
        count = pluralize(len(selection.case_ids), "case")
        yield f"only {count} that failed or errored last, in run {selection.failed_in}"
    if selection.limit is not None:
        yield f"the first {selection.limit:,} cases"
    if selection.shard is not None:
        yield selection.shard.title
