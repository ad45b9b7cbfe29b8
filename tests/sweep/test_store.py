import errno
import json
import os

import pytest
import xarray as xr

import sweep
from sweep.errors import StoreError
from sweep.store import disk, folder


@pytest.fixture
def fresh(tmp_path):
    return folder.create(tmp_path / "s", "mine")


def write_number(number):
    return lambda folder: xr.Dataset({"x": number}).to_zarr(folder, consolidated=False)


def value(found):
    return int(xr.open_zarr(found.dataset.path, consolidated=False, chunks=None).x)


def test_a_store_is_found_again(fresh):
    assert folder.create(fresh.path, "mine") == fresh
    assert folder.open_(fresh.path) == fresh


def test_a_store_of_another_experiment_is_refused(fresh):
    with pytest.raises(StoreError, match="was made by experiment 'mine', not by 'yours'"):
        folder.create(fresh.path, "yours")


def test_a_folder_that_holds_something_else_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(StoreError, match=r"holds 'thesis\.tex'"):
        folder.create(tmp_path, "mine")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "s").touch()
    with pytest.raises(StoreError, match="is a file"):
        folder.create(tmp_path / "s", "mine")
    with pytest.raises(StoreError, match="a part of the path is a file"):
        folder.create(tmp_path / "s" / "below", "mine")


def test_what_is_no_store_is_not_opened(tmp_path):
    with pytest.raises(StoreError, match="is not a store"):
        folder.open_(tmp_path)


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (1, "made by an earlier version .* axis 'mechanism' was called 'method'; use that version"),
        (3, "has format 3, but this version reads format 2; use the version that made it"),
    ],
)
def test_a_store_of_another_format_is_refused_with_what_to_do(fresh, number, reason):
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


def test_the_dataset_is_replaced_as_a_whole_and_one_old_version_stays(fresh):
    for number in range(5):
        path = fresh.dataset.publish(write_number(number))
        assert value(fresh) == number
    assert path == fresh.path / "results.zarr"
    versions = sorted(p.name for p in (fresh.path / ".results").iterdir())
    assert versions == ["000004.json", "000004.zarr", "000005.json", "000005.zarr"]


@pytest.mark.parametrize(
    ("number", "reason"),
    [(errno.ENOSPC, "the disk is full"), (errno.EROFS, "the file system is read-only")],
)
def test_a_disk_that_takes_no_more_leaves_the_old_dataset(fresh, number, reason):
    fresh.dataset.publish(write_number(1))

    def half(folder):
        write_number(2)(folder)
        raise OSError(number, "as the system says it")

    with pytest.raises(StoreError, match=reason):
        fresh.dataset.publish(half)
    assert value(fresh) == 1
    assert [p.name for p in (fresh.path / ".results").glob("*.zarr")] == ["000001.zarr"]


def test_a_read_only_disk_is_one_sentence(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(folder.Path, "mkdir", refuse)
    with pytest.raises(StoreError, match="the file system is read-only"):
        folder.create(tmp_path / "s", "mine")


def test_two_drivers_do_not_share_a_store(fresh):
    with fresh.locked():
        assert "process" in fresh.user
        with pytest.raises(StoreError, match=r"is in use by process \d+ on"), fresh.locked():
            pass
    assert fresh.user is None
    with fresh.locked():
        pass


def test_what_a_killed_run_left_is_tidied(fresh):
    fresh.dataset.publish(write_number(1))
    (fresh.journal / ".r000001-000000.host-1-1.partial").touch()
    unfinished = fresh.path / ".results" / "000002.zarr"
    unfinished.mkdir()
    with fresh.locked():
        pass
    assert not list(fresh.journal.iterdir())
    assert not unfinished.exists()
    assert value(fresh) == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda store: sweep.run("vldb-table3", store),
        sweep.rerun,
        sweep.open,
        lambda store: sweep.arrays(store, "0"),
    ],
)
def test_an_address_is_no_store(tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match="'ftp://bucket/x' is an address that no store can have"):
        call("ftp://bucket/x")
    assert not list(tmp_path.iterdir())


def test_a_pipe_in_place_of_a_file_keeps_nobody_waiting(client, small, tmp_path, command):
    store = tmp_path / "s"
    sweep.run(small(), store, client)
    (tmp_path / "x.yaml").write_text(small().text)
    files = [path for path in store.rglob("*") if path.is_file() and ".results" not in path.parts]
    assert {"store.json", "runs.jsonl", "index.npz"} <= {path.name for path in files}
    for path in files:
        path.rename(tmp_path / "away")
        os.mkfifo(path)
        found = command("status", store)
        assert found.exit_code in (0, 2), (path, found.output)
        with pytest.raises(OSError, match="not a regular file"):
            disk.content(path)
        with pytest.raises(OSError, match="No such device or address"):
            disk.append(path, "text")
        (tmp_path / "away").rename(path)
    assert command("status", store).exit_code == 0


def test_a_file_of_holes_is_not_read(tmp_path):
    with (tmp_path / "holes").open("wb") as stream:
        stream.truncate(2**40)
    with pytest.raises(OSError, match="it consists of holes"):
        disk.content(tmp_path / "holes")
