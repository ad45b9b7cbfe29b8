"""Workers that write to another disk than the command's store: nothing is lost or silent."""

import shutil
from collections import Counter
from contextlib import suppress
from dataclasses import replace

import pytest
from faults import Fault, injected

import sweep
from sweep import events
from sweep.store.paths import DiskPath
from sweep.store.records import Status
from sweep.worker import perform as worker
from sweep.worker.perform import perform


def moved(place, end):
    """The store of a worker that sees it elsewhere."""
    path = DiskPath(f"{place.store.path}-{end}")
    return replace(place, store=replace(place.store, path=path))


def without_the_store(task, place):
    return perform(task, moved(place, "elsewhere"))


def with_a_copy_of_the_store(task, place):
    copy = moved(place, "copy")
    with suppress(OSError):  # another task is copying it, or a file has been replaced
        shutil.copytree(place.store.path, copy.store.path, symlinks=True)
    return perform(task, copy)


@pytest.mark.parametrize("elsewhere", [without_the_store, with_a_copy_of_the_store])
def test_what_is_written_elsewhere_is_written_here_too(
    client, small, tmp_path, records, monkeypatch, elsewhere
):
    monkeypatch.setattr(worker, "perform", elsewhere)
    heard = []
    dataset = sweep.run(small(), tmp_path / "s", client, listen=heard.append)
    assert (dataset.status == Status.OK).all()
    assert set(Counter(record.cell for record in records(tmp_path / "s")).values()) == {1}
    (told,) = (event.message for event in heard if isinstance(event, events.Warned))
    assert f"does not share the disk of store {str(tmp_path / 's')!r}" in told
    assert told in (tmp_path / "s" / "runs.jsonl").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sleep", "hold"])
def test_a_solve_that_never_ends_does_not_hold_a_worker_without_the_store(
    client, small, tmp_path, monkeypatch, kind
):
    monkeypatch.setattr(worker, "perform", without_the_store)
    experiment = small("[2]", "[IP, GM, {name: CA, time_limit: 0.2}]")
    with injected(client, tmp_path, Fault(kind, "CA", seconds=600), grace_s=3.0):
        dataset = sweep.run(experiment, tmp_path / "s", client)
    assert dataset.status.sel(d=2).to_series().to_dict() == {
        "IP": Status.OK,
        "GM": Status.OK,
        "CA": Status.LOST,
    }
    said = str(dataset.error.sel(d=2, mechanism="CA").item())
    assert said.startswith("its worker died each time: ended at twice its time limit, killed")
