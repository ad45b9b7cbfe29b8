"""DAWA: a partition of the cells that adapts to the data, and a hierarchy for the queries.

A mechanism for range queries under pure ε-differential privacy (Li, Hay and Miklau, PVLDB 7(5),
2014); KDD 2016, Figure 14, compares COA with DAWA. The error depends on the data, so the option
``data`` names a generated histogram (`workloads.histograms`). The error is known only at the ε of
the solve.

The first stage spends ε₁ and the second ε₂, where ε₁ + ε₂ = ε; neighbours differ by the addition or
removal of one record:

- **Partition.** The cost of an interval of 2^k cells is sum |x_j - mean|, plus 1/ε₂ for the noise
  that its count will get, plus Laplace noise of scale 4/ε₁. The partition of least cost is chosen;
  its intervals are called buckets. One record changes the cost of an interval by at most 2, and
  lies in exactly one bucket. If the noise of that bucket is shifted by 4, the choice stays the
  same, so the choice is ε₁-private.
- **Hierarchy (GreedyH).** A binary tree over the buckets. Each node's total, times a weight, is a
  query; the weights from a leaf to the root sum to one, so Laplace noise of scale 1/ε₂ spends ε₂.
  From the leaves upwards, a node gets the weight that minimises an estimate of the total error of
  the queries, restricted to the buckets below the node. As in the authors' code, deeper nodes have
  less weight in this estimate, and WᵀW takes the place of the queries W.

The cells of a bucket get equal shares of the bucket's count. The partition is random. Given the
partition, the expected squared error is known: the squared bias of equal shares, plus the variance
of least squares.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from solvers.errors import NotApplicableError, OptionError
from solvers.mechanism import Mechanism, ProblemSize, Work
from solvers.noise.noise import Noise
from solvers.privacy.budget import MeasuredBudget
from solvers.problem import Problem
from solvers.solution import Solution
from workloads import WorkloadError, histograms
from workloads.operators import Array
from workloads.parameters import LARGEST_SIZE, Bounds, Positive, Seconds, Seed, Share

Index = NDArray[np.int64]

_COST_SENSITIVITY = 2.0
"""Largest change of an interval's cost by one record: |x_j - mean| summed over the interval."""

_INDISTINCT = 1e-12
"""Relative difference of the entries of WᵀW within which no query tells the buckets apart."""
_WEIGHTS = np.arange(100) / 100.0
"""Weights that a node of the hierarchy may get, as in the authors' code."""


def measure_deviations(x: Array) -> list[Array]:
    """Return the sum of |x_j - mean| over every interval of 2^k cells, for every k.

    Returns
    -------
    list of numpy.ndarray
        Entry k has shape (d - 2^k + 1,) and is indexed by the first cell of the interval.
    """
    levels = []
    for k in range(x.size.bit_length()):
        windows = np.lib.stride_tricks.sliding_window_view(x, 2**k)
        levels.append(np.abs(windows - windows.mean(axis=1, keepdims=True)).sum(axis=1))
    return levels


def add_noise(
    costs: list[Array], first: float, second: float, rng: np.random.Generator
) -> list[Array]:
    """Add 1/ε₂ for the noise on a count, and noise that spends ε₁, to the intervals' costs.

    Parameters
    ----------
    first, second : float
        ε₁ and ε₂.
    """
    scale = 2 * _COST_SENSITIVITY / first
    return [level + 1 / second + rng.laplace(scale=scale, size=level.size) for level in costs]


def add_published_noise(
    costs: list[Array], first: float, second: float, rng: np.random.Generator
) -> list[Array]:
    """Return the noisy costs as in the authors' code; parameters as in `add_noise`.

    For intervals of 2^k cells the noise has the scale (2 - 2^-k - 1/d)/ε₁. The costs of single
    cells get no noise, and negative costs become 0. The proof in the module's docstring does not
    cover these costs: with them, it is not shown that the choice of the partition is ε₁-private.
    """
    noisy_levels, cells = [], costs[0].size
    for k, level in enumerate(costs):
        scale = (_COST_SENSITIVITY - 2.0**-k - 1 / cells) / first if k else 0.0
        noisy = level + 1 / second + rng.laplace(scale=scale, size=level.size)
        noisy_levels.append(np.maximum(noisy, 0.0))
    return noisy_levels


COSTS = {"proven": add_noise, "published": add_published_noise}
"""Functions that add noise to the costs of the intervals, by name."""


