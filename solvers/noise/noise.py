"""The interface of every kind of noise.

A solution has one `Noise`: the errors of all its answers together, as random numbers. The kinds
are: a Gaussian mechanism as a factorisation, and a Kronecker product of factorisations
(`solvers.noise.factorisation`), noise on each part of a problem on orbits
(`solvers.forms.orbits.orbit_noise`), independent noise that need not be Gaussian
(`solvers.noise.independent`), errors measured on data (`solvers.mechanisms.dawa`), and a noise
matrix on a query graph (`solvers.noise.noise_matrix`).
"""

import math
from abc import ABC, abstractmethod
from dataclasses import asdict
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np
import scipy

from solvers.errors import NotApplicableError
from solvers.privacy.budget import BudgetCurve, GaussianBudget
from workloads.operators import Array, Matrix, readable
from workloads.workload import LARGEST_LISTED

LARGEST_EXPANDED = 4096
"""Largest number of cells or queries, and largest rank of a product, to write out a covariance."""


class Coordinates(Protocol):
    """A Gaussian mechanism described as correlated noise on the queries of a basis B: W = L B.

    This is Definition 3 of arXiv v1. The same mechanism can be described on any basis (Theorem 2
    there); ``basis`` is the one on which the mechanism is usually described.
    """

    @property
    def basis(self) -> Array:
        """B: the queries to whose answers the noise is added, shape (k, d)."""

    @property
    def representation(self) -> Matrix:
        """L: W expressed in the basis, as a dense or CSR matrix of shape (m, k)."""

    @property
    def covariance(self) -> Array:
        """Covariance of the noise on Bx, shape (k, k)."""


class Noise(ABC):
    """The noise of a mechanism, scaled to just meet the targets if it can be scaled.

    The defaults are for noise that is not Gaussian and cannot be rescaled.
    """

    gaussian: bool = False
    """Whether every error is normal."""

    @property
    def squared_privacy_cost(self) -> float:
        """Δ², the squared privacy cost; NaN if the noise has no privacy cost."""
        return float("nan")

    @property
    @abstractmethod
    def query_variances(self) -> Array:
        """Variance of every error that `draw` returns, shape (m,)."""

    @property
    def total_variance(self) -> float:
        """Sum of the query variances; NaN if the sum has no meaning, as on a query graph."""
        return float(self.query_variances.sum())

    if TYPE_CHECKING:  # at run time, dataclasses would use the property as a default

        @property
        def curve(self) -> BudgetCurve:
            """The variance ratio at any budget, and the least ε that meets the targets."""

    @property
    def moments(self) -> tuple[Array | float, Array | float]:
        """Standardised fourth and sixth moments of the errors: arrays of shape (m,) or numbers.

        NaN if errors cannot be drawn.
        """
        return float("nan"), float("nan")

    def at_budget(self, epsilon: float, delta: float) -> "Noise":
        """Return the noise of the same kind that is (ε, δ)-private: it meets rescaled targets.

        Raises
        ------
        NotApplicableError
            If the noise cannot be rescaled.
        """
        raise NotApplicableError(
            f"{type(self).__name__} holds at one budget and cannot be rescaled; solve at yours"
        )

    @abstractmethod
    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """Draw n vectors of errors, shape (n, m)."""

    def record(self) -> dict[str, object]:
        """Return the numbers that a sweep stores, by variable name, and the ``curve``'s fields."""
        return {"total_variance": self.total_variance, "curve": asdict(self.curve)}

    def arrays(self) -> dict[str, Array]:
        """Return the arrays that a sweep stores on request, by variable name."""
        return {"query_variances": self.query_variances}


class GaussianNoise(Noise):
    """Noise with normal errors; cost, variances and profile determine most results."""

    gaussian = True

    @property
    def moments(self) -> tuple[Array | float, Array | float]:
        """Standardised fourth and sixth moments of the normal distribution: 3 and 15."""
        return 3.0, 15.0

    @property
    @abstractmethod
    def privacy_profile(self) -> Array:
        """Squared personal privacy cost of every domain cell, shape (d,)."""

    @property
    @abstractmethod
    def fisher_information(self) -> float:
        """Trace of the Fisher information about x when the targets are just met."""

    @property
    def left(self) -> Matrix:
        """L of a factorisation W = L B with independent standard normal noise on Bx.

        Raises
        ------
        NotApplicableError
            If the noise is too large to be written out.
        """
        coordinates = self.coordinates
        return coordinates.representation @ _root(coordinates)

    @property
    def right(self) -> Matrix:
        """B of the factorisation; the largest squared norm of a column is Δ². Raises as `left`."""
        coordinates = self.coordinates
        return np.asarray(
            scipy.linalg.solve_triangular(_root(coordinates), coordinates.basis, lower=True)
        )

    @property
    @abstractmethod
    def coordinates(self) -> Coordinates:
        """The noise as correlated noise on a basis of queries."""

    @abstractmethod
    def divided(self, scale: float) -> Self:
        """Return a copy whose noise is divided by ``scale``."""

    def at_budget(self, epsilon: float, delta: float) -> Self:
        """Return a copy of which the squared privacy cost is what the budget allows."""
        return self.divided(1 / math.sqrt(self.curve.variance_ratio_at_budget(epsilon, delta)))

    @property
    def fits(self) -> bool:
        """Whether the covariance of the noise is small enough to be written out."""
        return True

    @property
    def curve(self) -> GaussianBudget:
        """The budget curve, which follows from the privacy cost alone."""
        return GaussianBudget(self.squared_privacy_cost)

    def record(self) -> dict[str, object]:
        """Return the squared privacy cost, total variance and Fisher information, by name."""
        return {
            "squared_privacy_cost": self.squared_privacy_cost,
            "total_variance": self.total_variance,
            "fisher_information": self.fisher_information,
        }

    def arrays(self) -> dict[str, Array]:
        """Return the query variances, the privacy profile and, if it `fits`, the covariance."""
        written_out = {"covariance": self.coordinates.covariance} if self.fits else {}
        return super().arrays() | {"privacy_profile": self.privacy_profile} | written_out


def _root(coordinates: Coordinates) -> Array:
    """Return the lower triangular Cholesky factor of the covariance."""
    return np.asarray(scipy.linalg.cholesky(coordinates.covariance, lower=True))


def refuse_unlisted(queries: int) -> None:
    """Raise NotApplicableError if there are too many queries to draw the error of each."""
    if queries > LARGEST_LISTED:
        raise NotApplicableError(
            f"simulate: {readable(queries)} queries are too many to draw the error of each (at "
            f"most {LARGEST_LISTED}); leave simulate out, or ask for fewer queries"
        )
