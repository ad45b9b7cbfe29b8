"""Families of sums: an average, all cells with their total, the outputs of a linear system."""

from typing import Annotated

import numpy as np
import scipy

from workloads.errors import WorkloadError
from workloads.family import Family
from workloads.given import from_matrix
from workloads.operators import Explicit, refuse_above_limit
from workloads.parameters import Bounds, Size
from workloads.workload import Workload, in_blocks


@Family.of("average", source="Farokhi and Sandberg, example 2")
def average(n: Size, weights: list[float] | None = None) -> Workload:
    """One query: the mean of n cells, or their weighted mean (the weights must sum to 1)."""
    row = np.full(n, 1.0 / n) if weights is None else np.asarray(weights, dtype=np.float64)
    # weights written with nine decimals pass
    if row.shape != (n,) or not np.isclose(row.sum(), 1.0, rtol=0.0, atol=1e-9):
        raise WorkloadError(
            f"workload 'average': {row.size} weights that sum to {row.sum():g} for n = {n}; "
            "expected n weights that sum to 1",
            "weights",
        )
    return from_matrix(row[None, :], "average")


@Family.of("identity-sum", source="PVLDB 14(10), sections 5.1 and 7.2")
def identity_sum(d: Size) -> Workload:
    """One query for each of d cells, then their total; the groups are "identity" and "total"."""
    total = scipy.sparse.csr_array(np.ones((1, d)))
    matrix = scipy.sparse.vstack([scipy.sparse.eye_array(d, format="csr"), total], format="csr")
    return in_blocks("identity-sum", Explicit(matrix), ("identity", "total"), (d, 1))


@Family.of("dynamics", source="Farokhi and Sandberg, section 4")
def dynamics(
    A: list[list[float]], C: list[list[float]], T: Annotated[int, Bounds(ge=0, le=1_000_000)]
) -> Workload:
    """The outputs C A^k x of a linear system at times k = 0 to T; x is its initial state.

    Parameters
    ----------
    A : list of list of float, shape (n, n)
        The transition matrix.
    C : list of list of float, shape (p, n)
        The output matrix.
    T : int
        The last time step; the first is 0.
    """
    lengths = [len(row) for row in (*A, *C)]
    if not A or not C or set(lengths) != {len(A)}:
        raise WorkloadError(
            f"workload 'dynamics': A has {len(A)} rows, C has {len(C)}, and their lengths are "
            f"{lengths}; expected A square, and rows of C as long as those of A",
            "A",
        )
    entries = (T + 1) * len(C) * len(A)
    refuse_above_limit(entries, f"workload 'dynamics': {entries:,} entries", "lower T")
    outputs = [np.array(C, dtype=np.float64)]
    for _ in range(T):
        outputs.append(outputs[-1] @ np.array(A, dtype=np.float64))
    return from_matrix(np.vstack(outputs), "dynamics")
