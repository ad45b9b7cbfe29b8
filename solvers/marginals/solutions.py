"""From the variables of a program in subset variables to noise and solution."""

from typing import Any

import numpy as np

from solvers.dual import Weights
from solvers.errors import OptionError, SolveFailedError
from solvers.marginals.collapse import Collapsed
from solvers.marginals.noise import MarginalsNoise, SubsetNoise
from solvers.marginals.optimum import Optimum
from solvers.marginals.structure import Structure
from solvers.solution import Solution
from workloads.operators import Array
from workloads.workload import LARGEST_LISTED

_AGREEMENT = 1e-6


def subset_noise(structure: Structure, v: Array) -> SubsetNoise:
    """The noise of some variables v of the program, scaled so that the targets are just met."""
    ratios = structure.program.ratios(v)
    scale = float(ratios.max())
    return SubsetNoise(
        float((1 / v).sum() * scale),
        structure.targets * ratios / scale,
        v * np.exp(structure.closure.log_ranks) / scale,
    )


def hybrid(name: str, structure: Structure, weight: float) -> Collapsed:
    """Problem 1 with a weight on the total error, collapsed.

    Raises
    ------
    OptionError
        If the weight is negative or not finite.
    """
    if not 0 <= weight < float("inf"):
        raise OptionError(f"{name}: total_error_weight {weight}; expected a number of at least 0")
    return structure.hybrid(weight)


def certified(
    name: str,
    structure: Structure,
    collapsed: Collapsed,
    found: Optimum,
    weight: float,
    notes: dict[str, Any],
) -> Solution:
    """The solution of a program, its value computed again from the variances of all subsets."""
    noise = MarginalsNoise(structure, subset_noise(structure, collapsed.variables(found.v)))
    solution = Solution(
        name,
        structure.problem,
        noise,
        known_lower_bound=found.lower if weight == 0 else None,
        iterations=found.iterations,
        converged=found.converged,
        timed_out=found.timed_out,
        notes=notes,
        weights=_weights(structure, collapsed.weights(found.q)),
        trace=found.trace,
    )
    value = solution.squared_privacy_cost
    if weight > 0:
        value *= 1 + weight * solution.total_variance
        notes |= {"objective": 2 * value**0.5, "objective_gap": found.gap}
    if not abs(value - found.upper) <= _AGREEMENT * found.upper:
        raise SolveFailedError(
            f"{name}: the objective recomputed from the variances of all subsets is "
            f"{value:.9g}, the solver claims {found.upper:.9g}: too ill-conditioned for double "
            "precision; bring the targets closer together"
        )
    return solution


def _weights(structure: Structure, q: Array) -> Weights:
    """Equal weights of all cells; a marginal's weight shared by its queries where listed."""
    workload = structure.problem.workload
    cells = workload.d if workload.d <= LARGEST_LISTED else 1
    p = np.broadcast_to(1.0 / cells, (cells,))
    if not workload.listed:
        return Weights(p, q)
    sizes = np.asarray(workload.group_sizes)
    return Weights(p, np.repeat(q / sizes, sizes))


def inner_noise(structure: Structure, power: float) -> MarginalsNoise:
    """The noise of the least ``sum_j c_j**-power var_j``.

    At equal column weights the inner solution has a constant profile, so these weights are
    optimal; the power 0 gives the noise of least Fisher information too.
    """
    logs = structure.log_sizes + (1 - power) * np.log(structure.targets)
    weights = np.exp(logs - logs.max())
    return MarginalsNoise(structure, subset_noise(structure, structure.program.inner(weights)))
