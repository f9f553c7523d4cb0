"""Finds answers to the same prompt in earlier runs, and the judgments of them.

Trials are found by the prompt, so that a case keeps its answers when only its grading, its id or its
position changes. Answers from a workspace are never reused: the folder that graders read is gone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from proctor.codec import (
    assertion_digest,
    call_digest,
    encode,
    json_in_key_order,
    judged_digest,
    target_digest,
    unordered_digest,
)
from proctor.env_substitution import names_in
from proctor.errors import StoreError, TargetError
from proctor.graders import GRADERS
from proctor.grading import GradingMode, build_grader, grading_mode
from proctor.model import Assertion, Case, Judgment, Output, Prompt, Run, TargetSpec, Verdict
from proctor.plan import CaseIndex, PriorTrial, PriorTrialFinder, SequentialPriorTrials, count_repeats
from proctor.protocols import PriorAnswer, Store, StoredCase, StoredTrial
from proctor.services.runs.execution.variable_values import VariableValues, sent_variables, target_variables
from proctor.services.runs.planning.planned_run import ANY_TIME, ReuseLimits

NOT_ASKED = "not-asked"
"""The failure kind of a trial that has no answer to regrade."""


def chain_finders(first: PriorTrialFinder, then: PriorTrialFinder) -> PriorTrialFinder:
    """Returns a finder that tries the first, then the second for what the first does not find."""

    def find(position: int, stored_case: StoredCase) -> Mapping[int, PriorTrial]:
        return {**then(position, stored_case), **first(position, stored_case)}

    return find


def make_regrade_finder(store: Store, run: Run, index: CaseIndex, values: VariableValues) -> PriorTrialFinder:
    """Returns a finder of the answers that are regraded; a trial without an answer keeps its failure."""
    earlier = store.run(run.regrade_of or "")
    if earlier.suite.content != run.suite.content:
        return ReuseFinder(store, run, index, values, only=earlier.id)

    def stays(stored_trial: StoredTrial, _case: Case) -> bool:
        return stored_trial.trial.output is None

    return SequentialPriorTrials(store.trials(earlier.id), stays, earlier.id, stored=False)


class NoTarget:
    """Stands in for the target of a regrade, which calls none."""

    def __init__(self, earlier: str) -> None:
        """Takes the id of the run that is regraded."""
        self._earlier = earlier

    async def answer(self, _prompt: Prompt) -> Output:
        """Raises, as there is no target to call.

        Raises:
            TargetError: always.
        """
        raise TargetError(
            f"Run {self._earlier} has no answer to this case that can be graded again: the case was "
            "not sent, its input has changed, or the answer was made in a workspace that no longer "
            "exists.",
            kind=NOT_ASKED,
        )


class _JudgeSettings(Struct, frozen=True):
    """The settings that decide the judgments of an answer, besides the case."""

    are_given: bool
    judges: tuple[str, ...]
    named_judges: tuple[str, ...]
    repeats: int
    rule: str


class ReuseFinder:
    """A finder of answers in earlier runs on the same target."""

    def __init__(
        self,
        store: Store,
        run: Run,
        index: CaseIndex,
        values: VariableValues,
        only: str | None = None,
        limits: ReuseLimits = ANY_TIME,
    ) -> None:
        """Stores its arguments; reads nothing.

        Args:
            store: has the earlier runs.
            run: the run that is executed.
            index: its cases.
            values: compares variables with their values in earlier runs.
            only: reuse only the answers of this run, without its scores; None for all runs.
            limits: from when on answers and judgments are reused.
        """
        self._store = store
        self._run = run
        self._index = index
        self._values = values
        self._only = only
        self._limits = limits
        self._target_variables = {None: target_variables([run.target])} | {
            spec.name: target_variables([spec]) for spec in run.named_targets
        }
        self._judge_variables = target_variables(_own_judges(run))
        self._call = call_digest(run.target, run.prompt)
        self._runs: dict[str, Run] = {run.id: run}

    def __call__(self, position: int, stored_case: StoredCase) -> dict[int, PriorTrial]:
        """Returns the earlier trials of the case, by repeat."""
        case = stored_case.case
        if case.workspace is not None:
            return {}
        repeats = range(count_repeats(case, self._run.settings.repeats))
        answers = self._find_answers(stored_case, set(repeats))
        prior_trials = {
            repeat: self._make_prior_trial(position, stored_case, answers[repeat])
            for repeat in repeats
            if repeat in answers
        }
        if grading_mode(case, GRADERS.get) is GradingMode.ACROSS_REPEATS and not self._is_complete(answers):
            return {
                repeat: replace(prior_trial, is_reusable=False)
                for repeat, prior_trial in prior_trials.items()
            }
        return prior_trials

    def _is_complete(self, answers: Mapping[int, list[PriorAnswer]]) -> bool:
        """Returns whether these are all answers to a case in one run, so that scores over repeats hold."""
        best = [candidates[0] for candidates in answers.values()]
        if len({(answer.run, answer.trial.position) for answer in best}) != 1:
            return False
        return count_repeats(best[0].case, self._get_run(best[0].run).settings.repeats) == len(best)

    def _find_answers(self, stored_case: StoredCase, missing: set[int]) -> dict[int, list[PriorAnswer]]:
        """Returns the answers for each repeat, the best one first; stops when no better one can follow."""
        answers: dict[int, list[PriorAnswer]] = {}
        for answer in self._matching_answers(stored_case):
            repeat = answer.trial.repeat
            if repeat not in missing or not self._is_usable(answer, stored_case.case):
                continue
            candidates = answers.setdefault(repeat, [])
            candidates.append(answer)
            if answer.case.id == stored_case.case.id and self._keeps_scores(answer, stored_case.case):
                missing = missing - {repeat}
                candidates.insert(0, candidates.pop())
                if not missing:
                    break
        for repeat in missing & answers.keys():  # among equally good ones the newest stays first
            answers[repeat].sort(
                key=lambda answer: (
                    not self._keeps_scores(answer, stored_case.case),
                    answer.case.id != stored_case.case.id,
                )
            )
        return answers

    def _matching_answers(self, stored_case: StoredCase) -> Iterator[PriorAnswer]:
        """Yields the answers to what the case sends; digests of earlier versions had no order."""
        order = json_in_key_order(stored_case.case)
        digests = (
            [stored_case.sent_digest]
            if order is None
            else [stored_case.sent_digest, unordered_digest(stored_case.case)]
        )
        for digest in digests:
            for answer in self._store.find_prior_answers(digest, self._call, self._only):
                if json_in_key_order(answer.case) == order:
                    yield answer

    def _is_usable(self, answer: PriorAnswer, case: Case) -> bool:
        output = answer.trial.output
        if answer.run == self._run.id or output is None or output.target is not None:
            return False
        if self._only is None and self._get_run(answer.run).imported is not None:
            return False  # its answer was produced on another machine
        if not self._is_since(answer.trial.source_run or answer.run, self._limits.answers_since):
            return False
        variables = self._target_variables.get(case.target, frozenset[str]()).union(sent_variables(case))
        if case.variables:  # a reference in the stored answer stands for the value at that time
            variables |= set(names_in(output)).intersection(case.variables)
        if self._only is None and not self._values.are_same(answer.run, variables):
            return False
        name = case.target
        return name is None or _get_named_digest(self._get_run(answer.run), name) == _get_named_digest(
            self._run, name
        )

    def _keeps_scores(self, answer: PriorAnswer, case: Case) -> bool:
        """Returns whether grading would give the same scores now."""
        if self._only is not None or answer.verdict not in (Verdict.PASS, Verdict.FAIL):
            return False
        if judged_digest(answer.case) != judged_digest(case):
            return False
        if answer.case.metadata != case.metadata and any(map(_shows_metadata, case.assertions)):
            return False
        # A program may have changed, which no digest shows.
        if b'"program"' in encode(case.assertions):
            return False
        earlier, wants = self._get_run(answer.run), _required_calls(case)
        if "embedder" in wants and (self._run.embedder is None or self._run.embedder != earlier.embedder):
            return False
        if not self._values.are_same(answer.run, case.variables):
            return False
        return "judge" not in wants or (
            _get_judge_settings(earlier) == _get_judge_settings(self._run)
            and self._values.are_same(answer.run, self._judge_variables)
            and self._is_since(answer.trial.graded_in or answer.run, self._limits.judgments_since)
        )

    def _make_prior_trial(
        self, position: int, stored_case: StoredCase, candidates: list[PriorAnswer]
    ) -> PriorTrial:
        best, case = candidates[0], stored_case.case
        source = best.trial.source_run or best.run
        trial = replace(
            best.trial,
            case_id=case.id,
            position=position,
            sent=stored_case.sent_digest,
            split=self._index.split_at(position),
            source_run=source,
            graded_in=best.trial.graded_in or source,
        )
        alike = (answer for answer in candidates if answer.trial.output == best.trial.output)
        judgments = {} if self._only is not None else self._find_judgments(case, alike)
        return PriorTrial(
            trial=trial,
            is_reusable=self._keeps_scores(best, case),
            source_run=source,
            judgments=judgments,
            is_stored=False,
        )

    def _find_judgments(
        self, case: Case, candidates: Iterable[PriorAnswer]
    ) -> dict[str, tuple[Judgment, ...]]:
        """Returns judgments of this answer under the same conditions, by judges that are still the same.

        For each judge and prompt they come from the score with the most judgments.
        """
        most: dict[str, dict[tuple[str | None, ...], list[Judgment]]] = defaultdict(dict)
        judges = {spec.name: target_digest(spec) for spec in _own_judges(self._run)}
        for answer in candidates:
            if not any(score.judgments for score in answer.trial.scores):
                continue
            if not self._is_since(answer.trial.graded_in or answer.run, self._limits.judgments_since):
                continue
            if not self._values.are_same(answer.run, self._judge_variables.union(case.variables)):
                continue
            then = {spec.name: target_digest(spec) for spec in _own_judges(self._get_run(answer.run))}
            same = {name for name, digest in then.items() if judges.get(name) == digest}
            keys = {
                assertion_digest(assertion): _reuse_key(assertion, answer.case)
                for assertion in answer.case.assertions
            }
            for score in answer.trial.scores:
                judgments_by_prompt = most[keys.get(score.assertion, "")]
                for prompt_key, prompt_judgments in _group_by_prompt(score.judgments, same).items():
                    if len(prompt_judgments) > len(judgments_by_prompt.get(prompt_key, ())):
                        judgments_by_prompt[prompt_key] = prompt_judgments
        return {
            assertion_digest(assertion): tuple(chain(*most[_reuse_key(assertion, case)].values()))
            for assertion in (case.assertions if most else ())
        }

    def _is_since(self, run_id: str, since: datetime | None) -> bool:
        """Returns whether a run began after a time; one that was deleted did not."""
        if since is None:
            return True
        try:
            return self._get_run(run_id).started_at >= since
        except StoreError:
            return False

    def _get_run(self, run_id: str) -> Run:
        run = self._runs.get(run_id)
        if run is None:
            run = self._runs[run_id] = self._store.run(run_id)
        return run


def _own_judges(run: Run) -> Iterator[TargetSpec]:
    yield from run.judges
    yield from run.named_judges


def _get_judge_settings(run: Run) -> _JudgeSettings:
    return _JudgeSettings(
        run.judges_given,
        tuple(map(target_digest, run.judges)),
        tuple(map(target_digest, run.named_judges)),
        run.settings.judge_repeats,
        run.settings.judge_rule,
    )


def _get_named_digest(run: Run, name: str) -> str | None:
    """Returns the digest of a target that cases name."""
    return next((target_digest(spec) for spec in run.named_targets if spec.name == name), None)


def _reuse_key(assertion: Assertion, case: Case) -> str:
    """Returns the digest of what judges see besides what was sent and their prompt, which judgments keep."""
    visible: list[object] = [case.expected, case.criteria]
    if _shows_metadata(assertion):  # a prompt may show other checks' rubrics
        visible += [case.metadata, [check for check in case.assertions if check.grader == "rubrics"]]
    if assertion.grader == "instructions":  # evaluators are prompts, and a rule only counts judgments
        params = {k: value for k, value in assertion.params.items() if k not in ("evaluators", "rule")}
        assertion = replace(assertion, params=params)
    return assertion_digest(replace(assertion, params={"params": assertion.params, "shown": visible}))


def _group_by_prompt(
    judgments: Iterable[Judgment], judges: set[str]
) -> dict[tuple[str | None, ...], list[Judgment]]:
    """Groups the judgments of these judges that have a verdict or value, by judge and prompt."""
    by_prompt: dict[tuple[str | None, ...], list[Judgment]] = defaultdict(list)
    for judgment in judgments:
        if judgment.judge in judges and (judgment.passed is not None or judgment.value is not None):
            by_prompt[judgment.judge, judgment.evaluator, judgment.prompt_digest].append(judgment)
    return by_prompt


def _shows_metadata(assertion: Assertion) -> bool:
    return bool(GRADERS.get(assertion.grader).shows_metadata)


def _required_calls(case: Case) -> frozenset[str]:
    return frozenset().union(
        *(build_grader(assertion, GRADERS.get).requirements() for assertion in case.assertions)
    )


def add_reused_answers(
    own: PriorTrialFinder,
    store: Store,
    run: Run,
    index: CaseIndex,
    values: VariableValues,
    limits: ReuseLimits = ANY_TIME,
) -> PriorTrialFinder:
    """Returns a finder of the trials of a new or continued run, and of answers that it reuses or regrades.

    Args:
        own: finds the run's own trials.
        store: has the earlier runs.
        run: the run.
        index: its cases.
        values: compares variables with their values in earlier runs.
        limits: from when on answers and judgments are reused.
    """
    if run.regrade_of is not None:
        return chain_finders(own, make_regrade_finder(store, run, index, values))
    return (
        chain_finders(own, ReuseFinder(store, run, index, values, limits=limits))
        if run.settings.reuse
        else own
    )
