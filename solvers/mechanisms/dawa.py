"""DAWA: a partition of the cells that suits the data, a hierarchy that suits the queries.

Li, Hay and Miklau (PVLDB 7(5), 2014), pure ε, for range queries; KDD 2016, Figure 14, compares
COA with it. Its error depends on the data, so ``data`` names a generated histogram
(`workloads.histograms`), and it is known at the ε of the solve alone. How:
`solvers.algorithms.dawa`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from solvers.accounting.budget import MeasuredBudget
from solvers.algorithms import dawa
from solvers.dual.iteration import Deadline
from solvers.errors import NotApplicableError, OptionError
from solvers.mechanism import Mechanism, Work
from solvers.noise.release import UnpricedRelease
from solvers.problem import Problem
from solvers.solution import Solution
from workloads import WorkloadError, histograms
from workloads.operators import Array

LARGEST_DOMAIN = 4096


@dataclass(frozen=True, eq=False)
class MeasuredError(UnpricedRelease):
    """The mean squared error of every query on some data at some ε: a `Release`.

    It is no noise with a scale, so `query_variances` are the errors divided by the largest ratio
    to a target: multiplied by the ratio at the budget they are the errors again.

    Attributes
    ----------
    errors : numpy.ndarray, shape (m,)
        Mean squared errors at ε.
    """

    errors: Array
    curve: MeasuredBudget

    @property
    def query_variances(self) -> Array:
        """In the proportion of the errors, the largest just at its target; shape (m,)."""
        return self.errors / self.curve.ratio

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """NotApplicableError: there are no errors to draw."""
        raise NotApplicableError(
            "its errors depend on the data and are biased; no vector of errors is drawn from them"
        )

    def record(self) -> dict[str, Any]:
        """The total variance, and the content of the budget ``curve``."""
        return {"total_variance": self.total_variance, "curve": self.curve.content()}


def solve(
    problem: Problem,
    *,
    data: str = "social-network",
    data_seed: int = 0,
    epsilon: float = 0.1,
    share: float = 0.25,
    partition_noise: str = "proven",
    draws: int = 20,
    seed: int = 0,
    time_limit: float | None = None,
) -> Solution:
    """The mean squared error of DAWA on a histogram, over random partitions.

    Parameters
    ----------
    problem : Problem
        The workload, over ordered cells, and its targets.
    data : str
        A name of `workloads.histograms.RULES`.
    data_seed : int
        Of that histogram.
    epsilon : float
        ε of the whole; the errors are known at this ε alone.
    share : float
        Of ε, for the partition.
    partition_noise : {"proven", "published"}
        On the costs of intervals: as much as our argument for its privacy needs, or as in the
        authors' code, which draws less than half (`solvers.algorithms.dawa`).
    draws : int
        Partitions to draw, at least 2. Given the partition the error is exact.
    seed : int
        Of these draws.
    time_limit : float, optional
        In seconds; on expiry the draws so far, at least two, count.

    Returns
    -------
    Solution
        Its noise is a `MeasuredError`. Its measures give the standard error of
        the average squared error and the mean number of buckets.

    Raises
    ------
    OptionError
        If an option is out of range.
    NotApplicableError
        If there are too many cells.
    """
    _check(problem, share, partition_noise, draws)
    try:
        x = histograms.make(data, problem.workload.d, data_seed)
    except WorkloadError as error:
        raise OptionError(f"DAWA: {error}") from error
    deadline, rng = Deadline.after(time_limit), np.random.default_rng(seed)
    queries, costs = problem.workload.dense, dawa.deviations(x)
    budget = dawa.Budget(epsilon, share, dawa.COSTS[partition_noise])
    drawn: list[Array] = []
    while len(drawn) < 2 or (len(drawn) < draws and not deadline.passed):
        drawn.append(dawa.draw(queries, x, costs, budget, rng))
    table = np.array(drawn)
    errors, averages = table[:, :-1].mean(axis=0), table[:, :-1].mean(axis=1)
    ratio = float(np.max(errors / problem.targets))
    return Solution(
        "DAWA",
        problem,
        MeasuredError(errors, MeasuredBudget(float(epsilon), ratio)),
        iterations=len(drawn),
        timed_out=len(drawn) < draws,
        converged=len(drawn) >= draws,
        measures={
            "average_squared_error_deviation": float(averages.std(ddof=1) / len(drawn) ** 0.5),
            "buckets": float(table[:, -1].mean()),
        },
        notes={"data": histograms.RULES[data]},
    )


def _check(problem: Problem, share: float, partition_noise: str, draws: int) -> None:
    if partition_noise not in dawa.COSTS:
        raise OptionError(
            f"DAWA: partition_noise is {partition_noise!r}; expected one of {', '.join(dawa.COSTS)}"
        )
    if not 0 < share < 1:
        raise OptionError(f"DAWA: share is {share!r}; expected a number between 0 and 1")
    if draws < 2:
        raise OptionError(f"DAWA: draws is {draws!r}; expected a whole number of at least 2")
    if problem.workload.d > LARGEST_DOMAIN:
        raise NotApplicableError(
            f"DAWA: {problem.workload.d} cells; its intervals are compared for at most "
            f"{LARGEST_DOMAIN}"
        )


def work(m: int, d: int, *, draws: int = 20) -> Work:
    """For every draw a hierarchy over some share of the cells, and the errors of the queries."""
    flops = 1e8 + 2.0 * d * d + draws * (5e7 + 2.0 * m * d + 4.0 * (m + 10) * (d / 2) ** 2)
    return Work(flops=flops, bytes=8.0 * (d * d + 2 * m * d))


MECHANISMS = (
    Mechanism(
        "DAWA",
        "data- and workload-aware: a noisy partition, then a weighted hierarchy; pure ε, ranges",
        solve,
        source="Li, Hay and Miklau, PVLDB 7(5), 2014",
        presets={"published": {"partition_noise": "published"}},
        work=work,
    ),
)
