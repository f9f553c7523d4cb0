"""Signing keys: Ed25519, created at first use, in a folder that only their owner can read.

Each key has two files: `NAME.key.pem`, the private key as PKCS #8 (RFC 5958), and `NAME.pub.pem`, the public
key (RFC 8410), which can be given to others. A key is identified by its fingerprint, never by its name.
"""

from __future__ import annotations

import os
import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from proctor.bundles.private_files import create_private, make_private_folder, read_private
from proctor.errors import UsageError, suggestion

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

DEFAULT_NAME = "default"
PASSWORD_VARIABLE = "PROCTOR_KEY_PASSWORD"
"""The environment variable with the password of an encrypted key."""
_MAX_PASSWORD_BYTES = 1023
"""What OpenSSL takes."""
_PRIVATE_SUFFIX, _PUBLIC_SUFFIX = ".key.pem", ".pub.pem"
_NAME = re.compile(r"[a-z0-9_-][a-z0-9._-]{0,63}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_PEM_BLOCK = re.compile(r"-----BEGIN PUBLIC KEY-----([A-Za-z0-9+/=\s]*)-----END PUBLIC KEY-----")
_ED25519_PREFIX = bytes.fromhex("302a300506032b6570032100")
"""The beginning of the DER of every Ed25519 public key; 32 bytes follow (RFC 8410, section 4)."""


class SigningKey:
    """A private key, ready to sign. Its repr never shows the key itself."""

    def __init__(self, name: str, private: Ed25519PrivateKey, *, is_new: bool = False) -> None:
        """Reads and writes nothing.

        Args:
            name: its owner's name for it.
            private: the key.
            is_new: whether the key was created just now.
        """
        self._private = private
        self.name = name
        self.is_new = is_new
        self.public_pem = _format_pem(_ED25519_PREFIX + private.public_key().public_bytes_raw())
        self.id = fingerprint(self.public_pem)

    def sign(self, data: bytes) -> bytes:
        """Returns its signature over data, 64 bytes that are always the same (RFC 8032)."""
        return self._private.sign(data)

    def __repr__(self) -> str:
        return f"SigningKey(name={self.name!r}, id={self.id!r})"


def keys_folder(environ: Mapping[str, str]) -> Path:
    """Returns the folder of a user's keys: $PROCTOR_KEYS, else `proctor/keys` in the configuration folder.

    Source: XDG Base Directory Specification 0.8.

    Raises:
        UsageError: there is no such folder, as for a user without a home folder.
    """
    if environ.get("PROCTOR_KEYS"):
        return Path(environ["PROCTOR_KEYS"])
    settings = environ.get("XDG_CONFIG_HOME", "")
    if not Path(settings).is_absolute():  # ignored by the specification
        try:
            settings = str(Path(environ.get("HOME") or Path.home()) / ".config")
        except RuntimeError:
            raise UsageError(
                "You have no home directory for keys. Set the environment variable PROCTOR_KEYS to a folder."
            ) from None
    return Path(settings) / "proctor" / "keys"


def get_signing_key(folder: Path, name: str | None, environ: Mapping[str, str] = os.environ) -> SigningKey:
    """Returns the key of that name, or the user's default key, which is created at first use.

    Args:
        folder: the folder of keys.
        name: the name of an existing key; None for `default`.
        environ: has the password of an encrypted key.

    Raises:
        UsageError: the key does not exist, cannot be read, can be read by others, or `cryptography` is
            missing.
    """
    if name is None:
        return _load_key(folder, DEFAULT_NAME, environ) or _make_key(folder, DEFAULT_NAME, environ)
    key = _load_key(folder, check_name(name), environ)
    if key is None:
        raise UsageError(
            f"There is no key {name!r} in {folder}. {suggestion(name, list_names(folder))} "
            f"To create it, run `proctor keys new {name}`."
        )
    return key


def create_key(folder: Path, name: str, environ: Mapping[str, str] = os.environ) -> SigningKey:
    """Creates a key with a new name; encrypts it if $PROCTOR_KEY_PASSWORD is set.

    Raises:
        UsageError: the name is invalid or taken, or the files cannot be written.
    """
    key = _make_key(folder, check_name(name), environ)
    if not key.is_new:
        raise UsageError(f"The key {name!r} already exists in {folder}. Choose another name.")
    return key


def list_names(folder: Path) -> list[str]:
    """Returns the names of the private keys in a folder, sorted.

    Raises:
        UsageError: the folder cannot be read.
    """
    try:
        key_names = [
            file.name.removesuffix(_PRIVATE_SUFFIX)
            for file in folder.glob(f"*{_PRIVATE_SUFFIX}")
            if file.exists()
        ]
    except OSError as error:
        raise UsageError(f"The key folder {folder} cannot be read: {error.strerror}.") from None
    return sorted(name for name in key_names if _NAME.fullmatch(name))


def read_public_pem(folder: Path, name: str, environ: Mapping[str, str] = os.environ) -> str:
    """Returns the public key of one of the user's own keys, if possible without its private key.

    Raises:
        UsageError: there is no such key, or its file is damaged.
    """
    path = folder / f"{check_name(name)}{_PUBLIC_SUFFIX}"
    data = read_private(path) if name in list_names(folder) else None
    if data is None:
        return get_signing_key(folder, name, environ).public_pem
    try:
        return normalize_pem(data.decode("utf-8", "replace"))
    except ValueError as error:
        raise UsageError(
            f"{path} is not a public key: {error}. Delete it; Proctor creates it again when you sign."
        ) from None


def private_path(folder: Path, name: str) -> Path:
    """Returns the file of the private key of that name."""
    return folder / f"{check_name(name)}{_PRIVATE_SUFFIX}"


def created_at(folder: Path, name: str) -> datetime:
    """Returns when the file of a private key was written."""
    return datetime.fromtimestamp(private_path(folder, name).stat().st_mtime, UTC)


def fingerprint(public_pem: str) -> str:
    """Returns the id of a key: SHA-256 over the DER of its SubjectPublicKeyInfo, as 64 hexadecimal digits.

    Raises:
        ValueError: the text is not an Ed25519 public key.
    """
    return sha256(_parse_der(public_pem)).hexdigest()


def normalize_pem(text: str) -> str:
    """Returns the normal form of the public key in a text, which may have other lines around it.

    Raises:
        ValueError: the text does not have exactly one Ed25519 public key.
    """
    return _format_pem(_parse_der(text))


def verify_signature(public_pem: str, data: bytes, sig: bytes) -> bool:
    """Whether a key made this signature over data.

    Raises:
        ValueError: the text is not an Ed25519 public key.
        UsageError: `cryptography` is missing.
    """
    der = _parse_der(public_pem)
    require_cryptography()
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(der[len(_ED25519_PREFIX) :]).verify(sig, data)
    except InvalidSignature:
        return False
    return True


def is_fingerprint(text: str) -> bool:
    """Whether a text has the form of the id of a key."""
    return _DIGEST.fullmatch(text) is not None


def check_fingerprint(text: str) -> str:
    """Returns a fingerprint in its normal form, in lower case.

    Raises:
        UsageError: the text is none.
    """
    if not is_fingerprint(text.lower()):
        raise UsageError(
            f"{text!r} is not the fingerprint of a key. Give all 64 digits, as `proctor keys list` prints "
            "them."
        )
    return text.lower()


def check_name(name: str) -> str:
    """Returns the name if it is valid for a key, as it becomes a part of file names.

    Raises:
        UsageError: it is invalid.
    """
    if not _NAME.fullmatch(name) or is_fingerprint(name):
        raise UsageError(
            f"A key cannot be named {name!r}. Use 1 to 64 of the characters a-z 0-9 . _ -, do not begin with "
            f"a dot, and do not use a fingerprint."
        )
    return name


def require_cryptography() -> None:
    """Checks that signatures can be created and verified.

    Raises:
        UsageError: `cryptography` is missing.
    """
    try:
        import cryptography  # noqa: F401  # checks only that it is installed
    except ImportError:
        raise UsageError(
            "Signatures need the package cryptography, which is missing. Install it with "
            "pip install 'proctor[sign]'"
        ) from None


def _make_key(folder: Path, name: str, environ: Mapping[str, str]) -> SigningKey:
    """Creates a key, or returns the one that another process created first."""
    require_cryptography()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    make_private_folder(folder)
    private = Ed25519PrivateKey.generate()
    password = _get_password(environ)
    how = BestAvailableEncryption(password) if password else NoEncryption()
    data = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how)
    if not create_private(private_path(folder, name), data, 0o600):
        existing_key = _load_key(folder, name, environ)
        if existing_key is None:
            raise UsageError(f"{private_path(folder, name)} is a broken link, or was just removed.")
        return existing_key
    key = SigningKey(name, private, is_new=True)
    create_private(folder / f"{name}{_PUBLIC_SUFFIX}", key.public_pem.encode(), 0o644)
    return key


