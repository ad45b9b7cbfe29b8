"""The Newton system of the dual on matrix blocks, and how it is solved.

K is the Hessian of -2f with respect to relative changes of the weights. It is a sum over the
blocks. Let Z, X and λ be the singular vectors and values of a block (`Spectrum`), and let F have
the rows of Z followed by those of X. Then the block's term is

    K_ij = ± sum_ab F_ia F_ib T_ab F_ja F_jb,   T_ab = λ_a λ_b / (λ_a + λ_b).

The sign is + if i and j are both columns or both queries, and - otherwise. Since
1/T_ab = 1/λ_a + 1/λ_b, T is the integral of exp(-t/λ_a) exp(-t/λ_b) over t > 0. The trapezoidal
rule in log t approximates this integral with a few nodes to a few per cent. K then becomes a sum of
Hadamard squares of Gram matrices, one for each node, and each takes one matrix product. Factorised
in single precision, this approximation preconditions conjugate gradients so well that a few
products with the exact K suffice.

K is positive semidefinite. So a weight is nearly uncoupled from all others if its entry of K's
diagonal is small compared with its entry of the added diagonal; the preconditioner is then diagonal
at this weight. If there are too many coupled weights for an explicit matrix, the preconditioner is
also diagonal at the coupled weights of least mass. The mass of a weight is the weight times its
entry of the gradient. K_ij is at most the square root of the product of the masses of i and j. The
masses of the column weights sum to the nuclear norm, those of the query weights to at most that.

Symmetric k x k matrices are given by their lower triangle; the upper triangle is not read. The BLAS
functions are called directly, because the overhead of `workloads.operators.blas` would take most of
the time of a small step.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial, reduce

import numpy as np
import scipy
from numpy.typing import NDArray

from workloads.operators import Array, Indices, QueryOperator
from workloads.operators.blas import product, whole

Single = NDArray[np.float32]
Rows = slice | Indices

# The panel below is that of `solvers.dual.predictor_corrector`.
_NODE_SPACING = 2.0
"""Distance of the nodes in log t: their number decides the time of the preconditioner.

The panel takes 451 steps and 535 products with 1, and 506 steps and 809 products with 3.
"""
_FIRST_NODE = 0.5
"""Distance in log t of the first node below half of the smallest singular value.

The panel takes 574 products instead of 567 with 0, and 553 with 2.
"""
_SMALLEST_RELATIVE = 1e-9
"""Least singular value, relative to the largest, that the nodes resolve.

