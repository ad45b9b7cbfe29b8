"""Workloads that this process has built: what one task needs the next one often needs too.

They are not passed between workers. Dask sends a task to the worker that holds what the task
depends on, and the others would stand idle.
"""

from collections import OrderedDict
from threading import Lock

import workloads
from sweep.grid.specs import WorkloadSpec
from sweep.worker.solve import BuildFailure, Built, build

_MOST_WORKLOADS = 16
_MOST_BYTES = 2**28
_DOUBLE = 8

_kept: OrderedDict[tuple[str, str], Built] = OrderedDict()
_lock = Lock()


def built(key: str, spec: WorkloadSpec, required: str) -> Built:
    """A workload, built here unless the last few tasks needed it too.

    Parameters
    ----------
    key : str
        Its key.
    spec : WorkloadSpec
        What it is.
    required : str
        Hash of the code that has to build it (`sweep.store.code.digest`).
    """
    name = (key, required)
    with _lock:
        if name in _kept:
            _kept.move_to_end(name)
            return _kept[name]
        while len(_kept) >= _MOST_WORKLOADS or sum(map(_bytes, _kept.values())) > _MOST_BYTES:
            _kept.popitem(last=False)
    made = build(spec, required)
    if not isinstance(made, BuildFailure):
        with _lock:
            _kept[name] = made
    return made


def _bytes(made: Built) -> int:
    return made.m * made.d * _DOUBLE if isinstance(made, workloads.Workload) else 0