def find_partition(costs: list[Array], cells: int) -> Index:
    """Return the partition of least total cost, by dynamic programming.

    Parameters
    ----------
    costs : list of numpy.ndarray
        Entry k has the costs of the intervals of 2^k cells, indexed by the interval's first cell.
    cells : int
        Number of cells d.

    Returns
    -------
    numpy.ndarray of int, shape (buckets,)
        The first cell of each bucket, ascending from 0.
    """
    # best[end]: the least cost of a partition of the first ``end`` cells, whose last bucket is
    # the interval from chosen[end] to end; O(d log d) intervals
    best = np.zeros(cells + 1)
    chosen = np.zeros(cells + 1, dtype=np.int64)
    lengths = 2 ** np.arange(len(costs))
    for end in range(1, cells + 1):
        starts = end - lengths[: end.bit_length()]
        last = [level[start] for level, start in zip(costs, starts, strict=False)]
        totals = best[starts] + last
        least = int(np.argmin(totals))
        best[end], chosen[end] = totals[least], starts[least]
    # back along the last buckets
    edges, end = [], cells
    while end > 0:
        end = int(chosen[end])
        edges.append(end)
    return np.array(edges[::-1])


def build_hierarchy(gram: Array) -> Array:
    """Return the matrix (DᵀD)⁻¹, where D is GreedyH's weighted tree over the buckets.

    If no query distinguishes the buckets below a node, the tree asks only for their total, which is
    then divided equally among them.

    Parameters
    ----------
    gram : numpy.ndarray, shape (k, k)
        WᵀW of the queries over the k buckets.

    Returns
    -------
    numpy.ndarray, shape (k, k)
        (DᵀD)⁻¹. Multiplied by 2/ε₂², it is the covariance of the estimated counts.
    """
    # The authors' code passes WᵀW where its greedy step expects the queries.
    return _build_subtree(gram @ gram, 0)[1]


def _build_subtree(gram: Array, depth: int) -> tuple[float, Array]:
    """Return the queries' estimated error on a node's buckets, and its subtree's (DᵀD)⁻¹.

    The node's ancestors will answer part of what the node answers. The authors' code therefore
    discounts, by μ = 2^(-depth/2), both the square of the node's weight and the error of the
    queries that cross from one half of the buckets to the other.
    """
    size = len(gram)
    if np.ptp(gram) <= _INDISTINCT * float(np.abs(gram).max()):
        return float(gram[0, 0]), np.full((size, size), 1 / size**2)
    half, discount = size // 2, 2 ** (-depth / 2)
    left, right = gram[:half, :half], gram[half:, half:]
    (left_error, left_below), (right_error, right_below) = (
        _build_subtree(part, depth + 1) for part in (left, right)
    )
    # (DᵀD)⁻¹ of both halves without the node: S = diag(S_left, S_right), with row sums S 1
    below = scipy.linalg.block_diag(left_below, right_below)
    spread = below.sum(axis=1)
    reach, first, second = float(spread.sum()), spread[:half], spread[half:]
    # 1ᵀ S G S 1, what a total of the node tells about the queries; crossing queries count less
    crossing = 2 * float(first @ gram[:half, half:] @ second)
    seen = float(first @ left @ first + second @ right @ second) + discount * crossing
    # the error with each candidate weight w: the subtrees below are weighted by 1 - w, and the
    # node adds w² 11ᵀ to DᵀD (Sherman and Morrison)
    rest, squares = np.square(1 - _WEIGHTS), discount * np.square(_WEIGHTS)
    errors = (left_error + right_error - squares * seen / (rest + squares * reach)) / rest
    least = int(np.argmin(errors))
    weight = float(_WEIGHTS[least])
    odds = (weight / (1 - weight)) ** 2
    shared = np.outer(spread, spread) * (odds / (1 + odds * reach))
    return float(errors[least]), np.asarray((below - shared) / (1 - weight) ** 2)


def compute_squared_errors(queries: Array, x: Array, starts: Index, second: float) -> Array:
    """Expected squared error of every query on the histogram ``x``, given the partition.

    Parameters
    ----------
    starts : numpy.ndarray of int, shape (buckets,)
        The partition, from `find_partition`.
    second : float
        ε₂.

    Returns
    -------
    numpy.ndarray, shape (m,)
    """
    sizes = np.diff(starts, append=x.size)
    on_buckets = np.add.reduceat(queries, starts, axis=1) / sizes
    evened = np.repeat(np.add.reduceat(x, starts) / sizes, sizes)
    inverse = build_hierarchy(on_buckets.T @ on_buckets)
    variances = np.einsum("ij,ij->i", on_buckets @ inverse, on_buckets)
    return np.asarray(np.square(queries @ (evened - x)) + 2 / second**2 * variances)


LARGEST_DOMAIN = 4096
"""Largest number of cells: on prefixes it takes 6.6 s of CPU and 570 MB for two draws.

Half as many cells take 1.5 s and 210 MB.
"""


