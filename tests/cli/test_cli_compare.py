"""`proctor compare` and baselines by name: output, files and exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from proctor.model import HoldoutAccess, Message, PromptTemplate
from proctor.reports.runs.records import VerdictCountsRecord
from proctor.stores import open_store
from support.cli import Proctor

STORE = ".proctor/proctor.db"
COUNT_FIELDS = VerdictCountsRecord.__struct_fields__


@pytest.fixture
def desk(suite: Proctor) -> str:
    """Forty questions in two categories whose right answer is `yes`; eight are held out."""
    tests = [
        {
            "id": f"c{n:02}",
            "input": f"Is {n} a number?",
            "expected": "yes",
            "scorer": "exact",
            "category": "odd" if n % 2 else "even",
            "tags": ["low" if n < 20 else "high"],
        }
        for n in range(40)
    ]
    return str(suite(*tests, name="desk.jsonl"))


@pytest.fixture
def make_run(proctor: Proctor, script: Proctor, desk: str) -> Callable[..., str]:
    """Returns a function that makes a run whose first `passing` cases pass, and returns the run's id."""

    def run(passing: int, *words: object, error: int = 0, of: str = desk) -> str:
        rules = {f"c{n:02}": "yes" if n < passing else "no" for n in range(error, 40)}
        run_id: str = proctor("run", of, "--target", script(rules=rules), "--json", *words).run["run"]
        return run_id

    return run


def last_line(result: Any) -> str:
    return str(result.out.splitlines()[-1])


# --- baselines by name -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_is_found_by_its_tag_by_every_command(proctor: Proctor, make_run: Proctor) -> None:
    first = make_run(30)
    proctor("runs", "tag", first, "baseline")
    make_run(20)
    assert f"Run {first}" in proctor("runs", "show", "baseline").out
    assert proctor("regrade", "baseline", "--json").run["passed"] == 30
    assert proctor("runs", "tag", "baseline").out == f"{first}: baseline\n"
    proctor("runs", "tag", "baseline", "baseline", "--remove")
    assert "There is no run 'baseline'" in proctor("runs", "show", "baseline").err


def test_a_tag_cannot_be_last_or_have_other_white_space(proctor: Proctor, make_run: Proctor) -> None:
    make_run(1)
    for tag in ("last", "", " ", " x", "a\nb"):
        result = proctor("runs", "tag", "last", "good", tag)
        assert (result.code, "cannot be used as a tag" in result.err) == (4, True), tag
    assert "no tags" in proctor("runs", "tag", "last").out


def test_a_tag_that_still_names_a_newer_run_is_told(proctor: Proctor, make_run: Proctor) -> None:
    older, newer = make_run(30), make_run(20)
    assert proctor("runs", "tag", newer, "baseline").err == ""
    result = proctor("runs", "tag", older, "baseline", "old")
    assert result.code == 0
    assert f"'baseline' still refers to another run, {newer}." in result.err
    proctor("runs", "tag", newer, "baseline", "--remove")
    assert f"Run {older}" in proctor("runs", "show", "baseline").out


# --- too few cases -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("passing", "words", "warnings"),
    [
        ((5, 8), (), 0),  # the sentence on the difference says what ten cases can show
        ((5, 8), ("--gate",), 1),
        ((0, 9), ("--gate",), 0),  # ten cases were enough to show that
        ((5, 8, 6), (), 1),
    ],
)
def test_too_few_cases_are_told_where_a_gate_or_a_rank_rests_on_them(
    proctor: Proctor, make_run: Proctor, passing: tuple[int, ...], words: tuple[str, ...], warnings: int
) -> None:
    runs = [make_run(count, "--limit", 10) for count in passing]
    result = proctor("compare", *runs, *words)
    assert result.err.count("Too few cases to distinguish targets") == warnings
    assert ("80 % of the time with these 10 cases." in result.out) is (passing == (5, 8))
    json = proctor("compare", *runs, *words, "--json").json
    assert len(json["warnings"]) == warnings


# --- two runs ----------------------------------------------------------------------------------------------


