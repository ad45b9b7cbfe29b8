"""Derived numbers of the dataset: ratios, gaps and budgets, one column at a time."""

import json
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from solvers import privacy
from solvers.accounting import budget
from sweep.dataset.positions import Column, Positions
from sweep.store.keys import Rows
from sweep.store.ledger import Ledger
from sweep.store.records import Status

Float = NDArray[np.float64]

_OF_THE_RECORD = ("runtime_s", "cpu_s", "peak_memory_bytes")
_DERIVED = (
    "squared_privacy_cost",
    "privacy_cost",
    "variance_ratio",
    "lower_bound",
    "gap",
    "total_variance",
    "total_variance_at_unit_cost",
    "total_variance_ratio",
)
_REPORTED = ("iterations", "converged")


def columns(positions: Positions, ledger: Ledger) -> dict[str, Column]:
    """Every variable that has one number for each cell, NaN where there is none.

    Query graphs are solved at one ε and have no privacy cost, so they get only the numbers that
    their solutions report.

    Returns
    -------
    dict of str to numpy.ndarray, shape (number of cells,)
    """
    rows = ledger.rows(positions.ids)
    found = {} if positions.kind == "graph" else _compared(positions, ledger, rows)
    extra = sorted({*ledger.reported(rows)} - {*_DERIVED, *_REPORTED})
    for name in (*_REPORTED, *extra, *_OF_THE_RECORD):
        found[name] = ledger.numbers(name, rows)
    return found


def _compared(positions: Positions, ledger: Ledger, rows: Rows) -> dict[str, Column]:
    """Privacy costs, compared with the reference, the lower bound and CA.

    Against a reference or a CA that timed out the comparison would mean nothing: NaN.
    """
    cost = ledger.numbers("squared_privacy_cost", rows)
    total = ledger.numbers("total_variance", rows)
    problems, number = positions.problems
    bound = np.array([ledger.bounds.get(problem, np.nan) for problem in problems])[number]
    finished = ledger.statuses(rows) == Status.OK
    ratio = cost / partner(np.where(finished, cost, np.nan), positions.reference_cells)
    at_cost = total * cost
    return {
        "squared_privacy_cost": cost,
        "privacy_cost": np.sqrt(cost),
        "variance_ratio": ratio,
        "lower_bound": bound,
        "gap": np.maximum(cost / bound - 1.0, 0.0),
        "total_variance": total * ratio,
        "total_variance_at_unit_cost": at_cost,
        "total_variance_ratio": at_cost
        / partner(np.where(finished, at_cost, np.nan), positions.baseline_cells),
    }


def epsilon_at_targets(
    positions: Positions, ledger: Ledger, cost: Float, delta: Sequence[float]
) -> Float:
    """Least ε at which all targets are met, shape (number of cells, number of deltas)."""
    deltas = np.asarray(delta, dtype=np.float64)
    values, inverse = np.unique(cost, return_inverse=True)
    found: Float = privacy.epsilon(np.sqrt(values)[:, None], deltas)[inverse]
    for numbers, curve in _curves(positions, ledger):
        found[numbers] = curve.epsilon_at_targets(deltas)
    return found


def delta_at_targets(cost: Float, epsilon: Sequence[float]) -> Float:
    """Least δ at which all targets are met, shape (number of cells, number of epsilons).

    Of Gaussian mechanisms, by their privacy cost alone; NaN for the others.
    """
    found = np.full((cost.size, len(epsilon)), np.nan)
    known = np.isfinite(cost)
    found[known] = privacy.delta(np.sqrt(cost[known])[:, None], np.asarray(epsilon))
    return found


def variance_ratio_at_budget(
    positions: Positions,
    ledger: Ledger,
    cost: Float,
    epsilon: Sequence[float],
    delta: Sequence[float],
) -> Float:
    """Largest variance ratio at (ε, δ), shape (number of cells, epsilons, deltas)."""
    budgets = np.asarray(epsilon, dtype=np.float64)[:, None]
    deltas = np.asarray(delta, dtype=np.float64)
    allowed = np.square(privacy.privacy_cost(budgets, deltas))
    found: Float = cost[:, None, None] / allowed
    for numbers, curve in _curves(positions, ledger):
        found[numbers] = curve.variance_ratio_at_budget(budgets, deltas)
    return found


def average_squared_error_at_budget(positions: Positions, ledger: Ledger, ratio: Float) -> Float:
    """Mean variance of the queries at (ε, δ), of the shape of ``ratio``, the variance ratio there.

    All variances of a mechanism grow together from those at which its targets are just met.
    """
    rows = ledger.rows(positions.ids)
    mean = ledger.numbers("total_variance", rows) / ledger.numbers("query_count", rows)
    return np.asarray(mean[:, None, None] * ratio)


def variance_ratio_at_pure_budget(
    positions: Positions, ledger: Ledger, epsilon: Sequence[float]
) -> Float | None:
    """Largest variance ratio at (ε, 0), shape (number of cells, epsilons).

    NaN where the noise is Gaussian; None where all is.
    """
    curves = _curves(positions, ledger)
    found = np.full((len(positions.ids), len(epsilon)), np.nan)
    for numbers, curve in curves:
        found[numbers] = curve.variance_ratio_at_budget(np.asarray(epsilon, np.float64), 0.0)
    return found if curves else None


def partner(column: Float, numbers: NDArray[np.int64]) -> Float:
    """The column's value at every cell's partner, NaN where it has none."""
    return np.where(numbers < 0, np.nan, column[numbers]) if column.size else column


def _curves(
    positions: Positions, ledger: Ledger
) -> list[tuple[NDArray[np.int64], budget.BudgetCurve]]:
    """The cells whose budget is not the Gaussian closed form, by their curve."""
    at, curves = ledger.texts("curve", ledger.rows(positions.ids))
    return [
        (np.flatnonzero(at == number), budget.from_record(json.loads(curves[number])))
        for number in np.unique(at)
        if number >= 0 and curves[number]
    ]