@dataclass(frozen=True, eq=False)
class MeasuredError(Noise):
    """The mean squared errors of all queries for one histogram and one ε, as a `Noise`.

    The errors cannot be rescaled to another budget. `query_variances` are the errors divided by
    their largest ratio to a target. This ratio is also the curve's variance ratio at ε, so
    `query_variances` times the curve's ratio are the errors.

    Attributes
    ----------
    errors : numpy.ndarray, shape (m,)
        Mean squared errors at ε.
    curve : MeasuredBudget
        ε, and the largest ratio of an error to its target.
    """

    errors: Array
    curve: MeasuredBudget

    @property
    def query_variances(self) -> Array:
        """The errors, scaled so that the largest ratio to a target is 1; shape (m,)."""
        return self.errors / self.curve.ratio

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """Raises NotApplicableError: the errors are biased and are not drawn."""
        raise NotApplicableError(
            "its errors depend on the data and are biased, so they cannot be simulated"
        )


@dataclass(frozen=True)
class DAWA(Mechanism):
    """Data- and workload-aware: a noisy partition, then a weighted tree of ranges; pure ε.

    The errors are mean squared errors on one histogram over the ordered cells, over random
    partitions.

    Attributes
    ----------
    data : str
        The name of a histogram in `workloads.histograms.RULES`.
    data_seed : int
        Seed of the histogram.
    epsilon : float
        Total ε; the errors are known only at this ε.
    share : float
        Share of ε that the partition spends.
    partition_noise : {"proven", "published"}
        Noise on the costs of intervals. "proven" adds as much as our proof of privacy needs;
        "published" adds less than half of that, as the authors' code does (`add_published_noise`).
    draws : int
        Number of partitions to draw, at least 2. Given a partition, the expected error is exact.
    seed : int
        Seed of the draws.
    time_limit : float, optional
        Seconds after which no more partitions are drawn; at least two are always drawn.
    """

    name = "DAWA"
    source = "Li, Hay and Miklau, PVLDB 7(5), 2014"
    presets: ClassVar = {"published": {"partition_noise": "published"}}
    revision = 2

    data: str = "social-network"
    data_seed: Seed = 0
    epsilon: Positive = 0.1
    share: Share = 0.25
    partition_noise: Literal["proven", "published"] = "proven"
    draws: Annotated[int, Bounds(ge=2, le=LARGEST_SIZE)] = 20
    seed: Seed = 0
    time_limit: Seconds | None = None

    def on_matrix(self, problem: Problem) -> Solution:
        """Return the errors at ε, as a `MeasuredError`.

        The measures are the standard error of the average squared error, and the mean number of
        buckets.

        Raises
        ------
        OptionError
            If there is no such histogram.
        NotApplicableError
            If there are more than `LARGEST_DOMAIN` cells.
        """
        if problem.workload.d > LARGEST_DOMAIN:
            raise NotApplicableError(
                f"DAWA: {problem.workload.d} cells; it compares all their intervals, and takes at "
                f"most {LARGEST_DOMAIN}"
            )
        try:
            x = histograms.make(self.data, problem.workload.d, self.data_seed)
        except WorkloadError as error:
            raise OptionError(f"DAWA: {error}", "data") from None
        deadline, rng = self.deadline, np.random.default_rng(self.seed)
        queries, costs = problem.workload.dense, measure_deviations(x)
        first, second = self.share * self.epsilon, (1 - self.share) * self.epsilon
        drawn: list[Array] = []
        while len(drawn) < 2 or (len(drawn) < self.draws and not deadline.passed):
            noisy = COSTS[self.partition_noise](costs, first, second, rng)
            starts = find_partition(noisy, x.size)
            errors = compute_squared_errors(queries, x, starts, second)
            drawn.append(np.append(errors, starts.size))
        table = np.array(drawn)
        errors, averages = table[:, :-1].mean(axis=0), table[:, :-1].mean(axis=1)
        ratio = float(np.max(errors / problem.targets))
        return Solution(
            self.name,
            problem,
            MeasuredError(errors, MeasuredBudget(float(self.epsilon), ratio)),
            iterations=len(drawn),
            timed_out=len(drawn) < self.draws,
            converged=len(drawn) >= self.draws,
            measures={
                "average_squared_error_deviation": float(averages.std(ddof=1) / len(drawn) ** 0.5),
                "buckets": float(table[:, -1].mean()),
            },
            notes={"data": histograms.RULES[self.data]},
        )

    def work(self, size: ProblemSize) -> Work:
        """For each draw, a hierarchy over d/2 buckets and the errors of all queries."""
        m, d = size.m, size.d
        flops = 1e8 + 2.0 * d * d + self.draws * (5e7 + 2.0 * m * d + 4.0 * (m + 10) * (d / 2) ** 2)
        return Work(flops=flops, bytes=8.0 * (d * d + 2 * m * d))
