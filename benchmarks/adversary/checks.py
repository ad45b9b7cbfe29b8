"""Properties that solutions must have, measured independently of the solvers.

Every check yields numbers with their upper limits. To verify a mechanism W = L B, its factors L and
B are multiplied in extended precision or, for small problems, with fifty digits. The optimum is
compared with Clarabel's solution of a semidefinite program.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import mpmath
import numpy as np

import solvers
from benchmarks.adversary.problems import Array, Case
from solvers import Solution
from solvers.noise.factorisation import Factorisation, ProductNoise
from workloads.operators import dense

ROUNDING = 1e-8
"""Largest relative amount by which rounding of singular values may put a cost below a bound."""

EXACT = 1e-9
"""Tolerance of closed forms, feasibility and stated numbers."""

_WELL_CONDITIONED = 1e5
CLARABEL = 3e-6
"""Tolerance of Clarabel's optimum."""

_LARGEST_PROGRAMME = 22


@dataclass(frozen=True)
class Measured:
    """A number and its upper limit.

    Attributes
    ----------
    name : str
        What was measured, such as ``over the targets``.
    value : float
        The number; a perfect solution has 0 or less.
    allowed : float
        The upper limit; a larger value is a finding.
    of : str
        The mechanism with its options, and whatever else is needed to reproduce the number.
    """

    name: str
    value: float
    allowed: float
    of: str

    @property
    def wrong(self) -> bool:
        """Whether the number is a finding; NaN always is."""
        return not self.value <= self.allowed


def written(mechanism: str, options: Mapping[str, Any]) -> str:
    """Return the call of a solve as a user would write it; arrays are shown as ``...``."""
    shown = (f"{k}={v!r}" if np.ndim(v) == 0 else f"{k}=..." for k, v in options.items())
    return f"{mechanism}({', '.join(shown)})"


def of_solution(
    case: Case, solution: Solution, options: Mapping[str, Any], moved: Case, moves: Array
) -> Iterator[Measured]:
    """Yield the measurements of all checks of a single solution.

    Parameters
    ----------
    case : Case
        The problem that was solved.
    solution : Solution
        The answer.
    options : Mapping
        The options of the solve.
    moved : Case
        The problem whose columns are the changes of the query answers between neighbours.
    moves : numpy.ndarray
        The changes of the data vector x between neighbours, one column each; the identity if
        neighbours differ in one cell.
    """
    of = f"{written(solution.mechanism, options)} under {solution.neighbours}"
    if not solution.noise.gaussian:
        yield from independent(case, solution, of)
        return
    left, right = factors(solution)
    # Under replace-one, B is rounded twice: when it is solved for, and when it is scaled. This
    # moves each column by eps times its length, and the difference of two columns by twice that.
    # L B - W is then wrong by 2 eps |L_j| max |B_i|, in units of |L_j| max |B_i - B_k|.
    changes = right @ moves
    lengths = [np.square(columns).sum(axis=0).max() for columns in (right, changes)]
    allowed = 1e-11 + 2 * np.finfo(float).eps * float(np.sqrt(lengths[0] / lengths[1]))
    yield from factorisation(moved, solution, left, changes, allowed, of)
    if solution.neighbours == "add-remove":
        yield from coordinates(case, solution, right, of)
        if case.small:
            yield from covariance(case, solution, of)
    if solution.known_lower_bound is not None:
        yield from certificate(moved, solution, of)
        yield from convergence(solution, options, of)
    yield from budget(case, solution, of)


def factors(solution: Solution) -> tuple[Array, Array]:
    """Return L and B in extended precision, scaled so that the noise has variance 1."""
    noise = solution.noise
    if isinstance(noise, Factorisation):
        return _extended(dense(noise.left)), _extended(dense(noise.right))
    if isinstance(noise, ProductNoise):
        left = right = np.ones((1, 1), dtype=np.longdouble)
        for part in noise.parts:
            left = np.kron(left, _extended(dense(part.left)))
            right = np.kron(right, _extended(dense(part.right)))
        root = np.sqrt(np.longdouble(noise.target))
        return left * root, right / root
    units = np.sqrt(np.diag(solution.covariance))
    root = np.linalg.cholesky(solution.covariance / units / units[:, None]) * units[:, None]
    right = np.linalg.solve(root / units[:, None], solution.basis / units[:, None])
    return _extended(dense(solution.representation) @ root), _extended(right)


def _extended(matrix: Array) -> Array:
    return np.asarray(matrix, dtype=np.longdouble)


