"""Text to suites: one file a dialect. `DIALECTS` is the table of all of them."""

from proctor.ports import Dialect
from proctor.registry import Registry

DIALECTS: Registry[Dialect] = Registry(
    "dialects",
    {
        "agentv": "proctor.dialects.agentv:DIALECT",
        "meridian": "proctor.dialects.meridian:DIALECT",
        "pramana": "proctor.dialects.pramana:DIALECT",
    },
)
