"""Detects the dialect of a file from its first lines.

Every dialect gives its own reason to recognise a file. No reason, or more than one, is an error that names
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from os.path import splitext

from proctor.dialects.shared.csv_rows import detect_separator, parse_column_names
from proctor.dialects.shared.jsonl import STRAY_RETURN
from proctor.dialects.shared.non_suite_yaml import detect_non_suite
from proctor.dialects.shared.signatures import YAML_ENDINGS, is_agentv_results
from proctor.errors import SuiteError
from proctor.model import Problem
from proctor.protocols import Dialect, FileHead, SuiteSource
from proctor.validation import quote_value

_ANSWER_FIELDS = (
    "expected",
    "expected_output",
    "assertion",
    "assertions",
    "answer",
    "ideal",
    "target",
    "criteria",
)
"""Fields by which the formats with one case in a line grade an answer."""


def may_be_suite(source: SuiteSource, dialects: Iterable[Dialect]) -> bool:
    """Whether a file has an ending of the dialects and may be a suite, not another program's settings.

    Raises:
        SuiteError: it is too large to tell.
    """
    ending = splitext(source.path)[1].lower()  # noqa: PTH122  # a path of an upload, too
    return any(ending in dialect.endings and dialect.may_be_suite(source) for dialect in dialects)


def detect_folder(source: SuiteSource, dialects: Mapping[str, Dialect]) -> str:
    """Returns the name of the dialect that reads all files of a folder as one suite.

    Raises:
        SuiteError: the folder has tests of several dialects (`ambiguous-dialect`).
    """
    readers = {name: dialect for name, dialect in dialects.items() if dialect.reads_folders}
    if len(readers) == 1:
        return next(iter(readers))
    matches = [name for name, dialect in readers.items() if _has_tests(source, dialect)]
    if len(matches) > 1:
        names = ", ".join(matches)
        message = (
            f"The folder contains tests in more than one suite format: {names}. Choose one with --dialect."
        )
        raise SuiteError([Problem(code="ambiguous-dialect", message=message, path=source.path, line=1)])
    return matches[0] if matches else next(iter(readers))


def _has_tests(source: SuiteSource, dialect: Dialect) -> bool:
    for ending in dialect.endings:
        for path in source.expand_glob(f"**/*{ending}"):
            file = source.find_file(path)
            if file is not None and dialect.marks_suite_folder(path, partial(getattr, file, "data")):
                return True
    return False


def detect(head: FileHead, dialects: Mapping[str, Dialect]) -> str:
    """Returns the name of the only dialect that recognises the file.

    Raises:
        SuiteError: none does (`unknown-dialect`), or several do (`ambiguous-dialect`).
    """
    if is_agentv_results(head):  # several dialects would read them as cases
        message = "The file contains AgentV results and is not a suite. Pass the suite that produced them."
        raise SuiteError([Problem(code="unknown-dialect", message=message, path=head.path, line=1)])
    reasons = {name: reason for name in sorted(dialects) if (reason := dialects[name].recognises(head))}
    if len(reasons) == 1:
        return next(iter(reasons))
    if advice := _advise_expected(head):
        code = "ambiguous-dialect" if reasons else "unknown-dialect"
        message = f"No line has an expected answer, so the file is not a suite. {advice}"
    elif reasons:
        code = "ambiguous-dialect"
        because = "; ".join(f"{name} because {reason}" for name, reason in reasons.items())
        message = f"The file matches more than one suite format: {because}. Choose one with --dialect."
    else:
        code = "unknown-dialect"
        message = _unknown_message(head, sorted(dialects))
    raise SuiteError([Problem(code=code, message=message, path=head.path, line=1)])


def _advise_expected(head: FileHead) -> str | None:
    """What to do about lines with an input and nothing that grades the answer; None for other lines."""
    names = {name for row in head.rows for name in row}
    if head.path.lower().endswith(YAML_ENDINGS) or names.isdisjoint(("input", "prompt")):
        return None
    if not names.isdisjoint(_ANSWER_FIELDS):
        return None
    for name in sorted(names):
        if near := _suggest_answer(name):
            return near
    return "Add `expected` to each line." if names <= {"id", "input", "prompt"} else None


def _suggest_answer(name: str) -> str | None:
    """Returns a question that names the field of an answer that may be meant by another name."""
    from difflib import get_close_matches

    near = get_close_matches(name, _ANSWER_FIELDS, 1)
    return f"Did you mean `{near[0]}` by {quote_value(name)}?" if near and near[0] != name else None


def _unknown_message(head: FileHead, names: list[str]) -> str:
    kind = detect_non_suite(head)
    if kind is not None:
        return f"The file looks like {kind.name} and is not a suite. {kind.advice}"
    if head.path.lower().endswith(".csv") and (first := _first_line(head)):
        return (
            f"The file does not match any suite format: the first line is {quote_value(first)}. "
            f"{_advise_columns(first)}"
        )
    return (
        f"The file does not match any suite format: {_describe(head)}. A suite is JSON Lines or a JSON "
        "array of cases, YAML with `tests`, or with `prompts` and `providers`, or CSV with columns such as "
        f"`input` and `expected`. Or choose the format with --dialect: {', '.join(names)}."
    )


def _advise_columns(header: str) -> str:
    """What to do about the header of a CSV file without the columns of a suite."""
    if "\r" in header:
        return f"It has {STRAY_RETURN}."
    names = parse_column_names(header, detect_separator(header))
    for name in names if "question" in names else ():
        if near := _suggest_answer(name):
            return near
    return "Rename the column of the prompt to `input`, and that of the expected answer to `expected`."


def _describe(head: FileHead) -> str:
    names = sorted({name for row in head.rows for name in row})
    if names and head.path.lower().endswith(YAML_ENDINGS):
        return f"its fields are {', '.join(quote_value(name) for name in names[:8])}"
    if names:
        return f"its lines have {', '.join(quote_value(name) for name in names[:8])}"
    first = _first_line(head)
    return f"it begins with {quote_value(first)}" if first else "it is empty"


def _first_line(head: FileHead) -> str:
    return head.text.strip().partition("\n")[0].rstrip()
