"""The user's code: a module, and what it imports from its own folder or package."""

import ast
import hashlib
import inspect
import types
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from sweep.experiment.files import module_file

OURS = ("solvers", "sweep", "workloads")
"""Packages whose code is compared as a whole."""
INSTALLED = ("site-packages", "dist-packages")

Source = str | Callable[..., Any]
"""The user's code: the name of a module, or a function."""


def origin(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as written, without wrappers and bound arguments."""
    unwrapped = inspect.unwrap(function)
    return origin(unwrapped.func) if isinstance(unwrapped, partial) else unwrapped


def is_ours(function: Callable[..., Any]) -> bool:
    """Whether a function is part of this project."""
    return origin(function).__module__.partition(".")[0] in OURS


def module_of(source: Source) -> str:
    """The module that every process imports from a file; empty if it gets the code from another."""
    if isinstance(source, str):
        return source
    module = origin(source).__module__
    return "" if module == "__main__" or module_file(module) is None else module


def digest(source: Source) -> str:
    """The hash of a module and what it imports; of bytecode where a function has no file."""
    if module := module_of(source):
        hasher = hashlib.sha256()
        for name, path in sorted(files(module).items()):
            hasher.update(f"{name} {hash_of_file(path)}\n".encode())
        return hasher.hexdigest()
    code = getattr(origin(source), "__code__", None) if callable(source) else None
    return hashlib.sha256((repr(source) if code is None else bytecode(code)).encode()).hexdigest()


def files(module: str) -> dict[str, str]:
    """The files of a module and those that it imports, directly or not, by module name.

    Only imports within the module's own package, or of files beside it, are followed; nothing
    is run.
    """
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


def hash_of_file(path: str) -> str:
    """The hash of a file's content."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def bytecode(code: types.CodeType) -> str:
    """What a function does, the same in every process of one version of Python."""
    return "\n".join(_bytecode(code))


def _bytecode(code: types.CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    yield repr(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _bytecode(constant)
        elif isinstance(constant, frozenset):
            yield repr(sorted(map(repr, constant)))
        else:
            yield repr(constant)


def _with_packages(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[:count]) for count in range(1, len(parts) + 1))


def _follows(name: str, top: str, root: Path | None) -> bool:
    """Whether a module is of the same package, or a file in the same folder."""
    first = name.partition(".")[0]
    if first == top:
        return True
    if first in OURS or root is None or root.name in INSTALLED:
        return False
    return (root / f"{first}.py").is_file() or (root / first / "__init__.py").is_file()


@lru_cache(4096)
def _imports(path: str, package: str, changed: int, size: int) -> tuple[str, ...]:
    """The modules that a file may import, by name."""
    try:
        tree = ast.parse(Path(path).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ()
    modules: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            outer = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*(outer if node.level else ()), *filter(None, [node.module])])
            modules += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return tuple(filter(None, modules))


def _state(path: str) -> tuple[int, int]:
    stat = Path(path).stat()
    return stat.st_mtime_ns, stat.st_size
