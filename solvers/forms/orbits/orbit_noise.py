"""The noise on all queries, assembled from the noise on each matrix of the dual, and its draws.

Errors are drawn without the domain. For each choice of contrasts, a normal table over the values of
the classes concerned, one for each row of the part's strategy, is made to sum to zero along each of
them, which makes it standard normal on the contrasts. The part's L turns rows of the strategy into
queries; along attributes that enter as sums over a class, all values of the class get the same
error. Floating-point draws are for experiments: a production release needs an exact sampler.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import scipy

from solvers.dual.interior_point import Progress
from solvers.dual.matrix_blocks import BlocksPoint
from solvers.dual.scalar_blocks import ScalarPoint
from solvers.errors import NotApplicableError
from solvers.forms.orbits.dual_blocks import Part, Span
from solvers.forms.orbits.layout import Layout
from solvers.forms.orbits.marginal_problem import SingleOrbit, SubsetNoise, Subsets
from solvers.forms.orbits.orbit_problem import Orbits
from solvers.forms.orbits.products import INDICATORS, Choice, Component, Group
from solvers.noise.factorisation import Factorisation, scale_of
from solvers.noise.release import LARGEST_EXPANDED, Coordinates, GaussianRelease, refuse_unlisted
from solvers.solution import Solution
from solvers.strategy import from_noise
from workloads.operators import Array, Indices, Matrix, dense, readable


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
        All spans, with the noise on each.

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
                _add_errors(errors[at], layout, groups[at], component, own)
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


def _add_errors(
    errors: Array, layout: Layout, group: Group, component: Component, own: Array
) -> None:
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


AnyOrbits = Orbits | SingleOrbit
AnyPart = Part | Subsets


@dataclass(frozen=True, eq=False)
class OrbitsNoise(GaussianRelease):
    """A Gaussian mechanism that does not change under relabelling within classes: a `Release`.

    Attributes
    ----------
    parts : tuple of Factorisation or SubsetNoise
        The noise on each part, W = L B: the squared row norms of all L sum to the variances, the
        squared column norms of all B to the privacy profile.
    idle : numpy.ndarray, shape (n,), or float
        The part of the profile that is spent on directions that no query sees.
    written_out : callable, optional
        Computes the coordinates in which the mechanism is defined; default: those of the parts.
    query_deviation : float, optional
        Standard deviation of the error of every query if these errors are independent.
    """

    orbits: AnyOrbits
    parts: tuple[Factorisation | SubsetNoise, ...]
    idle: Array | float = 0.0
    written_out: "Callable[[OrbitsNoise], Coordinates] | None" = None
    query_deviation: float | None = None

    @cached_property
    def orbit_variances(self) -> Array:
        """Variance of the queries of each orbit, shape (r,)."""
        total = np.zeros(self.orbits.targets.size)
        for part, factors in self._pairs:
            total[part.rows] += factors.query_variances
        return total

    @cached_property
    def orbit_profile(self) -> Array:
        """Squared personal privacy cost of the cells of each orbit, shape (n,)."""
        total = np.full(self.orbits.cells.size, self.idle)
        for part, factors in self._pairs:
            total[part.columns] += factors.privacy_profile
        return total

    @property
    def squared_privacy_cost(self) -> float:
        """Δ² when all targets are met."""
        return float(self.orbit_profile.max())

    @cached_property
    def query_variances(self) -> Array:
        """Variance of every query, shape (m,); above 10^7 queries the largest of each group."""
        return self.orbits.per_query(self.orbit_variances)

    @cached_property
    def privacy_profile(self) -> Array:
        """Squared cost of every cell, shape (d,); above 10^7 cells one entry for each orbit."""
        return self.orbits.per_cell(self.orbit_profile)

    @property
    def total_variance(self) -> float:
        """Sum of the query variances when the targets are just met; infinite beyond floats."""
        return float(self.orbits.copies @ self.orbit_variances)

    @property
    def fisher_information(self) -> float:
        """Trace of the Fisher information about x; infinite beyond floats."""
        return float(self.orbits.cells @ self.orbit_profile)

    @property
    def inverse_trace(self) -> float:
        """Trace of the pseudo-inverse of the Fisher information."""
        return sum(part.inverse_trace(factors) for part, factors in self._pairs)

    @cached_property
    def coordinates(self) -> Coordinates:
        """B, L and Σ, for at most `LARGEST_EXPANDED` cells and queries; Σ is block diagonal."""
        m, d = self.orbits.problem.workload.shape
        if not self.fits:
            raise NotApplicableError(
                f"the mechanism is not written out for {readable(m)} queries over "
                f"{readable(d)} cells (at most {LARGEST_EXPANDED} of either); use noise.parts, "
                "which has the covariance of every block, noise.orbit_variances and "
                "noise.orbit_profile"
            )
        return self.written_out(self) if self.written_out else expanded(self)

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """Draw n vectors of the errors of all queries, without the domain, shape (n, m)."""
        workload = self.orbits.problem.workload
        refuse_unlisted(workload.m)
        if self.query_deviation is not None:
            return rng.normal(scale=self.query_deviation, size=(n, workload.m))
        return draw_errors(self.orbits.layout, self.orbits.spans(self.parts), n, rng)

    def met(self, mechanism: str) -> "OrbitsNoise":
        """The same noise, scaled so that the targets are just met; raises as `scale_of`."""
        scale = scale_of(mechanism, self.orbit_variances, self.orbits.targets)
        parts = tuple(part.divided(scale) for part in self.parts)
        idle = self.idle * scale**2
        return OrbitsNoise(self.orbits, parts, idle, self.written_out, self.query_deviation)

    def on_cells_scaled(self, orbits: AnyOrbits, factors: Array) -> "OrbitsNoise":
        """The noise for queries with the columns of every orbit multiplied by a number."""
        parts = tuple(noise.with_cells_scaled(factors[part.columns]) for part, noise in self._pairs)
        return OrbitsNoise(orbits, parts)

    @property
    def _pairs(self) -> Iterator[tuple[AnyPart, Factorisation | SubsetNoise]]:
        parts: Sequence[AnyPart] = self.orbits.parts
        return zip(parts, self.parts, strict=True)

    @property
    def fits(self) -> bool:
        """Whether there are at most `LARGEST_EXPANDED` cells and queries."""
        return max(self.orbits.problem.workload.shape) <= LARGEST_EXPANDED


@dataclass(frozen=True, eq=False)
class Expanded:
    """A mechanism written out: `solvers.noise.release.Coordinates`."""

    basis: Array
    representation: Matrix
    covariance: Array


def expanded(noise: OrbitsNoise) -> Expanded:
    """The bases of all parts, each on its contrasts; rows of different contrasts are orthogonal."""
    bases, representations, covariances = [], [], []
    layout = noise.orbits.layout
    for part, factors in noise.orbits.spans(noise.parts):
        own = factors.coordinates
        rows = own.basis * _spread(layout, part)
        queries = dense(own.representation)
        for choice in chain.from_iterable(component.apart for component in part.components):
            span = orthonormal(layout, part, choice)
            contrasts, d = span.shape[1:]
            bases.append(np.einsum("ko,ovd->kvd", rows, span).reshape(-1, d))
            rows_seen, along = _on_contrasts(layout, part, span)
            answers = np.zeros((layout.problem.workload.m, len(rows), contrasts))
            answers[rows_seen[:, 0]] = queries[rows_seen[:, 1], :, None] * along[:, None, :]
            representations.append(answers.reshape(len(answers), -1))
            covariances.append(np.kron(own.covariance, np.eye(contrasts)))
    return Expanded(
        np.vstack(bases), np.hstack(representations), scipy.linalg.block_diag(*covariances)
    )


def _spread(layout: Layout, part: Span) -> Array:
    """The scale of a part's columns relative to orthonormal vectors over their cells."""
    return np.sqrt(layout.cells[part.columns] / part.rank)


