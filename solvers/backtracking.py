"""Backtracking: ever shorter steps until one is accepted."""

from collections.abc import Callable
from typing import TypeVar

Accepted = TypeVar("Accepted")


def backtrack(
    attempt: Callable[[float], Accepted | None],
    length: float,
    *,
    shrink: float = 0.5,
    least: float,
) -> tuple[Accepted | None, int]:
    """The first of the lengths ``length, shrink * length, ...`` that is accepted.

    Parameters
    ----------
    attempt : callable
        What a step of this length leads to; None where it is refused.
    length : float
        The first step.
    shrink : float
        By how much it becomes shorter each time.
    least : float
        No step as short as this is tried.

    Returns
    -------
    tuple of (object or None, int)
        What the accepted step leads to, None without one, and how many were tried.
    """
    trials = 0
    while length > least:
        trials += 1
        found = attempt(length)
        if found is not None:
            return found, trials
        length *= shrink
    return None, trials
