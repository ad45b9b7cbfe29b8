"""The (ε, δ) of Laplace and geometric noise from sums over atoms and splines, in thirty digits.

Nothing is convolved on a grid here: the loss of geometric noise takes few values, which are
listed; that of a Laplace number moved by a is a with probability 1/2, -a with exp(-a)/2, and
between them has the density exp((loss - a)/2)/4, so that a sum of n of these has a spline.
"""

import math
from collections.abc import Iterator
from itertools import combinations, product

import mpmath
import numpy as np

from benchmarks.adversary.checks import EXACT, Measured
from benchmarks.adversary.problems import Array, Case
from solvers import Solution
from solvers.noise.independent import IndependentNoise
from solvers.privacy.budget import LossBudget

_MOST_SPLINES = 40
_LARGEST_SUM = 200
_ROOM = mpmath.mpf(1) + mpmath.mpf(10) ** -9


def of_pure(case: Case, solution: Solution, moved: Array, of: str) -> Iterator[Measured]:
    """The bracket around ε, and the noise at a budget, by the exact δ.

    Parameters
    ----------
    case : Case
        The problem.
    solution : Solution
        Of ``laplace`` or ``geometric``.
    moved : numpy.ndarray, shape (k, n)
        By how much each of n neighbours moves each of the k numbers that the noise is on.
    of : str
        The solve as it is written.
    """
    curve, noise = solution.curve, solution.mechanism
    columns = distinct(moved)
    if not isinstance(curve, LossBudget) or not within_reach(noise, columns):
        return
    rng = np.random.default_rng([case.seed, 3])
    chosen = float(10 ** rng.uniform(-12, -1))
    assert isinstance(solution.noise, IndependentNoise)
    variance = solution.noise.source.variance
    found = curve.bracket(chosen)
    said = f"{of} at δ = {chosen!r}"
    over = largest_delta(noise, columns, variance, found.upper * _ROOM) / chosen - 1
    yield Measured("ε of the privacy loss does not keep δ", float(over), EXACT, said)
    if found.lower > 0:
        under = 1 - largest_delta(noise, columns, variance, found.lower / _ROOM) / chosen
        yield Measured("ε below its lower bound keeps δ", float(under), EXACT, said)
        yield Measured("bracket around ε", found.upper / found.lower - 1, math.inf, said)
    epsilon = float(10 ** rng.uniform(-2, 1))
    ratio = float(curve.variance_ratio_at_budget(epsilon, chosen))
    over = largest_delta(noise, columns, variance * ratio, epsilon * _ROOM) / chosen - 1
    yield Measured("noise at a budget does not keep δ", float(over), EXACT, said)


def distinct(moved: Array) -> list[tuple[float, ...]]:
    """The magnitudes of every column that is not zero, each once."""
    found = {tuple(sorted(np.abs(column[column != 0]).tolist())) for column in moved.T}
    return sorted(column for column in found if column)


def within_reach(noise: str, columns: list[tuple[float, ...]]) -> bool:
    """Whether the columns are few and short enough for exact sums."""
    if noise == "geometric":
        return sum(map(sum, columns)) <= _LARGEST_SUM
    return sum(3 ** len(column) for column in columns) <= _MOST_SPLINES


def largest_delta(
    noise: str, columns: list[tuple[float, ...]], variance: float, epsilon: mpmath.mpf
) -> mpmath.mpf:
    """δ(ε) of noise of this variance, of the worst column."""
    exact = geometric_delta if noise == "geometric" else laplace_delta
    with mpmath.workdps(30):
        return max(exact(column, mpmath.mpf(variance), epsilon) for column in columns)


def geometric_delta(
    column: tuple[float, ...], variance: mpmath.mpf, epsilon: mpmath.mpf
) -> mpmath.mpf:
    """By all values of the sum of losses, whole multiples of one."""
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


def laplace_delta(
    column: tuple[float, ...], variance: mpmath.mpf, epsilon: mpmath.mpf
) -> mpmath.mpf:
    """By every choice of an atom or the density between for each number."""
    scale = mpmath.sqrt(variance / 2)
    shifts = [mpmath.mpf(size) / scale for size in column]
    total = mpmath.mpf(0)
    for chosen in product((1, 0, -1), repeat=len(shifts)):
        between = [a for a, k in zip(shifts, chosen, strict=True) if k == 0]
        atoms = [(a, k) for a, k in zip(shifts, chosen, strict=True) if k]
        weight = mpmath.fprod(mpmath.mpf(1) / 2 if k > 0 else mpmath.exp(-a) / 2 for a, k in atoms)
        left = epsilon - mpmath.fsum(k * a for a, k in atoms)
        total += weight * (_beyond(between, left) if between else max(0, -mpmath.expm1(left)))
    return total


def _beyond(shifts: list[mpmath.mpf], epsilon: mpmath.mpf) -> mpmath.mpf:
    """``E max(0, 1 - exp(ε - z))`` over the sum z of the densities of some numbers."""
    n, top = len(shifts), mpmath.fsum(shifts)
    knots = [
        (top - 2 * mpmath.fsum(some), (-1) ** size)
        for size in range(n + 1)
        for some in combinations(shifts, size)
    ]

    def density(z: mpmath.mpf) -> mpmath.mpf:
        spline = mpmath.fsum(sign * (z + knot) ** (n - 1) for knot, sign in knots if z + knot > 0)
        return mpmath.exp((z - top) / 2) / 4**n * spline / mpmath.factorial(n - 1)

    start = max(epsilon, -top)
    if start >= top:
        return mpmath.mpf(0)
    ends = sorted({start, top, *(-knot for knot, _ in knots if start < -knot < top)})
    return mpmath.quad(lambda z: -mpmath.expm1(epsilon - z) * density(z), ends)
