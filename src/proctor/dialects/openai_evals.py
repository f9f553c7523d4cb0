"""Dialect openai_evals: JSON Lines of `input` and `ideal`, as OpenAI's evals keep their data, to a suite.

How an answer is compared with `ideal` stands in no row, but in a registry: YAML that names the file and the
class of its eval. One beside the file, or in the folder where that project keeps its own, decides. Without it
an answer must begin with an ideal, as the class `Match` asks, and a warning says so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from posixpath import basename
from typing import Any, Final

from msgspec import Struct

from proctor.dialects.pramana import ideal_of, input_of
from proctor.dialects.reading import file_name, rows
from proctor.dialects.telling_apart import is_of_openai_evals
from proctor.errors import suggestion
from proctor.fields import Fields, Notes, shown
from proctor.model import Assertion, Case, Problem, Suite
from proctor.ports import Head, Placed, Source

REGISTRIES: Final = ("*.yaml", "*.yml", "../../evals/*.yaml")
"""Where registries are looked for: beside the file, and where its own project has them."""
_UNUSED_NAMES: Final = frozenset(("samples", "test", "data"))
"""Names of files that say nothing of the suite."""

Compare = tuple[str, dict[str, Any]]
"""A grader and its parameters."""


class OpenAiEvals:
    """The dialect; holds nothing."""

    def recognises(self, head: Head) -> str | None:
        """Rows of `input` and `ideal` that lack what each case of dialect pramana has."""
        if is_of_openai_evals(head):
            return "its lines have `input` and `ideal`, and neither `assertion` nor `category`"
        return None

    def read(self, source: Source) -> Iterator[Suite | Placed | Problem]:
        """The header, the cases in file order, and every problem where it is met."""
        found = _registered(source)
        yield Suite(name=found.name or _name(source), dialect="openai_evals")
        yield from found.problems
        for item in rows(source.lines(), source.path):
            if isinstance(item, Problem):
                yield item
                continue
            line, row = item
            notes = Notes(source.path, line, of_case=True)
            case = _case(Fields(row, notes), notes, found)
            yield from notes.problems
            if not notes.failed:
                yield Placed(case, line)


def _name(source: Source) -> str:
    stem = file_name(source.path).stem
    return basename(source.folder) or stem if stem in _UNUSED_NAMES else stem or "suite"


# --- one row -----------------------------------------------------------------------------------------------


def _case(fields: Fields, notes: Notes, found: Eval) -> Case:
    fields.forgive_null("id")
    case_id = fields.required_text("id") if "id" in fields else f"line-{notes.line}"
    notes.case = case_id or None
    messages = input_of(fields, notes)
    ideal = ideal_of(fields)
    ideals = [ideal] if isinstance(ideal, str) else ideal or []
    if not notes.noted("ideal") and not (ideals and all(text.strip() for text in ideals)):
        what = "has a blank text" if ideals else "is missing or empty"
        fields.error("missing-expected", "ideal", f"{what}; it must be a text or a list of texts.")
    grader, params = ("", {}) if notes.failed else _CLASSES[found.kind](ideals, fields, found.args)
    return Case(
        id=case_id,
        input=messages,
        expected=ideal,
        assertions=(Assertion(grader=grader, params=params, label=found.kind),),
        metadata={name: fields.take(name) for name in fields.names()},
    )


def _match(ideals: list[str], _fields: Fields, _args: dict[str, Any]) -> Compare:
    if len(ideals) == 1:
        return "starts_with", {"value": ideals[0]}
    either = "|".join(re.escape(ideal.strip()) for ideal in ideals)
    return "regex", {"pattern": rf"\A\s*(?:{either})"}


def _includes(ideals: list[str], _fields: Fields, args: dict[str, Any]) -> Compare:
    params: dict[str, Any] = {"ignore_case": True} if args.get("ignore_case") is True else {}
    if len(ideals) == 1:
        return "contains", {"value": ideals[0], **params}
    return "contains_any", {"values": ideals, **params}


def _fuzzy_match(ideals: list[str], _fields: Fields, _args: dict[str, Any]) -> Compare:
    return "fuzzy_match", {"values": ideals}


def _json_match(ideals: list[str], fields: Fields, _args: dict[str, Any]) -> Compare:
    values: list[Any] = []
    for ideal in ideals:
        try:
            values.append(json.loads(ideal))
        except (ValueError, RecursionError):
            message = f"has {shown(ideal)}, which is not JSON, and JsonMatch compares JSON."
            fields.error("bad-json", "ideal", message)
    return "json_schema", {"schema": {"enum": values}, "strip_fences": False}


def _number(grader: str) -> Callable[[list[str], Fields, dict[str, Any]], Compare]:
    """A class that compares numbers; of several ideals any may be meant."""

    def compare(ideals: list[str], _fields: Fields, args: dict[str, Any]) -> Compare:
        own = {name: args[name] for name in ("rel_tolerance",) if name in args}
        checks = [{"grader": grader, "params": {"value": ideal, **own}} for ideal in ideals]
        if len(checks) == 1:
            return grader, {"value": ideals[0], **own}
        members = [{"name": str(nth), "assertion": check} for nth, check in enumerate(checks, 1)]
        aggregator = {"type": "threshold", "threshold": 1 / len(members)}
        return "composite", {"members": members, "aggregator": aggregator}

    return compare


_CLASSES: Final[dict[str, Callable[[list[str], Fields, dict[str, Any]], Compare]]] = {
    "Match": _match,
    "Includes": _includes,
    "FuzzyMatch": _fuzzy_match,
    "JsonMatch": _json_match,
    "NumericMatch": _number("numeric_match"),
    "NumericEqual": _number("numeric_equal"),
}
"""How an answer is compared, by the name of the eval's class."""
TYPES: Final = tuple(_CLASSES)


