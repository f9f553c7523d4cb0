"""Creates certificates, and reads those kept beside the store.

Each is created by a subprocess, `proctor certify` or `proctor attest`, so that pages show the same result as
the command line, and the server stays responsive.
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

import msgspec
from msgspec import Struct

from proctor.bundles.keys import keys_folder, list_names, require_cryptography
from proctor.certification import NotCertified
from proctor.errors import ProctorError, UsageError
from proctor.model import Run
from proctor.reports.certificates.run_certificate import CertificateRecord
from proctor.safe_text import one_line
from proctor.services.runs.starts.subprocess_command import start_command
from proctor.web.browser_sessions import BrowserSession
from proctor.web.project import Project
from proctor.web.tasks import ProgressCallback
from proctor.web.templates_env import PageNotFound, load_run

CERTIFICATE_FILES = {
    "certificate": ("certificate.json", "certificate.json", "application/json"),
    "markdown": ("certificate.md", "certificate.md", "text/markdown; charset=utf-8"),
    "badge": ("badge.svg", "badge.svg", "image/svg+xml"),
    "bundle": ("bundle.zip", "bundle.zip", "application/zip"),
    "public": ("public.zip", "public.bundle.zip", "application/zip"),
}
"""Each file of a certificate: its name on disk, its suffix in a download after the run's id, its type."""
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
"""Run ids that may name a folder; ids of Proctor's own runs do."""
_PROGRESS = re.compile(r"([\d,]+) of ([\d,]+) [a-z ]+ so far")
_STALE_AFTER_S = 24 * 3600.0
_ERROR_PREFIX = "proctor: error: "
_FLAG = re.compile(r": --[a-z-]+(?=\.)| \(--[^)]*\)")
_MAX_OUTPUT_LINES = 20
"""Number of lines kept from the end of a command's output."""


class SavedCertificate(Struct, frozen=True, kw_only=True):
    """A certificate that was created on this server."""

    document: CertificateRecord
    folder: Path
    made_at: datetime

    @property
    def has_public(self) -> bool:
        """Whether there is a public bundle too."""
        return (self.folder / CERTIFICATE_FILES["public"][0]).exists()

    @property
    def badge_markdown(self) -> str:
        """The badge as Markdown, with an address relative to the certificate's folder."""
        with suppress(OSError):
            text = (self.folder / CERTIFICATE_FILES["markdown"][0]).read_text(encoding="utf-8")
            return next((line for line in text.splitlines() if line.startswith(("![", "[!["))), "")
        return ""


class CertificateError(ProctorError):
    """The certificate could not be created."""


# --- reading -----------------------------------------------------------------------------------------------


def load_certificates(project: Project) -> list[SavedCertificate]:
    """Returns all certificates created on this server, newest first."""
    with suppress(OSError):
        ids = [path.name for path in _certificates_folder(project).iterdir() if path.is_dir()]
        certificates = [
            certificate
            for certificate in (find_certificate(project, run_id) for run_id in ids)
            if certificate is not None
        ]
        return sorted(certificates, key=lambda certificate: certificate.made_at, reverse=True)
    return []


def find_certificate(project: Project, run_id: str) -> SavedCertificate | None:
    """Returns the certificate of a run, or None."""
    if not _RUN_ID.fullmatch(run_id):
        return None
    path = _certificates_folder(project) / run_id / CERTIFICATE_FILES["certificate"][0]
    try:
        document = msgspec.json.decode(path.read_bytes(), type=CertificateRecord)
        made_at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except (OSError, msgspec.MsgspecError):
        return None
    if document.run != run_id:
        return None
    return SavedCertificate(document=document, folder=path.parent, made_at=made_at)


def list_signing_keys(project: Project) -> list[str]:
    """Returns the names of the keys that can sign here; none without `cryptography`.

    Raises:
        UsageError: the folder of keys cannot be read.
    """
    return list_names(keys_folder(project.environ)) if can_sign() else []


def resolve_key(project: Project, name: str) -> str | None:
    """Checks the name of a signing key; returns None for no signature.

    Raises:
        UsageError: there is none of that name.
    """
    if not name:
        return None
    if name not in list_signing_keys(project):
        raise UsageError(
            f"This server has no signing key {name!r}. `proctor keys list` shows the keys that it has."
        )
    return name


def can_sign() -> bool:
    """Whether signatures can be made here."""
    try:
        require_cryptography()
    except UsageError:
        return False
    return True


def record_reveal(project: Project, session: BrowserSession, certificate: SavedCertificate) -> None:
    """Records that a session receives everything a run holds out, which its full bundle contains.

    Raises:
        StoreError: the access cannot be recorded; then nothing may be sent.
    """
    with project.open_store() as store:
        try:
            run = load_run(store, certificate.document.run)
        except PageNotFound:  # it was deleted, and its holdout with it
            return
        if run.suite.split_rule is not None:
            session.reveal(store, run)


# --- creating ----------------------------------------------------------------------------------------------


