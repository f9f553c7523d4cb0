"""The public keys that a user trusts, in one file beside the user's own keys, which are trusted too.

A key in a bundle does not prove who created the bundle; a key in this file was put there by the user.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from proctor.bundles import keys
from proctor.bundles.private_files import lock_private, make_private_folder, read_private, write_private
from proctor.errors import UsageError, suggestion

TRUST_FILE = "trusted.json"
_VERSION = 1
_OWN_PREFIX = "yours: "
_ENTRY_FIELDS = {"id", "name", "public_pem", "since"}


class TrustedKey(Struct, frozen=True):
    """A key that the user trusts."""

    id: str
    """Its full fingerprint."""
    name: str
    """The user's name for its owner; `yours: NAME` for the user's own key."""
    public_pem: str
    since: datetime
    is_own: bool = False
    """Whether its private key is in the folder, too."""

    @property
    def own_name(self) -> str | None:
        """The name of the user's own key; None for somebody else's key."""
        return self.name.removeprefix(_OWN_PREFIX) if self.is_own else None


def load_trusted_keys(folder: Path) -> dict[str, TrustedKey]:
    """Returns every trusted key by its id, the user's own first.

    Raises:
        UsageError: the trust file or a public key is damaged; then no key is trusted.
    """
    keys_by_id = {key.id: key for key in _load_own_keys(folder)}
    for key in _read_trust_file(folder):
        keys_by_id.setdefault(key.id, key)
    return keys_by_id


def trust(folder: Path, public_pem: str, name: str, now: datetime) -> tuple[TrustedKey, bool]:
    """Trusts a key from now on.

    Args:
        folder: the folder of keys; created if it is missing.
        public_pem: the key; other lines around it are ignored.
        name: a name for its owner.
        now: the current time.

    Returns:
        The trusted key, and whether it was not trusted before.

    Raises:
        UsageError: the text is not a key, the name is taken or invalid, or the file is damaged.
    """
    keys.check_name(name)
    try:
        pem = keys.normalize_pem(public_pem)
    except ValueError as error:
        raise UsageError(f"That is not a public key: {error}.") from None
    key = TrustedKey(keys.fingerprint(pem), name, pem, now)
    make_private_folder(folder)
    with lock_private(folder / f"{TRUST_FILE}.lock"):
        trusted_keys = load_trusted_keys(folder)
        if key.id in trusted_keys:
            trusted_key = trusted_keys[key.id]
            if name not in (trusted_key.name, trusted_key.own_name):
                raise UsageError(
                    f"The key {key.id} is trusted as {trusted_key.name!r} already. Distrust it first, or "
                    f"remove --name."
                )
            return trusted_key, False
        for other in trusted_keys.values():
            if other.name == name:
                raise UsageError(
                    f"{name!r} is the name of another key that you trust, {other.id}. Nothing was changed. "
                    f"If this key replaces that one, distrust the old key first. Otherwise choose another "
                    f"name."
                )
        _write(folder, [*_read_trust_file(folder), key])
    return key, True


def distrust(folder: Path, word: str) -> TrustedKey:
    """Stops trusting a key, and returns it.

    Args:
        folder: the folder of keys.
        word: its full fingerprint, or its name.

    Raises:
        UsageError: no such key is trusted, it is the user's own, or the file is damaged.
    """
    if folder.is_dir():
        with lock_private(folder / f"{TRUST_FILE}.lock"):
            entries = _read_trust_file(folder)
            for key in entries:
                if word in (key.id, key.name):
                    _write(folder, [other for other in entries if other is not key])
                    return key
    for own in _load_own_keys(folder):
        if word in (own.id, own.name, own.own_name):
            raise UsageError(
                f"{word!r} is your own key. To stop trusting it, move its two files out of {folder}."
            )
    names = [key.name for key in _read_trust_file(folder)]
    raise UsageError(
        f"No key {word!r} is trusted. Write its full fingerprint or its name. {suggestion(word, names)}"
    )


def _load_own_keys(folder: Path) -> list[TrustedKey]:
    own = []
    for name in keys.list_names(folder):
        pem = keys.read_public_pem(folder, name)
        own.append(
            TrustedKey(
                keys.fingerprint(pem), f"{_OWN_PREFIX}{name}", pem, keys.created_at(folder, name), is_own=True
            )
        )
    return own


def _read_trust_file(folder: Path) -> list[TrustedKey]:
    path = folder / TRUST_FILE
    data = read_private(path)
    if data is None:
        return []
    text = data.decode("utf-8", "replace")
    try:
        read = json.loads(text)
    except json.JSONDecodeError as error:
        raise _damaged_error(path, error.lineno, error.msg) from None
    except ValueError:
        raise _damaged_error(path, 1, "a number in it is far too long") from None
    except RecursionError:
        raise _damaged_error(path, 1, "it is nested too deeply") from None
    if not isinstance(read, dict) or set(read) != {"keys", "version"} or not isinstance(read["keys"], list):
        raise _damaged_error(path, 1, "it must have exactly the fields `keys`, a list, and `version`")
    if read["version"] != _VERSION:
        raise _damaged_error(
            path, 1, f"its version is {read['version']!r} but this Proctor reads version {_VERSION}"
        )
    keys_by_id: dict[str, TrustedKey] = {}
    for entry in read["keys"]:
        try:
            key = _parse_key(entry)
            if key.id in keys_by_id or any(key.name == other.name for other in keys_by_id.values()):
                raise ValueError(f"the key {key.name!r} is listed twice")
        except (ValueError, UsageError) as error:
            raise _damaged_error(path, _find_line(text, entry), str(error).rstrip(".")) from None
        keys_by_id[key.id] = key
    return list(keys_by_id.values())


def _parse_key(entry: Any) -> TrustedKey:
    if (
        not isinstance(entry, dict)
        or set(entry) != _ENTRY_FIELDS
        or not all(isinstance(v, str) for v in entry.values())
    ):
        raise ValueError(f"an entry does not have the fields {', '.join(sorted(_ENTRY_FIELDS))}, all text")
    if keys.fingerprint(entry["public_pem"]) != entry["id"]:
        raise ValueError(f"{entry['id']!r} is not the fingerprint of its key")
    since = datetime.fromisoformat(entry["since"])
    return TrustedKey(
        entry["id"], keys.check_name(entry["name"]), keys.normalize_pem(entry["public_pem"]), since
    )


def _find_line(text: str, entry: Any) -> int:
    """Returns the probable line of a damaged entry, by its name or id."""
    marks = [
        entry[field]
        for field in ("name", "id")
        if isinstance(entry, dict) and isinstance(entry.get(field), str)
    ]
    places = [text.find(json.dumps(mark)) for mark in marks]
    return text.count("\n", 0, max([0, *places])) + 1


def _damaged_error(path: Path, line: int, why: str) -> UsageError:
    return UsageError(
        f"{path}:{line}: The trust file is not valid: {why}. Until you correct it, none of its keys is "
        f"trusted. You can also move it away and trust its keys again."
    )


def _write(folder: Path, trusted_keys: list[TrustedKey]) -> None:
    """Writes one key per line, as JSON with sorted keys, so that diffs are readable."""
    entries = [
        json.dumps(
            {"id": key.id, "name": key.name, "public_pem": key.public_pem, "since": key.since.isoformat()},
            sort_keys=True,
        )
        for key in sorted(trusted_keys, key=lambda key: key.name)
    ]
    lines = "".join(f"\n{entry}," for entry in entries).removesuffix(",")
    write_private(folder / TRUST_FILE, f'{{"keys": [{lines}\n], "version": {_VERSION}}}\n'.encode(), 0o644)
