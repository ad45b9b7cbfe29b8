"""Drawing the errors of all queries, without the domain.

For each choice of contrasts a normal table over the values of the classes concerned, one for
each row of the part's strategy, is made to sum to zero along each of them: that is standard
normal on the contrasts. The part's L turns the rows of the strategy into queries; along the
attributes of which the sums of a class are meant, all values of the class get the same error.
Floating-point draws are for experiments: a production release needs an exact sampler.
"""

from collections.abc import Iterable
from itertools import chain

import numpy as np

from solvers.noise.factorisation import Factorisation
from solvers.orbits.contrasts import Component
from solvers.orbits.layout import Layout
from solvers.orbits.parts import Span
from solvers.orbits.products import Group
from workloads.operators import Array


def draw_errors(
    layout: Layout,
    spans: Iterable[tuple[Span, Factorisation]],
    n: int,
    rng: np.random.Generator,
) -> Array:
    """Draw n vectors of the errors of all queries.

    Parameters
    ----------
    spans : iterable of (Span, Factorisation)
        All of them, and the noise on each.

    Returns
    -------
    numpy.ndarray, shape (n, m)
    """
    groups = layout.products.groups
    errors = [np.zeros((*group.shape(layout.products.sizes), n)) for group in groups]
    starts = np.cumsum([0, *layout.group_sizes])
    for span, factors in spans:
        bounds = np.searchsorted(span.rows, np.append(starts[list(span.groups)], starts[-1]))
        for component in span.components:
            answers = _answers(layout, span, component, factors, n, rng)
            for at, own in zip(span.groups, np.split(answers, bounds[1:-1]), strict=True):
                _add(errors[at], layout, groups[at], component, own)
    return np.concatenate([array.reshape(-1, n) for array in errors]).T


def _answers(
    layout: Layout,
    span: Span,
    component: Component,
    factors: Factorisation,
    n: int,
    rng: np.random.Generator,
) -> Array:
    """Errors of the span's queries along a component, one for each value of its attributes."""
    chosen = component.chosen
    shape = [layout.attributes[axis].members(component.choice[axis]).size for axis in chosen]
    table = rng.standard_normal((factors.decoder.shape[1], *shape, n))
    joint = set(chain.from_iterable(component.joint))
    for axes in (*component.joint, *((axis,) for axis in chosen if axis not in joint)):
        table -= table.mean(axis=tuple(1 + chosen.index(axis) for axis in axes), keepdims=True)
    table *= np.sqrt(np.prod(shape) / span.rank)
    return factors.decoder.apply(table.reshape(len(table), -1)).reshape(-1, *shape, n)


def _add(errors: Array, layout: Layout, group: Group, component: Component, own: Array) -> None:
    """Add errors of a group's orbits along a component to those of all its queries."""
    chosen, n = component.chosen, own.shape[-1]
    members = {axis: layout.attributes[axis].members(component.choice[axis]) for axis in chosen}
    rest = [axis for axis in group.axes if axis not in members]
    sizes = [
        size
        for axis, size in zip(group.axes, layout.group_shape(group), strict=True)
        if axis not in members
    ]
    spread = own.reshape(*sizes, *own.shape[1:-1], n)
    along = [
        layout.attributes[axis].of if axis in group.kept else np.arange(size)
        for axis, size in zip(rest, sizes, strict=True)
    ]
    spread = spread[np.ix_(*along)] if along else spread
    order = [(rest + chosen).index(axis) for axis in group.axes]
    target = np.ix_(
        *(
            members[axis] if axis in members else np.arange(size)
            for axis, size in zip(group.axes, group.shape(layout.products.sizes), strict=True)
        )
    )
    errors[target] += spread.transpose([*order, len(order)])
