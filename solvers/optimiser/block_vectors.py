"""What one block adds to the Hessian of the dual.

In weights scaled by themselves the Hessian of -2f is a sum over the blocks of, with Z, X, λ of
a block's spectrum and F = [Z; X],

    K_ij = ± sum_ab F_ia F_ib T_ab F_ja F_jb,   T_ab = λ_a λ_b / (λ_a + λ_b)

(+ within columns or within queries, - across). Since 1/T_ab = 1/λ_a + 1/λ_b, T is the
integral of exp(-t/λ_a) exp(-t/λ_b) over t > 0: a few nodes of the trapezoidal rule in
log t make K a sum of Hadamard squares of Gram matrices, accurate to some per cent, at
the price of one matrix product each.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from solvers.optimiser.singular_vectors import (
    DenseVectors,
    Rows,
    Single,
    SingularVectors,
    StackedVectors,
)
from workloads.operators import Array
from workloads.operators.blas import lower_sum, product, whole

_NODE_SPACING = 2.0
_FIRST_NODE = 0.5
_SMALLEST_RELATIVE = 1e-9
_MOST_DECAY = 5.0
_PANEL = 256
_PER_FEW = 16
"""One column in so many may have a Gram matrix by itself at each node, beside what nodes share."""
_ALIKE = 0.7
"""Nodes share the Gram matrix of columns whose least damping, over the greatest, is more."""


@dataclass(frozen=True, eq=False)
class BlockVectors:
    """What the Hessian takes of one block.

    Attributes
    ----------
    singular : numpy.ndarray, shape (k,)
        λ, in ascending order.
    vectors : DenseVectors or StackedVectors
        F = [Z; X], one row for each free weight that the block has.
    weights : slice or numpy.ndarray of int
        The numbers of these weights among all free ones, ascending.
    columns : int
        How many of them are columns': these come first.
    """

    singular: Array
    vectors: DenseVectors[np.float32] | DenseVectors[np.float64] | StackedVectors
    weights: Rows
    columns: int

    @cached_property
    def kernel(self) -> Array:
        """T, shape (k, k)."""
        inverse = 1 / self.singular
        return np.asarray(1 / np.add.outer(inverse, inverse))

    @cached_property
    def damping(self) -> Array:
        """Rows w, shape (nodes, k), the sum of whose outer products is T, to some per cent.

        The trapezoidal rule, the integral below its first node added to that one. Zero where
        they have decayed, and ascending: the small numbers instead would make products in
        single precision denormal, which processors take fifty times longer for.
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
        """Add this block's K, but for the signs, times z."""
        change = self.vectors.gram(z[self.weights])
        change *= self.kernel.T  # symmetric, and in the order of the Gram matrix
        total[self.weights] += self.vectors.forms(change)

    def add_bend(self, total: Array, z: Array) -> None:
        """Add what `PreconditionedSystem.bend` is in this block, but for the signs.

        With P = Zᵀ diag(z) Z, Q that of the queries and M_ab = (P - Q)_ab λ_b / (λ_a + λ_b), the
        second term of the matrix geometric mean Σ makes it the forms of T ∘ (M P + P Mᵀ - M Mᵀ) in
        the columns' vectors and of T ∘ (M Q + Q Mᵀ + M Mᵀ) in the queries'.
        """
        own, added = z[self.weights], np.zeros(self.vectors.size)
        sides = (slice(None, self.columns), 1.0), (slice(self.columns, None), -1.0)
        both: tuple[SingularVectors, SingularVectors] = self.vectors.parted(self.columns)
        parts = [
            (part, at, sign, whole(cast("Array", part.gram(sign * own[at]))))
            for part, (at, sign) in zip(both, sides, strict=True)
            if part.size
        ]
        moved = np.sum([sign * gram for _, _, sign, gram in parts], axis=0)
        moved *= self.kernel
        moved /= self.singular[:, None]
        for part, at, sign, gram in parts:
            bent = lower_sum(moved, gram - sign / 2 * moved)
            bent *= self.kernel.T
            added[at] = part.forms(bent)
        total[self.weights] += added

    def add_diagonal(self, total: Array) -> None:
        """Add the diagonal of this block's K, approximately."""
        total[self.weights] += np.square(self.vectors.squares(self.damping.T)).sum(axis=1)

    def add_explicit(self, total: Single, chosen: Rows, count: int) -> None:
        """Add the lower triangle of K, but for the signs, at some of the ``count`` weights."""
        at, rows = self._chosen(chosen, count)
        own = (
            total
            if isinstance(at, slice)
            else np.zeros((len(rows), len(rows)), np.float32, order="F")
        )
        _add_squared_grams(own, rows, self.damping)
        if not isinstance(at, slice):
            total[np.ix_(at, at)] += own

    def _chosen(self, chosen: Rows, count: int) -> tuple[Rows, Single]:
        """Which of the chosen weights this block has, and their rows."""
        if isinstance(self.weights, slice):
            return slice(None), self.vectors.rows(chosen).astype(np.float32, copy=False)
        place = np.full(count, -1)
        place[self.weights] = np.arange(self.weights.size)
        own = place[chosen]
        at = np.flatnonzero(own >= 0)
        return at, self.vectors.rows(own[at]).astype(np.float32, copy=False)


def _add_squared_grams(total: Single, rows: Single, damping: Array) -> None:
    """Add the entrywise squares of ``rows @ diag(w) @ rows.T``, lower triangle and a little above.

    Some rows at a time: what is squared and added is in the cache still. The first nodes may share
    what all but a few columns make.
    """
    alike, few = _alike(damping)
    weights = damping.astype(np.float32)
    parts = [_active(rows, own) for own in weights[alike:] if own.any()]
    by_node, shared = (np.ascontiguousarray(part) for part in np.split(rows, [few], axis=1))
    for start in range(0, len(rows), _PANEL):
        panel = slice(start, start + _PANEL)
        squares = total.T[panel, start:]
        for active, own in parts:
            _add_square(squares, product(active[panel] * own, active[start:].T))
        if alike:
            last = weights[alike - 1, few:]
            common = product(shared[panel] * last, shared[start:].T)
            for own in weights[:alike]:
                gram = product(by_node[panel] * own[:few], by_node[start:].T)
                gram += own[-1] / last[-1] * common
                _add_square(squares, gram)


def _alike(damping: Array) -> tuple[int, int]:
    """How many of the first nodes differ by a factor only, and in how many columns by more.

    None, where there are not two: singular values that are far below all others take nodes of
    their own, at which no other has decayed.
    """
    few = damping.shape[1] // _PER_FEW
    same = damping[:, few] > _ALIKE * damping[:, -1]
    alike = int(np.argmin([*same, False]))
    return (alike, few) if few > 0 and alike > 1 else (0, 0)


def _active(rows: Single, weights: Single) -> tuple[Single, Single]:
    """The columns that have not decayed, where that saves something, and their weights."""
    zeros = int(np.count_nonzero(weights == 0))
    first = zeros if 8 * zeros > weights.size else 0
    return np.ascontiguousarray(rows[:, first:]), weights[first:]


def _add_square(total: Single, gram: Single) -> None:
    gram *= gram
    total += gram
