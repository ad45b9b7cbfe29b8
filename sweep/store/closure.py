"""The code of the user's: a module, and what it imports from its own folder or package."""

import ast
import dis
import hashlib
import inspect
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from sweep.experiment.files import module_file

OURS = ("solvers", "sweep", "workloads")
"""Packages whose code is compared as a whole."""
_INSTALLED = ("site-packages", "dist-packages")

Source = str | Callable[..., Any]
"""Code of the user's: the name of a module, or a function."""

_imported: dict[str, str] = {}
"""The hash of every module, by name, as this process has it: empty if it is not of the user's."""
_OTHER = "other than its file"
_LITERAL = ("LOAD_CONST", "LOAD_SMALL_INT")
_IMMUTABLE = (bool, int, float, complex, str, bytes, tuple)


def origin(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function that was written: without wrappers and without given arguments."""
    found = inspect.unwrap(function)
    return origin(found.func) if isinstance(found, partial) else found


def is_ours(function: Callable[..., Any]) -> bool:
    """Whether a function is part of this project."""
    return origin(function).__module__.partition(".")[0] in OURS


def is_imported(function: Callable[..., Any]) -> bool:
    """Whether every process imports it from a file, instead of getting it from another."""
    module = origin(function).__module__
    return module != "__main__" and module_file(module) is not None


def digest(source: Source) -> str:
    """The hash of a module or of a function, and of what it imports."""
    return of_module(source) if isinstance(source, str) else of_function(source)


def of_function(function: Callable[..., Any]) -> str:
    """The hash of a function's module and what it imports; of its bytecode if it has no file."""
    if is_imported(function):
        return of_module(origin(function).__module__)
    code = getattr(origin(function), "__code__", None)
    named = repr(function) if code is None else "\n".join(_bytecode(code))
    return hashlib.sha256(named.encode()).hexdigest()


def of_module(module: str) -> str:
    """The hash of a module's file and those that it imports, directly or not.

    Followed are imports within the module's own package, or of files beside it; nothing is run.
    """
    found = hashlib.sha256()
    for name, path in sorted(_files(module).items()):
        found.update(f"{name} {_hash(path)}\n".encode())
    return found.hexdigest()


def note_imported() -> None:
    """Note the user's modules that are imported: they stay so in this process when edited."""
    for name in [name for name in [*sys.modules] if name not in _imported]:
        path = getattr(sys.modules.get(name), "__file__", None) or ""
        installed = set(_INSTALLED) & set(Path(path).parts)
        standard = name.partition(".")[0] in {*OURS, *sys.stdlib_module_names}
        if not path.endswith(".py") or installed or standard or name.startswith("__"):
            _imported[name] = ""
        else:
            _note(name, path)


def edited(source: Source) -> str:
    """The module, of those of some code, that was edited since it was imported; empty if none."""
    if not isinstance(source, str):
        if not is_imported(source):
            return ""
        source = origin(source).__module__
    for name, path in sorted(_files(source).items()):
        if name in sys.modules and _note(name, path) != _hash(path):
            return name
    return ""


def _note(name: str, path: str) -> str:
    """The hash of a module when it was noted first, or now."""
    if not _imported.get(name):
        _imported[name] = _hash(path) if _is_as_written(name, path) else _OTHER
    return _imported[name]


def _is_as_written(name: str, path: str) -> bool:
    """Whether a module has the functions and the constants that its file has."""
    try:
        written = compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
    except (OSError, SyntaxError, ValueError):
        return False
    return _agrees(written, vars(sys.modules[name]))


def _agrees(written: types.CodeType, loaded: Mapping[str, Any]) -> bool:
    bodies: dict[str, list[types.CodeType]] = {}
    for one in written.co_consts:
        if isinstance(one, types.CodeType):
            bodies.setdefault(one.co_name, []).append(one)
    constants = ((loaded.get(name, value), value) for name, value in _constants(written))
    return all(_is_one_of(loaded.get(name), found) for name, found in bodies.items()) and all(
        repr(held) == repr(value) for held, value in constants if type(held) in _IMMUTABLE
    )


def _constants(body: types.CodeType) -> Iterator[tuple[str, Any]]:
    """What a module or class calls by names that it gives once; no function gives them anew."""
    steps = [*dis.get_instructions(body)]
    given = Counter(step.argval for step in steps if step.opname == "STORE_NAME")
    for value, name in pairwise(steps):
        if value.opname in _LITERAL and name.opname == "STORE_NAME" and given[name.argval] == 1:
            yield name.argval, value.argval


def _is_one_of(loaded: Any, bodies: list[types.CodeType]) -> bool:
    """Whether a function or class has one of these bodies; true of what is neither."""
    if isinstance(loaded, type):
        return any(_agrees(one, vars(loaded)) for one in bodies)
    code = getattr(inspect.unwrap(loaded) if callable(loaded) else None, "__code__", None)
    if code is None or code.co_qualname not in (one.co_qualname for one in bodies):
        return True
    return [*_bytecode(code)] in ([*_bytecode(one)] for one in bodies)


def _files(module: str) -> dict[str, str]:
    top = module.partition(".")[0]
    start = module_file(top)
    root = Path(start).parent if start else None
    files: dict[str, str] = {}
    left = [module]
    while left:
        name = left.pop()
        for known in _with_packages(name):
            path = None if known in files or not _follows(known, top, root) else module_file(known)
            if path is None or not path.endswith(".py"):
                continue
            files[known] = path
            package = known if Path(path).name == "__init__.py" else known.rpartition(".")[0]
            left += _imports(path, package, *_state(path))
    return files


def _with_packages(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[:count]) for count in range(1, len(parts) + 1))


def _follows(name: str, top: str, root: Path | None) -> bool:
    """Whether a module is of the same package, or a file in the same folder."""
    first = name.partition(".")[0]
    if first == top:
        return True
    if first in OURS or root is None or root.name in _INSTALLED:
        return False
    return (root / f"{first}.py").is_file() or (root / first / "__init__.py").is_file()


@lru_cache(4096)
def _imports(path: str, package: str, changed: int, size: int) -> tuple[str, ...]:
    """The modules that a file may import, by name."""
    try:
        tree = ast.parse(Path(path).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ()
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            outer = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*(outer if node.level else ()), *filter(None, [node.module])])
            found += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return tuple(filter(None, found))


def _state(path: str) -> tuple[int, int]:
    about = Path(path).stat()
    return about.st_mtime_ns, about.st_size


def _hash(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _bytecode(code: types.CodeType) -> Iterator[str]:
    """What a function does, the same in every process of one version of Python."""
    yield code.co_code.hex()
    yield repr(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _bytecode(constant)
        elif isinstance(constant, frozenset):
            yield repr(sorted(map(repr, constant)))
        else:
            yield repr(constant)
