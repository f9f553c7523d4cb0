"""`proctor.toml`: a project's defaults for commands."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import isnan, nan
from pathlib import Path
from typing import Any

from msgspec import Struct

from proctor.clusters import check_cluster_field
from proctor.dialects import DIALECTS
from proctor.errors import UsageError, suggestion
from proctor.protocols import DialectSetting
from proctor.stores import move_address
from proctor.validation import parse_percentage

CONFIG_NAME = "proctor.toml"
SHARE_KEYS = frozenset({"holdout", "min-pass-rate", "threshold", "until"})
"""Keys with a share, which may be written as a percentage."""
SCHEMA_KEY = "$schema"
SUITE_KEYS: Mapping[str, Mapping[str, Any]] = {
    SCHEMA_KEY: {"type": "string", "description": "The JSON Schema of the file, for editors."},
    "prompts": {"type": "string", "description": "Folder with the prompts for Markdown tests."},
    "evaluators": {
        "type": ["string", "array"],
        "pattern": r"\S",
        "items": {"type": "string", "pattern": r"\S"},
        "description": "Ids of the judge prompts to use.  [default: all]",
    },
    "substitutions": {
        "type": "object",
        "additionalProperties": {"type": "string"},
        "description": "Values for {{name}} in the checks of graded prompts.",
    },
}
"""Keys for reading suites, besides those of single dialects, each with the JSON Schema of its value.

Every other key is a flag of `run`."""
DEFAULT_SUITES: Mapping[str, Any] = {
    "type": ["string", "array"],
    "pattern": r"\S",
    "items": {"type": "string", "pattern": r"\S"},
    "description": "The suites to run if the command names none.",
}
"""The JSON Schema of the key `suite`, which stands for the argument of `run`."""


class Config(Struct, frozen=True, kw_only=True):
    """The settings of the file; empty if there is none."""

    path: Path | None = None
    """The absolute path of the file."""
    flags: dict[str, Any] = {}
    """Values of flags of `run`, by the flag without its dashes; suites, prompts and the store as the working
    directory sees them."""
    prompts: Path | None = None
    """The absolute path of the folder of prompts."""
    evaluators: tuple[str, ...] = ()
    """The ids of the judge prompts to use; empty for all."""
    substitutions: dict[str, str] = {}
    """The values of placeholders in the checks of graded prompts."""
    dialect_options: dict[str, str | bool] = {}
    """The values of the dialects' own settings, by the options of a `SuiteSource`."""

    def source_options(self, path: Path) -> dict[str, Any]:
        """Returns the options for the `SuiteSource` of a suite, which is a file or a whole folder."""
        options: dict[str, Any] = dict(self.dialect_options)
        if self.prompts is not None:
            folder = path if path.is_dir() else path.parent
            options["prompts"] = Path(os.path.relpath(self.prompts, folder)).as_posix()
        if self.evaluators:
            options["evaluators"] = list(self.evaluators)
        if self.substitutions:
            options["substitutions"] = dict(self.substitutions)
        return options

    def missing_suite(self, example: str) -> UsageError:
        """Returns the error for a command without a suite where the file names none either.

        Args:
            example: a command line with a suite.
        """
        file = os.path.relpath(self.path or CONFIG_NAME)
        return UsageError(f'Name a suite, as in `{example}`, or set `suite = ["SUITE"]` in {file}.')


def iter_upward(start: Path | None) -> Iterator[Path]:
    """Yields the absolute paths of a folder and of those above it, up to the repository's root.

    Args:
        start: the folder; None for the working directory.
    """
    start = Path(os.path.abspath(start or Path.cwd()))  # noqa: PTH100 - keeps links unresolved
    for folder in (start, *start.parents):
        yield folder
        if os.path.lexists(folder / ".git"):
            break


def find_upward(start: Path | None, names: Sequence[str]) -> Path | None:
    """Returns the absolute path of the nearest file of these names, up to the repository's root.

    A folder that may not be read counts as one without such a file.

    Args:
        start: the folder where the search starts; None for the working directory.
        names: the paths of the file within a folder; the first one that is there counts.
    """
    for folder in iter_upward(start):
        for name in names:
            if os.path.isfile(folder / name):  # noqa: PTH113 - Path.is_file raises without permission
                return folder / name
    return None


def load_config(flags: Iterable[str], start: Path | None = None) -> Config:
    """Loads the `proctor.toml` of a folder, or of the nearest one above it, up to the repository's root.

    Args:
        flags: the flags that the file may set, without their dashes.
        start: the folder; None for the working directory.

    Raises:
        UsageError: the file cannot be read, is not TOML, or has an invalid key or value.
    """
    path = find_upward(start, (CONFIG_NAME,))
    if path is None:
        return Config()
    shown_path = os.path.relpath(path)
    table = _read_table(path, shown_path)
    known_names = {*SUITE_KEYS, *flags, "suite"}
    settings = {} if table.keys() <= known_names else dialect_settings()  # imports all dialects
    valid_names = sorted({*known_names, *settings})
    for name in table:
        if name not in valid_names:
            raise UsageError(f"{shown_path}: error: Unknown key {name!r}. {suggestion(name, valid_names)}")
    if not isinstance(table.get(SCHEMA_KEY, ""), str):
        raise UsageError(f"{shown_path}: error: `{SCHEMA_KEY}` is {table[SCHEMA_KEY]!r}. Give a text.")
    prompts = table.get("prompts")
    if prompts is not None and not isinstance(prompts, str):
        raise UsageError(f"{shown_path}: error: `prompts` is {prompts!r}. Give the path of a folder.")
    if prompts is not None and not (path.parent / prompts).is_dir():
        raise UsageError(f"{shown_path}: error: `prompts` is {prompts!r}, but there is no such folder.")
    return Config(
        path=path,
        flags=_parse_flags(table, settings.keys(), path, shown_path),
        prompts=None if prompts is None else path.parent / prompts,
        evaluators=tuple(_parse_texts(table, "evaluators", shown_path)),
        substitutions=_parse_substitutions(table, shown_path),
        dialect_options={
            settings[name].option: _dialect_option(settings[name], value, shown_path)
            for name, value in table.items()
            if name in settings
        },
    )


