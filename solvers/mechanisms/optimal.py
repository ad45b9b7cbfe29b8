"""The certified optimum of Problem 1: the least privacy cost at which every target is met."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from solvers.dual.iteration import Stopping
from solvers.dual.newton_system import explicit_count
from solvers.dual.programs import Weights
from solvers.dual.refinement import FIRST_TOL, from_optimum
from solvers.errors import NotApplicableError, OptionError
from solvers.forms.differences import Differences, optimum_over_pairs
from solvers.forms.kronecker import Product, multiply
from solvers.forms.orbits import AnyOrbits, Unreduced
from solvers.forms.orbits.orbit_noise import OrbitsNoise, from_dual, inner_noise
from solvers.forms.reduction import ObstacleError
from solvers.mechanism import Iterative, ProblemSize, Work
from solvers.problem import Problem
from solvers.solution import Solution
from workloads.given import masked_count, real_numbers
from workloads.operators import Array, dense
from workloads.parameters import NotNegative

_LARGEST_BOUND = 1e60
"""Largest personal bound: beyond it, or below its inverse, squares of entries leave the floats."""


def read_personal_bounds(bounds: Sequence[float], d: int, orbits: int | None = None) -> Array:
    """Convert ``profile_bounds`` to an array: a bound for each cell or each orbit of cells.

    ``d`` is the number of cells, and ``orbits`` the number of orbits.

    Raises
    ------
    OptionError
        If the bounds are not one positive number per cell or orbit, or are too large or small.
    """
    try:
        alpha = real_numbers(bounds)
    except (TypeError, ValueError, OverflowError) as error:
        said = f"optimal: profile_bounds are not real numbers: {error}"
        raise OptionError(said, "profile_bounds") from None
    fit = alpha.shape in ((d,), (orbits,)) and not masked_count(bounds)
    if not fit or not np.all((alpha >= 1 / _LARGEST_BOUND) & (alpha <= _LARGEST_BOUND)):
        raise OptionError(
            f"optimal: profile_bounds of shape {alpha.shape} from {alpha.min(initial=np.inf):g} to "
            f"{alpha.max(initial=0.0):g}; expected {d} positive numbers, one for each cell of the "
            f"domain, none masked, from {1 / _LARGEST_BOUND:g} to {_LARGEST_BOUND:g}. Only their "
            "ratios matter: scale them",
            "profile_bounds",
        )
    return alpha


@dataclass(frozen=True)
class Optimal(Iterative):
    """The certified optimum: least privacy cost that meets every target.

    Problem 1 of PVLDB 14(10), by an interior-point method on the dual. The solve stops at a
    certified relative gap of the objective, or after ``max_iterations`` Newton steps.
    ``notes["profile_slack"]`` of a solution is 1 - mean(profile) / max(profile), a measure of the
    room for further queries that cost no privacy. If the objective is not Δ² itself,
    ``notes["objective"]`` is its value and ``notes["objective_gap"]`` its relative gap.

    Attributes
    ----------
    start : Weights, optional
        Dual weights of a similar problem (``Solution.weights``) at which to start. They change the
        results only within the gap.
    refined : bool
        Whether to find the one solution that is least in the refined privacy ordering (Definition 5
        and Theorem 10 of arXiv v1). ``notes["levels"]`` is the number of problems solved for this.
    total_error_weight : float
        The weight θ >= 0 of total squared error in the hybrid objective (PVLDB 14(10), section
        6.1), ``max(profile) + max(ratios) + θ sum(query_variances)``. At the best scale of the
        noise it is ``2 sqrt(Δ² (1 + θ sum(query_variances)))``, where Δ² and the variances are
        those of the noise that just meets the targets.
    profile_bounds : sequence of float, shape (d,), optional
        A personal bound α_i > 0 for every cell: ``max(profile / α)`` takes the place of
        ``Δ² = max(profile)`` (Corollary 1 holds for each cell separately). Under replace-one a pair
        of cells has the smaller of the bounds of its two cells. On orbits there may be one bound
        for each orbit of cells instead.
    """

    name = "optimal"
    source = "Problem 1 of PVLDB 14(10), by its dual (docs/optimal.md)"
    self_certifying = True
    other_objectives = ("total_error_weight", "profile_bounds")
    uses_structure = True
    flops_per_pair = 8e3

    start: Weights | None = None
    refined: bool = False
    total_error_weight: NotNegative = 0.0
    profile_bounds: Sequence[float] | None = None

    def __post_init__(self) -> None:
        """Raise OptionError if an option is out of range, or two options exclude each other."""
        super().__post_init__()
        if self.start is not None and not isinstance(self.start, Weights):
            raise OptionError(
                f"optimal: start of type {type(self.start).__name__}; expected the weights of "
                "another solution (Solution.weights)",
                "start",
            )
        if self.refined and self.total_error_weight > 0:
            raise OptionError(
                "optimal: refined with a total_error_weight; the refined ordering is of Problem 1 "
                "alone: leave one of the two out",
                "refined",
            )

    def refine_stopping(self, stopping: Stopping, finest: float = FIRST_TOL) -> Stopping:
        """Return the dual program's stopping rule; with ``refined``, tol is at most ``finest``."""
        return replace(stopping, tol=min(self.tol, finest)) if self.refined else stopping

    def on_matrix(self, problem: Problem) -> Solution:
        """Return the optimum on the query matrix; every query and every cell is an orbit."""
        return self.on_orbits(Unreduced.of(problem))

    def on_differences(self, differences: Differences) -> Solution:
        """Solve for all pairs of neighbouring cells under replace-one; no ``start`` is used.

        With ``refined``, the costs of all pairs take the place of the profile in the refined
        ordering. If there are too many pairs, ``refined`` and ``profile_bounds`` raise
        NotApplicableError; other errors are as in `on_orbits`.
        """
        stopping = self.stopping()
        costly = {"refined": self.refined, "profile_bounds": self.profile_bounds is not None}
        for option in (name for name, given in costly.items() if given and not differences.at_once):
            raise NotApplicableError(
                f"optimal: option {option!r} under {differences.problem.neighbours.title} on "
                f"{differences.problem.size}: too many pairs of neighbours to solve for together; "
                "leave it out"
            )
        bounds = None
        if self.profile_bounds is not None:
            of_cells = read_personal_bounds(self.profile_bounds, differences.problem.workload.d)
            # the smaller bound of a pair's two cells, since the record may be in either
            bounds = of_cells[differences.pairs].min(axis=1)
        weight = self.total_error_weight
        optimum = optimum_over_pairs(
            differences, self.refine_stopping(stopping), total_error_weight=weight, bounds=bounds
        )
        root, result = optimum.root, optimum.result
        notes: dict[str, float] = {"pairs": optimum.pairs, "rounds": optimum.rounds}
        notes["public_queries"] = int(np.sum(~differences.private))
        if self.refined:
            (root,), notes["levels"], result = from_optimum(result, self.tol, stopping.deadline)
        noise = differences.noise(self.name, root)
        cost = noise.squared_privacy_cost
        if bounds is not None:
            (first, second), right = differences.pairs.T, dense(noise.right)
            cost = float((np.square(right[:, first] - right[:, second]).sum(axis=0) / bounds).max())
        objective = self._compute_objective(cost, noise.total_variance)
        least = result.lower if weight == 0 else 2 * float(np.sqrt(result.lower))
        if not self._plain:
            notes |= {"objective": objective, "objective_gap": objective / least - 1}
        return Solution(
            self.name,
            differences.problem,
            noise,
            known_lower_bound=result.lower if self._plain else None,
            iterations=result.iterations,
            converged=result.converged and objective <= least * (1 + self.tol),
            timed_out=result.timed_out,
            weights=optimum.weights,
            notes=notes,
        )

    def on_orbits(self, orbits: AnyOrbits) -> Solution:
        """Return the optimum on orbits.

        Raises
        ------
        OptionError
            If the personal bounds are not one positive number for each cell, or for each orbit.
        SolveFailedError
            If the product of the computed factors is not the workload, or the objective is below
            its lower bound.
        """
        stopping = self.stopping()
        roots, whole = None, orbits
        if self.profile_bounds is not None:
            n = orbits.cells.size
            bounds = read_personal_bounds(self.profile_bounds, orbits.problem.workload.d, n)
            of_orbits = orbits.of_cells(bounds)
            assert of_orbits is not None
            roots = np.sqrt(of_orbits)
            whole = orbits.with_columns_divided(roots)
        start = None if self.start is None else orbits.collect(self.start)
        inner_stopping = self.refine_stopping(stopping, whole.finest)
        result = whole.optimum(inner_stopping, start, self.total_error_weight)
        notes: dict[str, float] = {}
        if self.refined:
            refined = whole.refine(self.name, result, self.tol, stopping.deadline)
            parts, notes["levels"], result = refined
            noise = OrbitsNoise(whole, parts).met(self.name)
        else:
            noise = inner_noise(self.name, whole, result.best)
        # for the problem's own queries, whose columns are not divided by the bounds' roots
        own = noise if roots is None else noise.on_cells_scaled(orbits, roots)
        value = self._compute_objective(noise.squared_privacy_cost, noise.total_variance)
        if not self._plain:
            notes |= {"objective": value, "objective_gap": result.gap}
        slack = 1 - own.privacy_profile.mean() / own.squared_privacy_cost
        notes["profile_slack"] = max(float(slack), 0.0)
        return from_dual(self, own, result, value, notes, result.lower if self._plain else None)

    def check_orbits(self, orbits: AnyOrbits) -> None:
        """Raise ObstacleError if personal bounds differ within an orbit of cells."""
        bounds = self.profile_bounds
        if bounds is None or np.size(bounds) == orbits.cells.size:
            return
        if orbits.of_cells(read_personal_bounds(bounds, orbits.problem.workload.d)) is None:
            raise ObstacleError(
                "profile_bounds differ between cells that the queries and their targets do not "
                f"tell apart; give one for each of the {orbits.cells.size} orbits of cells, or "
                "equal ones within each"
            )

    def on_factors(self, product: Product) -> Solution:
        """Return the product of the factors' solutions."""
        return multiply(self, product)

    def work(self, size: ProblemSize) -> Work:
        """Five to ten Newton steps, each a spectrum, a preconditioner and a product.

        The number of steps depends on targets and queries: the estimate is half the measured CPU
        time for ranges with different targets, and 3.4 times the measured time for random signs
        with equal targets (docs/benchmarks.md). Structured workloads take fifteen steps of ten to
        twenty products. Below 500 cells, the overhead of calls takes more time than the arithmetic.
        """
        m, d = size.m, size.d
        if size.form_work is not None:
            flops = 5e9 + 9000.0 * d**3 + 2500.0 * size.form_work
            return Work(flops=flops, bytes=130.0 * d**2 + 200.0 * m)
        k = min(m, d)
        heavy = explicit_count(m + d, k)
        light = m + d if heavy < m + d else 0
        small = 5e8 + 3.5e4 * (m + d) * k
        flops = small + 75.0 * heavy**2 * k + 3.4 * heavy**3 + 330.0 * light * k**2
        return Work(flops=flops, bytes=16.0 * heavy**2 + 64.0 * (m + d) * k + 8.0 * m * d)

    @property
    def _plain(self) -> bool:
        """Whether the objective is Δ² itself, so that the dual's bound is a bound on Δ²."""
        return self.profile_bounds is None and self.total_error_weight == 0

    def _compute_objective(self, cost: float, total_variance: float) -> float:
        """Return the objective at a squared privacy cost: the cost itself, or the hybrid."""
        if self.total_error_weight == 0:
            return cost
        return 2 * float(np.sqrt(cost * (1 + self.total_error_weight * total_variance)))
