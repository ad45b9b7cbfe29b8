"""Random neighbour relations for a problem; each pair of neighbours becomes a column. Pure."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.adversary.problems import Array, Case

_SOLVES: tuple[tuple[str, Mapping[str, Any]], ...] = (
    *((name, {}) for name in ("optimal", "IP", "GM", "CA", "SM-II", "HM", "laplace", "geometric")),
    ("optimal", {"refined": True}),
    ("optimal", {"total_error_weight": 1.0}),
)
"""Mechanisms that are run under a relation, with their options."""


def solves(case: Case) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    """`_SOLVES`, and ``optimal`` with a bound on the profile of each cell."""
    rng = np.random.default_rng([case.seed, 4])
    return *_SOLVES, ("optimal", {"profile_bounds": 10 ** rng.uniform(-1, 1, case.workload.d)})


_MOST_PAIRS = 60


def relation(case: Case) -> Any:
    """A relation drawn for a problem; None for most problems, and if there are many pairs."""
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
    """The changes of x between neighbours, one column each: e_i, or e_i - e_j."""
    cells = np.eye(d)
    if neighbours == "add-remove":
        return cells
    if isinstance(neighbours, dict) and "pairs" in neighbours:
        pairs = sorted({(min(pair), max(pair)) for pair in neighbours["pairs"]})
    else:
        size = neighbours["within"] if isinstance(neighbours, dict) else d
        pairs = [(i, j) for i in range(d) for j in range(i + 1, d) if i // size == j // size]
    return np.column_stack([cells[i] - cells[j] for i, j in pairs])