def test_a_comparison_says_what_flipped_and_what_that_shows(proctor: Proctor, make_run: Proctor) -> None:
    proctor("runs", "tag", make_run(20), "baseline")
    make_run(32)
    result = proctor("compare", "baseline", "last", "--flips", 3)
    assert result.code == 0
    assert '(candidate) is better than "scripted:answers0.jsonl" by 30.0 pp (14.' in result.out
    assert "), p < 0.001: 12 cases fixed, 0 broken." in result.out
    assert result.out.count("FIXED  ") == 3
    assert "…and 9 more fixed: --flips 12" in result.out
    assert result.err == ""


def test_json_has_every_number_and_every_flip(proctor: Proctor, make_run: Proctor) -> None:
    first, second = make_run(20), make_run(32)
    whole = proctor("compare", first, second, "--json", "--flips", 0).json
    (comparison,) = whole["comparisons"]
    assert [run["run"] for run in whole["runs"]] == [first, second]
    assert (comparison["cases"], comparison["fixed"], comparison["difference"]) == (40, 12, 0.3)
    assert [case["case_id"] for case in comparison["fixed_cases"]] == [f"c{n}" for n in range(20, 32)]
    assert [part["name"] for part in comparison["parts"]] == ["even", "odd"]
    assert [part["name"] for part in comparison["splits"]] == ["dev", "holdout"]
    assert (whole["gate"], whole["warnings"], whole["exit_code"]) == (None, [], 0)


def test_the_page_names_every_field_of_the_json(proctor: Proctor, make_run: Proctor) -> None:
    first, second = make_run(20), make_run(32, error=1)
    page = (Path(__file__).parents[2] / "docs" / "guides/compare-runs.md").read_text(encoding="utf-8")
    for words in ((first, second), (first, second, second)):
        whole = proctor("compare", *words, "--gate", "--json").json
        rows, gate = whole["comparisons"], whole["gate"]
        names = [name for row in (whole, *rows, gate, *gate["candidates"]) for name in row]
        names += [name for candidate in whole["candidates"] for name in candidate]
        names += [name for run in whole["runs"] for name in run if name not in COUNT_FIELDS]
        assert [name for name in names if f"`{name}`" not in page] == []


def test_parts_can_be_tags(proctor: Proctor, make_run: Proctor) -> None:
    first, second = make_run(20), make_run(40)
    (comparison,) = proctor("compare", first, second, "--by", "tag", "--json").json["comparisons"]
    assert {part["name"]: part["difference"] for part in comparison["parts"]} == {"high": 1.0, "low": 0.0}


def test_a_run_beside_itself_shows_no_difference(proctor: Proctor, make_run: Proctor) -> None:
    make_run(20)
    result = proctor("compare", "last", "last")
    assert result.code == 0
    assert "No clear difference on 40 cases: +0.0 pp (" in result.out
    assert "is compared with itself" in result.err


def test_repeats_are_paired_one_by_one_and_counted_by_case(proctor: Proctor, make_run: Proctor) -> None:
    first, second = make_run(20, "--repeat", 3), make_run(32, "--repeat", 2)
    (comparison,) = proctor("compare", first, second, "--json").json["comparisons"]
    assert (comparison["pairs"], comparison["cases"], comparison["fixed"]) == (80, 40, 24)
    assert comparison["unmatched"]["trials_only_baseline"] == 40
    assert comparison["test"] == "permutation by case"
    assert 0 < comparison["ci95"][0] < comparison["difference"] == 0.3 < comparison["ci95"][1]


def test_a_suite_that_counts_a_case_once_is_compared_by_case(
    proctor: Proctor, folder: Path, script: Proctor
) -> None:
    (folder / "any.eval.yaml").write_text(
        "execution:\n  trials: {count: 3, strategy: pass_at_k}\ntests:\n"
        + "".join(
            f"  - {{id: t{n}, input: say {n}, assertions: [{{type: contains, value: yes}}]}}\n"
            for n in range(8)
        ),
        encoding="utf-8",
    )
    ids = []
    for answer in ("no", "yes"):
        result = proctor("run", "any.eval.yaml", "--target", script(rules={"*": answer}), "--json")
        ids.append(result.run["run"])
    (comparison,) = proctor("compare", *ids, "--json").json["comparisons"]
    assert (comparison["pairs"], comparison["fixed"], comparison["test"]) == (8, 8, "McNemar, exact")


