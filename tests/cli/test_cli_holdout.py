"""Dev and holdout on the command line: splits, sealed results, and counts of accesses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import proctor as package
from proctor.model import HoldoutAccess
from proctor.stores import open_store
from support.cli import Proctor

SECRET = "kestrel"
RULE = "+------------------+--------------------+---------------+---------+"


@pytest.fixture
def birds(suite: Proctor) -> str:
    """Ten cases with the secret in each question; `echo` passes those with an even number."""
    name: str = suite(
        *((f"b{n}", f"{SECRET} {n}", f"{SECRET} {n}" if n % 2 == 0 else "no") for n in range(10)),
        name="birds.jsonl",
    )
    return name


@pytest.fixture
def plain(folder: Path) -> str:
    """Ten cases of a dialect without a default split."""
    rows = [
        {
            "id": f"p{n}",
            "category": "reasoning",
            "input": f"say {n}",
            "ideal": str(n),
            "assertion": {"type": "contains"},
            "metadata": {"difficulty": "easy", "tokens_est": 5},
        }
        for n in range(10)
    ]
    (folder / "plain.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return "plain.jsonl"


@pytest.fixture
def looks(folder: Path) -> Callable[[], list[str]]:
    """Returns a function that lists the kinds of holdout accesses of the newest run's suite, oldest first."""

    def read() -> list[str]:
        store = open_store(str(folder / ".proctor" / "proctor.db"))
        try:
            accesses: list[HoldoutAccess] = store.holdout_accesses(store.run("last").suite.digest)
        finally:
            store.close()
        return [look.kind for look in accesses]

    return read


def held_out(proctor: Proctor, *words: str) -> set[str]:
    """The ids of the cases that a run holds out."""
    proctor("run", *words, "--target", "echo", "-q", "-o", "out.jsonl")
    rows = [json.loads(line) for line in Path("out.jsonl").read_text(encoding="utf-8").splitlines()]
    return {row["case_id"] for row in rows if row["split"] == "holdout"}


# --- the split ---------------------------------------------------------------------------------------------


def test_a_split_suite_is_told_as_its_format_promises(proctor: Proctor, birds: str, script: Proctor) -> None:
    held_out_ids = held_out(proctor, birds)
    answers = {f"b{n}": f"{SECRET} {n}" if n % 2 == 0 else "no" for n in range(10)}
    wrong = min(set(answers) - held_out_ids)
    answers[wrong] = "something else"
    rules = {case_id: {"text": text, "latency_ms": 1230} for case_id, text in answers.items()}
    lines = proctor("run", birds, "--target", script(rules=rules)).out.splitlines()
    assert lines[:9] == [
        "Running custom suite: 8 dev + 2 holdout tests",
        "",
        "Completed: Dev 7/8 | Holdout 2/2",
        "",
        RULE,
        "| Dev Accuracy     | Holdout Accuracy   | Total Passed  | Latency |",
        "| 87.5%            | 100.0% (+12.5pp)   | 9             | 1230ms  |",
        RULE,
        "",
    ]


@pytest.mark.parametrize("method", ["rank", "shuffle"])
def test_a_fifth_is_held_out_whatever_the_method(proctor: Proctor, suite: Proctor, method: str) -> None:
    name = suite(*((f"t{n}", "x", "x") for n in range(11)))
    out = proctor("run", name, "--target", "echo", "--split-method", method).out
    assert out.startswith("Running custom suite: 8 dev + 3 holdout tests\n")


def test_by_rank_the_order_of_the_file_does_not_count_and_by_shuffle_it_is_all_that_counts(
    proctor: Proctor, suite: Proctor
) -> None:
    rows = [(f"t{n}", f"q{n}", "x") for n in range(10)]
    in_order, reversed_order = suite(*rows, name="a.jsonl"), suite(*rows[::-1], name="b.jsonl")
    assert held_out(proctor, in_order) == held_out(proctor, reversed_order)
    assert held_out(proctor, in_order, "--split-method", "shuffle") == {"t0", "t1"}
    assert held_out(proctor, reversed_order, "--split-method", "shuffle") == {"t9", "t8"}


