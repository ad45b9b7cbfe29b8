"""Backtracking: ever shorter steps until one is accepted, or decreases an objective enough."""

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
        accepted = attempt(length)
        if accepted is not None:
            return accepted, trials
        length *= shrink
    return None, trials


def sufficient_decrease(
    along: Callable[[float], Accepted | None],
    value: Callable[[Accepted], float],
    before: float,
    slope: float,
    *,
    sufficient: float,
    shrink: float = 0.5,
    least: float,
) -> Accepted | None:
    """The first point of the lengths ``1, shrink, shrink**2, ...`` that decreases enough.

    Parameters
    ----------
    along : callable
        The point after a step of this length; None outside the domain.
    value : callable
        The objective of a point.
    before : float
        What a point is compared with: the objective where the step starts, as a rule.
    slope : float
        The objective's derivative along the step; only a negative one leads anywhere.
    sufficient : float
        The share of ``length * slope`` by which the objective has to decrease (Armijo's rule).
    shrink, least : float
        As of `backtrack`.

    Returns
    -------
    object or None
        None where no step does.
    """

    def attempt(length: float) -> Accepted | None:
        moved = along(length)
        if moved is None or not value(moved) <= before + sufficient * length * slope:
            return None
        return moved

    if not slope < 0:
        return None
    return backtrack(attempt, 1.0, shrink=shrink, least=least)[0]
