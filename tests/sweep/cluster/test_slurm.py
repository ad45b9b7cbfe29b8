"""Jobs of a real Slurm on this machine: started, ended by their walltime, cancelled, refused."""

import re
import time
from collections import Counter

import pytest
import recipes
import slurm
from faults import Fault, preloaded
from written import replicated

import sweep
from sweep.store.records import Status

pytest.importorskip("dask_jobqueue", reason="no dask-jobqueue (the extra jobqueue)")
MISSING = slurm.missing()
pytestmark = [pytest.mark.slurm, pytest.mark.skipif(bool(MISSING), reason=MISSING)]
PAGE = "docs/how-to/slurm.md"
LONGEST_GAP_SECONDS = 60.0


@pytest.fixture(scope="module", autouse=True)
def started():
    with slurm.running():
        yield


@pytest.fixture
def began(processes):
    """Starts the command on an experiment of so many cells."""
    return lambda count, patience: processes.run(replicated(count), "--patience", patience)


def with_slow_cells(folder, **kwargs):
    """The page's recipe with jobs of a minute, whose workers take a while for every cell."""
    preload = ["--preload", str(preloaded(folder, Fault("sleep", "IP", seconds=0.25)))]
    more = kwargs.pop("worker_extra_args", [])
    kwargs = {"walltime": "00:01:00", "cores": kwargs["processes"], "memory": "2GB", **kwargs}
    text = recipes.printed(PAGE, "SLURMCluster")
    return recipes.with_kwargs(
        text, folder / "cluster.yaml", worker_extra_args=[*preload, *more], **kwargs
    )


def every_cell_is_there_once(records, store, replicates):
    counted = Counter(record.cell for record in records(store) if record.status is Status.OK)
    assert len(counted) == replicates
    assert set(counted.values()) == {1}
    assert (sweep.open(store).status == Status.OK).all()


def jobs_of(folder):
    """Ids of all jobs of a sweep."""
    return {path.stem.rpartition("-")[2] for path in (folder / "logs").glob("*.out")}


@pytest.mark.parametrize("page", ["README.md", PAGE])
def test_the_recipe_runs_as_it_is_printed(page, tmp_path, records, began):
    (tmp_path / "cluster.yaml").write_text(recipes.printed(page, "SLURMCluster"))
    command = began(40, patience=300)
    output, errors = command.communicate(timeout=400)
    assert (command.returncode, errors) == (0, ""), output + errors
    every_cell_is_there_once(records, tmp_path / "s", 40)
    assert "has no key" not in output
    assert list(tmp_path.glob(".dask-jobqueue.worker.*")) == []


@pytest.mark.parametrize(
    ("by_lifetime", "kwargs"),
    [
        (False, {"n_workers": 2, "processes": 1}),
        (True, {"n_workers": None, "processes": 2}),
    ],
    ids=["walltime", "lifetime-adapt"],
)
def test_jobs_that_end_are_replaced_until_all_is_done(
    by_lifetime, kwargs, tmp_path, records, began
):
    replicates = 600 if by_lifetime else 800
    if by_lifetime:
        ends = ["--lifetime", "30s", "--lifetime-stagger", "4s"]
        cluster = with_slow_cells(tmp_path, worker_extra_args=ends, **kwargs)
        cluster.write_text(cluster.read_text() + "adapt: {minimum: 2, maximum: 2}\n")
    else:
        with_slow_cells(tmp_path, **kwargs)
    command = began(replicates, patience=300)
    gap, last, cancelled = 0.0, time.monotonic(), False
    while command.poll() is None:
        running = slurm.jobs()
        if running:
            last = time.monotonic()
        gap = max(gap, time.monotonic() - last)
        if by_lifetime and not cancelled and len(jobs_of(tmp_path)) > 1 and running:
            slurm.cancel(running[0])
            cancelled = True
        time.sleep(1)
    output, errors = command.communicate(timeout=10)
    assert (command.returncode, errors) == (0, ""), output + errors
    every_cell_is_there_once(records, tmp_path / "s", replicates)
    assert len(jobs_of(tmp_path)) >= (3 if by_lifetime else 4)
    assert gap < LONGEST_GAP_SECONDS


def test_a_missing_partition_is_reported_in_slurms_words(tmp_path, began):
    text = recipes.printed(PAGE, "SLURMCluster")
    recipes.with_kwargs(text, tmp_path / "cluster.yaml", queue="nowhere")
    command = began(2, patience=3)
    _, errors = command.communicate(timeout=120)
    assert command.returncode == 1
    assert re.fullmatch(
        r"error: the cluster has had no workers for \d+ s \(SLURMCluster: .*invalid partition "
        r"specified: nowhere.*\n",
        errors,
    )
