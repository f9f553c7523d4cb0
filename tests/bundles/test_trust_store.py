"""The trust store: trusting and distrusting keys, and damaged trust files."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from proctor.bundles import keys
from proctor.bundles.trust_store import TRUST_FILE, TrustedKey, distrust, load_trusted_keys, trust
from proctor.errors import UsageError
from support.builders import NOON


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "keys"


def pem(word: str) -> str:
    """A public key; nobody knows its private one."""
    return keys._format_pem(keys._ED25519_PREFIX + sha256(word.encode()).digest())


def names(folder: Path) -> list[str]:
    return [key.name for key in load_trusted_keys(folder).values()]


def test_nobody_is_trusted_at_first(folder: Path) -> None:
    assert load_trusted_keys(folder) == {}
    assert not folder.exists()


def test_a_key_that_is_trusted_stays_so_until_it_is_not(folder: Path) -> None:
    key, new = trust(folder, pem("a"), "alice", NOON)
    assert new
    assert key == TrustedKey(keys.fingerprint(pem("a")), "alice", pem("a"), NOON)
    assert load_trusted_keys(folder) == {key.id: key}
    assert distrust(folder, "alice") == key
    assert load_trusted_keys(folder) == {}


def test_a_key_is_distrusted_by_its_whole_fingerprint_alone(folder: Path) -> None:
    key, _ = trust(folder, pem("a"), "alice", NOON)
    with pytest.raises(UsageError, match="full fingerprint"):
        distrust(folder, key.id[:-1])
    assert distrust(folder, key.id) == key


def test_a_key_of_your_own_is_trusted_as_yours(folder: Path) -> None:
    own = keys.get_signing_key(folder, None, {})
    assert {key.id: (key.name, key.is_own, key.own_name) for key in load_trusted_keys(folder).values()} == {
        own.id: ("yours: default", True, "default")
    }
    assert trust(folder, own.public_pem, "default", NOON) == (load_trusted_keys(folder)[own.id], False)
    with pytest.raises(UsageError, match="is your own key"):
        distrust(folder, "default")
    (folder / "default.key.pem").unlink()
    assert load_trusted_keys(folder) == {}  # a public key alone is not yours


def test_a_name_belongs_to_one_key(folder: Path) -> None:
    key, _ = trust(folder, pem("a"), "alice", NOON)
    before = (folder / TRUST_FILE).read_bytes()
    with pytest.raises(UsageError, match=f"another key.*{key.id}"):
        trust(folder, pem("b"), "alice", NOON)
    with pytest.raises(UsageError, match="trusted as 'alice' already"):
        trust(folder, pem("a"), "bob", NOON)
    assert trust(folder, pem("a"), "alice", NOON) == (key, False)
    assert (folder / TRUST_FILE).read_bytes() == before


@pytest.mark.parametrize("name", ["yours: me", "../x", "", "a b", "0" * 64, "\x1b[31m"])
def test_a_name_cannot_pass_for_something_else(folder: Path, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be named"):
        trust(folder, pem("a"), name, NOON)
    assert load_trusted_keys(folder) == {}


def test_what_is_no_key_is_not_trusted(folder: Path) -> None:
    with pytest.raises(UsageError, match="not a public key"):
        trust(folder, "hello", "alice", NOON)


def test_concurrent_trust_loses_no_key(folder: Path) -> None:
    key_names = [f"k{n}" for n in range(16)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: trust(folder, pem(name), name, NOON), key_names))
    assert sorted(names(folder)) == sorted(key_names)


def test_the_file_reads_one_key_a_line_and_is_the_same_whatever_the_order(tmp_path: Path) -> None:
    for place, order in (("one", "abc"), ("two", "cab")):
        for name in order:
            trust(tmp_path / place, pem(name), name, NOON)
    first, second = ((tmp_path / place / TRUST_FILE).read_bytes() for place in ("one", "two"))
    assert first == second
    assert first.count(b"\n") == 5
    assert not list(tmp_path.rglob("*.part"))


# --- damaged -----------------------------------------------------------------------------------------------


def write_trust_file(folder: Path, change: Any) -> None:
    trust(folder, pem("a"), "alice", NOON)
    trust(folder, pem("b"), "bob", NOON)
    data = json.loads((folder / TRUST_FILE).read_text(encoding="utf-8"))
    change(data)
    text = ",\n".join(json.dumps(trusted_key) for trusted_key in data.pop("keys"))
    other_fields = "".join(f", {json.dumps(key)}: {json.dumps(value)}" for key, value in data.items())
    (folder / TRUST_FILE).write_text(f'{{"keys": [\n{text}\n]{other_fields}}}\n', encoding="utf-8")


def entry(place: int, **fields: Any) -> Any:
    return lambda data: data["keys"][place].update(fields)


@pytest.mark.parametrize(
    ("change", "line", "why"),
    [
        (entry(1, public_pem=pem("forged")), 3, "is not the fingerprint"),
        (entry(1, id=keys.fingerprint(pem("forged"))), 3, "is not the fingerprint"),
        (entry(1, public_pem="no key"), 3, "no|not one block"),
        (entry(1, name="alice"), 3, "twice"),
        (entry(1, name="yours: default"), 3, "cannot be named"),
        (entry(1, since="soon"), 3, "soon"),
        (entry(1, extra="x"), 3, "fields"),
        (entry(0, name=7), 2, "fields"),
        (lambda data: data["keys"].append(data["keys"][0]), 2, "twice"),
        (lambda data: data["keys"].append(None), 1, "fields"),
        (lambda data: data.update(version=2), 1, "version"),
        (lambda data: data.pop("version"), 1, "version"),
    ],
)
def test_a_damaged_file_is_believed_in_nothing(folder: Path, change: Any, line: int, why: str) -> None:
    write_trust_file(folder, change)
    before = (folder / TRUST_FILE).read_bytes()
    for use in (
        lambda: load_trusted_keys(folder),
        lambda: trust(folder, pem("c"), "carol", NOON),
        lambda: distrust(folder, "alice"),
    ):
        with pytest.raises(UsageError, match=rf"trusted\.json:{line}: .*({why})"):
            use()
    assert (folder / TRUST_FILE).read_bytes() == before


@pytest.mark.parametrize(
    ("text", "line"),
    [("", 1), ('{"keys": [\n\n}', 3), ("[" * 100_000, 1), ("[]", 1), ("\0", 1), ("9" * 5000, 1)],
)
def test_a_file_that_is_no_json_says_where(folder: Path, text: str, line: int) -> None:
    folder.mkdir()
    (folder / TRUST_FILE).write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=rf"trusted\.json:{line}: "):
        load_trusted_keys(folder)


@pytest.mark.skipif(os.name != "posix", reason="rights of others are a matter of POSIX")
def test_a_file_that_anybody_may_write_is_not_believed(folder: Path) -> None:
    trust(folder, pem("a"), "alice", NOON)
    (folder / TRUST_FILE).chmod(0o666)
    with pytest.raises(UsageError, match=r"Every user can write to .*chmod 644"):
        load_trusted_keys(folder)


def test_a_trust_file_that_is_a_link_stays_one(folder: Path, tmp_path: Path) -> None:
    trust(folder, pem("a"), "alice", NOON)
    (folder / TRUST_FILE).rename(tmp_path / "settings.json")
    (folder / TRUST_FILE).symlink_to(tmp_path / "settings.json")
    distrust(folder, "alice")
    assert (folder / TRUST_FILE).is_symlink()
    assert b"alice" not in (tmp_path / "settings.json").read_bytes()
