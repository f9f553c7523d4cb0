"""Reads rows of OpenAI's evals as cases: a file of rows, or all files that a registry's YAML names.

For a file of rows, the nearest registry that names it decides how answers are judged. Without one, the
project must name the class: a wrong class would give wrong verdicts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import BytesIO
from posixpath import basename
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from proctor.dialects.openai_evals.classes import TYPES, Form, form_of, text_form, unknown
from proctor.dialects.openai_evals.registry import Eval, data_of, evals_about, evals_of
from proctor.dialects.pramana.reader import ideal_of, input_of
from proctor.dialects.shared.jsonl import file_name, rows, whole
from proctor.dialects.shared.yaml_files import shown_path, yaml_of
from proctor.errors import suggestion
from proctor.model import Case, Message, Problem, Row, Suite
from proctor.protocols import Found, Placed, Source
from proctor.validation import Fields, Notes, shown

_YAML: Final = (".yaml", ".yml")
_UNUSED_NAMES: Final = frozenset(("samples", "test", "data"))
"""File names that say nothing about the suite."""


class Layout(Struct, frozen=True, kw_only=True):
    """How the rows of one eval become cases."""

    form: Form
    examples: tuple[Message, ...] = ()
    """Messages inserted before the last message of each row."""
    name: str | None = None
    """The eval's name, if the suite has several."""


def suite_of(source: Source) -> Iterator[Suite | Placed | Problem]:
    """Yields the header, the cases in file order, and each problem where it occurs."""
    if file_name(source.path).suffix.lower() in _YAML:
        yield from _read_registry(source)
    else:
        yield from _read_rows(source)


def _read_rows(source: Source) -> Iterator[Suite | Placed | Problem]:
    """Reads a file of rows, whose eval is looked up in the registries around it."""
    notes = Notes(source.path, 1)
    evals = evals_about(source, notes)
    evaluation = evals[0] if evals else None
    others = [other for other in evals if (other.kind, other.args) != (evals[0].kind, evals[0].args)]
    if evaluation is not None and others:
        message = (
            f"More than one eval names the file; {evaluation.name} is read, and not "
            f"{', '.join(sorted({other.name for other in others}))}. To read those, give "
            f"{shown_path(source, others[0].registry)} as the suite."
        )
        notes.warn("several-evals", message)
    yield Suite(name=_name(source) if evaluation is None else evaluation.name, dialect="openai_evals")
    if evaluation is None:
        layout = _default(source, notes)
    else:
        layout = _layout(source, evaluation, inner := _start_log(source, evaluation))
        notes.problems += inner.problems
    yield from notes.problems
    yield from _cases(source.lines(), source.path, layout, own=True)


def _read_registry(source: Source) -> Iterator[Suite | Placed | Problem]:
    """Reads a registry file: the rows of all its evals."""
    notes = Notes(source.path, 1)
    value = yaml_of(whole(source), notes)
    evals = evals_of(value, file_name(source.path).name)
    if not evals and not notes.failed:
        notes.error("no-cases", "The file has no eval with `class`. Give the YAML of an eval, or its data.")
    alone = len(evals) == 1
    yield Suite(
        name=evals[0].name if alone else file_name(source.path).stem or "suite", dialect="openai_evals"
    )
    yield from notes.problems
    for evaluation in evals:
        notes = _start_log(source, evaluation)
        layout = _layout(source, evaluation, notes, name=None if alone else evaluation.name)
        # If the eval is not supported, missing data of this kind is not reported as well.
        has_samples = "samples_jsonl" in evaluation.args or not notes.failed
        file = data_of(source, evaluation, "samples_jsonl", notes) if has_samples else None
        if notes.failed:
            yield from _report_failure(evaluation, notes, file)
            continue
        yield from notes.problems
        if file is not None:
            path = shown_path(source, file.path)
            yield from _cases(BytesIO(file.data), path, layout)


def _report_failure(evaluation: Eval, notes: Notes, file: Found | None) -> Iterator[Problem]:
    """Yields the problems of an eval that cannot be read, which exclude all its rows."""
    lines = 1 if file is None else sum(map(bool, map(bytes.strip, BytesIO(file.data))))
    row = Row(path=notes.path, line=notes.line, cases=lines)
    for problem in notes.problems:
        yield problem if problem.level == "warning" else replace(problem, case=evaluation.name, row=row)


def _name(source: Source) -> str:
    stem = file_name(source.path).stem
    return basename(source.folder) or stem if stem in _UNUSED_NAMES else stem or "suite"


# --- an eval -----------------------------------------------------------------------------------------------


