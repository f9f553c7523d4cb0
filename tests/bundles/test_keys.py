"""Signing keys: creation, file modes, passwords, fingerprints and signatures."""

from __future__ import annotations

import os
import subprocess
import sys
from base64 import b64decode
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from shutil import which
from stat import S_IMODE

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from proctor.bundles import keys
from proctor.errors import UsageError

POSIX = pytest.mark.skipif(os.name != "posix", reason="rights of others are a matter of POSIX")
RFC_8032 = (  # section 7.1, test 3: public key, message, signature
    "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
    "af82",
    (
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
        "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"
    ),
)


def make_pem(raw: bytes) -> str:
    return keys._format_pem(keys._ED25519_PREFIX + raw)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "new" / "keys"


def mode(path: Path) -> int:
    return S_IMODE(path.stat().st_mode)


# --- creation ----------------------------------------------------------------------------------------------


def test_the_first_signature_makes_the_key_and_the_next_one_finds_it(folder: Path) -> None:
    first = keys.get_signing_key(folder, None, {})
    second = keys.get_signing_key(folder, None, {})
    assert (first.name, first.is_new, second.is_new) == ("default", True, False)
    assert first.id == second.id
    assert keys.verify_signature(first.public_pem, b"said", second.sign(b"said"))


@POSIX
def test_a_private_key_and_its_folder_are_their_owners_alone(folder: Path) -> None:
    before = os.umask(0)
    try:
        keys.get_signing_key(folder, None, {})
    finally:
        os.umask(before)
    assert mode(folder) == 0o700
    assert {path.name: mode(path) for path in folder.iterdir()} == {
        "default.key.pem": 0o600,
        "default.pub.pem": 0o644,
    }


def test_many_that_sign_first_at_once_make_one_key(folder: Path) -> None:
    with ThreadPoolExecutor(12) as pool:
        new_keys = list(pool.map(lambda _: keys.get_signing_key(folder, None, {}), range(24)))
    assert len({key.id for key in new_keys}) == 1
    assert sum(key.is_new for key in new_keys) == 1
    assert len(list(folder.iterdir())) == 2  # the others leave no files


@pytest.mark.slow
def test_processes_that_sign_first_at_once_make_one_key(folder: Path) -> None:
    program = (
        "import sys, pathlib; from proctor.bundles.keys import get_signing_key; sys.stdin.readline(); "
        "print(get_signing_key(pathlib.Path(sys.argv[1]), None, {}).id)"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    assert len({process.communicate()[0] for process in processes}) == 1


def test_where_files_cannot_be_linked_a_key_is_made_all_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    key = keys.create_key(folder, "one", {})
    assert keys.get_signing_key(folder, "one", {}).id == key.id
    with pytest.raises(UsageError, match="already"):
        keys.create_key(folder, "one", {})
    assert keys.get_signing_key(folder, "one", {}).id == key.id


def test_only_the_default_is_made_unasked(folder: Path) -> None:
    keys.create_key(folder, "release", {})
    with pytest.raises(UsageError, match=r"no key 'relaese'.*'release'.*proctor keys new relaese"):
        keys.get_signing_key(folder, "relaese", {})
    assert keys.list_names(folder) == ["release"]


def test_a_name_that_is_taken_is_never_made_anew(folder: Path) -> None:
    before = keys.create_key(folder, "mine", {}).id
    with pytest.raises(UsageError, match="already"):
        keys.create_key(folder, "mine", {})
    assert keys.get_signing_key(folder, "mine", {}).id == before


@pytest.mark.parametrize(
    "name",
    [
        "../up",
        "a/b",
        "a\\b",
        "/etc/x",
        "",
        ".",
        "..",
        ".hidden",
        "Upper",
        "é",
        "a b",
        "a\n",
        "x" * 65,
        "0" * 64,
    ],
)
def test_a_name_is_never_a_path(folder: Path, name: str) -> None:
    for use in (keys.create_key, keys.get_signing_key):
        with pytest.raises(UsageError, match="cannot be named"):
            use(folder, name, {})
    assert not folder.parent.exists()


@given(st.text(min_size=1, max_size=70))
def test_every_name_is_refused_or_stays_in_the_folder(name: str) -> None:
    try:
        path = keys.private_path(Path("/keys"), name)
    except UsageError:
        return
    assert path.parent == Path("/keys")
    assert os.path.normpath(path) == str(path)


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(UsageError, match="cannot be"):
        keys.get_signing_key(tmp_path / "file" / "keys", None, {})


# --- reading -----------------------------------------------------------------------------------------------


@POSIX
@pytest.mark.parametrize("rights", [0o644, 0o640, 0o604, 0o660])
def test_a_private_key_that_others_can_read_signs_nothing(folder: Path, rights: int) -> None:
    keys.get_signing_key(folder, None, {})
    path = folder / "default.key.pem"
    path.chmod(rights)
    with pytest.raises(UsageError, match=rf"mode {rights:04o}.*chmod 600 .*default\.key\.pem"):
        keys.get_signing_key(folder, None, {})
    path.chmod(0o600)
    keys.get_signing_key(folder, None, {})


@pytest.mark.parametrize(
    "content", [b"", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", b"\xff" * 99]
)
def test_a_damaged_key_is_left_as_it_is(folder: Path, content: bytes) -> None:
    keys.get_signing_key(folder, None, {})
    path = folder / "default.key.pem"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"default\.key\.pem is not a private key"):
        keys.get_signing_key(folder, None, {})
    assert path.read_bytes() == content


def test_a_key_of_another_kind_is_refused(folder: Path) -> None:
    keys.get_signing_key(folder, None, {})
    other = generate_private_key(SECP256R1())
    data = other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "default.key.pem").write_bytes(data)
    with pytest.raises(UsageError, match="not an Ed25519 key"):
        keys.get_signing_key(folder, None, {})
    public = other.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    with pytest.raises(ValueError, match="not an Ed25519"):
        keys.fingerprint(public.decode())


