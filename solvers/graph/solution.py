"""What a solve on a query graph returns: the noise matrix, checked, and its measures."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from solvers.errors import OptionError
from solvers.graph import measures
from solvers.graph.checks import check_noise, slack
from solvers.graph.problem import GraphProblem
from workloads import WorkloadError, priors
from workloads.operators import Array


@dataclass(frozen=True, eq=False)
class GraphSolution:
    """An ε-differentially private mechanism on a query graph.

    Attributes
    ----------
    mechanism : str
        The mechanism's name.
    problem : GraphProblem
        The answers and the variance target.
    epsilon : float
        ε.
    prior : numpy.ndarray, shape (n,)
        The user's probabilities of the answers.
    noise : numpy.ndarray, shape (n, n)
        X: row i is the distribution of the output when i is the answer.
    iterations : int
        0 for a closed form.
    converged : bool
        Whether the mechanism reached its own stopping rule.
    timed_out : bool
        Whether it stopped at its time limit instead.
    runtime : float
        Wall-clock seconds of the solve alone.
    notes : Mapping[str, object]
        What else the mechanism reports.
    own_numbers : Mapping[str, float]
        What else a sweep stores of this mechanism, by variable name.
    """

    mechanism: str
    problem: GraphProblem
    epsilon: float
    prior: Array
    noise: Array
    iterations: int = 0
    converged: bool = True
    timed_out: bool = False
    runtime: float = float("nan")
    notes: Mapping[str, Any] = field(default_factory=dict)
    own_numbers: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def utility(self) -> float:
        """Probability of a right guess with the optimal remap, Equation (2)."""
        return measures.utility(self.noise, self.prior)

    @property
    def utility_bound(self) -> float:
        """Upper bound on the utility of any ε-private mechanism; Theorem 1 if regular."""
        return self._bound.utility

    @property
    def prior_is_regular(self) -> bool:
        """Whether the prior is ε-regular (Definition 5)."""
        return self._bound.regular

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
        return measures.expected_squared_error(self.noise, self.prior, self.problem.graph)

    @cached_property
    def max_variance(self) -> float:
        """Of the reported answer at the worst true one."""
        return measures.max_variance(self.noise, self.problem.graph)

    @property
    def variance_ratio(self) -> float:
        """``max_variance`` over the target: at most 1 where the target is met."""
        return self.max_variance / self.problem.target

    @property
    def slack(self) -> Array:
        """``1 - Φ diag(X)``, shape (n,): zero for tight-constraints mechanisms (Lemma 3)."""
        return slack(self.noise, self._phi)

    def timed(self, seconds: float) -> "GraphSolution":
        """The same solution with its runtime."""
        return replace(self, runtime=seconds)

    def record(self) -> dict[str, Any]:
        """The numbers that a sweep stores, by variable name."""
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
            **self.own_numbers,
            "iterations": self.iterations,
            "converged": self.converged,
        }

    def arrays(self) -> dict[str, Array]:
        """The arrays that a sweep keeps on request, by variable name."""
        return {"noise_matrix": self.noise, "prior": self.prior}

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
) -> GraphSolution:
    """A solution from its noise matrix, checked.

    Parameters
    ----------
    mechanism : str
        The mechanism's name.
    problem : GraphProblem
        The answers and the variance target.
    epsilon : float
        ε.
    prior : str or array_like, shape (n,)
        As `workloads.priors.make` takes it.
    noise : numpy.ndarray, shape (n, n)
        X.
    **facts
        Other attributes of `GraphSolution`.

    Returns
    -------
    GraphSolution

    Raises
    ------
    OptionError
        If ε is not positive or there is no such prior.
    SolveFailedError
        If X is not stochastic or not ε-differentially private.
    """
    phi, probabilities = given(problem, epsilon, prior)
    check_noise(mechanism, noise, problem.graph, epsilon, phi)
    return GraphSolution(
        mechanism, problem, float(epsilon), np.asarray(probabilities), noise, **facts
    )
