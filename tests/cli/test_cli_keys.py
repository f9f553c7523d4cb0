"""`proctor keys`: made, listed, shown, trusted and distrusted."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from proctor.bundles import keys
from support.cli import Proctor


@pytest.fixture
def alice(folder: Path) -> keys.SigningKey:
    """Somebody else's key; its public half is in alice.pub.pem."""
    key = keys.create_key(folder / "theirs", "alice", {})
    (folder / "alice.pub.pem").write_text(key.public_pem, encoding="utf-8")
    return key


def test_a_new_key_tells_its_whole_fingerprint_and_that_it_is_not_encrypted(
    proctor: Proctor, own_keys: Path
) -> None:
    told = proctor("keys", "new")
    key = keys.get_signing_key(own_keys, "default", {})
    assert told.code == 0
    assert f"Fingerprint: {key.id}\n" in told.out
    assert "not encrypted" in told.out
    again = proctor("keys", "new")
    assert (again.code, again.out) == (4, "")
    assert "already" in again.err


def test_a_password_is_told_of_and_never_shown(
    proctor: Proctor, own_keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROCTOR_KEY_PASSWORD", "swordfish")
    told = proctor("keys", "new", "safe")
    assert "not encrypted" not in told.out
    assert "swordfish" not in told.out + told.err
    monkeypatch.delenv("PROCTOR_KEY_PASSWORD")
    assert proctor("keys", "show", "safe").code == 0
    assert proctor("keys", "list").code == 0


def test_no_command_prints_a_private_key(proctor: Proctor, own_keys: Path) -> None:
    proctor("keys", "new")
    secret = (own_keys / "default.key.pem").read_text(encoding="utf-8").splitlines()[1]
    for words in (
        ["show"],
        ["list"],
        ["list", "--json"],
        ["trust", own_keys / "default.key.pem"],
        ["distrust", "default"],
    ):
        told = proctor("keys", *words)
        assert secret not in told.out + told.err


def test_the_list_is_empty_at_first_and_makes_nothing(proctor: Proctor, own_keys: Path) -> None:
    assert "proctor keys new" in proctor("keys", "list").out
    assert proctor("keys", "list", "--json").json == {"folder": str(own_keys), "keys": [], "exit_code": 0}
    assert not own_keys.exists()


def test_json_has_the_time_as_every_other_json(proctor: Proctor) -> None:
    proctor("keys", "new")
    assert proctor("keys", "list", "--json").json["keys"][0]["since"].endswith("Z")


def test_a_folder_that_was_named_is_in_the_commands_that_are_told(proctor: Proctor) -> None:
    assert "`proctor keys new --keys 'my keys'`" in proctor("keys", "list", "--keys", "my keys").out
    assert "`proctor keys show ci --keys 'my keys'`" in proctor("keys", "new", "ci", "--keys", "my keys").out


def test_what_is_shown_is_what_another_one_trusts(
    proctor: Proctor, alice: keys.SigningKey, own_keys: Path
) -> None:
    shown = proctor("keys", "show", "alice", "--keys", "theirs")
    assert shown.out == alice.public_pem
    assert alice.id in shown.err
    told = proctor("keys", "trust", "alice.pub.pem")
    assert told.code == 0
    assert told.out.startswith(f"'alice' is now trusted.\nFingerprint: {alice.id}\n")
    assert proctor("keys", "show", "alice").out == alice.public_pem
    proctor("keys", "new")
    listed = proctor("keys", "list", "--json").json["keys"]
    assert [(one["name"], one["yours"]) for one in listed] == [("yours: default", True), ("alice", False)]
    assert f" {alice.id}\n" in proctor("keys", "list").out
    assert proctor("keys", "distrust", alice.id).code == 0
    assert [one["name"] for one in proctor("keys", "list", "--json").json["keys"]] == ["yours: default"]


def test_a_key_is_trusted_from_what_is_piped(
    proctor: Proctor, alice: keys.SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    def piped(*words: str) -> Any:
        given = io.TextIOWrapper(io.BytesIO(alice.public_pem.encode()), encoding="utf-8")
        monkeypatch.setattr("sys.stdin", given)
        return proctor("keys", "trust", "-", *words)

    assert "--name" in piped().err
    assert piped("--name", "al").code == 0
    assert "already trusted, as 'al'" in piped().out
    assert piped("--name", "other").code == 4


def test_trust_cannot_come_from_a_bundle(proctor: Proctor, folder: Path) -> None:
    (folder / "b.zip").write_bytes(b"PK")
    (folder / "b").mkdir()
    for name in ("b.zip", "b"):
        told = proctor("keys", "trust", name)
        assert told.code == 4
        assert "cannot vouch for its own key" in told.err


@pytest.mark.parametrize(
    ("content", "why"), [(None, "no file"), (b"\xff\xfe", "no public key"), (b"x" * 2_000_000, "too large")]
)
def test_what_is_no_key_file_is_refused(
    proctor: Proctor, folder: Path, content: bytes | None, why: str
) -> None:
    if content is not None:
        (folder / "x.pem").write_bytes(content)
    told = proctor("keys", "trust", "x.pem")
    assert (told.code, told.out) == (4, "")
    assert why in told.err


def test_a_file_whose_name_can_be_no_key_wants_one(
    proctor: Proctor, alice: keys.SigningKey, folder: Path
) -> None:
    (folder / "Al Ice.pem").write_text(alice.public_pem, encoding="utf-8")
    assert "--name" in proctor("keys", "trust", "Al Ice.pem").err
    assert "Did you mean 'Al Ice.pem'?" in proctor("keys", "trust", "Al Icy.pem").err
    assert proctor("keys", "trust", "Al Ice.pem", "--name", "alice").code == 0


def test_a_misspelt_name_gets_a_hint(proctor: Proctor, alice: keys.SigningKey) -> None:
    proctor("keys", "trust", "alice.pub.pem")
    for what in ("show", "distrust"):
        told = proctor("keys", what, "alicia")
        assert told.code == 4
        assert "'alice'" in told.err


def test_a_fingerprint_is_no_key_and_the_way_to_the_key_is_told(proctor: Proctor) -> None:
    told = proctor("keys", "trust", "d381b81b" * 8)
    assert told.code == 4
    assert "is a fingerprint, which does not contain its key. Get the public key from its owner" in told.err
    assert "`proctor keys show`" in told.err
