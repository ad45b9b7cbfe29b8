"""Checks of named parameters against the signature of a function, and limits on sizes.

Limits keep an experiment from exhausting a machine. The ``sweep`` command and every worker process
read the limits from their environment when they start.
"""

import difflib
import errno
import inspect
import math
import operator
import os
import re
import stat
import sys
import types
import typing
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NewType, Self, TypeVar, Union

import numpy as np

from workloads.errors import ParameterError, WorkloadError

_PREFIX = "SWEEP_"


def limit(name: str, default: int) -> int:
    """Return the whole number in the environment variable ``"SWEEP_" + name``, or the default.

    Warns
    -----
    UserWarning
        If the variable is set to anything but a positive whole number; the default then applies.
    """
    text = os.environ.get(_PREFIX + name, str(default))
    if text.isdecimal() and int(text) > 0:
        return int(text)
    warnings.warn(
        f"{_PREFIX}{name} in the environment is {text!r}; expected a whole number from 1: the "
        f"limit stays at {default:,}",
        stacklevel=2,
    )
    return default


def raised_by(name: str) -> str:
    """Return the end of a message about a limit: which environment variable raises the limit."""
    return f"that {_PREFIX}{name} in the environment raises"


FilePath = NewType("FilePath", str)
"""The type of a parameter that is a file's path; results depend on the file's content."""

FunctionName = NewType("FunctionName", str)
"""The type of a parameter written as ``module:function``; results depend on the module's file."""

CodeName = NewType("CodeName", str)
"""The type of a parameter written as ``module:function``.

A change of this function's module makes stored results stale.
"""

PriorText = NewType("PriorText", str)
"""The type of a parameter that names a prior, written as `workloads.priors.RULES` shows."""

LARGEST_SIZE = limit("LARGEST_SIZE", 10_000_000)
"""Largest number of queries, domain cells or individuals that a workload may list one by one.

Each vector with a number for every one of them takes 80 MB.
"""

LARGEST_FILE_BYTES = limit("LARGEST_FILE_BYTES", 2**30)
"""Largest size, in bytes, of a file that an experiment names, and of each array in the file."""

LARGEST_TEXT_BYTES = 2**26
"""Largest size, in bytes, of a text file that is read line by line, such as a table of queries.

Its content as Python objects takes about 30 times as much memory: 2 GB.
"""


@dataclass(frozen=True)
class Bounds:
    """The bounds of a number, in the type of a parameter: ``Annotated[float, Bounds(gt=0)]``.

    The attributes have the names that the package annotated-types gives them, whose ``Ge``, ``Gt``,
    ``Le``, ``Lt`` and ``Interval`` bound a parameter as well.
    """

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None


_BOUNDS: Mapping[str, tuple[Callable[[Any, Any], bool], str]] = {
    "ge": (operator.ge, "at least"),
    "gt": (operator.gt, "above"),
    "le": (operator.le, "at most"),
    "lt": (operator.lt, "below"),
}

Size = Annotated[int, Bounds(ge=1, le=LARGEST_SIZE)]
"""The type of a parameter that is a number of queries, domain cells, answers or individuals."""

Count = Annotated[int, Bounds(ge=0)]
"""The type of a parameter that is a number of repetitions, without a limit."""

Seed = Annotated[int, Bounds(ge=0)]
"""The type of a parameter that seeds a random number generator."""

NotNegative = Annotated[float, Bounds(ge=0, lt=math.inf)]
"""The type of a parameter that is 0 or a positive finite number."""

Positive = Annotated[float, Bounds(gt=0, lt=math.inf)]
"""The type of a parameter that is a positive finite number."""

Probability = Annotated[float, Bounds(ge=0, le=1)]
"""The type of a parameter that is a probability, or a fraction that may be none or all."""

Share = Annotated[float, Bounds(gt=0, lt=1)]
"""The type of a parameter that is a part of a whole."""

Seconds = Annotated[float, Bounds(ge=0)]
"""The type of a parameter that limits the time of a solve; infinity sets no limit."""

_UNIONS = (Union, types.UnionType)
_PLAIN: Mapping[object, tuple[type, str]] = {
    bool: (bool, "true or false"),
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
    str: (str, "a text"),
    FilePath: (str, "the path of a file"),
    FunctionName: (str, "a module:function"),
    CodeName: (str, "a module:function"),
    PriorText: (str, "a prior"),
}