Each factor of ten takes another node. The panel takes 543 products instead of 567 with 1e-12, and
1288 with 1e-6.
"""
_MOST_DECAY = 5.0
"""Decay exp(-5) from which an entry is left out; the panel takes 753 products with exp(-2)."""
_PANEL = 256
"""Rows whose Gram matrix is squared at a time: 256 rows of 1000 numbers are 1 MB of cache."""


@dataclass(frozen=True, eq=False)
class DenseVectors:
    """Singular vectors F as a matrix in single precision, with one row for each weight.

    Attributes
    ----------
    matrix : numpy.ndarray, shape (n, k)
        F.
    """

    matrix: Single

    def gram(self, weights: Array) -> Array:
        """Return the lower triangle of ``F.T @ diag(weights) @ F``, shape (k, k)."""
        k = self.matrix.shape[1]
        total: Single = np.zeros((k, k), np.float32, order="F")
        roots = np.sqrt(np.abs(weights)).astype(np.float32)[:, None]
        for sign, at in ((1.0, weights > 0), (-1.0, weights < 0)):
            if at.any():  # the BLAS rejects empty matrices
                half = (self.matrix[at] * roots[at]).T
                total += scipy.linalg.blas.ssyrk(sign, half, lower=1)
        return total.astype(np.float64)

    def forms(self, symmetric: Array) -> Array:
        """Return ``diag(F @ symmetric @ F.T)``, shape (n,)."""
        lower = symmetric.astype(np.float32)
        lower[np.diag_indices_from(lower)] /= 2
        moved = scipy.linalg.blas.strmm(1.0, lower, self.matrix.T, lower=1, trans_a=1).T
        halves: Single = np.einsum("ij,ij->i", moved, self.matrix)
        return 2 * halves.astype(np.float64)

    def squares(self, weights: Array) -> Array:
        """Return ``F**2 @ weights``, shape (n, r)."""
        return product(np.square(self.matrix), weights.astype(np.float32)).astype(np.float64)

    def rows(self, at: Rows) -> Single:
        """Return the rows of F at the indices ``at``."""
        return self.matrix[at]


@dataclass(frozen=True, eq=False)
class StructuredVectors:
    """Singular vectors ``X = diag(q)^1/2 @ A @ factor``, computed from an operator A.

    Gram matrices and quadratic forms of X are computed without forming X, which is m x k. Only the
    rows of X that enter the explicit preconditioner are formed.

    Attributes
    ----------
    operator : QueryOperator
        A, shape (m, k).
    q : numpy.ndarray, shape (m,)
        Query weights.
    factor : numpy.ndarray, shape (k, k)
        The matrix that turns ``diag(q)^1/2 @ A`` into X.
    """

    operator: QueryOperator
    q: Array
    factor: Array

    def __len__(self) -> int:
        return self.q.size

    def gram(self, weights: Array) -> Array:
        """Return ``X.T @ diag(weights) @ X``, shape (k, k)."""
        inner = self.operator.gram(self.q * weights)
        return product(self.factor.T, product(inner, self.factor))

    def forms(self, symmetric: Array) -> Array:
        """Return ``diag(X @ symmetric @ X.T)``, shape (m,)."""
        inner = product(self.factor, product(whole(symmetric), self.factor.T))
        return self.q * self.operator.quadratic_forms(inner)

    def squares(self, weights: Array) -> Array:
        """Return ``X**2 @ weights``, shape (m, r)."""
        forms = self.operator.quadratic_forms
        turned = [product(self.factor * column, self.factor.T) for column in weights.T]
        return np.stack([self.q * forms(inner) for inner in turned], axis=1)

    def rows(self, at: Rows) -> Array:
        """Return the rows of X at the indices ``at``."""
        numbers = np.arange(self.q.size)[at]
        return np.sqrt(self.q[numbers, None]) * product(self.operator.rows(numbers), self.factor)


class BlockVectors:
    """The term of K that belongs to one block.

    Parameters
    ----------
    singular : numpy.ndarray, shape (k,)
        λ, in ascending order.
    vectors : sequence of numpy.ndarray or StructuredVectors
        Z, one row for each column weight of the block; and X, one row for each query weight of the
        block, if the query weights are free.
    weights : numpy.ndarray of int
        The indices of the block's weights among all free weights, ascending, columns first.
    """

    def __init__(
        self, singular: Array, vectors: Sequence[Array | StructuredVectors], weights: Indices
    ) -> None:
        self.singular, self.weights = singular, weights
        # Z and X, each with the positions of its weights among the block's weights
        places = slice(len(vectors[0])), slice(len(vectors[0]), None)
        self._parts = [
            (v if isinstance(v, StructuredVectors) else DenseVectors(v.astype(np.float32)), place)
            for v, place in zip(vectors, places, strict=False)
        ]
        inverse = 1 / singular
        self._kernel = (1 / np.add.outer(inverse, inverse)).T  # T, in the order of the Gram matrix
        self._damping = _damping(singular)

    def product(self, z: Array) -> Array:
        """Return the product of this block's K with z; the caller applies the signs."""
        # In double precision, since the parts of the columns and of the queries nearly cancel.
        change = reduce(np.add, [part.gram(z[at]) for part, at in self._parts])
        change *= self._kernel
        return np.concatenate([part.forms(change) for part, _ in self._parts])

    def bend(self, z: Array) -> Array:
        """Compute the block's share in `PreconditionedSystem.bend`; the caller applies the signs.

        Let P = Zᵀ diag(z) Z, let Q be the same product for X and the query weights, and let
        M_ab = (P - Q)_ab λ_b / (λ_a + λ_b). The second-order term of the matrix geometric mean Σ
        then gives two sets of quadratic forms: those of T ∘ (M P + P Mᵀ - M Mᵀ) on the rows of Z,
        and those of T ∘ (M Q + Q Mᵀ + M Mᵀ) on the rows of X.
        """
        # P and -Q, which add up to P - Q
        grams = [whole(part.gram(z[at])) for part, at in self._parts]
        moved = reduce(np.add, grams) * self._kernel
        moved /= self.singular[:, None]
        bends = []
        for (part, _), gram, sign in zip(self._parts, grams, (1.0, -1.0), strict=False):
            other = (sign * gram - sign / 2 * moved).T
            # dsyr2k is the lower triangle of A Bᵀ + B Aᵀ
            both = scipy.linalg.blas.dsyr2k(1.0, moved.T, other, trans=1, lower=1)
            bends.append(part.forms(both * self._kernel))
        return np.concatenate(bends)

    def diagonal(self) -> Array:
        """Return the approximate diagonal of this block's K."""
        squares = [part.squares(self._damping.T) for part, _ in self._parts]
        return np.asarray(np.square(np.concatenate(squares)).sum(axis=1))

    def add_explicit(self, total: Single, place: Indices) -> None:
        """Add the lower triangle of this block's approximate K to ``total``; the caller signs it.

        For each weight, ``place`` has its index in ``total``, ascending, or -1 if it is left out.
        """
        at = place[self.weights]
        parts = [part.rows(np.flatnonzero(at[here] >= 0)) for part, here in self._parts]
        rows, at = np.concatenate(parts, dtype=np.float32), at[at >= 0]
        if at.size == len(total):
            _add_squared_grams(total, rows, self._damping)
        else:
            squares = np.zeros((at.size, at.size), np.float32, order="F")
            _add_squared_grams(squares, rows, self._damping)
            total[np.ix_(at, at)] += squares


