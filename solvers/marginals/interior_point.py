"""A primal-dual interior point for ``min sum(1/v), A v <= 1`` in the weights of the constraints.

The dual is to maximise ``2 sum(sqrt(A.T q)) - sum(q)`` over q >= 0. At its optimum
v = (A.T q)^-1/2 is feasible, with slack u = 1 - A v and q u = 0. Newton steps on q u = mu with
Mehrotra's centring; the matrix of a step is diag(u/q) + A diag(v³/2) A.T.
"""

from dataclasses import dataclass, replace

import numpy as np

from solvers.deadline import Deadline
from solvers.marginals.program import Program
from solvers.marginals.system import System
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
        Its objective is ``upper`` once the largest ratio is scaled to 1.
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
    lower: float
    upper: float
    iterations: int
    converged: bool
    timed_out: bool

    @property
    def gap(self) -> float:
        """``upper / lower - 1``."""
        return max(self.upper / self.lower - 1.0, 0.0)


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
    best = Optimum(at.v, at.q, 0.0, np.inf, 0, False, False)
    while True:
        low, high = program.lower_bound(at.q), program.value(at.v)
        if low > best.lower:
            best = replace(best, lower=low, q=at.q)
        if high < best.upper:
            best = replace(best, upper=high, v=at.v)
        converged = best.gap <= tol
        if converged or best.iterations >= max_iterations or deadline.passed:
            break
        at = _newton(program, system, at)
        best = replace(best, iterations=best.iterations + 1)
    return replace(best, converged=converged, timed_out=deadline.passed and not converged)


@dataclass(frozen=True, eq=False)
class _Iterate:
    """Weights q, slacks u, and what follows from q."""

    q: Array
    u: Array
    v: Array
    ratios: Array


def _iterate(program: Program, q: Array, u: Array) -> _Iterate:
    v = program.inner(q)
    return _Iterate(q, u, v, program.ratios(v))


def _newton(program: Program, system: System, at: _Iterate) -> _Iterate:
    """A predictor to q u = 0, then a corrector to the mu that it promises."""
    q, u = at.q, at.u
    solve = system.factorised(q / u, at.v**3 / 2)
    known, mu = 1 - at.ratios, float(q @ u) / q.size

    def step(target: Array) -> tuple[Array, Array]:
        dq = solve(target / q - known)
        return dq, (target - u * dq) / q - u

    dq, du = step(np.zeros_like(q))
    reach = min(_reach(q, dq), _reach(u, du), 1.0)
    ahead = float((q + reach * dq) @ (u + reach * du)) / q.size
    centring = max((ahead / mu) ** 3, _SMALLEST_CENTRING) * mu
    dq, du = step(centring - np.clip(dq * du, -10 * mu, 10 * mu))
    length = min(_STEP_TO_BOUNDARY * min(_reach(q, dq), _reach(u, du)), 1.0)
    return _iterate(program, q + length * dq, u + length * du)


def _start(program: Program) -> _Iterate:
    """Weights after some multiplicative steps, at the best scale for the dual."""
    q = np.ones(program.matrix.shape[0])
    for _ in range(_WARM_STEPS):
        ratios = program.ratios(program.inner(q))
        q = q * np.maximum(ratios / ratios.max(), 1e-3)
    q = q * (np.sqrt(program.dual(q)).sum() / q.sum()) ** 2
    slack = 1 - program.ratios(program.inner(q))
    return _iterate(program, q, np.maximum(slack, _LEAST_FIRST_SLACK))


def _reach(x: Array, dx: Array) -> float:
    """The longest step that keeps x + step * dx non-negative."""
    steepest = float((dx / x).min())
    return np.inf if steepest >= 0 else -1.0 / steepest
