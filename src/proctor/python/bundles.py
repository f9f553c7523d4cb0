"""Writes the bundle of a run for a call from Python."""

from __future__ import annotations

import os
from pathlib import Path

from proctor.bundles.keys import SigningKey, get_signing_key, keys_folder
from proctor.model import Run
from proctor.protocols import Store
from proctor.services.bundles.attest import attest, bundle_name, check_finished
from proctor.services.progress import print_note


def write_run_bundle(
    store: Store, run: Run, path: str | Path | None, *, public: bool, sign: bool, sign_key: str | None
) -> Path:
    """Writes a bundle of a run; see `RunResult.attest`."""
    check_finished(store, run)
    key = _load_key(sign_key) if sign else None
    path = Path(bundle_name(run.id, public=public) if path is None else path)
    attest(store, run, path, public=public, key=key, notify=print_note)
    return path


def _load_key(name: str | None) -> SigningKey:
    folder = keys_folder(os.environ)
    key = get_signing_key(folder, name)
    if key.is_new:
        print_note(f"Created your signing key {key.name!r} in {folder}. Its fingerprint is {key.id}.")
    return key
