"""Records that only the API gives; the others are those of `proctor … --json`, from `proctor.reports`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from proctor.reports.certificates.run_certificate import CertificateRecord
from proctor.reports.record_fields import Digest, RunId, Status, Time, about
from proctor.reports.runs.json import IssueRecord
from proctor.reports.runs.records import RunSummaryRecord, TrialRecord
from proctor.reports.suites import CaseRecord

# --- suites and targets ------------------------------------------------------------------------------------


class SavedSuiteRecord(Struct, frozen=True, kw_only=True):
    """A suite that was saved."""

    suite: str
    version: Annotated[str, Meta(examples=["v1"])]
    state: Annotated[
        Literal["new", "same", "renewed", "earlier"],
        about(
            "A new version; the current one, unchanged or with other tags, metadata, order, holdout or "
            "prompts; or an earlier one, which becomes current again."
        ),
    ]
    cases: int
    dialect: str
    suite_digest: Digest
    warnings: Annotated[tuple[IssueRecord, ...], about("Its warnings.")]


class CasePageRecord(Struct, frozen=True, kw_only=True):
    """A page of the cases of a version, in order."""

    suite: str
    version: str
    cases: tuple[CaseRecord, ...]
    next: Annotated[int | None, about("The `after` of the next page; null on the last one.")]


class ExportedFileRecord(Struct, frozen=True, kw_only=True):
    """A file of an exported suite."""

    path: Annotated[str, about("Its path, with `/` between folders.", "my_suite.jsonl")]
    text: Annotated[str | None, about("Its content; null if it is not text.")]
    base64: Annotated[str | None, about("Its content if it is not text.")]


class SuiteExportRecord(Struct, frozen=True, kw_only=True):
    """A version in a suite format."""

    suite: str
    version: str
    dialect: str
    files: tuple[ExportedFileRecord, ...]
    warnings: Annotated[
        tuple[IssueRecord, ...], about("What the format expresses differently, or cannot express.")
    ]


class TargetRecord(Struct, frozen=True, kw_only=True):
    """A target that can be called."""

    name: Annotated[str, Meta(examples=["gpt"])]
    kind: Annotated[str, Meta(examples=["openai"])]


class TargetListRecord(Struct, frozen=True, kw_only=True):
    """The targets that can be called: those of this folder's targets file, and the built-in ones."""

    targets: tuple[TargetRecord, ...]


# --- runs --------------------------------------------------------------------------------------------------


class RunPageRecord(Struct, frozen=True, kw_only=True):
    """A page of runs, newest first."""

    runs: tuple[RunSummaryRecord, ...]
    next: Annotated[str | None, about("The `after` of the next page; null on the last one.")]


class RunProgressRecord(Struct, frozen=True, kw_only=True):
    """The progress of a run; if `sealed`, the counts by verdict are null."""

    run: RunId
    group: str
    status: Annotated[Status, about("`interrupted` includes runs whose process died.")]
    planned: Annotated[int, about("Number of planned trials.")]
    missing: int
    sealed: bool
    passed: int | None
    failed: int | None
    errors: int | None
    unscored: int | None
    started_at: Time
    alive: Annotated[bool, about("Whether a process is running it now.")]
    owner: Annotated[str | None, about("That process, such as `ana's process 4711 on gpu-3`.")]
    done: Annotated[int, about("Number of trials with a verdict.")]
    waiting: Annotated[int, about("Number of answers that wait for judges.")]
    per_second: Annotated[float | None, about("Trials per second; null if no process is running it.")]
    seconds_left: Annotated[float | None, about("Estimated time left.")]
    cost_usd: Annotated[float | None, about("Cost of the target so far; null if the price is unknown.")]
    at: Annotated[Time, about("Time of this response.")]


class TrialPageRecord(Struct, frozen=True, kw_only=True):
    """A page of trials of a run."""

    trials: tuple[TrialRecord, ...]
    total: Annotated[int, about("Number of matching trials on all pages.")]
    whole: Annotated[
        bool, about("Whether every finished trial has been read; if not, repeat the request in a moment.")
    ]
    next: Annotated[str | None, about("The `after` of the next page; null on the last one.")]
    previous: str | None


