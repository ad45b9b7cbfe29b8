"""Problem 4 on blocks that share their weights: a covariance for each, profiles and ratios summed.

Each covariance has its own basis that follows it (`solvers.soft_max.adapted_basis`); a direction is
one vector, that of one block after another.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from solvers.dual.matrix_blocks import MatrixBlocks
from solvers.dual.programs import Weights
from solvers.soft_max import adapted_basis
from solvers.soft_max.adapted_basis import AdaptedChart
from solvers.soft_max.objective import ChartModel, SoftMax
from workloads.operators import Array


@dataclass(frozen=True, eq=False)
class Iterate:
    """A covariance for each block."""

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
        weights = objective.weights(self)
        charts = tuple(
            part.chart(weights.p[block.columns])
            for part, block in zip(self.parts, self.blocks.blocks, strict=True)
        )
        return ChartModel(objective, self, weights, _Charts(self.blocks, charts))


def first(blocks: MatrixBlocks, start: Weights) -> Iterate:
    """The inner solution at dual weights, its largest profile entry and largest ratio made equal.

    Raises
    ------
    scipy.linalg.LinAlgError
        If a covariance is not positive definite.
    """
    point = blocks.at(np.concatenate([start.p, start.q]))
    parts = [
        adapted_basis.from_covariance(block.factors, spectrum.covariance())
        for block, spectrum in zip(blocks.blocks, point.spectra, strict=True)
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
        forms = [chart.forms(own) for chart, own in pairs]
        of_profile = self.blocks.column_sums([columns for columns, _ in forms])
        return of_profile, self.blocks.row_sums([rows for _, rows in forms])

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


def _joined(matrices: Sequence[Array]) -> Array:
    return np.concatenate([matrix.ravel() for matrix in matrices])
