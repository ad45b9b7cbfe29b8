"""Durations as people read them, and the processor by its name."""

from pathlib import Path

import numpy as np
import pytest

from sweep.report.messages import alike, duration
from sweep.runner.status import Trouble
from sweep.store import code
from sweep.store.records import CellRecord, Status

DAY = 86400.0


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.000931, "1 ms"),
        (0.4, "400 ms"),
        (39.6, "40 s"),
        (99.4, "99 s"),
        (1500, "25 min"),
        (3569, "59 min"),
        (3571, "1 h 00"),
        (3900, "1 h 05"),
        (2 * DAY - 60, "47 h 59"),
        (2 * DAY, "2 days"),
        (1000 * DAY - 1, "1000 days"),
        (1000 * DAY, "more than a thousand days"),
        (float("inf"), "more than a thousand days"),
        (float("nan"), "more than a thousand days"),
    ],
)
def test_a_duration_cannot_be_misread(seconds, said):
    assert duration(seconds) == said


def test_the_processor_is_the_one_of_the_model_name(monkeypatch):
    text = "processor\t: 0\nvendor_id\t: Other\nmodel name\t: AMD EPYC 7B13\nflags\t\t: fpu\n"
    monkeypatch.setattr(Path, "read_text", lambda path, encoding: text)
    assert code._cpu() == "AMD EPYC 7B13"


def test_errors_that_differ_in_numbers_alone_are_one_group():
    errors = [f"ValueError: singular after {seconds:g} s" for seconds in np.arange(0, 40, 0.25)]
    found = [
        Trouble("", {}, CellRecord(f"c-{at}", "s", "p", Status.FAILED, error=error))
        for at, error in enumerate(["OSError: full", *errors])
    ]
    assert [len(group) for group in alike(found)] == [160, 1]
