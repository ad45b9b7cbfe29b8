"""The process that ends a worker, even while C code blocks it."""

import subprocess
import sys

import psutil
import pytest
from processes import until

from sweep.store.journal import read_segment, segment_text

TEXT = segment_text([])
HOLDS = """
import os
import re
import subprocess
import sys
import psutil
from sweep.worker.kill_timer import kill_timer

def hold():
    re.match(r"(a+)+$", "a" * 40 + "b")  # holds the GIL for hours

def limited(seconds=0.5):
    return kill_timer({file!r}, seconds, {text!r})

"""
LIMITED = """
with kill_timer("early", 0.2, ""):
    pass
with kill_timer("endless", float("inf"), ""), limited():
    hold()
"""


def ended(file, script=LIMITED, text=TEXT):
    """The output of a script that must have been killed by the timer."""
    script = HOLDS.format(file=str(file), text=text) + script
    done = subprocess.run([sys.executable, "-c", script], timeout=300, capture_output=True)
    assert (done.returncode, done.stderr) == (-9, b"")
    return done.stdout


def test_a_worker_that_c_code_holds_is_recorded_and_killed(tmp_path):
    ended(tmp_path / "r1.jsonl")
    assert list(read_segment(tmp_path / "r1.jsonl")) == []


@pytest.mark.parametrize("file", ["/dev/null/r1.jsonl", "s3://bucket/store/journal/r1.jsonl", ""])
def test_a_worker_for_which_nothing_can_be_written_is_killed(file, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    ended(file, text=TEXT if file else "")


KILLS_ITS_TIMERS = """
with limited(2.0):
    for timers in psutil.Process().children():
        timers.kill()
        timers.wait()
    with kill_timer("second", 600.0, ""):
        hold()
"""


def test_timers_whose_process_was_killed_run_again_with_the_next_one(tmp_path):
    ended(tmp_path / "r1.jsonl", KILLS_ITS_TIMERS)
    assert list(read_segment(tmp_path / "r1.jsonl")) == []


FORKS = """
with limited(2.0):
    child = os.fork()
    if not child:
        sys.exit()
    os.waitpid(child, 0)
    hold()
"""


def test_a_process_that_a_solve_has_forked_does_not_cancel_the_limit(tmp_path):
    ended(tmp_path / "r1.jsonl", FORKS)


STARTS_ANOTHER = """
with limited(3.0):
    shell = subprocess.Popen(["sh", "-c", "sleep 600 & echo $$ $!; wait"])
    hold()
"""


@pytest.mark.slow
def test_the_processes_that_a_solve_has_started_end_with_it(tmp_path):
    shell, sleep = map(int, ended(tmp_path / "r1.jsonl", STARTS_ANOTHER).split())
    for pid in (shell, sleep):
        until(lambda pid=pid: over(pid))


def over(pid):
    """Whether a process has ended; perhaps nobody here fetches its exit code."""
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
