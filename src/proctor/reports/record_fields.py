"""Types and descriptions of the fields of records, and what fills them. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

from msgspec import Meta, Struct

R = TypeVar("R", bound=Struct)

RunId = Annotated[str, Meta(examples=["20261121-225349-e91629"])]
Digest = Annotated[
    str, Meta(examples=["sha256:2f1d0a6f0c3f1f0b8f6a3f6f0c9d1d5c7a3c0b1e4d2f5a6978b0c1d2e3f4a5b6"])
]
Time = Annotated[datetime, Meta(tz=True)]
Status = Literal["running", "finished", "interrupted"]
Split = Literal["dev", "holdout"]
RepeatsRule = Literal["each", "any", "mean", "lower_bound"]
Interval = tuple[float, float] | None
"""The two ends of a 95 % interval; null if there is none."""


def about(description: str, *examples: Any) -> Meta:
    """Returns the description of a field, with examples of its values, for its JSON Schema."""
    return Meta(description=description, examples=list(examples) or None)


def record_from(source: object, record_type: type[R], **values: Any) -> R:
    """Returns a record whose fields are the attributes of an object, but for those that are given."""
    names = [name for name in record_type.__struct_fields__ if name not in values]
    return record_type(**{name: getattr(source, name) for name in names}, **values)
