"""The Newton system of the dual on matrix blocks, and how it is solved.

With respect to relative changes of the weights, the Hessian of -2f is a sum K over the blocks: with
Z, X, λ from a block's spectrum and F = [Z; X],

    K_ij = ± sum_ab F_ia F_ib T_ab F_ja F_jb,   T_ab = λ_a λ_b / (λ_a + λ_b)

(+ within columns or within queries, - across). Since 1/T_ab = 1/λ_a + 1/λ_b, T is the
integral of exp(-t/λ_a) exp(-t/λ_b) over t > 0: a few nodes of the trapezoidal rule in
log t make K a sum of Hadamard squares of Gram matrices, accurate to a few per cent, at
the cost of one matrix product each. Factorised in single precision, this approximation
preconditions conjugate gradients so well that one or two products with the exact K suffice.

K is positive semidefinite, so weights whose entries on its diagonal are small compared with the
added diagonal are nearly uncoupled and preconditioned by the diagonal alone. If the others are too
many for an explicit matrix, those of least mass are treated in the same way: K_ij is at most the
product of the root masses of i and j, and the masses sum to the nuclear norm.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
import scipy

from solvers.dual.singular_vectors import Rows, Single, SingularVectors
from workloads.operators import Array
from workloads.operators.blas import inner, lower_sum, product, whole

_NODE_SPACING = 2.0
_FIRST_NODE = 0.5
_SMALLEST_RELATIVE = 1e-9
_MOST_DECAY = 5.0
_PANEL = 256


@dataclass(frozen=True, eq=False)
class BlockVectors:
    """One block of the Hessian.

    Attributes
    ----------
    singular : numpy.ndarray, shape (k,)
        λ, in ascending order.
    vectors : tuple of DenseVectors or StructuredVectors
        Z, and X if the queries have free weights: one row for each free weight of the block.
    weights : slice or numpy.ndarray of int
        The indices of these weights among all free ones, ascending.
    """

    singular: Array
    vectors: tuple[SingularVectors, ...]
    weights: Rows

    @cached_property
    def kernel(self) -> Array:
        """T, shape (k, k)."""
        inverse = 1 / self.singular
        return np.asarray(1 / np.add.outer(inverse, inverse))

    @cached_property
    def damping(self) -> Array:
        """Rows w, shape (nodes, k), whose outer products sum to T within a few per cent.

        There is a row for each node of the trapezoidal rule; the integral below the first node is
        added to that node. Decayed entries, the first ones of a row, are zero: small numbers in
        their place would be denormal in single precision, which makes products fifty times slower
        on common processors.
        """
        inverse = 1 / np.maximum(self.singular, _SMALLEST_RELATIVE * self.singular[-1])
        nodes = np.arange(
            -np.log(2 * inverse[0]) - _FIRST_NODE,
            -np.log(2 * inverse[-1]) + 1.6 + _NODE_SPACING,
            _NODE_SPACING,
        )
        decays = np.multiply.outer(np.exp(nodes), inverse)
        damped = np.where(decays < _MOST_DECAY, np.exp(-decays), 0.0)
        lengths = _NODE_SPACING * np.exp(nodes)
        lengths[0] /= -np.expm1(-_NODE_SPACING)
        return np.asarray(np.sqrt(lengths)[:, None] * damped)

    def add_product(self, total: Array, z: Array) -> None:
        """Add to ``total`` the product of this block's K with z; the caller applies the signs."""
        own = z[self.weights]
        # In double precision, since the parts of the columns and of the queries nearly cancel.
        grams = [part.gram(own[at]).astype(np.float64) for part, at in self._parts]
        change = reduce(np.add, grams)
        change *= self.kernel.T  # symmetric, and in the order of the Gram matrix
        total[self.weights] += np.concatenate([part.forms(change) for part in self.vectors])

    def add_bend(self, total: Array, z: Array) -> None:
        """Add this block's share of `PreconditionedSystem.bend`; the caller applies the signs.

        With P = Zᵀ diag(z) Z, Q the same for queries and M_ab = (P - Q)_ab λ_b / (λ_a + λ_b), the
        second term of the matrix geometric mean Σ gives the forms of T ∘ (M P + P Mᵀ - M Mᵀ) on the
        columns' vectors and of T ∘ (M Q + Q Mᵀ + M Mᵀ) on the queries'.
        """
        own = z[self.weights]
        signed = [
            (part, sign, whole(part.gram(sign * own[at]).astype(np.float64)))
            for (part, at), sign in zip(self._parts, (1.0, -1.0), strict=False)
        ]
        moved = reduce(np.add, [sign * gram for _, sign, gram in signed])
        moved *= self.kernel
        moved /= self.singular[:, None]
        bends = [
            part.forms(lower_sum(moved, gram - sign / 2 * moved) * self.kernel.T)
            for part, sign, gram in signed
        ]
        total[self.weights] += np.concatenate(bends)

    def add_diagonal(self, total: Array) -> None:
        """Add the diagonal of this block's K, approximately."""
        squares = [part.squares(self.damping.T) for part in self.vectors]
        total[self.weights] += np.square(np.concatenate(squares)).sum(axis=1)

    def add_explicit(self, total: Single, chosen: Rows, count: int) -> None:
        """Add K's lower triangle at some of ``count`` weights; the caller applies the signs."""
        place = np.full(count, -1)
        place[self.weights] = np.arange(self._parts[-1][1].stop)
        at = np.flatnonzero(place[chosen] >= 0)
        own = place[chosen][at]
        parts = [
            part.rows(own[(own >= here.start) & (own < here.stop)] - here.start)
            for part, here in self._parts
        ]
        rows = np.concatenate(parts, dtype=np.float32)
        if at.size == len(total):
            _add_squared_grams(total, rows, self.damping)
        else:
            squares = np.zeros((at.size, at.size), np.float32, order="F")
            _add_squared_grams(squares, rows, self.damping)
            total[np.ix_(at, at)] += squares

    @cached_property
    def _parts(self) -> list[tuple[SingularVectors, slice]]:
        """Z and X with the places of their weights among those of the block."""
        ends = np.cumsum([part.size for part in self.vectors])
        return [
            (part, slice(int(end) - part.size, int(end)))
            for part, end in zip(self.vectors, ends, strict=True)
        ]


