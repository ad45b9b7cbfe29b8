"""Identifies the code of solves, to detect stale results and workers with other code.

Every mechanism, every workload family and the optimiser of the dual problem has a revision number,
which is raised whenever the answers change. A user's function has no revision: it is identified by
the source of its module, or by its own source if the module has no file, and by the values that it
captures. Changes to docstrings, comments and layout do not change the identity.

The identity of a solve's code (`sweep.store.records.SolveCode`) has three parts: the code that
certifies the solve's lower bound, the code that solves, and the modules that define the mechanism
and the workload family. If a module of this project is edited and no revision is raised, only the
last part changes: it shows the edit, but no result becomes stale.
"""

import ast
import hashlib
import inspect
import marshal
import socket
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import solvers
import workloads
from solvers import dual
from solvers.mechanism import Mechanism
from sweep.experiment.canonical import Spec
from sweep.experiment.files import find_module_file
from sweep.store.captured import captured
from sweep.store.environment import version_of, versions
from sweep.store.records import SolveCode
from workloads.parameters import CodeName
from workloads.user_code import syntax_tree

_SHOWN_DIGITS = 8
"""Digits of the hash of all revisions; messages show it, and two versions differ in it surely."""


@dataclass(frozen=True)
class _Identity:
    """Hashes of a function's code.

    Attributes
    ----------
    revision : str
        A hash that changes if and only if results become stale. For code of this project it depends
        on the revision; for other code also on the source and on the values that the function
        captures.
    source : str
        A hash of the source of the function's module.
    """

    revision: str
    source: str


class Codes:
    """Computes and caches the identities of the code of solves and of the code of bounds."""

    def __init__(self) -> None:
        self._source, self._of_family = cache(_source), cache(self._identify_family)
        self._mechanisms: dict[tuple[str, ...], tuple[type[Mechanism] | None, _Identity]] = {}

    def of_bound(self, workload: str) -> str:
        """Return the identity of the code that certifies bounds for a workload family."""
        return SolveCode(self._of_family(workload).revision).certifier

    def of_solve(self, workload: str, mechanism: Spec) -> SolveCode:
        """Return the identity of a solve's code.

        Parameters
        ----------
        workload : str
            The name of the workload's family.
        mechanism : Spec
            The mechanism and its options; an option may name a user's function.
        """
        family = self._of_family(workload)
        known = solvers.all_mechanisms().get(mechanism.name)
        key = mechanism.name, *_named_modules(mechanism)
        cached = self._mechanisms.get(key)
        if cached is None or cached[0] is not known:  # another run gives another function this name
            cached = self._mechanisms[key] = known, self._identify_mechanism(known, *key)
        sources = _digest([family.source, cached[1].source])
        return SolveCode.of(family.revision, cached[1].revision, sources)

    def _identify_family(self, workload: str) -> _Identity:
        """Return the identity of the code that builds a workload and certifies its bounds.

        For a family of query matrices it also depends on the optimiser's revision. Raising that
        revision makes all results on query matrices stale, because a result's gap depends on the
        bound.
        """
        family = workloads.families().get(workload)
        build = _NOTHING if family is None else self._identify(family.build, family.revision)
        optimiser = str(dual.REVISION) if family is not None and family.kind == "matrix" else ""
        return replace(build, revision=_digest([workload, build.revision, optimiser]))

    def _identify_mechanism(
        self, known: type[Mechanism] | None, name: str, *modules: str
    ) -> _Identity:
        """Return the identity of a mechanism, with the users' ``modules`` that it calls."""
        solve = self._identify(known.origin, known.revision) if known else _NOTHING
        parts = [name, solve.revision, *map(self._source, modules)]
        return replace(solve, revision=_digest(parts))

    def _identify(self, function: Callable[..., Any], revision: int) -> _Identity:
        origin = _origin(function)
        source = self._source(origin)
        if origin.__module__.startswith(("solvers.", "workloads.")):
            return _Identity(f"{revision} ", source)
        values = captured(function, _source, _importable)
        return _Identity(f"{revision} {source}{values or ''}", source)


_NOTHING = _Identity("", "")


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
    revisions = [f"{known.name} {known.revision}" for known in mechanisms if not known.foreign]
    ours = (family for family in families if family.build.__module__.startswith("workloads."))
    revisions += [f"{family.name} {family.revision}" for family in ours]
    digits = _digest([*revisions, str(dual.REVISION)])[:_SHOWN_DIGITS]
    return f"fitness-sweep {version_of('fitness-sweep')}, revisions {digits}"


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
    return None if module == "__main__" else find_module_file(module)


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
