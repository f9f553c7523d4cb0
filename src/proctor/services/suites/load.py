"""Loads suites from files: detects the dialect, then reads, checks and stores every case in one pass."""

from __future__ import annotations

import gc
import os
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from proctor.codec import SuiteHasher, judged_digest, sent_digest
from proctor.dialects import DIALECTS
from proctor.dialects.detection import detect, detect_folder
from proctor.dialects.shared.head import read_head
from proctor.dialects.shared.json_arrays import read_suite
from proctor.errors import SuiteError, UnknownName
from proctor.graders import GRADERS
from proctor.grading import build_grader
from proctor.invalid_cases import PlaceholderFactory
from proctor.model import Assertion, Case, Problem, RunSlot, Selection, Suite
from proctor.plan import CaseIndex, CaseIndexer
from proctor.prompts.fill import fill_first_prompt
from proctor.protocols import CaseAtLine, Grader, GraderCommand, SuiteSource, SuiteWriter
from proctor.services.runs.planning.judge_choice import RequiredTargets, RequirementCollector
from proctor.services.suites.file_source import source_from_path
from proctor.spools import MAX_ROWS, RowSorter
from proctor.validation import merge_repeats

_PROGRESS_EVERY = 1_000
_HASHED_ROWS = 256


class SuiteProblems(Struct, frozen=True, kw_only=True):
    """The problems of a suite that was read."""

    problems: tuple[Problem, ...]
    """Errors and warnings in file order."""

    @property
    def errors(self) -> list[Problem]:
        """What keeps it from being run or saved."""
        return [problem for problem in self.problems if problem.level == "error"]

    @property
    def warnings(self) -> list[Problem]:
        """The problems that do not."""
        return [problem for problem in self.problems if problem.level == "warning"]


class LoadedSuite(SuiteProblems, frozen=True, kw_only=True):
    """A loaded suite: its header, the selected cases, the targets they need, and its problems."""

    path: str
    suite: Suite
    indexer: CaseIndexer
    required: RequiredTargets

    def index(self, slot: RunSlot | None = None, case_ids: Sequence[str] = ()) -> CaseIndex:
        """Returns which cases one run of the suite has; with ids, only cases with one of these."""
        return self.indexer.build(self.suite.split_rule, slot or RunSlot(), case_ids)


def load_suite(
    path: Path,
    *,
    dialect: str | None = None,
    writer: SuiteWriter | None = None,
    inspect: Callable[[CaseAtLine], None] | None = None,
    tell: Callable[[int], None] = lambda _cases: None,
    environ: Mapping[str, str] | None = None,
    options: Mapping[str, Any] = {},
) -> LoadedSuite:
    """Reads the suite of a file, or of a folder with Markdown tests, to its end and checks all of it.

    Args:
        path: the file or folder.
        dialect: as for `load_source`, and so are `writer`, `inspect` and `tell`.
        writer: stores the cases, if none of them has an error.
        inspect: called for each case that has no error.
        tell: called with the number of cases read, now and then.
        environ: what `${{ NAME }}` may name; None is this process's.
        options: the reading options in `proctor.toml`.

    Raises:
        SuiteError: no dialect, or more than one, recognises the file.
        UsageError: the file cannot be read, or there is no such dialect.
    """
    source = source_from_path(path, os.environ if environ is None else environ, options)
    return load_source(source, dialect=dialect, writer=writer, inspect=inspect, tell=tell)


