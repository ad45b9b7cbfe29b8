"""Random ranges of an ordered domain."""

import numpy as np

from workloads.family import Family
from workloads.operators import Cumulative
from workloads.parameters import check_least, check_size
from workloads.ranges import differences
from workloads.workload import Workload


def build(d: int, m: int | None = None, seed: int = 0) -> Workload:
    """Random ranges, m = 2 d by default: end points uniform over the cells, swapped if needed."""
    check_size("workload 'range': d", d, 1)
    count = 2 * d if m is None else m
    check_size("workload 'range': m", count, 1)
    check_least("workload 'range': seed", seed, 0)
    ends = np.sort(np.random.default_rng(seed).integers(0, d, size=(count, 2)), axis=1)
    return Workload("range", Cumulative(differences(ends[:, 0], ends[:, 1], d)))


FAMILY = Family(
    "range",
    "m random ranges of d ordered cells (m = 2 d by default)",
    build,
    source="PVLDB 14(10), section 7.4",
)
