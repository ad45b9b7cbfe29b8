"""Noise matrices of query graphs: their measures, and the checks that each matrix must pass.

Row i of a noise matrix X is the distribution of the reported answer, the output, when i is the true
answer. Φ is the matrix of `workloads.priors.constraints`. Lemmas, theorems and equations are
numbered as in the POST 2013 paper (ElSalamouny et al.).
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import ArrayLike

from solvers.errors import NotApplicableError, OptionError, SolveFailedError
from solvers.noise.noise import Noise
from solvers.privacy.budget import BudgetCurve
from solvers.problem import GraphProblem
from solvers.solution import Solution
from workloads import QueryGraph, WorkloadError, priors
from workloads.operators import Array
from workloads.priors import classes, weights

ROUNDING = 1e-11
"""Relative rounding error that `check_noise` allows in probabilities and exponentials."""

_LEAST = 1e-290
"""Probabilities below this number may be rounded to any smaller one: they are nearly denormal."""


def check_noise(mechanism: str, noise: Array, graph: QueryGraph, epsilon: float) -> None:
    """Check that rows are distributions and satisfy Lemma 1 along every edge; this implies Lemma 3.

    Parameters
    ----------
    noise : numpy.ndarray, shape (n, n)
        X: row i is the distribution of the output when i is the answer.

    Raises
    ------
    SolveFailedError
        If a row is not a distribution, or ``X[i, o] > exp(ε) X[h, o]`` for adjacent i and h.
    """
    off = float(np.abs(noise.sum(axis=1) - 1).max())
    if not (np.all(np.isfinite(noise)) and noise.min() >= 0 and off <= ROUNDING * graph.n):
        raise SolveFailedError(
            f"{mechanism}: a row of the noise matrix is not a distribution (sum off by {off:.3g}, "
            f"least entry {noise.min():.3g})"
        )
    shrunk = np.exp(-epsilon) * (1 - ROUNDING)
    for ends in (graph.edges, graph.edges[::-1]):
        for here, there in zip(*(np.array_split(end, 64) for end in ends), strict=True):
            broken = shrunk * noise[here] > noise[there] + _LEAST
            if broken.any():
                edge, output = np.argwhere(broken)[0]
                raise SolveFailedError(
                    f"{mechanism}: not {epsilon:g}-differentially private: answers "
                    f"{graph.labels[here[edge]]!r} and {graph.labels[there[edge]]!r} give output "
                    f"{graph.labels[output]!r} with probabilities {noise[here[edge], output]:.9g} "
                    f"and {noise[there[edge], output]:.9g}"
                )


MOST_CLASSES = 400
"""Most classes of answers for which `utility_bound` solves a linear program.

