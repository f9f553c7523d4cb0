"""Writes a suite as the files of another dialect, reads these again and compares them with the suite."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import BytesIO
from posixpath import dirname, normpath
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from proctor.codec import decode, encode, judged_digest, sent_digest
from proctor.dialects import get_writable
from proctor.dialects.shared.losses import LOSS_CODE, LOSSES_FIELD, LossReport
from proctor.dialects.shared.output_files import unique_file_stem
from proctor.errors import UsageError
from proctor.model import Case, Problem, Suite
from proctor.plurals import join_names, pluralize
from proctor.prompts.fill import fill_first_prompt
from proctor.protocols import ORIGIN_NOTES, CaseAtLine, Dialect, SourceFile, SuiteSource
from proctor.services.suites.builtin_suites import BUILTIN_PREFIX
from proctor.services.suites.load import with_repeats_rule
from proctor.services.suites.pass_rules import restate_rules
from proctor.validation import quote_value

MAIN_FILE: Final = ""
"""The path of the suite's own file, whose name the caller chooses."""

_SENT_FIELDS: Final = ("input", "workspace", "target", "form")
_JUDGED_FIELDS: Final = ("expected", "criteria", "assertions", "pass_rule")
_OTHER_FIELDS: Final = (
    *("tags", "category", "repeats", "only_targets", "variables", "vars", "prefix", "suffix", "prompts"),
    *("notes", "metadata"),
)
"""The fields of a case that must be the same afterwards, in the order in which a difference is looked for."""
_WILDCARD: Final = re.compile(r"\*\*/|\*|\?")
_WILDCARD_REGEXES: Final = {"**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}


class ConvertedSuite(Struct, frozen=True, kw_only=True):
    """The result of writing a suite in a dialect."""

    files: dict[str, bytes]
    """By path, `/` between folders; the suite's own file, where the dialect has one, under the empty path."""
    problems: list[Problem]
    """What the dialect cannot express, or expresses differently. After an error, discard the files."""
    stem: str
    """A name for the suite, without an ending."""
    ending: str = ""
    """The ending of the suite's own file; empty if it has none."""

    @property
    def name_hint(self) -> str:
        """A name for the suite's own file, or for the folder of a suite that is one."""
        return self.stem + self.ending

    @property
    def has_errors(self) -> bool:
        """Whether something cannot be expressed."""
        return any(problem.level == "error" for problem in self.problems)


def convert_suite(
    suite: Suite, cases: Iterable[Case], to: str, *, lossy: bool, source: SuiteSource | None = None
) -> ConvertedSuite:
    """Writes a suite in another dialect, or in its own.

    The files are read again. Every case that is then not there, or is sent or judged in another way, is an
    error of code `unsayable` with the first field that differs, unless that field was reported lost. A pass
    rule that the dialect cannot express may be replaced by an equivalent one.

    Args:
        suite: its header.
        cases: its cases, which are read once and held.
        to: the name of the dialect.
        lossy: what the dialect cannot express is left out with a warning, and kept in the metadata.
        source: the suite as it was read, where it was: for its name in problems, and for graders of the
            user's own that lie beside it.

    Raises:
        UsageError: there is no such dialect, or it can only be read; or a case is a placeholder.
    """
    dialect = get_writable(to)
    path = suite.name if source is None else source.path
    suite = replace(
        suite, name=suite.name.removeprefix(BUILTIN_PREFIX)
    )  # a copy of a built-in suite is the user's
    if not dialect.keeps_origin:
        notes = {name: note for name, note in suite.notes.items() if name not in ORIGIN_NOTES}
        suite = replace(suite, notes=notes)
    cases = list(cases)
    _check_readable(suite, cases)
    prompt_problems: list[Problem] = []
    if suite.defaults.prompts and not dialect.keeps_prompts:
        suite, cases, prompt_problems = _fill_prompts(suite, cases, to, lossy=lossy)
    suite, prepared_cases, restatements = restate_rules(suite, cases, to, dialect)
    chunks: dict[str, list[bytes]] = {}
    problems = [replace(problem, path=path) for problem in prompt_problems]
    for item in dialect.render(suite, prepared_cases, lossy=lossy):
        if isinstance(item, Problem):
            problems.append(replace(item, path=item.path or path))
        else:
            chunks.setdefault(item.path, []).append(item.data)
    files = {name: b"".join(data) for name, data in chunks.items()}
    stem = unique_file_stem(suite.name, set()).replace("/", "-")
    ending = dialect.output_ending if MAIN_FILE in files else ""
    if not any(problem.level == "error" for problem in problems):
        comparison = _Comparison(suite, prepared_cases, (to, dialect), path, lossy=lossy)
        comparison.expected_losses = {(loss.case, _top_field(loss.field)) for loss in problems}
        problems += comparison.find_problems(
            dialect.read(_make_memory_source(files, stem + ending, prepared_cases, source))
        )
    rule_problems = [replace(problem, path=path) for problem in restatements]
    return ConvertedSuite(files=files, problems=rule_problems + problems, stem=stem, ending=ending)


def _check_readable(suite: Suite, cases: Iterable[Case]) -> None:
    names = [case.id for case in cases if case.problems]
    if names:
        raise UsageError(
            f"{suite.title} has {pluralize(len(names), 'case')} that could not be read from its file: "
            f"{join_names(names, 5)}. Such a case cannot be written. Correct the file and save the "
            "suite again."
        )


def _fill_prompts(
    suite: Suite, cases: list[Case], to: str, *, lossy: bool
) -> tuple[Suite, list[Case], list[Problem]]:
    """Returns a suite with prompts as one without: each case has the messages that are sent.

    Several prompts are a loss: in a lossy conversion a case becomes one for each of its prompts.
    """
    prompts = suite.defaults.prompts
    names = join_names([repr(prompt.name) for prompt in prompts], 5)
    report = LossReport(suite, to, lossy=lossy)
    if len(prompts) > 1:
        example = f"{cases[0].id if cases else 'case'}~{prompts[0].name}"
        report.note(
            "defaults.prompts",
            f"the suite has {len(prompts)} prompts, {names}, but this format has no prompts apart from "
            "its tests. The format proctor keeps them. With --lossy, each case is written once per "
            f"prompt, such as {quote_value(example)}.",
        )
    filled_cases: list[Case] = []
    for case in cases:
        if case.prompts == ():
            filled_cases.append(replace(case, prompts=None))
            continue
        for prompt in prompts:
            if case.prompts is None or prompt.name in case.prompts:
                filled = fill_first_prompt(case, (prompt,))
                name = case.id if len(prompts) == 1 else f"{case.id}~{prompt.name}"
                filled_cases.append(replace(filled, id=name))
    return replace(suite, defaults=replace(suite.defaults, prompts=())), filled_cases, report.problems


# --- reading again -----------------------------------------------------------------------------------------


class _Comparison:
    """Compares a suite with what is read of the files that it was written to."""

    def __init__(
        self, suite: Suite, cases: list[Case], written_in: tuple[str, Dialect], path: str, *, lossy: bool
    ) -> None:
        self._suite = suite
        self._cases = {case.id: case for case in cases}
        self._dialect_name, self._dialect = written_in
        self._path = path
        self.expected_losses: set[tuple[str | None, str]] = set()
        """The fields of cases, and of the suite, that are known to change."""
        self._lossy = lossy
        self._missing = set(self._cases)

    def find_problems(self, items: Iterable[Suite | CaseAtLine | Problem]) -> Iterator[Problem]:
        """Yields an error for each case or rule that differs from the suite's."""
        suite: Suite | None = None
        rule: str | None = None
        for item in items:
            if isinstance(item, Suite):
                suite = item
            elif isinstance(item, CaseAtLine):
                rule = item.repeats_rule or rule
                yield from self._check_case(item.case)
            elif item.level == "error":
                yield self._make_problem(
                    item.case, item.field, f"the written file cannot be read: {item.message}"
                )
                self._missing.discard(item.case or "")
        if suite is not None:
            yield from self._check_suite(with_repeats_rule(suite, rule))
        for case_id in self._cases:
            if case_id in self._missing:
                yield self._make_problem(case_id, None, "the case is lost.")

    def _check_suite(self, suite: Suite) -> Iterator[Problem]:
        for name in ("pass_rule", "repeats_rule"):
            if (
                getattr(suite, name) != getattr(self._suite, name)
                and (None, name) not in self.expected_losses
            ):
                yield self._make_problem(None, name, f"`{name}` changes.")

    def _check_case(self, reread: Case) -> Iterator[Problem]:
        case = self._cases.get(reread.id)
        if case is None:
            yield self._make_problem(reread.id, "id", "the suite has no case with this id.")
            return
        self._missing.discard(case.id)
        if encode(case) == encode(reread):
            return
        ignored = {
            name
            for name in (*_SENT_FIELDS, *_JUDGED_FIELDS, *_OTHER_FIELDS)
            if (case.id, name) in self.expected_losses
        }
        if self._dialect.file_field is not None:
            case, reread = (_without_metadata(side, self._dialect.file_field) for side in (case, reread))
        field = _find_first_difference(case, reread, ignored, more_metadata=self._lossy)
        if field is not None:
            yield self._make_problem(case.id, field, f"`{field}` changes.")

    def _make_problem(self, case: str | None, field: str | None, reason: str) -> Problem:
        subject = f"Suite {quote_value(self._suite.name)}" if case is None else f"Case {quote_value(case)}"
        message = f"{subject}: format {self._dialect_name} cannot express it: {reason}"
        return Problem(code=LOSS_CODE, message=message, path=self._path, field=field, case=case)


def _find_first_difference(case: Case, reread: Case, ignored: set[str], *, more_metadata: bool) -> str | None:
    """Returns the path of the first field in which a case differs; labels do not count.

    Args:
        case: as it was.
        reread: as it is read from what was written.
        ignored: fields known to be lost.
        more_metadata: further metadata is allowed, also where it is passed to hooks of a workspace.
    """
    before, after = _to_plain(case), _to_plain(reread)
    if more_metadata:  # what was lost earlier stands further inside when more is lost
        before["metadata"].pop(LOSSES_FIELD, None)
    sent_differs = sent_digest(case) != sent_digest(reread)
    judged_differs = judged_digest(case) != judged_digest(reread)
    compared_fields = (
        *(_SENT_FIELDS if sent_differs else ()),
        *(_JUDGED_FIELDS if judged_differs else ()),
        *_OTHER_FIELDS,
    )
    if more_metadata or not sent_differs:
        after["metadata"] = {
            key: value for key, value in after["metadata"].items() if key in before["metadata"]
        }
    places = (
        _find_difference(before[name], after[name], name) for name in compared_fields if name not in ignored
    )
    return next(filter(None, places), None)


def _without_metadata(case: Case, name: str) -> Case:
    return replace(case, metadata={key: value for key, value in case.metadata.items() if key != name})


def _to_plain(case: Case) -> dict[str, Any]:
    """Returns every field of a case as plain JSON data."""
    fields: dict[str, Any] = {
        name: getattr(case, name) for name in (*_SENT_FIELDS, *_JUDGED_FIELDS, *_OTHER_FIELDS)
    }
    # Field by field, since the encoder leaves out only a weight that is identical to its default.
    fields["assertions"] = [
        {name: getattr(assertion, name) for name in assertion.__struct_fields__ if name != "label"}
        for assertion in case.assertions
    ]
    plain: dict[str, Any] = decode(encode(fields), dict)
    return plain


def _find_difference(first: Any, second: Any, field_path: str) -> str | None:
    """Returns the path at which two values differ first; None if they are equal."""
    if isinstance(first, dict) and isinstance(second, dict):
        members = [(name, f"{field_path}.{name}") for name in sorted({*first, *second})]
        places = (_find_difference(first.get(name), second.get(name), path) for name, path in members)
        return next(filter(None, places), None)
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        places = (
            _find_difference(*pair, f"{field_path}[{number}]")
            for number, pair in enumerate(zip(first, second, strict=True))
        )
        return next(filter(None, places), None)
    return None if first == second and type(first) is type(second) else field_path


def _top_field(field: str | None) -> str:
    return re.split(r"[.\[]", field or "", maxsplit=1)[0]


# --- files that are not on a disk --------------------------------------------------------------------------


def _make_memory_source(
    files: Mapping[str, bytes], name: str, cases: Iterable[Case], original: SuiteSource | None
) -> SuiteSource:
    """Returns the written files as a source that a dialect reads."""

    def find(reference: str) -> SourceFile | None:
        path = normpath(reference.replace("\\", "/"))
        return SourceFile(path=path, data=files[path]) if path and path in files else None

    def expand(pattern: str) -> list[str]:
        regex = re.compile(_glob_to_regex(normpath(pattern)))
        candidates = (
            {dirname(path) for path in files if dirname(path)} if pattern.endswith("/") else set(files)
        )
        return sorted(path for path in candidates if path != MAIN_FILE and regex.fullmatch(path))

    # References to environment variables stay as written, whether or not they are set here.
    environ = {variable: f"${{{{ {variable} }}}}" for case in cases for variable in case.variables}
    find_program: Callable[[str], tuple[str, ...] | None] = (
        (lambda _name: None) if original is None else original.find_program
    )
    return SuiteSource(
        path=name,
        read_lines=lambda: BytesIO(files.get(MAIN_FILE, b"")),
        read_sibling=files.get,
        find_file=find,
        expand_glob=expand,
        find_program=find_program,
        environ=environ,
        is_folder=MAIN_FILE not in files,
    )


def _glob_to_regex(pattern: str) -> str:
    """Returns a glob as a regular expression."""
    parts, end = [], 0
    for wild in _WILDCARD.finditer(pattern):
        parts += [re.escape(pattern[end : wild.start()]), _WILDCARD_REGEXES[wild[0]]]
        end = wild.end()
    return "".join(parts) + re.escape(pattern[end:])
