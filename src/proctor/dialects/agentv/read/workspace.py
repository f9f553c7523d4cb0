"""Parses `workspace` of an agentv suite and of its tests into `model.Workspace`.

Each of the two is checked separately and becomes a `WorkspaceLevel`. A test's level is then merged into its
suite's. A workspace may be in its own file, to which its paths are relative.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from posixpath import dirname, isabs, join, normpath
from typing import Any, Final

from msgspec import Struct

from proctor import field_schemas as schemas
from proctor.dialects.agentv.shared import (
    PROSE_FIELDS,
    finish,
    read_texts,
    resolve_alias,
    resolve_references,
)
from proctor.dialects.shared.yaml_files import display_path, find_file, ignore_fields, parse_yaml
from proctor.field_schemas import Fields
from proctor.model import Hook, Hooks, Repository, Workspace
from proctor.protocols import SuiteSource
from proctor.validation import FieldReader, FieldSpec, NumberLimit, ProblemLog

HOOK_NAMES: Final = ("before_all", "before_each", "after_each", "after_all")
ISOLATIONS: Final = ("shared", "per_test")
MODES: Final = ("pooled", "temp", "static")
RESETS: Final = ("none", "fast", "strict")

WORKSPACE_FIELDS: Final[Fields] = {
    "template": schemas.words("The folder that is copied into the workspace."),
    "isolation": schemas.choice(ISOLATIONS, "Whether all tests share one workspace."),
    "repos": schemas.list_of(schemas.ref("repository"), "Repositories that are cloned into the workspace."),
    "hooks": schemas.ref("hooks", "Commands that run before and after tests."),
    "mode": schemas.choice(MODES, "`static` uses the folder in `path`; the other values have no effect."),
    "path": schemas.words("An existing folder to use instead of a new one."),
    "docker": schemas.UNUSED,
    "env": schemas.UNUSED,
}
HOOKS_FIELDS: Final[Fields] = {
    **{name: schemas.ref("hook", f"What is run {name.replace('_', ' ')}.") for name in HOOK_NAMES},
    "enabled": schemas.of_type("boolean", "Whether the hooks run."),
}
_COMMAND: Final = schemas.either(
    schemas.words(),
    schemas.list_of(schemas.text(), minItems=1),
    about="The command and its arguments, as a list or as one text.",
)
HOOK_FIELDS: Final[Fields] = {
    "command": _COMMAND,
    "script": {**_COMMAND, "deprecated": True},
    "timeout_ms": schemas.of_type("number", "Time limit in milliseconds.", exclusiveMinimum=0),
    "cwd": schemas.words("The working directory of the command."),
    "reset": schemas.choice(RESETS, "How repositories are reset after it."),
}
_COMMIT: Final = schemas.text("The commit, branch or tag to check out.")
_ANCESTOR: Final = schemas.of_type("integer", "How many commits before that one to check out.", minimum=0)
_SPARSE: Final = schemas.list_of(schemas.text(), "The only folders to check out.")
REPOSITORY_FIELDS: Final[Fields] = {
    "path": schemas.words("The folder of the repository in the workspace."),
    "repo": schemas.words("The URL of the repository, OWNER/NAME on GitHub, or a local folder."),
    "commit": _COMMIT,
    "base_commit": _COMMIT,
    "ancestor": _ANCESTOR,
    "sparse": _SPARSE,
    "source": schemas.ref("repository_source", "The source of the repository."),
    "checkout": schemas.ref("checkout", "What to check out."),
    "clone": schemas.ref("clone", "How to clone it."),
    "resolver": schemas.UNUSED,
}
CHECKOUT_FIELDS: Final[Fields] = {"ref": _COMMIT, "resolve": schemas.UNUSED, "ancestor": _ANCESTOR}
CLONE_FIELDS: Final[Fields] = {
    "depth": schemas.of_type("integer", "How many commits to clone.", minimum=1),
    "filter": schemas.UNUSED,
    "sparse": _SPARSE,
}
SOURCE_FIELDS: Final[Mapping[str, Fields]] = {
    "git": {"type": {"const": "git"}, "url": schemas.words("The URL of the repository.")},
    "local": {"type": {"const": "local"}, "path": schemas.words("The folder of the repository.")},
}
"""The fields of `source` by its type."""
REMOVED_FIELDS: Final = {
    "static_path": "Write `path`.",
    "static": "Set `path` to the existing folder.",
    "pool": "Remove it: each run creates a new workspace.",
}
_UNRESOLVED_FIELDS: Final = frozenset(
    ("command", "script", "repo", "url", "commit", "base_commit", "ref", *PROSE_FIELDS)
)
"""Fields whose references stay: they may hold a secret, go to a program, or are prose."""
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|[\w.-]+@[\w.-]+:")
_GITHUB_REPOSITORY: Final = re.compile(r"(?!\.)[\w.-]+/(?!\.)[\w.-]+")


class WorkspaceLevel(Struct, frozen=True, kw_only=True):
    """The workspace settings of a suite or of one test."""

    fields: dict[str, Any] = {}
    """Fields of `Workspace`, without hooks."""
    hooks: dict[str, dict[str, Any]] = {}
    """Fields of `Hook` by hook name; `near` marks a folder that was derived from the hook's file."""
    enabled: bool | None = None
    """Whether hooks run; None if it is not set, which means yes."""
    unused_fields: dict[str, Any] = {}
    """Fields that have no effect here."""


