"""Random queries of +1 and -1."""

from workloads.family import Family
from workloads.parameters import check_least, check_probability, check_size
from workloads.random_entries import two_valued
from workloads.workload import Workload


def build(d: int, m: int | None = None, probability: float = 0.2, seed: int = 0) -> Workload:
    """Random queries, m = 2 d by default: every entry +1 with the given probability, else -1."""
    check_size("workload 'random': d", d, 1)
    count = 2 * d if m is None else m
    check_size("workload 'random': m", count, 1)
    check_least("workload 'random': seed", seed, 0)
    check_probability("workload 'random': probability", probability)
    return two_valued("random", (count, d), probability, -1.0, seed)


FAMILY = Family(
    "random",
    "m random queries, entries +1 with probability 0.2, else -1 (m = 2 d by default)",
    build,
    source="arXiv v1, section 7.4; PVLDB 14(10), section 7.5",
)
