"""Drawing noise from a mechanism, to set reality beside the closed form.

The draws are floating-point numbers: they are for experiments, never for a release, whose
privacy floating-point arithmetic can break (Mironov, CCS 2012).
"""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.linalg as sla
from numpy.typing import NDArray
from scipy import stats

from solvers.errors import NotApplicableError, OptionError
from solvers.solution import Solution

Float = NDArray[np.float64]
Draw = Callable[[int, np.random.Generator], Float]

CONFIDENCE = 0.99
"""Probability that the interval of `simulate` holds the largest variance ratio."""

_CHUNK_ENTRIES = 2**21
_GAUSSIAN_KURTOSIS = 3.0


@runtime_checkable
class Drawn(Protocol):
    """A solution that brings its own sampler."""

    @property
    def error_targets(self) -> Float:
        """The variance target of each error, shape (m,)."""
        ...

    def draw(self, n: int, rng: np.random.Generator) -> Float:
        """Draw n vectors of errors when the targets are just met, shape (n, m)."""
        ...


def simulate(solution: Any, n: int, seed: int) -> dict[str, float]:
    """The largest variance ratio of n noise vectors drawn from a solution's mechanism.

    The targets are just met, so the ratio that theory gives is 1. The errors have mean
    zero (or count from zero where a mechanism is biased), so the empirical variance is
    their mean square. Its interval is by the chi-square distribution, at level `CONFIDENCE`
    for all queries at once (Bonferroni); noise that is not Gaussian has n replaced by
    2n/(kurtosis - 1), by the kurtosis of each query's draws (Box's correction).

    Parameters
    ----------
    solution : Solution or Drawn
        What `solvers.solve` returned.
    n : int
        Number of noise vectors, at least 2.
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
        If the solution holds no noise vector to draw.
    """
    if n < 2:
        raise OptionError(f"simulate: {n} noise vectors; expected at least 2")
    draw, targets = sampler(solution)
    rng = np.random.default_rng(seed)
    squares, fourths = _moments(draw, len(targets), n, rng)
    gaussian = isinstance(solution, Solution)
    kurtosis = np.full(len(targets), _GAUSSIAN_KURTOSIS)
    if not gaussian:
        known = squares > 0
        kurtosis[known] = np.maximum(fourths[known] / squares[known] ** 2, 1.0)
    ratios = squares / targets
    low, high = _interval(ratios, n, kurtosis)
    return {
        "empirical_variance_ratio": float(ratios.max()),
        "empirical_variance_ratio_low": float(low.max()),
        "empirical_variance_ratio_high": float(high.max()),
    }


def sampler(solution: Any) -> tuple[Draw, Float]:
    """What draws a solution's errors, and their variance targets.

    Parameters
    ----------
    solution : Solution or Drawn
        What `solvers.solve` returned.

    Returns
    -------
    draw : callable
        ``draw(n, rng)`` gives n vectors of errors, shape (n, m).
    targets : numpy.ndarray, shape (m,)

    Raises
    ------
    NotApplicableError
        If the solution holds no noise vector to draw.
    """
    if isinstance(solution, Drawn):
        return solution.draw, solution.error_targets
    if isinstance(solution, Solution):
        return _gaussian(solution), solution.problem.targets
    raise NotApplicableError(
        "simulate: this solution holds no covariance of the noise to draw from (its workload is "
        "known by its structure only); leave simulate out, or use a smaller domain"
    )


def _gaussian(solution: Solution) -> Draw:
    """Errors L R z with covariance = R Rᵀ."""
    representation, covariance = solution.representation, solution.covariance
    size = covariance.shape[0]
    variance = _constant_diagonal(covariance)
    if variance is not None:
        return lambda n, rng: (
            np.sqrt(variance) * np.asarray(representation @ rng.standard_normal((n, size)).T).T
        )
    factor = np.asarray(representation @ sla.cholesky(covariance, lower=True))
    return lambda n, rng: rng.standard_normal((n, size)) @ factor.T


def _constant_diagonal(matrix: Float) -> float | None:
    """The variance, where the matrix is a view of a vector that stands for variance * I."""
    rows, columns = matrix.strides
    if len(matrix) > 1 and rows == -columns and not np.any(matrix[0, 1:]):
        return float(matrix[0, 0])
    return None


def _moments(draw: Draw, queries: int, n: int, rng: np.random.Generator) -> tuple[Float, Float]:
    """Mean squares and mean fourth powers of n draws, in chunks of bounded memory."""
    chunk = max(_CHUNK_ENTRIES // queries, 1)
    squares, fourths = np.zeros(queries), np.zeros(queries)
    for start in range(0, n, chunk):
        errors = np.square(draw(min(chunk, n - start), rng))
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
