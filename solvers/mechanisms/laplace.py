"""Laplace noise calibrated to the 1-norm sensitivity: pure ε-differential privacy.

Dwork, McSherry, Nissim and Smith (TCC 2006); Proposition 3 of Farokhi and Sandberg, which prints
the reciprocal of the scale by mistake (docs/fisher.md).
"""

from solvers.forms.differences import OnDifferences, as_asked
from solvers.mechanism import Mechanism, structured_work
from solvers.noise.independent import DATA, QUERIES, Place, perturbed
from solvers.noise.information import laplace_entropy
from solvers.privacy.distributions import Laplace
from solvers.problem import Problem
from solvers.solution import Solution


def solve(problem: Problem, *, on: Place = QUERIES) -> Solution:
    """Independent Laplace noise on every query or on every cell of x; pure ε.

    All noise has the same scale b. The Fisher information about x is ``WᵀW / b²`` with noise on the
    queries and ``I / b²`` with noise on the cells. The Cramér-Rao bound is ``d b²`` with noise on
    the cells; with noise on a single query w it is ``b² / ‖w‖²``, for the part of x along w.
    With noise on the queries, the target of an all-zero query limits the noise, too, although the
    answer 0 needs no noise.
    """
    noise = perturbed(problem, Laplace(), on)
    squared_scale = noise.source.variance / 2
    workload = problem.workload
    if on == DATA:
        measures = {
            "fisher_information": workload.d / squared_scale,
            "cramer_rao_bound": workload.d * squared_scale,
        }
    else:
        total = float(workload.operator.squared_row_norms().sum())
        measures = {"fisher_information": total / squared_scale}
    if workload.m == 1 and on == QUERIES:
        measures["cramer_rao_bound"] = squared_scale / total
        measures["noise_entropy"] = laplace_entropy(noise.total_variance)
    return Solution("laplace", problem, noise, measures=measures)


MECHANISM = Mechanism.of(
    "laplace",
    solve,
    variants=(OnDifferences(as_asked(solve)),),
    work=structured_work,
    source="Dwork et al., TCC 2006; Farokhi and Sandberg, Proposition 3",
)
