"""Merging, forgetting, compacting and packing: nothing is lost, whatever is killed on the way."""

import errno
import json
import os
import shutil
import tracemalloc
from dataclasses import replace
from unittest.mock import Mock

import ledgers
import pytest
import xarray as xr
from processes import alone

import sweep
from sweep.dataset import build, reading
from sweep.errors import ExperimentError, StoreError, SweepError
from sweep.runner import maintenance, status
from sweep.store import arrays, folder
from sweep.store.journal import Journal, read_segment, write_segment
from sweep.store.paths import DiskPath
from sweep.store.records import BoundRecord, CellRecord, ForgottenRecord, SolveCode, Status


def cell(name, status=Status.OK, **facts):
    return CellRecord(name, f"solve of {name}", "problem", status, **facts)


def test_stores_of_two_clusters_become_one(swept, client, small, tmp_path, on_the_test_cluster):
    whole = swept(tmp_path / "whole", "[2, 4, 8]")
    sweep.run(small("[2, 4, 8]"), tmp_path / "a", client)
    maintenance.forget(tmp_path / "a", "d > 2")
    sweep.run(small("[4, 8]"), tmp_path / "b", client)
    assert maintenance.merge([tmp_path / "a", tmp_path / "b"], tmp_path / "c") == 6
    merged = sweep.open(tmp_path / "c")
    assert merged.squared_privacy_cost.equals(whole.squared_privacy_cost)
    assert merged.gap.equals(whole.gap)
    heard = []
    sweep.run(small("[2, 4, 8]"), tmp_path / "c", client="never touched", listen=heard.append)
    assert heard[0].todo == 0
    said = ledgers.contents(held(tmp_path / "c"))
    maintenance.merge([tmp_path / "a", tmp_path / "b"], tmp_path / "c")
    assert ledgers.contents(held(tmp_path / "c")) == said


def held(store):
    return Journal(store / "journal").refresh()


def test_cells_forgotten_by_a_store_stay_in_merged_copies(swept, tmp_path):
    swept(tmp_path / "a")
    maintenance.merge([tmp_path / "a"], tmp_path / "c")
    maintenance.forget(tmp_path / "a", "mechanism == 'GM' and d == 2")
    assert maintenance.merge([tmp_path / "a"], tmp_path / "c") == 4


def test_workers_that_died_are_not_counted_again_in_a_copy(swept, tmp_path):
    swept(tmp_path / "a")
    known = next(iter(ledgers.cells(held(tmp_path / "a")).values()))
    lost = [replace(known, status=Status.LOST, deaths=2)]
    write_segment(tmp_path / "a" / "journal", "r000009-s-n-000000-lost", lost)
    maintenance.merge([tmp_path / "a", another(tmp_path / "a", tmp_path / "b")], tmp_path / "c")
    ledger = held(tmp_path / "c")
    assert [ledgers.deaths(ledger, record.cell) for record in lost] == [2]


def solved_again(store, name, *hosts):
    """Solve the cells of a store again, each on one of these hosts."""
    known = sorted(ledgers.cells(held(store)).values(), key=lambda one: one.cell)
    again = [replace(one, host=host) for one, host in zip(known, hosts, strict=False)]
    write_segment(store / "journal", name, again)


def hosts(store):
    return [one.host for _, one in sorted(ledgers.cells(held(store)).items())]


def another(store, path):
    """A store of the same experiment and records, with its own identity."""
    shutil.copytree(store, path, symlinks=True)
    content = json.loads((path / "store.json").read_text())
    (path / "store.json").write_text(json.dumps({**content, "identity": path.name * 32}))
    return path


def test_the_last_result_of_a_cell_counts_in_a_merge(swept, tmp_path):
    swept(tmp_path / "m", "[2]")
    both = [another(tmp_path / "m", tmp_path / name) for name in "az"]
    for store in both:
        solved_again(store, "r000002", store.name, store.name)
    for order in (both, both[::-1]):
        maintenance.merge(order, tmp_path / "c")
        assert hosts(tmp_path / "c") == [order[-1].name] * 2


