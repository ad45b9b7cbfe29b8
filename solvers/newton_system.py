"""The Newton system of the dual's interior point, and how it is solved.

In weights scaled by themselves the Hessian of -2f is, with Z, X, λ of the spectrum and
F = [Z; X],

    K_ij = ± sum_ab F_ia F_ib T_ab F_ja F_jb,   T_ab = λ_a λ_b / (λ_a + λ_b)

(+ within columns or within queries, - across). Since 1/T_ab = 1/λ_a + 1/λ_b, T is the
integral of exp(-t/λ_a) exp(-t/λ_b) over t > 0: a few nodes of the trapezoidal rule in
log t make K a sum of Hadamard squares of Gram matrices, accurate to some per cent, at
the price of one matrix product each. Factorised in single precision, that sum
preconditions conjugate gradients so well that about two products with the exact K suffice.

K_ij is at most the product of the root masses of weights i and j, and the masses sum to the
nuclear norm; where there are too many weights for an n x n matrix, those of least mass
are preconditioned by their diagonal alone.
"""

from collections.abc import Callable

import numpy as np
import scipy.linalg as sla

from solvers.spectral import Spectrum
from solvers.stack import Single, stacked
from workloads.operators import Array, Indices
from workloads.operators.blas import inner, lower_gram, product

Rows = slice | Indices

LARGEST_EXPLICIT = 20_000
_HEAVY_PER_RANK = 4
_HEAVY_AT_LEAST = 500
_NODE_SPACING = 2.0
_SMALLEST_RELATIVE = 1e-9
_RIDGES = (1e-7, 1e-5, 1e-3)
_MOST_PRODUCTS = 80


