"""SM-II: Problem 1 by soft maxima of privacy and of variance (PVLDB 14(10), section 6).

Problem 4 is Problem 1 with soft maxima; Algorithms 1 to 3 solve it. The sharpness of the soft
maximum of the privacy profile is t1, and that of the variance ratios is t2; t is the larger of the
two. A level is the minimisation at one t1 and t2. The defaults make choices that the paper leaves
open; the preset ``published`` has the paper's constants (docs/sm2.md).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, cast

import numpy as np
import scipy

from solvers.dual.iteration import Deadline, sufficient_decrease
from solvers.dual.matrix_blocks import as_blocks
from solvers.dual.programs import Weights
from solvers.errors import OptionError
from solvers.forms.orbits import AnyOrbits, ProductOrbits, SingleOrbit, Unreduced
from solvers.forms.orbits.orbit_noise import OrbitsNoise
from solvers.forms.reduction import need_defaults
from solvers.mechanism import Mechanism, ProblemSize, Work
from solvers.noise.verification import noise_from_root
from solvers.problem import Problem
from solvers.soft_max import basis as bases
from solvers.soft_max import charts, newton_cg
from solvers.soft_max.newton_cg import Settings
from solvers.soft_max.objective import Iterate, SoftMax, soft_maximum
from solvers.solution import Solution
from workloads.given import real_numbers
from workloads.operators import Array, Explicit
from workloads.operators.blas import inner, product
from workloads.parameters import Bounds, NotNegative, Positive, Seconds


@dataclass(frozen=True, eq=False)
class SoftMaxProblem:
    """Problem 4, on the query matrix or on orbits.

    Attributes
    ----------
    start : Iterate
        The first covariance.
    plain : SoftMax
        The objective at unit sharpness.
    squared_norm : callable
        Computes the lower bound that weights of the profile and of the ratios prove.
    noise : callable
        Computes the noise with the covariance of an iterate, scaled to just meet the targets.
    whole : callable
        Computes the weights of all cells and queries from the weights of the profile and ratios.
    """

    start: Iterate
    plain: SoftMax
    squared_norm: Callable[[Weights], float]
    noise: Callable[[Iterate], OrbitsNoise]
    whole: Callable[[Weights], Weights]


def _pose_on_matrices(orbits: ProductOrbits, omega: Array, start: Iterate) -> SoftMaxProblem:
    def squared_norm(weights: Weights) -> float:
        return orbits.at(Weights(weights.p, weights.q + omega)).nuclear_norm ** 2

    def noise(end: Iterate) -> OrbitsNoise:
        parts = cast(charts.BlocksIterate, end).parts
        factors = orbits.from_roots("SM-II", [part.factor for part in parts])
        return OrbitsNoise(orbits, factors).met("SM-II")

    return SoftMaxProblem(
        start,
        SoftMax(omega, orbits.log_copies, log_cells=np.log(orbits.cell_shares)),
        squared_norm,
        noise,
        orbits.spread,
    )


def _pose_on_classes(orbits: SingleOrbit, omega: Array) -> SoftMaxProblem:
    """Problem 4 for marginals, on classes of equivalent subsets and marginals."""
    classes = orbits.blocks.with_offset(omega)
    counts = np.zeros(classes.transformed.offset.size)
    counts[classes.row_class] = orbits.log_copies
    counts += np.log(np.bincount(classes.row_class))

    def noise(end: Iterate) -> OrbitsNoise:
        v = classes.variables(cast(charts.ScalarIterate, end).v)
        return OrbitsNoise(orbits, (orbits.noise(v),)).met("SM-II")

    return SoftMaxProblem(
        charts.first_of_scalars(classes.transformed, counts),
        SoftMax(classes.transformed.offset, counts),
        lambda weights: classes.transformed.lower_bound(weights.q),
        noise,
        lambda weights: orbits.spread(Weights(weights.p, classes.weights(weights.q))),
    )


ADAPTED = "adapted"


def find_first_iterate(
    problem: Problem, factored: bases.Factored | None, initial: Array | None
) -> Iterate:
    """Return the first iterate of Algorithm 1.

    Parameters
    ----------
    factored : Factored, optional
        The fixed basis; None for a basis that follows the covariance.
    initial : array_like, shape (r, d), optional
        Queries Q; the first covariance is that of independent noise on Qx (section 6.3). By default
        it is the covariance at equal dual weights or, in a fixed basis, I.

    Raises
    ------
    OptionError
        If ``initial`` does not determine the workload.
    scipy.linalg.LinAlgError
        If the problem is too ill-conditioned for double precision.
    """
    basis = problem.basis if factored is None else factored.basis
    try:
        if factored is not None:
            covariance = np.eye(len(basis)) if initial is None else _spread_noise(basis, initial)
            return bases.first_in_basis(problem, factored, covariance)
        equal = bases.equal_weights_covariance
        covariance = equal(problem) if initial is None else _spread_noise(basis, initial)
        return charts.balanced(as_blocks(problem.factors), [covariance])
    except scipy.linalg.LinAlgError as error:
        if initial is None:
            raise
        raise OptionError(
            "SM-II: initial does not determine the workload: some query is no combination of "
            "its queries; add the missing ones",
            "initial",
        ) from error


def _spread_noise(basis: Array, initial: Array) -> Array:
    """Return the covariance on Bx of independent noise on Qx (section 6.3).

    The paper's text sets Σ = Q⁺ (Q⁺)ᵀ in any basis; here Σ is B Q⁺ (Q⁺)ᵀ Bᵀ, the covariance of the
    noise on Bx.
    """
    d = basis.shape[1]
    try:
        queries = real_numbers(initial)
    except (TypeError, ValueError, OverflowError) as error:
        said = f"SM-II: initial is not a matrix of real numbers: {error}"
        raise OptionError(said, "initial") from None
    if queries.ndim != 2 or queries.shape[1] != d:
        raise OptionError(
            f"SM-II: initial has shape {queries.shape}; expected queries over the {d} cells "
            f"of the workload, shape (r, {d})",
            "initial",
        )
    spread = basis @ np.linalg.pinv(queries)
    return np.asarray(spread @ spread.T)


@dataclass(frozen=True)
class SMII(Settings, Mechanism):
    """Soft maxima of privacy cost and of variance ratios, at rising sharpness.

    A solution is converged if the gap is certified to be at most ``tol`` (with a total-error
    weight: the gap of the square of the whole objective), which is checked when a level ends. Its
    ``weights`` are the soft-max weights that prove the lower bound; its ``notes`` give the basis,
    the last t1 and the number of products with the Hessian, and with a total-error weight the
    objective and its gap. The other options are the constants of the algorithms: `Settings`.

    Attributes
    ----------
    total_error_weight : float
        Weight of the sum of all variances in the objective (PVLDB 14(10), section 6.1).
    basis : str
        The basis B: either "adapted", where B is chosen at every Newton step such that the
        covariance is I and the weighted privacy cost is diagonal (`solvers.soft_max.charts`), or
        the name of a fixed basis in `solvers.soft_max.basis`.
    initial : array_like, shape (r, d), optional
        Queries Q; the start is independent noise on the answers Qx (section 6.3). By default the
        first covariance is that of equal dual weights or, in a fixed basis, the identity.
    time_limit : float, optional
        Seconds after which the best answer so far is returned.
    """

    name = "SM-II"
    source = "Problem 4 and Algorithms 1-3 of PVLDB 14(10)"
    presets: ClassVar = {
        "published": {
            "tol": 0.0,
            "mu": 2.0,
            "nttol": 1e-3,
            "softmax_tol": 1e-3,
            "first_t": 1.0,
            "extrapolated": False,
            "basis": "paper",
            "max_cg": 5,
            "tol2": 1e-10,
        }
    }
    self_certifying = True
    other_objectives = ("total_error_weight",)
    uses_structure = True
    flops_per_pair = 11e3

    total_error_weight: NotNegative = 0.0
    basis: str = ADAPTED
    initial: Array | None = None
    time_limit: Seconds | None = None

    def on_matrix(self, problem: Problem) -> Solution:
        """Return the solution on the query matrix.

        Raises
        ------
        OptionError
            If there is no such basis, or ``initial`` does not determine the workload.
        """
        if self.basis not in (ADAPTED, *bases.KINDS):
            kinds = ", ".join((ADAPTED, *bases.KINDS))
            said = f"SM-II: basis is {self.basis!r}; expected one of {kinds}"
            raise OptionError(said, "basis")
        deadline = self.deadline
        factored = None if self.basis == ADAPTED else bases.factor(problem, self.basis)
        orbits = Unreduced.of(problem)
        start = find_first_iterate(problem, factored, self.initial)
        smooth = _pose_on_matrices(orbits, self._omega(orbits), start)
        if factored is None:
            return self._minimise(smooth, deadline, self.basis)

        def noise(end: Iterate) -> OrbitsNoise:
            queries, root = Explicit(factored.representation), cast(bases.FixedIterate, end).lower
            factors = noise_from_root(self.name, problem, factored.basis, queries, root)
            return OrbitsNoise(orbits, (factors,)).met(self.name)

        return self._minimise(replace(smooth, noise=noise), deadline, factored.kind)

    def on_products(self, orbits: ProductOrbits) -> Solution:
        """Return the solution on orbits.

        Each profile entry and ratio is weighted by its number of cells or queries.

        Raises
        ------
        SolveFailedError
            If the product of the computed factors L and B is not W.
        """
        deadline = self.deadline
        start = charts.first_of_blocks(orbits.blocks, orbits.start)
        smooth = _pose_on_matrices(orbits, self._omega(orbits), start)
        return self._minimise(smooth, deadline, ADAPTED)

    def on_marginals(self, marginals: SingleOrbit) -> Solution:
        """Return the solution on classes of equivalent subsets and marginals."""
        deadline = self.deadline
        smooth = _pose_on_classes(marginals, self._omega(marginals))
        return self._minimise(smooth, deadline, ADAPTED)

    def _omega(self, orbits: AnyOrbits) -> Array:
        """Return the weights of the variance ratios of all orbits in the total error."""
        return self.total_error_weight * orbits.targets * orbits.copies

    def check_orbits(self, orbits: AnyOrbits) -> None:
        """Raise ObstacleError if an option has an effect on the query matrix only."""
        need_defaults(self, ("basis", "initial"))

    def work(self, size: ProblemSize) -> Work:
        """About 18 Newton steps and 100 to 400 Hessian products; more in a fixed basis.

        Fitted to CPU seconds on one core (benchmarks/calibrate.py). The number of iterations
        depends more on the kind of workload than on its size.
        """
        m, d = size.m, size.d
        k = min(m, d)
        if self.basis != ADAPTED:
            # the true number of products is a tenth to five times this estimate
            products = 10.0 * k**2 if self.max_cg is None else 40.0 * k
            bytes_held = 40.0 * (m + d) * k + 100.0 * k * k
            return Work(flops=1e9 + 5.0 * (m + d) * k**2 * products, bytes=bytes_held)
        if size.form_work is not None:
            flops = 3e9 + 15000.0 * d**3 + 800.0 * size.form_work
            return Work(flops=flops, bytes=130.0 * d**2 + 200.0 * m)
        return Work(flops=4e9 + 1800.0 * (m + d) * k**2, bytes=60.0 * (m + d) * k + 100.0 * k * k)

    def _minimise(self, smooth: SoftMaxProblem, deadline: Deadline, basis: str) -> Solution:
        """Return the solution by Algorithm 1.

        It is marked as converged only if the cost and variances of its noise confirm the gap.
        """
        objective = self.first_level(smooth.plain, smooth.start)
        bound = smooth.squared_norm if self.tol > 0 else None
        result = newton_cg.minimise(objective, smooth.start, self, deadline, bound)
        end, proof = result.iterate, result.proof
        noise = smooth.noise(end)
        notes = {"basis": basis, "t": result.objective.t1, "products": result.products}
        value = noise.squared_privacy_cost
        if self.total_error_weight:
            value *= 1 + self.total_error_weight * noise.total_variance
            squared = result.objective.squared(end)
            notes["objective"] = 2 * squared**0.5
            if proof.lower > 0:
                notes["objective_gap"] = squared / proof.lower - 1
        return Solution(
            self.name,
            noise.orbits.problem,
            noise.orbits.present(noise, noise.parts),
            known_lower_bound=None if self.total_error_weight else proof.lower or None,
            iterations=result.iterations,
            converged=value <= proof.lower * (1 + self.tol),
            timed_out=result.timed_out,
            weights=smooth.whole(proof.weights or result.objective.weights(end)),
            trace=result.trace,
            notes=notes,
        )


_MU, _NTTOL, _TOL2, _SIGMA, _BETA, _LEAST_STEP = 2.0, 1e-3, 1e-10, 0.01, 0.5, 2.0**-49
"""The constants of the authors' program (cmla-psu/matrixqueries, SM-II/softmax.py, March 2021)."""


