"""The base class of problems on orbits, and the forms of mechanisms that solve them."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar, runtime_checkable

import numpy as np

from solvers.dual.iteration import Deadline, Stopping
from solvers.dual.newton_system import Rows
from solvers.dual.predictor_corrector import AnyPoint, Optimum
from solvers.dual.programs import Weights
from solvers.forms.orbits.products import Index, Layout, Span
from solvers.forms.reduction import ObstacleError, Reduction
from solvers.mechanism import Mechanism, OnMatrix, all_mechanisms
from solvers.noise.factorisation import Factorisation
from solvers.noise.noise import GaussianNoise
from solvers.problem import Problem, memory
from solvers.solution import Solution
from workloads.operators import Array
from workloads.workload import LARGEST_LISTED

LEAST_FLOPS = 1e7
"""Work of finding the orbits and of calls, which dominates on small problems."""


class NoiseOnPart(Protocol):
    """Noise on one of the parts into which the dual splits."""

    @property
    def query_variances(self) -> Array:
        """The part's share of the variance of each of its orbits of queries."""

    @property
    def privacy_profile(self) -> Array:
        """The part's share of the profile of each of its orbits of cells."""

    def divided(self, scale: float) -> Self:
        """Return the noise divided by a number."""

    def with_cells_scaled(self, factors: Array) -> Self:
        """Return the noise for queries with each orbit's columns multiplied by its factor."""


PartNoise = TypeVar("PartNoise", bound=NoiseOnPart)


