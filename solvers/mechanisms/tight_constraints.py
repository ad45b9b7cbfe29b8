"""The mechanism of ElSalamouny et al. (POST 2013): every privacy constraint is tight.

On a query graph, Φ is the matrix of entries exp(-ε d(i, k)), where d is the distance of two
answers. The mechanism exists only for some ε; see `find_existence` (sections 5 and 6).

On a query matrix the mechanism applies if the answers of each query form a line: the entries of the
query are 0 and one other value a, so n records give the answers 0, a, ..., n a and one record
changes an answer by one step. On a line the tight-constraints mechanism is the truncated geometric
mechanism (section 5.1). The privacy losses of the queries are composed, since one record of cell j
changes every query that contains the cell by one step. For one step, clamped and unclamped
geometric noise have the same privacy loss: plus or minus the ε of a step, depending on the side of
the output.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, Literal

import numpy as np
import scipy

from solvers.errors import NotApplicableError
from solvers.forms.differences import Differences
from solvers.mechanism import GraphOption, MatrixOption, Mechanism
from solvers.noise.independent import calibrate
from solvers.noise.noise_matrix import from_noise_matrix
from solvers.privacy.distributions import Measure, TruncatedGeometric
from solvers.privacy.privacy_loss import GEOMETRIC, one_column
from solvers.problem import GraphProblem, Problem
from solvers.solution import Solution
from workloads import QueryGraph
from workloads.operators import Array
from workloads.parameters import Bounds, Positive, PriorText
from workloads.priors import UNIFORM, classes, constraints, solved, weights

_ACCURACY = 1e-7
"""Distance of two values of ε at which a bisection ends: a tenth of the accuracy that is stated."""

_LEAST = 1e-3
"""Least ε of the scan: adjacent rows of Φ then agree to three digits."""

_SCANNED = 128
"""Number of values of ε in the scan; each takes one solution of a system of at most n equations."""
_GENERIC = math.sqrt(0.7)
"""A generic ε: two rows of Φ that have equal sums at this ε have equal sums at every ε."""


@lru_cache(maxsize=16)
def find_existence(graph: QueryGraph) -> tuple[tuple[float, float], ...]:
    """Find the ranges of ε where some z >= 0 has Φz = 1 (Lemma 3), with ends to 1e-6.

    The condition is checked at 128 values of ε, and every change between two successive values is
    located by bisection, so a range that lies between two values may be missed. A mechanism surely
    exists if every row of E = Φ - I sums to at most 1/2, since ``z = 1 - E1 + E²1 - ... >= 0``; the
    scan ends at the least such ε.

    The paper says that a mechanism exists for every ε above the least possible ε. This holds on
    most graphs, but not on all (docs/query-graphs.md has an exception with seven answers). Section
    6 states a least ε of 0.8 for the sum query with u=150, v=5 and of 0.9 for the 2-count query
    with u=30; the condition that the paper names gives 0.968 and 1.136.

    Returns
    -------
    tuple of (float, float)
        The ranges in ascending order. The first begins at 0 if a mechanism exists at 1e-3; the last
        ends at infinity.
    """
    alike = classes(constraints(graph, _GENERIC), np.ones(graph.n))
    rows, sizes = graph.distances[alike.first], alike.sizes

    def exists(epsilon: float) -> bool:
        z = solved(alike.sums(np.exp(-epsilon * rows)), np.ones(len(rows)), sizes)
        return z is not None and bool(z.min() >= 0)

    def sparse(epsilon: float) -> bool:
        return float(np.exp(-epsilon * rows).sum(axis=1).max()) <= 1.5

    surely = max(_bisect(sparse, 0.0, math.log(2 * graph.n)))
    scanned = [float(epsilon) for epsilon in np.linspace(_LEAST, surely, _SCANNED)]
    possible = [*map(exists, scanned[:-1]), True]
    ends = [0.0] if possible[0] else []
    for (low, at_low), (high, at_high) in pairwise(zip(scanned, possible, strict=True)):
        if at_low != at_high:
            inside, outside = _bisect(exists, low, high)
            ends.append(inside if at_low else outside)
    return tuple(zip(ends[::2], [*ends[1::2], math.inf], strict=True))


def _bisect(holds: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """Find two values of ε, at most 1e-7 apart, between which ``holds`` changes."""
    at_low = holds(low)
    while high - low > _ACCURACY:
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) == at_low else (low, middle)
    return low, high


def _read_steps(problem: Problem) -> Array:
    """Return the nonzero value of each query's entries, shape (m,); 0 for an all-zero query."""
    entries = scipy.sparse.coo_array(problem.workload.matrix)
    entries.eliminate_zeros()
    rows = entries.coords[0]
    steps = np.zeros(problem.workload.m)
    steps[rows] = entries.data
    uneven = np.flatnonzero(entries.data != steps[rows])
    if uneven.size:
        row = rows[uneven[0]]
        raise NotApplicableError(
            f"tight-constraints: query {row} (counted from 0) of workload "
            f"{problem.workload.name!r} has entries {entries.data[uneven[0]]:g} and "
            f"{steps[row]:g}; expected 0 and one other value, so that its answers form a line "
            "0..n. Use 'geometric', or ask the query as a query graph"
        )
    return steps


