"""Which cases of a suite are held out. Pure; sees ids and categories only.

A case's rank is SHA-256 over the split's seed and its id, so that adding, editing or reordering other cases
moves as few cases as possible between dev and holdout.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from decimal import ROUND_CEILING, Decimal
from hashlib import sha256

from proctor.model import SplitRule


def rank(seed: int, case_id: str) -> bytes:
    """The place of a case in the order in which cases are held out: the smaller, the sooner."""
    return sha256(f"{seed}:{case_id}".encode("utf-8", "surrogatepass")).digest()


def holdout_size(count: int, ratio: float) -> int:
    """How many of `count` cases are held out: exactly ceil(count × ratio)."""
    return int((count * Decimal(str(ratio))).to_integral_value(ROUND_CEILING))


def held_out(ids: Sequence[str], categories: Sequence[str | None], rule: SplitRule) -> set[int]:
    """The positions of the held-out cases.

    Where cases have categories, each category gives its proportional share, the places that are left going
    to the largest remainders (ties: the category whose name sorts first).
    """
    groups: dict[str, list[int]] = defaultdict(list)
    for position, category in enumerate(categories):
        groups[category or ""].append(position)
    size = holdout_size(len(ids), rule.ratio)
    chosen: set[int] = set()
    for name, share in _shares({name: len(group) for name, group in groups.items()}, size).items():
        ranked = sorted(groups[name], key=lambda position: rank(rule.seed, ids[position]))
        chosen.update(ranked[:share])
    return chosen


def _shares(counts: dict[str, int], size: int) -> dict[str, int]:
    """`size` places dealt to groups by largest remainder. Source: A. Hamilton's method of apportionment."""
    total = sum(counts.values())
    if not total:
        return {}
    shares = {name: size * count // total for name, count in counts.items()}
    by_remainder = sorted(counts, key=lambda name: (-(size * counts[name] % total), name))
    for name in by_remainder[: size - sum(shares.values())]:
        shares[name] += 1
    return shares
