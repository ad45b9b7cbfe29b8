"""Tight-constraints on query matrices: truncated geometric noise on every count."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import solvers
import workloads

PREFIX = np.tril(np.ones((4, 4)))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("n", [1, 4, 7])
def test_one_count_is_the_counting_query_graph(n, epsilon):
    """The mechanism of the line graph, from its diagonal system Φz = 1, has this variance."""
    graph = solvers.solve("tight-constraints", workloads.make("counting", n=n), epsilon=epsilon)
    count = solvers.solve("tight-constraints", [[1.0, 0.0, 1.0]], n=n)
    ratio = count.curve.variance_ratio_at_budget(epsilon, 0.0)
    assert ratio == pytest.approx(graph.noise.max_variance, rel=1e-9)


@given(st.floats(0.05, 6), st.integers(1, 50))
def test_clamping_never_adds_variance(epsilon, n):
    clamped = solvers.solve("tight-constraints", PREFIX, n=n).curve
    free = solvers.solve("geometric", PREFIX).curve
    assert clamped.variance_ratio_at_budget(epsilon, 0.1) <= free.variance_ratio_at_budget(
        epsilon, 0.1
    ) * (1 + 1e-12)


def test_scaled_counts_scale_their_errors():
    targets = np.array([1.0, 9.0])
    solution = solvers.solve("tight-constraints", [[1.0, 1.0], [3.0, 0.0]], targets, n=20)
    np.testing.assert_allclose(solution.query_variances, targets)


def test_a_long_line_is_the_geometric_mechanism():
    clamped = solvers.solve("tight-constraints", PREFIX, n=10_000)
    assert clamped.noise.epsilon == pytest.approx(solvers.solve("geometric", PREFIX).noise.epsilon)
