"""Tables of the fields of records, for the pages that have a marker such as `<!-- record: RunRecord -->`.

Types come from the classes, and descriptions from `about(...)` there, from the docstrings under the fields,
or else from `_TEXTS` below.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import types
from collections.abc import Iterator
from datetime import datetime
from enum import Enum
from importlib import import_module
from itertools import pairwise
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import Meta, Struct, UnsetType
from msgspec.structs import fields

MODULES = (
    "proctor.reports.runs.records",
    "proctor.reports.runs.json",
    "proctor.reports.runs.prompts",
    "proctor.reports.comparison.json",
    "proctor.reports.comparison.grid_json",
    "proctor.reports.study.json",
    "proctor.reports.suites",
)
_MARKER = re.compile(r"^<!-- record: (\w+) -->$", re.MULTILINE)
_WORDS = {str: "text", int: "integer", float: "number", bool: "boolean", datetime: "time", Any: "any"}
_TEXTS = {
    "answers": "Number of answers that the numbers are over.",
    "asked": "Number of requests to the target.",
    "baseline": "The run, prompt or target that is compared with.",
    "baseline_rate": "The pass rate of the baseline over the pairs.",
    "bounds": "The value if everything unmeasured had failed, and if all had passed.",
    "broken": "Number of trials that passed in the baseline only.",
    "broken_cases": "These trials.",
    "by": "The field that `parts` are divided by.",
    "by_category": "The numbers of each category.",
    "by_tag": "The numbers of each tag.",
    "by_target": "The prompts for each target.",
    "cached": "Number of answers from the cache.",
    "calls": "Number of calls.",
    "candidate": "The run, prompt or target that is compared.",
    "candidate_rate": "The pass rate of the candidate over the pairs.",
    "candidates": "The candidates.",
    "case": "The id of the case.",
    "case_id": "The id of the case.",
    "cases": "Number of cases.",
    "category": "The category of the case.",
    "cells": "The run of each prompt on each target.",
    "checks_changed_cases": "Ids of cases that are not paired because their checks differ.",
    "ci95": "The two ends of the 95 % interval, as fractions of 1; null if there is none.",
    "comparisons": "Each pair of runs.",
    "content": "The text.",
    "cost_usd": "The cost in US dollars; null if a price is unknown.",
    "declared_version": "The version in the suite's file.",
    "decision": "Whether the gate is met.",
    "details": "What else the grader reports.",
    "dialect": "The suite format.",
    "difference": "The difference, as a fraction of 1.",
    "differences": "The differences of the levels.",
    "digest": "The digest of the content.",
    "engine": "The engine that made the trials.",
    "entries": "The evidence, one entry for each thing that was checked.",
    "errors": "Number of trials with the verdict ERROR.",
    "exit_code": "The exit code of the command.",
    "failed": "Number of failed trials.",
    "failed_gates": "Names of the assertions below their gates.",
    "failure": "Why there is no answer; null if there is one.",
    "files": "One record for each suite.",
    "finish_reason": "Why the model stopped, in its own words.",
    "finished_at": "When the run ended.",
    "fixed": "Number of trials that passed in the candidate only.",
    "fixed_cases": "These trials.",
    "gate_range": "The pass rates that the gate is compared with.",
    "graded": "Number of answers that were graded.",
    "grader": "The name of the grader.",
    "group": "The id of the runs that one command started.",
    "input_changed_cases": "Ids of cases that are paired though their input changed.",
    "input_tokens": "Tokens of the input.",
    "interaction": "Whether the difference between prompts depends on the target.",
    "interval_by": "The method of the interval.",
    "judge": "What the judges did.",
    "judges": "The names of the judges.",
    "judgments": "The replies of the judges.",
    "kind": "Its kind.",
    "latency_ms": "The latency in milliseconds; null if it was not measured.",
    "levels": "The prompts or targets, best first.",
    "lowest_rank": "The worst rank that it may have.",
    "mean": "The mean.",
    "mean_score": "The mean score of the graded trials.",
    "message": "A full sentence.",
    "min_pass_rate": "The pass rate that the gate requires.",
    "missing": "Prompts and targets without a run.",
    "model": "The model that answered, as the service names it.",
    "name": "The name.",
    "not_measured": "Number of pairs or trials with ERROR or UNSCORED.",
    "not_measured_cases": "These pairs.",
    "notes": "Notes, in sentences.",
    "only_baseline": "Number of cases that only the baseline has.",
    "only_baseline_cases": "Ids of cases that only the baseline has.",
    "only_candidate": "Number of cases that only the candidate has.",
    "only_candidate_cases": "Ids of cases that only the candidate has.",
    "output": "The answer; null if there is none or it is hidden.",
    "output_tokens": "Tokens of the output.",
    "p5": "The 5th percentile.",
    "p50": "The median.",
    "p95": "The 95th percentile.",
    "p_value": "The probability of a difference this large if there is none.",
    "pairs": "Number of pairs of trials.",
    "parts": "The differences in parts of the suite.",
    "pass_rate": "The pass rate, as a fraction of 1.",
    "passed": "Number of passed trials.",
    "path": "The path of the file.",
    "people_pass_rate": "The pass rate that people would give.",
    "planned": "Number of planned trials.",
    "planned_cases": "Number of cases of the whole run.",
    "prices_date": "The date of the prices.",
    "prompt": "The prompt.",
    "prompts": "The prompts.",
    "rate": "The rate, as a fraction of 1.",
    "raw": "What the target returned, if the answer is a part of it.",
    "reason": "The reason, as a sentence.",
    "refused_params": "Parameters that the service refused, so that they were left out.",
    "renamed_cases": "Cases with a different id in each run.",
    "repeat": "The number of the repeat, from 0.",
    "repeats_rule": "How several answers to a case count.",
    "reused": "Number of trials reused from earlier runs.",
    "run": "The id of the run.",
    "runs": "One record for each run.",
    "score": "The weighted mean of the scores.",
    "scores": "The result of each assertion.",
    "sealed": "Whether it is hidden, because it is held out.",
    "shows": "What the difference shows.",
    "split": "`dev` or `holdout`; null if the suite is not divided.",
    "split_notes": "Notes on the split, in sentences.",
    "splits": "The numbers of `dev` and `holdout`.",
    "started_at": "When it began.",
    "status": "The state of the run.",
    "suite": "The name of the suite.",
    "suite_digest": "The digest of the suite.",
    "suite_hash": "The published hash of a suite of the format pramana.",
    "suite_version": "The version of the suite in the store.",
    "tags": "The tags.",
    "target": "The target.",
    "targets": "The targets.",
    "test": "The statistical test.",
    "text": "The text.",
    "total": "Number of trials.",
    "trials_only_baseline": "Number of trials that only the baseline has.",
    "trials_only_candidate": "Number of trials that only the candidate has.",
    "unmatched": "Cases and trials that only one run has.",
    "unscored": "Number of trials with the verdict UNSCORED.",
    "usage": "The tokens used.",
    "value": "The score from 0 to 1; null if the assertion is UNSCORED.",
    "verdict": "The verdict.",
    "warnings": "Warnings, in sentences.",
    "weight": "The weight of the assertion.",
    "outcome": "The verdict on the assertion.",
    "added": "Cases that only the new suite has.",
    "at": "When it was.",
    "basis": "What the noise was measured on.",
    "baseline_text": "The prompt of the baseline.",
    "candidate_median": "The median of the candidate.",
    "categories": "Number of cases of each category.",
    "changed": "Cases that changed, with the fields that differ.",
    "clusters": "Number of clusters of related cases; null if cases are independent.",
    "current": "Whether it is the current version.",
    "description": "The description of the suite.",
    "detect": "The difference that is to be found.",
    "dev": "Number of cases of the part `dev`.",
    "evidence": "The quotation from the answer.",
    "feedback": "What the judge wrote.",
    "field": "The field.",
    "fields": "The fields that differ.",
    "graders": "The names of the graders.",
    "holdout": "Number of cases held out.",
    "id": "The id.",
    "latency_p50_ms": "The median latency in milliseconds.",
    "logprobs": "The probability of each token, if it was requested.",
    "looks": "Number of holdout accesses, or each of them.",
    "mean_size": "The mean number of cases of a cluster.",
    "messages": "The messages.",
    "moved": "Number of cases at another position.",
    "new": "The new suite or value.",
    "noise": "How far two runs differ by chance.",
    "nth": "The number of the judge's reply, from 0.",
    "old": "The old suite or value.",
    "plan": "The plan.",
    "position": "The position of the case in the suite, from 0.",
    "power": "The chance of finding the difference.",
    "prompt_digest": "The digest of what the judge received.",
    "rank": "The best rank that it may have.",
    "reasoning_tokens": "The part of the output that is reasoning.",
    "removed": "Cases that only the old suite has.",
    "renamed": "Cases with another id and the same content.",
    "repeats": "What each number of repeats shows and costs.",
    "role": "The role of the message.",
    "same": "Number of cases that are the same.",
    "saved_at": "When it was saved.",
    "sentences": "The report in sentences.",
    "stage": "`setup`, `target` or `grading`.",
    "suite_cost_usd": "The cost of a run of the suite.",
    "suite_seconds": "The duration of a run of the suite.",
    "suites": "The saved suites.",
    "tool_calls": "The tool calls of the answer.",
    "version": "The version.",
    "versions": "Its versions.",
    "candidate_text": "The prompt of the candidate.",
    "RunRecord.latency_ms": "Latencies of the answers.",
    "RunRecord.target": "The name of the target.",
    "StudyPlanRecord.cases": "Number of cases of the suite.",
    "SuiteRecord.runs": "Its newest runs.",
    "SuiteVersionRecord.runs": "Number of runs of this version.",
}
"""Descriptions of fields, also of those of a single record."""


def fill_records(markdown: str) -> str:
    """Returns a page with a table of fields for each marker."""
    return _MARKER.sub(lambda marker: render_table(find_record(marker[1])), markdown)


def find_record(name: str) -> type[Struct]:
    """Returns the record of that name."""
    for module in map(import_module, MODULES):
        if hasattr(module, name):
            record: type[Struct] = getattr(module, name)
            return record
    raise LookupError(name)


def render_table(record: type[Struct]) -> str:
    """Returns a table of the fields of a record."""
    rows = [f"| `{name}` | {kind} | {text} |" for name, kind, text in describe_fields(record)]
    return "\n".join(["| field | type | meaning |", "|---|---|---|", *rows])


def describe_fields(record: type[Struct]) -> Iterator[tuple[str, str, str]]:
    """Yields the name, type and description of each field, by the name that it has in JSON."""
    hints = get_type_hints(record, include_extras=True)
    docstrings = _field_docstrings(record)
    for field in fields(record):
        hint = hints[field.name]
        name = field.encode_name
        description = _description(hint) or docstrings.get(field.name) or _text_for(record, name)
        yield name, _type_text(hint).replace("|", "\\|"), _sentence(description)


def _sentence(text: str) -> str:
    """Returns a description as a sentence for a table about JSON, in which None is null."""
    words = re.sub(r"\bNone\b", "null", " ".join(text.split())).replace("|", "\\|")
    return f"{words[:1].upper()}{words[1:]}".removesuffix(".") + "." if words else ""


def _text_for(record: type[Struct], name: str) -> str:
    texts = (_TEXTS.get(f"{base.__name__}.{name}") for base in record.__mro__)
    return next(filter(None, texts), _TEXTS.get(name, ""))


def _description(hint: Any) -> str:
    metas = (
        [argument for argument in get_args(hint)[1:] if isinstance(argument, Meta)]
        if _is_annotated(hint)
        else []
    )
    return next((meta.description for meta in metas if meta.description), "")


def _is_annotated(hint: Any) -> bool:
    return get_origin(hint) is Annotated


def _field_docstrings(record: type[Struct]) -> dict[str, str]:
    """Returns the literal under each field of a class and its bases."""
    texts: dict[str, str] = {}
    for base in reversed(record.__mro__):
        if base.__module__.startswith("proctor."):
            (node,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
            body = node.body if isinstance(node, ast.ClassDef) else []
            for field, text in pairwise(body):
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                    value = text.value if isinstance(text, ast.Expr) else None
                    if isinstance(value, ast.Constant) and isinstance(value.value, str):
                        texts[field.target.id] = " ".join(value.value.split())
    return texts


def _type_text(hint: Any) -> str:
    """Returns a type in the words of JSON, with the name of the record for an object."""
    if _is_annotated(hint):
        return _type_text(get_args(hint)[0])
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        parts = [part for part in arguments if part is not UnsetType]
        words = [_type_text(part) for part in parts if part is not type(None)]
        return " or ".join([*words, *(["null"] if type(None) in parts else [])])
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in arguments)
    if origin in (tuple, list):
        items = [argument for argument in arguments if argument is not Ellipsis]
        number = {2: "two "}.get(len(items), "")
        return f"list of {number}{_type_text(items[0])}{'s' if number else ''}" if items else "list"
    if origin is dict:
        return "object" if arguments[1] is Any else f"object of {_type_text(arguments[1])}"
    if isinstance(hint, type) and issubclass(hint, Enum):
        return " or ".join(f"`{value.value}`" for value in hint)
    if isinstance(hint, type) and issubclass(hint, Struct):
        return hint.__name__.removesuffix("Record")
    return _WORDS.get(hint, getattr(hint, "__name__", str(hint)))
