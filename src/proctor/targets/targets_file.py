"""Reads a targets file into named targets: `targets: [{name, provider, …}]`. Pure.

Every entry is checked when the file is read. A problem in an entry becomes an error only when the entry is
used, by name or as a judge or fallback, so that unused entries stop no run. The same holds for unset
variables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from proctor.env_substitution import names_in, substitute
from proctor.errors import SuiteError, UsageError, suggestion
from proctor.model import Params, Problem, TargetSpec
from proctor.targets import file_kinds as kinds
from proctor.targets.entries import FileContext, TargetEntry
from proctor.targets.kind import FileFields
from proctor.targets.parse import parse_target
from proctor.validation import FieldReader, ProblemLog, json_type
from proctor.yaml12 import YamlError, YamlList, YamlMap, load

_JUDGE: Final = {"type": "string", "description": "The judge for its answers."}
COMMON_FIELDS: Final[FileFields] = {
    "name": {"type": "string", "pattern": r"\S", "description": "The name to use with --target and --judge."},
    "provider": {"type": "string", "description": "The kind of target."},
    "kind": {"type": "string", "description": "The kind of target."},
    "target": {"type": "string", "description": "A target as on the command line, such as openai:gpt-5.2."},
    "use_target": {"type": "string", "description": "The target that this entry is an alias of."},
    "grader_target": _JUDGE,
    "judge_target": _JUDGE,
    "fallback_targets": {
        "type": "array",
        "items": {"type": "string"},
        "description": "The targets to call when it fails.",
    },
    "workers": {"type": "integer", "minimum": 1, "description": "Maximum concurrent requests."},
    "max_retries": {"type": "integer", "minimum": 0, "description": "Maximum retries of a request."},
}
"""The fields that every target may have."""
ROOT_FIELDS: Final[FileFields] = {
    "$schema": {"description": "The JSON Schema of this file, for editors."},
    "version": {"description": "Your own version number of the file."},
    "targets": {"type": "array", "description": "The targets, each with a name."},
}
DESCRIPTION_FIELD: Final = "description"
"""A field for human readers, which has no effect."""
_CAMEL_CASE_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class TargetSummary(Struct, frozen=True, kw_only=True):
    """One target as shown in lists."""

    name: str
    kind: str
    details: str
    """Its model, command line, file or the target that it is an alias of, as written."""
    unset_variables: tuple[str, ...]
    """The variables in its references that are not set."""
    variables: tuple[str, ...]
    """All variables in its references."""


class _NamedEntry(Struct, frozen=True):
    name: str
    line: int
    row: YamlMap
    next_line: int | None = None
    """The line of another entry with the same name, if there is one."""


class TargetsFile:
    """The targets of one file by their names."""

    def __init__(self, text: str, path: str, folder: str) -> None:
        """Reads and checks a file.

        Args:
            text: the file.
            path: its path, for messages.
            folder: its absolute folder, the base of relative paths.

        Raises:
            SuiteError: it is not a targets file; contains every structural problem.
        """
        self.path = path
        self._folder = folder
        form, unnamed = ProblemLog(path, 1), ProblemLog(path, 1)
        self._entries = _find_entries(_find_rows(text, form), unnamed)
        _raise_errors(form.problems)
        problems_found: list[Problem] = []
        context = FileContext(folder=folder, environ=kinds.stand_in_environ(), checks_only=True)
        check = _SpecReader(self, context, problems_found)
        for name in self._entries:
            check.read_target(name)
        self.unnamed_problems: tuple[Problem, ...] = tuple(unnamed.problems)
        """The problems of entries without a name, which cannot be used."""
        # A target that judges another one is checked twice.
        problems = [*form.problems, *unnamed.problems, *dict.fromkeys(problems_found)]
        self.problems: tuple[Problem, ...] = tuple(sorted(problems, key=lambda problem: problem.line or 0))
        """All errors and warnings, by line."""

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that make an entry unusable."""
        return tuple([problem for problem in self.problems if problem.level == "error"])

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """The problems that change nothing, such as fields without effect."""
        return tuple([problem for problem in self.problems if problem.level == "warning"])

    def names(self) -> list[str]:
        """Returns every target's name, in the order of the file."""
        return list(self._entries)

    def get_entry(self, name: str) -> _NamedEntry | None:
        """Returns the entry with that name, or None."""
        return self._entries.get(name)

    def get_spec(
        self, name: str, params: Params, environ: Mapping[str, str], *, judged: bool = True
    ) -> TargetSpec:
        """Returns the target with that name, with its judge and its fallbacks.

        Args:
            name: one of `names()`.
            params: the user's parameters; where they are the defaults, the target's own apply.
            environ: the values for references.
            judged: whether to read its judge too; if not, the judge's variables need not be set.

        Raises:
            SuiteError: its entry or one that it needs has an error or names an unset variable.
        """
        problems: list[Problem] = []
        context = FileContext(folder=self._folder, environ=environ, params=params)
        spec = _SpecReader(self, context, problems, judging=not judged).read_target(name)
        # A target that judges another one is checked twice.
        _raise_errors([problem for problem in dict.fromkeys(problems) if problem.level == "error"])
        assert spec is not None, "what cannot be made is a problem"
        return spec

    def list_targets(self, environ: Mapping[str, str]) -> list[TargetSummary]:
        """Returns a summary of every target, in the order of the file."""
        return [_summarize(entry, environ) for entry in self._entries.values()]