def _on_contrasts(layout: Layout, part: Span, span: Array) -> tuple[Indices, Array]:
    """The queries' shares of each contrast: a row of W is the part's row times its share.

    Returns
    -------
    The queries of the part with the rows of their orbits, shape (n, 2), and the shares, shape
    (n, contrasts).
    """
    orbit = layout.orbit_of_query
    queries = np.flatnonzero(np.isin(orbit, part.rows))
    row = np.searchsorted(part.rows, orbit[queries])
    weighted = dense(part.queries.matrix())[row] * _spread(layout, part)
    seen = np.asarray(layout.problem.workload.matrix[queries] @ span.reshape(-1, span.shape[2]).T)
    squares = np.square(weighted).sum(axis=1)
    shares = np.einsum("jo,jov->jv", weighted, seen.reshape(len(queries), *span.shape[:2]))
    return np.column_stack([queries, row]), shares / np.where(squares > 0, squares, 1.0)[:, None]


def orthonormal(layout: Layout, part: Span, choice: Choice) -> Array:
    """Orthonormal vectors, one for each orbit of cells of a part and each contrast of a choice.

    Returns
    -------
    numpy.ndarray, shape (layout, contrasts, d)
    """
    rows: Array = np.ones((1, 1))
    sizes: list[int] = []
    for attribute, k in zip(layout.attributes, choice, strict=True):
        if k == INDICATORS:
            own = np.eye(attribute.sizes.size)[:, attribute.of] / np.sqrt(attribute.sizes)[:, None]
        else:
            own = np.zeros((int(attribute.sizes[k]) - 1, attribute.of.size))
            own[:, attribute.members(k)] = scipy.linalg.helmert(int(attribute.sizes[k]))
        rows = np.asarray(np.kron(rows, own), dtype=np.float64)
        sizes.append(len(own))
    along = [i for i, k in enumerate(choice) if k == INDICATORS]
    across = [i for i, k in enumerate(choice) if k != INDICATORS]
    turned = rows.reshape([*sizes, -1]).transpose([*along, *across, len(sizes)])
    return turned.reshape(part.columns.size, -1, rows.shape[1])