# --- one level ---------------------------------------------------------------------------------------------


def read_workspace_level(fields: FieldReader, source: SuiteSource) -> WorkspaceLevel | None:
    """Reads the field `workspace`, inline or from a file; None if it is absent or wrong."""
    value: Any = fields.pop("workspace")
    if value is None:
        return None
    place = fields.path_to("workspace")
    if isinstance(value, dict):
        return _parse_level(value, fields.problem_log, place + ".", "", source)
    if not isinstance(value, str):
        fields.report_wrong_type("workspace", value, "an object, or the path of a YAML file")
        return None
    path = str(resolve_references(value, source, fields.problem_log, place))
    file = find_file(path, source, fields.problem_log, place, fields.line_for("workspace"))
    if file is None:
        return None
    notes = ProblemLog(display_path(source, file.path), 1)
    notes.row = fields.problem_log.row
    row = parse_yaml(file.data, notes)
    level = None
    if isinstance(row, dict):
        level = _parse_level(row, notes, "workspace.", dirname(file.path), source)
    elif not notes.has_errors:
        notes.error("not-an-object", "A workspace file must contain an object with fields such as `hooks`.")
    fields.problem_log.extend(notes)
    return level


def _parse_level(
    row: dict[str, Any], notes: ProblemLog, prefix: str, folder: str, source: SuiteSource
) -> WorkspaceLevel:
    fields = FieldReader(
        resolve_references(row, source, notes, prefix.removesuffix("."), _UNRESOLVED_FIELDS), notes, prefix
    )
    fields.drop_null()
    for name, instead in REMOVED_FIELDS.items():
        if name in fields:
            fields.pop(name)
            fields.error("removed-field", name, f"is no longer a field. {instead}")
    values: dict[str, Any] = {}
    ignored: dict[str, Any] = {}
    for name in ("template", "path"):
        if name in fields:
            values[name] = _rebase_path(_read_path(fields, name), folder)
    if values.get("path") and _is_in_or_above(values["path"], source.folder or "/suite"):
        message = (
            f"is {values['path']!r}: an agent would work in the folder of the suite, or in one around it. "
        )
        fields.error("bad-path", "path", f"{message}Name a separate folder.")
    if source.folder and values.get("template") and not source.expand_glob(values["template"] + "/"):
        message = (
            f"is {values['template']!r}, and there is no such folder. The path is relative to the "
            f"folder of the suite."
        )
        fields.error("missing-folder", "template", message)
    if "isolation" in fields:
        values["isolation"] = fields.choice("isolation", ISOLATIONS)
    mode = fields.choice("mode", MODES) if "mode" in fields else ""
    if mode == "static" and "path" not in values:
        fields.error("missing-field", "path", "is missing; mode 'static' needs the folder that it names.")
    elif mode in {"pooled", "temp"}:
        ignored["workspace.mode"] = mode
        fields.warn("no-effect", "mode", "has no effect here: each run creates a new workspace.")
    if "repos" in fields:
        values["repositories"] = _parse_repositories(fields, folder, source)
    enabled, hooks = _parse_hooks(fields, folder)
    ignore_fields(fields, ("docker", "env"), ignored, "workspace.")
    finish(fields, tuple(WORKSPACE_FIELDS))
    return WorkspaceLevel(fields=values, hooks=hooks, enabled=enabled, unused_fields=ignored)


def _read_path(fields: FieldReader, name: str) -> str:
    path = fields.required_text(name)
    if "\0" in path:
        fields.error("bad-path", name, f"is {path!r}; a path cannot contain the null character.")
        return ""
    return path


def _rebase_path(path: str, folder: str) -> str:
    """Returns a path that is relative to the given folder as relative to the suite's folder."""
    return normpath(join(folder, path.replace("\\", "/"))) if path else path


