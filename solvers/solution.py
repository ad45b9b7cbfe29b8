"""The result of a solve: the noise, its bounds, and how the solve ended."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from solvers.dual.iteration import Trace
from solvers.dual.programs import Weights
from solvers.errors import NotApplicableError, OptionError, SolveFailedError
from solvers.noise.free_queries import FreeQueries, find_free_queries
from solvers.noise.noise import GaussianNoise, Noise
from solvers.privacy.budget import BudgetCurve
from solvers.problem import GraphProblem, Problem, as_float
from workloads import Workload, from_matrix
from workloads.operators import Array, Matrix

LEAST_EPSILON, MOST_EPSILON = 1e-20, 1e10
"""Least and largest ε of a budget.

Beyond them, squares or tail probabilities overflow or underflow.
"""

ROUNDING = 1e-8
"""Largest relative amount by which rounding may put a cost below its bound.

Singular values are computed from Gram matrices with a condition number of at most 1e13. The error
of a singular value is therefore at most eps / (2 sqrt(1e-13)) = 3.5e-10 times the largest singular
value, where eps is the machine epsilon. The error of a bound is a few times larger.
"""


def contradiction(squared_privacy_cost: float, lower_bound: float | None) -> str | None:
    """Return a message if a cost is impossible, or too far below its bound; otherwise None.

    Parameters
    ----------
    squared_privacy_cost : float
        Δ² when all targets are met.
    lower_bound : float, optional
        A certified lower bound on Δ².
    """
    if not 0 < squared_privacy_cost < np.inf:
        return (
            f"the answer has the squared privacy cost {squared_privacy_cost}; expected a positive "
            "finite number: too ill-conditioned for double precision"
        )
    if lower_bound is None or squared_privacy_cost >= lower_bound * (1 - ROUNDING):
        return None
    short = 1 - squared_privacy_cost / lower_bound
    return (
        f"the answer contradicts its certificate: Δ² = {squared_privacy_cost:.12g} is {short:.1e} "
        f"below the proven bound {lower_bound:.12g}; too ill-conditioned for double precision: "
        "bring norms and targets closer together"
    )


_SHOWN = (
    "squared_privacy_cost",
    "lower_bound",
    "gap",
    "total_variance",
    "utility",
    "utility_bound",
    "max_variance",
)
"""The numbers of a record that `repr` shows, unless they are missing or NaN."""


@dataclass(frozen=True, eq=False, repr=False)
class Solution:
    """The result of a solve; if the noise can be scaled, it just meets the targets.

    ``basis``, ``representation`` and ``covariance`` raise `NotApplicableError` if the noise is not
    Gaussian, or too large to be written out.

    Attributes
    ----------
    noise : Noise
        The distribution of the errors: a `solvers.noise.factorisation.Factorisation` of a Gaussian
        mechanism, noise on marginals or on the factors of a product, independent noise, or the
        noise matrix of a query graph. Each kind has further attributes.
    known_lower_bound : float, optional
        A certified lower bound on Δ² that the mechanism itself computed.
    iterations : int
        Outer iterations; 0 for a closed form.
    converged : bool
        Whether the mechanism's own stopping rule was met.
    timed_out : bool
        Whether the mechanism stopped at its time limit.
    runtime : float
        Wall-clock seconds of the solve.
    notes : Mapping[str, object]
        Further results of the mechanism, for instance the branching factor it used.
    weights : Weights, optional
        The dual weights p of the cells and q of the queries. If there is a ``known_lower_bound``,
        they prove it: with A = diag(targets)^-1/2 W the bound is
        ``‖diag(q)^1/2 A diag(p)^1/2‖_*² / (sum(p) sum(q))``. Under replace-one, p has an entry for
        each pair of neighbouring cells, and so has A: the difference of the two cells' columns.
        Without a ``known_lower_bound``, these are the dual weights of the mechanism's own
        objective, from which another solve can start.
    measures : Mapping[str, float]
        Further numbers to store, by variable name.
    trace : Trace, optional
        The objective and bounds at every iteration, for mechanisms that iterate on an objective.
    certify : callable, optional
        Computes a certified lower bound on Δ² if the mechanism itself computed none.
    """

    mechanism: str
    problem: Problem | GraphProblem
    noise: Noise
    known_lower_bound: float | None = None
    iterations: int = 0
    converged: bool = True
    timed_out: bool = False
    runtime: float = float("nan")
    notes: Mapping[str, Any] = field(default_factory=dict)
    weights: Weights | None = None
    measures: Mapping[str, float] = field(default_factory=dict)
    trace: Trace | None = None
    certify: Callable[[], float] | None = None

    @property
    def neighbours(self) -> str:
        """The relation of neighbouring databases, in words."""
        if isinstance(self.problem, GraphProblem):
            return "adjacent answers of the query graph"
        return self.problem.neighbours.title

    @property
    def squared_privacy_cost(self) -> float:
        """Δ² when all targets are met; NaN if the noise has no privacy cost."""
        return self.noise.squared_privacy_cost

    @property
    def privacy_cost(self) -> float:
        """Δ, the square root of `squared_privacy_cost` (Corollary 1 of arXiv v1)."""
        return float(np.sqrt(self.squared_privacy_cost))

    @cached_property
    def lower_bound(self) -> float:
        """A certified lower bound on Δ² over all linear query mechanisms.

        If the mechanism itself computed none, a few Newton steps on the dual compute the bound on
        first use (usually within 1 % of the optimum). NaN if the noise has no privacy cost.
        """
        if self.known_lower_bound is not None:
            return self.known_lower_bound
        if not self.noise.gaussian or self.certify is None:
            return float("nan")
        return self.certify()

    @property
    def gap(self) -> float:
        """``squared_privacy_cost / lower_bound - 1``, at least 0; NaN if there is no privacy cost.

        Raises
        ------
        SolveFailedError
            If the cost contradicts the bound.
        """
        if not self.noise.gaussian:
            return float("nan")
        replace(self, known_lower_bound=self.lower_bound).confirmed()
        return max(self.squared_privacy_cost / self.lower_bound - 1.0, 0.0)

    def confirmed(self) -> "Solution":
        """Return this solution after checking its privacy cost.

        Raises
        ------
        SolveFailedError
            If the cost is not a positive finite number, or contradicts the mechanism's own bound.
        """
        if self.noise.gaussian:
            trouble = contradiction(self.squared_privacy_cost, self.known_lower_bound)
            if trouble is not None:
                raise SolveFailedError(trouble)
        return self

    @property
    def query_variances(self) -> Array:
        """The variance of the reported answer to each query, shape (m,).

        With more than 10^7 queries there is one entry for each set of equivalent queries. On a
        query graph there is one entry for each true answer and coordinate.
        """
        return self.noise.query_variances

    @property
    def total_variance(self) -> float:
        """Sum of the query variances; NaN on a query graph."""
        return self.noise.total_variance

    def half_widths(self, confidence: float = 0.95) -> Array:
        """Return half the width of each query's confidence interval, shape (m,).

        The interval is the answer plus or minus this number, when the targets are just met. The
        confidence is that of each interval by itself, not of all intervals together. For a budget,
        see `AtBudget.half_widths`.

        Parameters
        ----------
        confidence : float
            Probability that an interval contains the true answer, between 0 and 1.

        Raises
        ------
        OptionError
            If the confidence is not between 0 and 1.
        NotApplicableError
            If the errors are not normal.
        """
        if not 0 < confidence < 1:
            raise OptionError(
                f"confidence is {confidence!r}; expected a number between 0 and 1, such as 0.95"
            )
        if not self.noise.gaussian:
            raise NotApplicableError(
                f"{self.mechanism}: confidence intervals are known only for normal errors; its "
                f"noise is {type(self.noise).__name__}: use query_variances, or solve for other "
                "targets"
            )
        quantile = float(np.sqrt(2) * scipy.special.erfinv(confidence))
        return np.asarray(quantile * np.sqrt(self.query_variances))

    @property
    def privacy_profile(self) -> Array:
        """The squared personal privacy cost of every domain cell, shape (d,).

        Under replace-one, the entry of a cell is the squared cost of moving a record between the
        cell and its farthest neighbour. With more than 10^7 cells, there is one entry for each set
        of equivalent cells.

        Raises
        ------
        NotApplicableError
            If the noise has no privacy cost.
        """
        return self._gaussian.privacy_profile

    @property
    def basis(self) -> Array:
        """The mechanism's own basis, shape (k, d); `covariance` describes the noise on it."""
        return self._gaussian.coordinates.basis

    @property
    def representation(self) -> Matrix:
        """W expressed in the basis: L with ``L @ basis == W``, dense or CSR, shape (m, k)."""
        return self._gaussian.coordinates.representation

    @property
    def covariance(self) -> Array:
        """Covariance of the noise on ``basis @ x``, shape (k, k)."""
        return self._gaussian.coordinates.covariance

    @property
    def curve(self) -> BudgetCurve:
        """The budget curve: the variance ratio at a budget, and the least ε that meets the targets.

        Raises
        ------
        NotApplicableError
            On a query graph, because its noise is for one ε only.
        """
        return self.noise.curve

    def at_budget(self, epsilon: float, delta: float) -> "AtBudget":
        """Rescale the noise to a budget; this solves Problem 2 (arXiv v1, Theorem 5).

        Parameters
        ----------
        epsilon : float
            ε, from 1e-20 to 1e10.
        delta : float
            δ, from 0 (for pure mechanisms) to less than 1.

        Returns
        -------
        AtBudget
            The noise to add at that budget, its query variances and confidence intervals, and the
            variance ratio.

        Raises
        ------
        OptionError
            If ε or δ is out of range, or δ is 0 and the noise is Gaussian.
        NotApplicableError
            If no rescaled noise meets the budget, or the workload is a query graph.
        """
        if not (LEAST_EPSILON <= epsilon <= MOST_EPSILON and 0 <= delta < 1):
            raise OptionError(
                f"{self.mechanism}: budget epsilon = {epsilon!r}, delta = {delta!r}; expected "
                f"a positive epsilon, from {LEAST_EPSILON:g} to {MOST_EPSILON:g}, and a delta from "
                "0 to less than 1"
            )
        if delta == 0 and self.noise.gaussian:
            raise OptionError(
                f"{self.mechanism}: delta is 0, and Gaussian noise meets no budget with delta = 0; "
                "give a positive delta, for instance 1e-6, or use a pure mechanism ('laplace', "
                "'geometric')"
            )
        ratio = float(self.curve.variance_ratio_at_budget(epsilon, delta))
        if not np.isfinite(ratio):
            raise NotApplicableError(
                f"{self.mechanism}: no noise of its kind is ({epsilon:g}, {delta:g})-private"
            )
        return AtBudget(self, float(epsilon), float(delta), ratio)

    def free_queries(self, candidates: Workload | ArrayLike) -> FreeQueries:
        """Find which further queries cost no privacy, and their variances (PVLDB, section 3.2.1).

        Under replace-one, privacy costs are those of pairs of neighbouring cells, not of cells.

        Parameters
        ----------
        candidates : Workload or array_like, shape (n, d)
            Queries over the same cells, none of them zero.

        Raises
        ------
        WorkloadError
            If the queries are not over the workload's cells, or a query is zero.
        NotApplicableError
            If the noise is not Gaussian, or too large to be written out.
        """
        workload = candidates if isinstance(candidates, Workload) else from_matrix(candidates)
        return find_free_queries(self._gaussian, self.problem, workload)

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """Draw n vectors of errors, shape (n, m); for experiments, never for a release.

        Raises
        ------
        NotApplicableError
            If the errors cannot be drawn, for instance because there are too many queries.
        """
        return self.noise.draw(n, rng)

    def record(self) -> dict[str, object]:
        """Return the numbers that a sweep stores, by name, and the noise's ``curve``, if any.

        The lower bound is the mechanism's own, or NaN if it computed none: a sweep certifies every
        problem once, not every solve.
        """
        record = self.noise.record()
        if self.noise.gaussian:
            known = self.known_lower_bound
            record["lower_bound"] = float("nan") if known is None else known
        if isinstance(self.problem, Problem):
            m, d = self.problem.workload.shape
            record |= {"query_count": as_float(m), "domain_size": as_float(d)}
        own = {"iterations": self.iterations, "converged": self.converged}
        return {**record, **own, **self.measures}

    def arrays(self) -> dict[str, Array]:
        """Return the arrays that a sweep stores on request, by variable name."""
        return {**self.noise.arrays(), **(self.trace.arrays() if self.trace else {})}

    @property
    def _gaussian(self) -> GaussianNoise:
        if not isinstance(self.noise, GaussianNoise):
            raise NotApplicableError(
                f"{self.mechanism}: its noise is not Gaussian, so it has no privacy cost, no "
                "privacy profile and no covariance on a basis; record() has its accuracy at a "
                "budget, and its noise has further attributes"
            )
        return self.noise

    def __repr__(self) -> str:
        """Return the most important numbers and facts, on at most eleven lines."""
        rows = (f"  {name:<21}{text}" for name, text in self._describe().items())
        return "\n".join([f"{self.mechanism} on {self.problem.title}", *rows])

    def _repr_html_(self) -> str:
        """Return the content of `repr` as an HTML table, for notebooks."""
        rows = "".join(
            f'<tr><th scope="row">{escape(name.replace("_", " "))}</th><td>{escape(text)}</td></tr>'
            for name, text in self._describe().items()
        )
        heading = escape(f"{self.mechanism} on {self.problem.title}")
        return f"<table><caption><strong>{heading}</strong></caption>{rows}</table>"

    def _describe(self) -> dict[str, str]:
        record = self.record() | ({} if self.known_lower_bound is None else {"gap": self.gap})
        numbers = ((name, record.get(name)) for name in _SHOWN)
        texts = {n: f"{v:.9g}" for n, v in numbers if isinstance(v, float) and not math.isnan(v)}
        ended = "converged" if self.converged else "not converged"
        state = "timed out" if self.timed_out else ended
        return texts | {
            "neighbours": self.neighbours,
            "ended": f"{state} after {self.iterations} iterations, {self.runtime:.3g} s",
            "noise": f"{type(self.noise).__name__}; notes: {', '.join(self.notes) or 'none'}",
        }


