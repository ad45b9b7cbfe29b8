"""Every cell, and their total."""

import numpy as np
import scipy.sparse as sp

from workloads.family import Family
from workloads.operators import Explicit
from workloads.parameters import check_size
from workloads.workload import Workload, in_blocks


def build(d: int) -> Workload:
    """The identity, then a row of ones: shape (d + 1, d), groups "identity" and "total"."""
    check_size("workload 'identity-sum': d", d, 1)
    matrix = sp.csr_array(sp.vstack([sp.eye_array(d, format="csr"), sp.csr_array(np.ones((1, d)))]))
    return in_blocks("identity-sum", Explicit(matrix), ("identity", "total"), (d, 1))


FAMILY = Family(
    "identity-sum",
    "each of d cells, then their total (targets rule 'total' gives the total its own target)",
    build,
    source="PVLDB 14(10), sections 5.1 and 7.2",
)
