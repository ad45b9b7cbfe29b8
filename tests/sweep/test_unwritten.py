"""A dataset that cannot be written: reported, and nothing else is lost."""

import errno
import json
import re
import shutil
from unittest.mock import Mock

import mounts
import pytest
from faults import Fault
from mounts import Disk
from processes import ended, local_cluster, until
from written import replicated

import sweep
from sweep import events
from sweep.runner import status
from sweep.store.folder import create
from sweep.store.paths import DiskPath
from sweep.store.records import Status


def test_a_dataset_that_can_be_written_later_in_the_run_is(client, small, tmp_path, monkeypatch):
    monkeypatch.setattr("sweep.runner.session.FLUSH_SECONDS", 0.0)
    heard, obstacle = [], create(tmp_path / "s", "small").path / ".results"
    obstacle.touch()

    def remove_it(event):
        if isinstance(event, events.Warned):
            heard.append(event)
            obstacle.unlink()

    dataset = sweep.run(small(), tmp_path / "s", client, listen=remove_it)
    assert (dataset.status == Status.OK).all()
    (said,) = heard
    assert "File exists" in said.message


def test_an_error_of_the_run_is_not_hidden_behind_it(client, small, tmp_path, monkeypatch):
    def interrupt(event):
        if isinstance(event, events.RunStarted):
            raise KeyboardInterrupt

    full = Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
    monkeypatch.setattr(DiskPath, "write_files", full)
    with pytest.raises(KeyboardInterrupt):
        sweep.run(small(), tmp_path / "s", client, listen=interrupt)


CELLS = 200
EXPERIMENT = replicated(CELLS)


@pytest.fixture
def disk(tmp_path):
    """Its own disk with the experiment, and workers that wait at a gate."""
    (tmp_path / "x.yaml").write_text(EXPERIMENT)
    waits = Fault("wait", "IP", first=CELLS // 2, until=str(tmp_path / "gate"))
    local_cluster(tmp_path, waits)
    with mounts.mounted(tmp_path / "disk", "32m") as made:
        yield made


@pytest.fixture
def sweeps(disk, processes):
    """Start a command that sees the disk."""
    return lambda *words: processes.command(*words, on=disk.on)


RUN = ("run", "x.yaml", "--store", "disk/s", "--cluster", "cluster.yaml")


def begun(tmp_path):
    """The number of solves begun by all workers so far."""
    return (tmp_path / "fault-0").stat().st_size


def recorded(records, disk):
    """The number of cells in the journal, each of which is in it once."""
    found = [record.cell for record in records(disk.seen / "s")]
    assert len(set(found)) == len(found)
    return len(found)


@pytest.mark.slow
@pytest.mark.skipif(bool(mounts.missing()), reason=mounts.missing())
@pytest.mark.parametrize(
    ("fails", "why"),
    [
        (Disk.full, "No space left on device"),
        (Disk.read_only, "Read-only file system"),
    ],
    ids=["full", "read-only"],
)
def test_a_disk_that_fails_in_mid_run_loses_nothing_that_was_recorded(
    disk, sweeps, tmp_path, records, fails, why
):
    running = sweeps(*RUN)
    until(lambda: (disk.seen / "s").exists() and recorded(records, disk), running)
    with fails(disk):
        (tmp_path / "gate").touch()
        said = ended(running, 2)
        assert re.search(f"^error: store 'disk/s.*' cannot be written: {why}; earlier", said, re.M)
        kept, before = recorded(records, disk), begun(tmp_path)
        assert 0 < kept < CELLS
        state = json.loads(ended(sweeps("status", "disk/s", "--json"), 1))
        assert state["statuses"] == {"ok": kept, "pending": CELLS - kept}
        assert "error" not in ended(sweeps("logs", "disk/s"))
        ended(sweeps("pack", "disk/s", "packed.tar"))
    assert f"{CELLS - kept} to do" in ended(sweeps(*RUN))
    assert begun(tmp_path) - before == CELLS - kept
    assert recorded(records, disk) == CELLS
    shutil.unpack_archive(tmp_path / "packed.tar", tmp_path)
    assert status.status(tmp_path / "packed").statuses == state["statuses"]


@pytest.mark.slow
@pytest.mark.skipif(bool(mounts.missing()), reason=mounts.missing())
def test_a_disk_that_has_room_for_the_journal_alone(disk, sweeps, tmp_path, records):
    why = "warning: the dataset of store 'disk/s' cannot be written: No space left on device"
    (tmp_path / "gate").touch()
    with disk.full(but=2**18):
        said = ended(sweeps(*RUN), 1)
        assert said.count(why) == 2  # when it happens, and in the end
        assert f"{CELLS} ok in" in said
        assert recorded(records, disk) == CELLS
        assert not list((disk.seen / "s" / ".results").iterdir())
        assert not list((disk.seen / "s").glob(".results.zarr-*"))
    assert f"Means over {CELLS} replicates" in ended(sweeps(*RUN))
    assert begun(tmp_path) == CELLS
