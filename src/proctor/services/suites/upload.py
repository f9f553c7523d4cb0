"""Reads the suite of an upload from memory, and finds out which of the files is the suite.

A reference finds what was uploaded and nothing else: no file of this machine, no program, no variable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import translate
from functools import lru_cache
from io import BytesIO
from posixpath import basename, dirname, normpath, relpath, splitext
from re import compile as compile_pattern
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from proctor.dialects import DIALECTS
from proctor.dialects.detection import may_be_suite
from proctor.dialects.shared.head import read_head
from proctor.dialects.shared.signatures import YAML_ENDINGS
from proctor.errors import SuiteError, UsageError
from proctor.protocols import SourceFile, SuiteSource
from proctor.services.suites.load import load_source
from proctor.validation import quote_value

FOLDER_CHOICE: Final = "."
"""Stands for all Markdown tests together, which are one suite."""
MAX_TEXT_BYTES: Final = 20 * 2**20
"""The maximum size of the suite's own file: a hundred thousand tests of 200 characters."""
_MAX_CHOICES: Final = 40
"""With more suites in an upload, none is read to see whether it belongs to another."""

_TABLE_ENDINGS: Final = (".jsonl", ".ndjson", ".json", ".csv", ".tsv")
_WILDCARDS: Final = frozenset("*?[")
_KINDS: Final = {
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "json"),
    **dict.fromkeys((".csv", ".tsv"), "table"),
    **dict.fromkeys(YAML_ENDINGS, "yaml"),
}
"""Endings of files that hold the same kind of text; any other ending is a kind of its own."""


class Upload(Struct, frozen=True, kw_only=True):
    """The uploaded files of a suite, which are in memory only."""

    files: Mapping[str, bytes]
    """By path, `/` between folders."""
    main: str
    """The path of the suite's own file; `.` for all Markdown tests together."""
    name: str = ""
    """The name of the upload without an ending, for a suite whose file gives no name."""
    choices: tuple[str, ...] = ()
    """All suites in it, where it is unclear which is meant; `main` is the first."""

    @property
    def is_folder(self) -> bool:
        """Whether the suite is a folder, not a file."""
        return self.main == FOLDER_CHOICE

    @property
    def text(self) -> str | None:
        """The text, where the upload is a single file."""
        return (
            None
            if self.is_folder or len(self.files) > 1
            else decode_suite_text(self.files[self.main], self.main)
        )

    @property
    def size(self) -> int:
        """The total size in bytes."""
        return sum(map(len, self.files.values()))


# --- bytes to an upload ------------------------------------------------------------------------------------


def upload_from_text(text: str, name: str = "", dialect: str | None = None) -> Upload:
    """Returns a pasted text as an upload.

    Args:
        text: the text.
        name: its name; the ending of a suite file says what it is, else the text does.
        dialect: its dialect, if known.

    Raises:
        UsageError: it is empty, or not UTF-8 text.
    """
    text = text.removeprefix("\ufeff")
    if not text.strip():
        raise UsageError("There is no input yet. Paste the cases of a suite, or choose a file.")
    data = text.encode("utf-8", "surrogatepass")
    decode_suite_text(data, name or "the text")
    stem, ending = splitext(basename(name.replace("\\", "/")))
    suite_endings = {end for reader in DIALECTS.load_all().values() for end in reader.endings}
    if ending.lower() not in {*_KINDS, *suite_endings}:
        stem, ending = stem + ending, ""
    guessed_ending = _guess_ending(text, data, dialect)
    kind, guessed_kind = (_KINDS.get(each.lower(), each.lower()) for each in (ending, guessed_ending))
    if kind != guessed_kind:  # the text may have been replaced since it had the name
        ending = guessed_ending
    path = (stem.strip(" .") or "suite") + ending
    return Upload(files={path: data}, main=path, name=stem.strip(" ."))


def _guess_ending(text: str, data: bytes, dialect: str | None) -> str:
    """Returns the ending that a file with this text would have."""
    endings = DIALECTS.get(dialect).endings if dialect in DIALECTS.names() else ()
    if text.lstrip().startswith(("{", "[")):
        ending = ".jsonl"
    else:
        folder_test = next((end for end in folder_endings() if _is_test_of_folder(f"test{end}", data)), None)
        ending = folder_test or (".yaml" if read_head("suite", BytesIO(data)).rows else ".csv")
    return ending if not endings or ending in endings else endings[0]


def folder_endings() -> tuple[str, ...]:
    """Returns the endings of tests that form one suite with all others in their folder."""
    readers = (dialect for dialect in DIALECTS.load_all().values() if dialect.reads_folders)
    return tuple(ending for dialect in readers for ending in dialect.endings)


