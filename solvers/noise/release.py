"""The noise of a release: the interface that every kind of noise has.

A solution has one `Release`. The kinds are: a Gaussian mechanism as a factorisation
(`solvers.noise.factorisation`), noise on each block of a workload on orbits
(`solvers.forms.orbits.orbit_noise`), a Kronecker product of such noises (`solvers.noise.product`),
independent numbers that need not be Gaussian (`solvers.noise.independent`), errors measured on
data (`solvers.mechanisms.dawa`), and a noise matrix on a query graph
(`solvers.noise.noise_matrix`).
"""

from abc import ABC, abstractmethod
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from solvers.errors import NotApplicableError
from solvers.privacy.budget import BudgetCurve, GaussianBudget
from workloads.operators import Array, Matrix, readable
from workloads.workload import LARGEST_LISTED

LARGEST_EXPANDED = 4096
"""Largest size of a mechanism that is written out: cells or queries, or a product's rank."""


class Coordinates(Protocol):
    """Gaussian noise described as correlated noise on the queries of a basis: W = L B.

    Definition 3 of arXiv v1. Every basis represents the same mechanism (Theorem 2 there); this one
    is the basis in which the mechanism is usually described.
    """

    @property
    def basis(self) -> Array:
        """B: the queries that the noise is added to, shape (k, d)."""

    @property
    def representation(self) -> Matrix:
        """L, dense or CSR, shape (m, k)."""

    @property
    def covariance(self) -> Array:
        """Covariance of the noise on Bx, shape (k, k)."""


class Release(ABC):
    """The noise of a mechanism; noise that has a scale is scaled to just meet the targets.

    By default a release is not Gaussian: it has no privacy cost, profile or coordinates.
    """

    gaussian: bool = False
    """Whether every error is normal."""

    @property
    def squared_privacy_cost(self) -> float:
        """Δ²; NaN if the noise has no privacy cost."""
        return float("nan")

    @property
    @abstractmethod
    def query_variances(self) -> Array:
        """Variance of every error that `draw` returns, shape (m,)."""

    @property
    def total_variance(self) -> float:
        """Sum of the query variances; NaN if the sum has no meaning."""
        return float(self.query_variances.sum())

    @property
    def privacy_profile(self) -> Array | None:
        """Squared personal privacy cost of every domain cell, shape (d,); None if there is none."""
        return None

    @property
    def coordinates(self) -> Coordinates | None:
        """The noise as correlated Gaussian noise on a basis of queries; None if not Gaussian."""
        return None

    if TYPE_CHECKING:  # at run time, dataclasses would take it for the default of their field

        @property
        def curve(self) -> BudgetCurve:
            """Variance ratio and least ε at any budget."""

    @property
    def moments(self) -> tuple[Array | float, Array | float]:
        """Standardised fourth and sixth moments of the errors, two arrays (m,) or numbers.

        NaN if errors cannot be drawn.
        """
        return float("nan"), float("nan")

    @abstractmethod
    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """Draw n vectors of errors, shape (n, m)."""

    def record(self) -> dict[str, Any]:
        """The numbers that a sweep stores, by variable name, and the fields of the ``curve``."""
        return {"total_variance": self.total_variance, "curve": asdict(self.curve)}

    def arrays(self) -> dict[str, Array]:
        """The arrays that a sweep stores on request, by variable name."""
        return {"query_variances": self.query_variances}


class GaussianRelease(Release):
    """A release of normal errors; most numbers follow from its cost, variances and profile."""

    gaussian = True

    @property
    def moments(self) -> tuple[Array | float, Array | float]:
        """Standardised fourth and sixth moments of the normal distribution: 3 and 15."""
        return 3.0, 15.0

    @property
    @abstractmethod
    def fisher_information(self) -> float:
        """Trace of the Fisher information about x when the targets are just met."""

    @property
    def fits(self) -> bool:
        """Whether the covariance of the noise can be written out."""
        return True

    @property
    def curve(self) -> GaussianBudget:
        """The budget curve, which follows from the privacy cost alone."""
        return GaussianBudget(self.squared_privacy_cost)

    def record(self) -> dict[str, Any]:
        """Privacy cost, total variance and Fisher information."""
        return {
            "squared_privacy_cost": self.squared_privacy_cost,
            "total_variance": self.total_variance,
            "fisher_information": self.fisher_information,
        }

    def arrays(self) -> dict[str, Array]:
        """Variances and profile, and the covariance if it fits."""
        profile, coordinates = self.privacy_profile, self.coordinates if self.fits else None
        assert profile is not None
        arrays = {"query_variances": self.query_variances, "privacy_profile": profile}
        return arrays | ({} if coordinates is None else {"covariance": coordinates.covariance})


def refuse_unlisted(queries: int) -> None:
    """Raise NotApplicableError if there are too many queries to draw the error of each."""
    if queries > LARGEST_LISTED:
        raise NotApplicableError(
            f"simulate: {readable(queries)} queries are too many to draw the error of each (at "
            f"most {LARGEST_LISTED}); leave simulate out, or ask for fewer queries"
        )