class RevealRecord(Struct, frozen=True, kw_only=True):
    """A run whose held-out answers are shown until the server stops."""

    run: str
    looks: Annotated[int, about("Number of accesses to this version's holdout, this one included.")]


class EstimatePartRecord(Struct, frozen=True, kw_only=True):
    """The estimate for one target or judge."""

    name: str
    judging: bool
    calls: int
    input_tokens: int
    output_tokens: int
    counted: Annotated[
        bool, about("Whether it is based on earlier runs of the suite; else on the length of texts.")
    ]
    cost_usd: float | None
    seconds: float | None


class EstimateRecord(Struct, frozen=True, kw_only=True):
    """The estimate of a run; null if a price or a speed is unknown."""

    sentence: str
    cases: int
    dev: int | None
    holdout: int | None
    targets: int
    prompts: Annotated[int, about("Number of prompts; 0 if the cases are sent unchanged.")]
    calls: Annotated[int, about("Number of calls to targets.")]
    judge_calls: int
    at_most: Annotated[bool, about("Whether answers may be reused from earlier runs or the cache.")]
    cost_usd: float | None
    seconds: float | None
    notes: tuple[str, ...]
    shares: tuple[EstimatePartRecord, ...]
    command: Annotated[str, about("The equivalent command.")]


class StartRecord(Struct, frozen=True, kw_only=True):
    """Runs started here, by a process of its own that continues when this server stops."""

    group: Annotated[str, about("The group of the runs.")]
    command: str
    alive: Annotated[bool, about("Whether the process is running.")]
    runs: Annotated[tuple[str, ...], about("Ids of its runs in the store so far.")]
    said: Annotated[tuple[str, ...], about("The last lines that the process wrote to stderr.")]
    started_at: Time


class StopStatusRecord(Struct, frozen=True, kw_only=True):
    """What is stopping: calls in progress get a moment to end, and finished trials are kept."""

    run: str | None
    group: str
    stopping: bool = True


# --- certificates ------------------------------------------------------------------------------------------


class StoredCertificateRecord(Struct, frozen=True, kw_only=True):
    """A certificate that was created on this server."""

    run: RunId
    made_at: Time
    certificate: CertificateRecord
    badge_markdown: Annotated[str, about("The badge for a README.")]
    files: Annotated[
        dict[str, str],
        about("Addresses of its files: `certificate`, `markdown`, `badge`, `bundle`, perhaps `public`."),
    ]


class CertificateListRecord(Struct, frozen=True, kw_only=True):
    """The certificates created on this server, newest first."""

    certificates: tuple[StoredCertificateRecord, ...]


class CheckRecord(Struct, frozen=True, kw_only=True):
    """One check of a bundle."""

    check: str
    held: Annotated[bool | None, about("Null if it was not reached.")]


class VerificationRecord(Struct, frozen=True, kw_only=True):
    """The result of checking a bundle."""

    holds: bool
    wrong: Annotated[str | None, about("The first thing that is wrong.")]
    checks: tuple[CheckRecord, ...]
    bundle: Annotated[
        dict[str, Any] | None, about("The content of a valid bundle, as in `proctor verify --json`.")
    ]


# --- problems ----------------------------------------------------------------------------------------------


class ProblemDetails(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of a problem response (RFC 9457)."""

    type: Annotated[str, about("Identifies the kind of problem.", "/api/v1/problems/not-found")]
    title: Annotated[str, about("What kind of problem this is.", "Not found")]
    status: Annotated[int, about("The HTTP status.", 404)]
    detail: Annotated[str, about("A full sentence that says what to do.")]
    instance: Annotated[str, about("The requested path.")] = ""
    errors: Annotated[tuple[IssueRecord, ...], about("Each error in the request; often empty.")]
