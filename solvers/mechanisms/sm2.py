"""SM-II: Problem 1 by soft maxima of privacy and of variance (PVLDB 14(10), section 6)."""

from dataclasses import replace
from typing import Literal, get_args

import numpy as np
import scipy.linalg as sla

from solvers import basis as bases
from solvers import certificate, dual, newton_cg, softmax, softmax_dual
from solvers.checked import from_dual
from solvers.deadline import Deadline
from solvers.errors import OptionError
from solvers.method import Method, Work
from solvers.newton_system import heaviest_count
from solvers.problem import Problem
from solvers.solution import Solution, from_covariance
from solvers.spectral import spectrum
from workloads.operators import Array

Algorithm = Literal["dual", "newton-cg"]
T2Rule = Literal["paper", "code"]


_CERTIFICATE_SHARE = 0.05


def solve(
    problem: Problem,
    *,
    algorithm: Algorithm = "dual",
    tol: float = 5e-4,
    mu: float = 10.0,
    nttol: float = 1e-3,
    t2_rule: T2Rule = "paper",
    total_error_weight: float = 0.0,
    sigma: float = 0.01,
    beta: float = 0.5,
    basis: str = "own",
    initial: Array | None = None,
    max_cg: int = 5,
    tol2: float = 1e-10,
    softmax_tol: float = 1e-3,
    start: dual.Weights | None = None,
    max_iterations: int = 10_000,
    time_limit: float | None = None,
) -> Solution:
    """The soft maximum of privacy cost plus that of variance, at rising sharpness.

    Parameters
    ----------
    problem : Problem
        The workload and its targets.
    algorithm : {"dual", "newton-cg"}
        Newton's method on the dual of Problem 4, every iterate certified; or Algorithms 1
        to 3 as printed, on the covariance.
    tol : float
        Certified relative gap of Δ² at which to stop; "newton-cg" looks at the end of every
        level only, and never if it is 0. With a total-error weight it is the gap of the
        square of the whole objective.
    mu : float
        MU: the factor by which the sharpness t grows.
    nttol : float
        NTTOL: the Newton decrement at which a level ends; of the objective in "newton-cg",
        relative to it in "dual".
    t2_rule : {"paper", "code"}
        Whether t2 is t1, or MU times t1 as in the authors' code.
    total_error_weight : float
        Weight of the sum of all variances in the objective (PVLDB 14(10), section 6.1).
    sigma, beta : float
        Sufficient decrease and shrinking factor of the line search.
    basis : str
        B of the answer, and of the iteration in "newton-cg": a name of `solvers.basis`.
    initial : array_like, shape (r, d), optional
        "newton-cg" only: Q, whose answers get independent noise at the start; the basis
        itself if not given.
    max_cg : int
        "newton-cg" only: MAXCG, conjugate gradient steps of a direction.
    tol2 : float
        "newton-cg" only: TOL2, the squared residual at which they end earlier.
    softmax_tol : float
        "newton-cg" only: TOL, the last level is the first with ``(d + m) / t1`` below it.
    start : Weights, optional
        "dual" only: dual weights of a neighbouring problem (``Solution.weights``).
    max_iterations : int
        Newton steps at most.
    time_limit : float, optional
        In seconds; on expiry the mechanism so far is returned with its gap.

    Returns
    -------
    Solution
        Its ``notes`` give the basis, the last t and the products with the Hessian.

    Raises
    ------
    OptionError
        If an option is out of its range.
    SolveFailedError
        If the covariance does not confirm the numbers of the dual.
    """
    _check_names(algorithm, t2_rule, basis)
    _check_start(algorithm, initial, start)
    deadline = Deadline.after(time_limit)
    t2_over_t1 = 1.0 if t2_rule == "paper" else mu
    omega = total_error_weight * problem.targets
    if algorithm == "dual":
        settings = softmax_dual.Settings(tol, mu, nttol, t2_over_t1, sigma, beta, max_iterations)
        return _by_the_dual(problem, omega, settings, deadline, basis, start)
    literal = newton_cg.Settings(
        mu, nttol, softmax_tol, max_cg, tol2, t2_over_t1, sigma, beta, max_iterations
    )
    found = _on_the_covariance(problem, omega, literal, deadline, basis, initial, tol)
    seconds = None if time_limit is None else _CERTIFICATE_SHARE * time_limit
    return replace(found, known_lower_bound=certificate.certify(problem, time_limit=seconds))


def _check_names(algorithm: str, t2_rule: str, basis: str) -> None:
    for option, given, known in (
        ("algorithm", algorithm, get_args(Algorithm)),
        ("t2_rule", t2_rule, get_args(T2Rule)),
        ("basis", basis, tuple(bases.KINDS)),
    ):
        if given not in known:
            raise OptionError(f"SM-II: {option} is {given!r}; expected one of {', '.join(known)}")


def _check_start(algorithm: str, initial: Array | None, start: dual.Weights | None) -> None:
    if algorithm == "dual" and initial is not None:
        raise OptionError(
            "SM-II: initial needs algorithm 'newton-cg'; the dual starts from weights"
        )
    if start is not None and (algorithm != "dual" or not isinstance(start, dual.Weights)):
        raise OptionError(
            "SM-II: start takes the weights of another solution (Solution.weights), and needs "
            "algorithm 'dual'"
        )


