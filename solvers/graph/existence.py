"""For which ε a tight-constraints mechanism exists (POST 2013, sections 5.1 and 6)."""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from workloads import QueryGraph
from workloads.priors import constraints, solved
from workloads.symmetry import classes

_ACCURACY = 1e-7
_LEAST = 1e-3
_SCANNED = 128
_GENERIC = math.sqrt(0.7)
"""An ε at which answers have equal sums only if they have at every ε."""


def least_epsilon(graph: QueryGraph) -> float:
    """The least ε for which a tight-constraints mechanism exists, to 1e-6; see `existence`.

    POST 2013, section 6, states 0.8 for the sum query with u=150, v=5 and 0.9 for the 2-count
    query with u=30; the check that it names gives 0.968 and 1.136.
    """
    return existence(graph)[0][0]


@lru_cache(maxsize=16)
def existence(graph: QueryGraph) -> tuple[tuple[float, float], ...]:
    """The ranges of ε with a z >= 0 that has Φz = 1 (Lemma 3), their ends to 1e-6.

    The check is made at 128 values of ε and every change between two of them found by
    bisection, so a range narrower than their distance may be missed. The paper says that a
    mechanism exists for every ε above the least one; on most graphs it does, but not on all
    (docs/query-graphs.md has one of seven answers). It surely does where every row of E = Φ - I
    sums to at most 1/2, since ``z = 1 - E1 + E²1 - ... >= 0``: that ends the scan.

    Returns
    -------
    tuple of (float, float)
        In order. The first begins at 0 if one exists at 1e-3; the last ends at infinity.
    """
    alike = classes(constraints(graph, _GENERIC), np.ones(graph.n))
    rows, sizes = graph.distances[alike.first], alike.sizes

    def exists(epsilon: float) -> bool:
        z = solved(alike.sums(np.exp(-epsilon * rows)), np.ones(len(rows)), sizes)
        return z is not None and bool(z.min() >= 0)

    def sparse(epsilon: float) -> bool:
        return float(np.exp(-epsilon * rows).sum(axis=1).max()) <= 1.5

    surely = max(_border(sparse, 0.0, math.log(2 * graph.n)))
    scanned = [float(epsilon) for epsilon in np.linspace(_LEAST, surely, _SCANNED)]
    possible = [*map(exists, scanned[:-1]), True]
    ends = [0.0] if possible[0] else []
    for at in range(_SCANNED - 1):
        if possible[at] != possible[at + 1]:
            border = _border(exists, scanned[at], scanned[at + 1])
            ends.append(border[0] if possible[at] else border[1])
    return tuple(zip(ends[::2], [*ends[1::2], math.inf], strict=True))


def _border(holds: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """Where a condition that holds at one end only changes: both sides of it."""
    at_low = holds(low)
    while high - low > _ACCURACY:
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) == at_low else (low, middle)
    return low, high
