"""Reads rows of OpenAI's evals as cases: a file of rows, or all files that a registry's YAML names.

For a file of rows, the nearest registry that names it decides how answers are judged. Without one, the
project must name the class: a wrong class would give wrong verdicts.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from io import BytesIO
from itertools import islice
from posixpath import basename
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from proctor.dialects.openai_evals.classes import (
    TYPES,
    EvalGrading,
    get_grading,
    get_text_grading,
    unscored_grading,
)
from proctor.dialects.openai_evals.registry import Eval, find_data_file, find_evals, parse_evals
from proctor.dialects.pramana.reader import parse_ideal, parse_input
from proctor.dialects.shared.case_rows import read_cases
from proctor.dialects.shared.jsonl import file_name, read_all, read_rows
from proctor.dialects.shared.signatures import YAML_ENDINGS
from proctor.dialects.shared.yaml_files import display_path, parse_yaml
from proctor.errors import suggestion
from proctor.model import Case, Message, Problem, Suite, UnreadableRow
from proctor.protocols import CaseAtLine, SourceFile, SuiteSource
from proctor.validation import FieldReader, ProblemLog, quote_value

_GENERIC_NAMES: Final = frozenset(("samples", "test", "data"))
"""File names that say nothing about the suite."""


class Layout(Struct, frozen=True, kw_only=True):
    """How the rows of one eval become cases."""

    grading: EvalGrading
    examples: tuple[Message, ...] = ()
    """Messages inserted before the last message of each row."""
    name: str | None = None
    """The eval's name, if the suite has several."""


def parse_suite(source: SuiteSource) -> Iterator[Suite | CaseAtLine | Problem]:
    """Yields the header, the cases in file order, and each problem where it occurs."""
    if file_name(source.path).suffix.lower() in YAML_ENDINGS:
        yield from _read_registry(source)
    else:
        yield from _read_rows(source)


def _read_rows(source: SuiteSource) -> Iterator[Suite | CaseAtLine | Problem]:
    """Reads a file of rows, whose eval is looked up in the registries around it."""
    notes = ProblemLog(source.path, 1)
    evals = find_evals(source, notes)
    evaluation = evals[0] if evals else None
    others = [other for other in evals if (other.kind, other.args) != (evals[0].kind, evals[0].args)]
    if evaluation is not None and others:
        message = (
            f"More than one eval uses the file. Proctor reads {evaluation.name} and not "
            f"{', '.join(sorted({other.name for other in others}))}. To read those, give "
            f"{display_path(source, others[0].registry)} as the suite."
        )
        notes.warn("several-evals", message)
    yield Suite(
        name=_get_suite_name(source) if evaluation is None else evaluation.name, dialect="openai_evals"
    )
    if evaluation is None:
        layout = _default_layout(source, notes)
    else:
        layout = _read_layout(source, evaluation, inner := _start_log(source, evaluation))
        notes.problems += inner.problems
    yield from notes.problems
    rows = read_rows(source.read_lines(), source.path)
    yield from read_cases(rows, source.path, partial(_parse_case, layout, None))


def _read_registry(source: SuiteSource) -> Iterator[Suite | CaseAtLine | Problem]:
    """Reads a registry file: the rows of all its evals."""
    notes = ProblemLog(source.path, 1)
    value = parse_yaml(read_all(source), notes)
    evals = parse_evals(value, file_name(source.path).name)
    if not evals and not notes.has_errors:
        notes.error("no-cases", "The file has no eval with `class`. Pass the YAML of an eval, or its data.")
    alone = len(evals) == 1
    yield Suite(
        name=evals[0].name if alone else file_name(source.path).stem or "suite", dialect="openai_evals"
    )
    yield from notes.problems
    for evaluation in evals:
        notes = _start_log(source, evaluation)
        layout = _read_layout(source, evaluation, notes, name=None if alone else evaluation.name)
        # If the eval is not supported, missing data of this kind is not reported as well.
        has_samples = "samples_jsonl" in evaluation.args or not notes.has_errors
        file = find_data_file(source, evaluation, "samples_jsonl", notes) if has_samples else None
        if notes.has_errors:
            yield from _report_failure(evaluation, notes, file)
            continue
        yield from notes.problems
        if file is not None:
            path = display_path(source, file.path)
            rows = read_rows(BytesIO(file.data), path)
            yield from read_cases(rows, path, partial(_parse_case, layout, path))


def _report_failure(evaluation: Eval, notes: ProblemLog, file: SourceFile | None) -> Iterator[Problem]:
    """Yields the problems of an eval that cannot be read, which exclude all its rows."""
    lines = 1 if file is None else sum(map(bool, map(bytes.strip, BytesIO(file.data))))
    row = UnreadableRow(path=notes.path, line=notes.line, cases=lines)
    for problem in notes.problems:
        yield problem if problem.level == "warning" else replace(problem, case=evaluation.name, row=row)


