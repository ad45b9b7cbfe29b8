"""Our own Slurm with one node: its configuration, its daemons, and its queue."""

import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from getpass import getuser
from pathlib import Path

import pytest
from processes import until
from programs import absent, daemon

from benchmarks.chaos.house import free_port

_SECONDS = 60.0
_CONFIGURATION = """\
ClusterName=sweep
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket
SlurmctldPort={controller}
SlurmdPort={node}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
KillWait=2
NodeName={host} NodeAddr=127.0.0.1 CPUs=32 RealMemory=128000 State=UNKNOWN
PartitionName=normal Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str:
    """Why it cannot be started here; empty if it can."""
    return absent("slurm-wlm, munge", "munged", "slurmctld", "slurmd", "sbatch")


@contextmanager
def running() -> Iterator[None]:
    """A Slurm with the partition ``normal``, which this process's environment names.

    It assumes more processors and memory than there are.
    """
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="slurm-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        folder.chmod(0o755)  # munge wants its socket to be reachable
        for name in ("state", "spool"):
            (folder / name).mkdir()
        key = folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o600)
        configuration = folder / "slurm.conf"
        host = socket.gethostname().partition(".")[0]
        ports = {"controller": free_port(), "node": free_port()}
        about = {"host": host, "user": getuser(), "folder": folder}
        configuration.write_text(_CONFIGURATION.format(**about, **ports))
        stack.enter_context(pytest.MonkeyPatch.context()).setenv("SLURM_CONF", str(configuration))
        files = [f"--{name}-file={folder}/munged.{name}" for name in ("pid", "log", "seed")]
        files += [f"--key-file={key}", f"--socket={folder}/munge.socket"]
        _daemon(stack, folder, "munged", "--foreground", *files)
        _wait(lambda: (folder / "munge.socket").exists(), "munged", folder)
        _daemon(stack, folder, "slurmctld", "-D", "-f", configuration)
        _daemon(stack, folder, "slurmd", "-D", "-f", configuration, "-N", host)
        _wait(lambda: "idle" in _answer("sinfo", "-h", "-o", "%T"), "slurmd", folder)
        stack.callback(_empty)
        yield


def jobs(state: str = "RUNNING") -> list[str]:
    """Ids of the jobs in that state."""
    return _answer("squeue", "-h", "-o", "%i", "-t", state).split()


def cancel(job: str) -> None:
    """End a job, as an administrator would."""
    subprocess.run(["scancel", job], check=True)


def _empty() -> None:
    """End all jobs: their processes would outlive the daemons."""
    subprocess.run(["scancel", "--full", f"--user={getuser()}"], check=False)
    until(lambda: not _answer("squeue", "-h"))


def _daemon(stack: ExitStack, folder: Path, name: str, *arguments: object) -> None:
    with (folder / f"{name}.err").open("w") as errors:
        process = subprocess.Popen([daemon(name), *arguments], stdout=errors, stderr=errors)
    stack.callback(process.wait)
    stack.callback(process.terminate)


def _wait(is_there, what: str, folder: Path) -> None:
    end = time.monotonic() + _SECONDS
    while not is_there():
        if time.monotonic() > end:
            logs = [path.read_text() for path in (*folder.glob("*.err"), *folder.glob("*.log"))]
            raise TimeoutError(f"{what} does not start:\n" + "\n".join(logs))
        time.sleep(0.2)


def _answer(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout
