"""What is left of a run, in core seconds, corrected by what was measured of it so far.

Plans err: by the machine's speed, by a mechanism's declared work, by the number of iterations.
Every solve that ends tells by how much, and what is left of its kind is expected to err alike.
"""

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

_REMEMBERED = 500
"""Latest measurements of a kind that count: long solves come first, so these are most alike."""
_UNTRIED, _UNTRIED_KIND, _OF_A_KIND = map(math.log, (3.0, 2.0, 1.5))
"""Standard deviations, in logarithms, where nothing was measured: of a whole plan; of a kind
against the others; of one solve against the others of its kind."""
_WORTH = 3.0
"""Number of measurements that the last of these counts for."""
_OUTLIER = 3.0
"""Measurements further out than this, in robust standard deviations, count as this far."""
_OF_NORMAL = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""
_EIGHTY_PERCENT = 1.2816
"""Half the width of the interval that holds 80 % of a normal distribution."""


@dataclass(frozen=True)
class Left:
    """What is expected to be left: in four of five runs at most ``spread`` times more or less."""

    core_s: float
    spread: float


@dataclass
class _Kind:
    """The work of one kind: what is left of it by plan, and what was measured."""

    items: int = 0
    seconds: float = 0.0
    squares: float = 0.0
    measured: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))


class Forecast:
    """Forecasts the rest of a run, kind by kind, given kind and planned seconds of every item."""

    def __init__(self, planned: Iterable[tuple[str, float]]) -> None:
        self._kinds: dict[str, _Kind] = {}
        for name, seconds in planned:
            kind = self._kinds.setdefault(name, _Kind())
            kind.items += 1
            kind.seconds += seconds
            kind.squares += seconds**2

    def done(self, name: str, items: int, planned_s: float, measured_s: float | None) -> None:
        """Take items of a kind off what is left; ``measured_s`` is None if it is not known."""
        kind = self._kinds.setdefault(name, _Kind())
        kind.items = max(kind.items - items, 0)
        kind.seconds = max(kind.seconds - planned_s, 0.0) if kind.items else 0.0
        kind.squares = max(kind.squares - planned_s**2 / items, 0.0)
        if measured_s and planned_s:
            kind.measured.append((planned_s, measured_s))

    @property
    def left(self) -> Left:
        """What is left."""
        everything = [ratio for kind in self._kinds.values() for ratio in kind.measured]
        if not everything:
            return Left(sum(kind.seconds for kind in self._kinds.values()), _spread(_UNTRIED))
        total = variance = 0.0
        for kind in self._kinds.values():
            if kind.items:
                ratio, deviation = _expected(kind, everything)
                total += kind.seconds * ratio
                variance += (kind.seconds * ratio * deviation) ** 2
        return Left(total, _spread(math.sqrt(math.log1p(variance / total**2)) if total else 0.0))

    @property
    def ratios(self) -> Mapping[str, float]:
        """Measured over planned seconds of every kind that was measured."""
        return {
            name: _ratio(kind.measured)[0] for name, kind in self._kinds.items() if kind.measured
        }


def _expected(kind: _Kind, everything: list[tuple[float, float]]) -> tuple[float, float]:
    """Measured over planned of what is left of a kind, and its relative standard deviation.

    That of the mean of as many as are left, and of the ratio itself, which so many have told.
    """
    if not kind.measured:
        ratio, deviation, _ = _ratio(everything)
        return ratio, max(deviation, _UNTRIED_KIND)
    ratio, deviation, count = _ratio(kind.measured)
    left = max(kind.seconds**2 / kind.squares, 1.0) if kind.squares else kind.items
    return ratio, deviation * math.sqrt(1.0 / count + 1.0 / left)


def _ratio(measured: Iterable[tuple[float, float]]) -> tuple[float, float, float]:
    """Measured over planned, its deviation from one to the next, and how many those count for.

    Large items weigh more, since they are what takes the time; outliers are drawn in, so that one
    solve that hangs does not count for all. A few say little of their deviation.
    """
    planned, took = np.array(list(measured)).T
    logs, weights = np.log(took / planned), planned / planned.sum()
    centre, count = _median(logs, weights), float(1.0 / (weights @ weights))
    seen = _OF_NORMAL * _median(np.abs(logs - centre), weights)
    deviation = math.sqrt((count * seen**2 + _WORTH * _OF_A_KIND**2) / (count + _WORTH))
    drawn_in = np.clip(logs, centre - _OUTLIER * deviation, centre + _OUTLIER * deviation)
    return float(weights @ np.exp(drawn_in)), deviation, count


def _median(values: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, 0.5 * reached[-1])])


def _spread(deviation: float) -> float:
    return math.exp(_EIGHTY_PERCENT * deviation)