@dataclass(frozen=True, eq=False)
class AtBudget:
    """A solution whose noise is rescaled to a privacy budget (Problem 2 of PVLDB 14(10)).

    Problem 2 asks for the least k such that every variance is at most k times its target. By
    Theorem 5 of arXiv v1 (Theorem 2 of PVLDB), a solution of Problem 1 also solves Problem 2 after
    its noise is rescaled to the privacy cost that the budget allows.

    Attributes
    ----------
    solution : Solution
        The solution before rescaling: the targets c_j are just met.
    variance_ratio_at_budget : float
        k of Problem 2, ``max_j variance_j / c_j``: the factor that multiplies all variances of
        ``solution``.
    """

    solution: Solution = field(repr=False)
    epsilon: float
    delta: float
    variance_ratio_at_budget: float

    @cached_property
    def noise(self) -> Noise:
        """The noise to add at this budget: the noise of ``solution``, rescaled.

        Gaussian noise has ``left`` L and ``right`` B, which give the answers L (B x + z) with
        independent standard normal z; and ``coordinates``, which has ``basis`` and ``covariance``.

        Raises
        ------
        NotApplicableError
            If the errors were measured at one budget.
        """
        return self.solution.noise.at_budget(self.epsilon, self.delta)

    @cached_property
    def query_variances(self) -> Array:
        """Variance of every query's answer at this budget, shape (m,)."""
        return self.variance_ratio_at_budget * self.solution.query_variances

    @property
    def total_variance(self) -> float:
        """Sum of the query variances at this budget."""
        return self.variance_ratio_at_budget * self.solution.total_variance

    @property
    def squared_privacy_cost(self) -> float:
        """Δ² of the rescaled noise; NaN if the noise has no privacy cost."""
        return self.solution.squared_privacy_cost / self.variance_ratio_at_budget

    @property
    def bounds(self) -> Array:
        """The bounds k c_j on the variances at this budget, in the shape of the targets."""
        return self.variance_ratio_at_budget * self.solution.problem.targets

    def half_widths(self, confidence: float = 0.95) -> Array:
        """Return the half widths of `Solution.half_widths` at this budget."""
        return math.sqrt(self.variance_ratio_at_budget) * self.solution.half_widths(confidence)

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """Draw n vectors of errors, shape (n, m); for experiments, never for a release.

        Raises
        ------
        NotApplicableError
            If the errors cannot be drawn, for instance because there are too many queries.
        """
        return self.noise.draw(n, rng)
