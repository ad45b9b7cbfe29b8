"""Bases of the query space, and Problem 4 in a fixed basis.

The workload is factorised as W = L B, where the rows of the basis B are linearly independent. By
Theorem 2 of arXiv v1 every basis represents the same mechanisms. The choice of a basis only
determines how fast an optimiser over the covariance Σ converges and how sparse L is. In a fixed
basis, the optimiser works on the entries of Σ as in the paper: with the gradient and Hessian of
equations (13) and (14) of arXiv v1, which share factorisations here.
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy

from solvers.dual.matrix_blocks import as_blocks
from solvers.errors import OptionError
from solvers.problem import Problem
from workloads.operators import Array, Explicit, Matrix, dense
from workloads.operators.blas import product, whole
from workloads.operators.combined import scaled_rows
from workloads.operators.protocol import entry_count

_SPARSE_BELOW = 0.1
_SPARSE_FROM = 2**15
"""Largest share of nonzero entries, and least number of entries, of a sparse representation.

At both limits, a product with a sparse matrix takes 0.6 to 0.8 of the time of a dense one.
"""
_RANK_TOLERANCE = 1e-10
"""Share of the largest coefficient of least squares below which another is set to zero.

Rounding errors of well-conditioned queries stay below it, and L stays sparse.
"""


class Factored(NamedTuple):
    """A factorisation ``W = representation @ basis``.

    Attributes
    ----------
    basis : numpy.ndarray, shape (k, d)
        B.
    representation : numpy.ndarray or scipy.sparse.csr_array, shape (m, k)
        L; sparse if that saves work.
    kind : str
        The kind of basis that was used: a key of `KINDS`.
    """

    basis: Array
    representation: Matrix
    kind: str


def factor(problem: Problem, kind: str) -> Factored:
    """Factorise a workload in a basis of the requested kind.

    Parameters
    ----------
    kind : str
        - ``"identity"``: B = I, L = W;
        - ``"upper-triangular"``: B = U, ones on and above the diagonal (PVLDB 14(10),
          section 7), so that L of a range query has two entries;
        - ``"lower-triangular"``: B = Uᵀ, which is U for the cells in reverse order;
        - ``"paper"``: of the two triangular bases, the one whose L has fewer nonzero entries, if L
          has fewer of them than W and on average at most max(2, d/8) in each row; otherwise the
          identity. Section 7 uses U for prefixes (whose W is upper triangular there), ranges, ages
          and PL-94, and I for random queries; on PL-94, where U does not make L sparser, I reaches
          the same cost in a tenth of the time;
        - ``"own"``: the basis of `Problem.factors`, which is I if W has rank d;
        - ``"workload"``: k linearly independent queries;
        - ``"row-space"``: orthonormal rows;
        - ``"factor"``: the basis in which the covariance at equal dual weights is I.

        If W has rank k < d, a basis of d rows would contain directions on which no query
        depends: their noise would grow without limit, and Problem 1 would have no minimiser. A
        basis of the first four kinds is therefore reduced to k rows: only k independent columns of
        L remain, and the rows of B are combined accordingly.

    Raises
    ------
    OptionError
        If there is no basis of that kind.
    """
    if kind not in KINDS:
        said = f"there is no basis {kind!r}; expected one of {', '.join(KINDS)}"
        raise OptionError(said, "basis")
    basis, queries, named = KINDS[kind](problem)
    rank = problem.factors.rank
    if rank < len(basis):  # reduced by an interpolative decomposition of L
        left = dense(queries)
        triangle, order = scipy.linalg.qr(_unit_rows(left)[0], mode="r", pivoting=True)
        kept, others = order[:rank], order[rank:]
        weights = scipy.linalg.solve_triangular(triangle[:rank, :rank], triangle[:rank, rank:])
        basis, queries = basis[kept] + weights @ basis[others], left[:, kept]
    size = queries.shape[0] * queries.shape[1]
    if size >= _SPARSE_FROM and entry_count(queries) < _SPARSE_BELOW * size:
        return Factored(basis, scipy.sparse.csr_array(queries), named)
    return Factored(basis, dense(queries), named)


def _own(problem: Problem) -> Factored:
    return Factored(problem.basis, problem.representation, "own")


def _identity(problem: Problem) -> Factored:
    return Factored(np.eye(problem.workload.d), problem.workload.matrix, "identity")


def _upper_triangular(problem: Problem) -> Factored:
    """Factorise W = L U; each column of L is a column of W minus the previous one."""
    differences = np.diff(problem.workload.dense, axis=1, prepend=0.0)
    return Factored(np.tri(problem.workload.d).T, differences, "upper-triangular")


def _lower_triangular(problem: Problem) -> Factored:
    """Factorise W = L Uᵀ; each column of L is a column of W minus the next one."""
    differences = -np.diff(problem.workload.dense, axis=1, append=0.0)
    return Factored(np.tri(problem.workload.d), differences, "lower-triangular")


def _paper(problem: Problem) -> Factored:
    candidates = _upper_triangular(problem), _lower_triangular(problem)
    shortest = min(candidates, key=lambda candidate: entry_count(candidate.representation))
    m, d = problem.workload.shape
    few = entry_count(shortest.representation) <= max(2, d / 8) * m
    sparser = entry_count(shortest.representation) < entry_count(problem.scaled)
    return shortest if few and sparser else _identity(problem)


def _workload(problem: Problem) -> Factored:
    """Factorise W in a basis of its own queries, selected by QR decomposition with pivoting."""
    matrix = problem.workload.dense
    unit, norms = _unit_rows(matrix)
    _, order = scipy.linalg.qr(unit.T, mode="r", pivoting=True)
    chosen = np.sort(order[: problem.factors.rank])
    shares = scipy.linalg.lstsq(unit[chosen].T, unit.T)[0].T
    shares[np.abs(shares) < _RANK_TOLERANCE * np.abs(shares).max()] = 0.0
    return Factored(matrix[chosen], shares * (norms[:, None] / norms[chosen]), "workload")


def _unit_rows(matrix: Array) -> tuple[Array, Array]:
    """Return the rows divided by their norms (zero rows are unchanged), and the norms."""
    norms = np.linalg.norm(matrix, axis=1)
    return matrix / np.where(norms > 0, norms, 1.0)[:, None], norms


def _row_space(problem: Problem) -> Factored:
    """Orthonormalise the basis of `Problem.factors` by a QR decomposition."""
    own = problem.factors.basis
    if own is None:
        return _identity(problem)._replace(kind="row-space")
    orthonormal, upper = np.linalg.qr(own.T)
    return Factored(orthonormal.T, problem.representation @ upper.T, "row-space")


def _geometric_mean_factor(problem: Problem) -> Factored:
    lower = scipy.linalg.cholesky(equal_weights_covariance(problem), lower=True)
    basis = scipy.linalg.solve_triangular(lower, problem.basis, lower=True)
    return Factored(basis, problem.representation @ lower, "factor")


def equal_weights_covariance(problem: Problem) -> Array:
    """Return the inner solution Σ at equal dual weights, in the problem's own basis, shape (k, k).

    Σ is the matrix geometric mean that `solvers.dual.spectrum` mentions.
    """
    blocks = as_blocks(problem.factors)
    (root,) = blocks.at(blocks.uniform).roots
    return product(root, root.T)


KINDS: Mapping[str, Callable[[Problem], Factored]] = {
    "own": _own,
    "identity": _identity,
    "upper-triangular": _upper_triangular,
    "lower-triangular": _lower_triangular,
    "paper": _paper,
    "workload": _workload,
    "row-space": _row_space,
    "factor": _geometric_mean_factor,
}
"""For each kind of basis, the function that factorises the workload in it."""


_MARGIN = 0.99
"""The paper's share of the largest scale that meets the targets, at which Algorithm 1 starts."""


