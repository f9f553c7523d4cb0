"""The files of an upload as a dialect sees a suite, all from memory, and which of them is the suite.

A reference finds what was uploaded and nothing else: no file of this machine, no program, no variable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import translate
from functools import lru_cache
from io import BytesIO
from posixpath import basename, dirname, normpath, relpath, splitext
from re import compile as compiled
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from proctor.dialects import DIALECTS
from proctor.dialects.detection import may_be_suite
from proctor.dialects.shared.head import read_head
from proctor.dialects.shared.signatures import YAML
from proctor.errors import SuiteError, UsageError
from proctor.protocols import Found, Source
from proctor.services.suites.load import load_source
from proctor.validation import shown

FOLDER: Final = "."
"""The choice of all Markdown tests together, which are one suite."""
MOST_TEXT: Final = 20 * 2**20
"""Of the suite's own file; a hundred thousand tests of 200 characters."""
_MOST_CHOICES: Final = 40
"""So many files are read to see which of them belong to others."""

_TABLES: Final = (".jsonl", ".ndjson", ".json", ".csv", ".tsv")
_WILD: Final = frozenset("*?[")
_KINDS: Final = {
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "json"),
    **dict.fromkeys((".csv", ".tsv"), "table"),
    **dict.fromkeys(YAML, "yaml"),
}
"""Endings of files that hold the same kind of text; any other ending is a kind of its own."""


class Upload(Struct, frozen=True, kw_only=True):
    """The files of a suite that came from a page; they are in memory only."""

    files: Mapping[str, bytes]
    """By path, `/` between folders."""
    main: str
    """The path of the suite's own file; `.` for all Markdown tests together."""
    name: str = ""
    """What the upload was called, without an ending; for a suite whose file gives no name."""
    choices: tuple[str, ...] = ()
    """Everything in it that is a suite, where it is not known which is meant; `main` is the first."""

    @property
    def is_folder(self) -> bool:
        """It is no file but all of a folder."""
        return self.main == FOLDER

    @property
    def text(self) -> str | None:
        """The text, where the upload is nothing but one."""
        return None if self.is_folder or len(self.files) > 1 else decoded(self.files[self.main], self.main)

    @property
    def size(self) -> int:
        """How many bytes it holds."""
        return sum(map(len, self.files.values()))


# --- bytes to an upload ------------------------------------------------------------------------------------


def of_text(text: str, name: str = "", dialect: str | None = None) -> Upload:
    """A text that somebody pasted.

    Args:
        text: the text.
        name: what it is called; an ending of a suite's file says what it is, else the text does.
        dialect: its dialect, where that is known.

    Raises:
        UsageError: it is empty, or no text.
    """
    text = text.removeprefix("\ufeff")
    if not text.strip():
        raise UsageError("There is nothing to read yet. Paste the cases of a suite, or choose a file.")
    data = text.encode("utf-8", "surrogatepass")
    decoded(data, name or "the text")
    stem, ending = splitext(basename(name.replace("\\", "/")))
    if ending.lower() not in {*_KINDS, *_suite_endings()}:
        stem, ending = stem + ending, ""
    proper = _ending_of(text, data, dialect)
    if _kind(ending) != _kind(proper):  # the text may have been replaced since it had the name
        ending = proper
    path = (stem.strip(" .") or "suite") + ending
    return Upload(files={path: data}, main=path, name=stem.strip(" ."))


def _ending_of(text: str, data: bytes, dialect: str | None) -> str:
    """The ending that a file with this text would have."""
    endings = DIALECTS.get(dialect).endings if dialect in DIALECTS.names() else ()
    if text.lstrip().startswith(("{", "[")):
        ending = ".jsonl"
    else:
        folder_test = next((end for end in folder_endings() if _is_test_of_folder(f"test{end}", data)), None)
        ending = folder_test or (".yaml" if read_head("suite", BytesIO(data)).rows else ".csv")
    return ending if not endings or ending in endings else endings[0]


def _suite_endings() -> set[str]:
    return {ending for dialect in DIALECTS.load_all().values() for ending in dialect.endings}


def folder_endings() -> tuple[str, ...]:
    """The endings of tests that may be one suite with all others of their folder."""
    readers = (dialect for dialect in DIALECTS.load_all().values() if dialect.reads_folders)
    return tuple(ending for dialect in readers for ending in dialect.endings)


def _kind(ending: str) -> str:
    return _KINDS.get(ending.lower(), ending.lower())