def create_certificate(
    project: Project,
    run: Run,
    key: str | None,
    on_progress: ProgressCallback,
    *,
    min_cases: int | None = None,
) -> SavedCertificate:
    """Creates the certificate of a run with its full bundle; an earlier one is replaced.

    Args:
        project: where the run is.
        run: the run.
        key: the name of the key that signs; None for no signature.
        on_progress: called with the progress.
        min_cases: the minimum number of cases; None for the default.

    Raises:
        CertificateError: the run gets no certificate, or nothing could be written.
    """
    work_folder = _new_folder(project, run)
    try:
        bundle, *outputs = (
            str(work_folder / CERTIFICATE_FILES[name][0])
            for name in ("bundle", "certificate", "markdown", "badge")
        )
        arguments = ["certify", run.id, *_common_flags(project, key), "--bundle", bundle]
        arguments += [argument for path in outputs for argument in ("-o", path)]
        arguments += [] if min_cases is None else [f"--min-cases={min_cases}"]
        _run_command(project, arguments, on_progress)
        _swap(work_folder, work_folder.parent / run.id)
    finally:
        shutil.rmtree(work_folder, ignore_errors=True)
    certificate = find_certificate(project, run.id)
    if certificate is None:
        raise CertificateError("The certificate was made, but it cannot be read.")
    return certificate


def create_public_bundle(
    project: Project, run: Run, key: str | None, on_progress: ProgressCallback
) -> SavedCertificate:
    """Creates the public bundle beside the certificate of a run.

    Args:
        project: where the run is.
        run: the run, which has a certificate.
        key: the name of the key that signs; None for no signature.
        on_progress: called with the progress.

    Raises:
        CertificateError: it has no certificate, or nothing could be written.
    """
    certificate = find_certificate(project, run.id)
    if certificate is None:
        raise CertificateError(f"Run {run.id} has no certificate on this server. Create one first.")
    partial_file = certificate.folder / f".{secrets.token_hex(6)}.zip"
    try:
        arguments = ["attest", run.id, "--public", *_common_flags(project, key), "-o", str(partial_file)]
        _run_command(project, arguments, on_progress)
        partial_file.replace(certificate.folder / CERTIFICATE_FILES["public"][0])
    except OSError as error:
        raise CertificateError(f"The bundle cannot be saved: {error.strerror}.") from None
    finally:
        partial_file.unlink(missing_ok=True)
    return certificate


def _certificates_folder(project: Project) -> Path:
    return project.location.folder / "certificates"


def _new_folder(project: Project, run: Run) -> Path:
    """Makes an empty folder beside the certificates, and removes those that a crash left behind."""
    if not _RUN_ID.fullmatch(run.id):
        raise CertificateError(f"A run with the id {run.id!r} cannot have a certificate on this server.")
    folder = _certificates_folder(project)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for stale in folder.glob(".*"):
            if stale.stat().st_mtime < time() - _STALE_AFTER_S:
                shutil.rmtree(stale, ignore_errors=True)
        new_folder = folder / f".{run.id}.{secrets.token_hex(6)}"
        new_folder.mkdir()
    except OSError as error:
        raise CertificateError(f"Certificates cannot be saved in {folder.name}: {error.strerror}.") from None
    return new_folder


def _swap(new_folder: Path, destination: Path) -> None:
    """Moves a folder to its destination, and removes what was there."""
    replaced = new_folder.with_name(f"{new_folder.name}.old")
    try:
        with suppress(FileNotFoundError):
            destination.rename(replaced)
        new_folder.rename(destination)
    except OSError as error:
        raise CertificateError(f"The certificate cannot be saved: {error.strerror}.") from None
    finally:
        shutil.rmtree(replaced, ignore_errors=True)


def _common_flags(project: Project, key: str | None) -> list[str]:
    """Returns the flags for the store, the folder of keys, and the key that signs."""
    signing = "--no-sign" if key is None else f"--sign-key={key}"
    return [f"--store={project.location.address}", f"--keys={keys_folder(project.environ)}", signing]


def _run_command(project: Project, arguments: Sequence[str], on_progress: ProgressCallback) -> None:
    """Runs a command of Proctor to its end.

    Raises:
        CertificateError: it failed; the message is its last error.
    """
    with start_command(project, arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as child:
        assert child.stderr is not None
        lines = (line.decode("utf-8", "replace").rstrip() for line in child.stderr)
        output = deque(
            (line for line in lines if not _is_progress(line, on_progress)), maxlen=_MAX_OUTPUT_LINES
        )
    if child.returncode != 0:
        raise CertificateError(_error_message(output))


def _is_progress(line: str, on_progress: ProgressCallback) -> bool:
    """Whether a line only reports progress, which is then passed on."""
    match = _PROGRESS.search(line)
    if match is not None:
        on_progress(int(match[1].replace(",", "")), int(match[2].replace(",", "")))
    return match is not None


def _error_message(output: Iterable[str]) -> str:
    """Returns the last error of a command, without the names of flags, which pages do not have."""
    lines = list(output)
    errors = [line.removeprefix(_ERROR_PREFIX) for line in lines if line.startswith(_ERROR_PREFIX)]
    final_line = errors[-1:] or lines[-1:] or ["Another process ended it."]
    text = one_line(final_line[0])
    return _FLAG.sub("", text.removesuffix(NotCertified.force_hint)).strip()
