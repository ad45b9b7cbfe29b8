"""Merging, forgetting, compacting and packing: nothing is lost, whatever is killed on the way."""

import shutil
import tarfile

import pytest
import xarray as xr

import sweep
from sweep.dataset import build, reading
from sweep.errors import StoreError, SweepError
from sweep.runner import status, stories, upkeep
from sweep.store import disk, folder, journal
from sweep.store.journal import Journal, write_segment
from sweep.store.records import CellRecord, ForgottenRecord, Status


def cell(name, status=Status.OK, **facts):
    return CellRecord(name, f"solve of {name}", "problem", status, **facts)


def state(ledger):
    rows = ledger.rows(list(ledger.cells))
    tried = (ledger.attempts(rows).tolist(), ledger.deaths(rows).tolist())
    return (ledger.cells, *tried, ledger.bounds, ledger.solved)


def deaths_of_b(ledger):
    return ledger.deaths(ledger.rows(["b"])).item()


def test_stores_of_two_clusters_become_one(client, small, tmp_path, on_the_test_cluster):
    whole = sweep.run(small("[2, 4, 8]"), tmp_path / "whole", client)
    sweep.run(small("[2, 4, 8]"), tmp_path / "a", client)
    upkeep.forget(tmp_path / "a", "d > 2")
    sweep.run(small("[4, 8]"), tmp_path / "b", client)
    assert upkeep.merge([tmp_path / "a", tmp_path / "b"], tmp_path / "c") == 6
    merged = sweep.open(tmp_path / "c")
    assert merged.squared_privacy_cost.equals(whole.squared_privacy_cost)
    assert merged.gap.equals(whole.gap)
    heard = []
    sweep.run(small("[2, 4, 8]"), tmp_path / "c", client="never touched", listen=heard.append)
    assert heard[0].todo == 0
    said = state(Journal(tmp_path / "c" / "journal").refresh())
    upkeep.merge([tmp_path / "a", tmp_path / "b"], tmp_path / "c")
    assert state(Journal(tmp_path / "c" / "journal").refresh()) == said


def test_kept_arrays_come_along(client, small, tmp_path):
    first = sweep.run(small(more="keep: [query_variances]"), tmp_path / "a", client)
    upkeep.merge([tmp_path / "a"], tmp_path / "c")
    one = first.solve.values.flat[0]
    kept = sweep.arrays(tmp_path / "c", one)
    xr.testing.assert_identical(kept.load(), sweep.arrays(tmp_path / "a", one).load())