def _damping(singular: Array) -> Array:
    """Rows w, shape (nodes, k), whose outer products sum to T within a few per cent.

    There is a row for each node of the trapezoidal rule; the first row also accounts for the
    integral below its node. The first entries of a row are set to zero if they have decayed almost
    to zero. Otherwise they would be denormal numbers in single precision, which make products fifty
    times slower on common processors.
    """
    inverse = 1 / np.maximum(singular, _SMALLEST_RELATIVE * singular[-1])
    first, last = -np.log(2 * inverse[[0, -1]]) + (-_FIRST_NODE, 1.6 + _NODE_SPACING)
    nodes = np.arange(first, last, _NODE_SPACING)
    decays = np.multiply.outer(np.exp(nodes), inverse)
    damped = np.where(decays < _MOST_DECAY, np.exp(-decays), 0.0)
    lengths = _NODE_SPACING * np.exp(nodes)
    lengths[0] /= -np.expm1(-_NODE_SPACING)
    return np.asarray(np.sqrt(lengths)[:, None] * damped)


def _add_squared_grams(total: Single, rows: Single, damping: Array) -> None:
    """Add to ``total``, for every node, the entrywise square of ``rows @ diag(w) @ rows.T``.

    Each row w of ``damping`` belongs to a node. Only the lower triangle of ``total`` is valid. The
    product is computed in panels of rows that are still in the cache when they are squared.
    """
    nodes = []
    for weights in damping.astype(np.float32):
        decayed = int(np.count_nonzero(weights == 0))
        # leaving out a few columns would save less time than the copy takes
        first = decayed if 8 * decayed > weights.size else 0
        nodes.append((np.ascontiguousarray(rows[:, first:]), weights[first:]))
    for start in range(0, len(rows), _PANEL):
        squares = total.T[start : start + _PANEL, start:]
        for active, weights in nodes:
            panel = (active[start : start + _PANEL] * weights).T
            gram = scipy.linalg.blas.sgemm(1.0, active[start:].T, panel, trans_a=1).T
            gram *= gram
            squares += gram


LARGEST_EXPLICIT = 20_000
"""Most weights in the explicit preconditioner: in single precision, its matrix takes 1.6 GB."""
_NEGLIGIBLE_COUPLINGS = 0.02
"""Limit on the total coupling of the weights that are treated as uncoupled.

The coupling of a weight is its entry of K's diagonal divided by its entry of the added diagonal.
The couplings of the weights that are treated as uncoupled sum to less than this limit. For random
ranges, a seventh of the weights are then treated as uncoupled, without additional products with K;
a limit of 3 would double the number of products.
"""
_WHOLE_PER_RANK = 5
_PART_PER_RANK = 2
_PART_AT_LEAST = 500
"""Limits on the number of coupled weights that enter the explicit preconditioner.

All coupled weights enter if their number is at most `_WHOLE_PER_RANK` times the rank. Otherwise the
number that enters is `_PART_PER_RANK` times the rank, but at least `_PART_AT_LEAST`. A step takes
two or three products with K if all coupled weights enter, and ten to twenty otherwise. An explicit
matrix with five times as many rows as the rank takes as long to compute and factorise as twenty
products.
"""
_RIDGE = 1e-7
"""Share of its mass that is added to each diagonal entry of the preconditioner.

It is about the rounding error of single precision. The panel takes 571 products instead of 567 with
1e-9, and 584 with 1e-5.
"""
_MOST_PRODUCTS = 80
"""Most products for one step, twice what steps take whose preconditioner lacks couplings.

It ends steps at gaps near 1e-12, where rounding keeps the residual above its goal. To a gap of
1e-6, the panel takes the same products with 20 and with 400.
"""


