"""Reads a promptfoo configuration from its bytes: first the fields above its tests, then its cases."""

from __future__ import annotations

from collections.abc import Iterator
from posixpath import basename
from typing import Any, Final

from msgspec.structs import replace

from proctor.dialects.promptfoo.cases import ConfigurationLevel, ParsedTest, build_cases, parse_test
from proctor.dialects.promptfoo.files import FILE_SCHEME, read_value
from proctor.dialects.promptfoo.prompts import read_prompts
from proctor.dialects.promptfoo.providers import parse_target_names
from proctor.dialects.promptfoo.test_files import read_tests
from proctor.dialects.shared.jsonl import file_name, read_all
from proctor.dialects.shared.yaml_files import (
    ignore_fields,
    parse_json,
    parse_yaml,
    refuse_fields,
    require_object,
)
from proctor.model import Problem, Suite, SuiteDefaults
from proctor.protocols import CaseAtLine, SuiteSource
from proctor.validation import FieldReader, ProblemLog

CONFIGURATION_FIELDS: Final = (
    *("description", "prompts", "providers", "targets", "tests", "defaultTest", "evaluateOptions"),
    "assertionTemplates",
)
UNUSED_FIELDS: Final = (
    *("$schema", "commandLineOptions", "derivedMetrics", "env", "metadata", "outputPath", "sharing", "tags"),
    *("tracing", "version", "writeLatestResults"),
)
REFUSED_FIELDS: Final = {
    "scenarios": ("unsupported", "are not supported. Write each combination as a separate test."),
    "extensions": ("code", "are code, and Proctor runs no code from a suite. Remove them."),
    "nunjucksFilters": ("code", "are code, and Proctor runs no code from a suite. Write the texts out."),
    "redteam": (
        "unsupported",
        "needs other services to generate tests, and Proctor fetches nothing. Write the tests out.",
    ),
}
"""Unsupported fields, each with error code and message. Code may change every test; the others add tests."""
EVALUATE_FIELDS: Final = ("maxConcurrency", "repeat", "cache")
UNUSED_EVALUATE_FIELDS: Final = (
    *("delay", "showProgressBar", "timeoutMs", "maxEvalTimeMs", "generateSuggestions"),
)


def parse_suite(source: SuiteSource) -> Iterator[Suite | CaseAtLine | Problem]:
    """Yields the header, the cases in file order, and each problem where it occurs."""
    notes = ProblemLog(source.path, 1, "Test")
    read = parse_json if source.path.lower().endswith(".json") else parse_yaml
    row = require_object(read(read_all(source), notes), notes, "an object with `prompts` and `tests`")
    readable = not notes.has_errors
    fields = FieldReader(row, notes)
    fields.drop_null()
    tests_line = fields.line_for("tests") or 1
    tests: Any = fields.pop("tests")
    suite, common = _parse_heading(fields, source, readable=readable)
    yield suite
    yield from notes.problems
    number = 0
    for item in read_tests(tests, tests_line, source) if readable else ():
        if isinstance(item, Problem):
            yield item
        else:
            number += 1
            yield from build_cases(item, number, common)


def _parse_heading(
    fields: FieldReader, source: SuiteSource, *, readable: bool
) -> tuple[Suite, ConfigurationLevel]:
    notes = fields.problem_log
    heading: dict[str, Any] = {}
    refuse_fields(fields, REFUSED_FIELDS)
    line = fields.line_for("prompts")
    prompts = read_prompts(fields.pop("prompts"), source, notes, line) if readable else ()
    default_line = fields.line_for("defaultTest") or 1
    default = _parse_default_test(fields, source)
    templates = fields.instance("assertionTemplates", dict)
    defaults, repeats = _parse_defaults(fields)
    # A prompt with files becomes the input of each case.
    own_prompts = tuple([prompt.template for prompt in prompts if not prompt.raw_messages])
    defaults = replace(defaults, prompts=own_prompts)
    suite = Suite(
        name=_get_suite_name(source),
        dialect="promptfoo",
        description=fields.text("description"),
        defaults=defaults,
        folder=source.folder,
        notes=heading,
    )
    ignore_fields(fields, UNUSED_FIELDS, heading)
    fields.finish((*CONFIGURATION_FIELDS, *UNUSED_FIELDS))
    common = ConfigurationLevel(
        prompts=prompts,
        default=default,
        default_line=default_line,
        templates=templates or {},
        repeats=repeats,
        source=source,
        used_ids=set(),
    )
    return suite, common


def _get_suite_name(source: SuiteSource) -> str:
    """Returns the file's name, or its folder's if the file is named `promptfooconfig`."""
    name = file_name(source.path).name
    stem = name.rpartition(".")[0] or name
    if stem.lower() == "promptfooconfig":
        return basename(source.folder.replace("\\", "/")) or stem
    return stem or "suite"


def _parse_default_test(fields: FieldReader, source: SuiteSource) -> ParsedTest:
    """Reads `defaultTest`, inline or from a file."""
    line = fields.line_for("defaultTest")
    default_test: Any = fields.pop("defaultTest")
    if isinstance(default_test, str) and default_test.startswith(FILE_SCHEME):
        default_test = read_value(default_test, source, fields.problem_log, "defaultTest", line)
    if default_test is not None and not isinstance(default_test, dict):
        fields.report_wrong_type(
            "defaultTest", default_test, "an object, or the path of a file that contains one"
        )
    inner = FieldReader(
        default_test if isinstance(default_test, dict) else {}, fields.problem_log, "defaultTest."
    )
    inner.drop_null()
    inner.pop("description")
    test = parse_test(inner, source, {})
    inner.finish(("vars", "assert", "threshold", "options", "metadata", "provider", "prompts"))
    return test


def _parse_defaults(fields: FieldReader) -> tuple[SuiteDefaults, int | None]:
    """Returns how the suite is run by default, and the number of repeats."""
    name = "providers" if "providers" in fields else "targets"
    line = fields.line_for(name)
    targets = parse_target_names(fields.pop(name), fields.problem_log, name, line)
    inner = fields.object("evaluateOptions")
    if inner is None:
        return SuiteDefaults(targets=targets, cluster="id"), None
    inner.drop_null()
    concurrency, repeats = inner.integer("maxConcurrency", least=1), inner.integer("repeat", least=1)
    cache = inner.boolean("cache", True) if "cache" in inner else None
    ignore_fields(inner, UNUSED_EVALUATE_FIELDS, {})
    inner.finish((*EVALUATE_FIELDS, *UNUSED_EVALUATE_FIELDS))
    return SuiteDefaults(targets=targets, concurrency=concurrency, cache=cache, cluster="id"), repeats
