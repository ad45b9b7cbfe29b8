"""Query matrices that are drawn at random."""

from collections.abc import Callable
from functools import partial

import numpy as np

from workloads.given import from_matrix
from workloads.operators import Array, Drawn, refuse_above_limit
from workloads.workload import Workload

_SMALL_ENTRIES = 2**18
"""Matrices of no more are made at once."""


def two_valued(
    name: str, shape: tuple[int, int], probability: float, otherwise: float, seed: int
) -> Workload:
    """Independent entries: 1 with the given probability, else ``otherwise``.

    Parameters
    ----------
    probability : float
        Of a 1, in [0, 1].
    otherwise : float
        The other value.
    seed : int
        Of `numpy.random.default_rng`.

    Raises
    ------
    WorkloadError
        If it would be too large; of a small one also if no entry other than zero was drawn.
    """
    count = f"{shape[0]:,} x {shape[1]:,}"
    refuse_above_limit(shape[0] * shape[1], f"workload {name!r}: {count}", "lower m or d")
    return drawn(name, shape, partial(_two_valued, shape, probability, otherwise, seed))


def drawn(name: str, shape: tuple[int, int], draw: Callable[[], Array]) -> Workload:
    """A workload of a random matrix, a large one made when it is first needed."""
    if shape[0] * shape[1] <= _SMALL_ENTRIES:
        return from_matrix(draw(), name)
    return Workload(name, Drawn(shape, partial(_checked, name, draw)))


def _checked(name: str, draw: Callable[[], Array]) -> Array:
    return from_matrix(draw(), name).dense


def _two_valued(shape: tuple[int, int], probability: float, otherwise: float, seed: int) -> Array:
    ones = np.random.default_rng(seed).random(shape) < probability
    return np.where(ones, 1.0, otherwise)
