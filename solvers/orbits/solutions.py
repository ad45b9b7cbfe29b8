"""From dual results and strategies on orbits to noise and solutions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from solvers.checked import from_noise, inner_unscaled
from solvers.dual import DualResult
from solvers.factorisation import Composed, Factorisation, InBasis, dense, identity
from solvers.optimiser import BlocksPoint
from solvers.orbits.noise import Expanded, OrbitsNoise
from solvers.orbits.structure import Orbits
from solvers.release import Coordinates
from solvers.solution import Solution
from solvers.verified import scale_of, unscaled_from_root
from workloads.operators import Array, Explicit


def inner_noise(mechanism: str, orbits: Orbits, point: BlocksPoint) -> OrbitsNoise:
    """The inner solution at dual weights, scaled so that the targets are just met.

    Raises
    ------
    SolveFailedError
        If the factors of a part do not give its queries.
    """
    parts = tuple(
        inner_unscaled(mechanism, part.problem, point.p[part.columns], found)
        for part, found in zip(orbits.parts, point.spectra, strict=True)
    )
    return OrbitsNoise(orbits, parts).met(mechanism)


def noise_from_roots(mechanism: str, orbits: Orbits, roots: Sequence[Array]) -> OrbitsNoise:
    """The noise of a covariance for each part, from their square roots, its targets just met.

    Raises
    ------
    SolveFailedError
        If the factors of a part do not give its queries.
    """
    parts = tuple(
        unscaled_from_root(mechanism, part.problem, part.problem.basis, part.problem.queries, root)
        for part, root in zip(orbits.parts, roots, strict=True)
    )
    return OrbitsNoise(orbits, parts).met(mechanism)


def from_dual(
    mechanism: str,
    orbits: Orbits,
    noise: OrbitsNoise,
    result: DualResult,
    value: Callable[[Solution], float],
    tol: float,
    notes: Mapping[str, Any] | None = None,
    **facts: Any,
) -> Solution:
    """The solution of a dual result on orbits; parameters as of `solvers.checked.from_noise`."""
    found = from_noise(mechanism, orbits.problem, noise, result, value, tol, notes, **facts)
    return replace(found, weights=orbits.weights(result.proof.p, result.proof.q))


def on_every_cell(orbits: Orbits, written_out: Callable[[], Coordinates]) -> OrbitsNoise:
    """Independent noise of one variance on every cell of every orbit.

    Parameters
    ----------
    orbits : Orbits
        Cells and queries that are alike.
    written_out : callable
        The coordinates of the mechanism's own description.

    Returns
    -------
    OrbitsNoise
    """
    parts = []
    idle = np.ones(orbits.cells.size)
    for part in orbits.parts:
        shares = part.rank / orbits.cells[part.columns]
        cells = Explicit(sp.csr_array(sp.diags_array(np.sqrt(shares))))
        inverse = sp.diags_array(shares**-0.5)
        matrix = sp.csr_array(part.problem.workload.operator.matrix())
        queries = Explicit(sp.csr_array(matrix @ inverse))
        parts.append(Factorisation(queries, cells, InBasis(cells, queries, 1.0)))
        idle[part.columns] -= shares
    return OrbitsNoise(orbits, tuple(parts), np.maximum(idle, 0.0), written_out).met("IP")


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

    def written_out() -> Coordinates:
        covariance = _on_equal_copies(orbits, inverse @ inverse.T) / scale**2
        return Expanded(np.eye(len(covariance)), orbits.problem.workload.matrix, covariance)

    return replace(unscaled.met(mechanism), written_out=written_out)


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