def upload_from_files(files: Mapping[str, bytes], name: str = "", main: str | None = None) -> Upload:
    """Returns files that were uploaded together as an upload; one is the suite, or all Markdown tests are.

    Args:
        files: by path.
        name: the name of the upload.
        main: which of them is the suite; None to find out.

    Raises:
        UsageError: none of them is a suite, or `main` is not.
    """
    files, folder = _strip_top_folder(files)
    name = name or folder
    choices = _find_suites(files)
    if not choices and "xl/workbook.xml" in files:
        raise UsageError("Workbooks are not supported. Save the sheet as CSV in UTF-8, and choose that file.")
    if not choices:
        expected = "a file ending in .jsonl or .csv, or in .yaml with `tests`, or a Markdown test"
        raise UsageError(f"The upload contains no suite ({expected}).")
    if main is not None and main not in choices:
        raise UsageError(
            f"{quote_value(main)} is not a suite of this upload. Choose one of: {', '.join(choices)}."
        )
    if main is not None or len(choices) == 1:
        return Upload(files=files, main=main or choices[0], name=name)
    independent = _independent_choices(Upload(files=files, main=choices[0], name=name), choices)
    return Upload(
        files=files, main=independent[0], name=name, choices=independent if len(independent) > 1 else ()
    )


def choose_suite(upload: Upload, main: str) -> Upload:
    """Returns the upload with another one of its choices as the suite.

    Raises:
        UsageError: `main` is none of them.
    """
    choices = upload.choices or (upload.main,)
    if main not in choices:
        raise UsageError(
            f"{quote_value(main)} is not a suite of this upload. Choose one of: {', '.join(choices)}."
        )
    return replace(upload, main=main)


def decode_suite_text(data: bytes, name: str) -> str:
    """Decodes a suite's own text.

    Raises:
        UsageError: it is not UTF-8, or too long.
    """
    if len(data) > MAX_TEXT_BYTES:
        raise UsageError(
            f"{quote_value(name)} has {len(data) / 2**20:,.0f} MB, and a page reads "
            f"{MAX_TEXT_BYTES // 2**20}. "
            "Save it with `proctor suites save`."
        )
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UsageError(f"{quote_value(name)} is in UTF-16. Save it as UTF-8.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(
            f"{quote_value(name)} is not UTF-8 text: see byte {error.start + 1:,}, on line {line:,}. "
            "Save it as UTF-8."
        ) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise UsageError(
            f"{quote_value(name)} has a NUL character on line {line:,}, so it is not a text file. "
            "Remove the character."
        )
    return text


def _strip_top_folder(files: Mapping[str, bytes]) -> tuple[dict[str, bytes], str]:
    """Returns the files without the one folder that has them all, and its name."""
    tops = {path.partition("/")[0] for path in files}
    if len(tops) != 1 or not all("/" in path for path in files):
        return dict(files), ""
    inner_files, inner_name = _strip_top_folder(
        {path.partition("/")[2]: data for path, data in files.items()}
    )
    return inner_files, inner_name or tops.pop()


def _find_suites(files: Mapping[str, bytes]) -> list[str]:
    """Returns the paths of all suites, the least deep first; a folder of Markdown tests is last."""
    paths = [path for path, data in files.items() if _is_suite(path, data)]
    paths.sort(key=lambda path: (path.count("/"), path))
    tests = [path for path, data in files.items() if _is_test_of_folder(path, data)]
    if tests and len(files) == 1:
        return [*paths, *tests]
    return [*paths, *[FOLDER_CHOICE] * bool(tests)]


def _is_suite(path: str, data: bytes) -> bool:
    if _is_hidden(path):
        return False
    if splitext(path)[1].lower() in _TABLE_ENDINGS:
        return True
    readers = [dialect for dialect in DIALECTS.load_all().values() if not dialect.reads_folders]
    try:
        return may_be_suite(SuiteSource(path=path, read_lines=lambda: BytesIO(data)), readers)
    except SuiteError:  # too large to tell; reading it reports the error
        return True


def _is_test_of_folder(path: str, data: bytes) -> bool:
    """Whether a file makes all files of the upload one suite."""
    if _is_hidden(path):
        return False
    return any(
        dialect.marks_suite_folder(path, lambda: data)
        for dialect in DIALECTS.load_all().values()
        if dialect.reads_folders
    )


def _is_hidden(path: str) -> bool:
    return any(part.startswith(".") for part in path.split("/"))


def _independent_choices(upload: Upload, choices: list[str]) -> tuple[str, ...]:
    """Returns the choices that no other choice refers to; all of them where each is referred to."""
    if len(choices) > _MAX_CHOICES:
        return tuple(choices)
    included: set[str] = set()
    for main in choices:
        memory_files = _MemoryFiles(replace(upload, main=main))
        try:
            load_source(memory_files.source)
        except (SuiteError, UsageError):  # reported when it is chosen
            continue
        included |= memory_files.references - {main}
    return tuple(path for path in choices if path not in included) or tuple(choices)


