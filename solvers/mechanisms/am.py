"""Adaptive mechanism: the eigen-queries of W with the best weights.

KDD'16, eq. (5), after Li and Miklau (PVLDB 5(6), 2012). With the singular value
decomposition W = U diag(d) P, the strategy is diag(λ) P. The weights λ of least total error at
Δ² = 1 solve

    minimise sum_i d_i² / u_i   subject to   M u <= 1,   M = (P ∘ P)ᵀ,   u = λ².

With v_i = u_i / d_i² the program is to minimise ``sum(1 / v)`` subject to ``M diag(d²) v <= 1``.
This program has the form of the dual with blocks of size one (`solvers.dual.scalar_blocks`) and is
solved to a certified gap.

Choices: KDD'16 prints Q (m x n) but means the eigen-queries, the rows of P. Li and Miklau finally
add one query on every cell whose column norm is below the largest, which costs no privacy. The
option ``complete`` (default) adds these queries; without it the strategy is that of eq. (5). If W
has repeated singular values, the eigen-queries are not unique; LAPACK's choice is used.
"""

from dataclasses import dataclass, replace

import numpy as np

from solvers.dual.scalar_blocks import ScalarBlocks, minimise
from solvers.mechanism import Iterative, ProblemSize, Work
from solvers.problem import Problem
from solvers.problem.row_space import singular_rows
from solvers.solution import Solution
from solvers.strategy import from_strategy
from workloads.parameters import Count, NotNegative

_NEGLIGIBLE = 1e-6
"""Relative tolerance within which a squared column norm is treated as equal to the largest one.

A cell gets an extra query only if the difference exceeds this tolerance. Extra queries for smaller
differences would have tiny entries, which cost accuracy.
"""


@dataclass(frozen=True)
class AM(Iterative):
    """Adaptive mechanism: the workload's eigen-queries with the best weights.

    The targets only scale the noise. The solve stops at a certified relative gap of the weights.

    Attributes
    ----------
    complete : bool
        Whether to raise all column norms of the strategy to the largest norm, as Li and Miklau do.
    """

    name = "AM"
    source = "Li and Miklau, PVLDB 5(6), 2012; KDD'16, eq. (5)"

    tol: NotNegative = 1e-10
    max_iterations: Count = 200
    complete: bool = True

    def on_matrix(self, problem: Problem) -> Solution:
        """Return the strategy of the best weights, from one singular value decomposition."""
        stopping = self.stopping()
        singular, rows = singular_rows(problem.workload.matrix)
        singular = singular / singular[0]
        squared_norms = (np.square(rows) * np.square(singular)[:, None]).T
        result = minimise(ScalarBlocks(squared_norms, np.zeros(len(squared_norms))), stopping)
        scale = float(result.best.gradient.max())
        strategy = np.sqrt(result.best.v / scale)[:, None] * singular[:, None] * rows
        norms = np.square(strategy).sum(axis=0)
        missing = norms.max() - norms
        if self.complete:
            short = missing > _NEGLIGIBLE * norms.max()
            strategy = np.vstack([strategy, np.diag(np.sqrt(missing))[short]])
        return replace(
            from_strategy(self.name, problem, strategy),
            iterations=result.iterations,
            converged=result.converged,
            timed_out=result.timed_out,
        )

    def work(self, size: ProblemSize) -> Work:
        """A singular value decomposition and about nine Newton steps in d unknowns."""
        m, d = size.m, size.d
        return Work(flops=1.5e8 + 6.0 * m * d**2 + 70.0 * d**3, bytes=8.0 * (6 * d**2 + 2 * m * d))