def test_a_public_key_that_is_not_that_of_the_private_one_is_noticed(folder: Path) -> None:
    keys.get_signing_key(folder, None, {})
    (folder / "default.pub.pem").write_text(keys.create_key(folder, "other", {}).public_pem, encoding="utf-8")
    with pytest.raises(UsageError, match="is not the public key"):
        keys.get_signing_key(folder, None, {})


def test_a_lost_public_key_comes_back(folder: Path) -> None:
    key = keys.get_signing_key(folder, None, {})
    (folder / "default.pub.pem").unlink()
    assert keys.read_public_pem(folder, "default", {}) == key.public_pem
    assert (folder / "default.pub.pem").read_text(encoding="utf-8") == key.public_pem


@POSIX
def test_a_key_in_a_folder_that_cannot_be_written_signs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = keys.get_signing_key(folder, None, {})
    before = folder.stat().st_mtime_ns
    keys.get_signing_key(folder, None, {})
    assert folder.stat().st_mtime_ns == before  # nothing is written where nothing is missing
    (folder / "default.pub.pem").unlink()

    def read_only(*_: object) -> int:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "open", read_only)
    assert keys.get_signing_key(folder, None, {}).id == key.id


@POSIX
def test_a_pipe_in_the_place_of_a_key_holds_nobody_up(folder: Path) -> None:
    folder.mkdir(parents=True)
    os.mkfifo(folder / "default.key.pem")
    with pytest.raises(UsageError, match="is not a file"):
        keys.get_signing_key(folder, None, {})


# --- encryption --------------------------------------------------------------------------------------------


def test_a_password_encrypts_a_new_key(folder: Path) -> None:
    secret = {"PROCTOR_KEY_PASSWORD": "correct horse"}
    key = keys.create_key(folder, "safe", secret)
    assert (folder / "safe.key.pem").read_bytes().startswith(b"-----BEGIN ENCRYPTED PRIVATE KEY-----")
    assert keys.get_signing_key(folder, "safe", secret).id == key.id
    with pytest.raises(UsageError, match=r"is encrypted.*PROCTOR_KEY_PASSWORD"):
        keys.get_signing_key(folder, "safe", {})
    with pytest.raises(UsageError, match="not its password"):
        keys.get_signing_key(folder, "safe", {"PROCTOR_KEY_PASSWORD": "wrong"})
    assert keys.read_public_pem(folder, "safe", {}) == key.public_pem  # which is no secret


@pytest.mark.parametrize(
    ("password", "message"), [("x" * 1024, "longer than 1,023 bytes"), ("", "encrypted")]
)
def test_what_can_be_no_password_is_a_sentence(folder: Path, password: str, message: str) -> None:
    keys.create_key(folder, "k", {keys.PASSWORD_VARIABLE: "x" * 1023})
    with pytest.raises(UsageError, match=message):
        keys.get_signing_key(folder, "k", {keys.PASSWORD_VARIABLE: password})


@pytest.mark.skipif(os.name != "posix", reason="elsewhere the environment has no such bytes")
def test_a_password_may_be_any_bytes(folder: Path) -> None:
    environ = {keys.PASSWORD_VARIABLE: os.fsdecode(b"a\xff")}
    assert keys.create_key(folder, "k", environ).id == keys.get_signing_key(folder, "k", environ).id


def test_a_link_that_leads_nowhere_is_no_key(folder: Path) -> None:
    keys.create_key(folder, "mine", {})
    (folder / "lost.key.pem").symlink_to(folder / "nowhere.pem")
    assert keys.list_names(folder) == ["mine"]
    with pytest.raises(UsageError, match="broken link"):
        keys.create_key(folder, "lost", {})
    assert not (folder / "nowhere.pem").exists()


