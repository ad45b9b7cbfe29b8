"""The nuclear norm of blocks of size one, all in one matrix.

    f(x) = sum_S sqrt((Aᵀ (x + offset))_S)

for a non-negative A with one column for each block, its multiplicity included (squared). The
inner solution is v = (Aᵀ (x + offset))^-1/2, and f is ``min over v > 0`` of
``(sum(1 / v) + (x + offset) . A v) / 2`` (Cauchy-Schwarz). Over the simplex, therefore,

    max f² = min over v > 0 of sum(1 / v) * (max(A v) + offset . A v),

which `minimise` solves: marginals with a target for each are of this form
(`solvers.orbits.single`), and so are the best weights of given strategy queries
(`solvers.mechanisms.am`).
"""

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import scipy.sparse as sp

from solvers.optimiser.bordered import Bordered
from solvers.optimiser.couplings import Couplings
from solvers.optimiser.interior_point import maximise
from solvers.optimiser.low_rank_system import LARGEST_FACTORISED, LowRankSystem
from solvers.optimiser.program import Program, multiplicative_step
from solvers.optimiser.progress import Progress
from solvers.stopping import Stopping
from workloads.operators import Array

_WARM_STEPS = 5


@dataclass(frozen=True, eq=False)
class ScalarBlocks:
    """f as a function of its weights.

    Attributes
    ----------
    matrix : numpy.ndarray or scipy.sparse.csr_array, shape (n, blocks)
        A, non-negative, no row and no column zero.
    offset : numpy.ndarray, shape (n,)
        Weights that are given; the free ones are added to them.
    largest_factorised : int
        Rows of the largest Newton system that is factorised rather than iterated on.
    """

    matrix: Array | sp.csr_array
    offset: Array
    largest_factorised: int = LARGEST_FACTORISED

    @cached_property
    def system(self) -> LowRankSystem:
        """What the Newton systems have in common."""
        return LowRankSystem(self.matrix, self.largest_factorised)

    def ratios(self, v: Array) -> Array:
        """``A v``: variance over target of each constraint."""
        return np.asarray(self.matrix @ v)

    def inner(self, x: Array) -> Array:
        """The v of least ``sum(1 / v) * (x + offset) . A v``."""
        return np.asarray((self.matrix.T @ (x + self.offset)) ** -0.5)

    def nuclear_norm(self, x: Array) -> float:
        """F."""
        return float(np.sqrt(self.matrix.T @ (x + self.offset)).sum())

    def lower_bound(self, x: Array) -> float:
        """On the value of every v, certified by weights x >= 0, whatever they are."""
        return self.nuclear_norm(x / x.sum()) ** 2

    def value(self, v: Array) -> float:
        """``sum(1 / v) * (max(A v) + offset . A v)``."""
        ratios = self.ratios(v)
        return float((1 / v).sum() * (ratios.max() + self.offset @ ratios))


@dataclass(frozen=True, eq=False)
class ScalarPoint:
    """f at some weights.

    Attributes
    ----------
    blocks : ScalarBlocks
        What f is.
    x : numpy.ndarray, shape (n,)
        The free weights.
    """

    blocks: ScalarBlocks
    x: Array

    @property
    def p(self) -> Array:
        """The weight of the only column, shape (1,)."""
        return np.ones(1)

    @property
    def q(self) -> Array:
        """All weights, the given ones included, shape (n,)."""
        return self.x + self.blocks.offset

    @property
    def spectra(self) -> tuple[Array]:
        """The inner solution v of all blocks."""
        return (self.v,)

    @cached_property
    def v(self) -> Array:
        """The inner solution, shape (blocks,)."""
        return self.blocks.inner(self.x)

    @cached_property
    def nuclear_norm(self) -> float:
        """F."""
        return float((1 / self.v).sum())

    @cached_property
    def gradient(self) -> Array:
        """Of 2f in the free weights, shape (n,)."""
        return self.blocks.ratios(self.v)

    def newton_system(
        self,
        diagonal: Array,
        constraints: Array,
        kept: Couplings | None = None,
        *,
        keeping: bool = False,
    ) -> Bordered:
        """The Newton system here: ``X A diag(v³/2) Aᵀ X + diag(diagonal)``, factorised."""
        x = self.x
        solve = self.blocks.system.factorised(np.square(x) / diagonal, self.v**3 / 2)
        return Bordered(lambda b: (solve((b.T / x).T).T / x).T, constraints)


def minimise(blocks: ScalarBlocks, stopping: Stopping) -> Progress[ScalarPoint]:
    """The v > 0 of least ``sum(1 / v) * (max(A v) + offset . A v)``.

    Parameters
    ----------
    blocks : ScalarBlocks
        A and the offset.
    stopping : Stopping
        When to end.

    Returns
    -------
    Progress
        ``best.v`` has the value ``upper``; ``proof.x`` certifies ``lower``.
    """
    n = blocks.offset.size
    groups = np.ones((n, 1))
    program = Program(partial(ScalarPoint, blocks), np.zeros(n), groups)
    point = program.at(np.full(n, 1 / n))
    for _ in range(_WARM_STEPS):
        point = program.at(multiplicative_step(point.x, point.gradient, groups))
    return maximise(program, point, _bounds, stopping)


def _bounds(point: ScalarPoint) -> tuple[float, float]:
    return point.blocks.lower_bound(point.x), point.blocks.value(point.v)
