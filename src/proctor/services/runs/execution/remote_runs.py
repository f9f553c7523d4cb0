"""Which runs the workers of a remote engine can make, and what those workers need."""

from __future__ import annotations

import os
from collections.abc import Iterator

from proctor.errors import UsageError
from proctor.model import Run
from proctor.protocols import Store
from proctor.services.runs.execution.remote_worker import RemoteWorkerOpener
from proctor.services.runs.execution.target_pool import Prices, answers_in_batch
from proctor.services.runs.planning.judge_choice import all_specs
from proctor.services.runs.planning.planned_run import PlannedRun
from proctor.targets import get_kind


def check_remote_run(planned_run: PlannedRun, store: Store) -> None:
    """Checks that the workers of a remote engine can make a run.

    Raises:
        UsageError: a target or a setting needs the process of the run itself.
    """
    for problem in _find_problems(planned_run.run, store):
        raise UsageError(problem)


def make_opener(planned_run: PlannedRun, prices: Prices, store: Store) -> RemoteWorkerOpener:
    """Returns what opens the worker of a run in another process, which stores its trials if it can."""
    return RemoteWorkerOpener(
        prices=prices,
        store_address=store.shared_address,
        needs_embedder="embedder" in planned_run.required.needs,
        working_directory=os.getcwd(),  # noqa: PTH109 - a text is sent
    )


def _find_problems(run: Run, store: Store) -> Iterator[str]:
    engine = run.settings.engine
    if run.settings.cache and store.shared_address is None:
        yield (
            "--cache stores answers in a file beside the store, which workers of the engine "
            f"{engine!r} cannot open. Use --no-cache, or a store in PostgreSQL. To reuse answers of "
            "earlier runs, add --reuse."
        )
    for spec in all_specs(run):
        if answers_in_batch(spec):
            yield (
                f"Target {spec.name!r} has `provider_batching`, so one process answers all cases, but "
                f"the engine {engine!r} uses several processes. Remove `provider_batching` or --engine."
            )
        is_in_process = get_kind(spec).is_in_process
        if is_in_process is not None and is_in_process(spec):
            yield (
                f"Target {spec.name!r} is a function of this program, which the workers of the engine "
                f"{engine!r} cannot call. Move it to a module and name it function:MODULE:NAME."
            )