@contextmanager
def _garbage_collection_off() -> Iterator[None]:
    """Turns the garbage collector off: what is read has no cycles, and it doubles the time of a YAML file.

    It stays off until the suite is saved, or it would first look at all rows that are about to be freed.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@_garbage_collection_off()
def load_source(
    source: SuiteSource,
    *,
    dialect: str | None = None,
    writer: SuiteWriter | None = None,
    indexer: CaseIndexer | None = None,
    inspect: Callable[[CaseAtLine], None] | None = None,
    tell: Callable[[int], None] = lambda _cases: None,
    skip_invalid: bool = False,
    assertions: Sequence[Assertion] = (),
) -> LoadedSuite:
    """Reads a suite from any source to its end and checks all of it.

    Args:
        source: the suite.
        dialect: its dialect; None detects it from the content.
        writer: stores the cases, if none of them has an error.
        indexer: gets every case; None selects all.
        inspect: called for each case that has no error, in file order, as it is sent with the first prompt
            of the suite, if it has prompts.
        tell: called with the number of cases read, now and then.
        skip_invalid: an invalid case becomes a placeholder, and the others can be run; a file without any
            case keeps its errors.
        assertions: grade every case instead of its own.

    Raises:
        SuiteError: no dialect, or more than one, recognises it.
        UsageError: there is no such dialect.
    """
    name = dialect or detect_dialect(source)
    indexer = indexer or CaseIndexer(Selection(), None)

    def read(indexer: CaseIndexer, repeated_ids: Collection[str] | None) -> _SuiteReader:
        reader = _SuiteReader(source.path, indexer, writer, tell, repeated_ids)
        reader.assertions = tuple(assertions)
        if inspect is not None:
            reader.inspect_with(inspect)
        if skip_invalid:
            placeholders = PlaceholderFactory(source, read_suite(DIALECTS.get(name), source))
            reader.placeholders = placeholders if placeholders.has_cases else None
        reader.read(name, source)
        return reader

    reader = read(indexer, None)
    if repeated_ids := reader.find_repeated_ids():
        if writer is not None:
            writer.discard()
        reader = read(indexer.fresh(), repeated_ids)
    result = reader.finish()
    if writer is None:
        return result
    if result.errors:
        writer.discard()
        return result
    suite = result.suite
    if not (reader.has_placeholders or assertions):  # no published suite has these
        suite = replace(suite, suite_hash=DIALECTS.get(name).published_hash(source))
    return replace(result, suite=writer.commit(suite))


def load_placeholder(
    path: Path, problems: Iterable[Problem], *, writer: SuiteWriter, indexer: CaseIndexer
) -> LoadedSuite:
    """Returns an unreadable file as a suite with one placeholder.

    Args:
        path: the file.
        problems: its errors.
        writer: stores the placeholder.
        indexer: gets the placeholder.
    """
    source = SuiteSource(path=str(path), read_lines=tuple, is_folder=path.is_dir())
    reader = _SuiteReader(str(path), indexer, writer, lambda _cases: None)
    reader.add_item(Suite(name=path.stem.removesuffix(".eval") or "suite", dialect="unknown"))
    reader.add(PlaceholderFactory(source, ()).for_file(problems))
    result = reader.finish()
    return replace(result, suite=writer.commit(result.suite))


def detect_dialect(source: SuiteSource) -> str:
    """Returns the name of the dialect that recognises a suite.

    Raises:
        SuiteError: no dialect recognises it (`unknown-dialect`), or several do.
    """
    if source.is_folder:
        return detect_folder(source, DIALECTS.load_all())
    head = read_head(source.path, source.read_lines())
    dialects = DIALECTS.load_all()
    try:
        return detect(head, dialects)
    except SuiteError:
        with_installed = DIALECTS.load_all(installed=True)
        if with_installed.keys() == dialects.keys():
            raise
        return detect(head, with_installed)


def with_repeats_rule(suite: Suite, rule: str | None) -> Suite:
    """Returns the header with the rule over repeats that a case has, if one has."""
    return suite if rule is None else replace(suite, repeats_rule=rule)


_CaseRow = tuple[str, str, str]
"""The id of a case and the digests of what is sent and of how it is graded; empty for an invalid case."""


class _SuiteReader:
    """Collects the header, cases and problems of a suite while it is read.

    Of the first `MAX_ROWS` cases it knows every id. The ids of more cases are sorted at the end, on disk;
    where several cases have one, the suite is read again with these ids, which are then all that it knows.
    """

    def __init__(
        self,
        path: str,
        indexer: CaseIndexer,
        writer: SuiteWriter | None,
        tell: Callable[[int], None],
        repeated_ids: Collection[str] | None = None,
    ) -> None:
        self._path = path
        self._repeated_ids = repeated_ids
        """The ids that are there more than once; None if they are not known yet."""
        self._knows_ids = True
        """Whether `_lines` has every id that matters."""
        self._indexer = indexer
        self._writer = writer
        self._tell = tell
        self._suite: Suite | None = None
        self._lines: dict[str, int] = {}
        self._paths: dict[str, str] = {}
        """The files of ids that are not in the suite's own file."""
        self._wrong_ids: dict[str, int] = {}
        self._duplicate_ids: set[str] = set()
        """The ids that were reported as duplicates."""
        self._rows = RowSorter[_CaseRow](_CaseRow)
        self._count = 0
        self._hash_result: tuple[str, frozenset[str]] | None = None
        self._repeats_rule: str | None = None
        self._requirements = RequirementCollector()
        self._problems: list[Problem] = []
        self.inspect: Callable[[CaseAtLine], None] | None = None
        """Called with every case that has no error."""
        self.placeholders: PlaceholderFactory | None = None
        """Replaces invalid cases, where these may be skipped."""
        self.has_placeholders = False
        self.assertions: tuple[Assertion, ...] = ()
        """Grade every case instead of its own."""
        self._find_program_defect: Callable[[GraderCommand], str | None] = lambda _command: None
        self._commands: set[GraderCommand] = set()
        """The commands of graders that were checked."""

    def inspect_with(self, inspect: Callable[[CaseAtLine], None]) -> None:
        """Has every case inspected that has no error; the linter then looks for related cases."""
        self.inspect = inspect
        self._requirements = RequirementCollector(find_related=False)

    def read(self, dialect: str, source: SuiteSource) -> None:
        """Reads all of a source in a dialect; `find_repeated_ids` and `finish` come next."""
        self._find_program_defect = source.find_program_defect
        items = read_suite(DIALECTS.get(dialect), source)
        for item in items if self.placeholders is None else self.placeholders.replace_bad_rows(items):
            if type(item) is CaseAtLine:
                self._add_case(item)
            else:
                self.add_item(item)

    def find_repeated_ids(self) -> frozenset[str]:
        """Returns the ids of several cases if not all were reported as such: the suite must be read again."""
        if self._knows_ids or self._suite is None:
            return frozenset()
        missed_ids = self._hash(self._suite)[1]
        return missed_ids | self._duplicate_ids if missed_ids else missed_ids

    def add_item(self, item: Suite | CaseAtLine | Problem | Case) -> None:
        if isinstance(item, CaseAtLine):
            self._add_case(item)
        elif isinstance(item, Problem):
            self._add_problem(item)
        elif isinstance(item, Case):
            self.add(item)
        else:
            self._suite = item

    def _add_problem(self, problem: Problem) -> None:
        """Adds a problem; an invalid case is not yielded, but its id counts as used."""
        if problem.repeated:
            return
        self._problems.append(problem)
        if problem.level == "error" and problem.case and problem.line and problem.case not in self._lines:
            if not self._knows_ids and problem.case not in self._wrong_ids:
                self._rows.add((problem.case, "", ""))
            self._wrong_ids.setdefault(problem.case, problem.line)
            self._paths.setdefault(problem.case, problem.path)

    def _add_case(self, located_case: CaseAtLine) -> None:
        self._repeats_rule = located_case.repeats_rule or self._repeats_rule
        if self.assertions:
            case = replace(located_case.case, assertions=self.assertions)
            located_case = replace(located_case, case=case)
        case_id, path = located_case.case.id, located_case.path
        graders: list[Grader] = []
        is_duplicate = case_id in self._lines or case_id in self._wrong_ids
        if is_duplicate:
            problems = [self._describe_duplicate(located_case)]
            self._duplicate_ids.add(case_id)
        else:
            if path is not None and self._keeps_id(case_id):
                self._paths.setdefault(case_id, path)
            graders, problems = self._bind_graders(located_case)
        if self.placeholders is not None:
            placeholder = self.placeholders.for_case(located_case, problems)
            if placeholder is not None:
                self.add(placeholder, location=(path or self._path, located_case.line))
                return
        if problems:
            self._problems += problems
            if is_duplicate:
                return
        self._problems += self._check_programs(located_case, graders)
        self.add(located_case.case, graders, (path or self._path, located_case.line))
        if self.inspect is not None and not problems:
            prompts = () if self._suite is None else self._suite.defaults.prompts
            case = fill_first_prompt(located_case.case, prompts) if prompts else located_case.case
            self.inspect(replace(located_case, case=case))

    def add(self, case: Case, graders: Sequence[Grader] = (), location: tuple[str, int] = ("", 0)) -> None:
        """Adds the next case, with its graders and its location; a placeholder has none."""
        if self._knows_ids and (self._repeated_ids is None or case.id in self._repeated_ids):
            self._lines.setdefault(case.id, location[1])
        sent = sent_digest(case)
        self._rows.add((case.id, sent, judged_digest(case)))
        self._count += 1
        if self._indexer.add(case):
            self._requirements.add(case, graders, location)
        if case.problems:
            self.has_placeholders = True
        if self._writer is not None:
            self._writer.add(case, sent)
        if self._count % _PROGRESS_EVERY == 0:
            self._tell(self._count)
        if self._count == MAX_ROWS and self.inspect is None and self._repeated_ids is None:
            self._forget_ids()

    def _check_programs(self, located_case: CaseAtLine, graders: Iterable[Grader]) -> Iterator[Problem]:
        """Yields a warning for each command that names a missing file, for the first case with it."""
        workspace = located_case.case.workspace
        if workspace is not None and (workspace.hooks.before_all or workspace.hooks.before_each):
            return  # which may write the file
        commands = (command for grader in graders if grader.is_async for command in grader.commands())
        for command in commands:
            if command in self._commands:
                continue
            self._commands.add(command)
            defect = self._find_program_defect(command)
            if defect is not None:
                message = (
                    f"Case {located_case.case.id!r}: The program {shlex.join(command.words)!r} cannot grade "
                    f"its answers, which would be UNSCORED. {defect} Correct the command or the file."
                )
                problem = self._make_problem("missing-program", message, located_case, "assertions")
                yield replace(problem, level="warning")

    def _keeps_id(self, case_id: str) -> bool:
        """Returns whether an id is kept in memory, with its place."""
        return self._knows_ids and (self._repeated_ids is None or case_id in self._repeated_ids)

    def _forget_ids(self) -> None:
        """Leaves it to `find_repeated_ids` to find further duplicates."""
        self._knows_ids = False
        for case_id in self._wrong_ids.keys() - self._lines.keys():
            self._rows.add((case_id, "", ""))
        self._lines.clear()
        self._paths = {case_id: path for case_id, path in self._paths.items() if case_id in self._wrong_ids}

    def _describe_duplicate(self, located_case: CaseAtLine) -> Problem:
        """Returns the problem that an earlier case has the same id."""
        case_id = located_case.case.id
        first = self._wrong_ids.get(case_id) or self._lines.get(case_id)
        file = self._paths.get(case_id, self._path)
        is_same_file = file == (located_case.path or self._path)
        where = f"line {first}" if is_same_file else f"line {first} of {file}"
        message = f"Case id {case_id!r} is already used at {where}. Give each case its own id."
        return self._make_problem("duplicate-id", message, located_case, "id")

    def _bind_graders(self, located_case: CaseAtLine) -> tuple[list[Grader], list[Problem]]:
        """Returns the graders of a case's assertions, and a problem for each that cannot be built."""
        graders: list[Grader] = []
        problems: list[Problem] = []
        case = located_case.case
        if case.form is not None and case.form.choices:
            from proctor.choices import check_choices

            try:
                check_choices(case)
            except ValueError as error:
                problems.append(
                    self._make_problem(
                        "bad-choices", f"Case {case.id!r}: {error}", located_case, "form.choices"
                    )
                )
        for assertion in case.assertions:
            try:
                grader = build_grader(assertion, GRADERS.get)
                grader.check_case(case)
                graders.append(grader)
            except (UnknownName, ValueError) as error:
                word = assertion.label or assertion.grader
                message = f"Case {case.id!r}, {word!r}: {error}"
                problems.append(self._make_problem("bad-assertion", message, located_case, "assertions"))
        return graders, problems

    def _make_problem(self, code: str, message: str, located_case: CaseAtLine, field: str) -> Problem:
        return Problem(
            code=code,
            message=message,
            path=located_case.path or self._path,
            line=located_case.line,
            field=field,
            case=located_case.case.id,
        )

    def finish(self) -> LoadedSuite:
        if self._suite is None:
            raise SuiteError(merge_repeats(self._problems))
        if not self._count and not any(problem.level == "error" for problem in self._problems):
            message = "The suite has no cases. Add one and run again."
            self._problems.append(Problem(code="no-cases", message=message, path=self._path, line=1))
        suite = with_repeats_rule(self._suite, self._repeats_rule)
        suite = replace(suite, case_count=self._count, digest=self._hash(self._suite)[0])
        return LoadedSuite(
            path=self._path,
            suite=suite,
            indexer=self._indexer,
            required=self._requirements.required,
            problems=tuple(merge_repeats(self._problems)),
        )

    def _hash(self, suite: Suite) -> tuple[str, frozenset[str]]:
        """Returns the digest of a suite with the cases so far, and the ids that are there more than once."""
        if self._hash_result is None:
            hasher = SuiteHasher(with_repeats_rule(suite, self._repeats_rule))
            last_id, repeated_ids = None, set[str]()
            rows: list[_CaseRow] = []
            for row in self._rows:
                case_id, sent, _ = row
                if case_id == last_id:
                    repeated_ids.add(case_id)
                last_id = case_id
                if sent:
                    rows.append(row)
                    if len(rows) == _HASHED_ROWS:
                        hasher.add_all(rows)
                        rows.clear()
            hasher.add_all(rows)
            self._hash_result = hasher.digest(), frozenset(repeated_ids)
        return self._hash_result
