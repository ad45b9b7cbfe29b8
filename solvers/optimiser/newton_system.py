"""The Newton system of the dual on matrix blocks, and how it is solved.

In weights scaled by themselves the Hessian of -2f is a sum K over the blocks, of
`block_vectors.BlockVectors`. Factorised in single precision, their approximation of it
preconditions conjugate gradients so well that one or two products with the exact K suffice.

K is positive semidefinite: weights whose entries of its diagonal are small beside the system's own
couple to nothing that counts, and are preconditioned by their diagonal alone. Where the others
are too many for an explicit matrix, so are those of less mass: K_ij is at most the product of
the root masses of i and j, and the masses sum to the nuclear norm.
"""

from collections.abc import Callable, Sequence

import numpy as np
import scipy.linalg as sla

from solvers.optimiser.block_vectors import BlockVectors
from solvers.optimiser.bordered import Bordered
from solvers.optimiser.couplings import Couplings
from solvers.optimiser.singular_vectors import Rows, Single
from workloads.operators import Array
from workloads.operators.blas import inner, product

LARGEST_EXPLICIT = 20_000
_NEGLIGIBLE = 0.02
"""What the diagonal of K over the system's may add up to where its couplings are left out.

A seventh of the weights of random ranges at no more products; at 3 twice as many are needed.
"""
_WHOLE_PER_RANK = 5
_PART_PER_RANK = 2
_PART_AT_LEAST = 500
"""Over the rank: so many weights are explicit if no other counts; if others do, so few.

The first take two or three products a step, the second ten to twenty, each a twentieth of what an
explicit matrix of five times the rank takes.
"""
_RIDGES = (1e-7, 1e-5, 1e-3)
_MOST_PRODUCTS = 80


