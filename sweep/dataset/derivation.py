"""Derived numbers of the dataset: ratios, gaps and budgets, one column at a time."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import solvers
from solvers import privacy
from solvers.privacy import budget
from sweep.experiment.canonical import Scalar
from sweep.grid.cells import Cell
from sweep.grid.grids import Grid, positions_of
from sweep.store.keys import Keys, Rows, texts
from sweep.store.ledger import Ledger
from sweep.store.records import Status
from workloads.family import Kind

Column = NDArray[Any]
"""One value for every cell of a grid, in the order of its cells."""
Float = NDArray[np.float64]
Make = Callable[[], Column]
Curve = tuple[NDArray[np.int64], budget.BudgetCurve]
"""Some cells, by number, and how their noise is scaled to a budget."""

_AT_ONCE = 2**16

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


@dataclass(frozen=True, eq=False)
class Positions:
    """The positions of a grid's cells, each kind computed when it is first asked for.

    ``reference`` is the label of the mechanism that the variance ratios refer to.
    """

    grid: Grid
    reference: str

    @property
    def dimensions(self) -> tuple[str, ...]:
        """The names of the axes."""
        return tuple(axis.name for axis in self.grid.axes)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes."""
        return tuple(len(axis.values) for axis in self.grid.axes)

    @property
    def kind(self) -> Kind:
        """The kind of its workloads, by that of its first cell."""
        return self.grid.cells[0].workload.kind

    @property
    def names(self) -> frozenset[str]:
        """The names of all coordinates."""
        companions = (name for axis in self.grid.axes for name in axis.companions)
        return frozenset((*self.dimensions, *companions, *self.grid.scalars))

    @cached_property
    def coordinates(self) -> dict[str, tuple[tuple[str, ...], Column]]:
        """Dimensions and values of every coordinate."""
        coords: dict[str, tuple[tuple[str, ...], Column]] = {}
        for axis in self.grid.axes:
            coords[axis.name] = ((axis.name,), labels(axis.values))
            for name, values in axis.companions.items():
                coords[name] = ((axis.name,), labels(values))
        for name, value in self.grid.scalars.items():
            coords[name] = ((), labels([value]).reshape(()))
        return coords

    @property
    def ids(self) -> Keys:
        """Every cell's id."""
        return self.grid.cells.ids

    @cached_property
    def problems(self) -> tuple[list[str], NDArray[np.int32]]:
        """The keys of all problems, and the place of every cell's among them."""
        keys, number = self.grid.cells.problems
        return texts(keys), number

    @cached_property
    def reference_cells(self) -> NDArray[np.int32]:
        """For every cell, the number of the reference mechanism's cell of its problem, or -1."""
        return self._partner(self._labelled(lambda cell: self.reference))

    @cached_property
    def baseline_cells(self) -> NDArray[np.int32]:
        """For every cell, the number of the cell of least total error of its problem, or -1.

        A mechanism under its own name comes before one with options under another label.
        """
        known = solvers.all_mechanisms()
        least = self.grid.cells.by_family(
            lambda cell: (
                cell.mechanism.name in known and known[cell.mechanism.name].least_total_error
            )
        )
        own = self._labelled(lambda cell: cell.mechanism.name)
        return np.where((found := self._partner(least & own)) < 0, self._partner(least), found)

    def _labelled(self, label: Callable[[Cell], str]) -> NDArray[np.bool_]:
        """Which cells bear this label along ``mechanism``."""
        return self.grid.cells.by_family(lambda cell: cell.coords.get("mechanism") == label(cell))

    def scattered(self, column: Column, fill: Any) -> Column:
        """The column on the grid's axes, trailing dimensions kept; ``fill`` where there is none."""
        if self._positions is None:
            return column.reshape(*self.shape, *column.shape[1:])
        flat = np.full((math.prod(self.shape), *column.shape[1:]), fill, dtype=column.dtype)
        flat[self._positions] = column
        return flat.reshape(*self.shape, *column.shape[1:])

    @cached_property
    def _positions(self) -> NDArray[np.int64] | None:
        """The place of every cell on the grid; None if they are all there, one after the other."""
        positions = positions_of(self.grid.cells, self.grid.axes)
        full = np.arange(math.prod(self.shape)) if len(positions) == math.prod(self.shape) else ()
        return None if np.array_equal(positions, full) else positions

    @cached_property
    def _compared_by(self) -> NDArray[np.int64]:
        """Equal for cells that may be compared: of one problem and one replicate."""
        replicates = self.grid.cells.replicate
        pairs = self.problems[1] * (replicates.max(initial=0) + np.int64(1)) + replicates
        return np.unique(pairs, return_inverse=True)[1]

    def _partner(self, chosen: NDArray[np.bool_]) -> NDArray[np.int32]:
        """For every cell, the number of the first chosen one that it is compared with, or -1.

        Of its own replicate, or else of its problem: a block may solve that once.
        """
        own = _first(chosen, self._compared_by)
        return np.where(own < 0, _first(chosen, self.problems[1]), own)


