"""Drawing the errors of all queries, without the domain.

For each choice of contrasts a normal table over the values of the classes concerned, one for
each row of the part's strategy, is made to sum to zero along each of them: that is standard
normal on the contrasts. The part's L turns the rows of the strategy into queries; along the
attributes of which the sums of a class are meant, all values of the class get the same error.
Floating-point draws are for experiments: a production release needs an exact sampler.
"""

from collections.abc import Sequence

import numpy as np

from solvers.factorisation import Factorisation
from solvers.orbits.structure import INDICATORS, Component, Orbits, Part
from workloads.operators import Array


def draw_errors(
    orbits: Orbits, parts: Sequence[Factorisation], n: int, rng: np.random.Generator
) -> Array:
    """Draw n vectors of the errors of all queries.

    Parameters
    ----------
    orbits : Orbits
        Cells and queries that are alike; the queries are listed.
    parts : sequence of Factorisation
        Of each of its parts.
    n : int
        How many.
    rng : numpy.random.Generator
        The source of randomness.

    Returns
    -------
    numpy.ndarray, shape (n, m)
    """
    groups = orbits.products.groups
    errors = [np.zeros((*group.shape(orbits.products.sizes), n)) for group in groups]
    for part, found in zip(orbits.parts, parts, strict=True):
        for component in part.components:
            _add(errors, orbits, part, component, found, n, rng)
    return np.concatenate([one.reshape(-1, n) for one in errors]).T


def _add(
    errors: list[Array],
    orbits: Orbits,
    part: Part,
    component: Component,
    found: Factorisation,
    n: int,
    rng: np.random.Generator,
) -> None:
    chosen = [axis for axis, k in enumerate(component.choice) if k != INDICATORS]
    members = {axis: orbits.attributes[axis].members(component.choice[axis]) for axis in chosen}
    shape = [members[axis].size for axis in chosen]
    table = rng.standard_normal((found.decoder.shape[1], *shape, n))
    for axis in range(len(shape)):
        table -= table.mean(axis=1 + axis, keepdims=True)
    table *= np.sqrt(np.prod(shape) / part.rank)
    answers = found.decoder.apply(table.reshape(len(table), -1)).reshape(-1, *shape, n)
    starts = np.cumsum([0, *orbits.group_sizes])
    for at in part.groups:
        group = orbits.products.groups[at]
        own = answers[(part.rows >= starts[at]) & (part.rows < starts[at + 1])]
        rest = [axis for axis in group.axes if axis not in members]
        sizes = [
            size
            for axis, size in zip(group.axes, orbits.group_shape(group), strict=True)
            if axis not in members
        ]
        spread = own.reshape(*sizes, *shape, n)
        along = [
            orbits.attributes[axis].of if axis in group.kept else np.arange(size)
            for axis, size in zip(rest, sizes, strict=True)
        ]
        spread = spread[np.ix_(*along)] if along else spread
        order = [(rest + chosen).index(axis) for axis in group.axes]
        target = np.ix_(
            *(
                members[axis] if axis in members else np.arange(size)
                for axis, size in zip(group.axes, group.shape(orbits.products.sizes), strict=True)
            )
        )
        errors[at][target] += spread.transpose([*order, len(order)])