def _get_suite_name(source: SuiteSource) -> str:
    stem = file_name(source.path).stem
    return basename(source.folder) or stem if stem in _GENERIC_NAMES else stem or "suite"


# --- an eval -----------------------------------------------------------------------------------------------


def _default_layout(source: SuiteSource, notes: ProblemLog) -> Layout:
    """Returns the project's setting for files that no registry names; an error if there is none."""
    kind: Any = source.options.get("evals_class")
    form = get_text_grading(kind, {}) if isinstance(kind, str) else None
    if form is not None:
        return Layout(grading=form)
    classes = ", ".join(TYPES)
    if kind is None:
        message = (
            "No registry names the file, so Proctor does not know how to compare an answer with `ideal`. Put "
            "the "
            'YAML of its eval beside it, or write `evals-class = "CLASS"` in proctor.toml with one of: '
            f"{classes}."
        )
        notes.error("no-class", message)
    else:
        message = f"`evals-class` in proctor.toml is {quote_value(kind)}. {suggestion(str(kind)[:60], TYPES)}"
        notes.error("unknown-class", message)
    return Layout(grading=unscored_grading("Nothing says how an answer is compared with `ideal`."))


def _start_log(source: SuiteSource, evaluation: Eval) -> ProblemLog:
    """Returns notes for problems with an eval, at its entry in the registry."""
    return ProblemLog(display_path(source, evaluation.registry), evaluation.line)


def _read_layout(source: SuiteSource, evaluation: Eval, notes: ProblemLog, name: str | None = None) -> Layout:
    form = get_grading(source, evaluation, notes)
    return Layout(
        grading=form,
        examples=() if notes.has_errors else _read_examples(source, evaluation, notes),
        name=name,
    )


def _read_examples(source: SuiteSource, evaluation: Eval, notes: ProblemLog) -> tuple[Message, ...]:
    """Returns the messages of the first `num_few_shot` examples."""
    count: Any = evaluation.args.get("num_few_shot") or 0
    if type(count) is not int or count < 0 or (count and evaluation.kind != "Match"):
        message = (
            f"`num_few_shot` of {evaluation.name} is {quote_value(count)}; it must be a whole number "
            f"of 0 or more, and only the class Match supports it."
        )
        notes.error("few-shot", message, "num_few_shot")
        return ()
    file = find_data_file(source, evaluation, "few_shot_jsonl", notes) if count else None
    if file is None:
        return ()
    path = display_path(source, file.path)
    messages: list[Message] = []
    items = list(islice(read_rows(BytesIO(file.data), path), count))
    for item in items:
        if isinstance(item, Problem):
            notes.problems.append(replace(item, row=None))  # it keeps no case from being read
            notes.has_errors = True
            continue
        line, row = item
        inner = ProblemLog(path, line, "Example")
        messages += parse_input(FieldReader(row, inner), inner, "sample")
        notes.extend(inner)
    if len(items) < count:
        message = f"`num_few_shot` of {evaluation.name} is {count}, and {path} has {len(items)} examples."
        notes.warn("few-shot", message, "num_few_shot")
    return tuple(messages)


# --- one row -----------------------------------------------------------------------------------------------


def _parse_case(
    layout: Layout, path: str | None, notes: ProblemLog, row: dict[str, Any], _line: int
) -> CaseAtLine:
    """Returns the case of a row; `path` is its file if it is not the suite's own."""
    fields = FieldReader(row, notes)
    fields.drop_null("id")
    case_id = fields.required_text("id") if "id" in fields else f"line-{notes.line}"
    if layout.name is not None and case_id:
        case_id = f"{layout.name}/{case_id}"
    notes.case = case_id or None
    messages = parse_input(fields, notes)
    if layout.examples:
        if isinstance(row.get("input"), str):
            fields.error("few-shot", "input", "is text, but few-shot examples need a list of messages.")
        messages = (*messages[:-1], *layout.examples, *messages[-1:])
    ideal = parse_ideal(fields)
    ideals = [ideal] if isinstance(ideal, str) else ideal or []
    blank = not (ideals and all(text.strip() for text in ideals))
    if blank and (layout.grading.needs_ideal or ideals) and not notes.has_error_at("ideal"):
        what = "has a blank text" if ideals else "is missing or empty"
        fields.error("missing-expected", "ideal", f"{what}; it must be a text or a list of texts.")
    for name in layout.grading.fields:
        if name not in fields:
            fields.report_missing(name, "there, because the judge prompt includes it")
    case = Case(
        id=case_id,
        input=messages,
        expected=ideal,
        assertions=() if notes.has_errors else (layout.grading.make_assertion(ideals, fields),),
        category=layout.name,
        metadata={name: fields.pop(name) for name in fields.remaining_names()},
    )
    return CaseAtLine(case, notes.line, path)
