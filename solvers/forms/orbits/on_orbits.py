"""Unions of Kronecker products, including marginals, solved on orbits (`solvers.forms.orbits`).

This reduction applies to mechanisms that have the method ``on_orbits``.
"""

from math import prod
from typing import Protocol, runtime_checkable

import numpy as np

from solvers.dual.iteration import Stopping
from solvers.dual.scalar_blocks import LARGEST_FACTORISED
from solvers.forms.dense import planned
from solvers.forms.orbits.marginal_problem import LARGEST_CLOSURE, SingleOrbit, single_orbit
from solvers.forms.orbits.orbit_noise import AnyOrbits
from solvers.forms.orbits.orbit_problem import (
    LARGEST_CHOICES,
    LARGEST_NUMBER,
    orbit_problem,
)
from solvers.forms.orbits.products import choice_count
from solvers.forms.reduction import Obstacle, Reduction
from solvers.mechanism import Mechanism, Work, all_mechanisms
from solvers.problem import Problem, memory
from solvers.problem.factors import bytes_of_basis
from solvers.solution import Solution
from workloads.operators import Kronecker, Marginals, readable
from workloads.workload import LARGEST_LISTED

_LEAST_FLOPS = 1e7
_MATRICES = 8
"""Number of square matrices that a solve stores at once for each part."""
_BYTES_PER_PAIR = 300.0


@runtime_checkable
class OnOrbits(Protocol):
    """A mechanism that solves problems on orbits, with the results of the query matrix."""

    def on_orbits(self, orbits: AnyOrbits) -> Solution:
        """Solve the problem."""


@runtime_checkable
class Hindered(Protocol):
    """A mechanism that cannot solve every problem on orbits."""

    def hindrance_on_orbits(self, orbits: AnyOrbits) -> Obstacle:
        """The reason why a solve must use the query matrix instead; empty if there is none."""


def _accepts(problem: Problem) -> AnyOrbits | Obstacle | None:
    """Convert a problem to its orbits, or return an obstacle.

    There is an obstacle if no two cells are equivalent, or if there are too many orbits or choices
    of contrasts. None if the queries are not a union of products, or the domain is too large.
    """
    operator = problem.workload.operator
    if not isinstance(operator, Kronecker | Marginals):
        return None
    single = single_orbit(problem)
    if single is not None:
        return single
    unlisted = isinstance(operator, Marginals) and max(operator.sizes) > LARGEST_LISTED
    found = None if unlisted or problem.workload.d > LARGEST_NUMBER else orbit_problem(problem)
    if found is None:
        return None
    shape, groups = found.cell_shape, found.products.groups
    names = problem.workload.group_names or tuple(map(str, range(len(groups))))
    uneven = [
        name
        for name, group, targets in zip(names, groups, found.group_targets, strict=True)
        if any(
            axis in group.kept and axis not in found.ordered_axes and np.ptp(targets, axis=i).any()
            for i, axis in enumerate(group.axes)
        )
    ]
    apart = ""
    if uneven:
        some = f"{len(uneven)} of {len(groups)} groups, the first of them {uneven[0]!r},"
        apart = f"the targets within {some} differ from value to value"
    count = prod(shape)
    if count == problem.workload.d:
        because = apart or "every attribute is ordered, or has one value"
        return f"{because}, so no two cells are equivalent"
    # an upper bound on the number of coordinates in use (`solvers.problem.factors`)
    seen = sum(prod(shape[axis] for axis in group.axes) for group in groups)
    seen = min(seen, count)
    short = memory.shortage(8.0 * _MATRICES * seen**2 + bytes_of_basis(seen, count))
    if short is not None:
        because = f" ({apart})" if apart else ""
        return f"its {readable(count)} orbits of cells{because} take {short}"
    choices = choice_count(found.products, found.attributes)
    if choices > LARGEST_CHOICES:
        return (
            f"its attributes have {readable(choices)} subsets that some query keeps apart, more "
            f"than the limit of {LARGEST_CHOICES}; keep fewer attributes together"
        )
    return found


def _solve(mechanism: Mechanism, transformed: AnyOrbits) -> Solution:
    assert isinstance(mechanism, OnOrbits)
    return mechanism.on_orbits(transformed)


def _lower_bound(transformed: AnyOrbits, stopping: Stopping) -> float:
    return transformed.optimum(stopping).lower


def _work(mechanism: Mechanism, transformed: AnyOrbits) -> Work:
    if isinstance(transformed, SingleOrbit):
        # this estimate needs no arrays over the domain, however large it is
        pairs = transformed.pair_count
        dense = min(transformed.targets.size, LARGEST_FACTORISED) ** 2
        flops = _LEAST_FLOPS + mechanism.flops_per_pair * pairs
        return Work(flops=flops, bytes=_BYTES_PER_PAIR * pairs + 16.0 * dense)
    works = [planned(mechanism, part.problem) for part in transformed.parts]
    listed = [size for size in transformed.problem.workload.shape if size <= LARGEST_LISTED]
    flops = _LEAST_FLOPS + sum(work.flops for work in works)
    return Work(flops, 24.0 * sum(listed) + sum(work.bytes for work in works))


def _obstacle(mechanism: Mechanism, transformed: AnyOrbits) -> Obstacle:
    """Why the mechanism cannot solve this problem on its orbits; empty if it can."""
    if not isinstance(mechanism, OnOrbits):
        others = (name for name, other in all_mechanisms().items() if issubclass(other, OnOrbits))
        return f"it has no form on orbits; there is one for {', '.join(others)}"
    if isinstance(mechanism, Hindered):
        reason = mechanism.hindrance_on_orbits(transformed)
        if reason:
            return reason
    if isinstance(transformed, SingleOrbit) and transformed.pair_count > LARGEST_CLOSURE:
        marginals = transformed.operator.subsets
        return (
            f"the {len(marginals)} marginals, up to {max(map(len, marginals))} attributes each, "
            f"have {transformed.pair_count} subsets of attributes, more than the limit of "
            f"{LARGEST_CLOSURE}; ask for fewer marginals or for lower orders"
        )
    short = memory.shortage(_work(mechanism, transformed).bytes)
    return f"on its orbits it takes {short}" if short else ""


REDUCTION = Reduction(
    "orbits of equivalent cells and queries", 30, _accepts, _solve, _lower_bound, _work, _obstacle
)
