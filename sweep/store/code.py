"""The version of the code that solves: a hash, compared on every worker.

It covers this project's packages and, where a solve runs other code (a function that the
experiment names, a plug-in, a function given in Python), that of it, too.
"""

import hashlib
import socket
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import solvers
import workloads
from sweep.store import closure, edits
from workloads.parameters import CodeName

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
    hasher = hashlib.sha256()
    for folder in packages:
        for name in sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.py")):
            content = hashlib.sha256((folder / name).read_bytes()).hexdigest()
            hasher.update(f"{folder.name}/{name} {content}\n".encode())
    return hasher.hexdigest()[:_DIGITS]


class Codes:
    """The hashes of the code of solves, each computed once."""

    def __init__(self) -> None:
        self._known: dict[object, str] = {}

    def of_bound(self, workload: str) -> str:
        """The hash of the code that certifies a problem of that workload family.

        Parameters
        ----------
        workload : str
            A name of `workloads.families`.
        """
        return self._digest(_of_family(workload))

    def of_solve(self, workload: str, mechanism: str, options: Mapping[str, Any]) -> str:
        """The hash of the code that solves.

        Parameters
        ----------
        workload, mechanism : str
            Names of `workloads.families` and of `solvers.all_mechanisms`.
        options : Mapping[str, object]
            Of the mechanism; one may name a function.
        """
        return self._digest(_of_family(workload) + _of_mechanism(mechanism, options))

    def _digest(self, sources: tuple[closure.Source, ...]) -> str:
        if not sources:
            return digest()
        for source in sources:
            if source not in self._known:
                self._known[source] = closure.digest(source)
        parts = [digest(), *(self._known[source] for source in sources)]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:_DIGITS]


def _of_family(name: str) -> tuple[closure.Source, ...]:
    known = workloads.families().get(name)
    return () if known is None or closure.is_ours(known.build) else (known.build,)


def _of_mechanism(name: str, options: Mapping[str, Any]) -> tuple[closure.Source, ...]:
    known = solvers.all_mechanisms().get(name)
    if known is None or known.solve is None:
        return ()
    if not known.runs_code:
        return () if closure.is_ours(known.solve) else (known.solve,)
    return tuple(
        str(options[option]).partition(":")[0]
        for option, parameter in known.options.items()
        if parameter.annotation is CodeName and option in options
    )


def solve_difference(
    expected: str, workload: str, mechanism: str, options: Mapping[str, Any]
) -> str:
    """A sentence saying that the user's code of a solve is not the command's; empty if it is.

    What this process has imported stays as it was: code that was edited since is refused, too.
    """
    named = next((str(v) for n, v in options.items() if n == "function"), mechanism)
    here = f"the worker on {socket.gethostname()} has"
    if Codes().of_solve(workload, mechanism, options) != expected:
        return (
            f"{here} other code of {named!r} (with workload {workload!r}) than the command; give "
            "every worker the same files and restart its workers"
        )
    for source in _of_family(workload) + _of_mechanism(mechanism, options):
        if edited := edits.edited(source):
            return (
                f"{here} imported module {edited!r} of {named!r} (with workload {workload!r}) "
                "before it was edited; restart the workers (client.restart()) and solve it again"
            )
    return ""


def difference(expected: str) -> str:
    """A sentence saying that this process's code is not the command's; empty if it is."""
    if digest() == expected:
        return ""
    return (
        f"a worker on {socket.gethostname()} has other code in 'solvers' or 'workloads' "
        f"({digest()}) than the command ({expected}); install the same version of this project "
        "there and restart its workers"
    )
