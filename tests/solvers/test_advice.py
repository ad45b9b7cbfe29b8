"""Advice against independent numbers: prices against solves, intervals against variances."""

import re

import numpy as np
import pytest

import solvers
import workloads
from solvers import NotApplicableError, OptionError
from solvers.advice import advise
from workloads.queries import domain_of, usual_queries

DOMAIN = domain_of({"age": "0..5", "sex": ["f", "m"]})
QUERIES = {
    "label": ["all", "ages", "sexes", "young", "any"],
    "age": ["", "*", "", "<=2", "3"],
    "sex": ["", "", "*", "m", "f"],
    "variance": ["1", "4", "2", "3", "1000"],
}
FAST = ("IP", "GM", "CA", "laplace", "optimal")
ASKED = {"optimal": {"tol": 1e-4}}
"""Options of the solves that the advice asks for, by mechanism."""


@pytest.fixture(scope="module")
def asked():
    return workloads.from_queries(QUERIES, DOMAIN)


@pytest.fixture(scope="module")
def advice(asked):
    further = usual_queries(DOMAIN)
    return advise(asked, delta=1e-6, epsilon=2.0, mechanisms=FAST, further=further)


def test_candidates_are_ranked_and_answers_are_within_their_margins(advice, asked):
    needed = [one.epsilon for one in advice.candidates]
    assert needed == sorted(needed)
    assert advice.recommended.mechanism == "optimal"
    answers = advice.answers
    assert answers.labels[:2] == ("all", "ages: age=0")
    np.testing.assert_allclose(answers.half_widths, 1.959963984540054 * answers.standard_errors)
    assert np.all(answers.half_widths <= answers.margins * (1 + 1e-9))
    for one in advice.candidates:
        solution = solvers.solve(one.mechanism, asked, **ASKED.get(one.mechanism, {}))
        delta = 0.0 if one.mechanism == "laplace" else 1e-6
        assert one.epsilon == pytest.approx(float(solution.curve.epsilon_at_targets(delta)))
        if one.mechanism != "laplace":
            bound = solution.squared_privacy_cost / (1 + one.excess)
            assert bound == pytest.approx(advice.lower_bound)


def test_the_price_of_a_target_is_what_relaxing_it_saves(advice, asked):
    """The elasticity against the quotient of differences of two solves."""
    assert sum(price.elasticity for price in advice.prices) == pytest.approx(1.0)
    targets, step = asked.stated.targets, 1e-3
    for price in advice.prices:
        at = asked.groups == asked.group_names.index(price.label)
        costs = [
            solvers.solve(
                "optimal", asked, np.where(at, targets * np.exp(sign * step), targets), tol=1e-9
            ).squared_privacy_cost
            for sign in (-1, 1)
        ]
        measured = -np.log(costs[1] / costs[0]) / (2 * step)
        assert price.elasticity == pytest.approx(measured, abs=2e-3)


def test_the_dearest_targets_are_relaxed_and_solved_anew(advice, asked):
    relaxed = advice.relaxation
    assert relaxed.labels == tuple(p.label for p in advice.prices[:5] if not p.free)
    assert "any" not in relaxed.labels
    at = np.isin(asked.groups, [asked.group_names.index(label) for label in relaxed.labels])
    solved = solvers.solve("optimal", asked, asked.stated.targets * np.where(at, 1.1, 1.0))
    before = advice.recommended.squared_privacy_cost
    assert relaxed.actual == pytest.approx(solved.squared_privacy_cost / before, rel=1e-5)
    assert relaxed.predicted == pytest.approx(relaxed.actual, rel=0.01)


def test_what_is_free_is_named_with_its_error(asked):
    advice = advise(asked, delta=1e-6, mechanisms=["GM", "optimal"], further=usual_queries(DOMAIN))
    assert advice.free == ()  # all of them were asked
    further = workloads.from_queries({"age": ["0..2"], "sex": [""], "variance": ["1"]}, DOMAIN)
    (found,) = advise(asked, delta=1e-6, mechanisms=["optimal"], further=further).free
    assert found.label == "age=0..2"
    expected = solvers.solve("optimal", asked, **ASKED["optimal"]).free_queries(further).variances
    assert found.standard_error == pytest.approx(np.sqrt(expected[0]))


def test_only_what_can_win_is_tried_when_ten_seconds_are_over(asked, monkeypatch):
    """The pure mechanisms can; all others are named, with the way to try them."""
    monkeypatch.setattr("solvers.advice.ALL_TRIED_SECONDS", 0.0)
    monkeypatch.setattr("solvers.advice.QUICK_SECONDS", 0.0)
    steps = []
    found = advise(asked, delta=1e-6, progress=steps.append)
    assert re.fullmatch(r"optimal \(1 of \d+, at most 54 s\)", steps[0])
    assert {step.split()[0] for step in steps[1:-1]} == {
        "laplace",
        "geometric",
        "tight-constraints",
    }
    assert steps[-1] == "optimal, the dearest targets relaxed"
    left_out = {one.mechanism: one.reason for one in found.candidates if one.outcome == "not tried"}
    assert {"CA", "GM", "SM-II", "interior-point"} <= set(left_out)
    assert all("of the least possible" in reason for reason in left_out.values())
    assert all("name it to try it" in reason for reason in left_out.values())
    assert found.recommended.mechanism == "optimal"
    assert found.price_gap <= 1e-4


def test_one_query_alone_is_answered_by_pure_noise_more_cheaply():
    """Laplace noise of variance 2 costs ε = 1; Gaussian noise more at a small δ."""
    found = advise(np.ones((1, 3)), 2.0, delta=1e-9, mechanisms=FAST)
    assert found.recommended.mechanism in ("GM", "CA", "optimal", "IP")
    assert found.pure.mechanism == "laplace"
    assert found.pure.epsilon == pytest.approx(1.0)


@pytest.mark.parametrize("wrong", [{"delta": 0}, {"delta": 1}, {"delta": 1e-6, "epsilon": -1}])
def test_impossible_budgets_are_refused(asked, wrong):
    with pytest.raises(OptionError, match="expected a"):
        advise(asked, **wrong)


def test_advice_on_data_of_which_one_record_is_replaced(asked):
    """Cost, prices and free queries belong to the relation."""
    found = advise(
        asked,
        delta=1e-6,
        mechanisms=("IP", "DAWA", "optimal"),
        further=workloads.from_matrix(np.full((1, asked.d), 2.0)),
        neighbours="replace-one",
    )
    assert found.neighbours == "replacing one record by another"
    (twice_the_total,) = found.free
    assert twice_the_total.standard_error == 0, "the number of records is public"
    assert sum(price.elasticity for price in found.prices) == pytest.approx(1)
    assert found.relaxation.actual == pytest.approx(found.relaxation.predicted, rel=5e-3)
    solved = solvers.solve("optimal", asked, neighbours="replace-one", **ASKED["optimal"])
    assert found.recommended.squared_privacy_cost == pytest.approx(solved.squared_privacy_cost)
    (without,) = [one for one in found.candidates if np.isnan(one.epsilon)]
    assert without.mechanism == "DAWA"
    assert without.reason


def test_advice_needs_a_mechanism_of_gaussian_noise(asked):
    with pytest.raises(NotApplicableError, match="none was tried; name one"):
        advise(asked, delta=1e-6, mechanisms=["laplace"])