def test_related_cases_are_compared_over_their_clusters(proctor: Proctor, make_run: Proctor) -> None:
    first, second = make_run(20, "--cluster", "tag:l"), make_run(32, "--cluster", "category")
    result = proctor("compare", first, second)
    assert "Intervals and tests are over 2 clusters of related cases (`category`)." in result.out
    assert "Cases are related by `tag:l` in run" in result.err
    assert "Pass --cluster to treat both the same way." in result.err
    assert "Cases are related" not in proctor("compare", first, second, "--cluster", "category").err
    (comparison,) = proctor("compare", first, second, "--json").json["comparisons"]
    assert (comparison["clusters"], comparison["test"]) == (2, "permutation by cluster")
    assert comparison["shows"] == "perhaps better"  # two clusters never reject, however alike they are
    for words in (("--cluster", "none"), ("--cluster", "id")):
        (comparison,) = proctor("compare", first, second, *words, "--json").json["comparisons"]
        assert (comparison["clusters"], comparison["shows"]) == (None, "better")
    report = proctor("runs", "show", second, "--json").run
    candidate = proctor("compare", first, second, "--json").json["runs"][1]
    assert (candidate["ci95"], candidate["pass_rate"]) == (report["ci95"], report["pass_rate"])
    assert proctor("compare", first, second, "--cluster", "colour").code == 4


# --- what cannot be compared -------------------------------------------------------------------------------


