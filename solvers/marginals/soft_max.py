"""SM-II's objective on marginals: `solvers.softmax_dual` in the marginals' weights.

All cells have the same profile entry, so the soft maximum of privacy is that entry and a
constant. With Q_T the weight of a marginal's N_T queries together, the dual of Problem 4 is

    maximise  2 sum(sqrt(A.T (Q + omega))) + sum_T Q_T (log N_T - log Q_T) / t

over the simplex: the same levels of t, Newton steps and line search as on the matrix.
"""

from dataclasses import dataclass, replace

import numpy as np

from solvers.deadline import Deadline
from solvers.marginals.interior_point import Optimum
from solvers.marginals.program import Program
from solvers.marginals.system import System
from workloads.operators import Array

_FIRST_SHARPNESS = 10.0
_SMALLEST_WEIGHT = 1e-40
_SMALLEST_STEP = 1e-8
_ROUNDING = 1e-13
_LARGEST_EXPONENT = 50.0


@dataclass(frozen=True)
class Settings:
    """The constants of Algorithms 1 and 3 that the dual shares with the primal.

    Attributes
    ----------
    tol : float
        Certified relative gap to reach.
    mu : float
        MU: the factor by which t grows.
    nttol : float
        NTTOL: a level ends once the Newton decrement, relative to the objective, is less.
    sigma, beta : float
        Sufficient decrease and shrinking factor of the line search.
    max_iterations : int
        Newton steps at most.
    """

    tol: float
    mu: float
    nttol: float
    sigma: float
    beta: float
    max_iterations: int


@dataclass(frozen=True, eq=False)
class Level:
    """The smooth dual at one sharpness."""

    program: Program
    t: float

    def value(self, q: Array) -> float:
        entropy = float(q @ (self.program.log_counts - np.log(q)))
        return 2 * float((1 / self.program.inner(q)).sum()) + entropy / self.t

    def newton(self, system: System, q: Array) -> tuple[Array, float]:
        """The step of log q along the simplex, and the Newton decrement."""
        v = self.program.inner(q)
        entropy = (self.program.log_counts - np.log(q)) / self.t
        gradient = self.program.ratios(v) + entropy
        gradient = gradient - float(q @ gradient)
        solve = system.factorised(self.t * q, v**3 / 2)
        free, ones = solve(gradient), solve(np.ones_like(q))
        step = free - float(free.sum() / ones.sum()) * ones
        return step / q, float(step @ gradient)


def soften(
    program: Program, settings: Settings, time_limit: float | None = None
) -> tuple[Optimum, float]:
    """Solve a program by soft maxima of rising sharpness.

    Parameters
    ----------
    program : Program
        What is minimised.
    settings : Settings
        MU, NTTOL, ….
    time_limit : float, optional
        In seconds.

    Returns
    -------
    Optimum
    float
        The last t.
    """
    deadline = Deadline.after(time_limit)
    system = System(program.matrix)
    uniform = np.exp(program.log_counts - np.logaddexp.reduce(program.log_counts))
    q = _normalised(uniform)
    level = Level(program, _FIRST_SHARPNESS / float((1 / program.inner(q)).sum()))
    best = Optimum(program.inner(q), q).improved(program, q, program.inner(q))
    while best.gap > settings.tol and not deadline.passed:
        if best.iterations >= settings.max_iterations:
            break
        direction, decrement = level.newton(system, q)
        enough = settings.nttol * float((1 / program.inner(q)).sum())
        moved = _line_search(level, q, direction, decrement, settings)
        if moved is None and decrement > enough:
            break
        q = q if moved is None else moved
        best = best.improved(program, q, program.inner(q))
        best = replace(best, iterations=best.iterations + 1)
        if decrement <= enough:
            level = Level(program, level.t * settings.mu)
    converged = best.gap <= settings.tol
    stopped = replace(best, converged=converged, timed_out=deadline.passed and not converged)
    return stopped, level.t


def _line_search(
    level: Level,
    q: Array,
    direction: Array,
    decrement: float,
    settings: Settings,
) -> Array | None:
    """Algorithm 3 along ``q exp(length * direction)``, renormalised; None if it stalls."""
    value = level.value(q)
    allowed = value - _ROUNDING * abs(value)
    length = 1.0
    while length > _SMALLEST_STEP:
        moved = _normalised(q * np.exp(np.minimum(length * direction, _LARGEST_EXPONENT)))
        if level.value(moved) >= allowed + settings.sigma * length * decrement:
            return moved
        length *= settings.beta
    return None


def _normalised(q: Array) -> Array:
    """Of sum one, and no weight so small that rounding loses it."""
    floored = np.maximum(q / q.sum(), _SMALLEST_WEIGHT / q.size)
    return np.asarray(floored / floored.sum())
