"""The version of the code that solves: a hash of its packages, compared on every worker."""

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
    """The hash of `solvers` and `workloads` as they were when this process first asked."""
    return digest_of(Path(package.__path__[0]) for package in (solvers, workloads))


def digest_of(packages: Iterable[Path]) -> str:
    """The hash of all Python files of some packages, by name and content.

    Parameters
    ----------
    packages : iterable of Path
        The folders of the packages. Only their last component enters the hash.

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
    """A sentence saying that this process's code is not the command's; empty if it is."""
    if digest() == expected:
        return ""
    return (
        f"a worker on {socket.gethostname()} has other code in 'solvers' or 'workloads' "
        f"({digest()}) than the command ({expected}); install the same version of this project "
        "there and restart its workers"
    )
