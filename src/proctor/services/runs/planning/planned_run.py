"""The result of planning, which is passed to execution."""

from __future__ import annotations

from msgspec import Struct

from proctor.model import Run
from proctor.plan import CaseIndex
from proctor.services.runs.planning.judge_choice import RequiredTargets


class PlannedRun(Struct, frozen=True, kw_only=True):
    """One run to start or continue."""

    run: Run
    index: CaseIndex
    required: RequiredTargets
    earlier_run: Run | None = None
    """The run whose trials are reused; the run itself if it is continued."""
