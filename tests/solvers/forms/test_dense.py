"""Answers of users' mechanisms: only their factors are believed."""

from dataclasses import replace

import numpy as np
import pytest

import solvers
from solvers.errors import SolveFailedError
from solvers.forms.dense import verified_solution
from solvers.problem import as_problem


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "of type NoneType, which cannot be verified; return a strategy matrix"),
        (np.eye(3), r"a strategy of shape \(3, 3\); expected one column for each of the 4 cells"),
        (np.full((4, 4), np.nan), "entries that are not finite"),
        (np.eye(4) * (1 + 1j), "complex entries; expected real numbers"),
        (np.ones((1, 4)), "cannot be derived from the strategy"),
        (solvers.solve("laplace", np.tri(4)), "of type IndependentNoise, which cannot be verified"),
        (solvers.solve("IP", np.eye(4)), "do not answer the queries"),
        (solvers.solve("IP", np.tri(5)), "expected a product of the workload's shape"),
    ],
)
def test_answers_are_verified(answer, said):
    with pytest.raises((SolveFailedError, solvers.NotApplicableError), match=said):
        verified_solution("mine", as_problem(np.tri(4)), answer)


def test_nothing_that_an_answer_claims_is_believed_but_its_factors():
    honest = solvers.solve("IP", np.tri(4))
    noise = replace(honest.noise)
    object.__setattr__(noise, "privacy_profile", np.zeros(4))
    claimed = replace(honest, noise=noise, known_lower_bound=1e9, mechanism="optimal")
    found = verified_solution("mine", as_problem(np.tri(4)), claimed)
    assert found.squared_privacy_cost == pytest.approx(4.0)
    assert found.known_lower_bound is None
    assert found.mechanism == "mine"
