"""The (ε, δ) curve of independent noise on many queries, by its privacy loss distribution.

Where the answers move by shifts s_1, ..., s_k the privacy loss is a sum of independent losses,
one for each query, and δ(ε) = E max(0, 1 - exp(ε - loss)). On a grid the distribution of the sum
is a product of Fourier transforms. How that is a certificate: `solvers.accounting.convolution`.

Noise of either kind is symmetric, so that adding and removing a record lose alike.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import scipy

from solvers.accounting.convolution import (
    GEOMETRIC,
    Column,
    chernoff,
    law_of,
    least_epsilon,
    merged,
    spread,
    total,
)

_LARGEST_GRID = 2**17
_GOOD_BRACKET = 2e-4
_LEAP = 0.05
_FARTHEST_LEAP = 200.0
_ROOT_ERROR = 1e-9


@dataclass(frozen=True)
class Bracket:
    """A number between certified bounds; only the upper one is a guarantee of privacy."""

    lower: float
    upper: float


@dataclass(frozen=True)
class Moves:
    """How far the worst neighbours move the answers.

    Attributes
    ----------
    noise : {"geometric", "laplace"}
        The distribution of the noise on every query.
    quantum : float
        What the shifts are counted in: steps of the noise.
    most : tuple of Column
        Every neighbour moves the answers by no more than one of these.
    least : tuple of Column
        Each of these is no more than what some neighbours move.
    crowded : bool
        Whether ``most`` are so many that the upper bound is by exponential moments, not by
        convolution: some per cent above the least ε.
    """

    noise: str
    quantum: float
    most: tuple[Column, ...]
    least: tuple[Column, ...]
    crowded: bool = False

    @property
    def largest_sum(self) -> float:
        """The largest sum of the shifts of a column, in steps of the noise."""
        return self.quantum * max(total(column) for column in self.most)

    def epsilon(self, step: float, delta: float) -> Bracket:
        """Least ε at this δ, of noise whose one step costs ``step`` at δ = 0.

        Parameters
        ----------
        step : float
            ε > 0 of one step.
        delta : float
            δ in (0, 1).
        """
        loss = self.quantum * step
        found = _bracket(self, loss, delta, self._refinement(loss, delta))
        return Bracket(found.lower, min(found.upper, self.largest_sum * step))

    def largest_epsilon(self, step: float, delta: float) -> float:
        """The upper end of `epsilon` alone."""
        loss = self.quantum * step
        return _upper(self, loss, delta, self._refinement(loss, delta))

    def step(self, epsilon: float, delta: float) -> float:
        """The largest ε of one step with which the noise is (ε, δ)-private, by the upper bound.

        Parameters
        ----------
        epsilon : float
            ε > 0.
        delta : float
            δ in (0, 1).
        """
        return _step(self, epsilon, delta)

    def content(self) -> dict[str, Any]:
        """What `from_content` restores them from, JSON-like."""
        return {
            "noise": self.noise,
            "quantum": self.quantum,
            "most": [[list(pair) for pair in column] for column in self.most],
            "least": [[list(pair) for pair in column] for column in self.least],
            "crowded": self.crowded,
        }

    @classmethod
    def from_content(cls, content: Mapping[str, Any]) -> "Moves":
        """The moves that made this content."""
        most, least = (
            tuple(tuple((int(s), int(n)) for s, n in column) for column in content[side])
            for side in ("most", "least")
        )
        quantum, crowded = float(content["quantum"]), bool(content["crowded"])
        return cls(str(content["noise"]), quantum, most, least, crowded)

    def _refinement(self, loss: float, delta: float) -> int:
        """What losses of one digit need, the nearest and the next above: for less, ε may be 0."""
        digit = 10.0 ** np.floor(np.log10(loss))
        near, above = float(f"{loss:.1g}"), float(f"{np.ceil(loss / digit) * digit:.1g}")
        return max(_refinement(self, rounded, delta) for rounded in {near, above})


@lru_cache(maxsize=4096)
def _step(moves: Moves, epsilon: float, delta: float) -> float:
    """Where the upper bound crosses ε, from below."""
    safe = float(np.log(epsilon / moves.largest_sum))
    low = _chernoff_step(moves, epsilon, delta, safe)
    refinement = moves._refinement(moves.quantum * float(np.exp(low)), delta)

    def excess(log_step: float) -> float:
        upper = _upper(moves, moves.quantum * float(np.exp(log_step)), delta, refinement)
        return float(np.log(max(upper, 1e-300) / epsilon))

    if low > safe and excess(low) > 0:
        low = safe
    high = low + _LEAP
    while excess(high) <= 0:
        low, high = high, high + 2 * (high - low)
        if high > safe + _FARTHEST_LEAP:
            return float(np.exp(low))
    if excess(low) >= 0:
        return float(np.exp(safe))
    root = float(scipy.optimize.brentq(excess, low, high, xtol=_ROOT_ERROR / 4, rtol=1e-15))
    return float(np.exp(max(root - _ROOT_ERROR, safe)))


def _chernoff_step(moves: Moves, epsilon: float, delta: float, safe: float) -> float:
    """Log of a step that the bound by exponential moments admits, at least the safe one."""

    def excess(log_step: float) -> float:
        loss = moves.quantum * float(np.exp(log_step))
        return _by_moments(moves, loss, delta) - epsilon

    low = high = safe
    while excess(high) <= 0:
        low, high = high, high + 0.5
        if high > safe + _FARTHEST_LEAP:
            break
    return float(scipy.optimize.brentq(excess, low, high, xtol=1e-3)) - 1e-3 if low < high else safe


@lru_cache(maxsize=4096)
def _refinement(moves: Moves, loss: float, delta: float) -> int:
    """Grid steps per quantum: as many as the bracket needs, while the grid stays small.

    One where the shifts themselves are rounded to quanta.
    """
    if moves.noise == GEOMETRIC or moves.most != moves.least:
        return 1
    largest = max(total(column) for column in moves.most)
    refinement = 1
    while 2 * largest * refinement < _LARGEST_GRID // 4:
        found = _bracket(moves, loss, delta, refinement)
        if found.upper - found.lower <= _GOOD_BRACKET * found.upper:
            break
        refinement *= 2
    return refinement


def _bracket(moves: Moves, loss: float, delta: float, refinement: int) -> Bracket:
    upper = _upper(moves, loss, delta, refinement)
    law, step = law_of(moves.noise, merged, loss, refinement)
    lower = max(least_epsilon(moves.noise, c, loss, delta, law, step, -1) for c in moves.least)
    return Bracket(min(lower, upper), upper)


def _upper(moves: Moves, loss: float, delta: float, refinement: int) -> float:
    if moves.crowded:
        return _by_moments(moves, loss, delta)
    law, step = law_of(moves.noise, spread, loss, refinement)
    return max(least_epsilon(moves.noise, c, loss, delta, law, step, 1) for c in moves.most)


def _by_moments(moves: Moves, loss: float, delta: float) -> float:
    return max(chernoff(moves.noise, column, loss, delta)[1] for column in moves.most)
