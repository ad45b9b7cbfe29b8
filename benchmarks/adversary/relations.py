"""Random neighbour relations for a problem; each pair of neighbours becomes a matrix column."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.adversary.problems import Array, Case

_SOLVES: tuple[tuple[str, Mapping[str, Any]], ...] = (
    *((name, {}) for name in ("optimal", "IP", "GM", "CA", "SM-II", "HM", "laplace", "geometric")),
    ("optimal", {"refined": True}),
    ("optimal", {"total_error_weight": 1.0}),
)
"""Mechanisms that are run under a relation other than add-remove, with their options."""


def solves(case: Case) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    """Return `_SOLVES`, and ``optimal`` with a random bound on the profile of each domain cell."""
    rng = np.random.default_rng([case.seed, 4])
    return *_SOLVES, ("optimal", {"profile_bounds": 10 ** rng.uniform(-1, 1, case.workload.d)})


_MOST_PAIRS = 60


def relation(case: Case) -> Any:
    """Draw a neighbour relation for a problem; None for large problems and half of the others.

    The result is also None if replace-one is drawn and has more than `_MOST_PAIRS` pairs.
    """
    d = case.workload.d
    rng = np.random.default_rng([case.seed, 2])
    if d < 2 or rng.random() < 0.5 or not case.small:
        return None
    sizes = [size for size in range(2, d) if d % size == 0]
    drawn = rng.random()
    if sizes and drawn < 0.25:
        return {"within": int(rng.choice(sizes))}
    if drawn < 0.5:
        count = int(rng.integers(1, 2 * d))
        return {"pairs": [rng.choice(d, 2, replace=False).tolist() for _ in range(count)]}
    return "replace-one" if d * (d - 1) // 2 <= _MOST_PAIRS else None


def differences(neighbours: Any, d: int) -> Array:
    """Return the changes of the data vector x between neighbours, as columns.

    Each column is a unit vector e_i under add-remove, and a difference e_i - e_j otherwise.
    """
    cells = np.eye(d)
    if neighbours == "add-remove":
        return cells
    if isinstance(neighbours, dict) and "pairs" in neighbours:
        pairs = sorted({(min(pair), max(pair)) for pair in neighbours["pairs"]})
    else:
        size = neighbours["within"] if isinstance(neighbours, dict) else d
        pairs = [(i, j) for i in range(d) for j in range(i + 1, d) if i // size == j // size]
    return np.column_stack([cells[i] - cells[j] for i, j in pairs])
