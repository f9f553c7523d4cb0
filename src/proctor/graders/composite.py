"""Combines several checks into one result: each is an assertion, and an aggregator weighs their scores.

A member that cannot be scored makes the whole unscored. A member of weight 0 is only reported. The names in
the results are those of AgentV's composite graders.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import replace

from proctor.errors import CannotScore, UnknownName
from proctor.graders import GRADERS
from proctor.graders.judged.judge_call import DEFAULT_PASS_AT
from proctor.graders.program import Program
from proctor.graders.text import clip, quote_list
from proctor.grading import build_grader, score
from proctor.model import Assertion, Case, Evidence, GraderResult, Judgment, Score, Verdict
from proctor.protocols import BaseGrader, Grader, GraderCommand, GradingInput
from proctor.stats import reaches

_RESULTS_PLACEHOLDER = re.compile(r"\{\{\s*EVALUATOR_RESULTS_JSON\s*\}\}")
"""Where the results go in a judge's prompt; without this placeholder they follow the prompt."""


class CompositeMember(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of the checks, under a unique name."""

    name: str
    assertion: Assertion


Scores = Mapping[str, Score]
"""The members' scores by name, in order; none is unscored."""


# --- aggregators -------------------------------------------------------------------------------------------


class WeightedAverage(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="weighted_average"
):
    """The weighted mean of the members' values; 0.8 and above passes."""

    weights: dict[str, float] = {}
    """By member name; a member that is not listed has the weight of its assertion."""

    async def aggregate(
        self,
        scores: Scores,
        weights: Mapping[str, float],
        grading_input: GradingInput,  # noqa: ARG002
    ) -> GraderResult:
        """Returns the result for the mean."""
        total = math.fsum(weights[name] for name in scores)
        value = math.fsum(weights[name] * (result.value or 0.0) for name, result in scores.items()) / total
        failed = _failed_names(scores)
        reason = f"The weighted mean of {len(scores)} checks is {value:.2f}"
        reason += f"; {quote_list(failed)} failed." if failed else "; none failed."
        return GraderResult(value=min(value, 1.0), passed=reaches(value, DEFAULT_PASS_AT), reason=reason)


class Threshold(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="threshold"
):
    """The share of the members that passed; `threshold` and above passes."""

    threshold: float

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise ValueError(f"`threshold` is {self.threshold:g}; it must be from 0 to 1.")

    async def aggregate(
        self,
        scores: Scores,
        weights: Mapping[str, float],  # noqa: ARG002
        grading_input: GradingInput,  # noqa: ARG002
    ) -> GraderResult:
        """Returns the result for the share."""
        failed = _failed_names(scores)
        passed, count = len(scores) - len(failed), len(scores)
        value = passed / count
        reason = f"{passed} of {count} checks passed; the required share is {self.threshold:g}"
        reason += f". Failed: {quote_list(failed)}." if failed else "."
        return GraderResult(value=value, passed=reaches(value, self.threshold), reason=reason)


class ProgramAggregator(
    Program, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="program"
):
    """A program decides; it reads `{"results": {NAME: {score, verdict, reason, assertions}}}`."""

    async def aggregate(
        self, scores: Scores, weights: Mapping[str, float], grading_input: GradingInput
    ) -> GraderResult:
        """Returns the result that the program prints.

        Raises:
            CannotScore: the program gave no result.
        """
        return await self.grade_payload(
            {"results": _scores_to_dict(scores, weights), "config": self.config or {}}, grading_input
        )


class JudgeAggregator(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="llm_grader"
):
    """A judge decides, called as the grader `llm_grader` calls it."""

    prompt: str
    judge: str | None = None

    def __post_init__(self) -> None:
        if not self.prompt.strip():
            raise ValueError("`prompt` is empty; describe how the judge should weigh the results.")

    def build_assertion(self) -> Assertion:
        """Returns the assertion that calls the judge with the prompt.

        The results are passed as metadata of the case: the judge prompt says that metadata is data, and an
        answer quoted in them cannot end their section.
        """
        template, count = _RESULTS_PLACEHOLDER.subn("{{ metadata_json }}", self.prompt)
        params = {"prompt": template if count else f"{self.prompt}\n\n{{{{ metadata_json }}}}"}
        return Assertion(
            grader="llm_grader", params=params if self.judge is None else {**params, "judge": self.judge}
        )

    async def aggregate(
        self, scores: Scores, weights: Mapping[str, float], grading_input: GradingInput
    ) -> GraderResult:
        """Returns the judge's result.

        Raises:
            CannotScore: no judge gave a verdict.
        """
        metadata = {**grading_input.case.metadata, "evaluator_results": _scores_to_dict(scores, weights)}
        judged = await score(
            self.build_assertion(),
            replace(grading_input, case=replace(grading_input.case, metadata=metadata)),
            GRADERS.get,
        )
        if judged.outcome is Verdict.UNSCORED:
            raise CannotScore(judged.reason, judged.judgments)
        return GraderResult(
            value=judged.value,
            passed=judged.outcome is Verdict.PASS,
            reason=judged.reason,
            entries=judged.entries,
            judgments=judged.judgments,
            details=judged.details,
        )


def _failed_names(scores: Scores) -> list[str]:
    return [name for name, result in scores.items() if result.outcome is not Verdict.PASS]


def _scores_to_dict(scores: Scores, weights: Mapping[str, float]) -> dict[str, Any]:
    """Returns the members' scores in the form that programs and judges read."""
    return {
        name: {
            "score": result.value,
            "verdict": result.outcome.value,
            "weight": weights[name],
            "reason": result.reason,
            "assertions": [
                {"text": entry.text, "passed": entry.passed, "evidence": entry.evidence}
                for entry in result.entries
            ],
            "details": result.details,
        }
        for name, result in scores.items()
    }


# --- the grader --------------------------------------------------------------------------------------------


class Composite(BaseGrader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Runs several checks on the same answer; its aggregator decides whether they pass."""

    is_async: ClassVar[bool] = True

    members: tuple[CompositeMember, ...]
    """The checks; each may be negated, and one below its gate makes the value 0."""
    aggregator: WeightedAverage | Threshold | ProgramAggregator | JudgeAggregator

    def __post_init__(self) -> None:
        names = [member.name for member in self.members]
        if not names:
            raise ValueError("`members` is empty; add at least one check.")
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"Two members are called {twice[0]!r}; give each member its own name.")
        weights = self.aggregator.weights if isinstance(self.aggregator, WeightedAverage) else {}
        unknown = sorted(weights.keys() - set(names))
        if unknown:
            raise ValueError(f"`weights` names {unknown[0]!r}, and the members are {quote_list(names)}.")
        for name, weight in self._get_weights().items():
            if not (math.isfinite(weight) and weight >= 0):
                raise ValueError(f"The weight of {name!r} is {weight:g}; it must be 0 or more.")
        if not any(self._get_weights().values()):
            raise ValueError("Every member has weight 0, so no member counts; give at least one a weight.")
        self._bind_graders()

    def requirements(self) -> frozenset[str]:
        """Returns what any member or the aggregator requires."""
        return frozenset().union(*(grader.requirements() for grader in self._bind_graders()))

    def judges(self) -> tuple[str | None, ...]:
        """Returns the judges that the members and the aggregator call, one for each call."""
        return tuple(name for grader in self._bind_graders() for name in grader.judges())

    def commands(self) -> tuple[GraderCommand, ...]:
        """Returns the programs of the members and the aggregator."""
        return tuple(command for grader in self._bind_graders() for command in grader.commands())

    def check_case(self, case: Case) -> None:
        """Checks that each member can grade answers to a case.

        Raises:
            ValueError: the case lacks something.
        """
        for grader in self._bind_graders():
            grader.check_case(case)

    async def grade(self, grading_input: GradingInput) -> GraderResult:
        """Returns the score of the aggregator, with the evidence of the members; `details` has their scores.

        A gate of a member's grader, such as a required rubric item, also gates the whole.

        Raises:
            CannotScore: a member that counts, or the aggregator, gave no score.
        """
        # Two members may ask the same question, and a judgment does not say which member it belongs to.
        grading_input = replace(grading_input, prior_judgments=())
        # Without the members' own gates: what a score still requires comes from its grader.
        pending = (
            score(replace(member.assertion, required=None), grading_input, GRADERS.get)
            for member in self.members
        )
        own_gates = {member.name: member.assertion.required for member in self.members}
        scores = dict(zip(own_gates, await grading_input.gather(pending), strict=True))
        judgments = tuple(judgment for result in scores.values() for judgment in result.judgments)
        weights = self._get_weights()
        counting = {name: result for name, result in scores.items() if weights[name]}
        silent = [name for name, result in counting.items() if result.outcome is Verdict.UNSCORED]
        if silent:
            noun = "check" if len(silent) == 1 else "checks"
            reasons = " ".join(f"{name!r}: {scores[name].reason}" for name in silent)
            raise CannotScore(f"The {noun} {quote_list(silent)} could not be graded. {reasons}", judgments)
        try:
            mark = await self.aggregator.aggregate(counting, weights, grading_input)
        except CannotScore as error:
            raise CannotScore(str(error), judgments + error.judgments) from error
        return _combine(mark, scores, counting, own_gates, judgments)

    def _get_weights(self) -> dict[str, float]:
        """Returns each member's weight; 0 for one that is only reported."""
        weights = self.aggregator.weights if isinstance(self.aggregator, WeightedAverage) else {}
        return {member.name: weights.get(member.name, member.assertion.weight) for member in self.members}

    def _bind_graders(self) -> list[Grader]:
        """Returns the graders of all members, and the aggregator's.

        Raises:
            ValueError: a grader does not exist, or its parameters are invalid.
        """
        bound = [_bind_member(f"The member {member.name!r}", member.assertion) for member in self.members]
        if isinstance(self.aggregator, JudgeAggregator):
            bound.append(_bind_member("The aggregator", self.aggregator.build_assertion()))
        elif isinstance(self.aggregator, ProgramAggregator):
            bound.append(self.aggregator)
        return bound


def _bind_member(owner: str, assertion: Assertion) -> Grader:
    try:
        grader = build_grader(assertion, GRADERS.get)
    except (ValueError, UnknownName) as error:
        raise ValueError(f"{owner}: {error}") from None
    if grader.grades_repeats:
        raise ValueError(
            f"{owner}: {assertion.grader!r} grades all repeats of a case together and cannot be a member; "
            f"make it a separate check."
        )
    return grader


def _combine(
    mark: GraderResult,
    scores: Scores,
    counting: Scores,
    own_gates: Mapping[str, float | None],
    judgments: tuple[Judgment, ...],
) -> GraderResult:
    """Adds the members' evidence and scores to the aggregator's result, and applies the gates."""
    value, passed, reason = mark.value, mark.passed, mark.reason
    members = {
        name: {"value": result.value, "outcome": result.outcome.value, "reason": result.reason}
        | ({"details": result.details} if result.details else {})
        for name, result in scores.items()
    }
    details = {**mark.details, "scores": members}
    gates = {name: max(result.required or 0.0, own_gates[name] or 0.0) for name, result in counting.items()}
    missed = {name: gate for name, gate in gates.items() if not reaches(scores[name].value or 0.0, gate)}
    if missed:
        reasons = [
            f"{name!r} has {scores[name].value:.2f}, and its gate is {missed[name]:g}" for name in missed
        ]
        details["without_gates"] = value
        value, passed, reason = 0.0, False, f"{'; '.join(reasons)}. {reason}"
    entries = [entry for name, result in scores.items() for entry in _member_entries(name, result)]
    return GraderResult(
        value=value,
        passed=passed,
        reason=clip(reason, 500),
        entries=(*entries, *mark.entries),
        judgments=judgments + mark.judgments,
        details=details,
        gate=max((scores[name].required or 0.0 for name in missed), default=0.0) or None,
    )


def _member_entries(name: str, result: Score) -> list[Evidence]:
    """Returns a member's evidence under its name, or its reason if it has none."""
    passed = None if result.outcome is Verdict.UNSCORED else result.outcome is Verdict.PASS
    entries = result.entries or (Evidence(text=result.reason or "as expected", passed=passed),)
    return [
        Evidence(text=f"[{name}] {entry.text}", passed=entry.passed, evidence=entry.evidence)
        for entry in entries
    ]
