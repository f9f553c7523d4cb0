"""Saves suites as versions in a store, and opens them by file, folder or name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from proctor.errors import SuiteError, UsageError
from proctor.model import Problem, Suite
from proctor.protocols import SavedSuite, Store, StoredCase, SuiteSource, SuiteWriter
from proctor.services.runs.config import Config
from proctor.services.suites.builtin_suites import BUILTIN_PREFIX, TIERS, builtin_path, is_builtin
from proctor.services.suites.file_source import source_from_path
from proctor.services.suites.load import LoadedSuite, load_suite
from proctor.services.suites.saved_names import check_suite_name, list_saved_names, name_for, split_version
from proctor.services.suites.suite_argument import LocatedSuites, NoSuchSuite, SuiteLocator, suggest_suite
from proctor.stores import open_temporary_store

_EMPTY_CONFIG = Config()


SaveState = Literal["new", "same", "renewed", "earlier"]
"""The result of saving: a new version; the current one, unchanged or with other tags, metadata, order,
holdout or prompts; or an earlier one, which is current again."""


class SaveResult(Struct, frozen=True, kw_only=True):
    """A suite that was saved."""

    path: str
    """The file it came from."""
    suite: Suite
    """Its header, with its version."""
    state: SaveState
    problems: tuple[Problem, ...] = ()
    """The warnings of its file."""


class OpenedSuite(Struct, frozen=True, kw_only=True):
    """A suite that is open for reading."""

    suite: Suite
    cases: Callable[[], Iterator[StoredCase]]
    """Reads its cases in order; can be called repeatedly, and never holds all of them."""
    problems: tuple[Problem, ...] = ()
    """The warnings of its file."""
    source: SuiteSource | None = None
    """Its file; None for one in a store."""


def new_suite_writer(
    store: Store, path: Path, name: str | None = None, others: Collection[Path] = ()
) -> SuiteWriter:
    """Returns a writer that saves the suite of a file under its name; a built-in one as `builtin:cheap`.

    Its `keep` raises UsageError where another suite has the name of a built-in one.

    Args:
        store: where the suite is saved.
        path: the file.
        name: the name, instead of the one that the file gives it.
        others: the files of the same command, which get other names.
    """

    def choose(suite: Suite) -> str:
        if name is None and is_builtin(path):
            return f"{BUILTIN_PREFIX}{path.stem}"
        check_builtin(name or suite.name, suite.digest)
        return name or name_for(store, path, suite, others)

    return store.open_suite_writer(name=choose)


class Suites:
    """The suites of one store, and those in files."""

    def __init__(
        self,
        store: Store | None,
        environ: Mapping[str, str],
        config: Config = _EMPTY_CONFIG,
        tell: Callable[[LocatedSuites], None] = lambda _locate: None,
    ) -> None:
        """Takes the store and how suites are read.

        Args:
            store: where suites are saved and found; None if there is none.
            environ: what suites may name as `${{ NAME }}`.
            config: the project's settings for reading suites.
            tell: called with the files of each word, which may have warnings and notes for the user.
        """
        self._store = store
        self._environ = environ
        self._config = config
        self._tell = tell

    def save(self, word: str, *, dialect: str | None = None, name: str | None = None) -> Iterator[SaveResult]:
        """Saves each suite of a word, one after the other.

        Args:
            word: a file, a folder, a built-in suite, or the name of a file in `suites/`.
            dialect: the dialect, instead of finding it from the content.
            name: the name under which it is saved, instead of the one that its file gives it.

        Raises:
            SuiteError: at the end, with all problems of all invalid files; the others are saved.
            UsageError: the word stands for no file, or the name is not allowed.
        """
        if self._store is None:
            raise ValueError("a suite is saved in a store")
        paths = self._locate_files(word, dialect)
        if name is not None:
            check_suite_name(name)
            if len(paths) > 1:
                raise UsageError(
                    f"{word!r} contains {len(paths)} suites, but only one can be named {name!r}. Name "
                    "one file."
                )
        problems: list[Problem] = []
        for path in paths:
            before = self._store.versions()
            try:
                load_result = self._load(path, dialect, new_suite_writer(self._store, path, name, paths))
            except SuiteError as error:
                problems.extend(error.problems)
                continue
            yield SaveResult(
                path=load_result.path,
                suite=load_result.suite,
                state=get_save_state(load_result.suite, before),
                problems=load_result.problems,
            )
        if problems:
            raise SuiteError(problems)

    @contextmanager
    def open_suite(self, word: str, *, dialect: str | None = None) -> Iterator[OpenedSuite]:
        """Opens a suite in a file or in the store, for as long as the block lasts.

        Args:
            word: a file or folder, `NAME@v2` or `NAME@sha256:…`, a built-in suite, the name of a file in
                `suites/`, or a name in the store; the first of these that exists.
            dialect: the dialect of a file, instead of finding it from the content.

        Raises:
            SuiteError: its file is invalid; has every problem.
            UsageError: there is no such suite, or more than one.
        """
        try:
            paths = self._locate(word, dialect)
        except NoSuchSuite:
            suite = None if self._store is None else find_stored_suite(self._store, word)
            if suite is None or self._store is None:
                raise
            yield OpenedSuite(suite=suite, cases=partial(self._store.cases, suite.content))
            return
        if len(paths) > 1:
            names = ", ".join(path.as_posix() for path in paths)
            raise UsageError(f"{word!r} contains {len(paths)} suites: {names}. Name one of them.")
        # A store of its own, as a suite can be larger than memory and its file is read only once.
        with (
            open_temporary_store() as temporary_store,
        ):
            load_result = self._load(paths[0], dialect, temporary_store.open_suite_writer())
            yield OpenedSuite(
                suite=replace(load_result.suite, version=None),
                cases=partial(temporary_store.cases, load_result.suite.content),
                problems=load_result.problems,
                source=source_from_path(paths[0], self._environ, self._config.source_options(paths[0])),
            )

    def _locate(self, word: str, dialect: str | None) -> tuple[Path, ...]:
        located = SuiteLocator(
            saved_names=lambda name: [] if self._store is None else list_saved_names(self._store, name),
            environ=self._environ,
            config=self._config,
            dialect=dialect,
        ).find(word)
        self._tell(located)
        return located.paths

    def _locate_files(self, word: str, dialect: str | None) -> tuple[Path, ...]:
        try:
            return self._locate(word, dialect)
        except NoSuchSuite as missing:
            if self._store is not None and find_stored_suite(self._store, word) is not None:
                raise UsageError(
                    f"The suite {word!r} is already in the store. Name a file or a folder."
                ) from None
            raise UsageError(str(missing)) from None

    def _load(self, path: Path, dialect: str | None, writer: SuiteWriter) -> LoadedSuite:
        """Loads the suite of a file.

        Raises:
            SuiteError: it has errors.
        """
        try:
            load_result = load_suite(
                path,
                dialect=dialect,
                writer=writer,
                environ=self._environ,
                options=self._config.source_options(path),
            )
        finally:
            writer.discard()
        if load_result.errors:
            raise SuiteError(load_result.problems)
        return load_result


def check_builtin(name: str, digest: str) -> None:
    """Refuses the name of a built-in suite for another one.

    Raises:
        UsageError: the name begins with `builtin:`, and the digest is not that of the built-in suite.
    """
    if name.startswith(BUILTIN_PREFIX) and digest != builtin_digest(name.removeprefix(BUILTIN_PREFIX)):
        raise UsageError(
            f"A suite of your own cannot be saved as {name!r}, because only names of built-in suites "
            f"begin with {BUILTIN_PREFIX!r}. Choose another name."
        )


@cache
def builtin_digest(tier: str) -> str | None:
    """The digest of a built-in suite; None if there is no such suite."""
    return load_suite(builtin_path(tier)).suite.digest if tier in TIERS else None


def find_stored_suite(store: Store, word: str) -> Suite | None:
    """Finds a suite in a store by `NAME`, `NAME@v2` or `NAME@sha256:…`; None if there is none.

    Raises:
        UsageError: there is no such version of it.
        StoreError: more than one version fits; or the store cannot be read.
    """
    exact_match = store.suite(word)
    parts = split_version(word)
    if parts is None:
        return exact_match
    name, version = parts
    suite = store.suite(name, version)
    if suite is None and exact_match is None:
        versions = store.versions(name)
        if versions:
            raise UsageError(
                f"The suite {name!r} has no version {version!r}. It has {_list_versions(versions)}."
            )
        raise no_such_suite(store, name)
    return suite or exact_match


def get_stored_suite(store: Store, word: str) -> Suite:
    """Returns a suite in a store by `NAME`, `NAME@v2` or `NAME@sha256:…`.

    Raises:
        UsageError: there is none.
        StoreError: more than one version fits; or the store cannot be read.
    """
    suite = find_stored_suite(store, word)
    if suite is None:
        raise no_such_suite(store, word)
    return suite


def no_such_suite(store: Store, name: str) -> UsageError:
    """Returns the error for a name that no suite in a store has."""
    return UsageError(
        f"There is no suite {name!r} in the store. {suggest_suite(name, list_saved_names(store))}"
    )


def get_save_state(suite: Suite, before: list[SavedSuite]) -> SaveState:
    """Returns what saving a suite did, from the versions that were there before."""
    version = suite.name, suite.version
    previous = next((saved for saved in before if (saved.suite.name, saved.suite.version) == version), None)
    if previous is None:
        return "new"
    if not previous.current:
        return "earlier"
    then, now = (
        (header.content, header.split_rule, header.defaults.prompts) for header in (previous.suite, suite)
    )
    return "same" if then == now else "renewed"


def _list_versions(versions: list[SavedSuite]) -> str:
    labels = [f"{saved.suite.version} ({saved.suite.digest[:19]})" for saved in versions[-20:]]
    return ", ".join(labels if len(labels) == len(versions) else ["…", *labels])
