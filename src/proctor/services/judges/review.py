"""Reviews of runs by people: which answers a person can label, in which order, and how far graders agree.

A person sees the graders' verdict on an answer only after labelling it, so that it does not influence them.
"""

from __future__ import annotations

import json
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import chain, islice
from math import fsum
from statistics import fmean
from threading import Lock
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from proctor.calibration import AnswerVerdicts, make_calibration
from proctor.codec import target_digest
from proctor.model import Calibration, Case, Label, LabelDraw, Run, Score, Trial, Verdict
from proctor.protocols import Store, StoredLabel
from proctor.services.runs.reading.report import read_trial_rows
from proctor.verdicts import PassRuleLookup, decide_verdict, pass_rules_for

MIN_LABELLED = 10
"""The minimum number of labelled answers to show the agreement of graders and people."""
ReviewFilter = Literal["unlabelled", "doubt", "disagreements", "all"]
AnswerKey = tuple[str, int]
"""The case id and repeat of an answer of a run."""
_MAX_FACTOR = 4
"""How many times as often as an answer without doubt a draw for doubt takes the most doubtful one."""
_MAX_CACHED = 4
"""The maximum number of cached runs, and of cached orders per run."""


class ReviewableAnswer(Struct, frozen=True, gc=False, kw_only=True):
    """An answer that a person can label."""

    position: int
    repeat: int
    case_id: str
    tags: tuple[str, ...]
    held_out: bool
    said: bool | None
    """Whether the judges passed it, or the graders where it has no judge; None for no verdict."""
    judged: bool
    """Whether a judge judged it."""
    doubt: float = 0.0
    """How far its judges doubt it, from 0 to 1."""

    @property
    def key(self) -> AnswerKey:
        """The case id and repeat."""
        return self.case_id, self.repeat


class ReviewAnswers:
    """The answers of a run that can be labelled, and the order for each person."""

    def __init__(self, answers: Iterable[ReviewableAnswer]) -> None:
        """Takes the answers."""
        self._all = tuple(answers)
        self._by_key = {answer.key: answer for answer in self._all}
        self._by_place = {(answer.position, answer.repeat): answer for answer in self._all}
        self._orders: dict[tuple[str, str, LabelDraw], tuple[ReviewableAnswer, ...]] = {}
        self._mean_sizes = {
            held_out: fmean(_size(answer) for answer in self._all if answer.held_out is held_out)
            for held_out in {answer.held_out for answer in self._all}
        }
        self.tags = sorted({tag for answer in self._all for tag in answer.tags})
        self.judged = any(answer.judged for answer in self._all)
        """Whether a judge judged some of them."""
        self.held_out = sum(answer.held_out for answer in self._all)

    def __len__(self) -> int:
        return len(self._all)

    def get(self, key: AnswerKey) -> ReviewableAnswer | None:
        """Returns the answer with that key; None if there is none."""
        return self._by_key.get(key)

    def at(self, position: int, repeat: int) -> ReviewableAnswer | None:
        """Returns the answer at a position of the suite; None if there is none."""
        return self._by_place.get((position, repeat))

    def relative_chance(self, answer: ReviewableAnswer) -> float:
        """Returns how often a draw for doubt takes an answer, where it takes the mean of its split once."""
        return _size(answer) / self._mean_sizes[answer.held_out]

    def order(self, run_id: str, by: str, draw: LabelDraw = "random") -> tuple[ReviewableAnswer, ...]:
        """Returns all answers in a person's order, which is always the same and does not tell the verdict.

        The first answers are a sample of all: each equally likely, or in a draw for doubt by
        `relative_chance`.

        Source: E. Ohlsson, "Sequential Poisson sampling", Journal of Official Statistics 14 (1998), 149-162.
        """
        shuffled = self._orders.get((run_id, by, draw))
        if shuffled is None:
            shuffled = tuple(sorted(self._all, key=lambda answer: self._rank(run_id, by, draw, answer)))
            if len(self._orders) >= _MAX_CACHED:
                self._orders.clear()
            self._orders[run_id, by, draw] = shuffled
        return shuffled

    def _rank(self, run_id: str, by: str, draw: LabelDraw, answer: ReviewableAnswer) -> tuple[float, bytes]:
        seed = f"{run_id}\n{by}\n{answer.position}\n{answer.repeat}"
        if draw == "random":
            return 0.0, _hash(seed)
        digest = _hash(f"{seed}\n{draw}")
        return int.from_bytes(digest[:8]) / self.relative_chance(answer), digest


def load_review_answers(store: Store, run: Run) -> ReviewAnswers:
    """Loads the finished answers of a run.

    Raises:
        StoreError: the store cannot be read.
    """
    rules = pass_rules_for(run)
    return ReviewAnswers(
        ReviewableAnswer(
            position=row.trial.position,
            repeat=row.trial.repeat,
            case_id=row.trial.case_id,
            tags=row.case.tags,
            held_out=row.trial.split == "holdout",
            said=graders_pass(row.trial, row.case, rules),
            judged=bool(judged_scores(row.trial)),
            doubt=measure_doubt(row.trial),
        )
        for row in read_trial_rows(store, run, reveal=True)
        if row.trial.output is not None
    )


