"""Stored runs that are taken up again: continued, retried where they failed, or graded again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec.structs import replace

from proctor.codec import settings_digest, target_digest
from proctor.errors import StoreError, UsageError
from proctor.graders import GRADERS
from proctor.grading import bind
from proctor.model import Run, Settings, Suite
from proctor.plan import Index, Indexer
from proctor.plurals import counted
from proctor.protocols import Store
from proctor.services.runs.execution.open_targets import specs_of
from proctor.services.runs.execution.target_pool import embedder_of
from proctor.services.runs.execution.variable_values import VariableValues, variables_of
from proctor.services.runs.planning.judge_choice import Casting, Wanted, Wishes
from proctor.services.runs.request import Job, Request, new_id

if TYPE_CHECKING:
    from proctor.services.runs.planning.resume_settings import Difference


class StoredRuns:
    """Makes jobs of runs that are in the store."""

    def __init__(
        self, store: Store, environ: Mapping[str, str], warn: Callable[[str], None], prices_date: str | None
    ) -> None:
        """Reads nothing yet.

        Args:
            store: where the runs are.
            environ: what suites and targets may name.
            warn: told what is doubtful.
            prices_date: the newest date of the prices in use; every new run records it.
        """
        self._store = store
        self._environ = environ
        self._values = VariableValues(store, environ)
        self._warn = warn
        self._prices_date = prices_date

    def resumed(self, jobs: list[Job], request: Request) -> Iterator[Job]:
        """The jobs, each on the newest run of its kind that is unfinished, or finished beside such a one.

        Raises:
            UsageError: the request asks for what such a run has otherwise.
        """
        from proctor.services.runs.planning.resume_settings import SETTINGS  # as below: most runs begin anew

        # What decides which trials there are is the same in all that is found.
        rest = replace(request, flags=request.flags & SETTINGS.keys())
        alike = [self._alike(job) for job in jobs]
        unfinished = [next((run for run in runs if run.status != "finished"), None) for runs in alike]
        groups = {run.group: run for run in unfinished if run is not None}
        for job, runs, newest in zip(jobs, alike, unfinished, strict=True):
            run = newest or next((run for run in runs if run.group in groups), None)
            if run is not None:
                yield self.continued(run, rest)
                continue
            self._warn(
                f"There is no unfinished run of {job.run.suite.name} on {job.run.target.name} with these "
                "judges and settings: a new one begins."
            )
            yield replace(job, run=replace(job.run, group=next(iter(groups), job.run.group)))

    def _alike(self, job: Job) -> list[Run]:
        """The runs that are to have the same trials, on a target of the same name, by the same judges."""
        wanted = job.run
        runs = self._store.alike(
            wanted.suite.digest,
            target_digest(wanted.target),
            settings_digest((wanted.settings.selection, wanted.settings.repeats)),
        )
        return [
            run
            for run in runs
            if (run.target.name, run.judges, run.regrade_of) == (wanted.target.name, wanted.judges, None)
            and run.imported is None
            and not self._values.changed(run.id, job.wanted.variables | variables_of(specs_of(run)))
            and run.suite.split_rule == wanted.suite.split_rule
            and (run.seat == wanted.seat or self._index_of(run)[0].chosen == job.index.chosen)
        ]

    def continued(self, run: Run, request: Request, others: Iterable[Difference] = ()) -> Job:
        """What is missing of a run, with the settings that it has.

        Args:
            run: the run.
            request: what may change its concurrency and the like, and must ask for nothing else.
            others: what differs besides flags.

        Raises:
            UsageError: the run is imported; or the request asks for what the run has otherwise.
        """
        from proctor.services.runs.planning.resume_settings import check_same, taken_up, unheeded

        check_own(run)
        index, wanted = self._index_of(run)
        changed = self._surroundings(run, wanted) if run.status != "finished" else ()
        check_same(run, request, [*others, *changed])
        if note := unheeded(run, request):
            self._warn(note)
        if run.status == "finished":
            self._warn(f"Run {run.id} has finished already: nothing is missing.")
        else:
            run = replace(run, settings=taken_up(run, request))
        return Job(run=run, index=index, wanted=wanted, earlier_run=run)

    def retried(self, earlier: Run, request: Request, others: Iterable[Difference] = ()) -> Job:
        """A new run of what went wrong in another one; arguments and errors as those of `continued`."""
        from proctor.services.runs.planning.resume_settings import check_same, taken_up

        check_own(earlier)
        index, wanted = self._index_of(earlier)
        others = [*others, *self._surroundings(earlier, wanted)]
        check_same(earlier, request, others, retried=True)
        run = self._anew(earlier, taken_up(earlier, request, retried=True))
        return Job(run=run, index=index, wanted=wanted, earlier_run=earlier)

    def regraded(
        self, earlier: Run, suite: Suite, request: Request, casting: Callable[[Wanted], Casting]
    ) -> Job:
        """A new run that grades the answers of another one by a suite, perhaps another version of its own.

        Args:
            earlier: the run with the answers.
            suite: what they are graded by; in the store.
            request: with the settings that are to be others.
            casting: who judges, from whom the cases want.
        """
        if earlier.status != "finished":
            self._warn(f"Run {earlier.id} has not finished: what it did not ask is ERROR in this one.")
        settings = replace(_newer(earlier.settings, request), reuse=False, cache=False)
        indexer, wanted = self.indexer_of(suite, settings)
        index = indexer.index(suite.split_rule, earlier.seat)
        changed = self._values.changed(earlier.id, wanted.variables)
        if changed:
            names = ", ".join(changed)
            raise UsageError(
                f"Run {earlier.id} had another value of {names}. Set it as it was, or start a new run: "
                f"proctor run '{suite.name}@{suite.version}' --target T."
            )
        who = casting(wanted)
        for message in who.warnings:
            self._warn(message)
        run = replace(
            self._anew(earlier, settings),
            suite=suite,
            judges=who.judges,
            judges_given=who.judges_given,
            named_judges=who.named_judges,
            embedder=embedder_of(self._environ) if "embedder" in wanted.needs else None,
            planned=index.planned,
            regrade_of=earlier.id,
            warnings=who.warnings,
        )
        return Job(run=run, index=index, wanted=wanted)

    def _surroundings(self, run: Run, wanted: Wanted) -> Iterator[Difference]:
        """What of the environment is otherwise than when the run began, as far as that was kept."""
        from proctor.services.runs.planning.resume_settings import Difference

        for name in self._values.changed(run.id, wanted.variables | variables_of(specs_of(run))):
            yield Difference("", f"the variable {name}: it had another value")
        embedder = embedder_of(self._environ)
        if run.embedder is not None and run.embedder != embedder:
            text = f"the embedding model: the run has {run.embedder}, $PROCTOR_EMBEDDINGS names {embedder}"
            yield Difference("", text, by_regrade=True)

    def _anew(self, earlier: Run, settings: Settings) -> Run:
        return replace(
            earlier,
            id=new_id(),
            group=new_id(),
            started_at=datetime.now(UTC),
            finished_at=None,
            status="running",
            prices_date=self._prices_date,
            settings=settings,
            tags=(),
        )

    def _index_of(self, run: Run) -> tuple[Index, Wanted]:
        indexer, wanted = self.indexer_of(run.suite, run.settings)
        return indexer.index(run.suite.split_rule, run.seat), wanted

    def indexer_of(self, suite: Suite, settings: Settings) -> tuple[Indexer, Wanted]:
        """Which cases of a stored suite are selected, and whom they want asked.

        Raises:
            StoreError: the store lacks cases of it, as one that was repaired may.
        """
        indexer, wishes = Indexer(settings.selection, settings.repeats), Wishes()
        count = 0
        for stored in self._store.cases(suite.content):
            count += 1
            if indexer.add(stored.case):
                wishes.add(stored.case, (bind(one, GRADERS.get) for one in stored.case.assertions))
        if count < suite.case_count:
            raise StoreError(
                f"The store has {count:,} of the {counted(suite.case_count, 'case')} of suite {suite.title}. "
                "Save its file again first: `proctor suites save FILE`."
            )
        return indexer, wishes.wanted


def check_own(run: Run) -> None:
    """Refuse an imported run: a stranger wrote whom it asked, perhaps a program or an address for keys.

    Raises:
        UsageError: it is imported.
    """
    if run.imported is not None:
        raise UsageError(
            f"Run {run.id} was imported, and nobody is asked again by what a bundle says. "
            f"`proctor run '{run.suite.name}@{run.suite.version}' --target T` asks its suite anew."
        )


def _newer(earlier: Settings, request: Request) -> Settings:
    """An earlier run's settings with those that a regrade names; what it asks stays what it was."""
    given = request.explicit - {"selection", "repeats"}
    return replace(earlier, **{name: getattr(request.settings, name) for name in given})
