"""Certificates that are made here, and those that are kept beside the store.

Each is made by a process of its own, which is `proctor certify` or `proctor attest`: a page then says and
counts what the command line does, and goes on answering meanwhile.
"""

from __future__ import annotations

import re
import secrets
import shutil
import subprocess
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import Any

import msgspec
from msgspec import Struct

from proctor.bundles.keys import keys_folder, names, require_cryptography
from proctor.certification import NotCertified
from proctor.errors import ProctorError, UsageError
from proctor.model import Run
from proctor.safe_text import one_line
from proctor.web.browser_sessions import Visitor
from proctor.web.project import Site
from proctor.web.runs.subprocess_command import started
from proctor.web.tasks import Told
from proctor.web.templates_env import NotThere, run_of

FILES = {
    "certificate": ("certificate.json", "certificate.json", "application/json"),
    "markdown": ("certificate.md", "certificate.md", "text/markdown; charset=utf-8"),
    "badge": ("badge.svg", "badge.svg", "image/svg+xml"),
    "bundle": ("bundle.zip", "bundle.zip", "application/zip"),
    "public": ("public.zip", "public.bundle.zip", "application/zip"),
}
"""What is kept of a certificate: its file, how it is called outside after the run's id, and its type."""
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
"""Ids that may be a folder's name; those of runs that are made here are."""
_PROGRESS = re.compile(r"([\d,]+) of ([\d,]+) [a-z ]+ so far")
_ABANDONED_S = 24 * 3600.0
_SAID = "proctor: error: "
_FLAG = re.compile(r": --[a-z-]+(?=\.)| \(--[^)]*\)")
_REMEMBERED = 20
"""Lines at the end of what a command said."""


class Named(Struct, frozen=True):
    """A suite or a target as a certificate names it."""

    name: str
    digest: str
    version: str | None = None


class Signature(Struct, frozen=True):
    """How a certificate's bundle is signed."""

    standing: str
    keys: list[dict[str, Any]] = []


class Certificate(Struct, frozen=True, kw_only=True):
    """What `certificate.json` says of a run."""

    of: str
    word: str
    run: str
    suite: Named
    target: Named
    started_at: str
    part: str
    passed: int
    total: int
    cases: int
    pass_rate: float | None
    ci95: tuple[float, float] | None
    conditions: list[str] = []
    forced: list[str] = []
    claims: dict[str, dict[str, Any]] = {}
    signature: Signature
    derived: dict[str, Any] = {}


class Kept(Struct, frozen=True, kw_only=True):
    """A certificate that was made here."""

    said: Certificate
    folder: Path
    made_at: datetime

    @property
    def has_public(self) -> bool:
        """There is a public bundle too."""
        return (self.folder / FILES["public"][0]).exists()

    @property
    def badge_markdown(self) -> str:
        """The badge as Markdown, with its address as seen from the folder of the certificate."""
        with suppress(OSError):
            text = (self.folder / FILES["markdown"][0]).read_text(encoding="utf-8")
            return next((line for line in text.splitlines() if line.startswith(("![", "[!["))), "")
        return ""


class NotMade(ProctorError):
    """A certificate that was not made, and why."""


# --- what is there -----------------------------------------------------------------------------------------


def kept(site: Site) -> list[Kept]:
    """All certificates that were made here, newest first."""
    with suppress(OSError):
        ids = [path.name for path in _folder(site).iterdir() if path.is_dir()]
        found = [one for one in (kept_of(site, run_id) for run_id in ids) if one is not None]
        return sorted(found, key=lambda one: one.made_at, reverse=True)
    return []


def kept_of(site: Site, run_id: str) -> Kept | None:
    """The certificate of a run; None where there is none."""
    if not _RUN_ID.fullmatch(run_id):
        return None
    path = _folder(site) / run_id / FILES["certificate"][0]
    try:
        said = msgspec.json.decode(path.read_bytes(), type=Certificate)
        made_at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except (OSError, msgspec.MsgspecError):
        return None
    if said.run != run_id:
        return None
    return Kept(said=said, folder=path.parent, made_at=made_at)


def signing_names(site: Site) -> list[str]:
    """The keys that can sign here, by name; none where `cryptography` is missing.

    Raises:
        UsageError: the folder of keys cannot be read.
    """
    return names(keys_folder(site.environ)) if can_sign() else []


def key_of(site: Site, chosen: str) -> str | None:
    """A key of the server's own that was chosen by its name; None for no signature.

    Raises:
        UsageError: there is none of that name.
    """
    if not chosen:
        return None
    if chosen not in signing_names(site):
        raise UsageError(
            f"There is no key {chosen!r} to sign with here. `proctor keys list` shows those that are."
        )
    return chosen


def can_sign() -> bool:
    """Whether signatures can be made here."""
    try:
        require_cryptography()
    except UsageError:
        return False
    return True