def _first(chosen: NDArray[np.bool_], of: NDArray[np.integer[Any]]) -> NDArray[np.int32]:
    """For every cell, the number of the first chosen one of the same class, or -1."""
    first = np.full(of.max(initial=-1) + 1, -1, dtype=np.int32)
    numbers = np.flatnonzero(chosen)[::-1]
    first[of[numbers]] = numbers
    found: NDArray[np.int32] = first[of]
    return found


def labels(values: Sequence[Scalar]) -> Column:
    """The values as a coordinate: numbers of one type, or texts."""
    if isinstance(values, range):
        return np.arange(values.start, values.stop)
    kinds = {type(value) for value in values}
    if kinds <= {int, float} or kinds == {bool}:
        labels = np.array(values)
        if labels.dtype != object:
            return labels
    return np.array([str(value) for value in values], dtype=np.str_)


def columns(positions: Positions, ledger: Ledger) -> dict[str, Make]:
    """Every variable that has one number for each cell, NaN where there is none.

    Query graphs are solved at one ε and have no privacy cost, so they get only the numbers that
    their solutions report.
    """
    rows = ledger.rows(positions.ids)
    columns = {} if positions.kind == "graph" else _compared(positions, ledger, rows)
    extra = sorted({*ledger.reported(rows)} - {*_DERIVED, *_REPORTED})
    for name in (*_REPORTED, *extra, *_OF_THE_RECORD):
        columns[name] = partial(ledger.numbers, name, rows)
    return columns


def _compared(positions: Positions, ledger: Ledger, rows: Rows) -> dict[str, Make]:
    """Privacy costs, compared with the reference, the lower bound and CA.

    Against a reference or a CA that timed out the comparison would mean nothing: NaN.
    """
    cost = partial(ledger.numbers, "squared_privacy_cost", rows)
    total = partial(ledger.numbers, "total_variance", rows)

    def finished(column: Float) -> Float:
        return np.where(ledger.statuses(rows) == Status.OK, column, np.nan)

    def ratio() -> Float:
        return cost() / partner(finished(cost()), positions.reference_cells)

    def bound() -> Float:
        problems, number = positions.problems
        return np.array([ledger.bounds.get(problem, np.nan) for problem in problems])[number]

    def at_cost() -> Float:
        return total() * cost()

    return {
        "squared_privacy_cost": cost,
        "privacy_cost": lambda: np.sqrt(cost()),
        "variance_ratio": ratio,
        "lower_bound": bound,
        "gap": lambda: np.maximum(cost() / bound() - 1.0, 0.0),
        "total_variance": lambda: total() * ratio(),
        "total_variance_at_unit_cost": at_cost,
        "total_variance_ratio": lambda: (
            at_cost() / partner(finished(at_cost()), positions.baseline_cells)
        ),
    }


def epsilon_at_targets(cost: Float, delta: Sequence[float], curves: Sequence[Curve]) -> Float:
    """Least ε at which all targets are met, shape (number of cells, number of deltas)."""
    deltas = np.asarray(delta, dtype=np.float64)
    values, inverse = np.unique(cost, return_inverse=True)
    epsilons = _piecewise(lambda some: privacy.epsilon(np.sqrt(some)[:, None], deltas), values)
    epsilons = epsilons[inverse]
    for numbers, curve in curves:
        epsilons[numbers] = curve.epsilon_at_targets(deltas)
    return epsilons


