"""Queries for free: section 3.2.1 of PVLDB 14(10)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import solvers
from solvers import NotApplicableError
from workloads import WorkloadError

EXAMPLE = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]])
"""The paper's B_1: with noise of variance 1 its privacy profile is 1, 2, 1."""


def test_the_papers_example():
    found = solvers.solve("GM", EXAMPLE).free_queries(
        [[1, 0, 1], [0, 1, 0], [1, 0, -1], [2, 0, 0], [1, 2, 1]]
    )
    assert found.room == pytest.approx([1, 0, 1])
    assert found.free.tolist() == [True, False, True, True, False]
    assert found.fresh[found.free] == pytest.approx([1, 1, 4])
    assert found.derived == pytest.approx([np.inf, np.inf, 2, np.inf, 2])
    assert found.variances == pytest.approx([1, np.inf, 2 / 3, 4, 2])
    # all at once, cell 0 has room for 1 + 1 + 1 and cell 2 for 1 + 1
    assert found.together[found.free] == pytest.approx([3, 3, 12])


@given(st.integers(0, 10_000))
def test_nothing_that_is_free_raises_the_privacy_cost(seed):
    rng = np.random.default_rng(seed)
    queries = rng.integers(-1, 2, size=(3, 6)).astype(float)
    queries[0, 0] = 1.0
    solution = solvers.solve("IP", queries) if seed % 2 else solvers.solve("GM", np.eye(6)[:3] + 1)
    candidates = rng.integers(-2, 3, size=(5, 6)).astype(float)
    candidates[:, 5] = 1.0
    found = solution.free_queries(candidates)
    alone = found.free
    for query, variance in zip(candidates[alone], found.fresh[alone], strict=True):
        raised = solution.privacy_profile + query**2 / variance
        assert raised.max() == pytest.approx(solution.squared_privacy_cost)
    added = np.square(candidates[alone]) / found.together[alone, None]
    if alone.any():
        raised = solution.privacy_profile + added.sum(axis=0)
        assert raised.max() <= solution.squared_privacy_cost * (1 + 1e-12)


def test_what_the_workload_answers_is_derived_at_its_own_variance():
    solution = solvers.solve("optimal", np.tri(8))
    found = solution.free_queries(np.tri(8))
    assert found.derived == pytest.approx(solution.query_variances)
    assert found.variances == pytest.approx(solution.query_variances)
    assert not found.free.any()


def test_queries_over_other_cells_or_of_nothing_or_beside_other_noise_are_refused():
    solution = solvers.solve("GM", EXAMPLE)
    with pytest.raises(WorkloadError, match="over 2 cells; the workload has 3"):
        solution.free_queries(np.eye(2))
    with pytest.raises(WorkloadError, match=r"query 1 .* is zero"):
        solution.free_queries([[1, 0, 0], [0, 0, 0]])
    with pytest.raises(NotApplicableError, match="no privacy cost"):
        solvers.solve("laplace", EXAMPLE).free_queries(np.eye(3))


def test_two_answers_to_one_query_are_combined_by_their_variances():
    """x + noise and 2x + noise of variance 1 each: x has 1 / (1 + 4)."""
    solution = solvers.solve("GM", [[1.0, 1.0], [2.0, 2.0]])
    found = solution.free_queries([[1.0, 1.0]])
    assert found.derived == pytest.approx([1 / (1 + 4)])