def test_what_cannot_be_merged_is_refused(client, small, tmp_path):
    sweep.run(small("[2]"), tmp_path / "a", client)
    sweep.run(small("[4]"), tmp_path / "b", client)
    with pytest.raises(SweepError, match=r"has 2 cells that the experiment of .* does not have"):
        upkeep.merge([tmp_path / "a", tmp_path / "b"], tmp_path / "c")
    with pytest.raises(StoreError, match="cannot be merged into itself"):
        upkeep.merge([tmp_path / "a"], tmp_path / "a")
    with pytest.raises(StoreError, match="is not a store"):
        upkeep.merge([tmp_path / "x"], tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_forgotten_cells_are_pending_and_solved_again(client, small, tmp_path):
    before = sweep.run(small("[2, 4]"), tmp_path / "s", client)
    assert upkeep.forget(tmp_path / "s", "mechanism == 'GM' and d == 2") == 1
    found = sweep.open(tmp_path / "s")
    assert found.status.sel(mechanism="GM", d=2) == Status.PENDING
    assert (found.status == Status.OK).sum() == 3
    after = sweep.run(small("[2, 4]"), tmp_path / "s", client)
    assert after.squared_privacy_cost.equals(before.squared_privacy_cost)


def test_hidden_cells_are_forgotten_on_request(client, small, tmp_path):
    sweep.run(small("[2, 4]"), tmp_path / "s", client)
    sweep.run(small("[2]"), tmp_path / "s", client)
    assert upkeep.forget(tmp_path / "s", None) == 2
    assert upkeep.forget(tmp_path / "s", None) == 0
    assert status.status(tmp_path / "s").totals == {"ok": 2}


def test_a_cell_that_is_recorded_after_it_was_forgotten_counts(tmp_path):
    write_segment(tmp_path, "r1", [cell("a", numbers={"squared_privacy_cost": 1.0}), cell("b")])
    write_segment(tmp_path, "r2", [ForgottenRecord("a")])
    assert Journal(tmp_path).refresh().cells.keys() == {"b"}
    write_segment(tmp_path, "r3", [cell("a", Status.FAILED)])
    assert Journal(tmp_path).refresh().status("a") is Status.FAILED


def test_a_compact_journal_says_the_same(client, small, tmp_path):
    before = sweep.run(small("[2, 4]"), tmp_path / "s", client)
    sweep.rerun(tmp_path / "s", "d == 2", client)
    said = state(Journal(tmp_path / "s" / "journal").refresh())
    assert upkeep.compact(tmp_path / "s") > 1
    assert len(list((tmp_path / "s" / "journal").iterdir())) == 1
    assert state(Journal(tmp_path / "s" / "journal").refresh()) == said
    assert sweep.open(tmp_path / "s").squared_privacy_cost.equals(before.squared_privacy_cost)


@pytest.mark.parametrize("removed", [0, 1, 2, 3])
def test_a_compaction_that_is_killed_loses_and_doubles_nothing(tmp_path, removed):
    lost = cell("b", Status.LOST, deaths=1)
    for name, records in [("r1", [cell("a"), lost]), ("r2", [lost]), ("r3", [cell("c")])]:
        write_segment(tmp_path, name, records)
    said = state(Journal(tmp_path).refresh())
    old = sorted(tmp_path.iterdir())
    kept = {path: path.read_bytes() for path in old}
    journal = Journal(tmp_path)
    journal.refresh()
    journal.compact("r3")
    for path in old[removed:]:
        path.write_bytes(kept[path])  # as if it had been killed before
    assert state(Journal(tmp_path).refresh()) == said
    write_segment(tmp_path, "r4", [lost])
    again = Journal(tmp_path)
    assert deaths_of_b(again.refresh()) == 3
    again.compact("r4")
    assert len(list(tmp_path.iterdir())) == 1
    assert deaths_of_b(Journal(tmp_path).refresh()) == 3


def test_a_reader_notices_that_the_journal_was_compacted(tmp_path):
    write_segment(tmp_path, "r1", [cell("b", Status.LOST, deaths=1)])
    reader, other = Journal(tmp_path), Journal(tmp_path)
    reader.refresh()
    other.refresh()
    other.compact("r1")
    assert deaths_of_b(reader.refresh()) == 1


def test_a_segment_that_is_compacted_away_while_it_is_read_is_no_trouble(tmp_path, monkeypatch):
    for name in ("a", "b"):
        write_segment(tmp_path, f"r1-{name}", [cell(name)])
    reader, other = Journal(tmp_path), Journal(tmp_path)
    other.refresh()
    read = disk.content

    def read_after_the_compaction(file):
        monkeypatch.setattr(disk, "content", read)
        other.compact("r1")
        return read(file)

    monkeypatch.setattr(disk, "content", read_after_the_compaction)
    assert reader.refresh().cells.keys() == {"a", "b"}


def test_a_packed_store_is_a_store_again(client, small, tmp_path):
    before = sweep.run(small(), tmp_path / "s", client)
    assert upkeep.pack(tmp_path / "s", tmp_path / "sent.tar.gz") > 0
    shutil.rmtree(tmp_path / "s")
    with tarfile.open(tmp_path / "sent.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    xr.testing.assert_identical(sweep.open(tmp_path / "sent"), before)
    assert folder.open_(tmp_path / "sent").user is None


@pytest.mark.parametrize(
    ("file", "said"), [("x.zip", "expected .tar or .tar.gz"), ("there.tar", "is there already")]
)
def test_a_file_that_cannot_be_written_is_refused(tmp_path, file, said):
    folder.create(tmp_path / "s", "mine")
    (tmp_path / "there.tar").touch()
    with pytest.raises(SweepError, match=said):
        upkeep.pack(tmp_path / "s", tmp_path / file)


def test_the_commands_say_what_they_did(client, small, tmp_path, command):
    sweep.run(small(), tmp_path / "s", client)
    assert (
        "1 cell is forgotten"
        in command("forget", tmp_path / "s", "--where", "mechanism == 'GM' and d == 2").output
    )
    assert "segments are one now" in command("compact", tmp_path / "s").output
    assert "no segments to put together" in command("compact", tmp_path / "s").output
    merged = command("merge", tmp_path / "s", "--into", tmp_path / "t")
    assert f"3 cells have a result in {tmp_path / 't'}" in merged.output.replace("\n", "")
    assert command("pack", tmp_path / "t", tmp_path / "t.tar").exit_code == 0
    assert command("forget", tmp_path / "s").exit_code == 2


def compacted_under(monkeypatch, place):
    """Have another process compact a journal while this one is about to read its last segment."""
    read, pending = journal.read_segment, [True]

    def interrupted(path, *cells):
        if path.name == "r3.jsonl" and pending:
            pending.clear()
            other = Journal(place)
            other.refresh()
            other.compact("r4")
        return read(path, *cells)

    monkeypatch.setattr(journal, "read_segment", interrupted)


def three_segments(place):
    place.mkdir()
    for number, name in enumerate("abc", 1):
        write_segment(place, f"r{number}", [cell(name)])


def test_records_are_copied_from_a_journal_that_is_compacted_meanwhile(tmp_path, monkeypatch):
    three_segments(tmp_path / "j")
    held = Journal(tmp_path / "j")
    held.refresh()
    compacted_under(monkeypatch, tmp_path / "j")
    assert [record.cell for record in held.records()] == ["a", "b", "c"]
    (tmp_path / "j" / next(iter(held.names))).unlink()
    with pytest.raises(StoreError, match="cannot be read"):
        held.records()


def test_stories_are_told_of_a_journal_that_is_compacted_meanwhile(tmp_path, monkeypatch):
    three_segments(tmp_path / "j")
    compacted_under(monkeypatch, tmp_path / "j")
    told = stories._records(tmp_path / "j", ["a", "c"])
    assert [len(told[name]) for name in "ac"] == [1, 1]


@pytest.mark.parametrize("times", [1, 2])
def test_a_dataset_that_is_replaced_while_it_is_read_is_read_again(tmp_path, monkeypatch, times):
    def version(number):
        made = xr.Dataset({"x": ("i", [number, number])})
        place.dataset.publish(lambda path: build.write(made, path))

    place = folder.create(tmp_path / "s", "x")
    version(1.0)
    open_, pending = xr.open_datatree, [True]

    def replaced(*args, **options):
        opened = open_(*args, **options)
        while pending:
            pending.clear()
            for number in range(times):
                version(2.0 + number)
        return opened

    monkeypatch.setattr(xr, "open_datatree", replaced)
    found = reading.open_dataset(tmp_path / "s").x.values.tolist()
    assert found == ([1.0, 1.0] if times == 1 else [3.0, 3.0])
