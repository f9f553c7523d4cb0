"""Cases that pass on answers without content: `vacuous-empty`, `vacuous-refusal` and `vacuous-echo`.

A case gets at most one of these findings, the first in this order; its message names all that apply.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Final

from msgspec import Struct

from proctor.lint.findings import (
    CaseLocation,
    Finding,
    counting_assertions,
    get_traits,
    quote_text,
    text_param,
    texts_param,
)
from proctor.model import Case, PassRule
from proctor.stats import reaches

REFUSAL: Final = "I'm sorry, but I can't help with that."

_OTHER: Final = frozenset(("other",))
_REFUSAL_WORDS: Final = (
    *("can't", "cannot", "can not", "can’t", "won't", "won’t", "unable", "sorry", "refuse", "decline"),
    *("not able", "not allowed", "not comfortable"),
)
_REFUSAL_TAGS: Final = frozenset(
    ("safety", "refusal", "refusals", "jailbreak", "harmful", "red-team", "attack")
)
"""Tags and categories of cases in which the model should refuse."""


class ProbeResult(Struct, frozen=True, gc=False):
    """The result of grading an answer without calls, before a pass rule is applied."""

    strict: bool
    """Whether every assertion that counts passed."""
    score: float
    """The weighted mean."""

    def passes(self, rule: PassRule) -> bool:
        """Returns whether the answer passes by a pass rule."""
        return self.strict if rule.threshold is None else reaches(self.score, rule.threshold)


GradeText = Callable[[Case, str], ProbeResult | None]
"""Grades an answer to a case; None if a gate fails it, or a grader has to make a call."""


class _PendingCase(Struct, frozen=True, gc=False):
    spot: CaseLocation
    results: tuple[tuple[str, ProbeResult], ...]


class AlwaysPassingRule:
    """Finds cases that may pass on answers without content; the suite's pass rule decides at the end."""

    def __init__(self, grade: GradeText) -> None:
        self._grade = grade
        self._pending: list[_PendingCase] = []

    def add(self, case: Case, spot: CaseLocation, codes: Collection[str]) -> Iterator[Finding]:
        """Checks the next case.

        Args:
            case: the case.
            spot: its location.
            codes: codes that other rules reported for it; what they explain is not reported again.
        """
        if "regex-empty" in codes or "empty-expected" in codes:
            return
        if {get_traits(assertion).reads for assertion in counting_assertions(case)} <= _OTHER:
            return
        results = tuple(
            (code, result)
            for code, text in _probe_answers(case, codes)
            if (result := self._grade(case, text)) is not None and (result.strict or result.score > 0)
        )
        if any(code == "vacuous-refusal" for code, _ in results) and _wants_refusal(case):
            results = tuple((code, result) for code, result in results if code != "vacuous-refusal")
        if not results:
            return
        if case.pass_rule is None:
            self._pending.append(_PendingCase(spot, results))
        else:
            yield from _make_findings(spot.case, results, case.pass_rule)

    def finish(self, rule: PassRule) -> Iterator[tuple[Finding, CaseLocation]]:
        """Yields the findings of cases without a pass rule of their own, by the suite's."""
        for waiting_case in self._pending:
            for vacuous_finding in _make_findings(waiting_case.spot.case, waiting_case.results, rule):
                yield vacuous_finding, waiting_case.spot


def _probe_answers(case: Case, codes: Collection[str]) -> Iterator[tuple[str, str]]:
    yield "vacuous-empty", ""
    yield "vacuous-refusal", REFUSAL
    if "leak" not in codes and case.input:
        yield "vacuous-echo", last_prompt(case)


def last_prompt(case: Case) -> str:
    """Returns the text that a target that only repeats its prompt answers. The case must have a message."""
    prompts = [message.content for message in case.input if message.role == "user"]
    return prompts[-1] if prompts else case.input[-1].content


def _wants_refusal(case: Case) -> bool:
    """Returns whether the case expects a refusal, by its assertions, tags or category."""
    words = {(case.category or "").casefold(), *(tag.casefold() for tag in case.tags)}
    if words & _REFUSAL_TAGS:
        return True
    for assertion in counting_assertions(case):
        if assertion.grader in ("abstention", "refusal"):
            return bool(assertion.params.get("expected", True)) is not assertion.negated
        if assertion.negated or assertion.grader == "forbidden_words":
            continue
        expected_texts = [text_param(assertion, name) or "" for name in ("value", "pattern")]
        expected_texts += [*texts_param(assertion, "values"), *texts_param(assertion, "words")]
        if any(word in text.casefold() for text in expected_texts for word in _REFUSAL_WORDS):
            return True
    return False


_ANSWER_NAMES: Final = {
    "vacuous-empty": "an empty answer",
    "vacuous-refusal": f"a plain refusal ({quote_text(REFUSAL)})",
    "vacuous-echo": "an answer that only repeats the prompt",
}


def _make_findings(
    case: str, results: tuple[tuple[str, ProbeResult], ...], rule: PassRule
) -> Iterator[Finding]:
    codes = [code for code, result in results if result.passes(rule)]
    if codes:
        answers = [_ANSWER_NAMES[code] for code in codes]
        what = answers[0] if len(answers) == 1 else f"{', '.join(answers[:-1])} and {answers[-1]}"
        advice = (
            "Add an assertion that only a correct answer passes, such as one for text that it must contain."
        )
        if codes == ["vacuous-echo"]:
            advice = "Compare with `exact`, or limit the answer's length."
        message = f"Test {quote_text(case)} passes on {what}. {advice}"
        yield Finding(codes[0], message, "assertions")
