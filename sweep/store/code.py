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
import copyreg
import dis
import hashlib
import inspect
import marshal
import socket
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import cast

import solvers
import workloads
from solvers import dual
from solvers.mechanism import Mechanism
from sweep.experiment.canonical import Spec
from sweep.experiment.files import find_module_file
from sweep.store.environment import list_versions, version_of
from sweep.store.records import SolveCode
from workloads.parameters import CodeName
from workloads.user_code import syntax_tree

_SHOWN_DIGITS = 8
"""Digits of the hash of all revisions; messages show it, and two versions differ in it surely."""
_ATOMS = (type(None), bool, int, float, complex, str, bytes)
Function = Callable[..., object]
"""A user's function or class, or another object that can be called."""


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
        self._of_family = cache(self._identify_family)
        self._of_mechanism: Callable[..., _Identity] = cache(self._identify_mechanism)

    def of_bound(self, workload: str) -> SolveCode:
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
        family, known = self._of_family(workload), solvers.all_mechanisms()[mechanism.name]
        solver = self._of_mechanism(known, *_name_modules(known, mechanism))
        sources = _digest([family.source, solver.source])
        return SolveCode(family.revision[:8] + solver.revision[:6] + sources[:6])

    def _identify_family(self, workload: str) -> _Identity:
        """Return the identity of the code that builds a workload and certifies its bounds.

        For a family of query matrices it also depends on the optimiser's revision. Raising that
        revision makes all results on query matrices stale, because a result's gap depends on the
        bound.
        """
        family = workloads.families()[workload]
        build = self._identify(family.build, family.revision)
        optimiser = str(dual.REVISION) if family.kind == "matrix" else ""
        return replace(build, revision=_digest([workload, build.revision, optimiser]))

    def _identify_mechanism(self, known: type[Mechanism], *modules: str) -> _Identity:
        """Return the identity of a mechanism, with the users' ``modules`` that it calls."""
        solve = self._identify(known.origin, known.revision)
        parts = [known.name, solve.revision, *map(_source, modules)]
        return replace(solve, revision=_digest(parts))

    def _identify(self, function: Function, revision: int) -> _Identity:
        origin = _find_origin(function)
        source = _source(origin)
        if origin.__module__.startswith(("solvers.", "workloads.")):
            return _Identity(f"{revision} ", source)
        return _Identity(f"{revision} {source}{hash_captured(function) or ''}", source)


codes_of_this_process = cache(Codes)
"""Returns the identities of this process's code; Python does not reload edited modules."""


def solve_difference(expected: str, workload: str, mechanism: Spec) -> str:
    """Describe in a sentence how this worker's code for a solve differs from the command's code.

    The sentence is empty if the worker's code has the identity ``expected``, or if the worker
    receives the mechanism's function with its tasks.
    """
    modules, known = tuple[str, ...](), solvers.all_mechanisms().get(mechanism.name)
    if known is not None:  # a plug-in may be missing on the worker
        sent = known.foreign and not _is_importable(_find_origin(known.origin))
        if sent or codes_of_this_process().of_solve(workload, mechanism) == expected:
            return ""
        modules = _name_modules(known, mechanism)
    named = ", ".join(map(repr, [mechanism.name, *modules]))
    return (
        f"the worker on {socket.gethostname()} has other code of {named} or of workload "
        f"{workload!r} than the command, or imported it before it was edited; give every worker "
        "the same files (PYTHONPATH) and restart the workers (client.restart())"
    )


@cache
def project() -> str:
    """Return the version of this project and a hash of all its revisions, as one text."""
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
        The results of `project` and `list_versions` in the command's process. If
        ``expected_versions`` is empty, the worker may have any versions.
    """
    here = f"a worker on {socket.gethostname()}"
    if project() != expected_project:
        return (
            f"{here} has other code ({project()}) than the command ({expected_project}); install "
            "the same version of this project there and restart its workers"
        )
    if expected_versions in ("", list_versions()):
        return ""
    return (
        f"{here} has other versions ({list_versions()}) than the command ({expected_versions}), so "
        "its numbers may differ; install the same there, or give --allow-mixed: every cell then "
        "says which versions solved it"
    )


def _name_modules(known: type[Mechanism], mechanism: Spec) -> tuple[str, ...]:
    """Return the modules of the functions (``MODULE:FUNCTION``) in a mechanism's options."""
    return tuple(
        str(mechanism.params[option]).partition(":")[0]
        for option, parameter in (known.params().items() if known.runs_code else ())
        if parameter.annotation is CodeName and option in mechanism.params
    )


def _source(written: str | Function) -> str:
    """Return the hash of a module's source.

    ``written`` is the module's name or one of its functions. If a function's module has no file,
    the function's own source is hashed instead, or its bytecode if there is no source.
    """
    file = _find_file(written if isinstance(written, str) else written.__module__)
    try:
        if file is not None:
            return _hash_source(Path(file).read_text(encoding="utf-8"))
        return _hash_source(textwrap.dedent(inspect.getsource(cast(FunctionType, written))))
    except (OSError, TypeError):
        code = getattr(written, "__code__", None)
        return _digest([repr(written) if code is None else marshal.dumps(code).hex()])


