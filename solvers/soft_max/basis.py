"""Bases of the query space: W = L B with linearly independent rows of B.

Theorem 2 of arXiv v1: every basis represents the same mechanisms, so the choice is one
of convenience. It decides how fast an optimiser over Σ converges and how sparse L is.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp

from solvers.dual.spectrum import spectrum
from solvers.errors import OptionError
from solvers.problem import Problem
from workloads.operators import Array, Matrix, dense
from workloads.operators.matrices import entry_count

_SPARSE_BELOW = 0.1
_SPARSE_FROM = 2**15
_RANK_TOLERANCE = 1e-10


class Factored(NamedTuple):
    """W = representation @ basis.

    Attributes
    ----------
    basis : numpy.ndarray, shape (k, d)
        B.
    representation : numpy.ndarray or scipy.sparse.csr_array, shape (m, k)
        L; sparse where that saves work.
    """

    basis: Array
    representation: Matrix
    kind: str


def factor(problem: Problem, kind: str) -> Factored:
    """The workload in a basis of the requested kind.

    Parameters
    ----------
    kind : str
        - ``"identity"``: B = I, L = W;
        - ``"upper-triangular"``: B = U, ones on and above the diagonal (PVLDB 14(10),
          section 7), so that L of a range query has two entries;
        - ``"lower-triangular"``: its transpose, the same for the cells in reverse order;
        - ``"paper"``: a triangular one where its L has fewer entries than W and few in a row
          (at most d/8, or 2), else the identity. Section 7 has U for prefixes (an upper
          triangular W there), ranges, ages and PL-94, and I for random queries; on PL-94,
          where L has no fewer entries in U, I ends at the same cost in a tenth of the time;
        - ``"own"``: the basis of the problem's own factorisation, I where W has rank d;
        - ``"workload"``: k linearly independent queries;
        - ``"row-space"``: orthonormal rows;
        - ``"factor"``: the basis in which the covariance at equal dual weights is I.

        Where W has rank k < d a basis of d rows would leave directions that no query sees:
        they would get ever more noise, and Problem 1 has no minimiser. The first three are
        reduced then: L keeps k independent columns, and B takes what the others add.

    Raises
    ------
    OptionError
        If there is no basis of that kind.
    """
    if kind not in KINDS:
        raise OptionError(f"there is no basis {kind!r}; expected one of {', '.join(KINDS)}")
    factored = KINDS[kind](problem)
    if problem.factors.rank < len(factored.basis):
        factored = _reduced(factored, problem.factors.rank)
    return factored._replace(representation=_sparse_if_worth(factored.representation))


def _reduced(factored: Factored, rank: int) -> Factored:
    """As many rows as the rank, by an interpolative decomposition of L."""
    left = dense(factored.representation)
    triangle, order = sla.qr(_unit_rows(left)[0], mode="r", pivoting=True)
    kept, others = order[:rank], order[rank:]
    weights = sla.solve_triangular(triangle[:rank, :rank], triangle[:rank, rank:])
    basis = factored.basis[kept] + weights @ factored.basis[others]
    return Factored(basis, left[:, kept], factored.kind)


def _own(problem: Problem) -> Factored:
    return Factored(problem.basis, problem.representation, "own")


def _identity(problem: Problem) -> Factored:
    return Factored(np.eye(problem.workload.d), problem.workload.matrix, "identity")


def _upper_triangular(problem: Problem) -> Factored:
    """L = W inv(U): every column less the one before it."""
    differences: Array = np.diff(problem.workload.dense, axis=1, prepend=0.0)
    return Factored(np.tri(problem.workload.d).T, differences, "upper-triangular")


def _lower_triangular(problem: Problem) -> Factored:
    """L = W inv(Uᵀ): every column less the one after it."""
    differences: Array = -np.diff(problem.workload.dense, axis=1, append=0.0)
    return Factored(np.tri(problem.workload.d), differences, "lower-triangular")


def _paper(problem: Problem) -> Factored:
    candidates = _upper_triangular(problem), _lower_triangular(problem)
    shortest = min(candidates, key=lambda candidate: entry_count(candidate.representation))
    m, d = problem.workload.shape
    few = entry_count(shortest.representation) <= max(2, d / 8) * m
    sparser = entry_count(shortest.representation) < entry_count(problem.scaled)
    return shortest if few and sparser else _identity(problem)


def _workload(problem: Problem) -> Factored:
    """The queries that a QR decomposition with column pivoting takes first."""
    matrix = problem.workload.dense
    unit, norms = _unit_rows(matrix)
    triangle, order = sla.qr(unit.T, mode="r", pivoting=True)
    pivots = np.abs(np.diag(triangle))
    rank = int(np.sum(pivots > _RANK_TOLERANCE * pivots[0]))
    chosen = np.sort(order[:rank])
    shares = sla.lstsq(unit[chosen].T, unit.T)[0].T
    shares[np.abs(shares) < _RANK_TOLERANCE * np.abs(shares).max()] = 0.0
    return Factored(matrix[chosen], shares * (norms[:, None] / norms[chosen]), "workload")


def _unit_rows(matrix: Array) -> tuple[Array, Array]:
    """Rows of norm 1, or zero; and the norms."""
    norms = np.linalg.norm(matrix, axis=1)
    return matrix / np.where(norms > 0, norms, 1.0)[:, None], norms


def _row_space(problem: Problem) -> Factored:
    """The orthonormal factor of the basis in the problem's own factorisation."""
    own = problem.factors.basis
    if own is None:
        return _identity(problem)._replace(kind="row-space")
    orthonormal, upper = np.linalg.qr(own.T)
    return Factored(orthonormal.T, problem.representation @ upper.T, "row-space")


def _geometric_mean_factor(problem: Problem) -> Factored:
    lower = sla.cholesky(equal_weights_covariance(problem), lower=True)
    basis = sla.solve_triangular(lower, problem.basis, lower=True)
    return Factored(basis, problem.representation @ lower, "factor")


def equal_weights_covariance(problem: Problem) -> Array:
    """Σ at equal dual weights in the problem's own basis, shape (k, k).

    The matrix geometric mean of docs/optimal.md, "The inner solution".
    """
    m, d = problem.workload.shape
    return spectrum(problem.factors, np.full(d, 1 / d), np.full(m, 1 / m)).covariance()


def _sparse_if_worth(matrix: Matrix) -> Matrix:
    m, k = matrix.shape
    if m * k >= _SPARSE_FROM and entry_count(matrix) < _SPARSE_BELOW * m * k:
        return sp.csr_array(matrix)
    return dense(matrix)


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
"""Every kind of basis by name."""
