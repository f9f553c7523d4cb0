"""The linter: applies all rules to a stream of cases. Pure.

Findings are warnings and never keep a suite from being run. A rule is silenced for one case by the case's
field `lint`, and for all cases by the caller. `docs/lint.md` describes each code.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator
from datetime import UTC, datetime
from time import thread_time
from typing import Any, Final

from proctor.codec import judged_digest
from proctor.errors import UsageError, suggestion
from proctor.grading import Graders, Help, Manner, grade, grade_at_once, manner_of, score
from proctor.lint.always_passing import Came, Vacuous
from proctor.lint.answer_leaks import leaks
from proctor.lint.case_ids import Ids
from proctor.lint.contamination import Cases, Search
from proctor.lint.contradictions import contradictions
from proctor.lint.duplicates import Duplicates
from proctor.lint.expected_not_checked import empty_expected, json_expected, judges_without_rubric
from proctor.lint.findings import Finding, Passes, Spot
from proctor.lint.regex_rules import Backtracking, empty_matches
from proctor.lint.suite_size import tokens_estimated
from proctor.lint.suppressions import EVERYTHING, silenced, unknown
from proctor.model import Assertion, Case, Output, PassRule, Problem, Score, Suite, Trial, Verdict
from proctor.protocols import Graded, Placed
from proctor.verdicts import score_of, verdict_of

CODES: Final = {
    "canary": "a canary of the suite stands in other text",
    "contaminated": "a question of the suite stands in other text",
    "contradiction": "no answer can pass two of a case's assertions",
    "empty-expected": "the expected answer is empty",
    "json-expected": "JSON is compared letter by letter",
    "judge-without-rubric": "a judge is asked and told nothing to judge by",
    "leak": "the prompt contains the expected answer",
    "mixed-id-languages": "ids are in several scripts, or some cases have none of their own",
    "near-duplicate": "two cases ask the same, or nearly",
    "regex-backtracking": "the search for a pattern takes without bound",
    "regex-empty": "a pattern matches an empty answer",
    "similar-id": "two ids differ only in case or white space",
    "tokens-est": "the estimate of a case's tokens is far off",
    "too-few-cases": "too few cases decide a comparison or a gate",
    "unknown-lint": "`lint` of a case names no rule",
    "vacuous-echo": "a case passes on its own prompt",
    "vacuous-empty": "a case passes on an empty answer",
    "vacuous-refusal": "a case passes on a refusal",
}
"""Every code with its description; codes never change."""

Rule = Callable[[Case, Passes], Iterator[Finding]]
"""A rule that needs only one case."""

_RULES: Final[tuple[Rule, ...]] = (
    judges_without_rubric,
    empty_expected,
    json_expected,
    leaks,
    empty_matches,
    contradictions,
    tokens_estimated,
)
SLOW_S: Final = 0.05
"""Grading that takes more processor time counts as slow, mostly because a pattern backtracks."""
PATIENCE_S: Final = 3.0
"""The processor time for all slow grading of a suite; after that, answers are no longer graded."""
_STARTED: Final = datetime(2000, 1, 1, tzinfo=UTC)
_EMPTY_CASE: Final = Case(id="", input=())
_PASS_ALL: Final = PassRule(threshold=0.0)


def check_codes(codes: Collection[str]) -> None:
    """Checks that all codes exist.

    Raises:
        UsageError: a code does not exist.
    """
    for code in codes:
        if code not in CODES:
            raise UsageError(f"There is no rule {code!r} to ignore. {suggestion(code, list(CODES))}")


class Linter:
    """Lints the cases of one suite, as a stream."""

    def __init__(self, path: str, graders: Graders, ignored: Collection[str] = ()) -> None:
        """Prepares the rules for one suite.

        Args:
            path: the suite's file, for cases that name none of their own.
            graders: grader classes by name.
            ignored: codes that are not reported.
        """
        self._path = path
        self._graders = graders
        self._ignored = frozenset(ignored)
        self._silenced: dict[str, frozenset[str]] = {}
        self._problems: list[Problem] = []
        self._count = 0
        self._ids = Ids()
        self._duplicates = Duplicates()
        self._vacuous = Vacuous(self._grade_text)
        self._rules = (*_RULES, Backtracking().check)
        self.files: dict[str, None] = {path: None}
        """The files of the suite, in the order in which cases stand in them."""
        self.left_s = PATIENCE_S
        """The remaining time for slow grading."""

    def add(self, placed: Placed) -> None:
        """Adds the next case, which must have no error."""
        case = placed.case
        spot = Spot(case.id, placed.path or self._path, placed.line)
        self.files.setdefault(spot.path)
        self._count += 1
        if "lint" in case.metadata:
            self._silenced[case.id] = silenced(case)
            for finding in unknown(case, CODES):
                self._tell(finding, spot)
        codes: set[str] = set()
        for rule in self._rules:
            for finding in rule(case, self._passes):
                codes.add(finding.code)
                self._tell(finding, spot)
        for finding in self._vacuous.add(case, spot, codes):
            self._tell(finding, spot)
        for finding in self._ids.add(spot, named=placed.named):
            self._tell(finding, spot)
        self._duplicates.add(case, spot, judged_digest(case).encode("ascii"))

    def done(self, suite: Suite) -> list[Problem]:
        """Returns all findings, by file and line.

        Args:
            suite: the suite's header.
        """
        for finding, spot in self._vacuous.done(suite.pass_rule):
            self._tell(finding, spot)
        for finding, spot, other in self._duplicates.done():
            self._tell(finding, spot, other)
        for finding, spot in self._ids.done():
            self._tell(finding, spot)
        return in_file_order(self._problems, self.files)

    def _tell(self, finding: Finding, *spots: Spot) -> None:
        """Reports a finding for the first of these cases, unless any of them silences it."""
        if finding.code in self._ignored:
            return
        for spot in spots:
            if not self._silenced.get(spot.case, frozenset()).isdisjoint((finding.code, EVERYTHING)):
                return
        self._problems.append(problem_of(finding, spots[0]))

    # --- grading -------------------------------------------------------------------------------------------

    def _passes(self, assertion: Assertion, text: str) -> bool | None:
        """Returns whether an answer passes one assertion; None if that is unknown."""
        kind = self._graders(assertion.grader)
        if kind.needs or kind.over_repeats:
            return None
        graded = Graded(case=_EMPTY_CASE, output=Output(text=text))
        scored = self._timed(lambda: _run_now(score(assertion, graded, self._graders)))
        if scored is None or scored.outcome is Verdict.UNSCORED:
            return None
        return scored.outcome is Verdict.PASS

    def _grade_text(self, case: Case, text: str) -> Came | None:
        """Grades an answer to a case by the graders that make no calls; None if that is not possible."""
        output = Output(text=text)
        scores: tuple[Score, ...] | None = self._timed(lambda: self._scores(case, output))
        if scores is None or not any(score.value for score in scores):
            return None
        trial = Trial(case_id=case.id, position=0, sent="", output=output, scores=scores, started_at=_STARTED)
        if verdict_of(trial, _PASS_ALL) is not Verdict.PASS:
            return None
        return Came(strict=verdict_of(trial, PassRule()) is Verdict.PASS, score=score_of(trial) or 0.0)

    def _scores(self, case: Case, output: Output) -> tuple[Score, ...] | None:
        manner = manner_of(case, self._graders)
        if manner is Manner.AT_ONCE:
            return grade_at_once(case, output, self._graders)
        if manner is Manner.ASKING and not any(
            self._graders(assertion.grader).needs for assertion in case.assertions
        ):
            scores: tuple[Score, ...] | None = _run_now(grade(case, output, self._graders, Help()))
            return scores
        return None

    def _timed(self, work: Callable[[], Any]) -> Any:
        """Returns the result of the work; None once slow work has used up the time."""
        if self.left_s <= 0:
            return None
        start = thread_time()
        result = work()
        elapsed = thread_time() - start
        if elapsed > SLOW_S:
            self.left_s -= elapsed
        return result


def _run_now(work: Coroutine[Any, Any, Any]) -> Any:
    """Returns the result of a coroutine that does not wait; None if it waits."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    work.close()
    return None


