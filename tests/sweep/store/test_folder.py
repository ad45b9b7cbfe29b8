"""Stores: created once, refused in a sentence, replaced as a whole, derived again if damaged."""

import errno
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from written import SMALL, experiment, prefix

import sweep
from sweep.dataset import build
from sweep.errors import StoreError
from sweep.grid.expansion import expand
from sweep.grid.grids import unite_cells
from sweep.runner.status import status as status_of
from sweep.state import stored
from sweep.state.stored import load_stored
from sweep.store import arrays, folder, paths
from sweep.store.paths import DiskPath
from sweep.store.records import Status


def publish(found, number):
    return found.dataset.publish(build.make_files(xr.Dataset({"x": number})))


def value(found):
    return int(xr.open_zarr(found.dataset.path, chunks=None).x)


def test_a_folder_that_holds_something_else_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(StoreError, match=r"holds 'thesis\.tex'"):
        folder.create(tmp_path, "mine")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("number", [1, 3])
def test_a_store_of_another_format_is_refused_with_what_to_do(fresh, number):
    reason = f"has format {number}, but this version reads format 2; use the version that made it"
    description = fresh.path / "store.json"
    description.write_text(json.dumps({**json.loads(description.read_text()), "format": number}))
    for use in (
        lambda: folder.open_(fresh.path),
        lambda: folder.create(fresh.path, "mine"),
        lambda: sweep.open(fresh.path),
    ):
        with pytest.raises(StoreError, match=f"{reason}.*--store") as refused:
            use()
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"{", b'{"format": 2}', b"\xff"])
def test_a_damaged_description_is_written_anew_by_a_run_when_it_is_moved_away(
    swept, small, tmp_path, content
):
    before, heard = swept(tmp_path / "s"), []
    (tmp_path / "s" / "store.json").write_bytes(content)
    with pytest.raises(StoreError, match=r"store\.json' cannot be read .*; move it away and run"):
        sweep.open(tmp_path / "s")
    (tmp_path / "s" / "store.json").unlink()
    after = sweep.run(small(), tmp_path / "s", "never touched", listen=heard.append)
    assert heard[0].todo == 0
    assert after.drop_attrs().identical(before.drop_attrs())
    assert status_of(tmp_path / "s").experiment == "small"


def test_the_dataset_is_replaced_as_a_whole_and_one_old_version_stays(fresh):
    for number in range(5):
        path = publish(fresh, number)
        assert value(fresh) == number
    assert path == fresh.path / "results.zarr"
    versions = sorted(p.name for p in (fresh.path / ".results").iterdir())
    assert versions == ["000004.json", "000004.zarr", "000005.json", "000005.zarr"]


def test_a_disk_that_takes_no_more_leaves_the_old_dataset(fresh, monkeypatch):
    publish(fresh, 1)
    written = DiskPath.write_files

    def half(folder, files):
        written(folder, files)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(DiskPath, "write_files", half)
    with pytest.raises(StoreError, match="cannot be written: No space left on device; "):
        publish(fresh, 2)
    assert value(fresh) == 1
    assert [p.name for p in (fresh.path / ".results").glob("*.zarr")] == ["000001.zarr"]


def test_runs_that_create_a_store_at_once_agree_on_it(tmp_path):
    for attempt in "abcde":
        with ThreadPoolExecutor(8) as pool:
            made = list(pool.map(folder.create, [tmp_path / attempt] * 8, ["x"] * 8))
        assert {one.about.identity for one in made} == {folder.open_(made[0].path).about.identity}


