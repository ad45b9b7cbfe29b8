"""The numbers of a dataset, one column at a time: costs, ratios, gaps and budgets."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import solvers
from solvers import privacy
from solvers.privacy import budget
from sweep.experiment.schema import Experiment
from sweep.grid.cells import Cell
from sweep.grid.grids import Grid
from sweep.store.keys import Rows, texts
from sweep.store.ledger import Ledger
from sweep.store.records import Status

Column = NDArray[Any]
"""One value for every cell of a grid, in the order of the cells."""
Float = NDArray[np.float64]
Make = Callable[[], Column]

_AT_ONCE = 2**16

_OF_THE_RECORD = ("runtime_s", "cpu_s", "peak_memory_bytes")
_REPORTED = ("iterations", "converged")


@dataclass(frozen=True, eq=False)
class Table:
    """The cells of a grid of an experiment with their results."""

    grid: Grid
    ledger: Ledger
    experiment: Experiment

    @cached_property
    def rows(self) -> Rows:
        """Every cell's row in the ledger."""
        return self.ledger.rows(self.grid.cells.ids)

    @cached_property
    def _recorded(self) -> Callable[[str], Float]:
        """A function that returns every cell's recorded number of a name."""
        return partial(self.ledger.numbers, rows=self.rows)

    def numbers(self) -> dict[str, Make]:
        """Every variable with one number for each cell; NaN if a cell has none.

        Query graphs are solved at one ε and have no privacy cost, so they get only the numbers that
        their solutions report.
        """
        compared = self._compared()
        extra = sorted({*self.ledger.reported(self.rows)} - {*compared, *_REPORTED})
        recorded = (*_REPORTED, *extra, *_OF_THE_RECORD)
        is_graph = self.grid.cells[0].kind == "graph"
        return ({} if is_graph else compared) | {
            name: partial(self._recorded, name) for name in recorded
        }

    def over_budgets(self) -> dict[str, Make]:
        """The variables over ε and δ: one row for every cell, then an axis for each of ε and δ."""
        epsilon = np.asarray(self.experiment.epsilon, dtype=np.float64)[:, None]
        delta = np.asarray(self.experiment.delta, dtype=np.float64)

        def exact() -> Float:
            """Largest squared privacy cost of Gaussian noise at (ε, δ)."""
            return np.asarray(np.square(privacy.privacy_cost(epsilon, delta)))

        def classical() -> Float:
            """The same cost by KDD'16's ε / sqrt(2 ln(2/δ)), which suffices for ε <= 1."""
            return np.asarray(np.square(epsilon) / (2 * np.log(2 / delta)))

        def ratio(squared_cost: Float) -> Float:
            ratios: Float = self._recorded("squared_privacy_cost")[:, None, None] / squared_cost
            for numbers, curve in self._curves:
                ratios[numbers] = curve.variance_ratio_at_budget(epsilon, delta)
            return ratios

        def error(squared_cost: Float) -> Float:
            """Mean variance at the budget; it grows by the same factor as every variance."""
            mean = self._recorded("total_variance") / self._recorded("query_count")
            return np.asarray(mean[:, None, None] * ratio(squared_cost))

        def pure_ratio() -> Float:
            ratios = np.full((len(self.rows), len(epsilon)), np.nan)
            for numbers, curve in self._curves:
                ratios[numbers] = curve.variance_ratio_at_budget(epsilon[:, 0], 0.0)
            return ratios

        makes: dict[str, Make] = {
            "epsilon_at_targets": self._epsilon_at_targets,
            "delta_at_targets": self._delta_at_targets,
            "variance_ratio_at_budget": lambda: ratio(exact()),
            "average_squared_error_at_budget": lambda: error(exact()),
            "average_squared_error_at_classical_budget": lambda: error(classical()),
        }
        return makes | ({"variance_ratio_at_pure_budget": pure_ratio} if self._curves else {})

    def _compared(self) -> dict[str, Make]:
        """Functions that compute privacy costs and total variances, and comparisons of them.

        They are compared with the reference, the lower bound and CA. Comparisons with a reference
        or CA that timed out would mean nothing, so they are NaN.
        """
        cost = partial(self._recorded, "squared_privacy_cost")
        total = partial(self._recorded, "total_variance")

        def against(column: Float, partners: Rows) -> Float:
            """Every cell's value divided by its partner's; NaN if it has no partner that is ok."""
            finished = (partners >= 0) & (self.ledger.statuses(self.rows) == Status.OK)[partners]
            return column / np.where(finished, column[partners], np.nan)

        def ratio() -> Float:
            reference = self._labelled(lambda cell: self.experiment.reference)
            return against(cost(), self._partners(reference))

        def bound() -> Float:
            keys, problem = self.grid.cells.problems
            return np.array([self.ledger.bounds.get(key, np.nan) for key in texts(keys)])[problem]

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
            "total_variance_ratio": lambda: against(at_cost(), self._baseline()),
        }

    def _baseline(self) -> Rows:
        """For every cell, the index of the least-total-error cell of its problem, or -1.

        A mechanism that is labelled with its own name takes precedence over one with another label.
        """
        known = solvers.all_mechanisms()

        def is_least(cell: Cell) -> bool:
            name = cell.mechanism.name
            return name in known and known[name].least_total_error

        least = self.grid.cells.by_family(is_least)
        own = self._partners(least & self._labelled(lambda cell: cell.mechanism.name))
        return np.where(own < 0, self._partners(least), own)

    def _labelled(self, label: Callable[[Cell], str]) -> NDArray[np.bool_]:
        """Mask of the cells that have this label along ``mechanism``."""
        return self.grid.cells.by_family(lambda cell: cell.coords.get("mechanism") == label(cell))

    def _partners(self, chosen: NDArray[np.bool_]) -> Rows:
        """For every cell, the index of its partner: the chosen cell to compare it with; -1 if none.

        The partner is the first chosen cell of the same problem and replicate, otherwise the first
        of the same problem, since a block may solve a problem once for all replicates.
        """
        problem, replicates = self.grid.cells.problems[1], self.grid.cells.replicate
        pairs = problem * (replicates.max(initial=0) + np.int64(1)) + replicates
        own = _first(chosen, np.unique(pairs, return_inverse=True)[1])
        return np.where(own < 0, _first(chosen, problem), own)

    @cached_property
    def _curves(self) -> list[tuple[NDArray[np.int64], budget.BudgetCurve]]:
        """Curves of cells without the Gaussian closed form, each after its cells' indices."""
        at, known = self.ledger.texts("curve", self.rows)
        return [
            (np.flatnonzero(at == number), budget.from_record(json.loads(known[number])))
            for number in np.unique(at)
            if known[number]
        ]

    def _epsilon_at_targets(self) -> Float:
        """Least ε at which all targets are met."""
        deltas = np.asarray(self.experiment.delta, dtype=np.float64)
        values, inverse = np.unique(self._recorded("squared_privacy_cost"), return_inverse=True)
        epsilons = _piecewise(lambda some: privacy.epsilon(np.sqrt(some)[:, None], deltas), values)[
            inverse
        ]
        for numbers, curve in self._curves:
            epsilons[numbers] = curve.epsilon_at_targets(deltas)
        return epsilons

    def _delta_at_targets(self) -> Float:
        """Least δ at which all targets are met, for Gaussian mechanisms; otherwise NaN."""
        cost, epsilon = self._recorded("squared_privacy_cost"), np.asarray(self.experiment.epsilon)
        deltas, known = np.full((cost.size, len(epsilon)), np.nan), np.isfinite(cost)
        deltas[known] = _piecewise(
            lambda some: privacy.delta(np.sqrt(some)[:, None], epsilon), cost[known]
        )
        return deltas


def _first(chosen: NDArray[np.bool_], of: NDArray[np.integer[Any]]) -> NDArray[np.int32]:
    """For every cell, the index of the first chosen cell of the same class (``of``), or -1."""
    first = np.full(of.max(initial=-1) + 1, -1, dtype=np.int32)
    numbers = np.flatnonzero(chosen)[::-1]
    first[of[numbers]] = numbers
    found: NDArray[np.int32] = first[of]
    return found


def _piecewise(function: Callable[[Float], Float], column: Float) -> Float:
    """``function(column)``, computed in parts, since it takes many times the column's memory."""
    parts = range(0, max(len(column), 1), _AT_ONCE)
    return np.concatenate([function(column[start : start + _AT_ONCE]) for start in parts])
