"""`proctor keys`: makes and lists signing keys, and trusts keys of others."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from proctor.bundles import keys as keyring
from proctor.bundles import trust_store
from proctor.bundles.private_files import read_private
from proctor.cli.echo import echo, echo_json
from proctor.cli.options import keys_flag, keys_option, keys_path, show
from proctor.errors import UsageError, suggest_file, suggestion
from proctor.reports.formatting import format_utc


@click.group("keys")
def command() -> None:
    """Create, list and trust signing keys.

    A key is identified by its fingerprint, of 64 digits. Names are only labels that you choose.
    """


@command.command("new")
@click.argument("name", default=keyring.DEFAULT_NAME)
@keys_option
def new(name: str, keys: str | None) -> None:
    """Create a signing key called NAME, or `default`.

    The key is encrypted if the environment variable PROCTOR_KEY_PASSWORD is set to a password.
    """
    folder = keys_path(keys)
    key = keyring.create_key(folder, name)
    lines = [f"Created the key {key.name!r} in {folder}.", f"Fingerprint: {key.id}"]
    if not os.environ.get(keyring.PASSWORD_VARIABLE):
        lines.append(
            f"The key is not encrypted: anyone who can read {keyring.private_path(folder, name)} can "
            f"sign as you. To encrypt a new key, set {keyring.PASSWORD_VARIABLE} first."
        )
    show_command = f"proctor keys show {key.name}{keys_flag(folder)}"
    lines.append(
        f"Give others the public key that `{show_command}` prints, and send the fingerprint "
        "over another channel."
    )
    show(lines)


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@keys_option
def list_keys(as_json: bool, keys: str | None) -> None:
    """List your own keys, and the keys of others that you trust.

    Your own keys are trusted too.
    """
    folder = keys_path(keys)
    trusted_keys = list(trust_store.load_trusted_keys(folder).values())
    if as_json:
        echo_json(
            json.dumps(
                {"folder": str(folder), "keys": list(map(_key_row, trusted_keys)), "exit_code": 0}, indent=2
            )
        )
    else:
        none = f"There are no keys in {folder}. To create one, run `proctor keys new{keys_flag(folder)}`."
        show(_key_lines(trusted_keys) if trusted_keys else [none])


def _key_row(key: trust_store.TrustedKey) -> dict[str, Any]:
    return {"name": key.name, "id": key.id, "yours": key.is_own, "since": format_utc(key.since)}


def _key_lines(trusted_keys: list[trust_store.TrustedKey]) -> Iterator[str]:
    width = max(len(key.name) for key in trusted_keys)
    yield f"{'key':<{width}}  since       fingerprint"
    for key in trusted_keys:
        yield f"{key.name:<{width}}  {key.since:%Y-%m-%d}  {key.id}"


@command.command("show")
@click.argument("name", default=keyring.DEFAULT_NAME)
@keys_option
def show_key(name: str, keys: str | None) -> None:
    """Print the public key NAME."""
    folder = keys_path(keys)
    trusted_keys = trust_store.load_trusted_keys(folder)
    for key in trusted_keys.values():
        if name in (key.id, key.name, key.own_name):
            echo(key.public_pem.removesuffix("\n"))
            echo(f"Fingerprint: {key.id}", err=True)
            return
    names = [key.own_name or key.name for key in trusted_keys.values()]
    raise UsageError(f"There is no key {name!r} in {folder}. {suggestion(name, names)}")


@command.command("trust")
@click.argument("file")
@click.option("--name", metavar="NAME", help="Name for the key.  [default: the name of the file]")
@keys_option
def trust(file: str, name: str | None, keys: str | None) -> None:
    """Trust the public key in FILE (- for stdin).

    Get the file from its owner and compare the fingerprint over another channel. A key that comes with a
    bundle does not show who made the bundle.
    """
    folder = keys_path(keys)
    text = _read_public_key(file)
    try:
        trusted_key = trust_store.load_trusted_keys(folder).get(keyring.fingerprint(text))
    except ValueError as error:
        raise UsageError(f"{file!r} contains no public key: {error}.") from None
    if trusted_key is None or name is not None:
        trusted_key, is_new = trust_store.trust(folder, text, name or _key_name(file), datetime.now(UTC))
    else:
        is_new = False
    show(
        [
            f"{trusted_key.name!r} is now trusted."
            if is_new
            else f"This key is already trusted, as {trusted_key.name!r}.",
            f"Fingerprint: {trusted_key.id}",
            "Compare the whole fingerprint with the one that the owner gives you over another channel.",
        ]
    )


@command.command("distrust")
@click.argument("key")
@keys_option
def distrust(key: str, keys: str | None) -> None:
    """Stop trusting KEY, a name or a full fingerprint."""
    removed_key = trust_store.distrust(keys_path(keys), key)
    show([f"{removed_key.name!r} is no longer trusted.", f"Fingerprint: {removed_key.id}"])


def _read_public_key(file: str) -> str:
    """Reads a file that should have a public key.

    Raises:
        UsageError: it is a bundle or a private key, or cannot be read.
    """
    path = Path(file)
    if file != "-" and (path.is_dir() or path.suffix.lower() == ".zip"):
        raise UsageError(
            f"{file!r} is a bundle or a folder. A bundle cannot vouch for its own key: whoever forges "
            "a bundle puts their own key into it. Get the key from its owner, as a file."
        )
    data = sys.stdin.buffer.read(1 << 20) if file == "-" else read_private(path)
    if data is None:
        if keyring.is_fingerprint(file):
            raise UsageError(
                f"{file!r} is a fingerprint, which does not contain its key. Get the public key from its "
                "owner as a file: `proctor keys show` prints it. Then run `proctor keys trust FILE`, and "
                "compare the fingerprint that this prints with yours. To check a bundle without the file, "
                f"run `proctor verify BUNDLE --signed-by {file}`."
            )
        raise UsageError(f"There is no file {file!r}.{suggest_file(file)}")
    text = data.decode("utf-8", "replace")
    if "PRIVATE KEY-----" in text:
        raise UsageError(
            f"{file!r} contains a private key, which only its owner should have. Get the public key "
            "instead: the owner can print it with `proctor keys show`."
        )
    return text


def _key_name(file: str) -> str:
    name = "" if file == "-" else Path(file).name.removesuffix(".pem").removesuffix(".pub").lower()
    try:
        return keyring.check_name(name)
    except UsageError:
        raise UsageError(
            f"The file name of {file!r} cannot be used as the name of a key. Set one with --name."
        ) from None
