"""Noise on all queries, assembled from the noise on each part, how to draw it, and solutions.

The parts are the matrices into which the dual splits (`solvers.forms.orbits.orbits.Orbits`).

Errors are drawn without listing the domain's cells. For each choice of contrasts and each row of a
part's strategy, a table of standard normal numbers is drawn, with one entry for each combination of
values in the chosen classes. Subtracting the means along each class turns the table into standard
normal noise on the contrasts. The part's L maps the tables of all rows to errors of queries. Along
attributes whose indicators are chosen, all values of a class get the same error.
Floating-point draws are for experiments: a production release needs an exact sampler.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from math import prod

import numpy as np
import scipy

from solvers.dual.predictor_corrector import AnyPoint, Optimum
from solvers.errors import NotApplicableError, SolveFailedError
from solvers.forms.orbits.orbits import AnyOrbits, NoiseOnPart, Orbits, PartNoise
from solvers.forms.orbits.products import Component, Group, Layout, Span
from solvers.mechanism import Iterative
from solvers.noise.factorisation import scale_of
from solvers.noise.noise import LARGEST_EXPANDED, Coordinates, GaussianNoise, refuse_unlisted
from solvers.solution import ROUNDING, Solution
from workloads.operators import Array, Matrix, dense, readable


def _axes(layout: Layout, component: Component) -> tuple[list[int], list[tuple[int, ...]]]:
    """Return the sizes of the chosen classes, and the chosen attributes divided into sets.

    The attributes of a set are treated as one attribute; most sets have a single attribute.
    """
    chosen = component.chosen
    shape = [int(layout.attributes[axis].sizes[component.choice[axis]]) for axis in chosen]
    joint = set(chain.from_iterable(component.joint))
    return shape, [*component.joint, *((axis,) for axis in chosen if axis not in joint)]


def _add(total: Array, layout: Layout, span: Span, component: Component, values: Array) -> None:
    """Add ``values``, numbers of the span's queries, to ``total``, those of all queries, (m, n).

    ``values`` has n numbers for each orbit of the span's queries and each combination of values of
    the component's attributes.
    """
    bounds = np.searchsorted(span.rows, layout.starts[list(span.groups)])
    for number, part in zip(span.groups, np.split(values, bounds[1:]), strict=True):
        of_group = _spread(layout, layout.products.groups[number], component, part)
        first = layout.first_queries[number]
        total[first : first + len(of_group)] += of_group


def _spread(layout: Layout, group: Group, component: Component, values: Array) -> Array:
    """Return the numbers of all queries of a group, shape (queries, n), from those of its orbits.

    ``values`` has n numbers for each orbit of the group's queries and each combination of values of
    the component's attributes. They are copied along the attributes of which the indicators are
    chosen; queries of values in other classes than the chosen ones get 0.
    """
    chosen, sizes = component.chosen, dict(zip(group.axes, layout.group_shape(group), strict=True))
    own = [*(axis for axis in group.axes if axis not in chosen), *chosen]
    tables = values.reshape(*(sizes[axis] for axis in own if axis not in chosen), *values.shape[1:])
    # one more entry, a zero, along every chosen attribute, for the values in its other classes
    tables = np.pad(tables, [*((0, int(axis in chosen)) for axis in own), (0, 0)])
    along = [
        layout.attributes[axis].positions(component.choice[axis]) if axis in chosen else copied
        for axis, copied in zip(group.axes, layout.orbits_along(group), strict=True)
    ]
    order = [own.index(axis) for axis in group.axes]
    return tables.transpose([*order, len(order)])[np.ix_(*along)].reshape(-1, values.shape[-1])


@dataclass(frozen=True, eq=False)
class OrbitsNoise(GaussianNoise):
    """A Gaussian mechanism that stays the same if values of the same class are exchanged.

    Attributes
    ----------
    parts : tuple of Factorisation or SubsetNoise
        The noise on each part. The squared row norms of the parts' L add up to the variances, and
        the squared column norms of their B, together with ``idle``, to the privacy profile.
    idle : numpy.ndarray, shape (n,), or float
        The share of the profile that is due to directions on which no query depends.
    written_out : callable, optional
        Computes the coordinates in which the mechanism is defined; default: `expand`.
    query_deviation : float, optional
        Standard deviation of the error of every query if these errors are independent.
    """

    orbits: AnyOrbits
    parts: tuple[NoiseOnPart, ...]
    idle: Array | float = 0.0
    written_out: "Callable[[OrbitsNoise], Coordinates] | None" = None
    query_deviation: float | None = None

    @cached_property
    def orbit_variances(self) -> Array:
        """Variance of the queries in each orbit, shape (r,)."""
        total = np.zeros(self.orbits.targets.size)
        for (rows, _), noise in zip(self.orbits.places, self.parts, strict=True):
            total[rows] += noise.query_variances
        return total

    @cached_property
    def orbit_profile(self) -> Array:
        """Squared personal privacy cost of the cells in each orbit, shape (n,)."""
        total = np.full(self.orbits.cells.size, self.idle)
        for (_, columns), noise in zip(self.orbits.places, self.parts, strict=True):
            total[columns] += noise.privacy_profile
        return total

    @property
    def squared_privacy_cost(self) -> float:
        """The squared privacy cost Δ²: the largest profile entry."""
        return float(self.orbit_profile.max())

    @cached_property
    def query_variances(self) -> Array:
        """Variance of every query, shape (m,); beyond 10^7 queries, the largest for each target."""
        return self.orbits.per_query(self.orbit_variances)

    @cached_property
    def privacy_profile(self) -> Array:
        """Squared personal privacy cost of every cell; beyond 10^7 cells, of every orbit."""
        return self.orbits.per_cell(self.orbit_profile)

    @property
    def total_variance(self) -> float:
        """Sum of the variances of all queries; infinite if too large for a float."""
        return float(self.orbits.copies @ self.orbit_variances)

    @property
    def fisher_information(self) -> float:
        """Trace of the Fisher information about x; infinite if too large for a float."""
        return float(self.orbits.cells @ self.orbit_profile)

    @cached_property
    def coordinates(self) -> Coordinates:
        """The mechanism written out as B, L and Σ.

        Raises
        ------
        NotApplicableError
            If there are more than `LARGEST_EXPANDED` cells or queries.
        """
        m, d = self.orbits.problem.workload.shape
        if not self.fits:
            raise NotApplicableError(
                f"the mechanism is not written out for {readable(m)} queries over "
                f"{readable(d)} cells (at most {LARGEST_EXPANDED} of either); use noise.parts, "
                "which has the covariance of every block, noise.orbit_variances and "
                "noise.orbit_profile"
            )
        return self.written_out(self) if self.written_out else expand(self)

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """Draw the errors of all queries n times, without listing cells, shape (n, m)."""
        workload = self.orbits.problem.workload
        refuse_unlisted(workload.m)
        if self.query_deviation is not None:
            return rng.normal(scale=self.query_deviation, size=(n, workload.m))
        layout = self.orbits.layout
        errors = np.zeros((workload.m, n))
        for span, factors in self.orbits.spans(self.parts):
            for component in span.components:
                shape, parts = _axes(layout, component)
                table = rng.standard_normal((factors.decoder.shape[1], *shape, n))
                for axes in parts:
                    along = tuple(1 + component.chosen.index(axis) for axis in axes)
                    table -= table.mean(axis=along, keepdims=True)
                table *= np.sqrt(np.prod(shape) / span.rank)
                answers = factors.decoder.apply(table.reshape(len(table), -1))
                _add(errors, layout, span, component, answers.reshape(-1, *shape, n))
        return errors.T

    def met(self, mechanism: str) -> "OrbitsNoise":
        """Return the same noise, scaled so that the targets are just met.

        Raises the errors of `scale_of`.
        """
        return self.divided(scale_of(mechanism, self.orbit_variances, self.orbits.targets))

    def divided(self, scale: float) -> "OrbitsNoise":
        """Return a copy whose noise is divided by ``scale``."""
        deviation = self.query_deviation
        return replace(
            self,
            parts=tuple(part.divided(scale) for part in self.parts),
            idle=self.idle * scale**2,
            query_deviation=None if deviation is None else deviation / scale,
        )

    def on_cells_scaled(self, orbits: AnyOrbits, factors: Array) -> "OrbitsNoise":
        """Return the noise for queries with each orbit's columns multiplied by its factor."""
        parts = tuple(
            noise.with_cells_scaled(factors[columns])
            for (_, columns), noise in zip(self.orbits.places, self.parts, strict=True)
        )
        return OrbitsNoise(orbits, parts)

    @property
    def fits(self) -> bool:
        """Whether there are at most `LARGEST_EXPANDED` cells and queries."""
        return max(self.orbits.problem.workload.shape) <= LARGEST_EXPANDED


