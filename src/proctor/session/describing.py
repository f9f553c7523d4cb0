"""What a store tells of its suites: how many runs each version has, and what is in one of them."""

from __future__ import annotations

from collections import Counter

from proctor.errors import UsageError
from proctor.holdout import held_out
from proctor.model import Suite
from proctor.ports import Store
from proctor.reports.versions import Described, Kept


def kept(store: Store, name: str | None = None) -> list[Kept]:
    """The versions of one suite or of all, by name and in their order, each with the number of its runs."""
    runs = Counter((run.suite.name, run.suite.digest) for run in store.runs())
    return [Kept(saved=one, runs=runs[one.suite.name, one.suite.digest]) for one in store.versions(name)]


def described(store: Store, suite: Suite) -> Described:
    """All that is told of one version.

    Raises:
        UsageError: it is not in the store any more.
    """
    saved = next((one for one in store.versions(suite.name) if one.suite.digest == suite.digest), None)
    if saved is None:
        raise UsageError(f"{suite.version} of {suite.name!r} is not in the store any more.")
    ids, categories = list[str](), list[str | None]()
    tags: Counter[str] = Counter()
    for stored in store.cases(saved.suite.content):
        ids.append(stored.case.id)
        categories.append(stored.case.category)
        tags.update(stored.case.tags)
    rule = saved.suite.split_rule
    return Described(
        saved=saved,
        runs=tuple(
            run for run in store.runs() if (run.suite.name, run.suite.digest) == (suite.name, suite.digest)
        ),
        looks=tuple(store.looks(suite.digest)),
        categories=dict(sorted(Counter(filter(None, categories)).items())),
        tags=dict(sorted(tags.items())),
        holdout=None if rule is None else frozenset(held_out(ids, categories, rule)),
    )
