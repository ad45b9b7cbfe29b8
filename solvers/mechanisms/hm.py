"""Hierarchical mechanism: a tree of range counts with equal noise, made consistent.

The tree of Hay et al. (PVLDB 3(1), 2010): the root counts everybody, every node's interval
is cut into ``branching`` groups, the leaves are the single cells; all nodes get noise of one
variance and the workload is derived by least squares. Where the papers leave a choice open:

- **branching**: Qardaji, Yang and Li (PVLDB 6(14), 2013), minimise the variance of the
  average range query, ``(b-1) h³ - 2 (b+1) h²/3`` with h = ceil(log_b d), over b. That is
  h (b-1) - 2 (b+1)/3 nodes times h², because each of h levels gets ε/h of the Laplace
  budget. With Gaussian noise the h levels cost h and not h², so the default minimises
  ``(b-1) h² - 2 (b+1) h/3``; the published form is there as ``"laplace"``.
- **the published runs** of PVLDB 14(10) use three levels, root, about sqrt(d) groups, and
  leaves: ``"sqrt"``. Where d is no square, ceil(sqrt(d)) cells form a group (in those runs
  the last leaves hang on the root alone).
- **d is no power of b**: the last group of a level is smaller; a group that holds the same
  cells as one below it is asked once, not twice.
"""

import numpy as np
import scipy.sparse as sp

from solvers.errors import OptionError
from solvers.mechanism import Mechanism, Work
from solvers.problem import Problem
from solvers.solution import Solution
from solvers.strategy import from_strategy


def solve(problem: Problem, *, branching: int | str | None = None) -> Solution:
    """Least squares on a tree with equal noise on all nodes.

    Parameters
    ----------
    problem : Problem
        The workload over ordered cells, and the targets.
    branching : int >= 2, "sqrt", "laplace" or None
        Children of a node; None for the best by Qardaji's rule for Gaussian noise. The
        number used is in the solution's notes.

    Returns
    -------
    Solution

    Raises
    ------
    OptionError
        If the branching is none of these.
    """
    chosen = choose_branching(problem.workload.d, branching)
    tree = hierarchy(problem.workload.d, chosen)
    return from_strategy("HM", problem, tree, notes={"branching": chosen})


def choose_branching(d: int, branching: int | str | None) -> int:
    """The number of children of a node for a domain of d cells.

    Raises
    ------
    OptionError
        If it is neither an integer of at least 2 nor a known rule.
    """
    if branching is None:
        return _least_average_variance(d, noise_power=1)
    if branching == "laplace":
        return _least_average_variance(d, noise_power=2)
    if branching == "sqrt":
        return max(2, int(np.ceil(np.sqrt(d))))
    if isinstance(branching, int) and not isinstance(branching, bool) and branching >= 2:
        return branching
    raise OptionError(
        f"HM: branching {branching!r}; expected an integer of at least 2, 'sqrt', 'laplace', "
        "or none for the best branching for the domain"
    )


def hierarchy(d: int, branching: int) -> sp.csr_array:
    """The tree over d cells: one row of zeros and ones for each node.

    Returns
    -------
    scipy.sparse.csr_array, shape (nodes, d)
        The root first, the leaves last, no interval twice.
    """
    sizes = branching ** np.arange(_height(d, branching) + 1)[::-1]
    levels = [np.arange(0, d, size) for size in sizes]
    starts = np.concatenate(levels)
    ends = np.concatenate([np.minimum(at + n, d) for at, n in zip(levels, sizes, strict=True)])
    _, first = np.unique(np.column_stack([starts, ends]), axis=0, return_index=True)
    kept = np.sort(first)
    lengths = ends[kept] - starts[kept]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    columns = np.repeat(starts[kept], lengths) + within
    return sp.csr_array((np.ones(offsets[-1]), columns, offsets), shape=(kept.size, d))


def _height(d: int, branching: int) -> int:
    """The least h with ``branching**h >= d``, at least 1, by integers alone."""
    height, covered = 1, branching
    while covered < d:
        height, covered = height + 1, covered * branching
    return height


def _least_average_variance(d: int, noise_power: int) -> int:
    candidates = range(2, max(d, 2) + 1)

    def average_variance(b: int) -> float:
        height = _height(d, b)
        nodes = (b - 1) * height - 2 * (b + 1) / 3
        return float(nodes * height**noise_power)

    return min(candidates, key=average_variance)


def work(m: int, d: int) -> Work:
    """Two factorisations of a d x d matrix and the variances of m queries."""
    return Work(flops=2.0 * d**3 + 2.0 * m * d**2, bytes=8.0 * (4 * d**2 + 2 * m * d))


MECHANISMS = (
    Mechanism(
        "HM",
        "hierarchical mechanism: equal noise on a tree of range counts, least squares",
        solve,
        source="Hay et al. 2010 with the branching of Qardaji et al. 2013; PVLDB 14(10), section 7",
        work=work,
    ),
)
