"""The parts of the solver on marginals: closure, classes, linear systems, dispatch."""

import numpy as np
import pytest

import solvers
import workloads


def huge(**params):
    return workloads.make("marginals", **{"attributes": 30, "values": 10, "orders": [2], **params})


def test_what_is_too_large_is_neither_written_out_nor_drawn():
    with pytest.raises(solvers.NotApplicableError, match=r"43500 queries over about 10\^30 cells"):
        _ = solvers.solve("GM", huge()).covariance
    found = solvers.solve("CA", huge(orders=[3], values=20))
    with pytest.raises(solvers.NotApplicableError, match="too many to draw the error of each"):
        found.draw(2, np.random.default_rng(0))


def test_input_perturbation_beyond_floats_fails_in_a_sentence():
    with pytest.raises(solvers.SolveFailedError, match=r"about 10\^399, beyond floats"):
        solvers.solve("IP", huge(attributes=400, orders=[1]))


@pytest.mark.slow
def test_a_hundred_attributes_with_a_target_for_each_marginal():
    workload = workloads.make("marginals", attributes=100, values=10, orders=[3])
    targets = np.random.default_rng(0).integers(1, 11, workload.target_count).astype(float)
    bound = solvers.solve("optimal", workload, targets, tol=1e-6)
    assert bound.gap <= 1e-6
    found = solvers.solve("SM-II", workload, targets)
    assert bound.lower_bound * (1 - 1e-12) <= found.squared_privacy_cost
    assert found.squared_privacy_cost <= bound.squared_privacy_cost * (1 + 1e-3)
