"""Times of `optimal`, compared with one symmetric eigendecomposition and with other solvers.

Every result is a ratio of two times that are measured in the same run. pytest-benchmark measures
one of them; ``extra_info`` contains the ratio.
"""

import runpy
import time
from pathlib import Path
from types import SimpleNamespace

import cvxpy as cp
import numpy as np
import pytest
import scipy.linalg as sla
import scipy.sparse as sp

import solvers
import workloads
from solvers.dual import programs
from solvers.dual.iteration import Stopping
from solvers.problem import as_problem
from solvers.soft_max import basis

REFERENCE = SimpleNamespace(
    **runpy.run_path(str(Path(__file__).parents[1] / "tests" / "solvers" / "sm2_reference.py"))
)


def seconds(call, repeats=3):
    """Return the shortest wall-clock time of several calls, in seconds."""
    best = np.inf
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - started)
    return best


def one_eigh(d):
    """Return the seconds that ``scipy.linalg.eigh`` takes for a symmetric d x d matrix."""
    matrix = np.random.default_rng(0).standard_normal((d, d))
    symmetric = matrix @ matrix.T
    return seconds(lambda: sla.eigh(symmetric))


@pytest.mark.parametrize(
    ("family", "d", "tol", "reach"),
    [("range", 256, 1e-6, None), ("range", 1024, 1e-4, 120), ("prefix", 1024, 1e-6, 40)],
)
def test_multiples_of_one_eigh(benchmark, family, d, tol, reach):
    params = {"seed": 0} if family == "range" else {}
    problem = as_problem(workloads.make(family, d=d, **params))
    unit = one_eigh(d)
    solution = benchmark.pedantic(
        solvers.solve, ("optimal", problem.workload), {"tol": tol}, rounds=2
    )
    assert solution.gap <= tol
    benchmark.extra_info.update(
        eigh_s=unit,
        multiples_of_eigh=benchmark.stats.stats.min / unit,
        reach=reach,
        gap=solution.gap,
        iterations=solution.iterations,
        **solution.notes,
    )


def test_pl94_factorisations(benchmark):
    workload = workloads.make("pl94")
    solution = benchmark.pedantic(solvers.solve, ("optimal", workload), rounds=1)
    assert solution.gap <= 1e-6
    benchmark.extra_info.update(reach=20, gap=solution.gap, **solution.notes)


def test_against_sm2_at_the_published_tolerances(benchmark):
    """Compare with Algorithms 1 to 3 as printed, and with SM-II's preset ``published``."""
    workload = workloads.make("range", d=256, seed=0)
    factored = basis.factor(as_problem(workload), "paper")
    inputs = REFERENCE.Inputs(factored.basis, dense(factored.representation), np.ones(512))
    first = np.eye(len(factored.basis))
    first *= 0.99 / REFERENCE.ratios(inputs, first).max()
    started = time.perf_counter()
    covariance, _ = REFERENCE.optimize(inputs, first, REFERENCE.Constants())
    literal_s = time.perf_counter() - started
    started = time.perf_counter()
    solvers.solve("SM-II", workload, preset="published")
    published_s = time.perf_counter() - started
    solution = benchmark.pedantic(solvers.solve, ("optimal", workload), rounds=3)
    assert solution.gap <= 1e-6
    cost = REFERENCE.privacy(inputs, covariance).max() * REFERENCE.ratios(inputs, covariance).max()
    benchmark.extra_info.update(
        literal_s=literal_s,
        literal_gap=cost / solution.lower_bound - 1,
        times_faster_than_literal=literal_s / benchmark.stats.stats.min,
        published_s=published_s,
        times_faster_than_published=published_s / benchmark.stats.stats.min,
        reach=50,
        gap=solution.gap,
    )


def dense(matrix):
    return matrix.toarray() if sp.issparse(matrix) else matrix


def semidefinite(scaled, options):
    """Return γ₂(A)² for A = ``scaled``, as the optimum of a semidefinite program."""
    m, d = scaled.shape
    block = cp.Variable((m + d, m + d), PSD=True)
    problem = cp.Problem(cp.Minimize(cp.max(cp.diag(block))), [block[:m, m:] == scaled])
    problem.solve(**options)
    return problem.value**2


CLARABEL = {"solver": cp.CLARABEL}
SCS = {"solver": cp.SCS, "eps": 1e-7, "max_iters": 100_000}


@pytest.mark.parametrize(
    ("d", "options"),
    [(8, CLARABEL), (16, CLARABEL), (32, CLARABEL), (64, SCS)],
    ids=["8-clarabel", "16-clarabel", "32-clarabel", "64-scs"],
)
def test_against_a_semidefinite_solver(benchmark, d, options):
    workload = workloads.make("prefix", d=d)
    started = time.perf_counter()
    reference = semidefinite(workload.dense, options)
    reference_s = time.perf_counter() - started
    solution = benchmark(solvers.solve, "optimal", workload)
    assert solution.squared_privacy_cost == pytest.approx(reference, rel=1e-5)
    benchmark.extra_info.update(
        reference_s=reference_s, times_faster=reference_s / benchmark.stats.stats.mean
    )


@pytest.mark.parametrize("family", ["prefix", "range"])
def test_a_neighbours_weights(benchmark, family):
    params = {"seed": 0} if family == "range" else {}
    small = solvers.solve("optimal", workloads.make(family, d=128, **params))
    problem = as_problem(workloads.make(family, d=256, **params))
    cold = seconds(lambda: programs.optimum(problem.factors, Stopping(1e-6)))
    warm = benchmark.pedantic(
        lambda: programs.optimum(problem.factors, Stopping(1e-6), small.weights), rounds=3
    )
    assert warm.gap <= 1e-6
    benchmark.extra_info.update(
        times_faster=cold / benchmark.stats.stats.min, iterations=warm.iterations
    )


def test_column_dual_against_coa(benchmark):
    workload = workloads.make("range", d=256, seed=0)
    limit = 60.0
    started = time.perf_counter()
    coa = solvers.solve("COA", workload, tol=1e-8, time_limit=limit)
    coa_s = time.perf_counter() - started
    solution = benchmark.pedantic(solvers.solve, ("CA", workload), rounds=3)
    assert solution.notes["total_error_gap"] <= 1e-8
    benchmark.extra_info.update(
        coa_s=coa_s,
        coa_timed_out=coa.timed_out,
        coa_total_error_gap=coa.notes["total_error_gap"],
        times_faster=coa_s / benchmark.stats.stats.min,
    )
