"""Output that is no longer read."""

import json
import os
import subprocess
import sys

import pytest
from faults import Fault
from processes import local_cluster
from programs import ran
from written import SMALL

import sweep
from sweep.store.records import Status


@pytest.fixture
def gate(tmp_path):
    """The file that lets the experiment's solves end, and the cluster file beside it."""
    local_cluster(tmp_path, Fault("wait", "IP", until=str(tmp_path / "gate")), workers=1)
    return tmp_path / "gate"


@pytest.mark.slow
def test_a_sweep_goes_on_and_says_so(tmp_path, processes, gate):
    process = processes.run(SMALL)
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


FULL = "error: the output cannot be written: No space left on device\n"


@pytest.mark.parametrize(("full", "said", "code"), [(False, "", 141), (True, FULL, 1)])
def test_a_command_that_only_prints_ends_as_other_tools_do(processes, full, said, code):
    """The reader has closed the pipe, or the disk is full of output."""
    reading, writing = os.pipe()
    os.close(reading)
    with open("/dev/full" if full else writing, "w") as output:
        process = processes.command("list", stdout=output)
    assert process.stderr.read() == said
    assert process.wait(timeout=300) == code


@pytest.mark.slow
def test_a_sweep_goes_on_when_the_disk_is_full_of_its_output(tmp_path, processes, gate):
    gate.touch()
    with open("/dev/full", "w") as full:
        process = processes.run(SMALL, stdout=full)
        said = process.stderr.read()
    assert process.wait(timeout=300) == 0, said
    assert (sweep.open(tmp_path / "s").status == Status.OK).all()


def test_no_text_fails_for_want_of_an_encoding_and_warnings_are_sentences():
    here = {**os.environ, "PYTHONIOENCODING": "ascii", "SWEEP_LARGEST_SIZE": "abc"}
    ended = ran(sys.executable, "-m", "sweep.cli", "list", "workloads", env=here)
    assert ended.returncode == 0
    assert "marginals" in ended.stdout
    (said,) = ended.stderr.splitlines()
    assert said.startswith("warning: SWEEP_LARGEST_SIZE in the environment is 'abc'; expected a")


def test_a_command_without_any_stream_still_has_its_exit_code(tmp_path):
    line = '"$0" -m sweep.cli plan /nowhere.yaml >&- 2>&- <&-'
    assert subprocess.run(["sh", "-c", line, sys.executable], cwd=tmp_path).returncode == 2