def _default(source: Source, notes: Notes) -> Layout:
    """Returns the project's setting for files that no registry names; an error if there is none."""
    kind: Any = source.options.get("evals_class")
    form = text_form(kind, {}) if isinstance(kind, str) else None
    if form is not None:
        return Layout(form=form)
    classes = ", ".join(TYPES)
    if kind is None:
        message = (
            "No registry names the file, so how an answer is compared with `ideal` is not known. Put the "
            'YAML of its eval beside it, or write `evals-class = "CLASS"` in proctor.toml with one of: '
            f"{classes}."
        )
        notes.error("no-class", message)
    else:
        message = f"`evals-class` in proctor.toml is {shown(kind)}. {suggestion(str(kind)[:60], TYPES)}"
        notes.error("unknown-class", message)
    return Layout(form=unknown("Nothing says how an answer is compared with `ideal`."))


def _start_log(source: Source, evaluation: Eval) -> Notes:
    """Returns notes for problems with an eval, at its entry in the registry."""
    return Notes(shown_path(source, evaluation.registry), evaluation.line)


def _layout(source: Source, evaluation: Eval, notes: Notes, name: str | None = None) -> Layout:
    form = form_of(source, evaluation, notes)
    return Layout(form=form, examples=() if notes.failed else _examples(source, evaluation, notes), name=name)


def _examples(source: Source, evaluation: Eval, notes: Notes) -> tuple[Message, ...]:
    """Returns the messages of the first `num_few_shot` examples."""
    count: Any = evaluation.args.get("num_few_shot") or 0
    if type(count) is not int or count < 0 or (count and evaluation.kind != "Match"):
        message = (
            f"`num_few_shot` of {evaluation.name} is {shown(count)}; it must be a whole number of 0 or more, "
            "and only the class Match has it."
        )
        notes.error("few-shot", message, "num_few_shot")
        return ()
    file = data_of(source, evaluation, "few_shot_jsonl", notes) if count else None
    if file is None:
        return ()
    path = shown_path(source, file.path)
    messages: list[Message] = []
    number = 0
    for item in rows(BytesIO(file.data), path):
        if number == count:
            break
        number += 1
        if isinstance(item, Problem):
            notes.problems.append(replace(item, row=None))  # it keeps no case from being read
            notes.failed = True
            continue
        line, row = item
        inner = Notes(path, line, "Example")
        messages += input_of(Fields(row, inner), inner, "sample")
        notes.problems += inner.problems
        notes.failed |= inner.failed
    if number < count:
        message = f"`num_few_shot` of {evaluation.name} is {count}, and {path} has {number} examples."
        notes.warn("few-shot", message, "num_few_shot")
    return tuple(messages)


# --- one row -----------------------------------------------------------------------------------------------


def _cases(
    lines: Iterable[bytes], path: str, layout: Layout, *, own: bool = False
) -> Iterator[Placed | Problem]:
    """Yields the cases of a file of rows; `own` means the suite's own file."""
    for item in rows(lines, path):
        if isinstance(item, Problem):
            yield item
            continue
        line, row = item
        notes = Notes(path, line, of_case=True)
        case = _case(row, notes, layout)
        yield from notes.problems
        if not notes.failed:
            yield Placed(case, line, None if own else path)


def _case(row: dict[str, Any], notes: Notes, layout: Layout) -> Case:
    fields = Fields(row, notes)
    fields.forgive_null("id")
    case_id = fields.required_text("id") if "id" in fields else f"line-{notes.line}"
    if layout.name is not None and case_id:
        case_id = f"{layout.name}/{case_id}"
    notes.case = case_id or None
    messages = input_of(fields, notes)
    if layout.examples:
        if isinstance(row.get("input"), str):
            fields.error("few-shot", "input", "is a text, and few-shot examples stand only between messages.")
        messages = (*messages[:-1], *layout.examples, *messages[-1:])
    ideal = ideal_of(fields)
    ideals = [ideal] if isinstance(ideal, str) else ideal or []
    blank = not (ideals and all(text.strip() for text in ideals))
    if blank and (layout.form.needs_ideal or ideals) and not notes.noted("ideal"):
        what = "has a blank text" if ideals else "is missing or empty"
        fields.error("missing-expected", "ideal", f"{what}; it must be a text or a list of texts.")
    for name in layout.form.fields:
        if name not in fields:
            fields.missing(name, "there, as the prompt for the judge shows it")
    return Case(
        id=case_id,
        input=messages,
        expected=ideal,
        assertions=() if notes.failed else (layout.form.assertion(ideals, fields),),
        category=layout.name,
        metadata={name: fields.take(name) for name in fields.names()},
    )
