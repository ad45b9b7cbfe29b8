"""The process that ends a worker: whatever it meets, the worker does not go on."""

import subprocess
import sys

import pytest

from sweep.store import segments
from sweep.worker import guard
from sweep.worker.guard import Deadline

TEXT = segments.segment_text([])


@pytest.fixture
def worker():
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize("journal", ["/dev/null/journal", "s3://bucket/store/journal"])
def test_a_worker_for_which_nothing_can_be_written_ends_by_its_own_signal(
    worker, journal, monkeypatch
):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    guard._end(worker.pid, [Deadline(0.0, journal, "r1.jsonl", TEXT)])
    assert worker.wait(60) == -guard.UNRECORDED


def test_a_worker_that_is_recorded_is_killed(worker, tmp_path):
    guard._end(worker.pid, [Deadline(0.0, str(tmp_path), "r1.jsonl", TEXT)])
    assert worker.wait(60) == -9
    assert segments.read_segment(tmp_path / "r1.jsonl") == []


@pytest.mark.parametrize(
    "before",
    [
        "guard().watch('endless', replace(soon, seconds=float('inf')))",
        "guard()._process.kill(); guard()._process.wait()",
    ],
)
def test_a_worker_is_ended_whatever_has_become_of_its_guard(before):
    script = f"""
import time
from dataclasses import replace
from sweep.worker.guard import Deadline, guard
soon = Deadline(0.1, "", "", "")
{before}
guard().watch("soon", soon)
time.sleep(600)
"""
    ended = subprocess.run([sys.executable, "-c", script], timeout=300, check=False)
    assert ended.returncode == -guard.UNRECORDED
