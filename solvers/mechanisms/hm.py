"""Hierarchical mechanism: a tree of range counts with equal noise, made consistent.

The tree of Hay et al. (PVLDB 3(1), 2010): the root counts everybody, every node's interval
is cut into ``branching`` groups, the leaves are the single cells; all nodes get noise of one
variance and the workload is derived by least squares. The papers differ in the tree:

- **the best one** is the default: of all branchings from 2 to d that of least Δ² for the
  workload and its targets. Every tree is judged on some of the queries, which bounds its Δ²
  from below, and the most promising on all of them, until no other can be better: its worst
  queries join those that all trees are judged on (variances: `solvers.algorithms.hierarchy`).
- **"qardaji"**: Qardaji, Yang and Li (PVLDB 6(14), 2013) minimise the variance of the average
  range query, ``(b-1) h³ - 2 (b+1) h²/3`` with h = ceil(log_b d), over b. That is
  h (b-1) - 2 (b+1)/3 nodes times h², because each of h levels gets ε/h of the Laplace
  budget; as published it is ``"laplace"``. With Gaussian noise the h levels cost h and not
  h²: ``"qardaji"`` minimises ``(b-1) h² - 2 (b+1) h/3``. Either ignores the least squares.
- **"published"**: the runs of PVLDB 14(10) use three levels, the root, floor(sqrt(d)) groups
  of as many cells, and leaves; the leaves beyond the groups hang on the root alone.
- **"sqrt"**: the same with ceil(sqrt(d)) cells to a group and a smaller last group.
- **d is no power of b**: the last group of a level is smaller; a group that holds the same
  cells as one below it is asked once, not twice.
"""

from numbers import Integral

import numpy as np

from solvers.algorithms import hierarchy
from solvers.algorithms.hierarchy import Tree
from solvers.errors import OptionError
from solvers.mechanism import Mechanism, Work
from solvers.orbits import Orbits
from solvers.orbits.ordered import in_copies, over_ordered_cells
from solvers.problem import Problem
from solvers.reductions.orbits import OnOrbits
from solvers.solution import Solution
from solvers.strategy import from_strategy
from workloads.operators import Array, Indices

_SAMPLED_ENTRIES = 2**16
_NEW_QUERIES = 8
_BETTER = 1e-6
"""A tree that is better by less is not looked for."""


def solve(problem: Problem, *, branching: int | str | None = None) -> Solution:
    """Least squares on a tree with equal noise on all nodes.

    Parameters
    ----------
    problem : Problem
        The workload over ordered cells, and the targets.
    branching : int >= 2, "qardaji", "laplace", "sqrt", "published" or None
        Children of a node, or the rule for the tree; None for the branching of least Δ². The
        number used and the rule are in the solution's notes.

    Raises
    ------
    OptionError
        If the branching is none of these.
    """
    d = problem.workload.d
    if branching == "published":
        tree, used = hierarchy.published(d), max(1, int(np.sqrt(d)))
    else:
        used = best_branching(problem) if branching is None else choose_branching(d, branching)
        tree = hierarchy.regular(d, used)
    rule = "best" if branching is None else branching if isinstance(branching, str) else "given"
    return from_strategy("HM", problem, tree.matrix, notes={"branching": used, "rule": rule})


def on_orbits(orbits: Orbits, *, branching: int | str | None) -> Solution:
    """A tree over the cells of the ordered attributes, in every combination of the others' values.

    Every such tree sees an independent share of the noise, so that is the tree of the queries
    over the ordered cells alone, with the target of each divided by the number of trees it sums.
    """
    return in_copies(solve(over_ordered_cells(orbits), branching=branching), orbits)


def choose_branching(d: int, branching: int | str) -> int:
    """The number of children of a node for a domain of d cells, by a rule for regular trees.

    Raises
    ------
    OptionError
        If it is neither an integer of at least 2 nor a known rule.
    """
    if branching == "qardaji":
        return _least_average_variance(d, noise_power=1)
    if branching == "laplace":
        return _least_average_variance(d, noise_power=2)
    if branching == "sqrt":
        return max(2, int(np.ceil(np.sqrt(d))))
    if isinstance(branching, Integral) and not isinstance(branching, bool) and branching >= 2:
        return min(int(branching), max(d, 2))
    raise OptionError(
        f"HM: branching {branching!r}; expected an integer of at least 2, 'qardaji', 'laplace', "
        "'sqrt', 'published', or none for the best branching for the workload and its targets"
    )


def best_branching(problem: Problem) -> int:
    """The branching from 2 to d of least squared privacy cost, to 1e-6 of it."""
    operator, targets = problem.workload.operator, problem.targets
    candidates = _candidates(problem.workload.d)
    trees = [hierarchy.regular(problem.workload.d, b) for b in candidates]

    def scaled(at: Indices) -> Array:
        return operator.rows(at) / np.sqrt(targets[at])[:, None]

    bounds = _costs(trees, scaled(_spread_queries(problem)))
    judged = np.full(len(trees), np.inf)
    while True:
        unjudged = np.where(np.isinf(judged), bounds, np.inf)
        at = int(np.argmin(unjudged))
        if judged.min() <= unjudged[at] * (1 + _BETTER):
            return candidates[int(np.argmin(judged))]
        ratios = operator.quadratic_forms(trees[at].covariance()) / targets
        judged[at] = trees[at].depth * ratios.max()
        bounds = np.maximum(bounds, _costs(trees, scaled(np.argsort(ratios)[-_NEW_QUERIES:])))


def _candidates(d: int) -> range:
    return range(2, max(d, 2) + 1)


def _costs(trees: list[Tree], scaled: Array) -> Array:
    """Δ² of each tree if these queries, over the roots of their targets, were all."""
    return np.array([tree.depth * tree.variances(scaled).max() for tree in trees])


def _spread_queries(problem: Problem) -> Indices:
    """The numbers of some queries: those of large norm for their targets, and evenly spaced."""
    m, d = problem.workload.shape
    count = max(2 * _NEW_QUERIES, _SAMPLED_ENTRIES // d)
    if count >= m:
        return np.arange(m)
    norms = problem.workload.operator.squared_row_norms() / problem.targets
    largest = np.argpartition(norms, -(count // 2))[-(count // 2) :]
    return np.union1d(largest, np.linspace(0, m - 1, count // 2).astype(np.intp))


def _least_average_variance(d: int, noise_power: int) -> int:
    def average_variance(b: int) -> float:
        levels = hierarchy.height(d, b)
        nodes = (b - 1) * levels - 2 * (b + 1) / 3
        return float(nodes * levels**noise_power)

    return min(_candidates(d), key=average_variance)


def work(m: int, d: int) -> Work:
    """Two factorisations of a d x d matrix and the variances of m queries; d trees judged."""
    judged = 20.0 * d * max(_SAMPLED_ENTRIES, d)
    return Work(flops=2.0 * d**3 + 2.0 * m * d**2 + judged, bytes=8.0 * (6 * d**2 + 2 * m * d))


MECHANISMS = (
    Mechanism(
        "HM",
        "hierarchical mechanism: equal noise on the best tree of range counts, least squares",
        solve,
        source="Hay et al. 2010 with the trees of Qardaji et al. 2013; PVLDB 14(10), section 7",
        work=work,
        forms=(OnOrbits(on_orbits, ordered=True),),
    ),
)
