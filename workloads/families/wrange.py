"""WRange: the random ranges of KDD'16."""

from workloads.families.range_ import build as build_range
from workloads.family import Family
from workloads.workload import Workload


def build(d: int, m: int = 1024, seed: int = 0) -> Workload:
    """Random ranges, m of them, both end points uniform over the cells, swapped if needed."""
    return build_range(d, m, seed)


FAMILY = Family(
    "wrange",
    "KDD'16's WRange: m random ranges of d ordered cells",
    build,
    source="Yuan et al., KDD 2016, section 5",
)