def reveal(site: Site, visitor: Visitor, made: Kept) -> None:
    """Count that a visitor is handed all that a run holds out, which its full bundle has.

    Raises:
        StoreError: that cannot be kept; nothing may be handed out then.
    """
    with site.store() as store:
        try:
            run = run_of(store, made.said.run)
        except NotThere:  # it was deleted, and with it the holdout that looks are counted for
            return
        if run.suite.split_rule is not None:
            visitor.reveal(store, run)


# --- making ------------------------------------------------------------------------------------------------


def make(site: Site, run: Run, key: str | None, told: Told, *, fewest: int | None = None) -> Kept:
    """Make the certificate of a run with its full bundle; one that is there already is replaced.

    Args:
        site: where the run is.
        run: the run.
        key: the name of the key that signs; None for no signature.
        told: told how far it is.
        fewest: so few cases it may be of; None for what is usual.

    Raises:
        NotMade: the run gets no certificate, or nothing could be written.
    """
    part = _new_folder(site, run)
    try:
        place = [str(part / FILES[name][0]) for name in ("bundle", "certificate", "markdown", "badge")]
        outputs = [word for path in place[1:] for word in ("-o", path)]
        words = ["certify", run.id, *_always(site), *_signed(key), "--bundle", place[0], *outputs]
        words += [] if fewest is None else [f"--min-cases={fewest}"]
        _done(site, words, told)
        _swap(part, part.parent / run.id)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    found = kept_of(site, run.id)
    if found is None:
        raise NotMade("The certificate was made, and cannot be read again.")
    return found


def make_public(site: Site, run: Run, key: str | None, told: Told) -> Kept:
    """Make the public bundle beside the certificate of a run.

    Args:
        site: where the run is.
        run: the run, which has a certificate.
        key: the name of the key that signs; None for no signature.
        told: told how far it is.

    Raises:
        NotMade: it has no certificate, or nothing could be written.
    """
    found = kept_of(site, run.id)
    if found is None:
        raise NotMade(f"Run {run.id} has no certificate here. Make one first.")
    part = found.folder / f".{secrets.token_hex(6)}.zip"
    try:
        _done(site, ["attest", run.id, "--public", *_always(site), *_signed(key), "-o", str(part)], told)
        part.replace(found.folder / FILES["public"][0])
    except OSError as error:
        raise NotMade(f"The bundle cannot be kept: {error.strerror}.") from None
    finally:
        part.unlink(missing_ok=True)
    return found


def _folder(site: Site) -> Path:
    return site.location.folder / "certificates"


def _new_folder(site: Site, run: Run) -> Path:
    """An empty folder beside the certificates; those that a crash left behind are removed."""
    if not _RUN_ID.fullmatch(run.id):
        raise NotMade(f"A run that is called {run.id!r} can have no certificate here.")
    folder = _folder(site)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob(".*"):
            if old.stat().st_mtime < time() - _ABANDONED_S:
                shutil.rmtree(old, ignore_errors=True)
        made = folder / f".{run.id}.{secrets.token_hex(6)}"
        made.mkdir()
    except OSError as error:
        raise NotMade(f"Certificates cannot be kept in {folder.name}: {error.strerror}.") from None
    return made


def _swap(made: Path, place: Path) -> None:
    """Put a folder in its place, and remove what was there."""
    old = made.with_name(f"{made.name}.old")
    try:
        with suppress(FileNotFoundError):
            place.rename(old)
        made.rename(place)
    except OSError as error:
        raise NotMade(f"The certificate cannot be kept: {error.strerror}.") from None
    finally:
        shutil.rmtree(old, ignore_errors=True)


def _always(site: Site) -> list[str]:
    return [f"--store={site.location.address}", f"--keys={keys_folder(site.environ)}"]


def _signed(key: str | None) -> list[str]:
    return ["--no-sign"] if key is None else [f"--sign-key={key}"]


def _done(site: Site, words: Sequence[str], told: Told) -> None:
    """A command of Proctor, to its end.

    Raises:
        NotMade: it failed; the text is what it said.
    """
    with started(site, words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as child:
        assert child.stderr is not None
        lines = (line.decode("utf-8", "replace").rstrip() for line in child.stderr)
        said = deque((line for line in lines if not _tell(line, told)), maxlen=_REMEMBERED)
    if child.returncode != 0:
        raise NotMade(_why(said))


def _tell(line: str, told: Told) -> bool:
    """Whether a line only says how far it is, which is then told."""
    found = _PROGRESS.search(line)
    if found is not None:
        told(int(found[1].replace(",", "")), int(found[2].replace(",", "")))
    return found is not None


def _why(said: Iterable[str]) -> str:
    """What a command said at its end; without the flags that have it otherwise, which pages do not take."""
    lines = list(said)
    errors = [line.removeprefix(_SAID) for line in lines if line.startswith(_SAID)]
    last = errors[-1:] or lines[-1:] or ["The process was ended from outside."]
    text = one_line(last[0])
    return _FLAG.sub("", text.removesuffix(NotCertified.overruled)).strip()
