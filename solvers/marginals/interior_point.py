"""A primal-dual interior point for `solvers.marginals.program`, in the constraints' weights.

The dual is to maximise ``2 sum(sqrt(A.T (q + omega)))`` over the simplex. At its optimum
v = (A.T (q + omega))^-1/2 has ``A v + u = tau`` with slacks u >= 0 and q u = 0. Newton steps on
q u = mu with Mehrotra's predictor and corrector; the matrix of a step is
diag(u/q) + A diag(v³/2) A.T.
"""

from dataclasses import dataclass, replace

import numpy as np

from solvers.deadline import Deadline
from solvers.marginals.program import Program
from solvers.marginals.system import Solve, System
from workloads.operators import Array

_WARM_STEPS = 5
_STEP_TO_BOUNDARY = 0.99
_SMALLEST_CENTRING = 1e-5
_LEAST_FIRST_SLACK = 0.1


@dataclass(frozen=True, eq=False)
class Optimum:
    """A certified solution of a program.

    Attributes
    ----------
    v : numpy.ndarray, shape (variables,)
        Of the value ``upper``.
    q : numpy.ndarray, shape (constraints,)
        Weights that certify ``lower``.
    lower, upper : float
        Bounds on the optimal value.
    iterations : int
        Newton steps.
    converged, timed_out : bool
        Whether the gap reached ``tol``; whether time ran out before.
    """

    v: Array
    q: Array
    lower: float = 0.0
    upper: float = np.inf
    iterations: int = 0
    converged: bool = False
    timed_out: bool = False

    @property
    def gap(self) -> float:
        """``upper / lower - 1``."""
        return max(self.upper / self.lower - 1.0, 0.0)

    def improved(self, program: Program, q: Array, v: Array) -> "Optimum":
        """The better of this and of the bounds that some weights and their v give."""
        low, high = program.lower_bound(q), program.value(v)
        better = self if low <= self.lower else replace(self, lower=low, q=q)
        return better if high >= self.upper else replace(better, upper=high, v=v)


def minimise(
    program: Program,
    *,
    tol: float,
    max_iterations: int = 100,
    time_limit: float | None = None,
) -> Optimum:
    """Solve a program to a certified gap.

    Parameters
    ----------
    program : Program
        What is minimised.
    tol : float
        Relative gap to reach.
    max_iterations : int
        Newton steps at most.
    time_limit : float, optional
        In seconds.

    Returns
    -------
    Optimum
    """
    deadline = Deadline.after(time_limit)
    system = System(program.matrix)
    at = _start(program)
    best = Optimum(at.v, at.q).improved(program, at.q, at.v)
    while best.gap > tol and best.iterations < max_iterations and not deadline.passed:
        at = _newton(program, system, at)
        best = replace(best.improved(program, at.q, at.v), iterations=best.iterations + 1)
    converged = best.gap <= tol
    return replace(best, converged=converged, timed_out=deadline.passed and not converged)


@dataclass(frozen=True, eq=False)
class _Iterate:
    """Weights q, slacks u, the level tau of the largest ratios, and what follows from q."""

    q: Array
    u: Array
    tau: float
    v: Array
    ratios: Array


def _iterate(program: Program, q: Array, u: Array, tau: float) -> _Iterate:
    v = program.inner(q)
    return _Iterate(q, u, tau, v, program.ratios(v))


def _start(program: Program) -> _Iterate:
    """Weights after some multiplicative steps, whose fixed points are the optima."""
    q = np.full(program.omega.size, 1 / program.omega.size)
    for _ in range(_WARM_STEPS):
        ratios = program.ratios(program.inner(q))
        q = q * np.maximum(ratios / ratios.max(), 1e-3)
        q = q / q.sum()
    ratios = program.ratios(program.inner(q))
    tau = float(q @ ratios)
    return _iterate(program, q, np.maximum(tau - ratios, _LEAST_FIRST_SLACK * tau), tau)


def _newton(program: Program, system: System, at: _Iterate) -> _Iterate:
    """A predictor to q u = 0, then a corrector to the mu that it promises."""
    q, u = at.q, at.u
    solve = system.factorised(q / u, at.v**3 / 2)
    ones = solve(np.ones_like(q))
    mu = float(q @ u) / q.size
    dq, du, _ = _step(at, solve, ones, np.zeros_like(q))
    reach = min(_reach(q, dq), _reach(u, du), 1.0)
    ahead = float((q + reach * dq) @ (u + reach * du)) / q.size
    centring = max((ahead / mu) ** 3, _SMALLEST_CENTRING) * mu
    dq, du, dtau = _step(at, solve, ones, centring - np.clip(dq * du, -10 * mu, 10 * mu))
    length = min(_STEP_TO_BOUNDARY * min(_reach(q, dq), _reach(u, du)), 1.0)
    return _iterate(program, q + length * dq, u + length * du, at.tau + length * dtau)


def _step(at: _Iterate, solve: Solve, ones: Array, target: Array) -> tuple[Array, Array, float]:
    """The step of q, u and tau towards ``q u = target``; ``ones`` is the solution for ones."""
    free = solve(target / at.q - at.tau + at.ratios)
    dtau = float((free.sum() + at.q.sum() - 1) / ones.sum())
    dq = free - dtau * ones
    return dq, (target - at.u * dq) / at.q - at.u, dtau


def _reach(x: Array, dx: Array) -> float:
    """The longest step that keeps x + step * dx non-negative."""
    steepest = float((dx / x).min())
    return np.inf if steepest >= 0 else -1.0 / steepest