def judged_scores(trial: Trial) -> tuple[Score, ...]:
    """Returns the scores that judges gave."""
    return tuple([score for score in trial.scores if score.judgments])


def measure_doubt(trial: Trial) -> float:
    """Returns how far the judges of an answer doubt it, from 0 to 1; 0 if no judge judged it.

    It is 1 for a score without a value, and else the larger of two: how evenly its judgments are divided, an
    unreadable one being half of each; and how near its value is to the middle of the scale.
    """
    return max(map(_measure_score_doubt, judged_scores(trial)), default=0.0)


def _measure_score_doubt(score: Score) -> float:
    if score.value is None:
        return 1.0
    votes = fsum(0.5 if judgment.passed is None else judgment.passed for judgment in score.judgments)
    share, value = votes / len(score.judgments), min(1.0, max(0.0, score.value))
    return max(1 - abs(2 * share - 1), 4 * value * (1 - value))


def graders_pass(trial: Trial, case: Case, rules: PassRuleLookup) -> bool | None:
    """Whether the judges passed an answer, or all graders where it has no judge; None for no verdict."""
    scores = judged_scores(trial)
    verdict = decide_verdict(replace(trial, scores=scores) if scores else trial, rules(case))
    return {Verdict.PASS: True, Verdict.FAIL: False}.get(verdict)


class ReviewCache:
    """A cache of the answers of runs, which are read again only when they change."""

    def __init__(self) -> None:
        """Starts empty."""
        self._cache: OrderedDict[tuple[Any, ...], ReviewAnswers] = OrderedDict()
        self._lock = Lock()

    def get(self, store: Store, run: Run) -> ReviewAnswers:
        """Returns the answers of a run, as `load_review_answers` does.

        Raises:
            StoreError: the store cannot be read.
        """
        key: tuple[Any, ...] = (run.id, run.finished_at)
        if run.status != "finished":
            key = (
                run.id,
                sum(count for verdict, count in store.count_verdicts(run.id).items() if verdict is not None),
            )
        with self._lock:
            answers = self._cache.get(key)
        if answers is None:
            answers = load_review_answers(store, run)
        with self._lock:
            self._cache[key] = answers
            self._cache.move_to_end(key)
            if len(self._cache) > _MAX_CACHED:
                self._cache.popitem(last=False)
        return answers


