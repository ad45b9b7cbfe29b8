"""Which code solves: a hash of the packages that numbers come from, compared on every worker."""

import hashlib
import socket
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import solvers
import workloads

_DIGITS = 20


@cache
def digest() -> str:
    """The hash of `solvers` and `workloads` as this process found them first."""
    return digest_of(Path(package.__path__[0]) for package in (solvers, workloads))


def digest_of(packages: Iterable[Path]) -> str:
    """The hash of all Python files of some packages: what they hold and what they are called.

    Parameters
    ----------
    packages : iterable of Path
        Their folders; where these are does not enter.

    Returns
    -------
    str
        20 hexadecimal digits.
    """
    found = hashlib.sha256()
    for folder in packages:
        for name in sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.py")):
            content = hashlib.sha256((folder / name).read_bytes()).hexdigest()
            found.update(f"{folder.name}/{name} {content}\n".encode())
    return found.hexdigest()[:_DIGITS]


def difference(expected: str) -> str:
    """How this process's code differs from the command's, in a sentence; empty if it does not."""
    if digest() == expected:
        return ""
    return (
        f"a worker on {socket.gethostname()} has other code in 'solvers' or 'workloads' "
        f"({digest()}) than the command ({expected}); install the same version of this project "
        "there and start its workers again"
    )
