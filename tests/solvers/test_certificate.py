"""An answer that contradicts its certificate is an error, never a gap of zero."""

from dataclasses import replace

import numpy as np
import pytest

import solvers
import workloads
from solvers import SolveFailedError
from solvers.solution import ROUNDING


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("mechanism", ["SM-II", "interior-point"])
def test_queries_of_norms_far_apart_are_refused_or_cost_what_is_possible(mechanism, seed):
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal((8, 8)) * 10.0 ** rng.uniform(-6, 6, (8, 1))
    try:
        found = solvers.solve(mechanism, matrix)
    except SolveFailedError:
        return
    assert found.squared_privacy_cost >= found.lower_bound * (1 - ROUNDING)


@pytest.mark.parametrize(
    ("name", "params"),
    [("prefix", {"d": 8}), ("marginals", {"attributes": 3, "values": 4, "orders": [1, 2]})],
)
def test_a_solution_below_its_bound_has_no_gap(name, params):
    solution = solvers.solve("optimal", workloads.make(name, **params))
    too_high = replace(solution, known_lower_bound=solution.squared_privacy_cost * (1 + 1e-7))
    with pytest.raises(SolveFailedError, match="contradicts its certificate"):
        _ = too_high.gap
    with pytest.raises(SolveFailedError, match="contradicts its certificate"):
        too_high.confirmed()
    rounded = replace(solution, known_lower_bound=solution.squared_privacy_cost * (1 + 1e-9))
    assert rounded.confirmed().gap == 0


@pytest.mark.parametrize("cost", [np.nan, np.inf, 0.0, -1.0])
def test_a_cost_that_is_no_positive_number_is_refused(cost):
    solution = solvers.solve("IP", np.tri(3))

    class Broken:
        gaussian = True
        squared_privacy_cost = cost

    with pytest.raises(SolveFailedError, match="expected a positive finite number"):
        replace(solution, noise=Broken()).confirmed()
