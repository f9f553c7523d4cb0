"""Requests and responses about suites and targets.

Response fields are those of `proctor … --json`; all are always present, and null if unknown.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from proctor.dialects import DIALECTS
from proctor.web.api.problems import IssueResource
from proctor.web.api.requests import RequestBody

DIGEST = "sha256:2f1d0a6f0c3f1f0b8f6a3f6f0c9d1d5c7a3c0b1e4d2f5a6978b0c1d2e3f4a5b6"
LINES = '{"id": "t1", "input": "What is 2+2?", "expected": "4", "scorer": "exact"}\n'
Share = float | None
"""A fraction of 1; null if it has no base."""


class SuiteRequest(RequestBody):
    """A suite as the text of its file."""

    text: str = Field(
        min_length=1,
        max_length=20 * 2**20,
        description="The file's content: JSON Lines, CSV, YAML or Markdown, in any supported dialect.",
        examples=[LINES],
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
        description="Its dialect; by default detected from the content.",
        examples=["meridian"],
        json_schema_extra={"anyOf": [{"type": "string", "enum": [*DIALECTS.names()]}, {"type": "null"}]},
    )
    holdout: float | None = Field(
        default=None,
        ge=0,
        lt=1,
        description="The share of cases held out; 0 for none. By default as the text says, or 0.2.",
    )


class FileIssueResource(BaseModel):
    """An error or a warning, with its place."""

    line: int | None
    field: str | None
    case: str | None
    code: str = Field(description="A short stable name.", examples=["leak"])
    message: str = Field(description="A full sentence that says what to do.")


class FileValidationResource(BaseModel):
    """The errors and warnings of one suite."""

    path: str
    dialect: str | None = Field(description="Null if it cannot be detected.")
    cases: int
    errors: list[FileIssueResource] = Field(description="Reasons why it cannot be saved.")
    warnings: list[FileIssueResource] = Field(description="Doubts that do not prevent saving.")


class ValidationResource(BaseModel):
    """A validation, as printed by `proctor validate --json`."""

    files: list[FileValidationResource]
    exit_code: int = Field(description="0 if it can be saved, else 4.")


class SavedSuiteResource(BaseModel):
    """A suite that was saved."""

    suite: str
    version: str = Field(examples=["v1"])
    state: Literal["new", "same", "renewed", "earlier"] = Field(
        description="A new version; the current one, unchanged or with other tags, metadata, order or "
        "holdout; or an earlier one, which becomes current again."
    )
    cases: int
    dialect: str
    suite_digest: str = Field(examples=[DIGEST])
    warnings: list[IssueResource] = Field(description="Its warnings.")


class SuiteVersionResource(BaseModel):
    """One version of a suite."""

    version: str
    current: bool = Field(description="Whether it was the last one saved under the name.")
    saved_at: str
    cases: int
    runs: int = Field(description="Number of its stored runs.")
    dialect: str
    suite_digest: str = Field(examples=[DIGEST])


class SuiteHistoryResource(BaseModel):
    """A suite with all of its versions, oldest first."""

    suite: str
    versions: list[SuiteVersionResource]


class SuiteListResource(BaseModel):
    """All suites, as printed by `proctor suites list --json`."""

    suites: list[SuiteHistoryResource]


class SuiteRunResource(BaseModel):
    """A run of a version."""

    run: str
    target: str
    status: Literal["running", "finished", "interrupted"]
    started_at: str


class SplitSizesResource(BaseModel):
    """The number of dev and holdout cases."""

    dev: int
    holdout: int


class HoldoutAccessResource(BaseModel):
    """One access to a holdout."""

    kind: Literal["rate", "reveal"]
    run: str
    at: str


class SuiteResource(BaseModel):
    """One version, as printed by `proctor suites show --json`."""

    suite: str
    version: str
    current: bool
    saved_at: str
    cases: int
    runs: list[SuiteRunResource]
    dialect: str
    suite_digest: str = Field(examples=[DIGEST])
    description: str | None
    declared_version: str | None = Field(description="The version stated in its file.")
    suite_hash: str | None = Field(description="The published hash, in dialect pramana.")
    splits: SplitSizesResource | None = Field(description="Null if the suite is not split.")
    categories: dict[str, int]
    tags: dict[str, int]
    looks: list[HoldoutAccessResource]


class CaseResource(BaseModel):
    """One case of a version."""

    position: int = Field(description="Its position in the suite, from 0.")
    id: str
    split: Literal["dev", "holdout"] | None
    category: str | None
    tags: list[str]
    graders: list[str]
    sent: str = Field(description="Digest of what a target receives.", examples=[DIGEST])
    judged: str = Field(description="Digest of how its answers are graded.", examples=[DIGEST])


class CasePageResource(BaseModel):
    """A page of the cases of a version, in order."""

    suite: str
    version: str
    cases: list[CaseResource]
    next: int | None = Field(description="The `after` of the next page; null on the last one.")


class ChangedFieldResource(BaseModel):
    """A field that changed; null if it is absent or has its default."""

    field: str = Field(examples=["input[0].content"])
    old: Any
    new: Any


class ChangedCaseResource(BaseModel):
    """A case that differs between the versions."""

    case: str
    fields: list[ChangedFieldResource]


class RenamedCaseResource(BaseModel):
    """A case that only has another id."""

    old: str
    new: str


class DiffSideResource(BaseModel):
    """One of the two versions."""

    suite: str
    version: str
    suite_digest: str = Field(examples=[DIGEST])
    cases: int


class SuiteDiffResource(BaseModel):
    """Changes between versions, as printed by `proctor suites diff --json`."""

    old: DiffSideResource
    new: DiffSideResource
    added: list[str]
    removed: list[str]
    renamed: list[RenamedCaseResource]
    changed: list[ChangedCaseResource]
    header: list[ChangedFieldResource] = Field(description="Changes of the suite itself.")
    moved: int
    same: int
    exit_code: int


class ExportedFileResource(BaseModel):
    """A file of an exported suite."""

    path: str = Field(description="Its path, with `/` between folders.", examples=["my_suite.jsonl"])
    text: str | None = Field(description="Its content; null if it is not text.")
    base64: str | None = Field(description="Its content if it is not text.")


class SuiteExportResource(BaseModel):
    """A version in a dialect."""

    suite: str
    version: str
    dialect: str
    files: list[ExportedFileResource]
    warnings: list[IssueResource] = Field(
        description="What the dialect expresses differently, or cannot express."
    )


class TargetResource(BaseModel):
    """A target that can be called."""

    name: str = Field(examples=["gpt"])
    kind: str = Field(examples=["openai"])


class TargetListResource(BaseModel):
    """The targets that can be called: those of this folder's targets file, and the built-in ones."""

    targets: list[TargetResource]
