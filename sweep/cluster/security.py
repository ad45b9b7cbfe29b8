"""Who may connect to a cluster: a Dask scheduler runs any code that it is sent.

A cluster that the sweep starts on this machine or in a batch queue gets a key of its own. Clusters
beyond this machine need keys in files, unless ``cluster.yaml`` says ``insecure: true``.
"""

import ipaddress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict

from sweep.errors import ClusterError
from workloads.parameters import regular

_LARGEST_KEY = 2**20
_OPEN_SCHEMES = ("tcp", "ws", "ucx")


class KeyFiles(BaseModel):
    """Paths of PEM files, the same for scheduler, workers and clients.

    Attributes
    ----------
    ca : Path
        The certificate that signed all others.
    cert, key : Path
        The certificate to show, and its key.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    ca: Path
    cert: Path
    key: Path

    def dask_settings(self) -> dict[str, Any]:
        """TLS with these keys, as Dask settings: SSHCluster passes nothing else to its processes.

        Raises
        ------
        ClusterError
            If one of the files cannot be read.
        """
        for path in (self.ca, self.cert, self.key):
            try:
                regular(str(path), _LARGEST_KEY).read_bytes()
            except OSError as error:
                raise ClusterError(
                    f"key file {str(path)!r} cannot be read ({error.strerror}); correct "
                    "'security' in cluster.yaml"
                ) from error
        pair = {"cert": str(self.cert.absolute()), "key": str(self.key.absolute())}
        return {
            "distributed.comm.require-encryption": True,
            "distributed.comm.tls.ca-file": str(self.ca.absolute()),
            **{f"distributed.comm.tls.{role}": pair for role in ("client", "scheduler", "worker")},
        }


def refuse_exposed(address: str) -> None:
    """Refuse a scheduler that other machines can reach without a key.

    Raises
    ------
    ClusterError
        If it is one.
    """
    if exposure(address) and not _on_loopback(address):
        raise ClusterError(
            f"scheduler {address} has no key: anyone who can reach it over the network can run "
            "code as you; give 'security: {ca: FILE, cert: FILE, key: FILE}' in cluster.yaml, or "
            "'insecure: true' if you trust everybody who can"
        )


def exposure(address: str) -> str:
    """Who can run code on a cluster without a key, in a sentence; empty if nobody can."""
    if "://" in address and urlsplit(address).scheme not in _OPEN_SCHEMES:
        return ""
    who = "user of this machine" if _on_loopback(address) else "machine that reaches it"
    return f"scheduler {address} asks for no key: every {who} can run code as you"


def _on_loopback(address: str) -> bool:
    host = urlsplit(address if "://" in address else f"tcp://{address}").hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
