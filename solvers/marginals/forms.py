"""The methods that have a form in subset variables, each giving what its dense form gives."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import exp, log

import numpy as np

from solvers.errors import SolveFailedError
from solvers.marginals.interior_point import minimise
from solvers.marginals.noise import CellNoise, QueryNoise, SubsetNoise
from solvers.marginals.solution import MarginalsSolution
from solvers.marginals.structure import Structure
from workloads.operators import Array

_AGREEMENT = 1e-6
_LARGEST_LOG = 700.0


@dataclass(frozen=True)
class Form:
    """A method in subset variables.

    Attributes
    ----------
    solve : callable
        ``solve(structure, *, option=default, ...) -> MarginalsSolution``.
    indifferent : frozenset of str
        Options of the dense method that change no answer here, whatever their value.
    """

    solve: Callable[..., MarginalsSolution]
    indifferent: frozenset[str] = frozenset()


def subset_noise(structure: Structure, v: Array) -> SubsetNoise:
    """The noise of some variables v of the program, scaled so that the targets are just met."""
    ratios = structure.program.ratios(v)
    scale = float(ratios.max())
    return SubsetNoise(
        float((1 / v).sum() * scale),
        structure.targets * ratios / scale,
        v * np.exp(structure.closure.log_ranks) / scale,
    )


def optimal(
    structure: Structure,
    *,
    tol: float = 1e-6,
    max_iterations: int = 100,
    time_limit: float | None = None,
) -> MarginalsSolution:
    """The certified optimum of Problem 1 by the interior point in the marginals' weights.

    Raises
    ------
    SolveFailedError
        If the variances of all subsets do not confirm the optimum of the collapsed program.
    """
    collapsed = structure.collapsed
    found = minimise(
        collapsed.program, tol=tol, max_iterations=max_iterations, time_limit=time_limit
    )
    noise = subset_noise(structure, collapsed.variables(found.v))
    if not abs(noise.squared_privacy_cost - found.upper) <= _AGREEMENT * found.upper:
        raise SolveFailedError(
            f"optimal: the cost recomputed from the variances of all subsets is "
            f"{noise.squared_privacy_cost:.9g}, the solver claims {found.upper:.9g}: too "
            "ill-conditioned for double precision; bring the targets closer together"
        )
    return MarginalsSolution(
        "optimal",
        structure,
        noise,
        known_lower_bound=found.lower,
        iterations=found.iterations,
        converged=found.converged,
        timed_out=found.timed_out,
        weights=collapsed.weights(found.q),
    )


def least_total_error(name: str, power: float, structure: Structure) -> MarginalsSolution:
    """The least ``sum_j c_j**-power var_j``: CA (power 0), wCA-II (1), wCA-I (2), all closed form.

    At equal column weights the inner solution has a constant profile, so these weights are
    optimal. It is also the noise of least Fisher information when the power is 0.
    """
    logs = structure.log_sizes + (1 - power) * np.log(structure.targets)
    weights = np.exp(logs - logs.max())
    v = structure.program.inner(weights)
    return MarginalsSolution(name, structure, subset_noise(structure, v))


def input_perturbation(structure: Structure) -> MarginalsSolution:
    """Noise of one variance on every cell: Δ² is the largest ``d / (N_T c_T)``."""
    cells = log(structure.problem.workload.d) - structure.log_sizes
    largest = float((cells - np.log(structure.targets)).max())
    if largest > _LARGEST_LOG:
        raise SolveFailedError(
            f"IP: its squared privacy cost is about 10^{largest / log(10):.0f}, beyond floats; "
            "raise the targets or ask for marginals of a higher order"
        )
    return MarginalsSolution("IP", structure, CellNoise(exp(largest), np.exp(cells - largest)))


def gaussian(structure: Structure) -> MarginalsSolution:
    """Noise of one variance on every query: Δ² is the number of marginals over min c."""
    variance = float(structure.targets.min())
    count = structure.targets.size
    return MarginalsSolution(
        "GM", structure, QueryNoise(count / variance, np.full(count, variance))
    )


_CLOSED = frozenset({"tol", "max_iterations", "time_limit", "cg_steps", "homotopy", "theta"})

FORMS: Mapping[str, Form] = {
    "optimal": Form(optimal, frozenset({"start"})),
    "CA": Form(partial(least_total_error, "CA", 0.0), _CLOSED),
    "wCA-I": Form(partial(least_total_error, "wCA-I", 2.0), _CLOSED),
    "wCA-II": Form(partial(least_total_error, "wCA-II", 1.0), _CLOSED),
    "fisher": Form(partial(least_total_error, "fisher", 0.0)),
    "IP": Form(input_perturbation),
    "GM": Form(gaussian),
}
"""Every form by the method's name."""
