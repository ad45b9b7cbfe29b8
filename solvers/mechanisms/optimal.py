"""The certified optimum of Problem 1: the least privacy cost at which every target is met."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from solvers.dual import programs as dual
from solvers.dual.interior_point import Progress
from solvers.dual.iteration import Deadline, Stopping
from solvers.dual.matrix_blocks import BlocksPoint
from solvers.dual.newton_system import explicit_count
from solvers.dual.refinement import FIRST_TOL, from_optimum
from solvers.dual.scalar_blocks import ScalarPoint
from solvers.errors import NotApplicableError, OptionError
from solvers.forms.differences import (
    Differences,
    OnDifferences,
    optimum_over_pairs,
)
from solvers.forms.kronecker import Multiplicative
from solvers.forms.orbits.on_orbits import OnOrbits
from solvers.forms.orbits.orbit_noise import (
    AnyOrbits,
    OrbitsNoise,
    inner_noise,
    noise_from_roots,
)
from solvers.forms.reduction import Options
from solvers.mechanism import Mechanism, Work
from solvers.noise.factorisation import Factorisation
from solvers.noise.verification import from_root
from solvers.problem import Problem
from solvers.solution import Solution
from solvers.strategy import from_noise, inner_unscaled
from workloads import from_matrix
from workloads.given import masked_count
from workloads.operators import Array, dense
from workloads.parameters import Count, NotNegative, Seconds

_LARGEST_BOUND = 1e60


def personal_bounds(bounds: Sequence[float], d: int, orbits: int | None = None) -> Array:
    """The option ``profile_bounds`` as an array: a bound for each cell or each orbit of cells.

    ``d`` is the number of cells, and ``orbits`` the number of orbits.

    Raises
    ------
    OptionError
        If the bounds are not one positive number per cell or orbit, or are too large or small.
    """
    try:
        alpha = np.asarray(bounds, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise OptionError(f"optimal: profile_bounds are not numbers: {error}") from None
    fit = alpha.shape in ((d,), (orbits,)) and not masked_count(bounds)
    # beyond these bounds, squares of the entries of W overflow or underflow
    if not fit or not np.all((alpha >= 1 / _LARGEST_BOUND) & (alpha <= _LARGEST_BOUND)):
        raise OptionError(
            f"optimal: profile_bounds of shape {alpha.shape} from {alpha.min(initial=np.inf):g} to "
            f"{alpha.max(initial=0.0):g}; expected {d} positive numbers, one for each cell of the "
            f"domain, none masked, from {1 / _LARGEST_BOUND:g} to {_LARGEST_BOUND:g}. Only their "
            "ratios matter: scale them"
        )
    return alpha


def uneven(orbits: AnyOrbits, options: Options) -> str:
    """The reason why the personal bounds do not fit the orbits of cells; empty if they fit."""
    bounds = options.get("profile_bounds")
    if bounds is None or np.size(bounds) == orbits.cells.size:
        return ""
    if orbits.of_cells(personal_bounds(bounds, orbits.problem.workload.d)) is not None:
        return ""
    return (
        "profile_bounds differ between cells that the queries and their targets do not tell "
        f"apart; give one for each of the {orbits.cells.size} orbits of cells, or equal ones "
        "within each"
    )


@dataclass(frozen=True, eq=False)
class _Options:
    """The options of `solve` and of its variants on orbits and on pairs."""

    tol: float
    max_iterations: int
    deadline: Deadline
    start: dual.Weights | None
    refined: bool
    total_error_weight: float
    profile_bounds: Sequence[float] | None

    def __post_init__(self) -> None:
        """Raise OptionError if options exclude each other, or ``start`` is not `Weights`."""
        if self.start is not None and not isinstance(self.start, dual.Weights):
            raise OptionError(
                f"optimal: start of type {type(self.start).__name__}; expected the weights of "
                "another solution (Solution.weights)"
            )
        if self.refined and self.total_error_weight > 0:
            raise OptionError(
                "optimal: refined with a total_error_weight; the refined ordering is of Problem 1 "
                "alone: leave one of the two out"
            )

    @property
    def plain(self) -> bool:
        """Whether the objective is Δ² itself, so that the dual's bound is a bound on Δ²."""
        return self.profile_bounds is None and self.total_error_weight == 0

    def stopping(self, finest: float = FIRST_TOL) -> Stopping:
        """The stopping rule of the dual program; with ``refined``, tol is at most ``finest``."""
        tol = min(self.tol, finest) if self.refined else self.tol
        return Stopping(tol, self.max_iterations, self.deadline)

    def objective(self, cost: float, total_variance: float) -> float:
        """The objective: the squared privacy cost, or the hybrid of privacy cost and total error.

        ``cost`` is the squared privacy cost.
        """
        if self.total_error_weight == 0:
            return cost
        return 2 * float(np.sqrt(cost * (1 + self.total_error_weight * total_variance)))


