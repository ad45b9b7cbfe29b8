"""Families of random queries: two-valued entries, low rank, or rows drawn from marginals."""

from collections.abc import Callable
from functools import partial
from itertools import combinations
from math import comb, isqrt, prod
from typing import Annotated

import numpy as np
import scipy

from workloads.errors import WorkloadError
from workloads.family import Family
from workloads.given import from_matrix
from workloads.operators import Array, Drawn, Explicit, Marginals, refuse_above_limit
from workloads.parameters import LARGEST_SIZE, Bounds, Probability, Seed, Size, check_size
from workloads.workload import Workload

_KDD = "Yuan et al., KDD 2016, section 5"

SMALL_ENTRIES = 2**18
"""Largest number of entries of a matrix that is drawn at once instead of when first needed.

Drawing takes a few milliseconds, and finds a matrix without nonzero entries before a sweep runs.
"""


def drawn(name: str, m: int, d: int, draw: Callable[[], Array]) -> Workload:
    """Return a workload with the matrix of ``draw``; a large one is drawn when first needed.

    Raises
    ------
    WorkloadError
        If the matrix would be too large, or all its entries are 0. The entries of a large matrix
        are checked when it is first needed.
    """
    refuse_above_limit(m * d, f"workload {name!r}: {m:,} x {d:,}", "lower m or d")
    if m * d <= SMALL_ENTRIES:
        return from_matrix(draw(), name)
    return Workload(name, Drawn(m, d, partial(_checked, name, draw)))


def _checked(name: str, draw: Callable[[], Array]) -> Array:
    return from_matrix(draw(), name).dense


def _two_valued(m: int, d: int, probability: float, otherwise: float, seed: int) -> Array:
    ones = np.random.default_rng(seed).random((m, d)) < probability
    return np.where(ones, 1.0, otherwise)


@Family.of("random", source="arXiv v1, section 7.4; PVLDB 14(10), section 7.5")
def random_signs(
    d: Size, m: Size | None = None, probability: Probability = 0.2, seed: Seed = 0
) -> Workload:
    """Random queries (m = 2 d by default); entries are +1 with the given probability, else -1."""
    count = 2 * d if m is None else m
    return drawn("random", count, d, partial(_two_valued, count, d, probability, -1.0, seed))


@Family.of("wdiscrete", source=_KDD)
def wdiscrete(
    d: Size,
    m: Size = 1024,
    probability: Probability = 0.02,
    otherwise: float = -1.0,
    seed: Seed = 0,
) -> Workload:
    """KDD'16's WDiscrete: m random queries with Bernoulli entries, 1 or ``otherwise``.

    KDD'16 says only that the entries are Bernoulli and gives neither their probability nor their
    two values. The defaults 0.02 and -1 are this project's choice; ``otherwise=0`` gives counting
    queries.
    """
    return drawn("wdiscrete", m, d, partial(_two_valued, m, d, probability, otherwise, seed))


@Family.of("wrelated", source=f"PVLDB 14(10), section 7.8; {_KDD}")
def wrelated(
    d: Annotated[int, Bounds(ge=2, le=LARGEST_SIZE)],
    m: Size | None = None,
    s: Size | None = None,
    seed: Seed = 0,
) -> Workload:
    """Random queries of rank s: the product of two Gaussian matrices; m = s = d/2 by default."""
    count, rank = (d // 2 if size is None else size for size in (m, s))
    largest = max(count * rank, rank * d)
    refuse_above_limit(largest, f"workload 'wrelated': {largest:,} entries", "lower d, m or s")
    return drawn("wrelated", count, d, partial(_product, count, rank, d, seed))


def _product(m: int, s: int, d: int, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    left = rng.standard_normal((m, s))
    return left @ rng.standard_normal((s, d))


@Family.of("wmarginal", source=_KDD)
def wmarginal(
    d: Annotated[int, Bounds(ge=4, le=LARGEST_SIZE)],
    m: Size = 1024,
    sizes: list[int] | None = None,
    seed: Seed = 0,
) -> Workload:
    """KDD'16's WMarginal: m queries drawn at random from all two-way marginals of d cells.

    The queries are drawn uniformly with replacement. KDD'16 does not say how the domain splits into
    attributes. ``sizes`` lists the number of values of each attribute. By default these are the
    prime factors of d in ascending order, so that d = 2^k gives k binary attributes.
    """
    split = _prime_factors(d) if sizes is None else list(sizes)
    if prod(split) != d or len(split) < 2 or min(split) < 1:
        raise WorkloadError(
            f"workload 'wmarginal': d = {d} with attribute sizes {split}; expected at least two "
            "positive sizes whose product is d",
            "sizes",
        )
    listed = comb(len(split), 2) * d
    check_size("workload 'wmarginal': pairs of attributes times d", listed, most=10 * LARGEST_SIZE)
    pairs = Marginals(tuple(split), tuple(combinations(range(len(split)), 2)))
    chosen = np.random.default_rng(seed).integers(0, pairs.shape[0], size=m)
    return Workload("wmarginal", Explicit(scipy.sparse.csr_array(pairs.matrix())[chosen]))


def _prime_factors(number: int) -> list[int]:
    least = next((n for n in range(2, isqrt(number) + 1) if number % n == 0), number)
    return [number] if least == number else [least, *_prime_factors(number // least)]
