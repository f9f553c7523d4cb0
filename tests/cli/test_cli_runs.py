"""`proctor runs`, `targets`, `models` and `init`."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest

from support.cli import Proctor
from support.waiting import PATIENCE_S

# --- runs --------------------------------------------------------------------------------------------------


@pytest.fixture
def stored_run(proctor: Proctor, half: str) -> str:
    """The id of a run of ten cases, of which five passed."""
    run_id: str = proctor("run", half, "--target", "echo", "--json").run["run"]
    return run_id


@pytest.mark.parametrize(
    "words",
    [
        ("list",),
        ("show", "last"),
        ("export", "last", "-o", "x.json"),
        ("tag", "last", "t"),
        ("delete", "last", "-y"),
    ],
)
def test_without_a_store_each_command_says_so_and_creates_none(
    proctor: Proctor, folder: Path, words: tuple[str, ...]
) -> None:
    result = proctor("runs", *words)
    assert result.code == 4
    assert "There is no store" in result.err
    assert list(folder.iterdir()) == []


def test_full_shows_the_reasoning_of_single_answers_only(proctor: Proctor, half: str, folder: Path) -> None:
    answer = {"text": "4", "reasoning": "Two and two\nmake four."}
    (folder / "answers.jsonl").write_text(json.dumps({"*": answer}), encoding="utf-8")
    proctor("run", half, "--target", "scripted:answers.jsonl", "--id", "t1")
    folded = proctor("runs", "show", "last", "--case", "t1").out
    assert "  reasoning: 22 characters: --full shows them\n  answer:    4\n" in folded
    full = proctor("runs", "show", "last", "--case", "t1", "--full").out
    assert "  reasoning: Two and two\n             make four.\n  answer:    4\n" in full
    result = proctor("runs", "show", "last", "--full")
    assert (result.code, "Add --case ID or --failures" in result.err) == (4, True)


def test_a_run_that_is_not_there_is_4(proctor: Proctor, stored_run: str) -> None:
    for words in (("show",), ("export", "-o", "x.json"), ("tag", "--remove"), ("delete", "-y")):
        result = proctor("runs", *words, "zzz")
        assert result.code == 4
        assert "There is no run 'zzz'" in result.err, words


def test_a_list_has_a_line_a_run_newest_first(proctor: Proctor, half: str, stored_run: str) -> None:
    second = proctor("run", half, "--target", "echo", "--id", "t1", "--json").run["run"]
    lines = proctor("runs", "list").out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == [second, stored_run]
    assert "1/1" in lines[1]
    assert "100.0%" in lines[1]
    assert "5/10" in lines[2]
    assert lines[2].endswith("half v1 on echo")
    assert len(proctor("runs", "list", "--limit", 1).out.splitlines()) == 3


def test_a_list_can_be_of_one_suite_or_tag(proctor: Proctor, suite: Proctor, stored_run: str) -> None:
    other = proctor("run", suite(("a", "x", "x")), "--target", "echo", "--json").run["run"]
    proctor("runs", "tag", other, "nightly")
    assert [line.split()[0] for line in proctor("runs", "list", "--suite", "half").out.splitlines()[1:]] == [
        stored_run
    ]
    assert other in proctor("runs", "list", "--tag", "nightly").out
    assert "No stored run" in proctor("runs", "list", "--tag", "none").out


@pytest.mark.slow
def test_a_list_as_json_has_the_facts_of_the_lines_and_takes_the_same_filters(
    proctor: Proctor, suite: Proctor, stored_run: str
) -> None:
    other = proctor("run", suite(("a", "x", "x")), "--target", "echo", "--json").run["run"]
    proctor("runs", "tag", other, "nightly")
    listing = proctor("runs", "list", "--json").json
    first, second = listing["runs"]
    assert ([first["run"], second["run"]], listing["more"]) == ([other, stored_run], False)
    assert (first["tags"], first["suite"], first["suite_version"], first["target"]) == (
        *(["nightly"], "s", "v1"),
        "echo",
    )
    report = proctor("runs", "show", stored_run, "--json").run
    assert {name: report[name] for name in second if name in report} == {
        name: value for name, value in second.items() if name in report
    }
    assert (second["total"], second["passed"], second["missing"], second["sealed"]) == (10, 5, 0, False)
    runs_by_filter = {"--suite=half": [stored_run], "--tag=nightly": [other], "--tag=x": []}
    for word, runs in runs_by_filter.items():
        assert [run["run"] for run in proctor("runs", "list", "--json", word).json["runs"]] == runs
    short = proctor("runs", "list", "--json", "--limit", "1").json
    assert ([run["run"] for run in short["runs"]], short["more"]) == ([other], True)


def test_a_list_counts_errors_and_shows_the_rate_of_what_was_measured(
    proctor: Proctor, suite: Proctor, folder: Path
) -> None:
    lines = [{f"t{number}": "no" if number == 7 else "yes"} for number in range(8)]
    (folder / "some.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    name = suite(*((f"t{number}", "Well?", "yes") for number in range(40)))
    assert proctor("run", name, "--target", "scripted:some.jsonl", "--retries", 0).code == 3
    head, line = proctor("runs", "list").out.splitlines()
    assert " ".join(head.split()[2:]) == "passed rate 95% interval not measured suite on target"
    assert line.split()[2:7] == ["7/40", "87.5%", "53–98%", "32:", "17.5–97.5%"]
    (row,) = proctor("runs", "list", "--json").json["runs"]
    assert (row["passed"], row["total"], row["errors"], row["cases"]) == (7, 40, 32, 8)
    assert (row["pass_rate"], row["ci95"], row["bounds"]) == (0.875, [0.529, 0.978], [0.175, 0.975])


def test_a_stored_run_is_shown_as_the_run_printed_it(proctor: Proctor, half: str) -> None:
    result = proctor("run", half, "--target", "echo", "--split", "dev")
    run_id = result.out.splitlines()[-1].removeprefix("Run ")
    assert proctor("runs", "show", run_id).out in result.out
    assert proctor("runs", "show", "last").out == proctor("runs", "show", run_id[:-1]).out


def test_a_stored_run_has_the_same_numbers_in_json(proctor: Proctor, half: str) -> None:
    result = proctor("run", half, "--target", "echo", "--split", "dev", "--json")
    report = proctor("runs", "show", "last", "--json")
    assert report.json == result.json
    assert report.code == 0  # the code of `runs show`, not of the run


def test_failures_are_shown_with_question_and_answer(proctor: Proctor, stored_run: str) -> None:
    out = proctor("runs", "show", stored_run, "--failures").out
    assert [line for line in out.splitlines() if line.startswith("FAIL")] == [
        f"FAIL t{n}" for n in range(0, 10, 2)
    ]
    for words in ("question:  say 4", "expected:  no", "answer:    say 4"):
        assert words in out


def test_a_run_without_failures_says_so(proctor: Proctor, suite: Proctor) -> None:
    proctor("run", suite(("a", "x", "x")), "--target", "echo")
    assert proctor("runs", "show", "last", "--failures").out == "Every trial passed.\n"


def test_one_case_is_shown_with_every_repeat(proctor: Proctor, half: str) -> None:
    proctor("run", half, "--target", "echo", "--repeat", 3)
    out = proctor("runs", "show", "last", "--case", "t1").out
    assert out.count("PASS t1") == 3
    assert "PASS t1 (repeat 2)" in out
    result = proctor("runs", "show", "last", "--case", "zzz")
    assert (result.code, "'zzz'" in result.err) == (4, True)


def test_what_is_shown_of_some_trials_can_be_json(proctor: Proctor, stored_run: str) -> None:
    ids_by_command: dict[tuple[str, ...], list[str]] = {
        ("--case", "t1"): ["t1"],
        ("--case", "t[135]"): ["t1", "t3", "t5"],
        ("--case", "t9", "--case", "?1"): ["t1", "t9"],
        ("--failures",): [f"t{n}" for n in range(0, 10, 2)],
        ("--failures", "--case", "t[1-4]"): ["t2", "t4"],
        ("--failures", "--case", "t1"): [],
    }
    for words, ids in ids_by_command.items():
        trials = proctor("runs", "show", stored_run, *words, "--json").json["trials"]
        assert [trial["case_id"] for trial in trials] == ids, words


def test_a_case_whose_id_has_brackets_is_shown_by_its_id_and_by_a_glob(
    proctor: Proctor, suite: Callable[..., str]
) -> None:
    proctor("run", suite(*((f"soup[n={n}]", "x", "x") for n in (4, 12))), "--target", "echo")
    assert proctor("runs", "show", "last", "--case", "soup[n=4]").out.count("PASS soup") == 1
    for glob in ("soup*", "soup[n=*", "soup[[]n=*"):
        assert proctor("runs", "show", "last", "--case", glob).out.count("PASS soup") == 2
    result = proctor("runs", "show", "last", "--case", "x*", "--case", "y")
    assert (result.code, result.out) == (4, "")
    assert "has no finished trial of a case 'x*' or 'y'. To see all cases: `proctor runs show" in result.err


def test_a_gate_that_was_not_reached_is_named_with_the_score_that_is_kept(
    proctor: Proctor, folder: Path
) -> None:
    (folder / "s.yaml").write_text(
        "tests: [{id: a, criteria: c, input: x, assertions: "
        "[{type: contains, value: x, weight: 9}, {type: contains, value: y, required: true}]}]",
        encoding="utf-8",
    )
    proctor("run", "s.yaml", "--target", "echo")
    reason = "required check failed: contains-y (0.00, at least 0.8 required); score 0.90"
    assert f"  {reason}\n" in proctor("runs", "show", "last", "--case", "a").out
    assert f"FAIL      a  {reason}; " in proctor("runs", "show", "last").out


def test_a_list_counts_cases_where_a_suite_says_how_repeats_count(proctor: Proctor, folder: Path) -> None:
    (folder / "s.yaml").write_text(
        "execution: {trials: {count: 3}}\n"
        "tests: [{id: a, input: x, assertions: [{type: contains, value: x}]},"
        " {id: b, input: y, assertions: [{type: contains, value: x}]}]",
        encoding="utf-8",
    )
    proctor("run", "s.yaml", "--target", "echo")
    assert "1/2 50.0% 9–91% – s v1 on echo" in " ".join(proctor("runs", "list").out.split())


def test_the_interval_in_a_list_is_over_cases_and_not_over_their_repeats(
    proctor: Proctor, stored_run: str, half: str
) -> None:
    proctor("run", half, "--target", "echo", "--repeat", 4)
    often, once = proctor("runs", "list").out.splitlines()[1:]
    assert (once.split()[2:5], often.split()[2:5]) == (
        ["5/10", "50.0%", "24–76%"],
        ["20/40", "50.0%", "24–76%"],
    )


def test_a_stored_run_shows_its_questions_when_the_suite_file_is_gone(
    proctor: Proctor, stored_run: str, half: str
) -> None:
    Path(half).unlink()
    assert "say 4" in proctor("runs", "show", stored_run, "--failures").out
    assert proctor("runs", "export", stored_run, "-o", "x.csv").code == 0
    assert "say 4" in Path("x.csv").read_text(encoding="utf-8")


def test_several_runs_are_exported_into_one_file(proctor: Proctor, half: str, stored_run: str) -> None:
    second = proctor("run", half, "--target", "echo", "--limit", 2, "--json").run["run"]
    assert (
        proctor("runs", "export", stored_run, second, "-o", "x.jsonl").err == "12 trials written to x.jsonl\n"
    )
    runs = [json.loads(line)["run"] for line in Path("x.jsonl").read_text(encoding="utf-8").splitlines()]
    assert runs == [stored_run] * 10 + [second] * 2


def test_an_export_to_what_cannot_be_written_is_4(proctor: Proctor, stored_run: str) -> None:
    for output in ("x.txt", "x", "no/x.json"):
        assert proctor("runs", "export", stored_run, "-o", output).code == 4, output


def test_tags_are_given_and_taken_away(proctor: Proctor, stored_run: str) -> None:
    assert proctor("runs", "tag", stored_run, "b", "a").out == f"{stored_run}: a, b\n"
    assert proctor("runs", "tag", stored_run, "a", "--remove").out == f"{stored_run}: b\n"
    assert proctor("runs", "tag", stored_run).out == f"{stored_run}: b\n"
    assert proctor("runs", "show", stored_run, "--json").run["tags"] == ["b"]


def test_deleting_asks_first_and_nobody_who_cannot_answer_loses_anything(
    proctor: Proctor, stored_run: str
) -> None:
    assert proctor("runs", "delete", stored_run).code == 4
    assert stored_run in proctor("runs", "list").out
    assert proctor("runs", "delete", stored_run, "--yes").code == 0
    assert stored_run not in proctor("runs", "list").out


def test_showing_listing_and_exporting_change_nothing_in_the_store_but_looks(
    proctor: Proctor, half: str, folder: Path
) -> None:
    stored_run = proctor("run", half, "--target", "echo", "--split", "dev", "--json").run["run"]
    store = folder / ".proctor" / "proctor.db"
    before = sha256(store.read_bytes()).digest()
    for words in (
        ("list",),
        ("show", stored_run),
        ("show", stored_run, "--failures"),
        ("export", stored_run, "-o", "x.md"),
    ):
        assert proctor("runs", *words).code == 0
    assert sha256(store.read_bytes()).digest() == before


def test_a_store_that_has_lost_cases_says_so(proctor: Proctor, stored_run: str, folder: Path) -> None:
    with closing(sqlite3.connect(folder / ".proctor" / "proctor.db", isolation_level=None)) as db:
        db.execute("DELETE FROM suite_cases WHERE position > 3")
    for words in (
        ("show", stored_run),
        ("show", stored_run, "--failures"),
        ("export", stored_run, "-o", "x.csv"),
    ):
        result = proctor("runs", *words)
        assert result.code == 4
        assert "damaged" in result.err


# --- targets and models ------------------------------------------------------------------------------------


def test_every_kind_of_target_is_listed_with_the_key_it_wants(
    proctor: Proctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    out = proctor("targets", "list").out
    for kind in ("openai", "anthropic", "google", "ollama", "local", "command", "function", "replay", "echo"):
        assert f"\n{kind}" in f"\n{out}"
    assert "OPENAI_API_KEY set" in out
    assert "ANTHROPIC_API_KEY not set" in out
    assert "sk-secret" not in out


@pytest.mark.parametrize(
    ("targets", "code"),
    [
        (("echo",), 0),
        (("command:cat",), 0),
        (("command:false",), 3),
        (("echo", "command:false", "command:cat"), 3),
        (("openai:m@http://127.0.0.1:9/v1",), 3),
        (("openai:m",), 3),
        (("nobody",), 4),
        ((), 4),
    ],
)
def test_checking_targets_tells_of_each_whether_it_answers(
    proctor: Proctor, targets: tuple[str, ...], code: int
) -> None:
    result = proctor("targets", "check", *targets)
    assert result.code == code
    if code != 4:
        assert [line.split(": ")[0] for line in result.out.splitlines()] == list(targets)


def test_checking_a_target_keeps_nothing(proctor: Proctor, folder: Path) -> None:
    proctor("targets", "check", "echo")
    assert list(folder.iterdir()) == []


def test_the_embedded_models_are_listed_without_fetching_any(
    proctor: Proctor, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROCTOR_CACHE", str(folder / "cache"))
    result = proctor("models", "list")
    assert result.code == 0
    assert "MB" in result.out
    assert "not downloaded" in result.out
    assert not (folder / "cache").exists()


def test_a_model_that_is_not_known_cannot_be_pulled(proctor: Proctor) -> None:
    result = proctor("models", "pull", "no-such-model")
    assert result.code == 4
    assert "no-such-model" in result.err


# --- init --------------------------------------------------------------------------------------------------

STARTER = (
    "suites/starter.jsonl",
    "targets.yaml",
    "proctor.toml",
    ".github/workflows/proctor.yml",
    ".github/workflows/drift.yml",
    "drift.cron",
)


def test_a_new_project_starts_with_a_suite_that_can_be_run(proctor: Proctor, folder: Path) -> None:
    result = proctor("init")
    assert result.code == 0
    assert all((folder / name).is_file() and name in result.out for name in STARTER)
    validation = proctor("validate", "starter", "--strict", "--json")
    assert validation.code == 0
    assert validation.json["files"][0]["cases"] > 0
    assert proctor("validate", "--json").json == validation.json
    ran = proctor("run", "--target", "echo")
    assert ran.code in (1, 3)
    assert ran.out.startswith("starter v1 on echo")
    assert "holdout" not in ran.out  # a new project holds nothing out
    assert not any("docs/" in (folder / name).read_text(encoding="utf-8") for name in STARTER)


@pytest.mark.parametrize("file_name", STARTER)
def test_nothing_that_is_there_is_replaced_and_then_nothing_is_written(
    proctor: Proctor, folder: Path, file_name: str
) -> None:
    (folder / file_name).parent.mkdir(parents=True, exist_ok=True)
    (folder / file_name).write_text("mine", encoding="utf-8")
    result = proctor("init")
    assert result.code == 4
    assert file_name in result.err
    assert (folder / file_name).read_text(encoding="utf-8") == "mine"
    assert sum((folder / name).exists() for name in STARTER) == 1
    assert proctor("init", "--force").code == 0
    assert (folder / file_name).read_text(encoding="utf-8") != "mine"


def test_another_folder_can_be_named_and_is_made(proctor: Proctor, folder: Path) -> None:
    assert proctor("init", "new/project").code == 0
    assert (folder / "new" / "project" / "targets.yaml").is_file()
    (folder / "file").write_text("", encoding="utf-8")
    assert proctor("init", "file").code == 4
    assert proctor("init", "file/below").code == 4


def test_git_ignores_what_proctor_writes_into_a_project(proctor: Proctor, folder: Path) -> None:
    assert "Wrote .gitignore" in proctor("init").out
    lines = (folder / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert lines == ["/proctor.xml", "/proctor.md", "/drift.md", "/drift.svg", "/drift.log"]


def test_lines_of_a_gitignore_stay_and_each_is_added_once(proctor: Proctor, folder: Path) -> None:
    (folder / ".gitignore").write_bytes(b"# \xff\n/drift.md\nbuild")
    assert "Added the reports to .gitignore" in proctor("init").out
    expected = b"# \xff\n/drift.md\nbuild\n/proctor.xml\n/proctor.md\n/drift.svg\n/drift.log\n"
    assert (folder / ".gitignore").read_bytes() == expected
    assert ".gitignore" not in proctor("init", "--force").out
    assert (folder / ".gitignore").read_bytes() == expected


# --- the process -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_python_m_proctor_is_the_command(process: Proctor, half: str) -> None:
    result = process("run", half, "--target", "echo", "--json")
    assert result.code == result.json["exit_code"] == 1
    assert process("--version").out.startswith("proctor, version ")


@pytest.mark.slow
def test_help_loads_nothing_that_a_command_needs(process: Proctor) -> None:
    result = process("--help", environ={"PYTHONPROFILEIMPORTTIME": "1"})
    modules = {line.rpartition("|")[2].strip() for line in result.err.splitlines()}
    assert result.code == 0
    assert not modules & {"aiohttp", "sqlite3", "asyncio", "rich", "msgspec", "uvloop", "yaml", "jsonschema"}


@pytest.mark.slow
def test_a_user_error_has_no_traceback_even_with_proctor_debug(start: Proctor, suite: Proctor) -> None:
    # `PROCTOR_PRICES` names a file that cannot be read: a sentence, also when faults are shown.
    for debug in ("0", "1"):
        environ = {"PROCTOR_DEBUG": debug, "PROCTOR_PRICES": "missing.toml"}
        process = start("run", suite(("a", "x", "x")), "--target", "echo", environ=environ)
        _, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 4
        assert "missing.toml" in err
        assert "Traceback" not in err


def test_a_run_that_was_cut_short_says_what_is_missing(proctor: Proctor, half: str, folder: Path) -> None:
    run_id = proctor("run", half, "--target", "echo", "--json").run["run"]
    with closing(sqlite3.connect(folder / ".proctor" / "proctor.db")) as db, db:
        db.execute("DELETE FROM trials WHERE position >= 7")
        db.execute("DELETE FROM totals")
        db.execute("UPDATE runs SET body = replace(CAST(body AS TEXT), '\"finished\"', '\"running\"')")
    assert "3 of 10 trials are missing" in proctor("runs", "show", run_id).out
    assert proctor("runs", "show", run_id, "--json").run["exit_code"] == 2
    proctor("runs", "export", run_id, "-o", "x.md")
    assert "3 of 10 trials are missing" in (folder / "x.md").read_text(encoding="utf-8")


def test_a_gate_says_whether_it_held(proctor: Proctor, half: str) -> None:
    result = proctor("run", half, "--target", "echo", "--min-pass-rate", "0.6").out
    assert "The gate failed: the pass rate is 50.00%, and" in result
    assert "The gate passed: " in proctor("run", half, "--target", "echo", "--min-pass-rate", "0.5").out


def test_what_a_function_prints_is_no_part_of_the_json(
    proctor: Proctor, half: str, function: Proctor
) -> None:
    target = function("def f(prompt):\n    print('noise')\n    return prompt\n")
    result = proctor("run", half, "--target", target, "--json")
    assert result.run["total"] == 10
    assert "noise" in result.err


def test_the_stores_own_folder_keeps_itself_out_of_a_repository(
    proctor: Proctor, half: str, folder: Path
) -> None:
    proctor("run", half, "--target", "echo", "-q")
    assert (folder / ".proctor" / ".gitignore").read_text(encoding="utf-8").startswith("*\n!assertions/\n")


def test_a_stored_warning_is_shown_as_the_run_told_it(proctor: Proctor, folder: Path) -> None:
    (folder / "t.md").write_text("# 👤\n\nHi\n\n---\n\na\n\n---\n\nb\n", encoding="utf-8")
    printed_lines = [
        line for line in proctor("run", "t.md", "--target", "echo").err.splitlines() if "warning" in line
    ]
    shown_lines = [line for line in proctor("runs", "show", "last").out.splitlines() if "arning" in line]
    assert [line.partition(" ")[0] for line in printed_lines] == ["t.md:5:", "t.md:"]
    assert [line.count("arning:") for line in printed_lines] == [1, 1]
    assert shown_lines == printed_lines
