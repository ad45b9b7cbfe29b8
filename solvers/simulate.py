"""Drawing noise from a mechanism, to set reality beside the closed form.

The draws are floating-point numbers: they are for experiments, never for a release, whose
privacy floating-point arithmetic can break (Mironov, CCS 2012).
"""

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from solvers.errors import OptionError
from solvers.solution import Solution

Float = NDArray[np.float64]

CONFIDENCE = 0.99
"""Probability that the interval of `simulate` holds the largest variance ratio."""

_CHUNK_ENTRIES = 2**21


def simulate(solution: Solution, n: int, seed: int) -> dict[str, float]:
    """The largest variance ratio of n noise vectors drawn from a solution's mechanism.

    On a query matrix the targets are just met, so theory gives 1; on a query graph it gives
    the noise's ``variance_ratio``. The empirical variance is the mean square of the errors,
    whose mean is known. Its interval is by the chi-square distribution, at level `CONFIDENCE`
    for all queries at once (Bonferroni); for noise that is not Gaussian n is replaced by
    2n/(kurtosis - 1), with the kurtosis of each query's draws (Box's correction), which is
    no longer exact.

    Parameters
    ----------
    solution : Solution
        What `solvers.solve` returned.
    n : int
        Number of noise vectors, at least 2; on a query graph, for each answer.
    seed : int
        The same seed gives the same numbers.

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
        If the queries are too many to be listed.
    """
    if n < 2:
        raise OptionError(f"simulate: {n} noise vectors; expected at least 2")
    squares, fourths = _moments(solution, n, np.random.default_rng(seed))
    kurtosis = np.full_like(squares, 3.0)
    if not solution.noise.gaussian:
        np.divide(fourths, np.square(squares), out=kurtosis, where=squares > 0)
    ratios = squares / solution.problem.targets
    low, high = _interval(ratios, n, kurtosis)
    return {
        "empirical_variance_ratio": float(ratios.max()),
        "empirical_variance_ratio_low": float(low.max()),
        "empirical_variance_ratio_high": float(high.max()),
    }


def _moments(solution: Solution, n: int, rng: np.random.Generator) -> tuple[Float, Float]:
    """Mean squares and mean fourth powers of n draws, in chunks of bounded memory."""
    queries = solution.query_variances.size
    chunk = max(_CHUNK_ENTRIES // queries, 1)
    squares, fourths = np.zeros(queries), np.zeros(queries)
    for start in range(0, n, chunk):
        errors = np.square(solution.draw(min(chunk, n - start), rng))
        squares += errors.sum(axis=0)
        fourths += np.square(errors).sum(axis=0)
    return squares / n, fourths / n


def _interval(ratios: Float, n: int, kurtosis: Float) -> tuple[Float, Float]:
    """Both ends of an interval for each ratio, valid for all at once."""
    degrees = 2.0 * n / np.maximum(kurtosis - 1.0, 2.0 / n)
    tail = (1.0 - CONFIDENCE) / (2.0 * len(ratios))
    low = ratios * degrees / stats.chi2.isf(tail, degrees)
    high = ratios * degrees / stats.chi2.ppf(tail, degrees)
    return np.asarray(low), np.asarray(high)