class NewtonSystem:
    """``(K + diag(diagonal)) z + constraints @ nu = b`` with ``constraints.T @ z = r``.

    Parameters
    ----------
    found : Spectrum
        At the current weights.
    free_share : numpy.ndarray, shape (m,), or None
        The share of every query's weight that is free; None if no query weight is.
    diagonal : numpy.ndarray, shape (n,)
        Positive.
    constraints : numpy.ndarray, shape (n, number of groups)
        Of full column rank.

    Attributes
    ----------
    products : int
        Products with K so far.
    """

    def __init__(
        self,
        found: Spectrum,
        free_share: Array | None,
        diagonal: Array,
        constraints: Array,
    ) -> None:
        columns = found.columns.shape[0]
        self.products = 0
        self._diagonal = diagonal
        self._constraints = constraints
        self._stack = stacked(found, with_queries=free_share is not None)
        self._signed = np.ones(diagonal.size)
        mass = found.column_mass
        if free_share is not None:
            self._signed[columns:] = -free_share
            mass = np.concatenate([mass, found.row_mass])
        inverse = 1 / found.singular
        self._kernel = 1 / np.add.outer(inverse, inverse)
        self._damping = _damping(found.singular)
        self._precondition = self._factorised(found.singular.size, mass * np.abs(self._signed))
        self._solved = self._precondition(constraints)
        self._schur = product(constraints.T, self._solved)

    def approximate(self, b: Array, r: Array) -> tuple[Array, Array]:
        """(z, nu) with K replaced by its preconditioner."""
        solved = self._precondition(b)
        excess = product(self._constraints.T, solved) - r
        nu = np.asarray(np.linalg.lstsq(self._schur, excess, rcond=None)[0], dtype=np.float64)
        return solved - product(self._solved, nu), nu

    def solve(self, b: Array, r: Array, reduction: float) -> tuple[Array, Array]:
        """(z, nu) by conjugate gradients in the null space of the constraints.

        What of b the constraints take up in any case is left out from the start: beside it
        the rest would be lost to rounding.

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
        taken = self._multipliers(b)
        left = b - product(self._constraints, taken)
        z, start = self.approximate(left, r)
        pulled = left - product(self._constraints, start)
        residual = pulled - self._product(z)
        none = np.zeros_like(r)
        direction, _ = self.approximate(residual, none)
        energy = inner(residual, direction)
        enough = reduction**2 * abs(inner(z, pulled))
        while energy > enough and self.products < _MOST_PRODUCTS:
            image = self._product(direction)
            length = energy / inner(direction, image)
            z = z + length * direction
            residual = residual - length * image
            projected, _ = self.approximate(residual, none)
            following = inner(residual, projected)
            direction, energy = projected + (following / energy) * direction, following
        return z, taken + start + self._multipliers(residual)

    def _multipliers(self, b: Array) -> Array:
        """The nu of least squares ``constraints @ nu = b``."""
        return np.asarray(np.linalg.lstsq(self._constraints, b, rcond=None)[0], dtype=np.float64)

    def _product(self, z: Array) -> Array:
        self.products += 1
        change = self._stack.gram(self._signed * z)
        change *= self._kernel
        return self._signed * self._stack.forms(change) + self._diagonal * z

    def _diagonal_only(self) -> Callable[[Array], Array]:
        curvature = sum(np.square(self._stack.squares(damped)) for damped in self._damping)
        entries = curvature * np.square(self._signed) + self._diagonal
        return lambda b: (b.T / entries).T

    def _factorised(self, rank: int, mass: Array) -> Callable[[Array], Array]:
        heavy = _heaviest(mass, rank)
        for ridge in _RIDGES:
            explicit = self._explicit(heavy)
            explicit[np.diag_indices_from(explicit)] += (self._diagonal + ridge * mass)[
                heavy
            ].astype(np.float32)
            try:
                lower = sla.cholesky(explicit, lower=True, overwrite_a=True, check_finite=False)
            except sla.LinAlgError:
                continue
            return self._blockwise(lower, heavy)
        return self._diagonal_only()

    def _blockwise(self, lower: Single, heavy: Rows) -> Callable[[Array], Array]:
        """The factor where it is, the diagonal elsewhere."""

        def solve_heavy(b: Array) -> Array:
            solved = sla.cho_solve((lower, True), b.astype(np.float32), check_finite=False)
            return np.asarray(solved, dtype=np.float64)

        if isinstance(heavy, slice):
            return solve_heavy
        light = self._diagonal_only()

        def solve(b: Array) -> Array:
            solved = light(b)
            solved[heavy] = solve_heavy(b[heavy])
            return solved

        return solve

    def _explicit(self, heavy: Rows) -> Single:
        """The lower triangle of the heaviest part of K."""
        rows = self._stack.rows(heavy)
        total = np.zeros((len(rows), len(rows)), np.float32, order="F")
        for damped in self._damping:
            gram = lower_gram(rows * np.sqrt(damped, dtype=np.float32))
            gram *= gram
            total += gram
        signed = self._signed[heavy].astype(np.float32)
        total *= signed
        total *= signed[:, None]
        return total


def _damping(singular: Array) -> list[Array]:
    """Vectors w, (k,), the sum of whose outer products is T, to some per cent."""
    inverse = 1 / np.maximum(singular, _SMALLEST_RELATIVE * singular[-1])
    nodes = np.arange(
        -np.log(2 * inverse[0]) - 2.5,
        -np.log(2 * inverse[-1]) + 1.6 + _NODE_SPACING,
        _NODE_SPACING,
    )
    return [np.sqrt(_NODE_SPACING * t) * np.exp(-t * inverse) for t in np.exp(nodes)]


def heaviest_count(weights: int, rank: int) -> int:
    """How many of the weights enter the explicit preconditioner."""
    return min(weights, max(_HEAVY_PER_RANK * rank, _HEAVY_AT_LEAST), LARGEST_EXPLICIT)


def _heaviest(mass: Array, rank: int) -> Rows:
    """All weights where they are few, else those of most mass."""
    count = heaviest_count(mass.size, rank)
    if count == mass.size:
        return slice(None)
    return np.sort(np.argpartition(-mass, count)[:count])