With this number of classes, the program takes about a second.
"""


def leakage(guessed: float, prior: Array) -> float:
    """Min-entropy leakage in bits (Proposition 5) if ``guessed`` is the utility.

    If ``guessed`` is an upper bound on the utility, this is a bound on the leakage (Proposition 6).
    """
    return max(math.log2(guessed / float(prior.max())), 0.0)


def utility_bound(phi: Array, prior: Array) -> tuple[float, bool]:
    """Bound the utility of every ε-differentially private mechanism; say if the prior is ε-regular.

    If the prior is ε-regular, this is the bound of Theorem 1: ``sum(y)`` with ``y @ phi = prior``.
    Otherwise it is the least ``sum(y)`` over all ``y >= 0`` with ``y @ phi >= prior``. Every such
    sum is a bound: any mechanism X with remap R has ``phi @ diag(XR) <= 1`` by Equation (3), so its
    utility is ``prior @ diag(XR) <= y @ phi @ diag(XR) <= sum(y)``.

    A linear program finds the least sum, with one unknown for each class of answers that Φ and the
    prior do not distinguish. With more than `MOST_CLASSES` classes, the bound is ``sum(max(y, 0))``
    for the y of Theorem 1 instead. The returned bound is never above 1.

    Parameters
    ----------
    phi : numpy.ndarray, shape (n, n)
        The matrix Φ of `workloads.priors.constraints`.
    prior : numpy.ndarray, shape (n,)
        The probabilities of the answers.
    """
    alike = classes(phi, prior)
    y = weights(phi, prior, alike)
    utility = 1.0 if y is None else min(float(np.maximum(y, 0).sum()), 1.0)
    if y is not None and bool(y.min() >= 0):
        return utility, True
    if len(alike.sizes) <= MOST_CLASSES:
        scale = float(prior.max())
        matrix, least = alike.reduced(phi), prior[alike.first] / scale
        result = scipy.optimize.linprog(alike.sizes, A_ub=-matrix, b_ub=-least)
        if result.x is not None:
            covered = result.x * max(float((least / (matrix @ result.x)).max()), 1.0)
            utility = min(utility, float(alike.sizes @ covered) * scale)
    return utility, False


@dataclass(frozen=True, eq=False)
class NoiseMatrix(Noise):
    """An ε-differentially private mechanism on a query graph: a `solvers.noise.noise.Noise`.

    Attributes
    ----------
    prior : numpy.ndarray, shape (n,)
        The user's prior: the probability of each true answer.
    matrix : numpy.ndarray, shape (n, n)
        X: row i is the distribution of the output when i is the answer.
    """

    problem: GraphProblem
    epsilon: float
    prior: Array
    matrix: Array

    total_variance = float("nan")

    @cached_property
    def utility(self) -> float:
        """Probability that the best guess from the output is the true answer (Equation (2)).

        It is ``sum_o max_i prior[i] * matrix[i, o]``, for binary gain and the optimal remap.
        """
        return float((self.prior[:, None] * self.matrix).max(axis=0).sum())

    @property
    def utility_bound(self) -> float:
        """Upper bound on the utility of any ε-private mechanism for this prior, at most 1."""
        return self._bound[0]

    @property
    def prior_is_regular(self) -> bool:
        """Whether the prior is ε-regular (Definition 5)."""
        return self._bound[1]

    @cached_property
    def regular_share(self) -> float:
        """Volume of the ε-regular priors divided by the volume of all priors."""
        return priors.regular_share(self.problem.graph, self.epsilon)

    @property
    def min_entropy_leakage(self) -> float:
        """Min-entropy leakage about the answer, in bits (Proposition 5)."""
        return leakage(self.utility, self.prior)

    @property
    def leakage_bound(self) -> float:
        """Upper bound on the leakage for this prior, in bits (Proposition 6)."""
        return leakage(self.utility_bound, self.prior)

    @cached_property
    def leakage_bound_any_prior(self) -> float:
        """Upper bound on the leakage for every prior, in bits (Corollary 1, Theorem 2)."""
        uniform = priors.uniform(self.problem.graph)
        return leakage(utility_bound(self._phi, uniform)[0], uniform)

    @cached_property
    def expected_squared_error(self) -> float:
        """Expected squared distance between the reported and the true answer, without a remap.

        The distance is Euclidean if the answers are numbers, otherwise it is the graph distance.
        """
        points, distances = self.problem.graph.coordinates, self.problem.graph.distances
        away = distances if points is None else scipy.spatial.distance.cdist(points, points)
        return float(self.prior @ (self.matrix * np.square(away)).sum(axis=1))

    @cached_property
    def max_variance(self) -> float:
        """Largest variance of the reported answer over all true answers and coordinates."""
        return float(self.query_variances.max())

    @property
    def variance_ratio_at_budget(self) -> float:
        """``max_variance`` divided by the target; at most 1 if the target is met."""
        return self.max_variance / self.problem.target

    @cached_property
    def query_variances(self) -> Array:
        """Variance of the reported answer, one for each true answer and coordinate.

        If the answers are not numbers, this is the Fréchet variance: the least mean squared graph
        distance of the reported answer from any fixed answer.
        """
        return np.asarray(np.einsum("ij,ijk->ik", self.matrix, np.square(self._errors))).ravel()

    @cached_property
    def moments(self) -> tuple[Array, Array]:
        """Standardised fourth and sixth moments of the errors; 3 and 15 if an error is always 0."""
        squares = np.square(self._errors)
        second, fourth, sixth = (
            np.einsum("ij,ijk->ik", self.matrix, squares**power).ravel() for power in (1, 2, 3)
        )
        some = second > 0
        return (
            np.divide(fourth, second**2, out=np.full_like(second, 3.0), where=some),
            np.divide(sixth, second**3, out=np.full_like(second, 15.0), where=some),
        )

    @property
    def curve(self) -> BudgetCurve:
        """Not available: raises NotApplicableError, because the noise matrix is for one ε only."""
        raise NotApplicableError(
            f"a noise matrix on a query graph has one epsilon, {self.epsilon:g}; solve again for "
            "another"
        )

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """Draw n errors for every true answer, shape (n, answers times coordinates).

        An error is the deviation of a reported coordinate from its mean. If the answers are not
        numbers, an error is the graph distance of the reported answer from the Fréchet mean, the
        answer with the least mean squared distance.
        """
        errors = self._errors
        answers = len(errors)
        upto, each = np.cumsum(self.matrix, axis=1), np.arange(answers)
        uniform = rng.random((n, answers)) * upto[:, -1]
        outputs = np.stack(
            [np.searchsorted(upto[i], uniform[:, i], side="right") for i in each], axis=1
        )
        return np.asarray(errors[each, np.minimum(outputs, answers - 1)].reshape(n, -1))

    def record(self) -> dict[str, object]:
        """Return the measures of the noise matrix, by the names under which a sweep stores them."""
        return {
            "utility": self.utility,
            "utility_bound": self.utility_bound,
            "min_entropy_leakage": self.min_entropy_leakage,
            "leakage_bound": self.leakage_bound,
            "leakage_bound_any_prior": self.leakage_bound_any_prior,
            "expected_squared_error": self.expected_squared_error,
            "max_variance": self.max_variance,
            "variance_ratio_at_budget": self.variance_ratio_at_budget,
            "prior_is_regular": self.prior_is_regular,
            "regular_share": self.regular_share,
        }

    def arrays(self) -> dict[str, Array]:
        """Return the noise matrix and the prior."""
        return {"noise_matrix": self.matrix, "prior": self.prior}

    @property
    def _errors(self) -> Array:
        """Errors by true answer, output and coordinate, shape (n, n, coordinates)."""
        graph = self.problem.graph
        points = graph.coordinates
        if points is None:
            centres = np.argmin(self.matrix @ np.square(graph.distances), axis=1)
            return np.asarray(graph.distances[centres][:, :, None])
        return points[None, :, :] - (self.matrix @ points)[:, None, :]

    @cached_property
    def _bound(self) -> tuple[float, bool]:
        return utility_bound(self._phi, self.prior)

    @cached_property
    def _phi(self) -> Array:
        return priors.constraints(self.problem.graph, self.epsilon)


def read_prior(problem: GraphProblem, epsilon: float, prior: ArrayLike) -> Array:
    """Return the probabilities of the prior that the user wrote; OptionError if it is invalid."""
    try:
        return priors.make(prior, problem.graph, epsilon)
    except WorkloadError as error:
        raise OptionError(str(error), "prior") from None


def from_noise_matrix(
    mechanism: str, problem: GraphProblem, epsilon: float, prior: ArrayLike, noise: Array
) -> Solution:
    """Return the solution with this noise matrix, after checking the matrix.

    Parameters
    ----------
    prior : str or array_like, shape (n,)
        A prior that `workloads.priors.make` accepts.

    Raises
    ------
    OptionError
        If the prior is unknown or invalid.
    SolveFailedError
        If a row of the matrix is not a distribution, or the matrix is not ε-differentially private.
    """
    probabilities = read_prior(problem, epsilon, prior)
    check_noise(mechanism, noise, problem.graph, epsilon)
    return Solution(mechanism, problem, NoiseMatrix(problem, float(epsilon), probabilities, noise))
