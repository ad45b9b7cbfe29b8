from collections import Counter
from dataclasses import replace

import pytest
from written import experiment, prefix, problem_key, solve_key

from sweep.grid.expansion import expand
from sweep.grid.grids import unite_cells
from sweep.plan import costs, solves, tasks
from sweep.store import code
from sweep.store.ledger import Ledger
from sweep.store.records import BoundRecord, CellRecord, SolveCode, Status

COSTS = costs.Costs()


def cells_of(d, mechanism, **others):
    """The cells of mechanisms on prefixes."""
    return unite_cells(expand(experiment(prefix(d, mechanism, **others))))


def packed(work):
    """The tasks of some solves."""
    return [work.task(f"r1-{n}", block) for n, block in enumerate(tasks.pack_tasks(work))]


@pytest.fixture
def uniform():
    return cells_of([4, 8], ["IP", "CA", "wCA-I", "wCA-II"])


def test_one_certificate_for_each_problem_that_no_mechanism_certifies(uniform):
    proving = [bound.problem for bound in solves.list_proofs(uniform, Ledger(), COSTS)]
    first, second = sorted(proving)
    assert {first, second} == {problem_key(cell) for cell in uniform}
    ledger = Ledger()
    ledger.add([BoundRecord(first, 1.0), BoundRecord(second, None, error="too large")])
    assert not solves.list_proofs(uniform, ledger, COSTS)


def test_no_certificate_where_the_optimum_is_asked_for_unless_it_failed():
    cells = cells_of(4, ["IP", "optimal"])
    assert not solves.list_proofs(cells, Ledger(), COSTS)
    optimal = next(c for c in cells if c.mechanism.name == "optimal")
    ledger = Ledger()
    ledger.add([CellRecord(optimal.id, solve_key(optimal), problem_key(optimal), Status.FAILED)])
    assert len(solves.list_proofs(cells, ledger, COSTS)) == 1


def test_ten_thousand_replicates_share_one_workload_one_certificate_and_travel_in_blocks():
    cells = cells_of(4, "IP", replicates=10000)
    work = solves.list_solves(cells, Ledger(), COSTS) + solves.list_proofs(cells, Ledger(), COSTS)
    planned = packed(work)
    assert len(work) == 10_001
    assert len(planned) <= 102
    assert max(len(task.solves) for task in planned) <= tasks.LARGEST_BLOCK
    served = Counter(cell.id for task in planned for solve in task.solves for cell in solve.cells)
    assert served == dict.fromkeys([c.id for c in cells], 1)


def test_expensive_solves_travel_alone_and_first():
    cells = cells_of([4, 8, 1024], ["IP", "optimal"])
    planned = packed(solves.list_solves(cells, Ledger(), COSTS))
    assert sum(len(task.solves) for task in planned) == 6
    assert len(planned[0].solves) == 1
    assert planned[0].solves[0].mechanism.name == "optimal"


def test_a_cell_whose_solve_was_done_for_another_is_not_solved_again(uniform):
    ca = next(c for c in uniform if c.coords["mechanism"] == "CA")
    ledger = Ledger()
    done = CellRecord(ca.id, solve_key(ca), problem_key(ca), Status.OK, numbers={"squared": 2.0})
    ledger.add([replace(done, code=code.Codes().of_solve(ca.workload.name, ca.solved))])
    rest = uniform.take(uniform.ids != ca.id.encode())
    reused = solves.reuse_records(rest, ledger)
    twins = {c.id for c in rest if solve_key(c) == solve_key(ca)}
    assert {record.cell for record in reused} == twins
    assert len(twins) == 2
    assert {record.numbers["squared"] for record in reused} == {2.0}
    ledger.add([replace(done, code=SolveCode("other code"))])
    assert solves.reuse_records(rest, ledger) == []


def test_a_mechanisms_own_time_limit_comes_before_the_experiments_and_0_is_0():
    own = [{"name": "AM", "time_limit": 3600}, {"name": "GD", "time_limit": 0}]
    cells = cells_of(1024, ["IP", "CA", *own])
    limited = costs.Costs(time_limit=60.0)
    found = {one.mechanism.name: one for one in solves.list_solves(cells, Ledger(), limited)}
    limits = {name: one.cost.time_limit for name, one in found.items()}
    assert limits == {"IP": 60.0, "CA": 60.0, "AM": 3600.0, "GD": 0.0}
    assert {one.cost.time_limit for one in solves.list_proofs(cells, Ledger(), limited)} == {60.0}
    assert found["GD"].cost.seconds < 0.01
    free = {one.mechanism.name: one for one in solves.list_solves(cells, Ledger(), COSTS)}
    assert free["CA"].cost.time_limit is None
    assert free["GD"].cost.seconds < 0.01 < free["CA"].cost.seconds


def test_what_does_not_fit_here_is_planned_alone_with_its_memory(monkeypatch):
    """A worker with more memory may do it, and gets it, by the planned memory."""
    asked = [64, 80, 96], ["optimal"]
    everything = solves.list_solves(cells_of(*asked), Ledger(), costs.Costs())
    monkeypatch.setattr("solvers.problem.memory.usable", lambda: 1e3)
    planned = solves.list_solves(cells_of(*asked), Ledger(), costs.Costs())
    assert [one.cost.bytes for one in planned] == [one.cost.bytes for one in everything]
    assert min(one.cost.bytes for one in planned) > 1e3
    assert [len(task.solves) for task in packed(planned)] == [1, 1, 1]
