"""A suite to the files of another dialect, which are read again and held against the suite."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import BytesIO
from posixpath import dirname, normpath
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from proctor.codec import decode, encode, judged_digest, sent_digest
from proctor.dialects import DIALECTS, RENDERERS
from proctor.dialects.proctor.dialect import ASIDE
from proctor.dialects.shared.losses import CODE, KEPT
from proctor.dialects.shared.output_files import file_stem
from proctor.errors import UnknownName, UsageError
from proctor.model import Case, Problem, Suite
from proctor.plurals import counted, listed
from proctor.protocols import Found, Placed, Renders, Source
from proctor.services.suites.builtin_suites import BUILTIN
from proctor.services.suites.load import with_repeats_rule
from proctor.services.suites.pass_rules import restated
from proctor.validation import shown

MAIN: Final = ""
"""The path of the suite's own file, whose name the caller chooses."""

_ENDINGS: Final = {"agentv": ".eval.yaml"}
_SENT: Final = ("input", "workspace", "target", "form")
_JUDGED: Final = ("expected", "criteria", "assertions", "pass_rule")
_BESIDE: Final = ("tags", "category", "repeats", "only_targets", "variables", "notes", "metadata")
"""The fields of a case that must be the same afterwards, in the order in which a difference is looked for."""
_FILE: Final = {"ai_tester": "file"}
"""The field of the metadata that says in which file a case stands, for dialects that have more than one."""
_RULES: Final = ("pass_rule", "repeats_rule")
_WILD: Final = re.compile(r"\*\*/|\*|\?")
_WILD_AS: Final = {"**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}


class Converted(Struct, frozen=True, kw_only=True):
    """What came of writing a suite in a dialect."""

    files: dict[str, bytes]
    """By path, `/` between folders; the suite's own file, where the dialect has one, under the empty path."""
    problems: list[Problem]
    """What the dialect cannot say, or says otherwise. With an error among them no file is to be kept."""
    name_hint: str
    """A name for the suite's own file, or for the folder of a suite that is one."""

    @property
    def failed(self) -> bool:
        """Whether something cannot be said."""
        return any(problem.level == "error" for problem in self.problems)


def converted(
    suite: Suite, cases: Iterable[Case], to: str, *, lossy: bool, source: Source | None = None
) -> Converted:
    """A suite in another dialect, or in its own.

    The files are read again. Every case that is then not there, or is sent or judged in another way, is an
    error of code `unsayable` with the first field that differs, unless it was told before as lost. A pass
    rule that the dialect has no words for may be said by another one that comes to the same.

    Args:
        suite: its header.
        cases: its cases, which are read once and held.
        to: the name of the dialect.
        lossy: what the dialect cannot say is left out, told as a warning and kept in the metadata.
        source: the suite as it was read, where it was: for its name in problems, and for graders of the
            user's own that lie beside it.

    Raises:
        UsageError: there is no such dialect, or it can only be read; or a case is a placeholder.
    """
    render = _renderer(to)
    path = suite.name if source is None else source.path
    suite = replace(suite, name=suite.name.removeprefix(BUILTIN))  # a copy of a built-in suite is the user's
    if to != "proctor":  # the only one that says where a suite came from
        suite = replace(suite, notes={name: note for name, note in suite.notes.items() if name not in ASIDE})
    cases = list(cases)
    _check_readable(suite, cases)
    suite, held, restatements = restated(suite, cases, to)
    pieces: dict[str, list[bytes]] = {}
    problems: list[Problem] = []
    for item in render(suite, held, lossy=lossy):
        if isinstance(item, Problem):
            problems.append(replace(item, path=item.path or path))
        else:
            pieces.setdefault(item.path, []).append(item.data)
    files = {name: b"".join(data) for name, data in pieces.items()}
    hint = file_stem(suite.name, set()).replace("/", "-")
    if MAIN in files:
        hint += _ENDINGS.get(to, ".jsonl")
    if not any(problem.level == "error" for problem in problems):
        comparison = _Comparison(suite, held, to, path, lossy=lossy)
        comparison.told = {(one.case, _top(one.field)) for one in problems}
        problems += comparison.problems(DIALECTS.get(to).read(_source(files, hint, held, source)))
    told = [replace(problem, path=path) for problem in restatements]
    return Converted(files=files, problems=told + problems, name_hint=hint)


def _check_readable(suite: Suite, cases: Iterable[Case]) -> None:
    names = [case.id for case in cases if case.problems]
    if names:
        raise UsageError(
            f"{suite.title} has {counted(len(names), 'case')} that could not be read from its file: "
            f"{listed(names, 5)}. No file can hold such a case. Correct the file and save the suite again."
        )


def _renderer(to: str) -> Renders:
    try:
        return RENDERERS.get(to)
    except UnknownName:
        names = RENDERERS.names()
    if to in DIALECTS.names(installed=True):
        raise UsageError(f"Dialect {to!r} is only read. A suite can be written as: {', '.join(names)}.")
    raise UnknownName("dialect", to, names)


# --- reading again -----------------------------------------------------------------------------------------


class _Comparison:
    """The suite that was written, while what was written is read."""

    def __init__(self, suite: Suite, cases: list[Case], dialect: str, path: str, *, lossy: bool) -> None:
        self._suite = suite
        self._cases = {case.id: case for case in cases}
        self._dialect = dialect
        self._path = path
        self.told: set[tuple[str | None, str]] = set()
        """The fields of cases, and of the suite, that are known to become others."""
        self._lossy = lossy
        self._left = set(self._cases)

    def problems(self, items: Iterable[Suite | Placed | Problem]) -> Iterator[Problem]:
        """What is not as it was, of a suite that is read."""
        suite: Suite | None = None
        rule: str | None = None
        for item in items:
            if isinstance(item, Suite):
                suite = item
            elif isinstance(item, Placed):
                rule = item.repeats_rule or rule
                yield from self._of_case(item.case)
            elif item.level == "error":
                yield self._wrong(item.case, item.field, f"what is written cannot be read: {item.message}")
                self._left.discard(item.case or "")
        if suite is not None:
            yield from self._of_suite(with_repeats_rule(suite, rule))
        for case_id in self._cases:
            if case_id in self._left:
                yield self._wrong(case_id, None, "the case is not there any more.")

    def _of_suite(self, suite: Suite) -> Iterator[Problem]:
        for name in _RULES:
            if getattr(suite, name) != getattr(self._suite, name) and (None, name) not in self.told:
                yield self._wrong(None, name, f"`{name}` becomes another one.")

    def _of_case(self, found: Case) -> Iterator[Problem]:
        case = self._cases.get(found.id)
        if case is None:
            yield self._wrong(found.id, "id", "the suite has no case of this id.")
            return
        self._left.discard(case.id)
        if encode(case) == encode(found):
            return
        known = {name for name in (*_SENT, *_JUDGED, *_BESIDE) if (case.id, name) in self.told}
        if self._dialect in _FILE:
            case, found = (_without(each, _FILE[self._dialect]) for each in (case, found))
        field = _first_difference(case, found, known, more_metadata=self._lossy)
        if field is not None:
            yield self._wrong(case.id, field, f"`{field}` becomes another one.")

    def _wrong(self, case: str | None, field: str | None, what: str) -> Problem:
        subject = f"Suite {shown(self._suite.name)}" if case is None else f"Case {shown(case)}"
        message = f"{subject}: dialect {self._dialect} cannot say it: {what}"
        return Problem(code=CODE, message=message, path=self._path, field=field, case=case)


def _first_difference(case: Case, found: Case, known: set[str], *, more_metadata: bool) -> str | None:
    """The path of the first field in which a case is not what it was; a label is none.

    Args:
        case: as it was.
        found: as it is read from what was written.
        known: fields known to be lost.
        more_metadata: there may be more of it also where hooks of a workspace are given it.
    """
    before, after = _plain(case), _plain(found)
    if more_metadata:  # what was lost earlier stands further inside when more is lost
        before["metadata"].pop(KEPT, None)
    sent = sent_digest(case) != sent_digest(found)
    judged = judged_digest(case) != judged_digest(found)
    compared = (*(_SENT if sent else ()), *(_JUDGED if judged else ()), *_BESIDE)
    if more_metadata or not sent:
        after["metadata"] = {
            key: value for key, value in after["metadata"].items() if key in before["metadata"]
        }
    places = (_parting(before[name], after[name], name) for name in compared if name not in known)
    return next(filter(None, places), None)


def _without(case: Case, name: str) -> Case:
    return replace(case, metadata={key: value for key, value in case.metadata.items() if key != name})


def _plain(case: Case) -> dict[str, Any]:
    """Every field of a case, as JSON has it."""
    named: dict[str, Any] = {name: getattr(case, name) for name in (*_SENT, *_JUDGED, *_BESIDE)}
    # Field by field, since a weight that only equals its default is not left out of a noun's JSON.
    named["assertions"] = [
        {name: getattr(one, name) for name in one.__struct_fields__ if name != "label"}
        for one in case.assertions
    ]
    plain: dict[str, Any] = decode(encode(named), dict)
    return plain


def _parting(one: Any, other: Any, place: str) -> str | None:
    """Where two values part, as a path; None where they are the same."""
    if isinstance(one, dict) and isinstance(other, dict):
        named = [(name, f"{place}.{name}") for name in sorted({*one, *other})]
        places = (_parting(one.get(name), other.get(name), path) for name, path in named)
        return next(filter(None, places), None)
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        places = (
            _parting(*pair, f"{place}[{number}]") for number, pair in enumerate(zip(one, other, strict=True))
        )
        return next(filter(None, places), None)
    return None if one == other and type(one) is type(other) else place


def _top(field: str | None) -> str:
    return re.split(r"[.\[]", field or "", maxsplit=1)[0]


# --- files that are not on a disk --------------------------------------------------------------------------


def _source(files: Mapping[str, bytes], name: str, cases: Iterable[Case], behind: Source | None) -> Source:
    """The files that were written, as a dialect sees a suite."""

    def find(reference: str) -> Found | None:
        path = normpath(reference.replace("\\", "/"))
        return Found(path=path, data=files[path]) if path and path in files else None

    def expand(pattern: str) -> list[str]:
        wanted = re.compile(_expression(normpath(pattern)))
        named = {dirname(path) for path in files if dirname(path)} if pattern.endswith("/") else set(files)
        return sorted(path for path in named if path != MAIN and wanted.fullmatch(path))

    # What names an environment variable stays as it is written, whether or not this machine has it.
    environ = {one: f"${{{{ {one} }}}}" for case in cases for one in case.variables}
    beside: Callable[[str], tuple[str, ...] | None] = (
        (lambda _name: None) if behind is None else behind.program
    )
    return Source(
        path=name,
        lines=lambda: BytesIO(files.get(MAIN, b"")),
        neighbour=files.get,
        find=find,
        expand=expand,
        program=beside,
        environ=environ,
        is_folder=MAIN not in files,
    )


def _expression(pattern: str) -> str:
    """A glob as a regular expression."""
    parts, end = [], 0
    for wild in _WILD.finditer(pattern):
        parts += [re.escape(pattern[end : wild.start()]), _WILD_AS[wild[0]]]
        end = wild.end()
    return "".join(parts) + re.escape(pattern[end:])