def test_a_csv_is_split_as_rows_of_json_are(proctor: Proctor, suite: Proctor, folder: Path) -> None:
    rows = [(f"t{n}", f"q{n}", "x") for n in range(10)]
    text = "id,input,expected\n" + "".join(",".join(row) + "\n" for row in rows)
    (folder / "t.csv").write_text(text, encoding="utf-8")
    assert held_out(proctor, "t.csv") == held_out(proctor, suite(*rows))


def test_another_share_can_be_held_out(proctor: Proctor, birds: str) -> None:
    more = held_out(proctor, birds, "--holdout", "0.3")
    assert len(more) == 3
    assert more > held_out(proctor, birds)
    assert len(held_out(proctor, birds, "--holdout", "0.3", "--split-method", "shuffle")) == 3


def test_a_dialect_without_a_split_gets_one_on_request_only(proctor: Proctor, plain: str) -> None:
    whole = proctor("run", plain, "--target", "echo", "--json").run
    assert (whole["splits"], whole["looks"], whole["split_notes"]) == ({}, None, [])
    result = proctor("run", plain, "--target", "echo", "--holdout", "0.2")
    assert result.out.startswith("Running custom suite: 8 dev + 2 holdout tests\n")
    assert "Holdout 2/2" in result.out
    assert "Running custom suite" not in proctor("run", plain, "--target", "echo").out


def test_a_selection_takes_from_the_split(proctor: Proctor, plain: str) -> None:
    held_out_ids = held_out(proctor, plain, "--holdout", "0.2")
    assert held_out(proctor, plain, "--holdout", "0.2", "--split", "holdout") == held_out_ids
    assert held_out(proctor, plain, "--holdout", "0.2", "--split", "dev") == set()
    some = proctor(
        "run", plain, "--target", "echo", "--holdout", "0.2", "--id", min(held_out_ids), "--json"
    ).run
    assert some["splits"]["holdout"]["total"] == some["total"] == 1


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("cheap", "--holdout", "0.2"), "Built-in suites have no holdout"),
        (("cheap", "--split-method", "rank"), "Built-in suites have no holdout"),
        (("plain.jsonl", "--split-method", "shuffle"), "--holdout 0.2"),
        (("birds.jsonl", "--holdout", "-0.1"), "--holdout"),
        (("birds.jsonl", "--no-holdout", "--split", "holdout"), "--split holdout"),
        (("birds.jsonl", "--holdout", "0", "--split-method", "shuffle"), "--split-method shuffle"),
        (("birds.jsonl", "--holdout", "1"), "--holdout"),
        (("birds.jsonl", "--holdout", "20%"), "20%"),
        (("birds.jsonl", "--holdout", "nan"), "nan"),
        (("birds.jsonl", "--split-method", "random"), "random"),
    ],
)
def test_a_split_that_cannot_be_is_4_with_a_sentence_that_helps(
    proctor: Proctor, birds: str, plain: str, words: tuple[str, ...], hint: str
) -> None:
    result = proctor("run", *words, "--target", "echo", "--json")
    assert result.code == result.json["exit_code"] == 4
    assert hint in result.err


def test_a_built_in_suite_stays_one_when_it_is_named_by_its_file(proctor: Proctor) -> None:
    file = Path(package.__file__).with_name("suites") / "v1.0" / "cheap.jsonl"
    result = proctor("run", file, "--target", "echo", "--holdout", "0.2")
    assert (result.code, "Built-in suites have no holdout" in result.err) == (4, True)


# --- revealed by the project -------------------------------------------------------------------------------


@pytest.fixture
def revealing(folder: Path) -> None:
    (folder / "proctor.toml").write_text("reveal = true\n", encoding="utf-8")