def test_an_experiment_under_another_file_name_takes_the_cells_that_it_has(
    client, tmp_path, monkeypatch, command
):
    """As with the store of a colleague whose file had another name."""
    monkeypatch.chdir(tmp_path)
    for name, sizes in (("part", [2, 4]), ("wider", [2, 4, 8])):
        Path(f"{name}.yaml").write_text(experiment(prefix(sizes, ["IP", "GM"])).text)
    part, heard = sweep.run("part.yaml", "s", client), []
    planned = command("plan", "wider.yaml", "--store", "s")
    assert "4 ok" in planned.output
    wider = sweep.run("wider.yaml", "s", client, listen=heard.append)
    assert heard[0].todo == 2
    assert wider.started.sel(d=[2, 4]).equals(part.started)
    assert wider.attrs["experiment"] == status_of(tmp_path / "s").experiment == "wider"
    again = sweep.rerun("s", "d == 8", client)
    assert again.attrs["experiment"] == "wider"


def test_a_store_whose_creation_was_killed_is_created(tmp_path):
    (tmp_path / ".store.json..partial").touch()
    with folder.create(tmp_path, "x").locked():
        assert folder.open_(tmp_path).about.experiment == "x"


@pytest.mark.parametrize("values", [["[2, 4]", "[2]"], ["[2]", "[2, 4]"], ["[2, 4]", "[4, 8]"]])
def test_an_experiment_that_changes_when_the_run_is_killed_is_one_still(
    small, fresh, monkeypatch, values
):
    before, after = map(small, values)
    cells = [unite_cells(expand(one)).ids for one in (before, after)]
    write = DiskPath.write_bytes
    for done in range(5):
        fresh.describe(before.name, before.text, cells[0])
        left = [True] * done

        def killed(*content, left=left):
            left.pop()
            write(*content)

        monkeypatch.setattr(DiskPath, "write_bytes", killed)
        with suppress(IndexError):
            fresh.describe(after.name, after.text, cells[1])
        monkeypatch.setattr(DiskPath, "write_bytes", write)
        assert len(load_stored(fresh.path).store.cells) > 0
    assert np.array_equal(fresh.cells, cells[1])


def test_a_reader_copes_with_a_run_that_changes_the_experiment(small, fresh, monkeypatch):
    before, after = map(small, ["[2, 4]", "[4, 8]"])
    fresh.describe(before.name, before.text, unite_cells(expand(before)).ids)
    changes = [lambda: fresh.describe(after.name, after.text, unite_cells(expand(after)).ids)]
    lay_out = stored.lay_out

    def meanwhile(experiment):
        if changes:
            changes.pop()()
        return lay_out(experiment)

    monkeypatch.setattr(stored, "lay_out", meanwhile)
    assert load_stored(fresh.path).experiment.text == after.text


def test_damaged_arrays_are_a_sentence(tmp_path):
    (tmp_path / "arrays").mkdir()
    for content in (b"", b"PK", b"nothing"):
        (tmp_path / "arrays" / "one.npz").write_bytes(content)
        with pytest.raises(StoreError, match=r"one\.npz' cannot be read \(it is damaged\)"):
            arrays.arrays(tmp_path, "one")
    (tmp_path / "arrays" / "two.npz").mkdir()
    with pytest.raises(StoreError, match=r"two\.npz' cannot be read \(Is a directory\)"):
        arrays.arrays(tmp_path, "two")


def test_leftovers_of_a_killed_run_are_removed_but_not_what_its_workers_write(fresh, monkeypatch):
    publish(fresh, 1)
    names = ("arrays/.solve-1.partial", "journal/.r1.partial", "journal/.theirs.partial")
    written, segment, theirs = (fresh.path / name for name in names)
    unlink, unfinished = DiskPath.unlink, fresh.path / ".results" / "000002.zarr"
    for path in (written, segment, theirs):
        path.touch()
    for path in (segment, theirs):
        os.utime(path, (1.0, 1.0))
    unfinished.mkdir()

    def refused(path, missing_ok=False):
        if path == theirs:  # a file of another user
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        unlink(path, missing_ok)

    monkeypatch.setattr(DiskPath, "unlink", refused)
    with fresh.locked():
        assert list(fresh.journal.iterdir()) == [theirs]
        assert written.exists()
        publish(fresh, 2)
    assert not unfinished.exists()
    assert value(fresh) == 2


