"""`proctor compare` and baselines by name, from the command line to the exit code."""

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
COUNTED = VerdictCountsRecord.__struct_fields__


@pytest.fixture
def desk(suite: Proctor) -> str:
    """Forty questions in two categories, each of which wants `yes`; eight are held out."""
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
def asked(proctor: Proctor, script: Proctor, desk: str) -> Callable[..., str]:
    """Makes a run of which the first so many cases pass, and gives its id."""

    def run(passing: int, *words: object, error: int = 0, of: str = desk) -> str:
        rules = {f"c{n:02}": "yes" if n < passing else "no" for n in range(error, 40)}
        found: str = proctor("run", of, "--target", script(rules=rules), "--json", *words).run["run"]
        return found

    return run


def last(told: Any) -> str:
    return str(told.out.splitlines()[-1])


# --- baselines by name -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_is_found_by_its_tag_by_every_command(proctor: Proctor, asked: Proctor) -> None:
    first = asked(30)
    proctor("runs", "tag", first, "baseline")
    asked(20)
    assert f"Run {first}" in proctor("runs", "show", "baseline").out
    assert proctor("regrade", "baseline", "--json").run["passed"] == 30
    assert proctor("runs", "tag", "baseline").out == f"{first}: baseline\n"
    proctor("runs", "tag", "baseline", "baseline", "--remove")
    assert "There is no run 'baseline'" in proctor("runs", "show", "baseline").err


def test_what_names_no_run_cannot_be_a_tag(proctor: Proctor, asked: Proctor) -> None:
    asked(1)
    for tag in ("last", "", " ", " x", "a\nb"):
        told = proctor("runs", "tag", "last", "good", tag)
        assert (told.code, "cannot be used as a tag" in told.err) == (4, True), tag
    assert "no tags" in proctor("runs", "tag", "last").out


def test_a_tag_that_still_names_a_newer_run_is_told(proctor: Proctor, asked: Proctor) -> None:
    older, newer = asked(30), asked(20)
    assert proctor("runs", "tag", newer, "baseline").err == ""
    told = proctor("runs", "tag", older, "baseline", "old")
    assert told.code == 0
    assert f"'baseline' still refers to another run, {newer}." in told.err
    proctor("runs", "tag", newer, "baseline", "--remove")
    assert f"Run {older}" in proctor("runs", "show", "baseline").out


# --- too few cases -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("passing", "words", "told"),
    [
        ((5, 8), (), 0),  # the sentence on the difference says what so many cases can show
        ((5, 8), ("--gate",), 1),
        ((0, 9), ("--gate",), 0),  # ten cases were enough to show that
        ((5, 8, 6), (), 1),
    ],
)
def test_too_few_cases_are_told_where_a_gate_or_a_rank_rests_on_them(
    proctor: Proctor, asked: Proctor, passing: tuple[int, ...], words: tuple[str, ...], told: int
) -> None:
    runs = [asked(count, "--limit", 10) for count in passing]
    given = proctor("compare", *runs, *words)
    assert given.err.count("Too few cases to distinguish targets") == told
    assert ("80 % of the time with these 10 cases." in given.out) is (passing == (5, 8))
    json = proctor("compare", *runs, *words, "--json").json
    assert len(json["warnings"]) == told


# --- two runs ----------------------------------------------------------------------------------------------


def test_a_comparison_says_what_flipped_and_what_that_shows(proctor: Proctor, asked: Proctor) -> None:
    proctor("runs", "tag", asked(20), "baseline")
    asked(32)
    told = proctor("compare", "baseline", "last", "--flips", 3)
    assert told.code == 0
    assert '(candidate) is better than "scripted:answers0.jsonl" by 30.0 pp (14.' in told.out
    assert "), p < 0.001: 12 cases fixed, 0 broken." in told.out
    assert told.out.count("FIXED  ") == 3
    assert "…and 9 more fixed: --flips 12" in told.out
    assert told.err == ""


