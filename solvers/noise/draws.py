"""Sampling of a mechanism's noise, to compare its empirical variances with the targets.

The samples are floating-point numbers: they are for experiments, never for a release, because
floating-point arithmetic can break the privacy of a release (Mironov, CCS 2012).
"""

import numpy as np

from solvers.errors import OptionError
from solvers.solution import Solution
from workloads.operators import Array

CONFIDENCE = 0.99
"""Confidence level of the interval that `simulate` returns."""

LEAST_DRAWN = 30
"""Least number of a query's errors that must differ from the first for a finite interval.

If fewer errors follow the first, all of them must differ from it. Rare errors make the mean square
skewed, and the least count for which the sum of squares is approximated well is usually put at 30.
"""

_CHUNK_ENTRIES = 2**21
"""Number of errors that are drawn at a time, so that they take 16 MiB."""


def simulate(solution: Solution, n: int, seed: int) -> dict[str, float]:
    """Draw n noise vectors and return the largest ratio of an empirical variance to its target.

    On a query matrix the targets are just met, so the largest ratio of the exact variances is 1;
    on a query graph it is the noise's ``variance_ratio_at_budget``. A query's empirical variance is
    the mean of its squared errors, without subtracting a sample mean. The confidence interval has
    the level `CONFIDENCE` for all queries together (Bonferroni). For Gaussian noise it follows from
    the chi-square distribution. For other noise it is approximate: it uses Pearson's type III
    distribution with the exact variance and skewness of the mean square. If too few errors of a
    query differ from the first error (see `LEAST_DRAWN`), as can happen with discrete noise, the
    interval of this query is from 0 to infinity, unless its exact variance is 0.

    Parameters
    ----------
    n : int
        Number of noise vectors, at least 2; on a query graph, for each true answer.
    seed : int
        Seed of the random generator; equal seeds give equal results.

    Returns
    -------
    dict
        ``empirical_variance_ratio`` and the ends of its confidence interval,
        ``empirical_variance_ratio_low`` and ``empirical_variance_ratio_high``.

    Raises
    ------
    OptionError
        If n is below 2.
    NotApplicableError
        If there are too many queries to draw the error of each.
    """
    if n < 2:
        raise OptionError(f"simulate: {n} noise vectors; expected at least 2")
    rng, targets = np.random.default_rng(seed), solution.problem.targets
    queries = solution.noise.query_variances.size
    chunk = max(_CHUNK_ENTRIES // queries, 1)
    squares = np.zeros(queries)
    other, first = np.zeros(queries, dtype=np.intp), None
    for start in range(0, n, chunk):
        drawn = solution.noise.draw(min(chunk, n - start), rng)
        first = drawn[0] if first is None else first
        other += np.count_nonzero(drawn != first, axis=0)
        squares += np.square(drawn / np.sqrt(targets)).sum(axis=0)
    squares /= n
    low, high = _interval(squares, n, *solution.noise.moments)
    rare = (other < min(n - 1, LEAST_DRAWN)) & (solution.noise.query_variances > 0)
    low, high = np.where(rare, 0.0, low), np.where(rare, np.inf, high)
    return {
        "empirical_variance_ratio": float(squares.max()),
        "empirical_variance_ratio_low": float(low.max()),
        "empirical_variance_ratio_high": float(high.max()),
    }


def _interval(
    ratios: Array, n: int, fourth: Array | float, sixth: Array | float
) -> tuple[Array, Array]:
    """Return the lower and upper ends of a confidence interval for each ratio.

    The level `CONFIDENCE` holds for all intervals together. ``fourth`` and ``sixth`` are the
    standardised moments of the errors. Each end is computed with the skewness of the mean squared
    error or with that of the chi-square distribution with the same variance (Box), whichever puts
    the end further from the ratio.
    """
    from scipy import stats

    variance = np.maximum(np.asarray(fourth) - 1.0, 2.0 / n)
    deviation = np.sqrt(variance / n)
    skewness = (np.asarray(sixth) - 3.0 * fourth + 2.0) / variance**1.5 / n**0.5
    tail = (1.0 - CONFIDENCE) / (2.0 * len(ratios))
    most = 1 + deviation * stats.pearson3.isf(tail, np.maximum(skewness, 2 * deviation))
    least = 1 + deviation * stats.pearson3.ppf(tail, np.minimum(skewness, 2 * deviation))
    low = np.divide(ratios, most, out=np.zeros_like(ratios), where=most > 0)
    high = np.divide(ratios, least, out=np.full_like(ratios, np.inf), where=least > 0)
    return low, high
