"""Prediction-powered interval of a mean: few labels, and a prediction of the label of every item."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import fsum
from typing import NamedTuple

from proctor.stats.proportions import wilson

_CORNERS = ((0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0))
_ADDED = 0.5
"""The number of items that are added at each corner for the variance."""


class LabelledItem(NamedTuple):
    """One labelled item; label and prediction are within 0..1."""

    label: float
    prediction: float
    weight: float = 1.0
    """Above 0, in any unit: how many items it stands for, 1 / the chance that it was drawn."""
    group: Hashable = None
    """Items of a group may depend on one another; None for an item of its own."""
    group_prediction: float | None = None
    """The mean of the predictions of all items of its group; None if that is its own prediction."""
    group_share: float | None = None
    """The share of all items that are in its group; None for 1 / the number of predictions."""


class PredictionPowered(NamedTuple):
    """The mean of all labels, with its 95 % interval, within 0..1."""

    value: float
    low: float
    high: float
    power: float
    """How far the predictions are used: 0 leaves the labels alone, 1 corrects the mean of the predictions."""


class _Moments(NamedTuple):
    """Of weighted labels and predictions: the variances of their means, and of a single item."""

    label: float
    prediction: float
    both: float
    item_prediction: float
    all_predictions: float
    """The covariance of the mean label with the mean of all predictions."""


def prediction_powered(
    items: Sequence[LabelledItem], mean_prediction: float, predictions: float
) -> PredictionPowered | None:
    """Returns the mean that labels of all items would have, from the labels of some; None below two groups.

    It is mean label + power * (mean of all predictions - mean prediction of the labelled items), with the
    means of labelled items weighted (Hajek) and the power that makes its variance least. The interval is
    Wilson's for the number of labels alone that would vary as much. Half an item is added at each corner of
    (label, prediction) for variance and power, so that few labels without a disagreement do not make the
    interval too narrow. As that covers few labels and few groups too, no t is taken on top of it. How the
    mean of all predictions varies with the labels is estimated from the mean predictions of their groups.

    Args:
        items: the labelled items, drawn from all by chances that depend on nothing but what was known.
        mean_prediction: the mean of the predictions of all items, the labelled ones included.
        predictions: the number of independent predictions whose mean would vary as much. With repeats it is
            more than that of their groups: see `effective_cases`.

    Raises:
        ValueError: a weight is not above 0, or a value is not within 0..1.

    Source: A. N. Angelopoulos, J. C. Duchi and T. Zrnic, "PPI++: efficient prediction-powered inference",
    arXiv:2311.01453 (2023), proposition 2, for items of which some are labelled, the others being those
    without a label; unequal chances as in T. Zrnic and E. J. Candes, "Active statistical inference",
    arXiv:2403.03208 (2024); the number of weighted items is that of L. Kish, "Survey Sampling" (1965); half
    an item a corner with the normal point is what A. Agresti and Y. Min add, "Simple improved confidence
    intervals for comparing matched proportions", Statistics in Medicine 24 (2005), 729-740.
    """
    if any(item.weight <= 0 for item in items):
        raise ValueError("Each weight must be above 0.")
    values = [mean_prediction, *(value for item in items for value in (item.label, item.prediction))]
    values += [value for item in items for value in item[4:] if value is not None]
    if any(not 0 <= value <= 1 for value in values):
        raise ValueError("Labels, predictions and shares must be within 0 and 1.")
    by_group: dict[Hashable, list[LabelledItem]] = {}
    for place, item in enumerate(items):
        by_group.setdefault((place,) if item.group is None else ("group", item.group), []).append(item)
    groups = list(by_group.values())
    if len(groups) < 2 or predictions < 1:
        return None
    total = fsum(item.weight for item in items)
    size = total**2 / fsum(fsum(item.weight for item in group) ** 2 for group in groups)
    label = fsum(item.weight * item.label for item in items) / total
    prediction = fsum(item.weight * item.prediction for item in items) / total
    moments = _moments(groups, size / total, size, predictions)
    prediction_variance = moments.prediction - moments.item_prediction / predictions
    covariance = moments.both - moments.all_predictions
    power = min(1.0, max(0.0, covariance / prediction_variance)) if prediction_variance > 1e-12 else 0.0
    variance = moments.label - 2 * power * covariance + power**2 * prediction_variance
    value = min(1.0, max(0.0, label + power * (mean_prediction - prediction)))
    whole = size + 4 * _ADDED
    middle = (size * label + 2 * _ADDED) / whole
    middle += power * (mean_prediction - (size * prediction + 2 * _ADDED) / whole)
    middle = min(1 - 0.5 / predictions, max(0.5 / predictions, middle))
    number = max(1.0, middle * (1 - middle) / max(variance, 1e-12))
    number = min(number, max(predictions, len(items)) + 1)  # as if all were labelled
    ends = wilson(min(value * number, number), number)
    assert ends is not None
    return PredictionPowered(value, *ends, power)


def _moments(
    groups: Sequence[Sequence[LabelledItem]], scale: float, size: float, predictions: float
) -> _Moments:
    """Returns the moments after items are added at the corners.

    Args:
        groups: the items.
        scale: makes their weights add up to `size`.
        size: the number of groups of one weight that vary as much.
        predictions: the number of independent predictions.
    """
    whole = size + 4 * _ADDED
    weighted = [
        (item.weight * scale / whole, item.label, item.prediction) for group in groups for item in group
    ]
    weighted += [(_ADDED / whole, label, prediction) for label, prediction in _CORNERS]
    label = fsum(share * y for share, y, _ in weighted)
    prediction = fsum(share * f for share, _, f in weighted)
    sums = [
        (
            fsum(item.weight * scale / whole * (item.label - label) for item in group),
            fsum(item.weight * scale / whole * (item.prediction - prediction) for item in group),
        )
        for group in groups
    ]
    root = _ADDED**0.5 / whole  # as many items each of this weight as are added
    sums += [(root * (y - label), root * (f - prediction)) for y, f in _CORNERS]
    factor = whole / (whole - 1)
    terms = [_ADDED / whole / predictions * (y - label) * (f - prediction) for y, f in _CORNERS]
    for item in (item for group in groups for item in group):
        of_group = item.prediction if item.group_prediction is None else item.group_prediction
        share = 1 / predictions if item.group_share is None else item.group_share
        terms.append(item.weight * scale / whole * share * (item.label - label) * (of_group - prediction))
    return _Moments(
        label=factor * fsum(y * y for y, _ in sums),
        prediction=factor * fsum(f * f for _, f in sums),
        both=factor * fsum(y * f for y, f in sums),
        item_prediction=fsum(share * (f - prediction) ** 2 for share, _, f in weighted),
        all_predictions=fsum(terms),
    )
