"""People beside graders: which answers of a run a person can label, in which order, and what that comes to.

What the graders said of an answer is told only to whoever has labelled it, as it would sway them.
"""

from __future__ import annotations

import json
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import chain, islice
from threading import Lock
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from proctor.calibration import Heard, calibrated
from proctor.codec import target_digest
from proctor.model import Calibration, Case, Run, Score, Trial, Verdict
from proctor.protocols import KeptLabel, Store
from proctor.services.runs.reading.report import rows_of
from proctor.verdicts import Rules, rules_of, verdict_of

ENOUGH = 10
"""From so many labelled answers on it is told how far the graders agree with people."""
Show = Literal["unlabelled", "disagreements", "all"]
Key = tuple[str, int]
"""An answer of a run by its case and repeat."""
_SAID = {Verdict.PASS: True, Verdict.FAIL: False}
_REMEMBERED = 4
"""Runs of which the answers are kept at hand, and people whose order of them is."""


class Reviewable(Struct, frozen=True, gc=False, kw_only=True):
    """An answer that a person can label."""

    position: int
    repeat: int
    case_id: str
    tags: tuple[str, ...]
    held_out: bool
    said: bool | None
    """Whether the judges passed it, or the graders where none was asked; None for no verdict."""
    judged: bool
    """A judge was asked about it."""

    @property
    def key(self) -> Key:
        """Which answer of its run it is."""
        return self.case_id, self.repeat


class Answers:
    """The answers of a run that can be labelled, and the order in which each person is shown them."""

    def __init__(self, answers: Iterable[Reviewable]) -> None:
        """Holds them as they are."""
        self._all = tuple(answers)
        self._by_key = {one.key: one for one in self._all}
        self._by_place = {(one.position, one.repeat): one for one in self._all}
        self._orders: dict[tuple[str, str], tuple[Reviewable, ...]] = {}
        self.tags = sorted({tag for one in self._all for tag in one.tags})
        self.judged = any(one.judged for one in self._all)
        """A judge was asked about some of them."""
        self.held_out = sum(one.held_out for one in self._all)

    def __len__(self) -> int:
        return len(self._all)

    def of(self, key: Key) -> Reviewable | None:
        """The answer to that repeat of a case, if it is there."""
        return self._by_key.get(key)

    def at(self, position: int, repeat: int) -> Reviewable | None:
        """The answer at a position of the suite, if it is there."""
        return self._by_place.get((position, repeat))

    def order(self, run_id: str, by: str) -> tuple[Reviewable, ...]:
        """A person's order of them all, which is random, always the same, and tells no verdict."""
        found = self._orders.get((run_id, by))
        if found is None:
            found = tuple(sorted(self._all, key=lambda one: _rank(run_id, by, one)))
            if len(self._orders) >= _REMEMBERED:
                self._orders.clear()
            self._orders[run_id, by] = found
        return found


def reviewable(store: Store, run: Run) -> Answers:
    """The answers of a run that are finished.

    Raises:
        StoreError: the store cannot be read.
    """
    rules = rules_of(run)
    return Answers(
        Reviewable(
            position=row.trial.position,
            repeat=row.trial.repeat,
            case_id=row.trial.case_id,
            tags=row.case.tags,
            held_out=row.trial.split == "holdout",
            said=graders_pass(row.trial, row.case, rules),
            judged=bool(judged_scores(row.trial)),
        )
        for row in rows_of(store, run, reveal=True)
        if row.trial.output is not None
    )


def judged_scores(trial: Trial) -> tuple[Score, ...]:
    """The scores for which a judge was asked."""
    return tuple([score for score in trial.scores if score.judgments])


def graders_pass(trial: Trial, case: Case, rules: Rules) -> bool | None:
    """Whether the judges passed an answer, or all graders where no judge was asked; None for no verdict."""
    scores = judged_scores(trial)
    verdict = verdict_of(replace(trial, scores=scores) if scores else trial, rules(case))
    return _SAID.get(verdict)


class ReviewCache:
    """The answers of runs, read once and kept for as long as they stay the same."""

    def __init__(self) -> None:
        """Nothing is read yet."""
        self._known: OrderedDict[tuple[Any, ...], Answers] = OrderedDict()
        self._lock = Lock()

    def of(self, store: Store, run: Run) -> Answers:
        """As `reviewable`.

        Raises:
            StoreError: the store cannot be read.
        """
        key: tuple[Any, ...] = (run.id, run.finished_at)
        if run.status != "finished":
            key = (run.id, sum(many for verdict, many in store.counts(run.id).items() if verdict is not None))
        with self._lock:
            found = self._known.get(key)
        if found is None:
            found = reviewable(store, run)
        with self._lock:
            self._known[key] = found
            self._known.move_to_end(key)
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return found


