"""Solves that take a thousand times what was planned: hardly more is lost with them than one."""

import os
import subprocess
import sys
import time

import pytest
from faults import Fault, preloaded, search_path

import sweep
from sweep.cluster import specification
from sweep.store.records import CellRecord, Status
from sweep.store.view import StoreView

ALONE = """
reference: IP
blocks:
  - workload: {name: prefix, d: 4}
    mechanism: IP
    replicates: 160
"""
CHAIN = """
reference: optimal
warm_start: d
blocks:
  - workload: {name: prefix, d: [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]}
    mechanism: optimal
"""
SECONDS = 1.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "mechanism", "workers", "enough"),
    [(ALONE, "IP", 2, 20), (CHAIN, "optimal", 1, 11)],
    ids=["alone", "chain"],
)
def test_what_was_done_some_seconds_before_the_kill_is_not_done_again(
    tmp_path, records, monkeypatch, text, mechanism, workers, enough
):
    monkeypatch.setenv("PYTHONPATH", search_path())
    preload = preloaded(tmp_path, Fault("sleep", mechanism, seconds=SECONDS))
    kwargs = {**specification.LOCAL.kwargs, "n_workers": workers, "preload": [str(preload)]}
    (tmp_path / "x.yaml").write_text(text)
    (tmp_path / "cluster.yaml").write_text(
        f"module: dask.distributed\nclass: LocalCluster\nkwargs: {kwargs}\n".replace("None", "null")
    )
    command = [sys.executable, "-m", "sweep.cli", "run", "x.yaml", "--store", "s"]
    process = subprocess.Popen(
        [*command, "--cluster", "cluster.yaml"],
        cwd=tmp_path,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
    )
    counted = tmp_path / "fault-0"
    while not (counted.exists() and counted.stat().st_size >= enough):
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.wait()
    time.sleep(1.0)
    begun = counted.stat().st_size
    kept = sum(isinstance(record, CellRecord) for record in records(tmp_path / "s"))
    in_memory = StoreView.__dataclass_fields__["interval"].default / SECONDS
    assert begun - kept <= workers * (in_memory + 2)

    preloaded(tmp_path, Fault("sleep", mechanism, seconds=0.0))
    spec = specification.load(tmp_path / "cluster.yaml")
    dataset = sweep.run(tmp_path / "x.yaml", tmp_path / "s", cluster=spec)
    assert (dataset.status == Status.OK).all()
    assert counted.stat().st_size == dataset.status.size + begun - kept
