"""What the tests of one session share: options, the store, and the runs that were made."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Sequence
from contextlib import chdir, suppress
from hashlib import sha256
from pathlib import Path
from tempfile import gettempdir
from typing import Any, cast

import pytest

import proctor
from proctor.errors import ProctorError, SuiteError, UsageError, suggestion
from proctor.file_lock import lock_file
from proctor.model import Run
from proctor.pytest_plugin.summary import SESSION_RUNS, SessionRun
from proctor.python.options import RunOptions, check_options, load_project
from proctor.python.results import RunGroup, RunResult
from proctor.python.run import RunArguments
from proctor.python.stores import PROJECT_STORE, locate
from proctor.safe_text import one_line
from proctor.services import events
from proctor.services.progress import Progress, print_note
from proctor.services.runs.config import parse_share
from proctor.stores import move_address

_SESSION = pytest.StashKey["PluginSession"]()


def get_session(config: pytest.Config) -> PluginSession:
    """Returns the session's, which is made when a test first needs it.

    Raises:
        UsageError: an option of the command line cannot be used.
    """
    if _SESSION not in config.stash:
        config.stash[_SESSION] = PluginSession(config)
    return config.stash[_SESSION]


class PluginSession:
    """The options of a pytest session, and its runs."""

    def __init__(self, config: pytest.Config) -> None:
        """Checks the options.

        Raises:
            UsageError: one cannot be used, or the project's file is wrong.
        """
        self._config = config
        self.targets: list[str] = config.getoption("proctor_target")
        self.judges: list[str] = config.getoption("proctor_judge")
        named_store: str | None = config.getoption("proctor_store")
        with chdir(config.invocation_params.dir):  # the first test may have changed it
            store = named_store or locate(PROJECT_STORE, load_project()).address
            self.store = move_address(store, Path.cwd(), absolute=True)
            """The address of the store: the same for tests that change the working directory."""
        self._options = {"store": self.store, **_read_options(config)}
        """The options of `proctor.run` that the command line sets, as defaults."""
        self._store_option = shlex.quote(named_store) if named_store else ""
        self.runs = config.stash.setdefault(SESSION_RUNS, {})
        self._shared: dict[str, RunResult | RunGroup] = {}
        """The results that several tests share."""

    def complete(self, options: dict[str, Any]) -> dict[str, Any]:
        """Returns the options of a run, with the defaults of the session."""
        defaults = dict(self._options)
        if self.targets and not options.get("resume"):
            defaults["target"] = self.targets[0] if len(self.targets) == 1 else self.targets
        if self.judges:
            defaults["judge"] = self.judges
        return {**defaults, **options}

    def run(self, item: pytest.Item, suite: Any, options: dict[str, Any]) -> RunResult | RunGroup:
        """Makes a run for a test, and notes it in the test's report; see `proctor.run`.

        Args:
            item: the test.
            suite: the suite.
            options: options of `proctor.run`, which outrank those of the session.

        Raises:
            ProctorError: as `proctor.run` does.
            KeyboardInterrupt: Ctrl-C stopped it; what had finished is stored.
        """
        progress = options.pop("progress", False)
        write_line = print_note if progress else _ignore
        listen = progress if callable(progress) else Progress(quiet=not progress, write_line=write_line)
        store = self._format_store(options)

        def note(event: events.Event) -> None:
            listen(event)
            if isinstance(event, events.RunStarted):
                # A run that Ctrl-C stops has no result, and is listed all the same.
                self.runs[event.run.id] = _describe_stopped(event.run, store)

        run = cast("Callable[..., RunResult | RunGroup]", proctor.run)
        result = run(_locate_suite(item, suite), **self.complete(options), progress=note)
        self.note(item, result, store)
        return result

    def note(self, item: pytest.Item, result: RunResult | RunGroup, store: str) -> None:
        """Notes the runs that a test has made or uses in its report."""
        for run in list_runs(result):
            noted = self.runs[run.id] = _describe_result(run, store)
            item.user_properties += noted.properties

    def run_shared(
        self, item: pytest.Item, key: str, suite: Any, options: dict[str, Any]
    ) -> RunResult | RunGroup:
        """Makes a run for several tests once, whichever of them comes first, also in other workers of xdist.

        Args:
            item: the test.
            key: names the run; the same in each worker.
            suite: the suite.
            options: options of `proctor.run`.

        Raises:
            ProctorError: as `proctor.run` does.
        """
        if key in self._shared:
            self.note(item, self._shared[key], self._format_store(options))
        elif not hasattr(self._config, "workerinput"):
            self._shared[key] = self.run(item, suite, options)
        else:
            self._shared[key] = self._run_in_one_worker(item, key, suite, options)
        return self._shared[key]

    def _run_in_one_worker(
        self, item: pytest.Item, key: str, suite: Any, options: dict[str, Any]
    ) -> RunResult | RunGroup:
        folder = self._get_shared_folder()
        if self.complete(options)["store"] in (
            None,
            ":memory:",
        ):  # a worker cannot read the memory of another
            options = {**options, "store": folder / "runs.db"}
        name = sha256(key.encode()).hexdigest()[:16]
        file = folder / f"{name}.json"
        with lock_file(folder / f"{name}.lock"):
            if not file.exists():
                result = self.run(item, suite, options)
                ids = [run.id for run in list_runs(result)]
                file.write_text(json.dumps([isinstance(result, RunGroup), ids]), encoding="utf-8")
                return result
        is_group, ids = json.loads(file.read_text(encoding="utf-8"))
        store, reveal = self.complete(options)["store"], options.get("reveal", False)
        runs = [proctor.load_run(run_id, store=store, reveal=reveal) for run_id in ids]
        result = RunGroup(runs) if is_group else runs[0]
        self.note(item, result, self._format_store(options))
        return result

    def _get_shared_folder(self) -> Path:
        """Returns the folder that all workers of xdist on this machine have for this session."""
        basetemp: str | None = self._config.getoption("basetemp")  # of this worker, below the session's
        uid = vars(self._config)["workerinput"]["testrunuid"]
        folder = Path(basetemp).parent / "proctor" if basetemp else Path(gettempdir(), f"proctor-{uid}")
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    def _format_store(self, options: dict[str, Any]) -> str:
        """Returns the store of a run as `--store` takes it; empty for the project's."""
        if "store" not in options:
            return self._store_option
        return ":memory:" if options["store"] is None else shlex.quote(str(options["store"]))


