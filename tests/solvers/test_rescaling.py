"""Problem 2: a mechanism at a privacy budget, and the curves of all budgets."""

import json
from dataclasses import asdict

import numpy as np
import pytest
from scipy.stats import norm

import solvers
import workloads
from solvers import NotApplicableError, OptionError
from solvers.privacy.budget import GaussianBudget, LossBudget, NoBudget, PureBudget, from_record
from solvers.privacy.distributions import Geometric, Laplace, TruncatedGeometric
from solvers.privacy.privacy_loss import one_column


def test_one_count_at_a_budget_by_the_exact_condition_of_the_gaussian_mechanism():
    found = solvers.solve("optimal", [[1.0]], 5.0).at_budget(1.0, 1e-5)
    spread = np.sqrt(found.query_variances[0])
    cost = 1 / spread
    delta = norm.cdf(cost / 2 - 1.0 / cost) - np.e * norm.cdf(-cost / 2 - 1.0 / cost)
    assert delta == pytest.approx(1e-5, rel=1e-8)
    assert found.squared_privacy_cost == pytest.approx(cost**2)
    assert found.variance_ratio_at_budget == pytest.approx(spread**2 / 5)
    assert found.half_widths(0.95)[0] == pytest.approx(1.959963984540054 * spread)


def test_the_rescaled_mechanism_is_the_solution_for_the_rescaled_targets():
    workload = workloads.make("range", d=16)
    targets = workloads.targets.make("random", workload, low=1.0, high=10.0)
    found = solvers.solve("optimal", workload, targets).at_budget(0.7, 1e-4)
    again = solvers.solve("optimal", workload, found.bounds)
    assert again.curve.epsilon_at_targets(1e-4) == pytest.approx(0.7, rel=1e-6)
    assert np.all(found.query_variances <= found.bounds * (1 + 1e-12))
    assert found.total_variance == pytest.approx(found.query_variances.sum())


def test_pure_mechanisms_have_variances_at_a_budget_but_no_normal_intervals():
    found = solvers.solve("laplace", np.eye(3)).at_budget(0.5, 0.0)
    assert found.query_variances == pytest.approx(2 / 0.5**2)
    for wrong in (found, solvers.solve("laplace", np.eye(3))):
        with pytest.raises(NotApplicableError, match="for normal errors"):
            wrong.half_widths()


@pytest.mark.parametrize(
    ("budget", "sentence"),
    [((0.0, 1e-5), "positive"), ((1.0, 1.0), "delta"), ((1.0, 0.0), "give a positive delta")],
)
def test_impossible_budgets_are_refused(budget, sentence):
    with pytest.raises(OptionError, match=sentence):
        solvers.solve("GM", np.eye(2)).at_budget(*budget)


def test_a_confidence_is_between_0_and_1_and_a_query_graph_has_one_epsilon():
    with pytest.raises(OptionError, match=r"confidence is 95.*0\.95"):
        solvers.solve("GM", np.eye(2)).at_budget(1.0, 1e-5).half_widths(95)
    with pytest.raises(NotApplicableError, match="has one epsilon"):
        solvers.solve("geometric", workloads.make("counting", n=3)).at_budget(1.0, 1e-5)


def test_errors_at_a_budget_are_within_the_half_widths_as_often_as_promised():
    found = solvers.solve("optimal", np.tri(6)).at_budget(1.0, 1e-5)
    errors = found.draw(40_000, np.random.default_rng(0))
    inside = np.mean(np.abs(errors) <= found.half_widths(0.9), axis=0)
    assert inside == pytest.approx(0.9, abs=0.01)


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
