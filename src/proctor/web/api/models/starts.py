"""The shapes of what the API reads and answers about runs that are started."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from proctor.comparison.outcomes import Split
from proctor.web.api.requests import RequestBody

_Name = Annotated[str, Field(min_length=1, max_length=200)]
_Tag = Annotated[str, Field(min_length=1, max_length=200, pattern="^[^,]+$")]
_MOST = 999_999_999_999
"""The largest whole number that a run takes."""


class RunRequest(RequestBody):
    """What is to be run, with the same choices as the page Run Suite; null leaves a choice to the project."""

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
        description="The version saved last without it.",
        examples=["v2"],
    )
    targets: list[_Name] = Field(
        default=[],
        max_length=50,
        description="Names of the targets file, `echo`, `local`, or models of known services.",
        examples=[["echo"]],
    )
    judges: list[_Name] = Field(default=[], max_length=50, description="Who judges; named as targets are.")
    split: Split | None = Field(default=None, description="Which cases.")
    holdout: float | None = Field(
        default=None,
        ge=0,
        lt=1,
        description="The share of the cases that is held out; 0 for none. As the suite says without it.",
    )
    tags: list[_Tag] = Field(default=[], max_length=50, description="Only cases with any of these tags.")
    all_tags: list[_Name] = Field(
        default=[],
        max_length=50,
        description="Only cases with all of these tags; commas in one mean any of those between them.",
        examples=[["easy,hard", "new"]],
    )
    repeats: int | None = Field(default=None, ge=1, le=_MOST, description="Ask every case so often.")
    concurrency: int | None = Field(default=None, ge=1, le=_MOST, description="Most calls at once.")
    budget_usd: float | None = Field(
        default=None, gt=0, lt=1e12, description="What each run may cost, in US dollars."
    )
    temperature: float | None = Field(default=None, ge=0, lt=1e12, description="0 unless it is said.")
    seed: int | None = Field(
        default=None, ge=-_MOST, le=_MOST, description="42 unless it is said; repeat r asks with seed + r."
    )
    max_tokens: int | None = Field(default=None, ge=1, le=_MOST, description="Longest answer, in tokens.")
    threshold: float | None = Field(
        default=None, ge=0, le=1, description="A case passes at this weighted score."
    )
    min_pass_rate: float | None = Field(default=None, ge=0, le=1, description="The gate of the exit code.")
    reuse: bool | None = Field(default=None, description="Take answers of earlier runs where they are.")


class StartRequest(RunRequest):
    """A run that is to be started."""

    group: str | None = Field(
        default=None,
        pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
        description="What its runs are called together. The same start under the same name is made once, so "
        "that it can be sent again safely; a new name is made without it.",
        examples=["nightly-2026-11-22"],
    )


class EstimatePart(BaseModel):
    """What one target or judge would have to do."""

    name: str
    judging: bool
    calls: int
    input_tokens: int
    output_tokens: int
    counted: bool = Field(description="By earlier runs of the suite; else guessed from the length of texts.")
    cost_usd: float | None
    seconds: float | None


class Estimate(BaseModel):
    """What a run would come to; null where a price or a speed is not known."""

    sentence: str
    notes: list[str]
    cases: int
    dev: int | None
    holdout: int | None
    targets: int
    calls: int = Field(description="How often targets would be asked.")
    judge_calls: int
    at_most: bool = Field(description="Answers may be taken from earlier runs or the cache.")
    cost_usd: float | None
    seconds: float | None
    shares: list[EstimatePart]
    command: str = Field(description="The command that does the same.")


class Start(BaseModel):
    """Runs that were started here: a process of its own, which goes on when this server stops."""

    group: str = Field(description="What the runs are called together.")
    command: str
    alive: bool = Field(description="The process is at work.")
    runs: list[str] = Field(description="The ids of the runs that are in the store by now.")
    said: list[str] = Field(description="The last lines of what the process said on stderr.")
    started_at: str


class StopStatus(BaseModel):
    """What was told to stop: calls under way get a few seconds, and what finished is kept."""

    run: str | None
    group: str
    stopping: bool
