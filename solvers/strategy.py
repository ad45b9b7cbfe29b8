"""Solutions from a strategy, from a covariance or from a square root of one.

A strategy answers other queries S, and W is derived from them.

The matrix mechanism (Li et al., PODS 2010; KDD'16, eq. (2)): the answers Sx get independent
Gaussian noise of one variance, x is estimated from them by least squares, and the answers to
W are ``W S⁺ (Sx + noise)``. As a factorisation W = L B the strategy
is any B with BᵀB = SᵀS, the errors have the same distribution:

- where S has full column rank, the triangle of ``SᵀS = BᵀB``; read in the basis I the
  covariance is (SᵀS)⁻¹;
- otherwise the singular values and right vectors of S, ``diag(s) P``; in the basis P the
  covariance is diagonal.

Either way the privacy profile is the squared column norms of S, up to scale.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.linalg as sla

from solvers.errors import NotApplicableError, SolveFailedError
from solvers.gaussian import verification
from solvers.gaussian.factorisation import identity
from solvers.gaussian.verification import from_right_inverse
from solvers.problem import Problem
from solvers.problem.row_space import factor_if_well_conditioned, singular_rows
from solvers.solution import Solution
from workloads.operators import Array, Explicit, Matrix, QueryOperator, dense

_WELL_CONDITIONED = 1e-10
_SPAN_TOLERANCE = 1e-8


def from_strategy(mechanism: str, problem: Problem, strategy: Matrix, **facts: Any) -> Solution:
    """The mechanism that answers W by least squares from noisy answers to a strategy.

    Parameters
    ----------
    strategy : numpy.ndarray or scipy.sparse.csr_array, shape (r, d)
        S, up to scale; all its answers get noise of the same variance.
    **facts
        Other attributes of `Solution`.

    Raises
    ------
    NotApplicableError
        If some query of W cannot be derived from S (it is not in its row space).
    """
    gram = dense(strategy.T @ strategy)
    lower = factor_if_well_conditioned(gram, _WELL_CONDITIONED)
    if lower is not None:
        d = len(gram)
        inverse = sla.solve_triangular(lower, np.eye(d), lower=True, check_finite=False).T
        queries = problem.workload.operator
        noise = from_right_inverse(mechanism, problem, lower.T, inverse, identity(d), queries)
        return Solution(mechanism, problem, noise.met(mechanism, problem.targets), **facts)
    singular, rows = singular_rows(strategy)
    coordinates = _coordinates(mechanism, problem, rows)
    noise = from_right_inverse(
        mechanism,
        problem,
        singular[:, None] * rows,
        rows.T / singular,
        Explicit(rows),
        Explicit(coordinates),
    )
    noise = noise.met(mechanism, problem.targets)
    own = noise.own
    exact = replace(own, root=np.diag(np.diag(own.root)))  # the rows are orthonormal
    return Solution(mechanism, problem, replace(noise, own=exact), **facts)


def from_root(
    mechanism: str,
    problem: Problem,
    basis: Array,
    queries: Matrix | QueryOperator,
    root: Array,
    **facts: Any,
) -> Solution:
    """A solution from a square root of its covariance, up to scale.

    Parameters
    ----------
    queries : numpy.ndarray, scipy.sparse.csr_array or QueryOperator, shape (m, k)
        L, with L B = W.
    root : numpy.ndarray, shape (k, k)
        Regular; ``root @ root.T`` is the covariance of the noise on Bx, up to scale.
    **facts
        Other attributes of `Solution`.

    Raises
    ------
    SolveFailedError
        If the factors that follow do not give the workload.
    """
    left = queries if isinstance(queries, QueryOperator) else Explicit(queries)
    noise = verification.from_root(mechanism, problem, basis, left, root).met(
        mechanism, problem.targets
    )
    return Solution(mechanism, problem, noise, **facts)


def from_covariance(
    mechanism: str,
    problem: Problem,
    basis: Array,
    queries: Matrix | QueryOperator,
    covariance: Array,
    **facts: Any,
) -> Solution:
    """A solution from a covariance, for algorithms that end with one.

    Parameters
    ----------
    covariance : numpy.ndarray, shape (k, k)
        Of the noise on Bx, up to a positive factor; symmetric positive definite.
    **facts
        Other attributes of `Solution`.

    Raises
    ------
    SolveFailedError
        If the covariance is not positive definite, or the factors that follow from it do not
        give the workload.
    """
    try:
        root = sla.cholesky(covariance, lower=True)
    except (sla.LinAlgError, ValueError) as error:
        raise SolveFailedError(
            f"{mechanism}: the covariance is not positive definite ({error})"
        ) from error
    return from_root(mechanism, problem, basis, queries, root, **facts)


def _coordinates(mechanism: str, problem: Problem, basis: Array) -> Array:
    """W in an orthonormal basis."""
    queries = problem.workload.dense
    coordinates = queries @ basis.T
    missing = np.linalg.norm(queries - coordinates @ basis, axis=1)
    allowed = _SPAN_TOLERANCE * np.linalg.norm(queries, axis=1)
    bad = np.flatnonzero(missing > allowed)
    if bad.size:
        raise NotApplicableError(
            f"{mechanism}: query {bad[0]} (counted from 0) of workload {problem.workload.name!r} "
            f"cannot be derived from the strategy, whose rank is {len(basis)} over "
            f"{basis.shape[1]} cells; {bad.size} of {problem.workload.m} queries lie outside "
            "its row space. Use a strategy that spans the workload"
        )
    return coordinates
