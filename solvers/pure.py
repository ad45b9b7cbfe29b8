"""Solutions whose noise is independent numbers through a matrix, Gaussian or not.

The pure-ε mechanisms on a matrix workload and the noise on a box are ``W x + L z`` with
independent z of one known distribution. There is no privacy cost Δ: what they reach at a
budget is their own `solvers.budget.BudgetCurve`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from solvers.budget import BudgetCurve, PureBudget
from solvers.noise import Noise
from solvers.problem import Problem
from workloads.operators import Array, Matrix


class Source(Protocol):
    """Independent numbers of one distribution."""

    @property
    def variance(self) -> float:
        """Of one number, or its expected square where the numbers are biased."""
        ...

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draw numbers of that shape."""
        ...


@dataclass(frozen=True)
class AtEpsilon:
    """A noise at the ε that one step costs.

    Attributes
    ----------
    noise : Noise
        The distribution.
    epsilon : float
        ε of one step.
    """

    noise: Noise
    epsilon: float

    @property
    def variance(self) -> float:
        """Of one number."""
        return float(self.noise.variance(self.epsilon))

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draw numbers of that shape."""
        return self.noise.sample(self.epsilon, shape, rng)


@dataclass(frozen=True, eq=False)
class PureSolution:
    """A mechanism ``W x + L z``, z independent, scaled so that its targets are just met.

    Attributes
    ----------
    mechanism : str
        The mechanism's name.
    problem : Problem
        The workload and the targets.
    representation : numpy.ndarray or scipy.sparse.csr_array, shape (m, k)
        L.
    source : Source
        What z is drawn from.
    curve : BudgetCurve
        Variance ratio and least ε at any budget.
    measures : Mapping[str, float]
        Further numbers to store, by variable name.
    notes : Mapping[str, Any]
        What else the mechanism reports.
    runtime : float
        Wall-clock seconds of the solve alone.
    """

    mechanism: str
    problem: Problem
    representation: Matrix
    source: Source
    curve: BudgetCurve
    measures: Mapping[str, float] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)
    runtime: float = float("nan")

    iterations = 0
    converged = True
    timed_out = False

    @cached_property
    def query_variances(self) -> Array:
        """Variance of every query's answer, shape (m,)."""
        squares = np.asarray(_squared(self.representation).sum(axis=1)).ravel()
        return np.asarray(self.source.variance * squares)

    @property
    def total_variance(self) -> float:
        """Sum of the query variances when the targets are just met."""
        return float(self.query_variances.sum())

    @property
    def epsilon(self) -> float:
        """Least ε at which all targets are met; infinite where there is none."""
        return float(self.curve.epsilon_at_targets(0.0))

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """Draw n vectors of errors when the targets are just met, shape (n, m)."""
        numbers = self.source.sample((n, self.representation.shape[1]), rng)
        return np.asarray((self.representation @ numbers.T).T)

    def timed(self, seconds: float) -> "PureSolution":
        """The same solution with its runtime."""
        return replace(self, runtime=seconds)

    def record(self) -> dict[str, Any]:
        """The numbers that a sweep stores, by variable name, and the budget ``curve``."""
        return {
            "total_variance": self.total_variance,
            "iterations": self.iterations,
            "converged": self.converged,
            **self.measures,
            "curve": self.curve.content(),
        }

    def arrays(self) -> dict[str, Array]:
        """The arrays that a sweep keeps on request, by variable name."""
        return {"query_variances": self.query_variances}


def calibrated(
    mechanism: str,
    problem: Problem,
    noise: Noise,
    sensitivity: float,
    representation: Matrix,
    **facts: Any,
) -> PureSolution:
    """Independent ε-private noise through L, at the least ε that meets all targets.

    Parameters
    ----------
    mechanism : str
        The mechanism's name.
    problem : Problem
        The workload and its targets.
    noise : Noise
        On one number.
    sensitivity : float
        Into how many steps' ε the budget is divided.
    representation : numpy.ndarray or scipy.sparse.csr_array, shape (m, k)
        L.
    **facts
        Other attributes of `PureSolution`.

    Returns
    -------
    PureSolution
    """
    squares = np.asarray(_squared(representation).sum(axis=1)).ravel()
    curve = PureBudget(noise, sensitivity, factor=float(np.max(squares / problem.targets)))
    source = AtEpsilon(noise, curve.epsilon / sensitivity)
    return PureSolution(mechanism, problem, representation, source, curve, **facts)


def _squared(matrix: Matrix) -> Matrix:
    return sp.csr_array(matrix.power(2)) if sp.issparse(matrix) else np.square(matrix)
