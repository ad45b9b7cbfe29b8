"""Workloads kept by this process, since consecutive tasks often need the same.

They are not passed between workers. Dask sends a task to the worker that holds what the task
depends on, and the others would stand idle.
"""

from collections import OrderedDict
from threading import Lock

import workloads
from sweep.grid.cells import WorkloadSpec
from sweep.worker.solve import BuildFailure, Built, build

_MOST_WORKLOADS = 16
_MOST_BYTES = 2**28
_DOUBLE = 8

_kept: OrderedDict[str, Built] = OrderedDict()
_lock = Lock()


def cached_workload(key: str, spec: WorkloadSpec) -> Built:
    """A workload, built here unless the last few tasks needed it too.

    Parameters
    ----------
    key : str
        Its key.
    spec : WorkloadSpec
        What it is.
    """
    with _lock:
        if key in _kept:
            _kept.move_to_end(key)
            return _kept[key]
        while len(_kept) >= _MOST_WORKLOADS or sum(map(_bytes, _kept.values())) > _MOST_BYTES:
            _kept.popitem(last=False)
    workload = build(spec)
    if not isinstance(workload, BuildFailure):
        with _lock:
            _kept[key] = workload
    return workload


def _bytes(workload: Built) -> int:
    return workload.m * workload.d * _DOUBLE if isinstance(workload, workloads.Workload) else 0
