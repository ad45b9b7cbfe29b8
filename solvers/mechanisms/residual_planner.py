"""ResidualPlanner: noisy marginals from residuals, each with its own noise.

Xiao, He, Zhang and Kifer (NeurIPS 2023). Each set S of attributes has one base mechanism, which
measures the part of the marginal on S that smaller marginals do not determine. Let attribute i have
n_i values, and let J be the matrix of ones. The queries of the base mechanism are the Kronecker
product of I - J/n_i for the attributes in S and of the total for all others. The covariance of its
noise is σ_S² times the product of the I - J/n_i. Let N_S be the product of n_i over S, and w_S the
product of n_i - 1 over S. The base mechanism of S

    adds (w_S / N_S) / σ_S² to every entry of the privacy profile, and
    (w_S N_S / N_T²) σ_S² to the variance of every query of a marginal T that contains S.

Minimising a convex loss of the variances thus takes one variable for each S in the downward closure
of the marginals, for a domain of any size. The total variance is least, by the inequality of Cauchy
and Schwarz, for σ_S² ∝ 1 / (N_S sqrt(sum over T that contain S of 1 / N_T)). The largest ratio of a
variance to its target is the objective of Problem 1, which is solved to a certified gap.
"""

from dataclasses import dataclass
from math import log
from typing import Literal

import numpy as np

from solvers.forms.orbits import SingleOrbit
from solvers.forms.orbits.orbit_noise import OrbitsNoise, from_dual, inner_noise
from solvers.mechanism import Iterative
from solvers.solution import Solution


def minimise_total_variance(mechanism: str, orbits: SingleOrbit) -> OrbitsNoise:
    """Solve for the marginals' noise of least total variance that just meets the targets."""
    closure = orbits.closure
    shared = closure.incidence.T @ np.exp(orbits.log_copies.min() - orbits.log_copies)
    logs_of_blocks = np.array([*map(log, closure.block_sizes), 0.0])
    log_sizes = logs_of_blocks[closure.members].sum(axis=1)
    log_costs = closure.log_ranks - log_sizes
    logs = -log_sizes - np.log(shared) / 2 - log_costs
    noise = orbits.noise(np.exp(logs - logs.max()))
    return OrbitsNoise(orbits, (noise,)).met(mechanism)


@dataclass(frozen=True)
class ResidualPlanner(Iterative):
    """Noise on residuals of marginals, of least total variance or least largest variance ratio.

    With the objective of the largest variance ratio, the solve stops at a certified relative gap.

    Attributes
    ----------
    objective : {"total-variance", "max-variance"}
        What to minimise: the sum of all variances, or the largest ratio of a variance to its
        target.
    """

    name = "ResidualPlanner"
    source = "Xiao, He, Zhang and Kifer, NeurIPS 2023"
    without_matrix = (
        "it plans marginals with one target for each (the workloads marginals, or census without "
        "ordered attributes); with prefixes or ranges, or targets that differ within a marginal, "
        "use ResidualPlanner+"
    )

    objective: Literal["total-variance", "max-variance"] = "total-variance"

    def on_marginals(self, marginals: SingleOrbit) -> Solution:
        """Return the solution that minimises the total variance or the largest variance ratio."""
        stopping = self.stopping()
        if self.objective == "total-variance":
            noise = minimise_total_variance(self.name, marginals)
            return Solution(self.name, marginals.problem, noise)
        result = marginals.optimum(stopping)
        noise = inner_noise(self.name, marginals, result.best)
        return from_dual(self, noise, result, noise.squared_privacy_cost, {}, result.lower)
