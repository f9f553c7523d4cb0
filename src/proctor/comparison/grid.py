"""The grid of prompts × targets that the runs of a group are. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import fsum

from msgspec import Struct

from proctor.codec import target_digest, template_digest
from proctor.comparison.outcomes import RunOutcomes, SplitName
from proctor.model import Run
from proctor.stats import quantile
from proctor.verdicts import Counts

NO_PROMPT = "no prompt"
"""The name of the row of runs that send cases unchanged."""


class GridLevel(Struct, frozen=True, kw_only=True):
    """A prompt or a target of a grid."""

    name: str
    digest: str | None
    """None for runs without a prompt."""


class GridRun(Struct, frozen=True, kw_only=True):
    """A run with its numbers."""

    run: Run
    counts: Counts
    cost_usd: float | None = None
    """The cost of the target's answers; None if a price is not known."""
    latency_p50_ms: float | None = None
    """None if no latency was measured in the run."""


class PromptGrid(Struct, frozen=True, kw_only=True):
    """The runs of several prompts, each with its prompt and target."""

    prompts: tuple[GridLevel, ...]
    targets: tuple[GridLevel, ...]
    cells: tuple[tuple[GridRun | None, ...], ...]
    """A row for each prompt with a cell for each target; None where there is no run."""
    repeated: int = 0
    """The number of runs that a later one of the same prompt and target replaces."""

    @property
    def missing(self) -> list[tuple[GridLevel, GridLevel]]:
        """The prompts and targets of which there is no run."""
        return [
            (prompt, target)
            for prompt, row in zip(self.prompts, self.cells, strict=True)
            for target, cell in zip(self.targets, row, strict=True)
            if cell is None
        ]

    @property
    def full_prompts(self) -> list[int]:
        """The places of the prompts that were run with every target."""
        return [place for place, row in enumerate(self.cells) if None not in row]

    @property
    def full_targets(self) -> list[int]:
        """The places of the targets that were run with every prompt."""
        return [place for place, column in enumerate(zip(*self.cells, strict=True)) if None not in column]


def make_grid(cells: Iterable[GridRun]) -> PromptGrid | None:
    """Arranges runs of one suite by prompt and target, each in the order in which it first occurs.

    Prompts are the same by name and text, targets by name and what is called.

    Returns:
        None unless there are several prompts and three runs.
    """
    prompts: dict[GridLevel, None] = {}
    targets: dict[GridLevel, None] = {}
    placed: dict[tuple[GridLevel, GridLevel], GridRun] = {}
    count = 0
    for cell in cells:
        prompt, target = _prompt_level(cell.run), _target_level(cell.run)
        prompts[prompt] = targets[target] = None
        placed[prompt, target] = cell
        count += 1
    if len(prompts) < 2 or len(placed) < 3:
        return None
    return PromptGrid(
        prompts=_unique_names(list(prompts)),
        targets=_unique_names(list(targets)),
        cells=tuple([tuple([placed.get((prompt, target)) for target in targets]) for prompt in prompts]),
        repeated=count - len(placed),
    )


def grid_cell(outcomes: RunOutcomes, split: SplitName = "all") -> GridRun:
    """Returns the cell of a run whose outcomes were read."""
    facts = [fact for case in outcomes.restrict_to(split).cases for fact in case.trials]
    latencies = [fact.latency_ms for fact in facts if fact.latency_ms is not None]
    answered = [fact for fact in facts if fact.is_measured or fact.cost_usd is not None]
    costs = [fact.cost_usd for fact in answered if fact.cost_usd is not None]
    return GridRun(
        run=outcomes.run,
        counts=outcomes.restrict_to(split).count_verdicts(),
        cost_usd=fsum(costs) if answered and len(costs) == len(answered) else None,
        latency_p50_ms=quantile(sorted(latencies), 0.5),
    )


def _prompt_level(run: Run) -> GridLevel:
    if run.prompt is None:
        return GridLevel(name=NO_PROMPT, digest=None)
    return GridLevel(name=run.prompt.name, digest=template_digest(run.prompt))


def _target_level(run: Run) -> GridLevel:
    return GridLevel(name=run.target.name, digest=target_digest(run.target))


def _unique_names(levels: Sequence[GridLevel]) -> tuple[GridLevel, ...]:
    """Returns levels with the beginning of their digest after a name that several have."""
    names = [level.name for level in levels]
    return tuple(
        [
            level
            if names.count(level.name) == 1
            else GridLevel(name=f"{level.name} ({(level.digest or 'none')[:15]})", digest=level.digest)
            for level in levels
        ]
    )
