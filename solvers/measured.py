"""Errors that were measured on data at one budget: a `solvers.release.Release`."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from solvers.accounting.budget import MeasuredBudget
from solvers.errors import NotApplicableError
from workloads.operators import Array


@dataclass(frozen=True, eq=False)
class MeasuredError:
    """The mean squared error of every query on some data at some ε.

    It is no noise with a scale, so `query_variances` are the errors divided by the largest ratio
    to a target: multiplied by the ratio at the budget they are the errors again.

    Attributes
    ----------
    errors : numpy.ndarray, shape (m,)
        Mean squared errors at ε.
    curve : MeasuredBudget
        Where they were measured.
    """

    errors: Array
    curve: MeasuredBudget

    gaussian = False
    squared_privacy_cost = float("nan")
    privacy_profile = None
    coordinates = None

    @property
    def query_variances(self) -> Array:
        """In the proportion of the errors, the largest just at its target; shape (m,)."""
        return self.errors / self.curve.ratio

    @property
    def total_variance(self) -> float:
        """Sum of `query_variances`."""
        return float(self.query_variances.sum())

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """There are no errors to draw.

        Raises
        ------
        NotApplicableError
            Always.
        """
        raise NotApplicableError(
            "its errors depend on the data and are biased; no vector of errors is drawn from them"
        )

    def record(self) -> dict[str, Any]:
        """The total variance, and the content of the budget ``curve``."""
        return {"total_variance": self.total_variance, "curve": self.curve.content()}

    def arrays(self) -> dict[str, Array]:
        """The variances."""
        return {"query_variances": self.query_variances}