def _add_squared_grams(total: Single, rows: Single, damping: Array) -> None:
    """Add to ``total``, for every node, the entrywise square of ``rows @ diag(w) @ rows.T``.

    Each row w of ``damping`` belongs to a node. Only the lower triangle of ``total`` is guaranteed.
    The rows are taken in panels, so that each panel is still in the cache when it is squared.
    """
    nodes = []
    for weights in damping.astype(np.float32):
        decayed = int(np.count_nonzero(weights == 0))
        # leaving out few columns would not pay for the copy
        first = decayed if 8 * decayed > weights.size else 0
        nodes.append((np.ascontiguousarray(rows[:, first:]), weights[first:]))
    for start in range(0, len(rows), _PANEL):
        squares = total.T[start : start + _PANEL, start:]
        for active, weights in nodes:
            gram = product(active[start : start + _PANEL] * weights, active[start:].T)
            gram *= gram
            squares += gram


LARGEST_EXPLICIT = 20_000
_NEGLIGIBLE_COUPLINGS = 0.02
"""Largest sum, over the weights treated as uncoupled, of K's diagonal entry divided by the added
one.

This limit leaves out a seventh of the weights of random ranges without more products; a limit of 3
doubles the products.
"""
_WHOLE_PER_RANK = 5
_PART_PER_RANK = 2
_PART_AT_LEAST = 500
"""Limits on the explicit weights: all, if at most `_WHOLE_PER_RANK` times the rank; otherwise
`_PART_PER_RANK` times the rank, but no fewer than `_PART_AT_LEAST`.

A step takes two or three products if all weights are explicit, and ten to twenty otherwise. Making
and factorising an explicit matrix of five times the rank takes as long as twenty products.
"""
_RIDGES = (1e-7, 1e-5, 1e-3)
_MOST_PRODUCTS = 80