def solve(
    problem: Problem,
    *,
    tol: NotNegative = 1e-6,
    max_iterations: Count = 100,
    time_limit: Seconds | None = None,
    start: dual.Weights | None = None,
    refined: bool = False,
    total_error_weight: NotNegative = 0.0,
    profile_bounds: Sequence[float] | None = None,
) -> Solution:
    """The certified optimum: least privacy cost that meets every target.

    Problem 1 of PVLDB 14(10), by an interior-point method on the dual.

    Parameters
    ----------
    tol : float
        Certified relative gap of the objective at which to stop.
    max_iterations : int
        Largest number of Newton steps.
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
        of cells has the smaller of the bounds of its two cells.

    Returns
    -------
    Solution
        ``notes["profile_slack"]`` is 1 - mean(profile) / max(profile), a measure of the room for
        further queries that cost no privacy. If the objective is not Δ² itself,
        ``notes["objective"]`` is its value and ``notes["objective_gap"]`` its relative gap.

    Raises
    ------
    OptionError
        If an option is out of range, or ``refined`` is combined with the hybrid.
    SolveFailedError
        If the product of the computed factors is not the workload, or the objective is below its
        lower bound.
    """
    deadline = Deadline.after(time_limit)
    asked = _Options(
        tol, max_iterations, deadline, start, refined, total_error_weight, profile_bounds
    )
    alpha, whole = None, problem
    if profile_bounds is not None:
        alpha = personal_bounds(profile_bounds, problem.workload.d)
        divided = from_matrix(problem.workload.matrix / np.sqrt(alpha)[None, :])
        whole = Problem(divided, problem.targets)
    notes: dict[str, Any] = {}
    if total_error_weight > 0:
        omega = total_error_weight * problem.targets
        result = dual.hybrid(whole.factors, omega, asked.stopping(), start)
    else:
        result = dual.optimum(whole.factors, asked.stopping(), start)
    if refined:
        (root,), notes["levels"], result = from_optimum(result, tol, deadline)
        unscaled = from_root("optimal", whole, whole.basis, whole.queries, root)
    else:
        unscaled = inner_unscaled("optimal", whole, result.best.p, result.best.spectrum)
    noise = unscaled.met("optimal", whole.targets)
    own = noise if alpha is None else noise.with_cells_scaled(np.sqrt(alpha))
    return _solution(asked, problem, noise, own, result, notes)


def _solution(
    asked: _Options,
    problem: Problem,
    noise: Factorisation | OrbitsNoise,
    own: Factorisation | OrbitsNoise,
    result: Progress[BlocksPoint] | Progress[ScalarPoint],
    notes: dict[str, Any],
    weights: dual.Weights | None = None,
) -> Solution:
    """The solution with notes on its profile's slack and on an objective other than Δ².

    Parameters
    ----------
    noise : Factorisation or OrbitsNoise
        The noise for queries whose columns are divided by the square roots of personal bounds.
    own : Factorisation or OrbitsNoise
        The same noise for the problem's own queries; without personal bounds the two are equal.
    weights : Weights, optional
        As in `from_noise`.
    """
    value = asked.objective(noise.squared_privacy_cost, noise.total_variance)
    if not asked.plain:
        notes |= {"objective": value, "objective_gap": result.gap}
    slack = 1 - own.privacy_profile.mean() / own.squared_privacy_cost
    notes["profile_slack"] = max(float(slack), 0.0)
    bound = result.lower if asked.plain else None
    return from_noise(
        "optimal", problem, own, result, value, asked.tol, notes, weights, known_lower_bound=bound
    )