def _raise_errors(problems: list[Problem]) -> None:
    if any(problem.level == "error" for problem in problems):
        raise SuiteError(problems)


# --- the text ----------------------------------------------------------------------------------------------


def _find_rows(text: str, notes: ProblemLog) -> YamlList:
    """Returns the list `targets`; empty if there is none."""
    try:
        root = load(text)
    except YamlError as error:
        notes.error("bad-yaml", str(error), line=error.line)
        return YamlList(1)
    rows = root.get("targets") if isinstance(root, YamlMap) else None
    if not isinstance(root, YamlMap) or not isinstance(rows, YamlList):
        notes.error("missing-field", "The file needs a list `targets`, each with `name` and `provider`.")
        return YamlList(1)
    fields = FieldReader(root, notes)
    for name in ROOT_FIELDS:
        fields.pop(name)
    fields.finish(tuple(ROOT_FIELDS))
    return rows


def _find_entries(rows: YamlList, notes: ProblemLog) -> dict[str, _NamedEntry]:
    """Returns the first entry of each name; reports entries without a name to `notes`."""
    entries: dict[str, _NamedEntry] = {}
    for place, row in enumerate(rows):
        entry = _find_entry(row, rows.lines[place], place, notes)
        if entry is None:
            continue
        first = entries.setdefault(entry.name, entry)
        if first is not entry and first.next_line is None:
            entries[entry.name] = replace(first, next_line=entry.line)
    return entries


def _find_entry(row: Any, line: int, place: int, notes: ProblemLog) -> _NamedEntry | None:
    if not isinstance(row, YamlMap):
        what = f"`targets[{place}]` is {json_type(row)}; it must be an object with `name` and `provider`."
        notes.error("wrong-type", what, f"targets[{place}]", line=line)
        return None
    name = row.get("name")
    if isinstance(name, str) and name.strip():
        return _NamedEntry(name, line, row)
    name_line = row.lines.get("name", line)
    notes.error("missing-field", f"`targets[{place}].name` must be text.", "name", line=name_line)
    return None


def _summarize(entry: _NamedEntry, environ: Mapping[str, str]) -> TargetSummary:
    row = entry.row
    provider = str(row.get("provider", row.get("kind", "")))
    record = kinds.find_kind(provider) if provider else None
    kind, details = (provider if record is None else record.name), ""
    if "use_target" in row:
        kind, details = "→", str(row["use_target"])
    elif "target" in row:
        kind, _, details = str(row["target"]).partition(":")
    else:
        fields = ("model", "deployment", "variant", "command", "function", "file", "path", "response")
        details = next((str(row[name]) for name in fields if name in row), "")
    names = names_in({name: value for name, value in row.items() if name != DESCRIPTION_FIELD})
    unset = tuple(name for name in names if not environ.get(name, "").strip())
    return TargetSummary(name=entry.name, kind=kind, details=details, unset_variables=unset, variables=names)