def factorisation(
    case: Case, solution: Solution, left: Array, right: Array, allowed: float, of: str
) -> Iterator[Measured]:
    """Check, with the factors, that targets are met and that the stated numbers are right.

    The numbers are L B - W, the query variances and the privacy cost. ``allowed`` limits L B - W.
    """
    matrix, targets = _extended(case.matrix), _extended(case.targets)
    variances, profile = np.square(left).sum(axis=1), np.square(right).sum(axis=0)
    stated, cost = solution.query_variances, solution.squared_privacy_cost
    pairs = solution.neighbours != "add-remove"
    units = np.sqrt(np.outer(variances, np.full_like(profile, profile.max()) if pairs else profile))
    biased = _over(np.abs(left @ right - matrix), units)
    scaled, unit = np.max(np.abs(variances - stated) / targets), float(profile.max())
    yield Measured("over the targets", float(np.max(variances / targets)) - 1, EXACT, of)
    yield Measured("L B - W in units of the noise", biased, allowed, of)
    yield Measured("stated variances off", float(scaled), EXACT, of)
    yield Measured("stated privacy cost off", abs(cost / unit - 1), EXACT, of)


def coordinates(case: Case, solution: Solution, right: Array, of: str) -> Iterator[Measured]:
    """Check the stated privacy profile, and that ``representation @ basis`` is W up to rounding."""
    variances, profile = solution.query_variances, solution.privacy_profile
    off = np.max(np.abs(np.square(right).sum(axis=0) - profile)) / profile.max()
    yield Measured("stated privacy profile off", float(off), EXACT, of)
    left, right = _extended(dense(solution.representation)), _extended(solution.basis)
    known = [np.where(entries > 0, entries, entries.max()) for entries in (variances, profile)]
    units = np.sqrt(np.outer(*known))
    off = _over(np.abs(left @ right - _extended(case.matrix)), units)
    yield Measured("representation @ basis - W, in the same units", off, EXACT, of)


def _over(missing: Array, units: Array) -> float:
    """Return the largest entry of ``missing / units``, with 0 / 0 = 0."""
    nothing = np.where(missing > 0, np.inf, 0.0)
    return float(np.divide(missing, units, out=nothing, where=units > 0).max())


def covariance(case: Case, solution: Solution, of: str) -> Iterator[Measured]:
    """Check the stated privacy cost against the covariance's, computed with fifty digits."""
    sigma, basis = solution.covariance, solution.basis
    units = np.sqrt(np.diag(sigma))
    if np.linalg.cond(sigma / np.outer(units, units)) > _WELL_CONDITIONED:
        return
    with mpmath.workdps(50):
        exact, columns = mpmath.matrix(sigma.tolist()), mpmath.matrix(basis.tolist())
        queries = mpmath.matrix(dense(solution.representation).tolist())
        seen = columns.T * exact**-1 * columns
        spread = queries * exact * queries.T
        profile = max(seen[i, i] for i in range(seen.rows))
        ratio = max(spread[j, j] / case.targets[j] for j in range(spread.rows))
        off = float(abs(profile * ratio / solution.squared_privacy_cost - 1))
    yield Measured("privacy cost in 50 digits off", off, EXACT, of)


def certificate(case: Case, solution: Solution, of: str) -> Iterator[Measured]:
    """Check that the dual weights prove the stated lower bound, and that the gap is right."""
    weights, bound = solution.weights, solution.known_lower_bound
    assert bound is not None
    over = bound / solution.squared_privacy_cost - 1
    yield Measured("own bound above own cost", over, ROUNDING, of)
    stated = solution.squared_privacy_cost / bound - 1
    yield Measured("stated gap off", abs(max(stated, 0) - solution.gap), 1e-12, of)
    if weights is not None:
        proven = proven_bound(case, weights.p, weights.q)
        yield Measured("bound above what its weights prove", bound / proven - 1, ROUNDING, of)


def proven_bound(case: Case, p: Array, q: Array) -> float:
    """Return the lower bound that the dual weights p and q prove on the squared privacy cost.

    With targets c, it is ``‖diag(q)^½ diag(c)^-½ W diag(p)^½‖_*² / (Σp Σq)``, computed with fifty
    digits for small problems.
    """
    if not case.small:
        scaled = np.sqrt(q / case.targets)[:, None] * case.matrix * np.sqrt(p)
        norm = np.linalg.svd(scaled, compute_uv=False).sum()
        return float(norm**2 / (p.sum() * q.sum()))
    with mpmath.workdps(50):
        columns = [mpmath.sqrt(mpmath.mpf(cell)) for cell in p]
        rows = [
            mpmath.sqrt(mpmath.mpf(query) / mpmath.mpf(target))
            for query, target in zip(q, case.targets, strict=True)
        ]
        exact = mpmath.diag(rows) * mpmath.matrix(case.matrix.tolist()) * mpmath.diag(columns)
        singular = mpmath.svd_r(exact, compute_uv=False)
        total = mpmath.fsum(p) * mpmath.fsum(q)
        return float(mpmath.fsum(singular) ** 2 / total)


def convergence(solution: Solution, options: Mapping[str, Any], of: str) -> Iterator[Measured]:
    """Check that ``converged`` is true if and only if the requested gap was reached."""
    mechanism = solvers.all_mechanisms()[solution.mechanism]
    asked = mechanism(**options)
    if not asked.certifies:
        return
    tol = asked.options["tol"]
    if solution.converged:
        yield Measured("gap over tol where converged", solution.gap - tol, 1e-12, of)
        yield Measured("converged and timed out", float(solution.timed_out), 0, of)
    elif not isinstance(solution.noise, ProductNoise):
        reached = float(solution.gap <= tol)
        yield Measured("gap reached, not converged", reached, 0, f"{of}, gap {solution.gap:g}")


