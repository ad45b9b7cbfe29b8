"""What is maximised over the dual weights, and what the optimiser asks of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from solvers.optimiser.couplings import Couplings
from workloads.operators import Array


class NewtonSystem(Protocol):
    """``(K + diag(diagonal)) z + constraints @ nu = b`` with ``constraints.T @ z = r``.

    K is the Hessian of -2f in the logarithms of the weights, less the gradient's part.
    """

    @property
    def exact(self) -> bool:
        """Whether `solve` leaves no residual but rounding."""
        ...

    @property
    def bends(self) -> bool:
        """Whether `approximate` is good enough to ask for the `bend` along what it says."""
        ...

    @property
    def products(self) -> int:
        """Products with K so far; 0 where none is needed."""
        ...

    @property
    def couplings(self) -> Couplings | None:
        """What `newton_system` may take over at weights nearby; None if nothing was to be kept."""
        ...

    def approximate(self, b: Array, r: Array) -> tuple[Array, Array]:
        """(z, nu) as far as they are had for one back substitution."""
        ...

    def bend(self, z: Array, negligible: float) -> Array:
        """What the gradient changes by along z beyond the first order, times the weights.

        Nothing where it adds up to less than a number.

        Nothing is asked of it where `solve` is exact.
        """
        ...

    def solve(self, b: Array, r: Array, reduction: float) -> tuple[Array, Array]:
        """(z, nu) with a residual smaller by that factor than b, in the norm of the system."""
        ...


class Point(Protocol):
    """f at some weights."""

    @property
    def x(self) -> Array:
        """The free weights, shape (n,)."""
        ...

    @property
    def nuclear_norm(self) -> float:
        """F."""
        ...

    @property
    def gradient(self) -> Array:
        """Of 2f in the free weights, shape (n,)."""
        ...

    def newton_system(
        self,
        diagonal: Array,
        constraints: Array,
        kept: Couplings | None = None,
        *,
        keeping: bool = False,
    ) -> NewtonSystem:
        """The Newton system here, for a positive diagonal (n,) and constraints (n, groups).

        Its preconditioner is made of couplings that are ``kept``, where there are any; ``keeping``
        says that its own are to be had afterwards.
        """
        ...


AnyPoint = TypeVar("AnyPoint", bound=Point)


@dataclass(frozen=True, eq=False)
class Program(Generic[AnyPoint]):
    """Maximise ``2 f(x) - cost . x`` over weights x >= 0, some groups of which sum to one.

    Attributes
    ----------
    at : callable
        The point at weights x; LinAlgError or ValueError where f cannot be computed.
    cost : numpy.ndarray, shape (n,)
        Linear cost of the free weights.
    groups : numpy.ndarray, shape (n, number of groups)
        Indicator columns; the weights of a group sum to one.
    """

    at: Callable[[Array], AnyPoint]
    cost: Array
    groups: Array


def multiplicative_step(
    x: Array, gradient: Array, groups: Array, *, relaxation: float = 1.0, floor: float = 1e-3
) -> Array:
    """Weights after ``x <- x * gradient``, every group renormalised, none below floor/size.

    The fixed points of this step are the optima where the weights cost nothing. A relaxation
    above one, as a power of the gradient, goes further.
    """
    sizes = groups.sum(axis=0)
    moved = x * gradient**relaxation
    for _ in range(2):
        moved = np.maximum(moved / (groups @ (groups.T @ moved)), floor * (groups @ (1 / sizes)))
    return moved / (groups @ (groups.T @ moved))
