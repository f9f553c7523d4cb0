"""Loads the suites that a request names, from files or the store, and selects their cases."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from proctor.errors import StoreError, SuiteError, UsageError
from proctor.graders import GRADERS
from proctor.grading import build_grader
from proctor.model import Problem, Settings, Suite
from proctor.plan import CaseIndexer
from proctor.plurals import pluralize
from proctor.protocols import Store, SuiteSource, SuiteWriter
from proctor.reports.problems import problem_lines
from proctor.services import events
from proctor.services.runs.planning.context import PlanningContext
from proctor.services.runs.planning.judge_choice import RequiredTargets, RequirementCollector
from proctor.services.runs.request import Request
from proctor.services.suites.file_source import source_from_path
from proctor.services.suites.load import LoadedSuite, load_placeholder, load_source
from proctor.services.suites.save_and_open import find_stored_suite, get_stored_suite, new_suite_writer
from proctor.services.suites.saved_names import list_saved_names
from proctor.services.suites.suite_argument import LocatedSuites, NoSuchSuite, SuiteLocator, describe_choice

if TYPE_CHECKING:
    from proctor.services.file_log import FileLog

SKIP_INVALID_HINT = "`--skip-invalid` runs the other cases and counts each of these as an error."
"""A hint on how to run a suite that has invalid cases."""


def load_suites(request: Request, context: PlanningContext) -> list[LoadedSuite]:
    """Returns the suites of a request: those of the store first, then those of files, each file once.

    Raises:
        SuiteError: a suite is invalid; has all problems of all suites.
        UsageError: a word names no suite.
    """
    return _SuiteLoader(request, context).load_all()


class _SuiteLoader:
    """Loads the suites of one request."""

    def __init__(self, request: Request, context: PlanningContext) -> None:
        self._request = request
        self._context = context
        self._store = context.store
        self._suites: list[LoadedSuite] = []
        self._unrecognised: list[Problem] = []
        """Problems of files that no dialect recognises."""
        self._errors: list[Problem] = []
        self._unreadable: dict[Path, tuple[Problem, ...]] = {}

    def load_all(self) -> list[LoadedSuite]:
        request = self._request
        # A file of such a name does not count.
        named = (get_stored_suite(self._store, word) for word in request.stored_names)
        saved = (*request.saved_suites, *named)
        self._suites = [self._load_saved(suite.title, suite) for suite in saved]
        for data in request.sources:
            loaded_suite = self._load_source(data, self._store.open_suite_writer())
            self._errors.extend(loaded_suite.errors)
            self._suites.append(loaded_suite)
        if self._context.files is not None:
            self._log_suites(self._context.files)
        sources = [self._locate(word) for word in request.suites]
        paths = dict.fromkeys(
            path for source in sources if isinstance(source, LocatedSuites) for path in source.paths
        )
        remaining = {path.resolve() for path in paths}
        for source in sources:
            if isinstance(source, LoadedSuite):
                self._suites.append(source)
                continue
            self._unrecognised.extend(source.problems)
            for path in source.paths:
                if (file := path.resolve()) in remaining:  # else an earlier word names it too
                    remaining.remove(file)
                    self._add_file(path, paths)
        several = len(self._suites) + len(self._unreadable) > 1
        if request.skip_invalid and several and not self._unrecognised:
            self._suites += [self._load_placeholder(path, paths) for path in self._unreadable]
        elif self._errors or self._unreadable or self._unrecognised:
            raise self._suite_error(several=several)
        for loaded_suite in self._suites:
            for line in problem_lines(loaded_suite.warnings):
                self._context.warn(line)
        return self._suites

    def _log_suites(self, files: FileLog) -> None:
        """Logs the folders of suites, where others may appear, and which suites are in the store."""
        for word in self._request.suites:
            if Path(word).is_dir():
                files.add_listing(word, "**")
            elif not Path(word).is_file():
                files.add_listing("suites", "*")
        if self._suites:
            names = ", ".join(loaded_suite.suite.title for loaded_suite in self._suites)
            files.note(f"the suites in the store ({names})")

    def _add_file(self, path: Path, paths: Collection[Path]) -> None:
        """Loads the suite of a file, and collects its errors."""
        try:
            loaded_suite = self._load_file(path, paths)
        except SuiteError as error:
            self._unreadable[path] = error.problems
            return
        if loaded_suite.errors and self._request.skip_invalid:
            self._unreadable[path] = loaded_suite.problems
            return
        self._errors.extend(loaded_suite.errors)
        self._suites.append(loaded_suite)

    def _suite_error(self, *, several: bool) -> SuiteError:
        """Returns the error with the problems of all suites, and a hint at `--skip-invalid` if it helps."""
        request = self._request
        can_skip = not (request.skip_invalid or request.regrade) and (several or _has_cases(self._suites))
        hint = SKIP_INVALID_HINT if can_skip and not self._unrecognised else ""
        problems = [*self._unrecognised, *self._errors, *chain(*self._unreadable.values())]
        warnings = [problem for loaded_suite in self._suites for problem in loaded_suite.warnings]
        return SuiteError([*problems, *warnings], hint=hint)

    def _locate(self, word: str) -> LocatedSuites | LoadedSuite:
        """Returns the files of a word, or the stored suite that it names; notes what else it could mean."""
        locator = SuiteLocator(
            saved_names=partial(list_saved_names, self._store),
            environ=self._context.environ,
            config=self._request.config,
            dialect=self._request.dialect,
            strict=self._request.strict,
        )
        try:
            located = locator.find(word)
        except NoSuchSuite as error:
            return self._load_stored(word, error)
        except UsageError as error:
            raise UsageError(f"{error}{self._suggest_flag(word)}") from None
        for line in located.warnings:
            self._context.warn(line)
        for line in located.notes:
            self._context.listen(events.StatusMessage(line))
        return located

    def _load_file(self, path: Path, paths: Collection[Path]) -> LoadedSuite:
        options = self._request.config.source_options(path)
        source = source_from_path(path, self._context.environ, options, self._context.files)
        return self._load_source(source, new_suite_writer(self._store, path, others=paths))

    def _load_source(self, source: SuiteSource, writer: SuiteWriter) -> LoadedSuite:
        request = self._request
        try:
            return load_source(
                source,
                dialect=request.dialect,
                writer=writer,
                indexer=self._new_indexer(),
                tell=partial(self._report_progress, source.path),
                skip_invalid=request.skip_invalid,
                assertions=request.assertions,
            )
        finally:
            writer.discard()

    def _load_placeholder(self, path: Path, paths: Collection[Path]) -> LoadedSuite:
        """Returns an unreadable file as a suite with one case, which is an error."""
        writer = new_suite_writer(self._store, path, others=paths)
        errors = [problem for problem in self._unreadable[path] if problem.level == "error"]
        try:
            return load_placeholder(path, errors, writer=writer, indexer=self._new_indexer())
        finally:
            writer.discard()

    def _load_stored(self, word: str, error: NoSuchSuite) -> LoadedSuite:
        """Loads the suite last saved under that name, without its file.

        Raises:
            UsageError: there is no such suite; has the text of `error`.
        """
        suite = find_stored_suite(self._store, word)
        if suite is None:
            raise UsageError(f"{error}{self._suggest_flag(word)}")
        if self._context.files is not None:
            self._context.files.note(f"the suite in the store ({suite.title})")
        for line in describe_choice(word, f"the suite {suite.title} in the store"):
            self._context.listen(events.StatusMessage(line))
        return self._load_saved(word, suite)

    def _load_saved(self, word: str, suite: Suite) -> LoadedSuite:
        if self._request.assertions:
            raise UsageError(
                f"`graders` cannot replace the graders of the suite {suite.title} in the store. Name "
                "its file."
            )
        indexer, required = index_stored_suite(self._store, suite, self._request.settings)
        return LoadedSuite(path=word, suite=suite, indexer=indexer, required=required, problems=())

    def _suggest_flag(self, word: str) -> str:
        """Returns a hint if a word is not a suite but the value of a flag that takes one only with `=`."""
        request = self._request
        if "keep_workspaces" in request.explicit and word in ("none", "failed", "all"):
            return f" If you mean the flag: write --keep-workspaces={word}."
        if request.words_after_flags.get(word) == "--attest":
            return f" If you mean the folder of the bundles: write --attest={word}."
        try:
            self._store.run(word)
        except StoreError:
            return ""
        is_selection = request.words_after_flags.get(word) in ("--last-failed", "--lf")
        return f" If you mean the run: write {'--last-failed' if is_selection else '--resume'}={word}."

    def _new_indexer(self) -> CaseIndexer:
        return CaseIndexer(self._request.settings.selection, self._request.settings.repeats)

    def _report_progress(self, path: str, cases: int) -> None:
        self._context.listen(events.ReadProgress(path, cases))


def _has_cases(suites: Iterable[LoadedSuite]) -> bool:
    """Returns whether the suites have any case, valid or not."""
    return any(
        loaded_suite.suite.case_count or any(problem.row or problem.case for problem in loaded_suite.errors)
        for loaded_suite in suites
    )


def index_stored_suite(store: Store, suite: Suite, settings: Settings) -> tuple[CaseIndexer, RequiredTargets]:
    """Returns which cases of a stored suite are selected, and which targets and judges they require.

    Raises:
        StoreError: cases of it are missing, as in a repaired store.
    """
    indexer, requirements = CaseIndexer(settings.selection, settings.repeats), RequirementCollector()
    count = 0
    for stored_case in store.cases(suite.content):
        count += 1
        if indexer.add(stored_case.case):
            graders = (build_grader(assertion, GRADERS.get) for assertion in stored_case.case.assertions)
            requirements.add(stored_case.case, graders)
    if count < suite.case_count:
        raise StoreError(
            f"The store has only {count:,} of the {pluralize(suite.case_count, 'case')} of suite "
            f"{suite.title}. Save its file again first: `proctor suites save FILE`."
        )
    return indexer, requirements.required