class Review:
    """One person's review of one run. Pure."""

    def __init__(
        self, run: Run, answers: Answers, labels: Iterable[KeptLabel], *, by: str, revealed: bool
    ) -> None:
        """Puts labels and answers together.

        Args:
            run: the run.
            answers: what can be labelled.
            labels: the run's, oldest first.
            by: who labels.
            revealed: with the answers that are held out.
        """
        self.run = run
        self.by = by
        self.tags = answers.tags
        self.judged = answers.judged
        self.sealed = 0 if revealed else answers.held_out
        """So many answers are held out and left out."""
        self.total = len(answers) - self.sealed
        self._answers = answers
        self._revealed = revealed
        self._labels: defaultdict[Key, list[KeptLabel]] = defaultdict(list)
        for kept in labels:
            one = answers.of((kept.label.case_id, kept.label.repeat))
            if one is not None and self._is_seen(one):
                self._labels[one.key].append(kept)

    @property
    def who(self) -> str:
        """Whose verdicts are held against the labels."""
        return "the judge" if self.judged else "the graders"

    # --- labels ---

    def mine(self, one: Reviewable) -> KeptLabel | None:
        """What this person said of an answer."""
        return next((kept for kept in self._labels.get(one.key, ()) if kept.label.by == self.by), None)

    def of_others(self, one: Reviewable) -> list[KeptLabel]:
        """What other people said of it."""
        return [kept for kept in self._labels.get(one.key, ()) if kept.label.by != self.by]

    def _mine(self) -> Iterator[tuple[Reviewable, KeptLabel]]:
        for key, group in self._labels.items():
            one = self._answers.of(key)
            for kept in group:
                if one is not None and kept.label.by == self.by:
                    yield one, kept

    @property
    def labelled(self) -> int:
        """How many answers this person has labelled, or anybody while nobody says who they are."""
        return sum(1 for _ in self._mine()) if self.by else len(self._labels)

    @property
    def last(self) -> tuple[Reviewable, KeptLabel] | None:
        """This person's newest label, and what it is of."""
        return max(self._mine(), key=lambda pair: pair[1].number, default=None)

    def differs(self, one: Reviewable) -> bool:
        """Whether this person and the graders say the opposite of each other."""
        mine = self.mine(one)
        return mine is not None and self._counts(one) and mine.label.passed is not one.said

    @property
    def disagreements(self) -> list[Reviewable]:
        """The answers of which they do, in the order in which they were labelled."""
        return [one for one, _ in self._mine() if self.differs(one)]

    def _counts(self, one: Reviewable) -> bool:
        return one.said is not None and one.judged is self.judged

    # --- the way through them ---

    def at(self, position: int, repeat: int) -> Reviewable | None:
        """The answer at a position of the suite; None where none can be labelled there."""
        one = self._answers.at(position, repeat)
        return one if one is not None and self._is_seen(one) else None

    def _is_seen(self, one: Reviewable) -> bool:
        return self._revealed or not one.held_out

    def next(self, after: Reviewable | None, show: Show, tag: str) -> Reviewable | None:
        """The next answer in this person's order, beginning anew at its end; None where there is no other.

        Args:
            after: where they are; None for what they labelled last.
            show: which: those without a label of theirs, those where they and the graders differ, or all.
            tag: only answers of cases with this tag; empty for all.
        """
        if after is None and self.last is not None:
            after = self.last[0]
        order = self._answers.order(self.run.id, self.by)
        start = 0 if after is None else order.index(after) + 1
        for one in chain(islice(order, start, None), islice(order, start)):
            if one is not after and self._wanted(one, show, tag):
                return one
        return after if after is not None and self._wanted(after, show, tag) else None

    def _wanted(self, one: Reviewable, show: Show, tag: str) -> bool:
        if not self._is_seen(one) or (tag and tag not in one.tags):
            return False
        if show == "unlabelled":
            return self.mine(one) is None
        return show == "all" or self.differs(one)

    # --- what it comes to ---

    def agreement(self) -> Calibration | None:
        """How far the graders agree with the labels of all people so far; None while these are few."""
        heard = []
        for key, group in self._labels.items():
            one = self._answers.of(key)
            if one is not None and self._counts(one):
                heard.append(Heard(people=tuple(kept.label.passed for kept in group), usual=(one.said,)))
        if len(heard) < ENOUGH:
            return None
        newest = max(kept.at for group in self._labels.values() for kept in group)
        judge = self.run.judges[0] if self.run.judges else self.run.target
        name = " and ".join(one.name for one in self.run.judges) or "graders"
        return calibrated(heard, judge=target_digest(judge), name=name, at=newest, labels="", prompts=())


def _rank(run_id: str, by: str, one: Reviewable) -> bytes:
    seed = f"{run_id}\n{by}\n{one.position}\n{one.repeat}"
    return sha256(seed.encode("utf-8", "surrogatepass")).digest()


def exam_sheet(case: Case) -> Iterator[tuple[str, str]]:
    """How answers to a case are judged: headings with texts."""
    if case.criteria:
        yield "Criteria", case.criteria
    if case.expected not in (None, "", [], {}):
        yield "Expected", _text(case.expected)
    for assertion in case.assertions:
        shown = {name: value for name, value in assertion.params.items() if value not in (None, "", [], {})}
        name = assertion.label or assertion.grader
        said = "\n\n".join(_parameter(*item) for item in shown.items()) or "It has no parameters."
        yield f"Checked by {name}", f"This must not hold:\n{said}" if assertion.negated else said


def _parameter(name: str, value: Any) -> str:
    text = _text(value)
    return f"{name}:\n{text}" if "\n" in text else f"{name}: {text}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=str)