class ConstrainedSystem:
    """The KKT system ``H z + constraints @ nu = b``, ``constraints.T @ z = r``, solved exactly.

    Parameters
    ----------
    inverse : callable
        Maps b, of shape (n,) or (n, number of columns), to ``inv(H) @ b``.
    constraints : numpy.ndarray, shape (n, number of groups)
        The constraints, whose columns are orthogonal to each other.

    Attributes
    ----------
    products : int
        Number of products with H so far; 0, because the inverse of H is exact.
    """

    products = 0

    def __init__(self, inverse: Callable[[Array], Array], constraints: Array) -> None:
        self._inverse = inverse
        self._constraints = constraints
        self._solved = np.asfortranarray(inverse(constraints))
        schur = scipy.linalg.blas.dgemm(1.0, constraints, self._solved, trans_a=1)
        self._inverse_schur = np.linalg.pinv(schur)

    def approximate(self, b: Array, r: Array) -> tuple[Array, Array]:
        """Solve for (z, nu) with one application of the inverse of H.

        The solution is exact if the inverse is exact.
        """
        solved = self._inverse(b)
        dgemm = scipy.linalg.blas.dgemm
        excess = dgemm(1.0, solved[:, None], self._constraints.T, trans_a=1, trans_b=1)[0] - r
        nu = self._inverse_schur @ excess
        return solved - dgemm(1.0, self._solved, nu[:, None])[:, 0], nu

    def solve(self, b: Array, r: Array, reduction: float) -> tuple[Array, Array]:
        """Solve for (z, nu) as `approximate` does, because the inverse of H is exact."""
        return self.approximate(b, r)


