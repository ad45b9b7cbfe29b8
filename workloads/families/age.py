"""Age pyramids: prefixes of age for males, for females and for all."""

import numpy as np
import scipy.sparse as sp

from workloads.family import Family
from workloads.operators import Cumulative
from workloads.ranges import differences
from workloads.workload import Workload

AGES = 116
_ADULT = 18


def build(voting_age: bool = True) -> Workload:
    """Prefixes [0, x] of age over 2 x 116 cells, for males, for females and for all.

    With ``voting_age`` each of the three has [18, 115] too: 351 queries, otherwise 348,
    as in the published runs. Group ``voting`` holds [0, 17] and [18, 115], group ``other``
    the rest; arXiv v1's targets for the two are 1 and 10.
    """
    last = np.arange(AGES)
    first = np.zeros(AGES, dtype=np.int64)
    if voting_age:
        first, last = np.append(first, _ADULT), np.append(last, AGES - 1)
    males = differences(first, last, 2 * AGES)
    females = differences(first + AGES, last + AGES, 2 * AGES)
    is_voting = (first == _ADULT) | (last == _ADULT - 1)
    groups = np.tile(np.where(is_voting, 0, 1), 3)
    return Workload(
        "age",
        Cumulative(sp.csr_array(sp.vstack([males, females, males + females]))),
        groups=groups,
        group_names=("voting", "other"),
        group_sizes=tuple(int(size) for size in np.bincount(groups)),
    )


FAMILY = Family(
    "age",
    "prefixes of 116 ages for males, females and all, with or without [18, 115] (d = 232)",
    build,
    source="arXiv v1, section 7.5; PVLDB 14(10), section 7.6",
)