class PreconditionedSystem:
    """``(K + diag(diagonal)) z + constraints @ nu = b`` with ``constraints.T @ z = r``.

    Parameters
    ----------
    blocks : sequence of BlockVectors
        Whose Hessians K adds up.
    signs : numpy.ndarray, shape (n,)
        1 for columns; minus the free share of its weight for each query.
    mass : numpy.ndarray, shape (n,)
        Each weight times its part of the gradient.
    diagonal : numpy.ndarray, shape (n,)
        Positive.
    constraints : numpy.ndarray, shape (n, number of groups)
        Of full column rank.
    explicit : int, optional
        How many weights enter the factorised part of the preconditioner; by default as many
        as pays.
    kept : Couplings, optional
        What to factorise, if it is known already.
    keeping : bool
        Whether the couplings are to be had afterwards, for the price of a copy.

    Attributes
    ----------
    products : int
        Products with K so far.
    bends : bool
        Whether the preconditioner has all couplings.
    couplings : Couplings or None
        These couplings; None if it has not all, or they were not to be kept.
    """

    exact = False

    def __init__(
        self,
        blocks: Sequence[BlockVectors],
        signs: Array,
        mass: Array,
        diagonal: Array,
        constraints: Array,
        explicit: int | None = None,
        kept: Couplings | None = None,
        *,
        keeping: bool = False,
    ) -> None:
        self.products = 0
        self._blocks = blocks
        self._signs = signs
        self._diagonal = diagonal
        self._constraints = constraints
        self._entries = diagonal + self._curvature()
        heavy, self.bends = self._chosen(explicit, mass) if kept is None else (kept.heavy, True)
        if kept is None and keeping and self.bends:
            kept = Couplings(heavy, self._explicit(heavy))
        self.couplings = kept
        self._bordered = Bordered(self._preconditioner(heavy, mass), constraints)

    def approximate(self, b: Array, r: Array) -> tuple[Array, Array]:
        """(z, nu) with K replaced by its preconditioner."""
        return self._bordered.approximate(b, r)

    def solve(self, b: Array, r: Array, reduction: float) -> tuple[Array, Array]:
        """(z, nu) by conjugate gradients in the null space of the constraints.

        What of b the constraints take up in any case is left out from the start: beside it
        the rest would be lost to rounding. The last correction is taken without a product that
        would confirm it, where it suffices that it leaves what the one before it left, and the
        preconditioner has all couplings.

        Parameters
        ----------
        b : numpy.ndarray, shape (n,)
            Right side.
        r : numpy.ndarray, shape (number of groups,)
            What the constraints sum to.
        reduction : float
            By how much the residual is to fall, relative to b, in the norm of the system.

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
        """The nu of least squares ``constraints @ nu = b``."""
        return np.asarray(np.linalg.lstsq(self._constraints, b, rcond=None)[0], dtype=np.float64)

    def times(self, z: Array) -> Array:
        """``(K + diag(diagonal)) z``, with the exact K."""
        self.products += 1
        total = np.zeros_like(z)
        for block in self._blocks:
            block.add_product(total, self._signs * z)
        return self._signs * total + self._diagonal * z

    def bend(self, z: Array, negligible: float) -> Array:
        """What the gradient changes by along z beyond the first order, times the weights.

        To second order, of changes relative to the weights, shape (n,). Nothing where it would add
        up to less than a number, which it hardly does if zᵀ K z, without its couplings, does.
        """
        total = np.zeros_like(z)
        if inner(np.square(z), self._entries - self._diagonal) < negligible:
            return total
        for block in self._blocks:
            block.add_bend(total, self._signs * z)
        return self._signs * total

    def _curvature(self) -> Array:
        """The diagonal of K, approximately."""
        total = np.zeros_like(self._diagonal)
        for block in self._blocks:
            block.add_diagonal(total)
        return total * np.square(self._signs)

    def _chosen(self, explicit: int | None, mass: Array) -> tuple[Rows, bool]:
        """The weights of the explicit matrix, and whether no other couples to anything."""
        if explicit is not None:
            return _heaviest(mass, explicit), explicit == mass.size
        rank = sum(block.singular.size for block in self._blocks)
        beside = self._entries / self._diagonal - 1
        order = np.argsort(beside)
        light = int(np.searchsorted(np.cumsum(beside[order]), _NEGLIGIBLE))
        if mass.size - light > explicit_count(mass.size - light, rank):
            return _heaviest(mass, explicit_count(mass.size - light, rank)), False
        return np.sort(order[light:]) if light else slice(None), True

    def _preconditioner(self, heavy: Rows, mass: Array) -> Callable[[Array], Array]:
        for ridge in _RIDGES:
            kept = self.couplings
            explicit = self._explicit(heavy) if kept is None else kept.lower.copy(order="F")
            with np.errstate(over="ignore", invalid="ignore"):
                explicit[np.diag_indices_from(explicit)] += (self._diagonal + ridge * mass)[
                    heavy
                ].astype(np.float32)
            if not np.all(np.isfinite(explicit.diagonal())):
                break
            try:
                factor = sla.cho_factor(explicit, lower=True, overwrite_a=True, check_finite=False)
            except sla.LinAlgError:
                continue
            return self._factorised(factor, heavy)
        return self._diagonal_only()

    def _factorised(self, factor: tuple[Single, bool], heavy: Rows) -> Callable[[Array], Array]:
        """The factor where it is, the diagonal elsewhere."""

        def solve_heavy(b: Array) -> Array:
            solved = sla.cho_solve(factor, b.astype(np.float32), check_finite=False)
            return np.asarray(solved, dtype=np.float64)

        if isinstance(heavy, slice):
            return solve_heavy
        light = self._diagonal_only()

        def solve(b: Array) -> Array:
            solved = light(b)
            solved[heavy] = solve_heavy(b[heavy])
            return solved

        return solve

    def _diagonal_only(self) -> Callable[[Array], Array]:
        entries = self._entries  # not self, whose matrices a cycle would keep until collected
        return lambda b: (b.T / entries).T

    def _explicit(self, heavy: Rows) -> Single:
        """The lower triangle of the heaviest part of K."""
        signs = self._signs[heavy].astype(np.float32)
        total = np.zeros((signs.size, signs.size), np.float32, order="F")
        with np.errstate(over="ignore", invalid="ignore"):
            for block in self._blocks:
                block.add_explicit(total, heavy, self._signs.size)
            total *= signs
            total *= signs[:, None]
        return total


def explicit_count(weights: int, rank: int) -> int:
    """How many of the weights that count enter the explicit preconditioner."""
    if weights <= min(_WHOLE_PER_RANK * rank, LARGEST_EXPLICIT):
        return weights
    return min(weights, max(_PART_PER_RANK * rank, _PART_AT_LEAST), LARGEST_EXPLICIT)


def _heaviest(mass: Array, count: int) -> Rows:
    """So many of the weights, those of most mass."""
    if count == mass.size:
        return slice(None)
    return np.sort(np.argpartition(-mass, count)[:count])
