"""The outputs of a linear dynamic system over time, as queries of its first state."""

import numpy as np

from workloads.errors import WorkloadError
from workloads.family import Family
from workloads.given import from_matrix
from workloads.operators import Array, refuse_above_limit
from workloads.parameters import check_size
from workloads.workload import Workload


def build(A: list[list[float]], C: list[list[float]], T: int) -> Workload:
    """C, C A, ..., C A^T stacked: the outputs C x[k] of x[k+1] = A x[k] up to time T.

    Parameters
    ----------
    A : list of list of float, shape (n, n)
        One step of the system.
    C : list of list of float, shape (p, n)
        The outputs of one time.
    T : int
        The last time; there are T + 1.
    """
    check_size("workload 'dynamics': T", T, 0, 1_000_000)
    step, output = _matrix("A", A), _matrix("C", C)
    n = step.shape[1]
    if step.shape != (n, n) or output.shape[1] != n:
        raise WorkloadError(
            f"workload 'dynamics': A has shape {step.shape} and C {output.shape}; expected A "
            "square, (n, n), and C with n columns"
        )
    entries = (T + 1) * output.size
    refuse_above_limit(entries, f"workload 'dynamics': {entries:,} entries", "lower T")
    outputs = [output]
    for _ in range(T):
        outputs.append(outputs[-1] @ step)
    return from_matrix(np.vstack(outputs), "dynamics")


def _matrix(name: str, rows: list[list[float]]) -> Array:
    lengths = {len(row) for row in rows}
    if len(lengths) != 1 or lengths == {0}:
        raise WorkloadError(
            f"workload 'dynamics': {name} has rows of lengths {sorted(lengths)}; expected rows of "
            "one length, at least one"
        )
    return np.asarray(rows, dtype=np.float64)


FAMILY = Family(
    "dynamics",
    "the outputs C A^k x of a linear system for k = 0 to T",
    build,
    source="Farokhi and Sandberg, section 4",
)
