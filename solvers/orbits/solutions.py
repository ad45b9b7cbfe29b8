"""From dual results and strategies on orbits to noise and solutions."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from solvers.checked import from_noise, inner_unscaled
from solvers.dual import DualResult
from solvers.factorisation import Composed, Factorisation, InBasis, identity
from solvers.optimiser import BlocksPoint
from solvers.orbits.noise import OrbitsNoise
from solvers.orbits.structure import Orbits
from solvers.release import Coordinates
from solvers.solution import Solution
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


def in_every_copy(
    mechanism: str,
    orbits: Orbits,
    strategy: Array,
    inverse: Array,
    written_out: Callable[[], Coordinates] | None = None,
) -> OrbitsNoise:
    """Independent noise of one variance on a strategy over the orbits, asked in every copy of them.

    Parameters
    ----------
    mechanism : str
        The mechanism's name.
    orbits : Orbits
        Cells and queries that are alike.
    strategy : numpy.ndarray, shape (n, n)
        Queries over one cell of each orbit, up to scale.
    inverse : numpy.ndarray, shape (n, n)
        Its inverse.
    written_out : callable, optional
        The coordinates of the mechanism's own description.

    Returns
    -------
    OrbitsNoise
    """
    parts = []
    spent = np.zeros(orbits.cells.size)
    for part in orbits.parts:
        share = part.rank / orbits.cells[part.columns]
        own = np.ix_(part.columns, part.columns)
        right = strategy[own] * np.sqrt(share)
        left = inverse[own] / np.sqrt(share)[:, None]
        found = Factorisation(
            Composed(part.problem.workload.operator, left),
            Explicit(right),
            InBasis(identity(len(own[0])), part.problem.workload.operator, left),
        )
        spent[part.columns] += found.privacy_profile
        parts.append(found)
    everything = np.square(strategy).sum(axis=0)
    idle = np.maximum(everything - spent, 0.0)
    return OrbitsNoise(orbits, tuple(parts), idle, written_out).met(mechanism)
