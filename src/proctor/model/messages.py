"""The nouns that cases and outputs are made of: messages with their attachments, and workspaces.

Part of `proctor.model.suites_and_runs`, which is where everything else imports them from.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct


class Noun(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A frozen record; a field at its default is left out of its JSON, so new fields keep old digests.

    What is frozen can hold no cycle, so the garbage collector need not look at it.
    """


# --- messages ----------------------------------------------------------------------------------------------


class ToolCall(Noun, frozen=True, kw_only=True):
    """One call of a tool: what a message asks for, and what came of it where that is known."""

    name: str
    arguments: dict[str, Any] = {}
    id: str | None = None
    output: Any = None
    """What the tool gave back, as the target reported it."""
    duration_ms: float | None = None
    """How long the tool took; None when the target did not say."""


class Attachment(Noun, frozen=True, kw_only=True):
    """A file or an image inside a message, with all of its content."""

    kind: Literal["file", "image"]
    path: str
    """As the suite names it, with `/` between folders; never opened again."""
    media_type: str = "text/plain"
    text: str | None = None
    """The content of a text file, its line endings `\\n`."""
    data: bytes = b""
    """The content of anything else."""


class Message(Noun, frozen=True, kw_only=True):
    """One turn of a conversation."""

    role: str
    content: str = ""
    """Its text; where there are parts, their texts with what stands between them."""
    name: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    parts: tuple[str | Attachment, ...] = ()
    """Texts and attachments in order; empty for a message that is its text alone."""
    inline: bool = False
    """The parts are one running text, with its own white space; else an empty line is between them."""

    @property
    def between(self) -> str:
        """What stands between two parts where the message is one text."""
        return "" if self.inline else "\n\n"


class Tool(Noun, frozen=True, kw_only=True):
    """Something that a target may call, as it is described to it."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = {}
    """A JSON schema of the arguments."""


class Form(Noun, frozen=True, kw_only=True):
    """What is asked of a target besides the messages; a part of what is sent."""

    json: bool = False
    """The answer is to be JSON."""
    schema: dict[str, Any] | None = None
    """A JSON schema that the answer is to follow."""
    tools: tuple[Tool, ...] = ()
    special_tags: tuple[str, ...] = ()
    """Tags that say how the case is asked, sorted; not sent."""


# --- workspaces --------------------------------------------------------------------------------------------


class Hook(Noun, frozen=True, kw_only=True):
    """A command that runs at a fixed moment in the life of a workspace."""

    command: tuple[str, ...] = ()
    """The program and its arguments; empty for a hook that only resets."""
    timeout_s: float | None = None
    """None: 60 s before, 30 s after."""
    cwd: str | None = None
    """Relative to the suite's folder; None is that folder."""
    reset: Literal["none", "fast", "strict"] = "none"
    """What is undone afterwards: nothing, changes to files, or ignored files as well."""


class Repository(Noun, frozen=True, kw_only=True):
    """A git repository that is put into a workspace."""

    path: str
    """Where in the workspace."""
    source: str
    """A URL, or a folder relative to the suite's."""
    local: bool = False
    """The source is a folder."""
    ref: str = "HEAD"
    ancestor: int = 0
    """This many commits before `ref`."""
    depth: int | None = None
    sparse: tuple[str, ...] = ()


class Hooks(Noun, frozen=True, kw_only=True):
    """The four moments of a workspace at which a command can run."""

    before_all: Hook | None = None
    before_each: Hook | None = None
    after_each: Hook | None = None
    after_all: Hook | None = None


class Workspace(Noun, frozen=True, kw_only=True):
    """The folder in which an agent works, made from the suite's paths; equal ones make a group of cases."""

    template: str | None = None
    """A folder that is copied; its `.git` is left out."""
    isolation: Literal["shared", "per_test"] = "shared"
    repositories: tuple[Repository, ...] = ()
    hooks: Hooks = Hooks()
    path: str | None = None
    """A folder that is there already: used as it is, filled when it is empty, and never removed."""
