"""Which case is in which shard: each in one, and always the same one."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proctor.codec import settings_digest
from proctor.errors import UsageError
from proctor.model import Case, Hook, Hooks, RunSlot, Selection, Settings, Shard, SplitRule, Workspace
from proctor.plan import CaseIndex, CaseIndexer
from proctor.services.runs.request import complete_settings
from proctor.shards import is_in_shard, parse_shard
from support.builders import make_case

IDS = st.lists(st.text(min_size=1, max_size=8), unique=True, max_size=30)
COUNTS = st.integers(1, 12)


def make_index(
    cases: list[Case], selection: Selection, rule: SplitRule | None = None, **slot: Any
) -> CaseIndex:
    indexer = CaseIndexer(selection, 3)
    for case in cases:
        indexer.add(case)
    return indexer.build(rule, RunSlot(**slot))


def make_shards(cases: list[Case], count: int, selection: Selection = Selection()) -> list[CaseIndex]:  # noqa: B008
    return [
        make_index(cases, replace(selection, shard=Shard(index=index, count=count))) for index in range(count)
    ]


@given(IDS, COUNTS)
def test_every_case_is_in_exactly_one_shard_with_all_its_repeats(ids: list[str], count: int) -> None:
    cases = [make_case(case_id) for case_id in ids]
    shards = make_shards(cases, count)
    positions = [position for shard in shards for position in shard.positions]
    assert sorted(positions) == list(range(len(ids)))
    assert [shard.trial_count for shard in shards] == [3 * len(shard.positions) for shard in shards]
    assert [shard.is_empty_shard for shard in shards] == [
        bool(ids) and not shard.positions for shard in shards
    ]


@given(IDS, COUNTS, st.randoms())
def test_a_case_stays_in_its_shard_whatever_cases_are_beside_it(
    ids: list[str], count: int, random: Any
) -> None:
    def shard_by_id(names: list[str]) -> dict[str, int]:
        shards = make_shards([make_case(name) for name in names], count)
        return {names[place]: number for number, shard in enumerate(shards) for place in shard.positions}

    fewer = random.sample(ids, len(ids) // 2)
    every = shard_by_id(ids)
    assert shard_by_id(fewer) == {name: every[name] for name in fewer}


@given(IDS, COUNTS, st.integers(1, 20))
def test_a_shard_is_a_part_of_what_the_limit_leaves(ids: list[str], count: int, limit: int) -> None:
    cases = [make_case(case_id) for case_id in ids]
    positions = [
        place for shard in make_shards(cases, count, Selection(limit=limit)) for place in shard.positions
    ]
    assert sorted(positions) == list(range(min(limit, len(ids))))


def test_a_shard_is_a_part_of_the_split_and_of_the_run() -> None:
    cases = [make_case(str(number), only_targets=("a",) if number % 2 else ("b",)) for number in range(40)]
    rule, every = SplitRule(), Selection(split="holdout")
    slot = {"target": "a", "alone": False}
    whole = make_index(cases, every, rule, **slot)
    parts = [
        make_index(cases, replace(every, shard=Shard(index=index, count=3)), rule, **slot)
        for index in range(3)
    ]
    assert sorted(place for part in parts for place in part.positions) == list(whole.positions)
    assert {part.holdout for part in parts} == {whole.holdout}


def test_the_shard_follows_from_the_published_rule() -> None:
    for name in ("a", "sum-1", "é 漢"):
        digest = blake2b(name.encode(), digest_size=8).digest()
        shard = Shard(index=int.from_bytes(digest, "big") % 7, count=7)
        assert is_in_shard(make_case(name), shard)
    # A run of last year is resumed and merged by the same rule.
    assert [i for i in range(26) if is_in_shard(make_case(chr(97 + i)), Shard(index=0, count=4))] == [
        *(6, 7, 8, 9, 12, 13, 14, 20, 22, 25)
    ]


@pytest.mark.parametrize(
    "workspace",
    [
        Workspace(template="t", hooks=Hooks(before_all=Hook(command=("a",)))),
        Workspace(path="work"),
        Workspace(path="work", isolation="per_test"),
    ],
)
def test_cases_that_share_a_folder_are_in_one_shard(workspace: Workspace) -> None:
    cases = [make_case(str(number), workspace=workspace) for number in range(30)]
    assert sorted(len(shard.positions) for shard in make_shards(cases, 4)) == [0, 0, 0, 30]


def test_a_path_is_one_folder_however_it_is_written_and_whatever_the_hooks() -> None:
    spaces = [Workspace(path=path) for path in ("work", "./work", "a/../work", "work/")]
    spaces.append(Workspace(path="work", hooks=Hooks(after_each=Hook(reset="strict"))))
    cases = [make_case(str(number), workspace=space) for number, space in enumerate(spaces)]
    assert sorted(len(shard.positions) for shard in make_shards(cases, 4)) == [0, 0, 0, 5]


def test_cases_with_folders_of_their_own_spread() -> None:
    own = Workspace(template="t", isolation="per_test")
    cases = [make_case(str(number), workspace=own) for number in range(40)]
    assert all(shard.positions for shard in make_shards(cases, 4))


def test_a_selection_without_a_shard_keeps_its_digest() -> None:
    assert (
        settings_digest((Selection(limit=3), None))
        == "sha256:bb1c27c6900d1659da5aa14fe8b86a83f96902a9221844c2cd9aaffc43c22be4"
    )
    parts = {settings_digest((Selection(shard=Shard(index=index, count=2)), None)) for index in range(2)}
    assert len(parts | {settings_digest((Selection(), None))}) == 3


@pytest.mark.parametrize("text", ["0/1", "3/4", " 99999/100000 "])
def test_a_shard_is_written_as_its_place_and_their_number(text: str) -> None:
    assert str(parse_shard(text)) == text.strip()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("4/4", "4 of them are --shard 0/4 to --shard 3/4."),
        ("1/1", "1 of them is --shard 0/1."),
        ("0/0", "N must be from 1 to 100,000."),
        ("1/100001", "N must be from 1 to 100,000."),
        *(
            (text, "Write I/N")
            for text in ("", "1", "a/4", "-1/4", "1/4/2", "1 / 4", "1.0/4", "١/4", "/4", "0x1/4")
        ),
    ],
)
def test_an_invalid_shard_is_refused_with_the_remedy(text: str, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_shard(text)
    assert why in str(caught.value)


@pytest.mark.parametrize("fields", [{"until": 0.02}, {"stop_when_shown": True, "min_pass_rate": 0.8}])
def test_a_shard_cannot_stop_early(fields: dict[str, Any]) -> None:
    settings = Settings(selection=Selection(shard=Shard(index=0, count=2)), **fields)
    with pytest.raises(UsageError, match="a shard has only a part"):
        complete_settings(settings, fields, resumes=False)