def _count_queries_per_record(problem: Problem) -> int:
    """Return the largest number of queries whose answers change if one record is added or moved."""
    if problem.neighbours.add_remove:
        return int(np.bincount(scipy.sparse.coo_array(problem.workload.matrix).nonzero()[1]).max())
    moved = problem.neighbours.differences(problem.workload.dense)
    return max(int(np.count_nonzero(part, axis=0).max()) for part in moved)


@dataclass(frozen=True)
class TightConstraints(Mechanism):
    """Noise that makes every privacy constraint tight; on counts, truncated geometric noise.

    On a query matrix, the truncated geometric noise of all queries has the same parameter. On a
    query graph, the mechanism is optimal for every ε-regular prior (Theorem 3).

    Attributes
    ----------
    n : int
        On a query matrix, the largest number of records: an answer is at most n steps.
    composition : {"sensitivity", "equal"}
        The ε of each query: ε / (the largest number of queries that one record is in), or ε/m
        (sequential composition, which ignores W).
    measure : {"variance", "expected-squared-error"}
        The error of the worst answer, which the targets bound. Clamping biases the answers near the
        ends, and only the expected squared error includes that bias. The measures differ for small
        ε: at ε = 0 they are n²/4 and n²/2.
    epsilon : float
        The ε of the release of a query graph.
    prior : str or list of float, shape (n,)
        The prior on a graph's answers that the measures assume; see `workloads.priors`.
    find_least_epsilon : bool
        Whether to report, as a measure, the least ε for which a mechanism exists on a query graph.
    """

    name = "tight-constraints"
    source = "ElSalamouny et al., section 5"

    n: MatrixOption[Annotated[int, Bounds(ge=1, le=10**15)]] = 1000
    composition: MatrixOption[Literal["sensitivity", "equal"]] = "sensitivity"
    measure: MatrixOption[Measure] = "variance"
    epsilon: GraphOption[Positive] = 1.0
    prior: GraphOption[PriorText | list[float]] = UNIFORM
    find_least_epsilon: GraphOption[bool] = False

    def on_matrix(self, problem: Problem) -> Solution:
        """Truncated geometric noise; the variances are those of each query's worst answer.

        Raises
        ------
        NotApplicableError
            If the answers of a query do not form a line: its entries are not 0 and one other value.
        """
        steps = _read_steps(problem)
        queries = (
            _count_queries_per_record(problem)
            if self.composition == "sensitivity"
            else problem.workload.m
        )
        decoder = scipy.sparse.csr_array(scipy.sparse.diags_array(steps))
        truncated = TruncatedGeometric(self.n, self.measure)
        moved = one_column(GEOMETRIC, queries)
        noise = calibrate(problem, truncated, float(queries), decoder, moved)
        return Solution(self.name, problem, noise, notes={"queries_composed": queries})

    def on_differences(self, differences: Differences) -> Solution:
        """Return noise that is calibrated to the sensitivity under replace-one neighbours."""
        return self.on_matrix(differences.problem)

    def on_graph(self, problem: GraphProblem) -> Solution:
        """Return the noise matrix ``X[i, k] = Φ[i, k] * z[k]`` with Φz = 1 and z >= 0 (Lemma 3).

        Raises
        ------
        NotApplicableError
            If there is no such z; the message gives the ranges of ε for which z exists.
        """
        phi = constraints(problem.graph, self.epsilon)
        diagonal = weights(phi, np.ones(len(phi)))
        if diagonal is None or diagonal.min() < 0:
            ranges = " and ".join(
                f"from {least:.6f}" + (" on" if most == np.inf else f" to {most:.6f}")
                for least, most in find_existence(problem.graph)
            )
            raise NotApplicableError(
                f"tight-constraints does not exist on workload {problem.graph.name!r} "
                f"({problem.graph.n} answers) at epsilon {self.epsilon:g}, where no z >= 0 has "
                f"Φz = 1; it exists for epsilon {ranges}"
            )
        least = (
            {"least_epsilon": find_existence(problem.graph)[0][0]}
            if self.find_least_epsilon
            else {}
        )
        noise = phi * diagonal
        solution = from_noise_matrix(self.name, problem, self.epsilon, self.prior, noise)
        return replace(solution, measures=least)