def on_differences(
    transformed: Differences, *, time_limit: float | None, **options: Any
) -> Solution:
    """The optimum under replace-one, for all pairs of neighbouring cells; ``start`` is not used.

    With ``refined``, the costs of all pairs take the place of the profile in the refined ordering.
    If there are too many pairs, ``refined`` and ``profile_bounds`` raise NotApplicableError; other
    errors are as in `solve`.
    """
    asked = _Options(deadline=Deadline.after(time_limit), **options)
    costly = {"refined": asked.refined, "profile_bounds": asked.profile_bounds is not None}
    for option in (name for name, given in costly.items() if given and not transformed.at_once):
        raise NotApplicableError(
            f"optimal: option {option!r} under {transformed.problem.neighbours.title} on "
            f"{transformed.problem.size}: too many pairs of neighbours to solve for together; "
            "leave it out"
        )
    bounds = None
    if asked.profile_bounds is not None:
        of_cells = personal_bounds(asked.profile_bounds, transformed.problem.workload.d)
        # the smaller bound of a pair's two cells, since the record may be in either
        bounds = of_cells[transformed.pairs].min(axis=1)
    weight = asked.total_error_weight
    optimum = optimum_over_pairs(
        transformed, asked.stopping(), total_error_weight=weight, bounds=bounds
    )
    root, result = optimum.root, optimum.result
    notes: dict[str, Any] = {"pairs": optimum.pairs, "rounds": optimum.rounds}
    notes["public_queries"] = int(np.sum(~transformed.private))
    if asked.refined:
        (root,), notes["levels"], result = from_optimum(result, asked.tol, asked.deadline)
    noise = transformed.noise("optimal", root)
    cost = noise.squared_privacy_cost
    if bounds is not None:
        (first, second), right = transformed.pairs.T, dense(noise.right)
        cost = float((np.square(right[:, first] - right[:, second]).sum(axis=0) / bounds).max())
    objective = asked.objective(cost, noise.total_variance)
    least = result.lower if weight == 0 else 2 * float(np.sqrt(result.lower))
    if not asked.plain:
        notes |= {"objective": objective, "objective_gap": objective / least - 1}
    return Solution(
        "optimal",
        transformed.problem,
        noise,
        known_lower_bound=result.lower if asked.plain else None,
        iterations=result.iterations,
        converged=result.converged and objective <= least * (1 + asked.tol),
        timed_out=result.timed_out,
        weights=optimum.weights,
        notes=notes,
    )


def on_orbits(orbits: AnyOrbits, *, time_limit: float | None, **options: Any) -> Solution:
    """The certified optimum on orbits, of Problem 1 or of the variants that options select.

    There is one personal bound for each orbit, or one for each cell; the bounds of the cells in an
    orbit are then equal. With a single orbit of cells the profile is constant, and the optimum is
    also least in the refined ordering: the profile of any other optimum, averaged over all
    relabellings, is no lower.
    """
    asked = _Options(deadline=Deadline.after(time_limit), **options)
    roots, whole = None, orbits
    if asked.profile_bounds is not None:
        n = orbits.cells.size
        bounds = personal_bounds(asked.profile_bounds, orbits.problem.workload.d, n)
        of_orbits = orbits.of_cells(bounds)
        assert of_orbits is not None
        roots = np.sqrt(of_orbits)
        whole = orbits.with_columns_divided(roots)
    start = orbits.start if asked.start is None else orbits.nearest(asked.start)
    result: Progress[BlocksPoint] | Progress[ScalarPoint]
    if asked.total_error_weight != 0:
        weight = asked.total_error_weight
        result = whole.hybrid(weight, asked.stopping(), start)
    else:
        result = whole.optimum(asked.stopping(whole.finest), start)
    notes: dict[str, Any] = {"blocks": orbits.matrix_count}
    if asked.refined and isinstance(result.best, BlocksPoint):
        factors, notes["levels"], result = from_optimum(result, asked.tol, asked.deadline)
        noise = noise_from_roots("optimal", whole, factors)
    else:
        notes |= {"levels": 1} if asked.refined else {}
        noise = inner_noise("optimal", whole, result.best)
    own = noise if roots is None else noise.on_cells_scaled(orbits, roots)
    weights = whole.weights(result.proof.p, result.proof.q)
    return _solution(asked, orbits.problem, noise, own, result, notes, weights)


def work(m: int, d: int, *, form_work: int | None = None) -> Work:
    """Estimated work: five to ten Newton steps, each a spectrum, a preconditioner and a product.

    The number of steps depends on targets and queries: the estimate is half the measured CPU time
    for ranges with different targets, and 3.4 times the measured time for random signs with equal
    targets (docs/benchmarks.md). Structured workloads take fifteen steps of ten to twenty products.
    Below 500 cells, the overhead of calls takes more time than the arithmetic.
    """
    if form_work is not None:
        return Work(flops=5e9 + 9000.0 * d**3 + 2500.0 * form_work, bytes=130.0 * d**2 + 200.0 * m)
    k = min(m, d)
    heavy = explicit_count(m + d, k)
    light = m + d if heavy < m + d else 0
    small = 5e8 + 3.5e4 * (m + d) * k
    flops = small + 75.0 * heavy**2 * k + 3.4 * heavy**3 + 330.0 * light * k**2
    return Work(flops=flops, bytes=16.0 * heavy**2 + 64.0 * (m + d) * k + 8.0 * m * d)


MECHANISM = Mechanism.of(
    "optimal",
    solve,
    source="Problem 1 of PVLDB 14(10), by its dual (docs/optimal.md)",
    self_certifying=True,
    other_objectives=("total_error_weight", "profile_bounds"),
    work=work,
    variants=(
        OnOrbits(on_orbits, hindrance=uneven, flops_per_pair=8e3),
        Multiplicative(),
        OnDifferences(on_differences),
    ),
)
