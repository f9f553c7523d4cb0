"""What a store tells of its suites: how many runs each version has, and what is in one of them."""

from __future__ import annotations

from collections import Counter, OrderedDict
from contextlib import suppress

from msgspec import Struct

from proctor.errors import UsageError
from proctor.model import Run, SplitRule, Suite
from proctor.protocols import SavedSuite, Store
from proctor.reports.suites import Described, Kept
from proctor.splits import held_out


def kept(store: Store, name: str | None = None) -> list[Kept]:
    """The versions of one suite or of all, by name and in their order, each with the number of its runs."""
    runs = Counter((run.suite.name, run.suite.digest) for run in store.runs())
    return [Kept(saved=one, runs=runs[one.suite.name, one.suite.digest]) for one in store.versions(name)]


class Overview(Struct, frozen=True, kw_only=True):
    """What a list of suites tells of one."""

    current: SavedSuite
    versions: int
    """How many it has."""
    runs: int
    """How many runs of any of them are stored."""
    last: Run | None
    """The newest of these."""

    @property
    def name(self) -> str:
        """The suite's name."""
        return self.current.suite.name

    @property
    def changed(self) -> bool:
        """It is asked or judged otherwise than in its last run."""
        return self.last is not None and self.last.suite.digest != self.current.suite.digest


def overviews(store: Store) -> list[Overview]:
    """Every suite of a store once, by name."""
    runs: Counter[str] = Counter()
    last: dict[str, Run] = {}
    for run in store.runs():
        runs[run.suite.name] += 1
        last.setdefault(run.suite.name, run)
    saved = store.versions()
    versions = Counter(one.suite.name for one in saved)
    return [
        Overview(
            current=one,
            versions=versions[one.suite.name],
            runs=runs[one.suite.name],
            last=last.get(one.suite.name),
        )
        for one in saved
        if one.current
    ]


def described(store: Store, suite: Suite) -> Described:
    """All that is told of one version.

    Raises:
        UsageError: it is not in the store any more.
    """
    saved = next((one for one in store.versions(suite.name) if one.suite.digest == suite.digest), None)
    if saved is None:
        raise UsageError(f"{suite.version} of {suite.name!r} is not in the store any more.")
    cases = _counted(store, saved.suite)
    return Described(
        saved=saved,
        runs=tuple(
            run for run in store.runs() if (run.suite.name, run.suite.digest) == (suite.name, suite.digest)
        ),
        looks=tuple(store.looks(suite.digest)),
        categories=cases.categories,
        tags=cases.tags,
        holdout=cases.holdout,
    )


class _Counted(Struct, frozen=True):
    """What the cases of one content come to, which is the same for ever."""

    categories: dict[str, int]
    tags: dict[str, int]
    holdout: frozenset[int] | None


_KNOWN: OrderedDict[tuple[str, SplitRule | None], _Counted] = OrderedDict()
_REMEMBERED = 32
"""So many contents are counted once; a server is asked for the same ones again and again."""


def _counted(store: Store, suite: Suite) -> _Counted:
    key = (suite.content, suite.split_rule)
    known = _KNOWN.get(key)
    if known is not None:
        return known
    ids, categories = list[str](), list[str | None]()
    tags: Counter[str] = Counter()
    for stored in store.cases(suite.content):
        ids.append(stored.case.id)
        categories.append(stored.case.category)
        tags.update(stored.case.tags)
    rule = suite.split_rule
    made = _Counted(
        categories=dict(sorted(Counter(filter(None, categories)).items())),
        tags=dict(sorted(tags.items())),
        holdout=None if rule is None else frozenset(held_out(ids, categories, rule)),
    )
    if len(ids) == suite.case_count:  # else it was deleted meanwhile
        _KNOWN[key] = made
        while len(_KNOWN) > _REMEMBERED:
            with suppress(KeyError):  # another thread was faster
                _KNOWN.popitem(last=False)
    return made
