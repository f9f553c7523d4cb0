"""The shapes of what the API reads and answers about suites and targets, for checking and for its document.

An answer's fields are those of `proctor … --json`; each is always there, and null where nothing is known.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from proctor.dialects import DIALECTS
from proctor.web.api.problems import Issue
from proctor.web.api.requests import RequestBody

DIGEST = "sha256:2f1d0a6f0c3f1f0b8f6a3f6f0c9d1d5c7a3c0b1e4d2f5a6978b0c1d2e3f4a5b6"
LINES = '{"id": "t1", "input": "What is 2+2?", "expected": "4", "scorer": "exact"}\n'
Share = float | None
"""A share of 1; null where there is nothing to take a share of."""


class SuiteText(RequestBody):
    """A suite as text, as it would stand in its file."""

    text: str = Field(
        min_length=1,
        max_length=20 * 2**20,
        description="The file's content: JSON Lines, CSV, YAML or Markdown, in any dialect that is read.",
        examples=[LINES],
    )
    name: str = Field(
        default="",
        max_length=200,
        description="The name under which it is saved; empty for the one that the text or `filename` gives.",
        examples=["my_suite"],
    )
    filename: str = Field(
        default="",
        max_length=200,
        description="What the file is called, for messages; its ending says how it is read.",
        examples=["my_suite.jsonl"],
    )
    dialect: str | None = Field(
        default=None,
        description="Its dialect, instead of finding it from the content.",
        examples=["meridian"],
        json_schema_extra={"anyOf": [{"type": "string", "enum": [*DIALECTS.names()]}, {"type": "null"}]},
    )
    holdout: float | None = Field(
        default=None,
        ge=0,
        lt=1,
        description="The share of the cases that is held out; 0 for none. Without it as the text says, "
        "else 0.2.",
    )


class FileIssue(BaseModel):
    """An error or a warning, with its place."""

    line: int | None
    field: str | None
    case: str | None
    code: str = Field(description="A short stable name.", examples=["leak"])
    message: str = Field(description="A full sentence that says what to do.")


class FileValidation(BaseModel):
    """What was found in one suite."""

    path: str
    dialect: str | None = Field(description="Null where it cannot be told.")
    cases: int
    errors: list[FileIssue] = Field(description="What keeps it from being saved.")
    warnings: list[FileIssue] = Field(description="What is doubtful and does not.")


class Validation(BaseModel):
    """What `proctor validate --json` prints."""

    files: list[FileValidation]
    exit_code: int = Field(description="0 when it can be saved, 4 when not.")


class SavedSuite(BaseModel):
    """A suite that was saved."""

    suite: str
    version: str = Field(examples=["v1"])
    state: Literal["new", "same", "renewed", "earlier"] = Field(
        description="A new version; the current one, as it was or with other tags, metadata, order or "
        "holdout; or an earlier one, which is current again."
    )
    cases: int
    dialect: str
    suite_digest: str = Field(examples=[DIGEST])
    warnings: list[Issue] = Field(description="What is doubtful in it.")


class SuiteVersion(BaseModel):
    """One version of a suite."""

    version: str
    current: bool = Field(description="It is the one last saved under the name.")
    saved_at: str
    cases: int
    runs: int = Field(description="How many runs of it are stored.")
    dialect: str
    suite_digest: str = Field(examples=[DIGEST])


class SuiteHistory(BaseModel):
    """A suite with all of its versions, oldest first."""

    suite: str
    versions: list[SuiteVersion]


class SuiteList(BaseModel):
    """What `proctor suites list --json` prints."""

    suites: list[SuiteHistory]


class SuiteRun(BaseModel):
    """A run of a version."""

    run: str
    target: str
    status: Literal["running", "finished", "interrupted"]
    started_at: str


class SplitSizes(BaseModel):
    """How many cases are dev, and how many are held out."""

    dev: int
    holdout: int


class HoldoutAccess(BaseModel):
    """One look at a holdout."""

    kind: Literal["rate", "reveal"]
    run: str
    at: str


class Suite(BaseModel):
    """What `proctor suites show --json` prints of one version."""

    suite: str
    version: str
    current: bool
    saved_at: str
    cases: int
    runs: list[SuiteRun]
    dialect: str
    suite_digest: str = Field(examples=[DIGEST])
    description: str | None
    declared_version: str | None = Field(description="What its file says of its version.")
    suite_hash: str | None = Field(description="The published hash, in dialect pramana.")
    splits: SplitSizes | None = Field(description="Null for a suite that is not split.")
    categories: dict[str, int]
    tags: dict[str, int]
    looks: list[HoldoutAccess]


class Case(BaseModel):
    """One case of a version."""

    position: int = Field(description="Its place in the suite, from 0.")
    id: str
    split: Literal["dev", "holdout"] | None
    category: str | None
    tags: list[str]
    graders: list[str]
    sent: str = Field(description="The digest of what a target receives.", examples=[DIGEST])
    judged: str = Field(description="The digest of how its answers are judged.", examples=[DIGEST])


class CasePage(BaseModel):
    """Some cases of a version, in order."""

    suite: str
    version: str
    cases: list[Case]
    next: int | None = Field(description="The `after` of the following page; null on the last.")


class ChangedField(BaseModel):
    """A field that is not what it was; null where it is not there or has its default."""

    field: str = Field(examples=["input[0].content"])
    old: Any
    new: Any


class ChangedCase(BaseModel):
    """A case that is in both and not the same."""

    case: str
    fields: list[ChangedField]


class RenamedCase(BaseModel):
    """A case that is asked and judged as before under another id."""

    old: str
    new: str


class DiffSide(BaseModel):
    """One of the two versions."""

    suite: str
    version: str
    suite_digest: str = Field(examples=[DIGEST])
    cases: int


class SuiteDiff(BaseModel):
    """What `proctor suites diff --json` prints."""

    old: DiffSide
    new: DiffSide
    added: list[str]
    removed: list[str]
    renamed: list[RenamedCase]
    changed: list[ChangedCase]
    header: list[ChangedField] = Field(description="What changed in the suite itself.")
    moved: int
    same: int
    exit_code: int


class ExportedFile(BaseModel):
    """A file of an exported suite."""

    path: str = Field(description="Its name; `/` between folders.", examples=["my_suite.jsonl"])
    text: str | None = Field(description="Its content; null for one that is no text.")
    base64: str | None = Field(description="The content of one that is no text.")


class SuiteExport(BaseModel):
    """A version in a dialect."""

    suite: str
    version: str
    dialect: str
    files: list[ExportedFile]
    warnings: list[Issue] = Field(description="What the dialect says otherwise, or what was left out.")


class Target(BaseModel):
    """Somebody who can be asked."""

    name: str = Field(examples=["gpt"])
    kind: str = Field(examples=["openai"])


class TargetList(BaseModel):
    """Who can be asked from here: the targets of this folder's targets file, and what needs no file."""

    targets: list[Target]
