"""Writes dialect agentv as YAML: the suite's fields, then each case as one test.

Whatever a suite gives to all its tests is written out in each, so that each test is complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from posixpath import commonprefix
from typing import Any, Final

from msgspec.structs import replace

from proctor.codec import encode
from proctor.dialects.agentv.read.suite import DEFAULT_THRESHOLD, STRATEGIES, UNUSED_FIELDS, parse_heading
from proctor.dialects.agentv.read.tests import SuiteLevel
from proctor.dialects.agentv.write.case import DIALECT_NAME, UNUSED_WORKSPACE_FIELDS, CaseDraft
from proctor.dialects.shared.losses import LossReport, note_suite_losses
from proctor.dialects.shared.output_files import SiblingFiles, collect_attached_files
from proctor.dialects.shared.yaml_writer import dump_yaml
from proctor.model import Case, Problem, Suite, SuiteDefaults
from proctor.protocols import RenderedFile, SuiteSource
from proctor.validation import ProblemLog

_PASS_RULE_REASON: Final = (
    "its tests pass at a threshold from 0 to 1, which is a different rule unless each check scores 1 or 0."
)
_FIELD_PLACES: Final[dict[str, tuple[tuple[str, str], str]]] = {
    "name": (("", "name"), "its name must be text without surrounding white space and without variables."),
    "declared_version": (("", "version"), "its version must not contain a variable."),
    "pass_rule": (("execution", "threshold"), _PASS_RULE_REASON),
    "repeats_rule": (
        ("execution", "trials"),
        "it sets the number of repeats and the rule for all tests together.",
    ),
    "defaults": (("execution", ""), "it accepts up to 50 workers, a budget above 0, and names of targets."),
    "notes": (("", ""), "it has no such fields."),
}
"""The place of each header field, and the message if it cannot be written there."""


def render(suite: Suite, cases: Iterable[Case], *, lossy: bool) -> Iterator[RenderedFile | Problem]:
    """Yields the suite as one file, and the files that its cases attach. See `proctor.protocols.Renderer`."""
    case_list = list(cases)
    common = _find_suite_level(case_list)
    header = LossReport(suite, DIALECT_NAME, lossy=lossy)
    row = _render_heading(suite, common, header)
    yield from header.problems
    yield RenderedFile("", dump_yaml(row).encode("utf-8") if row else b"")
    above, siblings, has_begun = header.lost_fields, SiblingFiles(), False
    for case in case_list:
        files = siblings.check_free(collect_attached_files(case.input))
        draft = CaseDraft(case, common, files, LossReport(case, DIALECT_NAME, lossy=lossy))
        draft.finalize(above)
        yield from (*draft.losses.problems, *draft.fatal_losses.problems)
        if draft.is_refused:
            continue
        case_files = {} if "input" in draft.losses.lost_fields else files or {}
        yield from (RenderedFile(path, data) for path, data in siblings.add(case_files))
        start = "" if has_begun else "tests:\n"
        yield RenderedFile("", (start + dump_yaml([draft.row], 2)).encode("utf-8"))
        above, has_begun = {}, True
    if not has_begun:
        yield RenderedFile("", b"tests: []\n")


def _find_suite_level(cases: list[Case]) -> SuiteLevel:
    """Returns what only the suite can say about its tests: repeats, and tags outside the metadata."""
    if not cases:
        return SuiteLevel()
    tags: tuple[str, ...] = ()
    if any(_has_fixed_metadata(case) and _get_own_tags(case) != case.tags for case in cases):
        # Tags that all of them begin with go to the suite; a test has each tag once.
        tags = tuple(commonprefix([list(case.tags) for case in cases]))
    return SuiteLevel(tags=tags, repeats=cases[0].repeats)


def _has_fixed_metadata(case: Case) -> bool:
    """Whether the metadata must not change: it has tags, or workspace hooks read it."""
    return case.workspace is not None or "tags" in case.metadata


def _get_own_tags(case: Case) -> tuple[Any, ...]:
    own = case.metadata.get("tags")
    return tuple(own) if isinstance(own, list) else ()


# --- the header --------------------------------------------------------------------------------------------


def _render_heading(suite: Suite, common: SuiteLevel, unsaid: LossReport) -> dict[str, Any]:
    """Returns the fields above the tests; what would be read differently is noted and left out."""
    note_suite_losses(unsaid, replace(suite, defaults=SuiteDefaults()), ())
    row = _render_suite(suite, common)
    notes = ProblemLog("", 1)
    read = parse_heading(row, SuiteSource(path="", read_lines=lambda: ()), notes).suite
    expected = replace(suite, defaults=replace(suite.defaults, reuse=None, cluster=None))
    wrong = [problem.field or "" for problem in notes.problems if problem.level == "error"]
    for name, ((outer, inner), why) in _FIELD_PLACES.items():
        place = f"{outer}.{inner}".strip(".")
        fields = [field for field in wrong if field.startswith(place)]
        wrong = [field for field in wrong if field not in fields]
        if fields or encode(getattr(read, name)) != encode(getattr(expected, name)):
            unsaid.note(name, why)
            _drop(row, outer, inner)
    if "pass_rule" in unsaid.lost_fields and suite.pass_rule.threshold is None:
        # The closest rule: no test passes that did not pass before.
        row.setdefault("execution", {})["threshold"] = 1.0
    return row


def _render_suite(suite: Suite, common: SuiteLevel) -> dict[str, Any]:
    threshold = suite.pass_rule.threshold
    defaults, targets = suite.defaults, suite.defaults.targets
    fields = {
        "target": targets[0] if len(targets) == 1 else None,
        "targets": list(targets) if len(targets) > 1 else None,
        "workers": defaults.concurrency,
        "threshold": None if threshold == DEFAULT_THRESHOLD else threshold,
        "trials": _render_trials(suite, common),
        "budget_usd": defaults.budget_usd,
        "cache": defaults.cache,
    }
    execution: dict[str, Any] = {name: value for name, value in fields.items() if value is not None}
    row: dict[str, Any] = {"name": suite.name}
    more = {"description": suite.description, "version": suite.declared_version, "tags": list(common.tags)}
    row |= {name: value for name, value in more.items() if value is not None and value != []}
    row |= {"execution": execution, "workspace": {}}
    for name, value in suite.notes.items():
        outer, _, inner = name.rpartition(".")
        if name in UNUSED_FIELDS:
            row[name] = value
        elif name in ("execution.cache_path", "execution.fail_on_error"):
            execution[inner] = value
        elif name == "execution.trials.cost_limit_usd" and "trials" in execution:
            execution["trials"][inner] = value
        elif outer == "workspace" and inner in UNUSED_WORKSPACE_FIELDS:
            row["workspace"][inner] = value
    return {name: value for name, value in row.items() if value or name not in ("execution", "workspace")}


def _render_trials(suite: Suite, common: SuiteLevel) -> dict[str, Any] | None:
    strategy = next((name for name, rule in STRATEGIES.items() if rule == suite.repeats_rule), None)
    if strategy is None or common.repeats is None:
        return None
    return {"count": common.repeats, "strategy": strategy}


def _drop(row: dict[str, Any], outer: str, inner: str) -> None:
    """Drops a field that cannot be expressed; most of `execution` if the wrong part is unknown."""
    if outer and inner:
        row.get(outer, {}).pop(inner, None)
    elif outer:
        remaining = {name: row.get(outer, {}).get(name) for name in ("threshold", "trials")}
        row[outer] = {name: value for name, value in remaining.items() if value is not None}
    elif inner:
        row.pop(inner, None)
