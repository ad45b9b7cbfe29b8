"""Noise on the cells of the ordered attributes, copied to all values of the other attributes."""

from dataclasses import replace
from functools import partial
from math import prod

import numpy as np

from solvers.forms.orbits.orbit_noise import Expanded, OrbitsNoise
from solvers.forms.orbits.orbit_problem import ProductOrbits
from solvers.forms.orbits.orbits import AnyOrbits
from solvers.forms.reduction import ObstacleError
from solvers.noise.factorisation import Factorisation, InBasis, identity, scale_of
from solvers.problem import Problem
from solvers.solution import Solution
from workloads import Workload
from workloads.operators import Array, Composed, Explicit, Stacked, dense


def check_ordered(orbits: AnyOrbits) -> None:
    """Raise ObstacleError unless there are ordered cells, whose noise can be copied."""
    if not orbits.ordered_axes:
        raise ObstacleError("it needs an ordered attribute, and no attribute is ordered")


def over_ordered_cells(orbits: ProductOrbits) -> Problem:
    """Return the problem on the cells of the ordered attributes alone, whose noise is then copied.

    There is one copy for each combination of the other attributes' values. A query that sums over s
    copies has s times the variance that it has on one copy, so its target is divided by s. Queries
    that differ only in the copies over which they sum become one query with the least target.
    """
    operators, targets = [], []
    sizes, axes = orbits.products.sizes, orbits.ordered_axes
    parts = np.split(orbits.targets, orbits.layout.starts[1:-1])
    for group, part in zip(orbits.products.groups, parts, strict=True):
        others = tuple(i for i, axis in enumerate(group.axes) if axis not in axes)
        least = part.reshape(orbits.layout.group_shape(group)).min(axis=others)
        copies = prod(n for i, n in enumerate(sizes) if i not in group.axes and i not in axes)
        targets.append(least.ravel() / copies)
        operators.append(orbits.products.product([group.factor(i, sizes[i]) for i in axes]))
    return Problem(Workload("ordered cells", Stacked(tuple(operators))), np.concatenate(targets))


def in_copies(solution: Solution, orbits: ProductOrbits) -> Solution:
    """Return a solution over the ordered cells, copied to all values of the other attributes.

    Parameters
    ----------
    solution : Solution
        A solution of `over_ordered_cells`, whose strategy is square and has full rank.
    """
    assert isinstance(solution.noise, Factorisation)
    # B of one copy; all copies together are B ⊗ I, with the cells in the order of the orbits
    strategy = dense(solution.noise.right)
    apart = np.eye(orbits.cells.size // strategy.shape[1])
    inverse = np.linalg.inv(strategy)
    # the index that every orbit has if the ordered attributes come first
    shape, order = orbits.layout.cell_shape, [*orbits.ordered_axes]
    order += [axis for axis in range(len(shape)) if axis not in order]
    numbers = np.arange(prod(shape)).reshape([shape[axis] for axis in order])
    along = numbers.transpose(np.argsort(order)).ravel()
    whole, back = (np.kron(matrix, apart)[np.ix_(along, along)] for matrix in (strategy, inverse))
    parts, idle = [], np.square(whole).sum(axis=0)
    # B and L on the contrasts of each part; what B spends beyond all parts is idle
    for part in orbits.parts:
        roots = np.sqrt(part.rank / orbits.cells[part.columns])
        of_part = np.ix_(part.columns, part.columns)
        operator, left = part.problem.workload.operator, back[of_part] / roots[:, None]
        right = Explicit(whole[of_part] * roots)
        basis = InBasis(identity(roots.size), operator, left)
        parts.append(Factorisation(Composed(operator, left), right, basis))
        idle[part.columns] -= right.squared_column_norms()
    unscaled = OrbitsNoise(orbits, tuple(parts), np.maximum(idle, 0.0))
    scale = scale_of(solution.mechanism, unscaled.orbit_variances, orbits.targets)
    met = unscaled.met(solution.mechanism)
    noise = replace(met, written_out=partial(_on_cells, back / scale))
    notes = {**solution.notes, "ordered_cells": strategy.shape[1]}
    return Solution(solution.mechanism, orbits.problem, noise, notes=notes)


def _on_cells(root: Array, noise: OrbitsNoise) -> Expanded:
    """Write out the noise on all cells; ``root @ root.T`` is its covariance on the orbits."""
    orbits = noise.orbits
    attributes = orbits.layout.attributes
    sizes = [attribute.of.size for attribute in attributes]
    values = np.indices(sizes).reshape(len(sizes), -1)
    alike = np.ones((values.shape[1], values.shape[1]), dtype=bool)
    for attribute, value in zip(attributes, values, strict=True):
        if attribute.sizes.max() > 1:  # noise in different copies of the orbits is independent
            alike &= value[:, None] == value
    orbit = orbits.orbit_of_cell
    covariance = np.where(alike, (root @ root.T)[np.ix_(orbit, orbit)], 0.0)
    return Expanded(np.eye(len(covariance)), orbits.problem.workload.matrix, covariance)
