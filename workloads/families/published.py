"""The workloads of the PVLDB 14(10) and arXiv v1 runs, drawn as the authors' code draws them.

Every script of the authors (github.com/cmla-psu/matrixqueries, folder SM-II) begins with
``numpy.random.seed(0)``, so that each of its random tables is one reproducible draw. The families
repeat the calls to numpy's legacy generator, whose stream numpy keeps the same for ever.
"""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from workloads.families.ordered import AGES, by_sex
from workloads.family import Family
from workloads.operators import Array, Cumulative, Explicit, differences, refuse_above_limit
from workloads.parameters import Size
from workloads.workload import Stated, Workload

_SOURCE = "PVLDB 14(10), section 7; the authors' code (cmla-psu/matrixqueries)"

_CONFIDENCE = 0.95
"""The default of stated targets: the papers state variances and no confidence level."""

_VOTING_CELLS = 18
"""The authors' queries of voting age sum 18 cells (entries 98, 214 and 330 of their targets)."""


def _stating(name: str, queries: Cumulative | Explicit, targets: ArrayLike) -> Workload:
    stated = Stated(np.asarray(targets, dtype=np.float64), np.full(queries.shape[0], _CONFIDENCE))
    return Workload(name, queries, stated=stated)


@Family.of("published-range", source=_SOURCE)
def ranges(d: Size, bounds: Literal["one", "random"] = "one") -> Workload:
    """The 2d random ranges of Tables 5 (bounds "one") and 6 ("random"), as the authors drew them.

    Row by row, two end points are drawn from the cells and, for random bounds, a target from 1 to
    10. If no target is drawn, all ranges from the second row on are different ones.
    """
    generator = np.random.RandomState(0)
    ranges_of_draws = [d, d, 10] if bounds == "random" else [d, d]
    drawn = generator.randint(0, np.tile(ranges_of_draws, 2 * d)).reshape(2 * d, -1)
    ends = np.sort(drawn[:, :2], axis=1)
    targets = 1 + drawn[:, 2] if bounds == "random" else np.ones(2 * d)
    return _stating("published-range", Cumulative(differences(ends[:, 0], ends[:, 1], d)), targets)


@Family.of("published-random", source=_SOURCE)
def signs(d: Size, bounds: Literal["random", "important"] = "random") -> Workload:
    """The 2d random queries of +1 and -1 of Tables 7 and 8, as the authors drew them.

    Both signs are equally likely: the authors pass their probability 0.2 as the argument
    ``replace`` of ``numpy.random.choice``. The stated targets are whole numbers: from 1 to 10 if
    they are "random" (PVLDB); from 1 to 3 for a tenth of the queries and from 10 to 15 for the
    others if they are "important" (arXiv v1).
    """
    m = 2 * d
    refuse_above_limit(m * d, f"workload 'published-random': {m:,} x {d:,}", "lower d")
    generator = np.random.RandomState(0)
    entries: Array = np.where(generator.randint(0, 2, size=(m, d)) == 1, 1.0, -1.0)
    if bounds == "random":
        targets = generator.randint(1, 11, m)
    else:
        few = generator.randint(1, 4, m // 10)
        targets = np.concatenate([few, generator.randint(10, 16, m - m // 10)])
    return _stating("published-random", Explicit(entries), targets)


@Family.of("published-related", source=_SOURCE)
def related(d: Size) -> Workload:
    """The d/2 queries of rank d/2 of PVLDB's Table 11, as the authors drew them.

    They are the product of two Gaussian matrices; the right factor is drawn first.
    """
    refuse_above_limit(d * d // 2, f"workload 'published-related': {d:,} cells", "lower d")
    generator = np.random.RandomState(0)
    right = generator.normal(0, 1, (d // 2, d))
    return Workload("published-related", Explicit(generator.normal(0, 1, (d // 2, d // 2)) @ right))


@Family.of("published-age", source=_SOURCE)
def ages(identity: bool = False) -> Workload:
    """Age ranges [x, 115] for males, for females and for both, as in the authors' runs (d = 232).

    The authors' basis, an upper triangular matrix, cumulates from the oldest age down, which the
    text describes as prefixes. With ``identity`` the single ages of both sexes are queries, too:
    580 queries, as in the run of March 2021 (commit 26e6fca). Group ``voting`` holds the three
    queries that the arXiv run gives the target 1: each sums 18 cells.
    """
    first, last = np.arange(AGES), np.full(AGES, AGES - 1)
    return by_sex("published-age", first, last, first == AGES - _VOTING_CELLS, identity)
