"""A new case made from a stored answer, and the text of a suite with it, to be edited and saved."""

from __future__ import annotations

from collections.abc import Collection
from itertools import takewhile

from msgspec import Struct
from msgspec.structs import replace

from proctor.dialects import LOSSLESS, writable_names
from proctor.model import Case, Output, Run, Suite
from proctor.protocols import Store
from proctor.services.suites.convert import MAIN_FILE, convert_suite

_MAX_ANSWER = 2_000
"""The maximum characters of the answer that the new case keeps."""


class ExtendedSuite(Struct, frozen=True, kw_only=True):
    """A suite with a new case at its end, as text."""

    text: str | None
    """None if the suite needs several files, so that it cannot be edited as one text."""
    case_id: str
    """The id of the new case, which no other case of the suite has."""
    line: int = 1
    """The line of the text at which the new case begins."""
    has_same_input: bool = False
    """Whether another case of the suite has the same input."""
    no_holdout: bool = False
    """Whether the suite says that nothing is held out, which not every format can express."""


def copy_case(case: Case, run: Run, output: Output | None) -> Case:
    """Returns a case like one that was run, which says in its metadata where it comes from.

    Args:
        case: the case, which may be seen.
        run: the run.
        output: the answer, which is kept as context; it does not affect how answers are graded.
    """
    context = {"from_run": run.id, "from_target": run.target.name}
    if run.prompt is not None:
        context["from_prompt"] = run.prompt.name
    if output is not None:
        context["from_answer"] = output.text[:_MAX_ANSWER]
    return replace(case, metadata=case.metadata | context)


def extend_suite(store: Store, suite: Suite, case: Case) -> ExtendedSuite:
    """Returns a saved suite with one more case, in its own format if that can be written, else in Proctor's.

    Raises:
        StoreError: the store cannot be read.
    """
    cases = [stored_case.case for stored_case in store.cases(suite.content)]
    new_case = replace(case, id=_free_id(case.id, {each.id for each in cases}))
    text, line = _render([*cases, new_case], replace(suite, case_count=len(cases) + 1))
    return ExtendedSuite(
        text=text,
        case_id=new_case.id,
        line=line,
        has_same_input=any((each.input, each.vars) == (case.input, case.vars) for each in cases),
        no_holdout=suite.no_holdout,
    )


def begin_suite(run: Run, case: Case) -> ExtendedSuite:
    """Returns a suite of one case, with the pass rule of the suite that it comes from.

    It has no holdout, which would be that one case.
    """
    suite = Suite(name="new", dialect=LOSSLESS, pass_rule=run.suite.pass_rule, case_count=1, no_holdout=True)
    text, line = _render([case], suite)
    return ExtendedSuite(text=text, case_id=case.id, line=line, no_holdout=True)


def _render(cases: list[Case], suite: Suite) -> tuple[str | None, int]:
    """Returns the text of a suite, and the line at which its last case begins."""
    for dialect in dict.fromkeys((suite.dialect, LOSSLESS)):
        text = _convert(cases, suite, dialect)
        if text is not None:
            before = _convert(cases[:-1], replace(suite, case_count=len(cases) - 1), dialect) or ""
            pairs = zip(before.splitlines(), text.splitlines(), strict=False)
            return text, 1 + sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return None, 1


def _convert(cases: list[Case], suite: Suite, dialect: str) -> str | None:
    """Returns a suite in a format as one text; None if that is impossible."""
    if dialect not in writable_names():
        return None
    conversion = convert_suite(suite, cases, dialect, lossy=False)
    is_one_text = not conversion.has_errors and conversion.files.keys() == {MAIN_FILE}
    return conversion.files[MAIN_FILE].decode("utf-8") if is_one_text else None


def _free_id(case_id: str, used_ids: Collection[str]) -> str:
    """Returns the id, with a number if another case has it."""
    candidate, number = case_id, 2
    while candidate in used_ids:
        candidate, number = f"{case_id}-{number}", number + 1
    return candidate
