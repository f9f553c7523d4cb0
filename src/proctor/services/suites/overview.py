"""Summaries of the suites in a store: the runs of each version, and the categories, tags and split of one."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Sequence
from contextlib import suppress

from msgspec import Struct

from proctor.errors import UsageError
from proctor.holdout import holdout_positions
from proctor.model import Run, SplitRule, Suite
from proctor.plurals import pluralize
from proctor.protocols import SavedSuite, Store
from proctor.reports.suites import SuiteDetail, VersionEntry
from proctor.services.runs.reading.current_status import iter_current_status


def list_saved_versions(store: Store, name: str | None = None) -> list[VersionEntry]:
    """Returns the versions of one suite or of all, by name and in order, each with its number of runs."""
    runs = Counter((run.suite.name, run.suite.digest) for run in store.runs())
    return [
        VersionEntry(saved=version, runs=runs[version.suite.name, version.suite.digest])
        for version in store.versions(name)
    ]


def check_without_runs(versions: Sequence[VersionEntry]) -> None:
    """Refuses to delete versions of one suite that have stored runs.

    Raises:
        UsageError: one has.
    """
    in_use = [
        f"{version.saved.suite.version} has {pluralize(version.runs, 'run')}"
        for version in versions
        if version.runs
    ]
    if in_use:
        name = versions[0].saved.suite.name
        raise UsageError(
            f"{name!r} cannot be deleted: {', '.join(in_use)}. First delete the runs with `proctor "
            "runs delete`."
        )


class SuiteOverview(Struct, frozen=True, kw_only=True):
    """One suite as a list of suites shows it."""

    current: SavedSuite
    versions: int
    """The number of its versions."""
    runs: int
    """The number of stored runs of all versions."""
    last: Run | None
    """The newest run."""

    @property
    def name(self) -> str:
        """The suite's name."""
        return self.current.suite.name

    @property
    def changed(self) -> bool:
        """Whether its cases are sent or judged differently than in its last run."""
        return self.last is not None and self.last.suite.digest != self.current.suite.digest


def list_overviews(store: Store) -> list[SuiteOverview]:
    """Returns every suite of a store once, by name."""
    runs: Counter[str] = Counter()
    last: dict[str, Run] = {}
    for run in store.runs():
        runs[run.suite.name] += 1
        last.setdefault(run.suite.name, run)
    all_versions = store.versions()
    versions = Counter(version.suite.name for version in all_versions)
    return [
        SuiteOverview(
            current=version,
            versions=versions[version.suite.name],
            runs=runs[version.suite.name],
            last=last.get(version.suite.name),
        )
        for version in all_versions
        if version.current
    ]


def describe_version(store: Store, suite: Suite) -> SuiteDetail:
    """Returns the details of one version.

    Raises:
        UsageError: it is no longer in the store.
    """
    saved_version = next(
        (version for version in store.versions(suite.name) if version.suite.digest == suite.digest), None
    )
    if saved_version is None:
        raise UsageError(f"{suite.version} of {suite.name!r} is no longer in the store.")
    cases = _count_cases(store, saved_version.suite)
    return SuiteDetail(
        saved=saved_version,
        runs=tuple(
            run
            for run in iter_current_status(store, store.runs())
            if (run.suite.name, run.suite.digest) == (suite.name, suite.digest)
        ),
        looks=tuple(store.holdout_accesses(suite.digest)),
        categories=cases.categories,
        tags=cases.tags,
        holdout=cases.holdout,
    )


class _CaseCounts(Struct, frozen=True):
    """Counts over the cases of one suite content, which never change."""

    categories: dict[str, int]
    tags: dict[str, int]
    holdout: frozenset[int] | None


_CACHE: OrderedDict[tuple[str, SplitRule | None], _CaseCounts] = OrderedDict()
_MAX_CACHED = 32
"""The maximum number of cached counts: a server shows the same suites again and again."""


def _count_cases(store: Store, suite: Suite) -> _CaseCounts:
    key = (suite.content, suite.split_rule)
    cached = _CACHE.get(key)
    if cached is not None:
        return cached
    ids, categories = list[str](), list[str | None]()
    tags: Counter[str] = Counter()
    for row in store.cases(suite.content):
        ids.append(row.case.id)
        categories.append(row.case.category)
        tags.update(row.case.tags)
    rule = suite.split_rule
    counts = _CaseCounts(
        categories=dict(sorted(Counter(filter(None, categories)).items())),
        tags=dict(sorted(tags.items())),
        holdout=None if rule is None else frozenset(holdout_positions(ids, categories, rule)),
    )
    if len(ids) == suite.case_count:  # else it was deleted meanwhile
        _CACHE[key] = counts
        while len(_CACHE) > _MAX_CACHED:
            with suppress(KeyError):  # another thread was faster
                _CACHE.popitem(last=False)
    return counts
