"""The arguments of each tool: what a client may say, with its limits.

Nothing here becomes a path outside the folder, a program or an address: suites are looked up below the folder
and in the store, targets among those that may be called by name.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

MAX_WAIT_S: Final = 600.0
DEFAULT_WAIT_S: Final = 45.0
"""Below the minute after which many clients give a call up."""
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
        description="What is asked: a name of targets.yaml, echo, local, or a model of a service. Empty for "
        "the target of the suite or the project. `list_targets` has the names.",
        examples=["openai:gpt-5.2", "echo"],
    ),
]
_Judges = Annotated[
    tuple[str, ...],
    Meta(max_length=10, description="Who judges, named as targets are; empty for the project's."),
]
_Run = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=200,
        description="A run: its id or the beginning of one, `last`, or a tag.",
        examples=["last", "20261121-225349-e91629"],
    ),
]
_Wait = Annotated[
    float,
    Meta(ge=0, le=MAX_WAIT_S, description="Return after this number of seconds, even if the run goes on."),
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
        _Count | None, Meta(description="Ask each case so often; null for the project's default.")
    ] = None
    split: Annotated[
        Literal["all", "dev", "holdout"] | None, Meta(description="Only this part of the suite.")
    ] = None
    tags: Annotated[
        tuple[str, ...], Meta(max_length=20, description="Only cases with any of these tags.")
    ] = ()


class StartArguments(EstimateArguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of `run`."""

    budget_usd: Annotated[
        float,
        Meta(gt=0, description="The most that the run may spend, judges included, in US dollars. Mandatory."),
    ]
    wait_s: _Wait = DEFAULT_WAIT_S
    parallel: Annotated[
        bool, Meta(description="Start it although another run that costs money is going on.")
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
        str, Meta(max_length=40, description="`next` of the page before; empty for the first.")
    ] = ""


class CompareArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of `compare`."""

    baseline: _Run
    candidate: _Run = "last"
    split: Annotated[Literal["all", "dev", "holdout"], Meta(description="Only this part of the suite.")] = (
        "all"
    )


class ListRunsArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of `list_runs`."""

    suite: Annotated[str, Meta(max_length=200, description="Only runs of this suite; empty for all.")] = ""
    target: Annotated[str, Meta(max_length=200, description="Only runs of this target; empty for all.")] = ""
    limit: _ListLimit = DEFAULT_LIST_LIMIT


class ListArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of `list_suites` and `list_targets`."""

    limit: _ListLimit = DEFAULT_LIST_LIMIT
