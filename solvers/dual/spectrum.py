"""The spectrum of a matrix at given weights: the only quantity that the dual needs.

With A = diag(c)^-1/2 W, column weights p and query weights q, everything in the dual of Problem 1
follows from one singular value decomposition,

    diag(q)^1/2 A diag(p)^1/2 = X Λ Zᵀ   with Λ = diag(λ).

The nuclear norm sum(λ) is the value of the dual. The inner solution is the matrix geometric mean Σ:
its privacy profile is diag(Z Λ Zᵀ) / p, and its ratios of variance to target are diag(X Λ Xᵀ) / q.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import scipy
from numpy.typing import NDArray

from solvers.dual.newton_system import Single, StructuredVectors
from solvers.problem.factors import Factors
from solvers.problem.row_space import factor_if_well_conditioned, parted
from workloads.operators import Array
from workloads.operators.blas import Real, lower_gram, product, whole

_SAFE_SQUARED_RATIO = 1e-13
"""Least ratio of the smallest to the largest squared singular value for which a Gram matrix is used
if the bounds have to agree to 1e-6 or less.

`benchmarks.panel` takes the same steps to a gap of 1e-6 with 1e-10.
"""
LOOSEST_TOL = 1e-6
"""Tolerance down to which `_SAFE_SQUARED_RATIO` suffices."""
TIGHTEST_TOL = 1e-9
"""Least relative error of the gradient that is guaranteed; most errors are far smaller.

With a smaller number, many more spectra would need a full singular value decomposition. Bounds that
agree to 1e-12 are reached without it.
"""
_SAFE_RATIO = 1e-14
"""Least ratio of the smallest to the largest singular value for which LAPACK's usual decomposition
is used: its errors are a few times eps times the largest value.

Jacobi's method takes twice as long. With entries over 18 decades, no problem of 300 needs a ratio
above 3e-15; with 1e-10, prefixes with targets from 1 to 100 take a tenth longer.
"""
_CHOLESKY_FROM = 2**12
"""Least number of entries of a basis whose Gram matrix is factorised instead of the basis.

Cholesky's factor of the Gram matrix takes a third to a half of the time of a QR decomposition, but
Q is then orthonormal only up to eps divided by the Gram matrix's reciprocal condition number. Below
this size, QR takes at most 0.1 ms of a step that takes 2 ms.
"""
_CHOLESKY_SUFFICES = 1e-7
"""Least reciprocal condition number of that Gram matrix: Q is orthonormal to `TIGHTEST_TOL`."""
_CLEARLY_KNOWN = 1e-8
"""Ratio to the largest squared singular value above which the others are correct to 1e-8.

The relative error is about eps divided by twice the ratio. The panel takes 421 steps with 1e-10 and
with 1e-8, and 420 with 1e-6.
"""
_FEW = 0.1
"""Largest share of the singular values that is decomposed separately.

It admits the 90 of 1024 values of `_KNOWN_IN_SINGLE`. The panel takes 421 steps with 0.02 and with
0.1, and 426 with 0.5.
"""
_KNOWN_IN_SINGLE = 2e-7
"""Least squared singular value, relative to the largest, for which single precision is trusted.

For ranges over 1024 cells, 90 values are below this limit. With a limit of 1e-6, 370 values are
below it, and the interior point starts no closer to the optimum; with 3e-8, 15 values are below it,
and the interior point starts with a gap of 0.26 instead of 0.15."""
_ROUGHLY_KNOWN = 1e-6
"""Least singular value, relative to the largest, that single precision gives to one digit."""


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The singular value decomposition at column weights p and query weights q.

    Attributes
    ----------
    singular : numpy.ndarray, shape (k,)
        λ, in ascending order; they sum to the dual value f(p, q).
    cells : numpy.ndarray of shape (d, k), or StructuredVectors
        Z, with orthonormal columns.
    compute_queries : callable
        Computes X, which the total error does not need.
    """

    singular: Array
    cells: Array | StructuredVectors
    compute_queries: Callable[[], Array | StructuredVectors]

    @property
    def columns(self) -> Array:
        """Z as a dense matrix, shape (d, k)."""
        return self.cells if isinstance(self.cells, np.ndarray) else self.cells.rows(slice(None))

    @cached_property
    def queries(self) -> Array | StructuredVectors:
        """X, shape (m, k), with orthonormal columns."""
        return self.compute_queries()


def masses(vectors: Array | StructuredVectors, singular: Array) -> Array:
    """Return ``vectors**2 @ singular``, shape (n,), whose sum is the nuclear norm.

    For Z this is ``p * profile``, and for X it is ``q * variances / targets``.
    """
    if isinstance(vectors, StructuredVectors):
        return vectors.squares(singular[:, None])[:, 0]
    return product(np.square(vectors), singular)


