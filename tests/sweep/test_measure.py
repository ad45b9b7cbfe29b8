import time

import numpy as np

from sweep.worker.measure import measured


def test_the_memory_of_a_call_is_what_it_holds_at_once():
    def twice_32_mib():
        for _ in range(2):
            held = np.ones(2**22)
            del held

    for _ in range(2):
        _, cost = measured(twice_32_mib)
        assert 0.9 < cost.peak_memory_bytes / 2**25 < 1.5
    _, nothing = measured(lambda: None)
    assert nothing.peak_memory_bytes < 2**20


def test_waiting_takes_time_but_no_processor():
    # processor time is the process's: other threads of the test session may add to it
    costs = []
    for _ in range(5):
        result, cost = measured(lambda: time.sleep(0.2) or "done")
        assert result == "done"
        assert cost.runtime_s >= 0.2
        costs.append(cost.cpu_s)
        if min(costs) < 0.1:
            break
    assert min(costs) < 0.1
