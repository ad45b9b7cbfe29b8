"""WMarginal: single cells of two-way marginals, drawn at random."""

from itertools import combinations
from math import comb, prod

import numpy as np
import scipy.sparse as sp

from workloads.errors import WorkloadError
from workloads.family import Family
from workloads.operators import Explicit, Marginals
from workloads.parameters import LARGEST_SIZE, check_least, check_size
from workloads.workload import Workload


def build(d: int, m: int = 1024, sizes: list[int] | None = None, seed: int = 0) -> Workload:
    """Random queries, each uniform over all those of all two-way marginals, with replacement.

    KDD'16 does not say how the domain splits into attributes: ``sizes``, by default the
    prime factors of d, ascending (d = 2^k: k binary attributes).
    """
    check_size("workload 'wmarginal': d", d, 4)
    check_size("workload 'wmarginal': m", m, 1)
    check_least("workload 'wmarginal': seed", seed, 0)
    split = _prime_factors(d) if sizes is None else list(sizes)
    if prod(split) != d or len(split) < 2 or min(split) < 1:
        raise WorkloadError(
            f"workload 'wmarginal': d = {d} with attribute sizes {split}; expected at least two "
            "positive sizes whose product is d"
        )
    listed = comb(len(split), 2) * d
    check_size("workload 'wmarginal': pairs of attributes times d", listed, most=10 * LARGEST_SIZE)
    pairs = Marginals(tuple(split), tuple(combinations(range(len(split)), 2)))
    chosen = np.random.default_rng(seed).integers(0, pairs.shape[0], size=m)
    return Workload("wmarginal", Explicit(sp.csr_array(pairs.matrix())[chosen]))


def _prime_factors(number: int) -> list[int]:
    factors: list[int] = []
    divisor = 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            factors.append(divisor)
            number //= divisor
        divisor += 1
    return [*factors, number] if number > 1 else factors


FAMILY = Family(
    "wmarginal",
    "KDD'16's WMarginal: m queries drawn from all two-way marginals of d cells",
    build,
    source="Yuan et al., KDD 2016, section 5",
)
