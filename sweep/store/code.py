"""Identifies the code of solves, to detect stale results and workers with other code.

Every mechanism, every workload family and the optimiser of the dual problem has a revision number,
which is raised whenever the answers change. A user's function has no revision: it is identified by
the source of its module, or by its own source if the module has no file, and by the values that it
captures. Changes to docstrings, comments and layout do not change the identity.

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
from collections.abc import Callable
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
from sweep.store.captured import captured
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
        self._source, self._of_family = cache(_source), cache(self._family)
        self._mechanisms: dict[tuple[str, tuple[str, ...]], tuple[object, str, str]] = {}

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
        known = solvers.all_mechanisms().get(mechanism.name)
        key = mechanism.name, _named_modules(mechanism)
        found = self._mechanisms.get(key)
        if found is None or found[0] is not known:  # another run gives another function this name
            found = self._mechanisms[key] = (known, *self._mechanism(known, *key))
        return certifier + found[1] + _digest([family, found[2]])[: _DIGITS - REVISED_DIGITS]

    def _family(self, workload: str) -> tuple[str, str]:
        """Return the digits of a family's certifying code, and the hash of the family's module.

        For a family of query matrices the digits also depend on the optimiser's revision. Raising
        that revision makes all results on query matrices stale, because a result's gap depends on
        the bound.
        """
        family = workloads.families().get(workload)
        revision, source = ("", "") if family is None else self._of(family.build, family.revision)
        optimiser = str(dual.REVISION) if family is not None and family.kind == "matrix" else ""
        return _digest([workload, revision, optimiser])[:CERTIFIER_DIGITS], source

    def _mechanism(
        self, known: type[Mechanism] | None, name: str, modules: tuple[str, ...]
    ) -> tuple[str, str]:
        """Return the digits of a mechanism's code, and the hash of the mechanism's module.

        The digits also depend on ``modules``, the users' modules that the mechanism calls.
        """
        revision, source = self._of(known.origin, known.revision) if known else ("", "")
        digest = _digest([name, revision, *map(self._source, modules)])
        return digest[: REVISED_DIGITS - CERTIFIER_DIGITS], source

    def _of(self, function: Callable[..., Any], revision: int) -> tuple[str, str]:
        """Return a function's identity, and the hash of the source of the function's module.

        Results become stale when the identity changes. The identity is the revision; for code that
        is not part of this project, also the hash and the values that the function captures.
        """
        origin = _origin(function)
        source = self._source(origin)
        if origin.__module__.startswith(("solvers.", "workloads.")):
            return f"{revision} ", source
        values = captured(function, _source, _importable)
        return f"{revision} {source}{values or ''}", source


@cache
def codes_of_this_process() -> Codes:
    """Return the identities of this process's code; Python does not reload edited modules."""
    return Codes()


def solve_difference(expected: str, workload: str, mechanism: Spec) -> str:
    """Describe in a sentence how this worker's code for a solve differs from the command's code.

    The sentence is empty if the worker's code has the identity ``expected``, or if the worker
    receives the mechanism's function with its tasks.
    """
    known = solvers.all_mechanisms().get(mechanism.name)
    if known is not None and not _importable(_origin(known.origin)):
        return ""  # sent to workers with its tasks
    if codes_of_this_process().of_solve(workload, mechanism) == expected:
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
        for option, parameter in known.params().items()
        if parameter.annotation is CodeName and option in mechanism.params
    )


def _source(written: Any) -> str:
    """Return the hash of a module's source.

    ``written`` is the module's name or one of its functions. If a function's module has no file,
    the function's own source is hashed instead, or its bytecode if there is no source.
    """
    file = _file(written if isinstance(written, str) else written.__module__)
    try:
        if file is not None:
            return _without_docstrings(Path(file).read_text(encoding="utf-8"))
        return _without_docstrings(textwrap.dedent(inspect.getsource(written)))
    except (OSError, TypeError):
        code = getattr(written, "__code__", None)
        return _digest([repr(written) if code is None else marshal.dumps(code).hex()])


def _origin(function: Any) -> Any:
    """The function as its author wrote it, without wrappers and bound arguments.

    The origin of an object that can be called is its class.
    """
    unwrapped = inspect.unwrap(function)
    if isinstance(unwrapped, partial):
        return _origin(unwrapped.func)
    written = isinstance(unwrapped, type) or hasattr(unwrapped, "__code__")
    return unwrapped if written else type(unwrapped)


def _file(module: str) -> str | None:
    """Return the file that workers import a module from; None if there is no such file."""
    return None if module == "__main__" else module_file(module)


def _importable(written: Any) -> bool:
    """Return whether workers import a function or class; if not, its source is sent to them."""
    return "<locals>" not in written.__qualname__ and _file(written.__module__) is not None


def uncomparable(function: Callable[..., Any]) -> list[str]:
    """Return the names of the values that a function captures and that have no canonical form."""
    values = captured(function, _source, _importable)
    return [name for name, hashed in values.items() if hashed is None]


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