def _load_key(folder: Path, name: str, environ: Mapping[str, str]) -> SigningKey | None:
    path = private_path(folder, name)
    data = read_private(path, secret=True)
    if data is None:
        return None
    key = SigningKey(name, _load_private_key(path, data, environ))
    public = folder / f"{name}{_PUBLIC_SUFFIX}"
    if read_private(public) is None:
        with suppress(UsageError):  # a folder of secrets may well be read-only
            create_private(public, key.public_pem.encode(), 0o644)
    elif read_public_pem(folder, name) != key.public_pem:
        raise UsageError(
            f"{public} is not the public key of {path}. Nothing was signed. Find out why the two differ, "
            f"then delete the public key."
        )
    return key


def _get_password(environ: Mapping[str, str]) -> bytes:
    password = os.fsencode(environ.get(PASSWORD_VARIABLE, ""))
    if len(password) > _MAX_PASSWORD_BYTES:
        raise UsageError(
            f"{PASSWORD_VARIABLE} is longer than {_MAX_PASSWORD_BYTES:,} bytes. Choose a shorter password."
        )
    return password


def _load_private_key(path: Path, data: bytes, environ: Mapping[str, str]) -> Ed25519PrivateKey:
    require_cryptography()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    encrypted = b"-----BEGIN ENCRYPTED PRIVATE KEY-----" in data
    password = _get_password(environ) if encrypted else None
    if encrypted and not password:
        raise UsageError(
            f"{path} is encrypted. Set the environment variable {PASSWORD_VARIABLE} to its password."
        )
    try:
        private = load_pem_private_key(data, password)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        why = (
            f"is damaged, or {PASSWORD_VARIABLE} is not its password"
            if encrypted
            else "is not a private key, or is damaged"
        )
        raise UsageError(f"{path} {why}. It was not changed.") from None
    if not isinstance(private, Ed25519PrivateKey):
        raise UsageError(
            f"{path} is a private key, but not an Ed25519 key. Create a key with `proctor keys new`."
        )
    return private


def _parse_der(text: str) -> bytes:
    blocks = _PEM_BLOCK.findall(text)
    if len(blocks) != 1:
        raise ValueError("it does not have exactly one block BEGIN PUBLIC KEY")
    try:
        der = b64decode("".join(blocks[0].split()), validate=True)
    except Base64Error:
        raise ValueError("its Base64 is damaged") from None
    if not der.startswith(_ED25519_PREFIX) or len(der) != len(_ED25519_PREFIX) + 32:
        raise ValueError("it is not an Ed25519 public key")
    return der


def _format_pem(der: bytes) -> str:
    return f"-----BEGIN PUBLIC KEY-----\n{b64encode(der).decode()}\n-----END PUBLIC KEY-----\n"
