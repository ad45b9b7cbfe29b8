"""What a batch system says of the jobs that were submitted to it."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

_JOBS = ("squeue", "--me", "--noheader", "--format=%i %T %r")
_SECONDS = 10.0


async def states(cluster: Any) -> dict[str, str] | None:
    """State and reason of every job that the user has in the batch system, by the job's id.

    Jobs that are over are not among them. None if it cannot be asked: only Slurm can.

    Parameters
    ----------
    cluster : distributed.deploy.SpecCluster
        The cluster that has submitted jobs.
    """
    if getattr(getattr(cluster, "job_cls", None), "config_name", "") != "slurm":
        return None
    try:
        asked = await asyncio.create_subprocess_exec(
            *_JOBS, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        said, _ = await asyncio.wait_for(asked.communicate(), _SECONDS)
    except (OSError, TimeoutError):
        return None
    if asked.returncode != 0:
        return None
    lines = (line.partition(" ") for line in said.decode(errors="replace").splitlines())
    return {job: state for job, _, state in lines}


def over(cluster: Any, names: Iterable[Any], known: Mapping[str, str]) -> list[Any]:
    """Which of these have been submitted as a job that is over."""
    return [name for name, job in _jobs(cluster, names).items() if job not in known]


def summary(cluster: Any, names: Iterable[Any], known: Mapping[str, str]) -> str:
    """How many of their jobs are in which state, such as ``2 PENDING (Resources)``."""
    states = (known[job] for job in _jobs(cluster, names).values() if job in known)
    counted = ((state.partition(" "), n) for state, n in Counter(states).most_common())
    return ", ".join(
        f"{n} {state}" + (f" ({reason})" if reason not in ("", "None") else "")
        for (state, _, reason), n in counted
    )


def _jobs(cluster: Any, names: Iterable[Any]) -> dict[Any, str]:
    """Ids of the jobs that were submitted for these."""
    ids = {name: getattr(cluster.workers.get(name), "job_id", None) for name in names}
    return {name: job for name, job in ids.items() if job is not None}
