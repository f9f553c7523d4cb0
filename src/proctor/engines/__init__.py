"""Runs planned trials. `ENGINES` is the table of all engines; `--engine` selects one.

In: an iterator of planned trials, a worker that calls targets and graders, a writer that stores. Out: trials,
passed to the writer. Start with `protocol.py`; `asyncio_engine.py` is the engine on one machine, and
`batch_engine.py` the one that sends requests in batches. `ray/` is the engine on a Ray cluster, whose workers
share the limits of a run by leases: `lease_manager.py`, `leased_limits.py`. `turns.py` orders the calls of
interleaved runs. The other files are wrappers around targets for every engine: retries, limits, budget,
cache, fallbacks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proctor.model import BATCH_ENGINE
from proctor.registry import Registry

if TYPE_CHECKING:
    from proctor.engines.protocol import EngineFactory

ENGINES: Registry[EngineFactory] = Registry(
    "engines",
    {
        "asyncio": "proctor.engines.asyncio_engine:AsyncioEngine",
        BATCH_ENGINE: "proctor.engines.batch_engine:BatchEngine",
        "ray": "proctor.engines.ray.engine:RayEngine",
    },
)
