"""Identifies code, so that results of other code are found, and workers with other code refused.

Every mechanism, every workload family and the optimiser of the dual has a revision number, which is
raised whenever its answers change. The identity of a solve's code also includes a hash of the
modules that define its mechanism and its workload family, without docstrings and comments, so that
an edit in a checkout counts as other code. A user's function is identified by its module's source,
or by its own source if the module has no file.

This module also makes the dataset attributes that name software and machine.
"""

import ast
import hashlib
import inspect
import marshal
import platform
import socket
import subprocess
import textwrap
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import solvers
import workloads
from solvers import dual
from sweep.experiment.files import module_file
from workloads.parameters import CodeName
from workloads.user_code import syntax_tree

CERTIFIER_DIGITS = 8
"""Length of the prefix of a solve's code hash that identifies the code certifying its bound."""
_SOLVER_DIGITS = 12
_OF_NUMBERS = ("numpy", "scipy")
_OF_TRANSPORT = ("dask", "distributed")
_OF_DATASETS = ("fitness-sweep", *_OF_NUMBERS, *_OF_TRANSPORT, "xarray", "zarr")

Source = str | Callable[..., Any]
"""The name of a user's module, or a function."""


class Codes:
    """Computes the hashes that identify the code of bounds and of solves, each hash only once."""

    def __init__(self) -> None:
        self.of_bound: Callable[[str], str] = cache(_of_bound)
        self._of_mechanism = cache(_of_mechanism)

    def of_solve(self, workload: str, mechanism: str, options: Mapping[str, Any]) -> str:
        """The hash that identifies a solve's code; its first digits identify the bound's code.

        Parameters
        ----------
        workload, mechanism : str
            Names of `workloads.families` and of `solvers.all_mechanisms`.
        options : Mapping[str, object]
            The mechanism's options; one may name a function.
        """
        functions = _named_functions(mechanism, options)
        return self.of_bound(workload) + self._of_mechanism(mechanism, functions)


def _of_bound(workload: str) -> str:
    """The hash of the code that certifies bounds on the problems of a workload family.

    Raising the optimiser's revision makes all results on query matrices stale, because their gaps
    depend on the bound.
    """
    family = workloads.families().get(workload)
    parts = [workload]
    if family is not None:
        parts += [str(family.revision), _hash(family.build)]
        parts += [str(dual.REVISION)] if family.kind == "matrix" else []
    return _digest(parts)[:CERTIFIER_DIGITS]


def _of_mechanism(mechanism: str, functions: tuple[str, ...]) -> str:
    """The hash of a mechanism's code and of the functions that the mechanism's options name."""
    known = solvers.all_mechanisms().get(mechanism)
    parts = [mechanism, *map(_hash, functions)]
    if known is not None:
        parts += [str(known.revision), _hash(known.solve or known.solve_graph)]
    return _digest(parts)[:_SOLVER_DIGITS]


_IN_THIS_PROCESS = Codes()
"""This process's hashes, computed only once, since Python does not reload an edited module."""


def solve_difference(
    expected: str, workload: str, mechanism: str, options: Mapping[str, Any]
) -> str:
    """How this worker's code for a solve differs from the command's, in words; empty if equal."""
    known = solvers.all_mechanisms().get(mechanism)
    if known is not None and known.solve is not None and _is_sent_by_value(known.solve):
        return ""
    if _IN_THIS_PROCESS.of_solve(workload, mechanism, options) == expected:
        return ""
    named = ", ".join([repr(mechanism), *map(repr, _named_functions(mechanism, options))])
    return (
        f"the worker on {socket.gethostname()} has other code of {named} or of workload "
        f"{workload!r} than the command, or imported it before it was edited; give every worker "
        "the same files (PYTHONPATH) and restart the workers (client.restart())"
    )


@cache
def project() -> str:
    """The version of this project and a hash of all its revisions, in words."""
    mechanisms, families = solvers.all_mechanisms().values(), workloads.families().values()
    revisions = [f"{one.name} {one.revision}" for one in mechanisms if not one.foreign]
    ours = (one for one in families if one.build.__module__.startswith("workloads."))
    revisions += [f"{one.name} {one.revision}" for one in ours]
    digits = _digest([*revisions, str(dual.REVISION)])[:CERTIFIER_DIGITS]
    return f"fitness-sweep {version_of('fitness-sweep')}, revisions {digits}"


