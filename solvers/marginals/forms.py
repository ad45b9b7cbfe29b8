"""The mechanisms that have a form in subset variables, each giving what its dense form gives."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import exp, log
from typing import Any

import numpy as np

from solvers import newton_cg
from solvers.dual import Weights
from solvers.errors import OptionError, SolveFailedError
from solvers.marginals import soft_max
from solvers.marginals.collapse import Collapsed
from solvers.marginals.noise import CellNoise, MarginalsNoise, QueryNoise, SubsetNoise
from solvers.marginals.optimum import Optimum, minimise
from solvers.marginals.structure import Structure
from solvers.mechanism import Mechanism
from solvers.solution import Solution
from solvers.stopping import Deadline
from workloads.operators import Array
from workloads.workload import LARGEST_LISTED

_AGREEMENT = 1e-6
_LARGEST_LOG = 700.0
_REFINED_TOL = 1e-9


@dataclass(frozen=True)
class Form:
    """A mechanism in subset variables.

    Attributes
    ----------
    solve : callable
        ``solve(structure, *, option, ...) -> Solution``; its options are among those
        of the dense mechanism, whose defaults and meanings they have.
    indifferent : frozenset of str
        Options of the dense mechanism that change no answer here, whatever their value.
    """

    solve: Callable[..., Solution]
    indifferent: frozenset[str] = frozenset()

    @property
    def options(self) -> frozenset[str]:
        """The options that it takes."""
        parameters = inspect.signature(self.solve).parameters.values()
        return frozenset(p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY)

    def obstacle(self, mechanism: Mechanism, options: Mapping[str, Any]) -> str | None:
        """The first of the options given that only the dense mechanism knows; None without one."""
        return next(
            (
                name
                for name, parameter in mechanism.options_on("matrix").items()
                if name not in self.options | self.indifferent
                and options.get(name, parameter.default) != parameter.default
            ),
            None,
        )


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
    tol: float,
    max_iterations: int,
    time_limit: float | None,
    refined: bool,
    total_error_weight: float,
) -> Solution:
    """The certified optimum of Problem 1, or of its hybrid, in the marginals' weights.

    The profile being constant, the optimum is the least in the refined privacy ordering too:
    the mean of the profile of any other optimum over all relabellings is no lower.

    Raises
    ------
    OptionError
        If the weight is negative, or ``refined`` is asked of the hybrid.
    SolveFailedError
        If the variances of all subsets do not confirm the optimum of the collapsed program.
    """
    if refined and total_error_weight > 0:
        raise OptionError(
            "optimal: refined with a total_error_weight; the refined ordering is of Problem 1 "
            "alone: leave one of the two out"
        )
    collapsed = _hybrid("optimal", structure, total_error_weight)
    found = minimise(
        collapsed.program,
        tol=min(tol, _REFINED_TOL) if refined else tol,
        max_iterations=max_iterations,
        time_limit=time_limit,
    )
    notes = {"room": 0.0} | ({"levels": 1} if refined else {})
    return _certified("optimal", structure, collapsed, found, total_error_weight, notes)


def soft_maxima(
    structure: Structure,
    *,
    tol: float,
    mu: float,
    nttol: float | None,
    softmax_tol: float,
    extrapolated: bool,
    total_error_weight: float,
    sigma: float,
    beta: float,
    max_cg: int | None,
    tol2: float,
    max_iterations: int,
    time_limit: float | None,
) -> Solution:
    """SM-II in subset variables.

    Raises
    ------
    OptionError
        If the weight is out of range.
    SolveFailedError
        If the variances of all subsets do not confirm the value of the collapsed program.
    """
    collapsed = _hybrid("SM-II", structure, total_error_weight)
    settings = newton_cg.Settings(
        gap=tol,
        mu=mu,
        nttol=nttol,
        tol=softmax_tol,
        max_cg=max_cg,
        tol2=tol2,
        t2_over_t1=1.0,
        sigma=sigma,
        beta=beta,
        max_iterations=max_iterations,
        extrapolated=extrapolated,
    )
    found, t = soft_max.minimise(collapsed.program, settings, Deadline.after(time_limit))
    return _certified("SM-II", structure, collapsed, found, total_error_weight, {"t": t})


def _hybrid(name: str, structure: Structure, weight: float) -> Collapsed:
    if not 0 <= weight < float("inf"):
        raise OptionError(f"{name}: total_error_weight {weight}; expected a number of at least 0")
    return structure.hybrid(weight)


def _certified(
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


def least_total_error(name: str, power: float, structure: Structure) -> Solution:
    """The least ``sum_j c_j**-power var_j``: CA (power 0), wCA-II (1), wCA-I (2), all closed form.

    At equal column weights the inner solution has a constant profile, so these weights are
    optimal; the power 0 gives the noise of least Fisher information too.
    """
    return Solution(name, structure.problem, _inner_noise(structure, power))


def _inner_noise(structure: Structure, power: float) -> MarginalsNoise:
    logs = structure.log_sizes + (1 - power) * np.log(structure.targets)
    weights = np.exp(logs - logs.max())
    return MarginalsNoise(structure, subset_noise(structure, structure.program.inner(weights)))


def least_fisher_information(structure: Structure) -> Solution:
    """CA's noise under its other name, with the Cramér-Rao measures where W has rank d."""
    noise = _inner_noise(structure, 0.0)
    d = structure.problem.workload.d
    measures = {}
    if d in structure.operator.marginal_sizes:
        whole = structure.operator.marginal_sizes.index(d)
        bound = exp(structure.log_sizes[whole] + log(noise.marginal_variances[whole]))
        measures = {"cramer_rao_bound": bound, "cramer_rao_ratio": bound / noise.total_variance}
    return Solution("fisher", structure.problem, noise, measures=measures)


def input_perturbation(structure: Structure) -> Solution:
    """Noise of one variance on every cell: Δ² is the largest ``d / (N_T c_T)``."""
    cells = log(structure.problem.workload.d) - structure.log_sizes
    largest = float((cells - np.log(structure.targets)).max())
    if largest > _LARGEST_LOG:
        raise SolveFailedError(
            f"IP: its squared privacy cost is about 10^{largest / log(10):.0f}, beyond floats; "
            "raise the targets or ask for marginals of a higher order"
        )
    noise = MarginalsNoise(structure, CellNoise(exp(largest), np.exp(cells - largest)))
    return Solution("IP", structure.problem, noise)


def gaussian(structure: Structure) -> Solution:
    """Noise of one variance on every query: Δ² is the number of marginals over min c."""
    variance = float(structure.targets.min())
    count = structure.targets.size
    noise = MarginalsNoise(structure, QueryNoise(count / variance, np.full(count, variance)))
    return Solution("GM", structure.problem, noise)


_CLOSED = frozenset({"tol", "max_iterations", "time_limit"})

FORMS: Mapping[str, Form] = {
    "optimal": Form(optimal, frozenset({"start"})),
    "SM-II": Form(soft_maxima),
    "CA": Form(partial(least_total_error, "CA", 0.0), _CLOSED),
    "wCA-I": Form(partial(least_total_error, "wCA-I", 2.0), _CLOSED),
    "wCA-II": Form(partial(least_total_error, "wCA-II", 1.0), _CLOSED),
    "fisher": Form(least_fisher_information),
    "IP": Form(input_perturbation),
    "GM": Form(gaussian),
}
"""Every form by the mechanism's name."""
