"""Which versions of Python and of libraries solve, compared on every worker."""

import platform
import socket
from functools import cache
from importlib.metadata import PackageNotFoundError, version

_OF_NUMBERS = ("numpy", "scipy")
_OF_TRANSPORT = ("dask", "distributed")


@cache
def ours() -> str:
    """Those of this process that numbers or messages depend on, in words."""
    return _listed(*_OF_NUMBERS, *_OF_TRANSPORT)


@cache
def of_numbers() -> str:
    """Those that numbers depend on: what a record says of where it comes from."""
    return _listed(*_OF_NUMBERS)


def difference(expected: str) -> str:
    """How this process's versions differ from the command's, in a sentence; empty if not."""
    if ours() == expected:
        return ""
    return (
        f"a worker on {socket.gethostname()} has other versions ({ours()}) than the command "
        f"({expected}), so its numbers may be others; install the same there, or give "
        "--allow-mixed: every cell then says which versions solved it"
    )


def _listed(*packages: str) -> str:
    listed = (f"{package} {_version(package)}" for package in packages)
    return ", ".join([f"python {platform.python_version()}", *listed])


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
