"""All ranges of an ordered domain."""

import numpy as np

from workloads.family import Family
from workloads.operators import Cumulative
from workloads.parameters import LARGEST_SIZE, check_size
from workloads.ranges import differences
from workloads.workload import Workload


def build(d: int) -> Workload:
    """All d (d + 1) / 2 ranges, ordered by first cell, then by last."""
    check_size("workload 'all-range': d", d, 1)
    check_size("workload 'all-range': number of ranges", d * (d + 1) // 2, most=2 * LARGEST_SIZE)
    first, last = np.triu_indices(d)
    return Workload("all-range", Cumulative(differences(first, last, d)))


FAMILY = Family("all-range", "all d (d + 1) / 2 ranges of d ordered cells", build)