# --- targets that name one another -------------------------------------------------------------------------


class _SpecReader:
    """Reads specifications and adds the problems of entries to `problems`."""

    def __init__(
        self, file: TargetsFile, context: FileContext, problems: list[Problem], *, judging: bool = False
    ) -> None:
        self.problems = problems
        self._file = file
        self._context = context
        self._specs: dict[str, TargetSpec | None] = {}
        # Judges are called with the default parameters, and have no judges.
        usual = replace(context, params=Params())
        self._judge_reader = None if judging else _SpecReader(file, usual, problems, judging=True)

    def read_target(self, name: str, trail: tuple[str, ...] = ()) -> TargetSpec | None:
        """Returns the target with that name; None if it has errors, or if it is still being read."""
        entry = self._file.get_entry(name)
        if name not in self._specs and entry is not None:
            notes = ProblemLog(self._file.path, entry.line, "Target")
            notes.case = name
            spec = self._read_spec(entry, notes, (*trail, name))
            self.problems += [replace(problem, case=None) for problem in notes.problems]
            self._specs[name] = None if notes.has_errors else spec
        return self._specs[name]

    def _read_spec(self, entry: _NamedEntry, notes: ProblemLog, trail: tuple[str, ...]) -> TargetSpec | None:
        row = _read_entry(entry.row, notes, self._context)
        fields = row.fields
        fields.pop("name")
        if entry.next_line is not None:
            notes.error(
                "duplicate-name",
                f"Line {entry.line} already uses this name. Rename one of them.",
                "name",
                line=entry.next_line,
            )
        provider = _read_aliased_text(row, "provider", "kind")
        agent = None if provider is None else kinds.agent_command(provider)
        if provider is not None and agent is not None:
            # A file may be shared with a program that knows the agent: it is an error only when used.
            if not self._context.checks_only:
                fields.error("unsupported", "provider", kinds.agent_message(provider, agent))
            return None
        judge = _read_aliased_text(row, "grader_target", "judge_target")
        fallbacks = fields.texts("fallback_targets")
        workers, retries = fields.integer("workers", least=1), fields.integer("max_retries")
        if "use_target" in fields:
            spec = self._read_alias(provider, row, trail)
        else:
            spec = self._read_fields(entry.name, provider, row)
        judged_by = None if judge is None else self._read_judge(judge, row)
        others = [
            self._find_other(fallback, "fallback_targets", row, trail)
            for fallback in fallbacks
            if not notes.has_errors
        ]
        if spec is None:
            return None
        return replace(
            spec,
            name=entry.name,
            judge=judged_by or spec.judge,
            fallbacks=_flatten(others) or spec.fallbacks,
            workers=workers or spec.workers,
            retries=spec.retries if retries is None else retries,
        )

    def _read_fields(self, name: str, provider: str | None, row: TargetEntry) -> TargetSpec | None:
        """Reads the target from its own fields."""
        fields = row.fields
        word = fields.text("target")
        if word is not None:
            if provider is not None:
                fields.error("duplicate-field", "target", "and `provider` mean the same. Remove one of them.")
            spec = kinds.parse_short_form(name, word, row)
            fields.finish((*COMMON_FIELDS, *kinds.short_form_fields(word)))
            return spec
        if provider is None:
            if not row.unknown_fields & {"provider", "kind", "target", "use_target"}:
                fields.report_missing("provider", "a kind of target, such as `openai` or `cli`")
            return None
        kind = kinds.find_kind(provider)
        if kind is None:
            fields.error("unknown-value", "provider", kinds.unknown_kind_message(provider))
            return None
        spec = kinds.parse_entry(name, kind, row)
        fields.finish((*COMMON_FIELDS, *(kind.entry_fields or {})))
        return spec

    def _read_alias(
        self, provider: str | None, row: TargetEntry, trail: tuple[str, ...]
    ) -> TargetSpec | None:
        """Reads the target that the entry is an alias of."""
        other = row.fields.text("use_target")
        if provider is not None or "target" in row.fields:
            row.fields.error("duplicate-field", "use_target", "stands for another target; remove `provider`.")
        row.fields.finish(tuple(COMMON_FIELDS))
        return None if other is None else self._find_other(other, "use_target", row, trail)

    def _read_judge(self, name: str, row: TargetEntry) -> TargetSpec | None:
        reader = self._judge_reader
        spec = None if reader is None else reader._find_other(name, "grader_target", row, ())
        return None if spec is None else replace(spec, judge=None)

    def _find_other(
        self, name: str, field: str, row: TargetEntry, trail: tuple[str, ...]
    ) -> TargetSpec | None:
        """Returns another target of the file, or one as written on the command line."""
        if name in trail:
            circle = " → ".join((*trail[trail.index(name) :], name))
            row.fields.error("cycle", field, f"refers to itself: {circle}. Remove one of these references.")
            return None
        if self._file.get_entry(name) is not None:
            return self.read_target(name, trail)
        try:
            return parse_target(name, self._context.params, row.context.environ)
        except UsageError:
            advice = suggestion(name[:60], self._file.names())
            row.fields.error("unknown-target", field, f"names {name[:60]!r}, which is not a target. {advice}")
            return None


