"""PL 94-171, the Census file for redistricting: voting age x ethnicity x race."""

from itertools import combinations

import numpy as np
import scipy.sparse as sp

from workloads.family import Family
from workloads.operators import Explicit, Kronecker
from workloads.workload import Workload, in_blocks

_CATEGORIES = 6
RACES = tuple(
    chosen
    for size in range(1, _CATEGORIES + 1)
    for chosen in combinations(range(_CATEGORIES), size)
)
"""The 63 races: every non-empty set of the six OMB categories, single ones first."""

_GROUPS = ("voting-age", "ethnicity", "one-race", "several-races", "identity")


def build() -> Workload:
    """319 queries over 2 x 2 x 63 cells, in five groups.

    a) ``voting-age`` (2 queries), b) ``ethnicity`` (2), c) ``one-race``: who selected only
    that category (6), d) ``several-races``: who selected that combination (57),
    e) ``identity`` (252). arXiv v1's targets for the groups are 1, 1, 1, 2 and 4.
    """
    yes_no, races = sp.eye_array(2, format="csr"), sp.eye_array(len(RACES), format="csr")
    both, all_races = np.ones((1, 2)), np.ones((1, len(RACES)))
    terms = (
        (yes_no, both, all_races),
        (both, yes_no, all_races),
        (both, both, races[:_CATEGORIES]),
        (both, both, races[_CATEGORIES:]),
        (yes_no, yes_no, races),
    )
    union = Kronecker(terms)
    return in_blocks("pl94", Explicit(union.matrix()), _GROUPS, union.term_sizes)


FAMILY = Family(
    "pl94",
    "319 queries of the redistricting file over voting age x ethnicity x race (d = 252)",
    build,
    source="arXiv v1, section 7.2; PVLDB 14(10), section 7.3",
)
