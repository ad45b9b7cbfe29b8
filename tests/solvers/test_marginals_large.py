"""Marginals with targets far from 1."""

import numpy as np
import pytest

import solvers
import workloads
from solvers.forms.orbits.marginal_problem import SingleOrbit
from solvers.forms.orbits.orbit_problem import Orbits


@pytest.mark.parametrize("unit", [1e-55, 1e55])
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
def test_targets_far_from_one_scale_the_answer(mechanism, options, apart, unit, capfd):
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
