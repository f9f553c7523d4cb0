"""`proctor.run`, `proctor.arun` and `proctor.iter_run`: runs suites from Python."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from threading import Event
from typing import Any, Unpack, overload

from msgspec.structs import replace

from proctor.errors import ProctorError, SuiteError, UsageError
from proctor.model import Run
from proctor.protocols import Store
from proctor.python.graders import resolve_graders
from proctor.python.job import Job, Outcome
from proctor.python.locations import open_location
from proctor.python.options import RunOptions, find_default, load_project, make_request
from proctor.python.prompts import PromptLike, PromptList, resolve_prompts
from proctor.python.results import GradedTrial, RunGroup, RunResult, grade_trial_record
from proctor.python.stores import PROJECT_STORE, StoreLike, locate
from proctor.python.suites import UNREAD_CODES, RowSource, SuiteLike, is_list_of_names, is_name, make_source
from proctor.python.targets import TargetLike, TargetList, resolve_targets
from proctor.python.wording import to_option_names
from proctor.reports.runs.serialize import TrialResult, seal
from proctor.services import events
from proctor.services.progress import Progress, print_note
from proctor.verdicts import decide_verdict, pass_rules_for

_READ_AGAIN_S = 0.03
"""How long a trial that has finished may take until it can be read from the store."""
ProgressLike = bool | events.Listener
"""Whether progress is shown on stderr, or what gets every event."""


class RunArguments(RunOptions, total=False):
    """The options of `run`, `arun` and `iter_run`, besides suite, target and prompts."""

    judge: TargetLike | TargetList | None
    graders: Any
    columns: Mapping[str, str] | None
    name: str
    store: StoreLike
    reveal: bool
    progress: ProgressLike


@overload
def run(
    suite: SuiteLike = ...,
    *,
    target: TargetList,
    prompts: PromptLike | PromptList | None = ...,
    **options: Unpack[RunArguments],
) -> RunGroup: ...


@overload
def run(
    suite: list[str] | list[Path],
    *,
    target: TargetLike | None = ...,
    prompts: PromptLike | PromptList | None = ...,
    **options: Unpack[RunArguments],
) -> RunGroup: ...


@overload
def run(
    suite: SuiteLike = ...,
    *,
    target: TargetLike | None = ...,
    prompts: PromptList,
    **options: Unpack[RunArguments],
) -> RunGroup: ...


@overload
def run(
    suite: SuiteLike = ...,
    *,
    target: TargetLike | None = ...,
    prompts: PromptLike | None = ...,
    **options: Unpack[RunArguments],
) -> RunResult: ...


def run(
    suite: SuiteLike = None,
    *,
    target: TargetLike | TargetList | None = None,
    prompts: PromptLike | PromptList | None = None,
    **options: Unpack[RunArguments],
) -> RunResult | RunGroup:
    """Runs a suite on a target, grades every answer, stores every result, and returns the run.

    It works in scripts, in threads, and in notebooks with a running event loop. Ctrl-C stops it as on the
    command line: finished trials are stored, and `proctor.run(resume=ID)` resumes the run.

    Args:
        suite: a path or a name, as on the command line; a list of dictionaries with `input` and `expected`,
            or of `proctor.Case`s; or a pandas, polars or Arrow table. A list of paths gives a `RunGroup`.
        target: a name such as "openai:gpt-5.2"; a sync or async function that takes a text or a
            `proctor.Prompt`; or an object with a method `answer`. A list gives a `RunGroup`. None for the
            target that the suite names.
        prompts: the prompt that each case fills in: a file or "NAME=FILE", the name of a prompt in the store,
            or a `proctor.PromptTemplate`. A list of these, or a dictionary of names and texts (or lists of
            messages), gives a `RunGroup` with one run per prompt and target. None for the prompts of the
            suite.
        **options: the options below; `proctor.toml` sets their defaults.

    Options of this function:

    * `judge`: the judge for graders that need one, given like a target; or a list of judges.
    * `graders`: grade every case with these graders instead of the suite's own: a function with
      `@proctor.grader`, a name, a `proctor.Assertion`, or a list of them.
    * `columns`: for rows and tables, the column of each field, such as `{"input": "question"}`. All other
      columns become metadata.
    * `name`: the name under which rows, cases and tables are saved; "data" by default.
    * `store`: the path or address of the store; by default the project's store. None keeps nothing on disk.
    * `reveal`: show held-out cases too, which counts as a holdout access.
    * `progress`: whether to show progress on stderr, or a function that gets each event.

    Options of `proctor run`. Each has the name of its flag; `proctor run --help` describes them:

    * Cases: `limit`, `id`, `tag`, `all_tag`, `exclude_tag`, `category`, `split`, and for suites in the store
      `saved`. Each except `limit` and `split` takes a text or a list. `shard` ("0/4") selects a part of them.
    * Model: `repeats`, `temperature`, `seed`, `max_tokens`, `max_answer_bytes`, and `params` for all
      others, such as `{"top_p": 0.9, "stop": ["END"], "stream": True}`.
    * Grading: `judge_repeat`, `judge_rule`, `judge_temperature`, `threshold`, `cluster`.
    * Gate, which decides `ok` and `exit_code`: `min_pass_rate`, `gate_mode`, `allow_errors`.
    * Limits: `concurrency`, `timeout` in seconds, `retries`, `budget_usd`, `max_failures`, and to stop early,
      `until` (0.02 for two percentage points) and `stop_when_shown`.
    * Holdout: `holdout`, `split_method`.
    * Earlier answers: `resume` (a run's id, or True for the newest unfinished run of the same suite and
      settings), `retry_errors`, `last_failed` (True, or a run's id: only the cases that failed or errored in
      it), `reuse`, `cache`.
    * Reading the suite: `dialect`, `strict`, `skip_invalid`.
    * Other: `batch` (True sends requests in batches, at half the price), `interleave`, `engine`,
      `engine_address`, `group`, `keep_workspaces`.

    Returns:
        The run, or a `RunGroup` if `suite`, `target` or `prompts` names several.

    Raises:
        SuiteError: the suite or a prompt is invalid; the error lists all problems. No request was sent.
        UsageError: a target, prompt, judge, grader or option cannot be used. No request was sent.
        NothingSelected: no cases match the selection.

    Examples:
        >>> import proctor
        >>> rows = [{"input": "What is 2 + 2?", "expected": "4"}]
        >>> run = proctor.run(rows, target=lambda question: "4", store=None)
        >>> run.passed, run.total
        (1, 1)
    """
    call = _Call(suite, target, prompts, **options)
    return call.results(call.job.run())


@overload
async def arun(
    suite: SuiteLike = ...,
    *,
    target: TargetList,
    prompts: PromptLike | PromptList | None = ...,
    **options: Unpack[RunArguments],
) -> RunGroup: ...


@overload
async def arun(
    suite: list[str] | list[Path],
    *,
    target: TargetLike | None = ...,
    prompts: PromptLike | PromptList | None = ...,
    **options: Unpack[RunArguments],
) -> RunGroup: ...


@overload
async def arun(
    suite: SuiteLike = ...,
    *,
    target: TargetLike | None = ...,
    prompts: PromptList,
    **options: Unpack[RunArguments],
) -> RunGroup: ...


@overload
async def arun(
    suite: SuiteLike = ...,
    *,
    target: TargetLike | None = ...,
    prompts: PromptLike | None = ...,
    **options: Unpack[RunArguments],
) -> RunResult: ...


async def arun(
    suite: SuiteLike = None,
    *,
    target: TargetLike | TargetList | None = None,
    prompts: PromptLike | PromptList | None = None,
    **options: Unpack[RunArguments],
) -> RunResult | RunGroup:
    """Runs a suite like `run`, but on the running event loop, which async targets then share.

    It takes the same arguments as `run`. If you cancel it, the run stops first, and finished trials are
    stored.

    Examples:
        >>> import asyncio, proctor
        >>> async def answer(question: str) -> str:
        ...     return "4"
        >>> rows = [{"input": "What is 2 + 2?", "expected": "4"}]
        >>> asyncio.run(proctor.arun(rows, target=answer, store=None)).pass_rate
        1.0
    """
    call = _Call(suite, target, prompts, **options)
    return call.results(await call.job.arun())


def iter_run(
    suite: SuiteLike = None,
    *,
    target: TargetLike | TargetList | None = None,
    prompts: PromptLike | PromptList | None = None,
    **options: Unpack[RunArguments],
) -> RunIterator:
    """Runs a suite like `run`, and returns an iterator over its trials as they finish.

    It takes the same arguments as `run`. The run starts when you request the first trial. It stops if you
    leave the loop `for trial in proctor.iter_run(…)` early or call `close()`. Once you have read all trials,
    `result` is the result.

    Examples:
        >>> import proctor
        >>> rows = [{"input": "Lima", "expected": "Lima"}, {"input": "Rome", "expected": "Oslo"}]
        >>> trials = proctor.iter_run(rows, target="echo", store=None)
        >>> sorted(trial.verdict.value for trial in trials)
        ['fail', 'pass']
        >>> trials.result.passed
        1
    """
    return RunIterator(_Call(suite, target, prompts, **options))


class _Call:
    """One call of `run`, `arun` or `iter_run`, with its arguments checked."""

    def __init__(
        self,
        suite: SuiteLike,
        target: TargetLike | TargetList | None = None,
        prompts: PromptLike | PromptList | None = None,
        *,
        name: str = "data",
        store: StoreLike = PROJECT_STORE,
        reveal: bool = False,
        progress: ProgressLike = True,
        **options: Any,
    ) -> None:
        if not callable(progress) and not isinstance(progress, bool):
            raise UsageError(
                f"`progress` is {progress!r:.60}. Pass True, False, or a function that takes an event."
            )
        config = load_project()
        self.location = locate(store, config)
        self._row_source: RowSource | None = None
        columns = options.pop("columns", None)
        assertions = resolve_graders(options.pop("graders", None))
        target = find_default(config, target, "target", "model")
        judge = find_default(config, options.pop("judge", None), "judge")
        has_prompts = prompts is not None
        prompts = find_default(config, prompts, "prompt")
        self.is_group = (
            isinstance(target, (list, tuple))
            or isinstance(prompts, (list, tuple, Mapping))
            or is_list_of_names(suite)
        )
        parts: dict[str, Any] = {}
        if is_list_of_names(suite):
            parts["suites"] = tuple(map(str, suite))
        elif is_name(suite):
            parts["suites"] = (str(suite),)
        elif suite is not None:
            self._row_source = make_source(suite, name=name, columns=columns, assertions=assertions)
            parts["sources"] = (self._row_source.source,)
            options = {"holdout": 0.0, **options}  # a format may hold cases out; here the caller has them all
        else:
            _check_has_suite(options)
        if columns is not None and self._row_source is None:
            raise UsageError("`columns` is only for rows and tables. Leave it out for a suite with a name.")
        parts["targets"] = resolve_targets(target)
        parts["judges"] = resolve_targets(judge)
        parts["prompts"] = resolve_prompts(prompts)
        try:
            request = make_request(
                config,
                options,
                assertions=assertions,
                is_single=not self.is_group,
                store=None if store is PROJECT_STORE else self.location.address,
                **parts,
            )
        except ProctorError as error:
            self._rewrite_error(error)
            raise
        if not has_prompts:  # those of the project are no reason to refuse to resume a run
            request = replace(request, flags=request.flags - {"--prompt"})
        self.listeners: list[events.Listener] = []
        self._progress = (
            progress if callable(progress) else Progress(quiet=not progress, write_line=print_note)
        )
        self.listeners.append(self._progress)
        self.job = Job(request, self.location, self._tell, self._rewrite_error, reveal=reveal)
        self.reveal = reveal

    def _tell(self, event: events.Event) -> None:
        if type(event) is events.WarningMessage:
            event = events.WarningMessage(self._rewrite(event.message))
        for listen in self.listeners:
            listen(event)

    def _rewrite_error(self, error: ProctorError) -> None:
        """Makes an error name options instead of flags, and rows instead of lines."""
        if isinstance(error, SuiteError):
            if self._row_source is not None:
                self._row_source.rewrite_error(error)
            elif error.problems and error.problems[0].code in UNREAD_CODES:
                error.args = (to_option_names(str(error)),)
        else:
            error.args = (self._rewrite(str(error)),)

    def _rewrite(self, message: str) -> str:
        message = to_option_names(message)
        return message if self._row_source is None else self._row_source.rewrite(message)

    def results(self, results: list[RunResult]) -> RunResult | RunGroup:
        """Returns the one result, or the group."""
        return RunGroup(results) if self.is_group else results[0]


def _check_has_suite(options: Mapping[str, Any]) -> None:
    """Checks that a call without a suite names the suite in another way.

    Raises:
        UsageError: it does not.
    """
    if options.get("resume") is True:
        raise UsageError(
            "`resume=True` needs the suite and the target of the run. Pass both, or name the run, such as "
            "resume='last'."
        )
    if not any(options.get(name) for name in ("resume", "retry_errors", "saved")):
        raise UsageError("Pass a suite: a path, a name, rows or a table, such as 'support.csv'.")


class RunIterator(Iterator[GradedTrial]):
    """The trials of a run as they finish. The run works in a thread, and stops if you close the iterator."""

    def __init__(self, call: _Call) -> None:
        """Starts nothing before the first trial is requested."""
        self._call = call
        self._changed = Event()
        self._runs: list[_FollowedRun] = []
        self._finished = 0
        """The number of trials that have finished; their rows are stored a moment later."""
        self._outcome: Outcome | None = None
        call.listeners.append(self._notice)
        self._trials = self._follow()

    def _notice(self, event: events.Event) -> None:
        if isinstance(event, events.RunStarted):
            self._runs.append(_FollowedRun(event.run))
        if isinstance(event, events.TrialFinished):
            self._finished += 1
            self._changed.set()

    def __next__(self) -> GradedTrial:
        """Waits for the next finished trial and returns it."""
        return next(self._trials)

    def __iter__(self) -> RunIterator:
        """Returns itself."""
        return self

    def close(self) -> None:
        """Stops the run, and waits until all finished trials are stored."""
        self._trials.close()

    @property
    def result(self) -> RunResult:
        """The result of the run, or of the first of several. Reads all remaining trials first."""
        return self.results[0]

    @property
    def results(self) -> RunGroup:
        """The results of all runs. Reads all remaining trials first, and raises what the run raised."""
        for _ in self._trials:
            pass
        if self._outcome is None:
            raise UsageError("The run was closed before it started.")
        return RunGroup(self._outcome.get())

    def _follow(self) -> Generator[GradedTrial]:
        outcome = self._outcome = self._call.job.start_thread(on_done=self._changed.set)
        try:
            self._changed.wait()
            count = 0
            with open_location(self._call.location) as store:
                while True:
                    is_last = outcome.done.is_set()
                    self._changed.clear()
                    for followed in list(self._runs):
                        for trial in followed.read_new(store, reveal=self._call.reveal):
                            count += 1
                            yield trial
                    if is_last:
                        break
                    self._changed.wait(_READ_AGAIN_S if count < self._finished else None)
            outcome.get()
        except KeyboardInterrupt:
            raise KeyboardInterrupt(self._call.job.stop_thread(outcome)) from None
        finally:
            if not outcome.done.is_set():
                self._call.job.stop()
                outcome.done.wait()


class _FollowedRun:
    """A run whose trials are read as they finish."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._rules = pass_rules_for(run)
        self._turn = 0
        self._waiting: set[int] = set()
        """The turns of trials whose judges have not replied."""

    def read_new(self, store: Store, *, reveal: bool) -> Iterator[GradedTrial]:
        """Yields the trials that have finished since the last call."""
        for update in store.trials_since(self._run.id, self._turn, tuple(self._waiting)):
            self._turn = max(self._turn, update.turn)
            if update.verdict is None:
                self._waiting.add(update.turn)
                continue
            self._waiting.discard(update.turn)
            verdict = decide_verdict(update.trial, self._rules(update.case))
            row = TrialResult(trial=update.trial, verdict=verdict, case=update.case)
            yield grade_trial_record(self._run, row if reveal else seal(row))