def of_files(files: Mapping[str, bytes], name: str = "", main: str | None = None) -> Upload:
    """Files that were uploaded together, of which one is the suite, or all Markdown tests are.

    Args:
        files: by path.
        name: what the upload was called.
        main: which of them is the suite; None to find out.

    Raises:
        UsageError: none of them is a suite, or there is no such one.
    """
    files, folder = _without_top(files)
    name = name or folder
    choices = _suites_in(files)
    if not choices and "xl/workbook.xml" in files:
        raise UsageError("A workbook cannot be read. Save its sheet as CSV in UTF-8, and choose that file.")
    if not choices:
        wanted = "a file ending in .jsonl or .csv, or in .yaml with `tests`, or a Markdown test"
        raise UsageError(f"There is no suite in the upload ({wanted}).")
    if main is not None and main not in choices:
        raise UsageError(f"{shown(main)} is no suite of this upload. Choose one of: {', '.join(choices)}.")
    if main is not None or len(choices) == 1:
        return Upload(files=files, main=main or choices[0], name=name)
    own = _not_of_others(Upload(files=files, main=choices[0], name=name), choices)
    return Upload(files=files, main=own[0], name=name, choices=own if len(own) > 1 else ())


def chosen(upload: Upload, main: str) -> Upload:
    """The upload with another one of its choices as the suite.

    Raises:
        UsageError: it is none of them.
    """
    known = upload.choices or (upload.main,)
    if main not in known:
        raise UsageError(f"{shown(main)} is no suite of this upload. Choose one of: {', '.join(known)}.")
    return replace(upload, main=main)


def decoded(data: bytes, name: str) -> str:
    """A suite's own text.

    Raises:
        UsageError: it is not UTF-8, or too long.
    """
    if len(data) > MOST_TEXT:
        raise UsageError(
            f"{shown(name)} has {len(data) / 2**20:,.0f} MB, and a page reads {MOST_TEXT // 2**20}. "
            "Save it with `proctor suites save`."
        )
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UsageError(f"{shown(name)} is UTF-16. Save it as UTF-8.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(
            f"{shown(name)} is no text in UTF-8: look at byte {error.start + 1:,}, on line {line:,}. "
            "Save it as UTF-8."
        ) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise UsageError(
            f"{shown(name)} has a NUL character on line {line:,}, so it is no text. Take it out."
        )
    return text


def _without_top(files: Mapping[str, bytes]) -> tuple[dict[str, bytes], str]:
    """The files without the one folder that all of them lie in, and its name."""
    tops = {path.partition("/")[0] for path in files}
    if len(tops) != 1 or not all("/" in path for path in files):
        return dict(files), ""
    rest, inner = _without_top({path.partition("/")[2]: data for path, data in files.items()})
    return rest, inner or tops.pop()


def _suites_in(files: Mapping[str, bytes]) -> list[str]:
    """The paths of all that look like suites, those least deep first; a folder of Markdown tests is last."""
    found = [path for path, data in files.items() if _is_suite(path, data)]
    found.sort(key=lambda path: (path.count("/"), path))
    tests = [path for path, data in files.items() if _is_test_of_folder(path, data)]
    if tests and len(files) == 1:
        return [*found, *tests]
    return [*found, *[FOLDER] * bool(tests)]


def _is_suite(path: str, data: bytes) -> bool:
    if _is_hidden(path):
        return False
    if splitext(path)[1].lower() in _TABLES:
        return True
    readers = [dialect for dialect in DIALECTS.load_all().values() if not dialect.reads_folders]
    try:
        return may_be_suite(Source(path=path, lines=lambda: BytesIO(data)), readers)
    except SuiteError:  # too large to tell; whoever reads it says so
        return True


def _is_test_of_folder(path: str, data: bytes) -> bool:
    """Whether a file makes all files of the upload one suite."""
    if _is_hidden(path):
        return False
    return any(
        dialect.is_test_of_folder(path, lambda: data)
        for dialect in DIALECTS.load_all().values()
        if dialect.reads_folders
    )


def _is_hidden(path: str) -> bool:
    return any(part.startswith(".") for part in path.split("/"))


def _not_of_others(upload: Upload, choices: list[str]) -> tuple[str, ...]:
    """Those choices that no other one refers to; all of them, where each is referred to."""
    if len(choices) > _MOST_CHOICES:
        return tuple(choices)
    used: set[str] = set()
    for main in choices:
        source = _Around(replace(upload, main=main))
        try:
            load_source(source.source)
        except (SuiteError, UsageError):  # it is said where it is chosen
            continue
        used |= source.found - {main}
    return tuple(path for path in choices if path not in used) or tuple(choices)


