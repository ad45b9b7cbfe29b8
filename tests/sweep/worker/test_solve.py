import time

import numpy as np
import pytest
from processes import alone

from sweep.worker.solve import measure


def hold_twice():
    for _ in range(2):
        held = np.ones(2**22)
        del held


def costs():
    """The costs of holding 32 MiB twice, of that once more, of nothing, and of waiting."""
    calls = (hold_twice, hold_twice, int, lambda: time.sleep(0.2))
    return [measure(call)[1] for call in calls]


@pytest.fixture(scope="module")
def measured():
    return alone(costs)


def test_the_memory_of_a_call_is_what_it_holds_at_once(measured):
    first, second, nothing, _ = (cost.peak_memory_bytes for cost in measured)
    assert 0.9 < first / 2**25 < 1.5
    assert 0.9 < second / 2**25 < 1.5
    assert nothing < 2**20


def test_waiting_takes_time_but_no_processor(measured):
    *_, waiting = measured
    assert waiting.runtime_s >= 0.2
    assert waiting.cpu_s < 0.1


def test_the_result_of_a_call_is_returned():
    assert measure(lambda: "done")[0] == "done"