class ConstrainedSystem:
    """``H z + constraints @ nu = b`` with ``constraints.T @ z = r`` (a KKT system), solved exactly.

    Parameters
    ----------
    inverse : callable
        Maps b, of shape (n,) or (n, number of columns), to ``inv(H) @ b``.
    constraints : numpy.ndarray, shape (n, number of groups)
        The constraints, whose columns are linearly independent.

    Attributes
    ----------
    bends : bool
        Whether `approximate` is accurate enough for `bend` to be used along its direction.
    products : int
        Number of products with H so far; 0 if none is needed.
    """

    bends = False
    products = 0

    def __init__(self, inverse: Callable[[Array], Array], constraints: Array) -> None:
        self._inverse = inverse
        self._constraints = constraints
        solved = inverse(constraints)
        self._turned = bool(solved.flags.f_contiguous)
        self._solved = solved if self._turned else np.ascontiguousarray(solved).T
        self._inverse_schur = np.linalg.pinv(product(constraints.T, solved))

    def approximate(self, b: Array, r: Array) -> tuple[Array, Array]:
        """The (z, nu) that the given inverse yields, at the cost of one back substitution."""
        solved = self._inverse(b)
        # Direct calls of the BLAS function, not `workloads.operators.blas.product`: these products
        # are the most frequent ones.
        dgemm = scipy.linalg.blas.dgemm
        excess = dgemm(1.0, solved[:, None], self._constraints.T, trans_a=1, trans_b=1)[0] - r
        nu = self._inverse_schur @ excess
        back = dgemm(1.0, nu[:, None], self._solved, trans_a=1, trans_b=self._turned)[0]
        return solved - back, nu

    def bend(self, z: Array, negligible: float) -> Array:
        """Zero: the exact system needs no second-order correction."""
        return np.zeros_like(z)

    def solve(self, b: Array, r: Array, reduction: float) -> tuple[Array, Array]:
        """The solution (z, nu); the inverse is exact, so there is no residual to reduce."""
        return self.approximate(b, r)


