"""Values that a user's function uses without receiving them as options.

These are the variables of enclosing functions, bound arguments, the attributes of a callable object
and, for functions that no module file defines, the global variables. They decide the function's
answers as its source does, so they are part of its code's identity.
"""

import copyreg
import dis
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

_ATOMS = (type(None), bool, int, float, complex, str, bytes)


def captured(
    function: Callable[..., Any], source: Callable[[Any], str], importable: Callable[[Any], bool]
) -> dict[str, str | None]:
    """Return a hash of every value that a function captures, by the name of its variable.

    A value is hashed by its type and the content with which it would be pickled, so that equal
    values have equal hashes in every process. The hash of a value that cannot be pickled is None.

    Parameters
    ----------
    function : callable
        The function, or an object that can be called.
    source : callable
        Returns a hash of the source of a function or class.
    importable : callable
        Returns whether a module file defines a function or class, which then counts by its name.
    """

    def variables(used: object) -> Mapping[str, object]:
        if isinstance(used, partial):
            return {**variables(used.func), **used.keywords, "*": used.args}
        if isinstance(used, MethodType):
            return {**variables(used.__func__), "self": used.__self__}
        if not isinstance(used, FunctionType):
            inner = getattr(used, "__wrapped__", None)  # a function decorated with functools.cache
            return {"self": used} if inner is None else variables(inner)
        outer = {} if importable(used) else used.__globals__
        values = {name: outer[name] for name in _global_names(used.__code__) if name in outer}
        cells = zip(used.__code__.co_freevars, used.__closure__ or (), strict=True)
        values |= {name: cell.cell_contents for name, cell in cells if cell != CellType()}
        return {name: v for name, v in values.items() if not isinstance(v, ModuleType)}

    def hashed(value: Any, around: tuple[int, ...]) -> str:
        """Hash a value; ``around`` identifies the values that contain it, which may form a loop."""
        kind, within = type(value), (*around, id(value))
        if kind in _ATOMS:
            return f"{kind.__name__} {value!r}"
        if id(value) in around:
            return f"loop {within.index(id(value))}"
        if isinstance(value, ModuleType):
            return value.__name__
        if isinstance(value, type | FunctionType) and importable(value):
            return f"{value.__module__}.{value.__qualname__}"
        parts: Sequence[object]
        if isinstance(value, type):
            parts = [source(value)]
        elif isinstance(value, FunctionType):
            defaults = value.__defaults__, value.__kwdefaults__
            parts = [source(value), *defaults, *sorted(variables(value).items())]
        elif kind in (tuple, list):
            parts = [*value]
        elif kind is dict:
            parts = [*value.items()]
        elif kind in (set, frozenset):
            parts = sorted(hashed(member, within) for member in value)
        else:
            reduce = copyreg.dispatch_table.get(kind)
            reduced = value.__reduce_ex__(4) if reduce is None else reduce(value)
            listed = [reduced] if isinstance(reduced, str) else reduced
            parts = [[*part] if isinstance(part, Iterator) else part for part in listed]
        text = " ".join(hashed(part, within) for part in parts)
        return f"{kind.__name__} {hashlib.sha256(text.encode()).hexdigest()}"

    def hash_or_none(value: object) -> str | None:
        try:
            return hashed(value, ())
        except Exception:  # whatever the value's own code for pickling raises
            return None

    return {name: hash_or_none(value) for name, value in variables(function).items()}


def _global_names(code: CodeType) -> set[str]:
    """Return the names of the global variables that a function and the functions in it read."""
    reads = (step for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL")
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return {step.argval for step in reads}.union(*map(_global_names, inner))