def budget(case: Case, solution: Solution, of: str) -> Iterator[Measured]:
    """Check the noise for a random budget (ε, δ): δ must be exact at ε."""
    rng = np.random.default_rng(case.seed)
    epsilon, chosen = float(10 ** rng.uniform(-3, 1.5)), float(10 ** rng.uniform(-15, -0.5))
    at = solution.at_budget(epsilon, chosen)
    off = abs(delta(epsilon, at.squared_privacy_cost) / chosen - 1)
    yield Measured("δ at a budget off", off, EXACT, f"{of} at ε = {epsilon!r}, δ = {chosen!r}")


def delta(epsilon: float, squared_privacy_cost: float) -> float:
    """Return the least δ of Gaussian noise at ε by Theorem 1, computed with fifty digits."""
    with mpmath.workdps(50):
        cost = mpmath.sqrt(mpmath.mpf(squared_privacy_cost))
        ratio = epsilon / cost
        beyond = mpmath.exp(epsilon) * mpmath.ncdf(-cost / 2 - ratio)
        return float(mpmath.ncdf(cost / 2 - ratio) - beyond)


def independent(case: Case, solution: Solution, of: str) -> Iterator[Measured]:
    """Check that independent noise, which is not Gaussian, meets the targets."""
    worst = float(np.max(solution.query_variances / case.targets))
    yield Measured("over the targets", worst - 1, EXACT, of)


def of_all(case: Case, solved: Mapping[str, Solution]) -> Iterator[Measured]:
    """Check that no solution beats a lower bound on privacy cost or total error.

    ``solved`` maps calls, as a user writes them, to solutions. Each solution must satisfy the
    bounds of all. The optimum of a small problem is also compared with Clarabel's.
    """
    gaussian = {of: solution for of, solution in solved.items() if solution.noise.gaussian}
    bounds = [s.known_lower_bound for s in gaussian.values() if s.known_lower_bound is not None]
    if not bounds:
        return
    every = np.ones(case.workload.d)
    weights = [s.weights.p for s in gaussian.values() if s.mechanism == "CA" and s.weights]
    tried = [every, *(p for p in weights if p.shape == every.shape)]
    of_total = max(least_total_error(case, p) for p in tried)
    for of, solution in gaussian.items():
        cost = solution.squared_privacy_cost
        yield Measured("a cost below the best bound", max(bounds) / cost - 1, ROUNDING, of)
        yield Measured("quick bound above a cost", solution.lower_bound / cost - 1, ROUNDING, of)
        total = cost * float(solution.query_variances.sum())
        yield Measured("total error below its bound", of_total / total - 1, ROUNDING, of)
    if "optimal()" in gaussian:
        yield from against_clarabel(case, gaussian["optimal()"])


def least_total_error(case: Case, p: Array) -> float:
    """Return ``‖W diag(p)^½‖_*² / Σp``, a lower bound on Δ² times the total variance."""
    norm = np.linalg.svd(case.matrix * np.sqrt(p), compute_uv=False).sum()
    return float(norm**2 / p.sum())


def brackets(name: str, first: Solution, second: Solution, factor: float, of: str) -> Measured:
    """Measure how far the second optimum is from ``factor`` times the first, beyond their gaps.

    The number is relative; it is at most 0 if the two intervals between bound and cost overlap.
    """
    low, high = first.lower_bound * factor, first.squared_privacy_cost * factor
    apart = max(low / second.squared_privacy_cost, second.lower_bound / high) - 1
    return Measured(name, apart, ROUNDING, of)


def against_clarabel(case: Case, solution: Solution) -> Iterator[Measured]:
    """Compare the optimum with Clarabel's, if the problem is small and Clarabel solves it."""
    if sum(case.workload.shape) > _LARGEST_PROGRAMME or not case.well_scaled:
        return
    found = clarabel(case.matrix / np.sqrt(case.targets)[:, None])
    if found is not None:
        off = abs(solution.squared_privacy_cost / found - 1)
        yield Measured("optimum off Clarabel's", off, CLARABEL + solution.gap, "optimal()")


def clarabel(scaled: Array) -> float | None:
    """Return γ₂(A)² for A = ``scaled``; None if Clarabel does not find the optimum.

    γ₂(A) is the least t for which a positive semidefinite matrix [[X, A], [Aᵀ, Y]] exists with no
    diagonal entry above t.
    """
    unit = float(np.abs(scaled).max())
    m, d = scaled.shape
    block = cp.Variable((m + d, m + d), PSD=True)
    program = cp.Problem(cp.Minimize(cp.max(cp.diag(block))), [block[:m, m:] == scaled / unit])
    program.solve(solver=cp.CLARABEL)
    return float(program.value**2) * unit**2 if program.status == cp.OPTIMAL else None
