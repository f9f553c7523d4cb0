"""What a user asks for, to the runs that are to be made: suites read, targets named, earlier runs found."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path

from msgspec.structs import replace

from proctor.errors import NothingSelected, StoreError, SuiteError, UsageError, suggestion
from proctor.model import Defaults, Params, Problem, Run, Seat, Settings, Suite, TargetSpec
from proctor.plan import Indexer
from proctor.protocols import Store
from proctor.reports.problems import lines_of
from proctor.services import events
from proctor.services.runs.execution.target_pool import embedder_of
from proctor.services.runs.planning.judge_choice import Casting, Naming, Wanted, casting_of
from proctor.services.runs.planning.resume import StoredRuns, check_own
from proctor.services.runs.planning.target_names import Names
from proctor.services.runs.request import Job, Request, check_group, new_id
from proctor.services.suites.file_source import source_of
from proctor.services.suites.load import Loaded, load_placeholder, load_source
from proctor.services.suites.save_and_open import saving, stored_suite
from proctor.services.suites.split import as_asked
from proctor.services.suites.suite_argument import Located, Locator, NoSuchSuite, choice

SKIP_INVALID = "`--skip-invalid` runs the other cases and counts each of these as an error."
"""How to run a suite all the same."""


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
        self._runs = StoredRuns(store, environ, self._warn, prices_date)
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
        group = self._group_of(request)
        _refuse_twice(request.targets, "--target", "--repeat")
        _refuse_twice(request.judges, "--judge", "--judge-repeat")
        if request.regrade:
            return [self._regraded(self.store.run(request.regrade), request)]
        named = request.names_suites
        if request.resume or request.retry_errors:
            return [self._taken_up(request)]
        if not named and not request.saved:
            if request.resume == "":
                raise UsageError("Name a run, such as `proctor run --resume=last`, or its suite and target.")
            raise UsageError("Name a suite, such as `proctor run cheap --target local`.")
        suites = [as_asked(loaded, request) for loaded in self._load_all(request)]
        jobs = [job for loaded in suites for job in self._of_suite(request, loaded, group)]
        chosen = [job for job in jobs if job.index.planned]
        if not chosen:
            flags = "--tag, --all-tag, --exclude-tag, --category, --id or --split"
            raise NothingSelected(f"The selection leaves no case. Loosen {flags}.")
        for job in jobs:
            if not job.index.planned:
                self._warn(f"The selection leaves no case of {job.run.suite.name}, which is left out.")
        return list(self._runs.resumed(chosen, request)) if request.resume == "" else chosen

    def _group_of(self, request: Request) -> str:
        """The id of the group of the new runs.

        Raises:
            UsageError: it is none that can be named beforehand, or there is such a group.
        """
        if request.group is None:
            return new_id()
        check_group(request.group)
        if request.resume is not None or request.retry_errors:
            raise UsageError("A run that is taken up again keeps its group. Leave --group out.")
        if any(request.group in (run.group, run.id) for run in self.store.runs()):
            raise UsageError(
                f"There is a group or a run {request.group!r} in the store already. Name another one with "
                "--group, or leave it out."
            )
        return request.group

    def _taken_up(self, request: Request) -> Job:
        """The run that the request names, continued, or a new one of what went wrong in it."""
        from proctor.services.runs.planning.resume_settings import (  # most runs begin anew
            Difference,
            as_of,
            content_differences,
        )

        run = self.store.run(request.resume or request.retry_errors or "")
        check_own(run)
        others = list[Difference]()
        if request.names_suites:
            own = as_of(run, request)
            jobs = chain.from_iterable(self._of_suite(own, loaded, "") for loaded in self._load_all(own))
            others = [one for job in jobs for one in content_differences(run, job.run)]
        return (
            self._runs.retried(run, request, others)
            if request.retry_errors
            else self._runs.continued(run, request, others)
        )

    def _regraded(self, earlier: Run, request: Request) -> Job:
        """The answers of a run graded again, by its own suite or by the one that is named."""
        suite = earlier.suite
        if request.suites:
            loaded = self._load_all(request)
            if len(loaded) > 1:
                raise UsageError("Name one suite by which the answers are graded, and not several.")
            # The split stays that of the run, so that grading again opens nothing that is sealed.
            suite = replace(
                loaded[0].suite, split_rule=earlier.suite.split_rule, no_holdout=earlier.suite.no_holdout
            )

        def casting(wanted: Wanted) -> Casting:
            return self._judges_again(earlier, suite.folder, wanted, request)

        return self._runs.regraded(earlier, suite, request, casting)

    def _judges_again(self, earlier: Run, folder: str, wanted: Wanted, request: Request) -> Casting:
        """Who judges answers that are graded again: those that are named, else those of the run."""
        names = self.names.near(folder)
        given = tuple(names.spec(word, request.judge_params, judged=False) for word in request.judges)
        if earlier.imported is not None:
            if not given and "judge" in wanted.needs:
                raise UsageError(
                    f"Run {earlier.id} was imported, and who judged it is what its maker wrote. Say with "
                    "--judge who is to judge now."
                )
        elif not given and not request.suites:
            return Casting(
                judges=earlier.judges,
                judges_given=earlier.judges_given,
                named_judges=earlier.named_judges,
            )
        elif not given and earlier.judges_given:
            given = earlier.judges
        nobody = replace(wanted, targets=frozenset())
        params = earlier.target.params
        return casting_of(nobody, earlier.target, given, path=folder, params=params, spec_of=names.spec)

    def _of_suite(self, request: Request, loaded: Loaded, group: str) -> Iterator[Job]:
        """One job a target. A suite may say itself which targets it is for."""
        names = self.names.near(loaded.suite.folder)
        self._tell_of_targets(names)
        judges = tuple(names.spec(word, request.judge_params, judged=False) for word in request.judges)
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
        errors = list[Problem]()
        unrecognised = list[Problem]()
        unreadable: dict[Path, tuple[Problem, ...]] = {}
        saved = (*request.saved, *(self._kept(word) for word in request.stored))
        suites = [self._saved(suite.title, suite, request) for suite in saved]
        meant = [self._meant(word, request) for word in request.suites]
        paths = dict.fromkeys(path for one in meant if isinstance(one, Located) for path in one.paths)
        left = {path.resolve() for path in paths}
        for one in meant:
            if isinstance(one, Loaded):
                suites.append(one)
                continue
            unrecognised.extend(one.problems)
            for path in one.paths:
                if (file := path.resolve()) not in left:  # an earlier word stands for it too
                    continue
                left.remove(file)
                try:
                    loaded = self._load(path, request, paths)
                except SuiteError as error:
                    unreadable[path] = error.problems
                    continue
                if loaded.errors and request.skip_invalid:
                    unreadable[path] = loaded.problems
                    continue
                errors.extend(loaded.errors)
                suites.append(loaded)
        several = len(suites) + len(unreadable) > 1
        if request.skip_invalid and several and not unrecognised:
            suites += [self._unreadable(path, unreadable[path], request, paths) for path in unreadable]
        elif errors or unreadable or unrecognised:
            is_way_out = not (request.skip_invalid or request.regrade) and (several or _has_cases(suites))
            hint = SKIP_INVALID if is_way_out and not unrecognised else ""
            problems = [*unrecognised, *errors, *chain(*unreadable.values())]
            warnings = [problem for loaded in suites for problem in loaded.warnings]
            raise SuiteError([*problems, *warnings], hint=hint)
        for loaded in suites:
            for line in lines_of(loaded.warnings):
                self._warn(line)
        return suites

    def _meant(self, word: str, request: Request) -> Located | Loaded:
        """The files of a word, or the suite that it names in the store; tells what else it could mean."""
        locator = Locator(
            is_saved=lambda name: self.store.suite(name) is not None,
            environ=self.environ,
            config=request.config,
            dialect=request.dialect,
            strict=request.strict,
        )
        try:
            located = locator.find(word)
        except NoSuchSuite as missing:
            return self._stored(word, request, missing)
        except UsageError as error:
            raise UsageError(f"{error}{self._flag_meant(word, request)}") from None
        for line in located.warnings:
            self._warn(line)
        for line in located.notes:
            self.listen(events.Told(line))
        return located

    def _load(self, path: Path, request: Request, paths: Collection[Path]) -> Loaded:
        writer = saving(self.store, path, others=paths)
        try:
            return load_source(
                source_of(path, self.environ, request.config.reading(path)),
                dialect=request.dialect,
                writer=writer,
                indexer=_indexer_of(request),
                tell=partial(self._reading, str(path)),
                skip_invalid=request.skip_invalid,
            )
        finally:
            writer.drop()

    def _unreadable(
        self, path: Path, problems: tuple[Problem, ...], request: Request, paths: Collection[Path]
    ) -> Loaded:
        """The suite of a file in which nothing can be read: one case, which is an error."""
        writer = saving(self.store, path, others=paths)
        errors = [problem for problem in problems if problem.level == "error"]
        try:
            return load_placeholder(path, errors, writer=writer, indexer=_indexer_of(request))
        finally:
            writer.drop()

    def _stored(self, word: str, request: Request, missing: NoSuchSuite) -> Loaded:
        """The suite that was last saved under that name, without its file; else raises what is given."""
        suite = stored_suite(self.store, word)
        if suite is None:
            raise UsageError(f"{missing}{self._flag_meant(word, request)}")
        for line in choice(word, f"the suite {suite.title} of the store"):
            self.listen(events.Told(line))
        return self._saved(word, suite, request)

    def _kept(self, word: str) -> Suite:
        """The suite of the store that a word names, whatever files there are."""
        suite = stored_suite(self.store, word)
        if suite is None:
            known = sorted({one.suite.name for one in self.store.versions()})
            raise UsageError(f"There is no suite {word!r} in the store. {suggestion(word, known)}")
        return suite

    def _saved(self, word: str, suite: Suite, request: Request) -> Loaded:
        indexer, wanted = self._runs.indexer_of(suite, request.settings)
        return Loaded(path=word, suite=suite, indexer=indexer, wanted=wanted, problems=())

    def _flag_meant(self, word: str, request: Request) -> str:
        """What to write where a word is no suite but the value of a flag that takes one only with `=`."""
        if "keep_workspaces" in request.explicit and word in ("none", "failed", "all"):
            return f" If you mean the flag: write --keep-workspaces={word}."
        if request.behind.get(word) == "--attest":
            return f" If you mean the folder of the bundles: write --attest={word}."
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
            id=new_id(),
            group=group,
            seat=seat,
            suite=loaded.suite,
            target=spec,
            judges=who.judges,
            judges_given=who.judges_given,
            named_targets=who.named_targets,
            named_judges=who.named_judges,
            embedder=embedder_of(self.environ) if "embedder" in wanted.needs else None,
            settings=with_defaults(loaded.suite.defaults, request),
            prices_date=self.prices_date,
            started_at=datetime.now(UTC),
            planned=index.planned,
            warnings=(*lines_of(loaded.warnings), *who.warnings),
        )
        return Job(run=run, index=index, wanted=loaded.wanted)

    def _reading(self, path: str, cases: int) -> None:
        self.listen(events.Reading(path, cases))

    def _warn(self, message: str) -> None:
        self.listen(events.Warned(message))


def _refuse_twice(words: tuple[str, ...], flag: str, repeat: str) -> None:
    """The second would be asked exactly the same, and agree with the first."""
    for word in words:
        if words.count(word) > 1:
            raise UsageError(f"{flag} {word} is given twice. To ask it more often, use {repeat}.")


def _indexer_of(request: Request) -> Indexer:
    return Indexer(request.settings.selection, request.settings.repeats)


def _has_cases(suites: Iterable[Loaded]) -> bool:
    """Whether anything in the suites is a case, right or wrong."""
    return any(
        loaded.suite.case_count or any(problem.row or problem.case for problem in loaded.errors)
        for loaded in suites
    )


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


def with_defaults(defaults: Defaults, request: Request) -> Settings:
    """The settings that the user gave, and where none was given those that the suite wants."""
    wanted = {name: getattr(defaults, name) for name in ("concurrency", "budget_usd", "cache", "reuse")}
    of_suite = {
        name: value for name, value in wanted.items() if value is not None and name not in request.explicit
    }
    return replace(request.settings, **of_suite)
