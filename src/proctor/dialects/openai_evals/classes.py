"""Classes of OpenAI's evals to assertions: how an answer is compared with `ideal`.

Answers are compared as in the original: `Match` is `startswith` on the answer as it is, `Includes` finds a
text in it, and a class with a judge assigns the answer to one of several choices.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from string import Formatter
from typing import Any, Final

from msgspec import Struct

from proctor.dialects.openai_evals.registry import Eval, find_spec
from proctor.errors import suggestion
from proctor.model import Assertion
from proctor.protocols import SuiteSource
from proctor.validation import FieldReader, ProblemLog, quote_value

GraderParams = tuple[str, dict[str, Any]]
"""A grader and its parameters."""
MODEL_GRADED_CLASS: Final = "ModelBasedClassify"

_FACT_SCORES: Final = {"A": 1.0, "B": 1.0, "C": 1.0, "D": 0.0, "E": 1.0}
"""The scores of `fact`, which defines none: only D says that the answer disagrees."""
_FIELD_NAME: Final = re.compile(r"[\w-]+")
_UNUSED_ARGS: Final = ("eval_kwargs", "sample_kwargs", "match_fn")


class EvalGrading(Struct, frozen=True, kw_only=True):
    """How the answers of one eval are graded."""

    kind: str
    compare: Callable[[list[str], FieldReader], GraderParams]
    needs_ideal: bool = True
    fields: tuple[str, ...] = ()
    """Further fields that each row must have, as the judge is shown them."""

    def make_assertion(self, ideals: list[str], fields: FieldReader) -> Assertion:
        """Returns the assertion of a row."""
        grader, params = self.compare(ideals, fields)
        return Assertion(grader=grader, params=params, label=self.kind)


def unscored_grading(reason: str) -> EvalGrading:
    """Returns a grading that leaves every answer unscored."""
    return EvalGrading(
        kind="unscored", compare=lambda *_: ("unscored", {"reason": reason}), needs_ideal=False
    )


def get_grading(source: SuiteSource, evaluation: Eval, notes: ProblemLog) -> EvalGrading:
    """Returns how an eval is graded; an error if its class or arguments are not supported."""
    if evaluation.kind == MODEL_GRADED_CLASS:
        form = _read_model_graded(source, evaluation, notes)
    else:
        form = get_text_grading(evaluation.kind, evaluation.args)
    if form is None:
        if not notes.has_errors:
            message = (
                f"{evaluation.name} has the class {quote_value(evaluation.kind)}, which Proctor does not "
                f"support. "
                f"{suggestion(evaluation.kind[:60], (*TYPES, MODEL_GRADED_CLASS))}"
            )
            notes.error("unknown-class", message, "class")
        return unscored_grading(f"How {evaluation.name} judges an answer is not read.")
    return form


def get_text_grading(kind: str, args: dict[str, Any]) -> EvalGrading | None:
    """Returns the grading of a class that compares texts; None for any other class."""
    compare = _TEXT_CLASSES.get(kind)
    if compare is None:
        return None
    return EvalGrading(kind=kind, compare=lambda ideals, fields: compare(ideals, fields, args))


# --- texts -------------------------------------------------------------------------------------------------


def _compare_match(ideals: list[str], _fields: FieldReader, _args: dict[str, Any]) -> GraderParams:
    if len(ideals) == 1:
        return "starts_with", {"value": ideals[0], "trim": False}
    return "regex", {"pattern": rf"\A(?:{'|'.join(map(re.escape, ideals))})"}


def _compare_includes(ideals: list[str], _fields: FieldReader, args: dict[str, Any]) -> GraderParams:
    params: dict[str, Any] = {"ignore_case": True} if args.get("ignore_case") is True else {}
    if len(ideals) == 1:
        return "contains", {"value": ideals[0], **params}
    return "contains_any", {"values": ideals, **params}


def _compare_json(ideals: list[str], fields: FieldReader, _args: dict[str, Any]) -> GraderParams:
    values: list[Any] = []
    for ideal in ideals:
        try:
            values.append(json.loads(ideal))
        except (ValueError, RecursionError):
            message = f"has {quote_value(ideal)}, which is not JSON, but JsonMatch compares JSON."
            fields.error("bad-json", "ideal", message)
    return "json_schema", {"schema": {"enum": values}, "strip_fences": False}


def _number_comparison(grader: str) -> Callable[[list[str], FieldReader, dict[str, Any]], GraderParams]:
    """Returns a comparison of numbers; with several ideals, one must match."""

    def compare(ideals: list[str], _fields: FieldReader, args: dict[str, Any]) -> GraderParams:
        own = {"rel_tolerance": args["rel_tolerance"]} if "rel_tolerance" in args else {}
        checks = [{"grader": grader, "params": {"value": ideal, **own}} for ideal in ideals]
        if len(checks) == 1:
            return grader, {"value": ideals[0], **own}
        members = [{"name": str(nth), "assertion": check} for nth, check in enumerate(checks, 1)]
        aggregator = {"type": "threshold", "threshold": 1 / len(members)}
        return "composite", {"members": members, "aggregator": aggregator}

    return compare


_TEXT_CLASSES: Final[dict[str, Callable[[list[str], FieldReader, dict[str, Any]], GraderParams]]] = {
    "Match": _compare_match,
    "Includes": _compare_includes,
    "FuzzyMatch": lambda ideals, _fields, _args: ("fuzzy_match", {"values": ideals}),
    "JsonMatch": _compare_json,
    "NumericMatch": _number_comparison("numeric_match"),
    "NumericEqual": _number_comparison("numeric_equal"),
}
TYPES: Final = tuple(_TEXT_CLASSES)
"""The classes that compare texts, which `evals-class` in `proctor.toml` can name."""


# --- judges ------------------------------------------------------------------------------------------------


def _read_model_graded(source: SuiteSource, evaluation: Eval, notes: ProblemLog) -> EvalGrading | None:
    """Returns the grading of a class whose judge uses a prompt of the registry."""
    name: Any = evaluation.args.get("modelgraded_spec")
    if not isinstance(name, str):
        message = (
            f"{evaluation.name} has the class {MODEL_GRADED_CLASS} and no `modelgraded_spec`; add the "
            f"name of its prompt."
        )
        notes.error("missing-field", message, "modelgraded_spec")
        return None
    spec = find_spec(source, evaluation, name, notes)
    if spec is None:
        return None
    unread = _find_unsupported(evaluation, spec)
    if unread is not None:
        notes.error("unsupported", f"{evaluation.name} {unread}.", "modelgraded_spec")
        return None
    choices = _parse_choices(spec)
    scores = None if choices is None else _parse_scores(name, choices, spec.get("choice_scores"))
    if not isinstance(spec.get("prompt"), str):
        problem = "has a `prompt` that is not text"
    elif choices is None:
        problem = "has `choice_strings` that are not a list of choices"
    elif scores is None:
        problem = (
            "has no `choice_scores` with a number for each choice, so it is not known which answers "
            "pass. Add them to the YAML of the prompt"
        )
    else:
        return _make_judge_grading(evaluation, spec, scores, notes)
    notes.error("bad-spec", f"The prompt {name!r} of {evaluation.name} {problem}.", "modelgraded_spec")
    return None


def _find_unsupported(evaluation: Eval, spec: dict[str, Any]) -> str | None:
    """Returns what an eval does with its judge that is not supported, as a clause."""
    outputs = spec.get("input_outputs")
    if not isinstance(outputs, dict) or list(outputs) != ["input"] or not isinstance(outputs["input"], str):
        return (
            "compares the answers to several inputs, but a case has one input. Write one case for each input"
        )
    if evaluation.args.get("multicomp_n", 1) != 1 or str(spec.get("choice_strings")).startswith("from_n"):
        return "compares several answers to one input. Have a judge score each answer instead"
    if evaluation.args.get("metaeval"):
        return "measures a judge (`metaeval`). `proctor certify --judge` does that with labels"
    return None


def _parse_choices(spec: dict[str, Any]) -> list[str] | None:
    strings = spec.get("choice_strings")
    choices = list(strings) if isinstance(strings, str | list) else []
    texts = [choice for choice in choices if isinstance(choice, str) and choice.strip()]
    return texts if texts and len(texts) == len(choices) == len(set(texts)) else None


def _parse_scores(name: str, choices: list[str], raw_scores: Any) -> dict[str, float] | None:
    """Returns the score of each choice, scaled from 0 to 1; None if they are invalid."""
    if raw_scores is None and name == "fact" and choices == list(_FACT_SCORES):
        return _FACT_SCORES
    try:
        raw = choices if raw_scores == "from_strings" else [raw_scores[choice] for choice in choices]
        scores = [float(score) for score in raw]
    except (TypeError, KeyError, ValueError):
        return None
    lowest, highest = min(scores), max(scores)
    if not 0 < highest - lowest < float("inf"):
        return None
    return {
        choice: (score - lowest) / (highest - lowest) for choice, score in zip(choices, scores, strict=True)
    }


def _make_judge_grading(
    evaluation: Eval, spec: dict[str, Any], scores: dict[str, float], notes: ProblemLog
) -> EvalGrading | None:
    """Returns the grading for a judge prompt, with its placeholders translated to the grader's names."""
    more: Any = evaluation.args.get("modelgraded_spec_args") or {}
    variables = {"input": "input", spec["input_outputs"]["input"]: "output", "ideal": "expected_output"}
    template, fields = "", []
    try:
        for words, name, *_ in Formatter().parse(spec["prompt"]):
            template += words
            if name is None:
                continue
            if isinstance(more, dict) and name in more:
                template += str(more[name])
            elif name in variables:
                template += f"{{{{ {variables[name]} }}}}"
            elif _FIELD_NAME.fullmatch(name):
                template += f"{{{{ metadata.{name} }}}}"
                fields.append(name)
            else:
                raise ValueError(f"{{{name[:60]}}} is not the name of a field")
    except ValueError as error:
        name = evaluation.args["modelgraded_spec"]
        message = f"The prompt {name!r} of {evaluation.name} cannot be read: {error}."
        notes.error("bad-spec", message, "modelgraded_spec")
        return None
    for name in _UNUSED_ARGS:
        if name in evaluation.args:
            notes.warn("no-effect", f"`{name}` of {evaluation.name} has no effect here.", name)
    params = {"prompt": template, "choices": scores}
    return EvalGrading(
        kind=evaluation.kind,
        compare=lambda *_: ("classification", params),
        needs_ideal="{{ expected_output }}" in template,
        fields=tuple(dict.fromkeys(fields)),
    )
