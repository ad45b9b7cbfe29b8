"""Wavelet mechanism: equal noise on weighted Haar coefficients.

Xiao, Wang and Gehrke (ICDE 2010). The Haar coefficient of a node with n leaves is half the
difference between the means of the node's two halves. The weight of the coefficient is n; the
weight of the overall mean is the domain's size. The noise of a coefficient is divided by its
weight. A coefficient times its weight is the difference between the counts of the two halves, so
the strategy is the Haar matrix of entries -1, 0 and 1 with the total on top.

Where the papers leave a choice open:

- **noise**: KDD'16 compares at (ε, δ), so the noise is Gaussian and calibrated to the
  2-norm. The weights are the paper's; every column has squared norm 1 + log2(d) (in
  ICDE 2010 its 1-norm is 1 + log2(d)).
- **d is not a power of two**: the domain is padded to the next power with cells known to be
  empty, and x is estimated by least squares from all coefficients that involve its cells.
"""

from dataclasses import dataclass

import numpy as np
import scipy

from solvers.forms.orbits import AnyOrbits, ProductOrbits
from solvers.forms.orbits.ordered import check_ordered, in_copies, over_ordered_cells
from solvers.mechanism import Mechanism, ProblemSize, Work
from solvers.problem import Problem
from solvers.solution import Solution
from solvers.strategy import from_strategy


def build_haar(d: int) -> "scipy.sparse.csr_array":
    """Return the Haar strategy over d cells, padded to a power of two.

    Returns
    -------
    scipy.sparse.csr_array, shape (r, d)
        The total first, then one row for each node that contains a cell: 1 on its left half,
        -1 on its right half.
    """
    levels = int(d - 1).bit_length()
    cells = np.arange(d)
    rows, signs = [np.zeros(d, dtype=int)], [np.ones(d)]
    for level in range(levels):
        half = 2 ** (levels - 1 - level)
        rows.append(2**level + cells // (2 * half))
        signs.append(np.where(cells // half % 2 == 0, 1.0, -1.0))
    _, dense_rows = np.unique(np.concatenate(rows), return_inverse=True)
    columns = np.tile(cells, levels + 1)
    return scipy.sparse.csr_array((np.concatenate(signs), (dense_rows, columns)))


@dataclass(frozen=True)
class WM(Mechanism):
    """Wavelet mechanism: equal noise on weighted Haar coefficients."""

    name = "WM"
    source = "Xiao, Wang and Gehrke, ICDE 2010; KDD'16, section 5"

    def on_matrix(self, problem: Problem) -> Solution:
        """Coefficients over all cells, in their order."""
        return from_strategy(self.name, problem, build_haar(problem.workload.d))

    def on_products(self, orbits: ProductOrbits) -> Solution:
        """Coefficients over the ordered cells, repeated for all values of the other attributes."""
        return in_copies(self.on_matrix(over_ordered_cells(orbits)), orbits)

    def check_orbits(self, orbits: AnyOrbits) -> None:
        """Raise ObstacleError if no attribute is ordered."""
        check_ordered(orbits)

    def work(self, size: ProblemSize) -> Work:
        """Two factorisations of a d x d matrix and the variances of m queries."""
        m, d = size.m, size.d
        return Work(flops=2.0 * d**3 + 2.0 * m * d**2, bytes=8.0 * (4 * d**2 + 2 * m * d))
