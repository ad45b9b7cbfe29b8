"""Duals of targets so far from 1 that squares are beyond floats: solved in units of the targets."""

from dataclasses import replace
from math import log

from solvers.optimiser import Progress
from solvers.optimiser.program import AnyPoint
from workloads.operators import Array

_FAR = log(1e60)


def unit_of(logs: Array) -> float:
    """A power of four near the middle of numbers, given their logarithms; 1 up to 1e60."""
    middle = float(logs.max() + logs.min()) / 2
    return 1.0 if abs(middle) <= _FAR else 4.0 ** round(middle / log(4))


def scaled(result: Progress[AnyPoint], factor: float) -> Progress[AnyPoint]:
    """A result in other units of its objective; its points keep theirs, which no noise needs."""
    return replace(
        result,
        lower=result.lower * factor,
        upper=result.upper * factor,
        trace=result.trace.scaled(factor),
    )