def list_runs(result: RunResult | RunGroup) -> Sequence[RunResult]:
    """Returns the runs of a result."""
    return (result,) if isinstance(result, RunResult) else result


def check_run_options(options: dict[str, Any], further: Sequence[str] = ()) -> None:
    """Checks the names and values of options of `proctor.run`; `further` has names that are known too.

    Raises:
        UsageError: one cannot be used.
    """
    names = {*RunArguments.__annotations__, "prompts", *further} - {"progress"}
    for name in options:
        if name not in names:
            raise UsageError(f"There is no option {name!r}. {suggestion(name, sorted(names))}")
    check_options({name: value for name, value in options.items() if name in RunOptions.__annotations__})


def format_error(error: ProctorError, item: pytest.Item) -> str:
    """Returns the text of an error: the problems of a suite, or the place of the test and a sentence."""
    if isinstance(error, SuiteError):
        return "\n".join(filter(None, (str(error), error.hint)))
    path, line, _ = item.reportinfo()
    place = os.path.relpath(path) if line is None else f"{os.path.relpath(path)}:{line + 1}"
    return f"{place}: error: {error}"


def _locate_suite(item: pytest.Item, suite: Any) -> Any:
    """Returns a suite; a path that is not in the working directory is looked for beside the test."""
    if isinstance(suite, (list, tuple)):
        return [_locate_suite(item, part) for part in suite]
    if not isinstance(suite, (str, Path)) or Path(suite).exists():
        return suite
    folders = (item.path.parent, item.config.rootpath)
    return next((path for folder in folders if (path := folder / suite).exists()), suite)


def _read_options(config: pytest.Config) -> dict[str, Any]:
    options = {}
    for word in config.getoption("proctor_option"):
        name, sign, value = word.partition("=")
        if not sign:
            raise UsageError(f"--proctor-option {word}: write NAME=VALUE, such as repeats=3.")
        name = name.replace("-", "_")
        options[name] = _parse_value(name, value)
    if (limit := config.getoption("proctor_limit")) is not None:
        options["limit"] = limit
    if (share := config.getoption("proctor_min_pass_rate")) is not None:
        try:
            options["min_pass_rate"] = parse_share(share)
        except UsageError as error:
            raise UsageError(f"--proctor-min-pass-rate: {error}") from None
    check_options(options)
    return options


def _parse_value(name: str, text: str) -> Any:
    """Returns the value of an option: JSON such as 3 or ["a", "b"] where that fits, else the text.

    Raises:
        UsageError: there is no such option, or neither fits.
    """
    with suppress(ValueError, UsageError):
        return check_options({name: json.loads(text)})[name]
    return check_options({name: text})[name]


def _ignore(_line: str) -> None:
    """Drops a line that the report of the run has too."""


def _describe_stopped(run: Run, store: str, counts: str = "") -> SessionRun:
    text = f"{run.suite.title} on {run.target_title}: {counts}stopped"
    has_lasting_target = "<" not in run.target.model  # a local function is gone with this process
    return SessionRun(run.id, one_line(text), store, has_lasting_target and store != ":memory:")


def _describe_result(run: RunResult, store: str) -> SessionRun:
    counts = [f"{run.passed:,} of {run.total:,} passed"]
    counts += [f"{run.failed:,} failed"] * bool(run.failed)
    counts += [f"{run.errors + run.unscored:,} not measured"] * bool(run.errors + run.unscored)
    text = ", ".join(counts)
    if run.status == "interrupted":
        return _describe_stopped(run.run, store, f"{text}, ")
    kept = " (not kept)" if store == ":memory:" else ""
    return SessionRun(run.id, one_line(f"{run.suite.title} on {run.run.target_title}: {text}{kept}"), store)
