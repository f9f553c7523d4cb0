"""The arguments of each tool, with their limits.

Nothing here becomes a path outside the folder, a program or an address: suites are looked up below the folder
and in the store, targets among those that may be called by name.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

MAX_WAIT_S: Final = 600.0
DEFAULT_WAIT_S: Final = 45.0
"""Below one minute, after which many clients abandon a call."""
DEFAULT_LIST_LIMIT: Final = 20
DEFAULT_FAILURE_LIMIT: Final = 5

_Suite = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=400,
        description="A suite: the path of a file below the server's folder, a name in `suites/`, a saved "
        "suite (`NAME` or `NAME@v2`), or cheap, moderate or comprehensive.",
        examples=["evals/support.yaml", "cheap"],
    ),
]
_Target = Annotated[
    str,
    Meta(
        max_length=200,
        description="The target: a name from targets.yaml, echo, local, or a model of a service. Empty for "
        "the target that the suite or the project names. `list_targets` lists the names.",
        examples=["openai:gpt-5.2", "echo"],
    ),
]
_Judges = Annotated[
    tuple[str, ...],
    Meta(max_length=10, description="The judge, named like a target. Empty for the judge of the project."),
]
_Run = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=200,
        description="A run: its id or the start of its id, `last`, or a tag.",
        examples=["last", "20261121-225349-e91629"],
    ),
]
_Wait = Annotated[
    float,
    Meta(
        ge=0,
        le=MAX_WAIT_S,
        description="Return after this many seconds, even if the run is still in progress.",
    ),
]
_Count = Annotated[int, Meta(ge=1, le=1_000_000)]
_ListLimit = Annotated[int, Meta(ge=1, le=100, description="List at most this many.")]


class ValidateArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of `validate`."""

    suite: _Suite


class EstimateArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of `estimate`."""

    suite: _Suite
    target: _Target = ""
    judges: _Judges = ()
    max_cases: Annotated[_Count | None, Meta(description="Run at most this many cases.")] = None
    repeats: Annotated[
        _Count | None, Meta(description="Number of trials per case; null for the project's default.")
    ] = None
    split: Annotated[
        Literal["all", "dev", "holdout"] | None, Meta(description="Only this split of the suite.")
    ] = None
    tags: Annotated[
        tuple[str, ...], Meta(max_length=20, description="Only cases with any of these tags.")
    ] = ()


class StartArguments(EstimateArguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of `run`."""

    budget_usd: Annotated[
        float,
        Meta(gt=0, description="The maximum cost of the run in US dollars, judges included. Required."),
    ]
    wait_s: _Wait = DEFAULT_WAIT_S
    parallel: Annotated[
        bool, Meta(description="Start the run even if another run that costs money is in progress.")
    ] = False


class StatusArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of `status`."""

    run: _Run = "last"
    wait_s: _Wait = 0.0


class StopArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of `stop`."""

    run: _Run


class FailuresArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of `failures`."""

    run: _Run = "last"
    limit: Annotated[int, Meta(ge=1, le=20, description="List at most this many.")] = DEFAULT_FAILURE_LIMIT
    after: Annotated[
        str, Meta(max_length=40, description="`next` of the previous page; empty for the first page.")
    ] = ""


class CompareArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of `compare`."""

    baseline: _Run
    candidate: _Run = "last"
    split: Annotated[Literal["all", "dev", "holdout"], Meta(description="Only this split of the suite.")] = (
        "all"
    )


class ListRunsArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of `list_runs`."""

    suite: Annotated[str, Meta(max_length=200, description="Only runs of this suite; empty for all.")] = ""
    target: Annotated[str, Meta(max_length=200, description="Only runs on this target; empty for all.")] = ""
    limit: _ListLimit = DEFAULT_LIST_LIMIT


class ListArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of `list_suites` and `list_targets`."""

    limit: _ListLimit = DEFAULT_LIST_LIMIT