@pytest.mark.usefixtures("revealing")
@pytest.mark.parametrize(
    "words", [("run",), ("regrade", "last"), ("runs", "show", "last"), ("runs", "export", "last")]
)
def test_a_project_can_reveal_the_holdout_and_each_time_counts_as_a_look(
    proctor: Proctor, one_held_out: str, looks: Callable[[], list[str]], words: tuple[str, ...]
) -> None:
    run = ("run", one_held_out, "--target", "echo", *SHUFFLED)
    if words != ("run",):
        proctor(*run, "-q")
        assert looks() == []
    for is_revealed, flag in ((True, ()), (False, ("--no-reveal",))):
        flags = [] if words[:2] == ("runs", "show") else ["-o", "out.json"]
        result = proctor(*(run if words == ("run",) else words), *flags, *flag)
        text = Path("out.json").read_text(encoding="utf-8") if flags else result.out
        assert (f"{SECRET}?" in text) is is_revealed
    assert looks() == ["rate", "reveal", "rate"]


@pytest.mark.usefixtures("revealing")
def test_a_reveal_of_the_project_without_output_is_no_look(
    proctor: Proctor, one_held_out: str, looks: Callable[[], list[str]]
) -> None:
    proctor("run", one_held_out, "--target", "echo", "-q")
    assert looks() == []


# --- no holdout --------------------------------------------------------------------------------------------

HEADER = {"suite_name": "birds"}


def check_whole(result: Any) -> None:
    """Checks that a report covers every case and mentions no holdout."""
    assert result.code == 1
    assert "FAIL" in result.out
    assert "oldout" not in result.out
    assert "Dev Accuracy" not in result.out


@pytest.mark.parametrize(
    "words", [("--no-holdout",), ("--holdout", "0"), ("--holdout", "0.3", "--no-holdout")]
)
def test_a_run_can_hold_nothing_out(proctor: Proctor, birds: str, words: tuple[str, ...]) -> None:
    check_whole(proctor("run", birds, "--target", "echo", *words))
    assert held_out(proctor, birds, *words) == set()
    run = proctor("run", birds, "--target", "echo", "--json", *words).run
    assert (run["splits"], run["looks"], run["split_notes"]) == ({}, None, [])


@pytest.mark.parametrize("value", ["0", "0.0"])
def test_a_project_can_hold_nothing_out_and_a_flag_outranks_it(
    proctor: Proctor, birds: str, folder: Path, value: str
) -> None:
    (folder / "proctor.toml").write_text(f"holdout = {value}\n", encoding="utf-8")
    check_whole(proctor("run", birds, "--target", "echo"))
    assert proctor("run", birds, "--target", "echo", "--holdout", "0.3", "--json").run["splits"]
    assert proctor("run", "cheap", "--target", "echo").code == 1


@pytest.mark.parametrize("value", [0, 0.0, False])
def test_a_suite_can_hold_nothing_out_and_a_flag_outranks_it(
    proctor: Proctor, suite: Proctor, value: object
) -> None:
    rows = [{"id": f"b{n}", "input": f"q {n}", "expected": "no"} for n in range(10)]
    name = suite({**HEADER, "holdout": value}, *rows)
    check_whole(proctor("run", name, "--target", "echo"))
    assert len(held_out(proctor, name, "--holdout", "0.3")) == 3


def test_a_suite_can_hold_another_share_out(proctor: Proctor, suite: Proctor) -> None:
    rows = [{"id": f"b{n}", "input": f"q {n}", "expected": "no"} for n in range(10)]
    assert len(held_out(proctor, suite({**HEADER, "holdout": 0.5}, *rows))) == 5


def test_no_holdout_is_what_built_in_suites_have_anyway(proctor: Proctor) -> None:
    assert proctor("run", "cheap", "--target", "echo", "--no-holdout", "--json").run["splits"] == {}


def test_a_run_that_shows_what_other_runs_hold_out_counts_as_a_look(
    proctor: Proctor, birds: str, looks: Callable[[], list[str]]
) -> None:
    proctor("run", birds, "--target", "echo", "--no-holdout")
    assert looks() == ["reveal"]
    proctor("runs", "show", "last", "--failures")
    assert looks() == ["reveal"]
    assert "Holdout accessed 2 times." in proctor("run", birds, "--target", "echo").out


# --- sealing -----------------------------------------------------------------------------------------------

