"""Records as the JSON that users read."""

from __future__ import annotations

import json
from typing import Any

from msgspec import Struct

from proctor.reports.formatting import to_json


def plain(record: Struct) -> Any:
    """Returns what a reader of the record's JSON gets."""
    return json.loads(to_json(record))
