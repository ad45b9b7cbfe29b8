"""The index beside the journal: it spares reading, and never says anything but the journal."""

import math
import random

import pytest

import sweep
from sweep.runner import maintenance, status
from sweep.store import code, segments
from sweep.store.journal import INDEX, Journal
from sweep.store.records import BoundRecord, CellRecord, ForgottenRecord, Status
from sweep.store.segments import write_segment

FACTS = {"host": "here", "started": 1.7e9, "runtime_s": 0.5, "code": "c", "versions": "v"}
RECORDS = [
    CellRecord("a", "s-a", "p", Status.OK, numbers={"squared_privacy_cost": 2.0}, **FACTS),
    CellRecord("b", "s-b", "p", Status.LOST, deaths=3, error="its worker died"),
    CellRecord("c", "s-c", "q", Status.FAILED, attempt=2, error="é", traceback="1\n2", **FACTS),
    CellRecord("d", "s-d", "q", Status.OK, notes={"branching": [2, 3]}, curve={"kind": "x"}),
    CellRecord("e", "s-e", "q", Status.OK, numbers={"x": math.inf}, peak_memory_bytes=4096),
    CellRecord("low", "s-l", "r", Status.OK, numbers={"squared_privacy_cost": 1.0}),
    BoundRecord("r", 2.0, code="c"),
    BoundRecord("q", None, error="too large", code="c"),
    CellRecord("gone", "s-g", "p", Status.OK),
    ForgottenRecord("gone"),
]


def state(journal):
    ledger = journal.refresh()
    rows = ledger.rows(list(ledger.cells))
    tried = (ledger.attempts(rows).tolist(), ledger.deaths(rows).tolist())
    bounds = (ledger.bounds, ledger.bound_codes, ledger.bound_errors)
    said = (dict(ledger.cells), dict(ledger.solved), *tried, *bounds)
    return said, journal.state, journal.damaged


def read_anew(folder):
    (folder.parent / INDEX).unlink(missing_ok=True)
    return state(Journal(folder))


def with_index(place):
    held = Journal(place)
    held.refresh()
    held.write_index()


@pytest.fixture
def folder(tmp_path):
    """A journal of two segments with its index."""
    place = tmp_path / "journal"
    place.mkdir()
    write_segment(place, "r000001-000000", RECORDS[:5])
    write_segment(place, "r000002-000000", RECORDS[5:])
    with_index(place)
    return place


def test_the_index_keeps_what_later_records_are_judged_by(folder):
    killer = CellRecord("b", "s-b", "p", Status.LOST, deaths=1, started=1.7e9)
    write_segment(folder, "r000003-000000", [killer])
    with_index(folder)
    write_segment(folder, "r000004-000000", [killer, BoundRecord("r", 0.5, code="newer")])
    held = Journal(folder)
    ledger = held.refresh()
    assert ledger.status("low") is Status.OK
    assert ledger.deaths(ledger.rows(["b"])) == [4]
    assert state(held) == read_anew(folder)


@pytest.fixture
def segments_read(monkeypatch):
    """The names of the segments that are read from now on."""
    names, read = [], segments.read_segment

    def noted(path):
        names.append(path.stem)
        return read(path)

    monkeypatch.setattr(segments, "read_segment", noted)
    return names


def test_what_the_index_holds_is_not_read_again(folder, segments_read):
    found = state(Journal(folder))
    assert segments_read == []
    assert found == read_anew(folder)


def test_newer_segments_are_read_beside_the_index(folder, segments_read):
    again = CellRecord("low", "s-l", "r", Status.OK, numbers={"squared_privacy_cost": 2.5})
    write_segment(folder, "r000003-000000", [again])
    found = state(Journal(folder))
    assert segments_read == ["r000003-000000"]
    assert found[0][0]["low"] == again
    assert found == read_anew(folder)


def test_a_damaged_segment_of_an_earlier_run_does_not_make_every_look_read_all(folder):
    (folder / "r000000-early-0.jsonl").write_text("no record\n")
    journal = Journal(folder)
    ledger = journal.refresh()
    assert journal.refresh() is ledger
    assert list(journal.damaged) == ["r000000-early-0.jsonl"]