@cache
def versions() -> str:
    """The versions of Python and of the libraries on which numbers or messages depend, in words."""
    return _listed(*_OF_NUMBERS, *_OF_TRANSPORT)


@cache
def versions_of_numbers() -> str:
    """The versions of Python, numpy and scipy, as stored in every record."""
    return _listed(*_OF_NUMBERS)


def worker_difference(expected_project: str, expected_versions: str) -> str:
    """How this process differs from the command, in a sentence; empty if it does not.

    Parameters
    ----------
    expected_project, expected_versions : str
        `project` and `versions` of the command; ``expected_versions`` is empty if any will do.
    """
    here = f"a worker on {socket.gethostname()}"
    if project() != expected_project:
        return (
            f"{here} has other code ({project()}) than the command ({expected_project}); install "
            "the same version of this project there and restart its workers"
        )
    if expected_versions in ("", versions()):
        return ""
    return (
        f"{here} has other versions ({versions()}) than the command ({expected_versions}), so its "
        "numbers may be others; install the same there, or give --allow-mixed: every cell then "
        "says which versions solved it"
    )


def _named_functions(mechanism: str, options: Mapping[str, Any]) -> tuple[str, ...]:
    """The modules of the functions that a mechanism's options name."""
    known = solvers.all_mechanisms().get(mechanism)
    if known is None or not known.runs_code:
        return ()
    return tuple(
        str(options[option]).partition(":")[0]
        for option, parameter in known.options.items()
        if parameter.annotation is CodeName and option in options
    )


def _hash(source: Source | None) -> str:
    """The hash of the source of a module, or of a function's module.

    If a function's module has no file, the hash is that of the function's own source.
    """
    if source is None:
        return ""
    module = source if isinstance(source, str) else _origin(source).__module__
    file = module_file(module)
    if isinstance(source, str) or (module != "__main__" and file is not None):
        return "" if file is None else _without_docstrings(Path(file).read_text(encoding="utf-8"))
    function = _origin(source)
    try:
        return _without_docstrings(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        written = getattr(function, "__code__", None)
        return _digest([repr(source) if written is None else marshal.dumps(written).hex()])


def _is_sent_by_value(function: Callable[..., Any]) -> bool:
    """Whether workers receive a function with their tasks instead of importing it."""
    module = _origin(function).__module__
    return module == "__main__" or module_file(module) is None


def _origin(function: Callable[..., Any]) -> Any:
    """The function as written, without wrappers and bound arguments."""
    unwrapped = inspect.unwrap(function)
    return _origin(unwrapped.func) if isinstance(unwrapped, partial) else unwrapped


@cache
def _without_docstrings(text: str) -> str:
    """The hash of a source text without its docstrings, comments and layout."""
    try:
        tree = syntax_tree(text)
    except (SyntaxError, ValueError):
        return _digest([text])
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [one for one in node.body if not _is_text(one)] or [ast.Pass()]
    return _digest([ast.unparse(tree)])


def _is_text(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _digest(parts: list[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _listed(*packages: str) -> str:
    listed = (f"{package} {version_of(package)}" for package in packages)
    return ", ".join([f"python {platform.python_version()}", *listed])


def version_of(package: str) -> str:
    """The version of an installed distribution; ``unknown`` if the code is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


@cache
def describe() -> dict[str, str]:
    """Package versions, git revision, BLAS with its threads, processor and Python."""
    return {
        "package_versions": ", ".join(f"{name} {version_of(name)}" for name in _OF_DATASETS),
        "dask_version": version_of("dask"),
        "zarr_version": version_of("zarr"),
        "python_version": platform.python_version(),
        "git_revision": git_revision(),
        "blas": _blas(),
        "cpu_model": _cpu(),
        "platform": platform.platform(),
    }


def git_revision() -> str:
    """The commit of this checkout, with ``-dirty`` if files were changed, or why it is unknown."""
    folder = Path(__file__).resolve().parents[2]
    if not (folder / ".git").exists():
        return "not a git checkout"
    try:
        git = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return git.stdout.strip()


def _blas() -> str:
    from threadpoolctl import threadpool_info  # finds the BLAS that numpy has loaded

    libraries = {
        f"{library['internal_api']} {library['version']} ({library.get('architecture', 'generic')})"
        for library in threadpool_info()
        if library["user_api"] == "blas"
    }
    return ", ".join(sorted(libraries)) or "unknown"


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
