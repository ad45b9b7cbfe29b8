"""The content of advice: numbers and names, not sentences."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import scipy

from workloads.operators import Array

Outcome = Literal["ok", "stopped", "not applicable", "failed"]

FREE_BELOW = 1e-4
"""A target of a smaller elasticity costs nothing that matters."""


@dataclass(frozen=True)
class Candidate:
    """One mechanism, tried on the queries and targets.

    Attributes
    ----------
    outcome : {"ok", "stopped", "not applicable", "failed"}
        How the solve ended; ``stopped`` before its own rule was reached, with an answer that
        meets all targets.
    reason : str
        Why it did not end well; empty if it did.
    seconds : float
        That the solve took.
    squared_privacy_cost : float
        Δ² at the targets; NaN where the noise has none.
    epsilon : float
        Least ε at which it meets all targets, at the advice's δ; NaN without an answer, infinite
        where no ε is enough. Of noise that is not Gaussian by its privacy loss distribution.
    pure_epsilon : float
        The same at δ = 0; infinite for Gaussian noise.
    excess : float
        Δ² over the certified lower bound on what any Gaussian mechanism needs, less 1; NaN
        without Δ² or bound.
    """

    mechanism: str
    summary: str
    outcome: Outcome
    reason: str = ""
    seconds: float = float("nan")
    squared_privacy_cost: float = float("nan")
    epsilon: float = float("nan")
    pure_epsilon: float = float("nan")
    excess: float = float("nan")

    @property
    def privacy_cost(self) -> float:
        """Δ."""
        return float(np.sqrt(self.squared_privacy_cost))


@dataclass(frozen=True)
class Price:
    """What a target costs.

    Attributes
    ----------
    label : str
        Of the query, or of the group of queries that one target was written for.
    queries : int
        How many there are in the group.
    target : float
        The smallest variance target among them.
    elasticity : float
        By how many per cent Δ² falls for each per cent that their targets are relaxed; those of
        all targets sum to 1.
    """

    label: str
    queries: int
    target: float
    elasticity: float

    @property
    def free(self) -> bool:
        """Whether its price is negligible: other targets make its queries accurate enough."""
        return self.elasticity < FREE_BELOW


@dataclass(frozen=True)
class Relaxation:
    """What relaxing the dearest targets saves: predicted by their prices, and solved for.

    Attributes
    ----------
    labels : tuple of str
        The targets that were relaxed.
    factor : float
        What their variances were multiplied by.
    predicted, actual : float
        Δ² over what it was.
    epsilon_before, epsilon_predicted, epsilon_actual : float
        The least ε at the targets as they are, and relaxed.
    """

    labels: tuple[str, ...]
    factor: float
    predicted: float
    actual: float
    epsilon_before: float
    epsilon_predicted: float
    epsilon_actual: float


@dataclass(frozen=True, eq=False)
class Answers:
    """How accurate every answer is by the recommended mechanism, the targets just met.

    Attributes
    ----------
    targets, variances : numpy.ndarray, shape (m,)
        The largest variance that was asked for, and the variance of the answer.
    confidences : numpy.ndarray, shape (m,)
        Of the confidence intervals.
    """

    labels: tuple[str, ...]
    targets: Array
    variances: Array
    confidences: Array

    @property
    def standard_errors(self) -> Array:
        """Of the answers."""
        return np.sqrt(self.variances)

    @property
    def half_widths(self) -> Array:
        """Half the width of every confidence interval: the margin of error."""
        return self._quantiles * np.sqrt(self.variances)

    @property
    def margins(self) -> Array:
        """The margin of error that each target amounts to."""
        return self._quantiles * np.sqrt(self.targets)

    @property
    def _quantiles(self) -> Array:
        return np.asarray(scipy.special.ndtri(0.5 + self.confidences / 2))


@dataclass(frozen=True)
class FreeAnswer:
    """A further query that costs no privacy.

    Attributes
    ----------
    standard_error : float
        Of its best answer.
    derived : bool
        Whether the answers that are there already give it, without any new noise.
    """

    label: str
    standard_error: float
    derived: bool


@dataclass(frozen=True)
class Budget:
    """What a given budget allows.

    Attributes
    ----------
    variance_ratio : float
        What all variances are multiplied by to keep to it; at most 1 if all targets are met.
    """

    epsilon: float
    variance_ratio: float


@dataclass(frozen=True, eq=False)
class Advice:
    """What queries with targets cost, and why.

    Attributes
    ----------
    delta : float
        δ of all ε.
    neighbours : str
        Which data are to be indistinguishable: they differ by this.
    candidates : tuple of Candidate
        Every mechanism on query matrices, by ε, those without one last.
    recommended : Candidate
        The Gaussian mechanism of least ε.
    lower_bound : float
        Certified: no Gaussian mechanism meets the targets with a smaller Δ².
    answers : Answers
        By the recommended mechanism.
    prices : tuple of Price
        By elasticity, the dearest first; empty where no mechanism brought dual weights.
    relaxation : Relaxation, optional
        Of the dearest targets; None without prices.
    """

    queries: int
    cells: int
    delta: float
    neighbours: str
    candidates: tuple[Candidate, ...]
    recommended: Candidate
    lower_bound: float
    answers: Answers = field(repr=False)
    prices: tuple[Price, ...] = field(repr=False)
    relaxation: Relaxation | None
    free: tuple[FreeAnswer, ...] = field(repr=False)
    budget: Budget | None

    @property
    def pure(self) -> Candidate | None:
        """The mechanism of pure ε that needs the least, if it is less than recommended."""
        finite = (candidate for candidate in self.candidates if np.isfinite(candidate.pure_epsilon))
        best = min(finite, key=lambda candidate: candidate.epsilon, default=None)
        return best if best and best.epsilon < self.recommended.epsilon else None