def nearest(name: object, known: Iterable[str]) -> str:
    """Complete a message on an unknown name with the nearest known name, or with all of them."""
    names = list(known)
    close = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"expected one of: {', '.join(names)}" if names else "it takes none"


def repeated(names: Iterable[str]) -> str | None:
    """Return the first name that is listed more than once; None if all are distinct."""
    return next((name for name, count in Counter(names).items() if count > 1), None)


def bind(
    owner: str,
    parameters: Mapping[str, inspect.Parameter],
    given: Mapping[str, object],
    error: type[ParameterError] = WorkloadError,
) -> dict[str, Any]:
    """Check the ``given`` values, and return them with the defaults of all other parameters.

    Parameters
    ----------
    owner : str
        The workload, rule or mechanism in words, for error messages: "workload 'prefix'".
    parameters : Mapping[str, inspect.Parameter]
        The parameters of the workload, rule or mechanism, with types and defaults.
    given : Mapping[str, object]
        The values that the user wrote. A parameter's default is always a possible value.
    error : type
        The type of the exception.

    Raises
    ------
    WorkloadError
        If a name is unknown, a parameter without a default is missing, or a value has the wrong
        type or is out of bounds.
    """
    for name in given:
        if name not in parameters:
            raise error(f"{owner} does not take {name!r}; {nearest(name, parameters)}", name)
    bound = {}
    for name, parameter in parameters.items():
        expected, default = parameter.annotation, parameter.default
        value = bound[name] = given.get(name, default)
        if value is inspect.Parameter.empty:
            kind = describe(expected)
            raise error(f"{owner} needs parameter {name!r} ({kind}); give it a value", name)
        if value is not default and not fits(value, expected):
            shown, kind = repr(value), describe(expected)
            if isinstance(value, int) and value > LARGEST_SIZE:
                of_sizes = f"at most {LARGEST_SIZE:,}" in kind
                kind += f", the limit {raised_by('LARGEST_SIZE')}" if of_sizes else ""
                shown = readable(value)
            raise error(f"{owner}: {name} is {shown}; expected {kind}", name)
    return bound


def describe(expected: object) -> str:
    """Describe the values of a type in words, such as "a list of whole numbers"."""
    if expected in _PLAIN:
        return _PLAIN[expected][1]
    origin, inner = typing.get_origin(expected), typing.get_args(expected)
    if origin is Annotated:
        ends = " and ".join(f"{_BOUNDS[name][1]} {end:,}" for name, end in _list_bounds(inner[1:]))
        return describe(inner[0]) + f" ({ends})".replace("below inf", "finite") * bool(ends)
    if origin in _UNIONS:
        return " or ".join(describe(annotation) for annotation in inner)
    if origin is Literal:
        return " or ".join(map(str, inner))
    if origin is list:
        return f"a list of {_plural(describe(inner[0]))}"
    if origin is dict:
        return f"a mapping of names to {_plural(describe(inner[1]))}"
    return "nothing (null)" if expected in (None, type(None)) else "any value"


def _list_bounds(marks: Iterable[object]) -> list[tuple[str, float]]:
    """Return the name and the value of every bound among the marks of an annotation."""
    bounds = ((name, getattr(mark, name, None)) for mark in marks for name in _BOUNDS)
    return [(name, end) for name, end in bounds if end is not None]


def alternatives(expected: object) -> tuple[object, ...]:
    """Return the types of values that an annotation accepts, without their bounds."""
    origin, inner = typing.get_origin(expected), typing.get_args(expected)
    if origin is Annotated:
        return alternatives(inner[0])
    return sum(map(alternatives, inner), ()) if origin in _UNIONS else (expected,)


def _plural(things: str) -> str:
    """Return the plural of a description: "a text or a number" becomes "texts or numbers"."""
    return re.sub(r"(^| or )a ([^ ]+(?: number)?)", r"\1\2s", things)


