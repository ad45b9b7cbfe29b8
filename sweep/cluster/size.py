"""How many tasks a cluster does at once, before it is started."""

import os
from typing import Any

from sweep.cluster import clusters
from sweep.cluster.specification import ClusterSpec
from sweep.errors import ClusterError


def planned_threads(spec: ClusterSpec) -> int:
    """Number of tasks that a cluster does at once, as its specification has it.

    A running scheduler is asked; of a class, the arguments are read that Dask's cluster classes
    have in common. With ``adapt`` it is the most.

    Raises
    ------
    ClusterError
        If the scheduler cannot be reached or has no workers, or the specification does not say.
    """
    if spec.address is not None:
        with clusters.connected(spec) as client:
            threads = sum(client.ncores().values())
        if not threads:
            raise ClusterError(
                f"scheduler {spec.address} has no workers; start some, or plan later"
            )
        return int(threads)
    try:
        workers, threads = _workers(spec), _threads_of_one(spec.kwargs)
    except (TypeError, ValueError, AttributeError) as error:
        raise ClusterError(
            f"cluster.yaml: the size of {spec.module}.{spec.cls} cannot be read from its kwargs "
            f"({error}); expected whole numbers of workers, threads and cores"
        ) from error
    if workers is not None:
        return max(workers, 1) * threads
    if spec.cls == "LocalCluster":
        return os.cpu_count() or 1
    raise ClusterError(
        f"cluster.yaml does not say how many workers {spec.module}.{spec.cls} is to have; give "
        "n_workers among its kwargs, or scale or adapt"
    )


def _workers(spec: ClusterSpec) -> int | None:
    if spec.scale is not None:
        return spec.scale
    if spec.adapt is not None:
        return spec.adapt.maximum
    kwargs = spec.kwargs
    if kwargs.get("n_workers") is not None:
        return int(kwargs["n_workers"])
    if kwargs.get("jobs") is not None:
        return int(kwargs["jobs"]) * int(kwargs.get("processes") or 1)
    hosts = kwargs.get("hosts") or (spec.args[0] if spec.args else None)
    if spec.cls == "SSHCluster" and isinstance(hosts, list | tuple):
        options = kwargs.get("worker_options") or {}
        return (len(hosts) - 1) * int(options.get("n_workers") or 1)
    return None


def _threads_of_one(kwargs: dict[str, Any]) -> int:
    """Threads of one worker: batch jobs share their cores among their processes."""
    options = kwargs.get("worker_options") or {}
    for found in (
        kwargs.get("threads_per_worker"),
        kwargs.get("nthreads"),
        options.get("nthreads"),
    ):
        if found:
            return int(found)
    if kwargs.get("cores"):
        return max(int(kwargs["cores"]) // int(kwargs.get("processes") or 1), 1)
    return 1
