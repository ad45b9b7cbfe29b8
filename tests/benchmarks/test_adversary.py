"""The adversary: its problems are of all kinds, and every one of its checks can fail."""

from dataclasses import replace

import mpmath
import numpy as np
import pytest

import solvers
import workloads
from benchmarks.adversary import attempts, checks, pure, relations
from benchmarks.adversary.__main__ import Tally, findings
from benchmarks.adversary.checks import EXACT, Measured
from benchmarks.adversary.problems import BASES, TROUBLES, Case, draw
from solvers import SolveFailedError
from solvers.dual.programs import Weights
from workloads.operators import Explicit

MATRIX = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
CASE = Case(1, ("by hand",), workloads.from_matrix(MATRIX), np.array([1.0, 2.0, 3.0]))


def solution(mechanism="optimal", **options):
    return solvers.solve(mechanism, CASE.workload, CASE.targets, **options)


def wrong(measured):
    return {one.name for one in measured if one.wrong}


def with_noise(found, **changes):
    return replace(found, noise=replace(found.noise, **changes))


def test_a_few_seconds_of_it_find_nothing():
    tally = Tally()
    for seed in range(8):
        case = draw(seed)
        examined = attempts.examine(case)
        tally.add(case, examined)
        assert findings(case, examined, refusals=False) == []
    report = tally.report(5.0)
    assert "8 problems" in report
    assert report.endswith("0 findings")


def test_a_problem_is_that_of_its_seed_and_all_kinds_come_up():
    kinds = {kind for seed in range(400) for kind in draw(seed).kinds}
    assert len(kinds) >= len(BASES) + len(TROUBLES) + 10, kinds
    np.testing.assert_array_equal(draw(7).matrix, draw(7).matrix)


def test_a_true_solution_passes_all_checks():
    for name in ("optimal", "IP", "GM", "CA", "laplace"):
        assert wrong(checks.of_solution(CASE, solution(name), {})) == set()
    assert wrong(checks.of_all(CASE, {"optimal": (solution(), {})})) == set()
    assert wrong(checks.against_clarabel(CASE, solution())) == set()


def test_an_infeasible_mechanism_is_found():
    true = solution()
    left = Explicit(np.asarray(true.noise.left) * (1 + 1e-8))
    right = Explicit(np.asarray(true.noise.right) / (1 + 1e-8))
    found = with_noise(true, decoder=left, strategy=right)
    assert "over the targets" in wrong(checks.of_solution(CASE, found, {}))


def test_a_biased_mechanism_is_found():
    true = solution()
    right = np.array(true.noise.right)
    right[0, 0] += 1e-10
    found = with_noise(true, strategy=Explicit(right))
    assert "L B - W in units of the noise" in wrong(checks.of_solution(CASE, found, {}))


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ("query_variances", {"stated variances off"}),
        ("privacy_profile", {"stated privacy cost off", "stated privacy profile off"}),
    ],
)
def test_numbers_that_are_not_those_of_the_factors_are_found(said, names):
    found = with_noise(solution())
    vars(found.noise)[said] = getattr(found.noise, said) * (1 - 1e-8)
    assert wrong(checks.factorisation(CASE, found, *checks.factors(found), "")) == names


def test_a_wrong_covariance_is_found():
    found = solution()
    own = found.noise.own
    vars(found.noise)["coordinates"] = replace(own, root=own.root * [[1.01], [1.0], [1.0]])
    assert wrong(checks.covariance(CASE, found, "")) == {"privacy cost in 50 digits off"}


def test_a_bound_that_is_not_proven_is_found():
    true = solution(tol=1e-2)
    higher = replace(true, known_lower_bound=true.known_lower_bound * (1 + 1e-7))
    moved = replace(true, weights=Weights(np.ones(3), np.ones(3)))
    for found in (higher, moved):
        assert "bound above what its weights prove" in wrong(checks.certificate(CASE, found, ""))


def test_a_cost_below_a_bound_is_found():
    true = solution()
    above = replace(true, known_lower_bound=true.squared_privacy_cost * (1 + 2e-8))
    with pytest.raises(SolveFailedError, match="contradicts"):
        list(checks.certificate(CASE, above, ""))
    assert "a cost below the best bound" in wrong(checks.of_all(CASE, {"optimal": (above, {})}))


def test_a_total_error_below_its_bound_is_found():
    found = with_noise(solution("CA"))
    vars(found.noise)["query_variances"] = found.query_variances * 0.9
    solved = {"CA": (found, {}), "optimal": (solution(), {})}
    assert wrong(checks.of_all(CASE, solved)) == {"total error below its bound"}


@pytest.mark.parametrize(
    ("options", "converged", "timed_out", "name"),
    [
        ({"tol": 1e-12}, True, False, "gap over tol where converged"),
        ({"tol": 1.0}, True, True, "converged and timed out"),
        ({"tol": 1.0}, False, False, "gap reached, not converged"),
    ],
)
def test_a_wrong_converged_is_found(options, converged, timed_out, name):
    found = replace(solution(tol=1e-3), converged=converged, timed_out=timed_out)
    assert wrong(checks.convergence(found, options, "")) == {name}


