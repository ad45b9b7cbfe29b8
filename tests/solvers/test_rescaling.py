"""Problem 2: a mechanism at a privacy budget."""

import numpy as np
import pytest
from scipy.stats import norm

import solvers
import workloads
from solvers import NotApplicableError, OptionError


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