def parse_share(text: str) -> float:
    """Returns the share that is written as a number or as a percentage: `0.05`, `5%` or `5pp`.

    Raises:
        UsageError: it is none; suggests one for a number such as 90.
    """
    if (percentage := parse_percentage(text)) is not None:
        return percentage
    try:
        number = float(text)
    except ValueError:
        number = nan
    if isnan(number):
        raise UsageError(f"{text!r} is not a share. Give a number such as 0.05, or a percentage such as 5%.")
    if 1 < number <= 100:
        raise UsageError(f"{text} is more than 1. Did you mean {number / 100:g} or {number:g}%?")
    return number


def _read_table(path: Path, shown_path: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(path.read_bytes().removeprefix(b"\xef\xbb\xbf").decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{shown_path}: error: The file is not valid TOML in UTF-8: {error}.") from None
    except OSError as error:
        raise UsageError(f"The file {shown_path!r} cannot be read: {error.strerror}.") from None


def _parse_flags(
    table: dict[str, Any], dialect_keys: Collection[str], path: Path, shown_path: str
) -> dict[str, Any]:
    flags = {name: value for name, value in table.items() if name not in {*SUITE_KEYS, *dialect_keys}}
    for name, value in flags.items():
        if isinstance(value, dict):
            raise UsageError(f"{shown_path}: error: `{name}` is a table. Give a value or a list of values.")
    for name in SHARE_KEYS & flags.keys():
        percentage = parse_percentage(flags[name]) if isinstance(flags[name], str) else None
        if percentage is not None:
            flags[name] = percentage
    if "suite" in flags:
        flags["suite"] = [
            _relative_to_cwd(word, path.parent) for word in _parse_texts(table, "suite", shown_path)
        ]
    if "prompt" in flags:
        flags["prompt"] = _move_prompts(flags["prompt"], path.parent)
    store = flags.get("store")
    if store is not None:
        if not isinstance(store, str):
            raise UsageError(
                f"{shown_path}: error: `store` is not a text. Give the path of a file, or an address."
            )
        flags["store"] = move_address(store, path.parent)
    cluster = flags.get("cluster")
    if cluster is not None:
        _check_cluster(cluster, shown_path)
    return flags


def _check_cluster(cluster: Any, shown_path: str) -> None:
    if not isinstance(cluster, str):
        raise UsageError(f"{shown_path}: error: `cluster` is {cluster!r}. Give a text.")
    try:
        check_cluster_field(cluster)
    except UsageError as error:
        raise UsageError(f"{shown_path}: error: `cluster` is {cluster!r}. {error}") from None


def _relative_to_cwd(word: str, folder: Path) -> str:
    """Returns a path of the file relative to the working directory; names of suites stay as they are."""
    return os.path.relpath(folder / word) if (folder / word).exists() else word


def _move_prompts(value: Any, folder: Path) -> Any:
    """Returns prompts of the file, each FILE or NAME=FILE, with paths relative to the working directory."""
    if isinstance(value, list):
        return [_move_prompts(item, folder) for item in value]
    if not isinstance(value, str) or not value:
        return value
    name, equals, file = value.partition("=")
    if not equals or (folder / value).exists():
        return _relative_to_cwd(value, folder)
    return f"{name}={_relative_to_cwd(file, folder)}"


def _parse_texts(table: dict[str, Any], name: str, shown_path: str) -> list[str]:
    value = table.get(name, [])
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) and text.strip() for text in texts):
        raise UsageError(f"{shown_path}: error: `{name}` is {value!r}. Give a list of texts.")
    return texts


def _parse_substitutions(table: dict[str, Any], shown_path: str) -> dict[str, str]:
    value = table.get("substitutions", {})
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise UsageError(f"{shown_path}: error: `substitutions` is {value!r}. Give a table of texts.")
    return value


def dialect_settings() -> dict[str, DialectSetting]:
    """Returns the settings of all dialects by their keys."""
    dialects = DIALECTS.load_all().values()
    return {setting.key: setting for dialect in dialects for setting in dialect.settings()}


def _dialect_option(setting: DialectSetting, value: Any, shown_path: str) -> str | bool:
    if setting.choices:
        is_valid, expected = value in setting.choices, f"one of: {', '.join(setting.choices)}"
    else:
        is_valid, expected = isinstance(value, bool), "true or false"
    if not is_valid:
        raise UsageError(f"{shown_path}: error: `{setting.key}` is {value!r}. Give {expected}.")
    option: str | bool = value
    return option
