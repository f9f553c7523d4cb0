"""`--skip-invalid`: cases that cannot be run count as errors, in every number and in every command."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.cli import Proctor

A = {"id": "a", "input": "x", "expected": "x", "tags": ["smoke"]}
WRONG = {"id": "b", "input": "x", "expected": "x", "scorrer": "x"}
REASON = "s.jsonl:2: Test 'b': Unknown field 'scorrer'. Did you mean 'scorer'?"


@pytest.fixture
def broken(suite: Proctor) -> str:
    """Two cases that pass on `echo` and one that cannot be read."""
    name: str = suite(A, WRONG, {"id": "c", "input": "y", "expected": "y"})
    return name


@pytest.fixture
def run(proctor: Proctor) -> Proctor:
    """Returns a function that runs a suite on `echo` with the flag and without a holdout."""

    def make(*words: str) -> Any:
        return proctor("run", *words, "--target", "echo", "--skip-invalid", "--json")

    return make


def test_without_the_flag_nothing_is_run_and_the_last_line_names_it(proctor: Proctor, broken: str) -> None:
    result = proctor("run", broken, "--target", "echo")
    assert result.code == 4
    assert result.out == ""
    first, last = result.err.splitlines()
    assert first == REASON.replace(": Test", ": error: Test")
    assert "--skip-invalid" in last


def test_an_invalid_case_is_an_error_and_the_others_are_run(run: Proctor, broken: str) -> None:
    result = run(broken)
    assert result.code == 3
    assert (result.run["total"], result.run["passed"], result.run["errors"]) == (3, 2, 1)
    assert "1 case is invalid and counts as an error: b (s.jsonl:2)." in result.err


def test_an_invalid_case_is_named_with_its_suite(run: Proctor, broken: str, tmp_path: Path) -> None:
    (tmp_path / "good.jsonl").write_text(
        Path(broken).read_text(encoding="utf-8").splitlines()[0], encoding="utf-8"
    )
    assert "counts as an error: s: b (s.jsonl:2)." in run(broken, str(tmp_path / "good.jsonl")).err


def test_invalid_cases_can_be_allowed_as_errors(proctor: Proctor, broken: str) -> None:
    words = ("run", broken, "--target", "echo", "--skip-invalid", "--allow-errors", "1")
    assert proctor(*words).code == 0


def test_no_request_is_sent_for_an_invalid_case(
    proctor: Proctor, broken: str, function: Callable[[str], str]
) -> None:
    target = function(
        "def f(prompt):\n"
        "    with open('sent.txt', 'a', encoding='utf-8') as sent:\n"
        "        sent.write(prompt + '\\n')\n"
        "    return prompt\n"
    )
    proctor("run", broken, "--target", target, "--skip-invalid", "--repeat", "2")
    assert sorted(Path("sent.txt").read_text(encoding="utf-8").split()) == ["x", "x", "y", "y"]


def test_a_repeated_case_is_an_error_each_time(run: Proctor, broken: str) -> None:
    assert run(broken, "--repeat", "3").run["errors"] == 3


@pytest.mark.parametrize(
    ("words", "total", "errors"),
    [
        (("--id", "a"), 1, 0),
        (("--id", "b"), 1, 1),
        (("--id", "[ab]"), 2, 1),
        (("--limit", "1"), 1, 0),
        (("--limit", "2"), 2, 1),
    ],
)
def test_only_a_selected_case_counts(
    run: Proctor, broken: str, words: tuple[str, ...], total: int, errors: int
) -> None:
    result = run(broken, *words)
    assert (result.run["total"], result.run["errors"]) == (total, errors)
    assert ("counts as an error" in result.err) is bool(errors)


def test_tags_of_a_case_that_was_read_select_it(run: Proctor, suite: Proctor) -> None:
    name = suite(A, {**A, "id": "bad", "scorer": "regex", "expected": "("})
    assert run(name, "--tag", "smoke").run["errors"] == 1
    assert run(name, "--exclude-tag", "smoke").code == 5


def test_a_case_whose_tags_cannot_be_read_is_left_out_by_no_filter(run: Proctor, broken: str) -> None:
    """The case may have the tag, so it counts as an error."""
    assert run(broken, "--tag", "smoke").run["total"] == 2


def test_the_project_file_can_set_the_flag(proctor: Proctor, broken: str) -> None:
    Path("proctor.toml").write_text("skip-invalid = true\n", encoding="utf-8")
    assert proctor("run", broken, "--target", "echo", "--json").run["errors"] == 1


# --- several files -----------------------------------------------------------------------------------------


def test_a_file_that_cannot_be_read_is_one_error_among_others(run: Proctor, broken: str) -> None:
    Path("t.jsonl").write_text("not JSON at all", encoding="utf-8")
    result = run(broken, "t.jsonl")
    assert result.code == 3
    assert [(trial["total"], trial["errors"]) for trial in result.json["runs"]] == [(3, 1), (1, 1)]
    assert "s: b (s.jsonl:2), t: line-1 (t.jsonl:1)" in result.err


def test_a_file_that_cannot_be_read_is_refused_when_it_is_the_only_one(run: Proctor) -> None:
    Path("t.yaml").write_text("tests: [", encoding="utf-8")
    result = run("t.yaml")
    assert result.code == 4
    assert result.json["errors"]
    assert "--skip-invalid" not in result.err


# --- promptfoo ---------------------------------------------------------------------------------------------


def test_what_is_known_and_cannot_be_done_is_unsupported(run: Proctor) -> None:
    tests = [
        {"description": "a", "assert": [{"type": "contains", "value": "p"}]},
        {"description": "b", "assert": [{"type": "javascript", "value": "true"}]},
        {"description": "c", "assert": [{"type": "moderation"}]},
    ]
    text = json.dumps({"prompts": ["p"], "redteam": {"plugins": []}, "tests": tests})
    Path("promptfooconfig.json").write_text(text, encoding="utf-8")
    result = run("promptfooconfig.json", "-o", "run.json")
    assert (result.run["total"], result.run["passed"], result.run["errors"]) == (4, 1, 3)
    trials = json.loads(Path("run.json").read_text(encoding="utf-8"))["runs"][0]["trials"]
    assert [trial["failure"]["kind"] for trial in trials if trial["failure"]] == ["unsupported"] * 3
    assert "3 cases are unsupported and count as errors: line-1 " in result.err


@pytest.mark.parametrize("field", ["extensions", "nunjucksFilters"])
def test_code_that_may_change_every_test_makes_each_an_error(run: Proctor, field: str) -> None:
    tests = [{"assert": [{"type": "contains", "value": "p"}]}] * 2
    text = json.dumps({"prompts": ["p"], field: ["file://hooks.js:all"], "tests": tests})
    Path("promptfooconfig.json").write_text(text, encoding="utf-8")
    result = run("promptfooconfig.json")
    assert (result.run["total"], result.run["errors"]) == (2, 2)


# --- what becomes of the run -------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_report_has_the_reason(run: Proctor, broken: str) -> None:
    names = [f"report.{ending}" for ending in ("html", "md", "json", "jsonl", "csv", "xml")]
    run(broken, *(word for name in names for word in ("-o", name)))
    for name in names:
        text = Path(name).read_text(encoding="utf-8")
        assert ("Unknown field" in text, "scorrer" in text) == (True, True), name


@pytest.mark.parametrize("words", [("--failures",), ("--case", "b")])
def test_a_stored_run_shows_an_invalid_case(
    run: Proctor, proctor: Proctor, broken: str, words: tuple[str, ...]
) -> None:
    run(broken)
    assert "Unknown field 'scorrer'" in proctor("runs", "show", "last", *words).out


def test_trying_errors_again_ends_with_the_same_error(run: Proctor, proctor: Proctor, broken: str) -> None:
    first = run(broken).run["run"]
    result = proctor("run", "--retry-errors", first, "--json")
    assert (result.code, result.run["total"], result.run["errors"]) == (3, 3, 1)
    assert "b (s.jsonl:2)" in result.err


def test_a_finished_run_has_nothing_to_resume(run: Proctor, proctor: Proctor, broken: str) -> None:
    first = run(broken).run["run"]
    result = proctor("run", f"--resume={first}", "--json")
    assert (result.code, result.run["total"], result.run["errors"]) == (3, 3, 1)


def test_a_regrade_has_the_same_error(run: Proctor, proctor: Proctor, broken: str) -> None:
    run(broken)
    result = proctor("regrade", "last", "-o", "again.json", "--json")
    assert (result.code, result.run["total"], result.run["errors"]) == (3, 3, 1)
    trials = json.loads(Path("again.json").read_text(encoding="utf-8"))["runs"][0]["trials"]
    assert [trial["failure"]["kind"] for trial in trials if trial["failure"]] == ["invalid"]


def test_two_runs_with_an_invalid_case_are_compared(run: Proctor, proctor: Proctor, broken: str) -> None:
    first, second = run(broken).run["run"], run(broken).run["run"]
    result = proctor("compare", first, second)
    assert result.code == 0
    assert "1 pair: b (ERROR → ERROR)" in result.out


def test_the_corrected_suite_is_another_version(
    run: Proctor, proctor: Proctor, broken: str, suite: Proctor
) -> None:
    first = run(broken).run
    suite(A, {"id": "b", "input": "x", "expected": "x"}, {"id": "c", "input": "y", "expected": "y"})
    second = run(broken).run
    assert first["suite_digest"] != second["suite_digest"]
    assert second["errors"] == 0
    result = proctor("compare", first["run"], second["run"])
    assert "Checks changed, so not compared: 1 case: b." in result.out


def test_a_bundle_with_an_invalid_case_is_verified(run: Proctor, proctor: Proctor, broken: str) -> None:
    run(broken, "--holdout", "0.4")
    assert proctor("attest", "last", "--no-sign", "-o", "bundle").code == 0
    result = proctor("verify", "bundle", "--json")
    assert result.code == 0
    assert proctor("attest", "last", "--no-sign", "--public", "-o", "public").code == 0
    assert proctor("verify", "public").code == 0


def test_a_bundle_with_an_invalid_case_is_imported(run: Proctor, proctor: Proctor, broken: str) -> None:
    run(broken)
    proctor("attest", "last", "--no-sign", "-o", "bundle")
    result = proctor("runs", "import", "bundle", "--store", "other.db")
    assert result.code == 0
    assert (
        "Unknown field 'scorrer'" in proctor("runs", "show", "last", "--failures", "--store", "other.db").out
    )


def test_a_suite_with_an_invalid_case_is_run_again_from_the_store(
    run: Proctor, proctor: Proctor, broken: str
) -> None:
    run(broken)
    result = proctor("run", "--saved", "s", "--target", "echo", "--json")
    assert (result.code, result.run["errors"]) == (3, 1)


def test_a_suite_with_an_invalid_case_is_not_exported(run: Proctor, proctor: Proctor, broken: str) -> None:
    run(broken)
    result = proctor("suites", "export", "s", "--to", "proctor", "-o", "out.jsonl")
    assert result.code == 4
    assert "s v1 has 1 case that could not be read from its file: b." in result.err
    assert not Path("out.jsonl").exists()


def test_the_suite_shows_which_case_is_invalid(run: Proctor, proctor: Proctor, broken: str) -> None:
    run(broken)
    assert "b · dev · invalid" in proctor("suites", "show", "s", "--cases").out


def test_an_interrupted_run_is_resumed_with_its_invalid_case(
    run: Proctor, proctor: Proctor, broken: str
) -> None:
    """A crash leaves a run with the status `running` and without trials."""
    first = run(broken).run["run"]
    with sqlite3.connect(".proctor/proctor.db") as db:
        db.execute("DELETE FROM trials")
    db.close()
    result = proctor("run", f"--resume={first}", "--json")
    assert (result.code, result.run["total"], result.run["passed"], result.run["errors"]) == (3, 3, 2, 1)


# --- nothing shrinks ---------------------------------------------------------------------------------------


def test_a_quote_that_is_not_closed_counts_every_line_that_it_takes_along(run: Proctor) -> None:
    rows = [f"q{number},a" for number in range(1, 9)]
    Path("q.csv").write_text(
        "\n".join(["question,answer", *rows[:2], f'"{rows[2]}', *rows[3:]]), encoding="utf-8"
    )
    result = run("q.csv")
    assert (result.run["total"], result.run["errors"]) == (8, 6)


@pytest.mark.parametrize(
    ("name", "files"),
    [
        (
            "s.eval.yaml",
            {
                "s.eval.yaml": "tests: [{id: a, input: x, assertions: [{type: equals, value: x}]}, file://more.yaml]",
                "more.yaml": "- {id: b, input: x\n- {id: c, input: x}\n",
            },
        ),
        ("s.json", {"s.json": '[\n{"id": "a", "input": "x", "target": "x"},\n{"id": "b" "input": "x"}\n]'}),
    ],
    ids=["file of tests", "array"],
)
def test_what_follows_a_mistake_and_cannot_be_counted_makes_every_case_an_error(
    run: Proctor, name: str, files: dict[str, str]
) -> None:
    for path, text in files.items():
        Path(path).write_text(text, encoding="utf-8")
    result = run(name)
    assert (result.run["total"], result.run["errors"]) == (2, 2)


def test_an_eval_that_is_not_read_spoils_no_other_one(run: Proctor) -> None:
    data = Path("evals/registry/data")
    data.mkdir(parents=True)
    rows = [json.dumps({"input": "x", "ideal": "x"})] * 2
    for name in ("good", "bad"):
        (data / f"{name}.jsonl").write_text("\n".join(rows), encoding="utf-8")
    evals = "".join(
        f"{name}.v1:\n  class: evals.elsuite.{kind}\n  args: {{samples_jsonl: {name}.jsonl}}\n"
        for name, kind in (("good", "basic.match:Match"), ("bad", "translate:Translate"))
    )
    Path("evals/registry/evals").mkdir()
    Path("evals/registry/evals/e.yaml").write_text(evals, encoding="utf-8")
    result = run("evals/registry/evals/e.yaml")
    assert (result.run["total"], result.run["passed"], result.run["errors"]) == (4, 2, 2)
    assert "bad.v1 (" in result.err


@pytest.mark.parametrize("word", ["ag/s.yaml", "./ag/../ag/s.yaml", "{here}/ag/s.yaml"])
def test_where_the_command_runs_changes_no_invalid_case(run: Proctor, word: str) -> None:
    for folder in ("ag", "shared"):
        Path(folder).mkdir()
    good = '{"id": "a", "input": "x", "assertions": [{"type": "equals", "value": "x"}]}\n'
    Path("shared/t.jsonl").write_text(good + "{\n", encoding="utf-8")
    Path("ag/s.yaml").write_text("tests: [file://../shared/t.jsonl]", encoding="utf-8")
    result = run(word.format(here=Path.cwd()))
    assert "../shared/t.jsonl-line-2 (../shared/t.jsonl:2)" in result.err


def test_a_file_that_is_named_in_two_ways_is_run_once(run: Proctor, broken: str) -> None:
    assert run(broken, f"./{broken}", str(Path(broken).resolve())).run["total"] == 3
