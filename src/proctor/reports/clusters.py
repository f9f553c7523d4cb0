"""Says of which clusters of related cases an interval is. Pure."""

from __future__ import annotations

from proctor.plurals import pluralize
from proctor.safe_text import one_line
from proctor.stats.clusters import FEW_CLUSTERS


def clusters_sentence(what: str, count: int, field: str) -> str:
    """Returns a sentence on what intervals are over, and another one if these clusters are few.

    Args:
        what: begins the sentence, such as `Intervals are`.
        count: the number of clusters.
        field: the field that names the clusters.
    """
    clusters = pluralize(count, "cluster")
    sentence = f"{what} over {clusters} of related cases (`{one_line(field)}`)."
    if count >= FEW_CLUSTERS:
        return sentence
    return (
        f"{sentence} Only {clusters}: an interval over fewer than {FEW_CLUSTERS} is rough, and can be too "
        "narrow where clusters differ much."
    )


def no_clusters_sentence(field: str) -> str:
    """Returns a sentence on a field that should say which cases are related, and that no case has."""
    return (
        f"No case has `{one_line(field)}`, which should say which are related: each is taken as independent."
    )
