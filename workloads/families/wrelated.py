"""WRelated: queries of low rank."""

from functools import partial

import numpy as np

from workloads.family import Family
from workloads.operators import Array, refuse_above_limit
from workloads.parameters import check_least, check_size
from workloads.random_entries import drawn
from workloads.workload import Workload


def build(d: int, m: int | None = None, s: int | None = None, seed: int = 0) -> Workload:
    """W = C A, C (m x s) and A (s x d) of independent N(0, 1) entries; m = s = d/2 by default."""
    check_size("workload 'wrelated': d", d, 2)
    count, rank = (d // 2 if size is None else size for size in (m, s))
    check_size("workload 'wrelated': m", count, 1)
    check_size("workload 'wrelated': s", rank, 1)
    check_least("workload 'wrelated': seed", seed, 0)
    largest = max(count * d, count * rank, rank * d)
    refuse_above_limit(largest, f"workload 'wrelated': {largest:,} entries", "lower d, m or s")
    return drawn("wrelated", (count, d), partial(_product, count, rank, d, seed))


def _product(m: int, s: int, d: int, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    left = rng.standard_normal((m, s))
    return left @ rng.standard_normal((s, d))


FAMILY = Family(
    "wrelated",
    "m random queries of rank s: a product of Gaussian matrices (m = s = d/2 by default)",
    build,
    source="PVLDB 14(10), section 7.8; Yuan et al., KDD 2016, section 5",
)
