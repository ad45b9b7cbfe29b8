"""Properties that solutions must have, measured independently of the solvers. Pure.

Every check yields numbers with their upper limits. The factors of a mechanism are multiplied in
extended precision, those of small problems in fifty digits; the optimum is Clarabel's.
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
from solvers.noise.factorisation import Factorisation
from solvers.noise.product import ProductNoise
from workloads.operators import dense

ROUNDING = 1e-8
"""Relative amount by which a cost may be below a proven bound: rounding of singular values."""

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
        The measured quantity.
    value : float
        0 is best.
    allowed : float
        A larger value is a finding.
    of : str
        The mechanism with its options, and everything else that explains the number.
    """

    name: str
    value: float
    allowed: float
    of: str

    @property
    def wrong(self) -> bool:
        """Whether it is a finding; NaN is one."""
        return not self.value <= self.allowed


def written(mechanism: str, options: Mapping[str, Any]) -> str:
    """A solve as a user would write it, without arrays."""
    shown = (f"{k}={v!r}" if np.ndim(v) == 0 else f"{k}=..." for k, v in options.items())
    return f"{mechanism}({', '.join(shown)})"


def of_solution(
    case: Case, solution: Solution, options: Mapping[str, Any], moved: Case, moves: Array
) -> Iterator[Measured]:
    """All checks of a single solution.

    Parameters
    ----------
    case : Case
        The problem that was solved.
    solution : Solution
        The answer.
    options : Mapping
        The options of the solve.
    moved : Case
        The problem whose columns are the changes of the queries between neighbours.
    moves : numpy.ndarray
        The changes of x between neighbours; the identity if they differ in one cell.
    """
    of = f"{written(solution.mechanism, options)} under {solution.neighbours}"
    if not solution.noise.gaussian:
        yield from independent(case, solution, of)
        return
    left, right = factors(solution)
    # Under replace-one, rounding the stored B twice, when it is solved for and when it is scaled,
    # moves each column by eps times its length, and a difference of two columns by twice as much.
    # L B - W is then off by 2 eps |L_j| max |B_i|, which is divided by |L_j| max |B_i - B_k|.
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
    """L and B with unit noise, in extended precision."""
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
    """Check targets, unbiasedness, and the stated variances and cost, against the factors."""
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
    """Check the stated profile, and that the basis gives the workload, up to rounding."""
    variances, profile = solution.query_variances, solution.privacy_profile
    off = np.max(np.abs(np.square(right).sum(axis=0) - profile)) / profile.max()
    yield Measured("stated privacy profile off", float(off), EXACT, of)
    left, right = _extended(dense(solution.representation)), _extended(solution.basis)
    known = [np.where(entries > 0, entries, entries.max()) for entries in (variances, profile)]
    units = np.sqrt(np.outer(*known))
    off = _over(np.abs(left @ right - _extended(case.matrix)), units)
    yield Measured("representation @ basis - W, in the same units", off, EXACT, of)


def _over(missing: Array, units: Array) -> float:
    """The largest entry of ``missing / units``, where 0 / 0 counts as 0."""
    nothing = np.where(missing > 0, np.inf, 0.0)
    return float(np.divide(missing, units, out=nothing, where=units > 0).max())


def covariance(case: Case, solution: Solution, of: str) -> Iterator[Measured]:
    """Check the stated cost against the one that the covariance gives in fifty digits."""
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
    """Check that the weights prove the bound, and that the gap is as stated."""
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
    """``‖diag(q)^½ diag(c)^-½ W diag(p)^½‖_*² / (Σp Σq)``; of small problems in fifty digits."""
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
    """Check that ``converged`` means that the requested gap was reached, and nothing else."""
    mechanism = solvers.all_mechanisms()[solution.mechanism]
    tol = options.get("tol", mechanism.options["tol"].default)
    if not mechanism.certifies(options):
        return
    if solution.converged:
        yield Measured("gap over tol where converged", solution.gap - tol, 1e-12, of)
        yield Measured("converged and timed out", float(solution.timed_out), 0, of)
    elif not isinstance(solution.noise, ProductNoise):
        reached = float(solution.gap <= tol)
        yield Measured("gap reached, not converged", reached, 0, f"{of}, gap {solution.gap:g}")


def budget(case: Case, solution: Solution, of: str) -> Iterator[Measured]:
    """δ at the budget's ε, by Theorem 1 in fifty digits."""
    rng = np.random.default_rng(case.seed)
    epsilon, chosen = float(10 ** rng.uniform(-3, 1.5)), float(10 ** rng.uniform(-15, -0.5))
    at = solution.at_budget(epsilon, chosen)
    off = abs(delta(epsilon, at.squared_privacy_cost) / chosen - 1)
    yield Measured("δ at a budget off", off, EXACT, f"{of} at ε = {epsilon!r}, δ = {chosen!r}")


def delta(epsilon: float, squared_privacy_cost: float) -> float:
    """The least δ of Gaussian noise at ε (Theorem 1), from fifty digits."""
    with mpmath.workdps(50):
        cost = mpmath.sqrt(mpmath.mpf(squared_privacy_cost))
        ratio = epsilon / cost
        beyond = mpmath.exp(epsilon) * mpmath.ncdf(-cost / 2 - ratio)
        return float(mpmath.ncdf(cost / 2 - ratio) - beyond)


def independent(case: Case, solution: Solution, of: str) -> Iterator[Measured]:
    """Targets are met by independent noise."""
    worst = float(np.max(solution.query_variances / case.targets))
    yield Measured("over the targets", worst - 1, EXACT, of)


def of_all(case: Case, solved: Mapping[str, Solution]) -> Iterator[Measured]:
    """No mechanism beats a bound on privacy cost or total error, and Clarabel agrees.

    ``solved`` maps calls, as a user writes them, to solutions.
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
    """``‖W diag(p)^½‖_*² / Σp``, a lower bound on Δ² times total variance."""
    norm = np.linalg.svd(case.matrix * np.sqrt(p), compute_uv=False).sum()
    return float(norm**2 / p.sum())


def brackets(name: str, first: Solution, second: Solution, factor: float, of: str) -> Measured:
    """Relative deviation of the second optimum from a factor times the first, beyond both gaps."""
    low, high = first.lower_bound * factor, first.squared_privacy_cost * factor
    apart = max(low / second.squared_privacy_cost, second.lower_bound / high) - 1
    return Measured(name, apart, ROUNDING, of)


def against_clarabel(case: Case, solution: Solution) -> Iterator[Measured]:
    """The optimum as a semidefinite program, if Clarabel reports that it solved it."""
    if sum(case.workload.shape) > _LARGEST_PROGRAMME or not case.well_scaled:
        return
    found = clarabel(case.matrix / np.sqrt(case.targets)[:, None])
    if found is not None:
        off = abs(solution.squared_privacy_cost / found - 1)
        yield Measured("optimum off Clarabel's", off, CLARABEL + solution.gap, "optimal()")


def clarabel(scaled: Array) -> float | None:
    """γ₂²: the least t with [[X, A], [Aᵀ, Y]] >= 0 and diagonals at most t; in units of A."""
    unit = float(np.abs(scaled).max())
    m, d = scaled.shape
    block = cp.Variable((m + d, m + d), PSD=True)
    program = cp.Problem(cp.Minimize(cp.max(cp.diag(block))), [block[:m, m:] == scaled / unit])
    program.solve(solver=cp.CLARABEL)
    return float(program.value**2) * unit**2 if program.status == cp.OPTIMAL else None
