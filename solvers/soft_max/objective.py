"""Problem 4 of PVLDB 14(10): soft maxima of the privacy profile and of the variance ratios.

    F(Σ) = 1/t1 log sum_i exp(t1 g_i) + 1/t2 log sum_j exp(t2 h_j) + sum_j omega_j h_j,
    g_i = b_iᵀ Σ⁻¹ b_i,   h_j = v_j Σ v_jᵀ / c_j

(equation (8) of arXiv v1, whose printed form misses the second exp; omega is the hybrid's
weight of total variance, section 6.1 of the PVLDB version). Algorithms 1 to 3
(`newton_cg`) use a covariance only through `Iterate` and `Model`. There are four kinds: in a fixed
basis (`basis`), in a basis that follows the covariance, the same for each block, and a vector of
variances where the blocks are numbers (`charts`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from solvers.dual.programs import Weights
from workloads.operators import Array

_LEAST_CURVATURE = 1e-10


class Iterate(Protocol):
    """A covariance."""

    @property
    def profile(self) -> Array:
        """The privacy profile g."""

    @property
    def ratios(self) -> Array:
        """The variance ratios h."""

    def model(self, objective: "SoftMax") -> "Model":
        """F to second order about this covariance."""


class Model(Protocol):
    """F to second order about a covariance, in coordinates of its own."""

    @property
    def gradient(self) -> Array:
        """The gradient of F."""

    @property
    def drift(self) -> Array:
        """The derivative of the gradient in log t, both sharpnesses growing together."""

    def product(self, along: Array) -> Array:
        """The Hessian of F, damped away from a minimiser, times a direction."""

    def precondition(self, residual: Array) -> Array:
        """An approximation of its inverse, times a residual."""

    def derivatives(self, along: Array) -> tuple[Array, Array]:
        """Derivatives of the profile and of the ratios along a direction."""

    def ray(self, along: Array) -> Callable[[float], Iterate]:
        """The covariance at a step along a direction; `scipy.linalg.LinAlgError` if indefinite."""


@dataclass(frozen=True, eq=False)
class SoftMax:
    """The function F at some sharpness.

    Attributes
    ----------
    omega : numpy.ndarray, shape (m,)
        Weight of every variance ratio in the total.
    log_counts : numpy.ndarray, shape (m,)
        Logarithm of the number of queries that each ratio represents.
    log_cells : numpy.ndarray, shape (d,), or float
        Logarithm of the number of cells that each profile entry represents, up to a common
        constant.
    t1, t2 : float
        Sharpness of the soft maxima of the profile and of the ratios.
    """

    omega: Array
    log_counts: Array
    t1: float = 1.0
    t2: float = 1.0
    log_cells: Array | float = 0.0

    def value(self, at: Iterate) -> float:
        """F, less log(count)/t1 where one profile entry represents several cells."""
        accuracy = soft_maximum(at.ratios + self.log_counts / self.t2, self.t2)
        privacy = soft_maximum(at.profile + self.log_cells / self.t1, self.t1)
        return privacy + accuracy + float(self.omega @ at.ratios)

    def squared(self, at: Iterate) -> float:
        """The square of half F without its smoothing, at the best scale of the covariance."""
        accuracy = float(at.ratios.max() + self.omega @ at.ratios)
        return float(at.profile.max()) * accuracy

    def weights(self, at: Iterate) -> Weights:
        """The soft-max weights of both maxima, each of sum one."""
        return self.weights_of(at.profile, at.ratios)

    def weights_of(self, profile: Array, ratios: Array) -> Weights:
        """The soft-max weights of a profile and ratios."""
        q = soft_weights(ratios + self.log_counts / self.t2, self.t2)
        return Weights(soft_weights(profile + self.log_cells / self.t1, self.t1), q)

    def slope(self, at: Iterate, derivatives: tuple[Array, Array]) -> float:
        """The derivative of F where the profile and the ratios have these."""
        weights, (of_profile, of_ratios) = self.weights(at), derivatives
        return float(weights.p @ of_profile + (weights.q + self.omega) @ of_ratios)

    def sharpened(self, t1: float, t2: float) -> "SoftMax":
        """A copy at another sharpness."""
        return replace(self, t1=t1, t2=t2)


def plain(omega: Array) -> SoftMax:
    """F at t = 1 with one query for each ratio."""
    return SoftMax(omega, np.zeros_like(omega))


class Chart(Protocol):
    """Coordinates in which the curvature of ``p . profile`` is diagonal.

    Minus the profile and the ratios have the derivatives ``forms``; ``weighted`` is the
    transpose of that map.
    """

    @property
    def curvature(self) -> Array:
        """The diagonal, shaped as a direction."""

    def damping(self, gradient: Array) -> Array:
        """The term added to the curvature so that no step halves a variance."""

    def forms(self, along: Array) -> tuple[Array, Array]:
        """Derivatives of minus the profile and of the ratios along a direction."""

    def weighted(self, of_profile: Array, of_ratios: Array) -> Array:
        """A direction from weights of both."""

    def ray(self, along: Array) -> Callable[[float], Iterate]:
        """See `Model`."""


class ChartModel:
    """F to second order in a chart; preconditioned by the curvature of the profile.

    The Hessian is that diagonal and a positive semidefinite part of low rank, t times the
    covariance of the derivatives under the soft-max weights. Where no weighted cell resists it
    is singular, and Newton's step would go far beyond the positive definite matrices: so it is
    damped, by nothing at a minimiser.

    Attributes
    ----------
    gradient : numpy.ndarray
        Of F.
    damping : numpy.ndarray
        What is added to the diagonal.
    """

    def __init__(self, objective: SoftMax, at: Iterate, weights: Weights, chart: Chart) -> None:
        self._objective, self._at, self._chart = objective, at, chart
        self._p, self._q = weights.p, weights.q
        self.gradient: Array = chart.weighted(-weights.p, weights.q + objective.omega)
        damping = chart.damping(self.gradient)
        largest = float((chart.curvature + damping).max())
        self.damping: Array = damping + _LEAST_CURVATURE * largest

    @property
    def drift(self) -> Array:
        """See `Model`."""
        return self._spread(-self._at.profile, self._at.ratios)

    def hessian(self, along: Array) -> Array:
        """The Hessian of F times a direction."""
        image = self._spread(*self._chart.forms(along))
        image += self._chart.curvature * along
        return image

    def product(self, along: Array) -> Array:
        """See `Model`."""
        return self.hessian(along) + self.damping * along

    def precondition(self, residual: Array) -> Array:
        """See `Model`."""
        ready: Array = residual / (self._chart.curvature + self.damping)
        return ready

    def derivatives(self, along: Array) -> tuple[Array, Array]:
        """See `Model`."""
        less, more = self._chart.forms(along)
        return -less, more

    def ray(self, along: Array) -> Callable[[float], Iterate]:
        """See `Model`."""
        return self._chart.ray(along)

    def _spread(self, a: Array, b: Array) -> Array:
        p, q, objective = self._p, self._q, self._objective
        return self._chart.weighted(objective.t1 * p * (a - p @ a), objective.t2 * q * (b - q @ b))


def soft_maximum(values: Array, t: float) -> float:
    """``1/t log sum exp(t values)``, where SciPy's takes longer than all else at small d."""
    largest = float(values.max())
    return largest + float(np.log(np.exp(t * (values - largest)).sum())) / t


def soft_weights(values: Array, t: float) -> Array:
    """``exp(t values)`` of sum one: the gradient of the soft maximum."""
    weights: Array = np.exp(t * (values - values.max()))
    weights /= weights.sum()
    return weights
