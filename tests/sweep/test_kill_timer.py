"""The process that ends a worker, even while C code blocks it."""

import subprocess
import sys

import pytest

from sweep.store.journal import read_segment, segment_text

TEXT = segment_text([])
HOLDS = """
import re
from sweep.worker.kill_timer import kill_timer
with kill_timer("early", 0.2, ""):
    pass
with kill_timer("endless", float("inf"), ""):
    with kill_timer({file!r}, 0.5, {text!r}):
        re.match(r"(a+)+$", "a" * 40 + "b")  # holds the GIL for hours
"""


def ended(file, text=TEXT):
    script = HOLDS.format(file=file, text=text)
    return subprocess.run([sys.executable, "-c", script], timeout=300, check=False).returncode


def test_a_worker_that_c_code_holds_is_recorded_and_killed(tmp_path):
    assert ended(str(tmp_path / "r1.jsonl")) == -9
    assert read_segment(tmp_path / "r1.jsonl") == []


@pytest.mark.parametrize("file", ["/dev/null/r1.jsonl", "s3://bucket/store/journal/r1.jsonl", ""])
def test_a_worker_for_which_nothing_can_be_written_is_killed(file, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    assert ended(file, TEXT if file else "") == -9
