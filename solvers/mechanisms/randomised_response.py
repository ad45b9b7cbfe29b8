"""Randomised response on the answers of a query graph."""

import math

import numpy as np

from solvers.mechanism import Mechanism
from solvers.problem import GraphProblem
from solvers.solution import Solution
from solvers.strategy import from_noise_matrix
from workloads.parameters import Positive, PriorText
from workloads.priors import UNIFORM


def solve(
    problem: GraphProblem, *, epsilon: Positive = 1.0, prior: PriorText | list[float] = UNIFORM
) -> Solution:
    """Randomised response: the true answer or, with equal probabilities, any other answer.

    Of n answers, the true one has probability e^ε / (e^ε + n - 1). The edges of the graph are not
    used: every pair of answers is protected as if the two were adjacent. A mechanism that uses the
    edges should be more accurate.
    """
    n, other = problem.graph.n, math.exp(-epsilon)
    noise = np.full((n, n), other)
    np.fill_diagonal(noise, 1.0)
    noise /= 1.0 + (n - 1) * other
    return from_noise_matrix("randomised-response", problem, epsilon, prior, noise)


MECHANISM = Mechanism.of(
    "randomised-response", solve_graph=solve, source="Warner, JASA 60 (1965), for n answers"
)
