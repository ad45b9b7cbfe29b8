"""The same problems with one record replaced: every pair of neighbours is checked by itself.

The matrix of differences e_i - e_j is written out, one column for each pair; costs, bounds and
Clarabel's optimum are those of its columns.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.adversary.checks import (
    CLARABEL,
    EXACT,
    ROUNDING,
    Measured,
    clarabel,
    factors,
    proven_bound,
)
from benchmarks.adversary.problems import Array, Case
from solvers import Solution
from workloads import from_matrix

SOLVES: tuple[tuple[str, Mapping[str, Any]], ...] = (
    *((name, {}) for name in ("optimal", "IP", "GM", "CA", "SM-II", "HM", "laplace", "geometric")),
    ("optimal", {"refined": True}),
    ("optimal", {"total_error_weight": 1.0}),
)
"""Mechanisms and their options."""


def solves(case: Case) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    """These, and the optimum with a bound for each cell."""
    rng = np.random.default_rng([case.seed, 4])
    return *SOLVES, ("optimal", {"profile_bounds": 10 ** rng.uniform(-1, 1, case.workload.d)})


_MOST_PAIRS = 60
_LARGEST_PROGRAMME = 22


def relation(case: Case) -> Any:
    """A relation drawn for a problem; None for most, and where the pairs are many."""
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
    """e_i - e_j for every pair, in the order of cells, shape (d, pairs)."""
    if isinstance(neighbours, dict) and "pairs" in neighbours:
        pairs = sorted({(min(pair), max(pair)) for pair in neighbours["pairs"]})
    else:
        size = neighbours["within"] if isinstance(neighbours, dict) else d
        pairs = [(i, j) for i in range(d) for j in range(i + 1, d) if i // size == j // size]
    cells = np.eye(d)
    return np.column_stack([cells[i] - cells[j] for i, j in pairs])


def of_replaced(case: Case, moves: Array, found: dict[str, Solution]) -> Iterator[Measured]:
    """Costs over all pairs, targets, unbiasedness, bounds and Clarabel's optimum.

    ``found`` is by the solve as it is written.
    """
    gaussian = {name: one for name, one in found.items() if one.noise.gaussian}
    for name, solution in gaussian.items():
        yield from _of_solution(case, solution, moves, f"{name} under {solution.neighbours}")
    if "optimal()" not in gaussian:
        return
    optimum = gaussian["optimal()"]
    if optimum.weights is not None:
        replaced = replace(case, workload=from_matrix(case.matrix @ moves))
        proven = proven_bound(replaced, optimum.weights.p, optimum.weights.q)
        over = optimum.lower_bound / proven - 1
        yield Measured("replace-one: bound above its proof", over, ROUNDING, optimum.neighbours)
    for name, solution in gaussian.items():
        beaten = optimum.lower_bound / solution.squared_privacy_cost - 1
        of = f"{name} under {solution.neighbours}"
        yield Measured("replace-one: a cost below the bound", beaten, ROUNDING, of)
    scaled = case.matrix / np.sqrt(case.targets)[:, None] @ moves
    if sum(scaled.shape) <= _LARGEST_PROGRAMME and case.well_scaled:
        best = clarabel(scaled)
        if best is not None:
            off = abs(optimum.squared_privacy_cost / best - 1)
            allowed = CLARABEL + optimum.gap
            yield Measured("replace-one: optimum off Clarabel's", off, allowed, optimum.neighbours)


def _of_solution(case: Case, solution: Solution, moves: Array, of: str) -> Iterator[Measured]:
    left, right = factors(solution)
    far = np.square(right @ moves).sum(axis=0).max()
    variances = np.square(left).sum(axis=1)
    off = float(abs(solution.squared_privacy_cost / far - 1))
    yield Measured("replace-one: stated privacy cost off", off, EXACT, of)
    over = float(np.max(variances / case.targets)) - 1
    yield Measured("replace-one: over the targets", over, EXACT, of)
    missing = np.abs((left @ right - case.matrix) @ moves).max(axis=1)
    biased = float(np.max(missing / np.sqrt(np.where(variances > 0, variances, np.inf) * far)))
    yield Measured("replace-one: (L B - W) D in units of the noise", biased, 1e-11, of)
    public = missing[variances == 0]
    if public.size:
        yield Measured("replace-one: noiseless and not public", float(public.max()), 0, of)