def test_an_edited_case_is_compared_and_counted_apart(
    proctor: Proctor, make_run: Proctor, folder: Path
) -> None:
    first = make_run(20)
    rows = [json.loads(line) for line in (folder / "desk.jsonl").read_text(encoding="utf-8").splitlines()]
    rows[0]["input"] = "Is zero a number?"
    rows[1]["id"] = "one"
    rows[2]["expected"] = "perhaps"
    (folder / "new.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    second = make_run(20, of="new.jsonl")
    result = proctor("compare", first, second)
    assert result.code == 0
    assert "are of different suites, desk v1 and new v1" in result.err
    for words in (
        "Input changed but same checks, so in the difference: 1 case: c00.",
        "Without these cases, the difference is +0.0 pp",
        "Checks changed, so not compared: 1 case: c02.",
        "Only in the baseline: 1 case: c01.",
        "\n  input unchanged ",
    ):
        assert words in result.out
    gated = proctor("compare", first, second, "--gate")
    assert (gated.code, "the checks of 1 case changed" in gated.out) == (3, True)
    (pair,) = proctor("compare", first, second, "--json").json["comparisons"]
    assert (pair["input_changed_cases"], pair["checks_changed_cases"]) == (["c00"], ["c02"])
    assert (pair["input_changed"], pair["unmatched"]["checks_changed"]) == (1, 1)
    assert pair["unedited"]["cases"] == pair["cases"] - 1


@pytest.fixture
def prompts(proctor: Proctor, make_run: Proctor) -> list[str]:
    """The ids of a group of four runs: two prompts on two targets."""
    ids = [make_run(passing) for passing in (8, 20, 24, 36)]
    with closing(open_store(STORE)) as store:
        for place, name in enumerate(ids):
            run, target = store.run(name), f"model-{place % 2}"
            prompt = PromptTemplate(
                name=("terse", "steps")[place // 2],
                messages=(Message(role="user", content=f"{place // 2} {{{{ input }}}}"),),
            )
            spec = replace(run.target, name=target, model=target)
            store.update_run(replace(run, group="20260101-000000-abcdef", prompt=prompt, target=spec))
    return ids


def test_a_group_of_prompts_and_targets_says_which_is_better(proctor: Proctor, prompts: list[str]) -> None:
    result = proctor("compare", "20260101-000000-abcdef")
    assert result.code == 0
    assert result.out.splitlines()[0].split() == ["prompt", "model-0", "model-1"]
    for words in (
        'Prompt "steps" is better than "terse" over 2 targets by 40.0 pp',
        'Target "model-1" is better than "model-0" over 2 prompts by 30.0 pp',
        "+++ steps",
    ):
        assert words in result.out
    whole = proctor("compare", prompts[0], "--by", "prompt", "--json").json["grid"]
    assert [part["name"] for part in whole["by_prompt"]] == ["terse", "steps"]
    page = (Path(__file__).parents[2] / "docs" / "guides/compare-prompts.md").read_text(encoding="utf-8")
    rows = [whole, *whole["cells"], whole["prompt"], *whole["prompt"]["levels"], whole["interaction"]]
    names = [name for row in (*rows, *whole["prompt"]["differences"]) for name in row]
    assert [name for name in names if f"`{name}`" not in page] == []


def test_parts_by_prompt_need_a_group_of_several_prompts(proctor: Proctor, prompts: list[str]) -> None:
    for runs, sentence in (
        (prompts[:2], "All 2 runs have the prompt 'terse'"),
        (prompts[::2], "None of these prompts was run on several comparable targets"),
        (prompts[1:3], "None of these prompts was run on several comparable targets"),
    ):
        result = proctor("compare", *runs, "--by", "prompt")
        assert (result.code, sentence in result.err) == (4, True)


def test_suites_without_a_common_case_are_4_and_by_digest_they_are_compared(
    proctor: Proctor, suite: Proctor
) -> None:
    for name, cases in (
        ("old", (("same", "1", "1"), ("checks", "2", "2"), ("gone", "3", "3"))),
        ("new", (("renamed", "1", "1"), ("checks", "2", "3"))),
    ):
        proctor("run", suite(*cases, name=f"{name}.jsonl"), "--target", "echo", "--quiet")
        proctor("runs", "tag", "last", name)
    result = proctor("compare", "old", "new")
    assert result.code == 4
    for words in ("old v1 and new v1", "same → renamed", "checks: expected", "add --by-case-digest"):
        assert words in result.err
    result = proctor("compare", "old", "new", "--by-case-digest")
    assert (result.code, result.err) == (0, "")
    assert "Only in the baseline: 2 cases: checks, gone." in result.out
    assert "Paired although the id changed: 1 case: same → renamed." in result.out


def test_ids_cannot_move_the_cursor_in_what_differs(proctor: Proctor, suite: Proctor) -> None:
    for name, word, expected in (("a", "1", "1"), ("b", "2", "1"), ("c", "2", "2")):
        case = ("x\u202e\x07\n", word, expected)
        proctor("run", suite(case, name=f"{name}.jsonl"), "--target", "echo", "--quiet")
        proctor("runs", "tag", "last", name)
    result = proctor("compare", "a", "b")
    assert (result.code, r"in the difference: 1 case: x\u202e\x07." in result.out) == (0, True)
    result = proctor("compare", "a", "c")
    assert (result.code, r"1 case changed (x\u202e\x07 : input" in result.err) == (4, True)


def test_runs_that_share_no_case_are_5(proctor: Proctor, make_run: Proctor) -> None:
    first, second = make_run(20, "--id", "c0*"), make_run(20, "--id", "c1*")
    for words in ((), ("--gate",), ("--gate", "--json")):
        result = proctor("compare", first, second, *words)
        assert result.code == 5
    assert result.json["exit_code"] == 5
    out = proctor("compare", first, second).out
    assert "Nothing matched" in out
    assert "Only in the baseline: 10 cases, as the other run selected --id c1*: c00, c01" in out


def test_wrong_usage_is_4(proctor: Proctor, make_run: Proctor) -> None:
    make_run(20)
    for words in (
        ("nothing", "last"),
        ("last",),
        ("last", "last", "--split", "other"),
        ("last", "last", "--max-regression", "2"),
        ("last", "last", "--max-regression", "nan"),
        ("last", "last", "-o", "x.xml"),
        ("last", "last", "-o", "none/x.md"),
        (),
    ):
        result = proctor("compare", *words, "--json")
        assert result.code == 4, words
        assert result.json["errors"], words


def test_without_a_store_none_is_created(proctor: Proctor, folder: Path) -> None:
    assert proctor("compare", "a", "b").code == 4
    assert list(folder.iterdir()) == []


def test_runs_that_were_graded_differently_are_a_warning(proctor: Proctor, make_run: Proctor) -> None:
    result = proctor("compare", make_run(20), make_run(20, "--threshold", 0.5))
    assert result.code == 0
    assert "proctor: warning: Runs " in result.err
    assert "at a score of 0.5 in the second" in result.err


# --- gates -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("after", "words", "code", "message"),
    [
        (30, ("--gate",), 0, "The gate passed: a regression is not shown"),
        (15, ("--gate",), 1, "The gate failed: a regression is shown"),
        (15, ("--max-regression", 0.5), 0, "more than 50.0 pp is not shown"),
        (30, ("--strict", "--max-regression", 0.2), 0, "more than 20.0 pp is ruled out"),
    ],
)
def test_a_gate_holds_or_not_and_says_why(
    proctor: Proctor, make_run: Proctor, after: int, words: tuple[object, ...], code: int, message: str
) -> None:
    result = proctor("compare", make_run(30), make_run(after), *words)
    assert (result.code, message in last_line(result)) == (code, True), last_line(result)


@pytest.mark.slow
def test_errors_are_3_unless_so_many_are_allowed(proctor: Proctor, make_run: Proctor) -> None:
    first, second = make_run(30), make_run(30, error=2)
    result = proctor("compare", first, second, "--gate")
    assert (result.code, "2 of 40 pairs are not measured" in last_line(result)) == (3, True)
    assert proctor("compare", first, second, "--allow-errors", 1).code == 3
    assert proctor("compare", first, second, "--allow-errors", 2).code == 0
    assert proctor("compare", first, second).code == 0


def test_a_run_that_is_not_finished_is_3_with_a_gate(proctor: Proctor, make_run: Proctor) -> None:
    first, second = make_run(30), make_run(30)
    with closing(open_store(STORE)) as store:
        store.update_run(replace(store.run(second), planned=41))
    assert proctor("compare", first, second).code == 0
    result = proctor("compare", first, second, "--gate")
    assert (result.code, "1 of 41 trials are missing" in last_line(result)) == (3, True)


@pytest.mark.slow
def test_a_candidate_that_asked_less_holds_no_gate_unless_that_is_said(
    proctor: Proctor, make_run: Proctor
) -> None:
    whole, few = make_run(30), make_run(30, "--limit", 5)
    result = proctor("compare", whole, few, "--gate")
    assert (result.code, "35 cases are only in the baseline, and --partial" in last_line(result)) == (3, True)
    assert proctor("compare", few, whole, "--strict", "--max-regression", 1).code == 3
    assert proctor("compare", whole, few).code == 0
    result = proctor("compare", whole, few, "--partial", "--json")
    assert (result.code, result.json["gate"]["partial"]) == (0, True)
    dev = make_run(30, "--split", "dev")
    assert [proctor("compare", whole, dev, "--gate", "--split", split).code for split in ("all", "dev")] == [
        3,
        0,
    ]


# --- errors ------------------------------------------------------------------------------------------------


def test_a_run_with_errors_has_the_same_numbers_wherever_it_is_compared(
    proctor: Proctor, make_run: Proctor, folder: Path
) -> None:
    """Twenty right answers and twenty outages beside forty right answers."""
    full, outage = make_run(40), make_run(40, error=20)
    report = proctor("runs", "show", outage, "--json").run
    numbers = {name: report[name] for name in COUNT_FIELDS}
    assert (numbers["pass_rate"], numbers["cases"], numbers["bounds"]) == (1.0, 20, [0.5, 1.0])
    for words in ((full, outage), (full, outage, full)):
        whole = proctor("compare", *words, "--json").json
        assert {name: whole["runs"][1][name] for name in COUNT_FIELDS} == numbers
    row = "100.0%  ·····················━━━━●  84–100%   20: 50.0–100.0%"
    for command in (("runs", "show", outage), ("compare", full, outage), ("compare", full, outage, full)):
        assert row in proctor(*command).out, command
    proctor("compare", full, outage, "-o", "x.md")
    assert "| candidate | 20 | 40 | 100.0% | 84–100% | 20: 50.0–100.0% |" in (folder / "x.md").read_text(
        "utf-8"
    )


@pytest.mark.parametrize("repeats", [1, 3])
def test_without_errors_the_pairs_have_the_rates_of_the_runs(
    proctor: Proctor, make_run: Proctor, repeats: int
) -> None:
    runs = [make_run(passing, "--repeat", repeats) for passing in (30, 33)]
    whole = proctor("compare", *runs, "--json").json
    (pair,) = whole["comparisons"]
    for run, rate in zip(whole["runs"], (pair["baseline_rate"], pair["candidate_rate"]), strict=True):
        report = proctor("runs", "show", run["run"], "--json").run
        assert {name: run[name] for name in COUNT_FIELDS} == {name: report[name] for name in COUNT_FIELDS}
        assert (rate["passed"], rate["rate"]) == (run["passed"], run["pass_rate"])
        assert [round(end, 3) for end in rate["ci95"]] == run["ci95"]


def test_errors_that_could_change_a_verdict_a_gate_or_a_rank_leave_it_undecided(
    proctor: Proctor, make_run: Proctor
) -> None:
    full, outage = make_run(40), make_run(40, error=20)
    result = proctor("compare", full, outage, "--allow-errors", 20)
    assert result.code == 3
    assert "20 unmeasured pairs could change that: from -50.0 to +0.0 pp" in result.out
    assert "The difference is over the 20 cases that both runs measured: 100.0% → 100.0%." in result.out
    assert last_line(result).startswith(
        "The gate is not decided: 20 pairs could not be measured. The 95 % interval"
    )
    (pair,) = proctor("compare", full, outage, "--json").json["comparisons"]
    assert (pair["difference"], pair["bounds"], pair["shows"]) == (0.0, [-0.5, 0.0], "unclear")
    ranked = proctor("compare", full, outage, make_run(0), "--json").json["runs"]
    assert [(run["rank"], run["lowest_rank"]) for run in ranked] == [(1, 1), (1, 2), (3, 3)]


def test_a_run_of_errors_alone_has_no_rate_and_no_rank(proctor: Proctor, make_run: Proctor) -> None:
    full, unmeasured = make_run(40), make_run(40, error=40)
    for words in ((full, unmeasured), (full, unmeasured, full)):
        run = proctor("compare", *words, "--json").json["runs"][1]
        assert (run["pass_rate"], run["ci95"], run["bounds"]) == (None, None, [0.0, 1.0])
        assert run.get("rank") is None
    assert "Nothing was measured: 40 pairs matched" in proctor("compare", full, unmeasured).out
    assert (
        f"Run {unmeasured} has no rank: none of its trials was measured."
        in proctor("compare", full, unmeasured, full).out
    )


# --- several runs ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_several_runs_are_ranked_and_those_that_cannot_be_told_apart_share_a_place(
    proctor: Proctor, make_run: Proctor
) -> None:
    ids = [make_run(passing) for passing in (10, 39, 38)]
    result = proctor("compare", *ids)
    assert [line.split()[0] for line in result.out.splitlines()[1:4]] == ["1", "1", "3"]
    whole = proctor("compare", *ids, "--json", "--gate").json
    assert [run["rank"] for run in whole["runs"]] == [3, 1, 1]
    assert len(whole["comparisons"]) == 3
    assert all(row["p_holm"] >= row["p_value"] for row in whole["comparisons"])
    assert [row["exit_code"] for row in whole["gate"]["candidates"]] == [0, 0]
    assert proctor("compare", *reversed(ids), "--gate").code == 1


