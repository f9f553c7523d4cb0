"""Trees of digests: against published values of Certificate Transparency, and as laws."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.proof import merkle

# The leaves and roots that the reference implementation of Certificate Transparency is tested with.
LINES = [
    bytes.fromhex(text)
    for text in (
        *("", "00", "10", "2021", "3031", "40414243", "5051525354555657"),
        "606162636465666768696a6b6c6d6e6f",
    )
]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
PATHS = {
    (0, 8): [
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ],
    (5, 8): [
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ],
    (2, 3): ["fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"],
}

digests = st.lists(
    st.integers(0, 2**32).map(lambda number: merkle.leaf_hash(str(number).encode())), min_size=1
)


@pytest.mark.parametrize("size", range(1, 9))
def test_roots_are_the_published_ones(size: int) -> None:
    assert merkle.merkle_root(list(map(merkle.leaf_hash, LINES[:size]))).hex() == ROOTS[size - 1]


def test_an_empty_tree_has_the_digest_of_nothing() -> None:
    assert merkle.merkle_root([]) == sha256(b"").digest()


@pytest.mark.parametrize(("place", "steps"), PATHS.items())
def test_paths_are_the_published_ones(place: tuple[int, int], steps: list[str]) -> None:
    index, size = place
    assert [
        step.hex() for step in merkle.inclusion_path(list(map(merkle.leaf_hash, LINES[:size])), index)
    ] == steps


def test_the_only_line_of_a_tree_is_at_its_first_place() -> None:
    leaf = merkle.leaf_hash(b"line")
    assert merkle.root_from_path(leaf, 0, 1, []) == leaf
    assert merkle.root_from_path(leaf, 1, 1, []) is None
    assert merkle.root_from_path(leaf, 0, 1, [leaf]) is None


@given(digests, st.data())
def test_every_leaf_leads_to_the_root_and_no_other_place_does(
    leaves: list[bytes], data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, len(leaves) - 1))
    steps, root = merkle.inclusion_path(leaves, index), merkle.merkle_root(leaves)
    assert merkle.root_from_path(leaves[index], index, len(leaves), steps) == root
    assert merkle.root_from_path(merkle.leaf_hash(b"another"), index, len(leaves), steps) != root
    for wrong in (steps[1:], [*steps, root]):
        if wrong != steps:
            assert merkle.root_from_path(leaves[index], index, len(leaves), wrong) != root
    for other in {index - 1, index + 1, len(leaves)} - {index}:
        other_root = merkle.root_from_path(leaves[index], other, len(leaves), steps)
        assert other_root != root or leaves[other % len(leaves)] == leaves[index]


def test_a_node_cannot_be_passed_off_as_a_leaf() -> None:
    leaves = list(map(merkle.leaf_hash, LINES[:2]))
    assert merkle.leaf_hash(b"".join(leaves)) != merkle.merkle_root(leaves)


@pytest.mark.parametrize("index", [-1, 2])
def test_there_is_no_path_from_a_leaf_that_is_not_there(index: int) -> None:
    with pytest.raises(IndexError):
        merkle.inclusion_path(list(map(merkle.leaf_hash, LINES[:2])), index)


def test_salts_differ_by_run_tree_and_place() -> None:
    salts = {
        merkle.line_salt(secret, kind, index)
        for secret in (b"a" * 32, b"b" * 32)
        for kind in ("cases", "trials")
        for index in (0, 1, 11)
    }
    assert len(salts) == 12
    assert all(len(salt) == 64 for salt in salts)


@pytest.mark.parametrize("size", [1, 2, 5, 8])
def test_leaves_in_one_array_have_the_paths_of_a_list(size: int) -> None:
    leaves = [sha256(bytes([number])).digest() for number in range(size)]
    array = merkle.LeafList()
    for leaf in leaves:
        array.append(leaf)
    assert list(array) == leaves
    for index in range(size):
        assert merkle.inclusion_path(array, index) == merkle.inclusion_path(leaves, index)
