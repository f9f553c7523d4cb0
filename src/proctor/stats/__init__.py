"""Statistics on plain numbers. Pure; knows no noun; needs the standard library alone.

Each name is imported from its file when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proctor.stats.agreement import Kappa, alpha, kappa
    from proctor.stats.many import benjamini_hochberg, holm
    from proctor.stats.means import (
        clustered_error,
        clustered_interval,
        deviation,
        mean_interval,
        quantile,
        t_95,
    )
    from proctor.stats.pairs import mcnemar, newcombe_paired, paired_bootstrap, permutation, sign_test
    from proctor.stats.passk import pass_at_k, pass_hat_k
    from proctor.stats.power import cases_needed, power_paired, smallest_difference
    from proctor.stats.repeats import flake_rate
    from proctor.stats.resampling import bca, bootstrap
    from proctor.stats.shares import Z_95, clopper_pearson, newcombe, reaches, wilson

_HOMES = {
    "Kappa": "agreement",
    "Z_95": "shares",
    "alpha": "agreement",
    "bca": "resampling",
    "benjamini_hochberg": "many",
    "bootstrap": "resampling",
    "cases_needed": "power",
    "clopper_pearson": "shares",
    "clustered_error": "means",
    "clustered_interval": "means",
    "deviation": "means",
    "flake_rate": "repeats",
    "holm": "many",
    "kappa": "agreement",
    "mcnemar": "pairs",
    "mean_interval": "means",
    "newcombe": "shares",
    "newcombe_paired": "pairs",
    "paired_bootstrap": "pairs",
    "pass_at_k": "passk",
    "pass_hat_k": "passk",
    "permutation": "pairs",
    "power_paired": "power",
    "quantile": "means",
    "reaches": "shares",
    "sign_test": "pairs",
    "smallest_difference": "power",
    "t_95": "means",
    "wilson": "shares",
}

__all__ = [
    "Z_95",
    "Kappa",
    "alpha",
    "bca",
    "benjamini_hochberg",
    "bootstrap",
    "cases_needed",
    "clopper_pearson",
    "clustered_error",
    "clustered_interval",
    "deviation",
    "flake_rate",
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
    "power_paired",
    "quantile",
    "reaches",
    "sign_test",
    "smallest_difference",
    "t_95",
    "wilson",
]


def __getattr__(name: str) -> Any:
    """A public name, imported from its module (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module 'proctor.stats' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"proctor.stats.{_HOMES[name]}"), name)
    return found


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
