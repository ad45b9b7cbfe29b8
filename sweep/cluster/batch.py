"""What a batch system reports about the jobs submitted to it."""

import asyncio
import getpass
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

_SECONDS = 10.0
_USER = "{user}"
_LISTINGS = {
    "slurm": (
        ("squeue", "--me", "--noheader", "--format=%i %T %r"),
        r"(?P<job>\S+) (?P<state>\S+) (?P<reason>.*)",
    ),
    "pbs": (("qstat", "-u", _USER), r"(?P<job>\d+)\S*(\s+\S+){8}\s+(?P<state>[A-Z])\s"),
    "sge": (("qstat", "-u", _USER), r"\s*(?P<job>\d+)(\s+\S+){3}\s+(?P<state>[A-Za-z]+)\s"),
    "lsf": (("bjobs", "-noheader", "-o", "jobid stat"), r"(?P<job>\d+)\s+(?P<state>\S+)"),
    "htcondor": (
        (
            *("condor_q", "-format", "%d.", "ClusterId", "-format", "%d ", "ProcId"),
            *("-format", "JobStatus=%d\\n", "JobStatus"),
        ),
        r"(?P<job>\d+\.\d+) (?P<state>\S+)",
    ),
}
"""How a user's jobs are listed, and what a line of that says of one, by dask-jobqueue's names."""
_VERIFIED = "slurm"
"""Others are believed once they have listed a job of ours: those lists were not tried for real."""


class Queue:
    """The user's jobs in a batch system.

    Parameters
    ----------
    cluster : distributed.deploy.SpecCluster
        The cluster that submits jobs.
    """

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self._system = getattr(getattr(cluster, "job_cls", None), "config_name", None)
        self._believed = self._system == _VERIFIED

    async def states(self) -> dict[str, str] | None:
        """State and reason of every job that the user has, by the job's id.

        Jobs that are over are not among them. None if that cannot be asked.
        """
        if self._system not in _LISTINGS:
            return None
        command, line = _LISTINGS[self._system]
        try:
            words = (getpass.getuser() if word == _USER else word for word in command)
            process = await asyncio.create_subprocess_exec(
                *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
            )
            output = await _output(process)
        except (OSError, KeyError, TimeoutError):
            return None
        if process.returncode != 0:
            return None
        lines = (re.match(line, text) for text in output.decode(errors="replace").splitlines())
        known = {match["job"]: _state(match.groupdict()) for match in lines if match}
        jobs = self._jobs(list(self._cluster.workers)).values()
        self._believed = self._believed or not known.keys().isdisjoint(jobs)
        return known if self._believed else None

    def over(self, names: Iterable[Any], known: Mapping[str, str]) -> list[Any]:
        """Which of these were submitted as a job that has ended."""
        return [name for name, job in self._jobs(names).items() if job not in known]

    def summary(self, names: Iterable[Any], known: Mapping[str, str]) -> str:
        """How many of their jobs are in which state, such as ``2 PENDING (Resources)``."""
        states = (known[job] for job in self._jobs(names).values() if job in known)
        return ", ".join(f"{n} {state}" for state, n in Counter(states).most_common())

    def _jobs(self, names: Iterable[Any]) -> dict[Any, str]:
        """Ids of the jobs that were submitted for these."""
        workers = self._cluster.workers
        ids = {name: getattr(workers.get(name), "job_id", None) for name in names}
        return {name: job for name, job in ids.items() if job is not None}


async def _output(process: asyncio.subprocess.Process) -> bytes:
    """What it prints; one that takes too long is ended, since it is asked again and again."""
    try:
        return (await asyncio.wait_for(process.communicate(), _SECONDS))[0]
    finally:
        if process.returncode is None:
            process.kill()


def _state(fields: Mapping[str, str]) -> str:
    reason = fields.get("reason", "None")
    return fields["state"] + (f" ({reason})" if reason not in ("", "None") else "")
