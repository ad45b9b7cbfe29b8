"""Laplace noise calibrated to the 1-norm sensitivity: pure ε-differential privacy.

Dwork, McSherry, Nissim and Smith (TCC 2006); Proposition 3 of Farokhi and Sandberg, which prints
the reciprocal of the scale by mistake (docs/fisher.md).
"""

from dataclasses import dataclass

from solvers.forms.differences import Differences
from solvers.mechanism import Mechanism, ProblemSize, Work, structured_work
from solvers.noise.independent import Place, perturb
from solvers.noise.information import laplace_entropy
from solvers.privacy import distributions
from solvers.problem import Problem
from solvers.solution import Solution


@dataclass(frozen=True)
class Laplace(Mechanism):
    """Independent Laplace noise on every query or on every cell of x; pure ε.

    All noise has the same scale b. The Fisher information about x is ``WᵀW / b²`` with noise on the
    queries and ``I / b²`` with noise on the cells. The Cramér-Rao bound is ``d b²`` with noise on
    the cells; with noise on a single query w it is ``b² / ‖w‖²``, for the part of x along w.
    With noise on the queries, the target of an all-zero query limits the noise, too, although the
    answer 0 needs no noise.

    Attributes
    ----------
    on : {"queries", "data"}
        Where the noise is added.
    """

    name = "laplace"
    source = "Dwork et al., TCC 2006; Farokhi and Sandberg, Proposition 3"

    on: Place = "queries"

    def on_matrix(self, problem: Problem) -> Solution:
        """Return independent noise of one scale."""
        noise = perturb(problem, distributions.Laplace(), self.on)
        squared_scale = noise.source.variance / 2
        workload = problem.workload
        if self.on == "data":
            measures = {
                "fisher_information": workload.d / squared_scale,
                "cramer_rao_bound": workload.d * squared_scale,
            }
        else:
            total = float(workload.operator.squared_row_norms().sum())
            measures = {"fisher_information": total / squared_scale}
        if workload.m == 1 and self.on == "queries":
            measures["cramer_rao_bound"] = squared_scale / total
            measures["noise_entropy"] = laplace_entropy(noise.total_variance)
        return Solution(self.name, problem, noise, measures=measures)

    def on_differences(self, differences: Differences) -> Solution:
        """Return noise that is calibrated to the sensitivity under replace-one neighbours."""
        return self.on_matrix(differences.problem)

    def work(self, size: ProblemSize) -> Work:
        """Estimate the work: a closed form that uses the structure of the queries."""
        return structured_work(size)
