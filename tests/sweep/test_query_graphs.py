"""Query graphs in a sweep: options as axes, their own variables, arrays kept."""

import math

import numpy as np

import sweep
from sweep.experiment.loading import load_experiment, parse_experiment
from sweep.grid.expansion import expand
from sweep.store.records import Status

BLOCKS = """
title: small
reference: geometric
keep: [noise_matrix]
simulate: 2000
blocks:
  - workload: {name: sum, u: 3, v: 2}
    targets: {name: uniform, value: 2.0}
    mechanism: [geometric, tight-constraints, lp-optimal, randomised-response]
    options: {epsilon: [0.3, 1.0], prior: [uniform, "corner:1"]}
"""


def test_a_grid_over_epsilon_and_prior(client, tmp_path):
    """On sum(3, 2) Φz = 1 has z >= 0 from exp(-ε)² = 1/2 on, so not at 0.3."""
    data = sweep.run(parse_experiment(BLOCKS, "small.yaml"), tmp_path / "s", client)
    assert data.utility.dims == ("epsilon", "prior", "mechanism")
    state = data.status.sel(mechanism="tight-constraints")
    assert (state.sel(epsilon=0.3) == Status.NOT_APPLICABLE).all()
    assert (data.status.where(data.mechanism != "tight-constraints", Status.OK) == Status.OK).all()
    error = data.error.sel(mechanism="tight-constraints", epsilon=0.3, prior="uniform").item()
    assert error.endswith(f"it exists for epsilon from {math.log(2) / 2:.6f} on")

    # of answers 0..6, 0, 2 and 3 are next to 1, 4 and 5 two steps away, and 6 three
    a = math.exp(-1.0)
    corner = data.sel(epsilon=1.0, prior="corner:1")
    expected = 1 / (1 + a * 3 + a**2 * 2 + a**3 * 1)
    np.testing.assert_allclose(corner.utility_bound, expected)
    best = data.utility.sel(mechanism="lp-optimal")
    np.testing.assert_allclose(
        data.utility.sel(mechanism="tight-constraints", epsilon=1.0), best.sel(epsilon=1.0)
    )
    assert (data.utility <= data.utility_bound + 1e-9).where(data.utility.notnull(), True).all()
    np.testing.assert_allclose(data.variance_ratio_at_budget, data.max_variance / 2.0)
    solved = data.status == Status.OK
    assert ((data.empirical_variance_ratio_low <= data.variance_ratio_at_budget) | ~solved).all()
    assert ((data.empirical_variance_ratio_high >= data.variance_ratio_at_budget) | ~solved).all()
    assert "squared_privacy_cost" not in data
    assert "delta" not in data.coords

    solve = data.solve.sel(epsilon=1.0, prior="uniform", mechanism="geometric")
    arrays = sweep.arrays(tmp_path / "s", str(solve.values))
    assert arrays.noise_matrix.dims == ("answer", "output")
    np.testing.assert_allclose(arrays.noise_matrix.sum("output"), 1)


def test_set_reaches_the_options_of_a_block():
    experiment = load_experiment("post13-fig6a", ["epsilon=1.0,1.1", "u=2"])
    (grid,) = expand(experiment)
    assert {axis.name: axis.values for axis in grid.axes}["epsilon"] == (1.0, 1.1)
    assert {cell.mechanism.params["epsilon"] for cell in grid.cells} == {1.0, 1.1}
