"""`proctor plan`: which runs it rests on, what it says of them, and what it prints."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.cli import Proctor

pytestmark = pytest.mark.slow

CASES = 60
Asked = Callable[..., str]


def in_own_format(count: int, wanted: str, **header: Any) -> list[dict[str, Any]]:
    """A header and so many cases of dialect proctor, which holds out only what the header says."""
    case = {
        "input": [{"role": "user", "content": "x"}],
        "assertions": [{"grader": "exact", "params": {"value": wanted}}],
    }
    return [{"proctor": 1, **header}, *({"id": f"c{n:02}", **case} for n in range(count))]


@pytest.fixture
def desk(suite: Proctor) -> str:
    return str(suite(*in_own_format(CASES, "yes", name="desk"), name="desk.jsonl"))


@pytest.fixture
def asked(proctor: Proctor, desk: str, folder: Path) -> Asked:
    """Makes a run; `passes` tells of each case and repeat whether it passes. Gives its id."""

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
        found: str = proctor(
            "run", desk, "--target", f"replay:{name}.jsonl", "--repeat", repeats, "--json", *words
        ).run["run"]
        return found

    return run


def varies(n: int, repeat: int) -> bool:
    """A third of the cases passes every other time, and the others always."""
    return n % 3 > 0 or (n // 3 + repeat) % 2 == 0


def plan_of(told: Any) -> dict[str, Any]:
    assert told.code == 0
    found: dict[str, Any] = told.json["plan"]
    return found


def test_without_a_store_the_most_noise_is_assumed_and_none_is_made(
    proctor: Proctor, desk: str, folder: Path
) -> None:
    told = proctor("plan", desk, "--detect", "5pp")
    assert told.code == 0
    assert told.out.startswith(
        "To find a difference of 5 pp 80 % of the time, run 1,610 cases once. This suite has 60 "
        "cases: run once it shows differences of 27.3 pp or more.\n"
    )
    assert "The store has no measured run of this suite" in told.out
    assert "`proctor run desk.jsonl --repeat 3`" in told.out
    assert not (folder / ".proctor").exists()


def test_repeats_of_a_run_tell_its_chance_and_its_costs(proctor: Proctor, desk: str, asked: Asked) -> None:
    run = asked("a", varies, repeats=3)
    plan = plan_of(proctor("plan", desk, "--json"))
    assert (plan["baseline"], plan["runs"], plan["noise"]["basis"]) == (run, [run], "repeats")
    # Of two trials of a case that passes 2 of 3 or 1 of 3 the chance to differ is 2/3.
    assert plan["noise"]["chance"] == pytest.approx(2 / 9 * 60 / 62)
    assert [row["repeats"] for row in plan["repeats"]] == [1, 2, 3, 5, 10]
    assert [row["suite_cost_usd"] for row in plan["repeats"]] == pytest.approx([0.6, 1.2, 1.8, 3.0, 6.0])
    needed = [row["cases"] for row in plan["repeats"]]
    assert needed == sorted(needed, reverse=True)
    assert any("of its variance is between cases" in sentence for sentence in plan["sentences"])


def test_a_further_run_of_the_same_target_is_a_repeat_but_a_reused_one_is_not(
    proctor: Proctor, desk: str, asked: Asked
) -> None:
    asked("a", varies)
    assert plan_of(proctor("plan", desk, "--json"))["noise"]["basis"] == "rate"
    asked("a", varies, "--reuse")
    found = plan_of(proctor("plan", desk, "--json"))["noise"]
    assert (found["basis"], found["chance"]) == ("rate", None)
    asked("a", varies)
    assert plan_of(proctor("plan", desk, "--json"))["noise"]["basis"] == "repeats"


def test_runs_of_other_targets_tell_what_differs(proctor: Proctor, desk: str, asked: Asked) -> None:
    asked("b", lambda n, _repeat: n % 3 > 0)
    run = asked("a", lambda n, _repeat: n % 3 > 0 if n % 10 else n % 3 == 0)
    told = proctor("plan", desk)
    assert "Compared with another target, its target has a different result in" in told.out
    assert "It is not known what repeats gain." in told.out
    found = plan_of(proctor("plan", desk, "--against", run, "--repeats", 3, "--json"))
    assert (found["noise"]["basis"], found["noise"]["targets"]) == ("targets", 1)
    assert found["repeats"][0]["cases"] is None


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
    plan = plan_of(proctor("plan", desk, "--json"))
    clusters = plan["clusters"]
    assert (clusters["field"], clusters["clusters"], clusters["relation"]) == ("metadata.document", 13, 0)
    assert plan["repeats"][0]["clusters"] < plan["repeats"][0]["cases"]
    alone = plan_of(proctor("plan", desk, "--cluster", "none", "--json"))
    assert (alone["clusters"], alone["repeats"][0]["clusters"]) == (None, None)
    unknown = proctor("plan", desk, "--cluster", "metadata.page")
    assert "No two cases share a value of `metadata.page`" in unknown.out
    refused = proctor("plan", desk, "--cluster", "page")
    assert refused.code == 4
    assert "cannot be clustered by 'page'" in refused.err


def test_a_run_is_named_as_the_baseline(proctor: Proctor, desk: str, asked: Asked) -> None:
    first = asked("a", varies, repeats=3)
    asked("b", lambda _n, _repeat: True, repeats=3)
    proctor("runs", "tag", first, "good")
    newest, named = (
        plan_of(proctor("plan", desk, *words, "--json")) for words in ((), ("--against", "good"))
    )
    assert named["baseline"] == first != newest["baseline"]
    assert named["noise"]["pass_rate"] == pytest.approx(5 / 6)
    assert newest["noise"]["pass_rate"] == 1


def test_the_rate_of_a_run_is_of_its_own_cases(proctor: Proctor, desk: str, asked: Asked) -> None:
    asked("all", lambda n, _: n % 2 == 0)
    asked("some", lambda n, _: n % 2 == 0, "--limit", 15)
    told = proctor("plan", desk, "--detect", "5pp", "--against", "last")
    assert "passed 53.3% of 15 cases" in told.out


def test_a_run_of_an_earlier_version_gives_its_noise_and_one_of_another_suite_none(
    proctor: Proctor, desk: str, asked: Asked, suite: Proctor
) -> None:
    run = asked("a", varies, repeats=3)
    larger = suite(*in_own_format(90, "yes", name="desk"), name="desk.jsonl")
    assert plan_of(proctor("plan", larger, "--json"))["noise"]["basis"] == "nothing"
    found = plan_of(proctor("plan", larger, "--against", run, "--json"))
    assert (found["cases"], found["noise"]["cases"], found["noise"]["basis"]) == (90, 60, "repeats")
    assert "The runs are of another version of the suite" in " ".join(found["sentences"])
    other = suite(*in_own_format(90, "no", name="other"), name="other.jsonl")
    told = proctor("plan", other, "--against", run)
    assert told.code == 4
    assert "is a run of the suite 'desk', not of 'other'" in told.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--detect", "0.0001pp"), "Finding a difference of 0.0001 pp 80 % of the time takes more than ten"),
        (
            ("--repeats", "4"),
            "It is not known how many cases find a difference of 5 pp 80 % of the time with 4",
        ),
        (("--power", "0.95"), "To find a difference of 5 pp 95 % of the time, run 2,"),
    ],
)
def test_what_is_not_known_is_said(proctor: Proctor, desk: str, words: tuple[str, ...], told: str) -> None:
    assert proctor("plan", desk, *words).out.startswith(told)


def test_a_suite_that_is_too_small_is_told(proctor: Proctor, suite: Proctor) -> None:
    name = suite(*in_own_format(4, "yes", name="few"), name="few.jsonl")
    assert (
        "This suite has 4 cases, which is too few to show any difference that often."
        in proctor("plan", name).out
    )


def test_an_unknown_price_makes_no_cost(proctor: Proctor, desk: str, asked: Asked) -> None:
    asked("a", varies, repeats=2, cost=None)
    told = proctor("plan", desk)
    assert "cost" not in told.out.splitlines()[0]
    assert "its cost" not in told.out


def test_held_out_cases_are_counted_and_not_looked_at(proctor: Proctor, suite: Proctor) -> None:
    cases = in_own_format(50, "x", name="held", split_rule={"ratio": 0.2})
    name = suite(*cases, name="held.jsonl")
    proctor("run", name, "--target", "echo", "--quiet")
    accesses = proctor("runs", "show", "last", "--json").run["looks"]
    found = plan_of(proctor("plan", name, "--json"))
    assert (found["cases"], found["noise"]["cases"]) == (50, 40)
    assert proctor("runs", "show", "last", "--json").run["looks"] == accesses + 1  # of `runs show` itself


def test_a_case_that_counts_once_has_no_repeats_to_plan(proctor: Proctor, suite: Proctor) -> None:
    name = suite(*in_own_format(30, "x", name="any", repeats_rule="any"), name="any.jsonl")
    proctor("run", name, "--target", "echo", "--repeat", 4, "--quiet")
    told = proctor("plan", name, "--json")
    (row,) = plan_of(told)["repeats"]
    assert (row["repeats"], row["suite_trials"]) == (1, 120)
    assert "By the suite's pass rule, a case counts once" in " ".join(plan_of(told)["sentences"])


def test_a_file_has_what_is_printed(proctor: Proctor, desk: str, asked: Asked, folder: Path) -> None:
    asked("a", varies, repeats=3)
    told = proctor("plan", desk, "-o", "plan.md", "-o", "plan.json", "--json")
    assert (folder / "plan.json").read_text(encoding="utf-8") == told.out
    text = (folder / "plan.md").read_text(encoding="utf-8")
    assert text.startswith("**To find a difference of 5 pp")
    assert "| Repeats | This suite shows | Its trials | Its cost |" in text


@pytest.mark.parametrize("word", ["5pp", "5%", "0.05", "5 pp", ".05"])
def test_a_difference_is_points_or_a_share(proctor: Proctor, desk: str, word: str) -> None:
    assert plan_of(proctor("plan", desk, "--detect", word, "--json"))["detect"] == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("5", "5 is more than 1. Did you mean 0.05 or 5%?"),
        *((word, "is not in the range 0<x<=1.") for word in ("0", "0pp", "101pp", "-1")),
        *((word, "is not a share. Give a number such as 0.05,") for word in ("-1pp", "five", "nan", "")),
    ],
)
def test_a_difference_that_cannot_be_is_refused(proctor: Proctor, desk: str, word: str, hint: str) -> None:
    told = proctor("plan", desk, "--detect", word)
    assert told.code == 4
    assert hint in told.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("none.jsonl",), "none.jsonl"),
        (("desk.jsonl", "--against", "last"), "the store has no runs"),
        (("desk.jsonl", "--power", "1"), "power"),
        (("desk.jsonl", "-o", "plan.svg"), "ending"),
    ],
)
def test_what_cannot_be_planned_is_said(
    proctor: Proctor, desk: str, words: tuple[str, ...], message: str
) -> None:
    told = proctor("plan", *words)
    assert told.code == 4
    assert message in told.err
