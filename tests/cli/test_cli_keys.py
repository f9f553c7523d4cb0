"""`proctor keys`: new, list, show, trust and distrust."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from proctor.bundles import keys
from support.cli import Proctor


@pytest.fixture
def alice(folder: Path) -> keys.SigningKey:
    """The key of another person; its public half is in alice.pub.pem."""
    key = keys.create_key(folder / "theirs", "alice", {})
    (folder / "alice.pub.pem").write_text(key.public_pem, encoding="utf-8")
    return key


def test_a_new_key_tells_its_whole_fingerprint_and_that_it_is_not_encrypted(
    proctor: Proctor, own_keys: Path
) -> None:
    result = proctor("keys", "new")
    key = keys.get_signing_key(own_keys, "default", {})
    assert result.code == 0
    assert f"Fingerprint: {key.id}\n" in result.out
    assert "not encrypted" in result.out
    again = proctor("keys", "new")
    assert (again.code, again.out) == (4, "")
    assert "already" in again.err


def test_a_password_is_told_of_and_never_shown(
    proctor: Proctor, own_keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROCTOR_KEY_PASSWORD", "swordfish")
    result = proctor("keys", "new", "safe")
    assert "not encrypted" not in result.out
    assert "swordfish" not in result.out + result.err
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
        result = proctor("keys", *words)
        assert secret not in result.out + result.err


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


def test_the_output_of_show_can_be_trusted_by_another_user(
    proctor: Proctor, alice: keys.SigningKey, own_keys: Path
) -> None:
    key_output = proctor("keys", "show", "alice", "--keys", "theirs")
    assert key_output.out == alice.public_pem
    assert alice.id in key_output.err
    result = proctor("keys", "trust", "alice.pub.pem")
    assert result.code == 0
    assert result.out.startswith(f"'alice' is now trusted.\nFingerprint: {alice.id}\n")
    assert proctor("keys", "show", "alice").out == alice.public_pem
    proctor("keys", "new")
    key_list = proctor("keys", "list", "--json").json["keys"]
    assert [(key["name"], key["yours"]) for key in key_list] == [("yours: default", True), ("alice", False)]
    assert f" {alice.id}\n" in proctor("keys", "list").out
    assert proctor("keys", "distrust", alice.id).code == 0
    assert [key["name"] for key in proctor("keys", "list", "--json").json["keys"]] == ["yours: default"]


def test_a_key_is_trusted_from_what_is_piped(
    proctor: Proctor, alice: keys.SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    def piped(*words: str) -> Any:
        stdin = io.TextIOWrapper(io.BytesIO(alice.public_pem.encode()), encoding="utf-8")
        monkeypatch.setattr("sys.stdin", stdin)
        return proctor("keys", "trust", "-", *words)

    assert "--name" in piped().err
    assert piped("--name", "al").code == 0
    assert "already trusted, as 'al'" in piped().out
    assert piped("--name", "other").code == 4


def test_trust_cannot_come_from_a_bundle(proctor: Proctor, folder: Path) -> None:
    (folder / "b.zip").write_bytes(b"PK")
    (folder / "b").mkdir()
    for name in ("b.zip", "b"):
        result = proctor("keys", "trust", name)
        assert result.code == 4
        assert "cannot vouch for its own key" in result.err


@pytest.mark.parametrize(
    ("content", "why"), [(None, "no file"), (b"\xff\xfe", "no public key"), (b"x" * 2_000_000, "too large")]
)
def test_what_is_no_key_file_is_refused(
    proctor: Proctor, folder: Path, content: bytes | None, why: str
) -> None:
    if content is not None:
        (folder / "x.pem").write_bytes(content)
    result = proctor("keys", "trust", "x.pem")
    assert (result.code, result.out) == (4, "")
    assert why in result.err


def test_a_file_whose_name_cannot_name_a_key_needs_a_name(
    proctor: Proctor, alice: keys.SigningKey, folder: Path
) -> None:
    (folder / "Al Ice.pem").write_text(alice.public_pem, encoding="utf-8")
    assert "--name" in proctor("keys", "trust", "Al Ice.pem").err
    assert "Did you mean 'Al Ice.pem'?" in proctor("keys", "trust", "Al Icy.pem").err
    assert proctor("keys", "trust", "Al Ice.pem", "--name", "alice").code == 0


def test_a_misspelt_name_gets_a_hint(proctor: Proctor, alice: keys.SigningKey) -> None:
    proctor("keys", "trust", "alice.pub.pem")
    for what in ("show", "distrust"):
        result = proctor("keys", what, "alicia")
        assert result.code == 4
        assert "'alice'" in result.err


def test_a_fingerprint_is_no_key_and_the_way_to_the_key_is_told(proctor: Proctor) -> None:
    result = proctor("keys", "trust", "d381b81b" * 8)
    assert result.code == 4
    assert "is a fingerprint, which does not contain its key. Get the public key from its owner" in result.err
    assert "`proctor keys show`" in result.err