class PreconditionedSystem(ConstrainedSystem):
    """The system ``(K + diag(diagonal)) z + constraints @ nu = b``, ``constraints.T @ z = r``.

    Parameters
    ----------
    blocks : sequence of BlockVectors
        The blocks whose Hessians sum to K.
    signs : numpy.ndarray, shape (n,)
        1 for each column weight; for each query weight, minus its free share.
    mass : numpy.ndarray, shape (n,)
        Each weight times its entry of the gradient.
    diagonal : numpy.ndarray, shape (n,)
        The added diagonal, positive.
    constraints : numpy.ndarray, shape (n, number of groups)
        The constraints, whose columns are orthogonal to each other.

    Attributes
    ----------
    products : int
        Number of products with K so far.
    bends : bool
        Whether the preconditioner includes all couplings that are not negligible. Only then is the
        z of `approximate` accurate enough for `bend` to be computed along it.
    """

    def __init__(
        self,
        blocks: Sequence[BlockVectors],
        signs: Array,
        mass: Array,
        diagonal: Array,
        constraints: Array,
    ) -> None:
        self._blocks = blocks
        self._signs = signs
        self._diagonal = diagonal
        # 1. The diagonal of K, O((d + m) k) for each node
        curvature = np.zeros_like(diagonal)
        for block in blocks:
            curvature[block.weights] += block.diagonal()
        self._entries = diagonal + curvature * np.square(signs)
        # 2. Uncoupled weights: those of smallest coupling, while the couplings' sum is negligible
        beside = self._entries / diagonal - 1
        order = np.argsort(beside)
        light = int(np.searchsorted(np.cumsum(beside[order]), _NEGLIGIBLE_COUPLINGS))
        coupled = mass.size - light
        count = explicit_count(coupled, sum(block.singular.size for block in blocks))
        self.bends = coupled <= count
        # 3. The explicit part has all coupled weights, or those of largest mass: O(count² k) for
        # each node, and O(count³) for the Cholesky factor
        chosen = order[light:] if self.bends else np.argpartition(-mass, count)[:count]
        heavy = np.sort(chosen)
        factor = self._explicit_factor(heavy, mass)
        super().__init__(partial(_precondition, self._entries, heavy, factor), constraints)

    def solve(self, b: Array, r: Array, reduction: float) -> tuple[Array, Array]:
        """Solve for (z, nu) by conjugate gradients in the null space of the constraints.

        The part of b in the span of the constraints is removed first, because its rounding errors
        would destroy the rest of b. If ``bends`` is true, and it would suffice to reduce the
        residual once more by the same factor as before, the last correction is added without
        checking the residual by another product with K.

        Parameters
        ----------
        b : numpy.ndarray, shape (n,)
            Right side.
        r : numpy.ndarray, shape (number of groups,)
            The values that ``constraints.T @ z`` must have.
        reduction : float
            The residual at which to stop, relative to b and in the norm of the system.

        Returns
        -------
        tuple of numpy.ndarray
            The pair (z, nu).
        """
        # 1. Remove the part of b in the span of the constraints. The matrix ``absorbed`` maps b to
        # the nu that solves ``constraints @ nu = b`` by least squares.
        absorbed = (self._constraints / np.square(self._constraints).sum(axis=0)).T
        multipliers = absorbed @ b
        left = b - self._constraints @ multipliers
        # 2. Start at the preconditioner's solution. It meets the constraints, and so do all later
        # z, because every correction has ``constraints.T @ z = 0``.
        z, start = self.approximate(left, r)
        pulled = left - self._constraints @ start
        residual = pulled - self.times(z)
        none = np.zeros_like(r)
        correction, own = self.approximate(residual, none)
        # 3. Conjugate gradients: the energy is residual · correction, the squared norm of the
        # residual in the preconditioner. A step costs one product with K, O((d + m) k²), and one
        # solve with the Cholesky factor.
        before, energy = abs(float(z @ pulled)), float(residual @ correction)
        enough, direction = reduction**2 * before, correction
        while energy > enough and self.products < _MOST_PRODUCTS:
            if self.bends and energy**2 <= enough * before:  # the same reduction once more
                return z + correction, multipliers + start + own
            image = self.times(direction)
            length = energy / float(direction @ image)
            z = z + length * direction
            residual = residual - length * image
            correction, own = self.approximate(residual, none)
            before, energy = energy, float(residual @ correction)
            direction = correction + (energy / before) * direction
        return z, multipliers + start + absorbed @ residual

    def times(self, z: Array) -> Array:
        """Return ``(K + diag(diagonal)) z``, with the exact K."""
        self.products += 1
        return self._total(BlockVectors.product, z) + self._diagonal * z

    def _total(self, of_block: Callable[[BlockVectors, Array], Array], z: Array) -> Array:
        """Sum a function over all blocks, with the signs applied to z and to the sum."""
        signed, total = self._signs * z, np.zeros_like(z)
        for block in self._blocks:
            total[block.weights] += of_block(block, signed[block.weights])
        return self._signs * total

    def bend(self, z: Array, negligible: float) -> Array:
        """Return the second-order change of the gradient along z, times the weights.

        The entries of z are relative changes of the weights. The result has shape (n,). The sum of
        its entries is estimated by zᵀ D z, where D is the diagonal of K; if this estimate is below
        ``negligible``, the result is zero.
        """
        if np.square(z) @ (self._entries - self._diagonal) < negligible:
            return np.zeros_like(z)
        return self._total(BlockVectors.bend, z)

    def _explicit_factor(self, heavy: Indices, mass: Array) -> tuple[Single, bool] | None:
        """Return the Cholesky factor of the approximate system matrix at the weights ``heavy``.

        None if the matrix overflows, or is not positive definite.
        """
        signs, place = self._signs[heavy].astype(np.float32), np.full(self._signs.size, -1)
        place[heavy] = np.arange(heavy.size)
        explicit = np.zeros((heavy.size, heavy.size), np.float32, order="F")
        with np.errstate(over="ignore", invalid="ignore"):
            for block in self._blocks:
                block.add_explicit(explicit, place)
            explicit *= signs
            explicit *= signs[:, None]
            added = (self._diagonal + _RIDGE * mass)[heavy]
            explicit[np.diag_indices_from(explicit)] += added.astype(np.float32)
        with suppress(scipy.linalg.LinAlgError, ValueError):  # ValueError: not finite
            return scipy.linalg.cho_factor(explicit, lower=True, overwrite_a=True)
        return None


def _precondition(
    entries: Array, heavy: Indices, factor: tuple[Single, bool] | None, b: Array
) -> Array:
    """Precondition b: apply ``factor`` at the weights ``heavy`` and the diagonal elsewhere."""
    solved = (b.T / entries).T
    if factor is not None:
        single = b[heavy].astype(np.float32)
        solved[heavy] = scipy.linalg.cho_solve(factor, single, check_finite=False)
    return solved


def explicit_count(weights: int, rank: int) -> int:
    """Return the number of coupled weights that enter the explicit preconditioner."""
    if weights <= min(_WHOLE_PER_RANK * rank, LARGEST_EXPLICIT):
        return weights
    return min(weights, max(_PART_PER_RANK * rank, _PART_AT_LEAST), LARGEST_EXPLICIT)
