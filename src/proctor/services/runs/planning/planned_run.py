"""The result of planning, which is passed to execution."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from proctor.model import Run
from proctor.plan import CaseIndex
from proctor.services.runs.planning.judge_choice import RequiredTargets


class ReuseLimits(Struct, frozen=True, kw_only=True):
    """From when on answers and judgments of earlier runs are reused; None for any time."""

    answers_since: datetime | None = None
    judgments_since: datetime | None = None


ANY_TIME = ReuseLimits()
"""Answers and judgments are reused however old they are."""


class PlannedRun(Struct, frozen=True, kw_only=True):
    """One run to start or continue."""

    run: Run
    index: CaseIndex
    required: RequiredTargets
    earlier_run: Run | None = None
    """The run whose trials are reused; the run itself if it is continued."""
    reuse_limits: ReuseLimits = ANY_TIME
