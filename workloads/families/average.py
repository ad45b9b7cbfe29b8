"""One weighted average."""

import numpy as np

from workloads.errors import WorkloadError
from workloads.family import Family
from workloads.given import from_matrix
from workloads.parameters import check_size
from workloads.workload import Workload


def build(n: int, weights: list[float] | None = None) -> Workload:
    """One query over n cells: their mean, or the average with these weights (they sum to 1)."""
    check_size("workload 'average': n", n, 1)
    row = np.full(n, 1.0 / n) if weights is None else np.asarray(weights, dtype=np.float64)
    if row.shape != (n,) or not np.isclose(row.sum(), 1.0, rtol=0.0, atol=1e-9):
        raise WorkloadError(
            f"workload 'average': {row.size} weights that sum to {row.sum():g} for n = {n}; "
            "expected n weights that sum to 1"
        )
    return from_matrix(row[None, :], "average")


FAMILY = Family(
    "average",
    "one query: the mean of n cells, or their average with given weights",
    build,
    source="Farokhi and Sandberg, example 2",
)