class PreconditionedSystem(ConstrainedSystem):
    """``(K + diag(diagonal)) z + constraints @ nu = b`` with ``constraints.T @ z = r``.

    Parameters
    ----------
    blocks : sequence of BlockVectors
        The blocks whose Hessians sum to K.
    signs : numpy.ndarray, shape (n,)
        1 for columns; minus the free share of its weight for each query.
    mass : numpy.ndarray, shape (n,)
        Each weight times its entry of the gradient.
    diagonal : numpy.ndarray, shape (n,)
        The added diagonal, positive.
    constraints : numpy.ndarray, shape (n, number of groups)
        The constraints, whose columns are linearly independent.

    Attributes
    ----------
    products : int
        Number of products with K so far.
    bends : bool
        Whether the preconditioner includes all couplings.
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
        curvature = np.zeros_like(diagonal)
        for block in blocks:
            block.add_diagonal(curvature)
        self._entries = diagonal + curvature * np.square(signs)
        heavy, self.bends = self._chosen(mass)
        super().__init__(self._preconditioner(heavy, mass), constraints)

    def solve(self, b: Array, r: Array, reduction: float) -> tuple[Array, Array]:
        """The solution (z, nu), by conjugate gradients in the null space of the constraints.

        The part of b that the constraints absorb is removed first, since rounding would destroy the
        rest. If the preconditioner has all couplings, and reducing the residual once more by the
        same factor as before suffices, the last correction is added without a product that confirms
        it.

        Parameters
        ----------
        b : numpy.ndarray, shape (n,)
            Right side.
        r : numpy.ndarray, shape (number of groups,)
            The sums that the constraints require.
        reduction : float
            Target residual relative to b, in the norm of the system.

        Returns
        -------
        tuple of numpy.ndarray
        """
        multipliers = self._multipliers(b)
        left = b - product(self._constraints, multipliers)
        z, start = self.approximate(left, r)
        pulled = left - product(self._constraints, start)
        residual = pulled - self.times(z)
        none = np.zeros_like(r)
        correction, own = self.approximate(residual, none)
        before, energy = abs(inner(z, pulled)), inner(residual, correction)
        enough, direction = reduction**2 * before, correction
        while energy > enough and self.products < _MOST_PRODUCTS:
            if self.bends and energy**2 <= enough * before:
                return z + correction, multipliers + start + own
            image = self.times(direction)
            length = energy / inner(direction, image)
            z = z + length * direction
            residual = residual - length * image
            correction, own = self.approximate(residual, none)
            before, energy = energy, inner(residual, correction)
            direction = correction + (energy / before) * direction
        return z, multipliers + start + self._multipliers(residual)

    def _multipliers(self, b: Array) -> Array:
        """The nu that solves ``constraints @ nu = b`` by least squares."""
        columns = self._constraints.T
        return np.asarray(np.linalg.solve(columns @ columns.T, columns @ b), dtype=np.float64)

    def times(self, z: Array) -> Array:
        """``(K + diag(diagonal)) z``, with the exact K."""
        self.products += 1
        total = np.zeros_like(z)
        for block in self._blocks:
            block.add_product(total, self._signs * z)
        return self._signs * total + self._diagonal * z

    def bend(self, z: Array, negligible: float) -> Array:
        """The second-order change of the gradient along z, times the weights.

        z has the relative changes of the weights. The result, shape (n,), is zero if its sum,
        estimated by zᵀ K z without couplings, is below ``negligible``.
        """
        total = np.zeros_like(z)
        if inner(np.square(z), self._entries - self._diagonal) < negligible:
            return total
        for block in self._blocks:
            block.add_bend(total, self._signs * z)
        return self._signs * total

    def _chosen(self, mass: Array) -> tuple[Rows, bool]:
        """The indices of the explicit matrix's weights, and whether all others are uncoupled."""
        rank = sum(block.singular.size for block in self._blocks)
        beside = self._entries / self._diagonal - 1
        order = np.argsort(beside)
        light = int(np.searchsorted(np.cumsum(beside[order]), _NEGLIGIBLE_COUPLINGS))
        count = explicit_count(mass.size - light, rank)
        if mass.size - light > count:
            return np.sort(np.argpartition(-mass, count)[:count]), False  # those of largest mass
        return np.sort(order[light:]) if light else slice(None), True

    def _preconditioner(self, heavy: Rows, mass: Array) -> Callable[[Array], Array]:
        """The inverse of the matrix at the chosen weights, and of its diagonal at the others."""
        entries = self._entries  # a closure over self would be a reference cycle with matrices
        signs = self._signs[heavy].astype(np.float32)

        def light(b: Array) -> Array:
            return (b.T / entries).T

        for ridge in _RIDGES:
            explicit = np.zeros((signs.size, signs.size), np.float32, order="F")
            with np.errstate(over="ignore", invalid="ignore"):
                for block in self._blocks:
                    block.add_explicit(explicit, heavy, self._signs.size)
                explicit *= signs
                explicit *= signs[:, None]
                added = (self._diagonal + ridge * mass)[heavy]
                explicit[np.diag_indices_from(explicit)] += added.astype(np.float32)
            if not np.all(np.isfinite(explicit.diagonal())):
                return light
            try:
                factor = scipy.linalg.cho_factor(
                    explicit, lower=True, overwrite_a=True, check_finite=False
                )
                break
            except scipy.linalg.LinAlgError:
                continue
        else:
            return light

        def solve(b: Array) -> Array:
            solved = light(b)
            single = b[heavy].astype(np.float32)
            solved[heavy] = scipy.linalg.cho_solve(factor, single, check_finite=False)
            return solved

        return solve


def explicit_count(weights: int, rank: int) -> int:
    """Number of coupled weights that enter the explicit preconditioner."""
    if weights <= min(_WHOLE_PER_RANK * rank, LARGEST_EXPLICIT):
        return weights
    return min(weights, max(_PART_PER_RANK * rank, _PART_AT_LEAST), LARGEST_EXPLICIT)