def test_json_has_every_number_and_every_flip(proctor: Proctor, asked: Proctor) -> None:
    first, second = asked(20), asked(32)
    whole = proctor("compare", first, second, "--json", "--flips", 0).json
    (found,) = whole["comparisons"]
    assert [run["run"] for run in whole["runs"]] == [first, second]
    assert (found["cases"], found["fixed"], found["difference"]) == (40, 12, 0.3)
    assert [one["case_id"] for one in found["fixed_cases"]] == [f"c{n}" for n in range(20, 32)]
    assert [part["name"] for part in found["parts"]] == ["even", "odd"]
    assert [part["name"] for part in found["splits"]] == ["dev", "holdout"]
    assert (whole["gate"], whole["warnings"], whole["exit_code"]) == (None, [], 0)


def test_the_page_names_every_field_of_the_json(proctor: Proctor, asked: Proctor) -> None:
    first, second = asked(20), asked(32, error=1)
    page = (Path(__file__).parents[2] / "docs" / "guides/compare-runs.md").read_text(encoding="utf-8")
    for words in ((first, second), (first, second, second)):
        whole = proctor("compare", *words, "--gate", "--json").json
        rows, gate = whole["comparisons"], whole["gate"]
        names = [name for row in (whole, *rows, gate, *gate["candidates"]) for name in row]
        names += [name for candidate in whole["candidates"] for name in candidate]
        names += [name for run in whole["runs"] for name in run if name not in COUNTED]
        assert [name for name in names if f"`{name}`" not in page] == []


def test_parts_can_be_tags(proctor: Proctor, asked: Proctor) -> None:
    first, second = asked(20), asked(40)
    (found,) = proctor("compare", first, second, "--by", "tag", "--json").json["comparisons"]
    assert {part["name"]: part["difference"] for part in found["parts"]} == {"high": 1.0, "low": 0.0}


def test_a_run_beside_itself_shows_no_difference(proctor: Proctor, asked: Proctor) -> None:
    asked(20)
    told = proctor("compare", "last", "last")
    assert told.code == 0
    assert "No clear difference on 40 cases: +0.0 pp (" in told.out
    assert "is compared with itself" in told.err


def test_repeats_are_paired_one_by_one_and_counted_by_case(proctor: Proctor, asked: Proctor) -> None:
    first, second = asked(20, "--repeat", 3), asked(32, "--repeat", 2)
    (found,) = proctor("compare", first, second, "--json").json["comparisons"]
    assert (found["pairs"], found["cases"], found["fixed"]) == (80, 40, 24)
    assert found["unmatched"]["trials_only_baseline"] == 40
    assert found["test"] == "permutation by case"
    assert 0 < found["ci95"][0] < found["difference"] == 0.3 < found["ci95"][1]


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
        told = proctor("run", "any.eval.yaml", "--target", script(rules={"*": answer}), "--json")
        ids.append(told.run["run"])
    (found,) = proctor("compare", *ids, "--json").json["comparisons"]
    assert (found["pairs"], found["fixed"], found["test"]) == (8, 8, "McNemar, exact")


def test_related_cases_are_compared_over_their_clusters(proctor: Proctor, asked: Proctor) -> None:
    first, second = asked(20, "--cluster", "tag:l"), asked(32, "--cluster", "category")
    told = proctor("compare", first, second)
    assert "Intervals and tests are over 2 clusters of related cases (`category`)." in told.out
    assert "Cases are related by `tag:l` in run" in told.err
    assert "Pass --cluster to treat both the same way." in told.err
    assert "Cases are related" not in proctor("compare", first, second, "--cluster", "category").err
    (found,) = proctor("compare", first, second, "--json").json["comparisons"]
    assert (found["clusters"], found["test"]) == (2, "permutation by cluster")
    assert found["shows"] == "perhaps better"  # two clusters never reject, however alike they are
    for words in (("--cluster", "none"), ("--cluster", "id")):
        (found,) = proctor("compare", first, second, *words, "--json").json["comparisons"]
        assert (found["clusters"], found["shows"]) == (None, "better")
    shown = proctor("runs", "show", second, "--json").run
    compared = proctor("compare", first, second, "--json").json["runs"][1]
    assert (compared["ci95"], compared["pass_rate"]) == (shown["ci95"], shown["pass_rate"])
    assert proctor("compare", first, second, "--cluster", "colour").code == 4


