"""The ledger: the last ok wins, bounds judge answers, and a million cells fit into memory."""

import math
import random
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledgers import attempts, cells, contents, deaths, solved, status
from processes import alone
from written import replicated

from sweep.experiment.loading import parse_experiment
from sweep.grid.expansion import expand
from sweep.grid.grids import unite_cells
from sweep.plan import costs, solves, tasks
from sweep.store import ledger
from sweep.store.ledger import Ledger
from sweep.store.records import BoundRecord, CellRecord, ForgottenRecord, Status

statuses = st.sampled_from([s.label for s in Status if s > Status.PENDING])
COST = "squared_privacy_cost"


def cell(status, attempt=1, cell="a", **facts):
    return CellRecord(cell, "solve", "problem", Status[status.upper()], attempt, **facts)


def answer(cost, **facts):
    return cell("ok", numbers={COST: cost}, **facts)


def ledger_of(*records):
    made = Ledger()
    made.add(records)
    return made


def held_of(count):
    """Bytes that the command needs for this many cells, planned, packed into tasks and recorded."""
    experiment = parse_experiment(replicated(count), "many.yaml")
    numbers = {COST: 1.0, "total_variance": 1.0}
    before, _ = tracemalloc.get_traced_memory()
    ledger, cells = Ledger(), unite_cells(expand(experiment))
    work = solves.list_solves(cells, ledger, costs.Costs())
    for block in tasks.pack_tasks(work):
        task = work.task("task", block)
        record = CellRecord("", "", task.solves[0].problem, Status.OK, numbers=numbers)
        ledger.add(replace(record, cell=c.id, solve=s.key) for s in task.solves for c in s.cells)
    assert (ledger.statuses(ledger.rows(cells.ids)) == Status.OK).all()
    held, _ = tracemalloc.get_traced_memory()
    return held - before


def held():
    """Bytes for two numbers of cells, once Python keeps as many free objects as it ever does."""
    tracemalloc.start()
    held_of(2500)
    return held_of(4500), held_of(8500)


@pytest.mark.slow
def test_a_cell_takes_a_hundred_and_sixty_bytes_of_the_command_at_most():
    few, more = alone(held)
    assert more - few < 160 * 4000


def drawn(draw):
    """A record of one of a few cells, with values that columns might confuse."""
    name = draw.choice("abcdefgh")
    if draw.random() < 0.1:
        return ForgottenRecord(name)
    if draw.random() < 0.1:
        return BoundRecord(draw.choice("pq"), draw.choice([0.5, 1.5, 2.5]), code=draw.choice("12"))
    number = draw.choice([0.0, 1.0, 2.0, math.inf])
    return CellRecord(
        cell=name,
        solve=f"s-{name}",
        problem="p" if name < "e" else "q",
        status=draw.choice([status for status in Status if status > Status.PENDING]),
        attempt=draw.randrange(1, 4),
        started=draw.choice([0.0, 1.5e9, 1.6e9]),
        runtime_s=draw.choice([None, 0.5]),
        peak_memory_bytes=draw.choice([None, 4096]),
        numbers=draw.choice([{}, {"x": number}, {COST: number}, {"lower_bound": number}]),
        notes=draw.choice([{}, {"branching": [2, 3]}]),
        curve=draw.choice([None, {"kind": "x"}]),
        error=draw.choice(["", "é"]),
        deaths=draw.choice([0, 1]),
    )


@pytest.mark.parametrize("seed", range(20))
def test_a_ledger_does_not_depend_on_how_its_records_came(monkeypatch, seed):
    """One by one or together, sorted early or late, restored from its content or not."""
    draw = random.Random(seed)
    records = [drawn(draw) for _ in range(draw.choice([1, 5, 60]))]
    whole, parts = ledger_of(*records), Ledger()
    monkeypatch.setattr(ledger, "MOST_FRESH", draw.choice([0, 3]))
    for record in records:
        parts.add([record])
        if draw.random() < 0.2:
            parts = Ledger.restored(*parts.content())
    assert contents(parts) == contents(whole)
    for count in (attempts, deaths):
        assert [count(parts, c) for c in "abcdefgh"] == [count(whole, c) for c in "abcdefgh"]
    assert sorted(parts.others(["a"])) == sorted(cells(whole).keys() - {"a"})


@given(st.lists(statuses, min_size=1, max_size=8))
def test_the_last_ok_wins_else_the_last_word(said):
    records = [cell(status, attempt=n) for n, status in enumerate(said)]
    good = [record for record in records if record.status.label == "ok"]
    assert cells(ledger_of(*records))["a"] == (good[-1] if good else records[-1])


def test_deaths_are_no_attempts_add_up_over_runs_and_end_with_an_answer():
    ledger = ledger_of(cell("failed", attempt=1), cell("lost", attempt=2))
    assert attempts(ledger, "a") == 1
    for record, died in [
        (cell("lost", deaths=2, started=1.5e9), 2),
        (cell("lost"), 2),
        (cell("lost", deaths=2, started=1.5e9), 2),
        (cell("lost", deaths=1, started=1.6e9), 3),
        (cell("ok"), 3),
    ]:
        ledger.add([record])
        assert (status(ledger, "a"), deaths(ledger, "a")) == (record.status, died)


