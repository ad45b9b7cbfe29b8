"""What a solve returns: the mechanism, scaled so that the targets are just met."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg as sla

from solvers import certificate
from solvers.certified import Certified
from solvers.dual import Weights
from solvers.errors import SolveFailedError
from solvers.problem import Problem
from workloads.operators import Array, Explicit, Matrix, QueryOperator


@dataclass(frozen=True, eq=False)
class Solution(Certified):
    """A linear query mechanism ``L (B x + N(0, covariance))`` that just meets its targets.

    Definition 3 of arXiv v1 (Definition 1 of section 3.1 in PVLDB): W = L B. The
    covariance is scaled so that ``max(query_variances / targets) == 1``.

    Attributes
    ----------
    method : str
        The method's name.
    problem : Problem
        The workload and the targets.
    basis : numpy.ndarray, shape (k, d)
        B: the queries that noise is added to.
    queries : QueryOperator
        L, shape (m, k).
    covariance : numpy.ndarray, shape (k, k)
        Of the noise on Bx.
    query_variances : numpy.ndarray, shape (m,)
        Variance of every query's answer.
    privacy_profile : numpy.ndarray, shape (d,)
        ``diag(B.T @ inv(covariance) @ B)``: the squared personal privacy costs.
    known_lower_bound : float, optional
        A certified lower bound on Δ² that the method came with.
    iterations : int
        Outer iterations; 0 for a closed form.
    converged : bool
        Whether the method reached its own stopping rule.
    timed_out : bool
        Whether it stopped at its time limit instead.
    runtime : float
        Wall-clock seconds of the solve alone.
    notes : dict
        What else the method reports (for instance the branching factor it used).
    weights : Weights, optional
        The dual weights. They prove ``known_lower_bound`` where there is one: with
        A = diag(targets)^-1/2 W it is
        ``‖diag(q)^1/2 A diag(p)^1/2‖_*² / (sum(p) sum(q))``. Otherwise they are those of the
        method's own objective, good for a warm start.
    measures : Mapping[str, float], optional
        Further numbers to store, by variable name.
    """

    method: str
    problem: Problem
    basis: Array
    queries: QueryOperator
    covariance: Array
    query_variances: Array
    privacy_profile: Array
    known_lower_bound: float | None = None
    iterations: int = 0
    converged: bool = True
    timed_out: bool = False
    runtime: float = float("nan")
    notes: dict[str, Any] | None = None
    weights: Weights | None = None
    measures: Mapping[str, float] | None = None

    @cached_property
    def representation(self) -> Matrix:
        """L, dense or CSR, shape (m, k)."""
        return self.queries.matrix()

    @property
    def squared_privacy_cost(self) -> float:
        """Δ² when all targets are met: the largest entry of the privacy profile."""
        return float(self.privacy_profile.max())

    @property
    def certified_bound(self) -> float | None:
        """``known_lower_bound``."""
        return self.known_lower_bound

    @cached_property
    def lower_bound(self) -> float:
        """A certified lower bound on Δ² over all linear query mechanisms.

        Computed on first use, from the dual at a few cheap points, where the method
        itself brought none.
        """
        if self.known_lower_bound is not None:
            return self.known_lower_bound
        return certificate.quick_lower_bound(self.problem)

    @property
    def total_variance(self) -> float:
        """Sum of the query variances when the targets are just met."""
        return float(self.query_variances.sum())

    @property
    def fisher_information(self) -> float:
        """Trace of the Fisher information about x when the targets are just met.

        The information is ``B.T @ inv(covariance) @ B``, whose diagonal is the profile.
        """
        return float(self.privacy_profile.sum())

    def timed(self, seconds: float) -> "Solution":
        """The same solution with its runtime."""
        return replace(self, runtime=seconds)

    def record(self) -> dict[str, Any]:
        """The numbers that a sweep stores, by variable name.

        The lower bound is that of the method itself, NaN where it has none: the sweep
        certifies every problem once, not every solve.
        """
        known = self.known_lower_bound
        return {
            "squared_privacy_cost": self.squared_privacy_cost,
            "lower_bound": float("nan") if known is None else known,
            "total_variance": self.total_variance,
            "fisher_information": self.fisher_information,
            "iterations": self.iterations,
            "converged": self.converged,
            **(self.measures or {}),
        }

    def arrays(self) -> dict[str, Array]:
        """The arrays that a sweep keeps on request, by variable name."""
        return {
            "query_variances": self.query_variances,
            "privacy_profile": self.privacy_profile,
            "covariance": self.covariance,
        }


def from_covariance(
    method: str,
    problem: Problem,
    basis: Array,
    queries: Matrix | QueryOperator,
    covariance: Array,
    **facts: Any,
) -> Solution:
    """A solution from any covariance up to scale; variances and profile follow from it alone.

    Parameters
    ----------
    method : str
        The method's name.
    problem : Problem
        The workload and the targets.
    basis : numpy.ndarray, shape (k, d)
        B.
    queries : numpy.ndarray, scipy.sparse.csr_array or QueryOperator, shape (m, k)
        L, with L B = W.
    covariance : numpy.ndarray, shape (k, k)
        Of the noise on Bx, up to a positive factor; symmetric positive definite.
    **facts
        Other attributes of `Solution`.

    Returns
    -------
    Solution

    Raises
    ------
    SolveFailedError
        If the covariance is not positive definite.
    """
    operator = queries if isinstance(queries, QueryOperator) else Explicit(queries)
    variances = operator.quadratic_forms(covariance)
    scale = float(np.max(variances / problem.targets))
    if not (np.isfinite(scale) and scale > 0):
        raise SolveFailedError(
            f"{method}: the largest variance ratio is {scale}; expected a positive number"
        )
    try:
        factor = sla.cholesky(covariance / scale, lower=True)
    except sla.LinAlgError as error:
        raise SolveFailedError(
            f"{method}: the covariance is not positive definite ({error})"
        ) from error
    whitened = sla.solve_triangular(factor, basis, lower=True)
    profile = np.einsum("ij,ij->j", whitened, whitened)
    return Solution(
        method,
        problem,
        basis,
        operator,
        covariance / scale,
        variances / scale,
        profile,
        **facts,
    )


def quadratic_forms(rows: Matrix, symmetric: Array) -> Array:
    """``diag(rows @ symmetric @ rows.T)``."""
    return Explicit(rows).quadratic_forms(symmetric)
