"""Subset variables against the dense solvers, on every workload that both can take."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import solvers
import workloads
from solvers.marginals import FORMS, MarginalsSolution
from solvers.problem import Problem


@st.composite
def problems(draw):
    """Marginals of up to four attributes and 60 cells, with or without equal targets."""
    sizes = draw(
        st.lists(st.integers(1, 5), min_size=1, max_size=4).filter(lambda s: np.prod(s) <= 60)
    )
    every = [[i for i in range(len(sizes)) if code >> i & 1] for code in range(2 ** len(sizes))]
    subsets = draw(st.lists(st.sampled_from(every), min_size=1, max_size=6, unique_by=tuple))
    workload = workloads.make("marginals", attributes=len(sizes), values=sizes, subsets=subsets)
    targets = draw(st.lists(st.sampled_from([0.1, 1.0, 1.0, 2.5, 30.0]), min_size=6, max_size=6))
    return Problem(workload, np.repeat(targets[: len(subsets)], workload.group_sizes))


def dense(name, problem, **options):
    return solvers.methods()[name].solve(problem, **options)


@settings(max_examples=60, deadline=None)
@given(problems(), st.sampled_from([name for name in FORMS if name not in ("optimal", "SM-II")]))
def test_same_numbers_as_the_dense_form(problem, name):
    ours = solvers.solve(name, problem.workload, problem.targets)
    theirs = dense(name, problem)
    assert isinstance(ours, MarginalsSolution)
    assert ours.squared_privacy_cost == pytest.approx(theirs.squared_privacy_cost, rel=2e-6)
    np.testing.assert_allclose(ours.query_variances, theirs.query_variances, rtol=2e-5)
    np.testing.assert_allclose(ours.privacy_profile, theirs.privacy_profile, rtol=2e-5)
    assert ours.total_variance == pytest.approx(theirs.total_variance, rel=2e-5)


@settings(max_examples=60, deadline=None)
@given(problems())
def test_the_optimum_is_the_dense_one(problem):
    ours = solvers.solve("optimal", problem.workload, problem.targets, tol=1e-7)
    theirs = dense("optimal", problem, tol=1e-7)
    assert ours.converged
    assert ours.squared_privacy_cost == pytest.approx(theirs.squared_privacy_cost, rel=3e-7)
    assert ours.lower_bound <= theirs.squared_privacy_cost * (1 + 1e-12)
    assert theirs.lower_bound <= ours.squared_privacy_cost * (1 + 1e-12)
