"""What a user asks for, to the runs that are to be made: suites read, targets named, earlier runs found."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from secrets import token_hex

from msgspec import Struct
from msgspec.structs import replace

from proctor.codec import settings_digest, target_digest
from proctor.errors import NothingSelected, SuiteError, UsageError
from proctor.graders import GRADERS
from proctor.model import Params, Problem, Run, Settings, Suite, TargetSpec
from proctor.plan import Index, Indexer
from proctor.ports import Store
from proctor.reports.problems import lines_of
from proctor.session import events
from proctor.session.finding import NoSuchSuite, find
from proctor.session.loading import Loaded, load
from proctor.targets.naming import parse_target


class Request(Struct, frozen=True, kw_only=True):
    """What a user asks for: the words as they were given."""

    suites: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    judges: tuple[str, ...] = ()
    params: Params = Params()
    settings: Settings = Settings()
    explicit: frozenset[str] = frozenset()
    """The fields of `settings` that were given and not left at their defaults."""
    fixed: tuple[str, ...] = ()
    """The flags that were given and that a stored run has decided already."""
    dialect: str | None = None
    resume: str | None = None
    """A run's id; empty for the newest unfinished run of the same suite, target and settings."""
    retry_errors: str | None = None
    """A run's id: ask again what came to ERROR, grade again what is UNSCORED, take over the rest."""


class Job(Struct, frozen=True, kw_only=True):
    """One run that is to be made or continued."""

    run: Run
    index: Index
    needs: frozenset[str]
    """`judge`, `embedder` or both, where a grader of the suite asks one."""
    earlier_run: Run | None = None
    """The run whose trials are taken over; the run itself when it is continued."""


class Jobs:
    """Turns a request into jobs. Reads suites and stored runs; asks nobody."""

    def __init__(
        self, store: Store, environ: Mapping[str, str], listen: events.Listener, prices_date: str | None
    ) -> None:
        """Reads nothing yet.

        Args:
            store: where suites are kept and earlier runs are found.
            environ: what target names may depend on.
            listen: told of progress and warnings.
            prices_date: the newest date of the prices in use; every run records it.
        """
        self.store = store
        self.environ = environ
        self.listen = listen
        self.prices_date = prices_date

    def of(self, request: Request) -> list[Job]:
        """The runs that a request stands for, in order.

        Raises:
            SuiteError: a suite is wrong; carries all problems of all suites.
            UsageError: a word stands for no suite, target or run.
            NothingSelected: the selection leaves no case of any suite.
        """
        if request.resume is not None and request.retry_errors:
            raise UsageError("Give either --resume or --retry-errors, not both.")
        if (request.resume or request.retry_errors) and not request.suites and request.fixed:
            flags = ", ".join(request.fixed)
            raise UsageError(
                f"A stored run has decided this already: {flags}. Leave it out, or begin a new run."
            )
        if request.resume and not request.suites:
            return [self._continued(self.store.run(request.resume), request)]
        if request.retry_errors and not request.suites:
            return [self._retried(self.store.run(request.retry_errors), request)]
        if not request.suites:
            raise UsageError("Name a suite, such as `proctor run cheap --target local`.")
        if not request.targets:
            raise UsageError("Name a target with --target, such as `local` or `openai:gpt-5.2`.")
        specs = [parse_target(word, request.params, self.environ) for word in request.targets]
        judges = tuple(parse_target(word, Params(), self.environ) for word in request.judges)
        suites = self._load_all(request)
        group = _new_id()
        jobs = [self._job(request, loaded, spec, judges, group) for loaded in suites for spec in specs]
        chosen = [job for job in jobs if job.index.planned]
        if not chosen:
            raise NothingSelected("The selection leaves no case. Loosen --tag, --category, --id or --split.")
        for job in jobs:
            if not job.index.planned:
                self._warn(f"The selection leaves no case of {job.run.suite.name}, which is left out.")
        return chosen

    def _load_all(self, request: Request) -> list[Loaded]:
        suites, errors = [], list[Problem]()
        for word in request.suites:
            try:
                paths = find(word)
            except NoSuchSuite as missing:
                suites.append(self._stored(word, request, missing))
                continue
            for path in paths:
                try:
                    loaded = self._load(path, request)
                except SuiteError as error:
                    errors.extend(error.problems)
                    continue
                errors.extend(loaded.errors)
                suites.append(loaded)
        if errors:
            warnings = [problem for loaded in suites for problem in loaded.warnings]
            raise SuiteError([*errors, *warnings])
        for loaded in suites:
            for line in lines_of(loaded.warnings):
                self._warn(line)
        return suites

    def _load(self, path: Path, request: Request) -> Loaded:
        writer = self.store.saving()
        try:
            return load(
                path,
                dialect=request.dialect,
                writer=writer,
                selection=request.settings.selection,
                repeats=request.settings.repeats,
                tell=partial(self._reading, str(path)),
            )
        finally:
            writer.drop()

    def _stored(self, word: str, request: Request, missing: NoSuchSuite) -> Loaded:
        """The suite that was last saved under that name, without its file; else raises what is given."""
        suite = self.store.suite(word)
        if suite is None:
            raise missing
        index, needs = self._index_of(suite, request.settings)
        return Loaded(path=word, suite=suite, index=index, needs=needs, problems=())

    def _job(
        self,
        request: Request,
        loaded: Loaded,
        spec: TargetSpec,
        judges: tuple[TargetSpec, ...],
        group: str,
    ) -> Job:
        judges, warnings = _judges_for(loaded, spec, judges)
        for message in warnings:
            self._warn(message)
        run = Run(
            id=_new_id(),
            group=group,
            suite=loaded.suite,
            target=spec,
            judges=judges,
            settings=request.settings,
            prices_date=self.prices_date,
            started_at=datetime.now(UTC),
            planned=loaded.index.planned,
            warnings=(*lines_of(loaded.warnings), *warnings),
        )
        if request.retry_errors:
            earlier = self.store.run(request.retry_errors)
            _must_match(earlier, run, "--retry-errors")
            return self._retried(earlier, request)
        if request.resume is not None:
            found = self._to_resume(request.resume, run)
            if found is not None:
                return self._continued(found, request)
        return Job(run=run, index=loaded.index, needs=loaded.needs)

    def _to_resume(self, word: str, wanted: Run) -> Run | None:
        if word:
            found = self.store.run(word)
            _must_match(found, wanted, "--resume")
            return found
        newest = self.store.unfinished(
            wanted.suite.digest,
            target_digest(wanted.target),
            settings_digest((wanted.settings.selection, wanted.settings.repeats)),
        )
        if newest is None or newest.judges != wanted.judges:
            self._warn(
                "There is no unfinished run of this suite, target, judges and settings: a new one begins."
            )
            return None
        return newest

    def _continued(self, run: Run, request: Request) -> Job:
        if run.status == "finished":
            self._warn(f"Run {run.id} has finished already: nothing is missing.")
        run = replace(run, settings=_newer(run.settings, request))
        index, needs = self._index_of(run.suite, run.settings)
        return Job(run=run, index=index, needs=needs, earlier_run=run)

    def _retried(self, earlier: Run, request: Request) -> Job:
        run = replace(
            earlier,
            id=_new_id(),
            group=_new_id(),
            started_at=datetime.now(UTC),
            finished_at=None,
            status="running",
            prices_date=self.prices_date,
            settings=_newer(earlier.settings, request),
        )
        index, needs = self._index_of(run.suite, run.settings)
        return Job(run=run, index=index, needs=needs, earlier_run=earlier)

    def _index_of(self, suite: Suite, settings: Settings) -> tuple[Index, frozenset[str]]:
        indexer = Indexer(settings.selection, settings.repeats)
        graders: set[str] = set()
        for stored in self.store.cases(suite.content):
            indexer.add(stored.case)
            graders.update(assertion.grader for assertion in stored.case.assertions)
        needs = {GRADERS.get(name).needs for name in graders} - {None}
        return indexer.index(suite.split_rule), frozenset(needs)

    def _reading(self, path: str, cases: int) -> None:
        self.listen(events.Reading(path, cases))

    def _warn(self, message: str) -> None:
        self.listen(events.Warned(message))