ENDINGS = ("json", "jsonl", "csv", "md", "xml")


@pytest.fixture
def one_held_out(suite: Proctor) -> str:
    """A suite whose only held-out case has the secret in each field, and fails."""
    rows: list[Any] = [(f"t{n}", "x", "x") for n in range(4)]
    held_out_row = {
        "id": "t4",
        "input": f"{SECRET}?",
        "expected": f"not {SECRET}",
        "scorer": "exact",
        "tags": "kept",
    }
    name: str = suite(held_out_row, *rows, name="one.jsonl")
    return name


SHUFFLED = ("--split-method", "shuffle")
"""Holds out the first of five cases."""


def test_no_output_of_any_command_tells_of_a_sealed_answer(
    proctor: Proctor, one_held_out: str, folder: Path
) -> None:
    files = [word for ending in ENDINGS for word in ("-o", f"out.{ending}")]
    results = [proctor("run", one_held_out, *SHUFFLED, "--target", "echo", *files)]
    results += [
        proctor("run", one_held_out, *SHUFFLED, "--target", "echo", *words)
        for words in (("--json",), ("-q",))
    ]
    for words in ((), ("--json",), ("--failures",), ("--failures", "--json"), ("--case", "t4")):
        results.append(proctor("runs", "show", "last", *words))
    results += [proctor("runs", "export", "last", "-o", f"again.{ending}") for ending in ENDINGS]
    results.append(proctor("runs", "list"))
    for result in results:
        assert SECRET not in result.out + result.err
    for name in ("out", "again"):
        for ending in ENDINGS:
            text = (folder / f"{name}.{ending}").read_text(encoding="utf-8")
            assert SECRET not in text
            assert "t4" in text


def test_reveal_writes_held_out_texts_to_files(proctor: Proctor, one_held_out: str, folder: Path) -> None:
    files = [word for ending in ENDINGS for word in ("-o", f"out.{ending}")]
    proctor("run", one_held_out, *SHUFFLED, "--target", "echo", "--reveal", "-q", *files)
    for ending in ENDINGS:
        proctor("runs", "export", "last", "--reveal", "-o", f"again.{ending}")
        for name in ("out", "again"):
            assert SECRET in (folder / f"{name}.{ending}").read_text(encoding="utf-8"), (name, ending)


def test_reveal_shows_held_out_texts(proctor: Proctor, one_held_out: str) -> None:
    result = proctor("run", one_held_out, *SHUFFLED, "--target", "echo", "--reveal")
    assert f"FAIL      t4  exact: The answer is '{SECRET}?'; expected 'not {SECRET}'." in result.out
    for words in ((), ("--failures",), ("--case", "t4"), ("--case", "t4", "--json")):
        assert SECRET in proctor("runs", "show", "last", "--reveal", *words).out


def test_a_sealed_case_is_named_with_how_to_see_more(proctor: Proctor, one_held_out: str) -> None:
    result = proctor("run", one_held_out, *SHUFFLED, "--target", "echo")
    assert "FAIL      t4  hidden; use --reveal to show it\n" in result.out
    for words in (("--failures",), ("--case", "t4")):
        out = proctor("runs", "show", "last", *words).out
        assert out.startswith("FAIL t4\n  score:     0.00\n  hidden:    ")
        assert "--reveal" in out
    (row,) = proctor("runs", "show", "last", "--case", "t4", "--json").json["trials"]
    fields = {name: row[name] for name in ("case_id", "verdict", "score", "split", "sealed", "tags")}
    assert fields == {
        "case_id": "t4",
        "verdict": "fail",
        "score": 0.0,
        "split": "holdout",
        "sealed": True,
        "tags": ["kept"],
    }
    assert row["output"] is row["latency_ms"] is row["usage"] is row["cost_usd"] is None
    assert row["scores"][0]["reason"] is row["scores"][0]["details"] is None


