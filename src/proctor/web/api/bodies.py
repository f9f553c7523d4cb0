"""Bodies and queries of requests to the API, which FastAPI checks and documents."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from proctor.comparison.outcomes import SplitName
from proctor.dialects import DIALECTS
from proctor.model import GateMode
from proctor.reports.record_fields import Status
from proctor.web.runs.form import MAX_PROMPT_LENGTH, MAX_WRITTEN_PROMPTS

_LINES = '{"id": "t1", "input": "What is 2+2?", "expected": "4", "scorer": "exact"}\n'
_VerdictName = Literal["pass", "fail", "error", "unscored"]
_RUN = "20261121-225349-e91629"
_Name = Annotated[str, Field(min_length=1, max_length=200)]
_Tag = Annotated[str, Field(min_length=1, max_length=200, pattern="^[^,]+$")]
_MAX_INTEGER = 999_999_999_999
_MAX_PARAMS = 50
"""The largest whole number that a run takes."""


class RequestBody(BaseModel):
    """The body of a request: unknown fields and values of another type are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class EmptyRequest(RequestBody):
    """An empty object; the address says everything."""


class WrittenPrompt(RequestBody):
    """A prompt with its text."""

    name: str = Field(
        pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", description="The name of the prompt.", examples=["terse"]
    )
    text: str = Field(
        min_length=1,
        max_length=MAX_PROMPT_LENGTH,
        description="Its text with `{{ variables }}`, or Markdown with a message under each heading "
        "`# system`, `# user` or `# assistant`.",
        examples=["Answer briefly. {{ input }}"],
    )


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
        description="Names from the targets file, `echo`, `local`, or models of known services.",
        examples=[["echo"]],
    )
    prompts: list[_Name | WrittenPrompt] = Field(
        default=[],
        max_length=50,
        description="Prompts that each case fills in; there is one run per prompt and target. Give names "
        f"of prompts of stored runs, or up to {MAX_WRITTEN_PROMPTS} with their texts.",
        examples=[["terse", {"name": "plain", "text": "{{ input }}"}]],
    )
    judges: list[_Name] = Field(default=[], max_length=50, description="Judges, named like targets.")
    split: SplitName | None = Field(default=None, description="Which cases to run.")
    holdout: float | None = Field(
        default=None,
        ge=0,
        lt=1,
        description="The share of cases held out; 0 for none. By default the share that the suite sets.",
    )
    tags: list[_Tag] = Field(default=[], max_length=50, description="Only cases with any of these tags.")
    all_tags: list[_Name] = Field(
        default=[],
        max_length=50,
        description="Only cases with all of these tags; tags separated by commas are alternatives.",
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
    params: dict[str, Any] = Field(
        default={},
        max_length=_MAX_PARAMS,
        description="Other parameters of the targets, such as `top_p`, `stop` or `reasoning_effort`.",
    )
    threshold: float | None = Field(
        default=None, ge=0, le=1, description="The weighted score at which a case passes."
    )
    min_pass_rate: float | None = Field(
        default=None, ge=0, le=1, description="The pass rate below which the exit code reports failure."
    )
    gate_mode: GateMode | None = Field(
        default=None,
        description="What `min_pass_rate` is compared with: the pass rate (`point`), or its 95 % interval.",
    )
    until: float | None = Field(
        default=None,
        ge=0.001,
        le=0.5,
        description="Stop once the pass rate is known to within this: 0.02 for 2 points either way.",
    )
    stop_when_shown: bool | None = Field(
        default=None, description="Stop once `min_pass_rate` is shown or ruled out."
    )
    cluster: _Name | None = Field(
        default=None,
        description="Cases with the same value are related, and intervals are over these clusters: "
        "`metadata.FIELD`, `tag:PREFIX`, `category`, `id` (up to `[` or `~`) or `none`. By default what the "
        "suite's format sets.",
        examples=["metadata.document"],
    )
    interleave: bool | None = Field(
        default=None,
        description="Send each case to all targets before the next, so that latencies can be compared.",
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


class SuiteRequest(RequestBody):
    """A suite as the text of its file."""

    text: str = Field(
        min_length=1,
        max_length=20 * 2**20,
        description="The file's content: JSON Lines, CSV, YAML or Markdown, in any supported suite format.",
        examples=[_LINES],
    )
    name: str = Field(
        default="",
        max_length=200,
        description="The name to save it under; empty for the one in the text or `filename`.",
        examples=["my_suite"],
    )
    filename: str = Field(
        default="",
        max_length=200,
        description="The name of the file, for messages; its extension selects the format.",
        examples=["my_suite.jsonl"],
    )
    dialect: str | None = Field(
        default=None,
        description="Its suite format; by default detected from the content.",
        examples=["meridian"],
        json_schema_extra={"anyOf": [{"type": "string", "enum": [*DIALECTS.names()]}, {"type": "null"}]},
    )
    holdout: float | None = Field(
        default=None,
        ge=0,
        lt=1,
        description="The share of cases held out; 0 for none. By default the share that the text sets, or "
        "0.2.",
    )


class CertificateRequest(RequestBody):
    """The run to certify."""

    run: str = Field(
        min_length=1, max_length=200, description="The full id of a finished run.", examples=[_RUN]
    )
    sign_key: str | None = Field(
        default=None,
        max_length=200,
        description="The name of one of the server owner's keys, as in `proctor keys list`; null for no "
        "signature.",
        examples=["default"],
    )
    min_cases: int | None = Field(
        default=None, ge=1, le=999_999, description="The minimum number of cases; 20 by default."
    )


class ListRunsQuery(BaseModel):
    """Filters for runs; an absent filter matches every run."""

    model_config = ConfigDict(extra="forbid")
    suite: str | None = Field(default=None, description="Only runs of this suite.", examples=["my_suite"])
    version: str | None = Field(default=None, description="Only of this version of it.", examples=["v2"])
    target: str | None = Field(default=None, description="Only runs on this target.")
    prompt: str | None = Field(default=None, description="Only runs with the prompt of this name.")
    tag: str | None = Field(default=None, description="Only runs with this tag.")
    group: str | None = Field(default=None, description="Only runs started together by one command.")
    status: Status | None = Field(default=None, description="Only runs with this status.")
    after: str | None = Field(default=None, description="The `next` of the previous page.")
    limit: int = Field(default=20, ge=1, le=200, description="Maximum number of results.")


class ListTrialsQuery(BaseModel):
    """Filters for trials; an absent filter matches every trial."""

    model_config = ConfigDict(extra="forbid")
    verdict: list[_VerdictName] = Field(default=[], description="Any of these.", examples=[["fail", "error"]])
    tag: list[str] = Field(
        default=[],
        max_length=20,
        description="Cases with all of these tags; tags separated by commas are alternatives.",
    )
    grader: list[str] = Field(default=[], max_length=20, description="Trials graded by all of these graders.")
    missed: list[str] = Field(
        default=[], max_length=20, description="Trials that none of these graders passed."
    )
    category: str = Field(default="", description="Only cases of this category.")
    split: Literal["", "dev", "holdout"] = Field(default="", description="Only this split of the suite.")
    case: str = Field(
        default="", max_length=1000, description="A glob pattern for case ids.", examples=["t1", "t*"]
    )
    text: str = Field(
        default="",
        max_length=1000,
        description="Text in the id, prompt, answer or reasons; case-insensitive.",
    )
    sort: str = Field(
        default="position",
        pattern="^-?(position|case|verdict|score|latency|cost)$",
        description="The sort order; a leading `-` reverses it.",
    )
    after: str = Field(default="", max_length=1000, description="The `next` of the previous page.")
    limit: int = Field(default=50, ge=1, le=200, description="Maximum number of results.")
