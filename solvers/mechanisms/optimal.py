"""The optimum of Problem 1, certified: least privacy cost that meets every target."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from solvers.dual import programs as dual
from solvers.dual.differences import Differences
from solvers.dual.refined import FIRST_TOL, from_optimum
from solvers.errors import NotApplicableError, OptionError
from solvers.gaussian.checked import from_noise, inner_factorisation
from solvers.gaussian.verified import from_root
from solvers.mechanism import Mechanism, Work
from solvers.optimiser import BlocksPoint, Progress, ScalarPoint
from solvers.optimiser.newton_system import explicit_count
from solvers.orbits import AnyOrbits
from solvers.orbits import profile_bounds as personal
from solvers.orbits.solutions import from_dual as from_orbits
from solvers.orbits.solutions import inner_noise, noise_from_roots
from solvers.problem import Problem
from solvers.reductions.differences import OnDifferences
from solvers.reductions.kronecker import Multiplicative
from solvers.reductions.orbits import OnOrbits
from solvers.solution import Solution
from solvers.stopping import Deadline
from workloads import from_matrix
from workloads.operators import Array


def solve(
    problem: Problem,
    *,
    tol: float = 1e-6,
    max_iterations: int = 100,
    time_limit: float | None = None,
    start: dual.Weights | None = None,
    refined: bool = False,
    total_error_weight: float = 0.0,
    profile_bounds: Sequence[float] | None = None,
) -> Solution:
    """The covariance of least Δ² (Problem 1 of PVLDB 14(10)) by an interior point in the dual.

    Parameters
    ----------
    problem : Problem
        The workload and its targets.
    tol : float
        Certified relative gap to reach.
    max_iterations : int
        Newton steps at most.
    time_limit : float, optional
        In seconds; on expiry the best mechanism so far is returned with its gap.
    start : Weights, optional
        Dual weights of a neighbouring problem (``Solution.weights``); changes no result
        beyond the gap.
    refined : bool
        Whether to go on to the one solution that is least in the refined privacy ordering
        (Definition 3 and Theorem 10 of PVLDB 14(10)). ``notes["levels"]`` tells how many
        problems that took.
    total_error_weight : float
        θ >= 0 of the hybrid with total squared error (section 6.1): the solution minimises
        ``Δ² (1 + θ sum(query_variances))``, which the best scale makes of
        ``max(profile) + max(ratios) + θ sum(query_variances)``.
    profile_bounds : sequence of float, shape (d,), optional
        A personal bound α_i > 0 for every cell: ``max(profile / α)`` takes the place of
        ``Δ² = max(profile)`` (Corollary 1 holds for every cell by itself). Of two neighbours
        under replace-one the lesser bound counts.

    Returns
    -------
    Solution
        ``notes["profile_slack"]`` is one less the mean over the largest profile entry: what is left
        for queries that cost nothing. Where the objective is not Δ² itself,
        ``notes["objective"]`` and ``notes["objective_gap"]`` say what was reached.

    Raises
    ------
    OptionError
        If an option is out of range, or ``refined`` is asked of the hybrid.
    SolveFailedError
        If the factors do not give the workload, or contradict the bound of the dual.
    """
    _check(start, refined, total_error_weight)
    alpha = None if profile_bounds is None else personal.of_cells(problem, profile_bounds)
    scaled = problem if alpha is None else _with_columns_divided(problem, np.sqrt(alpha))
    deadline = Deadline.after(time_limit)
    notes: dict[str, Any] = {}
    limits: dict[str, Any] = {"max_iterations": max_iterations, "time_limit": time_limit}
    if total_error_weight > 0:
        omega = total_error_weight * problem.targets
        result = dual.hybrid(scaled.factors, omega, tol=tol, start=start, **limits)
    else:
        finest = min(tol, FIRST_TOL) if refined else tol
        result = dual.optimum(scaled.factors, tol=finest, start=start, **limits)
    objective = _objective(total_error_weight)
    plain = alpha is None and total_error_weight == 0
    bound = {"known_lower_bound": result.lower} if plain else {}
    if refined:
        found, result = from_optimum(result.best.blocks, result, tol, deadline)
        notes["levels"] = found.levels
        (root,) = found.factors
        unscaled = from_root("optimal", scaled, scaled.basis, scaled.queries, root)
        noise = unscaled.met("optimal", scaled.targets)
    else:
        noise = inner_factorisation("optimal", scaled, result.best.p, result.best.spectrum)
    solution = from_noise("optimal", scaled, noise, result, objective, tol, notes, **bound)
    if not plain:
        notes |= {"objective": objective(solution), "objective_gap": result.gap}
    if alpha is not None:
        own = noise.with_cells_scaled(np.sqrt(alpha))
        solution = replace(solution, problem=problem, noise=own)
    return replace(
        solution, notes={**solution.notes, **notes, "profile_slack": _profile_slack(solution)}
    )


def _objective(total_error_weight: float) -> Callable[[Solution], float]:
    """What a solution minimises: Δ², or the hybrid with total error."""

    def value(found: Solution) -> float:
        return _weighed(total_error_weight, found.squared_privacy_cost, found.total_variance)

    return value


def _weighed(total_error_weight: float, cost: float, total_variance: float) -> float:
    if total_error_weight == 0:
        return cost
    return 2 * float(np.sqrt(cost * (1 + total_error_weight * total_variance)))


def _check(start: dual.Weights | None, refined: bool, total_error_weight: float) -> None:
    if start is not None and not isinstance(start, dual.Weights):
        raise OptionError(
            f"optimal: start of type {type(start).__name__}; expected the weights of another "
            "solution (Solution.weights)"
        )
    if refined and total_error_weight > 0:
        raise OptionError(
            "optimal: refined with a total_error_weight; the refined ordering is of Problem 1 "
            "alone: leave one of the two out"
        )


def _with_columns_divided(problem: Problem, divisor: Array) -> Problem:
    return Problem(from_matrix(problem.workload.matrix / divisor[None, :]), problem.targets)


def _profile_slack(solution: Solution) -> float:
    slack = 1 - solution.privacy_profile.mean() / solution.squared_privacy_cost
    return max(float(slack), 0.0)


def on_differences(
    smaller: Differences,
    *,
    tol: float,
    max_iterations: int,
    time_limit: float | None,
    start: dual.Weights | None,
    refined: bool,
    total_error_weight: float,
    profile_bounds: Sequence[float] | None,
) -> Solution:
    """The optimum over all pairs of replace-one neighbours; ``start`` is not used.

    Refined it is least in the ordering of the costs of all pairs.

    Raises
    ------
    OptionError
        If an option is out of range, or ``refined`` is asked of the hybrid.
    NotApplicableError
        If ``refined`` or ``profile_bounds`` are asked on too many pairs.
    SolveFailedError
        If the factors do not give the workload.
    """
    _check(start, refined, total_error_weight)
    asked = {"refined": refined, "profile_bounds": profile_bounds is not None}
    for option in (name for name, given in asked.items() if given and not smaller.at_once):
        raise NotApplicableError(
            f"optimal: option {option!r} under {smaller.problem.neighbours.title} on "
            f"{smaller.problem.size}: too many pairs of neighbours to be solved for together; "
            "leave it out"
        )
    bounds = None
    if profile_bounds is not None:
        bounds = smaller.bounds_of_pairs(personal.of_cells(smaller.problem, profile_bounds))
    deadline = Deadline.after(time_limit)
    inner = min(tol, FIRST_TOL) if refined else tol
    found = smaller.optimum(inner, max_iterations, time_limit, total_error_weight, bounds)
    root, converged, timed_out = found.root, found.converged, found.timed_out
    notes: dict[str, Any] = {
        "pairs": found.pairs,
        "rounds": found.rounds,
        "public_queries": smaller.public,
    }
    if refined:
        level, last = from_optimum(found.last.best.blocks, found.last, tol, deadline)
        (root,), converged, timed_out = level.factors, last.converged, last.timed_out
        notes["levels"] = level.levels
    plain = bounds is None and total_error_weight == 0
    noise = smaller.noise("optimal", root)
    solution = Solution(
        "optimal",
        smaller.problem,
        noise,
        known_lower_bound=found.lower if plain else None,
        iterations=found.iterations,
        timed_out=timed_out,
        weights=found.weights,
        notes=notes,
    )
    cost = solution.squared_privacy_cost
    if bounds is not None:
        cost = smaller.largest_over_bounds(noise, bounds)
    objective = _weighed(total_error_weight, cost, solution.total_variance)
    least = found.lower if total_error_weight == 0 else 2 * float(np.sqrt(found.lower))
    if not plain:
        notes |= {"objective": objective, "objective_gap": objective / least - 1}
    return replace(solution, converged=converged and objective <= least * (1 + tol))


def on_orbits(
    orbits: AnyOrbits,
    *,
    tol: float,
    max_iterations: int,
    time_limit: float | None,
    start: dual.Weights | None,
    refined: bool,
    total_error_weight: float,
    profile_bounds: Sequence[float] | None,
) -> Solution:
    """The certified optimum of Problem 1, or of its relatives, on orbits.

    Personal bounds are one for each cell, equal within each orbit, or one for each orbit. A
    profile of one orbit is constant, and its optimum the least in the refined ordering: the
    mean of the profile of any other optimum over all relabellings is no lower.

    Raises
    ------
    OptionError
        If an option is out of range, or bounds differ within an orbit.
    SolveFailedError
        If the factors do not give the workload, or contradict the bound of the dual.
    """
    _check(start, refined, total_error_weight)
    deadline = Deadline.after(time_limit)
    roots = None if profile_bounds is None else np.sqrt(personal.of_orbits(orbits, profile_bounds))
    whole = orbits if roots is None else orbits.with_columns_divided(roots)
    limits: dict[str, Any] = {"max_iterations": max_iterations, "time_limit": time_limit}
    near = orbits.start if start is None else orbits.nearest(start)
    result: Progress[BlocksPoint] | Progress[ScalarPoint]
    if total_error_weight != 0:
        result = whole.hybrid(total_error_weight, tol=tol, start=near, **limits)
    else:
        finest = min(tol, whole.finest) if refined else tol
        result = whole.optimum(tol=finest, start=near, **limits)
    plain = roots is None and total_error_weight == 0
    bound = {"known_lower_bound": result.lower} if plain else {}
    objective, notes = _objective(total_error_weight), {"blocks": orbits.matrix_count}
    if refined and isinstance(result.best, BlocksPoint):
        found, result = from_optimum(result.best.blocks, result, tol, deadline)
        notes["levels"] = found.levels
        noise = noise_from_roots("optimal", whole, found.factors)
    else:
        notes |= {"levels": 1} if refined else {}
        noise = inner_noise("optimal", whole, result.best)
    solution = from_orbits("optimal", whole, noise, result, objective, tol, notes, **bound)
    more: dict[str, Any] = {}
    if not plain:
        more |= {"objective": objective(solution), "objective_gap": result.gap}
    if roots is not None:
        solution = replace(solution, noise=noise.on_cells_scaled(orbits, roots))
    more["profile_slack"] = _profile_slack(solution)
    return replace(solution, notes={**solution.notes, **more})


def work(m: int, d: int, *, form_work: int | None = None) -> Work:
    """About nine Newton steps of a spectrum, a preconditioner and a product each.

    By structure fifteen steps with ten to twenty products. Fitted to CPU seconds on one core
    (benchmarks/bench_work.py).
    """
    if form_work is not None:
        return Work(flops=5e9 + 9000.0 * d**3 + 2500.0 * form_work, bytes=130.0 * d**2 + 200.0 * m)
    k = min(m, d)
    heavy = explicit_count(m + d, k)
    light = m + d if heavy < m + d else 0
    flops = 3.2e8 + 75.0 * heavy**2 * k + 2.7 * heavy**3 + 330.0 * light * k**2
    return Work(flops=flops, bytes=16.0 * heavy**2 + 40.0 * (m + d) * k + 8.0 * m * d)


MECHANISMS = (
    Mechanism(
        "optimal",
        "the certified optimum: least privacy cost that meets every target",
        solve,
        source="Problem 1 of PVLDB 14(10), by its dual (docs/optimal.md)",
        self_certifying=True,
        other_objectives=("total_error_weight", "profile_bounds"),
        work=work,
        forms=(
            OnOrbits(on_orbits, hindrance=personal.uneven, flops_per_pair=8e3),
            Multiplicative(),
            OnDifferences(on_differences),
        ),
    ),
)
