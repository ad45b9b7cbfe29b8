"""Linear systems bordered by constraints, from the inverse without the border."""

from collections.abc import Callable

import numpy as np

from workloads.operators import Array
from workloads.operators.blas import product


class Bordered:
    """``H z + constraints @ nu = b`` with ``constraints.T @ z = r``, by the Schur complement.

    Parameters
    ----------
    inverse : callable
        ``inv(H) @ b`` for b of shape (n,) or (n, number of columns).
    constraints : numpy.ndarray, shape (n, number of groups)
        Of full column rank.
    """

    exact = True
    bends = False
    products = 0
    couplings = None

    def __init__(self, inverse: Callable[[Array], Array], constraints: Array) -> None:
        self._inverse = inverse
        self._constraints = constraints
        self._solved = inverse(constraints)
        self._schur = product(constraints.T, self._solved)

    def approximate(self, b: Array, r: Array) -> tuple[Array, Array]:
        """(z, nu)."""
        solved = self._inverse(b)
        excess = product(self._constraints.T, solved) - r
        nu = np.asarray(np.linalg.lstsq(self._schur, excess, rcond=None)[0], dtype=np.float64)
        return solved - product(self._solved, nu), nu

    def bend(self, z: Array, negligible: float) -> Array:
        """None that is known."""
        return np.zeros_like(z)

    def solve(self, b: Array, r: Array, reduction: float) -> tuple[Array, Array]:
        """(z, nu): with the inverse itself nothing is left to reduce."""
        return self.approximate(b, r)
