"""What a solve is expected to take, by its mechanism, its options and its workload's structure."""

import pytest

import solvers
import workloads


@pytest.mark.parametrize("name", solvers.all_mechanisms())
def test_more_queries_over_more_cells_take_no_less(name):
    mechanism = solvers.all_mechanisms()[name]
    small, large = (mechanism.expected_work(n, n, {}) for n in (64, 512))
    assert 0 < small.flops <= large.flops
    assert 0 < small.bytes <= large.bytes


def test_presets_have_their_own_cost():
    workload = workloads.make("range", d=256)
    options = solvers.all_mechanisms()["SM-II"].resolve("published", {})
    default = solvers.expected_work("SM-II", workload)
    assert solvers.expected_work("SM-II", workload, options).flops > 2 * default.flops


def test_options_that_cost_nothing_do_not_matter():
    workload = workloads.make("prefix", d=64)
    base = solvers.expected_work("optimal", workload)
    assert solvers.expected_work("optimal", workload, {"tol": 1e-9, "refined": False}) == base


def test_conjugate_gradients_to_the_end_in_a_basis_that_stays_are_planned():
    workload = workloads.make("prefix", d=64)
    steps = ({"max_cg": 5}, {})
    five, every = (
        solvers.expected_work("SM-II", workload, {"basis": "identity", **cg}).flops for cg in steps
    )
    assert every > 3 * five
