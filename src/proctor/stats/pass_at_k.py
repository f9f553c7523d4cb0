"""Several answers to one question: how often one of k passes, and how often all of them pass."""

from __future__ import annotations

from math import prod


def pass_at_k(n: int, c: int, k: int) -> float:
    """Returns the unbiased estimate that at least one of k answers passes, from n answers of which c passed.

    `1 - C(n-c, k) / C(n, k)` as a product, which neither overflows nor cancels for large n.

    Source: M. Chen et al., "Evaluating Large Language Models Trained on Code" (2021), arXiv:2107.03374.

    Raises:
        ValueError: not 1 <= k <= n, or not 0 <= c <= n.
    """
    _check_counts(n, c, k)
    if n - c < k:
        return 1.0
    n_factors = min(c, k)  # the product has as many factors as the smaller of the two, by symmetry
    larger = max(c, k)
    return 1.0 - prod((n - larger - place) / (n - place) for place in range(n_factors))


def pass_hat_k(n: int, c: int, k: int) -> float:
    """Returns the unbiased estimate that all of k answers pass: C(c, k) / C(n, k) for c passed of n answers.

    Source: S. Yao et al., "τ-bench: A Benchmark for Tool-Agent-User Interaction in Real-World Domains"
    (2024), arXiv:2406.12045, where it is called pass^k.

    Raises:
        ValueError: not 1 <= k <= n, or not 0 <= c <= n.
    """
    _check_counts(n, c, k)
    return prod((c - place) / (n - place) for place in range(k)) if k <= c else 0.0


def _check_counts(n: int, c: int, k: int) -> None:
    if n < 1 or k < 1:
        raise ValueError(f"k and n must be at least 1, not n={n} and k={k}.")
    if not 0 <= c <= n:
        raise ValueError(f"c must be within 0 and n, not n={n} and c={c}.")
    if k > n:
        raise ValueError(f"k must be at most n, not n={n} and k={k}: {n} answers say nothing of {k}.")