def test_the_delta_of_laplace_and_geometric_noise_is_exact():
    """One number: 1 - exp((ε - a)/2), and of geometric noise by hand."""
    with mpmath.workdps(30):
        found = pure.laplace_delta((3.0,), mpmath.mpf(2), mpmath.mpf("0.3"))
        assert float(found) == pytest.approx(-np.expm1((0.3 - 3) / 2), rel=1e-12)
        both = pure.laplace_delta((0.5, 1.0), mpmath.mpf(2), mpmath.mpf("0.3"))
        assert float(both) == pytest.approx(_by_summing(0.5, 1.0, 0.3), rel=1e-4)
        alpha = mpmath.mpf("0.5")
        variance = 2 * alpha / (1 - alpha) ** 2
        one = pure.geometric_delta((1.0,), variance, mpmath.log(mpmath.mpf("1.5")))
        assert float(one) == pytest.approx((1 - 1.5 / 2) / 1.5, rel=1e-12)


def _by_summing(first, second, epsilon):
    """δ of two Laplace numbers on a fine grid of both."""
    x = (np.arange(-15, 15, 0.02) + 0.01)[:, None]
    lost = (np.abs(x - first) - np.abs(x)) + (np.abs(x - second) - np.abs(x)).T
    mass = np.exp(-np.abs(x)) @ np.exp(-np.abs(x)).T * (0.02 / 2) ** 2
    return float((mass * np.maximum(0, -np.expm1(epsilon - lost))).sum())


@pytest.mark.parametrize("mechanism", ["laplace", "geometric"])
def test_an_epsilon_of_too_few_moves_is_found(mechanism):
    found = solution(mechanism)
    assert wrong(pure.of_pure(CASE, found, MATRIX, "")) == set()
    said = wrong(pure.of_pure(CASE, found, 2 * MATRIX, ""))
    assert "ε of the privacy loss does not keep δ" in said
    assert "noise at a budget does not keep δ" in said
    assert "ε below its lower bound keeps δ" in wrong(pure.of_pure(CASE, found, MATRIX[:1], ""))


def test_a_cost_that_is_not_over_all_pairs_is_found():
    moves = relations.differences("replace-one", 3)
    found = {"optimal()": solution(neighbours="replace-one")}
    assert wrong(relations.of_replaced(CASE, moves, found)) == set()
    forgotten = {"optimal()": replace(found["optimal()"], noise=solution("IP").noise)}
    said = wrong(relations.of_replaced(CASE, moves, forgotten))
    assert "replace-one: stated privacy cost off" in said
    dear = solution("IP", neighbours="replace-one")
    praised = {"optimal()": replace(dear, known_lower_bound=dear.squared_privacy_cost)}
    said = wrong(relations.of_replaced(CASE, moves, praised))
    assert said == {"replace-one: optimum off Clarabel's"}


def test_relations_of_all_kinds_come_up():
    drawn = [relations.relation(draw(seed)) for seed in range(150)]
    kinds = {
        None if one is None else one if isinstance(one, str) else next(iter(one)) for one in drawn
    }
    assert kinds == {None, "replace-one", "within", "pairs"}
    for one, case in zip(drawn, map(draw, range(150)), strict=True):
        if one is not None:
            moves = relations.differences(one, case.workload.d)
            assert np.all(np.abs(moves).sum(axis=0) == 2)


def test_a_budget_that_is_not_kept_is_found(monkeypatch):
    assert wrong(checks.budget(CASE, solution(), "")) == set()
    kept = checks.delta
    monkeypatch.setattr(checks, "delta", lambda epsilon, cost: kept(epsilon, cost * (1 + 1e-6)))
    assert wrong(checks.budget(CASE, solution(), "")) == {"δ at a budget off"}


@pytest.mark.parametrize("mechanism", ["IP", "GM"])
def test_another_closed_form_is_found(mechanism):
    found = replace(solution("CA"), mechanism=mechanism)
    assert wrong(checks.closed_form(CASE, found, "")) == {"closed form off"}


def test_wrong_independent_noise_is_found():
    found = solution("laplace")
    twice = with_noise(found, decoder=found.noise.decoder * 2)
    assert wrong(checks.independent(CASE, twice, "laplace()")) == {"over the targets"}
    assert wrong(checks.independent(CASE, found, "laplace(on='data')")) == {"closed form off"}


def test_another_optimum_is_found():
    first, looser = solution(), solvers.solve("optimal", MATRIX, CASE.targets * (1 - 1e-4))
    assert checks.brackets("", first, looser, 1.0, "").wrong
    assert checks.brackets("", looser, first, 1.0, "").wrong
    assert not checks.brackets("", looser, first, 1 - 1e-4, "").wrong
    assert wrong(checks.against_clarabel(CASE, looser)) == {"optimum off Clarabel's"}
    assert checks.same("", 1.0, 1 + 2 * EXACT, EXACT, "").wrong


def test_errors_that_are_not_the_projects_own_and_warnings_are_found(monkeypatch):
    def broken(name, *given, **options):
        if name == "IP":
            raise np.linalg.LinAlgError("singular")
        return np.log(np.zeros(1))

    monkeypatch.setattr(attempts.solvers, "solve", broken)
    examined = attempts.examine(CASE)
    assert {"raw errors", "warnings", "broken answers"} <= wrong(examined.measured)


def test_what_is_no_number_is_a_finding_and_stays_the_worst():
    tally = Tally()
    for value in (0.5, float("nan"), 2.0):
        tally.add(CASE, attempts.Examined(measured=[Measured("off", value, 1.0, "")]))
    assert tally.findings == 2
    assert np.isnan(tally.worst["off"][0].value)
