"""Solves that take a thousand times what was planned: hardly more is lost with them than one."""

import subprocess
import sys

import psutil
import pytest
from faults import Fault, preloaded, search_path
from processes import until
from written import replicated

import sweep
from sweep.cluster import specification
from sweep.store.folder import WorkerStore
from sweep.store.journal import read_segment
from sweep.store.records import CellRecord, Status

ALONE = replicated(3200)
CHAIN = f"""
reference: optimal
warm_start: d
blocks:
  - workload: {{name: prefix, d: {[*range(2, 21)]}}}
    mechanism: optimal
"""
SECONDS = 1.0
CASES = pytest.mark.parametrize(
    ("text", "mechanism", "workers", "enough"),
    [(ALONE, "IP", 2, 20), (CHAIN, "optimal", 1, 11)],
    ids=["alone", "chain"],
)


@pytest.fixture
def slow(tmp_path, monkeypatch):
    """The arguments of a local cluster whose solves take a second each, until it is told off."""
    monkeypatch.setenv("PYTHONPATH", search_path())
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")

    def kwargs(mechanism, workers, seconds=SECONDS):
        preload = preloaded(tmp_path, Fault("sleep", mechanism, seconds=seconds))
        return {**specification.LOCAL.kwargs, "n_workers": workers, "preload": [str(preload)]}

    return kwargs


def begun(folder, text, cluster, enough):
    """The command, when so many solves were begun, and what counts them."""
    (folder / "x.yaml").write_text(text)
    (folder / "cluster.yaml").write_text(cluster.replace("None", "null"))
    words = ["run", "x.yaml", "--store", "s", "--cluster", "cluster.yaml"]
    command = subprocess.Popen(
        [sys.executable, "-m", "sweep.cli", *words], cwd=folder, stdout=subprocess.DEVNULL
    )
    counted = folder / "fault-0"
    until(lambda: counted.exists() and counted.stat().st_size >= enough, command)
    return command, counted


def lost(folder, counted, records, workers):
    """How many solves were begun and not recorded, no task having ended: those of a few seconds."""
    kept = sum(isinstance(record, CellRecord) for record in records(folder / "s"))
    missing = counted.stat().st_size - kept
    in_memory = WorkerStore.__dataclass_fields__["interval"].default / SECONDS
    assert missing <= workers * (in_memory + 2)
    ended = {path for path in (folder / "s" / "journal").glob("*.jsonl") if "+" not in path.name}
    assert not any(isinstance(one, CellRecord) for path in ended for one in read_segment(path))
    return missing


@pytest.mark.slow
@CASES
def test_what_was_done_some_seconds_before_the_command_was_killed_is_not_done_again(
    tmp_path, records, slow, text, mechanism, workers, enough
):
    cluster = f"module: dask.distributed\nclass: LocalCluster\nkwargs: {slow(mechanism, workers)}\n"
    command, counted = begun(tmp_path, text, cluster, enough)
    theirs = psutil.Process(command.pid).children(recursive=True)
    command.kill()
    command.wait()
    assert not psutil.wait_procs(theirs, timeout=300)[1]
    missing = lost(tmp_path, counted, records, workers)

    slow(mechanism, workers, seconds=0.0)
    spec = specification.load(tmp_path / "cluster.yaml")
    dataset = sweep.run(tmp_path / "x.yaml", tmp_path / "s", cluster=spec)
    assert (dataset.status == Status.OK).all()
    assert counted.stat().st_size == dataset.status.size + missing


"""Workers that come in the place of killed ones begin nothing before these are counted."""
