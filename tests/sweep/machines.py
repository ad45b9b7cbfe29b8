"""Machines of our own: network namespaces of this one, joined by a switch."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

_NETWORK = f"10.213.{os.getpid() % 256}"
HOST = f"{_NETWORK}.1"
"""The address of this machine on their network."""


def missing() -> str:
    """Why there can be none here; empty if there can."""
    if os.geteuid() != 0:
        return "only root can make network namespaces"
    if shutil.which("ip") is None:
        return "no ip (Debian: iproute2)"
    try:
        with joined(1):
            return ""
    except subprocess.CalledProcessError as error:
        return f"no network namespaces: {error.stderr.strip()}"


@contextmanager
def joined(number: int) -> Iterator[list[str]]:
    """The names of that many machines, on a network of this process."""
    mark = f"sw{os.getpid() % 100000}"
    names = [f"{mark}-{n}" for n in range(number)]
    try:
        _ip("link", "add", mark, "type", "bridge")
        _ip("addr", "add", f"{HOST}/24", "dev", mark)
        _ip("link", "set", mark, "up")
        for n, name in enumerate(names):
            _ip("netns", "add", name)
            _ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("link", "set", name, "master", mark, "up")
            _ip("-n", name, "addr", "add", f"{_NETWORK}.{n + 2}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")
            _ip("-n", name, "link", "set", "lo", "up")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", mark], capture_output=True, check=False)


def cut(name: str) -> None:
    """Pull a machine's cable."""
    _ip("link", "set", name, "down")


def join(name: str) -> None:
    """Plug it in again."""
    _ip("link", "set", name, "up")


def on(name: str, command: str) -> list[str]:
    """What runs that shell command on a machine, which may mount disks of its own."""
    return ["ip", "netns", "exec", name, "sh", "-c", command]


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)
