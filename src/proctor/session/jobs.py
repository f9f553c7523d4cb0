"""What a user asks for, to the runs that are to be made: suites read, targets named, earlier runs found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from secrets import token_hex

from msgspec import Struct
from msgspec.structs import replace

from proctor.codec import settings_digest, target_digest
from proctor.errors import NothingSelected, StoreError, SuiteError, UsageError
from proctor.graders import GRADERS
from proctor.grading import bind
from proctor.model import Defaults, Params, Problem, Run, Seat, Settings, Suite, TargetSpec
from proctor.plan import Index, Indexer
from proctor.ports import Store
from proctor.reports.problems import lines_of
from proctor.session import events
from proctor.session.casting import Naming, Wanted, Wishes, casting_of
from proctor.session.finding import NoSuchSuite, find
from proctor.session.loading import Loaded, load
from proctor.session.naming import Names


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
    wanted: Wanted
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
            environ: what suites and names of targets may depend on.
            listen: told of progress and warnings.
            prices_date: the newest date of the prices in use; every run records it.
        """
        self.store = store
        self.environ = environ
        self.names = Names(environ)
        self.listen = listen
        self.prices_date = prices_date
        self._told_of: set[Path] = set()

    def of(self, request: Request) -> list[Job]:
        """The runs that a request stands for, in order.

        Raises:
            SuiteError: a suite is wrong; carries all problems of all suites.
            UsageError: a word stands for no suite, target or run.
            NothingSelected: the selection leaves no case of any suite.
        """
        if request.resume is not None and request.retry_errors:
            raise UsageError("Give either --resume or --retry-errors, not both.")
        _refuse_twice(request.targets, "--target", "--repeat")
        _refuse_twice(request.judges, "--judge", "--judge-repeat")
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
        suites = self._load_all(request)
        group = _new_id()
        jobs = [job for loaded in suites for job in self._of_suite(request, loaded, group)]
        chosen = [job for job in jobs if job.index.planned]
        if not chosen:
            raise NothingSelected("The selection leaves no case. Loosen --tag, --category, --id or --split.")
        for job in jobs:
            if not job.index.planned:
                self._warn(f"The selection leaves no case of {job.run.suite.name}, which is left out.")
        return list(self._resumed(chosen, request)) if request.resume == "" else chosen

    def _of_suite(self, request: Request, loaded: Loaded, group: str) -> Iterator[Job]:
        """One job a target. A suite may say itself which targets it is for."""
        names = self.names.near(loaded.suite.folder)
        self._tell_of_targets(names)
        judges = tuple(names.spec(word, Params(), judged=False) for word in request.judges)
        # A judge that nobody asks need not be there, nor its key.
        spec_of = partial(names.spec, judged=not judges and "judge" in loaded.wanted.needs)
        words = request.targets or loaded.suite.defaults.targets or names.default
        if not words:
            raise UsageError(_nobody(names))
        in_suite = partial(_in_suite, loaded, spec_of)
        specs = [(spec_of if request.targets else in_suite)(word, request.params) for word in words]
        nowhere = loaded.indexer.nowhere([spec.name for spec in specs]) if len(specs) > 1 else ()
        if nowhere:
            raise UsageError(
                f"Case {nowhere[0]!r} of {loaded.path} is only for targets that this command does not ask. "
                "Add one of them with --target, or leave the case out with --id."
            )
        for place, spec in enumerate(specs):
            seat = Seat(target=spec.name, first=place == 0, alone=len(specs) == 1)
            yield self._job(request, loaded, seat, spec, judges, in_suite, group)

    def _tell_of_targets(self, names: Names) -> None:
        """What is doubtful in a targets file, once."""
        if names.file is None or names.path is None or names.path in self._told_of:
            return
        self._told_of.add(names.path)
        for line in lines_of(names.file.warnings):
            self._warn(line)

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
                environ=self.environ,
            )
        finally:
            writer.drop()

    def _stored(self, word: str, request: Request, missing: NoSuchSuite) -> Loaded:
        """The suite that was last saved under that name, without its file; else raises what is given."""
        suite = self.store.suite(word)
        if suite is None:
            raise UsageError(f"{missing}{self._flag_meant(word, request)}")
        indexer, wanted = self._indexer_of(suite, request.settings)
        return Loaded(path=word, suite=suite, indexer=indexer, wanted=wanted, problems=())

    def _flag_meant(self, word: str, request: Request) -> str:
        """What to write where a word is no suite but the value of a flag that takes one only with `=`."""
        if "keep_workspaces" in request.explicit and word in ("none", "failed", "all"):
            return f" If you mean the flag: write --keep-workspaces={word}."
        try:
            self.store.run(word)
        except StoreError:
            return ""
        return f" If you mean the run: write --resume={word}."

    def _job(
        self,
        request: Request,
        loaded: Loaded,
        seat: Seat,
        spec: TargetSpec,
        judges: tuple[TargetSpec, ...],
        spec_of: Naming,
        group: str,
    ) -> Job:
        index = loaded.index(seat)
        # Cases with a target of their own are asked in the first run of a group.
        wanted = loaded.wanted if seat.first else replace(loaded.wanted, targets=frozenset())
        who = casting_of(
            wanted,
            spec,
            judges,
            path=loaded.path,
            params=request.params,
            spec_of=spec_of,
        )
        if not index.planned:
            who = replace(who, warnings=())
        for message in who.warnings:
            self._warn(message)
        run = Run(
            id=_new_id(),
            group=group,
            seat=seat,
            suite=loaded.suite,
            target=spec,
            judges=who.judges,
            judges_given=who.judges_given,
            named_targets=who.named_targets,
            named_judges=who.named_judges,
            settings=_with_defaults(loaded.suite.defaults, request),
            prices_date=self.prices_date,
            started_at=datetime.now(UTC),
            planned=index.planned,
            warnings=(*lines_of(loaded.warnings), *who.warnings),
        )
        return self._in_place_of(Job(run=run, index=index, wanted=loaded.wanted), request)

    def _in_place_of(self, job: Job, request: Request) -> Job:
        """The job, or that of the run which the request names."""
        if request.retry_errors:
            earlier = self.store.run(request.retry_errors)
            _must_match(earlier, job.run, "--retry-errors")
            return self._retried(earlier, request)
        if request.resume:
            earlier = self.store.run(request.resume)
            _must_match(earlier, job.run, "--resume")
            return self._continued(earlier, request)
        return job

    def _resumed(self, jobs: list[Job], request: Request) -> Iterator[Job]:
        """The jobs, each on the newest run of its kind that is unfinished, or finished beside such a one."""
        alike = [self._alike(job) for job in jobs]
        unfinished = [next((run for run in runs if run.status != "finished"), None) for runs in alike]
        groups = {run.group: run for run in unfinished if run is not None}
        for job, runs, newest in zip(jobs, alike, unfinished, strict=True):
            run = newest or next((run for run in runs if run.group in groups), None)
            if run is not None:
                yield self._continued(run, request)
                continue
            self._warn(
                f"There is no unfinished run of {job.run.suite.name} on {job.run.target.name} with these "
                "judges and settings: a new one begins."
            )
            yield replace(job, run=replace(job.run, group=next(iter(groups), job.run.group)))

    def _alike(self, job: Job) -> list[Run]:
        """The runs that are to have the same trials, on a target of the same name, by the same judges."""
        wanted = job.run
        runs = self.store.alike(
            wanted.suite.digest,
            target_digest(wanted.target),
            settings_digest((wanted.settings.selection, wanted.settings.repeats)),
        )
        return [
            run
            for run in runs
            if (run.target.name, run.judges) == (wanted.target.name, wanted.judges)
            and (run.seat == wanted.seat or self._index_of(run)[0].chosen == job.index.chosen)
        ]

    def _continued(self, run: Run, request: Request) -> Job:
        if run.status == "finished":
            self._warn(f"Run {run.id} has finished already: nothing is missing.")
        run = replace(run, settings=_newer(run.settings, request))
        index, wanted = self._index_of(run)
        return Job(run=run, index=index, wanted=wanted, earlier_run=run)

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
        index, wanted = self._index_of(run)
        return Job(run=run, index=index, wanted=wanted, earlier_run=earlier)

    def _index_of(self, run: Run) -> tuple[Index, Wanted]:
        indexer, wanted = self._indexer_of(run.suite, run.settings)
        return indexer.index(run.suite.split_rule, run.seat), wanted

    def _indexer_of(self, suite: Suite, settings: Settings) -> tuple[Indexer, Wanted]:
        indexer, wishes = Indexer(settings.selection, settings.repeats), Wishes()
        for stored in self.store.cases(suite.content):
            if indexer.add(stored.case):
                wishes.add(stored.case, (bind(one, GRADERS.get) for one in stored.case.assertions))
        return indexer, wishes.wanted

    def _reading(self, path: str, cases: int) -> None:
        self.listen(events.Reading(path, cases))

    def _warn(self, message: str) -> None:
        self.listen(events.Warned(message))


