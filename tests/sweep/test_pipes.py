"""Output that is no longer read."""

import json
import os
import subprocess
import sys

import pytest
from faults import Fault, preloaded
from processes import environment

import sweep
from sweep.store.records import Status

CLUSTER = """
module: dask.distributed
class: LocalCluster
kwargs:
  {{n_workers: 1, threads_per_worker: 1, host: 127.0.0.1, dashboard_address: "127.0.0.1:0",
    preload: [{preload}]}}
"""
EXPERIMENT = """
reference: IP
blocks: [{workload: {name: prefix, d: [2, 4]}, mechanism: [IP, GM]}]
"""
RUN = ("run", "x.yaml", "--store", "s", "--cluster", "cluster.yaml")


@pytest.fixture
def gate(tmp_path):
    """The file that lets the experiment's solves end, and the cluster file beside it."""
    preload = preloaded(tmp_path, Fault("wait", "IP", until=str(tmp_path / "gate")))
    (tmp_path / "cluster.yaml").write_text(CLUSTER.format(preload=preload))
    (tmp_path / "x.yaml").write_text(EXPERIMENT)
    return tmp_path / "gate"


def command(folder, *words, stdout):
    return subprocess.Popen(
        [sys.executable, "-m", "sweep.cli", *words],
        cwd=folder,
        env=environment(),
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    )


def closed_pipe():
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@pytest.mark.slow
def test_a_sweep_goes_on_and_says_so(tmp_path, gate):
    process = command(tmp_path, *RUN, stdout=subprocess.PIPE)
    assert "4 cells" in process.stdout.readline()
    process.stdout.close()
    gate.touch()
    said = process.stderr.read()
    assert process.wait(timeout=300) == 0, said
    assert "the output was closed; the sweep continues without it, and Ctrl-C ends it" in said
    assert (sweep.open(tmp_path / "s").status == Status.OK).all()
    lines = (tmp_path / "s" / "runs.jsonl").read_text().splitlines()
    told = [json.loads(line)["event"] for line in lines]
    about = {"RunStarted", "Warned", "RunEnded"}
    assert [name for name in told if name in about] == ["RunStarted", "Warned", "RunEnded"]


def test_a_command_that_only_prints_ends_as_other_tools_do(tmp_path):
    writing = closed_pipe()
    process = command(tmp_path, "list", stdout=writing)
    os.close(writing)
    assert process.stderr.read() == ""
    assert process.wait(timeout=300) == 141


def test_a_disk_that_is_full_of_output(tmp_path):
    with open("/dev/full", "w") as full:
        process = command(tmp_path, "list", "targets", stdout=full)
    said = "error: the output cannot be written: No space left on device\n"
    assert process.stderr.read() == said
    assert process.wait(timeout=300) == 1


@pytest.mark.slow
def test_a_sweep_goes_on_when_the_disk_is_full_of_its_output(tmp_path, gate):
    gate.touch()
    with open("/dev/full", "w") as full:
        process = command(tmp_path, *RUN, stdout=full)
        said = process.stderr.read()
    assert process.wait(timeout=300) == 0, said
    assert (sweep.open(tmp_path / "s").status == Status.OK).all()


def test_no_text_fails_for_want_of_an_encoding_and_warnings_are_sentences(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-m", "sweep.cli", "list", "workloads"],
        env={**os.environ, "PYTHONIOENCODING": "ascii", "SWEEP_LARGEST_TEXT": "abc"},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0
    assert "marginals" in ended.stdout
    (said,) = ended.stderr.splitlines()
    assert said.startswith("warning: SWEEP_LARGEST_TEXT in the environment is 'abc'; expected a")


def test_a_command_without_any_stream_still_has_its_exit_code(tmp_path):
    line = f"{sys.executable} -m sweep.cli plan /nowhere.yaml >&- 2>&- <&-"
    assert subprocess.run(["sh", "-c", line], cwd=tmp_path).returncode == 2
