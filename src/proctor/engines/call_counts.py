"""The counts of the calls of a run that its notes tell, summed over all of its workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

from proctor.plurals import pluralize


class CallCounts(Struct, frozen=True, kw_only=True):
    """What the calls of one worker, or of several, found in the cache and cost; can be pickled."""

    cache_hits: int = 0
    cache_misses: Mapping[str, int] = {}
    """The number of calls by reason."""
    assumed_calls: int = 0
    """How many calls did not tell their cost, in a run with a budget."""

    def plus(self, other: CallCounts) -> CallCounts:
        """Returns the counts of both together."""
        return CallCounts(
            cache_hits=self.cache_hits + other.cache_hits,
            cache_misses=dict(Counter(self.cache_misses) + Counter(other.cache_misses)),
            assumed_calls=self.assumed_calls + other.assumed_calls,
        )

    def notes(self) -> list[str]:
        """Returns sentences on cache and budget for the end of a run."""
        cache_note = self._describe_cache()
        notes = [] if cache_note is None else [cache_note]
        if self.assumed_calls:
            notes.append(
                f"{pluralize(self.assumed_calls, 'call')} did not tell the cost, and the budget counts for "
                "each the most that it may have cost, or without a price the dearest call before it."
            )
        return notes

    def _describe_cache(self) -> str | None:
        """Returns the look-ups in the cache as a sentence; None if there was none."""
        missed = sum(self.cache_misses.values())
        if not self.cache_hits and not missed:
            return None
        summary = f"{pluralize(self.cache_hits, 'answer')} came from the cache"
        if not missed:
            return f"{summary}; no request was sent."
        by_count = sorted(self.cache_misses.items(), key=lambda item: -item[1])
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in by_count)
        return f"{summary}, {missed:,} did not: {reasons}."
