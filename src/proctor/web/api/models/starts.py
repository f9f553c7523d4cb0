"""Requests and responses about starting runs."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from proctor.comparison.outcomes import SplitName
from proctor.web.api.requests import RequestBody

_Name = Annotated[str, Field(min_length=1, max_length=200)]
_Tag = Annotated[str, Field(min_length=1, max_length=200, pattern="^[^,]+$")]
_MAX_INTEGER = 999_999_999_999
"""The largest whole number that a run takes."""


class RunRequest(RequestBody):
    """What to run, with the fields of the page Run Suite; null means the project's default."""

    suite: _Name = Field(
        description=(
            "The name of a suite in the store, or `builtin:cheap`, `builtin:moderate` or "
            "`builtin:comprehensive`."
        ),
        examples=["my_suite"],
    )
    version: str | None = Field(
        default=None,
        pattern="^v[0-9]{1,9}$",
        description="The current version by default.",
        examples=["v2"],
    )
    targets: list[_Name] = Field(
        default=[],
        max_length=50,
        description="Names of the targets file, `echo`, `local`, or models of known services.",
        examples=[["echo"]],
    )
    judges: list[_Name] = Field(default=[], max_length=50, description="Judges, named like targets.")
    split: SplitName | None = Field(default=None, description="Which cases to run.")
    holdout: float | None = Field(
        default=None,
        ge=0,
        lt=1,
        description="The share of cases held out; 0 for none. By default as the suite says.",
    )
    tags: list[_Tag] = Field(default=[], max_length=50, description="Only cases with any of these tags.")
    all_tags: list[_Name] = Field(
        default=[],
        max_length=50,
        description="Only cases with all of these tags; commas in one mean any of those between them.",
        examples=[["easy,hard", "new"]],
    )
    repeats: int | None = Field(
        default=None, ge=1, le=_MAX_INTEGER, description="Number of repeats of each case."
    )
    concurrency: int | None = Field(
        default=None, ge=1, le=_MAX_INTEGER, description="Maximum concurrent requests."
    )
    budget_usd: float | None = Field(
        default=None, gt=0, lt=1e12, description="Maximum cost of each run, in US dollars."
    )
    temperature: float | None = Field(default=None, ge=0, lt=1e12, description="0 by default.")
    seed: int | None = Field(
        default=None, ge=-_MAX_INTEGER, le=_MAX_INTEGER, description="42 by default; repeat r uses seed + r."
    )
    max_tokens: int | None = Field(
        default=None, ge=1, le=_MAX_INTEGER, description="Maximum length of an answer, in tokens."
    )
    threshold: float | None = Field(
        default=None, ge=0, le=1, description="The weighted score at which a case passes."
    )
    min_pass_rate: float | None = Field(
        default=None, ge=0, le=1, description="The pass rate below which the exit code reports failure."
    )
    reuse: bool | None = Field(default=None, description="Reuse answers of earlier runs.")


class StartRequest(RunRequest):
    """A run to start."""

    group: str | None = Field(
        default=None,
        pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
        description="The group of its runs. The same start with the same group happens only once, so "
        "that the request can be repeated safely; by default a new one is made.",
        examples=["nightly-2026-11-22"],
    )


class EstimatePartResource(BaseModel):
    """The estimate for one target or judge."""

    name: str
    judging: bool
    calls: int
    input_tokens: int
    output_tokens: int
    counted: bool = Field(
        description="Whether it is based on earlier runs of the suite; else on the length of texts."
    )
    cost_usd: float | None
    seconds: float | None


class EstimateResource(BaseModel):
    """The estimate of a run; null if a price or a speed is unknown."""

    sentence: str
    notes: list[str]
    cases: int
    dev: int | None
    holdout: int | None
    targets: int
    calls: int = Field(description="Number of calls to targets.")
    judge_calls: int
    at_most: bool = Field(description="Whether answers may be reused from earlier runs or the cache.")
    cost_usd: float | None
    seconds: float | None
    shares: list[EstimatePartResource]
    command: str = Field(description="The equivalent command.")


class StartResource(BaseModel):
    """Runs started here, by a process of its own that continues when this server stops."""

    group: str = Field(description="The group of the runs.")
    command: str
    alive: bool = Field(description="Whether the process is running.")
    runs: list[str] = Field(description="Ids of its runs in the store so far.")
    said: list[str] = Field(description="The last lines that the process wrote to stderr.")
    started_at: str


class StopStatusResource(BaseModel):
    """What is stopping: calls in progress get a moment to end, and finished trials are kept."""

    run: str | None
    group: str
    stopping: bool
