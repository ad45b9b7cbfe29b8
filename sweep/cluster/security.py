"""Who may talk to a cluster: a Dask scheduler runs whatever it is sent.

A cluster on this machine gets a key of its own, which lives as long as it does and only in the
memory of its processes: anyone without it, another user of the machine for instance, is
refused. Clusters beyond this machine need keys in files, or the word that none are wanted.
"""

import ipaddress
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict

from sweep.errors import ClusterError
from workloads.parameters import regular

if TYPE_CHECKING:
    from distributed import Security

_MAKE_KEY = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
    "-keyout /dev/stdout -out /dev/stdout -days 365 -subj /CN=sweep"
)
_SECONDS = 20
_LARGEST_KEY = 2**20
_KEY_END = "-----END PRIVATE KEY-----\n"
_OPEN_SCHEMES = ("tcp", "ws", "ucx")


class KeyFiles(BaseModel):
    """Paths of PEM files, the same for scheduler, workers and clients.

    Attributes
    ----------
    ca : Path
        The certificate that all others are signed with.
    cert, key : Path
        The certificate to show, and its key.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    ca: Path
    cert: Path
    key: Path


def of_files(files: KeyFiles) -> "Security":
    """TLS by the keys in those files.

    Raises
    ------
    ClusterError
        If one of them cannot be read.
    """
    for path in (files.ca, files.cert, files.key):
        try:
            regular(str(path), _LARGEST_KEY).read_bytes()
        except OSError as error:
            raise ClusterError(
                f"key file {str(path)!r} cannot be read ({error.strerror}); correct 'security' in "
                "cluster.yaml"
            ) from error
    return _security(*_paths(files))


def settings(files: KeyFiles) -> dict[str, Any]:
    """The same as Dask settings, which is all that processes started by SSHCluster get."""
    ca, cert, key = _paths(files)
    roles = {role: {"cert": cert, "key": key} for role in ("client", "scheduler", "worker")}
    tls = {"ca-file": ca, **roles}
    return {
        "distributed.comm.require-encryption": True,
        **{f"distributed.comm.tls.{name}": value for name, value in tls.items()},
    }


def temporary() -> "Security | None":
    """TLS with a key made for this cluster; None if there is no ``openssl`` to make one."""
    pair = _openssl()
    return None if pair is None else _security(pair[0], *pair)


@contextmanager
def temporary_in_files(folder: Path) -> "Iterator[Security | None]":
    """The same in files within that folder, readable by the user alone and removed at the end."""
    pair = _openssl()
    if pair is None:
        yield None
        return
    with TemporaryDirectory(prefix=".sweep-key-", dir=folder) as place:
        paths = [str(Path(place, name).absolute()) for name in ("cert.pem", "key.pem")]
        for path, content in zip(paths, pair, strict=True):
            Path(path).write_text(content)
        yield _security(paths[0], *paths)


def _openssl() -> tuple[str, str] | None:
    """A self-signed certificate and its key."""
    try:
        result = subprocess.run(
            _MAKE_KEY.split(),
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=_SECONDS,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    key, end, certificate = result.partition(_KEY_END)
    return certificate, key + end


def refuse_exposed(address: str) -> None:
    """Refuse a scheduler that other machines can reach without a key.

    Raises
    ------
    ClusterError
        If it is one.
    """
    if _asks_for_no_key(address) and not _on_loopback(address):
        raise ClusterError(
            f"scheduler {address} has no key: anyone who can reach it over the network can run "
            "code as you; give 'security: {ca: FILE, cert: FILE, key: FILE}' in cluster.yaml, or "
            "'insecure: true' if you trust everybody who can"
        )


def exposure(address: str) -> str:
    """Who can run code on a cluster without a key, in a sentence; empty if nobody can."""
    if not _asks_for_no_key(address):
        return ""
    who = "user of this machine" if _on_loopback(address) else "machine that reaches it"
    return f"scheduler {address} asks for no key: every {who} can run code as you"


def _paths(files: KeyFiles) -> tuple[str, str, str]:
    ca, cert, key = (str(path.absolute()) for path in (files.ca, files.cert, files.key))
    return ca, cert, key


def _security(ca: str, cert: str, key: str) -> "Security":
    from distributed import Security

    security_class: Any = Security
    security: Security = security_class(
        require_encryption=True,
        tls_ca_file=ca,
        **{f"tls_{role}_cert": cert for role in ("client", "scheduler", "worker")},
        **{f"tls_{role}_key": key for role in ("client", "scheduler", "worker")},
    )
    return security


def _asks_for_no_key(address: str) -> bool:
    scheme = urlsplit(address).scheme
    return scheme in _OPEN_SCHEMES or not scheme or "://" not in address


def _on_loopback(address: str) -> bool:
    host = urlsplit(address if "://" in address else f"tcp://{address}").hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
