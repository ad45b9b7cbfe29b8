"""Clocks that are set while a sweep runs: no limit, no patience and no result depends on them."""

import json
import os
import subprocess
import sys
from collections import Counter

import pytest
from faults import Fault, preloaded, search_path
from processes import until
from test_kill import CLUSTER
from written import replicated

CELLS = 200
EXPERIMENT = replicated(CELLS, more="time_limit: 300\n")
A_CLOCK_THAT_IS_SET = """
import os, time

now, now_ns = time.time, time.time_ns

def ahead():
    try:
        with open(os.environ["CLOCK"]) as file:
            return int(file.read() or 0)
    except OSError:
        return 0

time.time = lambda: now() + ahead()
time.time_ns = lambda: now_ns() + ahead() * 10**9
"""
DAY = 86_400
HANG_SECONDS = 900
"""Connections that a clock stalls, which happens, are restarted half a minute later, one by one."""


@pytest.mark.slow
def test_a_clock_that_is_set_forth_and_back_changes_nothing(tmp_path, records):
    (tmp_path / "sitecustomize.py").write_text(A_CLOCK_THAT_IS_SET)
    gate = tmp_path / "gate"
    waits = Fault("wait", "IP", first=CELLS * 3 // 4, until=str(gate))
    preload = preloaded(tmp_path, Fault("sleep", "IP", seconds=0.1), waits)
    (tmp_path / "cluster.yaml").write_text(CLUSTER.format(preload=preload) + "patience: 300\n")
    (tmp_path / "x.yaml").write_text(EXPERIMENT)
    path = os.pathsep.join([str(tmp_path), search_path()])
    environment = {**os.environ, "PYTHONPATH": path, "CLOCK": str(tmp_path / "clock")}
    begin = [sys.executable, "-m", "sweep.cli"]

    def status():
        asked = [*begin, "status", "s", "--json"]
        said = subprocess.run(asked, cwd=tmp_path, env=environment, capture_output=True, text=True)
        return json.loads(said.stdout)

    command = subprocess.Popen(
        [*begin, "run", "x.yaml", "--store", "s", "--cluster", "cluster.yaml"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        for ahead, done in ((DAY, CELLS // 5), (-DAY, CELLS // 2)):
            until(lambda done=done: len(records(tmp_path / "s")) >= done, command)
            (tmp_path / "clock").write_text(str(ahead))
        assert status()["running_s"] == 0.0
        gate.touch()
        said = command.communicate(timeout=HANG_SECONDS)[0]
    finally:
        command.kill()
    assert command.returncode == 0, said
    assert f"{CELLS} ok" in said
    assert Counter(record.status.label for record in records(tmp_path / "s")) == {"ok": CELLS}
    assert (tmp_path / "fault-0").stat().st_size == CELLS