# --- what cannot be compared -------------------------------------------------------------------------------


def test_an_edited_case_is_compared_and_counted_apart(proctor: Proctor, asked: Proctor, folder: Path) -> None:
    first = asked(20)
    rows = [json.loads(line) for line in (folder / "desk.jsonl").read_text(encoding="utf-8").splitlines()]
    rows[0]["input"] = "Is zero a number?"
    rows[1]["id"] = "one"
    rows[2]["expected"] = "perhaps"
    (folder / "new.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    second = asked(20, of="new.jsonl")
    told = proctor("compare", first, second)
    assert told.code == 0
    assert "are of different suites, desk v1 and new v1" in told.err
    for words in (
        "Input changed but same checks, so in the difference: 1 case: c00.",
        "Without these cases, the difference is +0.0 pp",
        "Checks changed, so not compared: 1 case: c02.",
        "Only in the baseline: 1 case: c01.",
        "\n  input unchanged ",
    ):
        assert words in told.out
    gated = proctor("compare", first, second, "--gate")
    assert (gated.code, "the checks of 1 case changed" in gated.out) == (3, True)
    (pair,) = proctor("compare", first, second, "--json").json["comparisons"]
    assert (pair["input_changed_cases"], pair["checks_changed_cases"]) == (["c00"], ["c02"])
    assert (pair["input_changed"], pair["unmatched"]["checks_changed"]) == (1, 1)
    assert pair["unedited"]["cases"] == pair["cases"] - 1


@pytest.fixture
def prompts(proctor: Proctor, asked: Proctor) -> list[str]:
    """A group of two prompts on two targets; gives the ids of its runs."""
    ids = [asked(passing) for passing in (8, 20, 24, 36)]
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
    told = proctor("compare", "20260101-000000-abcdef")
    assert told.code == 0
    assert told.out.splitlines()[0].split() == ["prompt", "model-0", "model-1"]
    for words in (
        'Prompt "steps" is better than "terse" over 2 targets by 40.0 pp',
        'Target "model-1" is better than "model-0" over 2 prompts by 30.0 pp',
        "+++ steps",
    ):
        assert words in told.out
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
        told = proctor("compare", *runs, "--by", "prompt")
        assert (told.code, sentence in told.err) == (4, True)


def test_suites_without_a_common_case_are_4_and_by_digest_they_are_compared(
    proctor: Proctor, suite: Proctor
) -> None:
    for name, cases in (
        ("old", (("same", "1", "1"), ("checks", "2", "2"), ("gone", "3", "3"))),
        ("new", (("renamed", "1", "1"), ("checks", "2", "3"))),
    ):
        proctor("run", suite(*cases, name=f"{name}.jsonl"), "--target", "echo", "--quiet")
        proctor("runs", "tag", "last", name)
    told = proctor("compare", "old", "new")
    assert told.code == 4
    for words in ("old v1 and new v1", "same → renamed", "checks: expected", "add --by-case-digest"):
        assert words in told.err
    told = proctor("compare", "old", "new", "--by-case-digest")
    assert (told.code, told.err) == (0, "")
    assert "Only in the baseline: 2 cases: checks, gone." in told.out
    assert "Paired although the id changed: 1 case: same → renamed." in told.out


def test_ids_cannot_move_the_cursor_in_what_differs(proctor: Proctor, suite: Proctor) -> None:
    for name, word, wanted in (("a", "1", "1"), ("b", "2", "1"), ("c", "2", "2")):
        case = ("x\u202e\x07\n", word, wanted)
        proctor("run", suite(case, name=f"{name}.jsonl"), "--target", "echo", "--quiet")
        proctor("runs", "tag", "last", name)
    told = proctor("compare", "a", "b")
    assert (told.code, r"in the difference: 1 case: x\u202e\x07." in told.out) == (0, True)
    told = proctor("compare", "a", "c")
    assert (told.code, r"1 case changed (x\u202e\x07 : input" in told.err) == (4, True)


def test_runs_that_share_no_case_are_5(proctor: Proctor, asked: Proctor) -> None:
    first, second = asked(20, "--id", "c0*"), asked(20, "--id", "c1*")
    for words in ((), ("--gate",), ("--gate", "--json")):
        told = proctor("compare", first, second, *words)
        assert told.code == 5
    assert told.json["exit_code"] == 5
    out = proctor("compare", first, second).out
    assert "Nothing matched" in out
    assert "Only in the baseline: 10 cases, as the other run selected --id c1*: c00, c01" in out


def test_what_cannot_be_is_4(proctor: Proctor, asked: Proctor) -> None:
    asked(20)
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
        told = proctor("compare", *words, "--json")
        assert told.code == 4, words
        assert told.json["errors"], words


def test_without_a_store_nothing_is_made(proctor: Proctor, folder: Path) -> None:
    assert proctor("compare", "a", "b").code == 4
    assert list(folder.iterdir()) == []


def test_runs_that_were_graded_differently_are_a_warning(proctor: Proctor, asked: Proctor) -> None:
    told = proctor("compare", asked(20), asked(20, "--threshold", 0.5))
    assert told.code == 0
    assert "proctor: warning: Runs " in told.err
    assert "at a score of 0.5 in the second" in told.err


# --- gates -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("after", "words", "code", "said"),
    [
        (30, ("--gate",), 0, "The gate passed: a regression is not shown"),
        (15, ("--gate",), 1, "The gate failed: a regression is shown"),
        (15, ("--max-regression", 0.5), 0, "more than 50.0 pp is not shown"),
        (30, ("--strict", "--max-regression", 0.2), 0, "more than 20.0 pp is ruled out"),
    ],
)
def test_a_gate_holds_or_not_and_says_why(
    proctor: Proctor, asked: Proctor, after: int, words: tuple[object, ...], code: int, said: str
) -> None:
    told = proctor("compare", asked(30), asked(after), *words)
    assert (told.code, said in last(told)) == (code, True), last(told)


