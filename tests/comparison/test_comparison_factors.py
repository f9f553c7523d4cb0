"""Grids of prompts × targets: which is better over the other, whether one depends on the other, and laws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.comparison.factors import GridComparison, compare_grid
from proctor.comparison.grid import grid_cell, make_grid
from proctor.model import Message, PromptTemplate, Suite, TargetSpec
from support.outcomes import make_outcomes

Rows = Mapping[tuple[str, str], Any]


def make_prompt(name: str) -> PromptTemplate:
    return PromptTemplate(name=name, messages=(Message(role="user", content=f"{name}: {{{{ input }}}}"),))


def compare_signs(signs: Rows, **fields: Any) -> GridComparison:
    """Compares a grid of runs, each given by its prompt and target with the signs of `make_outcomes`."""
    runs = [
        make_outcomes(
            f"{prompt}-{target}",
            text,
            prompt=make_prompt(prompt),
            target=TargetSpec(name=target, kind="echo", model=target),
            **fields,
        )
        for (prompt, target), text in signs.items()
    ]
    grid = compare_grid(runs, by_prompt=True)
    assert grid is not None
    return grid


def effect(grid: GridComparison, factor: str = "prompts") -> float:
    (pair,) = getattr(grid, factor).differences
    value: float = pair.difference.value
    return value


PLAIN = {
    ("terse", "small"): "+" * 10 + "-" * 30,
    ("terse", "large"): "+" * 30 + "-" * 10,
    ("steps", "small"): "+" * 22 + "-" * 18,
    ("steps", "large"): "+" * 38 + "-" * 2,
}


def test_prompts_are_compared_over_targets_and_targets_over_prompts() -> None:
    grid = compare_signs(PLAIN)
    assert grid.prompts is not None
    assert grid.targets is not None
    assert [level.name for level in grid.prompts.over] == ["small", "large"]
    (prompts,), (targets,) = grid.prompts.differences, grid.targets.differences
    assert (prompts.difference.cases, prompts.difference.clusters) == (80, 40)
    assert prompts.difference.value == pytest.approx((12 + 8) / 80)
    assert targets.difference.value == pytest.approx((20 + 16) / 80)
    assert [(ranked.level.name, ranked.rank) for ranked in grid.prompts.levels] == [
        ("terse", 2),
        ("steps", 1),
    ]
    assert grid.prompts.levels[1].counts.pass_rate == pytest.approx(60 / 80)
    assert prompts.difference.direction == "better"


def test_the_trials_of_a_case_are_related() -> None:
    alone = compare_signs(
        {key: text for key, text in PLAIN.items() if key[1] == "small"} | {("x", "small"): "-" * 40}
    )
    assert alone.prompts is None  # one target: the ranking of the runs says it
    same = compare_signs({(prompt, target): PLAIN[prompt, "small"] for prompt, target in PLAIN})
    single = compare_signs(PLAIN).by_target[0].differences[0].difference
    assert same.prompts is not None
    (pair,) = same.prompts.differences
    assert pair.difference.value == pytest.approx(single.value)
    # The same answers twice tell no more than once.
    assert pair.difference.p_value == pytest.approx(1 / 2**11)
    assert pair.difference.error == pytest.approx(single.error, rel=0.02)


def test_interaction_is_found_where_prompts_do_not_differ_alike() -> None:
    crossed = compare_signs(
        {
            ("a", "s"): "+" * 30 + "-" * 10,
            ("b", "s"): "+" * 10 + "-" * 30,
            ("a", "t"): "+" * 10 + "-" * 30,
            ("b", "t"): "+" * 30 + "-" * 10,
        }
    )
    assert effect(crossed) == 0
    assert crossed.interaction is not None
    assert crossed.interaction.p_value is not None
    assert crossed.interaction.p_value < 0.001
    alike = compare_signs(PLAIN).interaction
    assert alike is not None
    assert alike.p_value is not None
    assert alike.p_value > 0.05


def test_cases_with_errors_count_where_both_were_measured_and_are_counted_apart() -> None:
    signs = dict(PLAIN) | {("steps", "large"): "!!" + "+" * 36 + "-" * 2}
    grid = compare_signs(signs)
    assert grid.prompts is not None
    (pair,) = grid.prompts.differences
    assert (pair.difference.pairs, pair.difference.unmeasured) == (78, 2)
    assert grid.interaction is not None
    assert (grid.interaction.cases, grid.interaction.left_out) == (38, 2)


def test_own_clusters_take_the_place_of_cases() -> None:
    clusters = {f"c{number}": str(number // 4) for number in range(40)}
    grid = compare_signs(PLAIN, clusters=clusters)
    assert grid.prompts is not None
    assert grid.prompts.differences[0].difference.clusters == 10
    assert grid.interaction is not None
    assert grid.interaction.clusters == 10
    assert grid.cluster_field == "metadata.text"


def test_a_grid_without_some_run_uses_what_is_complete() -> None:
    signs = {key: text for key, text in PLAIN.items() if key != ("steps", "large")}
    signs |= {("terse", "other"): "+" * 40, ("steps", "other"): "-" * 40}
    grid = compare_signs(signs)
    assert [(prompt.name, target.name) for prompt, target in grid.grid.missing] == [("steps", "large")]
    assert grid.prompts is not None
    assert [level.name for level in grid.prompts.over] == ["small", "other"]
    assert grid.targets is not None
    assert [level.name for level in grid.targets.over] == ["terse"]
    assert grid.interaction is not None
    assert [level.name for level in grid.interaction.targets] == ["small", "other"]
    diagonal = compare_signs({("a", "s"): "+", ("b", "t"): "+", ("c", "u"): "+"})
    assert (diagonal.prompts, diagonal.targets, diagonal.interaction) == (None, None, None)


def test_what_is_no_grid() -> None:
    target = {"target": TargetSpec(name="t", kind="echo")}
    without = [make_outcomes(name, "+-", target=TargetSpec(name=name, kind="echo")) for name in "abc"]
    assert compare_grid(without) is None
    two = [make_outcomes(name, "+-", prompt=make_prompt(name), **target) for name in "ab"]
    assert compare_grid(two) is None
    suite = Suite(name="s", dialect="d", digest="sha256:2")
    other = make_outcomes("c", "+-", prompt=make_prompt("c"), suite=suite, **target)
    assert compare_grid([*two, other]) is None


def test_a_run_without_a_prompt_is_a_row_of_its_own_and_the_last_of_equal_runs_counts() -> None:
    runs = [
        make_outcomes("first", "--", prompt=make_prompt("a")),
        make_outcomes("plain", "+-"),
        make_outcomes("again", "++", prompt=make_prompt("a")),
        make_outcomes("other", "++", prompt=make_prompt("b")),
    ]
    grid = make_grid(map(grid_cell, runs))
    assert grid is not None
    assert [level.name for level in grid.prompts] == ["a", "no prompt", "b"]
    assert (grid.repeated, grid.cells[0][0] and grid.cells[0][0].run.id) == (1, "again")


def test_prompts_of_one_name_are_told_apart_by_their_digests() -> None:
    other = PromptTemplate(name="a", messages=(Message(role="system", content="x"),))
    runs = [
        make_outcomes(str(place), "+", prompt=prompt)
        for place, prompt in enumerate((make_prompt("a"), other, make_prompt("c")))
    ]
    grid = make_grid(map(grid_cell, runs))
    assert grid is not None
    names = [level.name for level in grid.prompts]
    assert len(set(names)) == 3
    assert names[0].startswith("a (sha256:")


# --- laws --------------------------------------------------------------------------------------------------


@st.composite
def grids(draw: st.DrawFn, max_levels: int = 3) -> dict[tuple[str, str], str]:
    prompts, targets = draw(st.integers(2, max_levels)), draw(st.integers(2, max_levels))
    cases = draw(st.integers(2, 14))
    return {
        (f"p{prompt}", f"t{target}"): "".join(
            draw(st.lists(st.sampled_from("+-+-!"), min_size=cases, max_size=cases))
        )
        for prompt in range(prompts)
        for target in range(targets)
    }


def numbers(grid: GridComparison, factor: str) -> dict[frozenset[str], tuple[Any, ...]]:
    return {
        frozenset((pair.baseline.name, pair.candidate.name)): (
            abs(pair.difference.value or 0.0),
            pair.difference.p_holm,
            pair.difference.clusters,
            pair.difference.unmeasured,
        )
        for pair in getattr(grid, factor).differences
    }


def p_values(*grids_: GridComparison) -> list[float | None]:
    return [grid.interaction.p_value for grid in grids_ if grid.interaction is not None]


@given(grids(max_levels=2))
def test_swapping_prompts_turns_the_sign_of_their_difference(signs: dict[tuple[str, str], str]) -> None:
    swapped_signs = {key: signs[key] for key in sorted(signs, key=lambda key: (key[0] != "p1", key[1]))}
    grid, swapped_grid = compare_signs(signs), compare_signs(swapped_signs)
    assert grid.prompts is not None
    assert swapped_grid.prompts is not None
    (pair,), (swapped_pair,) = grid.prompts.differences, swapped_grid.prompts.differences
    assert (pair.baseline, pair.candidate) == (swapped_pair.candidate, swapped_pair.baseline)
    if pair.difference.value is not None:
        assert swapped_pair.difference.value == pytest.approx(-pair.difference.value)
        assert swapped_pair.difference.p_value == pytest.approx(pair.difference.p_value)
        assert pair.difference.ci95 is not None
        assert swapped_pair.difference.ci95 == pytest.approx([-end for end in pair.difference.ci95[::-1]])
    assert effect(grid, "targets") == effect(swapped_grid, "targets")
    assert p_values(swapped_grid) == pytest.approx(p_values(grid))


@given(grids(), st.randoms(use_true_random=False))
def test_the_order_of_the_runs_changes_nothing(signs: dict[tuple[str, str], str], random: Any) -> None:
    keys = list(signs)
    random.shuffle(keys)
    grid, shuffled_grid = compare_signs(signs), compare_signs({key: signs[key] for key in keys})
    for factor in ("prompts", "targets"):
        expected, actual = numbers(grid, factor), numbers(shuffled_grid, factor)
        assert expected.keys() == actual.keys()
        for pair, values in expected.items():
            assert actual[pair] == pytest.approx(values)
    assert p_values(shuffled_grid) == pytest.approx(p_values(grid), abs=0.002)


@given(grids())
def test_other_names_of_targets_change_nothing(signs: dict[tuple[str, str], str]) -> None:
    renamed_signs = {(prompt, f"model {target}"): text for (prompt, target), text in signs.items()}
    grid, renamed_grid = compare_signs(signs), compare_signs(renamed_signs)
    assert grid.prompts is not None
    assert renamed_grid.prompts is not None
    assert [pair.difference for pair in renamed_grid.prompts.differences] == [
        pair.difference for pair in grid.prompts.differences
    ]
    assert p_values(renamed_grid) == p_values(grid)


@given(st.lists(st.text("+-", min_size=8, max_size=8), min_size=2, max_size=3))
def test_equal_prompts_do_not_differ(rows: Sequence[str]) -> None:
    grid = compare_signs({(prompt, f"t{place}"): row for prompt in "ab" for place, row in enumerate(rows)})
    assert effect(grid) == 0
    assert grid.interaction is not None
    assert grid.interaction.p_value == 1
