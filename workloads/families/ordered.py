"""Workload families over ordered cells: prefixes, ranges, and prefixes of ages by sex."""

import numpy as np
import scipy
from numpy.typing import NDArray

from workloads.family import Family
from workloads.operators import Cumulative, Indices, differences
from workloads.parameters import LARGEST_SIZE, Seed, Size, check_size
from workloads.workload import Workload


@Family.of("prefix", source="PVLDB 14(10), section 7.1.1")
def prefix(d: Size) -> Workload:
    """All prefix sums of d ordered cells: query i sums cells 0 to i."""
    return Workload("prefix", Cumulative(scipy.sparse.eye_array(d, format="csr")))


@Family.of("all-range")
def all_range(d: Size) -> Workload:
    """All d (d + 1) / 2 ranges of d ordered cells, sorted by first cell, then by last."""
    check_size("workload 'all-range': number of ranges", d * (d + 1) // 2, most=2 * LARGEST_SIZE)
    first, last = np.triu_indices(d)
    return Workload("all-range", Cumulative(differences(first, last, d)))


@Family.of("range", source="PVLDB 14(10), section 7.4")
def random_ranges(d: Size, m: Size | None = None, seed: Seed = 0) -> Workload:
    """Random ranges of d ordered cells (m = 2 d by default).

    The two end points of a range are drawn independently and uniformly from the cells.
    """
    return _draw_ranges(d, 2 * d if m is None else m, seed)


@Family.of("wrange", source="Yuan et al., KDD 2016, section 5")
def wrange(d: Size, m: Size = 1024, seed: Seed = 0) -> Workload:
    """KDD'16's WRange: m random ranges of d ordered cells, drawn as in workload 'range'."""
    return _draw_ranges(d, m, seed)


def _draw_ranges(d: int, m: int, seed: int) -> Workload:
    ends = np.sort(np.random.default_rng(seed).integers(0, d, size=(m, 2)), axis=1)
    return Workload("range", Cumulative(differences(ends[:, 0], ends[:, 1], d)))


AGES = 116


_ADULT = 18


@Family.of("age", source="arXiv v1, section 7.5; PVLDB 14(10), section 7.6")
def age(voting_age: bool = True) -> Workload:
    """Age prefixes [0, x] for x = 0 to 115, for males, for females and for both together (d = 232).

    With ``voting_age`` there is also the range [18, 115] for each of the three: 351 queries in all.
    Without it there are 348 queries, as in the published runs. Group ``voting`` contains the ranges
    [0, 17] and [18, 115], group ``other`` all other queries. The targets of the two groups in arXiv
    v1 are 1 and 10.
    """
    last = np.arange(AGES)
    first = np.zeros(AGES, dtype=np.int64)
    if voting_age:
        first, last = np.append(first, _ADULT), np.append(last, AGES - 1)
    return by_sex("age", first, last, (first == _ADULT) | (last == _ADULT - 1))


def by_sex(
    name: str, first: Indices, last: Indices, voting: NDArray[np.bool_], identity: bool = False
) -> Workload:
    """Return the age ranges [first, last] for males, for females and for both together.

    The ranges that the mask ``voting`` selects make the group ``voting``, all other queries the
    group ``other``. With ``identity``, the single ages of both sexes are queries, too.
    """
    males = differences(first, last, 2 * AGES)
    females = differences(first + AGES, last + AGES, 2 * AGES)
    cells = np.arange(2 * AGES * identity)
    parts = [males, females, males + females, differences(cells, cells, 2 * AGES)]
    groups = np.append(np.tile(np.where(voting, 0, 1), 3), np.ones_like(cells))
    return Workload(
        name,
        Cumulative(scipy.sparse.csr_array(scipy.sparse.vstack(parts))),
        groups=groups,
        group_names=("voting", "other"),
        group_sizes=tuple(int(size) for size in np.bincount(groups)),
    )
