"""Reads the parameters of a target in a targets file. Pure."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from proctor.errors import UsageError
from proctor.model import Params, TargetSpec
from proctor.parameters import PARAMETERS, check_parameter, merge_parameters
from proctor.targets import get_service
from proctor.targets.entries import TargetEntry
from proctor.targets.kind import TargetKind


def read_parameters(spec: TargetSpec, entry: TargetEntry, options: dict[str, Any]) -> TargetSpec:
    """Adds parameters, and options, to a target; parameters set by the user take precedence."""
    fields = entry.fields
    temperature = fields.number("temperature")
    if temperature is not None and not 0 <= temperature <= 2:
        fields.error("out-of-range", "temperature", f"is {temperature:g}; it must be from 0 to 2.")
    own: dict[str, Any] = {
        "temperature": temperature,
        "max_tokens": fields.integer("max_output_tokens", least=1),
        "seed": fields.integer("seed"),
    }
    system = fields.text("system_prompt")
    own |= _read_further_parameters(entry, get_service(spec))
    own_params = Params(**{name: value for name, value in own.items() if value is not None})
    seconds = entry.seconds(fields, "timeout_seconds")
    extra = {"system_prompt": system, "timeout_seconds": seconds}
    options = {
        **spec.options,
        **options,
        **{name: value for name, value in extra.items() if value is not None},
    }
    return replace(spec, params=merge_parameters(own_params, entry.context.params), options=options)


def _read_further_parameters(entry: TargetEntry, kind: TargetKind) -> dict[str, Any]:
    """Reads the parameters that only some kinds take; one that this kind does not take is an error."""
    values: dict[str, Any] = {}
    for name in PARAMETERS:
        if name not in entry.fields:
            continue
        value = entry.fields.pop(name)
        if name == "api_format" and value == "chat":
            continue
        if name not in kind.all_params:
            entry.fields.error("unsupported", name, f"cannot be set: {kind.describe_refusal(name)}")
            continue
        try:
            values[name] = check_parameter(name, value)
        except UsageError as error:
            code = "literal-secret" if "must name a variable" in str(error) else "bad-value"
            entry.fields.error(code, name, f"cannot be used. {error}")
    return values
