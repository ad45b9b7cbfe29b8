"""CA and its weightings: closed forms, COA as a second computation, orderings."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import solvers
import workloads
from benchmarks.adversary.problems import draw


def total_error(solution, omega):
    """Weighted total error at Δ² = 1."""
    return solution.squared_privacy_cost * float(omega @ solution.query_variances)


@pytest.mark.parametrize(("d", "least"), [(256, 1631.4), (512, 3842.2)])
def test_prefix_total_error(d, least):
    solution = solvers.solve("CA", workloads.make("prefix", d=d))
    assert total_error(solution, np.ones(d)) == pytest.approx(least, abs=0.1)
    assert solution.notes["total_error_gap"] <= 1e-8


@given(st.integers(0, 10_000))
def test_dual_and_coa_agree(seed):
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(9, 6))
    targets = rng.uniform(1, 10, 9)
    for name in ("CA", "wCA-I", "wCA-II"):
        dual = solvers.solve(name, matrix, targets)
        omega = targets ** -{"CA": 0.0, "wCA-I": 2.0, "wCA-II": 1.0}[name]
        weighted = np.sqrt(omega)[:, None] * matrix
        coa = solvers.solve("COA", weighted)
        assert coa.converged
        np.testing.assert_allclose(coa.privacy_profile, coa.squared_privacy_cost, rtol=1e-12)
        least = coa.squared_privacy_cost * coa.total_variance
        assert total_error(dual, omega) == pytest.approx(least, rel=2e-6)


def test_weightings_are_ca_itself_at_uniform_targets():
    workload = workloads.make("prefix", d=16)
    costs = [
        solvers.solve(name, workload, 3.0).squared_privacy_cost
        for name in ("CA", "wCA-I", "wCA-II")
    ]
    np.testing.assert_allclose(costs, costs[0], rtol=1e-7)


@pytest.mark.parametrize("factor", [1.0, 7.3, 0.01])
def test_the_gap_is_that_of_the_noise_handed_out(factor):
    """Rows over twenty decades: the factors round by more than the dual's own gap."""
    case = draw(44000239)
    plain = solvers.solve("CA", case.workload, case.targets)
    scaled = solvers.solve("CA", workloads.from_matrix(case.matrix * factor), case.targets)
    ones = np.ones(case.workload.m)
    apart = total_error(scaled, ones) / (total_error(plain, ones) * factor**2) - 1
    stated = plain.notes["total_error_gap"] + scaled.notes["total_error_gap"]
    assert abs(apart) <= stated + 1e-9
