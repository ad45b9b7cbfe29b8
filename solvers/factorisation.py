"""A Gaussian mechanism as a factorisation W = L B: unit noise on Bx, answers by L.

The field's factorization mechanism: the answers to W are ``L (B x + z)`` with z standard
normal. Δ² is the largest squared column norm of B, the variances are the squared row norms
of L, and whatever else there is to say follows from L B = W, which is checked before a
factorisation is handed out.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp

from solvers.budget import GaussianBudget
from solvers.errors import SolveFailedError
from solvers.factors import structure_pays
from solvers.problem import Problem
from workloads.operators import Array, Explicit, Indices, Matrix, QueryOperator, Scaled
from workloads.operators.blas import product

LARGEST_RESIDUAL = 1e-12
"""Of L B = W, in units of the noise: see `residual`."""

_REFINED = LARGEST_RESIDUAL / 10
_BLOCK_ENTRIES = 2**22
_SAMPLED_QUERIES = 128
_AGREEMENT = 1e-10


class Decoder(Protocol):
    """L: what turns the noisy answers to the strategy into answers to the queries."""

    @property
    def shape(self) -> tuple[int, int]:
        """(m, k)."""
        ...

    def apply(self, x: Array) -> Array:
        """``L @ x`` for x of shape (k,) or (k, n)."""
        ...

    def squared_row_norms(self) -> Array:
        """Shape (m,)."""
        ...

    def matrix(self) -> Matrix:
        """L itself, dense or CSR."""
        ...


@dataclass(frozen=True, eq=False)
class Composed:
    """``L = W @ inverse`` that keeps the structure of W.

    Attributes
    ----------
    operator : QueryOperator
        W, shape (m, d).
    inverse : numpy.ndarray, shape (d, k)
        The right inverse of the strategy.
    """

    operator: QueryOperator
    inverse: Array

    @property
    def shape(self) -> tuple[int, int]:
        """(m, k)."""
        return self.operator.shape[0], self.inverse.shape[1]

    def apply(self, x: Array) -> Array:
        """``L @ x``."""
        return self.operator.apply(self.inverse @ x)

    def squared_row_norms(self) -> Array:
        """By the quadratic forms of W."""
        return self.operator.quadratic_forms(product(self.inverse, self.inverse.T))

    def rows(self, at: Indices) -> Array:
        """The rows with these numbers."""
        return product(self.operator.rows(at), self.inverse)

    def matrix(self) -> Matrix:
        """L, dense."""
        return self.operator.apply(self.inverse)


@dataclass(frozen=True, eq=False)
class InBasis:
    """A factorisation read in another basis: `solvers.release.Coordinates`.

    Attributes
    ----------
    rows : QueryOperator
        The basis, shape (b, d).
    queries : QueryOperator
        The workload in it, shape (m, b).
    root : numpy.ndarray, shape (b, k), or float
        ``root @ strategy`` is the basis; a number stands for that multiple of the identity.
    """

    rows: QueryOperator
    queries: QueryOperator
    root: Array | float

    @cached_property
    def basis(self) -> Array:
        """Dense, shape (b, d)."""
        return _dense(self.rows.matrix())

    @cached_property
    def representation(self) -> Matrix:
        """Dense or CSR, shape (m, b)."""
        return self.queries.matrix()

    @cached_property
    def covariance(self) -> Array:
        """``root @ root.T``; a read-only view of O(b) memory where the root is a number."""
        if isinstance(self.root, float):
            return scaled_identity(self.rows.shape[0], self.root**2)
        return product(self.root, self.root.T)


@dataclass(frozen=True, eq=False)
class Factorisation:
    """W = L B with independent standard normal noise on Bx: a `solvers.release.Release`.

    Attributes
    ----------
    decoder : Decoder
        L, shape (m, k).
    strategy : QueryOperator
        B, shape (k, d).
    coordinates : InBasis
        The same noise on the queries of the mechanism's own basis.
    """

    decoder: Decoder
    strategy: QueryOperator
    coordinates: InBasis

    gaussian = True

    @property
    def left(self) -> Matrix:
        """L, dense or CSR, shape (m, k)."""
        return self.decoder.matrix()

    @property
    def right(self) -> Matrix:
        """B, dense or CSR, shape (k, d)."""
        return self.strategy.matrix()

    @cached_property
    def query_variances(self) -> Array:
        """The squared row norms of L, shape (m,)."""
        return self.decoder.squared_row_norms()

    @cached_property
    def privacy_profile(self) -> Array:
        """The squared column norms of B, shape (d,)."""
        return self.strategy.squared_column_norms()

    @property
    def squared_privacy_cost(self) -> float:
        """The largest entry of the privacy profile."""
        return float(self.privacy_profile.max())

    @property
    def total_variance(self) -> float:
        """Sum of the query variances."""
        return float(self.query_variances.sum())

    @property
    def fisher_information(self) -> float:
        """Trace of the Fisher information BᵀB about x, whose diagonal is the profile."""
        return float(self.privacy_profile.sum())

    @property
    def curve(self) -> GaussianBudget:
        """By the privacy cost alone."""
        return GaussianBudget(self.squared_privacy_cost)

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """Draw n vectors of errors L z, shape (n, m)."""
        return self.decoder.apply(rng.standard_normal((n, self.decoder.shape[1])).T).T

    def record(self) -> dict[str, Any]:
        """Privacy cost, total variance and Fisher information."""
        return {
            "squared_privacy_cost": self.squared_privacy_cost,
            "total_variance": self.total_variance,
            "fisher_information": self.fisher_information,
        }

    def arrays(self) -> dict[str, Array]:
        """Variances, profile and covariance."""
        return {
            "query_variances": self.query_variances,
            "privacy_profile": self.privacy_profile,
            "covariance": self.coordinates.covariance,
        }


def from_right_inverse(
    method: str,
    problem: Problem,
    right: Array,
    inverse: Array,
    basis: QueryOperator,
    queries: QueryOperator,
) -> Factorisation:
    """A factorisation from B and its right inverse: L is W times the inverse.

    A workload that is held has L held, corrected once by what L B leaves of W if that is not
    at the rounding error yet; a structured one keeps its structure.

    Parameters
    ----------
    method : str
        The mechanism's name, for messages.
    problem : Problem
        The workload, its rows in the row space of B, and the targets.
    right : numpy.ndarray, shape (k, d)
        B, up to scale.
    inverse : numpy.ndarray, shape (d, k)
        With ``right @ inverse`` the identity.
    basis, queries : QueryOperator
        The mechanism's own basis, and W in it.

    Returns
    -------
    Factorisation

    Raises
    ------
    SolveFailedError
        If L B is not W to `LARGEST_RESIDUAL`, or the variances are not positive numbers.
    """
    if len(right) == right.shape[1] and structure_pays(problem.workload.operator):
        kept = _structured(method, problem, right, inverse, basis, queries)
        if kept is not None:
            return kept
    matrix = problem.workload.matrix
    left = np.asarray(_times(matrix, inverse))
    left, right = _checked(method, matrix, left, right, lambda: inverse)
    root = np.asarray(_times(basis.matrix(), inverse))
    return _scaled(method, problem, left, right, InBasis(basis, queries, root))


def from_root(
    method: str, problem: Problem, basis: Array, queries: QueryOperator, root: Array
) -> Factorisation:
    """A factorisation from a square root of the covariance of noise on a basis, up to scale.

    Parameters
    ----------
    method : str
        The mechanism's name, for messages.
    problem : Problem
        The workload and the targets.
    basis : numpy.ndarray, shape (k, d)
        B'.
    queries : QueryOperator
        W in it, shape (m, k).
    root : numpy.ndarray, shape (k, k)
        Regular. The strategy is its inverse times the basis.

    Returns
    -------
    Factorisation

    Raises
    ------
    SolveFailedError
        If L B is not W to `LARGEST_RESIDUAL`, or the variances are not positive numbers.
    """
    right = _solved(root, basis)
    if _is_identity(basis):
        return from_right_inverse(method, problem, right, root, identity(len(basis)), queries)
    matrix = problem.workload.matrix
    left = np.asarray(_times(queries.matrix(), root))
    left, right = _checked(method, matrix, left, right, lambda: _right_inverse(right))
    return _scaled(method, problem, left, right, InBasis(Explicit(basis), queries, root))


def _right_inverse(right: Array) -> Array:
    return np.asarray(np.linalg.pinv(right), dtype=np.float64)


def _checked(
    method: str, matrix: Matrix, left: Array, right: Array, inverse: Callable[[], Array]
) -> tuple[Array, Array]:
    """The factors, corrected by what they leave of W until that is rounding error.

    First L; then B, where its rows span those of W up to rounding only, W being of rank below d.

    Raises
    ------
    SolveFailedError
        If L B is still not W to `LARGEST_RESIDUAL`.
    """
    missing = residual(matrix, left, right)
    if _REFINED < missing < np.inf:
        left = left + product(_dense(matrix) - product(left, right), inverse())
        missing = residual(matrix, left, right)
    if _REFINED < missing < np.inf:
        right = right + _least_squares(left, _dense(matrix) - product(left, right))
        missing = residual(matrix, left, right)
    if not missing <= LARGEST_RESIDUAL:
        raise SolveFailedError(
            f"{method}: its two factors leave {missing:.1e} of the workload, in units of the "
            f"noise; expected at most {LARGEST_RESIDUAL:.0e}: too ill-conditioned for double "
            "precision (bring the targets closer together; or queries or cells of W are equal "
            "but for rounding: make them equal)"
        )
    return left, right


def _least_squares(left: Array, missing: Array) -> Array:
    """``L⁺ @ missing``, every query in units of its noise."""
    norms = np.sqrt(Explicit(left).squared_row_norms())
    seen = norms > 0
    units = norms[seen, None]
    found: Array = sla.lstsq(left[seen] / units, missing[seen] / units, check_finite=False)[0]
    return found


def _scaled(
    method: str, problem: Problem, left: Array, right: Array, coordinates: InBasis
) -> Factorisation:
    """The factorisation whose targets are just met."""
    scale = scale_of(method, Explicit(left).squared_row_norms(), problem.targets)
    own = InBasis(coordinates.rows, coordinates.queries, coordinates.root / scale)
    return Factorisation(Explicit(left / scale), Explicit(right * scale), own)


def _solved(root: Array, basis: Array) -> Array:
    """``inv(root) @ basis``; by substitution where the root is a lower triangle."""
    if np.any(np.triu(root, 1)):
        return np.asarray(sla.solve(root, basis, check_finite=False))
    return np.asarray(sla.solve_triangular(root, basis, lower=True, check_finite=False))


def _is_identity(basis: Array) -> bool:
    k, d = basis.shape
    return k == d and np.array_equal(basis, np.eye(d))


def _structured(
    method: str,
    problem: Problem,
    right: Array,
    inverse: Array,
    basis: QueryOperator,
    queries: QueryOperator,
) -> Factorisation | None:
    """With L known by the structure of W; None where that is not accurate.

    L B - W is ``L (B inverse - I) B``, so ``B inverse - I`` bounds it in units of the noise.
    """
    off = product(right, inverse) - np.eye(len(right))
    if not np.linalg.norm(off) <= _REFINED:
        inverse = inverse - product(inverse, off)
        off = product(right, inverse) - np.eye(len(right))
    decoder = Composed(problem.workload.operator, inverse)
    variances = decoder.squared_row_norms()
    accurate = np.linalg.norm(off) <= LARGEST_RESIDUAL and _agree(decoder, variances, problem)
    if not accurate:
        return None
    scale = scale_of(method, variances, problem.targets)
    scaled = inverse / scale
    return Factorisation(
        Composed(problem.workload.operator, scaled),
        Explicit(right * scale),
        InBasis(basis, queries, np.asarray(_times(basis.matrix(), scaled))),
    )


def _agree(decoder: Composed, variances: Array, problem: Problem) -> bool:
    """Whether variances by structure are the row norms, of the tightest and of some queries."""
    count = min(_SAMPLED_QUERIES, len(variances))
    tightest = np.argpartition(variances / problem.targets, -count)[-count:]
    spread = np.linspace(0, len(variances) - 1, count).astype(np.intp)
    at = np.union1d(tightest, spread)
    expected = Explicit(decoder.rows(at)).squared_row_norms()
    return bool(np.all(np.abs(variances[at] - expected) <= _AGREEMENT * expected))


def with_cells_scaled(noise: Factorisation, factors: Array) -> Factorisation:
    """The factorisation of W with every column multiplied by a number, L unchanged."""
    own = noise.coordinates
    return Factorisation(
        noise.decoder,
        Explicit(_dense(noise.right) * factors),
        InBasis(Explicit(own.basis * factors), own.queries, own.root),
    )


def residual(workload: Matrix, left: Matrix, right: Matrix) -> float:
    """How far L B is from W, in units of the noise.

    The largest ``|W - L B|_ji`` over ``|L_j| |B_i|``: that product is the standard deviation of
    query j times the privacy cost of cell i, an upper bound on ``|W_ji|``, and about the rounding
    error of the product ``L B`` over the machine epsilon. Neither the scale of a query nor that
    of a cell changes it.
    """
    rows = np.sqrt(Explicit(left).squared_row_norms())
    columns = np.sqrt(Explicit(right).squared_column_norms())
    worst = 0.0
    for block in _blocks(workload.shape):
        missing = np.abs(_dense(workload[block]) - _dense(_times(left[block], right)))
        largest = _over(missing, columns).max(axis=1)
        worst = float(np.maximum(worst, _over(largest, rows[block]).max()))
    return worst


def scale_of(method: str, variances: Array, targets: Array) -> float:
    """What divides L so that the targets are just met.

    Raises
    ------
    SolveFailedError
        If no variance is positive, or one is not finite.
    """
    ratio: float = float(np.max(variances / targets))
    if not (np.isfinite(ratio) and ratio > 0):
        raise SolveFailedError(
            f"{method}: the largest variance ratio is {ratio}; expected a positive number"
        )
    return float(np.sqrt(ratio))


def scaled_identity(size: int, value: float) -> Array:
    """``value * I`` as a read-only view of a vector of 2 size - 1 numbers."""
    centred = np.zeros(2 * size - 1)
    centred[size - 1] = value
    return np.lib.stride_tricks.sliding_window_view(centred, size)[::-1]


def identity(size: int) -> Explicit:
    """The identity as an operator of O(size) memory."""
    return Explicit(sp.eye_array(size, format="csr"))


def multiplied(operator: QueryOperator, factor: float) -> Scaled:
    """All queries of an operator multiplied by one number."""
    return Scaled(operator, np.full(operator.shape[0], factor))


def _over(values: Array, units: Array) -> Array:
    """``values / units``, where 0 / 0 is 0."""
    nothing = np.where(values > 0, np.inf, 0.0)
    return np.divide(values, units, out=nothing, where=units > 0)


def _blocks(shape: tuple[int, int]) -> Iterator[slice]:
    size = max(_BLOCK_ENTRIES // shape[1], 1)
    return (slice(start, start + size) for start in range(0, shape[0], size))


def _times(left: Matrix, right: Matrix) -> Matrix:
    if sp.issparse(left) or sp.issparse(right):
        found = left @ right
        return sp.csr_array(found) if sp.issparse(found) else np.asarray(found)
    return product(left, right)


def _dense(matrix: Matrix) -> Array:
    return matrix.toarray() if sp.issparse(matrix) else matrix
