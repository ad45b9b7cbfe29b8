"""From what an experiment says to specs: names, types and values checked, defaults filled in."""

import inspect
import math
import re
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, Union

import solvers
import workloads
from solvers.errors import SolverError
from solvers.method import Method
from sweep.blocks import Choice, MethodChoice
from sweep.cells import MethodSpec, Scalar, Spec, rounded
from sweep.yamlsource import Origin, Path
from workloads import TargetsError, WorkloadError
from workloads.parameters import bind, nearest

Parameters = Mapping[str, inspect.Parameter]
Kind = Literal["matrix", "graph"]


@dataclass(frozen=True)
class Owner:
    """What takes parameters: a workload family, a targets rule or a method.

    Attributes
    ----------
    kind : str
        "workload", "targets rule" or "method".
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


@dataclass(frozen=True)
class Labelled:
    """A method of the ``method`` axis.

    Attributes
    ----------
    label : str
        Its label there.
    path : Path
        Where it was written.
    asked, if_uniform : MethodSpec
        What is asked for, and the method that it is where all targets are equal.
    """

    label: str
    path: Path
    asked: MethodSpec
    if_uniform: MethodSpec


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
            _check(f"{owner.kind} {owner.name!r}", owner.params, {name: one}, origin, here)
        expected = owner.params[name].annotation
        found[name] = Written(here, tuple(canonical(one, expected) for one in values), is_axis)
        if not values:
            raise origin.error(here, "an axis without values; expected at least one")
    return found


def available(choice: MethodChoice) -> bool:
    """False for what is only wanted when available, and is not."""
    known = solvers.methods()
    has_it = choice.name in known and (choice.preset or "") in ("", *known[choice.name].presets)
    return has_it or choice.when != "available"


def method_owner(choice: MethodChoice, kind: Kind, origin: Origin, path: Path) -> Owner:
    """The method of that name, with the options that it takes on a kind of workload."""
    with reported(origin, (*path, "name")):
        method = solvers.method.find(choice.name)
        return Owner("method", method.name, method.options_on(kind))


def methods(
    choice: MethodChoice,
    common: Mapping[str, Any],
    kind: Kind,
    time_limit: float | None,
    origin: Origin,
    path: Path,
) -> Iterator[Labelled]:
    """The methods that one entry stands for: several where an option is a list of values.

    Parameters
    ----------
    choice : MethodChoice
        The entry.
    common : Mapping[str, object]
        Options of all methods of the block.
    kind : {"matrix", "graph"}
        The kind of workload.
    time_limit : float, optional
        For methods that take one and are not given another.
    origin, path
        Where the entry stands.

    Returns
    -------
    iterator of Labelled
        Of none if the entry is only wanted when available, and is not.

    Raises
    ------
    ExperimentError
        If the method, its preset or an option is wrong.
    """
    if not available(choice):
        return
    preset = choice.preset
    options = method_owner(choice, kind, origin, path).params
    method = solvers.methods()[choice.name]
    with reported(origin, (*path, "preset")):
        method.resolve(preset, {}, kind)
    axes: dict[str, tuple[list[Any], bool]] = {}
    for name, value in choice.params.items():
        with reported(origin, (*path, name)):
            method.resolve(preset, {name: value}, kind)
        axes[name] = _values(options[name], value)
        for one in axes[name][0]:
            _check(f"method {method.name!r}", options, {name: one}, origin, (*path, name))
    for given, suffix in _combinations(axes):
        limit = {} if time_limit is None or "time_limit" not in options else _limit(time_limit)
        own = {**limit, **(method.presets[preset] if preset else {}), **common, **given}
        resolved = method.resolve(None, own, kind)
        chosen = {n: canonical(v, options[n].annotation) for n, v in resolved.items()}
        yield Labelled(
            f"{choice.called} ({suffix})" if suffix else choice.called,
            path,
            MethodSpec(method.name, chosen),
            _solved_when_uniform(method, options, chosen, kind),
        )


def canonical(value: Any, expected: Any) -> Any:
    """One form for every value that means the same: floats of 12 digits, lists, 1.0 for 1."""
    if isinstance(value, Mapping):
        inner = typing.get_args(expected)
        return {name: canonical(one, inner[1] if inner else Any) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [canonical(one, _item(expected)) for one in value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if isinstance(value, int) and (int in _alternatives(expected) or expected is Any):
        return value
    if isinstance(value, int) and float not in _alternatives(expected):
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


def _check(
    owner: str, parameters: Parameters, given: Mapping[str, Any], origin: Origin, path: Path
) -> None:
    ((name, value),) = given.items()
    if name not in parameters:
        raise origin.error(path, f"{owner} does not take {name!r}; {nearest(name, parameters)}")
    with reported(origin, path):
        bind(owner, {name: parameters[name]}, given, WorkloadError)
    choices = [
        choice
        for one in _alternatives(parameters[name].annotation)
        if typing.get_origin(one) is Literal
        for choice in typing.get_args(one)
    ]
    if (
        choices
        and value not in choices
        and not (value is None and parameters[name].default is None)
    ):
        hint = nearest(value, choices)
        raise origin.error(path, f"{owner}: {name!r} is {value!r}; {hint}")
    if isinstance(value, float) and not math.isfinite(value):
        raise origin.error(path, f"{owner}: {name!r} is {value}; expected a finite number")


def _alternatives(expected: Any) -> tuple[Any, ...]:
    if typing.get_origin(expected) in (Union, types.UnionType):
        return typing.get_args(expected)
    return (expected,)


def _item(expected: Any) -> Any:
    lists = [one for one in _alternatives(expected) if typing.get_origin(one) is list]
    return typing.get_args(lists[0])[0] if lists else Any


def _limit(seconds: float) -> dict[str, Any]:
    return {"time_limit": seconds}


def _combinations(
    axes: Mapping[str, tuple[list[Any], bool]],
) -> Iterator[tuple[dict[str, Any], str]]:
    """Every combination of option values, and what tells it from the others."""
    varied = [name for name, (_, is_axis) in axes.items() if is_axis]
    for values in product(*(values for values, _ in axes.values())):
        given = dict(zip(axes, values, strict=True))
        yield given, ", ".join(f"{name}={label(given[name])}" for name in varied)


def _solved_when_uniform(
    method: Method, options: Parameters, chosen: Mapping[str, Any], kind: Kind
) -> MethodSpec:
    """The method that this one is when all targets are equal, if their options agree."""
    if method.same_when_uniform is None:
        return MethodSpec(method.name, chosen)
    other = solvers.method.find(method.same_when_uniform)
    theirs = other.options_on(kind)
    shared = {name: value for name, value in chosen.items() if name in theirs}
    own = {name: value for name, value in chosen.items() if name not in theirs}
    if any(value != options[name].default for name, value in own.items()):
        return MethodSpec(method.name, chosen)
    resolved = other.resolve(None, shared, kind)
    return MethodSpec(
        other.name, {n: canonical(v, theirs[n].annotation) for n, v in resolved.items()}
    )
