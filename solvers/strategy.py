"""Build solutions from a strategy, or from a covariance or its root.

A strategy S is a matrix of other queries; the answers to W are derived from noisy answers to S.

In the matrix mechanism (Li et al., PODS 2010; KDD'16, eq. (2)), the answers Sx get independent
Gaussian noise of equal variance, x is estimated from them by least squares, and the answers to W
are ``W S⁺ (Sx + noise)``. A factorisation W = L B may use any B with BᵀB = SᵀS in place of S,
because the errors have the same distribution. Here B is

- the transposed Cholesky factor of ``SᵀS`` if S has full column rank; on the identity as basis, the
  covariance is (SᵀS)⁻¹;
- otherwise ``diag(s) P``, where s are the singular values and the rows of P the right singular
  vectors of S; on the basis P, the covariance is diagonal.

In both cases the privacy profile consists of the squared column norms of S, up to scale.
"""

import numpy as np
import scipy

from solvers.dual.spectrum import Spectrum
from solvers.errors import NotApplicableError, SolveFailedError
from solvers.noise import verification
from solvers.noise.factorisation import Factorisation, identity
from solvers.noise.verification import from_right_inverse
from solvers.problem import Problem
from solvers.problem.factors import seen_cells
from solvers.problem.row_space import factor_if_well_conditioned, power_of_two, singular_rows
from solvers.solution import Solution
from workloads.operators import Array, Explicit, Matrix, QueryOperator, dense
from workloads.operators.combined import scaled_rows

_WELL_CONDITIONED = 1e-10
"""Least reciprocal condition number of SᵀS for which B is its Cholesky factor.

The condition number of B is then at most 1e5, and its inverse has ten correct digits. Below, B is
computed from the singular values of S, which takes about ten times as long.
"""

_SPAN_TOLERANCE = 1e-8
"""Largest part of a query outside the row space of S, relative to the query, that is rounding."""


def from_strategy(mechanism: str, problem: Problem, strategy: Matrix) -> Solution:
    """Return the solution that answers W by least squares from noisy answers to a strategy.

    Parameters
    ----------
    strategy : numpy.ndarray or scipy.sparse.csr_array, shape (r, d)
        S, up to scale; all answers to S get noise of equal variance.

    Raises
    ------
    NotApplicableError
        If some query of W cannot be derived from S because it is outside the row space of S.
    """
    # squares of the largest entries could overflow
    unit = 1 / power_of_two(max(strategy.max(), -strategy.min()))
    strategy = scaled_rows(strategy, np.full(strategy.shape[0], unit))
    gram = dense(strategy.T @ strategy)
    lower = factor_if_well_conditioned(gram, _WELL_CONDITIONED)
    if lower is not None:
        d = len(gram)
        right, basis, queries = lower.T, identity(d), problem.workload.operator
        inverse = scipy.linalg.solve_triangular(lower, np.eye(d), lower=True, check_finite=False).T
    else:
        singular, rows = singular_rows(strategy)
        right, inverse = singular[:, None] * rows, rows.T / singular
        basis, queries = Explicit(rows), Explicit(_coordinates(mechanism, problem, rows))
    noise = from_right_inverse(mechanism, problem, right, inverse, basis, queries)
    return Solution(mechanism, problem, noise.met(mechanism, problem.targets))


def from_root(
    mechanism: str, problem: Problem, basis: Array, queries: Matrix | QueryOperator, root: Array
) -> Solution:
    """Return the solution whose noise on a basis has a covariance with this square root.

    Parameters
    ----------
    queries : numpy.ndarray, scipy.sparse.csr_array or QueryOperator, shape (m, k)
        W expressed in the basis: ``queries @ basis`` is W.
    root : numpy.ndarray, shape (k, k)
        An invertible matrix: ``root @ root.T`` is the covariance, up to a positive factor.

    Raises
    ------
    SolveFailedError
        If the product of the resulting factors L and B is not W.
    """
    left = queries if isinstance(queries, QueryOperator) else Explicit(queries)
    noise = verification.noise_from_root(mechanism, problem, basis, left, root)
    return Solution(mechanism, problem, noise.met(mechanism, problem.targets))


def from_covariance(
    mechanism: str,
    problem: Problem,
    basis: Array,
    queries: Matrix | QueryOperator,
    covariance: Array,
) -> Solution:
    """Return the solution whose noise on a basis has this covariance.

    Parameters
    ----------
    covariance : numpy.ndarray, shape (k, k)
        Covariance of the noise on ``basis @ x``, up to a positive factor; symmetric positive
        definite.

    Raises
    ------
    SolveFailedError
        If the covariance is not positive definite, or the product of the resulting factors L and B
        is not W.
    """
    try:
        root = scipy.linalg.cholesky(covariance, lower=True)
    except (scipy.linalg.LinAlgError, ValueError) as error:
        raise SolveFailedError(
            f"{mechanism}: the covariance is not positive definite in double precision ({error})"
        ) from error
    return from_root(mechanism, problem, basis, queries, root)


def _coordinates(mechanism: str, problem: Problem, basis: Array) -> Array:
    """Express W in an orthonormal basis; raise NotApplicableError if the basis does not span W."""
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


def inner_unscaled(mechanism: str, problem: Problem, p: Array, spectrum: Spectrum) -> Factorisation:
    """Return the inner solution: the factorisation that is best at given dual weights.

    The dual weights are p of the cells and q of the queries; c are the targets and A is
    ``diag(c)^-1/2 W``. With the singular value decomposition
    ``diag(q)^1/2 A diag(p)^1/2 = X diag(λ) Zᵀ``, the strategy is ``B = sqrt(λ) Zᵀ / sqrt(p)``, and
    ``L = W B⁺`` is ``diag(c)^1/2 X sqrt(λ) / sqrt(q)``. L is computed without dividing by q: if the
    weight of a query is zero, its row of L is the limit as the weight tends to zero.

    Parameters
    ----------
    spectrum : Spectrum
        The singular value decomposition at the weights p and q.

    Raises
    ------
    SolveFailedError
        If the product of the factors L and B is not W.
    """
    weights, columns, roots = np.sqrt(p), spectrum.columns, np.sqrt(spectrum.singular)
    scaled = (columns * roots).T
    seen = seen_cells(problem.workload.operator)  # the profile of the other cells is zero
    right = np.divide(scaled, weights, out=np.zeros_like(scaled), where=seen & (weights > 0))
    inverse = weights[:, None] * columns / roots
    own = problem.factors.basis
    basis = identity(problem.workload.d) if own is None else Explicit(own)
    return from_right_inverse(mechanism, problem, right, inverse, basis, problem.queries)
