"""Our own SSH server on this machine, which admits whoever has a key made for it."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from getpass import getuser
from pathlib import Path

from processes import until
from programs import absent, daemon

from benchmarks.chaos.house import free_port

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
    return absent("openssh-server", "sshd", "ssh-keygen")


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
    sshd = subprocess.Popen([daemon("sshd"), "-D", "-f", folder / "config", "-E", log])
    try:
        until(lambda: log.exists() and "listening" in log.read_text(), sshd)
        keys = {"client_keys": [str(folder / "user")], "known_hosts": str(known)}
        yield {"port": port, "username": getuser(), **keys}
    finally:
        sshd.terminate()
        sshd.wait()
        if made:
            with suppress(OSError):
                _SEPARATION.rmdir()
