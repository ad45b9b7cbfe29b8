"""The user's modules that were edited after this process had imported them.

Python keeps what it imported, so such a process would solve with the old code and label its
results with the new. A module's file is hashed when the module is first looked at; whether it was
edited even before that is read off its functions and constants.
"""

import dis
import inspect
import sys
import types
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from sweep.store.closure import INSTALLED, OURS, Source, bytecode, files, hash_of_file, module_of

_imported: dict[str, str] = {}
"""The hash of each imported module's file, by module name; empty if it is not the user's."""
_OTHER = "other than its file"
_LITERAL = ("LOAD_CONST", "LOAD_SMALL_INT")
_IMMUTABLE = (bool, int, float, complex, str, bytes, tuple)


def note_imported() -> None:
    """Hash the user's modules that are imported by now, to notice later edits."""
    for name in [name for name in [*sys.modules] if name not in _imported]:
        path = getattr(sys.modules.get(name), "__file__", None) or ""
        installed = set(INSTALLED) & set(Path(path).parts)
        standard = name.partition(".")[0] in {*OURS, *sys.stdlib_module_names}
        if not path.endswith(".py") or installed or standard or name.startswith("__"):
            _imported[name] = ""
        else:
            _hash_when_noted(name, path)


def edited(source: Source) -> str:
    """The first module of some code that was edited since it was imported; empty if none."""
    module = module_of(source)
    for name, path in sorted(files(module).items()) if module else ():
        if name in sys.modules and _hash_when_noted(name, path) != hash_of_file(path):
            return name
    return ""


def _hash_when_noted(name: str, path: str) -> str:
    if not _imported.get(name):
        _imported[name] = hash_of_file(path) if _is_as_written(name, path) else _OTHER
    return _imported[name]


def _is_as_written(name: str, path: str) -> bool:
    """Whether a module has the functions and the constants that its file has."""
    try:
        written = compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
    except (OSError, SyntaxError, ValueError):
        return False
    return _agrees(written, vars(sys.modules[name]))


def _agrees(written: types.CodeType, loaded: Mapping[str, Any]) -> bool:
    """Whether a module or class has the functions, classes and constants of its source."""
    bodies: dict[str, list[types.CodeType]] = {}
    for constant in written.co_consts:
        if isinstance(constant, types.CodeType):
            bodies.setdefault(constant.co_name, []).append(constant)
    constants = ((loaded.get(name, value), value) for name, value in _constants(written))
    return all(_is_one_of(loaded.get(name), codes) for name, codes in bodies.items()) and all(
        repr(held) == repr(value) for held, value in constants if type(held) in _IMMUTABLE
    )


def _constants(body: types.CodeType) -> Iterator[tuple[str, Any]]:
    """The names bound once, to a literal; those that a function rebinds are STORE_GLOBAL."""
    steps = [*dis.get_instructions(body)]
    assigned = Counter(step.argval for step in steps if step.opname == "STORE_NAME")
    for value, name in pairwise(steps):
        if value.opname in _LITERAL and name.opname == "STORE_NAME" and assigned[name.argval] == 1:
            yield name.argval, value.argval


def _is_one_of(loaded: Any, bodies: list[types.CodeType]) -> bool:
    """Whether a function or class has one of these bodies; true of anything else."""
    if isinstance(loaded, type):
        return any(_agrees(body, vars(loaded)) for body in bodies)
    code = getattr(inspect.unwrap(loaded) if callable(loaded) else None, "__code__", None)
    if code is None or code.co_qualname not in (body.co_qualname for body in bodies):
        return True
    return bytecode(code) in map(bytecode, bodies)