@pytest.mark.slow
def test_errors_are_3_unless_so_many_are_allowed(proctor: Proctor, asked: Proctor) -> None:
    first, second = asked(30), asked(30, error=2)
    told = proctor("compare", first, second, "--gate")
    assert (told.code, "2 of 40 pairs are not measured" in last(told)) == (3, True)
    assert proctor("compare", first, second, "--allow-errors", 1).code == 3
    assert proctor("compare", first, second, "--allow-errors", 2).code == 0
    assert proctor("compare", first, second).code == 0


def test_a_run_that_is_not_finished_is_3_with_a_gate(proctor: Proctor, asked: Proctor) -> None:
    first, second = asked(30), asked(30)
    with closing(open_store(STORE)) as store:
        store.update_run(replace(store.run(second), planned=41))
    assert proctor("compare", first, second).code == 0
    told = proctor("compare", first, second, "--gate")
    assert (told.code, "1 of 41 trials are missing" in last(told)) == (3, True)


@pytest.mark.slow
def test_a_candidate_that_asked_less_holds_no_gate_unless_that_is_said(
    proctor: Proctor, asked: Proctor
) -> None:
    whole, few = asked(30), asked(30, "--limit", 5)
    told = proctor("compare", whole, few, "--gate")
    assert (told.code, "35 cases are only in the baseline, and --partial" in last(told)) == (3, True)
    assert proctor("compare", few, whole, "--strict", "--max-regression", 1).code == 3
    assert proctor("compare", whole, few).code == 0
    told = proctor("compare", whole, few, "--partial", "--json")
    assert (told.code, told.json["gate"]["partial"]) == (0, True)
    dev = asked(30, "--split", "dev")
    assert [proctor("compare", whole, dev, "--gate", "--split", split).code for split in ("all", "dev")] == [
        3,
        0,
    ]


# --- errors ------------------------------------------------------------------------------------------------


