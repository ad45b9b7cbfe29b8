"""Problem 4 on orbits: a profile entry stands for the cells of an orbit, a ratio for queries."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from solvers.dual.programs import Weights
from solvers.dual.scalar_blocks import ScalarClasses
from solvers.orbits.noise import AnyOrbits
from solvers.orbits.several import Orbits
from solvers.orbits.single import SingleOrbit
from solvers.soft_max import blocks, scalars
from solvers.soft_max.objective import Iterate as AnyIterate
from solvers.soft_max.objective import SoftMax
from workloads.operators import Array


@dataclass(frozen=True, eq=False)
class SoftMaxProblem:
    """Problem 4 on orbits.

    Attributes
    ----------
    start : Iterate
        A covariance to begin with.
    plain : SoftMax
        What is minimised, at unit sharpness.
    squared_norm : callable
        The lower bound that weights of its profile and ratios prove.
    roots : callable
        Square roots of the covariances of all parts of the orbits, at an iterate.
    whole : callable
        The weights of all orbits, from those of its profile and ratios.
    """

    start: AnyIterate
    plain: SoftMax
    squared_norm: Callable[[Weights], float]
    roots: Callable[[AnyIterate], Sequence[Array]]
    whole: Callable[[Weights], Weights]


def soft_max_problem(orbits: AnyOrbits, omega: Array) -> SoftMaxProblem:
    """Problem 4, from weights of all variance ratios in the total.

    Raises
    ------
    scipy.linalg.LinAlgError
        If the first covariance is not positive definite.
    """
    if isinstance(orbits, SingleOrbit):
        return _of_scalars(orbits, orbits.blocks.with_offset(omega))
    return _of_matrices(orbits, omega)


def _of_matrices(orbits: Orbits, omega: Array) -> SoftMaxProblem:
    def squared_norm(weights: Weights) -> float:
        return orbits.at(Weights(weights.p, weights.q + omega)).nuclear_norm ** 2

    return SoftMaxProblem(
        blocks.first(orbits.blocks, orbits.start),
        SoftMax(omega, orbits.log_copies, log_cells=np.log(orbits.cell_shares)),
        squared_norm,
        lambda end: [part.factor for part in cast(blocks.Iterate, end).parts],
        lambda weights: weights,
    )


def _of_scalars(orbits: SingleOrbit, classes: ScalarClasses) -> SoftMaxProblem:
    """The problem on classes of equivalent subsets and marginals."""
    counts = np.zeros(classes.smaller.offset.size)
    counts[classes.row_class] = orbits.log_copies
    counts += np.log(np.bincount(classes.row_class))
    return SoftMaxProblem(
        scalars.first(classes.smaller, counts),
        SoftMax(classes.smaller.offset, counts),
        lambda weights: classes.smaller.lower_bound(weights.q),
        lambda end: [np.sqrt(classes.variables(cast(scalars.Iterate, end).v))],
        lambda weights: Weights(weights.p, classes.weights(weights.q)),
    )