@dataclass(frozen=True, eq=False)
class Expanded:
    """The `solvers.noise.noise.Coordinates` of a mechanism, as arrays."""

    basis: Array
    representation: Matrix
    covariance: Array


def expand(noise: OrbitsNoise) -> Expanded:
    """Write out the noise in one basis: the bases of all parts, applied to their contrasts."""
    bases, representations, covariances = [], [], []
    layout = noise.orbits.layout
    cells = Group(frozenset(range(len(layout.attributes))), {})
    for part, factors in noise.orbits.spans(noise.parts):
        in_basis = factors.coordinates
        rows, queries = in_basis.basis.T, dense(in_basis.representation)
        for component in part.components:
            contrasts = _contrasts(layout, component)
            contrasts *= np.sqrt(contrasts[..., 0].size / part.rank)
            n = rows.shape[1] * contrasts.shape[-1]
            basis = _spread(layout, cells, component, _multiply_all(rows, contrasts))
            answers = np.zeros((noise.orbits.problem.workload.m, n))
            _add(answers, layout, part, component, _multiply_all(queries, contrasts))
            bases.append(basis.T)
            representations.append(answers)
            covariances.append(np.kron(in_basis.covariance, np.eye(contrasts.shape[-1])))
    return Expanded(
        np.vstack(bases), np.hstack(representations), scipy.linalg.block_diag(*covariances)
    )


