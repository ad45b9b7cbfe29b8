"""Our own SSH server on this machine, which admits whoever has a key made for it."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from getpass import getuser
from pathlib import Path

from benchmarks.chaos.house import free_port

_SECONDS = 300.0
_SEPARATION = Path("/run/sshd")
_CONFIGURATION = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
"""


def missing() -> str:
    """Why it cannot be started here; empty if it can."""
    lost = [name for name in ("sshd", "ssh-keygen") if _path(name) is None]
    return f"no {', '.join(lost)} (Debian: openssh-server)" if lost else ""


@contextmanager
def running(folder: Path) -> Iterator[dict[str, object]]:
    """A server with keys in a folder; yields the options with which ``asyncssh`` connects to it."""
    folder.mkdir()
    for name in ("host", "user"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True
        )
    port = free_port()
    (folder / "config").write_text(_CONFIGURATION.format(port=port, folder=folder))
    public = (folder / "host.pub").read_text().partition(" ")
    known = folder / "known_hosts"
    known.write_text(f"[127.0.0.1]:{port} {public[0]} {public[2]}")
    made = os.geteuid() == 0 and not _SEPARATION.exists()
    if made:
        _SEPARATION.mkdir(mode=0o755)
    log = folder / "log"
    sshd = subprocess.Popen([_path("sshd"), "-D", "-f", folder / "config", "-E", log])
    try:
        _wait_for(port, log)
        keys = {"client_keys": [str(folder / "user")], "known_hosts": str(known)}
        yield {"port": port, "username": getuser(), **keys}
    finally:
        sshd.terminate()
        sshd.wait()
        if made:
            with suppress(OSError):
                _SEPARATION.rmdir()


def _wait_for(port: int, log: Path) -> None:
    end = time.monotonic() + _SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=10).close()
            return
        except OSError as error:
            if time.monotonic() > end:
                raise TimeoutError(f"sshd does not start: {log.read_text()}") from error
            time.sleep(0.1)


def _path(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
