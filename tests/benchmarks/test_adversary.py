"""The adversary: its problems are of all kinds, and every one of its checks can fail."""

from dataclasses import replace

import numpy as np
import pytest

import solvers
import workloads
from benchmarks.adversary import attempts, checks, pure, relations
from benchmarks.adversary.__main__ import Tally, findings
from benchmarks.adversary.problems import Case, draw
from solvers import SolveFailedError
from solvers.dual.programs import Weights
from workloads.operators import Explicit

MATRIX = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
CASE = Case(1, ("by hand",), workloads.from_matrix(MATRIX), np.array([1.0, 2.0, 3.0]))


def solution(mechanism="optimal", **options):
    return solvers.solve(mechanism, CASE.workload, CASE.targets, **options)


def of_solution(found, neighbours="add-remove"):
    moves = relations.differences(neighbours, 3)
    moved = replace(CASE, workload=workloads.from_matrix(MATRIX @ moves))
    return wrong(checks.of_solution(CASE, found, {}, moved, moves))


def wrong(measured):
    return {one.name for one in measured if one.wrong}


def with_noise(found, **changes):
    return replace(found, noise=replace(found.noise, **changes))


def test_a_few_seconds_of_it_find_nothing():
    tally = Tally()
    for seed in range(8):
        case = draw(seed)
        measured = attempts.examine(case)
        tally.add(case, measured)
        assert findings(case, measured) == []
    report = tally.report(5.0)
    assert "8 problems" in report
    assert report.endswith("0 findings")


def test_a_true_solution_passes_all_checks():
    for name in ("optimal", "IP", "GM", "CA", "laplace"):
        assert of_solution(solution(name)) == set()
    assert wrong(checks.of_all(CASE, {"optimal()": solution()})) == set()
    assert wrong(checks.against_clarabel(CASE, solution())) == set()


def test_an_infeasible_mechanism_and_a_biased_one_are_found():
    true = solution()
    left = Explicit(np.asarray(true.noise.left) * (1 + 1e-8))
    right = Explicit(np.asarray(true.noise.right) / (1 + 1e-8))
    found = with_noise(true, decoder=left, strategy=right)
    assert "over the targets" in of_solution(found)
    right = np.array(true.noise.right)
    right[0, 0] += 1e-10
    found = with_noise(true, strategy=Explicit(right))
    assert "L B - W in units of the noise" in of_solution(found)


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
    assert "a cost below the best bound" in wrong(checks.of_all(CASE, {"optimal": above}))


def test_an_epsilon_of_too_few_moves_is_found():
    found = solution("geometric")
    assert wrong(pure.of_pure(CASE, found, MATRIX, "")) == set()
    said = wrong(pure.of_pure(CASE, found, 2 * MATRIX, ""))
    assert "ε of the privacy loss does not keep δ" in said
    assert "noise at a budget does not keep δ" in said
    assert "ε below its lower bound keeps δ" in wrong(pure.of_pure(CASE, found, MATRIX[:1], ""))


def test_a_cost_that_is_not_over_all_pairs_is_found():
    found = solution(neighbours="replace-one")
    assert of_solution(found, "replace-one") == set()
    forgotten = replace(found, noise=solution("IP").noise)
    assert "stated privacy cost off" in of_solution(forgotten, "replace-one")
    dear = solution("IP", neighbours="replace-one")
    moved = workloads.from_matrix(MATRIX @ relations.differences("replace-one", 3))
    praised = {"optimal()": replace(dear, known_lower_bound=dear.squared_privacy_cost)}
    said = wrong(checks.of_all(replace(CASE, workload=moved), praised))
    assert said == {"optimum off Clarabel's"}


def test_a_budget_that_is_not_kept_is_found(monkeypatch):
    assert wrong(checks.budget(CASE, solution(), "")) == set()
    kept = checks.delta
    monkeypatch.setattr(checks, "delta", lambda epsilon, cost: kept(epsilon, cost * (1 + 1e-6)))
    assert wrong(checks.budget(CASE, solution(), "")) == {"δ at a budget off"}


def test_wrong_independent_noise_is_found():
    found = solution("laplace")
    twice = with_noise(found, decoder=found.noise.decoder * 2)
    assert wrong(checks.independent(CASE, twice, "laplace()")) == {"over the targets"}


def test_another_optimum_is_found():
    first, looser = solution(), solvers.solve("optimal", MATRIX, CASE.targets * (1 - 1e-4))
    assert checks.brackets("", first, looser, 1.0, "").wrong
    assert checks.brackets("", looser, first, 1.0, "").wrong
    assert not checks.brackets("", looser, first, 1 - 1e-4, "").wrong
    assert wrong(checks.against_clarabel(CASE, looser)) == {"optimum off Clarabel's"}


def test_errors_that_are_not_the_projects_own_and_warnings_are_found(monkeypatch):
    def broken(name, *given, **options):
        if name == "IP":
            raise np.linalg.LinAlgError("singular")
        return np.log(np.zeros(1))

    monkeypatch.setattr(attempts.solvers, "solve", broken)
    assert {"raw errors", "warnings", "broken answers"} <= wrong(attempts.examine(CASE))