def test_candidates_are_better_than_the_baseline_by_what_their_number_leaves(
    proctor: Proctor, make_run: Proctor
) -> None:
    ids = [make_run(passing) for passing in (30, 36, 36, 31)]
    whole = proctor("compare", *ids, "--json").json
    first = whole["candidates"][0]
    assert [row["candidate"] for row in whole["candidates"]] == ids[1:]
    assert (first["difference"], first["p_value"], first["p_holm"]) == (0.15, 0.015625, 0.046875)
    assert first["shows"] == "better"
    assert whole["comparisons"][0]["p_holm"] == 6 * 0.015625
    result = proctor("compare", *ids).out
    assert "The best of 4 equal runs would look" in result
    assert "p is adjusted by Holm's method over these 3 candidates; intervals are not." in result
    two = proctor("compare", *ids[:2], "--json").json
    assert (two["candidates"], two["chance_lead"]) == ([], None)


def test_a_group_compares_the_runs_of_one_command(proctor: Proctor, script: Proctor, desk: str) -> None:
    targets = [script(rules={"*": answer}) for answer in ("yes", "no")]
    proctor("run", desk, "--target", targets[0], "--target", targets[1], "--quiet")
    result = proctor("compare", "last", "--json").json
    assert [run["target"] for run in result["runs"]] == targets
    assert result["comparisons"][0]["difference"] == -1.0


