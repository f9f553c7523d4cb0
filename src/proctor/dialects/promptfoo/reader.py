"""Reads a promptfoo configuration from its bytes: first the fields above its tests, then its cases."""

from __future__ import annotations

from collections.abc import Iterator
from posixpath import basename
from typing import Any, Final

from proctor.dialects.promptfoo.cases import Common, Test, cases_of, test_of
from proctor.dialects.promptfoo.files import SCHEME, value_of
from proctor.dialects.promptfoo.prompts import prompts_of
from proctor.dialects.promptfoo.providers import targets_of
from proctor.dialects.promptfoo.test_files import tests_of
from proctor.dialects.shared.jsonl import file_name, whole
from proctor.dialects.shared.yaml_files import json_of, without_effect, yaml_of
from proctor.model import Defaults, Problem, Suite
from proctor.protocols import Placed, Source
from proctor.validation import Fields, Notes, kind_of

CONFIGURATION: Final = (
    *("description", "prompts", "providers", "targets", "tests", "defaultTest", "evaluateOptions"),
    "assertionTemplates",
)
WITHOUT_EFFECT: Final = (
    *("$schema", "commandLineOptions", "derivedMetrics", "env", "metadata", "outputPath", "sharing", "tags"),
    *("tracing", "version", "writeLatestResults"),
)
REFUSED: Final = {
    "scenarios": ("unsupported", "are not read. Write each combination as a test of its own."),
    "extensions": ("code", "are code, and no code of a suite is run. Remove them."),
    "nunjucksFilters": ("code", "are code, and no code of a suite is run. Write the texts out."),
    "redteam": (
        "unsupported",
        "asks other services to make tests, and nothing is fetched. Write the tests out.",
    ),
}
"""Unsupported fields, each with error code and message. Code may change every test; the others add tests."""
EVALUATE: Final = ("maxConcurrency", "repeat", "cache")
UNUSED_EVALUATE: Final = ("delay", "showProgressBar", "timeoutMs", "maxEvalTimeMs", "generateSuggestions")

_NAME: Final = "promptfooconfig"


def suite_of(source: Source) -> Iterator[Suite | Placed | Problem]:
    """Yields the header, the cases in file order, and each problem where it occurs."""
    notes = Notes(source.path, 1, "Test")
    row = _configuration(source, notes)
    readable = not notes.failed
    fields = Fields(row, notes)
    fields.forgive_null(*fields.names())
    tests_line = fields.line_of("tests") or 1
    tests: Any = fields.take("tests")
    suite, common = _heading(fields, source, readable=readable)
    yield suite
    yield from notes.problems
    number = 0
    for item in tests_of(tests, tests_line, source) if readable else ():
        if isinstance(item, Problem):
            yield item
        else:
            number += 1
            yield from cases_of(item, number, common)


def _configuration(source: Source, notes: Notes) -> dict[str, Any]:
    read = json_of if source.path.lower().endswith(".json") else yaml_of
    value = read(whole(source), notes)
    if isinstance(value, dict):
        return value
    if not notes.failed:
        actual_kind = "empty" if value is None else kind_of(value)
        notes.error(
            "not-a-suite", f"The file is {actual_kind}; it must be an object with `prompts` and `tests`."
        )
    return {}


def _heading(fields: Fields, source: Source, *, readable: bool) -> tuple[Suite, Common]:
    notes = fields.notes
    heading: dict[str, Any] = {}
    for name, (code, why) in REFUSED.items():
        if name in fields:
            fields.take(name)
            fields.error(code, name, why)
    line = fields.line_of("prompts")
    prompts = prompts_of(fields.take("prompts"), source, notes, line) if readable else ()
    default_line = fields.line_of("defaultTest") or 1
    default = _default(fields, source)
    templates: Any = fields.take("assertionTemplates")
    if templates is not None and not isinstance(templates, dict):
        fields.wrong("assertionTemplates", templates, "an object")
    defaults, repeats = _defaults(fields)
    suite = Suite(
        name=_name(source),
        dialect="promptfoo",
        description=fields.text("description"),
        defaults=defaults,
        folder=source.folder,
        notes=heading,
    )
    without_effect(fields, WITHOUT_EFFECT, heading)
    fields.finish((*CONFIGURATION, *WITHOUT_EFFECT))
    common = Common(
        prompts=prompts,
        default=default,
        default_line=default_line,
        templates=templates if isinstance(templates, dict) else {},
        repeats=repeats,
        source=source,
        names=set(),
    )
    return suite, common


def _name(source: Source) -> str:
    """Returns the file's name, or its folder's if the file is named `promptfooconfig`."""
    name = file_name(source.path).name
    stem = name.rpartition(".")[0] or name
    if stem.lower() == _NAME:
        return basename(source.folder.replace("\\", "/")) or stem
    return stem or "suite"


def _default(fields: Fields, source: Source) -> Test:
    """Reads `defaultTest`, inline or from a file."""
    line = fields.line_of("defaultTest")
    default_test: Any = fields.take("defaultTest")
    if isinstance(default_test, str) and default_test.startswith(SCHEME):
        default_test = value_of(default_test, source, fields.notes, "defaultTest", line)
    if default_test is not None and not isinstance(default_test, dict):
        fields.wrong("defaultTest", default_test, "an object, or a file with one")
    inner = Fields(default_test if isinstance(default_test, dict) else {}, fields.notes, "defaultTest.")
    inner.forgive_null(*inner.names())
    inner.take("description")
    test = test_of(inner, source, {})
    inner.finish(("vars", "assert", "threshold", "options", "metadata", "provider"))
    return test


def _defaults(fields: Fields) -> tuple[Defaults, int | None]:
    """Returns how the suite is run by default, and the number of repeats."""
    name = "providers" if "providers" in fields else "targets"
    line = fields.line_of(name)
    targets = targets_of(fields.take(name), fields.notes, name, line)
    inner = fields.object("evaluateOptions")
    if inner is None:
        return Defaults(targets=targets), None
    inner.forgive_null(*inner.names())
    concurrency, repeats = inner.integer("maxConcurrency", least=1), inner.integer("repeat", least=1)
    cache = inner.truth("cache", True) if "cache" in inner else None
    for unused in UNUSED_EVALUATE:
        if unused in inner:
            inner.take(unused)
            inner.warn("no-effect", unused, "has no effect here.")
    inner.finish((*EVALUATE, *UNUSED_EVALUATE))
    return Defaults(targets=targets, concurrency=concurrency, cache=cache), repeats
