"""Problem 4 of PVLDB 14(10): soft maxima of the privacy profile and of the variance ratios.

    F(Σ) = 1/t1 log sum_i exp(t1 g_i) + 1/t2 log sum_j exp(t2 h_j) + sum_j omega_j h_j,
    g_i = b_iᵀ Σ⁻¹ b_i,   h_j = v_j Σ v_jᵀ / c_j

This is equation (8) of arXiv v1, whose printed form lacks the second exp. The b_i are the columns
of B, the v_j the rows of L, and the c_j the targets; t1 and t2 are the sharpness of the two soft
maxima, and omega is the hybrid's weight of total variance (section 6.1 of the PVLDB version).

Algorithms 1 to 3 (`newton_cg`) use a covariance only through `Iterate` and `Model`. There are four
kinds of iterate. The module `basis` has one: a covariance in a fixed basis. The module `charts` has
three: a covariance in a basis that is adapted at every step, one such covariance for each block,
and a vector of variances if the blocks are numbers.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, Protocol, Self, TypeVar

import numpy as np

from solvers.dual.programs import Weights
from workloads.operators import Array

_LEAST_CURVATURE = 1e-10
"""Least entry of a damped Hessian's diagonal, relative to the largest, so that it is invertible.

The problems of `newton_cg` take 836 steps with 1e-14, 831 with 1e-10 and 829 with 1e-6.
"""


class Iterate(Protocol):
    """A covariance, with its privacy profile and variance ratios."""

    @property
    def profile(self) -> Array:
        """The privacy profile g."""

    @property
    def ratios(self) -> Array:
        """The variance ratios h."""

    def chart(self, p: Array) -> "Chart[Self]":
        """Local coordinates around this covariance, for soft-max weights p of the profile."""


@dataclass(frozen=True, eq=False)
class SoftMax:
    """The function F with given sharpness.

    Attributes
    ----------
    omega : numpy.ndarray, shape (m,)
        Weight of every variance ratio in the term for total variance.
    log_counts : numpy.ndarray, shape (m,), or float
        Logarithm of the number of queries that each ratio represents.
    log_cells : numpy.ndarray, shape (d,), or float
        Logarithm of the number of cells that each profile entry represents, up to a common
        constant.
    t1, t2 : float
        Sharpness of the soft maxima of the profile and of the ratios.
    """

    omega: Array
    log_counts: Array | float = 0.0
    t1: float = 1.0
    t2: float = 1.0
    log_cells: Array | float = 0.0

    def value(self, at: Iterate) -> float:
        """F at an iterate.

        Adding a constant to ``log_cells`` adds the constant, divided by t1, to F.
        """
        accuracy = soft_maximum(at.ratios + self.log_counts / self.t2, self.t2)
        privacy = soft_maximum(at.profile + self.log_cells / self.t1, self.t1)
        return privacy + accuracy + float(self.omega @ at.ratios)

    def squared(self, at: Iterate) -> float:
        """Return ``(F / 2)**2`` at the best scale of Σ, with maxima instead of soft maxima."""
        accuracy = float(at.ratios.max() + self.omega @ at.ratios)
        return float(at.profile.max()) * accuracy

    def weights(self, at: Iterate) -> Weights:
        """Return the soft-max weights of the profile and of the ratios; each set sums to one."""
        return self.weights_of(at.profile, at.ratios)

    def weights_of(self, profile: Array, ratios: Array) -> Weights:
        """Return the soft-max weights of a given profile and of given ratios."""
        q = soft_weights(ratios + self.log_counts / self.t2, self.t2)
        return Weights(soft_weights(profile + self.log_cells / self.t1, self.t1), q)

    def sharpened(self, t1: float, t2: float) -> Self:
        """Return a copy with another sharpness."""
        return replace(self, t1=t1, t2=t2)


AnyIterate = TypeVar("AnyIterate", bound=Iterate)
Reached = TypeVar("Reached", bound=Iterate, covariant=True)


class Chart(Protocol[Reached]):
    """Local coordinates around a covariance.

    `forms` maps a direction to the derivatives of the negative profile and of the ratios;
    `weighted` is the transpose of that map.
    """

    def curved(self, along: Array) -> Array:
        """Return the Hessian of ``p . profile``, times a direction."""

    def damping(self, gradient: Array) -> Array:
        """Return the Hessian's added term: it is then invertible, and no step halves a variance."""

    def precondition(self, residual: Array, damping: Array) -> Array:
        """Return an approximation of the inverse Hessian times a residual."""

    def forms(self, along: Array) -> tuple[Array, Array]:
        """Derivatives of the negative profile and of the ratios along a direction."""

    def weighted(self, of_profile: Array, of_ratios: Array) -> Array:
        """Apply the transpose of `forms` to numbers for the profile and for the ratios."""

    def ray(self, along: Array) -> Callable[[float], Reached]:
        """Return a function that maps a step's length to the iterate after the step.

        The function raises LinAlgError if the covariance after the step is not positive definite.
        """


