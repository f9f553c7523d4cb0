"""Messages with their attachments and tool calls, and workspaces.

Import these types from `proctor.model`.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The base of all data types: frozen, and without fields at their defaults in its JSON.

    Leaving defaults out keeps old digests valid when a field is added. Frozen data can hold no cycle, so the
    garbage collector does not track it (`gc=False`).
    """


# --- messages ----------------------------------------------------------------------------------------------


class ToolCall(Record, frozen=True, kw_only=True):
    """One call of a tool, with its result if it is known."""

    name: str
    arguments: dict[str, Any] = {}
    id: str | None = None
    output: Any = None
    """The tool's result, as the target reported it."""
    duration_ms: float | None = None
    """How long the tool took; None if the target did not report it."""


AttachmentKind = Literal["file", "image", "audio", "video"]
"""What a suite says that an attachment is."""
Medium = Literal["text", "image", "pdf", "audio", "video", "file"]
"""What the receiver of an attachment must be able to read."""


class Attachment(Record, frozen=True, kw_only=True):
    """A file, an image, audio or a video inside a message, with all of its content.

    Examples:
        >>> from proctor import Attachment
        >>> Attachment(kind="file", path="a.pdf", media_type="application/pdf", data=b"%PDF-1.7").medium
        'pdf'
    """

    kind: AttachmentKind
    path: str
    """The path as the suite gives it, with `/` between folders; the file is not opened again."""
    media_type: str = "text/plain"
    text: str | None = None
    """The content of a text file, its line endings `\\n`."""
    data: bytes = b""
    """The content of any other file."""

    @property
    def medium(self) -> Medium:
        """What its receiver must be able to read: its kind, or what the media type of a file says."""
        if self.text is not None:
            return "text"
        if self.kind != "file":
            return self.kind
        if self.media_type == "application/pdf":
            return "pdf"
        families: tuple[AttachmentKind, ...] = ("image", "audio", "video")
        return next((family for family in families if self.media_type.startswith(f"{family}/")), "file")


class Message(Record, frozen=True, kw_only=True):
    """One turn of a conversation.

    Examples:
        >>> from proctor import Message
        >>> Message(role="user", content="What is 2 + 2?").content
        'What is 2 + 2?'
    """

    role: str
    content: str = ""
    """The text; if there are parts, their texts joined by `between`."""
    name: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    parts: tuple[str | Attachment, ...] = ()
    """Texts and attachments in order; empty for a message without attachments."""
    inline: bool = False
    """Whether the parts are one running text with its own white space; if not, empty lines separate them."""

    @property
    def between(self) -> str:
        """The separator of parts in `content`."""
        return "" if self.inline else "\n\n"


class Tool(Record, frozen=True, kw_only=True):
    """A tool that a target may call, as it is described to the target."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = {}
    """A JSON schema of the arguments."""


class ResponseFormat(Record, frozen=True, kw_only=True):
    """The answer format, the tools and the parameters of a request, in addition to the messages."""

    json: bool = False
    """Whether the answer must be JSON."""
    schema: dict[str, Any] | None = None
    """A JSON schema for the answer."""
    tools: tuple[Tool, ...] = ()
    special_tags: tuple[str, ...] = ()
    """Tags that determine how the case is sent, sorted; they are not sent themselves."""
    params: dict[str, Any] = {}
    """The case's own parameters by their names in `Params`, such as `top_p`."""
    choices: tuple[str, ...] = ()
    """The answers to choose from: the target reports how likely each one is, instead of writing one."""
    choice_delimiter: str | None = None
    """Goes before each choice; None for a space, or for nothing after a chat template."""


# --- workspaces --------------------------------------------------------------------------------------------


class Hook(Record, frozen=True, kw_only=True):
    """A command that runs at a fixed moment in the life of a workspace."""

    command: tuple[str, ...] = ()
    """The program and its arguments; empty for a hook that only resets."""
    timeout_s: float | None = None
    """The timeout in seconds; None for 60 s before trials, and 30 s after."""
    cwd: str | None = None
    """Relative to the suite's folder; None is that folder."""
    reset: Literal["none", "fast", "strict"] = "none"
    """What is reset afterwards: nothing, changes to files, or also ignored files."""


class Repository(Record, frozen=True, kw_only=True):
    """A git repository that is checked out in a workspace."""

    path: str
    """The folder inside the workspace."""
    source: str
    """A URL, or a folder relative to the suite's folder."""
    local: bool = False
    """Whether the source is a folder."""
    ref: str = "HEAD"
    ancestor: int = 0
    """The number of commits to go back from `ref`."""
    depth: int | None = None
    sparse: tuple[str, ...] = ()


class Hooks(Record, frozen=True, kw_only=True):
    """The commands that run at four points in the life of a workspace."""

    before_all: Hook | None = None
    before_each: Hook | None = None
    after_each: Hook | None = None
    after_all: Hook | None = None


class Workspace(Record, frozen=True, kw_only=True):
    """The folder in which an agent works; cases with equal workspaces form a group."""

    template: str | None = None
    """A folder that is copied; its `.git` is left out."""
    isolation: Literal["shared", "per_test"] = "shared"
    repositories: tuple[Repository, ...] = ()
    hooks: Hooks = Hooks()
    path: str | None = None
    """An existing folder: used as it is, filled if it is empty, and never removed."""