def regular(path: str, most: int = LARGEST_FILE_BYTES) -> Path:
    """Expand ``~`` in a file's path; refuse files that are not regular or exceed ``most`` bytes.

    Raises
    ------
    OSError
        If the file does not exist, is too large, or is not a regular file: reading a pipe or a
        device might never end.
    ValueError, RuntimeError
        If the text is not a valid path, or ``~`` cannot be expanded.
    """
    resolved = Path(path).expanduser()
    status = resolved.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    if status.st_size > most:
        raise OSError(
            errno.EFBIG, f"it holds {status.st_size:,} bytes, more than the limit of {most:,}"
        )
    return resolved


def read_text(what: str, path: str, advice: str, most: int = LARGEST_TEXT_BYTES) -> str:
    """Read the UTF-8 text of a regular file of at most ``most`` bytes; drop a byte-order mark.

    Raises
    ------
    WorkloadError
        If the file cannot be read, or is not UTF-8 text. The message begins with ``what``; if the
        file cannot be read, it ends with ``advice``.
    """
    try:
        return regular(path, most).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise WorkloadError(f"{what} {path!r} is not UTF-8 text; save it as UTF-8") from None
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise WorkloadError(f"{what} {path!r} cannot be read ({reason}); {advice}") from None


def check_size(what: str, value: int, least: int = 1, most: float = LARGEST_SIZE) -> None:
    """Raise WorkloadError if a whole number, such as a number of queries, is out of range."""
    if value < least:
        raise WorkloadError(f"{what} is {value}; expected at least {least}")
    if value > most:
        hint = f", the limit {raised_by('LARGEST_SIZE')}" if most >= LARGEST_SIZE else ""
        raise WorkloadError(f"{what} is {readable(value)}; expected at most {most:,}{hint}")


def readable(count: int) -> str:
    """Return a whole number as text for a message, from 10^12 on as a power of ten."""
    return f"{count:,}" if count < 10**12 else f"about 10^{int(math.log10(count))}"


Made = TypeVar("Made", covariant=True)


@dataclass(frozen=True)
class Recipe(Generic[Made]):
    """A named function of typed parameters: a workload family or a targets rule.

    Attributes
    ----------
    name : str
        The name that users write.
    build : callable
        The function; each of its parameters is annotated with its type.
    source : str
        The paper and section that the function comes from; may be empty.
    """

    name: str
    build: Callable[..., Made]
    source: str = ""

    @classmethod
    def of(cls, name: str, **attributes: Any) -> Callable[[Callable[..., Made]], Self]:
        """Return the decorator that makes a function a recipe with these attributes."""
        return lambda build: cls(name, build, **attributes)

    @property
    def summary(self) -> str:
        """The first line of the function's docstring, which ``sweep list`` prints."""
        return (inspect.getdoc(self.build) or self.name).splitlines()[0].removesuffix(".")

    @cached_property
    def params(self) -> Mapping[str, inspect.Parameter]:
        """The parameters of ``build``, by name, with types and defaults."""
        parameters = inspect.signature(self.build).parameters.values()
        return {p.name: p for p in parameters if p.kind is not inspect.Parameter.POSITIONAL_ONLY}


def fits(value: object, expected: object) -> bool:
    """Return whether a value has the type that a parameter expects, and is within its bounds.

    A whole number that is too large for a float does not fit a float parameter.
    """
    if expected is float and isinstance(value, int) and abs(value) > sys.float_info.max:
        return False
    if expected in _PLAIN:
        kind, _ = _PLAIN[expected]
        return isinstance(value, kind) and isinstance(value, bool) is (expected is bool)
    origin, inner = typing.get_origin(expected), typing.get_args(expected)
    if origin is Annotated:
        bounds = _list_bounds(inner[1:])
        return fits(value, inner[0]) and all(_BOUNDS[name][0](value, end) for name, end in bounds)
    if origin in _UNIONS:
        return any(fits(value, annotation) for annotation in inner)
    if origin is Literal:
        return any(type(value) is type(choice) and value == choice for choice in inner)
    if origin is list:
        listed = value.tolist() if isinstance(value, np.ndarray) else value
        return isinstance(listed, list | tuple) and all(fits(item, inner[0]) for item in listed)
    if origin is dict:
        return isinstance(value, Mapping) and all(fits(item, inner[1]) for item in value.values())
    return value is None if expected in (None, type(None)) else True
