"""Marginals with targets of any size."""

import numpy as np
import pytest

import solvers
import workloads
from solvers.forms import reduction
from solvers.forms.orbits.marginal_problem import SingleOrbit
from solvers.forms.orbits.orbit_problem import Orbits
from solvers.problem import as_problem
from solvers.problem.neighbours import REPLACE_ONE


@pytest.mark.parametrize("unit", [1e-250, 1e250])
@pytest.mark.parametrize(
    ("mechanism", "options", "apart"),
    [
        ("optimal", {}, False),
        ("optimal", {"total_error_weight": 0.1}, False),
        ("ResidualPlanner", {"objective": "max-variance"}, False),
        ("optimal", {}, True),
        ("optimal", {"refined": True}, True),
        ("optimal", {"total_error_weight": 0.1}, True),
        ("wCA-I", {}, True),
    ],
)
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_targets_of_any_size_scale_the_answer(mechanism, options, apart, unit, capfd):
    """One orbit of cells, or several if one value of a marginal has its own target."""
    workload = workloads.make("marginals", attributes=2, values=3, orders=[1])
    targets = np.repeat([1.0, 2.0], workload.group_sizes)
    targets[0] = 0.5 if apart else 1.0
    plain = solvers.solve(mechanism, workload, targets, **options)
    scaled = {name: v / unit if name == "total_error_weight" else v for name, v in options.items()}
    moved = solvers.solve(mechanism, workload, unit * targets, **scaled)
    assert isinstance(moved.noise.orbits, Orbits if apart else SingleOrbit)
    assert moved.converged
    assert moved.squared_privacy_cost * unit == pytest.approx(plain.squared_privacy_cost, rel=3e-6)
    assert moved.lower_bound * unit == pytest.approx(plain.lower_bound, rel=3e-6)
    np.testing.assert_allclose(moved.query_variances / unit, plain.query_variances, rtol=1e-3)
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("far", [1e-275, 1e275])
def test_targets_with_squares_of_entries_beyond_floats_are_refused(far):
    workload = workloads.make("marginals", attributes=2, values=3, orders=[1])
    with pytest.raises(workloads.TargetsError, match=r"expected between 1e-270 and 1e\+270: scale"):
        solvers.solve("optimal", workload, far)


@pytest.mark.parametrize("unit", [1e-150, 1e150])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_targets_far_from_one_are_refused_over_pairs_and_bound_gradient_descent(unit):
    workload = workloads.make("marginals", attributes=2, values=[3, 2])
    targets = np.random.default_rng(0).uniform(1, 10, workload.m)
    with pytest.raises(solvers.NotApplicableError, match="to within a factor of 1e60"):
        solvers.solve("optimal", workload, unit * targets, neighbours="replace-one")
    problem = as_problem(workload, unit * targets, REPLACE_ONE)
    with pytest.raises(solvers.NotApplicableError, match="to within a factor of 1e60"):
        reduction.lower_bound(problem)
    plain, moved = (
        solvers.solve("GD", workload, c * targets, max_iterations=1) for c in (1.0, unit)
    )
    assert moved.known_lower_bound * unit == pytest.approx(plain.known_lower_bound, rel=1e-3)