def _find_origin(function: Function) -> Function:
    """Return the function as its author wrote it, without wrappers and bound arguments.

    The origin of an object that can be called is its class.
    """
    unwrapped = inspect.unwrap(function)
    if isinstance(unwrapped, partial):
        return _find_origin(unwrapped.func)
    written = isinstance(unwrapped, type) or hasattr(unwrapped, "__code__")
    return unwrapped if written else type(unwrapped)


def _find_file(module: str) -> str | None:
    """Return the file that workers import a module from; None if there is no such file."""
    return None if module == "__main__" else find_module_file(module)


def _is_importable(written: Function) -> bool:
    """Return whether workers import a function or class; if not, its source is sent to them."""
    return "<locals>" not in written.__qualname__ and _find_file(written.__module__) is not None


@cache
def _hash_source(text: str) -> str:
    """Return the hash of a source text; docstrings, comments and layout do not affect it."""
    try:
        return _digest([ast.unparse(_WithoutDocstrings().visit(syntax_tree(text)))])
    except (SyntaxError, ValueError):
        return _digest([text])


class _WithoutDocstrings(ast.NodeTransformer):
    """Removes statements that consist only of a constant, such as docstrings."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        return None if isinstance(node.value, ast.Constant) else node


def hash_captured(function: Function) -> dict[str, str | None]:
    """Return a hash of every value that a function captures, by the name of its variable.

    A function captures the variables of enclosing functions, bound arguments, the attributes of a
    callable object and, if no module file defines the function, its global variables. They decide
    its answers as its source does.

    A value is hashed by its type and the content with which it would be pickled, so that equal
    values have equal hashes in every process. The hash of a value that cannot be pickled is None.
    """
    hashes = dict[str, str | None]()
    for name, value in _list_captured(function).items():
        try:
            hashes[name] = _hash_value(value, ())
        except Exception:  # whatever the value's own code for pickling raises
            hashes[name] = None
    return hashes


def _list_captured(function: object) -> Mapping[str, object]:
    """Return the values that a function captures, by the name of their variable."""
    if isinstance(function, partial):
        return {**_list_captured(function.func), **function.keywords, "*": function.args}
    if isinstance(function, MethodType):
        return {**_list_captured(function.__func__), "self": function.__self__}
    if not isinstance(function, FunctionType):
        inner = getattr(function, "__wrapped__", None)  # a function decorated with functools.cache
        return {"self": function} if inner is None else _list_captured(inner)
    outer = {} if _is_importable(function) else function.__globals__
    values = {name: outer[name] for name in _list_globals(function.__code__) if name in outer}
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    values |= {name: cell.cell_contents for name, cell in cells if cell != CellType()}
    return {name: v for name, v in values.items() if not isinstance(v, ModuleType)}


def _list_globals(code: CodeType) -> set[str]:
    """Return the names of the global variables that a function and the functions in it read."""
    reads = (step for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL")
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return {step.argval for step in reads}.union(*map(_list_globals, inner))


def _hash_value(value: object, around: tuple[int, ...]) -> str:
    """Hash a value; ``around`` identifies the values that contain it, which may form a loop."""
    kind, within = type(value), (*around, id(value))
    if kind in _ATOMS:
        return f"{kind.__name__} {value!r}"
    if id(value) in around:
        return f"loop {within.index(id(value))}"
    if isinstance(value, ModuleType):
        return value.__name__
    if isinstance(value, type | FunctionType) and _is_importable(value):
        return f"{value.__module__}.{value.__qualname__}"
    parts: Sequence[object]
    if isinstance(value, type):
        parts = [_source(value)]
    elif isinstance(value, FunctionType):
        defaults = value.__defaults__, value.__kwdefaults__
        parts = [_source(value), *defaults, *sorted(_list_captured(value).items())]
    elif isinstance(value, tuple | list) and kind in (tuple, list):
        parts = value
    elif isinstance(value, dict) and kind is dict:
        parts = [*value.items()]
    elif isinstance(value, set | frozenset) and kind in (set, frozenset):
        parts = sorted(_hash_value(member, within) for member in value)
    else:
        reduce = copyreg.dispatch_table.get(kind)
        reduced = value.__reduce_ex__(4) if reduce is None else reduce(value)
        listed = [reduced] if isinstance(reduced, str) else reduced
        parts = [[*part] if isinstance(part, Iterator) else part for part in listed]
    text = " ".join(_hash_value(part, within) for part in parts)
    return f"{kind.__name__} {hashlib.sha256(text.encode()).hexdigest()}"


def _digest(parts: list[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
