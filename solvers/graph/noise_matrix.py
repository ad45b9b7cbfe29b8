"""The noise of a query graph: a matrix, checked, and what it is measured by."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from solvers.accounting.budget import BudgetCurve
from solvers.errors import NotApplicableError, OptionError
from solvers.graph import measures
from solvers.graph.checks import check_noise, slack
from solvers.noise.release import UnpricedRelease
from solvers.problem import GraphProblem
from solvers.solution import Solution
from workloads import WorkloadError, priors
from workloads.operators import Array


@dataclass(frozen=True, eq=False)
class NoiseMatrix(UnpricedRelease):
    """An ε-differentially private mechanism on a query graph: a `solvers.noise.release.Release`.

    Attributes
    ----------
    prior : numpy.ndarray, shape (n,)
        The user's probabilities of the answers.
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
        """Probability of a right guess with the optimal remap, Equation (2)."""
        return measures.utility(self.matrix, self.prior)

    @property
    def utility_bound(self) -> float:
        """Upper bound on the utility of any ε-private mechanism; Theorem 1 if regular."""
        return self._bound.utility

    @property
    def prior_is_regular(self) -> bool:
        """Whether the prior is ε-regular (Definition 5)."""
        return self._bound.regular

    @cached_property
    def regular_share(self) -> float:
        """The ε-regular priors' share of all priors, by volume."""
        return priors.regular_share(self.problem.graph, self.epsilon)

    @property
    def min_entropy_leakage(self) -> float:
        """In bits, about the answer (Proposition 5)."""
        return measures.leakage(self.utility, self.prior)

    @property
    def leakage_bound(self) -> float:
        """In bits, for this prior (Proposition 6)."""
        return measures.leakage(self.utility_bound, self.prior)

    @cached_property
    def leakage_bound_any_prior(self) -> float:
        """In bits, for every prior (Corollary 1; on the graph of databases Theorem 2)."""
        uniform = priors.uniform(self.problem.graph)
        return measures.leakage(measures.utility_bound(self._phi, uniform).utility, uniform)

    @cached_property
    def expected_squared_error(self) -> float:
        """Of the reported answer under the prior."""
        return measures.expected_squared_error(self.matrix, self.prior, self.problem.graph)

    @cached_property
    def max_variance(self) -> float:
        """Of the reported answer at the worst true one, of the worst coordinate."""
        return float(self.query_variances.max())

    @property
    def variance_ratio(self) -> float:
        """``max_variance`` over the target: at most 1 where the target is met."""
        return self.max_variance / self.problem.target

    @property
    def slack(self) -> Array:
        """``1 - Φ diag(X)``, shape (n,): zero for tight-constraints mechanisms (Lemma 3)."""
        return slack(self.matrix, self._phi)

    @cached_property
    def query_variances(self) -> Array:
        """Of the reported answer at every true one, coordinate by coordinate, as drawn."""
        return measures.variances(self.matrix, self.problem.graph).ravel()

    @cached_property
    def moments(self) -> tuple[Array, Array]:
        """Of the errors as drawn; those of the normal distribution for errors that are all 0."""
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
        """NotApplicableError: the noise is of one ε."""
        raise NotApplicableError(
            f"a noise matrix on a query graph has one epsilon, {self.epsilon:g}; solve again for "
            "another"
        )

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """Draw n errors of every answer, about the centre of its row; shape (n, errors).

        A coordinate's error is its distance from its mean; where answers are no numbers, an
        error is the graph distance from the answer with the least mean square (Fréchet).
        """
        errors = self._errors
        answers = len(errors)
        upto, each = np.cumsum(self.matrix, axis=1), np.arange(answers)
        uniform = rng.random((n, answers)) * upto[:, -1]
        outputs = np.stack(
            [np.searchsorted(upto[i], uniform[:, i], side="right") for i in each], axis=1
        )
        drawn: Array = errors[each, np.minimum(outputs, answers - 1)].reshape(n, -1)
        return drawn

    def record(self) -> dict[str, Any]:
        """The measures, by the names that a sweep stores them under."""
        return {
            "utility": self.utility,
            "utility_bound": self.utility_bound,
            "min_entropy_leakage": self.min_entropy_leakage,
            "leakage_bound": self.leakage_bound,
            "leakage_bound_any_prior": self.leakage_bound_any_prior,
            "expected_squared_error": self.expected_squared_error,
            "max_variance": self.max_variance,
            "variance_ratio_at_budget": self.variance_ratio,
            "prior_is_regular": self.prior_is_regular,
            "regular_share": self.regular_share,
        }

    def arrays(self) -> dict[str, Array]:
        """The noise matrix and the prior."""
        return {"noise_matrix": self.matrix, "prior": self.prior}

    @cached_property
    def _errors(self) -> Array:
        """Of every output at every answer, shape (n, n, coordinates)."""
        graph = self.problem.graph
        points = graph.coordinates
        if points is None:
            centres = np.argmin(self.matrix @ np.square(graph.distances), axis=1)
            far: Array = graph.distances[centres][:, :, None]
            return far
        away: Array = points[None, :, :] - (self.matrix @ points)[:, None, :]
        return away

    @cached_property
    def _bound(self) -> measures.Bound:
        return measures.utility_bound(self._phi, self.prior)

    @cached_property
    def _phi(self) -> Array:
        return priors.constraints(self.problem.graph, self.epsilon)


def given(problem: GraphProblem, epsilon: float, prior: ArrayLike) -> tuple[Array, Array]:
    """Φ and the prior's probabilities, for ε and a prior as the user wrote them.

    Raises
    ------
    OptionError
        If ε is not positive or there is no such prior.
    """
    try:
        phi = priors.constraints(problem.graph, epsilon)
        return phi, priors.make(prior, problem.graph, epsilon)
    except WorkloadError as error:
        raise OptionError(str(error)) from error


def from_noise(
    mechanism: str,
    problem: GraphProblem,
    epsilon: float,
    prior: ArrayLike,
    noise: Array,
    **facts: Any,
) -> Solution:
    """A solution from its noise matrix, checked.

    Parameters
    ----------
    prior : str or array_like, shape (n,)
        As `workloads.priors.make` takes it.

    Raises
    ------
    OptionError
        If ε is not positive or there is no such prior.
    SolveFailedError
        If X is not stochastic or not ε-differentially private.
    """
    phi, probabilities = given(problem, epsilon, prior)
    check_noise(mechanism, noise, problem.graph, epsilon, phi)
    checked = NoiseMatrix(problem, float(epsilon), np.asarray(probabilities), noise)
    return Solution(mechanism, problem, checked, **facts)
