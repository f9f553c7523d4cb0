r"""Rules and patterns in the words of a dialect that has no others, where both come to the same.

"Every check must pass" and "the weighted mean of the scores must reach 1" are one rule for checks that give 1
or 0 and nothing between. So is a lower threshold that no case reaches with a check that failed. A pattern of
JavaScript's knows `\d`, `\w` and `\b` in ASCII only, which is the same for answers in ASCII. A rule for
several judgments that is left to the run is the mean, which is the same for one judgment.
"""

from __future__ import annotations

from math import fsum
from typing import Final

from msgspec.structs import replace

from proctor.dialects.shared.js_regex import with_ascii_classes
from proctor.errors import UnknownName
from proctor.graders import GRADERS
from proctor.model import Assertion, Case, PassRule, Problem, Suite
from proctor.stats import reaches
from proctor.validation import shown

CODE: Final = "said-otherwise"
_ALL: Final = PassRule()
_JAVASCRIPT: Final = "agentv"
"""The dialect whose patterns are JavaScript's."""
_MARKDOWN: Final = "ai_tester"
"""The dialect in which several judgments of an answer come to their mean."""
_WORDS: Final = {
    "agentv": PassRule(threshold=1.0),
    **dict.fromkeys(("ai_tester", "meridian", "pramana"), _ALL),
}
"""How a dialect says that every check must pass; those that say it without a number know nothing else."""


def restated(suite: Suite, cases: list[Case], to: str) -> tuple[Suite, list[Case], list[Problem]]:
    """A suite whose pass rules and patterns a dialect can say, wherever that changes no verdict.

    Args:
        suite: its header.
        cases: all of its cases.
        to: the name of the dialect.

    Returns:
        The suite, its cases and a warning for each rule or pattern that is now another one. A rule that would
        become another one in truth is left as it is; a pattern is another one for answers beyond ASCII, and
        the rule of a run for several judgments.
    """
    wanted = _WORDS.get(to)
    if wanted is None:
        return suite, cases, []
    problems: list[Problem] = []
    rule = suite.pass_rule
    if _is_foreign(rule, wanted) and all(_is_all(rule, case) for case in cases if case.pass_rule is None):
        problems.append(_told(suite, None, rule, to))
        suite = replace(suite, pass_rule=wanted)
    said: list[Case] = []
    for case in cases:
        own = case.pass_rule
        if own is not None and (own == wanted == _ALL or (_is_foreign(own, wanted) and _is_all(own, case))):
            if own != wanted:
                problems.append(_told(suite, case, own, to))
            case = replace(case, pass_rule=None if suite.pass_rule == wanted else wanted)
        said.append(_narrowed(case, problems) if to == _JAVASCRIPT else case)
    if to == _MARKDOWN:
        ruled = [_with_mean(case) for case in said]
        problems += [_told_of_mean(suite)] if ruled != said else []
        said = ruled
    return suite, said, problems


def _with_mean(case: Case) -> Case:
    """A case whose judgments come to their mean where it leaves their rule to the run."""
    ruled = [
        replace(one, params={**one.params, "rule": "mean"})
        if one.grader == "instructions" and one.params.get("rule") is None
        else one
        for one in case.assertions
    ]
    return replace(case, assertions=tuple(ruled))


def _told_of_mean(suite: Suite) -> Problem:
    message = (
        f"Suite {shown(suite.name)}: several judgments of an answer come to their mean in dialect "
        f"{_MARKDOWN}, and their rule was left to the run. It is the same for one judgment."
    )
    return Problem(level="warning", code=CODE, message=message, field="assertions")


def _narrowed(case: Case, problems: list[Problem]) -> Case:
    """A case whose patterns know ASCII only, with a warning for each that is now another one."""
    assertions = list(case.assertions)
    for place, each in enumerate(assertions):
        pattern = each.params.get("pattern")
        if each.grader != "regex" or not isinstance(pattern, str):
            continue
        narrow = with_ascii_classes(pattern)
        if narrow != pattern:
            assertions[place] = replace(each, params={**each.params, "pattern": narrow})
            message = (
                f"Case {shown(case.id)}: patterns of dialect {_JAVASCRIPT} are JavaScript's, so `\\d`, "
                f"`\\w` and `\\b` of {shown(pattern)} know ASCII only. It is the same for answers in ASCII."
            )
            field = f"assertions[{place}].params.pattern"
            problems.append(Problem(level="warning", code=CODE, message=message, field=field, case=case.id))
    return replace(case, assertions=tuple(assertions))


def _is_foreign(rule: PassRule, wanted: PassRule) -> bool:
    return (rule.threshold is None) is not (wanted.threshold is None)


def _is_all(rule: PassRule, case: Case) -> bool:
    """Whether a rule, or a threshold of 1 where it has none, means that every check of the case passes."""
    counting = [one for one in case.assertions if one.weight > 0 or one.required is not None]
    if not all(one.weight > 0 and _is_all_or_nothing(one) for one in counting):
        return False
    threshold = 1.0 if rule.threshold is None else rule.threshold
    total = fsum(one.weight for one in counting)
    return not any(reaches((total - one.weight) / total, threshold) for one in counting)


def _is_all_or_nothing(assertion: Assertion) -> bool:
    """Whether an assertion gives 1 where it passes and 0 where it does not."""
    try:
        grader = GRADERS.get(assertion.grader)
    except UnknownName:
        return False
    least = assertion.pass_at
    if assertion.params.get("rule") == "mean":
        return False
    return bool(grader.all_or_nothing) and (least is None or not reaches(0.0, least))


def _told(suite: Suite, case: Case | None, rule: PassRule, to: str) -> Problem:
    subject = f"Suite {shown(suite.name)}" if case is None else f"Case {shown(case.id)}"
    lacking, instead = "no rule that every check must pass", "`execution.threshold: 1`"
    if rule.threshold is not None:
        lacking, instead = f"no threshold, such as {rule.threshold:g},", "that every check must pass"
    message = (
        f"{subject}: dialect {to} has {lacking} and says {instead}. It is the same here: each check gives 1 "
        "or 0, and no case passes with one that fails."
    )
    return Problem(
        level="warning", code=CODE, message=message, field="pass_rule", case=case.id if case else None
    )