def spectrum(factors: Factors, p: Array, q: Array, tol: float = LOOSEST_TOL) -> Spectrum:
    """Compute the spectrum at weights of columns and queries.

    Parameters
    ----------
    factors : Factors
        Factors of the scaled workload.
    p, q : numpy.ndarray, shapes (d,) and (m,)
        The weights, none negative.
    tol : float
        Relative error that rounding may cause in the gradient of the nuclear norm; below
        `TIGHTEST_TOL`, it makes no difference.

    Returns
    -------
    Spectrum
    """
    # A computed Gram matrix differs from the exact one, H, by about the machine epsilon times its
    # largest eigenvalue. The gradient of tr(H^1/2) contains H^-1/2, so it changes by a relative
    # amount of up to eps / (2 ratio), where ratio is that of the least to the largest eigenvalue.
    safe = _SAFE_SQUARED_RATIO
    if tol < LOOSEST_TOL:
        safe = float(np.finfo(float).eps) / (2 * max(tol, TIGHTEST_TOL))
    found = None
    if factors.structured:
        found = _from_gram(factors, p, q, safe)
    elif factors.basis is not None and factors.nearly_full:
        found = _beside_null_space(factors, factors.basis, p, q, safe)
    if found is not None:
        return found
    half = np.sqrt(q)[:, None] * factors.representation
    if factors.basis is None:
        half *= np.sqrt(p)
        times_q = None
    else:
        root, times_q = _rooted(factors, factors.basis, p)
        half = product(half, root)
    singular, rotation, left = _right_singular(half, safe)
    columns = rotation if times_q is None else times_q(rotation)
    return Spectrum(
        singular, columns, lambda: product(half, rotation) / singular if left is None else left
    )


def rough_masses(factors: Factors, p: Array, q: Array) -> tuple[Array, Array] | None:
    """Estimate ``p * profile`` and ``q * variances / targets`` to one or two digits, up to factors.

    They are computed in single precision, in about half the time of `spectrum`. None if the rank is
    not nearly full, or if too many singular values are too small for single precision.

    Parameters
    ----------
    factors : Factors
        Factors of the scaled workload.
    p, q : numpy.ndarray, shapes (d,) and (m,)
        The weights, all positive.

    Returns
    -------
    tuple of numpy.ndarray, shapes (d,) and (m,), or None
    """
    if not factors.nearly_full:
        return None
    weighted = np.sqrt(q)[:, None] * factors.whole
    weighted *= np.sqrt(p)
    # norm 1, so that squares neither overflow nor underflow in single precision
    half: Single = (weighted / np.linalg.norm(weighted)).astype(np.float32)
    deflated = _deflated(half, _KNOWN_IN_SINGLE)
    if deflated is None:
        return None
    _, columns = deflated
    rows = product(half, columns)
    norms = np.linalg.norm(rows, axis=0)  # for small values, more accurate than eigenvalues
    if not np.sort(norms)[factors.cells - factors.rank] > _ROUGHLY_KNOWN * norms.max():
        return None
    singular = np.maximum(norms, np.finfo(np.float32).eps * norms.max())
    profile = product(np.square(columns), singular)
    ratios = product(np.square(rows), 1 / singular)
    return profile.astype(np.float64), ratios.astype(np.float64)


def _from_gram(factors: Factors, p: Array, q: Array, safe: float) -> Spectrum | None:
    """Compute the spectrum from structured queries' Gram matrix; None if it is inaccurate."""
    gram = factors.operator.gram(q)
    if factors.basis is None:
        root = np.sqrt(p)
        gram *= root
        gram *= root[:, None]
    else:
        root, times_q = _rooted(factors, factors.basis, p)
        gram = product(root.T, product(gram, root))
    squares, rotation = scipy.linalg.eigh(gram, driver="evd", overwrite_a=True, check_finite=False)
    if not squares[0] > safe * squares[-1]:
        return None
    singular = np.sqrt(squares)
    turned = root[:, None] * rotation if root.ndim == 1 else product(root, rotation)
    queries = StructuredVectors(factors.operator, q, turned / singular)
    columns = rotation if factors.basis is None else times_q(rotation)
    return Spectrum(singular, columns, lambda: queries)


def _beside_null_space(
    factors: Factors, basis: Array, p: Array, q: Array, safe: float
) -> Spectrum | None:
    """Return the spectrum from the Gram matrix over all cells, without its null space.

    None if the null space is not clearly separated from the row space.
    """
    half = np.sqrt(q)[:, None] * factors.whole
    half *= np.sqrt(p)
    deflated = _deflated(half, safe, factors.cells - factors.rank)
    if deflated is None or not deflated[0][0] > _SAFE_RATIO * deflated[0][-1]:
        return None
    singular, columns = deflated
    # rounding must not give mass to cells on which no query depends
    columns[~np.any(basis, axis=0)] = 0.0
    return Spectrum(singular, columns, lambda: product(half, columns) / singular)


