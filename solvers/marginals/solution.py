"""What a solve on marginals returns, for a domain of any size."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, inf, log
from typing import Any

import numpy as np

from solvers.certified import Certified
from solvers.errors import NotApplicableError
from solvers.marginals.noise import Noise
from solvers.marginals.structure import Structure, readable
from solvers.problem import Problem
from workloads.operators import Array, Matrix
from workloads.workload import LARGEST_LISTED

LARGEST_EXPANDED = 4096
"""Most cells and queries of a mechanism that is written out as B, L and Σ."""

_CHEAP_ITERATIONS = 3


@dataclass(frozen=True, eq=False)
class MarginalsSolution(Certified):
    """A linear query mechanism on marginals that just meets its targets.

    It answers the same questions as `solvers.Solution`. All domain cells have the same
    privacy cost and all queries of a marginal the same variance.

    Attributes
    ----------
    method : str
        The method's name.
    structure : Structure
        The marginals and their targets.
    noise : Noise
        What the noise is added to and how much.
    known_lower_bound : float, optional
        A certified lower bound on Δ² that the method came with.
    iterations : int
        Newton steps; 0 for a closed form.
    converged : bool
        Whether the method reached its own stopping rule.
    timed_out : bool
        Whether it stopped at its time limit instead.
    runtime : float
        Wall-clock seconds of the solve alone.
    notes : dict
        What else the method reports.
    weights : numpy.ndarray, shape (number of marginals,), optional
        The dual weights that certify it.
    measures : Mapping of str to float, optional
        What else it is measured by, stored beside its numbers.
    """

    method: str
    structure: Structure
    noise: Noise
    known_lower_bound: float | None = None
    iterations: int = 0
    converged: bool = True
    timed_out: bool = False
    runtime: float = float("nan")
    notes: dict[str, Any] | None = None
    weights: Array | None = None
    measures: Mapping[str, float] | None = None

    @property
    def problem(self) -> Problem:
        """The workload and the targets."""
        return self.structure.problem

    @property
    def squared_privacy_cost(self) -> float:
        """Δ² when all targets are met: every entry of the privacy profile."""
        return self.noise.squared_privacy_cost

    @property
    def marginal_variances(self) -> Array:
        """Variance of every query of each marginal, shape (number of marginals,)."""
        return self.noise.marginal_variances

    @cached_property
    def query_variances(self) -> Array:
        """Shape (m,); where the workload is not listed, one for each marginal."""
        workload = self.problem.workload
        if not workload.listed:
            return self.marginal_variances
        return np.repeat(self.marginal_variances, workload.group_sizes)

    @cached_property
    def privacy_profile(self) -> Array:
        """Shape (d,), all entries equal; a single entry for more than 10^7 cells."""
        d = self.problem.workload.d
        return np.full(d if d <= LARGEST_LISTED else 1, self.squared_privacy_cost)

    @property
    def certified_bound(self) -> float | None:
        """``known_lower_bound``."""
        return self.known_lower_bound

    @cached_property
    def lower_bound(self) -> float:
        """A certified lower bound on Δ² over all linear query mechanisms.

        Computed on first use where the method itself brought none.
        """
        if self.known_lower_bound is not None:
            return self.known_lower_bound
        return self.structure.lower_bound(tol=0.0, max_iterations=_CHEAP_ITERATIONS)

    @property
    def total_variance(self) -> float:
        """Sum of the query variances when the targets are just met; infinite beyond floats."""
        logs = np.log(self.marginal_variances) + self.structure.log_sizes
        return _exponential(float(np.logaddexp.reduce(logs)))

    @property
    def fisher_information(self) -> float:
        """Trace of the Fisher information about x, d Δ²; infinite beyond floats."""
        return _exponential(log(self.problem.workload.d) + log(self.squared_privacy_cost))

    @property
    def basis(self) -> Array:
        """B, shape (k, d), for at most `LARGEST_EXPANDED` cells and queries."""
        return self._expanded[0]

    @property
    def representation(self) -> Matrix:
        """L, shape (m, k), for at most `LARGEST_EXPANDED` cells and queries."""
        return self._expanded[1]

    @property
    def covariance(self) -> Array:
        """Of the noise on Bx, shape (k, k), for at most `LARGEST_EXPANDED` cells and queries."""
        return self._expanded[2]

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """Draw n vectors of the errors of all queries, the targets just met, shape (n, m).

        Raises
        ------
        NotApplicableError
            If the queries are too many to be listed.
        """
        workload = self.problem.workload
        if not workload.listed:
            raise NotApplicableError(
                f"simulate: {readable(workload.m)} queries are too many to draw the error of each "
                f"(at most {LARGEST_LISTED}); leave simulate out, or ask for fewer marginals"
            )
        return self.noise.draw(self.structure, n, rng)

    def timed(self, seconds: float) -> "MarginalsSolution":
        """The same solution with its runtime."""
        return replace(self, runtime=seconds)

    def record(self) -> dict[str, Any]:
        """The numbers that a sweep stores, by variable name.

        The lower bound is that of the method itself, NaN where it has none.
        """
        known = self.known_lower_bound
        return {
            "squared_privacy_cost": self.squared_privacy_cost,
            "lower_bound": float("nan") if known is None else known,
            "total_variance": self.total_variance,
            "fisher_information": self.fisher_information,
            "iterations": self.iterations,
            "converged": self.converged,
            **(self.measures or {}),
        }

    def arrays(self) -> dict[str, Array]:
        """The arrays that a sweep keeps on request; the covariance only where it fits."""
        arrays = {
            "query_variances": self.query_variances,
            "privacy_profile": self.privacy_profile,
        }
        return arrays | ({"covariance": self.covariance} if self._fits else {})

    @property
    def _fits(self) -> bool:
        return max(self.problem.workload.shape) <= LARGEST_EXPANDED

    @cached_property
    def _expanded(self) -> tuple[Array, Matrix, Array]:
        m, d = self.problem.workload.shape
        if not self._fits:
            raise NotApplicableError(
                f"{self.method}: the mechanism is not written out for {readable(m)} queries over "
                f"{readable(d)} cells (at most {LARGEST_EXPANDED} of either); use "
                "marginal_variances, privacy_profile and noise, which describe it entirely"
            )
        return self.noise.expanded(self.structure)


def _exponential(power: float) -> float:
    try:
        return exp(power)
    except OverflowError:
        return inf
