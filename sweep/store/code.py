"""Identifies the code of solves, to detect stale results and workers with other code.

Every mechanism, every workload family and the optimiser of the dual problem has a revision number,
which is raised whenever the answers change. A user's function has no revision: it is identified by
the source of its module, or by its own source if the module has no file. Changes to docstrings,
comments and layout do not change the identity.

The identity of a solve's code is a text of 20 hexadecimal digits. The first `CERTIFIER_DIGITS`
digits identify the code that certifies the solve's lower bound. The first `REVISED_DIGITS` digits
identify all code that can make the solve's result stale. The remaining digits identify the modules
that define the mechanism and the workload family. So if a module of this project is edited and no
revision is raised, only the remaining digits change: they show the edit, but no result becomes
stale.

This module also makes the dataset attributes that describe the software and the machine.
"""

import ast
import hashlib
import inspect
import marshal
import platform
import socket
import subprocess
import textwrap
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import solvers
import workloads
from solvers import dual
from solvers.mechanism import Mechanism
from sweep.experiment.canonical import Spec
from sweep.experiment.files import module_file
from workloads.family import Family
from workloads.parameters import CodeName
from workloads.user_code import syntax_tree

CERTIFIER_DIGITS = 8
"""Number of leading digits of a code identity; they identify the code that certifies bounds."""
REVISED_DIGITS = 14
"""Number of leading digits of a code identity; a result is stale if these digits change."""
_DIGITS = 20
_OF_NUMBERS = ("numpy", "scipy")
_OF_TRANSPORT = ("dask", "distributed")
_OF_DATASETS = ("fitness-sweep", *_OF_NUMBERS, *_OF_TRANSPORT, "xarray", "zarr")


class Codes:
    """Computes and caches the identities of the code of solves and of the code of bounds."""

    def __init__(self) -> None:
        self._of_family, self._of_mechanism = cache(_of_family), cache(_of_mechanism)

    def of_bound(self, workload: str) -> str:
        """Return the digits that identify the code certifying bounds for a workload family."""
        return self._of_family(workload)[0]

    def of_solve(self, workload: str, mechanism: Spec) -> str:
        """Return the identity of a solve's code: 20 hexadecimal digits.

        Parameters
        ----------
        workload : str
            The name of the workload's family.
        mechanism : Spec
            The mechanism and its options; an option may name a user's function.
        """
        certifier, family = self._of_family(workload)
        solver, module = self._of_mechanism(mechanism.name, _named_modules(mechanism))
        return certifier + solver + _digest([family, module])[: _DIGITS - REVISED_DIGITS]


def _of_family(workload: str) -> tuple[str, str]:
    """Return the digits of a family's certifying code, and the hash of the family's module.

    For a family of query matrices the digits also depend on the optimiser's revision. Raising that
    revision makes all results on query matrices stale, because a result's gap depends on the bound.
    """
    family = workloads.families().get(workload)
    revision, source = _identity(family)
    optimiser = str(dual.REVISION) if family is not None and family.kind == "matrix" else ""
    return _digest([workload, revision, optimiser])[:CERTIFIER_DIGITS], source


def _of_mechanism(mechanism: str, modules: tuple[str, ...]) -> tuple[str, str]:
    """Return the digits of a mechanism's code, and the hash of the mechanism's module.

    The digits also depend on ``modules``, the users' modules that the mechanism calls.
    """
    revision, source = _identity(solvers.all_mechanisms().get(mechanism))
    digest = _digest([mechanism, revision, *map(_source, modules)])
    return digest[: REVISED_DIGITS - CERTIFIER_DIGITS], source


def _identity(known: Mechanism | Family | None) -> tuple[str, str]:
    """Return the identity of a mechanism or workload family, and the hash of its module's source.

    Results become stale when the identity changes. The identity is the revision; for code that is
    not part of this project, the revision and the hash. Both values are empty if ``known`` is None.
    """
    if known is None:
        return "", ""
    function = known.build if isinstance(known, Family) else known.solve or known.solve_graph
    origin = _origin(function)
    source = _source(origin)
    ours = origin.__module__.startswith(("solvers.", "workloads."))
    return f"{known.revision} {'' if ours else source}", source


_IN_THIS_PROCESS = Codes()
"""The identities of this process's code, cached because Python does not reload edited modules."""


