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
from proctor.errors import UsageError, suggestion
from proctor.reports.formatting import format_utc


@click.group("keys")
def command() -> None:
    """Make, list and trust signing keys.

    A key is known by its fingerprint, of which all 64 digits count. Names are yours to choose.
    """


@command.command("new")
@click.argument("name", default=keyring.DEFAULT_NAME)
@keys_option
def new(name: str, keys: str | None) -> None:
    """Make a key to sign with, called NAME or else `default`.

    It is encrypted when the environment variable PROCTOR_KEY_PASSWORD has a password.
    """
    folder = keys_path(keys)
    key = keyring.create_key(folder, name)
    lines = [f"Made the key {key.name!r} in {folder}.", f"Fingerprint: {key.id}"]
    if not os.environ.get(keyring.PASSWORD_VARIABLE):
        lines.append(
            f"It is not encrypted: whoever reads {keyring.private_path(folder, name)} can sign as you. "
            f"To encrypt a new key, set {keyring.PASSWORD_VARIABLE} first."
        )
    show_command = f"proctor keys show {key.name}{keys_flag(folder)}"
    lines.append(f"Hand out what `{show_command}` prints, and the fingerprint by another way.")
    show(lines)


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@keys_option
def list_keys(as_json: bool, keys: str | None) -> None:
    """One line a key: your own, and those of others that you trust.

    Your own are trusted too.
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
        none = f"No key is in {folder}. `proctor keys new{keys_flag(folder)}` makes one."
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
    """Print the public key NAME, your own or one that you trust."""
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
@click.option("--name", metavar="NAME", help="What to call it.  [default: the name of the file]")
@keys_option
def trust(file: str, name: str | None, keys: str | None) -> None:
    """Trust the public key in FILE, or in what `-` reads, from now on.

    Get the file from its owner and compare the fingerprint over another channel. A key that comes with a
    bundle does not show who made the bundle.
    """
    folder = keys_path(keys)
    text = _read_public_key(file)
    try:
        trusted_key = trust_store.load_trusted_keys(folder).get(keyring.fingerprint(text))
    except ValueError as error:
        raise UsageError(f"{file!r} has no public key to trust: {error}.") from None
    if trusted_key is None or name is not None:
        trusted_key, is_new = trust_store.trust(folder, text, name or _key_name(file), datetime.now(UTC))
    else:
        is_new = False
    show(
        [
            f"{trusted_key.name!r} is trusted from now on."
            if is_new
            else f"It is trusted already, as {trusted_key.name!r}.",
            f"Fingerprint: {trusted_key.id}",
            "Compare all of it with what its owner tells you by another way.",
        ]
    )


@command.command("distrust")
@click.argument("key")
@keys_option
def distrust(key: str, keys: str | None) -> None:
    """Trust KEY no longer: a name, or a full fingerprint."""
    removed_key = trust_store.distrust(keys_path(keys), key)
    show([f"{removed_key.name!r} is trusted no longer.", f"Fingerprint: {removed_key.id}"])


def _read_public_key(file: str) -> str:
    """Reads a file that should have a public key.

    Raises:
        UsageError: it is a bundle or a private key, or cannot be read.
    """
    path = Path(file)
    if file != "-" and (path.is_dir() or path.suffix.lower() == ".zip"):
        raise UsageError(
            f"{file!r} is a bundle or a folder. Trust cannot come from the bundle that it is for: whoever "
            "forges a bundle puts a key of their own into it. Get the key from its owner, as a file."
        )
    data = sys.stdin.buffer.read(1 << 20) if file == "-" else read_private(path)
    if data is None:
        raise UsageError(f"There is no file {file!r}.")
    text = data.decode("utf-8", "replace")
    if "PRIVATE KEY-----" in text:
        raise UsageError(
            f"{file!r} has a private key, which nobody but its owner should have. Ask for the public one: "
            "`proctor keys show` prints it."
        )
    return text


def _key_name(file: str) -> str:
    name = "" if file == "-" else Path(file).name.removesuffix(".pem").removesuffix(".pub").lower()
    try:
        return keyring.check_name(name)
    except UsageError:
        raise UsageError(f"The name of {file!r} cannot be that of a key. Give one with --name.") from None
