"""Keys in columns: found like in a dictionary, in a fraction of its memory."""

import math
import random
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from processes import alone
from written import replicated

from sweep.errors import DamagedSegmentError
from sweep.experiment.loading import parse_experiment
from sweep.grid.expansion import expand
from sweep.grid.grids import distinct
from sweep.plan import costs, solves, tasks
from sweep.store import columns, keys
from sweep.store.ledger import Ledger
from sweep.store.records import CellRecord, Status
from sweep.store.segments import read_segment, write_segment


@pytest.mark.parametrize("marks", [2**64, 4, 1])
@pytest.mark.parametrize("unsorted", [1, 7, 2**16])
def test_the_last_row_of_every_key_is_found_while_keys_are_added(monkeypatch, unsorted, marks):
    mark = keys._mark
    monkeypatch.setattr(keys, "_mark", lambda *parts: mark(*parts) & (marks - 1))
    monkeypatch.setattr(keys, "_MIN_UNSORTED", unsorted)
    chance, column = random.Random(unsorted), keys.KeyColumn()
    lookup, expected = keys.Lookup(column), {}
    for row in range(300):
        key = b"%d" % chance.randrange(100)
        column.append(key)
        lookup.added(key)
        expected[key] = row
        asked = b"%d" % chance.randrange(110)
        assert lookup.row(asked) == expected.get(asked, -1)
        if row % 17 == 0:
            wanted = [b"%d" % number for number in range(110)]
            assert lookup.rows(wanted).tolist() == [expected.get(one, -1) for one in wanted]


def test_keys_are_numbered_as_they_come():
    assert keys.numbered(["b", "a", "b", "c", "a"]).tolist() == [0, 1, 0, 2, 1]
    assert keys.numbered([]).tolist() == []


def test_a_key_that_does_not_fit_is_damage(tmp_path):
    segment = write_segment(tmp_path, "r1", [CellRecord("c" * 21, "s", "p", Status.OK)])
    with pytest.raises(DamagedSegmentError):
        read_segment(segment)
    known = keys.KeyIndex(np.array(["c" * 20], keys.KEY))
    assert known.positions(["c" * 21, "c" * 20, "c"]).tolist() == [-1, 0, -1]
    assert known.position(b"c" * 21) == -1
    assert keys.KeyIndex(np.array([b"cc", b"c"])).positions([b"c", b"d"]).tolist() == [1, -1]


def held_of(count):
    """Bytes that the command holds of so many cells, planned, packed into tasks and recorded."""
    experiment = parse_experiment(replicated(count), "many.yaml")
    numbers = {"squared_privacy_cost": 1.0, "total_variance": 1.0}
    before, _ = tracemalloc.get_traced_memory()
    ledger, cells = Ledger(), distinct(expand(experiment))
    packed = tasks.packed(solves.needed(cells, ledger, costs.Costs()), "task")
    for task in packed:
        record = CellRecord("", "", task.items[0].problem, Status.OK, numbers=numbers)
        ledger.add(replace(record, cell=c.id, solve=s.key) for s in task.items for c in s.cells)
    assert (ledger.statuses(ledger.rows(cells.ids)) == Status.OK).all()
    held, _ = tracemalloc.get_traced_memory()
    return held - before


def held():
    tracemalloc.start()
    held_of(100)
    return held_of(500), held_of(4500)


def test_a_cell_takes_a_hundred_and_sixty_bytes_of_the_command_at_most():
    few, more = alone(held)
    assert more - few < 160 * 4000


@pytest.mark.parametrize("values", [[2.0] * 4, [0.0, -0.0], [math.nan] * 3, [1.0, 1.0, 3.0], []])
def test_a_column_is_the_same_whether_its_numbers_are_equal_or_not(values):
    column = columns._Numbers("d")
    for value in values:
        column.append(value)
    rows = np.array([*range(len(values)), -1])
    expected = np.array([*values, 7.0])
    again = columns._Numbers.restored("d", column.packed(rows[:-1]), len(values))
    assert column.taken(rows, 7.0).tobytes() == expected.tobytes()
    assert again.taken(rows, 7.0).tobytes() == expected.tobytes()
    if values:
        again[len(values) - 1] = 5.0
        again.append(6.0)
        assert [again[row] for row in range(len(values) + 1)][-2:] == [5.0, 6.0]
        assert again.taken(rows[:-2], 0.0).tobytes() == expected[:-2].tobytes()