# --- an upload to a source ---------------------------------------------------------------------------------


def source_of(upload: Upload, options: Mapping[str, Any] = {}) -> Source:
    """The upload as a dialect sees it.

    Args:
        upload: the files.
        options: what `proctor.toml` says of reading that names no folder of this machine.
    """
    return _Around(upload, options).source


class _Around:
    """The files around an upload's suite."""

    def __init__(self, upload: Upload, options: Mapping[str, Any] = {}) -> None:
        self._files = upload.files
        self._main = upload.main
        self._folder = "" if upload.is_folder else dirname(upload.main)
        self.found: set[str] = set()
        """The paths that were found by a reference so far."""
        self.source = Source(
            path=upload.main,
            lines=self._lines,
            neighbour=self._neighbour,
            find=self._find,
            within=self._within,
            expand=lru_cache(maxsize=64)(self._expand),
            environ={},
            is_folder=upload.is_folder,
            options=options,
        )

    def _lines(self) -> Iterator[bytes]:
        if self._main != FOLDER:
            yield from BytesIO(self._files[self._main])

    def _neighbour(self, name: str) -> bytes | None:
        path = _joined(self._folder, name)
        return self._files.get(path) if path is not None and dirname(path) == self._folder else None

    def _find(self, reference: str) -> Found | None:
        """From the suite's folder, then from each one above it."""
        wanted = reference.replace("\\", "/").lstrip("/")
        if not wanted or "\0" in wanted:
            return None
        start: str | None = self._folder
        while start is not None:
            path = _joined(start, wanted)
            if path is not None and path in self._files:
                return Found(path=relpath(path, self._folder or "."), data=self._data(path) or b"")
            start = None if not start else dirname(start)
        return None

    def _within(self, path: str) -> Found | None:
        wanted = normpath(path.replace("\\", "/"))
        whole = None if wanted.startswith(("/", "..")) else _joined(self._folder, wanted)
        data = None if whole is None else self._data(whole)
        return None if data is None else Found(path=wanted, data=data)

    def _data(self, path: str) -> bytes | None:
        if path in self._files:
            self.found.add(path)
        return self._files.get(path)

    def _expand(self, pattern: str) -> list[str]:
        """Hidden files match no `*`; a glob that ends in `/` matches folders."""
        folders = pattern.endswith("/")
        parts = [part for part in pattern.strip("/").split("/") if part not in ("", ".")]
        fixed = next((at for at, part in enumerate(parts) if _WILD.intersection(part)), len(parts))
        fixed = min(fixed, max(len(parts) - 1, 0))
        start = _joined("" if pattern.startswith("/") else self._folder, "/".join(parts[:fixed]) or ".")
        wanted = parts[fixed:]
        if start is None or not wanted or ".." in wanted:
            return []
        shown_too = any(part.startswith(".") for part in wanted)
        found = []
        for path in self._folders() if folders else self._files:
            inside = path if not start else path.removeprefix(f"{start}/")
            if start and inside == path:
                continue
            if (shown_too or not _is_hidden(inside)) and _matches(inside.split("/"), wanted):
                found.append(relpath(path, self._folder or "."))
        return sorted(found)

    def _folders(self) -> set[str]:
        above = set[str]()
        for path in self._files:
            folder = dirname(path)
            while folder and folder not in above:
                above.add(folder)
                folder = dirname(folder)
        return above


def _joined(folder: str, path: str) -> str | None:
    """A path from a folder; None where it leads out of the upload. The upload's own folder is empty."""
    whole = normpath(f"{folder}/{path}" if folder else path)
    if whole.startswith(("/", "../")) or whole == "..":
        return None
    return "" if whole == "." else whole


def _matches(parts: list[str], wanted: list[str]) -> bool:
    """Whether a path matches a glob, part by part; `**` stands for any number of folders.

    Each part of the glob is tried once with each beginning of the path, so that no glob takes long.
    """
    reached = {0}
    for place, part in enumerate(wanted):
        if part == "**":
            last = place == len(wanted) - 1
            reached = {at for begin in reached for at in range(begin, len(parts) + last)}
        else:
            fits = compiled(translate(part)).match
            reached = {at + 1 for at in reached if at < len(parts) and fits(parts[at])}
    return len(parts) in reached
