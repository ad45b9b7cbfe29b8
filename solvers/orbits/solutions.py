"""From dual results and strategies on orbits to noise and solutions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from solvers.dual.interior_point import Progress
from solvers.dual.matrix_blocks import BlocksPoint
from solvers.dual.scalar_blocks import ScalarPoint
from solvers.noise.release import Coordinates
from solvers.orbits.noise import AnyOrbits, AnyPart, OrbitsNoise
from solvers.solution import Solution
from solvers.strategy import from_noise
from workloads.operators import Array


def inner_noise(mechanism: str, orbits: AnyOrbits, point: BlocksPoint | ScalarPoint) -> OrbitsNoise:
    """The inner solution at dual weights, scaled so that the targets are just met."""
    parts: Sequence[AnyPart] = orbits.parts
    noises = tuple(
        part.inner(mechanism, point.p[part.columns], spectrum)
        for part, spectrum in zip(parts, point.spectra, strict=True)
    )
    return OrbitsNoise(orbits, noises).met(mechanism)


def noise_from_roots(mechanism: str, orbits: AnyOrbits, roots: Sequence[Array]) -> OrbitsNoise:
    """The noise of covariances, one for each part, by their roots; the targets are just met."""
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
    """The solution of a dual result on orbits; parameters as of `from_noise`."""
    solution = from_noise(mechanism, orbits.problem, noise, result, value, tol, notes, **facts)
    return replace(solution, weights=orbits.weights(result.proof.p, result.proof.q))


def on_every_cell(
    mechanism: str, orbits: AnyOrbits, written_out: Callable[[OrbitsNoise], Coordinates]
) -> OrbitsNoise:
    """Independent noise of one variance on every cell of every orbit.

    Parameters
    ----------
    written_out : callable
        The coordinates of the mechanism's own description.
    """
    parts = tuple(part.on_cells(mechanism) for part in orbits.parts)
    idle = np.maximum(1 - OrbitsNoise(orbits, parts).orbit_profile, 0.0)
    return OrbitsNoise(orbits, parts, idle, written_out).met(mechanism)


def on_every_query(
    orbits: AnyOrbits, deviation: float, written_out: Callable[[OrbitsNoise], Coordinates]
) -> OrbitsNoise:
    """Independent noise of one standard deviation on every query, in its own coordinates."""
    parts = tuple(part.on_queries(deviation) for part in orbits.parts)
    return OrbitsNoise(orbits, parts, 0.0, written_out, deviation)
