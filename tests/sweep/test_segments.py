"""Journal segments that were damaged: noticed, named, kept, and their cells solved again."""

import os
from pathlib import Path

import pytest
import xarray as xr
from typer.testing import CliRunner

import sweep
from sweep import events
from sweep.cli import app
from sweep.errors import DamagedSegmentError, StoreError
from sweep.runner import status
from sweep.store.places import DiskPath
from sweep.store.records import BoundRecord, CellRecord, Status
from sweep.store.segments import read_segment, write_segment

NUMBER = b'"squared_privacy_cost":'


def one_digit(path):
    held = path.read_bytes()
    at = held.index(NUMBER) + len(NUMBER)
    digit = b"7" if held[at : at + 1] != b"7" else b"3"
    path.write_bytes(held[:at] + digit + held[at + 1 :])


def cut_at_a_line(path):
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


def emptied(path):
    path.write_bytes(b"")


def overwritten(path):
    path.write_bytes(b"\0" * path.stat().st_size)


@pytest.fixture
def segment(tmp_path):
    cells = [
        CellRecord(f"c{n}", "s", "p", Status.OK, numbers={"squared_privacy_cost": 2.0})
        for n in range(3)
    ]
    return write_segment(tmp_path, "r000001-000000", cells)


@pytest.mark.parametrize("harm", [one_digit, cut_at_a_line, emptied, overwritten])
def test_what_was_not_written_is_not_read(segment, harm):
    harm(segment)
    with pytest.raises(DamagedSegmentError, match=f"{segment.name}' is damaged"):
        read_segment(segment)


def test_no_single_byte_can_change_unnoticed(segment):
    held = segment.read_bytes()
    for at in range(len(held)):
        segment.write_bytes(held[:at] + bytes([held[at] ^ 1]) + held[at + 1 :])
        with pytest.raises(DamagedSegmentError):
            read_segment(segment)
    for length in range(len(held)):
        segment.write_bytes(held[:length])
        with pytest.raises(DamagedSegmentError):
            read_segment(segment)


def test_a_segment_that_may_not_be_read_is_not_taken_for_damaged(segment, monkeypatch):
    def refused(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(DiskPath, "read_bytes", refused)
    with pytest.raises(StoreError, match="Permission denied") as raised:
        read_segment(segment)
    assert not isinstance(raised.value, DamagedSegmentError)


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


@pytest.mark.parametrize("harm", [one_digit, cut_at_a_line, overwritten])
def test_a_damaged_segment_is_set_aside_and_its_cells_are_solved_again(
    client, small, tmp_path, harm
):
    asked, store, heard = small(), tmp_path / "s", []
    before = sweep.run(asked, store, client)
    hurt = next(p for p in sorted((store / "journal").glob("*")) if NUMBER in p.read_bytes())
    harm(hurt)
    harmed = hurt.read_bytes()
    (said,) = status.status(store).damaged_segments
    assert hurt.name in said
    shown = CliRunner().invoke(app, ["status", str(store)], env={"COLUMNS": "400"})
    assert shown.exit_code == 1
    assert hurt.name in shown.output

    after = sweep.run(asked, store, client, listen=heard.append)
    (aside,) = (event for event in heard if isinstance(event, events.SegmentSetAside))
    assert Path(aside.path).read_bytes() == harmed
    assert hurt.name in aside.message
    assert next(e for e in heard if isinstance(e, events.RunStarted)).todo > 0
    xr.testing.assert_equal(before.squared_privacy_cost, after.squared_privacy_cost)
    xr.testing.assert_equal(before.lower_bound, after.lower_bound)
    assert (after.status == Status.OK).all()
    assert status.status(store).damaged_segments == ()
    assert "SegmentSetAside" in (store / "runs.jsonl").read_text()
