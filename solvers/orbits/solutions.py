"""From dual results and strategies on orbits to noise and solutions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from solvers.gaussian.checked import from_noise
from solvers.gaussian.factorisation import Factorisation, InBasis, dense, identity
from solvers.gaussian.verified import scale_of
from solvers.optimiser import BlocksPoint, Progress, ScalarPoint
from solvers.orbits.drawing import AnyOrbits, AnyPart
from solvers.orbits.noise import Expanded, OrbitsNoise
from solvers.orbits.single import SubsetNoise
from solvers.orbits.structure import Orbits
from solvers.release import Coordinates
from solvers.solution import Solution
from workloads.operators import Array, Composed, Explicit


def inner_noise(mechanism: str, orbits: AnyOrbits, point: BlocksPoint | ScalarPoint) -> OrbitsNoise:
    """The inner solution at dual weights, scaled so that the targets are just met.

    Raises
    ------
    SolveFailedError
        If the factors of a part do not give its queries.
    """
    parts: Sequence[AnyPart] = orbits.parts
    found = tuple(
        part.inner(mechanism, point.p[part.columns], spectrum)
        for part, spectrum in zip(parts, point.spectra, strict=True)
    )
    return OrbitsNoise(orbits, found).met(mechanism)


def noise_from_roots(mechanism: str, orbits: AnyOrbits, roots: Sequence[Array]) -> OrbitsNoise:
    """The noise of a covariance for each part, from their square roots, its targets just met.

    Raises
    ------
    SolveFailedError
        If the factors of a part do not give its queries.
    """
    parts: Sequence[AnyPart] = orbits.parts
    found = tuple(part.from_root(mechanism, root) for part, root in zip(parts, roots, strict=True))
    return OrbitsNoise(orbits, found).met(mechanism)


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
    """The solution of a dual result on orbits; parameters as of `from_noise`."""
    found = from_noise(mechanism, orbits.problem, noise, result, value, tol, notes, **facts)
    return replace(found, weights=orbits.weights(result.proof.p, result.proof.q))


def on_every_cell(mechanism: str, orbits: AnyOrbits) -> OrbitsNoise:
    """Independent noise of one variance on every cell of every orbit.

    Parameters
    ----------
    mechanism : str
        The mechanism's name, for messages.
    orbits : Orbits or SingleOrbit
        Cells and queries that are alike.

    Returns
    -------
    OrbitsNoise
    """
    parts: list[Factorisation | SubsetNoise] = []
    idle = np.ones(orbits.cells.size)
    for part in orbits.parts:
        found, shares = part.on_cells(mechanism)
        parts.append(found)
        idle[part.columns] -= shares
    return OrbitsNoise(orbits, tuple(parts), np.maximum(idle, 0.0)).met(mechanism)


def on_every_query(
    orbits: AnyOrbits, deviation: float, written_out: Callable[[], Coordinates]
) -> OrbitsNoise:
    """Independent noise of one standard deviation on every query, with its own coordinates."""
    parts = tuple(part.on_queries(deviation) for part in orbits.parts)
    return OrbitsNoise(orbits, parts, 0.0, written_out, deviation)


def in_copies(found: Solution, orbits: Orbits) -> Solution:
    """A solution over the ordered cells, in every combination of the other attributes' values.

    Parameters
    ----------
    found : Solution
        Of `Orbits.ordered`; its strategy has full rank.
    orbits : Orbits
        Of the whole problem.

    Returns
    -------
    Solution
    """
    assert isinstance(found.noise, Factorisation)
    strategy = dense(found.noise.right)
    apart = np.eye(orbits.cells.size // strategy.shape[1])
    inverse = np.linalg.inv(strategy)
    along = orbits.ordered_first
    whole, back = (np.kron(one, apart)[np.ix_(along, along)] for one in (strategy, inverse))
    noise = in_every_copy(found.mechanism, orbits, whole, back)
    notes = {**found.notes, "ordered_cells": strategy.shape[1]}
    return Solution(found.mechanism, orbits.problem, noise, notes=notes)


def in_every_copy(mechanism: str, orbits: Orbits, strategy: Array, inverse: Array) -> OrbitsNoise:
    """Independent noise of one variance on a strategy over the orbits, asked in every copy of them.

    Parameters
    ----------
    mechanism : str
        The mechanism's name.
    orbits : Orbits
        Cells and queries that are alike.
    strategy : numpy.ndarray, shape (n, n)
        Queries over one cell of each orbit, up to scale; it mixes orbits of ordered attributes
        alone.
    inverse : numpy.ndarray, shape (n, n)
        Its inverse.

    Returns
    -------
    OrbitsNoise
    """
    parts = []
    idle = np.square(strategy).sum(axis=0)
    for part in orbits.parts:
        roots = np.sqrt(part.rank / orbits.cells[part.columns])
        own = np.ix_(part.columns, part.columns)
        operator, left = part.problem.workload.operator, inverse[own] / roots[:, None]
        right = Explicit(strategy[own] * roots)
        basis = InBasis(identity(roots.size), operator, left)
        parts.append(Factorisation(Composed(operator, left), right, basis))
        idle[part.columns] -= right.squared_column_norms()
    unscaled = OrbitsNoise(orbits, tuple(parts), np.maximum(idle, 0.0))
    scale = scale_of(mechanism, unscaled.orbit_variances, orbits.targets)
    return replace(unscaled.met(mechanism), written_out=partial(_on_cells, orbits, inverse / scale))


def _on_cells(orbits: Orbits, root: Array) -> Expanded:
    """All cells as basis, from a square root of the covariance on one copy of the orbits."""
    covariance = _on_equal_copies(orbits, root @ root.T)
    return Expanded(np.eye(len(covariance)), orbits.problem.workload.matrix, covariance)


def _on_equal_copies(orbits: Orbits, covariance: Array) -> Array:
    """Over all cells, from one copy of every orbit; cells of different copies are independent."""
    sizes = [attribute.of.size for attribute in orbits.attributes]
    values = np.indices(sizes).reshape(len(sizes), -1)
    alike = np.ones((values.shape[1], values.shape[1]), dtype=bool)
    for attribute, own in zip(orbits.attributes, values, strict=True):
        if attribute.sizes.max() > 1:
            alike &= own[:, None] == own
    orbit = orbits.per_cell(np.arange(orbits.cells.size, dtype=np.float64)).astype(int)
    return np.where(alike, covariance[np.ix_(orbit, orbit)], 0.0)
