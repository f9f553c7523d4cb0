"""Clusters of related cases, such as those on one document. Pure.

Cases of a cluster tend to pass or fail together, so they tell less than as many independent ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import blake2b

from proctor.codec import encode
from proctor.errors import UsageError
from proctor.lazy_pattern import lazy_pattern
from proctor.model import Case

ClusterLookup = Callable[[Case], str]
"""Returns the name of the cluster that a case is in."""
NO_CLUSTERS = "none"
"""What a user writes for independent cases where the suite says otherwise."""
_FORMS = lazy_pattern(r"none|id|category|metadata\..+|tag:.+", re.DOTALL)
_VARIANT = lazy_pattern(r"[\[~]")
"""Begins the part of an id that names the variant of a case, such as its prompt."""
OWN_CLUSTER = "\0"
"""Precedes the id of a case without a cluster, which is one by itself."""
_MAX_KEY_LENGTH = 16


def check_cluster_field(field: str) -> str:
    """Returns a field that says which cluster a case is in.

    Raises:
        UsageError: it is none.
    """
    if _FORMS.fullmatch(field) is None:
        raise UsageError(
            f"Cases cannot be clustered by {field[:80]!r}. Use `metadata.FIELD` for a metadata field, "
            f"`tag:PREFIX` for the tag with that prefix, `category`, `id` for the part of the id before `[` "
            f"or `~`, or `none`."
        )
    return field


def is_own_cluster(name: str) -> bool:
    """Returns whether a cluster is a single case without the field, and not one that the field names."""
    return name.startswith(OWN_CLUSTER)


def cluster_key(name: str) -> str:
    """Returns a short key for a cluster, always the same; it is its own cluster if the long name is.

    Short names stay as they are. Two of a million longer ones have the same key in one of 30 million suites.
    """
    if len(name) <= _MAX_KEY_LENGTH:
        return name
    prefix = OWN_CLUSTER if is_own_cluster(name) else ""
    return prefix + blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def make_cluster_lookup(field: str | None) -> ClusterLookup | None:
    """Returns how the cluster of a case is found; None if the cases are independent.

    A case without the field is a cluster by itself.

    Args:
        field: `metadata.FIELD`, `tag:PREFIX`, `category`, `id` or `none`.
    """
    if field is None or field == NO_CLUSTERS:
        return None
    if field == "id":
        return lambda case: _VARIANT.split(case.id, maxsplit=1)[0] or OWN_CLUSTER + case.id
    if field == "category":
        return lambda case: OWN_CLUSTER + case.id if case.category is None else case.category
    kind, _, name = field.partition(":" if field.startswith("tag:") else ".")
    if kind == "tag":
        return lambda case: next((tag for tag in case.tags if tag.startswith(name)), OWN_CLUSTER + case.id)

    def find_value(case: Case) -> str:
        value = case.metadata.get(name)
        if value is None:
            return OWN_CLUSTER + case.id
        return value if isinstance(value, str) else encode(value).decode("utf-8")

    return find_value