# --- the registry ------------------------------------------------------------------------------------------


class Eval(Struct, frozen=True, kw_only=True):
    """What a registry says of the file."""

    kind: str = "Match"
    name: str = ""
    args: dict[str, Any] = {}
    problems: tuple[Problem, ...] = ()


def _registered(source: Source) -> Eval:
    """The eval whose data the file is; the first where there are several."""
    from proctor.dialects.yaml_reading import shown_path, yaml_of  # most runs are of another dialect

    notes = Notes(source.path, 1)
    own = file_name(source.path).name
    named: list[tuple[str, dict[str, Any]]] = []
    for path in dict.fromkeys(path for pattern in REGISTRIES for path in source.expand(pattern)):
        found = source.find(path)
        if found is None or own.encode() not in found.data:
            continue
        inner = Notes(shown_path(source, path), 1)
        value = yaml_of(found.data, inner)
        if inner.failed:
            notes.warn("bad-registry", f"{path} names {own} and cannot be read: {inner.problems[0].message}")
        for name, entry in value.items() if isinstance(value, dict) else ():
            if isinstance(entry, dict) and _is_about(entry, source, beside="/" not in path):
                named.append((name, entry))
    if not named:
        notes.warn(
            "default-class",
            "No registry names the file, so an answer must begin with an ideal, as the class Match asks. Put "
            "the eval's YAML beside it if another class is meant.",
        )
        return Eval(problems=tuple(notes.problems))
    return _eval_of(named, notes)


def _is_about(entry: dict[str, Any], source: Source, *, beside: bool) -> bool:
    """Whether an entry of a registry names the file as its data."""
    args = entry.get("args")
    data = args.get("samples_jsonl") if isinstance(args, dict) else None
    if not isinstance(data, str) or not isinstance(entry.get("class"), str):
        return False
    name = file_name(source.path).name
    return (f"{source.folder}/{name}").endswith(f"/{data}") or (beside and basename(data) == name)


def _eval_of(named: list[tuple[str, dict[str, Any]]], notes: Notes) -> Eval:
    name, entry = named[0]
    kind = entry["class"].rpartition(":")[2]
    others = sorted({other for other, each in named if each["class"] != entry["class"]})
    if others:
        message = f"More than one eval names the file; {name} is read, and not {', '.join(others)}."
        notes.warn("several-evals", message)
    if kind not in _CLASSES:
        notes.error(
            "unknown-class",
            f"The registry says that {name} is of class {shown(kind)}, which is not read. "
            f"{suggestion(kind[:60], tuple(_CLASSES))}",
        )
        kind = "Match"
    args = entry["args"]
    if args.get("num_few_shot"):
        message = f"{name} asks for few-shot examples, which are not read; put them into each `input`."
        notes.error("few-shot", message)
    return Eval(kind=kind, name=name, args=args, problems=tuple(notes.problems))


DIALECT = OpenAiEvals()
