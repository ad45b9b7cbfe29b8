"""All prefixes of an ordered domain."""

import scipy.sparse as sp

from workloads.family import Family
from workloads.operators import Cumulative
from workloads.parameters import check_size
from workloads.workload import Workload


def build(d: int) -> Workload:
    """W lower triangular of ones, shape (d, d): query i sums cells 0 to i."""
    check_size("workload 'prefix': d", d, 1)
    return Workload("prefix", Cumulative(sp.eye_array(d, format="csr")))


FAMILY = Family(
    "prefix",
    "all prefix sums of d ordered cells",
    build,
    source="PVLDB 14(10), section 7.1.1",
)
