"""Computes the numeric variables of a dataset for cells of a grid, such as costs and gaps."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

import solvers
from solvers import privacy
from solvers.privacy import budget
from sweep.experiment.schema import Experiment
from sweep.grid.grids import Grid
from sweep.store.keys import Column, Rows, to_texts
from sweep.store.ledger import Ledger
from sweep.store.records import Status

Float = NDArray[np.float64]
Values = Callable[[Rows], Column]
"""A function that returns the values of some cells of a grid, given the cells' numbers."""

_OF_THE_RECORD = ("runtime_s", "cpu_s", "peak_memory_bytes")
_REPORTED = ("iterations", "converged")


@dataclass(frozen=True, eq=False)
class Derivation:
    """Computes the numeric variables of one grid's cells from their results in the ledger."""

    grid: Grid
    ledger: Ledger
    experiment: Experiment

    @cached_property
    def rows(self) -> Rows:
        """For every cell, the row of the ledger that contains the cell's current record."""
        return self.ledger.rows(self.grid.cells.ids)

    @cached_property
    def _cost(self) -> Float:
        """The squared privacy cost of every cell."""
        return self.ledger.numbers("squared_privacy_cost", self.rows)

    @cached_property
    def _total(self) -> Float:
        """The total variance of every cell when its targets are just met."""
        return self.ledger.numbers("total_variance", self.rows)

    def numbers(self) -> tuple[dict[str, Values], tuple[str, ...]]:
        """Return functions that compute a number for each cell, and the names of recorded numbers.

        The functions are by variable name. A missing number is NaN. Query graphs are solved at a
        single ε and have no privacy cost, so they have only recorded numbers.
        """
        compared = self._compare()
        extra = sorted({*self.ledger.reported(self.rows)} - {*compared, *_REPORTED})
        is_graph = self.grid.cells[0].kind == "graph"
        return {} if is_graph else compared, (*_REPORTED, *extra, *_OF_THE_RECORD)

    def over_budgets(self) -> dict[str, Values]:
        """Return functions that compute numbers for each cell and budget, by variable name.

        The first axis of the returned arrays is that of the cells; axes for ε, δ or both follow.
        """
        epsilon = np.asarray(self.experiment.epsilon, dtype=np.float64)[:, None]
        delta = np.asarray(self.experiment.delta, dtype=np.float64)
        budget_cost = np.square(privacy.privacy_cost(epsilon, delta))
        # KDD'16's, at the privacy cost ε / sqrt(2 ln(2/δ)), which is valid for ε <= 1
        classical_cost = np.square(epsilon) / (2 * np.log(2 / delta))

        def ratio(squared_cost: Float, cells: Rows) -> Float:
            """Return the largest ratio of variance to target at a squared cost."""
            ratios = self._cost[cells, None, None] / squared_cost
            return self._by_curve(
                ratios, cells, lambda curve: curve.variance_ratio_at_budget(epsilon, delta)
            )

        def error(squared_cost: Float, cells: Rows) -> Float:
            """Mean query variance: `ratio` times the mean variance when targets are just met."""
            mean = self._total[cells] / self.ledger.numbers("query_count", self.rows[cells])
            return np.asarray(mean[:, None, None] * ratio(squared_cost, cells))

        def pure_ratio(cells: Rows) -> Float:
            unknown = np.full((len(cells), len(epsilon)), np.nan)
            return self._by_curve(
                unknown, cells, lambda curve: curve.variance_ratio_at_budget(epsilon[:, 0], 0.0)
            )

        def epsilon_at_targets(cells: Rows) -> Float:
            """Return the least ε at which all targets are met."""
            cost = np.sqrt(self._cost[cells])
            distinct, inverse = np.unique(cost, return_inverse=True)
            epsilons = privacy.epsilon(distinct[:, None], delta)[inverse]
            return self._by_curve(epsilons, cells, lambda curve: curve.epsilon_at_targets(delta))

        def delta_at_targets(cells: Rows) -> Float:
            """Return the least δ at which all targets are met; NaN if the noise is not Gaussian."""
            cost = np.sqrt(self._cost[cells])
            deltas, solved = np.full((len(cells), len(epsilon)), np.nan), np.isfinite(cost)
            deltas[solved] = privacy.delta(cost[solved, None], epsilon[:, 0])
            return deltas

        makes: dict[str, Values] = {
            "epsilon_at_targets": epsilon_at_targets,
            "delta_at_targets": delta_at_targets,
            "variance_ratio_at_budget": partial(ratio, budget_cost),
            "average_squared_error_at_budget": partial(error, budget_cost),
            "average_squared_error_at_classical_budget": partial(error, classical_cost),
        }
        return makes | ({"variance_ratio_at_pure_budget": pure_ratio} if self._curves else {})

    @cached_property
    def _curves(self) -> dict[int, budget.BudgetCurve]:
        """The distinct budget curves of the cells, by the index of their texts in the ledger."""
        numbers, curves = self.ledger.texts("curve", self.rows)
        used = (number for number in np.unique(numbers).tolist() if curves[number])
        return {number: budget.from_record(json.loads(curves[number])) for number in used}

    def _by_curve(
        self, values: Float, cells: Rows, value: Callable[[budget.BudgetCurve], ArrayLike]
    ) -> Float:
        """Return ``values``; cells that have a budget curve get ``value(curve)`` instead."""
        numbers, _ = self.ledger.texts("curve", self.rows[cells])
        for number, curve in self._curves.items():
            values[numbers == number] = value(curve)
        return values

    def _compare(self) -> dict[str, Values]:
        """Return functions for privacy costs, total variances and comparisons, by variable name.

        Cells are compared with the reference mechanism, with the lower bound, and with CA, the
        mechanism of least total error. A comparison with a cell that is not ``ok`` is NaN.
        """
        cost, total, at_cost = self._cost, self._total, self._total * self._cost
        solved = self.ledger.statuses(self.rows) == Status.OK

        def against(quantity: Float, partners: Rows, cells: Rows) -> Float:
            """Divide every cell's quantity by that of its partner; NaN if the partner is not ok."""
            partner = partners[cells]
            known = (partner >= 0) & solved[partner]
            return np.asarray(quantity[cells] / np.where(known, quantity[partner], np.nan))

        cells = self.grid.cells
        labels = cells.by_family(lambda cell: cell.coords.get("mechanism", ""))
        ratio = partial(against, cost, self._partners(labels == self.experiment.reference))
        names = cells.by_family(lambda cell: cell.mechanism.name)
        mechanisms = solvers.all_mechanisms().values()
        least = np.isin(names, [one.name for one in mechanisms if one.least_total_error])
        # a cell labelled with its mechanism's own name takes precedence
        unlabelled = self._partners(least & (labels == names))
        baseline = np.where(unlabelled < 0, self._partners(least), unlabelled)
        keys, problem = cells.problems
        bounds = np.array([self.ledger.bounds.get(key, np.nan) for key in to_texts(keys)])
        return {
            "squared_privacy_cost": lambda cells: cost[cells],
            "privacy_cost": lambda cells: np.sqrt(cost[cells]),
            "variance_ratio": ratio,
            "lower_bound": lambda cells: bounds[problem[cells]],
            "gap": lambda cells: np.maximum(cost[cells] / bounds[problem[cells]] - 1.0, 0.0),
            "total_variance": lambda cells: total[cells] * ratio(cells),
            "total_variance_at_unit_cost": lambda cells: at_cost[cells],
            "total_variance_ratio": partial(against, at_cost, baseline),
        }

    def _partners(self, chosen: NDArray[np.bool_]) -> Rows:
        """Return, for every cell, the index of the cell to compare it with; -1 if there is none.

        The partner is the first cell of the mask ``chosen`` with the same problem and replicate. If
        there is no such cell, it is the first with the same problem, because a block may solve a
        problem only once for all replicates.
        """
        problem, replicates = self.grid.cells.problems[1], self.grid.cells.replicate
        # one number for every pair of a problem and a replicate
        pairs = problem * (replicates.max(initial=0) + np.int64(1)) + replicates
        partners = np.full(len(problem), -1, dtype=np.int32)
        numbers = np.flatnonzero(chosen)[::-1]  # in reverse, so that the first of a class stays
        for of in (problem, np.unique(pairs, return_inverse=True)[1]):
            first = np.full(of.max(initial=-1) + 1, -1, dtype=np.int32)
            first[of[numbers]] = numbers
            partners = np.where(first[of] < 0, partners, first[of])
        return partners
