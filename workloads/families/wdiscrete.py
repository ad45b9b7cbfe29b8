"""WDiscrete: the random queries of KDD'16."""

from workloads.family import Family
from workloads.parameters import check_least, check_probability, check_size
from workloads.random_entries import two_valued
from workloads.workload import Workload


def build(
    d: int, m: int = 1024, probability: float = 0.02, otherwise: float = -1.0, seed: int = 0
) -> Workload:
    """Random queries with Bernoulli entries: 1 with the given probability, else ``otherwise``.

    KDD'16 says only that the entries are Bernoulli: it gives neither the probability nor
    the two values. 0.02 and -1 are this project's choice; ``otherwise=0`` gives counting
    queries.
    """
    check_size("workload 'wdiscrete': d", d, 1)
    check_size("workload 'wdiscrete': m", m, 1)
    check_least("workload 'wdiscrete': seed", seed, 0)
    check_probability("workload 'wdiscrete': probability", probability)
    return two_valued("wdiscrete", (m, d), probability, otherwise, seed)


FAMILY = Family(
    "wdiscrete",
    "KDD'16's WDiscrete: m random queries with Bernoulli entries",
    build,
    source="Yuan et al., KDD 2016, section 5",
)
