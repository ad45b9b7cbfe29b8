"""The noise of least Fisher information: covariance proportional to (W Wᵀ)^(1/2).

Corollary 6 of Farokhi and Sandberg, and Theorem 4 if W stacks the outputs of a system over time:
among all unbounded noise of a given total variance, Gaussian noise with this covariance has the
least trace of the Fisher information about x. The targets determine only the scale of the noise.
As a linear query mechanism it is the inner solution of the dual (the best noise at fixed weights)
at equal column weights and at query weights proportional to the targets. W need not have full row
rank: the noise lies in the range of W.

The paper's covariance for Problem 3 has a factor of 2 that the proof does not support
(docs/fisher.md). This factor has no effect here, because the targets determine the scale.
"""

from dataclasses import dataclass

from solvers.dual.programs import Weights
from solvers.forms.kronecker import Product, multiply
from solvers.forms.orbits import AnyOrbits, Unreduced
from solvers.forms.orbits.orbit_noise import inner_noise
from solvers.mechanism import Mechanism, ProblemSize, Work
from solvers.noise.information import gaussian_entropy
from solvers.problem import Problem
from solvers.solution import Solution


@dataclass(frozen=True)
class Fisher(Mechanism):
    """Gaussian noise of least Fisher information, covariance ~ (W Wᵀ)^(1/2).

    The noise lies in the range of W; one factorisation gives its covariance. The measure
    ``cramer_rao_bound`` is the trace of the pseudo-inverse of the Fisher information: the least
    total squared error of an unbiased estimate of x's projection on the row space of W, which is x
    itself if W has rank d. ``cramer_rao_ratio`` is this bound over the total variance; this ratio
    does not depend on the scale, and is the ratio of privacy to quality in the paper's Example 4.
    For a single query there is also the ``noise_entropy``, in bits.
    """

    name = "fisher"
    source = "Farokhi and Sandberg, Corollary 6"

    def on_matrix(self, problem: Problem) -> Solution:
        """Return the inner solution of the dual at equal column weights; every cell is an orbit."""
        return self.on_orbits(Unreduced.of(problem))

    def on_orbits(self, orbits: AnyOrbits) -> Solution:
        """Return the noise of least Fisher information on orbits."""
        point = orbits.at(Weights(orbits.cell_shares, orbits.targets * orbits.copy_shares))
        noise = inner_noise(self.name, orbits, point)
        variance, shares = noise.total_variance, orbits.cell_shares
        # BᵀB has the eigenvalues λ/ν, up to a factor: their sum is f, and that of their inverses
        # is the bound; the factor is that of the information per cell
        information = float(shares @ noise.orbit_profile / shares.sum())
        bound = point.nuclear_norm * orbits.mean_inverse(point) / information
        measures = {"cramer_rao_bound": bound, "cramer_rao_ratio": bound / variance}
        if orbits.problem.workload.m == 1:
            measures["noise_entropy"] = gaussian_entropy(variance)
        presented = orbits.present(noise, noise.parts)
        return Solution(self.name, orbits.problem, presented, measures=measures)

    def on_factors(self, product: Product) -> Solution:
        """Return the product of the factors' solutions."""
        return multiply(self, product, {"cramer_rao_bound": 1, "cramer_rao_ratio": 0})

    def work(self, size: ProblemSize) -> Work:
        """One factorisation."""
        m, d = size.m, size.d
        return Work(flops=30.0 * d**3 + 2.0 * m * d * d, bytes=48.0 * d * d + 24.0 * m * d)