class Review:
    """One person's review of one run, without I/O."""

    def __init__(
        self, run: Run, answers: ReviewAnswers, labels: Iterable[StoredLabel], *, by: str, revealed: bool
    ) -> None:
        """Matches labels with answers.

        Args:
            run: the run.
            answers: the answers that can be labelled.
            labels: the labels of the run, oldest first.
            by: the person who labels.
            revealed: include held-out answers.
        """
        self.run = run
        self.by = by
        self.tags = answers.tags
        self.judged = answers.judged
        self.sealed = 0 if revealed else answers.held_out
        """The number of held-out answers that are left out."""
        self.total = len(answers) - self.sealed
        self._answers = answers
        self._revealed = revealed
        self._labels: defaultdict[AnswerKey, list[StoredLabel]] = defaultdict(list)
        for stored_label in labels:
            answer = answers.get((stored_label.label.case_id, stored_label.label.repeat))
            if answer is not None and self._is_visible(answer):
                self._labels[answer.key].append(stored_label)

    @property
    def who(self) -> str:
        """Whose verdicts are compared with the labels, as words."""
        return "the judge" if self.judged else "the graders"

    # --- labels ---

    def mine(self, answer: ReviewableAnswer) -> StoredLabel | None:
        """Returns this person's label of an answer."""
        return next(
            (
                stored_label
                for stored_label in self._labels.get(answer.key, ())
                if stored_label.label.by == self.by
            ),
            None,
        )

    def labels_of_others(self, answer: ReviewableAnswer) -> list[StoredLabel]:
        """Returns other people's labels of it."""
        return [
            stored_label
            for stored_label in self._labels.get(answer.key, ())
            if stored_label.label.by != self.by
        ]

    def _own_labels(self) -> Iterator[tuple[ReviewableAnswer, StoredLabel]]:
        for key, group in self._labels.items():
            answer = self._answers.get(key)
            for stored_label in group:
                if answer is not None and stored_label.label.by == self.by:
                    yield answer, stored_label

    @property
    def labelled(self) -> int:
        """The number of answers that this person has labelled; without a name, that anyone has."""
        return sum(1 for _ in self._own_labels()) if self.by else len(self._labels)

    @property
    def last(self) -> tuple[ReviewableAnswer, StoredLabel] | None:
        """This person's newest label, with its answer."""
        return max(self._own_labels(), key=lambda pair: pair[1].number, default=None)

    def differs(self, answer: ReviewableAnswer) -> bool:
        """Whether this person and the graders disagree."""
        mine = self.mine(answer)
        return mine is not None and self._counts(answer) and mine.label.passed is not answer.said

    @property
    def disagreements(self) -> list[ReviewableAnswer]:
        """The answers on which they disagree, in the order of the labels."""
        return [answer for answer, _ in self._own_labels() if self.differs(answer)]

    def _counts(self, answer: ReviewableAnswer) -> bool:
        return answer.said is not None and answer.judged is self.judged

    # --- the way through them ---

    def at(self, position: int, repeat: int) -> ReviewableAnswer | None:
        """Returns the answer at a position of the suite; None if none can be labelled."""
        answer = self._answers.at(position, repeat)
        return answer if answer is not None and self._is_visible(answer) else None

    def _is_visible(self, answer: ReviewableAnswer) -> bool:
        return self._revealed or not answer.held_out

    def next(self, after: ReviewableAnswer | None, show: ReviewFilter, tag: str) -> ReviewableAnswer | None:
        """Returns the next answer in this person's order, starting again at its end; None without another.

        Args:
            after: the current answer; None for the one labelled last.
            show: answers that this person has not labelled, those where graders disagree, or all.
            tag: only answers of cases with this tag; empty for all.
        """
        if after is None and self.last is not None:
            after = self.last[0]
        order = self._answers.order(self.run.id, self.by, "doubt" if show == "doubt" else "random")
        start = 0 if after is None else order.index(after) + 1
        if show == "doubt" and after is not None:
            mine = self.mine(after)
            if mine is not None and mine.label.drawn != "doubt":
                start = 0  # the order of another draw does not say how far this one is
        for answer in chain(islice(order, start, None), islice(order, start)):
            if answer is not after and self._matches(answer, show, tag):
                return answer
        return after if after is not None and self._matches(after, show, tag) else None

    def _matches(self, answer: ReviewableAnswer, show: ReviewFilter, tag: str) -> bool:
        if not self._is_visible(answer) or (tag and tag not in answer.tags):
            return False
        if show in ("unlabelled", "doubt"):
            return self.mine(answer) is None
        return show == "all" or self.differs(answer)

    def draw(self, answer: ReviewableAnswer, show: ReviewFilter, tag: str) -> LabelDraw | None:
        """Returns how an answer that is labelled now was chosen; None if this person chose it.

        A label that replaces one of the same person keeps the draw of the first.
        """
        mine = self.mine(answer)
        if mine is not None:
            return mine.label.drawn
        if tag:
            return None
        draws: dict[ReviewFilter, LabelDraw] = {"unlabelled": "random", "doubt": "doubt"}
        return draws.get(show)

    def relative_chance(self, answer: ReviewableAnswer) -> float:
        """Returns how often a draw for doubt takes an answer, where it takes the mean answer once."""
        return self._answers.relative_chance(answer)

    # --- what it comes to ---

    def agreement(self) -> Calibration | None:
        """Returns how far the graders agree with all people's labels so far; None while there are few."""
        judged_answers = []
        for key, group in self._labels.items():
            answer = self._answers.get(key)
            if answer is not None and self._counts(answer):
                judged_answers.append(
                    AnswerVerdicts(
                        human_verdicts=tuple(stored_label.label.passed for stored_label in group),
                        judge_verdicts=(answer.said,),
                        for_doubt=is_for_doubt(stored_label.label for stored_label in group),
                    )
                )
        if len(judged_answers) < MIN_LABELLED:
            return None
        newest = max(stored_label.at for group in self._labels.values() for stored_label in group)
        judge = self.run.judges[0] if self.run.judges else self.run.target
        name = " and ".join(spec.name for spec in self.run.judges) or "graders"
        return make_calibration(
            judged_answers, judge=target_digest(judge), name=name, at=newest, labels="", prompts=()
        )


def is_for_doubt(labels: Iterable[Label]) -> bool:
    """Whether an answer with these labels was only drawn because judges doubt it."""
    draws = {label.drawn for label in labels}
    return "doubt" in draws and "random" not in draws


def _size(answer: ReviewableAnswer) -> float:
    return 1 + (_MAX_FACTOR - 1) * answer.doubt


def _hash(seed: str) -> bytes:
    return sha256(seed.encode("utf-8", "surrogatepass")).digest()


def describe_judging(case: Case) -> Iterator[tuple[str, str]]:
    """Yields how answers to a case are judged, as headings with texts."""
    if case.criteria:
        yield "Criteria", case.criteria
    if case.expected not in (None, "", [], {}):
        yield "Expected", _to_text(case.expected)
    for assertion in case.assertions:
        params = {name: value for name, value in assertion.params.items() if value not in (None, "", [], {})}
        name = assertion.label or assertion.grader
        description = (
            "\n\n".join(_format_parameter(*item) for item in params.items()) or "It has no parameters."
        )
        yield (
            f"Checked by {name}",
            f"This must not be true:\n{description}" if assertion.negated else description,
        )


def _format_parameter(name: str, value: Any) -> str:
    text = _to_text(value)
    return f"{name}:\n{text}" if "\n" in text else f"{name}: {text}"


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=str)
