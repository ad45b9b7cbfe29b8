"""The scaled workload and its spectrum at given weights: all that the dual ever computes.

With A = diag(c)^-1/2 W, column weights p and query weights q, everything in the dual of
Problem 1 (design.md section 4) is read off one singular value decomposition

    diag(q)^1/2 A diag(p)^1/2 = X diag(λ) Zᵀ:

its nuclear norm sum(λ) is the dual value; diag(Z Λ Zᵀ)/p is the privacy profile and
diag(X Λ Xᵀ)/q the variances (over their targets) of the inner solution, the matrix
geometric mean Σ.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp

from workloads.operators import Array, Matrix
from workloads.operators.blas import lower_gram, product

_WELL_CONDITIONED = 1e-10
_SAFE_SQUARED_RATIO = 1e-13


@dataclass(frozen=True, eq=False)
class Factors:
    """``A = left @ basis`` with a basis of full row rank k.

    Attributes
    ----------
    left : numpy.ndarray, shape (m, k)
        The queries in the basis; A itself where the basis is the identity.
    basis : numpy.ndarray of shape (k, d), or None
        None stands for the identity (k = d).
    """

    left: Array
    basis: Array | None

    @property
    def queries(self) -> int:
        """Number of queries m."""
        return int(self.left.shape[0])

    @property
    def rank(self) -> int:
        """Rank k."""
        return int(self.left.shape[1])

    @property
    def cells(self) -> int:
        """Number of cells d."""
        return self.rank if self.basis is None else self.basis.shape[1]


def factorise(scaled: Matrix) -> Factors:
    """A rank-revealing factorisation of the scaled workload.

    Parameters
    ----------
    scaled : numpy.ndarray or scipy.sparse.csr_array, shape (m, d)
        A = diag(c)^-1/2 W.

    Returns
    -------
    Factors
        With the identity as basis where W has rank d, with W's own rows where it has
        rank m < d, with an orthonormal basis of the row space otherwise.
    """
    dense = np.asarray(scaled.todense()) if sp.issparse(scaled) else scaled
    m, d = dense.shape
    norms = np.linalg.norm(dense, axis=1)
    unit = dense / np.where(norms > 0, norms, 1.0)[:, None]
    gram = unit.T @ unit if m >= d else unit @ unit.T
    if factor_if_well_conditioned(gram, _WELL_CONDITIONED) is not None:
        return Factors(dense, None) if m >= d else Factors(np.eye(m), dense)
    _, singular, right = sla.svd(unit, full_matrices=False, check_finite=False)
    rank = int(np.sum(singular > 10 * max(m, d) * np.finfo(float).eps * singular[0]))
    if rank == d:
        return Factors(dense, None)
    return Factors(dense @ right[:rank].T, right[:rank])


def factor_if_well_conditioned(gram: Array, least: float) -> Array | None:
    """The lower Cholesky factor of a positive semidefinite matrix.

    Parameters
    ----------
    gram : numpy.ndarray, shape (k, k)
        Symmetric positive semidefinite, not zero.
    least : float
        The reciprocal condition number (in the 1-norm) that it must exceed.

    Returns
    -------
    numpy.ndarray or None
        None if it does not.
    """
    try:
        lower = sla.cholesky(gram, lower=True, check_finite=False)
    except sla.LinAlgError:
        return None
    reciprocal, _ = sla.lapack.dpocon(lower, np.linalg.norm(gram, 1), uplo="L")
    return lower if reciprocal > least else None


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The singular value decomposition at weights (p, q).

    Attributes
    ----------
    singular : numpy.ndarray, shape (k,)
        λ, in ascending order.
    columns : numpy.ndarray, shape (d, k)
        Z, with orthonormal columns.
    half : numpy.ndarray, shape (m, k)
        ``X diag(λ)`` before rotation: ``diag(q)^1/2 @ left @ root``.
    rotation : numpy.ndarray, shape (k, k)
        The eigenvectors of ``half.T @ half``.
    root : numpy.ndarray, shape (k, k), or (k,) where diagonal
        A square root of ``basis @ diag(p) @ basis.T``.
    """

    singular: Array
    columns: Array
    half: Array
    rotation: Array
    root: Array

    @property
    def nuclear_norm(self) -> float:
        """The sum of the singular values: the dual value f(p, q)."""
        return float(self.singular.sum())

    @cached_property
    def rows(self) -> Array:
        """X, shape (m, k), with orthonormal columns."""
        return product(self.half, self.rotation) / self.singular

    @cached_property
    def column_mass(self) -> Array:
        """``p * profile``, shape (d,): sums to the nuclear norm."""
        return _weighted_squares(self.columns, self.singular)

    @cached_property
    def row_mass(self) -> Array:
        """``q * variances / targets``, shape (m,): sums to the nuclear norm."""
        return _weighted_squares(self.rows, self.singular)

    def covariance(self) -> Array:
        """Σ of the noise on the basis, shape (k, k): the matrix geometric mean."""
        scaled = self.rotation / np.sqrt(self.singular)
        factor = self.root[:, None] * scaled if self.root.ndim == 1 else product(self.root, scaled)
        return product(factor, factor.T)


def spectrum(factors: Factors, p: Array, q: Array) -> Spectrum:
    """The spectrum at column weights p (d,) and query weights q (m,), all non-negative."""
    weighted = np.sqrt(q)[:, None] * factors.left
    if factors.basis is None:
        root: Array = np.sqrt(p)
        orthonormal: Array | None = None
        half = weighted * root
    else:
        left, upper = sla.qr(
            (factors.basis * np.sqrt(p)).T, mode="economic", overwrite_a=True, check_finite=False
        )
        orthonormal = np.asarray(left, dtype=np.float64)
        root = np.ascontiguousarray(upper.T)
        half = product(weighted, root)
    singular, rotation = _right_singular(half)
    columns = rotation if orthonormal is None else product(orthonormal, rotation)
    return Spectrum(singular, columns, half, rotation, root)


def _right_singular(half: Array) -> tuple[Array, Array]:
    """Singular values (ascending) and right vectors: by the Gram matrix where that is safe."""
    gram = lower_gram(half.T)
    squares, vectors = sla.eigh(gram, driver="evd", overwrite_a=True, check_finite=False)
    if squares[0] > _SAFE_SQUARED_RATIO * squares[-1]:
        return np.sqrt(squares), vectors
    _, singular, right = sla.svd(half, full_matrices=False, check_finite=False)
    floor = np.finfo(float).tiny ** 0.25 + np.finfo(float).eps ** 2 * singular[0]
    return np.maximum(singular[::-1], floor), np.ascontiguousarray(right[::-1].T)


def _weighted_squares(matrix: Array, weights: Array) -> Array:
    """``matrix**2 @ weights``."""
    total: Array = np.einsum("ij,ij,j->i", matrix, matrix, weights)
    return total
