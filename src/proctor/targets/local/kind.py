"""The record of the kind `local`, apart from `target.py`, which starts processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from proctor.model import TargetSpec
from proctor.targets.api.openai.services import LLAMACPP
from proctor.targets.entries import TargetEntry
from proctor.targets.kind import PARAMETERS, TargetKind

if TYPE_CHECKING:
    from proctor.protocols import Target
    from proctor.targets.context import TargetContext


async def _open(spec: TargetSpec, context: TargetContext) -> Target:
    from proctor.targets.local.target import open_target

    return await open_target(spec, context)


def _read_entry(spec: TargetSpec, entry: TargetEntry) -> TargetSpec:
    from proctor.targets.entry_parameters import read_parameters

    model = entry.fields.text("model") or ""
    if model.lower().endswith(".gguf"):
        model = entry.absolute_path(model)
    return read_parameters(replace(spec, model=model), entry, {})


LOCAL = TargetKind(
    name="local",
    open_target=_open,
    syntax="local[:FILE.gguf]",
    summary="the embedded SmolLM2-135M, or any GGUF file; needs proctor[local]",
    file_fields={
        "model": {"type": "string", "description": "A GGUF file; by default the embedded model."},
        **PARAMETERS,
    },
    read_entry=_read_entry,
    model_is_file=True,
    params=LLAMACPP.params,
    chat_style=LLAMACPP.chat_style,
    media=frozenset(),
    default_concurrency=1,
    is_cacheable=False,
    is_free=True,
    scores_choices=True,
    web_note="the embedded model, SmolLM2-135M; needs proctor[local]",
)