class FixedIterate:
    """A covariance with its Cholesky factor and the quantities derived from it.

    Parameters
    ----------
    basis : numpy.ndarray, shape (k, d)
        B.
    queries : Explicit
        ``diag(c)**-0.5 @ L``, shape (m, k).
    covariance : numpy.ndarray, shape (k, k)
        Σ.
    ratios : numpy.ndarray, shape (m,)
        The variance ratios h.

    Attributes
    ----------
    lower : numpy.ndarray, shape (k, k)
        The Cholesky factor R, with Σ = R Rᵀ.
    whitened : numpy.ndarray, shape (k, d)
        ``inv(R) @ B``: its squared column norms are the profile.

    Raises
    ------
    scipy.linalg.LinAlgError
        If the covariance is not positive definite.
    """

    def __init__(self, basis: Array, queries: Explicit, covariance: Array, ratios: Array) -> None:
        self.basis, self.queries, self.covariance, self.ratios = basis, queries, covariance, ratios
        lower = scipy.linalg.cholesky(covariance, lower=True, check_finite=False)
        self.lower = lower
        self.whitened = scipy.linalg.solve_triangular(lower, basis, lower=True, check_finite=False)

    @cached_property
    def profile(self) -> Array:
        """The privacy profile g, shape (d,)."""
        return np.asarray(np.einsum("ij,ij->j", self.whitened, self.whitened))

    def chart(self, p: Array) -> "FixedChart":
        """Return the chart whose coordinates are the entries of Σ."""
        return FixedChart(self, p)


