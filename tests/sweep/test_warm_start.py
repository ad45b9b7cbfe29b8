"""Warm starts along an axis: fewer Newton steps, the same results within the gap."""

import numpy as np
from written import experiment, prefix

import sweep
from sweep.grid.expansion import expand
from sweep.grid.grids import unite_cells
from sweep.plan import solves, tasks
from sweep.plan.costs import Costs
from sweep.store.ledger import Ledger


def prefixes(**more):
    return experiment(prefix([32, 64, 128], ["optimal", "IP"]), reference="optimal", **more)


def test_neighbours_begin_where_the_last_one_ended(client, tmp_path):
    cold = sweep.run(prefixes(), tmp_path / "cold", client)
    warm = sweep.run(prefixes(warm_start="d"), tmp_path / "warm", client)
    steps = [ds.iterations.sel(mechanism="optimal").values for ds in (cold, warm)]
    assert steps[1][0] == steps[0][0]
    assert np.all(steps[1][1:] < steps[0][1:])
    np.testing.assert_allclose(warm.squared_privacy_cost, cold.squared_privacy_cost, rtol=2e-6)
    assert np.array_equal(warm.cell, cold.cell)


def test_a_chain_is_one_task_in_its_order():
    cells = unite_cells(expand(prefixes(warm_start="d")))
    solving = solves.list_solves(cells, Ledger(), Costs(), "d")
    planned = [solving.task("r1", block) for block in tasks.pack_tasks(solving)]
    chained = [task for task in planned if task.solves[0].chain]
    assert len(chained) == 1
    assert [solve.workload.params["d"] for solve in chained[0].solves] == [32, 64, 128]
    assert {solve.mechanism.name for solve in chained[0].solves} == {"optimal"}
