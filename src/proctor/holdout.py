"""Splits a suite into dev and holdout, and hides the contents of held-out cases. Pure.

A case's rank is SHA-256 over the split's seed and its id, so that adding, editing or reordering other cases
moves as few cases as possible between dev and holdout.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from hashlib import sha256
from random import Random
from typing import TYPE_CHECKING

from msgspec.structs import replace

from proctor.model import Case, SplitRule, Suite, Trial
from proctor.position_set import PositionSet
from proctor.spools import RowSorter

if TYPE_CHECKING:
    from hashlib import _Hash as Hash

_NUMBER_BYTES = 5
SEALED_REASON = "hidden; use --reveal to show it"
"""Replaces the reason in a hidden trial."""


def rank(seed: int, case_id: str) -> bytes:
    """Returns the sort key by which cases are held out, smallest first."""
    return _rank(sha256(b"%d:" % seed), case_id)


def _rank(seed_hasher: Hash, case_id: str) -> bytes:
    hasher = seed_hasher.copy()  # a third of what it takes to make one
    hasher.update(case_id.encode("utf-8", "surrogatepass"))
    return hasher.digest()


def holdout_size(count: int, ratio: float) -> int:
    """Returns how many of `count` cases are held out: exactly ceil(count × ratio)."""
    return int((count * Decimal(str(ratio))).to_integral_value(ROUND_CEILING))


def with_holdout_share(suite: Suite, share: float) -> Suite:
    """Returns the suite with a share of its cases held out, from 0 for none to below 1."""
    if share == 0:
        return replace(suite, split_rule=None, no_holdout=True)
    rule = replace(suite.split_rule or SplitRule(), ratio=share)
    return replace(suite, split_rule=rule, no_holdout=False)


def holdout_positions(ids: Sequence[str], categories: Sequence[str | None], rule: SplitRule) -> set[int]:
    """Returns the positions of the held-out cases; see `select_holdout`."""
    return set(select_holdout(zip(ids, categories, strict=True), len(ids), rule))


def select_holdout(cases: Iterable[tuple[str, str | None]], size: int, rule: SplitRule) -> PositionSet:
    """Returns the positions of the held-out cases, however many cases there are.

    By rank, each category gives its proportional share; remaining places go to the largest remainders (ties:
    the category whose name sorts first). By shuffle, they are those that dialect meridian's own program
    leaves over, whatever their ids and categories.

    Args:
        cases: the id and the category of each case.
        size: the number of cases.
        rule: how the suite is split.
    """
    if rule.method == "shuffle":
        return PositionSet(_shuffled_holdout(size, rule), size)
    counts = Counter[str]()
    numbers: dict[str, bytes] = {}
    ranked = RowSorter[bytes](bytes)
    """The category's number, the rank and the position of each case: bytes sort faster than tuples."""
    seed_hasher = sha256(b"%d:" % rule.seed)
    for position, (case_id, category) in enumerate(cases):
        name = category or ""
        counts[name] += 1
        number = numbers.get(name)
        if number is None:
            number = numbers[name] = len(numbers).to_bytes(_NUMBER_BYTES, "big")
        ranked.add(number + _rank(seed_hasher, case_id) + position.to_bytes(_NUMBER_BYTES, "big"))
    shares = _apportion(counts, holdout_size(size, rule.ratio))
    return PositionSet(_take_first(ranked, {numbers[name]: share for name, share in shares.items()}), size)


def _take_first(ranked: Iterable[bytes], shares: Mapping[bytes, int]) -> Iterator[int]:
    """Yields the positions of the first cases of each category."""
    last_number, remaining = b"", 0
    for row in ranked:
        number = row[:_NUMBER_BYTES]
        if number != last_number:
            last_number, remaining = number, shares[number]
        if remaining:
            remaining -= 1
            yield int.from_bytes(row[-_NUMBER_BYTES:], "big")


def _shuffled_holdout(count: int, rule: SplitRule) -> array[int]:
    """Returns the positions after the dev cases in a shuffle of the file order.

    Source: the published split of dialect meridian, digit for digit: `random.shuffle` with its seed, and the
    binary `int(n * (1 - ratio))`, which for a ratio of 0.2 is floor(4n / 5).
    """
    order = array("I", range(count))
    Random(rule.seed).shuffle(order)  # noqa: S311  # no secret: it has to give the same split everywhere
    return order[int(count * (1 - rule.ratio)) :]


def _apportion(counts: Mapping[str, int], size: int) -> dict[str, int]:
    """Divides `size` places by largest remainder. Source: A. Hamilton's method of apportionment."""
    total = sum(counts.values())
    if not total:
        return {}
    shares = {name: size * count // total for name, count in counts.items()}
    by_remainder = sorted(counts, key=lambda name: (-(size * counts[name] % total), name))
    for name in by_remainder[: size - sum(shares.values())]:
        shares[name] += 1
    return shares


def seal_trial(trial: Trial) -> Trial:
    """Returns the trial with the numbers of its scores, without anything about its answer."""
    failure = trial.failure
    return replace(
        trial,
        output=None,
        scores=tuple(
            # A label can say what was expected, as in `contains-Paris`.
            replace(score, name=score.grader, reason="", entries=(), judgments=(), details={})
            for score in trial.scores
        ),
        failure=None if failure is None else replace(failure, message=SEALED_REASON),
    )


def seal_case(case: Case) -> Case:
    """Returns the case with the fields that counting needs, without its prompt and its assertions."""
    return Case(
        id=case.id,
        input=(),
        tags=case.tags,
        category=case.category,
        repeats=case.repeats,
        pass_rule=case.pass_rule,
        target=case.target,
        only_targets=case.only_targets,
    )
