"""Problem 2: a mechanism at a privacy budget, and the curves of all budgets."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from pages import blocks
from scipy.stats import norm

import solvers
import workloads
from solvers import NotApplicableError, OptionError
from solvers.privacy.budget import GaussianBudget, LossBudget, NoBudget, PureBudget, from_record
from solvers.privacy.distributions import Geometric, Laplace, TruncatedGeometric
from solvers.privacy.privacy_loss import one_column
from workloads.operators import dense


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


def least_delta(epsilon, cost):
    """Theorem 1 of arXiv v1: the least δ of Gaussian noise of privacy cost Δ at ε."""
    lower, upper = -cost / 2 - epsilon / cost, cost / 2 - epsilon / cost
    return norm.cdf(upper) - np.exp(epsilon) * norm.cdf(lower)


def test_the_page_on_releases_adds_noise_of_the_budget_that_it_names():
    """ε and the margins are computed from the errors of the page's own function."""
    page = Path(__file__).parents[2] / "docs" / "how-to" / "release.md"
    names = {}
    for example in blocks(page, "python"):
        exec(compile(example, str(page), "exec"), names)
    units = np.eye(len(names["strategy"]))
    errors = np.transpose([names["answers"](np.zeros(16), unit) for unit in units])
    exact = np.transpose([names["answers"](count, units[0] * 0) for count in np.eye(16)])
    np.testing.assert_allclose(exact, np.tri(16), atol=1e-9)
    moved = np.linalg.lstsq(errors, exact)[0]  # in units of the noise
    assert least_delta(1.0, np.linalg.norm(moved, axis=0).max()) == pytest.approx(1e-6, rel=1e-6)
    deviations = np.linalg.norm(errors, axis=1)
    np.testing.assert_allclose(names["margins"], 1.959963984540054 * deviations)


@pytest.mark.parametrize(
    ("mechanism", "workload"),
    [
        ("SM-II", workloads.make("range", d=8)),
        ("optimal", workloads.make("marginals", attributes=3, values=3, orders=[1, 2])),
        ("IP", workloads.make("marginals", attributes=3, values=3, orders=[1, 2])),
        ("GM", workloads.make("kronecker", terms=[["prefix:4", "prefix:3"]])),
        ("optimal", workloads.make("kronecker", terms=[["prefix:4", "prefix:3"]])),
    ],
)
def test_every_gaussian_noise_is_rescaled_to_its_budget(mechanism, workload):
    solution = solvers.solve(mechanism, workload)
    found = solution.at_budget(1.0, 1e-6)
    noise, ratio = found.noise, found.variance_ratio_at_budget
    left, right = dense(noise.left), dense(noise.right)
    np.testing.assert_allclose(left @ right, workload.dense, atol=1e-9)
    assert least_delta(1.0, np.linalg.norm(right, axis=0).max()) == pytest.approx(1e-6, rel=1e-5)
    np.testing.assert_allclose(np.square(left).sum(axis=1), found.query_variances, rtol=1e-9)
    np.testing.assert_allclose(
        noise.coordinates.covariance, ratio * solution.covariance, rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(noise.coordinates.basis, solution.basis)
    np.testing.assert_allclose(noise.query_variances, found.query_variances)
    np.testing.assert_allclose(noise.privacy_profile, solution.privacy_profile / ratio)
    assert noise.squared_privacy_cost == pytest.approx(found.squared_privacy_cost)


def test_pure_noise_at_a_budget_spends_it_and_is_not_scaled():
    """Geometric noise stays on the integers: its ε of one step changes, not its unit."""
    found = solvers.solve("geometric", np.tri(4), 9.0).at_budget(2.0, 0.0)
    assert found.noise.source.epsilon == pytest.approx(2.0 / 4)
    assert found.noise.epsilon == pytest.approx(2.0)
    expected = 2 * np.exp(-0.5) / (1 - np.exp(-0.5)) ** 2
    np.testing.assert_allclose(found.noise.query_variances, expected)
    np.testing.assert_allclose(found.query_variances, expected)
    drawn = found.draw(200, np.random.default_rng(0))
    assert np.all(drawn == np.round(drawn))


def test_measured_errors_have_no_noise_to_rescale():
    found = solvers.solve("DAWA", workloads.make("prefix", d=8), epsilon=0.5, draws=2)
    with pytest.raises(NotApplicableError, match="holds at one budget"):
        found.at_budget(0.5, 0.0).noise  # noqa: B018


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