def _refuse_twice(words: tuple[str, ...], flag: str, repeat: str) -> None:
    """The second would be asked exactly the same, and agree with the first."""
    for word in words:
        if words.count(word) > 1:
            raise UsageError(f"{flag} {word} is given twice. To ask it more often, use {repeat}.")


def _nobody(names: Names) -> str:
    """What to do where neither the command nor the suite says who is asked."""
    if names.file is None or not names.names():
        return "Name a target with --target, such as `local` or `openai:gpt-5.2`."
    known = ", ".join(names.names())
    return f"Name a target with --target, or call one `default` in {names.file.path}. It has: {known}."


def _in_suite(loaded: Loaded, spec_of: Naming, word: str, params: Params) -> TargetSpec:
    """The target of a word of the suite's.

    Raises:
        SuiteError: there is none; or the targets file is wrong.
    """
    try:
        return spec_of(word, params)
    except UsageError as error:
        path, line = loaded.wanted.places.get(word, (loaded.path, None))
        problem = Problem(code="unknown-target", message=str(error), path=path, line=line)
        raise SuiteError([problem]) from None


def _must_match(found: Run, wanted: Run, flag: str) -> None:
    flag = f"{flag}={found.id}"
    if found.suite.digest != wanted.suite.digest:
        raise UsageError(
            f"{flag} is a run of suite {found.suite.name!r} as it was then, and {wanted.suite.name!r} has "
            f"other content now. Run it anew, or give {flag} without a suite."
        )
    if (found.target.name, target_digest(found.target)) != (wanted.target.name, target_digest(wanted.target)):
        raise UsageError(f"{flag} is a run on {found.target.name!r}, not on {wanted.target.name!r}.")
    if found.judges and found.judges != wanted.judges:
        names = ", ".join(judge.name for judge in found.judges)
        raise UsageError(f"{flag} was judged by {names}. Name the same judges, or give {flag} alone.")


def _newer(earlier: Settings, request: Request) -> Settings:
    """An earlier run's settings with those that the new command names; what it asks stays what it was."""
    given = request.explicit - {"selection", "repeats"}
    return replace(earlier, **{name: getattr(request.settings, name) for name in given})


def _with_defaults(defaults: Defaults, request: Request) -> Settings:
    """The settings that the user gave, and where none was given those that the suite wants."""
    wanted = {"concurrency": defaults.concurrency, "budget_usd": defaults.budget_usd, "cache": defaults.cache}
    of_suite = {
        name: value for name, value in wanted.items() if value is not None and name not in request.explicit
    }
    return replace(request.settings, **of_suite)


def _new_id() -> str:
    """A run's id: sorts by time, and is unique without asking anybody."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{token_hex(3)}"