# --- holdouts ----------------------------------------------------------------------------------------------


def looks() -> list[HoldoutAccess]:
    with closing(open_store(STORE)) as store:
        return store.holdout_accesses(store.run("last").suite.digest)


def test_a_comparison_of_held_out_cases_is_a_look_for_each_run(proctor: Proctor, make_run: Proctor) -> None:
    first, second = make_run(30), make_run(20)
    before = len(looks())
    result = proctor("compare", first, second, "--split", "dev", "--json").json
    assert (result["comparisons"][0]["pairs"], result["looks"], len(looks())) == (32, None, before)
    result = proctor("compare", first, second, "--split", "holdout", "--json").json
    assert (result["comparisons"][0]["pairs"], result["looks"]) == (8, before + 2)
    assert [(look.run, look.kind) for look in looks()[before:]] == [(first, "rate"), (second, "rate")]
    proctor("compare", first, second)
    assert len(looks()) == before + 4


@pytest.mark.parametrize(("error", "ids"), [(40, "c[0-2]*"), (0, "c3*")])
def test_the_rates_of_runs_without_a_measured_pair_are_a_look_too(
    proctor: Proctor, make_run: Proctor, error: int, ids: str
) -> None:
    first, second = make_run(30, "--id", "c[0-2]*"), make_run(30, "--id", ids, error=error)
    before = len(looks())
    proctor("compare", first, second)
    assert {look.run for look in looks()[before:]} >= {first}


