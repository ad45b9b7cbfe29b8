"""Query matrices with independent entries of two values."""

import numpy as np

from workloads.operators import refuse_above_limit
from workloads.workload import Workload, from_matrix


def two_valued(
    name: str, shape: tuple[int, int], probability: float, otherwise: float, seed: int
) -> Workload:
    """Independent entries: 1 with the given probability, else ``otherwise``.

    Parameters
    ----------
    name : str
        The family's name.
    shape : tuple of int
        (m, d).
    probability : float
        Of a 1, in [0, 1].
    otherwise : float
        The other value.
    seed : int
        Of `numpy.random.default_rng`.

    Raises
    ------
    WorkloadError
        If no entry other than zero was drawn.
    """
    count = f"{shape[0]:,} x {shape[1]:,}"
    refuse_above_limit(shape[0] * shape[1], f"workload {name!r}: {count}", "lower m or d")
    ones = np.random.default_rng(seed).random(shape) < probability
    return from_matrix(np.where(ones, 1.0, otherwise), name)
