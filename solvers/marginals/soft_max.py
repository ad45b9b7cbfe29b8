"""SM-II's objective on marginals: `solvers.softmax_dual` in the marginals' weights.

All cells have the same profile entry, so the soft maximum of privacy is that entry and a
constant. With Q_T the weight of a marginal's N_T queries together, the dual of Problem 4 is

    maximise  2 sum(sqrt(A.T (Q + omega))) + sum_T Q_T (log N_T - log Q_T) / t

over the simplex. As on the matrix, Newton steps at rising t, and a logarithmic barrier that
keeps vanishing weights at the cost of a quarter of the gap asked for.
"""

from dataclasses import dataclass, replace

import numpy as np

from solvers.marginals.interior_point import Optimum
from solvers.marginals.program import Program
from solvers.optimiser.low_rank_system import LowRankSystem
from solvers.stopping import Deadline
from workloads.operators import Array

_FIRST_SHARPNESS = 10.0
_FINEST_SHARPNESS = 1e4
_BARRIER_SHARE = 0.25
_OFF_CENTRE = 4.0
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
    """The smooth dual at sharpness t, with the weight of its barrier."""

    program: Program
    t: float
    barrier: float = 0.0

    def value(self, q: Array) -> float:
        """The objective, a constant apart."""
        smooth = q @ self.program.log_counts / self.t + (self.barrier - q / self.t) @ np.log(q)
        return 2 * self.program.nuclear_norm(q) + float(smooth)

    def newton(self, system: LowRankSystem, q: Array) -> tuple[Array, float]:
        """The step of log q along the simplex, and the Newton decrement."""
        v = self.program.inner(q)
        entropy = (self.program.log_counts - np.log(q)) / self.t
        slope = self.program.ratios(v) + entropy + self.barrier / q
        slope = slope - float(q @ slope)
        solve = system.factorised(np.square(q) / (q / self.t + self.barrier), v**3 / 2)
        free, ones = solve(slope), solve(np.ones_like(q))
        step = free - float(free.sum() / ones.sum()) * ones
        return step / q, float(step @ slope)

    def gap(self, norm: float) -> float:
        """About the gap of the largest ratio at its maximiser."""
        entropy = float(np.logaddexp.reduce(self.program.log_counts)) / self.t
        return (entropy + self.barrier * self.program.offset.size) / norm


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
    system = LowRankSystem(program.matrix)
    count = float(np.logaddexp.reduce(program.log_counts))
    uniform = np.exp(program.log_counts - count)
    norm = program.nuclear_norm(uniform)
    barrier = _BARRIER_SHARE * settings.tol * norm / uniform.size
    q = _normalised(uniform, barrier / norm)
    level = Level(program, _FIRST_SHARPNESS / norm, barrier)
    best = Optimum(program.inner(q), q).improved(program, q, program.inner(q))
    while best.gap > settings.tol and best.iterations < settings.max_iterations:
        if deadline.passed:
            break
        direction, decrement = level.newton(system, q)
        moved = _line_search(level, q, direction, decrement, settings)
        q = q if moved is None else moved
        best = best.improved(program, q, program.inner(q))
        best = replace(best, iterations=best.iterations + 1)
        off_centre = _OFF_CENTRE * level.gap(norm) + settings.tol / 2
        centred = decrement <= settings.nttol * norm and (
            program.value(program.inner(q)) <= program.lower_bound(q) * (1 + off_centre)
        )
        if centred and level.t * norm * settings.tol < _FINEST_SHARPNESS * max(count, 1.0):
            level = Level(program, level.t * settings.mu, barrier)
        elif moved is None or decrement <= _ROUNDING * norm:
            break
    converged = best.gap <= settings.tol
    stopped = replace(best, converged=converged, timed_out=deadline.passed and not converged)
    return stopped, level.t


def _line_search(
    level: Level, q: Array, direction: Array, decrement: float, settings: Settings
) -> Array | None:
    """Algorithm 3 along ``q exp(length * direction)``, renormalised; None if it stalls."""
    value = level.value(q)
    allowed = value - _ROUNDING * abs(value)
    least = level.barrier / level.program.nuclear_norm(q)
    length = 1.0
    while length > _SMALLEST_STEP:
        moved = q * np.exp(np.minimum(length * direction, _LARGEST_EXPONENT))
        moved = _normalised(moved, least)
        if level.value(moved) >= allowed + settings.sigma * length * decrement:
            return moved
        length *= settings.beta
    return None


def _normalised(q: Array, least: float) -> Array:
    """Of sum one, no weight below the least: at the optimum none is."""
    floored = np.maximum(q / q.sum(), least)
    return np.asarray(floored / floored.sum())
