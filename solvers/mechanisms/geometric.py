"""Two-sided geometric noise (Ghosh, Roughgarden and Sundararajan, STOC 2009).

On a query matrix of whole numbers, every query or every cell gets independent noise; the release is
ε-private with δ = 0. On a query graph whose answers are whole numbers or vectors of them, every
number of the noisy answer is clamped to its range (POST 2013, section 6).
"""

from dataclasses import dataclass, replace

import numpy as np
import scipy

from solvers.errors import NotApplicableError, OptionError
from solvers.forms.differences import Differences
from solvers.mechanism import GraphOption, MatrixOption, Mechanism
from solvers.noise.independent import Place, perturb
from solvers.noise.noise_matrix import from_noise_matrix
from solvers.privacy import distributions
from solvers.problem import GraphProblem, Problem
from solvers.solution import Solution
from workloads.operators import Array
from workloads.operators.protocol import kron
from workloads.parameters import Positive, PriorText
from workloads.priors import UNIFORM

_EXCESS = 1e-12
"""Excess over ε of shares that spend all of ε, such as three times a third."""


def build_truncated_geometric(size: int, epsilon: float) -> Array:
    """Build the (size, size) matrix of truncated geometric noise on answers 0, ..., size - 1.

    With a = exp(-epsilon), the probability of output o at the true answer i is entry (i, o):
    ``a**|i - o| * (1 - a) / (1 + a)``, or ``a**|i - o| / (1 + a)`` if o is 0 or size - 1.
    """
    number = np.arange(size)
    diagonal = np.full(size, np.tanh(epsilon / 2))
    diagonal[[0, -1]] = 1 / (1 + np.exp(-epsilon))
    matrix: Array = np.exp(-epsilon * np.abs(number[:, None] - number)) * diagonal
    return matrix


def _read_shares(spend: str | float | list[float], relative: Array) -> Array:
    """Return each coordinate's share of ε.

    ``relative`` has a row for each edge and a column for each coordinate: the coordinate's change
    along the edge, divided by its largest change along any edge.
    """
    count = relative.shape[1]
    if spend == "even":
        return np.full(count, 1.0 / relative.sum(axis=1).max())
    listed = spend.split(",") if isinstance(spend, str) else spend
    try:
        shares = np.broadcast_to(np.asarray(listed, dtype=np.float64), (count,))
    except (TypeError, ValueError):
        raise OptionError(
            f"geometric: spend is {spend!r}; expected 'even', one share of epsilon, or one for "
            f"each of the {count} coordinates",
            "spend",
        ) from None
    most = float((relative @ shares).max())
    if not (np.all(shares > 0) and most <= 1 + _EXCESS):
        raise OptionError(
            f"geometric: spend is {spend!r}, and one individual then spends {most:g} times "
            "epsilon; expected positive shares that together spend at most epsilon",
            "spend",
        )
    return shares


@dataclass(frozen=True)
class Geometric(Mechanism):
    """Two-sided geometric noise on every query or on every cell of x; pure ε.

    With noise on the queries, the target of an all-zero query limits the noise, too, although the
    answer 0 needs no noise. On a query graph, every coordinate of an answer gets noise that is
    truncated to the coordinate's range.

    Attributes
    ----------
    on : {"queries", "data"}
        Where the noise on a query matrix is added.
    epsilon : float
        The ε of the release of a query graph.
    prior : str or list of float, shape (n,)
        The prior on a graph's answers that the measures assume; see `workloads.priors`.
    spend : "even", float or list of float, or such a list as text
        Each coordinate's share of ε; a single number is the share of every coordinate.
        ``"even"``: the largest equal shares with which the release is ε-differentially private,
        such as 1/k for each of k counts of the same individuals.
    """

    name = "geometric"
    source = "Ghosh et al., STOC 2009; ElSalamouny et al., section 6"

    on: MatrixOption[Place] = "queries"
    epsilon: GraphOption[Positive] = 1.0
    prior: GraphOption[PriorText | list[float]] = UNIFORM
    spend: GraphOption[str | float | list[float]] = "even"

    def on_matrix(self, problem: Problem) -> Solution:
        """Return independent noise of one scale.

        Raises
        ------
        NotApplicableError
            If an entry of W is not a whole number: the noise is whole, but the answers may not be.
        """
        matrix = problem.workload.matrix
        entries = matrix.data if scipy.sparse.issparse(matrix) else matrix
        broken = entries[entries != np.rint(entries)]
        if broken.size:
            raise NotApplicableError(
                f"geometric: workload {problem.workload.name!r} has an entry of "
                f"{broken.flat[0]:g}; expected whole numbers, whose answers are whole too. Use "
                "'laplace' for real entries, or scale the queries"
            )
        return Solution(self.name, problem, perturb(problem, distributions.Geometric(), self.on))

    def on_differences(self, differences: Differences) -> Solution:
        """Return noise that is calibrated to the sensitivity under replace-one neighbours."""
        return self.on_matrix(differences.problem)

    def on_graph(self, problem: GraphProblem) -> Solution:
        """Two-sided geometric noise on every coordinate, truncated to its range.

        If a coordinate has the share s of ε and one individual changes it by at most r, it gets
        noise with the ratio ``exp(-s * epsilon / r)``. Results outside the range are clamped to its
        ends (Ghosh, Roughgarden, Sundararajan; POST 2013, section 6). On a counting query this is
        the tight-constraints mechanism. ``notes["epsilon_of_coordinate"]`` is the ε that one
        individual spends on each coordinate by changing it as much as possible.

        Raises
        ------
        NotApplicableError
            If the answers are not the integer points of a box.
        OptionError
            If the shares are not positive, or together spend more than ε.
        """
        graph = problem.graph
        points = graph.coordinates
        if points is None:
            raise NotApplicableError(
                f"geometric: the answers of workload {graph.name!r} are not numbers; use it on "
                "'counting', 'sum' or 'k-count', or use 'tight-constraints'"
            )
        first, second = graph.edges
        changes = np.abs(points[first] - points[second])
        largest = changes.max(axis=0)
        shares = _read_shares(self.spend, changes / largest)
        epsilons = self.epsilon * shares  # spent by the largest change of each coordinate
        coordinates = zip(graph.grid or (), epsilons / largest, strict=True)
        noise = kron(build_truncated_geometric(n, of_step) for n, of_step in coordinates)
        notes = {"epsilon_of_coordinate": epsilons.tolist()}
        solution = from_noise_matrix(self.name, problem, self.epsilon, self.prior, noise)
        return replace(solution, notes=notes)
