"""Statistics on plain numbers. Pure, without any type of Proctor; needs only the standard library.

In: counts, differences or samples as numbers. Out: intervals, p-values and sizes; each function names its
source. `proportions.py` has the intervals of rates, `clusters.py` those of related cases, `paired.py` tests
of pairs, `means.py` intervals of means, `power.py` sizes, `sequences.py` intervals for runs that may be
stopped. Each name is imported from its file when it is first used. Start reading with `proportions.py`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proctor.stats.agreement import Kappa, alpha, kappa
    from proctor.stats.bounded_mean import bounded_interval
    from proctor.stats.clustered_power import (
        ClusterNoise,
        clusters_needed,
        power_clustered,
        smallest_difference_clustered,
    )
    from proctor.stats.clusters import (
        GroupVariances,
        clustered_difference_interval,
        clustered_error,
        clustered_exact,
        clustered_interval,
        clustered_newcombe,
        clustered_wilson,
        effective_cases,
        group_variances,
    )
    from proctor.stats.flake_rate import flake_rate
    from proctor.stats.gate_errors import PointGateErrors, point_gate_errors
    from proctor.stats.means import (
        agresti_min_interval,
        deviation,
        mean_interval,
        quantile,
        t_95,
    )
    from proctor.stats.multiple_testing import benjamini_hochberg, holm
    from proctor.stats.order_statistics import expected_maximum
    from proctor.stats.paired import mcnemar, newcombe_paired, paired_bootstrap, permutation, sign_test
    from proctor.stats.pass_at_k import pass_at_k, pass_hat_k
    from proctor.stats.power import cases_needed, power_paired, smallest_difference
    from proctor.stats.prediction_power import LabelledItem, PredictionPowered, prediction_powered
    from proctor.stats.proportions import Z_95, clopper_pearson, newcombe, reaches, wilson
    from proctor.stats.random_effects import VarianceComponents, variance_components
    from proctor.stats.repeated_power import (
        PairNoise,
        cases_needed_repeated,
        power_repeated,
        smallest_difference_repeated,
    )
    from proctor.stats.resampling import bca, bootstrap
    from proctor.stats.sequences import best_count_for, confidence_sequence
    from proctor.stats.sign_flips import sign_flip_test

_HOMES = {
    "ClusterNoise": "clustered_power",
    "GroupVariances": "clusters",
    "Kappa": "agreement",
    "LabelledItem": "prediction_power",
    "PairNoise": "repeated_power",
    "PointGateErrors": "gate_errors",
    "PredictionPowered": "prediction_power",
    "VarianceComponents": "random_effects",
    "Z_95": "proportions",
    "agresti_min_interval": "means",
    "alpha": "agreement",
    "bca": "resampling",
    "benjamini_hochberg": "multiple_testing",
    "best_count_for": "sequences",
    "bootstrap": "resampling",
    "bounded_interval": "bounded_mean",
    "cases_needed": "power",
    "cases_needed_repeated": "repeated_power",
    "clopper_pearson": "proportions",
    "clustered_difference_interval": "clusters",
    "clustered_error": "clusters",
    "clustered_exact": "clusters",
    "clustered_interval": "clusters",
    "clustered_newcombe": "clusters",
    "clustered_wilson": "clusters",
    "clusters_needed": "clustered_power",
    "confidence_sequence": "sequences",
    "deviation": "means",
    "effective_cases": "clusters",
    "expected_maximum": "order_statistics",
    "flake_rate": "flake_rate",
    "group_variances": "clusters",
    "holm": "multiple_testing",
    "kappa": "agreement",
    "mcnemar": "paired",
    "mean_interval": "means",
    "newcombe": "proportions",
    "newcombe_paired": "paired",
    "paired_bootstrap": "paired",
    "pass_at_k": "pass_at_k",
    "pass_hat_k": "pass_at_k",
    "permutation": "paired",
    "point_gate_errors": "gate_errors",
    "power_clustered": "clustered_power",
    "power_paired": "power",
    "power_repeated": "repeated_power",
    "prediction_powered": "prediction_power",
    "quantile": "means",
    "reaches": "proportions",
    "sign_flip_test": "sign_flips",
    "sign_test": "paired",
    "smallest_difference": "power",
    "smallest_difference_clustered": "clustered_power",
    "smallest_difference_repeated": "repeated_power",
    "t_95": "means",
    "variance_components": "random_effects",
    "wilson": "proportions",
}

__all__ = [
    "Z_95",
    "ClusterNoise",
    "GroupVariances",
    "Kappa",
    "LabelledItem",
    "PairNoise",
    "PointGateErrors",
    "PredictionPowered",
    "VarianceComponents",
    "agresti_min_interval",
    "alpha",
    "bca",
    "benjamini_hochberg",
    "best_count_for",
    "bootstrap",
    "bounded_interval",
    "cases_needed",
    "cases_needed_repeated",
    "clopper_pearson",
    "clustered_difference_interval",
    "clustered_error",
    "clustered_exact",
    "clustered_interval",
    "clustered_newcombe",
    "clustered_wilson",
    "clusters_needed",
    "confidence_sequence",
    "deviation",
    "effective_cases",
    "expected_maximum",
    "flake_rate",
    "group_variances",
    "holm",
    "kappa",
    "mcnemar",
    "mean_interval",
    "newcombe",
    "newcombe_paired",
    "paired_bootstrap",
    "pass_at_k",
    "pass_hat_k",
    "permutation",
    "point_gate_errors",
    "power_clustered",
    "power_paired",
    "power_repeated",
    "prediction_powered",
    "quantile",
    "reaches",
    "sign_flip_test",
    "sign_test",
    "smallest_difference",
    "smallest_difference_clustered",
    "smallest_difference_repeated",
    "t_95",
    "variance_components",
    "wilson",
]


def __getattr__(name: str) -> Any:
    """Imports the public names of a module when one of them is first used (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module 'proctor.stats' has no attribute {name!r}")
    module = import_module(f"proctor.stats.{_HOMES[name]}")
    # All of them: a module that is named like its function stands in the place of it once it is imported.
    globals().update({each: getattr(module, each) for each, home in _HOMES.items() if home == _HOMES[name]})
    return globals()[name]


def __dir__() -> list[str]:
    """Returns the public names."""
    return sorted(__all__)