def _rooted(
    factors: Factors, basis: Array, p: Array
) -> tuple[Array, Callable[[Array], Array | StructuredVectors]]:
    """Factorise ``basis @ diag(p)^1/2 = R @ Q.T``, where Q has orthonormal columns.

    Returns R, shape (k, k), and a function that multiplies Q, shape (d, k), by a matrix.
    """
    operator, scaled = factors.transposed_basis, (basis * np.sqrt(p)).T
    lower = None
    if basis.size >= _CHOLESKY_FROM:
        gram = operator.gram(p) if operator is not None else whole(lower_gram(scaled.T))
        lower = factor_if_well_conditioned(gram, _CHOLESKY_SUFFICES)
    if lower is None:
        left, upper = scipy.linalg.qr(scaled, mode="economic", overwrite_a=True, check_finite=False)
        return np.ascontiguousarray(upper.T), partial(product, np.asarray(left, dtype=np.float64))

    def times_q(right: Array) -> Array | StructuredVectors:
        solved = scipy.linalg.solve_triangular(
            lower, right, lower=True, trans="T", check_finite=False
        )
        return StructuredVectors(operator, p, solved) if operator else product(scaled, solved)

    return lower, times_q


def _right_singular(half: Array, safe: float) -> tuple[Array, Array, Array | None]:
    """Singular values (ascending) and right singular vectors, by the fastest accurate method.

    The left singular vectors are None unless the method computes them.
    """
    deflated = _deflated(half, safe)
    # callers divide by singular values; with this floor, even fourth powers do not underflow
    floor = np.finfo(float).tiny ** 0.25
    if deflated is not None:
        floor += np.finfo(float).eps ** 2 * deflated[0][-1]
        return np.maximum(deflated[0], floor), deflated[1], None
    _, singular, turned = scipy.linalg.svd(half, full_matrices=False, check_finite=False)
    if singular[-1] > _SAFE_RATIO * singular[0]:
        return singular[::-1], np.ascontiguousarray(turned[::-1].T), None
    # Jacobi's method after QR with pivoting: even singular values below eps times the largest have
    # correct digits if rows and columns differ in scale (Drmac and Veselic 2008). Values that are
    # pure rounding errors would make the gradient of light weights, and each step, meaningless.
    # The codes mean: rows and columns differ in scale, the full range of exponents, not transposed,
    # not perturbed.
    singular, left, right, work, _, failed = scipy.linalg.lapack.dgejsv(
        half, joba=2, jobr=0, jobt=0, jobp=1
    )
    if failed:
        raise scipy.linalg.LinAlgError("Jacobi's method did not converge")
    ascending = np.maximum(singular[::-1] * (work[0] / work[1]), floor)
    return ascending, np.ascontiguousarray(right[:, ::-1]), np.ascontiguousarray(left[:, ::-1])


def _deflated(
    half: NDArray[Real], safe: float, null: int = 0
) -> tuple[NDArray[Real], NDArray[Real]] | None:
    """Singular values (ascending) and right singular vectors, mostly from the Gram matrix.

    They are as exact as those of a full decomposition. If some eigenvalue of the Gram matrix is
    less than ``safe`` times the largest one, all those below `_CLEARLY_KNOWN` have too few correct
    digits. So ``half`` is decomposed separately on the span of their eigenvectors. None if these
    are more than a tenth of all. The first ``null`` values and vectors, those of a null space that
    is known to have this dimension, are left out.
    """
    gram = lower_gram(half.T)
    found = scipy.linalg.eigh(gram, driver="evd", overwrite_a=True, check_finite=False)
    squares, vectors = (np.asarray(part, dtype=half.dtype) for part in found)
    if squares[0] > safe * squares[-1]:
        return np.sqrt(squares), vectors
    count = int(np.searchsorted(squares, max(safe, _CLEARLY_KNOWN) * squares[-1]))
    if count > _FEW * squares.size:
        return None
    small, others = parted(half, squares, vectors, count)
    if count == null:
        return np.sqrt(squares[null:]), others
    within = product(half, small)
    _, singular, right = scipy.linalg.svd(within, full_matrices=False, check_finite=False)
    turned = product(small, np.ascontiguousarray(right[::-1].T))
    values = np.concatenate([singular[::-1][null:], np.sqrt(squares[count:])])
    return values, np.concatenate([turned[:, null:], others], axis=1)
