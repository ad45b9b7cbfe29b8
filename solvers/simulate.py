"""Drawing noise from a mechanism, to set reality beside the closed form.

The draws are floating-point numbers: they are for experiments, never for a release, whose
privacy floating-point arithmetic can break (Mironov, CCS 2012).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg as sla
from numpy.typing import NDArray
from scipy import stats

from solvers.errors import OptionError
from solvers.graph import GraphSolution
from solvers.marginals import MarginalsSolution
from solvers.pure import PureSolution

Float = NDArray[np.float64]

CONFIDENCE = 0.99
"""Probability that the interval of `simulate` holds the largest variance ratio."""

_CHUNK_ENTRIES = 2**21


class Sampler(NamedTuple):
    """What draws the errors of a mechanism.

    Attributes
    ----------
    draw : callable
        ``draw(n, rng)`` gives n vectors of errors, shape (n, m).
    targets : numpy.ndarray, shape (m,)
        The variance target of each error.
    gaussian : bool
        Whether every error is normal.
    """

    draw: Callable[[int, np.random.Generator], Float]
    targets: Float
    gaussian: bool


def simulate(solution: Any, n: int, seed: int) -> dict[str, float]:
    """The largest variance ratio of n noise vectors drawn from a solution's mechanism.

    On a query matrix the targets are just met, so theory gives 1; on a query graph it gives
    the solution's ``variance_ratio``. The empirical variance is the mean square of the errors,
    whose mean is known. Its interval is by the chi-square distribution, at level `CONFIDENCE`
    for all queries at once (Bonferroni); for noise that is not Gaussian n is replaced by
    2n/(kurtosis - 1), with the kurtosis of each query's draws (Box's correction), which is
    no longer exact.

    Parameters
    ----------
    solution : Solution, PureSolution, GraphSolution or MarginalsSolution
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
        If the queries are too many to be listed, or the covariance too large to be written out.
    """
    if n < 2:
        raise OptionError(f"simulate: {n} noise vectors; expected at least 2")
    chosen = sampler(solution)
    squares, fourths = _moments(chosen, n, np.random.default_rng(seed))
    kurtosis = np.full_like(squares, 3.0)
    if not chosen.gaussian:
        np.divide(fourths, np.square(squares), out=kurtosis, where=squares > 0)
    ratios = squares / chosen.targets
    low, high = _interval(ratios, n, kurtosis)
    return {
        "empirical_variance_ratio": float(ratios.max()),
        "empirical_variance_ratio_low": float(low.max()),
        "empirical_variance_ratio_high": float(high.max()),
    }


def sampler(solution: Any) -> Sampler:
    """What draws a solution's errors.

    Parameters
    ----------
    solution : Solution, PureSolution, GraphSolution or MarginalsSolution
        What `solvers.solve` returned.

    Returns
    -------
    Sampler

    Raises
    ------
    NotApplicableError
        If the queries are too many to be listed, or the covariance too large to be written out.
    """
    if isinstance(solution, PureSolution):
        return Sampler(solution.draw, solution.problem.targets, gaussian=False)
    if isinstance(solution, GraphSolution):
        return _of_rows(solution)
    if isinstance(solution, MarginalsSolution):
        return Sampler(solution.draw, solution.problem.targets, gaussian=True)
    return _of_covariance(solution)


def _of_covariance(solution: Any) -> Sampler:
    """Errors L R z, with covariance R Rᵀ and z standard normal."""
    representation, covariance = solution.representation, solution.covariance
    size, targets = len(covariance), solution.problem.targets
    variance = _constant_diagonal(covariance)
    if variance is not None:
        factor = np.sqrt(variance) * representation
    else:
        factor = np.asarray(representation @ sla.cholesky(covariance, lower=True))

    def draw(n: int, rng: np.random.Generator) -> Float:
        return np.asarray((factor @ rng.standard_normal((n, size)).T).T)

    return Sampler(draw, targets, gaussian=True)


def _constant_diagonal(matrix: Float) -> float | None:
    """The variance, where the matrix is a view of a vector that stands for variance * I."""
    rows, columns = matrix.strides
    if len(matrix) > 1 and rows == -columns and not np.any(matrix[0, 1:]):
        return float(matrix[0, 0])
    return None


def _of_rows(solution: GraphSolution) -> Sampler:
    """Errors of outputs drawn from every row of the noise matrix, about the row's centre.

    A coordinate's error is its distance from its mean; where answers are no numbers, an
    error is the graph distance from the answer with the least mean square (Fréchet).
    """
    graph, noise = solution.problem.graph, solution.noise
    upto = np.cumsum(noise, axis=1)
    points = graph.coordinates
    if points is None:
        centres = np.argmin(noise @ np.square(graph.distances), axis=1)
        errors = graph.distances[centres][:, :, None]
    else:
        errors = points[None, :, :] - (noise @ points)[:, None, :]
    answers, _, coordinates = errors.shape
    each = np.arange(answers)

    def draw(n: int, rng: np.random.Generator) -> Float:
        uniform = rng.random((n, answers)) * upto[:, -1]
        outputs = np.stack(
            [np.searchsorted(upto[i], uniform[:, i], side="right") for i in each], axis=1
        )
        found: Float = errors[each, np.minimum(outputs, answers - 1)].reshape(n, -1)
        return found

    targets = np.full(answers * coordinates, solution.problem.target)
    return Sampler(draw, targets, gaussian=False)


def _moments(chosen: Sampler, n: int, rng: np.random.Generator) -> tuple[Float, Float]:
    """Mean squares and mean fourth powers of n draws, in chunks of bounded memory."""
    queries = len(chosen.targets)
    chunk = max(_CHUNK_ENTRIES // queries, 1)
    squares, fourths = np.zeros(queries), np.zeros(queries)
    for start in range(0, n, chunk):
        errors = np.square(chosen.draw(min(chunk, n - start), rng))
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