def test_a_segment_of_an_earlier_run_that_arrives_late_says_nothing_newer(folder):
    """The workers of a lost driver write it, or somebody restores one that was damaged."""
    before = CellRecord("low", "s-l", "r", Status.OK, numbers={"squared_privacy_cost": 3.5})
    after = CellRecord("low", "s-l", "r", Status.OK, numbers={"squared_privacy_cost": 2.5})
    write_segment(folder, "r000003-000000", [after])
    journal = Journal(folder)
    journal.refresh()
    journal.write_index()
    write_segment(folder, "r000001-000007", [before])
    write_segment(folder, "r000002-000007", [CellRecord("gone", "s-g", "p", Status.OK)])
    found = state(journal)
    assert found == state(Journal(folder)) == read_anew(folder)
    assert journal.ledger.cells["low"] == after


def test_a_bound_by_earlier_code_that_was_stopped_is_not_believed_again(tmp_path):
    stopped = BoundRecord("p", 2.0, error="stopped", code="old")
    proof = CellRecord("a", "s-a", "p", Status.TIMEOUT, numbers={"lower_bound": 1.0}, code="new")
    place = tmp_path / "journal"
    place.mkdir()
    write_segment(place, "r000001-000000", [stopped, proof])
    journal = Journal(place)
    journal.refresh()
    journal.write_index()
    assert Journal(place).ledger.bounds == {"p": 1.0}
    assert state(Journal(place)) == read_anew(place)


def test_a_segment_that_has_changed_is_noticed(folder):
    changed = folder / "r000001-000000.jsonl"
    changed.write_text(changed.read_text().replace("here", "ther"))
    held = Journal(folder)
    assert set(held.refresh().cells) == {"low"}
    assert list(held.damaged) == [changed.name]


@pytest.mark.parametrize("name", ["r000001-000000.jsonl", "r000003-000000.jsonl"])
def test_a_segment_that_changes_after_it_was_taken_in_is_noticed(folder, name):
    """It must not enter the index as it is now."""
    held = Journal(folder)
    third = CellRecord("f", "s-f", "p", Status.OK, host="here")
    write_segment(folder, "r000003-000000", [third])
    held.take("r000003-000000", [third])
    (folder / name).write_text((folder / name).read_text().replace("here", "ther"))
    held.write_index()
    later = Journal(folder)
    later.refresh()
    assert list(later.damaged) == [name]


def test_a_segment_that_is_gone_is_noticed(folder):
    (folder / "r000002-000000.jsonl").unlink()
    assert set(Journal(folder).refresh().cells) == {"a", "b", "c", "d", "e"}


def test_segments_that_were_put_into_one_are_not_counted_twice(folder):
    said = state(Journal(folder))[0]
    held = Journal(folder)
    held.refresh()
    held.compact("r000003")
    assert state(Journal(folder))[0] == said


def test_a_damaged_index_is_not_believed(folder):
    file, draw = folder.parent / INDEX, random.Random(0)
    whole, said = file.read_bytes(), state(Journal(folder))
    damaged = [bytearray(whole) for _ in range(60)]
    for content in damaged:
        content[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
    for content in (b"", whole[: len(whole) // 2], *damaged):
        file.write_bytes(content)
        assert state(Journal(folder)) == said


def test_an_index_that_other_code_has_judged_is_not_believed(folder, segments_read, monkeypatch):
    monkeypatch.setattr(code, "project", lambda: "another")
    state(Journal(folder))
    assert len(segments_read) == 2


def test_a_ledger_that_has_forgotten_something_is_not_kept(folder):
    said = state(Journal(folder))
    held = Journal(folder)
    held.refresh().forget_bound("r")
    write_segment(folder, "r000003-000000", [])
    held.refresh()
    held.write_index()
    assert state(Journal(folder))[0] == said[0]


def test_a_run_leaves_an_index_that_status_and_the_next_run_need_nothing_beside(
    swept, client, small, tmp_path, segments_read
):
    swept(tmp_path / "s", "[2, 4]")
    segments_read.clear()
    assert status.status(tmp_path / "s").totals == {"ok": 4}
    sweep.run(small("[2, 4]"), tmp_path / "s", client)
    assert segments_read == []
    maintenance.forget(tmp_path / "s", "d == 2")
    assert status.status(tmp_path / "s").totals == {"ok": 2, "pending": 2}


def test_a_run_goes_on_without_an_index(client, small, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sweep.store.journal._write_index", full)
    found = sweep.run(small("[2, 4]"), tmp_path / "s", client)
    assert int((found.status == Status.OK).sum()) == 4
    assert not (tmp_path / "s" / INDEX).exists()
