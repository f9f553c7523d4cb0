"""Describes the clusters of related cases behind an interval. Pure."""

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
        f"{sentence} An interval over fewer than {FEW_CLUSTERS} clusters is rough, and too narrow if the "
        "clusters differ a lot."
    )


def no_clusters_sentence(field: str) -> str:
    """Returns a sentence on a field that names related cases but that no case has."""
    return (
        f"No case has `{one_line(field)}`, the field that names related cases, so all cases are treated as "
        "independent."
    )
