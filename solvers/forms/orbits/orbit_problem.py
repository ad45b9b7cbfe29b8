"""A problem on its orbits, with its targets and its dual.

The problem's symmetry is found before any array over its orbits is built.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from solvers.dual import programs as dual
from solvers.dual.interior_point import Progress
from solvers.dual.matrix_blocks import Block, BlocksPoint, MatrixBlocks
from solvers.dual.programs import Weights
from solvers.forms.orbits.dual_blocks import Part, Span, dual_blocks
from solvers.forms.orbits.layout import Layout
from solvers.forms.orbits.products import Group, products
from solvers.noise.factorisation import Factorisation
from solvers.problem import Problem
from workloads.operators import Array

LARGEST_NUMBER = 1e300
"""Largest number of cells of a domain, so that the number fits into a float."""

LARGEST_CHOICES = 20_000
"""Largest number of listed choices of indicators and contrasts."""


@dataclass(frozen=True, eq=False)
class Orbits(Layout):
    """A problem on the orbits of its cells and queries.

    Attributes
    ----------
    group_targets : list of numpy.ndarray
        Targets of each group, one array axis for each of `Group.axes`.
    cell_scale : numpy.ndarray, shape (n,), or float
        Divisors of the queries' columns: 1 unless the profile has personal bounds.
    """

    group_targets: list[Array]
    cell_scale: Array | float = 1.0

    finest = 1e-11

    @cached_property
    def targets(self) -> Array:
        """The variance bound of every orbit of queries, group by group, shape (r,)."""
        return np.concatenate([self._of_orbits(*pair) for pair in self._pairs])

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The matrices of the dual."""
        return tuple(dual_blocks(self, self.targets, self.cell_scale))

    @property
    def layout(self) -> Layout:
        """The layout of the cells and queries: this problem itself."""
        return self

    @property
    def matrix_count(self) -> int:
        """Number of matrices of the dual."""
        return len(self.parts)

    def spans(self, parts: Sequence[Any]) -> Iterator[tuple[Span, Factorisation]]:
        """Each part's span, paired with its factorisation."""
        return zip(self.parts, parts, strict=True)

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
        return dual.optimum(self.blocks, start=start or self.start, **limits)

    def hybrid(self, weight: float, *, start: Weights, **limits: Any) -> Progress[BlocksPoint]:
        """The least objective with a weight on the total variance (`dual.hybrid`)."""
        weights = weight * self.targets * self.copies
        return dual.hybrid(self.blocks, weights, start=start, **limits)

    def least_total_error(self, weights: Array, **limits: Any) -> Progress[BlocksPoint]:
        """The least weighted sum of variances over targets (`dual.least_total_error`)."""
        return dual.least_total_error(self.blocks, weights, start=self.start.p, **limits)

    def at(self, weights: Weights) -> BlocksPoint:
        """The dual at these weights."""
        return self.blocks.at(np.concatenate([weights.p, weights.q]))

    def with_columns_divided(self, divisor: Array) -> "Orbits":
        """A copy with the queries' column of every orbit divided by a number."""
        return replace(self, cell_scale=self.cell_scale * divisor)

    @property
    def orbit_count(self) -> int:
        """Number of orbits of cells."""
        return prod(self.cell_shape)

    @property
    def coordinates(self) -> int:
        """An upper bound on the number of coordinates in use (`solvers.problem.factors`)."""
        shape = self.cell_shape
        seen = sum(prod(shape[axis] for axis in group.axes) for group in self.products.groups)
        return min(seen, self.orbit_count)

    @property
    def distinguished_by_targets(self) -> dict[int, list[int]]:
        """For each group, the attributes whose values only its targets distinguish."""
        by_class: dict[int, list[int]] = {}
        for at, (group, values) in enumerate(self._pairs):
            for i, axis in enumerate(group.axes):
                unordered = axis in group.kept and axis not in self.ordered_axes
                if unordered and np.ptp(values, axis=i).any():
                    by_class.setdefault(at, []).append(axis)
        return by_class

    @property
    def _pairs(self) -> Iterator[tuple[Group, Array]]:
        return zip(self.products.groups, self.group_targets, strict=True)

    def _of_orbits(self, group: Group, targets: Array) -> Array:
        """One target for each orbit of a group's queries."""
        if all(targets.shape[i] == 1 for i, axis in enumerate(group.axes) if axis in group.kept):
            return np.broadcast_to(targets, self.group_shape(group)).ravel()
        at = [
            self.attributes[axis].first if axis in group.kept else np.arange(targets.shape[i])
            for i, axis in enumerate(group.axes)
        ]
        return targets[np.ix_(*at)].ravel()


def orbit_problem(problem: Problem) -> Orbits | None:
    """The problem on its orbits; None if its queries are not products."""
    read = products(problem.workload.operator)
    if read is None:
        return None
    targets = read.targets(problem.workload, problem.targets)
    return Orbits(problem, read, read.attributes(targets), targets)