class _Weighted(SoftMax):
    """The objective of the authors' program: each soft maximum is multiplied by its sharpness."""

    def value(self, at: Iterate) -> float:
        """Return the sum of the soft maxima, each multiplied by its sharpness."""
        profile = self.t1 * soft_maximum(at.profile, self.t1)
        return profile + self.t2 * soft_maximum(at.ratios, self.t2)

    def descent(
        self, at: bases.FixedIterate, steps: int
    ) -> tuple[float, Callable[[float], bases.FixedIterate]]:
        """Return the slope along the direction of the next step, and the iterates along it.

        The steps of conjugate gradients use the matrix of equation (14) of arXiv v1, which is not
        the Hessian: the second derivatives of the profile are multiplied by t1, and the products of
        the two mean gradients with themselves are Kronecker products, ``G P G``, instead of outer
        products of vectors, ``<G, P> G``. The matrix may be indefinite, which does not end the
        steps. If the result ascends, the direction is minus the gradient.
        """
        weights = self.weights(at)
        p, q, chart = weights.p, weights.q, at.chart(weights.p)
        of_profile = chart.weighted(-self.t1 * p, np.zeros_like(q))
        of_ratios = chart.weighted(np.zeros_like(p), self.t2 * q)
        gradient = of_profile + of_ratios
        direction, residual = np.zeros_like(gradient), -gradient
        search, energy = residual, inner(residual, residual)
        for _ in range(steps):
            a, b = chart.forms(search)
            image = chart.weighted(self.t1**2 * p * a, self.t2**2 * q * b)
            image += self.t1**2 * chart.curved(search)
            for mean in (of_profile, of_ratios):
                image -= product(product(mean, search), mean)
            length = energy / inner(search, image)
            direction, residual = direction + length * search, residual - length * image
            following = inner(residual, residual)
            if following < _TOL2:
                break
            search, energy = residual + following / energy * search, following
        if inner(direction, gradient) >= 0:
            direction = -gradient
        return inner(direction, gradient), chart.ray(direction)


