r"""Restates rules and patterns in a form that a format can express, if that changes no verdict.

"Every check must pass" and "the weighted mean of the scores must reach 1" are one rule for checks that give 1
or 0 and nothing between. The same is true of a lower threshold, if no case with a failed check can reach it.
A JavaScript pattern matches `\d`, `\w` and `\b` in ASCII only, which is the same for answers in ASCII. An
aggregation that is left to the run becomes the mean, which is the same for one judgment.
"""

from __future__ import annotations

from math import fsum
from typing import Final

from msgspec.structs import replace

from proctor.dialects.shared.js_regex import with_ascii_classes
from proctor.errors import UnknownName
from proctor.graders import GRADERS
from proctor.model import Assertion, Case, PassRule, Problem, Suite
from proctor.protocols import Dialect
from proctor.stats import reaches
from proctor.validation import quote_value

RESTATED_CODE: Final = "said-otherwise"
_ALL_MUST_PASS: Final = PassRule()


def restate_rules(
    suite: Suite, cases: list[Case], name: str, dialect: Dialect
) -> tuple[Suite, list[Case], list[Problem]]:
    """Gives a suite pass rules and patterns that a format can express, if that changes no verdict.

    Args:
        suite: its header.
        cases: all of its cases.
        name: the name of the dialect, for messages.
        dialect: the dialect.

    Returns:
        The suite, its cases and a warning for each rule or pattern that was restated. A rule whose verdicts
        would change is left as it is. A restated pattern may match differently for answers beyond ASCII, and
        a restated aggregation for several judgments.
    """
    expressible = dialect.pass_rule
    if expressible is None:
        return suite, cases, []
    problems: list[Problem] = []
    rule = suite.pass_rule
    if _is_other_kind(rule, expressible) and all(
        _requires_every_check(rule, case) for case in cases if case.pass_rule is None
    ):
        problems.append(_rule_warning(suite, None, rule, name))
        suite = replace(suite, pass_rule=expressible)
    restated: list[Case] = []
    for case in cases:
        own = case.pass_rule
        if own is not None and (
            own == expressible == _ALL_MUST_PASS
            or (_is_other_kind(own, expressible) and _requires_every_check(own, case))
        ):
            if own != expressible:
                problems.append(_rule_warning(suite, case, own, name))
            case = replace(case, pass_rule=None if suite.pass_rule == expressible else expressible)
        restated.append(_with_ascii_patterns(case, name, problems) if dialect.has_js_patterns else case)
    if dialect.judge_rule is not None:
        cases, restated = restated, [_with_judge_rule(case, dialect.judge_rule) for case in restated]
        problems += [_judge_rule_warning(suite, name)] if restated != cases else []
    return suite, restated, problems


def _with_judge_rule(case: Case, rule: str) -> Case:
    """Returns a case whose judgments are aggregated by this rule where it leaves that to the run."""
    assertions = tuple(
        replace(assertion, params={**assertion.params, "rule": rule})
        if assertion.grader == "instructions" and assertion.params.get("rule") is None
        else assertion
        for assertion in case.assertions
    )
    return replace(case, assertions=assertions)


def _judge_rule_warning(suite: Suite, name: str) -> Problem:
    message = (
        f"Suite {quote_value(suite.name)}: format {name} aggregates several judgments by their mean, "
        "but in this suite the run decides. With one judgment per answer, the result is the same."
    )
    return Problem(level="warning", code=RESTATED_CODE, message=message, field="assertions")


def _with_ascii_patterns(case: Case, name: str, problems: list[Problem]) -> Case:
    """Returns a case whose patterns match ASCII only, and adds a warning for each that was restated."""
    assertions = list(case.assertions)
    for index, assertion in enumerate(assertions):
        pattern = assertion.params.get("pattern")
        if assertion.grader != "regex" or not isinstance(pattern, str):
            continue
        ascii_pattern = with_ascii_classes(pattern)
        if ascii_pattern != pattern:
            assertions[index] = replace(assertion, params={**assertion.params, "pattern": ascii_pattern})
            message = (
                f"Case {quote_value(case.id)}: format {name} uses JavaScript patterns, in which `\\d`, "
                f"`\\w` and `\\b` match only ASCII. The pattern {quote_value(pattern)} was restated. "
                "For answers in ASCII, the result is the same."
            )
            field = f"assertions[{index}].params.pattern"
            problems.append(
                Problem(level="warning", code=RESTATED_CODE, message=message, field=field, case=case.id)
            )
    return replace(case, assertions=tuple(assertions))


def _is_other_kind(rule: PassRule, expressible: PassRule) -> bool:
    return (rule.threshold is None) is not (expressible.threshold is None)


def _requires_every_check(rule: PassRule, case: Case) -> bool:
    """Whether a rule, or a threshold of 1 where it has none, means that every check of the case passes."""
    counting = [check for check in case.assertions if check.weight > 0 or check.required is not None]
    if not all(assertion.weight > 0 and _is_all_or_nothing(assertion) for assertion in counting):
        return False
    threshold = 1.0 if rule.threshold is None else rule.threshold
    total = fsum(assertion.weight for assertion in counting)
    return not any(reaches((total - assertion.weight) / total, threshold) for assertion in counting)


def _is_all_or_nothing(assertion: Assertion) -> bool:
    """Whether an assertion gives 1 if it passes and 0 if it fails."""
    try:
        grader = GRADERS.get(assertion.grader)
    except UnknownName:
        return False
    least = assertion.pass_at
    if assertion.params.get("rule") == "mean":
        return False
    return bool(grader.all_or_nothing) and (least is None or not reaches(0.0, least))


def _rule_warning(suite: Suite, case: Case | None, rule: PassRule, name: str) -> Problem:
    subject = f"Suite {quote_value(suite.name)}" if case is None else f"Case {quote_value(case.id)}"
    missing, instead = "no rule that all checks must pass", "`execution.threshold: 1`"
    if rule.threshold is not None:
        missing, instead = (
            f"no threshold, such as {rule.threshold:g},",
            ("the rule that all checks must pass"),
        )
    message = (
        f"{subject}: format {name} has {missing} and uses {instead} instead. The result is the same "
        "here, because each check gives 1 or 0, and a case with a failed check does not pass."
    )
    return Problem(
        level="warning",
        code=RESTATED_CODE,
        message=message,
        field="pass_rule",
        case=case.id if case else None,
    )
