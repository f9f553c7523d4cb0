"""What the pages that compare runs need of them: read beside the requests, and kept while there is room."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from threading import Lock

from msgspec import Struct
from msgspec.structs import replace

from proctor.codec import encode
from proctor.comparison.compare import By, Comparison, Flip, NotMeasured
from proctor.comparison.outcomes import RunFacts, Split
from proctor.model import Run
from proctor.protocols import Store
from proctor.reports.comparison.text import Compared
from proctor.services.analysis import compare as comparing
from proctor.web.project import Site
from proctor.web.tasks import Desk, Task, Told

_MOST_TRIALS = 300_000
"""The facts of so many trials are kept, some 300 bytes each."""


class Question(Struct, frozen=True, kw_only=True):
    """Which runs are compared, and how."""

    runs: tuple[Run, ...]
    split: Split = "all"
    by: By = "category"
    by_digest: bool = False

    @property
    def key(self) -> tuple[object, ...]:
        """The same for the same runs in the same state."""
        return "compare", tuple(encode(run) for run in self.runs), self.split, self.by, self.by_digest

    @property
    def lasting(self) -> bool:
        """Whether no run of it changes any more."""
        return all(run.status == "finished" for run in self.runs)


class Read(Struct, frozen=True, kw_only=True):
    """A comparison, and what whoever shows it has to know besides."""

    compared: Compared
    """Without looks, and without what is known of its judges."""
    held_out: tuple[Run, ...]
    """The runs whose holdout's pass rate is in it."""
    spoken: tuple[RunFacts, ...]
    """The runs without their cases, for the judges that spoke in them."""
    places: Mapping[str, int] = {}
    """The place in the baseline of each case that flipped or was not measured, by its id in the candidate."""


def asked(desk: Desk, site: Site, question: Question) -> Task[Read]:
    """The task that compares runs: one that is under way or done, or a new one."""

    def make(told: Told) -> Read:
        with site.store() as store:
            return _read(store, site.shared("facts", Memory), question, told)

    return desk.ask(question.key, make, "trials read", lasting=question.lasting)


def _read(store: Store, memory: Memory, question: Question, told: Told) -> Read:
    comparing.check_comparable(store, question.runs, by_digest=question.by_digest)
    facts = memory.facts(store, question.runs, by_digest=question.by_digest, told=told)
    whole = comparing.compare_pairwise(facts, split=question.split, by=question.by)
    return Read(
        compared=whole,
        held_out=tuple(comparing.holdout_runs(facts, question.split)) if whole.shows_rates else (),
        spoken=tuple(replace(one, cases=()) for one in facts),
        places={} if whole.ranking is not None else _places(whole.comparisons[0], facts[0]),
    )


def _places(found: Comparison, baseline: RunFacts) -> dict[str, int]:
    """Where in the baseline the cases are that have a row of their own."""
    named = {one.case for kind in ("fixed", "broken", "other") for one in flipped(found, kind)}
    before = {pair.baseline: pair.candidate for pair in found.unpaired.renamed}
    return {name: case.position for case in baseline.cases if (name := before.get(case.id, case.id)) in named}


def flips_of(task: Task[Read], kind: str) -> list[tuple[str, int]]:
    """The cases of one table of a comparison, by id and repeat; none while it is not at hand."""
    if not task.has_ended or task.has_failed:
        return []
    found = task.result().compared.comparisons[0]
    return [(one.case, one.repeat) for one in flipped(found, kind)]


def flipped(found: Comparison, kind: str) -> Sequence[Flip | NotMeasured]:
    """The cases of one table: those `broken`, those `fixed`, and those that are in no number."""
    if kind == "broken":
        return found.broken
    return found.fixed if kind == "fixed" else found.not_measured if kind == "other" else ()


# --- what is kept ------------------------------------------------------------------------------------------


class Memory:
    """The facts of the runs that were compared last; of a run that is not finished nothing is kept."""

    def __init__(self, most: int = _MOST_TRIALS) -> None:
        """Empty, with room for so many trials; the facts that were asked for last always have room."""
        self._most = most
        self._kept: OrderedDict[tuple[str, bool], RunFacts] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        """How many runs are kept."""
        return len(self._kept)

    def facts(
        self, store: Store, runs: Sequence[Run], *, by_digest: bool, told: Told = lambda _done, _total: None
    ) -> list[RunFacts]:
        """What the trials of runs came to; those that are not here are read.

        Args:
            store: where the runs are.
            runs: the runs.
            by_digest: cases are found by what is sent and how it is judged.
            told: how many trials were read of how many.

        Raises:
            StoreError: the store cannot be read.
        """
        kept = ((run.id, self._find(run, by_digest)) for run in runs)
        found = {run_id: facts for run_id, facts in kept if facts is not None}
        missing = {run.id: run for run in runs if run.id not in found}
        total, done = sum(run.planned for run in missing.values()), 0
        for run in missing.values():

            def telling(count: int, _of: int, before: int = done) -> None:
                told(before + count, max(total, before + count))

            (one,) = comparing.load_outcomes(store, [run], by_digest=by_digest, on_progress=telling)
            done += one.trials
            found[run.id] = one
            if run.status == "finished":
                self._keep(one, by_digest)
        return [found[run.id] for run in runs]

    def _find(self, run: Run, by_digest: bool) -> RunFacts | None:
        with self._lock:
            known = self._kept.get((run.id, by_digest))
            if known is None or run.status != "finished":
                return None
            self._kept.move_to_end((run.id, by_digest))
        return replace(known, run=run)  # its tags may be others by now

    def _keep(self, facts: RunFacts, by_digest: bool) -> None:
        with self._lock:
            self._kept[facts.run.id, by_digest] = facts
            while len(self._kept) > 1 and sum(one.trials for one in self._kept.values()) > self._most:
                self._kept.popitem(last=False)