# --- other text --------------------------------------------------------------------------------------------


class Contamination:
    """Searches other texts for the cases of a suite."""

    def __init__(self, path: str, ignored: Collection[str] = ()) -> None:
        """Takes the same arguments as `Linter`."""
        self._path = path
        self._ignored = frozenset(ignored)
        self._silenced: dict[str, frozenset[str]] = {}
        self._cases = Cases()
        self._closed = False

    def add(self, placed: Placed) -> None:
        """Adds the next case."""
        case = placed.case
        if "lint" in case.metadata:
            self._silenced[case.id] = silenced(case)
        self._cases.add(case, Spot(case.id, placed.path or self._path, placed.line))

    def search(self, path: str, pieces: Iterator[str]) -> list[Problem]:
        """Returns a problem for each case that is found in a text.

        Args:
            path: the text's name, for messages.
            pieces: the text from beginning to end, each piece ending between two words.
        """
        if not self._closed:
            self._cases.close()
            self._closed = True
        search = Search(self._cases, path)
        for piece in pieces:
            search.read(piece)
        problems = []
        for finding, spot in search.done():
            ignored = self._ignored | self._silenced.get(spot.case, frozenset())
            if ignored.isdisjoint((finding.code, EVERYTHING)):
                problems.append(problem_of(finding, spot))
        return problems


def problem_of(finding: Finding, spot: Spot) -> Problem:
    """Makes a warning of a finding at the location of its case."""
    return Problem(
        level="warning",
        code=finding.code,
        message=finding.message,
        path=spot.path,
        line=spot.line,
        field=finding.field,
        case=spot.case or None,
    )


def in_file_order(problems: Collection[Problem], files: Iterable[str] = ()) -> list[Problem]:
    """Sorts problems by file and line; files that are not given come last, in order of appearance."""
    paths = (*files, *(problem.path for problem in problems))
    places = {path: place for place, path in enumerate(dict.fromkeys(paths))}
    return sorted(problems, key=lambda problem: (places[problem.path], problem.line or 0))
