"""Exact (ε, δ) of geometric noise, from all values of its privacy loss, with thirty digits.

The solvers convolve the loss on a grid. Here its values are listed, because they are few.
"""

import math
from collections.abc import Iterator
from itertools import product

import mpmath
import numpy as np

from benchmarks.adversary.checks import EXACT, Measured
from benchmarks.adversary.problems import Array, Case
from solvers import Solution
from solvers.noise.independent import IndependentNoise
from solvers.privacy.budget import LossBudget

_LARGEST_SUM = 200
_ROOM = mpmath.mpf(1) + mpmath.mpf(10) ** -9


def of_pure(case: Case, solution: Solution, moved: Array, of: str) -> Iterator[Measured]:
    """Check the stated interval around ε, and the noise at a budget, against the exact δ.

    Parameters
    ----------
    case : Case
        The problem.
    solution : Solution
        A solution of ``geometric``.
    moved : numpy.ndarray, shape (k, n)
        The changes of the k numbers that get noise, for each of n pairs of neighbours.
    of : str
        The call as a user writes it.
    """
    curve = solution.curve
    columns = {tuple(sorted(np.abs(column[column != 0]).tolist())) for column in moved.T} - {()}
    if not isinstance(curve, LossBudget) or sum(map(sum, columns)) > _LARGEST_SUM:
        return
    rng = np.random.default_rng([case.seed, 3])
    chosen = float(10 ** rng.uniform(-12, -1))
    assert isinstance(solution.noise, IndependentNoise)
    variance = solution.noise.source.variance
    found = curve.bracket(chosen)
    said = f"{of} at δ = {chosen!r}"
    over = largest_delta(columns, variance, found.upper * _ROOM) / chosen - 1
    yield Measured("ε of the privacy loss does not keep δ", float(over), EXACT, said)
    if found.lower > 0:
        under = 1 - largest_delta(columns, variance, found.lower / _ROOM) / chosen
        yield Measured("ε below its lower bound keeps δ", float(under), EXACT, said)
        yield Measured("bracket around ε", found.upper / found.lower - 1, math.inf, said)
    epsilon = float(10 ** rng.uniform(-2, 1))
    ratio = float(curve.variance_ratio_at_budget(epsilon, chosen))
    over = largest_delta(columns, variance * ratio, epsilon * _ROOM) / chosen - 1
    yield Measured("noise at a budget does not keep δ", float(over), EXACT, said)


def largest_delta(
    columns: set[tuple[float, ...]], variance: float, epsilon: mpmath.mpf
) -> mpmath.mpf:
    """Return δ(ε) of geometric noise with this variance, for the worst of the columns."""
    with mpmath.workdps(30):
        return max(geometric_delta(column, mpmath.mpf(variance), epsilon) for column in columns)


def geometric_delta(
    column: tuple[float, ...], variance: mpmath.mpf, epsilon: mpmath.mpf
) -> mpmath.mpf:
    """Return δ(ε) for one change of the numbers that get noise.

    The privacy losses of these numbers are integer multiples of one step. All values of their sum
    are listed, with their probabilities.
    """
    step = 2 * mpmath.asinh(1 / mpmath.sqrt(2 * variance))
    alpha = mpmath.exp(-step)
    sums = {0: mpmath.mpf(1)}
    for size in map(round, column):
        losses = {size: 1 / (1 + alpha), -size: alpha**size / (1 + alpha)}
        losses |= {size - 2 * z: (1 - alpha) / (1 + alpha) * alpha**z for z in range(1, size)}
        summed: dict[int, mpmath.mpf] = {}
        for (one, p), (other, q) in product(sums.items(), losses.items()):
            summed[one + other] = summed.get(one + other, mpmath.mpf(0)) + p * q
        sums = summed
    lost = ((step * n - epsilon, p) for n, p in sums.items())
    return mpmath.fsum(-p * mpmath.expm1(-beyond) for beyond, p in lost if beyond > 0)
