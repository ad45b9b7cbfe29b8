"""Problem 4 on orbits: a covariance for each matrix of the dual, their profiles and ratios summed.

A profile entry stands for the cells of its orbit, a ratio for the queries of its own. Each
covariance has its own basis that follows it (`solvers.soft_max.adapted_basis`); a direction is one
vector, that of one matrix after another. Matrices that are numbers have one vector of variances v
(`solvers.orbits.single`), a step relative to it: the curvature of the profile is then the
diagonal 2/v, and Algorithms 1 to 3 are the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp

from solvers.dual.programs import Weights
from solvers.optimiser import MatrixBlocks, ScalarBlocks
from solvers.optimiser.scalar_classes import ScalarClasses
from solvers.orbits.drawing import AnyOrbits
from solvers.orbits.several import Orbits
from solvers.orbits.single import SingleOrbit
from solvers.soft_max import adapted_basis
from solvers.soft_max.adapted_basis import AdaptedChart
from solvers.soft_max.objective import ChartModel, SoftMax
from solvers.soft_max.objective import Iterate as AnyIterate
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
    def squared_norm(found: Weights) -> float:
        return orbits.at(Weights(found.p, found.q + omega)).nuclear_norm ** 2

    return SoftMaxProblem(
        _first(orbits.blocks, orbits.start),
        SoftMax(omega, orbits.log_copies, log_cells=np.log(orbits.cell_shares)),
        squared_norm,
        lambda end: [part.factor for part in cast(Iterate, end).parts],
        lambda found: found,
    )


def _of_scalars(orbits: SingleOrbit, blocks: ScalarClasses) -> SoftMaxProblem:
    """On classes of alike subsets and marginals."""
    counts = np.zeros(blocks.smaller.offset.size)
    counts[blocks.row_class] = orbits.log_copies
    counts += np.log(np.bincount(blocks.row_class))
    return SoftMaxProblem(
        first_of_scalars(blocks.smaller, counts),
        SoftMax(blocks.smaller.offset, counts),
        lambda found: blocks.smaller.lower_bound(found.q),
        lambda end: [np.sqrt(blocks.variables(cast(ScalarIterate, end).v))],
        lambda found: Weights(found.p, blocks.weights(found.q)),
    )


@dataclass(frozen=True, eq=False)
class Iterate:
    """A covariance for each block.

    Attributes
    ----------
    blocks : MatrixBlocks
        The matrices.
    parts : tuple of adapted_basis.Iterate
        Their covariances.
    """

    blocks: MatrixBlocks
    parts: tuple[adapted_basis.Iterate, ...]

    @cached_property
    def profile(self) -> Array:
        """One entry for each orbit of cells."""
        return self.blocks.column_sums([part.profile for part in self.parts])

    @cached_property
    def ratios(self) -> Array:
        """One for each orbit of queries."""
        return self.blocks.row_sums([part.ratios for part in self.parts])

    def model(self, objective: SoftMax) -> ChartModel:
        """F to second order about these covariances."""
        found = objective.weights(self)
        charts = tuple(
            part.chart(found.p[block.columns])
            for part, block in zip(self.parts, self.blocks.blocks, strict=True)
        )
        return ChartModel(objective, self, found, _Charts(self.blocks, charts))


def _first(blocks: MatrixBlocks, start: Weights) -> Iterate:
    """The inner solution at dual weights, its largest profile entry and largest ratio made equal.

    Raises
    ------
    scipy.linalg.LinAlgError
        If a covariance is not positive definite.
    """
    point = blocks.at(np.concatenate([start.p, start.q]))
    parts = [
        adapted_basis.from_covariance(block.factors, found.covariance())
        for block, found in zip(blocks.blocks, point.spectra, strict=True)
    ]
    plain = Iterate(blocks, tuple(parts))
    scale = float(np.sqrt(plain.profile.max() / plain.ratios.max()))
    return Iterate(blocks, tuple(adapted_basis.scaled(part, scale) for part in parts))


@dataclass(frozen=True, eq=False)
class _Charts:
    """The charts of all blocks."""

    blocks: MatrixBlocks
    charts: tuple[AdaptedChart, ...]

    @cached_property
    def curvature(self) -> Array:
        return _joined([chart.curvature for chart in self.charts])

    def damping(self, gradient: Array) -> Array:
        pairs = zip(self.charts, self._split(gradient), strict=True)
        return _joined([chart.damping(own) for chart, own in pairs])

    def forms(self, along: Array) -> tuple[Array, Array]:
        pairs = zip(self.charts, self._split(along), strict=True)
        found = [chart.forms(own) for chart, own in pairs]
        of_profile = self.blocks.column_sums([one for one, _ in found])
        return of_profile, self.blocks.row_sums([one for _, one in found])

    def weighted(self, of_profile: Array, of_ratios: Array) -> Array:
        return _joined(
            [
                chart.weighted(of_profile[block.columns], of_ratios[block.rows])
                for chart, block in zip(self.charts, self.blocks.blocks, strict=True)
            ]
        )

    def ray(self, along: Array) -> Callable[[float], Iterate]:
        pairs = zip(self.charts, self._split(along), strict=True)
        rays = [chart.ray(own) for chart, own in pairs]
        return lambda length: Iterate(self.blocks, tuple(ray(length) for ray in rays))

    def _split(self, along: Array) -> list[Array]:
        sizes = [len(chart.mean) for chart in self.charts]
        parts = np.split(along, np.cumsum([size**2 for size in sizes])[:-1])
        return [part.reshape(size, size) for part, size in zip(parts, sizes, strict=True)]


@dataclass(frozen=True, eq=False)
class ScalarIterate:
    """A variance for each block of size one.

    Attributes
    ----------
    blocks : ScalarBlocks
        The numbers.
    v : numpy.ndarray, shape (blocks,)
        Positive.
    """

    blocks: ScalarBlocks
    v: Array

    @cached_property
    def profile(self) -> Array:
        """The one entry that all cells have, shape (1,)."""
        return np.array([(1 / self.v).sum()])

    @cached_property
    def ratios(self) -> Array:
        """One for each orbit of queries, or for each class of them."""
        return self.blocks.ratios(self.v)

    def model(self, objective: SoftMax) -> ChartModel:
        """F to second order about these variances."""
        return ChartModel(objective, self, objective.weights(self), _ScalarChart(self))


def first_of_scalars(blocks: ScalarBlocks, log_counts: Array) -> ScalarIterate:
    """The inner solution at equal weights of all queries, its profile and largest ratio equal."""
    v = blocks.inner(np.exp(log_counts - np.logaddexp.reduce(log_counts)))
    scale = float(np.sqrt((1 / v).sum() / blocks.ratios(v).max()))
    return ScalarIterate(blocks, scale * v)


class _ScalarChart:
    """Steps relative to v."""

    def __init__(self, at: ScalarIterate) -> None:
        self._at = at
        self._matrix = sp.csr_array(at.blocks.matrix @ sp.diags_array(at.v))
        self.curvature: Array = 2 / at.v

    def damping(self, gradient: Array) -> Array:
        return 2 * np.maximum(gradient, 0.0)

    def forms(self, along: Array) -> tuple[Array, Array]:
        of_profile = np.array([float((along / self._at.v).sum())])
        return of_profile, np.asarray(self._matrix @ along)

    def weighted(self, of_profile: Array, of_ratios: Array) -> Array:
        return np.asarray(of_profile / self._at.v + self._matrix.T @ of_ratios)

    def ray(self, along: Array) -> Callable[[float], ScalarIterate]:
        def moved(length: float) -> ScalarIterate:
            v = self._at.v * (1 + length * along)
            if not v.min() > 0:
                raise sla.LinAlgError("a variance is not positive")
            return ScalarIterate(self._at.blocks, v)

        return moved


def _joined(matrices: Sequence[Array]) -> Array:
    return np.concatenate([matrix.ravel() for matrix in matrices])