class DiagonalChart(Chart[Reached], Protocol):
    """A chart in which the Hessian of ``p . profile`` is diagonal and serves as preconditioner.

    The Hessian of F is this diagonal plus a positive semidefinite part of low rank: t times the
    covariance of the derivatives under the soft-max weights. This sum is singular if the
    profile changes along some direction only at cells without weight. Newton's step would then lead
    far outside the positive definite matrices, so the Hessian is damped. At a minimiser the damping
    is negligible.
    """

    @property
    def curvature(self) -> Array:
        """The diagonal of the Hessian of ``p . profile``, in the shape of a direction."""

    def excess(self, gradient: Array) -> Array:
        """Return the part of the damping that vanishes at a minimiser."""

    def curved(self, along: Array) -> Array:
        """Return the diagonal Hessian of ``p . profile``, times a direction."""
        return self.curvature * along

    def damping(self, gradient: Array) -> Array:
        """Return the excess, plus a small number that is the same for all entries."""
        excess = self.excess(gradient)
        return excess + _LEAST_CURVATURE * float((self.curvature + excess).max())

    def precondition(self, residual: Array, damping: Array) -> Array:
        """Return the residual divided by the damped diagonal."""
        return residual / (self.curvature + damping)


class Model(Generic[AnyIterate]):
    """The second-order model of F around a covariance, in the coordinates of a chart.

    Attributes
    ----------
    objective : SoftMax
        F.
    at : Iterate
        The covariance.
    gradient : numpy.ndarray
        The gradient of F.
    damping : numpy.ndarray
        The term added to the diagonal of the Hessian; negligible at a minimiser.
    """

    def __init__(self, objective: SoftMax, at: AnyIterate) -> None:
        weights = objective.weights(at)
        self.objective, self.at, self._p, self._q = objective, at, weights.p, weights.q
        self._chart = chart = at.chart(weights.p)
        self.gradient = chart.weighted(-weights.p, weights.q + objective.omega)
        self.damping = chart.damping(self.gradient)
        self.ray = chart.ray

    @property
    def drift(self) -> Array:
        """The derivative of the gradient with respect to log t; t1 and t2 grow by equal factors."""
        return self._spread(-self.at.profile, self.at.ratios)

    def product(self, along: Array) -> Array:
        """Return the damped Hessian of F times a direction."""
        image = self._spread(*self._chart.forms(along))
        image += self._chart.curved(along) + self.damping * along
        return image

    def precondition(self, residual: Array) -> Array:
        """Return an approximation of the inverse Hessian times a residual."""
        return self._chart.precondition(residual, self.damping)

    def derivatives(self, along: Array) -> tuple[Array, Array]:
        """Derivatives of the profile and of the ratios along a direction."""
        less, more = self._chart.forms(along)
        return -less, more

    def _spread(self, a: Array, b: Array) -> Array:
        p, q, objective = self._p, self._q, self.objective
        return self._chart.weighted(objective.t1 * p * (a - p @ a), objective.t2 * q * (b - q @ b))


def soft_maximum(values: Array, t: float) -> float:
    """Return the soft maximum ``1/t log sum exp(t values)``.

    SciPy's function for it would take most of the time of a small solve.
    """
    largest = float(values.max())
    return largest + float(np.log(np.exp(t * (values - largest)).sum())) / t


def soft_weights(values: Array, t: float) -> Array:
    """Return the gradient of the soft maximum: ``exp(t values)``, scaled to sum to one."""
    weights = np.exp(t * (values - values.max()))
    return np.asarray(weights / weights.sum())