def _is_in_or_above(path: str, folder: str) -> bool:
    """Whether a path leads to the folder, or to one above it."""
    return f"{folder}/".startswith(f"{normpath(join(folder, path)).rstrip('/')}/")


# --- hooks -------------------------------------------------------------------------------------------------


def _parse_hooks(fields: FieldReader, folder: str) -> tuple[bool | None, dict[str, dict[str, Any]]]:
    inner = fields.object("hooks")
    if inner is None:
        return None, {}
    inner.drop_null()
    enabled = inner.boolean("enabled", True) if "enabled" in inner else None
    hooks: dict[str, dict[str, Any]] = {}
    for moment in HOOK_NAMES:
        hook = inner.object(moment)
        if hook is not None:
            hooks[moment] = _parse_hook(hook, folder)
    finish(inner, tuple(HOOKS_FIELDS))
    return enabled, hooks


def _parse_hook(fields: FieldReader, folder: str) -> dict[str, Any]:
    fields.drop_null()
    hook = fields.values(_HOOK_TABLE)
    if "cwd" in hook:
        hook |= {"cwd": _rebase_path(hook["cwd"], folder), "near": False}
    elif "command" in hook and folder:
        hook |= {"cwd": folder, "near": True}
    finish(fields, tuple(HOOK_FIELDS))
    return hook


def _read_command(fields: FieldReader, name: str) -> tuple[str, ...] | None:
    name = resolve_alias(fields, name, "script")
    if name not in fields:
        return None
    value: Any = fields.pop(name)
    if isinstance(value, str):
        try:
            command = tuple(shlex.split(value))
        except ValueError as error:
            fields.error("bad-command", name, f"is {value[:100]!r}: {error}. Write the command as a list.")
            return ("",)
    elif isinstance(value, list) and all(isinstance(word, str) for word in value):
        command = tuple(value)
    else:
        fields.report_wrong_type(name, value, "a list of texts, or one text")
        return ("",)
    if not command or not command[0].strip():
        fields.error("bad-command", name, "is empty; write the command and its arguments.")
    return command


_ABOVE_0: Final = NumberLimit("above 0", exclusive_minimum=0)


def _read_timeout(fields: FieldReader, name: str) -> float | None:
    timeout = fields.limited_number(name, _ABOVE_0, "bad-timeout")
    return None if timeout is None else timeout / 1000


_HOOK_TABLE: Final = (
    FieldSpec("command", _read_command, required=True),
    FieldSpec("cwd", _read_path),
    FieldSpec("timeout_ms", _read_timeout, to="timeout_s"),
    FieldSpec("reset", FieldReader.choice, RESETS),
)


# --- repositories ------------------------------------------------------------------------------------------


def _parse_repositories(fields: FieldReader, folder: str, source: SuiteSource) -> tuple[Repository, ...]:
    value: Any = fields.pop("repos")
    if not isinstance(value, list):
        fields.report_wrong_type("repos", value, "a list of repositories, each with `path` and `repo`")
        return ()
    repositories: list[Repository] = []
    for at, row in enumerate(value):
        field = f"repos[{at}]"
        if not isinstance(row, dict):
            fields.report_wrong_type(field, row, "an object with `path` and `repo`")
            continue
        repository = _parse_repository(
            FieldReader(row, fields.problem_log, fields.path_to(field) + "."), folder, source
        )
        if repository.path and any(other.path == repository.path for other in repositories):
            fields.error(
                "duplicate-path",
                field,
                f"has the path {repository.path!r}, which another repository already has.",
            )
        repositories.append(repository)
    return tuple(repositories)


def _parse_repository(fields: FieldReader, folder: str, source: SuiteSource) -> Repository:
    fields.drop_null()
    path = _parse_repository_path(fields)
    origin, local = _parse_origin(fields, folder, source)
    ignore_fields(fields, ("resolver",), {})
    refs = [ref for ref in (fields.text("commit"), fields.text("base_commit")) if ref is not None]
    if len(set(refs)) > 1:
        fields.error("conflicting-fields", "base_commit", "and `commit` mean the same and differ.")
    ancestor, sparse, depth = fields.integer("ancestor"), read_texts(fields, "sparse"), None
    checkout = fields.object("checkout")
    if checkout is not None:
        refs.append(checkout.text("ref") or "HEAD")
        ancestor = checkout.integer("ancestor") or ancestor
        ignore_fields(checkout, ("resolve",), {})
        finish(checkout, tuple(CHECKOUT_FIELDS))
    clone = fields.object("clone")
    if clone is not None:
        depth = clone.integer("depth", least=1)
        sparse = read_texts(clone, "sparse") or sparse
        ignore_fields(clone, ("filter",), {})
        finish(clone, tuple(CLONE_FIELDS))
    finish(fields, tuple(REPOSITORY_FIELDS))
    return Repository(
        path=path,
        source=origin,
        local=local,
        ref=refs[0] if refs else "HEAD",
        ancestor=ancestor or 0,
        depth=depth,
        sparse=sparse,
    )


