"""`proctor.run`, `arun` and `iter_run`: what they take, and what they give back."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from inspect import signature
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import proctor
from proctor.cli.commands.run import command as run_command
from proctor.errors import NothingSelected, SuiteError, UsageError
from proctor.python.options import RunOptions
from proctor.python.run import RunArguments
from proctor.services import events
from support import media
from support.cli import CommandResult

Rows = list[dict[str, Any]]
Command = Callable[..., CommandResult]
QUIET: Any = {"progress": False, "store": None}


# --- numbers -----------------------------------------------------------------------------------------------


def test_a_run_has_the_numbers_that_the_command_line_prints(rows: Rows, command: Command) -> None:
    Path("s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    result = command("run", "s.jsonl", "--target", "echo", "--json", "--store", "cli.db").run
    run = proctor.run("s.jsonl", target="echo", store="py.db", progress=False)
    assert (run.pass_rate, run.passed, run.total) == (
        result["pass_rate"],
        result["passed"],
        result["total"],
    )
    assert run.interval == tuple(result["ci95"])
    assert run.suite.digest == result["suite_digest"]
    assert run.exit_code == result["exit_code"] == 1
    assert not run.ok


def test_a_gate_decides_whether_a_run_is_ok(rows: Rows) -> None:
    assert proctor.run(rows, target="echo", min_pass_rate=0.5, **QUIET).ok
    assert not proctor.run(rows, target="echo", min_pass_rate=0.6, **QUIET).ok


def test_a_run_shows_as_the_table_of_the_command_line(rows: Rows, command: Command) -> None:
    run = proctor.run(rows, target="echo", store="s.db", progress=False)
    output = command("runs", "show", run.id, "--store", "s.db").out
    assert repr(run).splitlines()[2] in output
    assert "50.0%" in repr(run)
    assert "<table" in run._repr_html_()


def test_texts_of_a_model_cannot_become_markup_in_a_notebook() -> None:
    run = proctor.run([{"input": "<script>x</script>", "expected": "y"}], target="echo", **QUIET)
    assert "<script>" not in run._repr_html_()


# --- suites ------------------------------------------------------------------------------------------------


def test_a_suite_is_a_list_of_cases() -> None:
    check = proctor.Assertion(grader="contains", params={"value": "Lima"})
    cases = [
        proctor.Case(id=name, input=(proctor.Message(role="user", content=name),), assertions=(check,))
        for name in ("Lima", "Rome")
    ]
    run = proctor.run(cases, target="echo", name="capitals", **QUIET)
    assert [(trial.case_id, str(trial.verdict.value)) for trial in run] == [
        ("Lima", "pass"),
        ("Rome", "fail"),
    ]
    assert run.suite.name == "capitals"


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_a_suite_is_a_table_with_a_map_of_columns(kind: str) -> None:
    data = {"question": ["Lima", "Rome"], "answer": ["Lima", None], "level": [1, 2]}
    if kind == "arrow":
        table = pytest.importorskip("pyarrow").table(data)
    else:
        table = pytest.importorskip(kind).DataFrame(data)
    columns = {"input": "question", "expected": "answer"}
    run = proctor.run(table, target="echo", graders=[lambda answer: True], columns=columns, **QUIET)
    assert [(trial.answer, trial.expected) for trial in run] == [("Lima", "Lima"), ("Rome", None)]


def test_rows_hold_nothing_out_unless_they_are_asked_to(rows: Rows) -> None:
    assert {trial.split for trial in proctor.run(rows, target="echo", **QUIET)} == {None}
    splits = {trial.split for trial in proctor.run(rows, target="echo", holdout=0.5, **QUIET)}
    assert splits == {"dev", "holdout"}


def test_held_out_trials_are_hidden_unless_revealed(rows: Rows) -> None:
    run = proctor.run(rows, target="echo", holdout=0.5, split="holdout", store="s.db", progress=False)
    assert {(trial.sealed, trial.answer, trial.input) for trial in run} == {(True, None, None)}
    revealed = proctor.load_run(run.id, store="s.db", reveal=True)
    assert all(trial.answer for trial in revealed)


def test_several_suites_or_targets_make_a_group(rows: Rows) -> None:
    group = proctor.run(rows, target=["echo", lambda question: "no"], **QUIET)
    assert [run.target.name for run in group] == ["echo", "lambda"]
    assert [run.passed for run in group] == [5, 5]
    assert group["echo"] is group[0]
    assert len({run.run.group for run in group}) == 1
    assert "lambda" in repr(group)
    assert group.compare().difference == 0


def test_one_word_for_several_suites_is_refused_before_the_first_call(rows: Rows) -> None:
    Path("suites").mkdir()
    for name in ("a", "b"):
        Path(f"suites/{name}.jsonl").write_text(json.dumps(rows[0]), encoding="utf-8")
    calls: list[str] = []
    with pytest.raises(
        UsageError,
        match=r"This call makes 2 runs: a on append, b on append\. To get all of them, pass a list",
    ):
        proctor.run("suites", target=calls.append, **QUIET)
    assert calls == []
    assert len(proctor.run(["suites/a.jsonl", "suites/b.jsonl"], target="echo", **QUIET)) == 2


@pytest.mark.parametrize(
    ("suite", "error"),
    [
        ([], "no cases"),
        ([1, 2], "first row is of type int"),
        ({"input": "x"}, "dict is not a suite"),
        (3, "int is not a suite"),
    ],
)
def test_what_is_no_suite_is_refused(suite: Any, error: str) -> None:
    with pytest.raises(UsageError, match=error):
        proctor.run(suite, target="echo", **QUIET)


def test_all_problems_of_rows_are_in_the_error() -> None:
    rows = [
        {"input": "a", "expected": "a"},
        {"input": "b", "expected": "b", "scorer": "no"},
        {"expected": "c"},
    ]
    with pytest.raises(SuiteError) as caught:
        proctor.run(rows, target="echo", **QUIET)
    assert [problem.line for problem in caught.value.problems] == [2, 3]


def test_a_column_that_is_not_there_is_refused(rows: Rows) -> None:
    with pytest.raises(
        UsageError, match=r"from the column 'inptu', which does not exist\. Did you mean 'input'"
    ):
        proctor.run(rows, target="echo", columns={"input": "inptu"}, **QUIET)


# --- targets -----------------------------------------------------------------------------------------------


def test_a_target_is_a_function_of_a_text() -> None:
    run = proctor.run([{"input": "a", "expected": "A"}], target=str.upper, **QUIET)
    assert (run.pass_rate, run.target.name) == (1.0, "upper")


def test_a_target_is_an_async_function_of_a_prompt() -> None:
    async def ask(prompt: proctor.Prompt) -> proctor.Output:
        return proctor.Output(text=prompt.messages[0].content, cost_usd=0.5)

    run = proctor.run([{"input": "a", "expected": "a"}], target=ask, **QUIET)
    assert (run.pass_rate, run.cost_usd) == (1.0, 0.5)


def test_a_target_is_an_object_that_answers() -> None:
    class Agent:
        name = "my agent"

        def answer(self, prompt: proctor.Prompt) -> proctor.Output:
            return proctor.Output(text=prompt.case_id)

    run = proctor.run([{"id": "x", "input": "a", "expected": "x"}], target=Agent(), **QUIET)
    assert (run.pass_rate, run.target.name) == (1.0, "my agent")


def test_a_judge_is_a_function() -> None:
    rows = [{"input": "a", "scorer": "llm_judge", "rubric": "Is it short?"}]
    judge = lambda _prompt: '{"verdict": "pass", "reasoning": "yes"}'  # noqa: E731
    run = proctor.run(rows, target="echo", judge=judge, **QUIET)
    assert [judge.name for judge in run.run.judges] == ["lambda"]
    assert run.total == 1


def test_a_function_that_raises_is_an_error_of_its_trial() -> None:
    def fail(question: str) -> str:
        raise RuntimeError("no luck")

    run = proctor.run([{"input": "a", "expected": "a"}], target=fail, **QUIET)
    assert (run.errors, run.pass_rate) == (1, None)
    assert "no luck" in next(run.failures()).reason


def test_what_is_no_target_is_refused(rows: Rows) -> None:
    with pytest.raises(UsageError, match="3 is not a target"):
        proctor.run(rows, target=3, **QUIET)  # type: ignore[call-overload]


# --- options -----------------------------------------------------------------------------------------------


NAMES = {
    "repeat": "repeats",
    "param": "params",
    "stream": "params",
    "target": "target",
    "judge": "judge",
    "timeout": "timeout",
}
NOT_OPTIONS = {
    *("suite", "attest", "public", "sign_key", "output", "json", "quiet", "no_holdout", "help", "watch"),
}
"""Arguments, and flags for which results have methods."""


def test_every_option_of_the_command_line_is_one_of_the_call() -> None:
    flags = {
        param.opts[-1 if param.name == "more_suites" else 0].strip("-").replace("-", "_")
        for param in run_command.params
        if param.opts[0].startswith("--")
    } | {"target", "judge"}
    options = {*get_type_hints(RunArguments, include_extras=True), "target"}
    assert {NAMES.get(flag, flag) for flag in flags} - NOT_OPTIONS - options - {"tier"} == set()


def test_an_unknown_option_gets_a_suggestion(rows: Rows) -> None:
    with pytest.raises(UsageError, match=r"no option 'repeat'\. Did you mean 'repeats'"):
        proctor.run(rows, target="echo", **{"repeat": 3, **QUIET})


@pytest.mark.parametrize(
    "options",
    [{"repeats": 0}, {"limit": "3"}, {"min_pass_rate": 1.5}, {"split": "test"}, {"timeout": 0}, {"cache": 1}],
)
def test_a_value_that_cannot_be_used_is_refused(rows: Rows, options: Any) -> None:
    with pytest.raises(UsageError, match=f"`{next(iter(options))}` is"):
        proctor.run(rows, target="echo", **{**options, **QUIET})


def test_the_project_file_sets_defaults(rows: Rows) -> None:
    Path("proctor.toml").write_text("repeat = 2\nlimit = 3\n", encoding="utf-8")
    assert proctor.run(rows, target="echo", **QUIET).total == 6
    assert proctor.run(rows, target="echo", repeats=1, **QUIET).total == 3
    Path("proctor.toml").write_text('min-pass-rate = "50 %"\nuntil = "10pp"\n', encoding="utf-8")
    settings = proctor.run(rows, target="echo", **QUIET).run.settings
    assert (settings.min_pass_rate, settings.until) == (0.5, 0.1)
    Path("proctor.toml").write_text("limit = 0\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"proctor\.toml: error: `limit` is 0"):
        proctor.run(rows, target="echo", **QUIET)


def test_a_selection_takes_a_text_or_a_list(rows: Rows) -> None:
    assert proctor.run(rows, target="echo", id="t1", **QUIET).total == 1
    assert proctor.run(rows, target="echo", id=["t1", "t2"], **QUIET).total == 2
    with pytest.raises(NothingSelected):
        proctor.run(rows, target="echo", id="x", **QUIET)


def test_options_have_types_that_can_be_read() -> None:
    assert get_type_hints(RunOptions)["repeats"] is int
    assert {*signature(proctor.run).parameters} == {"suite", "target", "prompts", "options"}


# --- where it runs -----------------------------------------------------------------------------------------


def test_it_runs_beside_a_running_loop_and_on_it(rows: Rows) -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    async def answer(question: str) -> str:
        loops.append(asyncio.get_running_loop())
        return question

    async def main() -> None:
        assert proctor.run(rows, target=answer, limit=1, **QUIET).total == 1
        assert (await proctor.arun(rows, target=answer, limit=1, **QUIET)).total == 1
        assert loops[0] is not asyncio.get_running_loop()
        assert loops[1] is asyncio.get_running_loop()

    asyncio.run(main())


def test_it_runs_in_several_threads_at_once(rows: Rows) -> None:
    totals: list[int] = []
    threads = [
        threading.Thread(
            target=lambda: totals.append(proctor.run(rows, target="echo", store="s.db", progress=False).total)
        )
        for _ in range(3)
    ]
    thresholds = gc.get_threshold()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert totals == [10, 10, 10]
    assert gc.get_threshold() == thresholds


def test_cancelling_stores_what_has_finished(rows: Rows) -> None:
    event_list: list[events.Event] = []
    is_called = asyncio.Event()

    async def answer(question: str) -> str:
        if question == "say 5":
            is_called.set()
            await asyncio.sleep(3600)
        return question

    async def main() -> None:
        call = proctor.arun(rows, target=answer, store="s.db", concurrency=1, progress=event_list.append)
        task = asyncio.create_task(call)
        await is_called.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    run = proctor.load_run(store="s.db")
    assert (run.status, run.total) == ("interrupted", 5)
    (message,) = [event.message for event in event_list if isinstance(event, events.StatusMessage)]
    assert (
        f"Continue with proctor.run(resume='{run.id}'). In a new program, pass the same target= again."
        in message
    )


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, as in a program without a handler of its own."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, handler)


@pytest.mark.usefixtures("ctrl_c")
def test_an_interrupted_run_can_be_resumed(rows: Rows) -> None:
    questions: list[str] = []

    async def answer(question: str) -> str:
        questions.append(question)
        if question == "say 5" and questions.count(question) == 1:
            os.kill(os.getpid(), signal.SIGINT)  # as Ctrl-C does; the handler runs in this thread
        await asyncio.sleep(0)
        return question

    with pytest.raises(KeyboardInterrupt, match=r"Continue with proctor\.run\(resume="):
        proctor.run(rows, target=answer, store="s.db", concurrency=1, progress=False)
    stopped = proctor.load_run(store="s.db")
    assert stopped.status == "interrupted"
    run = proctor.run(resume=stopped.id, store="s.db", progress=False)
    assert (run.id, run.status, run.total) == (stopped.id, "finished", 10)
    assert len(questions) <= 11


def test_nothing_is_written_without_a_store(rows: Rows, folder: Path) -> None:
    run = proctor.run(rows, target="echo", **QUIET)
    assert len(list(run.trials())) == 10
    assert list(folder.iterdir()) == []


def test_the_project_store_keeps_a_run_and_stays_out_of_git(rows: Rows, folder: Path) -> None:
    run = proctor.run(rows, target="echo", progress=False)
    assert (folder / ".proctor" / ".gitignore").exists()
    assert proctor.load_run().id == run.id


def test_events_reach_a_function(rows: Rows) -> None:
    event_list: list[events.Event] = []
    proctor.run(rows, target="echo", store=None, progress=event_list.append)
    assert sum(isinstance(event, events.TrialFinished) for event in event_list) == 10


# --- iter_run ----------------------------------------------------------------------------------------------


def test_trials_come_as_they_finish() -> None:
    release = threading.Event()

    def answer(question: str) -> str:
        if question == "second":
            release.wait()
        return question

    rows = [{"input": text, "expected": text} for text in ("first", "second")]
    trials = proctor.iter_run(rows, target=answer, store=None, progress=False)
    assert next(trials).answer == "first"
    release.set()
    assert [trial.answer for trial in trials] == ["second"]
    assert trials.result.passed == 2


def test_leaving_the_loop_stops_the_run(rows: Rows) -> None:
    trials = proctor.iter_run(
        [{"input": f"say {number}", "expected": "x"} for number in range(500)],
        target=lambda question: question,
        store="s.db",
        concurrency=1,
        progress=False,
    )
    next(trials)
    trials.close()
    assert proctor.load_run(store="s.db").status == "interrupted"


def test_an_error_of_the_run_is_raised_by_its_iterator() -> None:
    with pytest.raises(UsageError, match="no suite 'nope'"):
        list(proctor.iter_run("nope", target="echo", store=None, progress=False))


# --- stores and comparisons --------------------------------------------------------------------------------


def test_a_store_lists_runs_and_suites(rows: Rows) -> None:
    first = proctor.run(rows, target="echo", store="s.db", name="sums", progress=False)
    second = proctor.run(rows, target="echo", store="s.db", name="sums", limit=2, progress=False)
    with proctor.open_store("s.db") as store:
        assert [(run.id, run.total) for run in store.runs()] == [(second.id, 2), (first.id, 10)]
        assert [suite.name for suite in store.suites()] == ["sums"]


def test_a_store_that_is_not_there_is_not_made(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"no store at .*proctor\.db"):
        proctor.open_store()
    assert list(folder.iterdir()) == []


def test_a_run_is_read_after_the_working_directory_changed(
    rows: Rows, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [proctor.run(rows, target="echo", store=store, progress=False) for store in ("s.db", Path("p.db"))]
    runs.append(proctor.run(rows, target="echo", progress=False))
    (folder / "sub").mkdir()
    monkeypatch.chdir(folder / "sub")
    assert [len(list(run.trials())) for run in runs] == [10, 10, 10]
    assert list((folder / "sub").iterdir()) == []


def test_a_run_is_compared_with_an_earlier_one(rows: Rows) -> None:
    before = proctor.run(rows, target=lambda _question: "no", store="s.db", progress=False)
    after = proctor.run(rows, target="echo", store="s.db", progress=False)
    comparison = after.compare(before)
    assert comparison.difference == 0.0
    assert comparison.p_value == pytest.approx(1.0)
    assert comparison.interval is not None
    assert comparison.interval[0] < 0 < comparison.interval[1]
    assert "5 cases fixed, 5 broken" in repr(comparison)


def test_reports_and_bundles_are_written(rows: Rows, command: Command) -> None:
    run = proctor.run(rows, target="echo", store="s.db", progress=False)
    assert "50.0%" in run.report("run.md").read_text(encoding="utf-8")
    with pytest.raises(UsageError, match="ending"):
        run.report("run.doc")
    bundle = run.attest("run.zip")
    result = command("verify", bundle)
    assert result.code == 0
    assert "50.0%" in result.out
    unsigned = run.attest("unsigned.zip", sign=False)
    assert command("verify", unsigned).code == 0
    assert command("verify", unsigned, "--require-signature").code == 1


def test_trials_become_a_table(rows: Rows) -> None:
    pytest.importorskip("pyarrow")
    run = proctor.run(rows, target="echo", **QUIET)
    table = run.failures().to_arrow()
    assert table["verdict"].to_pylist() == ["fail"] * 5
    assert table["answer"].to_pylist() == table["input"].to_pylist()
    parquet = pytest.importorskip("pyarrow.parquet")
    assert parquet.read_table(run.report("t.parquet")).num_rows == 10


# --- import ------------------------------------------------------------------------------------------------


def test_the_public_names_are_listed_and_import_nothing() -> None:
    code = "import sys, proctor; print(*dir(proctor)); print(len([m for m in sys.modules if 'proctor' in m]))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    names, count = out.splitlines()
    assert {"run", "arun", "iter_run", "load_run", "open_store", "grader", "Case"} <= set(names.split())
    assert count == "1"


def test_a_notebook_shows_verdicts_intervals_and_failures(rows: Rows) -> None:
    run = proctor.run(rows, target="echo", **QUIET)
    html = run._repr_html_()
    assert html.count('<span class="verdict fail">') == 5
    assert 'class="drawing"' in html
    assert "<pre" not in html
    assert "The answer is &#39;say 0&#39;; expected &#39;no&#39;." in html
    assert html.count("<style>") == 1
    style = html.partition("<style>")[2].partition("</style>")[0]
    selectors = [rule.rpartition("}")[2] for rule in style.split("{")[:-1]]
    assert all(".proctor" in selector for text in selectors for selector in text.split(","))
    assert "<table" in run.compare(run)._repr_html_()


def test_a_notebook_tells_where_further_failures_are() -> None:
    rows = [{"input": str(number), "expected": "no"} for number in range(60)]
    html = proctor.run(rows, target="echo", **QUIET)._repr_html_()
    assert "more: run.failures() has all." in html
    assert "proctor runs show" not in html


# --- files -------------------------------------------------------------------------------------------------


def _list_media(prompt: proctor.Prompt) -> str:
    """Answers with the media types of a prompt's files, and the number of their bytes."""
    parts = [part for message in prompt.messages for part in message.parts if not isinstance(part, str)]
    return ", ".join(f"{part.kind} {part.media_type} {len(part.data)}" for part in parts)


def test_rows_and_cases_have_files_in_bytes_or_as_content_parts() -> None:
    sound = {"data": b64encode(media.WAV).decode(), "format": "wav"}
    contents: Any = [
        {"parts": [{"kind": "audio", "path": "a.wav", "data": media.WAV}]},
        {"content": [{"type": "input_audio", "input_audio": sound}]},
    ]
    rows = [{"input": [{"role": "user"} | content]} for content in contents]
    graders = [lambda answer: answer == "audio audio/wav 60"]
    assert proctor.run(rows, target=_list_media, graders=graders, **QUIET).passed == 2
    attachment = proctor.Attachment(kind="audio", path="a.wav", data=media.WAV)
    case = proctor.Case(id="a", input=(proctor.Message(role="user", parts=(attachment,)),))
    assert proctor.run([case], target=_list_media, graders=graders, **QUIET).passed == 1
