"""Randomised response on the answers of a query graph."""

import math
from dataclasses import dataclass

import numpy as np

from solvers.mechanism import Mechanism
from solvers.noise.noise_matrix import from_noise_matrix
from solvers.problem import GraphProblem
from solvers.solution import Solution
from workloads.parameters import Positive, PriorText
from workloads.priors import UNIFORM


@dataclass(frozen=True)
class RandomisedResponse(Mechanism):
    """Randomised response: the true answer or, with equal probabilities, any other answer.

    Of n answers, the true one has probability e^ε / (e^ε + n - 1). The edges of the graph are not
    used: every pair of answers is protected as if the two were adjacent. A mechanism that uses the
    edges should be more accurate.

    Attributes
    ----------
    epsilon : float
        The ε of the release.
    prior : str or list of float, shape (n,)
        The prior that the measures assume; see `workloads.priors`.
    """

    name = "randomised-response"
    source = "Warner, JASA 60 (1965), for n answers"

    epsilon: Positive = 1.0
    prior: PriorText | list[float] = UNIFORM

    def on_graph(self, problem: GraphProblem) -> Solution:
        """Return the noise matrix with two different entries."""
        n, other = problem.graph.n, math.exp(-self.epsilon)
        noise = np.full((n, n), other)
        np.fill_diagonal(noise, 1.0)
        noise /= 1.0 + (n - 1) * other
        return from_noise_matrix(self.name, problem, self.epsilon, self.prior, noise)