def test_no_question_and_no_answer_is_shown(proctor: Proctor, make_run: Proctor, folder: Path) -> None:
    first, second = make_run(30), make_run(20)
    result = proctor("compare", first, second, "--flips", 40, "-o", "x.md", "-o", "x.json")
    files = "".join((folder / name).read_text(encoding="utf-8") for name in ("x.md", "x.json"))
    assert "a number?" not in result.out + files


# --- files -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_files_are_written_in_the_form_of_their_ending(
    proctor: Proctor, make_run: Proctor, folder: Path
) -> None:
    first, second = make_run(30), make_run(15)
    words = [word for ending in ("json", "md", "svg") for word in ("-o", f"x.{ending}")]
    result = proctor("compare", first, second, "--gate", "--json", *words)
    assert result.code == 1
    assert (
        json.loads((folder / "x.json").read_text(encoding="utf-8"))["exit_code"] == result.json["exit_code"]
    )
    assert (folder / "x.md").read_text(encoding="utf-8").startswith("❌ **The gate failed: a regression")
    assert (folder / "x.svg").read_text(encoding="utf-8").startswith("<svg")


def test_a_comparison_without_pairs_has_no_chart(proctor: Proctor, make_run: Proctor, folder: Path) -> None:
    result = proctor("compare", make_run(20, "--id", "c0*"), make_run(20, "--id", "c1*"), "-o", "x.svg")
    assert (result.code, "No chart can be drawn" in result.err) == (4, True)
    assert not (folder / "x.svg").exists()
