"""Drawing the errors of all queries, without the domain.

For each choice of contrasts a normal table over the values of the classes concerned, one for
each row of the part's strategy, is made to sum to zero along each of them: that is standard
normal on the contrasts. The part's L turns the rows of the strategy into queries; along the
attributes of which the sums of a class are meant, all values of the class get the same error.
Floating-point draws are for experiments: a production release needs an exact sampler.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from solvers.gaussian.factorisation import Factorisation
from solvers.orbits.contrasts import Component
from solvers.orbits.parts import Part, Span
from solvers.orbits.products import Group
from solvers.orbits.several import Orbits
from solvers.orbits.single import SingleOrbit
from solvers.orbits.subsets import Subsets
from workloads.operators import Array

AnyOrbits = Orbits | SingleOrbit
AnyPart = Part | Subsets


def draw_errors(orbits: AnyOrbits, parts: Sequence[Any], n: int, rng: np.random.Generator) -> Array:
    """Draw n vectors of the errors of all queries.

    Parameters
    ----------
    orbits : Orbits or SingleOrbit
        Cells and queries that are alike; the queries are listed.
    parts : sequence
        The noise of each of its parts.
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
    starts = np.cumsum([0, *orbits.group_sizes])
    for span, found in orbits.spans(parts):
        bounds = np.searchsorted(span.rows, np.append(starts[list(span.groups)], starts[-1]))
        for component in span.components:
            answers = _answers(orbits, span, component, found, n, rng)
            for at, own in zip(span.groups, np.split(answers, bounds[1:-1]), strict=True):
                _add(errors[at], orbits, groups[at], component, own)
    return np.concatenate([one.reshape(-1, n) for one in errors]).T


def _answers(
    orbits: AnyOrbits,
    span: Span,
    component: Component,
    found: Factorisation,
    n: int,
    rng: np.random.Generator,
) -> Array:
    """Errors of the span's queries along a component, one for each value of its attributes."""
    chosen = component.chosen
    shape = [orbits.attributes[axis].members(component.choice[axis]).size for axis in chosen]
    table = rng.standard_normal((found.decoder.shape[1], *shape, n))
    joint = set(chain.from_iterable(component.joint))
    for axes in (*component.joint, *((axis,) for axis in chosen if axis not in joint)):
        table -= table.mean(axis=tuple(1 + chosen.index(axis) for axis in axes), keepdims=True)
    table *= np.sqrt(np.prod(shape) / span.rank)
    return found.decoder.apply(table.reshape(len(table), -1)).reshape(-1, *shape, n)


def _add(errors: Array, orbits: AnyOrbits, group: Group, component: Component, own: Array) -> None:
    """Add errors of a group's orbits along a component to those of all its queries."""
    chosen, n = component.chosen, own.shape[-1]
    members = {axis: orbits.attributes[axis].members(component.choice[axis]) for axis in chosen}
    rest = [axis for axis in group.axes if axis not in members]
    sizes = [
        size
        for axis, size in zip(group.axes, orbits.group_shape(group), strict=True)
        if axis not in members
    ]
    spread = own.reshape(*sizes, *own.shape[1:-1], n)
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
    errors[target] += spread.transpose([*order, len(order)])
