import time

import numpy as np
from processes import alone

from sweep.worker.solve import measure


def twice_32_mib():
    for _ in range(2):
        held = np.ones(2**22)
        del held


def peaks():
    return [measure(call)[1].peak_memory_bytes for call in (twice_32_mib, twice_32_mib, int)]


def test_the_memory_of_a_call_is_what_it_holds_at_once():
    first, second, nothing = alone(peaks)
    assert 0.9 < first / 2**25 < 1.5
    assert 0.9 < second / 2**25 < 1.5
    assert nothing < 2**20


def waiting():
    return measure(lambda: time.sleep(0.2) or "done")


def test_waiting_takes_time_but_no_processor():
    result, cost = alone(waiting)
    assert result == "done"
    assert cost.runtime_s >= 0.2
    assert cost.cpu_s < 0.1
