"""Bases of the query space: W = L B, their ranks, and their purposes."""

import numpy as np
import pytest

import workloads
from solvers.problem import as_problem
from solvers.soft_max import basis


@pytest.mark.parametrize(
    ("matrix", "kind"),
    [
        (np.tril(np.ones((5, 5))), "lower-triangular"),
        (np.triu(np.ones((5, 5))), "upper-triangular"),
        (np.eye(5), "identity"),
        (workloads.make("age").dense, "lower-triangular"),
        (workloads.make("random", d=32).dense, "identity"),
        (workloads.make("identity-sum", d=8).dense, "identity"),
        (workloads.make("pl94"), "identity"),
        (workloads.make("pl94").dense, "identity"),
    ],
)
def test_the_choice_of_the_papers(matrix, kind):
    assert basis.factor(as_problem(matrix), "paper").kind == kind