def inner_noise(mechanism: str, orbits: AnyOrbits, point: BlocksPoint | ScalarPoint) -> OrbitsNoise:
    """The inner solution at dual weights, scaled so that the targets are just met."""
    parts: Sequence[AnyPart] = orbits.parts
    noises = tuple(
        part.inner(mechanism, point.p[part.columns], spectrum)
        for part, spectrum in zip(parts, point.spectra, strict=True)
    )
    return OrbitsNoise(orbits, noises).met(mechanism)


def noise_from_roots(mechanism: str, orbits: AnyOrbits, roots: Sequence[Array]) -> OrbitsNoise:
    """The noise of one covariance for each part, given by roots; the targets are just met."""
    parts: Sequence[AnyPart] = orbits.parts
    noises = tuple(part.from_root(mechanism, root) for part, root in zip(parts, roots, strict=True))
    return OrbitsNoise(orbits, noises).met(mechanism)


def from_dual(
    mechanism: str,
    orbits: AnyOrbits,
    noise: OrbitsNoise,
    result: Progress[BlocksPoint] | Progress[ScalarPoint],
    value: Callable[[Solution], float],
    tol: float,
    notes: Mapping[str, Any] | None = None,
    **facts: Any,
) -> Solution:
    """The solution of a dual result on orbits; parameters as in `from_noise`."""
    solution = from_noise(mechanism, orbits.problem, noise, result, value, tol, notes, **facts)
    return replace(solution, weights=orbits.weights(result.proof.p, result.proof.q))


def on_every_cell(
    mechanism: str, orbits: AnyOrbits, written_out: Callable[[OrbitsNoise], Coordinates]
) -> OrbitsNoise:
    """Independent noise of equal variance on every cell of every orbit.

    Parameters
    ----------
    written_out : callable
        Computes the coordinates in which the mechanism is defined.
    """
    parts = tuple(part.on_cells(mechanism) for part in orbits.parts)
    idle = np.maximum(1 - OrbitsNoise(orbits, parts).orbit_profile, 0.0)
    return OrbitsNoise(orbits, parts, idle, written_out).met(mechanism)


def on_every_query(
    orbits: AnyOrbits, deviation: float, written_out: Callable[[OrbitsNoise], Coordinates]
) -> OrbitsNoise:
    """Independent noise of equal deviation on every query, in its own coordinates."""
    parts = tuple(part.on_queries(deviation) for part in orbits.parts)
    return OrbitsNoise(orbits, parts, 0.0, written_out, deviation)