# --- an upload to a source ---------------------------------------------------------------------------------


def source_from_upload(upload: Upload, options: Mapping[str, Any] = {}) -> SuiteSource:
    """Returns the source of an upload.

    Args:
        upload: the files.
        options: the reading options of `proctor.toml` that name no folder of this machine.
    """
    return _MemoryFiles(upload, options).source


class _MemoryFiles:
    """The files around an upload's suite."""

    def __init__(self, upload: Upload, options: Mapping[str, Any] = {}) -> None:
        self._files = upload.files
        self._main = upload.main
        self._folder = "" if upload.is_folder else dirname(upload.main)
        self.references: set[str] = set()
        """The paths that references have found so far."""
        self.source = SuiteSource(
            path=upload.main,
            read_lines=self._lines,
            read_sibling=self._neighbour,
            find_file=self._find,
            find_within=self._within,
            expand_glob=lru_cache(maxsize=64)(self._expand),
            environ={},
            is_folder=upload.is_folder,
            options=options,
        )

    def _lines(self) -> Iterator[bytes]:
        if self._main != FOLDER_CHOICE:
            yield from BytesIO(self._files[self._main])

    def _neighbour(self, name: str) -> bytes | None:
        path = _join(self._folder, name)
        return self._files.get(path) if path is not None and dirname(path) == self._folder else None

    def _find(self, reference: str) -> SourceFile | None:
        """Looks in the suite's folder, then in each one above it."""
        name = reference.replace("\\", "/").lstrip("/")
        if not name or "\0" in name:
            return None
        start: str | None = self._folder
        while start is not None:
            path = _join(start, name)
            if path is not None and path in self._files:
                return SourceFile(path=relpath(path, self._folder or "."), data=self._read(path) or b"")
            start = None if not start else dirname(start)
        return None

    def _within(self, path: str) -> SourceFile | None:
        inside = normpath(path.replace("\\", "/"))
        full_path = None if inside.startswith(("/", "..")) else _join(self._folder, inside)
        data = None if full_path is None else self._read(full_path)
        return None if data is None else SourceFile(path=inside, data=data)

    def _read(self, path: str) -> bytes | None:
        if path in self._files:
            self.references.add(path)
        return self._files.get(path)

    def _expand(self, pattern: str) -> list[str]:
        """Hidden files match no `*`; a glob that ends in `/` matches folders."""
        wants_folders = pattern.endswith("/")
        parts = [part for part in pattern.strip("/").split("/") if part not in ("", ".")]
        fixed_count = next((at for at, part in enumerate(parts) if _WILDCARDS.intersection(part)), len(parts))
        fixed_count = min(fixed_count, max(len(parts) - 1, 0))
        start = _join("" if pattern.startswith("/") else self._folder, "/".join(parts[:fixed_count]) or ".")
        pattern_parts = parts[fixed_count:]
        if start is None or not pattern_parts or ".." in pattern_parts:
            return []
        include_hidden = any(part.startswith(".") for part in pattern_parts)
        matches = []
        for path in self._list_folders() if wants_folders else self._files:
            inside = path if not start else path.removeprefix(f"{start}/")
            if start and inside == path:
                continue
            if (include_hidden or not _is_hidden(inside)) and _matches(inside.split("/"), pattern_parts):
                matches.append(relpath(path, self._folder or "."))
        return sorted(matches)

    def _list_folders(self) -> set[str]:
        folders = set[str]()
        for path in self._files:
            folder = dirname(path)
            while folder and folder not in folders:
                folders.add(folder)
                folder = dirname(folder)
        return folders


def _join(folder: str, path: str) -> str | None:
    """Joins a path to a folder; None if it leaves the upload. The upload's own folder is empty."""
    full_path = normpath(f"{folder}/{path}" if folder else path)
    if full_path.startswith(("/", "../")) or full_path == "..":
        return None
    return "" if full_path == "." else full_path


def _matches(parts: list[str], pattern_parts: list[str]) -> bool:
    """Whether a path matches a glob, part by part; `**` stands for any number of folders.

    Each part of the glob is tried once with each beginning of the path, so that no glob takes long.
    """
    positions = {0}
    for index, part in enumerate(pattern_parts):
        if part == "**":
            is_last = index == len(pattern_parts) - 1
            positions = {at for begin in positions for at in range(begin, len(parts) + is_last)}
        else:
            fits = compile_pattern(translate(part)).match
            positions = {at + 1 for at in positions if at < len(parts) and fits(parts[at])}
    return len(parts) in positions
