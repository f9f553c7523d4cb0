"""How often `proctor compare` of a grid of prompts × targets is right, as the Markdown table of its docs.

Usage: python tools/interaction_figures.py; it takes some 15 minutes.

Grids are simulated with a fixed seed, so that a figure is right to a point. Each case has its own pass rates,
which its trials on all prompts and targets share. The table is in docs/explanation/statistics-figures.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from random import Random

from proctor.comparison.factors import GridComparison, compare_grid
from proctor.comparison.outcome_table import CaseOutcomes, TrialOutcome
from proctor.comparison.outcomes import RunOutcomes
from proctor.model import Message, PromptTemplate, Run, Suite, TargetSpec, Verdict

SAMPLES = 600
SHAPES = ((2, 2), (2, 3), (3, 3))
CASES = (20, 50, 200)
_STARTED = datetime(2026, 1, 1, tzinfo=UTC)


def simulate(
    random: Random, shape: tuple[int, int], cases: int, gains: tuple[float, float, float]
) -> GridComparison:
    """A grid of one trial a cell.

    Args:
        random: draws verdicts.
        shape: the numbers of prompts and of targets.
        cases: the number of cases.
        gains: how much better each next prompt is, each next target, and the last prompt on the last target.
    """
    easy = [random.choice((0.05, 0.3, 0.5)) for _ in range(cases)]
    luck = [random.random() for _ in range(cases)]
    runs = []
    for prompt in range(shape[0]):
        for target in range(shape[1]):
            gain = prompt * gains[0] + target * gains[1]
            gain += gains[2] * (prompt == shape[0] - 1 and target == shape[1] - 1)
            # Half of the cases are decided by what all runs share.
            passed = [
                (luck[case] if random.random() < 0.5 else random.random()) < easy[case] + gain
                for case in range(cases)
            ]
            runs.append(_make_run(prompt, target, passed))
    grid = compare_grid(runs)
    assert grid is not None
    return grid


def _make_run(prompt: int, target: int, passed: list[bool]) -> RunOutcomes:
    run = Run(
        id=f"{prompt}-{target}",
        group="g",
        suite=Suite(name="s", dialect="d"),
        target=TargetSpec(name=str(target), kind="echo", model=str(target)),
        prompt=PromptTemplate(name=str(prompt), messages=(Message(role="user", content=str(prompt)),)),
        started_at=_STARTED,
    )
    outcomes = [
        CaseOutcomes(
            id=f"c{place}",
            key=f"c{place}",
            category=None,
            tags=(),
            split=None,
            trials=(TrialOutcome(repeat=0, verdict=Verdict.PASS if is_passed else Verdict.FAIL),),
        )
        for place, is_passed in enumerate(passed)
    ]
    return RunOutcomes(run=run, cases=tuple(outcomes), trials=len(outcomes))


def rows(samples: int = SAMPLES) -> Iterator[str]:
    """How often the test of interaction is below 5 %, and the best prompt is called better."""
    counts = ", ".join(map(str, CASES))
    yield (
        f"| {counts} cases | all alike | prompts and targets differ | interaction of 30 points, found | "
        "a prompt called better, all alike |"
    )
    yield "|---|--:|--:|--:|--:|"
    settings = ((0.0, 0.0, 0.0), (0.1, 0.1, 0.0), (0.0, 0.0, 0.3))
    for shape in SHAPES:
        shares: list[list[float]] = [[], [], [], []]
        for cases in CASES:
            for place, gains in enumerate(settings):
                depends, better = _count_findings(shape, cases, gains, samples)
                shares[place].append(depends)
                if not any(gains):
                    shares[3].append(better)
        cells = [f"{', '.join(f'{100 * share:.1f}' for share in row_shares)} %" for row_shares in shares]
        yield f"| {shape[0]} × {shape[1]} | " + " | ".join(cells) + " |"


def _count_findings(
    shape: tuple[int, int], cases: int, gains: tuple[float, float, float], samples: int
) -> tuple[float, float]:
    """The shares of grids whose prompts are said to depend on the target, and to be better or worse."""
    random, depends, better = Random(cases), 0, 0
    for _ in range(samples):
        grid = simulate(random, shape, cases, gains)
        assert grid.interaction is not None
        assert grid.interaction.p_value is not None
        assert grid.prompts is not None
        depends += grid.interaction.p_value < 0.05
        better += any(pair.difference.direction in ("better", "worse") for pair in grid.prompts.differences)
    return depends / samples, better / samples


if __name__ == "__main__":
    for row in rows():
        print(row, flush=True)
