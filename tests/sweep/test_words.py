"""Durations as people read them, and the processor by its name."""

from pathlib import Path

import pytest

from sweep.dataset import provenance
from sweep.report.states import duration

DAY = 86400.0


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.4, "0 seconds"),
        (119.4, "119 seconds"),
        (120, "2 minutes"),
        (7199, "120 minutes"),
        (7200, "2 hours"),
        (2 * DAY - 1, "48 hours"),
        (2 * DAY, "2 days"),
        (1000 * DAY - 1, "1000 days"),
        (1000 * DAY, "more than a thousand days"),
        (float("inf"), "more than a thousand days"),
        (float("nan"), "more than a thousand days"),
    ],
)
def test_a_duration_is_in_the_largest_unit_that_it_has_twice(seconds, said):
    assert duration(seconds) == said


def test_the_processor_is_the_one_of_the_model_name(monkeypatch):
    text = "processor\t: 0\nvendor_id\t: Other\nmodel name\t: AMD EPYC 7B13\nflags\t\t: fpu\n"
    monkeypatch.setattr(Path, "read_text", lambda path, encoding: text)
    assert provenance._cpu() == "AMD EPYC 7B13"