def test_a_password_is_no_hindrance_to_a_key_without_one(folder: Path) -> None:
    key = keys.create_key(folder, "plain", {})
    assert keys.get_signing_key(folder, "plain", {"PROCTOR_KEY_PASSWORD": "x"}).id == key.id


# --- fingerprints and signatures ---------------------------------------------------------------------------


def test_a_fingerprint_is_the_digest_of_the_der_as_openssl_has_it(folder: Path) -> None:
    key = keys.get_signing_key(folder, None, {})
    der = b64decode("".join(key.public_pem.splitlines()[1:-1]))
    assert key.id == sha256(der).hexdigest() == keys.fingerprint(key.public_pem)
    if which("openssl") is None:
        pytest.skip("openssl is not installed")
    public_pem = subprocess.run(
        ["openssl", "pkey", "-in", str(folder / "default.key.pem"), "-pubout"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert public_pem == key.public_pem


@given(st.binary(min_size=32, max_size=32))
def test_however_a_public_key_is_written_its_fingerprint_is_the_same(raw: bytes) -> None:
    pem = make_pem(raw)
    body = pem.splitlines()[1]
    other = pem.replace(body, f"{body[:20]}\n{body[20:]}").replace("\n", "\r\n")
    other = f"Bag Attributes\r\n{other.strip()}"
    assert keys.normalize_pem(other) == pem
    assert keys.fingerprint(other) == keys.fingerprint(pem)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI",
        "-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----\n",
        "-----BEGIN PUBLIC KEY-----\nMCow\n-----END PUBLIC KEY-----\n",
        "-----BEGIN PUBLIC KEY-----\nMCo\n-----END PUBLIC KEY-----\n",
        make_pem(bytes(31)),
        make_pem(bytes(33)),
        make_pem(bytes(32)) * 2,
    ],
)
def test_what_is_no_public_key_is_refused(text: str) -> None:
    for use in (keys.fingerprint, keys.normalize_pem, lambda pem: keys.verify_signature(pem, b"", bytes(64))):
        with pytest.raises(ValueError, match=r"^it (does|has|is)|^its"):
            use(text)


def test_signatures_are_those_of_the_standard() -> None:
    public, message, signature = map(bytes.fromhex, RFC_8032)
    assert keys.verify_signature(make_pem(public), message, signature)
    assert not keys.verify_signature(make_pem(public), message + b"\0", signature)
    assert not keys.verify_signature(make_pem(public[::-1]), message, signature)


@given(st.binary(max_size=80), st.integers(0, 511))
def test_a_signature_with_any_bit_changed_does_not_hold(data: bytes, bit: int) -> None:
    key = _KEY
    signature = bytearray(key.sign(data))
    assert keys.verify_signature(key.public_pem, data, bytes(signature))
    signature[bit // 8] ^= 1 << bit % 8
    assert not keys.verify_signature(key.public_pem, data, bytes(signature))
    assert not keys.verify_signature(key.public_pem, data, bytes(signature[:-1]))


def test_a_key_is_never_shown() -> None:
    private = _KEY._private.private_bytes_raw()
    assert "PRIVATE" not in repr(_KEY)
    assert private.hex() not in repr(_KEY) + str(vars(_KEY))


def _make_key() -> keys.SigningKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return keys.SigningKey("test", Ed25519PrivateKey.from_private_bytes(bytes(range(32))))


_KEY = _make_key()


# --- the folder --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "where"),
    [
        ({"PROCTOR_KEYS": "/a", "XDG_CONFIG_HOME": "/b", "HOME": "/c"}, "/a"),
        ({"XDG_CONFIG_HOME": "/b", "HOME": "/c"}, "/b/proctor/keys"),
        ({"XDG_CONFIG_HOME": "relative", "HOME": "/c"}, "/c/.config/proctor/keys"),
        ({"HOME": "/c"}, "/c/.config/proctor/keys"),
        ({"PROCTOR_KEYS": "", "HOME": "/c"}, "/c/.config/proctor/keys"),
    ],
)
def test_where_keys_are(environ: dict[str, str], where: str) -> None:
    assert keys.keys_folder(environ) == Path(where)


@pytest.mark.skipif(os.name != "posix", reason="elsewhere a home folder is found otherwise")
def test_without_a_home_a_folder_of_keys_is_to_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("os.getuid", lambda: 2**31 - 9)  # a user id without a user, as in a container
    with pytest.raises(UsageError, match="PROCTOR_KEYS"):
        keys.keys_folder({})


def test_without_the_package_the_command_to_install_it_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    for use in (
        lambda: keys.get_signing_key(folder, None, {}),
        lambda: keys.verify_signature(_KEY.public_pem, b"", b""),
    ):
        with pytest.raises(UsageError, match=r"pip install 'proctor\[sign\]'"):
            use()
    assert keys.fingerprint(_KEY.public_pem) == _KEY.id  # which needs no package
