"""The journal: segments are whole or damaged, and its index agrees with them."""

import math
import os
import random
from pathlib import Path
from unittest.mock import Mock

import pytest
import xarray as xr
from ledgers import cells, contents, deaths, status
from typer.testing import CliRunner

import sweep
from sweep import events
from sweep.cli import app
from sweep.errors import DamagedSegmentError, StoreError
from sweep.runner import maintenance
from sweep.runner.status import status as status_of
from sweep.store import code
from sweep.store.journal import INDEX, Journal, read_segment, write_segment
from sweep.store.paths import DiskPath
from sweep.store.records import (
    BoundRecord,
    CellRecord,
    ForgottenRecord,
    Status,
    from_json,
    to_json,
)

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
NUMBER = b'"squared_privacy_cost":'


def test_a_segment_gives_back_what_was_written(tmp_path):
    held = list(read_segment(write_segment(tmp_path, "one", RECORDS)))
    assert float(held[4].numbers["x"]) == math.inf
    assert held[:4] + held[5:] == RECORDS[:4] + RECORDS[5:]


def test_a_record_of_a_later_version_is_read_without_what_is_unknown():
    assert from_json({**to_json(RECORDS[0]), "colour": "red"}) == RECORDS[0]


def test_a_disk_that_fails_leaves_no_segment(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        write_segment(tmp_path, "one", RECORDS)
    assert not list(tmp_path.iterdir())


def test_the_folder_is_synchronised_when_a_segment_has_its_name(tmp_path, monkeypatch):
    synchronised = []

    def note(descriptor):
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        synchronised.append((os.path.isdir(path), sorted(os.listdir(tmp_path))))

    monkeypatch.setattr(os, "fsync", note)
    write_segment(tmp_path, "one", [BoundRecord("p", 1.0)])
    (of_file, (hidden,)), of_folder = synchronised
    assert not of_file
    assert hidden.endswith(".partial")
    assert of_folder == (True, ["one.jsonl"])


def test_no_single_byte_can_change_unnoticed(tmp_path):
    segment = write_segment(tmp_path, "r000001-000000", RECORDS[:2])
    held = segment.read_bytes()
    changed = [held[:at] + bytes([held[at] ^ 1]) + held[at + 1 :] for at in range(len(held))]
    zeros = b"\0" * len(held)
    for content in (*changed, *(held[:length] for length in range(len(held))), zeros):
        segment.write_bytes(content)
        with pytest.raises(DamagedSegmentError, match=f"{segment.name}' is damaged"):
            list(read_segment(segment))


def test_a_segment_that_may_not_be_read_is_not_taken_for_damaged(tmp_path, monkeypatch):
    segment = write_segment(tmp_path, "one", RECORDS)
    refused = Mock(side_effect=PermissionError(13, "Permission denied"))
    monkeypatch.setattr(DiskPath, "reading", refused)
    with pytest.raises(StoreError, match="Permission denied") as raised:
        list(read_segment(segment))
    assert not isinstance(raised.value, DamagedSegmentError)


def one_digit(path):
    held = path.read_bytes()
    at = held.index(NUMBER) + len(NUMBER)
    digit = b"7" if held[at : at + 1] != b"7" else b"3"
    path.write_bytes(held[:at] + digit + held[at + 1 :])


def test_a_damaged_segment_is_set_aside_and_its_cells_are_solved_again(client, small, tmp_path):
    asked, store, heard = small(), tmp_path / "s", []
    before = sweep.run(asked, store, client)
    hurt = next(p for p in sorted((store / "journal").glob("*")) if NUMBER in p.read_bytes())
    one_digit(hurt)
    harmed = hurt.read_bytes()
    (said,) = status_of(store).damaged_segments
    assert hurt.name in said
    shown = CliRunner().invoke(app, ["status", str(store)], env={"COLUMNS": "400"})
    assert shown.exit_code == 1
    assert hurt.name in shown.output

    after = sweep.run(asked, store, client, listen=heard.append)
    (aside,) = (event.message for event in heard if isinstance(event, events.Warned))
    damage, _, path = aside.partition("; it is ")
    assert Path(path.removesuffix(" now").strip("'")).read_bytes() == harmed
    assert hurt.name in damage
    assert next(e for e in heard if isinstance(e, events.RunStarted)).todo > 0
    xr.testing.assert_equal(before.squared_privacy_cost, after.squared_privacy_cost)
    xr.testing.assert_equal(before.lower_bound, after.lower_bound)
    assert (after.status == Status.OK).all()
    assert status_of(store).damaged_segments == ()
    assert aside in (store / "runs.jsonl").read_text()


def test_cells_only_in_a_damaged_part_of_a_task_are_pending(tmp_path):
    """The driver has the records of a task from memory, and may have written an index."""
    (folder := tmp_path / "journal").mkdir()
    record, task = CellRecord("a", "s", "p", Status.OK), "r000001-s-n-000000"
    part = write_segment(folder, f"{task}+000000-x", [record])
    write_segment(folder, task, [])
    journal = Journal(folder)
    journal.take(task, [record])
    journal.write_index()
    part.write_bytes(part.read_bytes()[:-5])
    journal.refresh()
    assert list(journal.damaged) == [part.name]
    aside, _ = journal.set_aside()
    assert list(aside) == [part.name]
    assert cells(journal.ledger) == cells(Journal(folder).refresh()) == {}


def state(journal):
    return contents(journal.refresh()), journal.state, journal.damaged


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


@pytest.fixture
def segments_read(monkeypatch):
    """The names of the segments that are read from now on."""
    names = []

    def noted(path):
        names.append(path.stem)
        return read_segment(path)

    monkeypatch.setattr("sweep.store.journal.read_segment", noted)
    return names


def test_a_journal_reads_each_segment_once_and_ignores_partial_ones(tmp_path, segments_read):
    journal = Journal(tmp_path)
    write_segment(tmp_path, "r000001-000000", RECORDS[:5])
    (tmp_path / ".r000001-000001.host-1-1.partial").write_text('{"kind": "cel')
    assert journal.refresh().rows(["a", "low"]).tolist() == [1, 0]
    write_segment(tmp_path, "r000002-000000", RECORDS[5:])
    assert set(cells(journal.refresh())) == {"a", "b", "c", "d", "e", "low"}
    assert segments_read == ["r000001-000000", "r000002-000000"]
    assert len(journal.names) == 2


def test_the_index_keeps_what_later_records_are_judged_by(folder):
    killer = CellRecord("b", "s-b", "p", Status.LOST, deaths=1, started=1.7e9)
    write_segment(folder, "r000003-000000", [killer])
    with_index(folder)
    write_segment(folder, "r000004-000000", [killer, BoundRecord("r", 0.5, code="newer")])
    held = Journal(folder)
    ledger = held.refresh()
    assert status(ledger, "low") is Status.OK
    assert deaths(ledger, "b") == 4
    assert state(held) == read_anew(folder)


def test_a_segment_of_an_earlier_run_that_arrives_late_says_nothing_newer(folder):
    """The workers of a lost driver write it, or someone restores a damaged one."""
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
    assert cells(journal.ledger)["low"] == after


def test_a_segment_that_changes_after_it_was_taken_in_is_noticed(folder):
    """It must not enter the index in its present state."""
    held, name = Journal(folder), "r000001-000000.jsonl"
    third = CellRecord("f", "s-f", "p", Status.OK, host="here")
    write_segment(folder, "r000003-000000", [third])
    held.take("r000003-000000", [third])
    (folder / name).write_text((folder / name).read_text().replace("here", "ther"))
    held.write_index()
    later = Journal(folder)
    later.refresh()
    assert list(later.damaged) == [name]


def test_a_segment_that_is_gone_is_noticed(swept, client, small, tmp_path):
    heard = []
    swept(tmp_path / "s", "[2]")
    gone = max((tmp_path / "s" / "journal").iterdir())
    gone.unlink()
    sweep.run(small("[2]"), tmp_path / "s", client, listen=heard.append)
    assert [one.message for one in heard if isinstance(one, events.Warned)] == [
        f"journal segment {gone.name!r} is gone; its cells are solved again"
    ]
    assert status_of(tmp_path / "s").statuses == {"ok": 2}


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


def test_status_and_the_next_run_read_the_index_alone(
    swept, client, small, tmp_path, segments_read
):
    swept(tmp_path / "s", "[2, 4]")
    segments_read.clear()
    assert status_of(tmp_path / "s").statuses == {"ok": 4}
    sweep.run(small("[2, 4]"), tmp_path / "s", client)
    assert segments_read == []
    maintenance.forget(tmp_path / "s", "d == 2")
    assert status_of(tmp_path / "s").statuses == {"ok": 2, "pending": 2}


def test_a_run_goes_on_without_an_index(client, small, tmp_path, monkeypatch):
    full = Mock(side_effect=OSError(28, "No space left on device"))
    monkeypatch.setattr("sweep.store.journal.np.savez", full)
    found = sweep.run(small("[2, 4]"), tmp_path / "s", client)
    assert int((found.status == Status.OK).sum()) == 4
    assert not (tmp_path / "s" / INDEX).exists()