def test_a_run_with_errors_has_the_same_numbers_wherever_it_is_compared(
    proctor: Proctor, asked: Proctor, folder: Path
) -> None:
    """Twenty right answers and twenty outages beside forty right answers."""
    full, outage = asked(40), asked(40, error=20)
    shown = proctor("runs", "show", outage, "--json").run
    numbers = {name: shown[name] for name in COUNTED}
    assert (numbers["pass_rate"], numbers["cases"], numbers["bounds"]) == (1.0, 20, [0.5, 1.0])
    for words in ((full, outage), (full, outage, full)):
        whole = proctor("compare", *words, "--json").json
        assert {name: whole["runs"][1][name] for name in COUNTED} == numbers
    row = "100.0%  ·····················━━━━●  84–100%   20: 50.0–100.0%"
    for command in (("runs", "show", outage), ("compare", full, outage), ("compare", full, outage, full)):
        assert row in proctor(*command).out, command
    proctor("compare", full, outage, "-o", "x.md")
    assert "| candidate | 20 | 40 | 100.0% | 84–100% | 20: 50.0–100.0% |" in (folder / "x.md").read_text(
        "utf-8"
    )


@pytest.mark.parametrize("repeats", [1, 3])
def test_without_errors_the_pairs_have_the_rates_of_the_runs(
    proctor: Proctor, asked: Proctor, repeats: int
) -> None:
    runs = [asked(passing, "--repeat", repeats) for passing in (30, 33)]
    whole = proctor("compare", *runs, "--json").json
    (pair,) = whole["comparisons"]
    for run, rate in zip(whole["runs"], (pair["baseline_rate"], pair["candidate_rate"]), strict=True):
        shown = proctor("runs", "show", run["run"], "--json").run
        assert {name: run[name] for name in COUNTED} == {name: shown[name] for name in COUNTED}
        assert (rate["passed"], rate["rate"]) == (run["passed"], run["pass_rate"])
        assert [round(end, 3) for end in rate["ci95"]] == run["ci95"]


def test_errors_that_could_change_a_verdict_a_gate_or_a_rank_leave_it_undecided(
    proctor: Proctor, asked: Proctor
) -> None:
    full, outage = asked(40), asked(40, error=20)
    told = proctor("compare", full, outage, "--allow-errors", 20)
    assert told.code == 3
    assert "20 unmeasured pairs could change that: from -50.0 to +0.0 pp" in told.out
    assert "The difference is over the 20 cases that both runs measured: 100.0% → 100.0%." in told.out
    assert last(told).startswith("The gate is not decided: 20 pairs could not be measured. The 95 % interval")
    (pair,) = proctor("compare", full, outage, "--json").json["comparisons"]
    assert (pair["difference"], pair["bounds"], pair["shows"]) == (0.0, [-0.5, 0.0], "unclear")
    ranked = proctor("compare", full, outage, asked(0), "--json").json["runs"]
    assert [(run["rank"], run["lowest_rank"]) for run in ranked] == [(1, 1), (1, 2), (3, 3)]


def test_a_run_of_errors_alone_has_no_rate_and_no_rank(proctor: Proctor, asked: Proctor) -> None:
    full, nothing = asked(40), asked(40, error=40)
    for words in ((full, nothing), (full, nothing, full)):
        run = proctor("compare", *words, "--json").json["runs"][1]
        assert (run["pass_rate"], run["ci95"], run["bounds"]) == (None, None, [0.0, 1.0])
        assert run.get("rank") is None
    assert "Nothing was measured: 40 pairs matched" in proctor("compare", full, nothing).out
    assert (
        f"Run {nothing} has no rank: none of its trials was measured."
        in proctor("compare", full, nothing, full).out
    )


# --- several runs ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_several_runs_are_ranked_and_those_that_cannot_be_told_apart_share_a_place(
    proctor: Proctor, asked: Proctor
) -> None:
    ids = [asked(passing) for passing in (10, 39, 38)]
    told = proctor("compare", *ids)
    assert [line.split()[0] for line in told.out.splitlines()[1:4]] == ["1", "1", "3"]
    whole = proctor("compare", *ids, "--json", "--gate").json
    assert [run["rank"] for run in whole["runs"]] == [3, 1, 1]
    assert len(whole["comparisons"]) == 3
    assert all(one["p_holm"] >= one["p_value"] for one in whole["comparisons"])
    assert [one["exit_code"] for one in whole["gate"]["candidates"]] == [0, 0]
    assert proctor("compare", *reversed(ids), "--gate").code == 1


