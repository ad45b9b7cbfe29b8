"""From a written experiment to specs: names, types and values checked, defaults filled in."""

import inspect
import re
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Union

import workloads
from solvers.errors import SolverError
from sweep.experiment.blocks import WrittenEntry
from sweep.experiment.canonical import rounded
from sweep.experiment.document import Place
from sweep.experiment.files import located
from sweep.experiment.labels import values_of
from workloads import TargetsError, WorkloadError
from workloads.parameters import Recipe, bind, nearest

Parameters = Mapping[str, inspect.Parameter]


@dataclass(frozen=True)
class Signature:
    """The parameters of what its ``role`` says: a workload, a targets rule or a mechanism."""

    role: str
    name: str
    params: Parameters

    @property
    def described(self) -> str:
        """Role and name, for error messages: ``workload 'prefix'``."""
        return f"{self.role} {self.name!r}"

    def bound(self, given: Mapping[str, Any], place: Place) -> dict[str, Any]:
        """All parameters in canonical form: the given ones, and the defaults of the others."""
        with errors_at(place):
            params = bind(self.described, self.params, given, WorkloadError)
        return {name: canonical(v, self.params[name].annotation) for name, v in params.items()}


@dataclass(frozen=True)
class WrittenParameter:
    """A parameter as written: one value, or those of an axis; values are in canonical form."""

    place: Place
    values: tuple[Any, ...]
    is_axis: bool


@contextmanager
def errors_at(place: Place, names: Iterable[str] = ()) -> Iterator[None]:
    """Turn errors of workloads and solvers into errors of the experiment, with the place.

    The place is that of the parameter among ``names`` that the message mentions, if there is
    one, and else ``place``.
    """
    try:
        yield
    except (WorkloadError, TargetsError, SolverError) as error:
        text = str(error).partition(":")[2]
        named = (place / name for name in names if re.search(rf"\b{re.escape(name)}\b", text))
        blamed = next((candidate for candidate in named if candidate.is_written), place)
        raise blamed.error(str(error)) from error


def workload_signature(entry: WrittenEntry, place: Place) -> Signature:
    """The parameters of the workload family that the entry names."""
    hint = workloads.family.plugged().hint
    return _signature("workload", entry, workloads.families(), place, hint)


def targets_signature(entry: WrittenEntry, place: Place) -> Signature:
    """The parameters of the targets rule that the entry names."""
    return _signature("targets rule", entry, workloads.targets.rules(), place)


def _signature(
    role: str, entry: WrittenEntry, known: Mapping[str, Recipe], place: Place, more: str = ""
) -> Signature:
    if entry.name not in known:
        hint = nearest(entry.name, known) + more
        raise (place / "name").error(f"no {role} is called {entry.name!r}; {hint}")
    return Signature(role, entry.name, known[entry.name].params)


def written_parameters(
    signature: Signature, given: Mapping[str, Any], place: Place
) -> dict[str, WrittenParameter]:
    """The parameters that were written, each value checked against its type."""
    written: dict[str, WrittenParameter] = {}
    for name, value in given.items():
        here = place / name
        values, is_axis = values_of(signature.params.get(name), value)
        for item in values:
            _check(signature, name, item, here)
        expected = signature.params[name].annotation
        with errors_at(here):
            held = tuple(canonical(item, expected) for item in values)
        written[name] = WrittenParameter(here, held, is_axis)
        if not values:
            raise here.error("this axis has no values; expected at least one")
    return written


def canonical(value: Any, expected: Any) -> Any:
    """One form for all values of the same meaning: floats of 12 digits, lists, 1.0 for 1.

    From here on, a file that a text names is known by its content.
    """
    known = _alternatives(expected)
    if isinstance(value, Mapping):
        return {name: canonical(item, _inside(known, dict)) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [canonical(item, _inside(known, list)) for item in value]
    if isinstance(value, str):
        return located(value, known)
    whole = isinstance(value, int) and (int in known or float not in known)
    if whole or isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return rounded(value)


def _check(signature: Signature, name: str, value: Any, place: Place) -> None:
    """Refuse a parameter that does not exist, and a value of the wrong type."""
    described = signature.described
    if name not in signature.params:
        hint = nearest(name, signature.params)
        raise place.error(f"{described} does not take {name!r}; {hint}")
    parameter = signature.params[name]
    with errors_at(place):
        bind(described, {name: parameter}, {name: value}, WorkloadError)
    literals = (a for a in _alternatives(parameter.annotation) if typing.get_origin(a) is Literal)
    choices = [choice for literal in literals for choice in typing.get_args(literal)]
    if choices and value not in [*choices, parameter.default]:
        raise place.error(f"{described}: {name!r} is {value!r}; {nearest(value, choices)}")


def _alternatives(expected: Any) -> tuple[Any, ...]:
    if typing.get_origin(expected) in (Union, types.UnionType):
        return typing.get_args(expected)
    return (expected,)


def _inside(alternatives: tuple[Any, ...], kind: type) -> Any:
    """The type of the items of a list or a mapping of that type."""
    inner = [typing.get_args(a) for a in alternatives if typing.get_origin(a) is kind]
    return inner[0][-1] if inner else Any