def delta_at_targets(cost: Float, epsilon: Sequence[float]) -> Float:
    """Least δ at which all targets are met, shape (number of cells, number of epsilons).

    Of Gaussian mechanisms, by their privacy cost alone; NaN for the others.
    """
    budgets, known = np.asarray(epsilon), np.isfinite(cost)
    deltas = np.full((cost.size, len(epsilon)), np.nan)
    deltas[known] = _piecewise(
        lambda some: privacy.delta(np.sqrt(some)[:, None], budgets), cost[known]
    )
    return deltas


def exact_squared_cost(epsilon: Sequence[float], delta: Sequence[float]) -> Float:
    """Largest squared privacy cost of Gaussian noise at (ε, δ), shape (epsilons, deltas)."""
    budgets = np.asarray(epsilon, dtype=np.float64)[:, None]
    return np.asarray(np.square(privacy.privacy_cost(budgets, np.asarray(delta, np.float64))))


def classical_squared_cost(epsilon: Sequence[float], delta: Sequence[float]) -> Float:
    """The same by the sufficient condition for ε <= 1, a cost of ε / sqrt(2 ln(2/δ)) (KDD'16)."""
    budgets = np.asarray(epsilon, dtype=np.float64)[:, None]
    return np.asarray(np.square(budgets) / (2 * np.log(2 / np.asarray(delta, np.float64))))


def variance_ratio_at_budget(
    cost: Float,
    epsilon: Sequence[float],
    delta: Sequence[float],
    curves: Sequence[Curve],
    gaussian: Callable[[Sequence[float], Sequence[float]], Float] = exact_squared_cost,
) -> Float:
    """Largest variance ratio at (ε, δ), shape (number of cells, epsilons, deltas).

    ``gaussian`` is the squared privacy cost that a budget allows.
    """
    ratios: Float = cost[:, None, None] / gaussian(epsilon, delta)
    budgets = np.asarray(epsilon, dtype=np.float64)[:, None]
    deltas = np.asarray(delta, dtype=np.float64)
    for numbers, curve in curves:
        ratios[numbers] = curve.variance_ratio_at_budget(budgets, deltas)
    return ratios


def average_squared_error_at_budget(positions: Positions, ledger: Ledger, ratio: Float) -> Float:
    """Mean variance of the queries at (ε, δ), of the shape of ``ratio``, the variance ratio there.

    All variances of a mechanism grow together from those at which its targets are just met.
    """
    rows = ledger.rows(positions.ids)
    mean = ledger.numbers("total_variance", rows) / ledger.numbers("query_count", rows)
    return np.asarray(mean[:, None, None] * ratio)


def variance_ratio_at_pure_budget(
    positions: Positions, epsilon: Sequence[float], curves: Sequence[Curve]
) -> Float:
    """Largest variance ratio at (ε, 0), shape (number of cells, epsilons); NaN if Gaussian."""
    ratios = np.full((len(positions.ids), len(epsilon)), np.nan)
    for numbers, curve in curves:
        ratios[numbers] = curve.variance_ratio_at_budget(np.asarray(epsilon, np.float64), 0.0)
    return ratios


def partner(column: Float, numbers: NDArray[np.int32]) -> Float:
    """The column's value at every cell's partner, NaN where it has none."""
    return np.where(numbers < 0, np.nan, column[numbers]) if column.size else column


def curves(positions: Positions, ledger: Ledger) -> list[Curve]:
    """The cells whose budget is not the Gaussian closed form, by their curve."""
    at, known = ledger.texts("curve", ledger.rows(positions.ids))
    return [
        (np.flatnonzero(at == number), budget.from_record(json.loads(known[number])))
        for number in np.unique(at)
        if number >= 0 and known[number]
    ]


def _piecewise(function: Callable[[Float], Float], column: Float) -> Float:
    """A function of a column that takes many times its memory, on parts of it."""
    parts = range(0, max(len(column), 1), _AT_ONCE)
    return np.concatenate([function(column[start : start + _AT_ONCE]) for start in parts])
