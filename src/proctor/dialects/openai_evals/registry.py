"""The registry of OpenAI's evals: YAML that gives each eval its class, its data and its arguments.

The project has these files in `evals`, data in `data` and judge prompts in `modelgraded`, side by side. Paths
here are relative to the suite's folder, as in `SuiteSource.find_file`.
"""

from __future__ import annotations

from collections.abc import Iterator
from posixpath import basename, dirname, join, normpath
from typing import Any, Final

from msgspec import Struct

from proctor.dialects.shared.jsonl import file_name
from proctor.dialects.shared.yaml_files import display_path, parse_yaml
from proctor.protocols import SourceFile, SuiteSource
from proctor.validation import ProblemLog

MAX_LEVELS: Final = 8
"""How many folders above the data are searched for `evals`; the original has at most four."""
_LFS_POINTER: Final = b"version https://git-lfs."


class Eval(Struct, frozen=True, kw_only=True):
    """One eval of a registry."""

    name: str
    kind: str
    """The class, without its module."""
    args: dict[str, Any]
    registry: str = "."
    """The path of the registry's file."""
    line: int = 1


def parse_evals(value: Any, registry: str) -> list[Eval]:
    """Returns the evals in a registry file; other entries only name or describe one."""
    entries = value.items() if isinstance(value, dict) else ()
    return [
        Eval(
            name=name,
            kind=entry["class"].rpartition(":")[2],
            args=entry["args"] if isinstance(entry.get("args"), dict) else {},
            registry=registry,
            line=getattr(value, "lines", {}).get(name, 1),
        )
        for name, entry in entries
        if isinstance(entry, dict) and isinstance(entry.get("class"), str)
    ]


def find_evals(source: SuiteSource, notes: ProblemLog) -> list[Eval]:
    """Returns the evals whose data is the suite's file, from the nearest registry that names it."""
    for level in range(MAX_LEVELS + 1):
        folder = "" if level == 0 else f"{'../' * level}evals/"
        evals = [
            evaluation
            for ending in ("yaml", "yml")
            for path in source.expand_glob(f"{folder}*.{ending}")
            for evaluation in _find_evals_in(source, path, notes)
        ]
        if evals:
            return evals
    return []


def find_registry_file(
    source: SuiteSource, evaluation: Eval, folder: str, reference: str
) -> SourceFile | None:
    """Finds a file that an eval names: in a folder beside the registry's folder, or beside the registry."""
    folder_path = dirname(evaluation.registry)
    places = (
        join(folder_path, "..", folder, reference),
        join(folder_path, reference),
        join(folder_path, basename(reference)),
    )
    files = (source.find_file(normpath(place)) for place in (*places, reference))
    return next((file for file in files if file is not None), None)


def find_data_file(source: SuiteSource, evaluation: Eval, name: str, notes: ProblemLog) -> SourceFile | None:
    """Finds the file of rows that an argument of an eval names, or notes an error."""
    reference: Any = evaluation.args.get(name)
    if not isinstance(reference, str) or not reference.strip():
        message = f"{evaluation.name} has no `{name}` in its `args`; add the path of a JSON Lines file."
        notes.error("missing-field", message, name)
        return None
    file = find_registry_file(source, evaluation, "data", reference)
    if file is None:
        message = (
            f"`{name}` of {evaluation.name} is {reference[:200]!r}, and there is no such file in "
            f"`data` beside the folder of the registry or beside the registry file. Put it there, or "
            f"correct the path."
        )
        notes.error("missing-file", message, name)
    elif file.data.startswith(_LFS_POINTER):
        message = f"{display_path(source, file.path)} is a Git LFS pointer, not the data. Run `git lfs pull`."
        notes.error("missing-file", message, name)
        return None
    return file


def find_spec(source: SuiteSource, evaluation: Eval, name: str, notes: ProblemLog) -> dict[str, Any] | None:
    """Returns the judge prompt with that name from the registry's YAML, or None and an error."""
    folder_path = dirname(evaluation.registry)
    for folder in (join(folder_path, "../modelgraded"), join(folder_path, "modelgraded"), folder_path):
        for path in source.expand_glob(normpath(join(folder, "*.yaml"))):
            value = _read_yaml(source, path, name, notes)
            spec = value.get(name) if isinstance(value, dict) else None
            if isinstance(spec, dict):
                return spec
    message = (
        f"{evaluation.name} has the `modelgraded_spec` {name[:60]!r}, and no readable YAML file in "
        f"`modelgraded` beside the folder of the registry has that name. Put its YAML there, or beside the "
        f"registry file."
    )
    notes.error("missing-spec", message, "modelgraded_spec")
    return None


def _find_evals_in(source: SuiteSource, registry: str, notes: ProblemLog) -> Iterator[Eval]:
    own = _get_own_path(source)
    # Few registry files use this data; those that do contain the name of its folder.
    direct = "/" not in registry or dirname(own) == _get_data_folder(own, registry)
    needle = "/".join(own.split("/")[-1 if direct else -2 :])
    for evaluation in parse_evals(_read_yaml(source, registry, needle, notes), registry):
        if _is_for_file(evaluation, own):
            yield evaluation


def _is_for_file(evaluation: Eval, own: str) -> bool:
    """Whether an eval names the file: in `data` beside its folder, in a folder above, or beside it."""
    reference: Any = evaluation.args.get("samples_jsonl")
    if not isinstance(reference, str):
        return False
    folder = normpath(join(dirname(own), dirname(evaluation.registry)))
    if folder == dirname(own) and basename(reference) == basename(own):
        return True
    root = own.removesuffix(f"/{normpath(reference)}")
    return root != own and (
        root == _get_data_folder(own, evaluation.registry) or f"{folder}/".startswith(f"{root}/")
    )


def _get_data_folder(own: str, registry: str) -> str:
    """Returns the data folder beside a registry's folder."""
    return normpath(join(dirname(own), dirname(registry), "..", "data"))


def _get_own_path(source: SuiteSource) -> str:
    """Returns the absolute path of the suite's file, or its path in an upload."""
    if not source.folder:
        return normpath("/" + source.path.lstrip("/"))
    return f"{source.folder.replace(chr(92), '/')}/{file_name(source.path).name}"


def _read_yaml(source: SuiteSource, path: str, needle: str, notes: ProblemLog) -> Any:
    """Parses a YAML file if it contains the text; None and a warning if it is invalid."""
    file = source.find_file(path)
    if file is None or needle.encode() not in file.data:
        return None
    inner = ProblemLog(display_path(source, path), 1)
    value = parse_yaml(file.data, inner)
    if inner.has_errors:
        message = f"{path} names {needle} and cannot be read: {inner.problems[0].message}"
        notes.warn("bad-registry", message)
    return value
