"""A problem on its orbits, with its targets and its dual."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from solvers.dual import programs as dual
from solvers.dual.interior_point import Progress
from solvers.dual.matrix_blocks import Block, BlocksPoint, MatrixBlocks
from solvers.dual.programs import Weights
from solvers.noise.factorisation import Factorisation
from solvers.orbits.layout import Layout
from solvers.orbits.parts import Part, Span, parts
from solvers.problem.problem import unit_of
from workloads.operators import Array, Scaled


@dataclass(frozen=True, eq=False)
class Orbits(Layout):
    """A problem on the orbits of its cells and queries.

    Attributes
    ----------
    targets : numpy.ndarray, shape (r,)
        The variance bound of every orbit of queries, group by group.
    cell_scale : numpy.ndarray, shape (n,)
        What the queries' columns are divided by; ones but for personal bounds on the profile.
    """

    targets: Array
    cell_scale: Array

    finest = 1e-11

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The matrices of the dual."""
        return tuple(parts(self, self.targets, self.cell_scale))

    @property
    def layout(self) -> Layout:
        """Where its cells and queries are."""
        return self

    @property
    def matrix_count(self) -> int:
        """How many they are."""
        return len(self.parts)

    def spans(self, parts: Sequence[Any]) -> Iterator[tuple[Span, Factorisation]]:
        """The span of each part, and its mechanism."""
        return zip(self.parts, parts, strict=True)

    @cached_property
    def unit(self) -> float:
        """Of the targets, in which the dual is solved."""
        if unit_of(np.log(self.targets)) == 1:
            return 1.0
        operators = [part.problem.workload.operator for part in self.parts]
        roots = [part.problem.targets**-0.5 for part in self.parts]
        norms = (
            Scaled(*pair).squared_row_norms().max() for pair in zip(operators, roots, strict=True)
        )
        return unit_of(-np.log([max(norms)]))

    @cached_property
    def relative(self) -> "Orbits":
        """The same in that unit."""
        return self if self.unit == 1 else replace(self, targets=self.targets / self.unit)

    @cached_property
    def blocks(self) -> MatrixBlocks:
        """The matrices as the optimiser takes them."""
        blocks = tuple(Block(part.problem.factors, part.rows, part.columns) for part in self.parts)
        return MatrixBlocks(blocks, self.cells.size, np.zeros(self.targets.size), free_queries=True)

    @property
    def start(self) -> Weights:
        """Equal weights of all cells, and of all orbits of queries."""
        r = self.targets.size
        return Weights(self.cells / self.cells.sum(), np.full(r, 1 / r))

    def optimum(self, *, start: Weights | None = None, **limits: Any) -> Progress[BlocksPoint]:
        """The least Δ² that meets every target (`dual.optimum`)."""
        result = dual.optimum(self.relative.blocks, start=start or self.start, **limits)
        return result.scaled(1 / self.unit)

    def hybrid(self, weight: float, *, start: Weights, **limits: Any) -> Progress[BlocksPoint]:
        """The least objective with a weight on the total variance (`dual.hybrid`)."""
        weights = weight * self.targets * self.copies
        result = dual.hybrid(self.relative.blocks, weights, start=start, **limits)
        return result.scaled(self.unit**-0.5)

    def least_total_error(self, weights: Array, **limits: Any) -> Progress[BlocksPoint]:
        """The least weighted sum of variances over targets (`dual.least_total_error`)."""
        start = self.start.p
        result = dual.least_total_error(self.relative.blocks, weights, start=start, **limits)
        return result.scaled(1 / self.unit)

    def at(self, weights: Weights) -> BlocksPoint:
        """The dual at these weights."""
        return self.blocks.at(np.concatenate([weights.p, weights.q]))

    def with_columns_divided(self, divisor: Array) -> "Orbits":
        """The same with the queries' column of every orbit divided by a number."""
        return replace(self, cell_scale=self.cell_scale * divisor)