def _by_the_dual(
    problem: Problem,
    omega: Array,
    settings: softmax_dual.Settings,
    deadline: Deadline,
    basis: str,
    start: dual.Weights | None,
) -> Solution:
    result, t1 = softmax_dual.minimise(problem.factors, omega, settings, deadline, start)
    solution = from_dual(
        "SM-II",
        problem,
        result,
        lambda found: found.squared_privacy_cost * (1 + float(omega @ _ratios(found))),
        settings.tol,
        known_lower_bound=result.lower if not omega.any() else None,
        notes={"basis": basis, "t": t1},
    )
    return (
        solution if basis == "own" else _in_basis(problem, solution, bases.factor(problem, basis))
    )


def _in_basis(problem: Problem, solution: Solution, chosen: bases.Factored) -> Solution:
    """The same mechanism as noise on other queries (Theorem 2)."""
    change = sla.lstsq(solution.basis.T, chosen.basis.T)[0].T
    covariance = change @ solution.covariance @ change.T
    read = from_covariance("SM-II", problem, chosen.basis, chosen.representation, covariance)
    return replace(solution, noise=read.noise, notes={**solution.notes, "basis": chosen.kind})


def _on_the_covariance(
    problem: Problem,
    omega: Array,
    settings: newton_cg.Settings,
    deadline: Deadline,
    basis: str,
    initial: Array | None,
    tol: float,
) -> Solution:
    factored = bases.factor(problem, basis)
    covariance = _first_covariance(problem, factored.basis, initial)
    program, first = softmax.begin(problem, factored, omega, covariance)

    def enough(at: softmax.SoftMax, iterate: softmax.Iterate) -> bool:
        return tol > 0 and _gap(problem, omega, at, iterate) <= tol

    end = newton_cg.minimise(program, first, settings, deadline, enough)
    return from_covariance(
        "SM-II",
        problem,
        factored.basis,
        factored.representation,
        end.iterate.covariance,
        iterations=end.iterations,
        converged=end.finished,
        timed_out=end.timed_out,
        weights=softmax.weights(end.problem, end.iterate),
        notes={"basis": factored.kind, "t": end.problem.t1, "products": end.products},
    )


def _first_covariance(problem: Problem, basis: Array, initial: Array | None) -> Array:
    """Section 6.3: what independent noise on Qx means for Bx.

    The text sets Σ = Q⁺ (Q⁺)ᵀ in any basis; the noise on Bx is B times that times Bᵀ.
    """
    k, d = basis.shape
    if initial is None:
        return np.eye(k)
    queries = np.asarray(initial, dtype=np.float64)
    if queries.ndim != 2 or queries.shape[1] != d:
        raise OptionError(
            f"SM-II: initial has shape {queries.shape}; expected queries over the {d} cells "
            f"of workload {problem.workload.name!r}, shape (r, {d})"
        )
    spread = basis @ np.linalg.pinv(queries)
    return np.asarray(spread @ spread.T)


def _gap(
    problem: Problem, omega: Array, program: softmax.SoftMax, iterate: softmax.Iterate
) -> float:
    """Certified by the soft-max weights, of the square of the objective."""
    found = softmax.weights(program, iterate)
    lower = spectrum(problem.factors, found.p, found.q + omega).nuclear_norm ** 2
    accuracy = float(iterate.ratios.max() + omega @ iterate.ratios)
    return float(iterate.profile.max()) * accuracy / lower - 1


def _ratios(solution: Solution) -> Array:
    return solution.query_variances / solution.problem.targets


_PUBLISHED = {
    "algorithm": "newton-cg",
    "tol": 0.0,
    "mu": 2.0,
    "nttol": 1e-3,
    "basis": "paper",
    "max_cg": 5,
    "tol2": 1e-10,
    "softmax_tol": 1e-3,
}


def work(m: int, d: int, *, algorithm: Algorithm = "dual", form_work: int | None = None) -> Work:
    """About nine Newton steps of the dual; some 5 k steps of Algorithms 1 to 3.

    Fitted to CPU seconds on one core (benchmarks/bench_work.py). How often Algorithms 1 to 3
    iterate depends on the workload more than on its size.
    """
    k = min(m, d)
    if algorithm == "newton-cg":
        return Work(flops=1e9 + 200.0 * (m + d) * k**3, bytes=40.0 * (m + d) * k + 100.0 * k * k)
    if form_work is not None:
        return Work(flops=2e9 + 5000.0 * d**3 + 800.0 * form_work, bytes=130.0 * d**2 + 200.0 * m)
    heavy = heaviest_count(m + d, k)
    light = m + d if heavy < m + d else 0
    flops = 3.5e8 + 120.0 * k**3 + 58.0 * heavy**2 * k + 5.0 * heavy**3 + 250.0 * light * k**2
    return Work(flops=flops, bytes=16.0 * heavy**2 + 40.0 * (m + d) * k + 8.0 * m * d)


METHODS = (
    Method(
        "SM-II",
        "soft maxima of privacy cost and of variance ratios, at rising sharpness",
        solve,
        source="Problem 4 and Algorithms 1-3 of PVLDB 14(10)",
        presets={"published": _PUBLISHED},
        self_certifying=True,
        other_objectives=("total_error_weight",),
        work=work,
    ),
)