def _read_aliased_text(row: TargetEntry, *names: str) -> str | None:
    """Reads the text of a field that has several names."""
    return row.fields.text(row.resolve_alias(*names))


def _flatten(specs: list[TargetSpec | None]) -> tuple[TargetSpec, ...]:
    """Returns the fallbacks in the order of their calls, each followed by its own, without duplicates."""
    flat = [member for spec in specs if spec is not None for member in (spec, *spec.fallbacks)]
    return tuple({spec.name: replace(spec, judge=None, fallbacks=()) for spec in flat}.values())


def _read_entry(row: YamlMap, notes: ProblemLog, context: FileContext) -> TargetEntry:
    """Returns the fields of a target that have an effect, with known references substituted."""
    values, unknown, references = YamlMap(row.line), set[str](), dict[str, str]()
    values.lines = row.lines
    field_schemas = {**COMMON_FIELDS, **kinds.entry_fields()}
    known_fields = {*field_schemas, *kinds.IGNORED_FIELDS}
    kind = kinds.find_kind(str(row["provider"])) if "provider" in row else None
    ignored = set(kinds.IGNORED_FIELDS).difference((kind and kind.entry_fields) or ())
    for name, value in row.items():
        line = row.lines[name]
        snake = _CAMEL_CASE_BOUNDARY.sub("_", name).lower()
        if snake != name and snake in known_fields:
            notes.error(
                "camel-case",
                f"Write `{snake}` for `{name}`: words are joined by an underscore.",
                name,
                line=line,
            )
            unknown.add(snake)
        elif name == DESCRIPTION_FIELD:
            continue
        elif name in ignored:
            notes.warn("no-effect", f"`{name}` has no effect here.", name, line=line)
        elif not (names := names_in(value)):
            values[name] = value
        elif context.checks_only:
            if name in kinds.DEFERRED_FIELDS:
                values[name] = value
            else:
                unknown.add(name)
        elif unset := [variable for variable in names if not _is_set(variable, context.environ, name)]:
            unknown.add(name)
            for variable in unset:
                message = (
                    f"`{name}` uses the variable {variable}, which is not set. Set it (export {variable}=…)."
                )
                notes.error("unset-variable", message, name, line=line)
        else:
            is_deferred = name in kinds.DEFERRED_FIELDS
            field_type = field_schemas.get(name, {}).get("type")
            values[name] = (
                value if is_deferred else _convert_text(field_type, substitute(value, context.environ))
            )
            if isinstance(value, str):
                references[name] = value
    return TargetEntry(FieldReader(values, notes), frozenset(unknown), context, references)


def _is_set(variable: str, environ: Mapping[str, str], field: str) -> bool:
    return variable in environ and (field != "api_key" or bool(environ[variable].strip()))


def _convert_text(kind: str | None, value: Any) -> Any:
    """Converts a variable's text to the number or boolean that its field needs, if possible."""
    if not isinstance(value, str) or kind not in {"boolean", "integer", "number"}:
        return value
    if kind == "boolean":
        return {"true": True, "false": False}.get(value.strip().lower(), value)
    try:
        return int(value) if kind == "integer" else float(value)
    except ValueError:
        return value