@dataclass(frozen=True, eq=False)
class Orbits(Reduction, Generic[AnyPoint, PartNoise]):
    """A problem on the orbits of its equivalent cells and the orbits of its equivalent queries.

    There are n orbits of cells and r orbits of queries. The dual splits into parts, each with its
    own rows and columns: orbits of queries and of cells. `AnyPoint` is the type of a point of the
    dual, `PartNoise` the type of the noise on a part.

    Attributes
    ----------
    forms : tuple of type
        The protocols of mechanisms that solve problems on orbits of this kind.
    finest : float
        The gap to which an optimum must be solved for `refine`.
    """

    forms: ClassVar[tuple[type, ...]]
    finest: ClassVar[float]

    problem: Problem

    @property
    @abstractmethod
    def targets(self) -> Array:
        """The variance bound of the queries in each orbit, shape (r,)."""

    @property
    @abstractmethod
    def places(self) -> Sequence[tuple[Rows, Rows]]:
        """For each part of the dual, the indices of its orbits of queries and of cells."""

    @property
    @abstractmethod
    def layout(self) -> Layout:
        """The orbits of cells and of queries, which drawing errors needs."""

    @abstractmethod
    def optimum(
        self, stopping: Stopping, start: Weights | None = None, total_error_weight: float = 0.0
    ) -> Optimum[AnyPoint]:
        """Compute the least Δ² at which every target can be met, from weights of the orbits.

        With a weight of total error, compute the least hybrid objective (`programs.hybrid`), in
        which the total variance has this weight.
        """

    @abstractmethod
    def least_total_error(self, weights: Array, stopping: Stopping) -> Optimum[AnyPoint]:
        """Compute the least sum of the variance ratios of all orbits with these weights."""

    @abstractmethod
    def at(self, weights: Weights) -> AnyPoint:
        """Evaluate the dual's function f at weights of the orbits."""

    @abstractmethod
    def weights_at(self, point: AnyPoint) -> Weights:
        """Return the weights of all cells and queries at a point of the dual, as by `spread`."""

    @abstractmethod
    def mean_inverse(self, point: AnyPoint) -> float:
        """Sum the inverse squares of B's singular values, per cell, at a point of the dual.

        B is the strategy of the inner solution, in the units of equal weights of all cells, and f
        is then the sum of the squares: every singular value λ of a part stands for ν of them, each
        of λ/ν.
        """

    @abstractmethod
    def inner(self, mechanism: str, point: AnyPoint) -> tuple[PartNoise, ...]:
        """Return the unscaled inner solution at a point of the dual, on each part.

        Raises
        ------
        SolveFailedError
            If the product of the solution's factors is not the query matrix.
        """

    @abstractmethod
    def refine(
        self, mechanism: str, result: Optimum[AnyPoint], tol: float, deadline: Deadline
    ) -> tuple[tuple[PartNoise, ...], int, Optimum[AnyPoint]]:
        """Find the optimum that is least in the refined ordering (`solvers.dual.refinement`).

        Returns the noise on each part, the number of levels solved, and ``result`` as converged if
        every level is within ``tol``. ``result`` must be within `finest`.
        """

    @abstractmethod
    def on_cells(self, mechanism: str) -> tuple[PartNoise, ...]:
        """Return noise of unit variance on every cell, on each part."""

    @abstractmethod
    def on_queries(self, deviation: float) -> tuple[PartNoise, ...]:
        """Return noise of standard deviation ``deviation`` on every query, on each part."""

    @abstractmethod
    def spans(self, noises: Sequence[PartNoise]) -> Iterator[tuple[Span, Factorisation]]:
        """Yield sets of equivalent contrasts, with the factorisation on one contrast of each."""

    @abstractmethod
    def with_columns_divided(self, divisor: Array) -> Self:
        """Return a copy with the queries' columns divided by one number for each orbit of cells."""

    def present(self, noise: GaussianNoise, parts: tuple[PartNoise, ...]) -> GaussianNoise:
        """Return the noise as the user gets it: ``noise`` itself, or what describes it better."""
        return noise

    @property
    def cells(self) -> Array:
        """n_o: number of cells of each orbit, shape (n,); infinite if too large for a float."""
        return self.layout.cells

    @property
    def copies(self) -> Array:
        """N_r: number of queries of each orbit, shape (r,); infinite if too large for a float."""
        return self.layout.copies

    @property
    def ordered_axes(self) -> Sequence[int]:
        """The attributes for which some product's factor is neither the total nor the identity."""
        return self.layout.products.ordered_axes

    @property
    def cell_shares(self) -> Array:
        """Every n_o divided by the largest n_o."""
        return np.asarray(self.cells / self.cells.max())

    @property
    def log_copies(self) -> Array:
        """Natural logarithm of every N_r."""
        return np.asarray(np.log(self.copies))

    @property
    def copy_shares(self) -> Array:
        """Every N_r divided by the largest N_r."""
        return np.asarray(np.exp(self.log_copies - self.log_copies.max()))

    @property
    def orbit_of_cell(self) -> Index:
        """The index of the orbit of every cell, shape (d,)."""
        return self.layout.orbit_of_cell

    @property
    def orbit_of_query(self) -> Index:
        """The index of the orbit of every query, shape (m,)."""
        return self.layout.orbit_of_query

    def per_target(self, values: Array) -> Array:
        """For each target, the largest value of the orbits of queries to which it applies."""
        parts = np.split(values, self.layout.starts[1:-1])
        if self.problem.targets.size == len(parts):
            return np.array([part.max() for part in parts])
        largest = []
        for group, part in zip(self.layout.products.groups, parts, strict=True):
            kept = tuple(i for i, axis in enumerate(group.axes) if axis in group.kept)
            shape = self.layout.group_shape(group)
            largest.append(part.reshape(shape).max(axis=kept).ravel())
        return np.concatenate(largest)

    def per_query(self, values: Array) -> Array:
        """Copy values of orbits to all queries in the orbits, shape (m,).

        If the workload is not listed, return one value for each target instead: the largest value
        of the orbits to which the target applies.
        """
        if self.problem.workload.listed:
            return values[self.orbit_of_query]
        return self.per_target(values)

    def per_cell(self, values: Array) -> Array:
        """Copy values of orbits to all their cells, shape (d,); unchanged above 10^7 cells."""
        return values if self.problem.workload.d > LARGEST_LISTED else values[self.orbit_of_cell]

    def of_cells(self, values: Array) -> Array | None:
        """Convert values of all cells to values of the orbits of cells.

        Values that are already values of orbits are returned unchanged. None if cells of the same
        orbit have different values.
        """
        if values.size == self.cells.size:
            return values
        orbit, of_orbits = self.orbit_of_cell, np.empty(self.cells.size)
        of_orbits[orbit] = values
        return of_orbits if np.array_equal(of_orbits[orbit], values) else None

    def spread(self, weights: Weights) -> Weights:
        """Divide the weights of orbits among their cells and queries.

        If there are more than 10^7 cells or queries, the weights of orbits are returned.
        """
        workload = self.problem.workload
        if not workload.listed or workload.d > LARGEST_LISTED:
            return weights
        return Weights(
            self.per_cell(weights.p / self.cells), self.per_query(weights.q / self.copies)
        )

    def collect(self, weights: Weights) -> Weights:
        """Convert the weights of a similar problem to weights of this problem's orbits.

        If the numbers of cells and queries agree, the weights are summed over each orbit;
        otherwise they are interpolated.
        """
        workload, n, r = self.problem.workload, self.cells.size, self.targets.size
        if weights.p.size != workload.d or not (
            weights.q.size == workload.target_count == workload.m
        ):
            return weights.resized(n, r)
        p = np.bincount(self.orbit_of_cell, weights.p, minlength=n)
        q = np.bincount(self.orbit_of_query, weights.q, minlength=r)
        return Weights(p.astype(np.float64), q.astype(np.float64))

    def check(self, mechanism: Mechanism) -> None:
        """Check that the mechanism has a form on these orbits with its options, and the memory."""
        if isinstance(mechanism, ChecksOrbits):
            mechanism.check_orbits(self)
        if not isinstance(mechanism, self.forms):
            if not isinstance(mechanism, OnMatrix):
                raise ObstacleError(mechanism.without_matrix)
            named = all_mechanisms().items()
            others = ", ".join(name for name, other in named if issubclass(other, self.forms))
            raise ObstacleError(f"it has no form on orbits; there is one for {others}")
        short = memory.shortage(self.work(mechanism).bytes)
        if short:
            raise ObstacleError(f"on its orbits it takes {short}")

    def lower_bound(self, stopping: Stopping) -> float:
        """Return the bound of the dual on the orbits."""
        return self.optimum(stopping).lower


AnyOrbits = Orbits[Any, Any]
"""Orbits of either kind. What one method returns is what the other methods of the object take."""


@runtime_checkable
class OnOrbits(Protocol):
    """A mechanism that solves problems on orbits of either kind."""

    def on_orbits(self, orbits: AnyOrbits) -> Solution:
        """Solve the problem, with the results of the query matrix."""


@runtime_checkable
class ChecksOrbits(Protocol):
    """A mechanism that cannot solve every problem on orbits."""

    def check_orbits(self, orbits: AnyOrbits) -> None:
        """Raise `ObstacleError` if the options need the query matrix instead of these orbits."""