@dataclass(frozen=True)
class PublishedSMII(Mechanism):
    """SM-II as PVLDB 14(10) and arXiv v1 ran it, which stops above the optimum.

    The authors' program differs from Algorithms 1 to 3 (`SMII`, preset ``published``): it minimises
    t1 times the soft maximum of the profile plus t2 times that of the ratios, where t2 is MU t1
    from the second level on; its tolerances apply to this objective; and its steps follow equation
    (14), which is not the Hessian.

    The steps amplify rounding: if the entries of W change in the 16th digit, Δ² changes by 1e-4 of
    itself, and on marginals, which are symmetric, by 2e-3. If W has a lower rank than the basis,
    there is no minimiser, and the noise that no query sees grows until the last level ends.

    Attributes
    ----------
    basis : {"upper-triangular", "identity"}
        The basis B: U for ranges, ages and PL-94, I for random queries and marginals.
    scale : float, optional
        The first covariance is this times I; default: d times the most with which I meets the
        targets. These are the program's ``init_mat`` "id", where ``scale`` is d / ``id_factor``,
        and "id_index".
    cg_steps : int
        The largest number of conjugate gradient steps: 5, and 3 on related queries.
    smoothing : float
        TOL: the last level is the first with ``(d + m) / t1`` below it.
    time_limit : float, optional
        Seconds after which the present covariance is returned.
    """

    name = "published-SM-II"
    source = "the authors' code of PVLDB 14(10), section 7"

    basis: Literal["upper-triangular", "identity"] = "upper-triangular"
    scale: Positive | None = None
    cg_steps: Annotated[int, Bounds(ge=1)] = 5
    smoothing: Positive = 1e-3
    time_limit: Seconds | None = None

    def on_matrix(self, problem: Problem) -> Solution:
        """Return the covariance at the end of the last level, with nothing certified."""
        deadline = self.deadline
        factored = bases.KINDS[self.basis](problem)
        at = bases.place(problem, factored, np.eye(problem.workload.d))
        scale = self.scale or problem.workload.d / float(at.ratios.max())
        at = bases.place(problem, factored, scale * at.covariance)
        objective, iterations = _Weighted(np.zeros(problem.workload.m)), 0
        while not deadline.passed:
            slope, ray = objective.descent(at, self.cg_steps)
            iterations += 1
            if -slope >= _NTTOL:
                before, value = objective.value(at), objective.value
                moved = sufficient_decrease(
                    ray, value, before, slope, sufficient=_SIGMA, shrink=_BETA, least=_LEAST_STEP
                )
                if moved is None:
                    break
                at = moved
            elif (at.profile.size + at.ratios.size) / objective.t1 < self.smoothing:
                break
            else:
                t1 = _MU * objective.t1
                objective = objective.sharpened(t1, _MU * t1)
        queries = Explicit(factored.representation)
        noise = noise_from_root(self.name, problem, factored.basis, queries, at.lower)
        return Solution(
            self.name,
            problem,
            noise.met(self.name, problem.targets),
            iterations=iterations,
            converged=False,
            timed_out=deadline.passed,
        )

    def work(self, size: ProblemSize) -> Work:
        """About 15 d steps, each of ``cg_steps`` products with a d² x d² matrix."""
        m, d = size.m, size.d
        flops = 15.0 * d * (self.cg_steps + 2) * (8.0 * d + 4.0 * m) * d * d
        return Work(flops=1e9 + flops, bytes=40.0 * (m + d) * d + 100.0 * d * d)