def _must_match(found: Run, wanted: Run, flag: str) -> None:
    flag = f"{flag}={found.id}"
    if found.suite.digest != wanted.suite.digest:
        raise UsageError(
            f"{flag} is a run of suite {found.suite.name!r} as it was then, and {wanted.suite.name!r} has "
            f"other content now. Run it anew, or give {flag} without a suite."
        )
    if target_digest(found.target) != target_digest(wanted.target):
        raise UsageError(f"{flag} is a run on {found.target.name!r}, not on {wanted.target.name!r}.")
    if found.judges and found.judges != wanted.judges:
        names = ", ".join(judge.name for judge in found.judges)
        raise UsageError(f"{flag} was judged by {names}. Name the same judges, or give {flag} alone.")


def _newer(earlier: Settings, request: Request) -> Settings:
    """An earlier run's settings with those that the new command names; what it asks stays what it was."""
    given = request.explicit - {"selection", "repeats"}
    return replace(earlier, **{name: getattr(request.settings, name) for name in given})


def _judges_for(
    loaded: Loaded, spec: TargetSpec, judges: tuple[TargetSpec, ...]
) -> tuple[tuple[TargetSpec, ...], tuple[str, ...]]:
    """Who judges, and a warning when a target judges itself."""
    if "judge" not in loaded.needs:
        unused = f"{loaded.path}: warning: no case asks a judge, so --judge has no effect."
        return (), (unused,) if judges else ()
    if judges or not loaded.index.planned:
        return judges, ()
    alone = (
        f"{loaded.path}: warning: no --judge was given, so {spec.name} judges its own answers. "
        "A model is kind to itself: name another one."
    )
    return (replace(spec, params=Params()),), (alone,)


def _new_id() -> str:
    """A run's id: sorts by time, and is unique without asking anybody."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{token_hex(3)}"
