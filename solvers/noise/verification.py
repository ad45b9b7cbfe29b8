"""Factorisations W = L B that are checked before they are returned.

Only the two factors are taken from an algorithm. L B is compared with W in units of the noise, and
the privacy profile and the variances are computed from L and B.
"""

from dataclasses import replace

import numpy as np
import scipy

from solvers.errors import SolveFailedError
from solvers.noise.factorisation import Factorisation, InBasis, identity
from solvers.problem import Problem
from solvers.problem.factors import seen_cells, structure_pays
from solvers.problem.row_space import column_norms
from workloads.operators import Array, Composed, Explicit, QueryOperator, dense
from workloads.operators.blas import product
from workloads.operators.protocol import times

LARGEST_RESIDUAL = 1e-12
"""Largest accepted `residual` of a factorisation, in units of the noise."""

_REFINED = LARGEST_RESIDUAL / 10
"""Residual above which factors are corrected: scaling the noise may add as much rounding again."""
_BLOCK_ENTRIES = 2**22
"""Entries of W - L B that are compared at a time: 32 MiB, whatever the size of W."""
_SAMPLED_QUERIES = 128
"""Number of queries of each kind whose variances are computed a second time, from rows of L.

Two samples of k cells cost ``256 k d``, a small part of the ``k**2 d`` of one spectrum.
"""


def from_right_inverse(
    mechanism: str,
    problem: Problem,
    right: Array,
    inverse: Array,
    basis: QueryOperator,
    queries: QueryOperator,
) -> Factorisation:
    """Return a factorisation from B and a right inverse of B: L is W times the inverse.

    L has the structure of the queries if this saves work and is accurate. Otherwise L is dense, and
    it is corrected if W - L B exceeds the rounding error.

    Parameters
    ----------
    problem : Problem
        The workload, whose rows lie in the row space of B, and the targets.
    right : numpy.ndarray, shape (k, d)
        B.
    inverse : numpy.ndarray, shape (d, k)
        ``right @ inverse`` is the identity.
    basis, queries : QueryOperator
        The mechanism's own basis, and W expressed in this basis.

    Raises
    ------
    SolveFailedError
        If the `residual` is above `LARGEST_RESIDUAL` or not a number.
    """
    operator = problem.workload.operator
    own = InBasis(basis, queries, times(basis.matrix(), inverse))
    if structure_pays(operator) and _of_full_rank(operator, right):
        kept = _structured(problem, right, inverse, own)
    else:
        kept = _structured_in_basis(problem, right, own)
    # L = W inverse, since W = M B for some M, and M B inverse = M
    return kept or _dense(mechanism, problem, times(problem.workload.matrix, inverse), right, own)


def noise_from_root(
    mechanism: str, problem: Problem, basis: Array, queries: QueryOperator, root: Array
) -> Factorisation:
    """Return the factorisation of noise on a basis, from a square root of the noise's covariance.

    Parameters
    ----------
    basis : numpy.ndarray, shape (k, d)
        The queries to whose answers the noise is added.
    queries : QueryOperator
        W expressed in this basis, shape (m, k).
    root : numpy.ndarray, shape (k, k)
        An invertible square root of the covariance. The strategy B is ``inv(root) @ basis``.

    Raises
    ------
    SolveFailedError
        If the `residual` is above `LARGEST_RESIDUAL` or not a number.
    """
    right = _solved(root, basis)
    if np.array_equal(basis, np.eye(len(basis))):
        return from_right_inverse(mechanism, problem, right, root, identity(len(basis)), queries)
    own = InBasis(Explicit(basis), queries, root)
    kept = _structured_in_basis(problem, right, own)
    # L = queries root, since W = queries basis and basis = root B
    return kept or _dense(mechanism, problem, times(queries.matrix(), root), right, own)


def _of_full_rank(operator: QueryOperator, right: Array) -> bool:
    """Return whether B has full column rank on the domain cells that occur in some query."""
    if len(right) == right.shape[1]:
        return True
    seen = right.any(axis=0)
    return len(right) == np.count_nonzero(seen) and np.array_equal(seen, seen_cells(operator))


def _dense(
    mechanism: str, problem: Problem, left: Array, right: Array, own: InBasis
) -> Factorisation:
    """Return the factorisation with dense factors, corrected until L B is W up to rounding.

    L is corrected first, by (W - L B) B⁺. If this is not enough, B is corrected too: if the rank of
    W is below d, the rows of B span the rows of W only up to rounding.
    """
    workload = Explicit(problem.workload.matrix)
    columns = column_norms(right)
    # columns of B at cells that no query sees are only rounding errors
    small = columns <= LARGEST_RESIDUAL * columns.max()
    right = np.where(small & ~seen_cells(workload), 0.0, right)
    missing = residual(workload, Explicit(left), right)
    if _REFINED < missing < np.inf:
        inverse = np.asarray(np.linalg.pinv(right))
        left = left + product(dense(workload.array) - product(left, right), inverse)
        missing = residual(workload, Explicit(left), right)
    if missing > _REFINED:  # infinite if a column of B that should be tiny is zero
        right = right + _least_squares(left, dense(workload.array) - product(left, right))
        missing = residual(workload, Explicit(left), right)
    if not missing <= LARGEST_RESIDUAL:
        raise SolveFailedError(
            f"{mechanism}: the product of its factors differs from the workload by {missing:.1e} "
            f"of the noise; expected at most {LARGEST_RESIDUAL:.0e}: too ill-conditioned for "
            "double precision. Bring the targets closer together or, if queries or cells of W "
            "differ only by rounding, make them equal"
        )
    return Factorisation(Explicit(left), Explicit(right), own)