def test_the_highest_bound_of_a_problem_is_kept_wherever_it_comes_from():
    ledger = ledger_of(
        BoundRecord("problem", 1.0),
        cell("timeout", numbers={"lower_bound": 3.0}),
        BoundRecord("problem", 2.0),
        BoundRecord("other", None, error="too large"),
    )
    assert ledger.bounds == {"problem": 3.0}
    assert ledger.bound_errors["other"] == "too large"


@pytest.mark.parametrize(
    "proof", [BoundRecord("problem", 2.0), cell("ok", numbers={"lower_bound": 2.0})]
)
def test_a_bound_that_was_stopped_holds_until_there_is_another(proof):
    ledger = ledger_of(BoundRecord("problem", 1.0, error="stopped"))
    assert (ledger.bounds, ledger.bound_errors) == ({"problem": 1.0}, {"problem": "stopped"})
    ledger.add([cell("timeout", numbers={"lower_bound": 1.1})])
    assert ledger.bound_errors.keys() == {"problem"}
    ledger.add([proof])
    assert (ledger.bounds, ledger.bound_errors) == ({"problem": 2.0}, {})


@pytest.mark.parametrize("later", ["bound", "answer", "proof"])
def test_an_answer_below_a_bound_of_its_problem_has_failed(later):
    low = cell("ok", numbers={COST: 2.0, "total_variance": 7.0}, curve={"kind": "x"})
    bound = BoundRecord("problem", 2.0 * (1 + 1e-6))
    proof = cell("timeout", cell="b", numbers={"lower_bound": 2.1})
    known = {"bound": [low, bound], "answer": [bound, low], "proof": [low, proof]}[later]
    ledger = ledger_of(*known)
    rows = ledger.rows(["a"])
    (place,), errors = ledger.texts("error", rows)
    assert (status(ledger, "a"), cells(ledger)["a"].numbers) == (Status.FAILED, {})
    assert "contradicts its certificate" in cells(ledger)["a"].error == errors[place]
    assert np.isnan(ledger.numbers("total_variance", rows)).all()
    assert ledger.reported(rows) == []
    assert not any(ledger.texts("curve", rows)[1][at] for at in ledger.texts("curve", rows)[0])
    assert "solve" not in solved(ledger)
    again = answer(2.1, attempt=2)
    ledger.add([again])
    assert cells(ledger)["a"] == solved(ledger)["solve"] == again


def test_every_refuted_answer_has_its_own_error_however_many_there_are():
    low = [answer(1.0 - number / 1000, cell=f"{number}") for number in range(300)]
    ledger = ledger_of(*low, BoundRecord("problem", 2.0))
    rows = ledger.rows([record.cell for record in low])
    places, errors = ledger.texts("error", rows)
    assert [errors[at] for at in places] == [record.error for record in ledger.records(rows)]


@pytest.mark.parametrize("first", ["bound", "answer"])
def test_an_answer_counts_again_once_other_code_has_lowered_the_bound_it_was_below(first):
    low, wrong = answer(2.0, attempt=2), BoundRecord("problem", 2.5, code="old")
    ledger = ledger_of(cell("lost", deaths=1, attempt=2))
    ledger.add([wrong, low] if first == "bound" else [low, wrong])
    ledger.add([BoundRecord("problem", 2.4, code="newer")])
    assert status(ledger, "a") is Status.FAILED
    ledger.add([BoundRecord("problem", 1.9, code="newest")])
    assert cells(ledger)["a"] == solved(ledger)["solve"] == low
    assert (attempts(ledger, "a"), deaths(ledger, "a")) == (2, 1)
    ledger.add([BoundRecord("problem", 2.1, code="newest")])
    assert status(ledger, "a") is Status.FAILED


def test_a_refuted_answer_that_counts_again_is_the_last_ok_unless_it_was_forgotten():
    failed = cell("failed", attempt=2, error="other")
    ledger = ledger_of(BoundRecord("problem", 2.5, code="old"), answer(2.0), failed)
    assert cells(ledger) == {"a": failed}
    ledger.add([BoundRecord("problem", 1.9, code="new")])
    assert cells(ledger) == {"a": answer(2.0)}
    ledger.add([ForgottenRecord("a"), BoundRecord("problem", 1.8, code="newest")])
    assert cells(ledger) == {}


def test_a_good_answer_stays_when_a_later_one_contradicts_the_bound():
    good = answer(2.0)
    ledger = ledger_of(BoundRecord("problem", 1.9), good, answer(1.0, attempt=2))
    assert cells(ledger)["a"] == solved(ledger)["solve"] == good
    assert attempts(ledger, "a") == 2


def test_an_answer_within_rounding_of_its_bound_stands():
    bounds = (BoundRecord("problem", 2.0 * (1 + 1e-9)), BoundRecord("another", 3.0))
    assert status(ledger_of(answer(2.0), *bounds), "a") is Status.OK
