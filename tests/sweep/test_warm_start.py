"""Warm starts along an axis: fewer Newton steps, the same results within the gap."""

import numpy as np
import pytest

import sweep
from sweep.errors import ExperimentError
from sweep.experiment.loading import parse_experiment
from sweep.grid.expansion import expand
from sweep.grid.grids import distinct
from sweep.plan import solves, tasks
from sweep.plan.costs import Costs
from sweep.store.ledger import Ledger

COLD = """
reference: optimal
blocks:
  - workload: {name: prefix, d: [32, 64, 128]}
    mechanism: [optimal, IP]
"""
WARM = COLD + "warm_start: d\n"


def parsed(text):
    return parse_experiment(text, "prefixes.yaml")


def test_neighbours_begin_where_the_last_one_ended(client, tmp_path):
    cold = sweep.run(parsed(COLD), tmp_path / "cold", client)
    warm = sweep.run(parsed(WARM), tmp_path / "warm", client)
    steps = [ds.iterations.sel(mechanism="optimal").values for ds in (cold, warm)]
    assert steps[1][0] == steps[0][0]
    assert np.all(steps[1][1:] < steps[0][1:])
    np.testing.assert_allclose(warm.squared_privacy_cost, cold.squared_privacy_cost, rtol=2e-6)
    assert np.array_equal(warm.cell, cold.cell)


def test_a_chain_is_one_task_in_its_order():
    cells = distinct(expand(parsed(WARM)))
    solving = solves.needed(cells, Ledger(), Costs(), "d")
    planned = tasks.packed(solving, "r1")
    chained = [task for task in planned if task.solves[0].chain]
    assert len(chained) == 1
    assert [solve.workload.params["d"] for solve in chained[0].solves] == [32, 64, 128]
    assert {solve.mechanism.name for solve in chained[0].solves} == {"optimal"}


def test_an_axis_that_no_grid_has_is_refused_with_its_line():
    with pytest.raises(ExperimentError, match=r"prefixes.yaml, line 6.*warm_start.*'d'"):
        expand(parsed(COLD + "warm_start: dd\n"))
