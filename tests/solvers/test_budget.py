"""Budget curves: at the ε that the targets need the ratio is 1, whatever the mechanism."""

import json
from dataclasses import asdict

import numpy as np
import pytest

from solvers.privacy.budget import GaussianBudget, LossBudget, NoBudget, PureBudget, from_record
from solvers.privacy.distributions import Geometric, Laplace, TruncatedGeometric
from solvers.privacy.privacy_loss import one_column

DELTAS = np.array([1e-12, 1e-9, 1e-5])
EPSILONS = np.array([0.01, 0.3, 1.0, 4.0, 10.0])
CURVES = (
    GaussianBudget(4.457869),
    PureBudget(Geometric(), 8.0, 2.0),
    PureBudget(Laplace(), 1.0, 64.0),
    PureBudget(TruncatedGeometric(20), 3.0, 1.5),
    PureBudget(TruncatedGeometric(20, "expected-squared-error"), 3.0, 1.5),
    LossBudget(PureBudget(Laplace(), 4.0, 2.0), one_column("laplace", 4)),
    NoBudget("bounded"),
)


@pytest.mark.parametrize("curve", CURVES[:-1], ids=repr)
def test_the_ratio_is_one_at_the_epsilon_of_the_targets(curve):
    epsilon = curve.epsilon_at_targets(DELTAS)
    np.testing.assert_allclose(curve.variance_ratio_at_budget(epsilon, DELTAS), 1.0, rtol=1e-8)


@pytest.mark.parametrize("curve", CURVES, ids=repr)
def test_a_curve_survives_json_and_broadcasts(curve):
    restored = from_record(json.loads(json.dumps(asdict(curve))))
    assert restored == curve
    grid = restored.variance_ratio_at_budget(EPSILONS[:, None], DELTAS)
    assert grid.shape == (EPSILONS.size, DELTAS.size)
    assert grid[1, 2] == curve.variance_ratio_at_budget(EPSILONS[1], DELTAS[2])
    assert curve.epsilon_at_targets(DELTAS).shape == DELTAS.shape
    assert np.all(np.isinf(grid)) or np.all(np.diff(grid[:, 0]) < 0)


def test_plain_composition_does_not_profit_from_delta():
    curve = PureBudget(Laplace(), 4.0, 1.0)
    grid = curve.variance_ratio_at_budget(EPSILONS[:, None], DELTAS)
    np.testing.assert_allclose(grid, np.broadcast_to(32 / EPSILONS[:, None] ** 2, grid.shape))
    np.testing.assert_allclose(curve.epsilon_at_targets(DELTAS), np.sqrt(32))


def test_a_curve_of_no_known_kind_is_refused():
    with pytest.raises(ValueError, match="tag 'cubic'"):
        from_record({"kind": "cubic"})
