"""From what an experiment says to specs: names, types and values checked, defaults filled in."""

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
from sweep.experiment.blocks import Choice
from sweep.experiment.canonical import Scalar, rounded
from sweep.experiment.document import Origin, Path
from sweep.experiment.files import located
from sweep.grid.cells import Spec
from workloads import TargetsError, WorkloadError
from workloads.parameters import bind, nearest

Parameters = Mapping[str, inspect.Parameter]
Kind = Literal["matrix", "graph"]


@dataclass(frozen=True)
class Owner:
    """What takes parameters: a workload family, a targets rule or a mechanism.

    Attributes
    ----------
    kind : str
        "workload", "targets rule" or "mechanism".
    name : str
        Its name.
    params : Mapping[str, inspect.Parameter]
        What it takes.
    """

    kind: str
    name: str
    params: Parameters

    def spec(self, given: Mapping[str, Any], origin: Origin, path: Path) -> Spec:
        """The spec with these parameters and the defaults of the others."""
        with reported(origin, path):
            bound = bind(f"{self.kind} {self.name!r}", self.params, given, WorkloadError)
        return Spec(
            self.name, {n: canonical(v, self.params[n].annotation) for n, v in bound.items()}
        )


@dataclass(frozen=True)
class Written:
    """A parameter as written: one value, or the values of an axis.

    Attributes
    ----------
    path : Path
        Where it stands.
    values : tuple
        In canonical form; one of them if it is no axis.
    is_axis : bool
        Whether it was written as a list of values.
    """

    path: Path
    values: tuple[Any, ...]
    is_axis: bool


@contextmanager
def reported(origin: Origin, path: Path, names: Iterable[str] = ()) -> Iterator[None]:
    """Errors of workloads and solvers as errors of the experiment, with the place.

    Of the names of parameters below ``path`` the one that the message is about is added.
    """
    try:
        yield
    except (WorkloadError, TargetsError, SolverError) as error:
        said = str(error).partition(":")[2]
        paths = ((*path, name) for name in names if re.search(rf"\b{re.escape(name)}\b", said))
        blamed = next((one for one in paths if one in origin.places), path)
        raise origin.error(blamed, str(error)) from error


def family(choice: Choice, origin: Origin, path: Path) -> Owner:
    """The workload family of that name."""
    known = workloads.families()
    if choice.name not in known:
        hint = nearest(choice.name, known)
        raise origin.error((*path, "name"), f"no workload is called {choice.name!r}; {hint}")
    return Owner("workload", choice.name, known[choice.name].params)


def rule(choice: Choice, origin: Origin, path: Path) -> Owner:
    """The targets rule of that name."""
    known = workloads.targets.rules()
    if choice.name not in known:
        hint = nearest(choice.name, known)
        raise origin.error((*path, "name"), f"no targets rule is called {choice.name!r}; {hint}")
    return Owner("targets rule", choice.name, known[choice.name].params)


def written(
    owner: Owner, given: Mapping[str, Any], origin: Origin, path: Path
) -> dict[str, Written]:
    """The parameters that were written, each value checked against its type."""
    found: dict[str, Written] = {}
    for name, value in given.items():
        here = (*path, name)
        values, is_axis = _values(owner.params.get(name), value)
        for one in values:
            _check(owner, name, one, origin, here)
        expected = owner.params[name].annotation
        with reported(origin, here):
            held = tuple(canonical(one, expected) for one in values)
        found[name] = Written(here, held, is_axis)
        if not values:
            raise origin.error(here, "an axis without values; expected at least one")
    return found


def canonical(value: Any, expected: Any) -> Any:
    """One form for every value that means the same: floats of 12 digits, lists, 1.0 for 1.

    A file that a text names is known by its content from here on.
    """
    known = _alternatives(expected)
    if isinstance(value, Mapping):
        return {name: canonical(one, _inside(known, dict)) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [canonical(one, _inside(known, list)) for one in value]
    if isinstance(value, str):
        return located(value, known)
    whole = isinstance(value, int) and (int in known or float not in known)
    if whole or isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return rounded(value)


def label(value: Any) -> Scalar:
    """The coordinate of a value: itself, or a short text for a list, a mapping or nothing."""
    if isinstance(value, Mapping):
        return ",".join(f"{name}={label(one)}" for name, one in value.items())
    if isinstance(value, list | tuple):
        nested = any(isinstance(one, list | tuple) for one in value)
        return (";" if nested else ",").join(str(label(one)) for one in value)
    return "none" if value is None else typing.cast(Scalar, value)


def _values(parameter: inspect.Parameter | None, value: Any) -> tuple[list[Any], bool]:
    """The values of a parameter, and whether they make an axis."""
    if isinstance(value, Mapping) and value.keys() == {"axis"} and isinstance(value["axis"], list):
        return value["axis"], True
    takes_it = parameter is None or _fits(parameter, value)
    return (value, True) if isinstance(value, list) and not takes_it else ([value], False)


def _fits(parameter: inspect.Parameter, value: Any) -> bool:
    try:
        bind("", {parameter.name: parameter}, {parameter.name: value}, WorkloadError)
    except WorkloadError:
        return False
    return True


def _check(owner: Owner, name: str, value: Any, origin: Origin, path: Path) -> None:
    """Refuse a name that the owner does not take, and a value of another type."""
    described = f"{owner.kind} {owner.name!r}"
    if name not in owner.params:
        hint = nearest(name, owner.params)
        raise origin.error(path, f"{described} does not take {name!r}; {hint}")
    parameter = owner.params[name]
    with reported(origin, path):
        bind(described, {name: parameter}, {name: value}, WorkloadError)
    choices = [
        choice
        for one in _alternatives(parameter.annotation)
        if typing.get_origin(one) is Literal
        for choice in typing.get_args(one)
    ]
    if choices and value not in [*choices, parameter.default]:
        raise origin.error(path, f"{described}: {name!r} is {value!r}; {nearest(value, choices)}")


def _alternatives(expected: Any) -> tuple[Any, ...]:
    if typing.get_origin(expected) in (Union, types.UnionType):
        return typing.get_args(expected)
    return (expected,)


def _inside(alternatives: tuple[Any, ...], kind: type) -> Any:
    """The type of what a list or a mapping of such a type holds."""
    inner = [typing.get_args(one) for one in alternatives if typing.get_origin(one) is kind]
    return inner[0][-1] if inner else Any