def test_candidates_are_better_than_the_baseline_by_what_their_number_leaves(
    proctor: Proctor, asked: Proctor
) -> None:
    ids = [asked(passing) for passing in (30, 36, 36, 31)]
    whole = proctor("compare", *ids, "--json").json
    first = whole["candidates"][0]
    assert [one["candidate"] for one in whole["candidates"]] == ids[1:]
    assert (first["difference"], first["p_value"], first["p_holm"]) == (0.15, 0.015625, 0.046875)
    assert first["shows"] == "better"
    assert whole["comparisons"][0]["p_holm"] == 6 * 0.015625
    told = proctor("compare", *ids).out
    assert "The best of 4 equal runs would look" in told
    assert "p is adjusted by Holm's method over these 3 candidates; intervals are not." in told
    two = proctor("compare", *ids[:2], "--json").json
    assert (two["candidates"], two["chance_lead"]) == ([], None)


def test_one_word_compares_the_runs_of_one_command(proctor: Proctor, script: Proctor, desk: str) -> None:
    targets = [script(rules={"*": answer}) for answer in ("yes", "no")]
    proctor("run", desk, "--target", targets[0], "--target", targets[1], "--quiet")
    told = proctor("compare", "last", "--json").json
    assert [run["target"] for run in told["runs"]] == targets
    assert told["comparisons"][0]["difference"] == -1.0


# --- holdouts ----------------------------------------------------------------------------------------------


def looks() -> list[HoldoutAccess]:
    with closing(open_store(STORE)) as store:
        return store.holdout_accesses(store.run("last").suite.digest)


def test_a_comparison_of_held_out_cases_is_a_look_for_each_run(proctor: Proctor, asked: Proctor) -> None:
    first, second = asked(30), asked(20)
    before = len(looks())
    told = proctor("compare", first, second, "--split", "dev", "--json").json
    assert (told["comparisons"][0]["pairs"], told["looks"], len(looks())) == (32, None, before)
    told = proctor("compare", first, second, "--split", "holdout", "--json").json
    assert (told["comparisons"][0]["pairs"], told["looks"]) == (8, before + 2)
    assert [(look.run, look.kind) for look in looks()[before:]] == [(first, "rate"), (second, "rate")]
    proctor("compare", first, second)
    assert len(looks()) == before + 4


@pytest.mark.parametrize(("error", "ids"), [(40, "c[0-2]*"), (0, "c3*")])
def test_the_rates_of_runs_without_a_measured_pair_are_a_look_too(
    proctor: Proctor, asked: Proctor, error: int, ids: str
) -> None:
    first, second = asked(30, "--id", "c[0-2]*"), asked(30, "--id", ids, error=error)
    before = len(looks())
    proctor("compare", first, second)
    assert {look.run for look in looks()[before:]} >= {first}


def test_no_question_and_no_answer_is_shown(proctor: Proctor, asked: Proctor, folder: Path) -> None:
    first, second = asked(30), asked(20)
    told = proctor("compare", first, second, "--flips", 40, "-o", "x.md", "-o", "x.json")
    files = "".join((folder / name).read_text(encoding="utf-8") for name in ("x.md", "x.json"))
    assert "a number?" not in told.out + files


# --- files -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_files_are_written_in_the_form_of_their_ending(
    proctor: Proctor, asked: Proctor, folder: Path
) -> None:
    first, second = asked(30), asked(15)
    words = [word for ending in ("json", "md", "svg") for word in ("-o", f"x.{ending}")]
    told = proctor("compare", first, second, "--gate", "--json", *words)
    assert told.code == 1
    assert json.loads((folder / "x.json").read_text(encoding="utf-8"))["exit_code"] == told.json["exit_code"]
    assert (folder / "x.md").read_text(encoding="utf-8").startswith("❌ **The gate failed: a regression")
    assert (folder / "x.svg").read_text(encoding="utf-8").startswith("<svg")


def test_nothing_can_be_drawn_of_nothing(proctor: Proctor, asked: Proctor, folder: Path) -> None:
    told = proctor("compare", asked(20, "--id", "c0*"), asked(20, "--id", "c1*"), "-o", "x.svg")
    assert (told.code, "No chart can be drawn" in told.err) == (4, True)
    assert not (folder / "x.svg").exists()
