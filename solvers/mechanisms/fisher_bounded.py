"""Noise of least Fisher information on a box: the cos² density (Farokhi and Sandberg).

The box is scaled so that the targets are just met: a side of width s gives the variance
(π² - 6) / (12 π²) s². With noise on the data vector, every cell has the same side
(Corollary 1). With noise on the queries, each side is as wide as the query's target allows. This is
the optimum of the paper's Problem 2 for a single query (Corollary 3), and for orthogonal queries,
for which the Laplacian separates. Bounded noise has no finite ε.
"""

from dataclasses import dataclass

import numpy as np
import scipy

from solvers.errors import NotApplicableError, OptionError
from solvers.mechanism import Mechanism
from solvers.noise.independent import IndependentNoise, Place
from solvers.noise.information import CosineSquared
from solvers.privacy.budget import NoBudget
from solvers.problem import Problem
from solvers.solution import Solution
from workloads.operators import Scaled
from workloads.operators.combined import scaled_rows

REASON = (
    "the noise is bounded: some answers are possible under one database and impossible under its "
    "neighbour, so no finite epsilon holds with delta = 0, and none is claimed with delta > 0"
)

_ORTHOGONALITY = 1e-9
"""Largest deviation of U Uᵀ v from v for orthogonal queries: rounding errors stay below 1e-12."""


def _check_orthogonal(problem: Problem) -> None:
    """Refuse queries that are not orthogonal.

    The test is whether U Uᵀ v = v for two random v, where the rows of U are the queries scaled to
    norm 1.
    """
    norms = np.sqrt(problem.workload.operator.squared_row_norms())
    asked = norms > 0
    inverse = np.divide(1.0, norms, out=np.zeros_like(norms), where=asked)
    unit = Scaled(problem.workload.operator, inverse)
    probes = np.random.default_rng(0).standard_normal((norms.size, 2)) * asked[:, None]
    off = np.abs(unit.apply(unit.apply_transposed(probes)) - probes).max()
    if off > _ORTHOGONALITY:
        raise NotApplicableError(
            f"fisher-bounded: the queries of workload {problem.workload.name!r} are not orthogonal "
            "to each other, and for such queries no optimal noise on a box is known in closed "
            "form; set on: data to add the noise to the data vector"
        )


@dataclass(frozen=True)
class FisherBounded(Mechanism):
    """Noise of least Fisher information on a box, with the density cos²; no finite ε.

    Independent noise on every query, or on every cell of x, centred at zero.

    Attributes
    ----------
    on : {"queries", "data"}
        Where the noise is added. With noise on the queries, the queries must be orthogonal.
    slope : float
        The logarithmic slope p'(x)/p(x) of Corollary 4's weight p, times the width of the box; the
        same for every cell. With noise on the queries it must be 0.
    """

    name = "fisher-bounded"
    source = "Farokhi and Sandberg, Corollaries 1, 3 and 4"

    on: Place = "queries"
    slope: float = 0.0

    def on_matrix(self, problem: Problem) -> Solution:
        """Return the noise on the largest box that meets the targets.

        The measures are the trace of the Fisher information about x and the Cramér-Rao bound on the
        total squared error of an unbiased estimate of x. With noise on the queries, the bound is
        for the part of x that the queries determine. With noise on a single query there is also
        the ``noise_entropy``, in bits.

        Raises
        ------
        NotApplicableError
            If the noise is on queries that are not orthogonal: no closed form is known.
        OptionError
            If ``slope`` is not finite, or not 0 with noise on the queries.
        """
        mean = CosineSquared(-0.5, 0.5, self.slope).mean
        source = CosineSquared(-0.5 - mean, 0.5 - mean, self.slope)
        m, d = problem.workload.shape
        squares = problem.workload.operator.squared_row_norms()
        if self.on == "data":
            widths = np.sqrt([1.0 / (source.variance * np.max(squares / problem.targets))])
            decoder = scaled_rows(problem.workload.matrix, np.full(m, widths[0]))
            measures = {
                "fisher_information": d * source.fisher_information / widths[0] ** 2,
                "cramer_rao_bound": d * widths[0] ** 2 / source.fisher_information,
            }
        elif self.slope != 0:
            raise OptionError(
                f"fisher-bounded: slope {self.slope:g} with noise on the queries; the weight of "
                "Corollary 4 is on the data vector, so set on: data",
                "slope",
            )
        else:
            _check_orthogonal(problem)
            widths = np.sqrt(problem.targets / source.variance)
            decoder = scipy.sparse.csr_array(scipy.sparse.diags_array(widths))
            information = source.fisher_information / np.square(widths) * squares
            measures = {
                "fisher_information": float(information.sum()),
                "cramer_rao_bound": float((1 / information[information > 0]).sum()),
            }
            if m == 1:
                measures["noise_entropy"] = source.entropy + float(np.log2(widths[0]))
        sides = {"narrowest_side": float(widths.min()), "widest_side": float(widths.max())}
        return Solution(
            self.name,
            problem,
            IndependentNoise(decoder, source, NoBudget(REASON)),
            measures=measures,
            notes={"no_finite_epsilon": REASON, **sides},
        )