def _contrasts(layout: Layout, component: Component) -> Array:
    """Orthonormal contrasts over the chosen attributes' values, indexed along the last axis."""
    shape, parts = _axes(layout, component)
    size = dict(zip(component.chosen, shape, strict=True))
    rows: Array = np.ones((1, 1))
    for axes in parts:
        rows = np.asarray(np.kron(rows, scipy.linalg.helmert(prod(size[axis] for axis in axes))))
    order = [axis for axes in parts for axis in axes]
    tables = rows.reshape(len(rows), *(size[axis] for axis in order))
    return tables.transpose([*(1 + order.index(axis) for axis in component.chosen), 0])


def _multiply_all(rows: Array, contrasts: Array) -> Array:
    """Return all products of a column of ``rows`` and a contrast, indexed along the last axis."""
    products = np.multiply.outer(rows, contrasts)
    return np.moveaxis(products, 1, -2).reshape(len(rows), *contrasts.shape[:-1], -1)


def inner_noise(
    mechanism: str, orbits: Orbits[AnyPoint, PartNoise], point: AnyPoint
) -> OrbitsNoise:
    """Return the inner solution at a point of the dual, scaled so that the targets are just met."""
    return OrbitsNoise(orbits, orbits.inner(mechanism, point)).met(mechanism)


def from_dual(
    mechanism: Iterative,
    noise: OrbitsNoise,
    result: Optimum[AnyPoint],
    value: float,
    notes: Mapping[str, float],
    known_lower_bound: float | None = None,
) -> Solution:
    """Return the solution with this noise, which was derived from the result of a dual solve.

    Parameters
    ----------
    value : float
        The value of the mechanism's objective at this noise.
    notes : Mapping of str to float
        Further notes; the numbers of factorisations and of products are always noted.

    Raises
    ------
    SolveFailedError
        If the value is below its lower bound by more than rounding.
    """
    if not value >= result.lower * (1 - ROUNDING):
        raise SolveFailedError(
            f"{mechanism.name}: the objective of the answer is {value:.9g}, but the dual proves "
            f"that none is below {result.lower:.9g}: too ill-conditioned for double precision"
        )
    orbits = noise.orbits
    return Solution(
        mechanism.name,
        orbits.problem,
        orbits.present(noise, noise.parts),
        known_lower_bound=known_lower_bound,
        iterations=result.iterations,
        converged=result.converged and value <= result.lower * (1 + mechanism.tol),
        timed_out=result.timed_out,
        weights=orbits.weights_at(result.proof),
        trace=result.trace,
        notes={"factorisations": result.factorisations, "products": result.products, **notes},
    )


def on_every_cell(
    mechanism: str, orbits: AnyOrbits, written_out: Callable[[OrbitsNoise], Coordinates]
) -> OrbitsNoise:
    """Put independent noise of equal variance on every cell, so that the targets are just met.

    Parameters
    ----------
    written_out : callable
        Computes the coordinates in which the mechanism is defined.
    """
    parts = orbits.on_cells(mechanism)
    idle = np.maximum(1 - OrbitsNoise(orbits, parts).orbit_profile, 0.0)
    return OrbitsNoise(orbits, parts, idle, written_out).met(mechanism)


def on_every_query(
    orbits: AnyOrbits, deviation: float, written_out: Callable[[OrbitsNoise], Coordinates]
) -> OrbitsNoise:
    """Return independent noise of standard deviation ``deviation`` on every query.

    ``written_out`` is the function described in `on_every_cell`.
    """
    return OrbitsNoise(orbits, orbits.on_queries(deviation), 0.0, written_out, deviation)