def test_copies_that_went_their_own_ways_become_one(swept, tmp_path):
    swept(tmp_path / "a", "[2]")
    one, other = ledgers.cells(held(tmp_path / "a")).values()
    maintenance.forget(tmp_path / "a", "d == 2")
    maintenance.compact(tmp_path / "a")
    maintenance.compact(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b", symlinks=True)
    write_segment(tmp_path / "a" / "journal", "r000009-a-a-000000", [one])
    write_segment(tmp_path / "b" / "journal", "r000009-b-b-000000", [other])
    for store in "aba":
        maintenance.merge([tmp_path / store], tmp_path / "c")
    assert ledgers.cells(held(tmp_path / "c")).keys() == {one.cell, other.cell}


def test_results_lost_by_a_damaged_store_stay_in_merged_copies(swept, tmp_path):
    swept(tmp_path / "a", "[2]")
    maintenance.merge([tmp_path / "a"], tmp_path / "c")
    for segment in (tmp_path / "a" / "journal").glob("*.jsonl"):
        segment.write_bytes(b"")
    with pytest.raises(StoreError, match=r"journal segment .* is damaged"):
        maintenance.merge([tmp_path / "a"], tmp_path / "c")
    with pytest.raises(StoreError, match=r"journal segment .*/a/.* is damaged"):
        maintenance.merge([tmp_path / "c", tmp_path / "a"], tmp_path / "d")
    assert not (tmp_path / "d").exists()
    maintenance.compact(tmp_path / "a")
    assert maintenance.merge([tmp_path / "a"], tmp_path / "c") == 2


def test_arrays_are_those_of_the_result_that_counts(swept, tmp_path):
    keep = "keep: [query_variances]"
    made = swept(tmp_path / "a", "[2]", "[IP]", keep)
    later = another(tmp_path / "a", tmp_path / "z")
    (one,) = ledgers.cells(held(later)).values()
    write_segment(later / "journal", "r000002", [replace(one, started=one.started + 9.0)])
    doubled = {"query_variances": made.squared_privacy_cost.values.ravel().repeat(2)}
    arrays.write(later, one.solve, doubled, ["query_variances"])

    def kept(store):
        return sweep.arrays(store, one.solve).query_variances.values.tolist()

    assert kept(later) != kept(tmp_path / "a")
    maintenance.merge([tmp_path / "a"], tmp_path / "c")
    for last in (later, tmp_path / "a"):
        maintenance.merge([tmp_path / "a", later, last], tmp_path / "c")
        assert kept(tmp_path / "c") == kept(last)
    assert {path.suffix for path in (tmp_path / "c" / "arrays").iterdir()} == {".npz"}


@pytest.mark.usefixtures("here")
def test_what_cannot_be_merged_is_refused(swept, client, small, tmp_path):
    swept(tmp_path / "a", "[2]")
    with pytest.raises(StoreError, match="cannot be merged into itself"):
        maintenance.merge(["a"], tmp_path / "a")
    swept(tmp_path / "b", "[4]", more="simulate: 5")
    with pytest.raises(ExperimentError, match=r"has 2 cells that .*, such as simulate, differs"):
        maintenance.merge([tmp_path / "a", tmp_path / "b"], tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_two_halves_of_an_experiment_become_the_whole(swept, client, small, tmp_path):
    """Two colleagues each solved half of the sizes."""
    whole = swept(tmp_path / "whole", "[2, 4, 8]")
    swept(tmp_path / "a", "[2, 8]")
    swept(tmp_path / "b", "[4, 8]")
    assert maintenance.merge([tmp_path / "b", tmp_path / "a"], tmp_path / "c") == 6
    merged, heard = sweep.open(tmp_path / "c"), []
    assert merged.squared_privacy_cost.sortby("d").equals(whole.squared_privacy_cost)
    assert merged.cell.sortby("d").equals(whole.cell)
    sweep.run(small("[2, 4, 8]"), tmp_path / "c", "never touched", listen=heard.append)
    assert heard[0].todo == 0


def test_forgotten_cells_are_pending_and_solved_again(swept, client, small, tmp_path):
    before = swept(tmp_path / "s", "[2, 4]")
    assert maintenance.forget(tmp_path / "s", "mechanism == 'GM' and d == 2") == 1
    found = sweep.open(tmp_path / "s")
    assert found.status.sel(mechanism="GM", d=2) == Status.PENDING
    assert (found.status == Status.OK).sum() == 3
    after = sweep.run(small("[2, 4]"), tmp_path / "s", client)
    assert after.squared_privacy_cost.equals(before.squared_privacy_cost)
    sweep.run(small("[2]"), tmp_path / "s", client)  # hides two cells
    assert maintenance.forget(tmp_path / "s", None) == 2
    assert maintenance.forget(tmp_path / "s", None) == 0
    assert status.status(tmp_path / "s").statuses == {"ok": 2}


def test_arrays_are_forgotten_with_the_last_cell_that_has_them(client, small, tmp_path):
    keep = "keep: [query_variances]"
    made = sweep.run(small("[2, 4]", "[IP]", keep), tmp_path / "s", client)
    two, four = made.solve.values.ravel().tolist()
    other = replace(ledgers.cells(held(tmp_path / "s"))[made.cell.values.flat[1]], cell="other")
    write_segment(tmp_path / "s" / "journal", "r000002", [other])
    maintenance.forget(tmp_path / "s", "mechanism == 'IP'")
    assert arrays.list_solves(tmp_path / "s") == [four]
    with pytest.raises(StoreError, match="has no arrays of solve"):
        sweep.arrays(tmp_path / "s", two)


def test_arrays_that_a_killed_command_has_left_go_with_the_next(swept, tmp_path):
    made = swept(tmp_path / "s", "[2, 4]", "[IP]", "keep: [query_variances]")
    two, four = (made.cell.values.flat[place] for place in range(2))
    forgotten = [ForgottenRecord(two)]
    write_segment(tmp_path / "s" / "journal", "r000002-s-n-forgotten", forgotten)
    maintenance.compact(tmp_path / "s")
    assert arrays.list_solves(tmp_path / "s") == [ledgers.cells(held(tmp_path / "s"))[four].solve]


def test_a_certificate_that_was_stopped_stays_so_when_a_forgotten_cell_is_compacted(tmp_path):
    stopped = BoundRecord("problem", 1.0, error="stopped")
    timeout = cell("a", Status.TIMEOUT, numbers={"lower_bound": 1.1})
    write_segment(tmp_path, "r1", [stopped, timeout])
    write_segment(tmp_path, "r2", [ForgottenRecord("a")])
    ledgers.compacted(tmp_path, "r3")
    again = Journal(tmp_path).refresh()
    assert (again.bounds, again.bound_errors) == ({"problem": 1.0}, {"problem": "stopped"})


def peak_of_compaction(folder, count):
    """Bytes that compacting a journal of this many records takes at most, without the ledger."""
    folder.mkdir()
    for part in range(4):
        records = (cell(f"{part} {number}", host="h") for number in range(count // 4))
        write_segment(folder, f"r{part}", records)
    journal = Journal(folder)
    assert len(journal.refresh().current) == count
    tracemalloc.start()
    journal.compact("r9")
    return tracemalloc.get_traced_memory()[1]


@pytest.mark.slow
def test_a_compaction_never_has_all_records_in_memory(tmp_path):
    few, more = (alone(peak_of_compaction, tmp_path / f"{n}", n) for n in (2000, 10_000))
    assert more - few < 20 * 8000


@pytest.mark.parametrize("removed", range(5))
def test_a_compaction_that_is_killed_loses_and_doubles_nothing(tmp_path, removed):
    proof = cell(
        "a", numbers={"squared_privacy_cost": 2.0, "lower_bound": 1.9}, code=SolveCode("ours")
    )
    segments = {
        "r1": [proof, cell("b"), cell("d", numbers={"squared_privacy_cost": 1.5})],
        "r2": [cell("b", Status.LOST, deaths=1, started=1.5e9), ForgottenRecord("a")],
        "r3": [ForgottenRecord("b"), cell("b", Status.FAILED, attempt=2), cell("c")],
        "r4": [cell("b", Status.LOST, deaths=1, started=1.6e9), ForgottenRecord("c")],
    }
    for name, records in segments.items():
        write_segment(tmp_path, name, records)
    said = ledgers.contents(Journal(tmp_path).refresh())
    assert said[0]["d"].status is Status.FAILED  # the bound of the forgotten cell refutes it
    old = {path: path.read_bytes() for path in sorted(tmp_path.iterdir())}
    ledgers.compacted(tmp_path, "r4")
    for path in list(old)[removed:]:
        path.write_bytes(old[path])  # as if it had been killed before
    assert ledgers.contents(Journal(tmp_path).refresh()) == said
    ledgers.compacted(tmp_path, "r5")
    assert len(list(tmp_path.iterdir())) == 1
    assert ledgers.contents(Journal(tmp_path).refresh()) == said


def test_a_compaction_removes_the_oldest_segments_first(tmp_path, monkeypatch):
    """A segment in which cells are forgotten outlives those with their records."""
    three_segments(tmp_path / "j")
    removed = []
    monkeypatch.setattr(DiskPath, "unlink", lambda path, missing_ok: removed.append(path.stem))
    ledgers.compacted(tmp_path / "j", "r4")
    assert [name for name in removed if not name.startswith(".")] == ["r1", "r2", "r3"]


def test_a_segment_that_is_compacted_away_while_it_is_read_is_no_trouble(tmp_path, monkeypatch):
    for name in ("a", "b"):
        write_segment(tmp_path, f"r1-{name}", [cell(name, Status.LOST, deaths=1)])
    reader, read = Journal(tmp_path), DiskPath.read_bytes

    def read_after_the_compaction(file):
        monkeypatch.setattr(DiskPath, "read_bytes", read)
        ledgers.compacted(tmp_path, "r1")
        return read(file)

    monkeypatch.setattr(DiskPath, "read_bytes", read_after_the_compaction)
    assert ledgers.cells(reader.refresh()).keys() == {"a", "b"}
    ledgers.compacted(tmp_path, "r2")
    assert ledgers.deaths(reader.refresh(), "b") == 1


def test_a_packed_store_is_a_store_again(client, small, tmp_path):
    before = sweep.run(small(), tmp_path / "s", client)
    assert maintenance.pack(tmp_path / "s", tmp_path / "sent.tar.gz") > 0
    shutil.rmtree(tmp_path / "s")
    shutil.unpack_archive(tmp_path / "sent.tar.gz", tmp_path)
    xr.testing.assert_identical(sweep.open(tmp_path / "sent"), before)
    assert folder.open_(tmp_path / "sent").user is None


def test_a_store_that_takes_no_lock_is_packed_unless_it_is_in_use(tmp_path, monkeypatch):
    refuse = Mock(side_effect=OSError(errno.EROFS, "Read-only file system"))
    made = folder.create(tmp_path / "s", "mine")
    with made.locked():
        monkeypatch.setattr(DiskPath, "create", refuse)
        with pytest.raises(StoreError, match="is in use by process"):
            maintenance.pack(tmp_path / "s", tmp_path / "sent.tar")
    assert not list(tmp_path.glob("*sent*"))
    assert maintenance.pack(tmp_path / "s", tmp_path / "sent.tar") > 0


def test_a_store_of_which_a_part_cannot_be_read_is_not_packed(swept, tmp_path, monkeypatch):
    swept(tmp_path / "s")
    read = DiskPath.read_bytes

    def refused(path):
        if path.suffix == ".jsonl":
            raise PermissionError(errno.EACCES, "Permission denied")
        return read(path)

    monkeypatch.setattr(DiskPath, "read_bytes", refused)
    with pytest.raises(StoreError, match=r"\.jsonl' cannot be read \(Permission denied\)"):
        maintenance.pack(tmp_path / "s", tmp_path / "sent.tar")
    monkeypatch.undo()
    scan = os.scandir

    def unlisted(path):
        if str(path).endswith("arrays"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return scan(path)

    monkeypatch.setattr(os, "scandir", unlisted)
    with pytest.raises(StoreError, match=r"s' cannot be read \(Permission denied\)"):
        maintenance.pack(tmp_path / "s", tmp_path / "sent.tar")
    shutil.rmtree(tmp_path / "s" / "journal")
    with pytest.raises(StoreError, match="journal' cannot be read"):
        maintenance.pack(tmp_path / "s", tmp_path / "sent.tar")
    assert not list(tmp_path.glob("*sent*"))


@pytest.mark.parametrize(
    ("file", "said"), [("x.zip", "expected .tar or .tar.gz"), ("there.tar", "already exists")]
)
def test_a_file_that_cannot_be_written_is_refused(tmp_path, file, said):
    folder.create(tmp_path / "s", "mine")
    (tmp_path / "there.tar").touch()
    with pytest.raises(SweepError, match=said):
        maintenance.pack(tmp_path / "s", tmp_path / file)


def test_the_commands_say_what_they_did(client, small, tmp_path, command):
    sweep.run(small(), tmp_path / "s", client)
    said = command("forget", tmp_path / "s", "--where", "mechanism == 'GM' and d == 2").output
    assert "1 cell is forgotten" in said
    assert "segments joined into one" in command("compact", tmp_path / "s").output
    assert "no segments to join" in command("compact", tmp_path / "s").output
    merged = command("merge", tmp_path / "s", "--into", tmp_path / "t")
    assert f"3 cells have a result in {tmp_path / 't'}" in merged.output.replace("\n", "")
    assert command("pack", tmp_path / "t", tmp_path / "t.tar").exit_code == 0
    assert command("forget", tmp_path / "s").exit_code == 2


def compacted_under(monkeypatch, place):
    """Let another process compact a journal just before its last segment is read."""
    read, pending = read_segment, [True]

    def interrupted(path, *cells):
        if path.name == "r3.jsonl" and pending:
            pending.clear()
            ledgers.compacted(place, "r4")
        return read(path, *cells)

    monkeypatch.setattr("sweep.store.journal.read_segment", interrupted)


def three_segments(place):
    place.mkdir()
    for number, name in enumerate("abc", 1):
        write_segment(place, f"r{number}", [cell(name)])


def test_records_are_copied_from_a_journal_that_is_compacted_meanwhile(tmp_path, monkeypatch):
    three_segments(tmp_path / "j")
    held = Journal(tmp_path / "j")
    held.refresh()
    compacted_under(monkeypatch, tmp_path / "j")
    copied = held.copy(tmp_path / "j", "r5")
    assert [record.cell for record in read_segment(copied)] == ["a", "b", "c"]


@pytest.mark.parametrize("times", [1, 2])
def test_a_dataset_that_is_replaced_while_it_is_read_is_read_again(tmp_path, monkeypatch, times):
    def version(number):
        made = xr.Dataset({"x": ("i", [number, number])})
        place.dataset.publish(build.make_files(made))

    place = folder.create(tmp_path / "s", "x")
    version(1.0)
    read, pending = DiskPath.read_bytes, [True]

    def replaced(path):
        content = read(path)
        while ".zattrs" in path.name and pending:
            pending.clear()
            for number in range(times):
                version(2.0 + number)
        return content

    monkeypatch.setattr(DiskPath, "read_bytes", replaced)
    found = reading.open_dataset(tmp_path / "s").x.values.tolist()
    assert found == [1.0 + times] * 2