def solve_difference(expected: str, workload: str, mechanism: Spec) -> str:
    """Describe in a sentence how this worker's code for a solve differs from the command's code.

    The sentence is empty if the worker's code has the identity ``expected``, or if the worker
    receives the mechanism's function with its tasks.
    """
    known = solvers.all_mechanisms().get(mechanism.name)
    if known is not None and known.solve is not None:
        module = _origin(known.solve).__module__
        if module == "__main__" or module_file(module) is None:  # sent to workers with its tasks
            return ""
    if _IN_THIS_PROCESS.of_solve(workload, mechanism) == expected:
        return ""
    named = ", ".join(map(repr, [mechanism.name, *_named_modules(mechanism)]))
    return (
        f"the worker on {socket.gethostname()} has other code of {named} or of workload "
        f"{workload!r} than the command, or imported it before it was edited; give every worker "
        "the same files (PYTHONPATH) and restart the workers (client.restart())"
    )


@cache
def project() -> str:
    """The version of this project and a hash of all its revisions, as one text."""
    mechanisms, families = solvers.all_mechanisms().values(), workloads.families().values()
    revisions = [f"{one.name} {one.revision}" for one in mechanisms if not one.foreign]
    ours = (one for one in families if one.build.__module__.startswith("workloads."))
    revisions += [f"{one.name} {one.revision}" for one in ours]
    digits = _digest([*revisions, str(dual.REVISION)])[:CERTIFIER_DIGITS]
    return f"fitness-sweep {version_of('fitness-sweep')}, revisions {digits}"


@cache
def versions() -> str:
    """The versions of Python, numpy, scipy, dask and distributed, as one text."""
    return _listed(*_OF_NUMBERS, *_OF_TRANSPORT)


@cache
def versions_of_numbers() -> str:
    """The versions of Python, numpy and scipy, as one text; every record contains this text."""
    return _listed(*_OF_NUMBERS)


def worker_difference(expected_project: str, expected_versions: str) -> str:
    """Describe in a sentence how this worker's code or versions differ from the command's.

    The sentence is empty if they do not differ.

    Parameters
    ----------
    expected_project, expected_versions : str
        The results of `project` and `versions` in the command's process. If ``expected_versions``
        is empty, the worker may have any versions.
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
        "numbers may differ; install the same there, or give --allow-mixed: every cell then "
        "says which versions solved it"
    )


def _named_modules(mechanism: Spec) -> tuple[str, ...]:
    """Return the modules of the functions (``MODULE:FUNCTION``) in a mechanism's options."""
    known = solvers.all_mechanisms().get(mechanism.name)
    if known is None or not known.runs_code:
        return ()
    return tuple(
        str(mechanism.params[option]).partition(":")[0]
        for option, parameter in known.options.items()
        if parameter.annotation is CodeName and option in mechanism.params
    )


def _source(written: Any) -> str:
    """Return the hash of a module's source.

    ``written`` is the module's name or one of its functions. If a function's module has no file,
    the function's own source is hashed instead, or its bytecode if there is no source.
    """
    module = written if isinstance(written, str) else written.__module__
    file = None if module == "__main__" else module_file(module)
    try:
        if file is not None:
            return _without_docstrings(Path(file).read_text(encoding="utf-8"))
        return _without_docstrings(textwrap.dedent(inspect.getsource(written)))
    except (OSError, TypeError):
        code = getattr(written, "__code__", None)
        return _digest([repr(written) if code is None else marshal.dumps(code).hex()])


def _origin(function: Any) -> Any:
    """The function as its author wrote it, without wrappers and bound arguments."""
    unwrapped = inspect.unwrap(function)
    return _origin(unwrapped.func) if isinstance(unwrapped, partial) else unwrapped


@cache
def _without_docstrings(text: str) -> str:
    """Return the hash of a source text; docstrings, comments and layout do not affect it."""
    try:
        return _digest([ast.unparse(_WithoutDocstrings().visit(syntax_tree(text)))])
    except (SyntaxError, ValueError):
        return _digest([text])


class _WithoutDocstrings(ast.NodeTransformer):
    """Removes statements that consist only of a constant, such as docstrings."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        return None if isinstance(node.value, ast.Constant) else node


def _digest(parts: list[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _listed(*packages: str) -> str:
    listed = (f"{package} {version_of(package)}" for package in packages)
    return ", ".join([f"python {platform.python_version()}", *listed])


def version_of(package: str) -> str:
    """Return the version of a package; ``unknown`` if the package is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


@cache
def describe() -> dict[str, str]:
    """Return the dataset attributes that describe the software and the machine.

    These are the versions of Python and of packages, the git revision, the BLAS library, the
    processor and the platform.
    """
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
    """Return the commit of this checkout, ending in ``-dirty`` if there are uncommitted changes.

    The result is ``not a git checkout`` if the project was installed without its repository, and
    ``unknown`` if git fails.
    """
    folder = Path(__file__).resolve().parents[2]
    if not (folder / ".git").exists():
        return "not a git checkout"
    git = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        return subprocess.check_output(git, stderr=subprocess.DEVNULL, text=True, timeout=5).strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"


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