def test_the_home_folder_is_found_where_no_shell_has_found_it(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert paths.locate("~/results") == tmp_path / "results"
    assert paths.locate("~nobody-here/results") == Path("~nobody-here/results")
    (tmp_path / "mine.yaml").write_text(SMALL)
    assert sweep.load_experiment("~/mine.yaml").name == "mine"


def test_a_folder_that_may_not_be_listed_can_hold_a_store(tmp_path, monkeypatch):
    opened = os.open

    def refused(path, *how):
        if path == tmp_path:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, *how)

    monkeypatch.setattr(os, "open", refused)
    assert folder.create(tmp_path / "s", "x").about.experiment == "x"


def flip(path):
    held = bytearray(path.read_bytes())
    held[-1] ^= 1
    path.write_bytes(held)


@pytest.mark.parametrize("harm", [DiskPath.unlink, flip])
def test_a_damaged_chunk(client, small, tmp_path, command, harm):
    asked = small()
    store = tmp_path / "s"
    before = sweep.run(asked, store, client)
    chunk = next((store / "results.zarr" / "squared_privacy_cost").glob("0*"))
    harm(chunk)
    assert "is missing or has changed since it was written" in status_of(store).damage
    shown = command("status", store)
    assert shown.exit_code == 1
    assert "'sweep run' derives the dataset again" in shown.output
    with pytest.raises(StoreError, match="damaged: file 'squared_privacy_cost/"):
        sweep.open(store)
    assert command("show", store).exit_code == 2
    after = sweep.run(asked, store, "no client is needed")
    xr.testing.assert_identical(after, before)
    assert status_of(store).damage is None


def test_a_file_of_another_format_does_not_hide_the_dataset(swept, tmp_path, command):
    before = swept(tmp_path / "s")
    (tmp_path / "s" / "results.zarr" / "zarr.json").write_text('{"zarr_format": 3}')
    xr.testing.assert_identical(sweep.open(tmp_path / "s"), before)
    assert command("show", tmp_path / "s").exit_code == 0


def test_a_dataset_that_may_not_be_read_is_a_sentence(swept, tmp_path, refusal, monkeypatch):
    store = tmp_path / "s"
    swept(store, "[2]")
    names = DiskPath.names

    def refused(path):
        if path.name == "results.zarr":
            raise PermissionError(13, "Permission denied")
        return names(path)

    monkeypatch.setattr(DiskPath, "names", refused)
    for word in ("status", "show"):
        assert "results.zarr' cannot be read (Permission denied)" in refusal(word, store)


@pytest.mark.parametrize("follow", [False, True], ids=["links kept", "links followed"])
def test_a_copy_is_read_and_grows(swept, client, small, tmp_path, records, follow):
    before = swept(tmp_path / "s", "[2]").load()
    shutil.copytree(tmp_path / "s", tmp_path / "copy", symlinks=not follow)
    shutil.rmtree(tmp_path / "s")
    assert os.path.islink(tmp_path / "copy" / "results.zarr") is not follow
    assert sweep.open(tmp_path / "copy").load().equals(before)
    assert status_of(tmp_path / "copy").damage is None
    grown = sweep.run(small("[2, 4]"), tmp_path / "copy", client)
    assert (grown.status == Status.OK).all()
    assert grown.status.size == 4 == len(records(tmp_path / "copy"))


@pytest.mark.parametrize("attributes", [b"[]", b"null", b"{}", b"{", b"[" * 100_000])
def test_a_copy_with_damaged_attributes_has_no_state(tmp_path, attributes):
    dataset = tmp_path / folder.RESULTS
    dataset.mkdir()
    (dataset / ".zmetadata").write_bytes(b"{}")
    (dataset / ".zattrs").write_bytes(attributes)
    copied = folder.DatasetFolder(DiskPath(tmp_path))
    assert copied.damage is None
    assert copied.state is None
