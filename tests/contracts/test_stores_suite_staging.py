"""What every store promises of a suite that is saved aside: it changes nothing that is there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.model import Case, Suite
from proctor.protocols import Store
from proctor.stores import STORES, open_store
from support.builders import make_case

DIGESTS = ["sha256:" + letter * 64 for letter in "abc"]


def keep(store: Store, digest: str, *, aside: bool, case: Case | None = None) -> Suite:
    writer = store.open_suite_writer(aside=aside)
    if case is not None:
        writer.add(case, digest)
    return writer.commit(Suite(name="s", dialect="d", digest=digest))


def test_a_version_that_is_there_keeps_its_content(store: Store) -> None:
    mine = keep(store, DIGESTS[0], aside=False, case=make_case("mine"))
    theirs = keep(store, DIGESTS[0], aside=True, case=make_case("theirs"))
    assert theirs.version == mine.version == "v1"
    assert theirs.content != mine.content
    assert store.suite("s") == store.suite("s", "v1") == mine
    assert [stored.case.id for stored in store.cases(theirs.content)] == ["theirs"]


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(DIGESTS), st.booleans()), max_size=8))
def test_the_current_version_is_the_last_that_was_not_saved_aside(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, bool]]
) -> None:
    for kind in STORES.names():
        address = ":memory:" if kind == "memory" else f"{kind}:///{tmp_path_factory.mktemp('aside')}/kept"
        store = open_store(address)
        for digest, aside in steps:
            keep(store, digest, aside=aside)
        own = [digest for digest, aside in steps if not aside]
        current = store.suite("s")
        if own:
            assert current is not None
            assert current.digest == own[-1]
        numbers = list(dict.fromkeys(digest for digest, _ in steps))
        assert [one.suite.digest for one in store.versions("s")] == numbers
        assert sum(one.current for one in store.versions("s")) == bool(steps)
        store.close()


def test_a_version_that_was_forgotten_can_come_back_aside(store: Store) -> None:
    keep(store, DIGESTS[0], aside=False, case=make_case("mine"))
    current = keep(store, DIGESTS[1], aside=False, case=make_case("other"))
    store.delete_version("s", "v1")
    back = keep(store, DIGESTS[0], aside=True, case=make_case("theirs"))
    assert store.suite("s", "v1") == back
    assert store.suite("s") == current