def _parse_repository_path(fields: FieldReader) -> str:
    """Returns the path of a repository in its workspace; a path outside is an error."""
    path = fields.required_text("path").replace("\\", "/")
    if isabs(path) or ".." in path.split("/") or re.match(r"[A-Za-z]:", path):
        message = f"is {path!r}; it must be a path inside the workspace, without `..`."
        fields.error("bad-path", "path", message)
    return normpath(path) if path else ""


def _parse_origin(fields: FieldReader, folder: str, source: SuiteSource) -> tuple[str, bool]:
    """Returns the source of a repository, and whether it is a local folder."""
    if "source" not in fields:
        repo = fields.required_text("repo")
        if _URL.match(repo) or not repo:
            return repo, False
        if _GITHUB_REPOSITORY.fullmatch(repo):
            return f"https://github.com/{repo.removesuffix('.git')}.git", False
        return _parse_local_origin(fields, "repo", repo, folder, source)
    if "repo" in fields:
        fields.pop("repo")
        fields.error("conflicting-fields", "repo", "and `source` mean the same; keep one of them.")
    inner = fields.required_object("source", "an object with `type` and `url` or `path`")
    if inner is None:
        return "", False
    kind = inner.choice("type", tuple(SOURCE_FIELDS))
    if kind == "local":
        origin = _parse_local_origin(inner, "path", inner.required_text("path"), folder, source)
    else:
        origin = (inner.required_text("url") if kind else "", False)
    if kind:
        finish(inner, tuple(SOURCE_FIELDS[kind]))
    return origin


def _parse_local_origin(
    fields: FieldReader, name: str, reference: str, folder: str, source: SuiteSource
) -> tuple[str, bool]:
    path = _rebase_path(reference, folder)
    if source.folder and path and not source.expand_glob(path + "/"):
        message = (
            f"is {reference!r}, and there is no such folder. The path is relative to the folder of the suite."
        )
        fields.error("missing-folder", name, message)
    return path, True


# --- both levels -------------------------------------------------------------------------------------------


def merge_levels(suite: WorkspaceLevel | None, test: WorkspaceLevel | None) -> WorkspaceLevel | None:
    """Merges a test's level into its suite's: the test's fields win, and hooks are merged by field."""
    if suite is None or test is None:
        return test or suite
    hooks = {**suite.hooks}
    for moment, own in test.hooks.items():
        base = hooks.get(moment, {})
        if "command" in own and base.get("near"):  # the folder belongs to the replaced command
            base = {name: value for name, value in base.items() if name != "cwd"}
        hooks[moment] = {**base, **own}
    return WorkspaceLevel(
        fields={**suite.fields, **test.fields},
        hooks=hooks,
        enabled=suite.enabled if test.enabled is None else test.enabled,
        unused_fields=test.unused_fields,
    )


def build_workspace(level: WorkspaceLevel | None, fields: FieldReader) -> Workspace | None:
    """Builds and checks the workspace of a level; None if it sets nothing."""
    if level is None:
        return None
    hooks: dict[str, Hook] = {}
    for moment, hook in level.hooks.items() if level.enabled is not False else ():
        if "command" not in hook and hook.get("reset", "none") == "none":
            fields.error(
                "missing-field", f"workspace.hooks.{moment}.command", "is missing; write the command to run."
            )
        hooks[moment] = Hook(**_keep_changed(Hook(), {k: value for k, value in hook.items() if k != "near"}))
    values = {**level.fields, "hooks": Hooks(**hooks)}
    workspace = Workspace(**_keep_changed(Workspace(), values))
    if workspace.path is not None and workspace.isolation == "per_test":
        message = (
            "is a folder that all tests share, which contradicts isolation 'per_test'; keep one of them."
        )
        fields.error("conflicting-fields", "workspace.path", message)
    return None if workspace == Workspace() else workspace


def _keep_changed(defaults: Struct, values: dict[str, Any]) -> dict[str, Any]:
    """Returns the values that differ from their defaults, so that writing a default changes no digest."""
    return {name: value for name, value in values.items() if value != getattr(defaults, name)}
