"""`proctor plan`: which runs it uses, and what it prints."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.cli import Proctor

pytestmark = pytest.mark.slow

CASES = 60
MakeRun = Callable[..., str]


def in_own_format(count: int, answer: str, **header: Any) -> list[dict[str, Any]]:
    """A header and `count` cases of dialect proctor, which holds out only what the header says."""
    case = {
        "input": [{"role": "user", "content": "x"}],
        "assertions": [{"grader": "exact", "params": {"value": answer}}],
    }
    return [{"proctor": 1, **header}, *({"id": f"c{n:02}", **case} for n in range(count))]


@pytest.fixture
def desk(suite: Proctor) -> str:
    return str(suite(*in_own_format(CASES, "yes", name="desk"), name="desk.jsonl"))


@pytest.fixture
def make_run(proctor: Proctor, desk: str, folder: Path) -> MakeRun:
    """Returns a function that makes a run and returns its id; `passes` decides for each case and repeat."""

    def run(
        name: str,
        passes: Callable[[int, int], bool],
        *words: object,
        repeats: int = 1,
        cost: float | None = 0.01,
    ) -> str:
        answers = [
            {
                "case_id": f"c{n:02}",
                "repeat": repeat,
                "output": "yes" if passes(n, repeat) else "no",
                "cost_usd": cost,
            }
            for n in range(CASES)
            for repeat in range(repeats)
        ]
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, answers)), encoding="utf-8")
        run_id: str = proctor(
            "run", desk, "--target", f"replay:{name}.jsonl", "--repeat", repeats, "--json", *words
        ).run["run"]
        return run_id

    return run


def varies(n: int, repeat: int) -> bool:
    """A third of the cases passes every other time, and the others always."""
    return n % 3 > 0 or (n // 3 + repeat) % 2 == 0


def read_plan(result: Any) -> dict[str, Any]:
    assert result.code == 0
    plan: dict[str, Any] = result.json["plan"]
    return plan


def test_without_a_store_the_most_noise_is_assumed_and_none_is_made(
    proctor: Proctor, desk: str, folder: Path
) -> None:
    result = proctor("plan", desk, "--detect", "5pp")
    assert result.code == 0
    assert result.out.startswith(
        "To find a difference of 5 pp 80 % of the time, run 1,610 cases once. This suite has 60 "
        "cases: run once it shows differences of 27.3 pp or more.\n"
    )
    assert "The store has no measured run of this suite" in result.out
    assert "`proctor run desk.jsonl --repeat 3`" in result.out
    assert not (folder / ".proctor").exists()


def test_repeats_of_a_run_tell_its_chance_and_its_costs(
    proctor: Proctor, desk: str, make_run: MakeRun
) -> None:
    run = make_run("a", varies, repeats=3)
    plan = read_plan(proctor("plan", desk, "--json"))
    assert (plan["baseline"], plan["runs"], plan["noise"]["basis"]) == (run, [run], "repeats")
    # Of two trials of a case that passes 2 of 3 or 1 of 3 the chance to differ is 2/3.
    assert plan["noise"]["chance"] == pytest.approx(2 / 9 * 60 / 62)
    assert [row["repeats"] for row in plan["repeats"]] == [1, 2, 3, 5, 10]
    assert [row["suite_cost_usd"] for row in plan["repeats"]] == pytest.approx([0.6, 1.2, 1.8, 3.0, 6.0])
    needed = [row["cases"] for row in plan["repeats"]]
    assert needed == sorted(needed, reverse=True)
    assert any("of its variance is between cases" in sentence for sentence in plan["sentences"])


def test_a_further_run_of_the_same_target_is_a_repeat_but_a_reused_one_is_not(
    proctor: Proctor, desk: str, make_run: MakeRun
) -> None:
    make_run("a", varies)
    assert read_plan(proctor("plan", desk, "--json"))["noise"]["basis"] == "rate"
    make_run("a", varies, "--reuse")
    noise = read_plan(proctor("plan", desk, "--json"))["noise"]
    assert (noise["basis"], noise["chance"]) == ("rate", None)
    make_run("a", varies)
    assert read_plan(proctor("plan", desk, "--json"))["noise"]["basis"] == "repeats"


def test_runs_of_other_targets_tell_what_differs(proctor: Proctor, desk: str, make_run: MakeRun) -> None:
    make_run("b", lambda n, _repeat: n % 3 > 0)
    run = make_run("a", lambda n, _repeat: n % 3 > 0 if n % 10 else n % 3 == 0)
    result = proctor("plan", desk)
    assert "Compared with another target, its target has a different result in" in result.out
    assert "It is not known what repeats gain." in result.out
    plan = read_plan(proctor("plan", desk, "--against", run, "--repeats", 3, "--json"))
    assert (plan["noise"]["basis"], plan["noise"]["targets"]) == ("targets", 1)
    assert plan["repeats"][0]["cases"] is None


def test_related_cases_are_planned_by_cluster_as_the_run_says_or_the_command(
    proctor: Proctor, suite: Proctor, folder: Path
) -> None:
    cases = [
        {**case, "metadata": {"document": n // 5}} if n else case
        for n, case in enumerate(in_own_format(CASES, "yes", name="desk"))
    ]
    desk = str(suite(*cases, name="desk.jsonl"))
    assumed = proctor("plan", desk, "--cluster", "metadata.document")
    assert "clusters of about 4.6 cases once. This suite has 60 cases in 13 clusters: run" in assumed.out
    assert "The results of two of them correlate by 1.00, an assumption." in assumed.out
    answers = [{"case_id": f"c{n:02}", "output": "yes" if n % 3 else "no"} for n in range(CASES)]
    (folder / "a.jsonl").write_text("\n".join(map(json.dumps, answers)), encoding="utf-8")
    proctor("run", desk, "--target", "replay:a.jsonl", "--cluster", "metadata.document")
    plan = read_plan(proctor("plan", desk, "--json"))
    clusters = plan["clusters"]
    assert (clusters["field"], clusters["clusters"], clusters["relation"]) == ("metadata.document", 13, 0)
    assert plan["repeats"][0]["clusters"] < plan["repeats"][0]["cases"]
    alone = read_plan(proctor("plan", desk, "--cluster", "none", "--json"))
    assert (alone["clusters"], alone["repeats"][0]["clusters"]) == (None, None)
    unknown = proctor("plan", desk, "--cluster", "metadata.page")
    assert "No two cases share a value of `metadata.page`" in unknown.out
    result = proctor("plan", desk, "--cluster", "page")
    assert result.code == 4
    assert "cannot be clustered by 'page'" in result.err


def test_a_run_is_named_as_the_baseline(proctor: Proctor, desk: str, make_run: MakeRun) -> None:
    first = make_run("a", varies, repeats=3)
    make_run("b", lambda _n, _repeat: True, repeats=3)
    proctor("runs", "tag", first, "good")
    newest, against_first = (
        read_plan(proctor("plan", desk, *words, "--json")) for words in ((), ("--against", "good"))
    )
    assert against_first["baseline"] == first != newest["baseline"]
    assert against_first["noise"]["pass_rate"] == pytest.approx(5 / 6)
    assert newest["noise"]["pass_rate"] == 1


def test_the_rate_of_a_run_is_of_its_own_cases(proctor: Proctor, desk: str, make_run: MakeRun) -> None:
    make_run("all", lambda n, _: n % 2 == 0)
    make_run("some", lambda n, _: n % 2 == 0, "--limit", 15)
    result = proctor("plan", desk, "--detect", "5pp", "--against", "last")
    assert "passed 53.3% of 15 cases" in result.out


def test_a_run_of_an_earlier_version_gives_its_noise_and_one_of_another_suite_none(
    proctor: Proctor, desk: str, make_run: MakeRun, suite: Proctor
) -> None:
    run = make_run("a", varies, repeats=3)
    larger = suite(*in_own_format(90, "yes", name="desk"), name="desk.jsonl")
    assert read_plan(proctor("plan", larger, "--json"))["noise"]["basis"] == "nothing"
    plan = read_plan(proctor("plan", larger, "--against", run, "--json"))
    assert (plan["cases"], plan["noise"]["cases"], plan["noise"]["basis"]) == (90, 60, "repeats")
    assert "The runs are of another version of the suite" in " ".join(plan["sentences"])
    other = suite(*in_own_format(90, "no", name="other"), name="other.jsonl")
    result = proctor("plan", other, "--against", run)
    assert result.code == 4
    assert "is a run of the suite 'desk', not of 'other'" in result.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--detect", "0.0001pp"), "Finding a difference of 0.0001 pp 80 % of the time takes more than ten"),
        (
            ("--repeats", "4"),
            "It is not known how many cases find a difference of 5 pp 80 % of the time with 4",
        ),
        (("--power", "0.95"), "To find a difference of 5 pp 95 % of the time, run 2,"),
    ],
)
def test_a_plan_says_what_is_unknown(
    proctor: Proctor, desk: str, words: tuple[str, ...], message: str
) -> None:
    assert proctor("plan", desk, *words).out.startswith(message)


def test_a_suite_that_is_too_small_is_told(proctor: Proctor, suite: Proctor) -> None:
    name = suite(*in_own_format(4, "yes", name="few"), name="few.jsonl")
    assert (
        "This suite has 4 cases, which is too few to show any difference that often."
        in proctor("plan", name).out
    )


def test_an_unknown_price_makes_no_cost(proctor: Proctor, desk: str, make_run: MakeRun) -> None:
    make_run("a", varies, repeats=2, cost=None)
    result = proctor("plan", desk)
    assert "cost" not in result.out.splitlines()[0]
    assert "its cost" not in result.out


def test_held_out_cases_are_counted_and_not_looked_at(proctor: Proctor, suite: Proctor) -> None:
    cases = in_own_format(50, "x", name="held", split_rule={"ratio": 0.2})
    name = suite(*cases, name="held.jsonl")
    proctor("run", name, "--target", "echo", "--quiet")
    accesses = proctor("runs", "show", "last", "--json").run["looks"]
    plan = read_plan(proctor("plan", name, "--json"))
    assert (plan["cases"], plan["noise"]["cases"]) == (50, 40)
    assert (
        proctor("runs", "show", "last", "--json").run["looks"] == accesses + 1
    )  # that of `runs show` itself


def test_a_case_that_counts_once_has_no_repeats_to_plan(proctor: Proctor, suite: Proctor) -> None:
    name = suite(*in_own_format(30, "x", name="any", repeats_rule="any"), name="any.jsonl")
    proctor("run", name, "--target", "echo", "--repeat", 4, "--quiet")
    result = proctor("plan", name, "--json")
    (row,) = read_plan(result)["repeats"]
    assert (row["repeats"], row["suite_trials"]) == (1, 120)
    assert "By the suite's pass rule, a case counts once" in " ".join(read_plan(result)["sentences"])


def test_a_file_has_what_is_printed(proctor: Proctor, desk: str, make_run: MakeRun, folder: Path) -> None:
    make_run("a", varies, repeats=3)
    result = proctor("plan", desk, "-o", "plan.md", "-o", "plan.json", "--json")
    assert (folder / "plan.json").read_text(encoding="utf-8") == result.out
    text = (folder / "plan.md").read_text(encoding="utf-8")
    assert text.startswith("**To find a difference of 5 pp")
    assert "| Repeats | This suite shows | Its trials | Its cost |" in text


@pytest.mark.parametrize("word", ["5pp", "5%", "0.05", "5 pp", ".05"])
def test_a_difference_is_points_or_a_share(proctor: Proctor, desk: str, word: str) -> None:
    assert read_plan(proctor("plan", desk, "--detect", word, "--json"))["detect"] == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("5", "5 is more than 1. Did you mean 0.05 or 5%?"),
        *((word, "is not in the range 0<x<=1.") for word in ("0", "0pp", "101pp", "-1")),
        *((word, "is not a share. Give a number such as 0.05,") for word in ("-1pp", "five", "nan", "")),
    ],
)
def test_a_difference_that_cannot_be_is_refused(proctor: Proctor, desk: str, word: str, hint: str) -> None:
    result = proctor("plan", desk, "--detect", word)
    assert result.code == 4
    assert hint in result.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("none.jsonl",), "none.jsonl"),
        (("desk.jsonl", "--against", "last"), "the store has no runs"),
        (("desk.jsonl", "--power", "1"), "power"),
        (("desk.jsonl", "-o", "plan.svg"), "ending"),
    ],
)
def test_wrong_usage_is_an_error(proctor: Proctor, desk: str, words: tuple[str, ...], message: str) -> None:
    result = proctor("plan", *words)
    assert result.code == 4
    assert message in result.err