def test_numbers_and_gates_count_what_is_sealed(proctor: Proctor, one_held_out: str) -> None:
    result = proctor("run", one_held_out, *SHUFFLED, "--target", "echo", "--min-pass-rate", "0.9", "--json")
    assert (result.code, result.run["passed"], result.run["failed"]) == (1, 4, 1)
    assert result.run["splits"]["holdout"]["failed"] == result.run["by_tag"]["kept"]["failed"] == 1


def test_dev_cases_are_shown_in_full(proctor: Proctor, birds: str) -> None:
    proctor("run", birds, "--target", "echo", "--split", "dev", "-q", "-o", "out.jsonl")
    rows = [json.loads(line) for line in Path("out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(row["sealed"], SECRET in row["output"]["text"]) for row in rows] == [(False, True)] * 8


def test_errors_of_sealed_cases_can_be_retried(proctor: Proctor, one_held_out: str, script: Proctor) -> None:
    target = script(t0="x", t1="x", t2="x", t3="x")
    assert proctor("run", one_held_out, *SHUFFLED, "--target", target, "-q").code == 3
    run_id = proctor("runs", "show", "last", "--json").run["run"]
    (Path(target.removeprefix("scripted:"))).write_text(json.dumps({"t4": f"not {SECRET}"}), encoding="utf-8")
    again = proctor("run", "--retry-errors", run_id, "--json")
    assert (again.code, again.run["reused"], again.run["asked"], again.run["passed"]) == (0, 4, 1, 5)


def test_sealed_answers_can_be_graded_again_and_stay_sealed(
    proctor: Proctor, one_held_out: str, suite: Proctor
) -> None:
    proctor("run", one_held_out, *SHUFFLED, "--target", "echo", "-q")
    result = proctor("regrade", "last")
    assert "FAIL      t4  hidden; use --reveal to show it" in result.out
    assert SECRET not in result.out + result.err


# --- looks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "kinds"),
    [
        ((), ["rate"]),
        (("--json",), ["rate"]),
        (("--json", "-q"), ["rate"]),
        (("-q", "-o", "out.md"), ["rate"]),
        (("-o", "out.md", "-o", "out.json", "-o", "out.csv"), ["rate"]),
        (("--split", "holdout"), ["rate"]),
        (("--reveal",), ["rate", "reveal"]),
        (("--reveal", "-q", "-o", "out.xml"), ["rate", "reveal"]),
        (("-q",), []),
        (("-q", "--reveal"), []),
        (("--split", "dev"), []),
        (("--split", "dev", "--reveal", "-o", "out.json"), []),
    ],
)
def test_a_run_that_tells_of_its_holdout_is_one_look(
    proctor: Proctor, birds: str, looks: Callable[[], list[str]], words: tuple[str, ...], kinds: list[str]
) -> None:
    proctor("run", birds, "--target", "echo", *words)
    assert looks() == kinds


def test_a_command_that_shows_a_stored_run_is_one_look(
    proctor: Proctor, birds: str, looks: Callable[[], list[str]]
) -> None:
    proctor("run", birds, "--target", "echo", "-q")
    looks_by_command: dict[tuple[str, ...], list[str]] = {
        ("show", "last"): ["rate"],
        ("show", "last", "--json"): ["rate"],
        ("show", "last", "--reveal"): ["rate", "reveal"],
        ("show", "last", "--failures"): ["rate"],
        ("show", "last", "--failures", "--reveal"): ["rate", "reveal"],
        ("export", "last", "-o", "out.json"): ["rate"],
        ("export", "last", "--reveal", "-o", "out.json"): ["rate", "reveal"],
        ("export", "last", "-o", "out.docx"): [],
        ("list",): [],
        ("tag", "last", "t"): [],
    }
    for words, kinds in looks_by_command.items():
        before = looks()
        proctor("runs", *words)
        assert looks() == before + kinds, words


def test_a_list_of_runs_counts_no_look_and_has_no_rate_of_holdout_cases_alone(
    proctor: Proctor, birds: str, looks: Callable[[], list[str]]
) -> None:
    for split in ("all", "holdout", "dev"):
        proctor("run", birds, "--target", "echo", "-q", "--split", split)
    rows = [line.split()[1:4] for line in proctor("runs", "list").out.splitlines()[1:]]
    assert [row[1] for row in rows] == ["5/8", "sealed/2", "5/10"]
    assert rows[1] == ["finished", "sealed/2", "–"]
    runs = proctor("runs", "list", "--json").json["runs"]
    rates = [(run["sealed"], run["total"], run["passed"], run["failed"], run["pass_rate"]) for run in runs]
    assert rates == [(False, 8, 5, 3, 0.625), (True, 2, None, None, None), (False, 10, 5, 5, 0.5)]
    assert looks() == []


def test_one_case_is_a_look_only_when_it_is_held_out_and_revealed(
    proctor: Proctor, one_held_out: str, looks: Callable[[], list[str]]
) -> None:
    proctor("run", one_held_out, *SHUFFLED, "--target", "echo", "-q")
    for words in (("--case", "t4"), ("--case", "t0"), ("--case", "t0", "--reveal")):
        proctor("runs", "show", "last", *words)
        assert looks() == []
    proctor("runs", "show", "last", "--case", "t4", "--reveal")
    assert looks() == ["reveal"]


def test_a_glob_that_shows_verdicts_of_several_held_out_cases_is_a_look_at_their_rate(
    proctor: Proctor, birds: str, looks: Callable[[], list[str]]
) -> None:
    proctor("run", birds, "--target", "echo", "-q")
    for words in (("--case", "*"), ("--case", "*", "--failures")):
        count = len(looks())
        proctor("runs", "show", "last", *words)
        assert looks()[count:] == ["rate"]
    proctor("runs", "show", "last", "--case", "*", "--reveal")
    assert looks()[2:] == ["rate", "reveal"]


@pytest.mark.parametrize("words", [("show", "last"), ("show", "last", "--failures", "--reveal")])
def test_a_run_without_a_holdout_is_no_look(
    proctor: Proctor, plain: str, birds: str, looks: Callable[[], list[str]], words: tuple[str, ...]
) -> None:
    proctor("run", plain, "--target", "echo", "--reveal")
    proctor("runs", *words)
    assert looks() == []
    proctor("run", birds, "--target", "echo", "--split", "dev")
    proctor("runs", *words)
    assert looks() == []


def test_looks_are_counted_over_all_runs_of_a_version_and_told_from_the_second_on(
    proctor: Proctor, birds: str, suite: Proctor
) -> None:
    assert "Look" not in proctor("run", birds, "--target", "echo").out
    result = proctor("run", birds, "--target", "echo", "--target", "mock").out
    assert result.count("Holdout accessed 2 times.") == result.count("Holdout accessed 3 times.") == 1
    assert proctor("runs", "show", "last", "--json").run["looks"] == 4
    assert "Holdout accessed 5 times." in proctor("runs", "show", "last").out
    assert proctor("run", birds, "--target", "echo", "--split", "dev", "--json").run["looks"] == 5
    changed = suite(*((f"b{n}", f"{SECRET} {n}!", "no") for n in range(10)), name=birds)
    assert proctor("run", changed, "--target", "echo", "--json").run["looks"] == 1


def test_the_count_of_looks_outlives_the_runs(proctor: Proctor, birds: str) -> None:
    proctor("run", birds, "--target", "echo", "--json")
    proctor("runs", "delete", "last", "--yes")
    assert proctor("run", birds, "--target", "echo", "--json").run["looks"] == 2


def test_a_warning_stands_below_the_table_and_in_the_json(
    proctor: Proctor, suite: Proctor, script: Proctor
) -> None:
    name = suite(*((f"t{n}", f"q{n}", "x") for n in range(40)))
    held_out_ids = held_out(proctor, name)
    target = script(rules={f"t{n}": "no" if f"t{n}" in held_out_ids else "x" for n in range(40)})
    lines = proctor("run", name, "--target", target).out.splitlines()
    assert lines[7] == RULE
    assert lines[9].startswith("Warning: the holdout is further below dev than chance explains")
    assert proctor("runs", "show", "last", "--json").run["split_notes"] == [lines[9]]
