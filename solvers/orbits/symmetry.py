"""The symmetry of a problem, found before anything of the size of its orbits is built."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from solvers.orbits.layout import Layout
from solvers.orbits.products import Group, products
from solvers.orbits.several import Orbits
from solvers.problem import Problem
from workloads.operators import Array

LARGEST_NUMBER = 1e300
"""Most cells of a domain; beyond, their number is no float."""

LARGEST_CHOICES = 20_000
"""Most choices of indicators and contrasts that are listed."""


@dataclass(frozen=True, eq=False)
class Symmetry(Layout):
    """What is alike in a problem.

    Attributes
    ----------
    group_targets : list of numpy.ndarray
        Of each group, by axes.
    """

    group_targets: list[Array]

    @property
    def orbit_count(self) -> int:
        """Number of orbits of cells."""
        return prod(self.cell_shape)

    @property
    def coordinates(self) -> int:
        """The most of them, or of combinations, that queries see (`solvers.problem.factors`)."""
        shape = self.cell_shape
        seen = sum(prod(shape[axis] for axis in group.axes) for group in self.products.groups)
        return min(seen, self.orbit_count)

    @property
    def orbits(self) -> Orbits:
        """The problem on them."""
        targets = np.concatenate([self._of_orbits(*pair) for pair in self._pairs])
        ones = np.broadcast_to(1.0, self.orbit_count)
        return Orbits(self.problem, self.products, self.attributes, targets, ones)

    @property
    def told_apart(self) -> dict[int, list[int]]:
        """For each group the attributes whose values only its targets distinguish."""
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


def symmetry(problem: Problem) -> Symmetry | None:
    """The symmetry of a problem; None if its queries are not products."""
    read = products(problem.workload.operator)
    if read is None:
        return None
    targets = read.targets(problem.workload, problem.targets)
    return Symmetry(problem, read, read.attributes(targets), targets)


def orbits(problem: Problem) -> Orbits | None:
    """The problem on its orbits; None if its queries are not products."""
    classes = symmetry(problem)
    return None if classes is None else classes.orbits
