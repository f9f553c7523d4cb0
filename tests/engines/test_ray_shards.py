"""Shards: whole cases, in one process where they share a workspace, and smaller each time they are lost."""

from __future__ import annotations

from collections.abc import Iterator

from proctor.engines.ray.shards import MAX_LOSSES, SHARD_SIZE, ShardPlanner
from proctor.model import Output, Workspace
from proctor.plan import PlannedTrial
from support.builders import make_case

SHARED = Workspace(template="shared")
PER_TEST = Workspace(template="copied", isolation="per_test")


def plan(
    count: int, repeats: int = 1, workspace: Workspace | None = None, first: int = 0
) -> Iterator[PlannedTrial]:
    for position in range(first, first + count):
        case = make_case(f"c{position}", workspace=workspace)
        for repeat in range(repeats):
            yield PlannedTrial(
                case=case,
                position=position,
                repeat=repeat,
                repeats=repeats,
                split=None,
                sent_digest="sha256:0",
            )


def take(planner: ShardPlanner, process: str = "a") -> list[int]:
    return [trial.position for trial in planner.take(process, is_busy=False)]


def test_a_shard_has_whole_cases() -> None:
    planner = ShardPlanner(plan(20, repeats=10))
    sizes = []
    while trials := planner.take("a", is_busy=True):
        assert {trial.repeat for trial in trials} == set(range(10))
        sizes.append(len(trials))
    assert sizes == [60, 60, 60, 20]
    assert planner.is_done()
    assert len(ShardPlanner(plan(1, repeats=SHARD_SIZE + 9)).take("a", is_busy=False)) == SHARD_SIZE + 9


def test_looking_ahead_hands_out_nothing() -> None:
    planner = ShardPlanner(plan(5, workspace=SHARED), size=2)
    assert planner.count_ready(2) == 2
    assert planner.count_ready(9) == 3
    assert not planner.is_done()
    assert [take(planner, "b") for _ in range(4)] == [[0, 1], [2, 3], [4], []]


def test_cases_of_a_shared_workspace_go_to_the_process_that_has_it() -> None:
    trials = [
        *plan(3, workspace=SHARED),
        *plan(3, workspace=PER_TEST, first=3),
        *plan(3, workspace=SHARED, first=6),
    ]
    planner = ShardPlanner(iter(trials), size=2)
    assert take(planner, "a") == [0, 1]
    assert take(planner, "b") == [3, 4]
    assert take(planner, "b") == [5]
    assert take(planner, "b") == []
    assert not planner.is_done()
    assert take(planner, "a") == [2, 6]
    # When the process is lost, the workspace is made again in another one.
    lost_trials = trials[2], trials[6]
    assert planner.lose("a", lost_trials, {}) == []
    assert sorted(position for _ in range(5) for position in take(planner, "b")) == [2, 6, 7, 8]
    assert planner.is_done()


def test_lost_trials_are_planned_again_in_smaller_shards_and_given_up_in_the_end() -> None:
    planner = ShardPlanner(plan(64))
    trials = planner.take("a", is_busy=False)
    sizes = []
    for _ in range(MAX_LOSSES):
        assert planner.lose("a", trials, {}) == []
        assert planner.take("b", is_busy=True) == []  # each is made alone
        trials = planner.take("b", is_busy=False)
        while trials[0].position:
            trials = planner.take("b", is_busy=False)
        assert planner.was_lost(trials)
        sizes.append(len(trials))
    assert sizes == [16, 4, 1]
    assert planner.lose("b", trials, {}) == trials


def test_a_delivered_answer_is_graded_again_unless_its_workspace_is_gone() -> None:
    output = Output(text="there")
    for workspace, expected in ((None, output), (PER_TEST, None)):
        planner = ShardPlanner(plan(2, workspace=workspace))
        trials = planner.take("a", is_busy=False)
        planner.lose("a", trials, {(1, 0): output})
        assert [trial.output for trial in planner.take("b", is_busy=False)] == [None, expected]
