import math
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep.store.journal import Journal
from sweep.store.ledger import Ledger
from sweep.store.records import (
    BoundRecord,
    CellRecord,
    ForgottenRecord,
    Status,
    from_json,
    to_json,
)
from sweep.store.segments import read_segment, write_segment

statuses = st.sampled_from([s.label for s in Status if s > Status.PENDING])


def cell(status, attempt=1, cell="a", **facts):
    return CellRecord(cell, "solve", "problem", Status[status.upper()], attempt, **facts)


def test_a_segment_gives_back_what_was_written(tmp_path):
    records = [
        cell("ok", numbers={"epsilon": math.inf, "x": 0.1}, notes={"branching": [2, 3]}),
        cell("failed", error="broken", traceback="line 1\nline 2"),
        BoundRecord("problem", 1.25, 0.5),
    ]
    found = read_segment(write_segment(tmp_path, "one", records))
    assert float(found[0].numbers["epsilon"]) == math.inf
    assert found[0].notes == {"branching": [2, 3]}
    assert found[1:] == records[1:]


def test_a_record_of_a_later_version_is_read_without_what_is_unknown():
    assert from_json({**to_json(cell("ok")), "colour": "red"}) == cell("ok")


def test_a_disk_that_fails_leaves_no_segment(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_segment(tmp_path, "one", [cell("ok")])
    assert not list(tmp_path.iterdir())


@given(st.lists(statuses, min_size=1, max_size=8))
def test_the_last_ok_wins_else_the_last_word(said):
    records = [cell(status, attempt=n) for n, status in enumerate(said)]
    ledger = Ledger()
    ledger.add(records)
    good = [record for record in records if record.status.label == "ok"]
    assert ledger.cells["a"] == (good[-1] if good else records[-1])


def test_what_the_infrastructure_lost_is_no_attempt():
    ledger = Ledger()
    ledger.add([cell("failed", attempt=1), cell("lost", attempt=2)])
    assert ledger.attempts(ledger.rows(["a"])) == [1]


def test_deaths_add_up_over_runs_and_end_with_an_answer():
    ledger = Ledger()
    ledger.add([cell("lost", deaths=2)])
    assert not ledger.deadly(ledger.rows(["a"]))
    ledger.add([cell("lost")])
    assert not ledger.deadly(ledger.rows(["a"]))
    ledger.add([cell("lost", deaths=1)])
    assert ledger.deadly(ledger.rows(["a"]))
    ledger.add([cell("ok")])
    assert not ledger.deadly(ledger.rows(["a"]))


def test_the_highest_bound_of_a_problem_is_kept_wherever_it_comes_from():
    ledger = Ledger()
    ledger.add([BoundRecord("problem", 1.0), cell("timeout", numbers={"lower_bound": 3.0})])
    ledger.add([BoundRecord("problem", 2.0), BoundRecord("other", None, error="too large")])
    assert ledger.bounds == {"problem": 3.0}
    assert ledger.bound_errors["other"].error == "too large"


def test_a_bound_that_was_stopped_holds_until_it_is_tried_again():
    ledger = Ledger()
    ledger.add([BoundRecord("problem", 1.0, error="stopped")])
    assert ledger.bounds == {"problem": 1.0}
    assert ledger.bound_errors["problem"].error == "stopped"
    ledger.forget_bound_error("problem")
    assert (ledger.bounds, ledger.bound_errors) == ({}, {})
    ledger.add([BoundRecord("problem", 1.0, error="stopped"), BoundRecord("problem", 2.0)])
    assert (ledger.bounds, ledger.bound_errors) == ({"problem": 2.0}, {})


@pytest.mark.parametrize("later", ["bound", "answer"])
def test_an_answer_below_a_bound_of_its_problem_has_failed(later):
    answer = cell("ok", numbers={"squared_privacy_cost": 2.0, "total_variance": 7.0})
    bound = BoundRecord("problem", 2.0 * (1 + 1e-6))
    ledger = Ledger()
    ledger.add([answer, bound] if later == "bound" else [bound, answer])
    assert ledger.status("a") is Status.FAILED
    assert ledger.cells["a"].numbers == {}
    assert "contradicts its certificate" in ledger.cells["a"].error
    assert "solve" not in ledger.solved
    again = cell("ok", attempt=2, numbers={"squared_privacy_cost": 2.1})
    ledger.add([again])
    assert ledger.cells["a"] == ledger.solved["solve"] == again


@pytest.mark.parametrize("first", ["bound", "answer"])
def test_an_answer_counts_again_once_other_code_has_lowered_the_bound_it_was_below(first):
    answer = cell("ok", attempt=2, numbers={"squared_privacy_cost": 2.0, "total_variance": 7.0})
    wrong = BoundRecord("problem", 2.5, code="old")
    ledger = Ledger()
    ledger.add([cell("lost", deaths=1, attempt=2)])
    ledger.add([wrong, answer] if first == "bound" else [answer, wrong])
    ledger.add([BoundRecord("problem", 2.4, code="newer")])
    assert ledger.status("a") is Status.FAILED
    ledger.add([BoundRecord("problem", 1.9, code="newest")])
    assert ledger.cells["a"] == ledger.solved["solve"] == answer
    rows = ledger.rows(["a"])
    assert (ledger.attempts(rows), ledger.deaths(rows)) == ([2], [1])
    ledger.add([BoundRecord("problem", 2.1, code="newest")])
    assert ledger.status("a") is Status.FAILED


@pytest.mark.parametrize("later", [cell("failed", attempt=2, error="other"), ForgottenRecord("a")])
def test_what_came_after_a_refuted_answer_stays_when_the_bound_is_lowered(later):
    ledger = Ledger()
    answer = cell("ok", numbers={"squared_privacy_cost": 2.0})
    ledger.add([BoundRecord("problem", 2.5, code="old"), answer, later])
    said = dict(ledger.cells)
    ledger.add([BoundRecord("problem", 1.9, code="new")])
    assert dict(ledger.cells) == said


def test_the_deaths_of_one_trial_count_once_however_often_they_are_recorded():
    ledger = Ledger()
    first, second = (cell("lost", deaths=2, started=at) for at in (1.5e9, 1.6e9))
    ledger.add([first, first])
    assert ledger.deaths(ledger.rows(["a"])) == [2]
    ledger.add([second, first, second])
    assert ledger.deaths(ledger.rows(["a"])) == [4]


def test_an_answer_below_the_bound_that_another_cell_proves_has_failed():
    ledger = Ledger()
    low = cell("ok", numbers={"squared_privacy_cost": 2.0})
    proof = cell("ok", cell="b", numbers={"squared_privacy_cost": 2.5, "lower_bound": 2.4})
    ledger.add([low, proof])
    assert (ledger.status("a"), ledger.status("b")) == (Status.FAILED, Status.OK)


def test_a_good_answer_stays_when_a_later_one_contradicts_the_bound():
    ledger = Ledger()
    good = cell("ok", numbers={"squared_privacy_cost": 2.0})
    low = cell("ok", attempt=2, numbers={"squared_privacy_cost": 1.0})
    ledger.add([BoundRecord("problem", 1.9), good, low])
    assert ledger.cells["a"] == ledger.solved["solve"] == good
    assert ledger.attempts(ledger.rows(["a"])) == [2]


def test_a_certificate_that_failed_is_no_matter_once_a_solve_brings_one():
    ledger = Ledger()
    ledger.add([BoundRecord("problem", 1.0, error="stopped")])
    ledger.add([cell("timeout", numbers={"lower_bound": 1.1})])
    assert ledger.bound_errors.keys() == {"problem"}
    ledger.add([cell("ok", numbers={"lower_bound": 1.2})])
    assert (ledger.bounds, ledger.bound_errors) == ({"problem": 1.2}, {})


def test_an_answer_within_rounding_of_its_bound_stands():
    ledger = Ledger()
    ledger.add(
        [
            cell("ok", numbers={"squared_privacy_cost": 2.0}),
            BoundRecord("problem", 2.0 * (1 + 1e-9)),
            BoundRecord("another", 3.0),
        ]
    )
    assert ledger.status("a") is Status.OK


@pytest.mark.parametrize("cost", [0.0, -1.0, math.inf])
def test_a_cost_that_is_no_positive_number_has_failed(cost):
    ledger = Ledger()
    ledger.add([cell("ok", numbers={"squared_privacy_cost": cost})])
    assert ledger.status("a") is Status.FAILED


def test_a_journal_reads_each_segment_once_and_ignores_partial_ones(tmp_path):
    journal = Journal(tmp_path)
    write_segment(tmp_path, "r000001-000000", [cell("failed")])
    (tmp_path / ".r000001-000001.host-1-1.partial").write_text('{"kind": "cel')
    assert journal.refresh().status("a") is Status.FAILED
    write_segment(tmp_path, "r000002-000000", [cell("ok")])
    assert journal.refresh().status("a") is Status.OK
    assert len(journal.names) == 2
    assert journal.ledger.status("never seen") is Status.PENDING
