"""What each target costs: the dual weight q_i is the elasticity of Δ² to target i.

At the optimum Δ² = max over weights p, q of ‖diag(q/c)^½ W diag(p)^½‖_*², so the derivative of
log Δ² by log c_i is -q_i (envelope theorem): a target that is relaxed by one per cent saves q_i
per cent of Δ², and all q_i sum to 1.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from solvers.advice.candidates import Solve, Trial, epsilon_of
from solvers.advice.report import Price, Relaxation
from solvers.dual.programs import Weights
from solvers.mechanism import find
from solvers.problem import Problem
from solvers.solution import Solution
from workloads import Workload
from workloads.operators import Array

DEAREST = 5
"""So many targets are relaxed together."""

FACTOR = 1.1
"""Their variances are multiplied by this."""

CLOSE = 1e-5
"""Answers whose Δ² differ by less, relatively, are equally good: the quicker one is taken."""

_PROVEN = 1e-2


def proof(trials: Sequence[Trial]) -> Solution | None:
    """The answer whose dual weights are the prices: of the smallest certified gap."""
    known = [
        trial.solution
        for trial in trials
        if trial.solution is not None
        and trial.solution.weights is not None
        and trial.solution.known_lower_bound is not None
    ]
    best = min(known, key=lambda s: (max(s.gap, CLOSE), s.runtime), default=None)
    return best if best is not None and best.gap <= _PROVEN else None


def elasticities(weights: Weights) -> Array:
    """The elasticity of Δ² to each target, shape (m,)."""
    return np.asarray(weights.q / weights.q.sum())


def prices(workload: Workload, targets: Array, elasticity: Array) -> tuple[Price, ...]:
    """The price of each target as written: for each group of queries, or for each query."""
    groups, names = _written(workload)
    count = len(names)
    summed = np.bincount(groups, elasticity, minlength=count)
    least = np.full(count, np.inf)
    np.minimum.at(least, groups, targets)
    sizes = np.bincount(groups, minlength=count)
    return tuple(
        Price(names[at], int(sizes[at]), float(least[at]), float(summed[at]))
        for at in np.argsort(-summed, kind="stable")
    )


def relaxation(
    solve: Solve,
    problem: Problem,
    solution: Solution,
    dearest: Sequence[Price],
    delta: float,
    time_limit: float,
) -> Relaxation:
    """What relaxing these targets saves, predicted and by solving again.

    Parameters
    ----------
    solution : Solution
        With the weights that are the prices.
    delta : float
        δ of every ε.
    """
    groups, names = _written(problem.workload)
    labels = tuple(price.label for price in dearest)
    at = np.isin(groups, [names.index(label) for label in labels])
    relaxed = np.where(at, FACTOR * problem.targets, problem.targets)
    known = find(solution.mechanism).options
    options = {"start": solution.weights, "time_limit": time_limit}
    taken = {name: value for name, value in options.items() if name in known}
    anew = solve(solution.mechanism, problem.workload, relaxed, **taken)
    before = solution.squared_privacy_cost
    predicted = float(FACTOR ** -sum(price.elasticity for price in dearest))
    return Relaxation(
        labels=labels,
        factor=FACTOR,
        predicted=predicted,
        actual=anew.squared_privacy_cost / before,
        epsilon_before=epsilon_of(before, delta),
        epsilon_predicted=epsilon_of(before * predicted, delta),
        epsilon_actual=epsilon_of(anew.squared_privacy_cost, delta),
    )


def _written(workload: Workload) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """The number of the target of every query, and the names of the targets."""
    if workload.groups is not None:
        return workload.groups, workload.group_names
    return np.arange(workload.m, dtype=np.int64), labels_of(workload)


def labels_of(workload: Workload) -> tuple[str, ...]:
    """The names of the queries; their numbers, from 0, where they have none."""
    return workload.labels or tuple(f"query {number}" for number in range(workload.m))