def first_in_basis(problem: Problem, factored: Factored, covariance: Array) -> FixedIterate:
    """Return the covariance to start from, scaled so that all variances are below their targets.

    As in the text of the paper (section 6.3), the scale is 0.99 times the largest scale that meets
    the targets. The paper's formula differs: it compares the targets with the diagonal of the
    covariance instead of the query variances.

    Parameters
    ----------
    covariance : numpy.ndarray, shape (k, k)
        Covariance of the noise on the basis, up to scale.

    Raises
    ------
    scipy.linalg.LinAlgError
        If the covariance is not positive definite.
    """
    at = place(problem, factored, covariance)
    return place(problem, factored, _MARGIN / float(at.ratios.max()) * covariance)


def place(problem: Problem, factored: Factored, covariance: Array) -> FixedIterate:
    """Return the covariance as an iterate, unscaled.

    Raises
    ------
    scipy.linalg.LinAlgError
        If the covariance is not positive definite.
    """
    queries = Explicit(scaled_rows(factored.representation, problem.targets**-0.5))
    ratios = queries.quadratic_forms(covariance)
    return FixedIterate(factored.basis, queries, covariance, ratios)


class FixedChart:
    """The chart whose coordinates are the entries of Σ, as in Algorithm 2.

    It has no damping and no preconditioner.

    Let X = Σ⁻¹ B and M = X diag(p) Xᵀ, and let the rows v_j of V be the scaled queries. With
    soft-max weights p and q, the Hessian of F maps a direction P to
    Σ⁻¹ P M + M P Σ⁻¹ + t1 X diag(p (a - p·a)) Xᵀ + t2 Vᵀ diag(q (b - q·b)) V,
    where a_i = x_iᵀ P x_i and b_j = v_jᵀ P v_j.
    """

    def __init__(self, at: FixedIterate, p: Array) -> None:
        self._at = at
        self._x = scipy.linalg.solve_triangular(
            at.lower, at.whitened, lower=True, trans="T", check_finite=False
        )
        inverse, _ = scipy.linalg.lapack.dpotri(at.lower, lower=True)
        self._precision = whole(inverse)
        half = self._x * np.sqrt(p)
        self._mean = product(half, half.T)

    def curved(self, along: Array) -> Array:
        half = product(product(self._precision, along), self._mean)
        half += half.T
        return half

    def damping(self, gradient: Array) -> Array:
        return np.zeros(())

    def precondition(self, residual: Array, damping: Array) -> Array:
        return residual

    def forms(self, along: Array) -> tuple[Array, Array]:
        of_profile = np.einsum("ij,ij->j", self._x, product(along, self._x))
        return of_profile, self._at.queries.quadratic_forms(along)

    def weighted(self, of_profile: Array, of_ratios: Array) -> Array:
        return self._at.queries.gram(of_ratios) + product(self._x * of_profile, self._x.T)

    def ray(self, along: Array) -> Callable[[float], FixedIterate]:
        at = self._at
        growth = at.queries.quadratic_forms(along)

        def moved(length: float) -> FixedIterate:
            covariance, ratios = at.covariance + length * along, at.ratios + length * growth
            return FixedIterate(at.basis, at.queries, covariance, ratios)

        return moved