def _least_squares(left: Array, missing: Array) -> Array:
    """Solve ``left @ y = missing`` by least squares, every row in units of its query's noise."""
    norms = np.sqrt(Explicit(left).squared_row_norms())
    seen = norms > 0
    scaled = left[seen] / norms[seen, None], missing[seen] / norms[seen, None]
    solution = scipy.linalg.lstsq(*scaled, check_finite=False, lapack_driver="gelsy")
    return np.asarray(solution[0])


def _solved(root: Array, basis: Array) -> Array:
    """Compute ``inv(root) @ basis``, by substitution if the root is lower triangular."""
    if np.any(np.triu(root, 1)):
        return np.asarray(np.linalg.solve(root, basis))  # scipy's would warn of unequal norms
    return np.asarray(scipy.linalg.solve_triangular(root, basis, lower=True, check_finite=False))


def _structured(
    problem: Problem, right: Array, inverse: Array, own: InBasis
) -> Factorisation | None:
    """Return the factorisation whose L has the structure of W; None if it is inaccurate.

    If M is the exact L, with ``M B = W``, then L B - W is ``M (B inverse - I) B``. So the norm of
    ``B inverse - I`` bounds the `residual`, up to second order.
    """
    off = product(right, inverse) - np.eye(len(right))  # O(k² d), whatever the number of queries
    if not np.linalg.norm(off) <= _REFINED:
        inverse = inverse - product(inverse, off)  # a Newton step: what is off is squared
        off = product(right, inverse) - np.eye(len(right))
        own = replace(own, root=times(own.rows.matrix(), inverse))
    decoder = Composed(problem.workload.operator, inverse)
    accurate = np.linalg.norm(off) <= LARGEST_RESIDUAL and _agree(decoder, problem)
    return Factorisation(decoder, Explicit(right), own) if accurate else None


def _structured_in_basis(problem: Problem, right: Array, own: InBasis) -> Factorisation | None:
    """Return the factorisation whose L has the structure of W expressed in the mechanism's basis.

    None if it is inaccurate, or slower than a dense L.
    """
    if isinstance(own.root, float) or not structure_pays(own.queries):
        return None
    decoder = Composed(own.queries, own.root)
    if not _agree(decoder, problem):
        return None
    missing = residual(problem.workload.operator, decoder, right)
    if _REFINED < missing < np.inf:
        # one step of iterative refinement of ``root B = basis``
        right = right - _solved(own.root, product(own.root, right) - own.basis)
        missing = residual(problem.workload.operator, decoder, right)
    return Factorisation(decoder, Explicit(right), own) if missing <= LARGEST_RESIDUAL else None


def _agree(decoder: Composed, problem: Problem) -> bool:
    """Return whether L's structure gives accurate variances, compared with a sample of its rows.

    The sample contains the queries with the largest variance ratios, and equally spaced queries.
    """
    variances = decoder.squared_row_norms()
    count = min(_SAMPLED_QUERIES, len(variances))
    tightest = np.argpartition(variances / problem.targets, -count)[-count:]
    spread = np.linspace(0, len(variances) - 1, count).astype(np.intp)
    at = np.union1d(tightest, spread)
    expected = Explicit(decoder.rows(at)).squared_row_norms()
    allowed = LARGEST_RESIDUAL * np.maximum(expected, np.finfo(float).eps * expected.max())
    return bool(np.all(np.abs(variances[at] - expected) <= allowed))


def residual(workload: QueryOperator, left: QueryOperator, right: Array) -> float:
    """Return the largest entry of ``|W - L B|``, in units of the noise.

    The result is the largest ratio of ``|W - L B|_ji`` to ``|L_j| |B_i|``, for row j of L and
    column i of B. The divisor is the standard deviation of query j times the privacy cost of cell
    i. The divisor bounds ``|W_ji|``, and the rounding error of ``(L B)_ji`` is about the machine
    epsilon times the divisor. The ratios do not depend on the scale of queries or cells.
    """
    rows = np.sqrt(left.squared_row_norms())
    columns = column_norms(right)
    worst = 0.0
    m, d = workload.shape
    size = max(_BLOCK_ENTRIES // d, 1)
    for start in range(0, m, size):
        block = np.arange(start, min(start + size, m))
        missing = np.abs(dense(workload.rows(block)) - times(left.rows(block), right))
        units = np.outer(rows[block], columns)
        ratios = np.where(missing > 0, np.inf, 0.0)  # where the unit is 0
        np.divide(missing, units, out=ratios, where=units > 0)
        worst = float(np.maximum(worst, ratios.max()))
    return worst
